//! Locates the published recordings and reference tables that tests compare with.
//!
//! They are not part of the repository. `INFERSCOPE_DATA` names their folder; without it, `../shared/data` beside the
//! workspace is used. A test that needs them carries `#[ignore = "needs INFERSCOPE_DATA"]`, so that a plain `cargo test`
//! lists it as ignored instead of passing it, and fails if it is run while they are absent.
//!
//! ```no_run
//! let traces = test_data::reference("perfetto").join("traces");
//! ```

use std::path::{Path, PathBuf};
use std::process::Command;

/// Returns the folder `name` of the reference data.
///
/// # Panics
///
/// If the folder does not exist: a comparison with absent data must not pass.
pub fn reference(name: &str) -> PathBuf {
    let root = root();
    let folder = root.join(name);
    assert!(
        folder.is_dir(),
        "no reference data at {}: set INFERSCOPE_DATA to the folder that holds `{name}`",
        folder.display()
    );
    folder
}

/// Returns the folder of all reference data, which need not exist.
pub fn root() -> PathBuf {
    std::env::var_os("INFERSCOPE_DATA").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data"),
        PathBuf::from,
    )
}

/// Returns a command of `program` that may not read what is closed to all: the superuser, to whom nothing is closed, runs a
/// copy in the folder `place` as a user without rights.
///
/// # Panics
///
/// If the copy cannot be made: what is not tried must not pass.
#[cfg(unix)]
pub fn unprivileged(program: &Path, place: &Path) -> Command {
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
    use std::os::unix::process::CommandExt as _;
    const NOBODY: u32 = 65_534;
    let own = std::fs::metadata(place).unwrap_or_else(|error| panic!("{error}: {place:?}"));
    if own.uid() != 0 {
        return Command::new(program);
    }
    let open = std::fs::Permissions::from_mode(0o755);
    let copy = place.join("program");
    std::fs::set_permissions(place, open.clone())
        .and_then(|()| std::fs::copy(program, &copy))
        .and_then(|_| std::fs::set_permissions(&copy, open))
        .unwrap_or_else(|error| panic!("{error}: {copy:?}"));
    let mut command = Command::new(copy);
    command.uid(NOBODY).gid(NOBODY).current_dir("/");
    command
}

#[cfg(test)]
mod tests {
    #[test]
    #[should_panic(expected = "set INFERSCOPE_DATA")]
    fn an_absent_folder_fails_the_test_that_asks_for_it() {
        super::reference("no-such-folder");
    }
}
