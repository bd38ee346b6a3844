//! Checks that `testdata/` and its manifest agree: every file listed, every hash right, no other
//! files.

use super::Tree;
use crate::dataset::manifest;
use anyhow::{Context as _, Result};

pub(super) fn check(tree: &mut Tree) -> Result<()> {
    let folder = tree.root.join("testdata");
    let text = std::fs::read_to_string(folder.join(manifest::NAME))
        .context("reading testdata/MANIFEST.json")?;
    let entries = manifest::parse(&text)?;
    for file in manifest::files(&folder)? {
        if file != manifest::NAME && !entries.iter().any(|entry| entry.path == file) {
            tree.broken(
                format!("testdata/{file}"),
                "is not in the manifest; fixtures come from `cargo xtask dataset generate`",
            );
        }
    }
    for entry in entries {
        let place = format!("testdata/{}", entry.path);
        match std::fs::read(folder.join(&entry.path)) {
            Err(_) => tree.broken(place, "is in the manifest and not in the folder"),
            Ok(bytes) if manifest::sha256(&bytes) != entry.sha256 => {
                tree.broken(place, "is not what the manifest says")
            }
            Ok(_) => {}
        }
    }
    Ok(())
}
