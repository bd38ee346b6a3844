//! Writes arguments as debug annotations; keys that are paths become dictionaries and arrays.

use trace_model::ArgValue;

use crate::write::dictionary::{Dictionary, Table};
use crate::write::encode::{Encoder, Fields};

/// Maximum length in bytes of a text that is interned at once. Longer texts rarely repeat, and are interned when they do:
/// call stacks.
const MAX_INTERNED: usize = 256;
/// Maximum depth of a path; deeper paths stay one name.
const MAX_DEPTH: usize = 60;

/// A component of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step<'a> {
    Name(&'a str),
    Index,
}

/// A named value, or a dictionary or an array of such.
#[derive(Debug)]
struct Node<'a> {
    step: Step<'a>,
    value: Option<ArgValue<'a>>,
    children: Vec<Node<'a>>,
    /// Index of the last element, for arrays.
    last_index: usize,
}

/// Splits the first component off a path: a name up to `.` or `[`, or an index.
fn first_step<'a>(path: &'a str, index: &mut usize) -> (Step<'a>, &'a str) {
    if let Some(rest) = path.strip_prefix('[')
        && let Some((number, rest)) = rest.split_once(']')
        && let Ok(n) = number.parse()
        && (rest.is_empty() || rest.starts_with(['.', '[']))
    {
        *index = n;
        return (Step::Index, rest);
    }
    let end = path
        .char_indices()
        .skip(1)
        .find(|&(i, c)| c == '.' || (c == '[' && is_index(&path[i..])))
        .map_or(path.len(), |(i, _)| i);
    (Step::Name(&path[..end]), &path[end..])
}

/// Returns `true` if the text begins with `[number]` and then ends or continues as a path.
fn is_index(text: &str) -> bool {
    text.strip_prefix('[')
        .and_then(|t| t.split_once(']'))
        .is_some_and(|(n, rest)| {
            !n.is_empty()
                && n.len() < 10
                && n.bytes().all(|b| b.is_ascii_digit())
                && (rest.is_empty() || rest.starts_with(['.', '[']))
        })
}

/// Inserts a value into the tree.
fn insert<'a>(siblings: &mut Vec<Node<'a>>, path: &'a str, value: ArgValue<'a>, depth: usize) {
    let mut index = 0;
    let (step, rest) = if depth < MAX_DEPTH {
        first_step(path, &mut index)
    } else {
        (Step::Name(path), "")
    };
    let rest = rest.strip_prefix('.').unwrap_or(rest);
    if rest.is_empty() {
        siblings.push(Node {
            step,
            value: Some(value),
            children: Vec::new(),
            last_index: index,
        });
        return;
    }
    // Use the same container as before, most likely the one written last.
    let known = siblings.iter().rposition(|node| {
        node.value.is_none()
            && node.step == step
            && (step != Step::Index || node.last_index == index)
    });
    let at = known.unwrap_or_else(|| {
        siblings.push(Node {
            step,
            value: None,
            children: Vec::new(),
            last_index: index,
        });
        siblings.len() - 1
    });
    insert(&mut siblings[at].children, rest, value, depth + 1);
}

/// Appends the annotations of `args` to a track event. Keys are without prefix.
pub(crate) fn encode_args<'a>(
    event: &mut Encoder,
    dictionary: &mut Dictionary,
    args: impl Iterator<Item = (&'a str, ArgValue<'a>)>,
) {
    let mut tree: Vec<Node<'a>> = Vec::new();
    for (key, value) in args {
        let Some(name) = dictionary.plain_key(key) else {
            insert(&mut tree, key, value, 0);
            continue;
        };
        let text = match value {
            ArgValue::Str(text) | ArgValue::Json(text) => Some(text),
            _ => None,
        };
        match text {
            Some(text) => match text_id(dictionary, text) {
                None => event.message(4, |leaf| {
                    leaf.uint(1, name);
                    leaf.bytes(6, text.as_bytes());
                }),
                Some(text) => event.small_message(4, |leaf| {
                    leaf.uint(1, name);
                    leaf.uint(17, text);
                }),
            },
            None => event.small_message(4, |leaf| {
                leaf.uint(1, name);
                encode_number(leaf, value);
            }),
        }
    }
    for node in &tree {
        let annotation = encode_node(dictionary, node);
        event.bytes(4, annotation.as_slice());
    }
}

fn encode_node(dictionary: &mut Dictionary, node: &Node<'_>) -> Encoder {
    let mut out = Encoder::default();
    if let Step::Name(name) = node.step {
        out.uint(1, dictionary.intern(Table::ArgName, name));
    }
    if let Some(value) = node.value {
        encode_value(&mut out, dictionary, value);
    }
    // A container with both names and elements becomes a dictionary: no other form can hold it.
    let is_array =
        !node.children.is_empty() && node.children.iter().all(|child| child.step == Step::Index);
    for child in &node.children {
        let encoded = encode_node(dictionary, child);
        out.bytes(if is_array { 12 } else { 11 }, encoded.as_slice());
    }
    out
}

fn encode_value(out: &mut Encoder, dictionary: &mut Dictionary, value: ArgValue<'_>) {
    match value {
        // JSON stays text: as a tree it would lose nulls and empty lists.
        ArgValue::Str(text) | ArgValue::Json(text) => match text_id(dictionary, text) {
            None => out.bytes(6, text.as_bytes()),
            Some(text) => out.uint(17, text),
        },
        number => out.fields(|fields| encode_number(fields, number)),
    }
}

/// Returns the id of an interned text; `None` for a long one that is new.
fn text_id(dictionary: &mut Dictionary, text: &str) -> Option<u64> {
    let is_interned = text.len() <= MAX_INTERNED || dictionary.repeats(text);
    is_interned.then(|| dictionary.intern(Table::ArgText, text))
}

/// Writes a value that is not a text.
#[inline]
fn encode_number(out: &mut Fields<'_>, value: ArgValue<'_>) {
    match value {
        ArgValue::Bool(b) => out.uint(2, b.into()),
        ArgValue::UInt(n) => out.uint(3, n),
        ArgValue::Int(n) => out.uint(4, n.cast_unsigned()),
        ArgValue::Real(x) => out.fixed64(5, x.to_bits()),
        ArgValue::Pointer(n) => out.uint(7, n),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps(path: &str) -> Vec<String> {
        let mut out = Vec::new();
        let mut rest = path;
        while !rest.is_empty() {
            let mut index = 0;
            let (step, after) = first_step(rest, &mut index);
            out.push(match step {
                Step::Name(name) => name.to_owned(),
                Step::Index => format!("#{index}"),
            });
            rest = after.strip_prefix('.').unwrap_or(after);
        }
        out
    }

    #[test]
    fn paths_come_apart_at_dots_and_indices_only() {
        assert_eq!(steps("d.b.l[2].z"), ["d", "b", "l", "#2", "z"]);
        assert_eq!(steps("m[0][12]"), ["m", "#0", "#12"]);
        assert_eq!(
            steps("est. achieved occupancy %"),
            ["est", " achieved occupancy %"]
        );
        assert_eq!(steps("a[x].b"), ["a[x]", "b"]);
        assert_eq!(steps("plain"), ["plain"]);
        assert_eq!(steps("[0]"), ["#0"]);
        assert_eq!(steps(".hidden"), [".hidden"]);
    }
}
