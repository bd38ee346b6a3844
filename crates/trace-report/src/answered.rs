//! The answer about one recording, with its name and the reason if it holds no GPU activity.

use gpu_time::NoGpuWork;
use report::SchemaVersion;

use crate::Document;

/// The answer about one recording.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Answered<T> {
    /// Name of the recording in headings and tables.
    pub label: String,
    /// Reason for missing GPU activity in the recording, or in the part that was asked for.
    pub no_gpu_work: Option<NoGpuWork>,
    /// The answer.
    pub answer: T,
}

impl<T> Answered<T> {
    /// Combines an answer with the name of its recording and the reason for missing GPU activity.
    pub fn new(label: impl Into<String>, answer: T, no_gpu_work: Option<NoGpuWork>) -> Self {
        Self {
            label: label.into(),
            no_gpu_work,
            answer,
        }
    }
}

/// Returns a document with nothing but the reasons if none of the recordings holds GPU activity.
#[must_use]
pub fn reasons_only<T>(answered: &[Answered<T>], version: SchemaVersion) -> Option<Document> {
    let all = answered.iter().all(|one| one.no_gpu_work.is_some()) && !answered.is_empty();
    let mut document = Document::new(version);
    for one in answered {
        document.heading(&one.label);
        document.reason(one.no_gpu_work.as_ref());
    }
    all.then_some(document)
}
