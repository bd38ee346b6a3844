//! The messages in which tables, scans and functions travel between processes.
//!
//! A message is [`MAGIC`], one line of JSON, and bytes that are no text. The line begins with the version of the format, which is read
//! before anything else, so that processes of different versions refuse each other in words.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use trace_tables::catalogue::ArgKeys;

use crate::store::Wanted;

/// Version of the messages; a change of any of them increases it.
pub const VERSION: u32 = 2;

/// Begins the name of work, which no name of a table does.
pub(super) const WORK: &str = "work:";

/// Begins each message, so that those of other codecs are told from them.
const MAGIC: &[u8] = b"inferscope\n";

/// What every version of the format can read.
#[derive(Serialize, Deserialize)]
struct Head {
    version: u32,
    /// The process that wrote the message: `client`, `scheduler`.
    from: String,
    /// Version of its program.
    program: String,
}

#[derive(Serialize, Deserialize)]
struct Line {
    #[serde(flatten)]
    head: Head,
    body: Body,
}

/// What a message describes.
#[derive(Serialize, Deserialize, Debug, Clone, PartialEq)]
pub(super) enum Body {
    /// A table of recordings; or the answers of work, which is named behind [`WORK`].
    Table { place: Place, name: String },
    /// Rows that the client has, as Arrow's file format behind the line.
    Rows,
    /// Rows of some files of a table.
    Scan(Scan),
    /// A scalar function; `place` if it looks up slices.
    Function { place: Option<Place> },
    /// An aggregate function.
    Aggregate,
}

/// Where rows and slices come from.
#[derive(Serialize, Deserialize, Debug, Clone, PartialEq)]
pub(super) enum Place {
    Recordings(Recordings),
    DataSet {
        folder: PathBuf,
        left_out: Vec<PathBuf>,
    },
}

/// Recordings of one statement.
#[derive(Serialize, Deserialize, Debug, Clone, PartialEq)]
pub(super) struct Recordings {
    /// The statement: nothing that was read for another one is used again.
    pub(super) statement: String,
    /// Number of files of the statement.
    pub(super) total: usize,
    /// Options of all files, as [`crate::Inputs::recipe_options`] has them.
    pub(super) options: String,
    /// Files that the receiver needs: place, name, and how to open it.
    pub(super) files: Vec<(usize, String, String)>,
    /// Keys of arguments that the statement needs; `None` is all.
    pub(super) args: Option<Vec<String>>,
    pub(super) hash: bool,
}

/// A scan of one table.
#[derive(Serialize, Deserialize, Debug, Clone, PartialEq)]
pub(super) struct Scan {
    pub(super) place: Recordings,
    pub(super) table: String,
    pub(super) columns: Vec<usize>,
    pub(super) between: Option<(i64, i64)>,
    pub(super) names: Option<Vec<String>>,
    pub(super) keys: Option<Vec<String>>,
    /// Files of each partition.
    pub(super) partitions: Vec<Vec<usize>>,
    pub(super) limit: Option<usize>,
}

impl Recordings {
    pub(super) fn wanted(&self) -> Wanted {
        Wanted {
            args: match &self.args {
                None => ArgKeys::All,
                Some(keys) if keys.is_empty() => ArgKeys::None,
                Some(keys) => ArgKeys::Only(keys.clone()),
            },
            hash: self.hash,
        }
    }
}

pub(super) fn arg_keys(keys: &ArgKeys) -> Option<Vec<String>> {
    match keys {
        ArgKeys::None => Some(Vec::new()),
        ArgKeys::Only(keys) => Some(keys.clone()),
        ArgKeys::All => None,
    }
}

/// Writes a message in a version of the format.
pub(super) fn write(
    version: u32,
    from: &str,
    body: Body,
    payload: &[u8],
    out: &mut Vec<u8>,
) -> Result<(), String> {
    let head = Head {
        version,
        from: from.to_owned(),
        program: env!("CARGO_PKG_VERSION").to_owned(),
    };
    out.extend_from_slice(MAGIC);
    let line = Line { head, body };
    serde_json::to_writer(&mut *out, &line).map_err(|error| error.to_string())?;
    out.push(b'\n');
    out.extend_from_slice(payload);
    Ok(())
}

/// Returns `true` if bytes are a message of this format, of whatever version.
pub(super) fn is_message(bytes: &[u8]) -> bool {
    bytes.starts_with(MAGIC)
}

/// Reads a message for the process `to`.
pub(super) fn read<'b>(
    version: u32,
    to: &str,
    bytes: &'b [u8],
) -> Result<(Body, &'b [u8]), String> {
    let broken = || format!("the {to} got a message that is not one of inferscope's");
    let rest = bytes.strip_prefix(MAGIC).ok_or_else(broken)?;
    let end = rest.iter().position(|byte| *byte == b'\n');
    let (line, payload) = rest.split_at(end.ok_or_else(broken)?);
    let head: Head = serde_json::from_slice(line).map_err(|_| broken())?;
    if head.version != version {
        let (older, newer) = match head.version < version {
            true => (head.from.as_str(), to),
            false => (to, head.from.as_str()),
        };
        return Err(format!(
            "the {older} is older than the {newer}: the {} (inferscope {}) writes messages of version {}, the {to} (inferscope {}) reads version {version}; run one version of inferscope on all machines",
            head.from,
            head.program,
            head.version,
            env!("CARGO_PKG_VERSION"),
        ));
    }
    let line: Line = serde_json::from_slice(line).map_err(|_| broken())?;
    Ok((line.body, payload.get(1..).unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_of_other_versions_are_refused_with_the_older_side() {
        let message = |version| {
            let mut bytes = Vec::new();
            let body = Body::Function { place: None };
            write(version, "client", body, b"\n1", &mut bytes).unwrap();
            bytes
        };
        let same = message(3);
        let (body, payload) = read(3, "scheduler", &same).unwrap();
        assert_eq!(
            (body, payload),
            (Body::Function { place: None }, &b"\n1"[..])
        );
        let older = read(3, "scheduler", &message(2)).unwrap_err();
        assert!(
            older.starts_with("the client is older than the scheduler"),
            "{older}"
        );
        let newer = read(3, "scheduler", &message(4)).unwrap_err();
        assert!(
            newer.starts_with("the scheduler is older than the client"),
            "{newer}"
        );
    }

    #[test]
    fn a_body_of_another_version_need_not_be_known() {
        let later = b"inferscope\n{\"version\":9,\"from\":\"client\",\"program\":\"9.0.0\",\"body\":{\"New\":1}}\n";
        let error = read(1, "executor", later).unwrap_err();
        assert!(
            error.starts_with("the executor is older than the client"),
            "{error}"
        );
        assert!(read(1, "executor", b"inferscope\n{}").is_err());
        assert!(read(1, "executor", b"\x0a\x0b").is_err());
        assert!(!is_message(b"\x0a\x0b"));
    }
}
