//! The table of slice arguments.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::ops::Range;

use report::{Column, RealFormat, RowSink, real_text};
use trace_model::{ArgValue, Trace};

use crate::display;
use crate::flatten::{Leaf, Path, flatten};
use crate::table::TableOptions;

pub(crate) fn columns() -> Vec<Column> {
    vec![
        Column::uint("slice_id"),
        Column::text("flat_key"),
        Column::text("key"),
        Column::text("value_type"),
        Column::text("value"),
    ]
}

pub(crate) fn rows(
    trace: &Trace,
    options: &TableOptions,
    sink: &mut dyn RowSink,
) -> report::Result<()> {
    let mut leaves = Leaves::new(trace, options);
    let mut path = Path::default();
    if leaves.as_reference {
        path.counts = Some(HashMap::new());
    }
    for slice in trace.slices() {
        leaves.clear();
        if let Some(counts) = &mut path.counts {
            counts.clear();
        }
        for (key, value) in slice.args() {
            leaves.argument(&mut path, key, value);
        }
        leaves.sort();
        leaves.last_of_equal();
        let id = slice.id().index();
        for row in &leaves.rows {
            sink.row(&[
                id.into(),
                leaves.text[row.flat.clone()].into(),
                leaves.text[row.key.clone()].into(),
                row.value_type.into(),
                leaves.text[row.value.clone()].into(),
            ])?;
        }
    }
    Ok(())
}

/// The rows of one slice; texts are ranges of one buffer that is reused for the next slice.
struct Leaves {
    rows: Vec<Row>,
    text: String,
    reals: RealFormat,
    /// `true` to show unsigned integers as the reference does for JSON: reals of the wrapped value.
    wrap: bool,
    /// `true` to truncate texts at NUL as the reference does.
    cut: bool,
    /// `true` to show only the last of equal keys, and nothing after an invalid number.
    as_reference: bool,
    /// `true` once this slice had such a number.
    is_over: bool,
    /// `true` if keys may contain array indices.
    indexed_keys: bool,
}

struct Row {
    key: Range<usize>,
    flat: Range<usize>,
    value_type: &'static str,
    value: Range<usize>,
}

impl Leaves {
    fn new(trace: &Trace, options: &TableOptions) -> Self {
        let json = display::is_json(trace);
        Self {
            rows: Vec::new(),
            text: String::new(),
            reals: if options.compat {
                RealFormat::Significant15
            } else {
                RealFormat::ShortestPoint
            },
            wrap: options.compat && json,
            cut: options.compat,
            as_reference: options.compat && json,
            is_over: false,
            indexed_keys: !json,
        }
    }

    fn clear(&mut self) {
        self.rows.clear();
        self.text.clear();
        self.is_over = false;
    }

    /// Sorts ascending by key; equal keys stay in file order.
    fn sort(&mut self) {
        let text = &self.text;
        let key = |row: &Row| &text.as_bytes()[row.key.clone()];
        if !self.rows.is_sorted_by(|a, b| key(a) <= key(b)) {
            self.rows.sort_by(|a, b| key(a).cmp(key(b)));
        }
    }

    /// Keeps only the last of sorted rows with the same key.
    fn last_of_equal(&mut self) {
        if self.as_reference {
            let text = &self.text;
            self.rows.dedup_by(|later, kept| {
                let is_same = text[later.key.clone()] == text[kept.key.clone()];
                if is_same {
                    std::mem::swap(later, kept);
                }
                is_same
            });
        }
    }

    fn argument(&mut self, path: &mut Path, key: &str, value: ArgValue<'_>) {
        path.set(key);
        if self.indexed_keys && key.contains('[') {
            path.flat = without_indices(key);
        }
        match value {
            ArgValue::Int(n) => self.leaf(path, Leaf::Int(n)),
            ArgValue::UInt(n) => self.leaf(path, Leaf::UInt(n)),
            ArgValue::Real(x) => self.leaf(path, Leaf::Real(x)),
            ArgValue::Bool(b) => self.leaf(path, Leaf::Bool(b)),
            ArgValue::Str(s) => self.leaf(path, Leaf::Str(s.into())),
            ArgValue::Pointer(p) => self.row(path, "pointer", |text| {
                // Writing to a String cannot fail.
                let _ = write!(text, "{p:#x}");
            }),
            ArgValue::Json(raw) => {
                let kept = (self.rows.len(), self.text.len());
                if flatten(raw, path, &mut |path, leaf| self.leaf(path, leaf)).is_err() {
                    self.rows.truncate(kept.0);
                    self.text.truncate(kept.1);
                    self.row(path, "json", |text| text.push_str(raw));
                }
            }
            _ => {}
        }
    }

    fn leaf(&mut self, path: &Path, leaf: Leaf<'_>) {
        let reals = self.reals;
        if self.as_reference {
            self.is_over |= matches!(leaf, Leaf::Real(x) if !x.is_finite());
            if self.is_over {
                return;
            }
        }
        match leaf {
            Leaf::Int(n) => self.row(path, "int", |text| {
                let _ = write!(text, "{n}");
            }),
            Leaf::UInt(n) if self.wrap => {
                #[expect(
                    clippy::cast_precision_loss,
                    reason = "what the reference shows is this inexact"
                )]
                let wrapped = n.cast_signed() as f64;
                self.leaf(path, Leaf::Real(wrapped));
            }
            Leaf::UInt(n) => self.row(path, "uint", |text| {
                let _ = write!(text, "{n}");
            }),
            Leaf::Real(x) => self.row(path, "real", |text| text.push_str(&real_text(x, reals))),
            Leaf::Bool(b) => self.row(path, "bool", |text| {
                text.push_str(if b { "true" } else { "false" });
            }),
            Leaf::Str(s) => {
                let shown = match s.find('\0') {
                    Some(end) if self.cut => &s[..end],
                    _ => &s,
                };
                self.row(path, "string", |text| text.push_str(shown));
            }
        }
    }

    fn row(&mut self, path: &Path, value_type: &'static str, value: impl FnOnce(&mut String)) {
        let text = &mut self.text;
        let start = text.len();
        text.push_str(&path.key);
        let key = start..text.len();
        let flat = if path.flat == path.key {
            key.clone()
        } else {
            text.push_str(&path.flat);
            key.end..text.len()
        };
        let start = text.len();
        value(text);
        self.rows.push(Row {
            key,
            flat,
            value_type,
            value: start..text.len(),
        });
    }
}

/// Returns the key without array indices: `debug.l[2].z` as `debug.l.z`.
fn without_indices(key: &str) -> String {
    let mut out = String::with_capacity(key.len());
    let mut rest = key;
    while let Some(open) = rest.find('[') {
        let (before, after) = rest.split_at(open);
        out.push_str(before);
        let index = after
            .find(']')
            .filter(|&close| close > 1 && after[1..close].bytes().all(|b| b.is_ascii_digit()));
        match index {
            Some(close) => rest = &after[close + 1..],
            None => {
                out.push('[');
                rest = &after[1..];
            }
        }
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::without_indices;

    #[test]
    fn only_indices_are_taken_out_of_keys() {
        assert_eq!(without_indices("debug.l[2].z[10][3]"), "debug.l.z");
        assert_eq!(without_indices("a[b].c[]d["), "a[b].c[]d[");
    }
}
