//! Which rank recorded which file.

use trace_model::Rank;

use crate::NamedTrace;

/// The rank that each file states, else the number in its name, else its place. When that gives
/// two files one rank, the next of these is taken for all.
pub fn ranks(traces: &[NamedTrace]) -> Vec<Rank> {
    let stated: Option<Vec<Rank>> = traces.iter().map(|t| t.trace.meta().rank()).collect();
    let named = || {
        traces
            .iter()
            .map(|t| rank_in_name(&t.name))
            .collect::<Option<Vec<Rank>>>()
    };
    stated
        .filter(all_differ)
        .or_else(|| named().filter(all_differ))
        .unwrap_or_else(|| {
            (0..traces.len())
                .map(|at| Rank(u32::try_from(at).unwrap_or(u32::MAX)))
                .collect()
        })
}

#[expect(clippy::ptr_arg, reason = "the shape that Option::filter wants")]
fn all_differ(ranks: &Vec<Rank>) -> bool {
    let mut sorted: Vec<u32> = ranks.iter().map(|rank| rank.0).collect();
    sorted.sort_unstable();
    sorted.windows(2).all(|pair| pair[0] != pair[1])
}

/// The number after `rank`, else the last number of the file's name.
pub fn rank_in_name(path: &str) -> Option<Rank> {
    Rank::from_file_name(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use trace_model::{FinishOptions, TraceBuilder};

    #[test]
    fn ranks_in_names() {
        for (name, want) in [
            ("/x/trace-rank3.json.gz", Some(3)),
            ("decode_bs32_rank_0.json", Some(0)),
            ("TP7.json", Some(7)),
            ("run2-worker11.pt.trace.json", Some(11)),
            ("trace.json", None),
        ] {
            assert_eq!(rank_in_name(name).map(|r| r.0), want, "{name}");
        }
    }

    #[test]
    fn equal_ranks_are_none() {
        let traces = |names: [&str; 2]| {
            names.map(|name| NamedTrace {
                name: name.to_owned(),
                trace: TraceBuilder::new()
                    .finish(&FinishOptions::default())
                    .unwrap(),
            })
        };
        let numbers = |names| -> Vec<u32> { ranks(&traces(names)).iter().map(|r| r.0).collect() };
        assert_eq!(numbers(["rank5.json", "rank3.json"]), [5, 3]);
        assert_eq!(numbers(["a/rank1.json", "b/rank1.json"]), [0, 1]);
        assert_eq!(numbers(["a.json", "rank7.json"]), [0, 1]);
    }
}
