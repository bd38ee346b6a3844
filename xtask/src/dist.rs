//! Builds the shipped archive: one executable, a link for each tool, completions, manual pages,
//! checksums.

use crate::options::Options;
use crate::workspace::{capture, cargo, root, run as run_command};
use anyhow::{Context as _, Result};
use flate2::Compression;
use flate2::write::GzEncoder;
use sha2::{Digest as _, Sha256};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Location of completions for each shell, below the prefix of an installation.
const COMPLETIONS: &[(&str, &str)] = &[
    ("bash", "share/bash-completion/completions/inferscope"),
    ("fish", "share/fish/vendor_completions.d/inferscope.fish"),
    ("zsh", "share/zsh/site-functions/_inferscope"),
];

/// Files of the workspace that are included.
const TEXTS: &[&str] = &["README.md", "CHANGELOG.md", "LICENSE-MIT", "LICENSE-APACHE"];

/// `cargo xtask dist [--profile NAME]`: writes `target/dist/archive/inferscope-VERSION-HOST.tar.gz` and its checksum.
pub(crate) fn run(args: &[String]) -> Result<()> {
    let options = Options::parse(args, &[], &["profile"])?;
    let profile = options.value("profile").unwrap_or("dist");
    run_command(&mut cargo(&[
        "build",
        "-p",
        "inferscope",
        "--profile",
        profile,
    ]))?;
    let folder = root().join("target").join(match profile {
        "dev" => "debug",
        name => name,
    });
    let name = format!("inferscope-{}-{}", env!("CARGO_PKG_VERSION"), host()?);
    let out = root().join("target/dist/archive");
    let stage = out.join(&name);
    if stage.exists() {
        fs::remove_dir_all(&stage)?;
    }
    let executable = stage
        .join("bin")
        .join(format!("inferscope{}", std::env::consts::EXE_SUFFIX));
    copy(
        &folder.join(executable.file_name().unwrap_or_default()),
        &executable,
    )?;
    let call = |words: &[&str]| capture(Command::new(&executable).args(words));
    call(&["links", &stage.join("bin").to_string_lossy()])?;
    call(&["manual", &stage.join("share/man/man1").to_string_lossy()])?;
    for (shell, place) in COMPLETIONS {
        write(&stage.join(place), &call(&["completions", shell])?)?;
    }
    for text in TEXTS {
        copy(&root().join(text), &stage.join(text))?;
    }
    let mut sums = String::new();
    for file in files(&stage)? {
        let shown = file.strip_prefix(&stage)?.display().to_string();
        writeln!(sums, "{}  {shown}", digest(&file)?)?;
    }
    write(&stage.join("SHA256SUMS"), sums.as_bytes())?;
    let archive = out.join(format!("{name}.tar.gz"));
    pack(&stage, &name, &archive)?;
    let sum = format!("{}  {name}.tar.gz\n", digest(&archive)?);
    write(&out.join(format!("{name}.tar.gz.sha256")), sum.as_bytes())?;
    println!(
        "{}: {} bytes; executable {} bytes",
        archive.display(),
        fs::metadata(&archive)?.len(),
        fs::metadata(&executable)?.len()
    );
    Ok(())
}

/// Returns the target triple of the compiler.
fn host() -> Result<String> {
    let text = capture(Command::new("rustc").arg("-vV"))?;
    let text = String::from_utf8(text)?;
    let host = text.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(host.context("rustc -vV names no host")?.to_owned())
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    if let Some(folder) = to.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::copy(from, to).with_context(|| from.display().to_string())?;
    Ok(())
}

fn write(to: &Path, bytes: &[u8]) -> Result<()> {
    if let Some(folder) = to.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::write(to, bytes).with_context(|| to.display().to_string())
}

fn digest(file: &Path) -> Result<String> {
    let mut hash = Sha256::new();
    std::io::copy(&mut fs::File::open(file)?, &mut hash)?;
    Ok(format!("{:x}", hash.finalize()))
}

/// Returns the plain files below a folder, sorted; links are left out, because they have no
/// contents of their own.
fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let kind = entry.file_type()?;
        if kind.is_dir() {
            found.extend(files(&entry.path())?);
        } else if kind.is_file() {
            found.push(entry.path());
        }
    }
    found.sort();
    Ok(found)
}

/// Packs a folder so that the same content gives the same bytes: sorted, without owners and times.
fn pack(folder: &Path, name: &str, archive: &Path) -> Result<()> {
    let out = GzEncoder::new(fs::File::create(archive)?, Compression::best());
    let mut tar = tar::Builder::new(out);
    tar.mode(tar::HeaderMode::Deterministic);
    tar.follow_symlinks(false);
    append(&mut tar, folder, Path::new(name))?;
    tar.into_inner()?.finish()?.sync_all()?;
    Ok(())
}

fn append<W: std::io::Write>(tar: &mut tar::Builder<W>, from: &Path, to: &Path) -> Result<()> {
    let mut entries: Vec<_> = fs::read_dir(from)?.collect::<std::io::Result<_>>()?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let place = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            append(tar, &entry.path(), &place)?;
        } else {
            tar.append_path_with_name(entry.path(), &place)?;
        }
    }
    Ok(())
}
