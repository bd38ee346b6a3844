//! Strings by id, looked up when a column refers to them.
//!
//! The table also holds texts that nothing refers to, such as the environment of every process of the machine. Only ids from
//! columns that name kernels, calls, ranges, threads and symbols are ever looked up.

use std::borrow::Cow;

use rustc_hash::FxHashMap;
use sqlite_scan::{Leaves, Lookup, Pick, Value};

use crate::error::Result;
use crate::export::Export;

const TABLE: &str = "StringIds";

/// Reads single strings of an export.
pub(crate) enum Strings<'e> {
    /// Rows by id.
    Rows(Box<Lookup<'e>>, Pick<1>),
    /// All strings, where ids are no row ids.
    Listed(FxHashMap<i64, String>),
}

impl<'e> Strings<'e> {
    pub(crate) fn new(export: &'e Export, leaves: Option<&'e Leaves>) -> Result<Self> {
        if let (Some(leaves), Some(database)) = (leaves, export.database())
            && let Some(table) = database.table(TABLE)
        {
            let pick = table.def().pick(["value"]);
            let lookup = Lookup::new(database.file(), leaves);
            return Ok(Self::Rows(Box::new(lookup), pick));
        }
        let mut listed = FxHashMap::default();
        export.scan(TABLE, ["id", "value"], |_, [id, value]| {
            if let (Some(id), Some(text)) = (id.as_int(), text(value)) {
                listed.entry(id).or_insert(text);
            }
            Ok(())
        })?;
        Ok(Self::Listed(listed))
    }

    /// Returns a string; `None` if there is none of that id.
    pub(crate) fn get(&mut self, id: i64) -> Result<Option<String>> {
        match self {
            Self::Rows(lookup, pick) => {
                let row = lookup.get(id, pick)?;
                Ok(row.and_then(|[value]| text(value)))
            }
            Self::Listed(listed) => Ok(listed.get(&id).cloned()),
        }
    }
}

/// Returns a text, with U+FFFD for what is not UTF-8.
pub(crate) fn text(value: Value<'_>) -> Option<String> {
    lossy(value).map(Cow::into_owned)
}

/// Returns a text as [`text`] does, without a copy of what is UTF-8.
pub(crate) fn lossy(value: Value<'_>) -> Option<Cow<'_, str>> {
    match value {
        // Checking all at once is much faster than searching for what is wrong.
        Value::Text(bytes) | Value::Blob(bytes) => Some(match std::str::from_utf8(bytes) {
            Ok(text) => Cow::Borrowed(text),
            Err(_) => String::from_utf8_lossy(bytes),
        }),
        _ => None,
    }
}
