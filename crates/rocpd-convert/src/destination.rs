//! Names of output files.

use std::path::{Path, PathBuf};

use crate::{Error, Result};

/// Folder and base name that the files of a conversion share.
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// # let folder = dir.path();
/// let to = rocpd_convert::Destination::new(folder, "run", ["measured.db"]);
/// assert_eq!(to.file("results.pftrace")?, folder.join("run_results.pftrace"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct Destination {
    folder: PathBuf,
    base: String,
    inputs: Vec<PathBuf>,
}

impl Destination {
    /// Creates a destination. Files go to `folder`, which is created with the first one, under
    /// names that begin with `base`, which may contain folders. No file is written over one of
    /// `inputs`.
    pub fn new<P: AsRef<Path>>(
        folder: impl Into<PathBuf>,
        base: impl Into<String>,
        inputs: impl IntoIterator<Item = P>,
    ) -> Self {
        Self {
            folder: folder.into(),
            base: base.into(),
            inputs: inputs
                .into_iter()
                .filter_map(|path| path.as_ref().canonicalize().ok())
                .collect(),
        }
    }

    /// Returns the base name.
    #[must_use]
    pub fn base(&self) -> &str {
        &self.base
    }

    /// Returns the folder.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns the path of `<base>_<rest>`, or of `<rest>` if the base is empty, and creates its
    /// folder.
    ///
    /// # Errors
    ///
    /// Returns [`Error::File`] if the folder cannot be created, [`Error::OverInput`] if the file is
    /// one of the inputs.
    pub fn file(&self, rest: &str) -> Result<PathBuf> {
        self.place(match self.base.is_empty() {
            true => rest.to_owned(),
            false => format!("{}_{rest}", self.base),
        })
    }

    /// Returns the path of `<base>.<extension>`, and creates its folder.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Self::file`].
    pub fn with_extension(&self, extension: &str) -> Result<PathBuf> {
        self.place(format!("{}.{extension}", self.base))
    }

    fn place(&self, name: String) -> Result<PathBuf> {
        let path = self.folder.join(name);
        let failed = |path: &Path, step, source| Error::File {
            path: path.to_owned(),
            step,
            source,
        };
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent)
                .map_err(|source| failed(parent, "cannot make the folder", source))?;
        }
        if let Ok(there) = path.canonicalize()
            && self.inputs.contains(&there)
        {
            return Err(Error::OverInput(path));
        }
        std::path::absolute(&path).map_err(|source| failed(&path, "has no absolute path", source))
    }
}
