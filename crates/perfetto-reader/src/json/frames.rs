//! Stacks of events: the document's table of frames (`stackFrames`), to which events refer (`sf`), and lists of their own
//! (`stack`). A stack becomes an argument of its slice, as those of other formats are: frames from the innermost on, one a line.

use rustc_hash::{FxHashMap, FxHashSet};
use serde_json::Value;
use trace_model::{Arg, IssueKind, Place, StrId, StringTable, TraceBuilder};

use super::args::arg_key;
use super::config::{Config, Wanted};
use super::event::{Field, Fields};
use super::part::Part;
use super::scan::Scan;

/// Key of the table in the document.
pub(super) const TABLE: &str = "stackFrames";

/// Key of the argument that holds a stack.
const CHAIN: &str = "call chain";

/// Begins the text of an argument that refers to the table, until the whole table is known. No text of a file is interned with it,
/// because JSON's other texts are decoded, and NUL is no part of an id.
const REFERENCE: &str = "\0stack frame ";

/// Maximum number of frames of one stack; deeper ones lose their outermost frames.
const DEEPEST: usize = 1024;

/// Bytes of different stacks that are kept whole; those beyond have only their innermost frames. A small table can describe many
/// deep stacks that share most of their frames, whose texts do not.
const MOST_TEXT: usize = 256 << 20;

/// Number of these innermost frames.
const SHALLOW: usize = 8;

/// Returns `true` if stacks are kept.
pub(super) fn are_wanted(config: &Config) -> bool {
    match &config.args {
        _ if config.compat => false,
        Wanted::All => true,
        Wanted::None => false,
        Wanted::Only(keys) => keys.iter().any(|key| **key == *CHAIN.as_bytes()),
    }
}

impl Part<'_> {
    /// Adds the stack of an event to its arguments, if it has one.
    #[inline(never)]
    pub(super) fn add_stack(&mut self, w: &[u8], f: &Fields) -> Scan<()> {
        let text = match (f.stack, f.stack_frame) {
            (Field::Missing, Field::Missing) => return Ok(()),
            (Field::Nested(at, b'['), _) => self.listed(w, at),
            (Field::Missing, Field::Number(_, id) | Field::Text(id)) => {
                let mut decoded = String::new();
                super::text::decode(id.raw(w), id.escaped, &mut decoded)?;
                Some(format!("{REFERENCE}{decoded}"))
            }
            _ => None,
        };
        let Some(text) = text else {
            self.note(IssueKind::JsonBadField);
            return Ok(());
        };
        let key = self.batch.strings.intern(&arg_key(CHAIN));
        if !text.is_empty() && self.list.iter().all(|arg| arg.key != key) {
            let text = self.batch.strings.intern(&text);
            self.list.push(Arg::text(key, text));
        }
        Ok(())
    }

    /// Returns a list of frames, which begins with the outermost; `None` if it is no list of texts.
    fn listed(&self, w: &[u8], at: usize) -> Option<String> {
        let rest = w.get(at..)?;
        let mut values = serde_json::Deserializer::from_slice(rest).into_iter::<Vec<String>>();
        let frames = values.next()?.ok()?;
        let frames: Vec<&str> = frames
            .iter()
            .rev()
            .take(DEEPEST)
            .map(|frame| frame.lines().next().unwrap_or_default())
            .filter(|frame| !frame.is_empty())
            .collect();
        Some(frames.join("\n"))
    }
}

/// A frame of the table.
#[derive(Clone, Copy)]
struct Frame {
    parent: Option<StrId>,
    name: Option<StrId>,
}

/// The table of frames.
#[derive(Default)]
pub(super) struct Frames {
    texts: StringTable,
    by_id: FxHashMap<StrId, Frame>,
}

impl Frames {
    /// Adds the frame `id`, which is `value` in the table. Returns `false` if that is no frame.
    pub(super) fn add(&mut self, id: &str, value: &[u8]) -> bool {
        let Ok(Value::Object(members)) = serde_json::from_slice(value) else {
            return false;
        };
        let parent = match members.get("parent") {
            None | Some(Value::Null) => None,
            Some(Value::String(parent)) => Some(self.texts.intern(parent)),
            Some(Value::Number(parent)) => Some(self.texts.intern(&parent.to_string())),
            Some(_) => return false,
        };
        let name = members.get("name").and_then(Value::as_str);
        // Frames are lines of a text.
        let name = name.and_then(|name| name.lines().next());
        let name = name.filter(|name| !name.is_empty());
        let frame = Frame {
            parent,
            name: name.map(|name| self.texts.intern(name)),
        };
        let id = self.texts.intern(id);
        self.by_id.insert(id, frame);
        true
    }

    /// Returns the stack that ends with the frame `id`, without frames beyond `deepest`, and `true` if the rest is in the table.
    fn stack(&self, id: &str, deepest: usize) -> (String, bool) {
        let unknown = |id: &str| format!("[stack frame {id}]");
        let Some(mut at) = self.texts.find(id).filter(|at| self.by_id.contains_key(at)) else {
            return (unknown(id), false);
        };
        let mut lines: Vec<String> = Vec::new();
        let mut seen: FxHashSet<StrId> = FxHashSet::default();
        while let Some(frame) = self.by_id.get(&at) {
            if !seen.insert(at) {
                // A frame that is its own caller.
                return (lines.join("\n"), false);
            }
            lines.push(match frame.name {
                Some(name) => self.texts.get(name).to_owned(),
                None => unknown(self.texts.get(at)),
            });
            match frame.parent {
                Some(_) if lines.len() >= deepest => return (lines.join("\n"), true),
                Some(parent) => at = parent,
                None => return (lines.join("\n"), true),
            }
        }
        (lines.join("\n"), false)
    }

    /// Replaces what refers to the table by the stacks, and counts what refers to no frame of it or is not kept whole.
    pub(super) fn resolve(&self, builder: &mut TraceBuilder) {
        let diagnostics = &mut builder.diagnostics;
        let mut bytes = 0;
        builder.events.replace_texts(
            &arg_key(CHAIN),
            |text| {
                let id = text.strip_prefix(REFERENCE)?;
                let is_room = bytes < MOST_TEXT;
                let (text, is_known) = self.stack(id, if is_room { DEEPEST } else { SHALLOW });
                bytes += text.len();
                Some((text, is_known && is_room))
            },
            |ts| diagnostics.count(IssueKind::UnknownStackFrame, Place::At(ts)),
        );
    }
}
