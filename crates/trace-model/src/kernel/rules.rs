//! The table of rules for kernels: what is communication, and what a kernel computes. The built-in one is the file
//! `rules/kernels.rules`; a caller's own has the same format and goes before it.

use std::sync::LazyLock;

use super::KernelClass;
use super::collective::CollectiveOp;
use super::communication::{CommLibrary, Communication};
use super::name::KernelName;
use super::pattern::Alternatives;

/// Error in a table of rules.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {what}")]
#[non_exhaustive]
pub struct RuleError {
    /// The line, from 1.
    pub line: usize,
    /// What is wrong, and what was expected.
    pub what: String,
}

/// A parsed table. Of each kind of row the first that matches counts.
#[derive(Clone, Debug, Default)]
pub struct KernelRules {
    communication: Vec<(Alternatives, Option<OpSource>)>,
    wrappers: Vec<Alternatives>,
    kernels: Vec<(Alternatives, KernelClass)>,
}

/// Where the operation of a communication kernel comes from.
#[derive(Clone, Copy, Debug)]
struct OpSource {
    op: Option<CollectiveOp>,
    library: CommLibrary,
}

static BUILTIN: LazyLock<KernelRules> = LazyLock::new(|| {
    // A test parses the file; without it nothing would have a class.
    KernelRules::parse(include_str!("../../rules/kernels.rules")).unwrap_or_default()
});

impl KernelRules {
    /// Returns the built-in table.
    pub fn builtin() -> &'static Self {
        &BUILTIN
    }

    /// Parses a table: one row a line, `#` begins a comment. Patterns are globs without regard to case, alternatives
    /// separated by ` | `.
    ///
    /// # Errors
    /// [`RuleError`] names the line with an unknown kind of row, an unknown class or no pattern.
    ///
    /// ```
    /// use trace_model::kernel::{KernelClass, KernelRules, Vocabulary};
    ///
    /// let rules = KernelRules::parse("kernel gemm acme_mm* | acme_bmm*").unwrap();
    /// let vocabulary = Vocabulary::default().with_rules(rules);
    /// assert_eq!(vocabulary.class("acme_mm_64x64"), KernelClass::Gemm);
    /// assert_eq!(KernelRules::parse("kernel gem acme*").unwrap_err().line, 1);
    /// ```
    pub fn parse(text: &str) -> Result<Self, RuleError> {
        let mut rules = Self::default();
        for (at, line) in text.lines().enumerate() {
            let line = line.split('#').next().unwrap_or("").trim();
            if line.is_empty() {
                continue;
            }
            rules
                .row(line)
                .map_err(|what| RuleError { line: at + 1, what })?;
        }
        Ok(rules)
    }

    fn row(&mut self, line: &str) -> Result<(), String> {
        let (kind, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let (value, patterns) = match kind {
            "wrapper" => ("", rest),
            _ => rest
                .trim_start()
                .split_once(char::is_whitespace)
                .unwrap_or((rest, "")),
        };
        if patterns.trim().is_empty() {
            return Err("no pattern; expected KIND VALUE PATTERN | PATTERN".to_owned());
        }
        let patterns = Alternatives::parse(patterns);
        match kind {
            "communication" => self
                .communication
                .push((patterns, communication_of(value)?)),
            "wrapper" => self.wrappers.push(patterns),
            "kernel" => self.kernels.push((patterns, class_of(value)?)),
            _ => {
                return Err(format!(
                    "unknown row {kind:?}; expected communication, wrapper or kernel"
                ));
            }
        }
        Ok(())
    }

    /// Adds a row for names of kernels after the present ones.
    pub(super) fn push_class(&mut self, patterns: &str, class: KernelClass) {
        let patterns = Alternatives::parse(patterns);
        if class == KernelClass::Collective {
            let source = OpSource {
                op: None,
                library: CommLibrary::Other,
            };
            self.communication.push((patterns, Some(source)));
        } else {
            // A name that is some other class is no communication.
            self.communication.push((patterns.clone(), None));
            self.kernels.push((patterns, class));
        }
    }

    /// What the kernel `name` computes.
    pub(super) fn class(&self, name: &str) -> Option<KernelClass> {
        let function = KernelName::of(name).function.to_ascii_lowercase();
        let (_, class) = self.kernels.iter().find(|(p, _)| p.matches(&function))?;
        Some(*class)
    }

    /// What the function `name` communicates; the outer `None` if no row matches, the inner if it is none.
    pub(super) fn communication(&self, name: &KernelName<'_>) -> Option<Option<Communication>> {
        let function = name.function.to_ascii_lowercase();
        let (_, source) = self
            .communication
            .iter()
            .find(|(p, _)| p.matches(&function))?;
        Some(source.map(|source| Communication {
            op: source.op.or_else(|| CollectiveOp::from_name(&function)),
            library: source.library,
        }))
    }
}

/// `OPERATION` or `OPERATION/LIBRARY`; the operation `any` is read from the name, `none` is no communication.
fn communication_of(value: &str) -> Result<Option<OpSource>, String> {
    let (op, library) = value.split_once('/').unwrap_or((value, "other"));
    let library = CommLibrary::from_name(library).ok_or_else(|| {
        let known: Vec<_> = CommLibrary::ALL.iter().map(|l| l.name()).collect();
        format!(
            "unknown library {library:?}; expected one of {}",
            known.join(", ")
        )
    })?;
    let op = match op {
        "none" => return Ok(None),
        "any" => None,
        _ => Some(
            CollectiveOp::ALL
                .into_iter()
                .find(|o| o.name() == op)
                .ok_or_else(|| {
                    let known: Vec<_> = CollectiveOp::ALL.iter().map(|o| o.name()).collect();
                    format!(
                        "unknown operation {op:?}; expected none, any, {}",
                        known.join(", ")
                    )
                })?,
        ),
    };
    Ok(Some(OpSource { op, library }))
}

fn class_of(value: &str) -> Result<KernelClass, String> {
    KernelClass::from_name(value).ok_or_else(|| {
        let known: Vec<_> = KernelClass::ALL.iter().map(|c| c.name()).collect();
        format!(
            "unknown class {value:?}; expected one of {}",
            known.join(", ")
        )
    })
}
