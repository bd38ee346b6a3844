//! Analyzes a window: steps, path, model error, what-if changes, limits, opportunities.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;
use trace_model::parallel::both;

use crate::change::{Action, Change, Selector, Target};
use crate::class::{Class, EdgeKind, Evidence, Group, Lag};
use crate::effect::{Effects, Gap};
use crate::graph::Graph;
use crate::names::place;
use crate::replay::{Mode, Replay, Window};
use crate::rows::{
    Analysis, LimitRow, Opportunity, PathRow, Place, Prediction, RecordingRow, ReplayError,
    SegmentRow, StepPrediction, StepRow, Steps, Straggler, WindowRow,
};
use crate::steps::Step;
use crate::straggler;
use crate::summary::{Summary, percent};

/// Options of [`analyse`].
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Options {
    /// Number of the only step to analyze, from 1. Default is all steps.
    pub step: Option<u32>,
    /// Changes to predict.
    pub what_if: Vec<Change>,
    /// Maximum number of opportunities: the names with the most time on the path, each predicted
    /// away.
    pub opportunities: usize,
    /// `true` to list the segments of the path.
    pub segments: bool,
    /// `true` to list the GPU activities with their slack.
    pub ops: bool,
}

/// Errors of [`analyse`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The graph has no step.
    #[error("no step: the recording holds neither GPU activity nor runtime calls in a step")]
    NoSteps,
    /// No step has the requested number.
    #[error("no step {number}: the steps are numbered 1 to {count}")]
    NoSuchStep {
        /// The requested number.
        number: u32,
        /// Number of steps.
        count: usize,
    },
}

/// The analyzed steps and their window.
struct Chosen {
    /// Pairs of recording and index of the step in it.
    steps: Vec<(usize, usize)>,
    window: Window,
    model_error_pct: f64,
}

impl Chosen {
    fn duration(&self) -> i64 {
        self.window.end_ns.saturating_sub(self.window.begin_ns)
    }
}

/// Analyzes the steps of a graph that `options` select.
///
/// Cost: one pass over the path, and a replay for each change and each group that is on the path.
///
/// # Errors
///
/// Returns an [`Error`] if the graph has no steps, or none with the requested number.
pub fn analyse(graph: &Graph, options: &Options) -> Result<Analysis, Error> {
    let mut chosen = choose(graph, options)?;
    let (replay, model_ends) = model(graph, &chosen);
    chosen.model_error_pct = replay.model_error_pct;
    let mut steps = Vec::with_capacity(chosen.steps.len());
    let mut rows: Vec<PathRow> = Vec::new();
    let mut by_name: BTreeMap<(Class, String), i64> = BTreeMap::new();
    let last_rank = last_to_end(graph, &chosen);
    let mut whole = Summary::default();
    let mut names = FxHashMap::default();
    for (&(recording, at), model) in chosen.steps.iter().zip(&model_ends) {
        let step = &graph.steps[recording][at];
        let summary = graph.summary_by_name(recording, step, &mut names);
        let rank = graph.parts[recording].rank;
        let first = rows.len();
        #[expect(clippy::iter_over_hash_type, reason = "rows are sorted behind")]
        for (&(class, part, name, own), sum) in &names {
            let name = own.unwrap_or_else(|| graph.parts[part].text(name));
            if recording == last_rank {
                *by_name.entry((class, name.to_owned())).or_default() += sum.path_ns;
            }
            rows.push(PathRow {
                rank,
                step: step.number,
                class,
                group: class.group(),
                on_rank: graph.parts[part].rank,
                name: name.to_owned(),
                path_ns: sum.path_ns,
                count: sum.count,
                longest_ns: sum.longest_ns,
            });
        }
        if let Some(rows) = rows.get_mut(first..) {
            rows.sort_by(|a, b| {
                let key = |row: &PathRow| (std::cmp::Reverse(row.path_ns), row.class);
                key(a).cmp(&key(b)).then_with(|| a.name.cmp(&b.name))
            });
        }
        if recording == last_rank {
            whole.add(&summary);
        }
        steps.push(step_row(rank, step, &summary, *model));
    }
    let segments = match options.segments {
        true => segments(graph, &chosen),
        false => Vec::new(),
    };
    Ok(Analysis {
        recordings: recordings(graph),
        edges: edges(graph),
        contradicted: graph.contradicted,
        collectives: graph.joined,
        left_out: match options.step {
            Some(_) => 0,
            None => graph.steps.iter().map(Vec::len).sum::<usize>() - chosen.steps.len(),
        },
        replay,
        window: WindowRow {
            begin_ns: chosen.window.begin_ns,
            end_ns: chosen.window.end_ns,
            duration_ns: chosen.duration(),
            verdict: whole.verdict(),
            is_unsure: replay.is_large(),
            limit: whole.limit(),
            rank: graph.parts.get(last_rank).map_or(0, |part| part.rank),
            groups: whole.groups,
        },
        period_ns: period(&steps),
        steps,
        straggler: straggler(graph, &chosen),
        path: rows,
        segments,
        ops: match options.ops {
            true => graph.ops(chosen.window),
            false => Vec::new(),
        },
        what_if: options
            .what_if
            .iter()
            .map(|change| predict(graph, &chosen, change, true))
            .collect(),
        limits: limits(graph, &chosen, &whole),
        opportunities: opportunities(graph, &chosen, by_name, options.opportunities),
    })
}

fn straggler(graph: &Graph, chosen: &Chosen) -> Option<Straggler> {
    let rank = straggler::candidate(graph, chosen.window)?;
    let action = Action::Rank { rank, factor: None };
    let change = Change::of(format!("rank:{rank}=median"), vec![action]);
    let prediction = predict(graph, chosen, &change, false);
    straggler::straggler(graph, rank, &prediction, chosen.window)
}

/// Predicts the times of all steps under each of `changes`.
///
/// Cost: a replay for each change.
///
/// # Errors
///
/// Returns an [`Error`] if the graph has no steps.
pub fn predictions(graph: &Graph, changes: &[Change]) -> Result<Vec<Prediction>, Error> {
    let mut chosen = choose(graph, &Options::default())?;
    chosen.model_error_pct = model(graph, &chosen).0.model_error_pct;
    let each = changes
        .iter()
        .map(|change| predict(graph, &chosen, change, false));
    Ok(each.collect())
}

/// Returns the change by which everything of a class with exactly this name takes `factor` of its time; `None` for classes that
/// no change affects.
pub fn scaled(class: Class, name: &str, factor: f64) -> Option<Change> {
    let target = target_of(class)?;
    let action = Action::Scale {
        target,
        selector: Selector::Exact(name.to_owned()),
        factor,
    };
    Some(Change::of(
        format!("{}:{name}={factor}", target.name()),
        vec![action],
    ))
}

/// Returns the steps alone, without changes, limits and names.
///
/// Cost: one pass over the path, and two replays.
///
/// # Errors
///
/// Returns an [`Error`] if the graph has no steps.
pub fn step_rows(graph: &Graph) -> Result<Steps, Error> {
    let chosen = choose(graph, &Options::default())?;
    let (replay, ends) = model(graph, &chosen);
    let mut names = FxHashMap::default();
    let each = chosen.steps.iter().zip(ends);
    let steps = each.map(|(&(recording, at), model)| {
        let step = &graph.steps[recording][at];
        let summary = graph.summary_by_name(recording, step, &mut names);
        step_row(graph.parts[recording].rank, step, &summary, model)
    });
    Ok(Steps {
        steps: steps.collect(),
        replay,
        is_capture: !graph.parts.is_empty() && graph.parts.iter().all(|part| part.is_capture),
    })
}

/// Returns the error of the model, and begin and end of each step with typical latencies alone.
fn model(graph: &Graph, chosen: &Chosen) -> (ReplayError, Vec<(i64, i64)>) {
    let (typical, identity) = both(
        graph.time.len(),
        || graph.model(chosen.window),
        || graph.replay(&Change::of("", Vec::new()), chosen.window),
    );
    let ends = graph.new_ends(&typical, &chosen.steps);
    let model_ns = new_window(chosen, &ends);
    let each = chosen.steps.iter().zip(&ends);
    let errors = each.filter_map(|((recording, at), (begin, end))| {
        let recorded = graph.steps[*recording][*at].duration_ns();
        (recorded > 0).then(|| percent(end - begin - recorded, recorded).abs())
    });
    let mut errors: Vec<f64> = errors.collect();
    errors.sort_by(f64::total_cmp);
    let quantile = |q| stats::quantile_at(errors.len(), q, |at| errors[at]).unwrap_or(0.0);
    let error = ReplayError {
        identity_error_ns: identity_error(graph, chosen, &identity),
        model_ns,
        model_error_pct: percent(model_ns - chosen.duration(), chosen.duration()),
        step_error_median_pct: quantile(0.5),
        step_error_p95_pct: quantile(0.95),
    };
    (error, ends)
}

fn step_row(rank: u32, step: &Step, summary: &Summary, model: (i64, i64)) -> StepRow {
    let classes = summary.classes.iter();
    StepRow {
        rank,
        step: step.number,
        name: step.name.clone(),
        host_begin_ns: step.host_ns.0,
        host_end_ns: step.host_ns.1,
        device_begin_ns: step.device_ns.map(|device| device.0),
        device_end_ns: step.device_ns.map(|device| device.1),
        begin_ns: step.begin_ns,
        end_ns: step.end_ns,
        duration_ns: step.duration_ns(),
        flags: step.flags.clone(),
        verdict: summary.verdict(),
        limit: summary.limit(),
        share_pct: summary.share_pct(),
        groups: summary.groups,
        classes: classes.map(|(class, ns)| (class.name(), *ns)).collect(),
        other_ranks_ns: summary.other_ranks_ns,
        unexplained_ns: summary
            .classes
            .get(&Class::Unexplained)
            .copied()
            .unwrap_or(0),
        guessed_ns: summary.guessed_ns,
        model_ns: model.1 - model.0,
    }
}

fn choose(graph: &Graph, options: &Options) -> Result<Chosen, Error> {
    let mut steps = Vec::new();
    for (recording, list) in graph.steps.iter().enumerate() {
        let wanted = list.iter().enumerate();
        let wanted = wanted.filter(|(_, step)| options.step.is_none_or(|n| n == step.number));
        steps.extend(wanted.map(|(at, _)| (recording, at)));
    }
    let each = || {
        steps
            .iter()
            .map(|(recording, at)| &graph.steps[*recording][*at])
    };
    let begin = each().map(|step| step.begin_ns).min();
    let end = each().map(|step| step.end_ns).max();
    if let (Some(begin_ns), Some(end_ns), None) = (begin, end, options.step)
        && let Some(chosen) = common(graph, &steps, Window { begin_ns, end_ns })
    {
        return Ok(chosen);
    }
    let count = graph.steps.iter().map(Vec::len).max().unwrap_or(0);
    match (begin, end, options.step) {
        (Some(begin_ns), Some(end_ns), _) => Ok(Chosen {
            steps,
            window: Window { begin_ns, end_ns },
            model_error_pct: 0.0,
        }),
        (_, _, Some(number)) if count > 0 => Err(Error::NoSuchStep { number, count }),
        _ => Err(Error::NoSteps),
    }
}

/// Returns the steps that all ranks have, where some begin or end before others do: a rank alone waits for none, so that a replay
/// of its steps differs from what all of them would do. `None` where all have the same steps, ranks do not wait for each other, or
/// these are less than half of the steps.
fn common(graph: &Graph, steps: &[(usize, usize)], window: Window) -> Option<Chosen> {
    if graph.joined == 0 {
        return None;
    }
    let window = straggler::common_window(graph, window)?;
    let own = |(recording, at): &(usize, usize)| &graph.steps[*recording][*at];
    let mut left = steps.to_vec();
    left.retain(|place| straggler::is_inside(own(place), window));
    let number = |list: &[(usize, usize)], recording: usize| {
        list.iter().filter(|place| place.0 == recording).count()
    };
    let is_enough = |recording| {
        let left = number(&left, recording);
        left > 0 && left * 2 >= number(steps, recording)
    };
    let mut recordings = (0..graph.steps.len()).filter(|at| !graph.steps[*at].is_empty());
    if left.len() == steps.len() || !recordings.all(is_enough) {
        return None;
    }
    let begin_ns = left.iter().map(|place| own(place).begin_ns).min()?;
    let end_ns = left.iter().map(|place| own(place).end_ns).max()?;
    Some(Chosen {
        steps: left,
        window: Window { begin_ns, end_ns },
        model_error_pct: 0.0,
    })
}

/// Returns the recording whose last step ends last, of those that cover the window; the first of equal ones.
fn last_to_end(graph: &Graph, chosen: &Chosen) -> usize {
    let step = |(recording, at): &(usize, usize)| &graph.steps[*recording][*at];
    let mut covered = vec![0_i64; graph.steps.len()];
    for place in &chosen.steps {
        covered[place.0] += step(place).duration_ns();
    }
    let most = covered.iter().copied().max().unwrap_or(0);
    // A recording that begins later lacks some of the time.
    let covers =
        |recording: usize| covered[recording].saturating_mul(100) >= most.saturating_mul(99);
    let each = chosen.steps.iter().filter(|place| covers(place.0));
    let ends = each.map(|place| (step(place).end_ns, std::cmp::Reverse(place.0)));
    ends.max().map_or(0, |(_, recording)| recording.0)
}

fn new_window(chosen: &Chosen, ends: &[(i64, i64)]) -> i64 {
    let end = ends.iter().map(|step| step.1).max();
    end.map_or(0, |end| end.saturating_sub(chosen.window.begin_ns))
}

fn identity_error(graph: &Graph, chosen: &Chosen, replay: &Replay) -> i64 {
    let ends = graph.new_ends(replay, &chosen.steps);
    let each = chosen.steps.iter().zip(ends);
    each.map(|((recording, at), (_, end))| {
        let step = graph.steps[*recording][*at].end_ns;
        step.saturating_sub(end).saturating_abs()
    })
    .fold(0, i64::saturating_add)
}

fn recordings(graph: &Graph) -> Vec<RecordingRow> {
    let rows = graph.parts.iter().zip(&graph.steps).map(|(part, steps)| {
        let main = part.ops.streams.get(part.ops.main as usize);
        RecordingRow {
            rank: part.rank,
            lags: Lag::ALL
                .into_iter()
                .map(|lag| (lag.name(), part.lags.of(lag)))
                .collect(),
            main: main.map(|&(device, stream)| Place { device, stream }),
            ops: part.ops.len() as u64,
            unlinked: part.unlinked(),
            lost_links: part.ops.lost_links,
            lost_work: part.assigned.lost.iter().sum(),
            calls: part.host.calls.len() as u64,
            is_capture: part.is_capture,
            marks_without_work: place(part.assigned.host.len().saturating_sub(steps.len())),
            other_engines: part.other_engines,
        }
    });
    rows.collect()
}

fn edges(graph: &Graph) -> BTreeMap<String, u64> {
    let named = graph.counts.iter().map(|((kind, evidence), count)| {
        let name = match evidence {
            Evidence::Sure => kind.name().to_owned(),
            evidence => format!("{}/{}", kind.name(), evidence.name()),
        };
        (name, *count)
    });
    named.collect()
}

fn period(steps: &[StepRow]) -> Option<i64> {
    let mut between: Vec<i64> = steps
        .windows(2)
        .filter(|pair| pair[0].rank == pair[1].rank && pair[0].step + 1 == pair[1].step)
        .map(|pair| pair[1].host_begin_ns - pair[0].host_begin_ns)
        .collect();
    between.sort_unstable();
    between.get(between.len().checked_sub(1)? / 2).copied()
}

fn segments(graph: &Graph, chosen: &Chosen) -> Vec<SegmentRow> {
    let mut out = Vec::new();
    for &(recording, at) in &chosen.steps {
        let step = &graph.steps[recording][at];
        let rank = graph.parts[recording].rank;
        let path = graph.path(recording, step).into_iter();
        out.extend(path.map(|segment| SegmentRow {
            rank,
            step: step.number,
            segment,
        }));
    }
    out
}

/// Predicts a change; `doubts_guesses` to replay it without guessed dependencies as well.
fn predict(graph: &Graph, chosen: &Chosen, change: &Change, doubts_guesses: bool) -> Prediction {
    let replay = graph.replay(change, chosen.window);
    let ends = graph.new_ends(&replay, &chosen.steps);
    let (recorded_ns, predicted_ns) = (chosen.duration(), new_window(chosen, &ends));
    let gain_ns = recorded_ns - predicted_ns;
    let mut assumes = Vec::new();
    if !change.moves_input()
        && graph
            .counts
            .contains_key(&(EdgeKind::Input, Evidence::Sure))
    {
        assumes.push("requests and data arrive as recorded");
    }
    let has_guesses = graph.counts.keys().any(|key| key.1 != Evidence::Sure);
    if has_guesses {
        assumes.push("guessed dependencies hold");
    }
    let of_guesses_ns = match has_guesses && doubts_guesses {
        true => {
            let effects = Effects::new(graph, change, chosen.window);
            let replay = graph.run(&effects, chosen.window, Mode::Sure);
            let other = new_window(chosen, &graph.new_ends(&replay, &chosen.steps));
            (other - predicted_ns).abs()
        }
        false => 0,
    };
    // How much a prediction depends on a gap that no work of the recording shows.
    let is_assumed = has_assumed_gap(graph, change);
    let swing_ns = |gap: Gap| {
        let effects = Effects::new(graph, change, chosen.window).with_gap(gap);
        let replay = graph.run(&effects, chosen.window, Mode::Recorded);
        let other = new_window(chosen, &graph.new_ends(&replay, &chosen.steps));
        (other - predicted_ns).abs()
    };
    let swing_ns = match is_assumed {
        true => swing_ns(Gap::Low).max(swing_ns(Gap::High)),
        false => 0,
    };
    if swing_ns > 0 {
        assumes.push(
            "gaps of 0.5 to 2 \u{b5}s between kernels in a row, which the recording does not show",
        );
    }
    assumes.extend(change.assumes());
    assumes.push("the order of work on each stream and thread stays as recorded");
    let steps = chosen.steps.iter().zip(&ends);
    let steps = steps.map(|((recording, at), (begin, end))| {
        let step = &graph.steps[*recording][*at];
        StepPrediction {
            rank: graph.parts[*recording].rank,
            step: step.number,
            recorded_ns: step.duration_ns(),
            predicted_ns: end - begin,
        }
    });
    Prediction {
        change: change.to_string(),
        recorded_ns,
        predicted_ns,
        gain_ns,
        gain_pct: percent(gain_ns, recorded_ns),
        uncertainty_pct: chosen.model_error_pct.abs()
            + percent(swing_ns.max(of_guesses_ns), recorded_ns),
        touched: replay.touched,
        assumes,
        steps: steps.collect(),
    }
}

/// Returns `true` if a recording launches work but never shows how soon queued work follows the work ahead of it, or work inside
/// of a graph where the change makes graphs.
fn has_assumed_gap(graph: &Graph, change: &Change) -> bool {
    let lag = match change.actions.contains(&Action::Graph) {
        true => Lag::Graph,
        false => Lag::Stream,
    };
    let mut parts = graph.parts.iter();
    parts.any(|part| part.host.calls.len() > 0 && part.lags.of(lag).is_assumed())
}

fn limits(graph: &Graph, chosen: &Chosen, whole: &Summary) -> Vec<LimitRow> {
    let recorded_ns = chosen.duration();
    let on_path = path_to_end(graph, chosen);
    let dispatch = on_path.classes.get(&Class::Dispatch).copied();
    let dispatch = dispatch.unwrap_or(0);
    let row = |group: Group| {
        let path_ns = whole.groups.of(group);
        // Time off the path to the last end cannot shorten that path.
        let is_off = match group {
            Group::Unknown => false,
            Group::Host => on_path.groups.of(group) + dispatch == 0,
            _ => on_path.groups.of(group) == 0,
        };
        let predicted_ns = match is_off {
            true => recorded_ns,
            false => {
                let effects = Effects::without(graph, group);
                let replay = graph.run(&effects, chosen.window, Mode::Recorded);
                new_window(chosen, &graph.new_ends(&replay, &chosen.steps))
            }
        };
        let gain_ns = recorded_ns - predicted_ns;
        LimitRow {
            group,
            path_ns,
            recorded_ns,
            predicted_ns,
            gain_ns,
            gain_pct: percent(gain_ns, recorded_ns),
        }
    };
    // Two threads take half of the groups each; every row is a replay of its own.
    let (some, others) = Group::ALL.split_at(Group::ALL.len() / 2);
    let all = |groups: &[Group]| groups.iter().map(|group| row(*group)).collect();
    let (mut rows, more): (Vec<LimitRow>, Vec<LimitRow>) =
        both(graph.time.len(), || all(some), || all(others));
    rows.extend(more);
    rows
}

/// Summarizes the path from the last end of all steps to the begin of the window, in one piece: the
/// path of a single step may lead through other steps.
fn path_to_end(graph: &Graph, chosen: &Chosen) -> Summary {
    let last = chosen.steps.iter().max_by_key(|(recording, at)| {
        let end = graph.steps[*recording][*at].end_ns;
        (end, std::cmp::Reverse((*recording, *at)))
    });
    last.map_or_else(Summary::default, |&(recording, at)| {
        let mut step = graph.steps[recording][at].clone();
        step.begin_ns = chosen.window.begin_ns;
        graph.summary(recording, &step)
    })
}

fn opportunities(
    graph: &Graph,
    chosen: &Chosen,
    by_name: BTreeMap<(Class, String), i64>,
    count: usize,
) -> Vec<Opportunity> {
    let recorded_ns = chosen.duration();
    let mut largest: Vec<((Class, String), i64)> = by_name
        .into_iter()
        .filter(|((class, _), _)| target_of(*class).is_some())
        .collect();
    largest.sort_by_key(|entry| std::cmp::Reverse(entry.1));
    largest.truncate(count);
    let rows = largest.into_iter().filter_map(|((class, name), path_ns)| {
        let target = target_of(class)?;
        let change = Change::of(
            format!("{}:{name}=0", target.name()),
            vec![Action::Scale {
                target,
                selector: Selector::Exact(name.clone()),
                factor: 0.0,
            }],
        );
        let replay = graph.replay(&change, chosen.window);
        let predicted_ns = new_window(chosen, &graph.new_ends(&replay, &chosen.steps));
        let gain_ns = recorded_ns - predicted_ns;
        Some(Opportunity {
            class,
            name,
            path_ns,
            change: change.to_string(),
            predicted_ns,
            gain_ns,
            gain_pct: percent(gain_ns, recorded_ns),
        })
    });
    let mut rows: Vec<Opportunity> = rows.collect();
    rows.sort_by_key(|row| std::cmp::Reverse((row.gain_ns, row.path_ns)));
    rows
}

/// Returns the target of a change that affects this class; `None` if no target does.
fn target_of(class: Class) -> Option<Target> {
    Some(match class {
        Class::Kernel(_) => Target::Kernel,
        Class::MemcpyH2d | Class::MemcpyD2h | Class::MemcpyD2d => Target::Memcpy,
        Class::Memset => Target::Memset,
        Class::Comm => Target::Comm,
        Class::Queue => Target::Gap,
        Class::LaunchCall | Class::LaunchLatency => Target::Launch,
        Class::Dispatch => Target::Dispatch,
        Class::HostPython | Class::HostOp | Class::HostOther | Class::HostUntraced => Target::Host,
        Class::Api => Target::Api,
        Class::Sync => Target::Sync,
        Class::Requests => Target::Requests,
        Class::Input => Target::Input,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_graph_of_nothing_has_no_steps() {
        let graph = Graph::new(Vec::new(), None);
        assert_eq!(analyse(&graph, &Options::default()), Err(Error::NoSteps));
    }
}
