//! Recognises exports, and inputs of Nsight Systems that are no readable exports.

use std::path::Path;

use crate::error::Error;

/// Tables of events: an export has at least one of them.
const EVENTS: [&str; 6] = [
    "NVTX_EVENTS",
    "OSRT_API",
    "COMPOSITE_EVENTS",
    "GPU_METRICS",
    "SCHED_EVENTS",
    "GENERIC_EVENTS",
];

/// Tables besides those of events that only exports have.
const MARKS: [&str; 4] = [
    "META_DATA_EXPORT",
    "EXPORT_META_DATA",
    "ANALYSIS_DETAILS",
    "TARGET_INFO_SYSTEM_ENV",
];

/// Prefix of the tables of CUDA activity.
const CUPTI: &str = "CUPTI_ACTIVITY_KIND_";

/// Kind of a database, from the names of its tables.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum DatabaseKind {
    /// An export of Nsight Systems.
    Nsys,
    /// A profile of nvprof.
    Nvprof,
    /// Something else.
    Other,
}

impl DatabaseKind {
    /// Returns the kind of a database with these tables. Views count too: the reader reports that it does not read them.
    ///
    /// ```
    /// use nsys_db::DatabaseKind;
    ///
    /// assert_eq!(DatabaseKind::of(["StringIds", "NVTX_EVENTS"]), DatabaseKind::Nsys);
    /// assert_eq!(DatabaseKind::of(["rocpd_string", "rocpd_event"]), DatabaseKind::Other);
    /// ```
    pub fn of<'a>(tables: impl IntoIterator<Item = &'a str>) -> Self {
        let (mut strings, mut old_strings, mut marked, mut cupti) = (false, false, false, false);
        for table in tables {
            strings |= table == "StringIds";
            old_strings |= table == "StringTable";
            cupti |= table.starts_with(CUPTI);
            marked |= EVENTS.contains(&table) || MARKS.contains(&table);
        }
        match (strings, cupti || marked) {
            (true, true) => Self::Nsys,
            (false, _) if cupti && old_strings => Self::Nvprof,
            _ => Self::Other,
        }
    }
}

/// Returns `true` if a table holds events.
pub(crate) fn is_events(table: &str) -> bool {
    table.starts_with(CUPTI) || EVENTS.contains(&table)
}

/// Endings of Nsight Systems' own reports.
const REPORTS: [&str; 3] = [".nsys-rep", ".qdrep", ".qdstrm"];

/// Endings of exports that are not read.
const OTHER_EXPORTS: [&str; 4] = [".h5", ".hdf", ".hdf5", ".arrows"];

/// Returns the command that exports the report with this name.
pub fn export_command(name: &str) -> String {
    let file = name.rsplit(['/', '\\']).next().unwrap_or(name);
    let lower = file.to_ascii_lowercase();
    let is_report = REPORTS.iter().any(|end| lower.ends_with(end));
    let file = if is_report { file } else { "REPORT.nsys-rep" };
    let quoted = match file.contains([' ', '\'', '"', '$', '&', '(', ')', ';']) {
        true => format!("'{}'", file.replace('\'', "'\\''")),
        false => file.to_owned(),
    };
    format!("nsys export --type sqlite --include-blobs true {quoted}")
}

/// Returns the error for a report of Nsight Systems, or an export that is not read, from its name and first bytes; `None` for
/// anything else.
pub fn not_exported(name: &str, head: &[u8]) -> Option<Error> {
    let lower = name.to_ascii_lowercase();
    let ends = |ends: &[&str]| ends.iter().any(|end| lower.ends_with(end));
    let what = if ends(&REPORTS) {
        "a report of Nsight Systems, whose format is closed"
    } else if head.starts_with(b"\x89HDF\r\n\x1a\n") || ends(&OTHER_EXPORTS) {
        "an HDF5 or Arrow file, as Nsight Systems exports, which is not read"
    } else if is_json_lines(head) {
        "JSON lines, as Nsight Systems exports, which are not read"
    } else {
        return None;
    };
    Some(Error::NotExported {
        name: name.to_owned(),
        what,
        command: export_command(name),
    })
}

/// Returns `true` for the first bytes of `nsys export --type json`: one object a line, with the type of an event and its data.
fn is_json_lines(head: &[u8]) -> bool {
    let text = byte_source::magic::skip_utf8_bom(head).trim_ascii_start();
    let mut lines = text
        .split(|byte| *byte == b'\n')
        .map(<[u8]>::trim_ascii)
        .filter(|line| !line.is_empty())
        .peekable();
    let is_other = |line: &[u8]| {
        let has = |part: &str| holds(line, part);
        !line.starts_with(b"{") || has("\"traceEvents\"") || has("\"ph\"")
    };
    if lines.peek().is_none_or(|first| is_other(first)) {
        return false;
    }
    // Strings and metadata come before the events.
    lines.take_while(|line| !is_other(line)).any(|line| {
        let has = |part: &str| holds(line, part);
        let is_typed = has("\"Type\"");
        let is_event = has("Event\"") || has("\"globalTid\"") || has("\"GlobalTid\"");
        let is_string = has("\"id\"") && has("\"value\"");
        (is_typed && (is_event || is_string))
            || has("\"EXPORT_SCHEMA_VERSION\"")
            || has("\"CudaEvent\"")
            || has("\"NvtxEvent\"")
    })
}

fn holds(line: &[u8], part: &str) -> bool {
    line.windows(part.len())
        .any(|window| window == part.as_bytes())
}

/// Returns `true` for a folder of Parquet files, one for each table of an export.
pub fn is_parquet_folder(path: &Path) -> bool {
    if !path.is_dir() || !path.join("StringIds.parquet").is_file() {
        return false;
    }
    let Ok(entries) = std::fs::read_dir(path) else {
        return false;
    };
    let names: Vec<String> = entries
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect();
    let tables = names
        .iter()
        .filter_map(|name| name.strip_suffix(".parquet"));
    DatabaseKind::of(tables) == DatabaseKind::Nsys
}

/// Returns the error for a folder of Arrow files, as `nsys export --type arrowdir` writes; `None` for other paths.
pub fn arrow_folder(path: &Path) -> Option<Error> {
    let is_one = path.is_dir()
        && ["StringIds.arrow", "StringIds.arrows", "StringIds.feather"]
            .iter()
            .any(|file| path.join(file).is_file());
    is_one.then(|| Error::NotExported {
        name: path.display().to_string(),
        what: "a folder of Arrow files, as Nsight Systems exports, which is not read",
        command: export_command(""),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn databases_are_told_apart_by_their_tables() {
        for (tables, want) in [
            (&["StringIds", "GPU_METRICS"][..], DatabaseKind::Nsys),
            (
                &["StringIds", "CUPTI_ACTIVITY_KIND_MEMSET"],
                DatabaseKind::Nsys,
            ),
            (&["StringIds", "EXPORT_META_DATA"], DatabaseKind::Nsys),
            (
                &["StringTable", "CUPTI_ACTIVITY_KIND_KERNEL"],
                DatabaseKind::Nvprof,
            ),
            (&["CUPTI_ACTIVITY_KIND_KERNEL"], DatabaseKind::Other),
            (&["StringIds"], DatabaseKind::Other),
            (&[], DatabaseKind::Other),
        ] {
            assert_eq!(DatabaseKind::of(tables.iter().copied()), want, "{tables:?}");
        }
    }

    #[test]
    fn reports_get_the_command_that_exports_them() {
        let error = not_exported("run/a b.nsys-rep", b"").unwrap().to_string();
        assert!(
            error.contains("`nsys export --type sqlite --include-blobs true 'a b.nsys-rep'`"),
            "{error}"
        );
        for (name, head) in [
            ("x.qdrep", &b""[..]),
            ("x.qdstrm", b""),
            ("x", b"\x89HDF\r\n\x1a\nrest"),
            (
                "x.json",
                b"{\"Type\":48,\"CudaEvent\":{\"startNs\":\"1\"}}\n{}",
            ),
            // Strings come first, and fill what is looked at.
            (
                "x.jsonl",
                b"{\"Type\":48,\"id\":1,\"value\":\"k\"}\n{\"Type\":48,\"id\":2,\"val",
            ),
            (
                "x.jsonl",
                b"{\"name\":\"a\"}\n{\"CudaEvent\":{\"startNs\":\"1\"}}\n",
            ),
        ] {
            let error = not_exported(name, head).unwrap().to_string();
            assert!(error.contains("nsys export --type sqlite"), "{name}");
        }
        for head in [
            &b"{\"traceEvents\": [{\"ph\": \"X\"}]}"[..],
            b"[{\"ph\":\"X\",\"Type\":1}]",
            b"",
        ] {
            assert!(not_exported("x.json", head).is_none());
        }
    }
}
