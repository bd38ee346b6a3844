//! Errors as one sentence, with the place and the nearest name.

use std::fmt;

use arrow_schema::ArrowError;
use datafusion::common::{DataFusionError, SchemaError};
use datafusion::sql::sqlparser::parser::ParserError;

use crate::bucket;

/// Cause of an error.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The statement is wrong, or refused.
    Usage,
    /// An input cannot be read.
    Input,
    /// The query needs more memory than it may have.
    Memory,
    /// The result cannot be written.
    Output,
    /// The reader of the result has closed its pipe.
    Closed,
    /// Any other failure of the query, such as a division by zero.
    Failed,
}

/// Names that a statement may have meant.
#[derive(Debug)]
pub(crate) struct Names {
    pub(crate) tables: Vec<String>,
    pub(crate) functions: Vec<String>,
    /// URL of the data set, if it is in an object store.
    pub(crate) folder: Option<String>,
}

/// An error of a statement: one sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SqlError {
    kind: ErrorKind,
    text: String,
}

impl SqlError {
    /// Creates an error.
    pub fn new(kind: ErrorKind, text: impl Into<String>) -> Self {
        let text: String = text.into();
        // One line, whatever the engine writes.
        let words: Vec<&str> = text.split_whitespace().collect();
        Self {
            kind,
            text: words.join(" "),
        }
    }

    pub(crate) fn usage(text: impl Into<String>) -> Self {
        Self::new(ErrorKind::Usage, text)
    }

    /// Returns the cause.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// Describes an error of the engine.
    pub(crate) fn of(error: &DataFusionError, sql: &str, names: &Names) -> Self {
        let folder = names.folder.as_deref();
        if let Some(text) = folder.and_then(|folder| bucket::failed_request(folder, error)) {
            return Self::new(ErrorKind::Input, text);
        }
        let place = error.diagnostic().and_then(|found| found.span);
        let place = place.map(|span| (span.start.line, span.start.column));
        match error.find_root() {
            DataFusionError::SQL(error, _) => Self::usage(syntax(error)),
            DataFusionError::SchemaError(error, _) => {
                Self::usage(format!("{}{}", at(place), schema(error)))
            }
            DataFusionError::Plan(text) | DataFusionError::NotImplemented(text) => {
                Self::usage(plan(text, sql, place, names))
            }
            DataFusionError::ResourcesExhausted(text) => Self::new(
                ErrorKind::Memory,
                format!(
                    "the query needs more memory than it may have: raise --memory, or select fewer rows or columns ({})",
                    first(text)
                ),
            ),
            DataFusionError::External(error) => Self::new(ErrorKind::Input, error.to_string()),
            DataFusionError::ArrowError(error, _)
                if let ArrowError::ArithmeticOverflow(text) = error.as_ref() =>
            {
                Self::new(ErrorKind::Failed, overflow(text))
            }
            DataFusionError::ArrowError(error, _) => {
                Self::new(ErrorKind::Failed, error.to_string())
            }
            error => Self::new(ErrorKind::Failed, error.message()),
        }
    }
}

impl SqlError {
    /// Describes an error of a cluster, of which only the text is left, with the names of the processes that it went through in front.
    #[must_use]
    pub fn of_cluster(text: &str) -> Self {
        if let Some(sentence) = crate::remote::sentence(text) {
            return Self::new(ErrorKind::Input, sentence);
        }
        // The error itself may be printed for users, or for developers.
        let after = |begins: [&str; 2]| {
            let mut found = begins
                .into_iter()
                .filter_map(|begin| text.split_once(begin));
            found.next().map(|(_, rest)| bare(rest))
        };
        if let Some(rest) = after(["Arithmetic overflow: ", "ArithmeticOverflow(\""]) {
            return Self::new(ErrorKind::Failed, overflow(rest));
        }
        if let Some(rest) = after(["Resources exhausted: ", "ResourcesExhausted(\""]) {
            let text = format!(
                "an executor needs more memory than it has: select fewer rows or columns, or run fewer tasks at once on it ({})",
                first(rest)
            );
            return Self::new(ErrorKind::Memory, text);
        }
        if text.contains("DivideByZero") {
            return Self::new(ErrorKind::Failed, ArrowError::DivideByZero.to_string());
        }
        // The innermost text, behind what each process has to say about it.
        let quoted = text.rsplit_once("(\"").map(|(_, rest)| bare(rest));
        Self::new(ErrorKind::Failed, quoted.unwrap_or(text))
    }
}

/// Returns what is within a quotation mark that was opened, or all to the end.
fn bare(text: &str) -> &str {
    text.split('"').next().unwrap_or(text)
}

/// Describes a number that does not fit in its type.
fn overflow(text: &str) -> String {
    // Arrow's own text begins so, and has the calculation.
    let text = text.strip_prefix("Overflow happened on: ").unwrap_or(text);
    format!(
        "integer overflow: {text}: cast to DECIMAL(38, 0) or DOUBLE first, or subtract a first time"
    )
}

impl fmt::Display for SqlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for SqlError {}

fn at(place: Option<(u64, u64)>) -> String {
    place.map_or_else(String::new, |(line, column)| {
        format!("line {line}, column {column}: ")
    })
}

fn first(text: &str) -> &str {
    text.lines().next().unwrap_or(text)
}

/// Rewrites the parser's `...: Expected: x, found: y at Line: 1, Column: 8`.
fn syntax(error: &ParserError) -> String {
    let text = match error {
        ParserError::TokenizerError(text) | ParserError::ParserError(text) => text.clone(),
        ParserError::RecursionLimitExceeded => "the statement is nested too deeply".to_owned(),
    };
    let Some((what, place)) = text.rsplit_once(" at Line: ") else {
        return lower(&text);
    };
    let (line, column) = place.split_once(", Column: ").unwrap_or((place, "1"));
    let what = what
        .replace("Expected: ", "expected ")
        .replace(", found: ", ", found ");
    format!("line {line}, column {column}: {}", lower(&what))
}

fn lower(text: &str) -> String {
    let text = first(text);
    let mut rest = text.chars();
    match rest.next() {
        Some(c) => c.to_lowercase().chain(rest).collect(),
        None => String::new(),
    }
}

fn schema(error: &SchemaError) -> String {
    match error {
        SchemaError::FieldNotFound {
            field,
            valid_fields,
        } => {
            let own = |name: &&datafusion::common::Column| {
                field.relation.is_none() || name.relation == field.relation
            };
            let known: Vec<&str> = valid_fields
                .iter()
                .filter(own)
                .map(|f| f.name.as_str())
                .collect();
            let mut tables: Vec<String> = valid_fields
                .iter()
                .filter(own)
                .filter_map(|f| Some(f.relation.as_ref()?.table().to_owned()))
                .collect();
            tables.sort();
            tables.dedup();
            let of = match (&field.relation, tables.as_slice()) {
                (Some(table), []) => {
                    return format!(
                        "no table `{}` in FROM, for column `{}`",
                        table.table(),
                        field.name
                    );
                }
                (_, [one]) => format!(" in `{one}`"),
                _ => String::new(),
            };
            let hint = match nearest(&field.name, known.iter().copied()) {
                Some(name) => format!(": did you mean `{name}`?"),
                None if known.is_empty() => String::new(),
                None => format!("; it has {}", known.join(", ")),
            };
            format!("no column `{}`{of}{hint}", field.name)
        }
        SchemaError::AmbiguousReference { field } => format!(
            "column `{}` is in several tables: write the table in front of it",
            field.name
        ),
        error => lower(&error.to_string()),
    }
}

fn plan(text: &str, sql: &str, place: Option<(u64, u64)>, names: &Names) -> String {
    let text = first(text);
    let quoted = |before: &str| Some(text.split_once(before)?.1.split_once('\'')?.0);
    if let Some(name) = quoted("table '").filter(|_| text.ends_with("not found")) {
        let name = name.rsplit('.').next().unwrap_or(name);
        let place = place.or_else(|| place_of(sql, name));
        let hint = match nearest(name, names.tables.iter().map(String::as_str)) {
            Some(name) => format!("did you mean `{name}`?"),
            None => "SHOW TABLES lists them".to_owned(),
        };
        return format!("{}no table `{name}`: {hint}", at(place));
    }
    if let Some(name) = quoted("Invalid function '") {
        let place = place.or_else(|| place_of(sql, name));
        let hint = match nearest(name, names.functions.iter().map(String::as_str)) {
            Some(name) => format!(": did you mean `{name}`?"),
            None => String::new(),
        };
        return format!("{}no function `{name}`{hint}", at(place));
    }
    let text = text.split("Did you mean").next().unwrap_or(text);
    format!("{}{}", at(place), lower(text))
}

/// Returns line and column of the first use of a word.
fn place_of(sql: &str, word: &str) -> Option<(u64, u64)> {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    for (line, text) in (1..).zip(sql.lines()) {
        let folded = text.to_ascii_lowercase();
        for (start, found) in folded.match_indices(&word.to_ascii_lowercase()) {
            let before = folded
                .get(..start)
                .and_then(|text| text.chars().next_back());
            let after = folded
                .get(start + found.len()..)
                .and_then(|text| text.chars().next());
            if !before.is_some_and(is_word) && !after.is_some_and(is_word) {
                let column = text.get(..start)?.chars().count();
                return Some((line, u64::try_from(column).ok()? + 1));
            }
        }
    }
    None
}

/// Returns the name that differs least from a word, if it differs in at most a third of its letters.
pub(crate) fn nearest<'n>(word: &str, names: impl Iterator<Item = &'n str>) -> Option<&'n str> {
    let word = word.to_ascii_lowercase();
    let limit = word.chars().count().div_ceil(3);
    let distances = names.map(|name| (distance(&word, &name.to_ascii_lowercase()), name));
    let best = distances.min_by_key(|(distance, _)| *distance)?;
    (best.0 <= limit).then_some(best.1)
}

/// Returns the number of letters to insert, delete, replace or swap with the next one between two words.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut rows: Vec<Vec<usize>> = vec![(0..=b.len()).collect()];
    let at = |rows: &[Vec<usize>], i: usize, j: usize| -> usize {
        let row = rows.get(i).and_then(|row| row.get(j));
        row.copied().unwrap_or(usize::MAX / 2)
    };
    for (i, x) in a.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, y) in b.iter().enumerate() {
            let left = row.last().copied().unwrap_or_default();
            let mut best = (at(&rows, i, j) + usize::from(x != y))
                .min(at(&rows, i, j + 1) + 1)
                .min(left + 1);
            let swapped = || Some(a.get(i.checked_sub(1)?)? == y && b.get(j.checked_sub(1)?)? == x);
            if swapped() == Some(true) {
                best = best.min(at(&rows, i - 1, j - 1) + 1);
            }
            row.push(best);
        }
        rows.push(row);
    }
    at(&rows, a.len(), b.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_is_close() {
        let names = ["slices", "kernels", "launches"];
        assert_eq!(nearest("slcies", names.into_iter()), Some("slices"));
        assert_eq!(nearest("Kernel", names.into_iter()), Some("kernels"));
        assert_eq!(nearest("sched", names.into_iter()), None);
        assert_eq!(distance("kitten", "sitting"), 3);
        assert_eq!(distance("", "ab"), 2);
        assert_eq!(distance("coutn", "count"), 1);
    }

    #[test]
    fn errors_of_a_cluster_are_those_of_one_process() {
        let said = |text: &str| SqlError::of_cluster(text).to_string();
        let wrapped = |error: &str| {
            format!(
                "Execution error: Job x failed: DataFusionError(Shared(External(ArrowError({error}, None))))"
            )
        };
        let text = said(&wrapped(
            "ArithmeticOverflow(\"Overflow happened on: 1 + 9\")",
        ));
        assert!(text.starts_with("integer overflow: 1 + 9: cast"), "{text}");
        assert_eq!(said(&wrapped("DivideByZero")), "Divide by zero error");
        let text = said(&wrapped("InvalidArgumentError(\"no such type\")"));
        assert_eq!(text, "no such type");
        let ours = format!(
            "Job x failed: {:?}",
            crate::remote::mark("a.json: no such file")
        );
        let error = SqlError::of_cluster(&ours);
        assert_eq!(
            (error.to_string().as_str(), error.kind()),
            ("a.json: no such file", ErrorKind::Input)
        );
        let memory = SqlError::of_cluster(&wrapped("ResourcesExhausted(\"1 GB\")"));
        assert_eq!(memory.kind(), ErrorKind::Memory);
    }

    #[test]
    fn words_have_places() {
        assert_eq!(place_of("SELECT a\nFROM xa, Abc", "abc"), Some((2, 10)));
        assert_eq!(place_of("SELECT abcd", "abc"), None);
    }
}
