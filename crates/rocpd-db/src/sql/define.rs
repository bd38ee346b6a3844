//! How tables and views of the format are made of the tables of partitions.

use std::fmt::Write as _;

use crate::filter::{Edge, Window};
use crate::kernel_names::KernelNames;
use crate::partition::Partition;
use crate::set::RocpdSet;
use crate::sql::base::{BASE, IN_TRACK, SPANS, columns};
use crate::sql::views::{CALL_STACK, FROM_SAMPLES, LINE_INFO, OVER_ALL, SUMMARIES, SUMMARY, VIEWS};

/// Selects joined by UNION ALL at once; SQLite allows 500.
const UNION_PARTS: usize = 400;

/// A name in double quotes.
pub(super) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// A text in single quotes.
fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// Which columns that came with newer generations views show.
#[derive(Debug, Clone, Copy)]
pub(super) struct Newest {
    graphs: bool,
    samples: bool,
    replays: bool,
}

impl Newest {
    pub(super) fn of(set: &RocpdSet) -> Self {
        let any = |table: &str, column: &str| {
            set.partitions()
                .iter()
                .any(|partition| partition.has_column(table, column))
        };
        Self {
            graphs: any("rocpd_kernel_dispatch", "graph_exec_id"),
            samples: any("rocpd_pmc_event", "sample_id"),
            replays: any("rocpd_kernel_dispatch", "replay_pass"),
        }
    }
}

/// One partition, as views see it.
pub(super) struct Part<'a> {
    pub(super) partition: &'a Partition,
    /// The attached database it is in; empty for the one that holds the views.
    pub(super) schema: &'a str,
    /// What its tables' names begin with there.
    pub(super) prefix: &'a str,
    pub(super) window: Option<Window>,
    pub(super) names: KernelNames,
    pub(super) newest: Newest,
    /// It stands for all partitions: their tables are those of [`base_views`].
    pub(super) plain: bool,
}

/// Statements that make views over the tables of some partitions; `kind` goes before `VIEW`. Tables and columns are those of
/// all generations of 3.x, and those that partitions have besides: newer versions add tables and columns, and a view must
/// not hide what is recorded.
pub(super) fn base_views(parts: &[Part<'_>], kind: &str) -> String {
    let mut script = String::new();
    let mut tables: Vec<(&str, Vec<&str>)> = Vec::new();
    tables.extend(BASE.iter().map(|(base, list)| (*base, columns(list))));
    for base in parts.iter().flat_map(|part| part.partition.tables()) {
        if !tables.iter().any(|(known, _)| *known == base) {
            tables.push((base, Vec::new()));
        }
    }
    for (base, mut columns) in tables {
        let own = parts.iter().filter_map(|part| part.partition.columns(base));
        for column in own.flatten() {
            if !columns
                .iter()
                .any(|known| known.eq_ignore_ascii_case(column))
            {
                columns.push(column);
            }
        }
        let selects: Vec<String> = parts.iter().map(|part| part.rows(base, &columns)).collect();
        let _ = writeln!(script, "CREATE {kind}VIEW {base} AS {};", union(&selects));
    }
    script
}

/// Statements that make the views of the format; `kind` goes before `VIEW`.
pub(super) fn data_views(parts: &[Part<'_>], kind: &str) -> String {
    let mut script = String::new();
    for (name, template) in VIEWS {
        let selects: Vec<String> = parts
            .iter()
            .filter(|part| part.has_tables_of(name))
            .map(|part| part.fill(template))
            .collect();
        let select = match selects.is_empty() {
            // Without any rows the first partition still tells the columns.
            true => match parts.first() {
                Some(part) => format!("SELECT * FROM ({}) WHERE 0", part.fill(template)),
                None => continue,
            },
            false => union(&selects),
        };
        let _ = writeln!(script, "CREATE {kind}VIEW {name} AS {select};");
    }
    for (name, template) in OVER_ALL {
        let select = match template.split_once("{each: ") {
            None => template.to_owned(),
            Some((before, rest)) => {
                let end = closing(rest);
                let (inner, after) = rest.split_at(end);
                let selects: Vec<String> = parts.iter().map(|part| part.fill(inner)).collect();
                format!("{before}{}{}", union(&selects), &after[1..])
            }
        };
        let _ = writeln!(script, "CREATE {kind}VIEW {name} AS {select};");
    }
    for (name, key, view) in SUMMARIES {
        let select = SUMMARY.replace("{key}", key).replace("{view}", view);
        let _ = writeln!(script, "CREATE {kind}VIEW {name} AS {select};");
    }
    script
}

/// Statements that make tables and views of the format in the one database of a set, for other tools to read.
pub(crate) fn stored_views(set: &RocpdSet) -> String {
    let newest = Newest::of(set);
    let part = |partition, plain| Part {
        partition,
        schema: "",
        prefix: "",
        window: None,
        names: KernelNames::default(),
        newest,
        plain,
    };
    match set.partitions() {
        // The tables themselves have the names.
        [one] if one.suffix().is_empty() => data_views(&[part(one, false)], ""),
        all => {
            let parts: Vec<Part<'_>> = all.iter().map(|one| part(one, false)).collect();
            let whole: Vec<Part<'_>> = all.iter().take(1).map(|one| part(one, true)).collect();
            // Views over views, for those over each partition would take a megabyte for every thirty of them.
            base_views(&parts, "") + &data_views(&whole, "")
        }
    }
}

impl Part<'_> {
    /// The rows of a table with all columns that any generation has.
    fn rows(&self, base: &str, columns: &[&str]) -> String {
        let Some(name) = self.partition.table_name(base) else {
            let nulls: Vec<String> = columns
                .iter()
                .map(|column| format!("NULL AS {}", quoted(column)))
                .collect();
            return format!("SELECT {} WHERE 0", nulls.join(", "));
        };
        let has = |column: &str| self.partition.has_column(base, column);
        let tracked =
            !has("pid") && has("track_id") && self.partition.table("rocpd_track").is_some();
        let mut lists: Vec<String> = Vec::new();
        let list: Vec<String> = columns
            .iter()
            .map(|&column| {
                let alias = quoted(column);
                // Nothing joins tables that the format does not know: they are shown as stored.
                let is_known = crate::partition::TABLES.contains(&base);
                if column == "guid" && is_known && !self.partition.is_shared() {
                    format!("{} AS guid", literal(self.partition.guid()))
                } else if tracked
                    && IN_TRACK.contains(&column)
                    && self.partition.has_column("rocpd_track", column)
                {
                    format!("TK.{alias} AS {alias}")
                } else if self.clips()
                    && base != "rocpd_sample"
                    && SPANS.contains(&base)
                    && (column == "start" || column == "end")
                {
                    self.clipped(column)
                } else if has(column) {
                    format!("X.{alias} AS {alias}")
                } else if let Some(list) = self.list_of_event(base, column) {
                    lists.push(list);
                    format!("LIST{}.list AS {alias}", lists.len())
                } else {
                    format!("NULL AS {alias}")
                }
            })
            .collect();
        let mut select = format!("SELECT {} FROM {} X", list.join(", "), self.table(name));
        if tracked && let Some(track) = self.partition.table_name("rocpd_track") {
            let _ = write!(
                select,
                " LEFT JOIN {} TK ON TK.id = X.track_id",
                self.table(track)
            );
        }
        for (number, list) in (1..).zip(lists) {
            let _ = write!(
                select,
                " LEFT JOIN ({list}) LIST{number} ON LIST{number}.of_event = X.id"
            );
        }
        if let Some(window) = self.window {
            let (a, b) = (window.start_ns, window.end_ns);
            if base == "rocpd_sample" {
                let _ = write!(select, " WHERE X.timestamp BETWEEN {a} AND {b}");
            } else if SPANS.contains(&base) {
                let _ = match window.edge {
                    Edge::Inside => write!(select, " WHERE X.start >= {a} AND X.\"end\" <= {b}"),
                    _ => write!(select, " WHERE X.start <= {b} AND X.\"end\" >= {a}"),
                };
            }
        }
        select
    }

    /// What generation 4 keeps of events in tables of their own, as the JSON that earlier ones have in a column: a select of
    /// `of_event` and `list`. Nothing unless the tables are there.
    fn list_of_event(&self, base: &str, column: &str) -> Option<String> {
        let template = match (base, column) {
            ("rocpd_event", "call_stack") => CALL_STACK,
            ("rocpd_event", "line_info") => LINE_INFO,
            _ => return None,
        };
        let main = if column == "call_stack" {
            "rocpd_call_stack"
        } else {
            "rocpd_line_info"
        };
        self.partition.table(main)?;
        // Tables besides the main one may be missing.
        Some(
            Part {
                plain: false,
                ..*self
            }
            .fill(template),
        )
    }

    /// A table where it is.
    fn table(&self, name: &str) -> String {
        let name = quoted(&format!("{}{name}", self.prefix));
        match self.schema {
            "" => name,
            schema => format!("{schema}.{name}"),
        }
    }

    fn clips(&self) -> bool {
        self.window
            .is_some_and(|window| window.edge == Edge::Clipped)
    }

    fn clipped(&self, column: &str) -> String {
        match (self.window, column) {
            (Some(window), "start") => format!("MAX(X.start, {}) AS start", window.start_ns),
            (Some(window), _) => format!("MIN(X.\"end\", {}) AS \"end\"", window.end_ns),
            _ => format!("X.{}", quoted(column)),
        }
    }

    fn has_tables_of(&self, view: &str) -> bool {
        let table = match view {
            "graph_launches" => "rocpd_graph_launch",
            "hip_events" => "rocpd_hip_event",
            "spm_counters" => "rocpd_pmc_event",
            "call_stacks" => "rocpd_call_stack",
            "source_lines" => "rocpd_line_info",
            _ => return true,
        };
        self.plain || self.partition.table(table).is_some()
    }

    /// Puts the rows of this partition into a template.
    fn fill(&self, template: &str) -> String {
        let mut out = String::with_capacity(template.len() * 4);
        let mut rest = template;
        while let Some((before, after)) = rest.split_once('{') {
            out.push_str(before);
            let Some((name, after)) = after.split_once('}') else {
                break;
            };
            rest = after;
            match name {
                "category" => out.push_str(&self.category()),
                "kernel_name" => out.push_str(&self.kernel_name()),
                "from_samples" => out.push_str(&self.fill(FROM_SAMPLES)),
                "since_3_0_2" if self.newest.graphs => {
                    out.push_str(", K.graph_exec_id, K.graph_node_id");
                }
                "copy_since_3_0_2" if self.newest.graphs => {
                    out.push_str(", M.graph_exec_id, M.graph_node_id");
                }
                "event_since_3_0_3" if self.newest.samples => out.push_str(", K.event_id"),
                "replay_since_3_0_5" if self.newest.replays => out.push_str(", K.replay_pass"),
                "since_3_0_2" | "copy_since_3_0_2" | "event_since_3_0_3" | "replay_since_3_0_5" => {
                }
                name if self.plain => {
                    let _ = write!(out, "rocpd_{name}");
                }
                name => {
                    let base = format!("rocpd_{name}");
                    let columns = BASE
                        .iter()
                        .find(|(known, _)| *known == base)
                        .map(|(_, list)| columns(list))
                        .unwrap_or_default();
                    let _ = write!(out, "({})", self.rows(&base, &columns));
                }
            }
        }
        out.push_str(rest);
        out
    }

    /// The name of a kernel `S` launched in region `R`.
    fn kernel_name(&self) -> String {
        let own = match self.names {
            KernelNames { mangled: true, .. } => "S.kernel_name",
            KernelNames { demangle: true, .. } => {
                "COALESCE(rocpd_demangle(S.kernel_name), S.display_name)"
            }
            _ => "S.display_name",
        };
        let own = match self.names.truncate && !self.names.mangled {
            true => format!("rocpd_truncate({own})"),
            false => own.to_owned(),
        };
        match self.names.by_region {
            true => format!("CASE WHEN R.string <> '' THEN R.string ELSE {own} END"),
            false => own,
        }
    }

    /// The category of an event `E`.
    fn category(&self) -> String {
        let name = |base: &str, column: &str| {
            if self.plain {
                return format!(
                    "(SELECT {column} FROM {base} RS WHERE RS.id = E.category_id AND RS.guid = E.guid)"
                );
            }
            let table = self.table(self.partition.table_name(base).unwrap_or_default());
            format!("(SELECT {column} FROM {table} RS WHERE RS.id = E.category_id)")
        };
        let known = ["name", "category", "string"]
            .into_iter()
            .find(|column| self.partition.has_column("rocpd_info_category", column));
        match known {
            Some(column) => name("rocpd_info_category", column),
            None => name("rocpd_string", "string"),
        }
    }
}

/// Where the brace closes that was opened before `text`.
fn closing(text: &str) -> usize {
    let mut depth = 1;
    for (at, c) in text.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return at;
        }
    }
    text.len()
}

/// All rows of several selects, in groups of as many as SQLite takes at once.
fn union(selects: &[String]) -> String {
    if selects.len() <= UNION_PARTS {
        return selects.join(" UNION ALL ");
    }
    let groups: Vec<String> = selects
        .chunks(UNION_PARTS)
        .map(|group| format!("SELECT * FROM ({})", group.join(" UNION ALL ")))
        .collect();
    union(&groups)
}
