//! Paths that may be read.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail, ensure};

/// Maximum number of entries below a folder that are checked before it is read.
const ENTRIES: usize = 100_000;

/// Folders and files given at start, without symbolic links.
#[derive(Debug)]
pub(crate) struct Roots(Vec<PathBuf>);

impl Roots {
    pub(crate) fn new(given: &[PathBuf]) -> anyhow::Result<Self> {
        let real = |path: &PathBuf| {
            path.canonicalize()
                .with_context(|| format!("{}: name a folder that exists", path.display()))
        };
        Ok(Self(given.iter().map(real).collect::<Result<_, _>>()?))
    }

    /// Returns a path without symbolic links, if all that is read with it lies in the roots. A relative path is one in a root.
    ///
    /// Folders are searched for links and lists of databases that lead out of the roots, because the tools would follow them.
    pub(crate) fn allow(&self, text: &str) -> anyhow::Result<PathBuf> {
        ensure!(
            !text.is_empty() && text != "-" && !text.contains(['*', '?', '!']),
            "{text:?}: name a file or a folder"
        );
        let path = Path::new(text);
        let candidates = self.0.iter().map(|root| match root.is_dir() {
            true => root.join(path),
            // Joining would make a folder of the file.
            false => path.to_owned(),
        });
        // The same text for what is missing and what is elsewhere, so that nothing is learnt of files outside.
        let found = candidates
            .filter_map(|path| path.canonicalize().ok())
            .find(|real| self.holds(real));
        let Some(real) = found else {
            bail!(
                "{text}: no such file in the folders of this server: {}",
                self.names()
            );
        };
        self.check(&real)?;
        Ok(real)
    }

    fn names(&self) -> String {
        let names = self.0.iter().map(|root| root.display().to_string());
        names.collect::<Vec<_>>().join(", ")
    }

    fn holds(&self, real: &Path) -> bool {
        self.0.iter().any(|root| real.starts_with(root))
    }

    /// Checks everything below a folder, and a list of databases.
    fn check(&self, real: &Path) -> anyhow::Result<()> {
        let mut folders = vec![real.to_owned()];
        let mut entries = 0;
        if !real.is_dir() {
            folders.clear();
            self.check_list(real)?;
            // Companions are looked for beside a file.
            folders.extend(
                real.parent()
                    .filter(|parent| self.holds(parent))
                    .map(Path::to_owned),
            );
        }
        let deep = real.is_dir();
        while let Some(folder) = folders.pop() {
            let list = fs::read_dir(&folder).with_context(|| folder.display().to_string())?;
            for entry in list {
                let entry = entry.with_context(|| folder.display().to_string())?;
                entries += 1;
                ensure!(
                    entries <= ENTRIES,
                    "{}: more than {ENTRIES} files: name a folder with fewer",
                    real.display()
                );
                let path = entry.path();
                let kind = entry.file_type()?;
                if kind.is_symlink() {
                    let leads_out = path.canonicalize().is_ok_and(|target| !self.holds(&target));
                    ensure!(
                        !leads_out,
                        "{}: a link that leads out of the folders of this server",
                        path.display()
                    );
                } else if kind.is_dir() && deep {
                    folders.push(path);
                } else {
                    self.check_list(&path)?;
                }
            }
        }
        Ok(())
    }

    /// Refuses a list of databases that names others than its neighbours.
    fn check_list(&self, path: &Path) -> anyhow::Result<()> {
        let is_list = path
            .extension()
            .is_some_and(|ending| ending == "yaml" || ending == "yml");
        if !is_list || !path.is_file() {
            return Ok(());
        }
        let text = fs::read_to_string(path).with_context(|| path.display().to_string())?;
        let leads_out = text
            .split(|letter: char| letter.is_whitespace() || "\"',[]{}".contains(letter))
            .any(|word| {
                let target = Path::new(word);
                let leads = target.is_absolute()
                    || target
                        .components()
                        .any(|part| part == std::path::Component::ParentDir);
                let base = path.parent().unwrap_or(path);
                leads
                    && !base
                        .join(target)
                        .canonicalize()
                        .is_ok_and(|real| self.holds(&real))
            });
        ensure!(
            !leads_out,
            "{}: a list that names files outside of the folders of this server",
            path.display()
        );
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_leads_out_of_the_roots() {
        let all = tempfile::tempdir().unwrap();
        let at = |name: &str| all.path().join(name);
        for folder in ["in/deep", "in/links", "in/package", "out"] {
            fs::create_dir_all(at(folder)).unwrap();
        }
        fs::write(at("in/deep/a.json"), "{}").unwrap();
        fs::write(at("out/secret.json"), "{}").unwrap();
        std::os::unix::fs::symlink(at("out/secret.json"), at("in/links/b.json")).unwrap();
        std::os::unix::fs::symlink(at("out"), at("in/outside")).unwrap();
        std::os::unix::fs::symlink(at("in/deep/a.json"), at("in/deep/again.json")).unwrap();
        fs::write(at("in/package/index.yaml"), "- ../../out/secret.db\n").unwrap();
        let roots = Roots::new(&[at("in")]).unwrap();
        let real = at("in/deep/a.json").canonicalize().unwrap();
        for good in [
            "deep/a.json",
            "deep/again.json",
            "deep",
            "./deep/../deep/a.json",
        ] {
            assert!(roots.allow(good).is_ok(), "{good}");
        }
        assert_eq!(roots.allow("deep/a.json").unwrap(), real);
        assert_eq!(roots.allow(&real.to_string_lossy()).unwrap(), real);
        for bad in [
            "",
            "-",
            "deep/*.json",
            "../out/secret.json",
            "links/b.json",
            "links",
            "outside/secret.json",
            "outside",
            "package",
            "package/index.yaml",
            ".",
            "/etc/passwd",
            "missing.json",
        ] {
            assert!(roots.allow(bad).is_err(), "{bad}");
        }
        let error = |path: &str| roots.allow(path).unwrap_err().to_string();
        assert_eq!(
            error("/etc/passwd").replace("/etc/passwd", "X"),
            error("/etc/none").replace("/etc/none", "X")
        );
        assert!(Roots::new(&[at("none")]).is_err());
    }
}
