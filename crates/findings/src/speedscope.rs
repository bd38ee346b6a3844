//! GPU time by launch stack as a profile for speedscope.

use rustc_hash::FxHashMap;
use serde_json::{Value, json};

use crate::document::Document;

/// Returns the launch stacks of a document in speedscope's file format (speedscope.app/file-format-schema.json): one sampled profile
/// whose weights are nanoseconds of GPU time.
pub fn speedscope(document: &Document) -> Value {
    let mut frames: Vec<Value> = Vec::new();
    let mut places: FxHashMap<&str, usize> = FxHashMap::default();
    let (mut samples, mut weights): (Vec<Vec<usize>>, Vec<i64>) = (Vec::new(), Vec::new());
    for row in &document.figures.stacks {
        let each = row.frames.iter().map(|name| {
            *places.entry(name).or_insert_with(|| {
                frames.push(json!({ "name": name }));
                frames.len() - 1
            })
        });
        samples.push(each.collect());
        weights.push(row.gpu_ns);
    }
    let all: i64 = weights.iter().sum();
    json!({
        "$schema": "https://www.speedscope.app/file-format-schema.json",
        "exporter": format!("inferscope why {}", document.appendix.version),
        "name": document.answer.sentence,
        "activeProfileIndex": 0,
        "shared": { "frames": frames },
        "profiles": [{
            "type": "sampled",
            "name": "GPU time by launch stack",
            "unit": "nanoseconds",
            "startValue": 0,
            "endValue": all,
            "samples": samples,
            "weights": weights,
        }],
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::StackRow;

    #[test]
    fn frames_are_shared_and_weights_add_up() {
        let mut document = Document::default();
        let row = |frames: &[&str], gpu_ns| StackRow {
            frames: frames.iter().map(|name| (*name).to_owned()).collect(),
            gpu_ns,
        };
        document.figures.stacks = vec![row(&["a", "b"], 5), row(&["a", "c"], 7)];
        let profile = speedscope(&document);
        let one = &profile["profiles"][0];
        assert_eq!(one["samples"], json!([[0, 1], [0, 2]]));
        assert_eq!(one["endValue"], 12);
        assert_eq!(
            profile["shared"]["frames"].as_array().map(Vec::len),
            Some(3)
        );
    }
}
