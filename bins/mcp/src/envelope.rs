//! The envelope of every answer.

use serde_json::{Map, Value, json};

use crate::bounds::{BYTES, cut, fitting, size};
use crate::tools::{Question, Tool};

/// Version of the envelope.
const VERSION: u32 = 1;

/// Exit code of a tool whose inputs do not hold the answer.
const CANNOT_ANSWER: u8 = 4;

/// Members of the document of `why` that are answered beside its findings, in the order in which they are given up for room.
const BESIDE: &[&str] = &["answer", "trust", "comparison", "budget", "not_recorded"];

/// Returns the JSON Schema of the envelope.
pub(crate) fn schema() -> Map<String, Value> {
    let text = json!({"type": "string"});
    let schema = json!({
        "type": "object",
        "properties": {
            "schema_version": {"type": "integer"},
            "tool": text,
            "command": {"type": "string", "description": "The command line that gives the whole answer"},
            "status": {
                "type": "string",
                "enum": ["answer", "nothing", "cannot_say"],
                "description": "nothing: looked for and not there; cannot_say: not recorded",
            },
            "sentence": {"type": ["string", "null"], "description": "The answer in words"},
            "scope": {"type": "object", "description": "What was asked of which recordings"},
            "rows": {"type": "array", "items": {"type": "object"}},
            "total": {"type": "integer", "description": "Number of all rows"},
            "cursor": {"type": ["string", "null"], "description": "Argument that continues behind the last row"},
            "notes": {"type": "array", "items": text},
            "next": {"type": "array", "items": {"type": "object"}},
        },
        "required": ["schema_version", "tool", "command", "status", "rows", "total", "cursor", "next"],
    });
    schema.as_object().cloned().unwrap_or_default()
}

/// Returns the envelope of what a tool answered.
///
/// # Errors
///
/// Returns the tool's error, unless it is that the recordings do not hold the answer.
pub(crate) fn envelope(
    tool: &Tool,
    question: &Question,
    answer: &cli::in_process::Answer,
) -> Result<Value, String> {
    let (mut document, rows) = read(tool, answer)?;
    let cannot_say = answer.code == CANNOT_ANSWER || document["answer"]["shape"] == "cannot_say";
    if let Some(error) = answer
        .error
        .as_ref()
        .filter(|_| !cannot_say && rows.is_empty())
    {
        return Err(error.clone());
    }
    let is_nothing = document["answer"]["shape"] == "nothing" || rows.is_empty();
    let status = match (cannot_say, is_nothing) {
        (true, _) => "cannot_say",
        (_, true) => "nothing",
        _ => "answer",
    };
    let sentence = document["answer"]["sentence"]
        .as_str()
        .or(document["title"].as_str())
        .map(str::to_owned)
        .or_else(|| answer.error.clone())
        .or_else(|| {
            (!answer.sentences.is_empty())
                .then(|| answer.sentences[..answer.sentences.len().min(3)].join(" "))
        });
    let mut command = vec!["inferscope"];
    command.extend(question.words.iter().map(String::as_str));
    let mut head = json!({
        "schema_version": VERSION,
        "tool": tool.name,
        "command": command.join(" "),
        "status": status,
        "sentence": sentence,
        "scope": question.scope,
        "notes": answer.notes,
    });
    cut(&mut head, 400, 8);
    let next: Vec<Value> = tool
        .next
        .iter()
        .map(|(name, shows)| json!({"tool": name, "shows": shows}))
        .collect();
    head["next"] = next.into();
    head["total"] = rows.len().into();
    head["cursor"] = "0000000000".into();
    let beside: &[&str] = match tool.name {
        "why" | "compare" => BESIDE,
        "show" => &[
            "kind",
            "where",
            "cost_ns_per_step",
            "gain_ceiling_ns_per_step",
            "confidence",
            "commands",
            "refute",
            "remedy",
        ],
        _ => &[],
    };
    for name in beside {
        let mut value = document[*name].take();
        if value.is_null() {
            continue;
        }
        cut(&mut value, 300, 12);
        // Half of the room is for rows.
        if size(&head) + size(&value) < BYTES / 2 {
            head[*name] = value;
        }
    }
    let left = rows.get(question.offset..).unwrap_or_default();
    let kept = fitting(left, question.limit, size(&head) + 64);
    let end = question.offset + kept.len();
    head["cursor"] = match end < rows.len() && !kept.is_empty() {
        true => end.to_string().into(),
        false => Value::Null,
    };
    head["rows"] = kept.into();
    Ok(head)
}

/// Returns the JSON document of an answer and the rows that the tool is about.
fn read(tool: &Tool, answer: &cli::in_process::Answer) -> Result<(Value, Vec<Value>), String> {
    let defect = |error: &dyn std::fmt::Display| format!("internal defect: {error}");
    let parse = |text: &[u8]| match text.trim_ascii().is_empty() {
        true => Ok(Value::Null),
        false => serde_json::from_slice(text).map_err(|error| defect(&error)),
    };
    let mut tables = Value::Null;
    if let Some((version, given)) = &answer.tables {
        let text = cli::in_process::document(*version, answer.layout, given)
            .map_err(|error| defect(&error))?;
        tables = parse(&text)?;
    }
    let mut document = parse(&answer.output)?;
    let found = [&mut tables, &mut document].into_iter().find_map(|value| {
        let member = match value {
            // A document that is the list of rows.
            Value::Array(_) => value,
            _ => value.get_mut(tool.rows)?,
        };
        match member.take() {
            Value::Array(rows) => Some(rows),
            Value::Object(mut table) => match table.remove("rows")? {
                Value::Array(rows) => Some(rows),
                _ => None,
            },
            _ => None,
        }
    });
    Ok((document, found.unwrap_or_default()))
}
