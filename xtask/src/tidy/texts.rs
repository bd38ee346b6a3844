//! Rules for all texts: nothing about the machine on which they were written, and no unused
//! command.

use super::Tree;
use crate::CHORES;

/// Paths of a developer's machine and names of package registries. Assembled here, so that this
/// file does not contain them.
const FOREIGN: &[&str] = &[
    concat!("/wo", "rk/"),
    concat!("/ro", "ot/"),
    concat!("/ho", "me/"),
    concat!("crates", ".io"),
    concat!("py", "pi.org"),
];

pub(super) fn check(tree: &mut Tree) {
    // Lock files necessarily name the registry.
    for file in tree.matching(|file| !file.ends_with("Cargo.lock")) {
        let Some(text) = tree.text(&file) else {
            continue;
        };
        for (number, line) in (1..).zip(text.lines()) {
            for foreign in FOREIGN.iter().filter(|foreign| line.contains(**foreign)) {
                tree.broken(
                    format!("{file}:{number}"),
                    format!("{foreign} says nothing to a reader elsewhere"),
                );
            }
        }
    }
    let told =
        tree.matching(|file| file == "README.md" || file == ".ci/run" || file.starts_with("docs/"));
    let told: String = told.iter().filter_map(|file| tree.text(file)).collect();
    for (name, ..) in CHORES {
        if !told.contains(&format!("xtask {name}")) {
            tree.broken(
                "xtask/src/main.rs",
                format!("nobody calls or explains `cargo xtask {name}`"),
            );
        }
    }
}
