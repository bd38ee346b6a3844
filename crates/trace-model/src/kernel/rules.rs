//! Rules for kernels: communication and classes. The built-in table is the file
//! `rules/kernels.rules`; a caller's own table has the same format and precedes it.

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
    /// Line, from 1.
    pub line: usize,
    /// Description of the error, and what was expected.
    pub what: String,
}

/// A parsed table. For each kind of row the first match counts.
#[derive(Clone, Debug, Default)]
pub struct KernelRules {
    communication: Vec<(Alternatives, Option<OpSource>)>,
    wrappers: Vec<Alternatives>,
    kernels: Vec<(Alternatives, KernelClass)>,
    /// Names that give a class only if the operators around the launch give none.
    fallbacks: Vec<(Alternatives, KernelClass)>,
    /// Operators whose kernels of unknown name communicate; `None` for those that resemble them but
    /// do not communicate.
    exchanges: Vec<(Alternatives, Option<OpSource>)>,
    /// Operators and the class of their kernels; `true` if the names of the kernels do not matter.
    operators: Vec<(Alternatives, KernelClass, bool)>,
    /// Contexts, the class that each changes, and the resulting class.
    contexts: Vec<(Alternatives, KernelClass, KernelClass)>,
}

/// Source of the operation of a communication kernel.
#[derive(Clone, Copy, Debug)]
struct OpSource {
    op: Option<CollectiveOp>,
    library: CommLibrary,
}

static BUILTIN: LazyLock<KernelRules> = LazyLock::new(|| {
    // A test parses the file; if parsing failed, all classes would be missing.
    KernelRules::parse(include_str!("../../rules/kernels.rules")).unwrap_or_default()
});

impl KernelRules {
    /// Returns the built-in table.
    pub fn builtin() -> &'static Self {
        &BUILTIN
    }

    /// Parses a table: one row per line, `#` begins a comment. Patterns are case-insensitive globs,
    /// alternatives separated by ` | `.
    ///
    /// # Errors
    /// Returns a [`RuleError`] with the line of an unknown kind of row, an unknown class or a
    /// missing pattern.
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
        let values = match kind {
            "wrapper" => 0,
            "inside" => 2,
            "communication" | "exchange" | "kernel" | "fallback" | "operator" | "around" => 1,
            _ => {
                return Err(format!(
                    "unknown row {kind:?}; expected communication, exchange, wrapper, kernel, fallback, operator, around or inside"
                ));
            }
        };
        let mut patterns = rest.trim();
        let mut next = |wanted: bool| {
            if !wanted {
                return "";
            }
            let (word, rest) = patterns
                .split_once(char::is_whitespace)
                .unwrap_or((patterns, ""));
            patterns = rest.trim();
            word
        };
        let (value, becomes) = (next(values > 0), next(values > 1));
        if patterns.is_empty() {
            return Err(format!("row {kind} without a pattern"));
        }
        let patterns = Alternatives::parse(patterns);
        match kind {
            "communication" => self
                .communication
                .push((patterns, communication_of(value)?)),
            "exchange" => self.exchanges.push((patterns, communication_of(value)?)),
            "wrapper" => self.wrappers.push(patterns),
            "kernel" if value == KernelClass::Collective.name() => {
                self.communication
                    .push((patterns, communication_of("any")?));
            }
            "kernel" => self.kernels.push((patterns, class_of(value)?)),
            "fallback" => self.fallbacks.push((patterns, class_of(value)?)),
            "operator" | "around" if value == KernelClass::Collective.name() => {
                self.exchanges.push((patterns, communication_of("any")?));
            }
            "inside" => self
                .contexts
                .push((patterns, class_of(value)?, class_of(becomes)?)),
            _ => self
                .operators
                .push((patterns, class_of(value)?, kind == "operator")),
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
            self.kernels.push((patterns, class));
        }
    }

    /// Returns the class of the kernel `name`.
    pub(super) fn class(&self, name: &KernelName<'_>) -> Option<KernelClass> {
        self.first(&self.kernels, name)
    }

    /// Returns the class of the kernel `name` that applies if the slices around its launch give
    /// none.
    pub(super) fn fallback(&self, name: &KernelName<'_>) -> Option<KernelClass> {
        self.first(&self.fallbacks, name)
    }

    fn first(
        &self,
        rows: &[(Alternatives, KernelClass)],
        name: &KernelName<'_>,
    ) -> Option<KernelClass> {
        if rows.is_empty() {
            return None;
        }
        let mut subject = name.function.to_ascii_lowercase();
        if self.is_wrapper(&subject) || BUILTIN.is_wrapper(&subject) {
            subject.push('<');
            subject.push_str(&without_types(&name.arguments.to_ascii_lowercase()));
            subject.push('>');
        }
        let (_, class) = rows.iter().find(|(p, _)| p.matches(&subject))?;
        Some(*class)
    }

    /// Returns `true` if the template arguments of `function` name the work.
    pub(super) fn is_wrapper(&self, function: &str) -> bool {
        let function = function.to_ascii_lowercase();
        self.wrappers.iter().any(|p| p.matches(&function))
    }

    /// Returns the class of the kernels of the operator `name`, in lower case, and `true` if their
    /// own names do not matter.
    pub(super) fn operator(&self, name: &str) -> Option<(KernelClass, bool)> {
        let (_, class, decides) = self.operators.iter().find(|(p, _, _)| p.matches(name))?;
        Some((*class, *decides))
    }

    /// Returns the communication of kernels of unknown name that the operator `name`, in lower
    /// case, launches; see [`KernelRules::communication`].
    pub(super) fn exchange(&self, name: &str) -> Option<Option<Communication>> {
        first_communication(&self.exchanges, name)
    }

    /// Returns the classes that a context named `name`, in lower case, changes, with the resulting
    /// classes.
    pub(super) fn context(&self, name: &str) -> impl Iterator<Item = (KernelClass, KernelClass)> {
        let rows = self
            .contexts
            .iter()
            .filter(move |(p, _, _)| p.matches(name));
        rows.map(|(_, class, becomes)| (*class, *becomes))
    }

    /// Returns the classes that some context changes.
    pub(super) fn changed_by_context(&self) -> impl Iterator<Item = KernelClass> {
        self.contexts.iter().map(|(_, class, _)| *class)
    }

    /// Returns the communication of the function `name`; the outer `None` if no row matches, the
    /// inner if it does not communicate.
    pub(super) fn communication(&self, name: &KernelName<'_>) -> Option<Option<Communication>> {
        let function = name.function.to_ascii_lowercase();
        first_communication(&self.communication, &function)
    }
}

fn first_communication(
    rows: &[(Alternatives, Option<OpSource>)],
    name: &str,
) -> Option<Option<Communication>> {
    let (_, source) = rows.iter().find(|(p, _)| p.matches(name))?;
    Some(source.map(|source| Communication {
        op: source.op.or_else(|| CollectiveOp::from_name(name)),
        library: source.library,
    }))
}

/// Removes CUTLASS' names of number types from template arguments, as they would look like a matrix
/// product.
fn without_types(arguments: &str) -> String {
    let mut pieces = arguments.split("cutlass::");
    let mut kept = pieces.next().unwrap_or("").to_owned();
    for piece in pieces {
        let end = piece
            .find(|c: char| !c.is_ascii_alphanumeric() && c != '_')
            .unwrap_or(piece.len());
        let (word, rest) = piece.split_at(end);
        if !word.ends_with("_t") {
            kept.push_str("cutlass::");
            kept.push_str(word);
        }
        kept.push_str(rest);
    }
    kept
}

/// Parses `OPERATION` or `OPERATION/LIBRARY`; the operation `any` is taken from the name, `none`
/// means no communication.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_table_is_well_formed() {
        let parsed = KernelRules::parse(include_str!("../../rules/kernels.rules"));
        assert_eq!(parsed.map(|rules| rules.kernels.is_empty()), Ok(false));
    }

    #[test]
    fn errors_name_the_line() {
        for (text, line, part) in [
            ("\n# only a comment\nkernal gemm x", 3, "unknown row"),
            ("kernel gemm", 1, "without a pattern"),
            ("kernel", 1, "without a pattern"),
            ("kernel gem x", 1, "moe_gemm"),
            ("communication all_reduce/ncl x", 1, "nccl"),
            ("communication allreduce/nccl x", 1, "all_reduce"),
            ("inside softmax attention", 1, "without a pattern"),
            ("kernel gemm x\ninside softmax atention *y*", 2, "attention"),
        ] {
            let error = KernelRules::parse(text).unwrap_err();
            assert_eq!(error.line, line, "{text}");
            assert!(error.what.contains(part), "{error}");
        }
    }

    #[test]
    fn own_rows_go_first() {
        use crate::kernel::Vocabulary;
        let own = "kernel gemm my_softmax* \nkernel collective my_exchange\ncommunication none my_nccl_test*";
        let v = Vocabulary::default().with_rules(KernelRules::parse(own).unwrap());
        assert_eq!(v.class("my_softmax_7"), KernelClass::Gemm);
        assert_eq!(v.class("my_exchange"), KernelClass::Collective);
        assert_eq!(v.communication("my_nccl_test_1"), None);
        assert_eq!(v.class("softmax"), KernelClass::Softmax);
    }
}
