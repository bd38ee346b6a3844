//! Tests paths, plain files, early ends and outputs.

use std::fs;
use std::io::{self, Read, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use crate::support::{drain, gzip, text};
use byte_source::output::AtomicFile;
use byte_source::{ChunkOptions, Error, OpenOptions, Progress, Source, expand_inputs};

fn open(path: &Path) -> Result<Source, Error> {
    Source::open(path, &OpenOptions::default())
}

#[test]
fn clear_errors_for_paths_without_bytes() {
    let directory = tempfile::tempdir().unwrap();
    let missing = directory.path().join("missing.json");
    assert_eq!(
        open(&missing).unwrap_err().to_string(),
        format!("{}: no such file: check the path", missing.display())
    );
    assert_eq!(
        open(directory.path()).unwrap_err().to_string(),
        format!(
            "{}: is a directory: name a file in it",
            directory.path().display()
        )
    );
    let empty = directory.path().join("empty.json");
    fs::write(&empty, b"").unwrap();
    assert!(matches!(open(&empty), Err(Error::Empty { .. })));
    let below_a_file = empty.join("x");
    assert!(matches!(open(&below_a_file), Err(Error::NotFound { .. })));
}

#[test]
fn random_access_from_several_threads() {
    let content = text(1_000_000);
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), &content).unwrap();
    let mut source = open(file.path()).unwrap();
    assert_eq!(source.head(100).unwrap(), &content[..100]);
    let access = source.random_access().unwrap();
    assert_eq!(access.len(), 1_000_000);
    let parts: Vec<Vec<u8>> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..4)
            .map(|part| {
                let access = &access;
                scope.spawn(move || {
                    let mut buffer = vec![0; 250_000];
                    let count = access.read_at(part * 250_000, &mut buffer).unwrap();
                    assert_eq!(count, 250_000);
                    buffer
                })
            })
            .collect();
        workers
            .into_iter()
            .map(|worker| worker.join().unwrap())
            .collect()
    });
    assert_eq!(parts.concat(), content);
    assert_eq!(drain(source).unwrap().0, content);
}

#[test]
fn a_file_that_shrinks_is_an_error_after_what_was_left() {
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), text(1 << 20)).unwrap();
    let source = open(file.path()).unwrap();
    file.as_file().set_len(300_000).unwrap();
    let mut options = ChunkOptions::default();
    options.size = 100_000;
    let mut chunks = source.into_chunks(options).unwrap();
    let mut kept = 0;
    let error = loop {
        match chunks.next() {
            Ok(Some(chunk)) => kept += chunk.len(),
            Ok(None) => panic!("{kept} bytes without an error"),
            Err(error) => break error,
        }
    };
    assert_eq!(kept, 300_000);
    match error {
        Error::Shrunk {
            expected, offset, ..
        } => {
            assert_eq!((expected, offset), (1 << 20, 300_000));
        }
        other => panic!("{other}"),
    }
}

#[test]
fn progress_counts_bytes_on_disk() {
    let packed = gzip(&text(500_000));
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), &packed).unwrap();
    let progress = Arc::new(Progress::default());
    let mut options = OpenOptions::default();
    options.progress = Some(Arc::clone(&progress));
    let source = Source::open(file.path(), &options).unwrap();
    assert_eq!(progress.total(), packed.len() as u64);
    drain(source).unwrap();
    assert_eq!(progress.done(), packed.len() as u64);
    assert_eq!(progress.fraction(), Some(1.0));
}

/// An endless stream that reports when it is dropped.
struct Endless(Sender<()>);

impl Read for Endless {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        buffer.fill(b'x');
        Ok(buffer.len())
    }
}

impl Drop for Endless {
    fn drop(&mut self) {
        let _ = self.0.send(());
    }
}

#[test]
fn the_thread_ends_when_the_consumer_goes() {
    let (dropped, was_dropped) = channel();
    let source = Source::from_reader("endless", Endless(dropped)).unwrap();
    let mut chunks = source.into_chunks(ChunkOptions::default()).unwrap();
    let kept = chunks.next().unwrap().unwrap();
    drop(chunks);
    was_dropped.recv_timeout(Duration::from_secs(60)).unwrap();
    assert_eq!(kept.len(), 1 << 20);
}

/// Returns a thousand good bytes, then panics, like a defect in a decompressor.
struct Defect(usize);

impl Read for Defect {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        assert!(self.0 > 0, "planted");
        let count = self.0.min(buffer.len());
        self.0 -= count;
        buffer[..count].fill(b'y');
        Ok(count)
    }
}

#[test]
fn a_panic_on_the_thread_is_an_error_here() {
    let source = Source::from_reader("defect", Defect(1000)).unwrap();
    let mut chunks = source.into_chunks(ChunkOptions::default()).unwrap();
    assert!(matches!(chunks.next(), Err(Error::ThreadDied { name }) if name == "defect"));
    assert!(chunks.next().unwrap().is_none());
}

#[test]
fn inputs_expand_in_a_stable_order() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path();
    for path in [
        "b/r1.json",
        "b/r0.json",
        "b/notes.txt",
        "b/.hidden.json",
        "a.json",
        "c/x.json",
    ] {
        fs::create_dir_all(root.join(path).parent().unwrap()).unwrap();
        fs::write(root.join(path), b"{}").unwrap();
    }
    let json = |path: &Path| path.extension().is_some_and(|suffix| suffix == "json");
    let expand = |inputs: &[PathBuf]| {
        expand_inputs(inputs, json).map(|files| {
            files
                .iter()
                .map(|file| {
                    file.strip_prefix(root)
                        .unwrap_or(file)
                        .display()
                        .to_string()
                })
                .collect::<Vec<_>>()
        })
    };
    assert_eq!(
        expand(&[
            root.join("c/x.json"),
            "-".into(),
            root.join("b"),
            root.join("b/notes.txt")
        ])
        .unwrap(),
        ["c/x.json", "-", "b/r0.json", "b/r1.json", "b/notes.txt"]
    );
    assert_eq!(
        expand(&[root.to_owned()]).unwrap(),
        ["a.json", "b/r0.json", "b/r1.json", "c/x.json"]
    );
    assert_eq!(
        expand(&[root.join("?/*.json")]).unwrap(),
        ["b/r0.json", "b/r1.json", "c/x.json"]
    );
    assert!(matches!(
        expand(&[root.join("*.csv")]),
        Err(Error::NoInputs { .. })
    ));
    assert!(matches!(
        expand(&[root.join("d.json")]),
        Err(Error::NotFound { .. })
    ));
    fs::create_dir(root.join("e")).unwrap();
    assert!(matches!(
        expand(&[root.join("e")]),
        Err(Error::NoInputs { .. })
    ));
}

fn names(directory: &Path) -> Vec<String> {
    let mut names: Vec<_> = fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

#[test]
fn outputs_appear_whole_or_not_at_all() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("out.csv");
    fs::write(&path, "old").unwrap();

    let mut file = AtomicFile::create(&path).unwrap();
    file.write_all(b"never finished").unwrap();
    assert!(file.temporary_path().unwrap().starts_with(directory.path()));
    assert_eq!(names(directory.path()).len(), 2);
    drop(file);
    assert_eq!(fs::read_to_string(&path).unwrap(), "old");
    assert_eq!(names(directory.path()), ["out.csv"]);

    let mut file = AtomicFile::create(&path).unwrap();
    file.write_all(b"new").unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), "old");
    file.commit().unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), "new");
    assert_eq!(names(directory.path()), ["out.csv"]);
}

#[test]
fn outputs_need_their_directory() {
    let directory = tempfile::tempdir().unwrap();
    let missing = directory.path().join("no/such");
    match AtomicFile::create(missing.join("out.csv")) {
        Err(Error::NoDirectory { directory, .. }) => {
            assert_eq!(directory, missing.display().to_string());
        }
        other => panic!("{other:?}"),
    }
    assert!(matches!(
        AtomicFile::create(directory.path()),
        Err(Error::Directory { .. })
    ));
}

#[cfg(unix)]
mod unix {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o7777
    }

    #[test]
    fn outputs_have_the_modes_one_expects() {
        let directory = tempfile::tempdir().unwrap();
        let (plain, made) = (
            directory.path().join("plain"),
            directory.path().join("made"),
        );
        fs::write(&plain, "").unwrap();
        AtomicFile::create(&made).unwrap().commit().unwrap();
        assert_eq!(mode(&made), mode(&plain));

        fs::set_permissions(&made, fs::Permissions::from_mode(0o640)).unwrap();
        AtomicFile::create(&made).unwrap().commit().unwrap();
        assert_eq!(mode(&made), 0o640);
    }

    #[test]
    fn links_stay_links_and_devices_stay_devices() {
        let directory = tempfile::tempdir().unwrap();
        let (real, link) = (directory.path().join("real"), directory.path().join("link"));
        fs::write(&real, "old").unwrap();
        symlink(&real, &link).unwrap();
        let mut file = AtomicFile::create(&link).unwrap();
        file.write_all(b"new").unwrap();
        file.commit().unwrap();
        assert!(link.is_symlink());
        assert_eq!(fs::read_to_string(&real).unwrap(), "new");

        let mut file = AtomicFile::create("/dev/null").unwrap();
        assert!(file.temporary_path().is_none());
        file.write_all(b"gone").unwrap();
        file.commit().unwrap();
        assert!(!fs::metadata("/dev/null").unwrap().is_file());
    }

    #[test]
    fn pipes_are_read_like_files() {
        let (mut writer, reader) = {
            let (reader, writer) = io::pipe().unwrap();
            (writer, reader)
        };
        let content = gzip(&text(200_000));
        let feeding = std::thread::spawn(move || writer.write_all(&content).unwrap());
        let source = Source::from_reader("pipe", reader).unwrap();
        assert!(source.random_access().is_none());
        assert_eq!(drain(source).unwrap().0, text(200_000));
        feeding.join().unwrap();
    }
}
