//! Which kernels a question is about.

use trace_model::kernel::Vocabulary;
use trace_model::{SliceId, Trace};

use crate::window::NameMatch;
use trace_model::kernel::TraceIndex;

/// Kernels by name or class; a kernel is selected when any of the tests holds.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct KernelSelector {
    /// Names.
    pub names: Vec<NameMatch>,
    /// All collectives by the vocabulary's table.
    pub collectives: bool,
    /// Only slices of category `kernel`, as the original does; else all that the vocabulary calls
    /// kernels.
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
    /// All collectives.
    pub fn collectives() -> Self {
        Self {
            collectives: true,
            ..Self::default()
        }
    }

    /// Kernels of exactly this name.
    pub fn exact(name: &str) -> Self {
        Self {
            names: vec![NameMatch::Exact(name.to_owned())],
            ..Self::default()
        }
    }

    /// Is a kernel of this name selected?
    pub fn matches(&self, name: &str, vocabulary: &Vocabulary) -> bool {
        self.names.iter().any(|n| n.matches(name))
            || (self.collectives && vocabulary.communication(name).is_some())
    }

    /// The selected kernels of `trace` in ascending time. Cost: one pass over the kernels;
    /// names are tried once each.
    pub fn kernels(&self, trace: &Trace, index: &TraceIndex<'_>) -> Vec<SliceId> {
        let mut known: Vec<Option<bool>> = vec![None; trace.strings().len()];
        let strict = trace.find_category("kernel");
        index
            .kernels()
            .filter(|s| !self.strict_category || Some(s.category_id()) == strict)
            .filter(|s| {
                // The operator that launched a kernel may say more than its name.
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

    /// The selection in words.
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
