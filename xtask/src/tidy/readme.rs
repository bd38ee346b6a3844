//! Checks that a crate's README equals its crate doc: one text, kept in the source file.

use super::Tree;
use anyhow::{Context as _, Result};

/// Returns the library crates: folder, source of the doc.
fn crates(tree: &Tree) -> Vec<(String, String)> {
    let lib = |file: &&String| {
        file.strip_prefix("crates/")
            .and_then(|rest| rest.strip_suffix("/src/lib.rs"))
            .is_some_and(|name| !name.contains('/'))
    };
    tree.files
        .iter()
        .filter(lib)
        .map(|file| {
            (
                file.trim_end_matches("/src/lib.rs").to_owned(),
                file.clone(),
            )
        })
        .collect()
}

pub(super) fn check(tree: &mut Tree) {
    for (folder, source) in crates(tree) {
        let readme = format!("{folder}/README.md");
        let (Some(source), Some(text)) = (tree.text(&source), tree.text(&readme)) else {
            tree.broken(
                &readme,
                "is missing; `cargo xtask tidy --fix` makes it from the crate doc",
            );
            continue;
        };
        if essence(&text) != essence(&doc(&source)) {
            tree.broken(
                &readme,
                "differs from the crate doc; change lib.rs, then `cargo xtask tidy --fix`",
            );
        }
    }
}

/// Rewrites each README that differs.
pub(super) fn fix(tree: &Tree) -> Result<()> {
    for (folder, source) in crates(tree) {
        let source = tree.text(&source).context("a crate's lib.rs is no text")?;
        let path = tree.root.join(&folder).join("README.md");
        let name = folder.rsplit('/').next().unwrap_or(&folder);
        if std::fs::read_to_string(&path).is_ok_and(|text| essence(&text) == essence(&doc(&source)))
        {
            continue;
        }
        std::fs::write(&path, render(name, &doc(&source)))?;
        println!("{folder}/README.md written");
    }
    Ok(())
}

/// Returns the text of the `//!` lines at the top.
fn doc(source: &str) -> String {
    let lines = source
        .lines()
        .skip_while(|line| !line.starts_with("//!"))
        .take_while(|line| line.starts_with("//!"));
    lines.fold(String::new(), |text, line| {
        let line = line.strip_prefix("//!").unwrap_or(line);
        text + line.strip_prefix(' ').unwrap_or(line).trim_end() + "\n"
    })
}

fn render(name: &str, doc: &str) -> String {
    let mut text = if doc.starts_with("# ") {
        String::new()
    } else {
        format!("# {name}\n\n")
    };
    let mut code = false;
    for line in doc.lines() {
        let fence = line.starts_with("```");
        if !(code && hidden(line)) {
            let line = if fence && !code && line == "```" {
                "```rust"
            } else {
                line
            };
            text.push_str(&if code {
                line.to_owned()
            } else {
                plain_links(line)
            });
            text.push('\n');
        }
        code ^= fence;
    }
    text
}

/// Returns `true` for a line of an example that rustdoc hides.
fn hidden(line: &str) -> bool {
    line.trim() == "#" || line.trim_start().starts_with("# ")
}

/// Converts links that only rustdoc resolves to plain code.
fn plain_links(line: &str) -> String {
    line.replace("[`", "`").replace("`]", "`")
}

/// Returns the compared part: words, without title, indentation, hidden lines, the language of an
/// example and links into the code.
fn essence(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut code = false;
    for (number, line) in text.lines().enumerate() {
        let fence = line.trim_start().starts_with("```");
        let title = number == 0 && line.starts_with("# ");
        let skip = title || fence || (code && hidden(line));
        if !skip {
            words.extend(plain_links(line).split_whitespace().map(str::to_owned));
        }
        code ^= fence;
    }
    words
}

#[cfg(test)]
mod tests {
    use super::{doc, essence, render};

    #[test]
    fn a_readme_made_from_the_doc_agrees_with_it() {
        let source = "//! Reads [`Thing`]s.\n//!\n//! ```\n//! # use a::b;\n//! let x = 1;\n//!\n//! if x {\n//!     y();\n//! }\n//! ```\nmod a;\n";
        let readme = render("thing", &doc(source));
        assert!(
            readme.starts_with("# thing\n\nReads `Thing`s.\n\n```rust\nlet x = 1;\n"),
            "{readme}"
        );
        assert_eq!(essence(&readme), essence(&doc(source)));
        assert_ne!(
            essence(&readme),
            essence(&doc(&source.replace("Reads", "Writes")))
        );
    }
}
