//! Kinds of findings, their thresholds, words and remedies, as data.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use gpu_time::Recorder;
use serde::Deserialize;

use crate::document::{Confidence, Note, Remedy};
use crate::program::Program;

/// What a finding means for the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KindRole {
    /// A device or a resource bounds the steps.
    Limit,
    /// Something makes steps longer than they have to be.
    Cause,
    /// Worth knowing, never the answer.
    Context,
}

/// A kind of finding.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Kind {
    /// Stable name.
    pub name: String,
    /// Its meaning for the answer.
    pub role: KindRole,
    /// The name of the cause in `perf-compare`, if it is one of them.
    pub cause: Option<String>,
    /// Share of the time of a phase from which it is reported, in percent.
    pub least_pct: f64,
    /// Share from which direct evidence makes it established; `None` if it never is.
    pub sure_pct: Option<f64>,
    /// Share that its replay has to save to be the answer; `None` for the usual one.
    pub answer_pct: Option<f64>,
    /// It differs from other steps or other ranks, so that it is no part of how the engine works.
    #[serde(default)]
    pub is_deviation: bool,
    /// It is a deviation only where it is established: else several things differ, none of which is named.
    #[serde(default)]
    pub is_deviation_if_sure: bool,
    /// Title with places in braces.
    pub title: String,
    /// When it is reported.
    pub rule: String,
    /// What would refute it.
    pub refute: String,
    remedy: Option<String>,
    /// What does it in vLLM.
    vllm: Option<String>,
    /// What does it in SGLang.
    sglang: Option<String>,
    /// The remedy for a job that trains.
    training: Option<String>,
    source: Option<String>,
}

impl Kind {
    /// Returns the remedy for a program, with its source. An engine gets its own settings only; where it is not known which one
    /// runs, all of them.
    pub fn remedy(&self, program: Program) -> Option<Remedy> {
        let mut text = self.remedy.clone()?;
        if let (Program::Training, Some(training)) = (program, &self.training) {
            text.clone_from(training);
        }
        let settings = [
            (Program::Vllm, "vLLM", &self.vllm),
            (Program::Sglang, "SGLang", &self.sglang),
        ];
        let settings: Vec<String> = settings
            .into_iter()
            .filter(|(of, ..)| program == *of || program == Program::Unknown)
            .filter_map(|(_, name, what)| Some(format!("{name}: {}", what.as_ref()?)))
            .collect();
        if !settings.is_empty() {
            text = format!("{text} ({})", settings.join("; "));
        }
        Some(Remedy {
            text,
            source: self.source.clone()?,
        })
    }
}

/// Something that a recording may lack, and how to record it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Lack {
    pub(crate) what: String,
    pub(crate) decides: String,
}

impl Lack {
    /// Returns how the recorder at hand records it.
    pub(crate) fn how(&self, recorder: Recorder) -> &'static str {
        gpu_time::Lack::by_name(&self.what).map_or("", |lack| lack.how(recorder))
    }
}

#[derive(Debug, Deserialize)]
struct Definitions {
    established: String,
    likely: String,
    possible: String,
}

/// All kinds, words and remedies.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Catalogue {
    confidence: Definitions,
    kind: Vec<Kind>,
    missing: Vec<Lack>,
    labels: BTreeMap<String, String>,
}

impl Catalogue {
    /// Returns the built-in catalogue.
    ///
    /// # Panics
    ///
    /// Never: a test parses the built-in text.
    pub fn builtin() -> &'static Self {
        static BUILTIN: OnceLock<Catalogue> = OnceLock::new();
        BUILTIN.get_or_init(|| {
            toml::from_str(include_str!("../data/catalogue.toml"))
                .expect("the built-in catalogue is valid")
        })
    }

    /// Returns all kinds.
    pub fn kinds(&self) -> &[Kind] {
        &self.kind
    }

    /// Returns the kind with a name.
    pub fn kind(&self, name: &str) -> Option<&Kind> {
        self.kind.iter().find(|kind| kind.name == name)
    }

    pub(crate) fn lack(&self, what: &str) -> Option<&Lack> {
        self.missing.iter().find(|lack| lack.what == what)
    }

    /// Returns the words for a class of time.
    pub fn label<'a>(&'a self, class: &'a str) -> &'a str {
        self.labels.get(class).map_or(class, String::as_str)
    }

    /// Returns the definitions of the words of strength, strongest first.
    pub(crate) fn confidence(&self) -> Vec<Note> {
        [
            (Confidence::Established, &self.confidence.established),
            (Confidence::Likely, &self.confidence.likely),
            (Confidence::Possible, &self.confidence.possible),
        ]
        .into_iter()
        .map(|(word, text)| Note {
            kind: word.name().to_owned(),
            text: text.clone(),
        })
        .collect()
    }

    /// Returns the rules of these kinds.
    pub(crate) fn rules<'k>(&self, kinds: impl Iterator<Item = &'k str>) -> Vec<Note> {
        let names: std::collections::BTreeSet<&str> = kinds.collect();
        let kinds = names.into_iter().filter_map(|name| self.kind(name));
        kinds
            .map(|kind| Note {
                kind: kind.name.clone(),
                text: format!("{}; reported from {} %", kind.rule, kind.least_pct),
            })
            .collect()
    }
}

impl Confidence {
    /// Returns the fixed word.
    pub fn name(self) -> &'static str {
        match self {
            Self::Established => "established",
            Self::Likely => "likely",
            Self::Possible => "possible",
        }
    }
}

/// Fills the places of a template: `{name}` becomes the value of `name`.
pub(crate) fn fill(template: &str, values: &[(&str, &str)]) -> String {
    let mut out = String::with_capacity(template.len());
    let mut rest = template;
    while let Some(at) = rest.find('{') {
        let (before, after) = rest.split_at(at);
        out.push_str(before);
        let Some(end) = after.find('}') else {
            out.push_str(after);
            return out;
        };
        let key = &after[1..end];
        if let Some((_, value)) = values.iter().find(|(name, _)| *name == key) {
            out.push_str(value);
        }
        rest = &after[end + 1..];
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_catalogue_is_whole() {
        let catalogue = Catalogue::builtin();
        let mut names: Vec<&str> = catalogue.kinds().iter().map(|k| k.name.as_str()).collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
        for kind in catalogue.kinds() {
            assert_eq!(
                kind.remedy.is_some(),
                kind.source.is_some(),
                "{}",
                kind.name
            );
            if let Some(source) = &kind.source {
                assert!(source.starts_with("https://"), "{source}");
            }
            // Only what is reported at all can be established.
            assert!(
                kind.sure_pct.is_none_or(|sure| sure >= kind.least_pct),
                "{}",
                kind.name
            );
        }
        for what in [
            "host events",
            "Python functions",
            "sizes of operators",
            "other ranks",
            "steps of the engine",
        ] {
            assert!(catalogue.lack(what).is_some(), "{what}");
        }
        for lack in &catalogue.missing {
            assert!(!lack.how(Recorder::Torch).is_empty(), "{}", lack.what);
        }
    }

    #[test]
    fn templates_are_filled() {
        assert_eq!(fill("a {x} b{y}", &[("x", "1"), ("y", "2")]), "a 1 b2");
        assert_eq!(fill("{none}|{", &[]), "|{");
    }
}
