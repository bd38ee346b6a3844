//! Data-quality verdict: missing data, and remarks.

use trace_model::kernel::LaunchCalls;
use trace_model::{IssueKind, Severity, Trace};

use crate::summary::{Finding, KernelLinks, Losses, RowCounts};

/// Issues that each mean one event missing from the trace.
const DROPPED: &[IssueKind] = &[
    IssueKind::JsonEventSkipped,
    IssueKind::JsonNoPhase,
    IssueKind::JsonNoTimestamp,
    IssueKind::JsonNoDuration,
    IssueKind::JsonNoId,
    IssueKind::JsonBadCounter,
    IssueKind::NegativeTimestamp,
    IssueKind::NegativeDuration,
    IssueKind::OverlapDropped,
    IssueKind::TooDeep,
    IssueKind::ClockSync,
    IssueKind::BadTrackEvent,
    IssueKind::BadTrack,
    IssueKind::CounterTrack,
    IssueKind::BadPacket,
    IssueKind::BadValue,
];

/// Issues that each mean an unknown amount of lost data.
const LOST: &[IssueKind] = &[
    IssueKind::TruncatedTail,
    IssueKind::TruncatedJson,
    IssueKind::DamagedCompression,
    IssueKind::SecondDocument,
    IssueKind::PacketLoss,
    IssueKind::NeedsState,
    IssueKind::InternedWhileInvalid,
    IssueKind::BadCompressedPacket,
];

const UNLINKED_FLOWS: &[IssueKind] = &[
    IssueKind::FlowNoSlice,
    IssueKind::FlowDuplicate,
    IssueKind::FlowStepWithoutStart,
];

pub(super) fn losses(trace: &Trace, kernels: &KernelLinks) -> Losses {
    let count = |kinds: &[IssueKind]| -> u64 {
        kinds
            .iter()
            .map(|kind| trace.diagnostics().count_of(*kind))
            .sum()
    };
    Losses {
        dropped: count(DROPPED),
        lost: count(LOST),
        clipped: count(&[IssueKind::MisplacedEnd]),
        unclosed: count(&[IssueKind::NeverClosed]),
        overlapping: count(&[IssueKind::Overlap]),
        unlinked_kernels: kernels.unlinked,
        unlinked_flows: count(UNLINKED_FLOWS),
    }
}

/// Returns reasons why the trace is incomplete, and remarks.
pub(super) fn findings(
    trace: &Trace,
    rows: &RowCounts,
    losses: &Losses,
    kernels: &KernelLinks,
    launches: LaunchCalls,
) -> (Vec<Finding>, Vec<Finding>) {
    let mut reasons = List::default();
    if rows.slices == 0 && rows.counter_samples == 0 {
        reasons.add("empty", 1, || {
            "the trace holds no slices and no samples".to_owned()
        });
    }
    for issue in trace.diagnostics().issues() {
        let kind = issue.kind;
        let is_named_below = [IssueKind::Overlap, IssueKind::MisplacedEnd].contains(&kind);
        if kind.severity() != Severity::Info && !is_named_below && !UNLINKED_FLOWS.contains(&kind) {
            reasons.add(kind.name(), issue.count, || kind.explanation().to_owned());
        }
    }
    reasons.add("clipped", losses.clipped, || {
        "unclosed slices were cut at the end of the slice around them".to_owned()
    });
    let mut remarks = List::default();
    for limit in &trace.meta().limits {
        let list = if limit.is_reason {
            &mut reasons
        } else {
            &mut remarks
        };
        list.add(limit.code, limit.count, || limit.text.clone());
    }
    // A producer that records no launches has lost none.
    let records_launches = kernels.launches > 0 || kernels.unlinked < kernels.kernels;
    if records_launches {
        reasons.add("unlinked_kernels", losses.unlinked_kernels, || {
            format!(
                "{} of {} kernels have no launch in the trace",
                losses.unlinked_kernels, kernels.kernels
            )
        });
    } else {
        remarks.add("no_launches_recorded", kernels.unlinked, || {
            "kernels were recorded without the calls that launched them".to_owned()
        });
    }
    let without = launches.without_work;
    let text = || {
        format!(
            "{without} of {} launches have no GPU activity: it was lost, or the recording ends before it",
            launches.calls
        )
    };
    match launches.lack_much() {
        true => reasons.add("launches_without_work", without, text),
        false => remarks.add("launches_without_work", without, text),
    }
    remarks.add("graph_capture", u64::from(launches.is_capture), || {
        "a graph is captured and none replayed: most launches ran on no GPU".to_owned()
    });
    remarks.add("overlapping", losses.overlapping, || {
        "slices partially overlap another of their track and are on overflow tracks".to_owned()
    });
    remarks.add("unclosed", losses.unclosed, || {
        "slices were still open when the recording ended".to_owned()
    });
    remarks.add("unlinked_flows", losses.unlinked_flows, || {
        "arrows have no start, two starts or no slice".to_owned()
    });
    remarks.add("kernels_under_graph_launch", kernels.under_graph_launch, || {
        format!(
            "kernels come from {} launches of graphs: their host stacks are in the capture's trace",
            kernels.graph_launches
        )
    });
    (reasons.0, remarks.0)
}

#[derive(Default)]
struct List(Vec<Finding>);

impl List {
    fn add(&mut self, code: &'static str, count: u64, text: impl FnOnce() -> String) {
        if count > 0 {
            self.0.push(Finding {
                code,
                count,
                text: text(),
            });
        }
    }
}
