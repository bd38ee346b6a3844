//! Stacks by map as a document, a table, a text and a flame graph.

use std::fmt::Write as _;
use std::io;

use charts::flame::{FlameGraph, FlameOptions};
use report::Column;
use serde_json::{Value, json};

use crate::error::Result;
use crate::stacks::Stacks;
use crate::tables;

/// Keys of a map of stacks that are printed as text; the other formats have all.
const KEYS_PRINTED: usize = 10;

/// Returns the requests of all classes.
fn total(classes: &[(&str, u64)]) -> u64 {
    let counts = classes.iter().map(|class| class.1);
    counts.fold(0, u64::saturating_add)
}

fn share(count: u64, total: u64) -> f64 {
    count as f64 / total.max(1) as f64
}

impl Stacks {
    /// Returns requests by class, way of submission and key of each map.
    #[must_use]
    pub fn document(&self) -> Value {
        let maps = self.maps().into_iter().map(|map| {
            let classes = self.classes(map);
            let total = total(&classes);
            let classes: Vec<Value> = classes
                .iter()
                .map(|(class, count)| {
                    json!({"class": class, "requests": count, "share": share(*count, total)})
                })
                .collect();
            let submissions: Vec<Value> = self
                .submissions(map)
                .iter()
                .map(|(name, count)| json!({"submission": name, "requests": count}))
                .collect();
            let mut value =
                json!({"requests": total, "classes": classes, "submissions": submissions});
            let keys = self.keys(map);
            if !keys.is_empty() {
                let keys = keys.iter();
                value["keys"] = keys
                    .map(|(key, count)| json!({"key": key, "requests": count}))
                    .collect();
            }
            (map.to_owned(), value)
        });
        let maps: serde_json::Map<String, Value> = maps.collect();
        json!({
            "schema_version": 1,
            "stacks": self.stacks.len(),
            "printed_twice": self.duplicates,
            "malformed": self.malformed,
            "maps": maps,
        })
    }

    /// Writes the same as CSV, a row each.
    ///
    /// # Errors
    ///
    /// Those of `out`.
    pub fn write_csv(&self, out: &mut dyn io::Write) -> Result<()> {
        let mut columns = tables::named_columns(&["map", "by", "name"], &["requests"]);
        columns.push(Column::real("share"));
        let rows = self.maps().into_iter().flat_map(|map| {
            let classes = self.classes(map);
            let total = total(&classes);
            let classes = classes.into_iter().map(|found| ("class", found));
            let submissions = self.submissions(map).into_iter();
            let keys = self.keys(map).into_iter();
            let all = classes
                .chain(submissions.map(|found| ("submission", found)))
                .chain(keys.map(|found| ("key", found)));
            let row = move |(by, (name, count)): (&str, (&str, u64))| {
                let texts = [map, by, name].map(Value::from);
                [&texts[..], &[count.into(), share(count, total).into()]].concat()
            };
            all.map(row).collect::<Vec<_>>()
        });
        tables::print_table(out, report::Format::Csv, &columns, rows)
    }

    /// Returns the same as text, with the keys of most requests.
    #[must_use]
    pub fn text(&self) -> String {
        let mut out = String::new();
        for map in self.maps() {
            let classes = self.classes(map);
            let total = total(&classes);
            let _ = writeln!(out, "{map}: {total} requests");
            for (class, count) in &classes {
                let share = share(*count, total) * 100.0;
                let _ = writeln!(out, "  {class:<16} {count:>10}  {share:5.1} %");
            }
            for (name, count) in self.submissions(map) {
                let _ = writeln!(out, "  submitted by {name}: {count}");
            }
            let keys = self.keys(map);
            for (key, count) in keys.iter().take(KEYS_PRINTED) {
                let _ = writeln!(out, "  of {key}: {count}");
            }
            if keys.len() > KEYS_PRINTED {
                let _ = writeln!(out, "  and of {} more", keys.len() - KEYS_PRINTED);
            }
        }
        out
    }

    /// Returns a flame graph of all maps as SVG.
    #[must_use]
    pub fn flame_graph(&self) -> String {
        let mut graph = FlameGraph::new();
        for stack in &self.stacks {
            let mut frames = vec![stack.map.as_str()];
            frames.extend(Some(stack.key.as_str()).filter(|key| !key.is_empty()));
            frames.extend(stack.frames.iter().rev().map(String::as_str));
            graph.add(frames, stack.count);
        }
        let drawn = graph.draw(&FlameOptions::default());
        drawn.svg.as_str().to_owned()
    }
}
