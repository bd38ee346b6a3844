//! Rules for Rust files: size, module docs, no stubs, reasons for exceptions, no catch-all modules.

use super::{Tree, is_test};

/// Number of lines from which a file should be checked for a single purpose.
const LONG: usize = 600;
/// Maximum number of lines of a file.
const TOO_LONG: usize = 800;

/// Text that no source file may contain. Assembled here, so that this file does not contain it.
const STUBS: &[&str] = &[
    concat!("to", "do!("),
    concat!("unimple", "mented!("),
    concat!("d", "bg!("),
];

/// The only accepted reasons for ignoring a test in a plain `cargo test`: CI runs those with the data, and those with a tool.
const IGNORED: [&str; 3] = [
    concat!("#[ig", "nore = \"needs INFERSCOPE_DATA\"]"),
    concat!("#[ig", "nore = \"needs otf2-print (Debian: otf2-tools)\"]"),
    concat!("#[ig", "nore = \"needs chromium (Debian: chromium)\"]"),
];

/// Names of catch-all modules.
const DRAWERS: &[&str] = &["utils", "util", "common", "misc", "helpers"];

/// APIs that the trace store must not use.
const NOT_IN_MODEL: &[&str] = &["std::fs", "std::io", "println!(", "eprintln!("];

pub(super) fn check(tree: &mut Tree) {
    for file in tree.matching(|file| file.ends_with(".rs")) {
        let Some(text) = tree.text(&file) else {
            tree.broken(&file, "is no UTF-8");
            continue;
        };
        let lines = text.lines().count();
        if !is_test(&file) {
            if lines > TOO_LONG {
                tree.broken(
                    &file,
                    format!("{lines} lines; the limit is {TOO_LONG}: one idea per module"),
                );
            } else if lines > LONG {
                tree.advice
                    .push(format!("{file} has {lines} lines: still one idea?"));
            }
            if !text.trim_start().starts_with("//!") {
                tree.broken(&file, "does not start with a module doc (//!)");
            }
        }
        for stub in STUBS {
            for line in lines_with(&text, stub) {
                tree.broken(
                    format!("{file}:{line}"),
                    format!("{stub} is not left in the tree"),
                );
            }
        }
        for line in lines_with(&text, concat!("#[ig", "nore")) {
            let found = text.lines().nth(line - 1).map(str::trim);
            if !found.is_some_and(|found| IGNORED.contains(&found)) {
                tree.broken(
                    format!("{file}:{line}"),
                    format!("write {}", IGNORED.join(" or ")),
                );
            }
        }
        for line in expectations_without_reason(&text) {
            tree.broken(
                format!("{file}:{line}"),
                "an expected lint without a reason",
            );
        }
        for (number, line) in (1..).zip(text.lines()) {
            if drawer(line) {
                tree.broken(
                    format!("{file}:{number}"),
                    "name a module for what it holds",
                );
            }
        }
        if file.starts_with("crates/trace-model/src/") {
            for word in NOT_IN_MODEL {
                for line in lines_with(&text, word) {
                    tree.broken(
                        format!("{file}:{line}"),
                        format!("trace-model does no input or output ({word})"),
                    );
                }
            }
        }
    }
}

fn lines_with(text: &str, what: &str) -> Vec<usize> {
    let code = |line: &str| !line.trim_start().starts_with("//") && line.contains(what);
    (1..)
        .zip(text.lines())
        .filter(|(_, line)| code(line))
        .map(|(number, _)| number)
        .collect()
}

fn drawer(line: &str) -> bool {
    let line = line.trim_start();
    let line = line
        .split_once("mod ")
        .filter(|(before, _)| before.is_empty() || before.starts_with("pub"))
        .map(|(_, name)| name);
    line.and_then(|name| name.split([';', ' ', '{']).next())
        .is_some_and(|name| DRAWERS.contains(&name))
}

/// Returns the lines of `#[expect(…)]` attributes without a reason.
fn expectations_without_reason(text: &str) -> Vec<usize> {
    let mut found = Vec::new();
    for opening in ["#[expect(", "#![expect("] {
        for (at, _) in text.match_indices(opening) {
            let line =
                text[..at].lines().count() + usize::from(text[..at].ends_with('\n') || at == 0);
            let before = text[..at].rsplit('\n').next().unwrap_or_default();
            let attribute = text[at..].split("]\n").next().unwrap_or_default();
            if before.trim().is_empty() && !attribute.contains("reason") {
                found.push(line);
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::{drawer, expectations_without_reason, lines_with};

    #[test]
    fn an_expected_lint_needs_a_reason() {
        let text = "\n#[expect(a, reason = \"b\")]\nfn x() {}\n\n#[expect(\n    c\n)]\nfn y() {}\n";
        assert_eq!(expectations_without_reason(text), [5]);
    }

    #[test]
    fn drawers_are_seen_and_comments_are_not_code() {
        assert!(drawer("pub(crate) mod utils;"));
        assert!(drawer("mod common {"));
        assert!(!drawer("mod commonly;"));
        assert!(!drawer("let model = utils;"));
        assert_eq!(lines_with("a\n// std::fs\nuse std::fs;\n", "std::fs"), [3]);
    }
}
