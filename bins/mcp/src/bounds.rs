//! Bounds of an answer. Text of a trace is data: it is cut, and control characters are taken out.

use serde_json::Value;

/// Maximum size of an answer as JSON in bytes. The protocol has it twice, as text and as structure, which makes 25 kB with what is
/// around them.
pub(crate) const BYTES: usize = 12_000;

/// Lengths of text and lists in an answer, from the most generous on.
const STEPS: &[(usize, usize)] = &[(400, 50), (240, 16), (160, 8), (100, 4), (60, 2)];

/// Returns the size of a value as JSON text, and once more as text within JSON.
pub(crate) fn size(value: &Value) -> usize {
    let text = value.to_string();
    // Quotes and backslashes are escaped when the text itself is put into JSON.
    let escaped = text
        .bytes()
        .filter(|byte| matches!(byte, b'"' | b'\\'))
        .count();
    (2 * text.len() + escaped) / 2
}

/// Cuts text and lists in a value.
pub(crate) fn cut(value: &mut Value, text: usize, list: usize) {
    match value {
        Value::String(string) => {
            let is_long = string.chars().nth(text).is_some();
            if is_long || string.contains(char::is_control) {
                let kept = string.chars().map(|letter| match letter.is_control() {
                    true => ' ',
                    false => letter,
                });
                let mut cut: String = kept.take(text).collect();
                if is_long {
                    cut.push('…');
                }
                *string = cut;
            }
        }
        Value::Array(values) => {
            values.truncate(list);
            values.iter_mut().for_each(|value| cut(value, text, list));
        }
        Value::Object(members) => members
            .values_mut()
            .for_each(|value| cut(value, text, list)),
        _ => {}
    }
}

/// Returns `rows` cut so that as many as possible, but at most `count`, fit beside `rest` bytes.
pub(crate) fn fitting(rows: &[Value], count: usize, rest: usize) -> Vec<Value> {
    let room = BYTES.saturating_sub(rest);
    let mut best = Vec::new();
    for &(text, list) in STEPS {
        let mut kept = Vec::new();
        let mut used = 0;
        for row in rows.iter().take(count) {
            let mut row = row.clone();
            cut(&mut row, text, list);
            used += size(&row) + 1;
            if used > room {
                break;
            }
            kept.push(row);
        }
        if !kept.is_empty() || rows.is_empty() {
            return kept;
        }
        best = kept;
    }
    best
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn text_is_cut_by_letters_and_has_no_control_characters() {
        let mut value = json!({"a": ["é\u{1b}[31m".repeat(300)], "b": 1});
        cut(&mut value, 10, 5);
        let text = value["a"][0].as_str().unwrap();
        assert_eq!(text.chars().count(), 11);
        assert!(!text.contains(char::is_control));
    }

    #[test]
    fn rows_fit_and_a_huge_one_is_cut_rather_than_left_out() {
        let rows: Vec<Value> = (0..500)
            .map(|at| json!({"name": "k".repeat(300), "at": at}))
            .collect();
        let kept = fitting(&rows, 50, 1_000);
        assert!(kept.len() > 10 && kept.len() <= 50);
        assert!(size(&Value::Array(kept)) <= BYTES - 1_000);
        let huge = [json!({"stack": vec!["frame ".repeat(200); 400]})];
        let kept = fitting(&huge, 1, 1_000);
        assert_eq!(kept.len(), 1);
        assert!(size(&kept[0]) <= BYTES - 1_000);
    }
}
