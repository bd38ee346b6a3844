//! A plain table of samples: `metric,unit,value` and optionally `group`, `run`, `cycle`.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;

use crate::error::{Error, Result};
use crate::table::{is_missing, parse_real};

/// Samples of one metric of one group.
#[derive(Debug, Clone)]
pub(crate) struct Series {
    pub(crate) group: String,
    pub(crate) metric: String,
    pub(crate) unit: String,
    /// By run, in the order of cycles.
    pub(crate) runs: Vec<Vec<f64>>,
}

/// Microseconds in a unit of time; `None` for other units.
pub(crate) fn unit_to_us(unit: &str) -> Option<f64> {
    Some(match unit.trim() {
        "ns" => 1e-3,
        "us" | "µs" | "μs" => 1.0,
        "ms" => 1e3,
        "s" | "sec" | "seconds" => 1e6,
        _ => return None,
    })
}

/// A run's samples with the cycle that orders them.
type Samples = Vec<(f64, f64)>;

/// Reads a table; rows without a value are counted in the second result.
pub(crate) fn parse(reader: impl Read, file: &Path) -> Result<(Vec<Series>, u64)> {
    let mut csv = csv::ReaderBuilder::new().flexible(true).from_reader(reader);
    let csv_error = |source| Error::Csv {
        file: file.to_owned(),
        source,
    };
    let header = csv.byte_headers().map_err(csv_error)?.clone();
    let at = |name: &str| {
        header.iter().position(|field| {
            let field = field.strip_prefix(b"\xef\xbb\xbf").unwrap_or(field);
            field.trim_ascii() == name.as_bytes()
        })
    };
    let need = |name: &'static str| {
        at(name).ok_or_else(|| Error::Column {
            file: file.to_owned(),
            column: name,
        })
    };
    let (metric, value) = (need("metric")?, need("value")?);
    let (unit, group, run, cycle) = (at("unit"), at("group"), at("run"), at("cycle"));
    let mut found: BTreeMap<(String, String), (String, BTreeMap<String, Samples>)> =
        BTreeMap::new();
    let mut odd = 0;
    let mut record = csv::ByteRecord::new();
    let mut row = 0.0;
    while csv.read_byte_record(&mut record).map_err(csv_error)? {
        row += 1.0;
        let text = |at: Option<usize>| {
            let field = at.and_then(|at| record.get(at)).unwrap_or_default();
            String::from_utf8_lossy(field.trim_ascii()).into_owned()
        };
        let field = record.get(value).unwrap_or_default();
        let number = parse_real(field).filter(|x| x.is_finite() && !is_missing(field));
        let name = text(Some(metric));
        let (Some(number), false) = (number, name.is_empty()) else {
            odd += 1;
            continue;
        };
        let order = parse_real(text(cycle).as_bytes()).unwrap_or(row);
        let entry = found
            .entry((text(group), name))
            .or_insert_with(|| (text(unit), BTreeMap::new()));
        if entry.0 != text(unit) {
            // Two units of one metric cannot be averaged.
            odd += 1;
            continue;
        }
        entry.1.entry(text(run)).or_default().push((order, number));
    }
    let series = found
        .into_iter()
        .map(|((group, metric), (unit, runs))| Series {
            group,
            metric,
            unit,
            runs: runs
                .into_values()
                .map(|mut samples| {
                    samples.sort_by(|a, b| a.0.total_cmp(&b.0));
                    samples.into_iter().map(|sample| sample.1).collect()
                })
                .collect(),
        })
        .collect();
    Ok((series, odd))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_runs_and_order() {
        let text = "metric,unit,value,group,run,cycle\nttft,ms,3,g,1,2\nttft,ms,1,g,1,1\nttft,ms,9,g,2,1\nttft,s,9,g,2,1\nttft,ms,,g,2,2\ntps,1/s,5,,,\n";
        let (series, odd) = parse(text.as_bytes(), Path::new("x")).unwrap();
        assert_eq!(odd, 2);
        assert_eq!(series.len(), 2);
        assert_eq!(series[1].runs, [vec![1.0, 3.0], vec![9.0]]);
        assert_eq!(
            (series[0].metric.as_str(), series[0].unit.as_str()),
            ("tps", "1/s")
        );
        assert!(parse("a,b\n1,2\n".as_bytes(), Path::new("x")).is_err());
        assert_eq!(unit_to_us("ms"), Some(1000.0));
    }
}
