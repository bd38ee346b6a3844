//! Expands paths to trace files.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use byte_source::remote::{exists, is_dir, is_file, is_url};
use byte_source::{Error, OpenOptions, Source, expand_inputs, logical_name};
use cli::{OrExit as _, VerbosityArgs};
use trace_model::parallel::in_parallel;

use crate::left_out::LeftOut;
use crate::{nsys, rocprof};

/// Suffixes of trace names, without compression suffix.
const ENDINGS: [&str; 8] = [
    ".json",
    ".pftrace",
    ".perfetto-trace",
    ".pb",
    ".trace",
    ".db",
    ".sqlite",
    ".sqlite3",
];

/// Returns `true` if this is the name of a trace. Compression suffixes are ignored. Of the tables that rocprofv3 writes for a process,
/// one stands for all.
pub fn is_trace(path: &Path) -> bool {
    path.file_name()
        .and_then(|name| name.to_str())
        .is_some_and(|name| {
            let name = logical_name(name).to_ascii_lowercase();
            ENDINGS.iter().any(|end| name.ends_with(end))
                || (name.ends_with(".csv") && rocprof::is_first(path))
        })
}

/// Returns the name of a trace in tables: its file name without format suffixes.
///
/// ```
/// assert_eq!(trace_input::short_name("run/rank0.pt.trace.json.gz"), "rank0.pt.trace");
/// ```
pub fn short_name(name: &str) -> &str {
    let name = logical_name(name);
    let stem = |end: &&str| name.strip_suffix(end).filter(|stem| !stem.is_empty());
    ENDINGS.iter().find_map(stem).unwrap_or(name)
}

/// Expands folders and archives of several files to the traces in them, and patterns to their
/// matches; files stay as they are. A rocPD package (a folder with an `index.yaml`, or such an
/// index) stays one path: [`read`](crate::read()) makes one trace of its databases.
///
/// JSON files in a folder or archive that contain no events (reports, manifests, answers) are left
/// out, and their number is reported on standard error. A file that is named explicitly is always
/// kept.
///
/// # Errors
///
/// Returns an error if a folder or pattern contains no traces, or cannot be listed. A missing file
/// is left to its reader.
pub fn expand(given: &[PathBuf], verbosity: VerbosityArgs) -> anyhow::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let mut others = Vec::new();
    let mut left_out = LeftOut::default();
    for path in given {
        // Standard input, even if a file has that name.
        if path.as_os_str() == "-" || is_package(path) || nsys::is_parquet_folder(path) {
            files.push(path.clone());
            continue;
        }
        let is_folder = is_dir(path);
        if !is_folder && !is_pattern(path) {
            let members = members(path, &mut others, verbosity);
            if members.is_empty() {
                // A missing file must not hide the others: its reader reports it.
                files.push(path.clone());
            } else {
                files.extend(members);
            }
            continue;
        }
        let accept = |file: &Path| {
            // Objects are looked at below, several at once.
            let is_trace = is_trace(file) && (is_url(file) || nsys::may_be_recording(file));
            if !is_trace {
                left_out.add(file);
            }
            is_trace
        };
        // Each is one trace; the other files of the folder are read as well.
        let folders = match is_folder {
            true => nsys::parquet_folders(path),
            false => Vec::new(),
        };
        if let Some(error) = nsys_db::arrow_folder(path) {
            return Err(error.into());
        }
        let found = match expand_inputs([path], accept) {
            Err(Error::NoInputs { .. }) if !folders.is_empty() => Ok(Vec::new()),
            Err(Error::NoInputs { .. }) => Err(nothing_in(path)),
            found => found.map_err(anyhow::Error::new),
        };
        let found = found.inspect_err(|_| {
            for sentence in left_out.sentences() {
                verbosity.note(format!("note: {sentence}"));
            }
        })?;
        if !is_folder {
            files.extend(found);
            continue;
        }
        let before = files.len();
        files.extend(folders);
        let copies = copies(&found);
        for copy in &copies {
            verbosity.note(format!(
                "note: left out {}: it holds the same recording as the .trace.json.gz next to it",
                copy.display()
            ));
        }
        let looked = at_once(&found, |file| {
            (
                without_events(file),
                !is_url(file) || nsys::may_be_recording(file),
            )
        });
        for (file, (is_without, may_be_recording)) in found.into_iter().zip(looked) {
            if !may_be_recording {
                left_out.add(&file);
                continue;
            }
            if copies.contains(&file) {
                continue;
            }
            if is_without {
                others.push(file);
            } else {
                files.push(file);
            }
        }
        if files.len() == before {
            return Err(nothing_in(path));
        }
    }
    for sentence in left_out.sentences() {
        verbosity.note(format!("note: {sentence}"));
    }
    if let Some(first) = others.first() {
        let (first, count) = (first.display(), others.len());
        let files = if count == 1 { "file" } else { "files" };
        verbosity.note(format!(
            "note: left out {count} JSON {files} without trace events: {first}{}",
            if count > 1 { ", ..." } else { "" }
        ));
    }
    Ok(files)
}

/// Returns why a folder holds no trace, where there is more to say than that: a folder of Arrow files of Nsight Systems, reports
/// that are not exported. For tools that search folders by themselves.
pub fn explain_folder(folder: &Path) -> Option<String> {
    if let Some(error) = nsys_db::arrow_folder(folder) {
        return Some(error.to_string());
    }
    let mut left_out = LeftOut::default();
    let accept = |file: &Path| {
        left_out.add(file);
        false
    };
    // Nothing is accepted, so that the result is known.
    _ = expand_inputs([folder], accept);
    let sentences = left_out.sentences();
    (!sentences.is_empty()).then(|| format!("{}: {}", folder.display(), sentences.join("; ")))
}

/// Returns the files that are another form of a recording of JAX in their folder: its conversion for Perfetto, and the
/// XSpace that both were made of.
fn copies(found: &[PathBuf]) -> Vec<PathBuf> {
    let is_copy = |path: &Path| {
        let name = path.file_name().map(|name| name.to_string_lossy());
        name.is_some_and(|name| name == JAX_COPY || name.ends_with(".xplane.pb"))
    };
    let has_original = |copy: &PathBuf| {
        let next_to = |path: &&PathBuf| path.parent() == copy.parent() && !is_copy(path);
        let mut originals = found.iter().filter(next_to);
        originals.any(|path| path.to_string_lossy().ends_with(".trace.json.gz"))
    };
    let copies = found.iter().filter(|path| is_copy(path));
    copies.filter(|copy| has_original(copy)).cloned().collect()
}

/// Same as [`expand`], but with the databases that packages list, and with each process of an export of Nsight Systems in which
/// several communicate: for tools that process ranks separately.
///
/// # Errors
///
/// Same as [`expand`], and when an index is invalid.
pub fn expand_ranks(given: &[PathBuf], verbosity: VerbosityArgs) -> anyhow::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let paths = expand(given, verbosity)?;
    let processes = at_once(&paths, |path| match is_package(path) {
        true => Ok(None),
        false => nsys::processes(path),
    });
    for (path, processes) in paths.into_iter().zip(processes) {
        if is_package(&path) {
            let listed = rocpd_db::expand(&[&path]).with_context(|| path.display().to_string())?;
            files.extend(listed);
            continue;
        }
        match processes? {
            Some(processes) => files.extend(processes),
            None => files.push(path),
        }
    }
    Ok(files)
}

/// Returns the traces in an archive of several files; empty if it is not an archive, or contains no
/// names of traces.
fn members(path: &Path, others: &mut Vec<PathBuf>, verbosity: VerbosityArgs) -> Vec<PathBuf> {
    if !is_file(path) {
        return Vec::new();
    }
    // An archive that cannot be listed is left to the reader, which reports the reason.
    let listed = byte_source::member_names(path, &OpenOptions::default());
    let (names, broken) = listed.unwrap_or_default();
    if names.len() < 2 {
        return Vec::new();
    }
    if let Some(error) = broken {
        verbosity.note(format!("warning: {error}"));
    }
    let named = names
        .iter()
        .map(PathBuf::from)
        .filter(|name| is_trace(name));
    let (without, traces) = named.partition(|name| without_events(name));
    let without: Vec<PathBuf> = without;
    others.extend(without);
    traces
}

/// Objects that are looked at at once: each look is a request that waits for its answer.
const LOOKS: usize = 16;

/// Looks at each path, at several at once where they are objects, and returns the results in their order.
fn at_once<T: Send>(paths: &[PathBuf], look: impl Fn(&Path) -> T + Sync) -> Vec<T> {
    let threads = match paths.iter().any(|path| is_url(path)) {
        true => LOOKS,
        false => 1,
    };
    in_parallel(paths, threads, |_, path| look(path))
}

/// Returns `true` if the path is not a file, but a pattern for several.
fn is_pattern(path: &Path) -> bool {
    path.to_string_lossy().contains(['*', '?']) && !exists(path)
}

/// Number of files that the description of a folder names.
const NAMED: usize = 3;

/// Returns the error for a folder or pattern without traces: what is there instead, and what to give.
fn nothing_in(path: &Path) -> anyhow::Error {
    let name = path.display();
    let endings = ENDINGS.join(", ");
    let files = expand_inputs([path], |_| true).unwrap_or_default();
    let is_table = |file: &PathBuf| {
        let mut parts = file
            .components()
            .map(|part| part.as_os_str().to_string_lossy());
        parts.any(|part| part.starts_with("table="))
    };
    let text = if !is_dir(path) {
        format!(
            "{name}: no file matches this pattern and is a trace; names of traces end in {endings}"
        )
    } else if files.is_empty() {
        format!("{name}: this folder is empty: give one with traces, whose names end in {endings}")
    } else if is_file(&path.join("manifest.json")) && files.iter().any(is_table) {
        format!(
            "{name}: this folder is a data set of `inferscope export` and no recording: query it with `inferscope sql`, or give the \
             recordings"
        )
    } else {
        let shown = files.iter().take(NAMED).map(|file| {
            let file = file.strip_prefix(path).unwrap_or(file);
            file.display().to_string()
        });
        let shown: Vec<String> = shown.collect();
        let more = match files.len() > NAMED {
            true => format!(" and {} more", files.len() - NAMED),
            false => String::new(),
        };
        format!(
            "{name}: no trace is in this folder, which holds {}{more}: give a folder with traces, whose names end in {endings}, or \
             name the file",
            shown.join(", ")
        )
    };
    let none: Result<(), anyhow::Error> = Err(anyhow::Error::msg(text));
    match none.or_exit(cli::Outcome::Unreadable) {
        Err(error) => error,
        Ok(()) => anyhow::anyhow!("{name}: no traces"),
    }
}

/// Returns `true` for a set of rocPD databases with its index: a folder, or the index itself.
pub fn is_package(path: &Path) -> bool {
    let ends_in = |ending: &str| {
        path.extension()
            .is_some_and(|e| e.eq_ignore_ascii_case(ending))
    };
    if is_dir(path) {
        ends_in("rpdb") || is_file(&path.join("index.yaml"))
    } else {
        ends_in("yaml") || ends_in("yml")
    }
}

/// Key of the event list in a JSON trace that is an object.
const EVENTS: &[u8] = b"\"traceEvents\"";

/// First key of the JSON of rocprofv3, which has lists of records instead of events.
const ROCPROF: &[u8] = b"rocprofiler-sdk-tool";

/// Second form of a recording that JAX writes with `create_perfetto_trace` next to
/// `*.trace.json.gz`.
const JAX_COPY: &str = "perfetto_trace.json.gz";

/// Returns `true` if a file is a JSON object that does not contain the key of the events, so that
/// it is not a trace.
///
/// In real traces the key is near the beginning, so these are not read to their end. An unreadable file
/// is left to the reader, which reports the reason.
pub fn without_events(path: &Path) -> bool {
    let Ok(mut source) = Source::open(path, &OpenOptions::default()) else {
        return false;
    };
    let is_object = source.head(64).is_ok_and(|head| {
        let text = head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(head);
        let text = text.trim_ascii_start();
        text.first() == Some(&b'{') && !text.windows(ROCPROF.len()).any(|part| part == ROCPROF)
    });
    if !is_object {
        return false;
    }
    // Most often it is here, and no more is read.
    let holds_key = |head: &[u8]| head.windows(EVENTS.len()).any(|part| part == EVENTS);
    if source.head(Source::HEAD_BYTES).is_ok_and(holds_key) {
        return false;
    }
    let Ok(mut reader) = source.into_read() else {
        return false;
    };
    let mut buffer = vec![0; 1 << 16];
    // The end of the last piece may be the beginning of the key.
    let mut kept = 0;
    loop {
        let room = buffer.get_mut(kept..).unwrap_or_default();
        let Ok(read) = reader.read(room) else {
            return false;
        };
        if read == 0 {
            return true;
        }
        let filled = kept + read;
        let bytes = buffer.get(..filled).unwrap_or_default();
        if bytes.windows(EVENTS.len()).any(|part| part == EVENTS) {
            return false;
        }
        let keep = filled.min(EVENTS.len() - 1);
        buffer.copy_within(filled - keep..filled, 0);
        kept = keep;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_become_their_traces() {
        let folder = tempfile::tempdir().unwrap();
        let inner = folder.path().join("host-a");
        std::fs::create_dir(&inner).unwrap();
        for name in ["a.json.zst", "b.pftrace", "notes.txt", "host-a/c.JSON.xz"] {
            std::fs::write(folder.path().join(name), "x").unwrap();
        }
        let found = expand(&[folder.path().to_owned()], quiet()).unwrap();
        let names: Vec<_> = found
            .iter()
            .map(|path| path.strip_prefix(folder.path()).unwrap().to_str().unwrap())
            .collect();
        assert_eq!(names, ["a.json.zst", "b.pftrace", "host-a/c.JSON.xz"]);

        // One recording of JAX in two forms.
        for name in ["host-a/vm.trace.json.gz", "host-a/perfetto_trace.json.gz"] {
            std::fs::write(folder.path().join(name), "x").unwrap();
        }
        let found = expand(&[folder.path().to_owned()], quiet()).unwrap();
        assert_eq!(found.len(), 4);
        assert!(!found.iter().any(|path| path.ends_with(JAX_COPY)));

        let pattern = folder.path().join("*.txt");
        assert_eq!(expand(&[pattern], quiet()).unwrap().len(), 1);
        let empty = tempfile::tempdir().unwrap();
        let error = expand(&[empty.path().to_owned()], quiet()).unwrap_err();
        assert!(format!("{error:#}").contains(".pftrace"));
        // A folder of something else is told by what it holds.
        let said = |files: &[&str]| {
            let folder = tempfile::tempdir().unwrap();
            for file in files {
                let path = folder.path().join(file);
                std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                std::fs::write(path, "{}").unwrap();
            }
            let error = expand(&[folder.path().to_owned()], quiet()).unwrap_err();
            format!("{error:#}")
        };
        assert!(said(&[]).contains("this folder is empty"));
        let model = said(&[
            "config.json",
            "model.safetensors",
            "a/merges.txt",
            "vocab.txt",
        ]);
        assert!(
            model.contains("holds a/merges.txt, config.json, model.safetensors and 1 more"),
            "{model}"
        );
        let set = said(&[
            "manifest.json",
            "table=files/run=a/rank=0/part-000000.parquet",
        ]);
        assert!(set.contains("inferscope sql"), "{set}");
    }

    #[test]
    fn archives_become_the_traces_in_them() {
        let folder = tempfile::tempdir().unwrap();
        let tar = |name: &str, members: &[(&str, &str)]| {
            let path = folder.path().join(name);
            let mut bytes = Vec::new();
            for (member, text) in members {
                let mut header = [0; 512];
                header[..member.len()].copy_from_slice(member.as_bytes());
                header[100..107].copy_from_slice(b"0000644");
                header[124..135].copy_from_slice(format!("{:011o}", text.len()).as_bytes());
                header[148..156].fill(b' ');
                header[156] = b'0';
                header[257..265].copy_from_slice(b"ustar\x0000");
                let sum: u32 = header.iter().map(|&byte| u32::from(byte)).sum();
                header[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
                bytes.extend(header);
                bytes.extend(text.as_bytes());
                bytes.resize(bytes.len().next_multiple_of(512), 0);
            }
            bytes.extend([0; 1024]);
            std::fs::write(&path, bytes).unwrap();
            path
        };
        let events = "[{\"ph\": \"X\"}]";
        let several = tar(
            "job.tar",
            &[
                ("b/rank1.json", events),
                ("notes.txt", "x"),
                ("rank0.json", events),
                ("truth.json", "{\"a\": 1}"),
            ],
        );
        let found = expand(std::slice::from_ref(&several), quiet()).unwrap();
        let member = |name: &str| PathBuf::from(format!("{}!{name}", several.display()));
        assert_eq!(found, [member("b/rank1.json"), member("rank0.json")]);
        assert_eq!(expand(&found, quiet()).unwrap(), found);
        // A single file in an archive is that file; files that are not traces are reported by the
        // reader.
        for members in [&[("t.json", events)][..], &[("a.txt", "x"), ("b.txt", "x")]] {
            let path = tar("other.tar", members);
            assert_eq!(
                expand(std::slice::from_ref(&path), quiet()).unwrap(),
                [path]
            );
        }
    }

    #[test]
    fn what_is_no_trace_is_told_by_its_content() {
        let folder = tempfile::tempdir().unwrap();
        let write =
            |name: &str, text: &[u8]| std::fs::write(folder.path().join(name), text).unwrap();
        // The key may come late, and cross the border of two pieces.
        let mut late = b"{\"metadata\": \"".to_vec();
        late.resize((1 << 16) - 5, b'x');
        late.extend(b"\", \"traceEvents\": []}");
        write("late.json", &late);
        let at = late.windows(EVENTS.len()).position(|part| part == EVENTS);
        assert!(at.is_some_and(|at| at < 1 << 16 && at + EVENTS.len() > 1 << 16));
        write("truth.json", b"{\"kernels\": {\"a\": 1}}");
        write("events.json", b" [{\"ph\": \"X\"}]");
        let expand = |path: &Path| expand(&[path.to_owned()], quiet());
        let found = expand(folder.path()).unwrap();
        let names: Vec<_> = found.iter().filter_map(|path| path.file_name()).collect();
        assert_eq!(names, ["events.json", "late.json"]);
        // A file that is named explicitly is kept.
        assert_eq!(expand(&folder.path().join("truth.json")).unwrap().len(), 1);
        for name in ["late.json", "events.json"] {
            std::fs::remove_file(folder.path().join(name)).unwrap();
        }
        assert!(expand(folder.path()).is_err());
    }

    #[test]
    fn packages_are_one_trace_or_what_they_list() {
        let folder = tempfile::tempdir().unwrap();
        let package = folder.path().join("run.rpdb");
        std::fs::create_dir(&package).unwrap();
        let index = "rocprofiler-sdk:\n  rocpd:\n    files: [b.db]\n";
        std::fs::write(package.join("index.yaml"), index).unwrap();
        for name in ["a.db", "b.db"] {
            std::fs::write(package.join(name), "x").unwrap();
        }
        for given in [package.clone(), package.join("index.yaml")] {
            assert_eq!(
                expand(std::slice::from_ref(&given), quiet()).unwrap(),
                std::slice::from_ref(&given)
            );
            let ranks = expand_ranks(&[given], quiet()).unwrap();
            assert_eq!(ranks, [package.join("b.db")]);
        }
    }

    fn quiet() -> VerbosityArgs {
        VerbosityArgs {
            quiet: true,
            ..VerbosityArgs::default()
        }
    }
}
