//! Properties of the collecting machine: free space and name.

use std::path::Path;
use std::process::Command;

use crate::doctor::system_text;

/// Returns the free bytes at the nearest existing ancestor, from `df`.
pub(crate) fn free_bytes(path: &Path) -> Option<u64> {
    let place = path.ancestors().find(|place| place.exists())?;
    let output = Command::new("df")
        .args(["-B1", "--output=avail"])
        .arg(if place.as_os_str().is_empty() {
            Path::new(".")
        } else {
            place
        })
        .output()
        .ok()?;
    String::from_utf8_lossy(&output.stdout)
        .lines()
        .nth(1)?
        .trim()
        .parse()
        .ok()
}

/// Returns the host name as a folder name: up to the first dot, lower case, other characters as
/// hyphens.
pub(super) fn machine_slug() -> String {
    let name = system_text("/proc/sys/kernel/hostname").unwrap_or_default();
    let short = name.split('.').next().unwrap_or_default().to_lowercase();
    let mut slug = String::new();
    for char in short.chars() {
        if char.is_ascii_lowercase() || char.is_ascii_digit() {
            slug.push(char);
        } else if !slug.ends_with('-') {
            slug.push('-');
        }
    }
    match slug.trim_matches('-') {
        "" => "unknown-host".to_owned(),
        slug => slug.to_owned(),
    }
}
