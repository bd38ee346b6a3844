//! Labels of traces in tables.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::files::short_name;

/// Returns a label for each trace: its [`short_name`], prefixed with as many of its folders as
/// needed to distinguish equal names.
///
/// ```
/// let paths = ["job/rank0/trace.json", "job/rank1/trace.json", "job/all.json"];
/// let labels = trace_input::labels(&paths.map(Into::into));
/// assert_eq!(labels, ["rank0/trace", "rank1/trace", "all"]);
/// ```
pub fn labels(paths: &[PathBuf]) -> Vec<String> {
    let names: Vec<String> = paths.iter().map(|p| p.display().to_string()).collect();
    let short: Vec<String> = names.iter().map(|n| short_name(n).to_owned()).collect();
    let mut labels = short.clone();
    for group in same(&short) {
        let folders: Vec<Vec<&str>> = group.iter().map(|at| folders(&names[*at])).collect();
        let depth = folders.iter().map(Vec::len).max().unwrap_or(0);
        let with = |count: usize| -> Vec<String> {
            let label = |(at, folders): (&usize, &Vec<&str>)| {
                let from = folders.len().saturating_sub(count);
                let mut parts = folders.get(from..).unwrap_or_default().to_vec();
                parts.push(&short[*at]);
                parts.join("/")
            };
            group.iter().zip(&folders).map(label).collect()
        };
        let distinct = (1..=depth).map(with).find(|these| same(these).is_empty());
        for (place, at) in group.iter().enumerate() {
            let label = distinct.as_ref().and_then(|these| these.get(place));
            labels[*at] = label.unwrap_or(&names[*at]).clone();
        }
    }
    // The same file twice.
    for group in same(&labels) {
        for (number, at) in group.into_iter().enumerate().skip(1) {
            labels[at] = format!("{} ({})", labels[at], number + 1);
        }
    }
    labels
}

/// Returns the positions of equal texts, for texts that occur more than once.
fn same(texts: &[String]) -> Vec<Vec<usize>> {
    let mut places: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (at, text) in texts.iter().enumerate() {
        places.entry(text).or_default().push(at);
    }
    places.into_values().filter(|p| p.len() > 1).collect()
}

/// Returns the folders, and archives, that contain a file.
fn folders(name: &str) -> Vec<&str> {
    let parts = name.split(['/', std::path::MAIN_SEPARATOR, '!']);
    let mut parts: Vec<&str> = parts.filter(|p| !p.is_empty() && *p != ".").collect();
    parts.pop();
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_differ() {
        let of = |paths: &[&str]| {
            let paths: Vec<PathBuf> = paths.iter().map(PathBuf::from).collect();
            labels(&paths)
        };
        assert_eq!(of(&["x/trace.json"]), ["trace"]);
        assert_eq!(
            of(&["a/0/t.json", "b/0/t.json.gz", "c.json"]),
            ["a/0/t", "b/0/t", "c"]
        );
        assert_eq!(of(&["j.tar!a/t.json", "j.tar!b/t.json"]), ["a/t", "b/t"]);
        assert_eq!(
            of(&["x/t.json", "x/t.pftrace"]),
            ["x/t.json", "x/t.pftrace"]
        );
        assert_eq!(of(&["t.json", "a/t.json"]), ["t", "a/t"]);
        assert_eq!(of(&["t.json", "t.json"]), ["t.json", "t.json (2)"]);
    }
}
