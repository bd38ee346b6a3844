//! What the recording lacked that a file was made from: a copy of a cut recording must not look whole.

use serde_json::Value;
use trace_model::{IssueKind, Limit, Severity, Trace, TraceBuilder};

/// Key of the list in the metadata of a file.
pub(crate) const KEY: &str = "sourceIssues";

/// Code of the limit that a trace of such a file has.
pub const SOURCE_INCOMPLETE: &str = "source_incomplete";

const BEGIN: &str = "the recording that this file was made from was incomplete: ";

/// Returns what the trace lacks, as a list of sentences in JSON; `None` if it lacks nothing.
pub(crate) fn stated(trace: &Trace) -> Option<String> {
    // These are of the places of events, which the copy has as they are.
    let is_placed = |kind: IssueKind| {
        matches!(
            kind,
            IssueKind::Overlap
                | IssueKind::MisplacedEnd
                | IssueKind::FlowNoSlice
                | IssueKind::FlowDuplicate
                | IssueKind::FlowStepWithoutStart
        )
    };
    let issues = trace.diagnostics().issues().iter();
    let issues = issues
        .filter(|issue| issue.kind.severity() != Severity::Info && !is_placed(issue.kind))
        .map(|issue| match issue.count {
            1 => issue.kind.explanation().to_owned(),
            count => format!("{} ({count} times)", issue.kind.explanation()),
        });
    let limits = trace.meta().limits.iter().filter(|limit| limit.is_reason);
    let limits = limits.map(|limit| {
        let text = limit.text.strip_prefix(BEGIN);
        text.unwrap_or(&limit.text).to_owned()
    });
    let all: Vec<Value> = issues.chain(limits).map(Value::from).collect();
    (!all.is_empty()).then(|| Value::from(all).to_string())
}

/// Adds the list of a file to the limits of its trace; files of several ranks have several lists. Returns `false` if it is none.
pub(crate) fn store(builder: &mut TraceBuilder, raw: &str) -> bool {
    let Ok(Value::Array(list)) = serde_json::from_str(raw) else {
        return false;
    };
    let sentences: Vec<&str> = list.iter().filter_map(Value::as_str).collect();
    if sentences.is_empty() {
        return list.is_empty();
    }
    let limits = &mut builder.meta.limits;
    let at = limits
        .iter()
        .position(|limit| limit.code == SOURCE_INCOMPLETE);
    let at = at.unwrap_or_else(|| {
        limits.push(Limit {
            code: SOURCE_INCOMPLETE,
            count: 0,
            text: BEGIN.to_owned(),
            is_reason: true,
        });
        limits.len() - 1
    });
    if let Some(limit) = limits.get_mut(at) {
        for sentence in sentences {
            if limit.text.contains(sentence) {
                continue;
            }
            if limit.count > 0 {
                limit.text.push_str("; ");
            }
            limit.text.push_str(sentence);
            limit.count += 1;
        }
    }
    true
}
