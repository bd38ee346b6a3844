//! Selects the kernels of a query.

use trace_model::kernel::Vocabulary;
use trace_model::{SliceId, Trace};

use crate::window::NameMatch;
use trace_model::kernel::TraceIndex;

/// Selects kernels by name or class; a kernel is selected if any of the tests matches.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct KernelSelector {
    /// Names.
    pub names: Vec<NameMatch>,
    /// `true` to select all collectives according to the vocabulary.
    pub collectives: bool,
    /// `true` to select only slices of category `kernel`, as in the original; else all that the
    /// vocabulary classifies as kernels.
    pub strict_category: bool,
}

impl From<NameMatch> for KernelSelector {
    fn from(name: NameMatch) -> Self {
        Self {
            names: vec![name],
            ..Self::default()
        }
    }
}

impl KernelSelector {
    /// Selects all collectives.
    pub fn collectives() -> Self {
        Self {
            collectives: true,
            ..Self::default()
        }
    }

    /// Selects kernels with exactly this name.
    pub fn exact(name: &str) -> Self {
        Self {
            names: vec![NameMatch::Exact(name.to_owned())],
            ..Self::default()
        }
    }

    /// Returns `true` if a kernel with this name is selected.
    pub fn matches(&self, name: &str, vocabulary: &Vocabulary) -> bool {
        self.names.iter().any(|n| n.matches(name))
            || (self.collectives && vocabulary.communication(name).is_some())
    }

    /// Returns the selected kernels of `trace` in ascending time. Cost: one pass over the kernels;
    /// each name is tested once.
    pub fn kernels(&self, trace: &Trace, index: &TraceIndex<'_>) -> Vec<SliceId> {
        let mut known: Vec<Option<bool>> = vec![None; trace.strings().len()];
        let strict = trace.find_category("kernel");
        index
            .kernels()
            .filter(|s| !self.strict_category || Some(s.category_id()) == strict)
            .filter(|s| {
                // The operator that launched a kernel may identify a collective when its name does
                // not.
                if self.collectives && index.is_collective(*s) {
                    return true;
                }
                s.name_id()
                    .and_then(|name| Some((known.get_mut(name.index())?, name)))
                    .is_some_and(|(known, name)| {
                        *known.get_or_insert_with(|| {
                            self.matches(trace.text(name), index.vocabulary())
                        })
                    })
            })
            .map(trace_model::Slice::id)
            .collect()
    }

    /// Describes the selection in words.
    pub fn describe(&self) -> String {
        let mut parts: Vec<String> = self
            .names
            .iter()
            .map(|n| match n {
                NameMatch::Exact(text) => text.clone(),
                NameMatch::Pattern(_, text) => format!("glob {text}"),
                NameMatch::Regex(regex) => format!("regex {regex}"),
            })
            .collect();
        if self.collectives {
            parts.push("collectives".to_owned());
        }
        parts.join(" or ")
    }
}
