//! Rows behind the figures of a page.

use critical_path::{Class, Group, Window};
use rustc_hash::FxHashMap;

use crate::beside::Beside;
use crate::document::{
    Figures, HostRow, KernelRow, Lane, Lateness, MemoryPoint, Roofline, RooflinePoint, Span,
    StackRow, StepPoint, Timeline,
};
use crate::explain::Request;
use crate::family::excess;
use crate::job::{Job, StepFact};
use crate::numbers::plain;
use crate::{storage, words};

/// Maximum number of spans of a timeline.
const SPANS: usize = 1_500;

/// Maximum number of rows of tables.
const ROWS: usize = 200;

/// Maximum number of points of steps.
const STEPS: usize = 20_000;

/// Returns the rows; those of single recordings are of the last side.
pub(crate) fn figures(jobs: &[Job], request: &Request, logs: &[Beside<'_>]) -> Figures {
    let Some(job) = jobs.last() else {
        return Figures::default();
    };
    Figures {
        timelines: timelines(job),
        steps: jobs.iter().flat_map(steps).take(STEPS).collect(),
        lateness: lateness(job),
        roofline: roofline(job),
        kernels: kernels(job),
        stacks: stacks(job),
        host_gaps: host_gaps(job),
        memory: memory(job),
        storage: request
            .storage
            .as_ref()
            .and_then(|reads| storage::figures(job, reads)),
        logs: logs.iter().map(|log| log.rows(job)).collect(),
    }
}

fn steps(job: &Job) -> Vec<StepPoint> {
    let used: FxHashMap<u32, bool> = job
        .steps
        .iter()
        .map(|step| (step.row.step, step.is_used))
        .collect();
    let rank = job.rank();
    let rows = job.analysis.steps.iter().map(|row| {
        let batch = trace_model::step_name::step_batch(&row.name);
        StepPoint {
            side: job.side,
            rank: row.rank,
            step: row.step,
            phase: trace_model::step_name::step_group(&row.name),
            name: plain(&row.name, 200),
            begin_ns: row.begin_ns,
            duration_ns: row.duration_ns,
            bound: row.verdict.to_owned(),
            batch: batch.and_then(|batch| batch.batch_size()),
            tokens: batch.and_then(|batch| batch.all_tokens()),
            is_used: row.rank == rank && used.get(&row.step) == Some(&true),
        }
    });
    rows.collect()
}

fn timelines(job: &Job) -> Vec<Timeline> {
    let Some(phase) = job.phases.first() else {
        return Vec::new();
    };
    let mut by_time: Vec<usize> = phase.steps.clone();
    by_time.sort_by_key(|at| (job.steps[*at].row.duration_ns, *at));
    let Some(last) = by_time.len().checked_sub(1) else {
        return Vec::new();
    };
    let middle = by_time[last / 2];
    let worst = job.focus.unwrap_or(by_time[last]);
    let mut wanted = vec![("median", middle)];
    if last >= 1 {
        wanted.insert(0, ("best", by_time[0]));
        wanted.push(("worst", worst));
    }
    let median_step = &job.steps[middle];
    let each = wanted.into_iter();
    each.filter_map(|(role, at)| timeline(job, role, &job.steps[at], median_step))
        .collect()
}

fn timeline(job: &Job, role: &str, step: &StepFact, usual: &StepFact) -> Option<Timeline> {
    let row = &step.row;
    let graph_step = job
        .graph
        .steps(job.at)
        .iter()
        .find(|s| s.number == row.step)?;
    // What takes at least a twentieth of the difference differs.
    let difference = row.duration_ns - usual.row.duration_ns;
    let differing: Vec<(Class, String)> = match role == "median" || difference <= 0 {
        true => Vec::new(),
        false => excess(&[step], &[usual])
            .into_iter()
            .filter(|part| part.ns * 20 >= difference)
            .map(|part| (part.class, part.name))
            .collect(),
    };
    let differs =
        |class: Class, name: &str| differing.iter().any(|(c, n)| *c == class && n == name);
    let mut lanes: Vec<Lane> = Vec::new();
    let path = job.graph.path(job.at, graph_step);
    let spans = path.iter().map(|segment| Span {
        begin_ns: segment.begin_ns - row.begin_ns,
        duration_ns: segment.end_ns - segment.begin_ns,
        class: segment.class.name(),
        name: plain(&segment.name, 200),
        differs: differs(segment.class, &segment.name),
    });
    lanes.push(Lane {
        name: "path".to_owned(),
        spans: spans.collect(),
    });
    let window = Window::new(row.begin_ns, row.end_ns);
    let mut streams: std::collections::BTreeMap<(i64, i64), Vec<Span>> =
        std::collections::BTreeMap::new();
    for op in job.graph.ops(window) {
        if op.rank != job.rank() {
            continue;
        }
        let (begin, end) = (op.begin_ns.max(row.begin_ns), op.end_ns.min(row.end_ns));
        streams
            .entry((op.device, op.stream))
            .or_default()
            .push(Span {
                begin_ns: begin - row.begin_ns,
                duration_ns: end - begin,
                class: op.class.name(),
                name: plain(&op.name, 200),
                differs: differs(op.class, &op.name),
            });
    }
    lanes.extend(streams.into_iter().map(|((device, stream), mut spans)| {
        spans.sort_by_key(|span| (span.begin_ns, span.duration_ns));
        Lane {
            name: format!("GPU {device}, stream {stream}"),
            spans,
        }
    }));
    let left_out = cut(&mut lanes);
    Some(Timeline {
        role: role.to_owned(),
        rank: job.rank(),
        step: row.step,
        begin_ns: row.begin_ns,
        end_ns: row.end_ns,
        lanes,
        left_out,
    })
}

/// Keeps the longest spans of all lanes. Returns the number of others.
fn cut(lanes: &mut [Lane]) -> u64 {
    let mut times: Vec<i64> = lanes
        .iter()
        .flat_map(|lane| lane.spans.iter().map(|span| span.duration_ns))
        .collect();
    if times.len() <= SPANS {
        return 0;
    }
    times.sort_unstable_by_key(|ns| std::cmp::Reverse(*ns));
    let least = times[SPANS - 1];
    let mut room = SPANS - times.iter().take_while(|ns| **ns > least).count();
    let all = times.len();
    let mut kept = 0;
    for lane in lanes {
        lane.spans.retain(|span| {
            let keeps = span.duration_ns > least || (span.duration_ns == least && room > 0);
            if keeps && span.duration_ns == least {
                room -= 1;
            }
            kept += usize::from(keeps);
            keeps
        });
    }
    (all - kept) as u64
}

fn lateness(job: &Job) -> Option<Lateness> {
    if !job.knows_waits() {
        return None;
    }
    let steps: Vec<&StepFact> = job.steps.iter().take(STEPS / job.facts.len()).collect();
    let mut late = vec![vec![None; steps.len()]; job.facts.len()];
    for one in crate::family::late_ranks(job) {
        let column = steps.partition_point(|step| step.row.end_ns <= one.at_ns);
        let cell = late.get_mut(one.member).and_then(|row| row.get_mut(column));
        if let Some(cell) = cell {
            *cell = Some(cell.unwrap_or(0) + one.ns);
        }
    }
    Some(Lateness {
        ranks: job.facts.iter().map(|facts| facts.rank).collect(),
        steps: steps.iter().map(|step| step.row.step).collect(),
        late_ns: late,
    })
}

fn roofline(job: &Job) -> Option<Roofline> {
    let limits = &job.headline_facts().limits;
    let bytes_per_s = limits.bytes_per_s.filter(|_| !limits.device.is_empty())?;
    let rows = limits.operators.iter().chain(&limits.classes);
    let points = rows.filter_map(|row| {
        Some(RooflinePoint {
            name: plain(&row.name, 200),
            class: match row.kernel.is_empty() {
                true => format!("kernel.{}", row.name),
                false => "operator".to_owned(),
            },
            flops: row.flops,
            bytes: row.bytes,
            time_ns: row.known_ns,
            bound: row.bound.to_owned(),
            limit_pct: row.pct?,
        })
    });
    let points: Vec<RooflinePoint> = points.take(ROWS).collect();
    (!points.is_empty()).then(|| Roofline {
        device: limits.device.clone(),
        flops_per_s: limits.flops.clone(),
        bytes_per_s,
        points,
    })
}

fn kernels(job: &Job) -> Vec<KernelRow> {
    let facts = job.headline_facts();
    let steps = i64::try_from(job.graph.steps(job.at).len())
        .unwrap_or(1)
        .max(1);
    let limit = |name: &str| {
        let mut rows = facts.limits.operators.iter();
        rows.find(|row| row.kernel == name)?.pct
    };
    let rows = facts.kernels.iter().take(ROWS).map(|kernel| KernelRow {
        label: words::kernel(&kernel.name),
        name: plain(&kernel.name, 1_000),
        class: format!("kernel.{}", kernel.class),
        calls: kernel.calls,
        total_ns: kernel.total_ns,
        per_step_ns: kernel.total_ns / steps,
        share_pct: kernel.share_pct,
        limit_pct: limit(&kernel.name),
    });
    rows.collect()
}

fn stacks(job: &Job) -> Vec<StackRow> {
    let all = job.headline_facts().stacks.iter();
    let all = all.filter(|(frames, _)| !frames.is_empty()).take(ROWS);
    let rows = all.map(|(frames, gpu_ns)| StackRow {
        frames: frames.clone(),
        gpu_ns: *gpu_ns,
    });
    rows.collect()
}

fn host_gaps(job: &Job) -> Vec<HostRow> {
    let mut sums: std::collections::BTreeMap<(String, Class, u32), i64> =
        std::collections::BTreeMap::new();
    let used = job.steps.iter().filter(|step| step.is_used);
    let n = i64::try_from(used.clone().count()).unwrap_or(1).max(1);
    for item in used.flat_map(|step| &step.items) {
        if !matches!(item.group(), Group::Gpu | Group::Comm) {
            let key = (item.name.clone(), item.class, item.on_rank);
            *sums.entry(key).or_default() += item.ns;
        }
    }
    let mut rows: Vec<HostRow> = sums
        .into_iter()
        .map(|((name, class, rank), path_ns)| HostRow {
            name: plain(&name, 1_000),
            class: class.name(),
            rank,
            path_ns,
            per_step_ns: path_ns / n,
        })
        .collect();
    rows.sort_by(|a, b| b.path_ns.cmp(&a.path_ns).then_with(|| a.name.cmp(&b.name)));
    rows.truncate(ROWS);
    rows
}

fn memory(job: &Job) -> Vec<MemoryPoint> {
    let each = job.facts.iter().flat_map(|facts| {
        facts.memory.iter().map(|point| MemoryPoint {
            rank: facts.rank,
            at_ns: point.at_ns,
            allocated_bytes: point.bytes,
            reserved_bytes: None,
        })
    });
    each.collect()
}
