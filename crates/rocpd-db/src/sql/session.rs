//! A connection that sees every database through unified views.

use std::fmt::Write as _;
use std::path::Path;

use rusqlite::fallible_iterator::FallibleIterator as _;
use rusqlite::limits::Limit;
use rusqlite::{Connection, OpenFlags};

use crate::error::{Error, Result};
use crate::filter::{Edge, Window};
use crate::kernel_names::KernelNames;
use crate::partition::Partition;
use crate::scratch::Scratch;
use crate::set::RocpdSet;
use crate::sql::base::{BASE, IN_TRACK, SPANS, columns};
use crate::sql::rows::Statement;
use crate::sql::views::{FROM_SAMPLES, OVER_ALL, VIEWS};

/// Selects joined by UNION ALL at once; SQLite allows 500.
const UNION_PARTS: usize = 400;

/// A SQLite connection on which the tables (`rocpd_*`) and views (`kernels`, `regions`, ...) of the format cover all
/// databases of a set.
///
/// Databases are attached read-only. Views, triggers and everything else that they bring along in their schemas is not
/// used; the connection refuses to attach or create files. Temporary tables and views are the caller's to make.
#[derive(Debug)]
pub struct SqlSession {
    connection: Connection,
    _scratch: Option<Scratch>,
}

fn failed(name: &str, step: &'static str) -> impl FnOnce(rusqlite::Error) -> Error {
    let name = name.to_owned();
    move |source| Error::Sqlite { name, step, source }
}

impl RocpdSet {
    /// Opens a connection for SQL over all databases, perhaps only on the records in a window; `names` says what the
    /// view `kernels` calls kernels.
    ///
    /// The window applies to tables with times; events, arguments and counters disappear with what they belong to.
    /// Beyond the number of databases that SQLite can attach (125 in this workspace), tables are copied to a temporary file.
    ///
    /// # Errors
    ///
    /// When SQLite cannot open a database.
    pub fn sql(&self, window: Option<Window>, names: KernelNames) -> Result<SqlSession> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
            | OpenFlags::SQLITE_OPEN_CREATE
            | OpenFlags::SQLITE_OPEN_URI
            | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection =
            Connection::open_in_memory_with_flags(flags).map_err(failed("SQL session", "open"))?;
        connection
            .execute_batch(
                "PRAGMA foreign_keys=OFF; PRAGMA trusted_schema=OFF; PRAGMA cell_size_check=ON; PRAGMA temp_store=MEMORY; \
                 PRAGMA query_only=OFF; PRAGMA cache_size=-16384",
            )
            .map_err(failed("SQL session", "set up"))?;
        let limit = connection
            .limit(Limit::SQLITE_LIMIT_ATTACHED)
            .map_err(failed("SQL session", "read a limit"))?;
        let limit = usize::try_from(limit).unwrap_or(10);
        let places = self.places();
        let mut session = SqlSession {
            connection,
            _scratch: None,
        };
        // The last place is for the file that takes what cannot be attached.
        let direct = if places.len() <= limit {
            places.len()
        } else {
            limit - 2
        };
        for (number, (name, place)) in places.iter().enumerate().take(direct) {
            session.attach(place, &format!("db{number}"), name)?;
        }
        let mut schemas: Vec<(String, String)> = Vec::new();
        for partition in self.partitions() {
            let number = places
                .iter()
                .position(|(name, _)| name == partition.path())
                .unwrap_or_default();
            schemas.push(match number < direct {
                true => (format!("db{number}"), String::new()),
                false => ("more".to_owned(), format!("p{}_", schemas.len())),
            });
        }
        if direct < places.len() {
            session.copy_rest(self, direct, &schemas)?;
        }
        session.add_functions()?;
        session.define(self, &schemas, window, names)?;
        session
            .connection
            .set_limit(Limit::SQLITE_LIMIT_ATTACHED, 0)
            .map_err(failed("SQL session", "set a limit"))?;
        Ok(session)
    }
}

/// A path as the text of a URI.
pub(crate) fn uri(path: &Path) -> String {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let mut out = String::from("file:");
    for byte in absolute.as_os_str().as_encoded_bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'.' | b'-' | b'_' | b'~' => {
                out.push(char::from(*byte));
            }
            byte => {
                let _ = write!(out, "%{byte:02X}");
            }
        }
    }
    out.push_str("?mode=ro&immutable=1");
    out
}

/// A name in double quotes.
fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// A text in single quotes.
fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

impl SqlSession {
    fn attach(&self, place: &Path, schema: &str, name: &str) -> Result<()> {
        self.connection
            .execute(&format!("ATTACH DATABASE ?1 AS {schema}"), [uri(place)])
            .map(drop)
            .map_err(failed(name, "attach"))
    }

    /// `rocpd_demangle(name)` and `rocpd_truncate(name)`.
    fn add_functions(&self) -> Result<()> {
        use rusqlite::functions::FunctionFlags;
        let flags = FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DETERMINISTIC;
        let step = "add functions";
        self.connection
            .create_scalar_function("rocpd_demangle", 1, flags, |context| {
                let name: Option<String> = context.get(0)?;
                Ok(name.and_then(|name| crate::demangle(&name)))
            })
            .map_err(failed("SQL session", step))?;
        self.connection
            .create_scalar_function("rocpd_truncate", 1, flags, |context| {
                let name: Option<String> = context.get(0)?;
                Ok(name.map(|name| crate::truncate(&name).to_owned()))
            })
            .map_err(failed("SQL session", step))
    }

    /// Copies the tables of the databases beyond the limit, one database after the other.
    fn copy_rest(
        &mut self,
        set: &RocpdSet,
        direct: usize,
        schemas: &[(String, String)],
    ) -> Result<()> {
        let scratch =
            Scratch::new().map_err(|e| Error::io(&std::env::temp_dir(), "make a folder", e))?;
        let file = scratch.path().join("more.db");
        let step = "copy tables";
        self.connection
            .execute("ATTACH DATABASE ?1 AS more", [file.to_string_lossy()])
            .map_err(failed("temporary file", "attach"))?;
        self.connection
            .execute_batch("PRAGMA more.journal_mode=OFF; PRAGMA more.synchronous=OFF")
            .map_err(failed("temporary file", step))?;
        for (name, place) in set.places().iter().skip(direct) {
            self.attach(place, "one", name)?;
            for (partition, (_, prefix)) in set.partitions().iter().zip(schemas) {
                if partition.path() != name {
                    continue;
                }
                for base in partition.tables() {
                    let (Some(from), Some(columns)) =
                        (partition.table_name(base), partition.columns(base))
                    else {
                        continue;
                    };
                    let mut declared = Vec::new();
                    for column in &columns {
                        declared.push(match *column {
                            "id" => "id INTEGER PRIMARY KEY".to_owned(),
                            column => quoted(column),
                        });
                    }
                    let list: Vec<String> = columns.iter().map(|column| quoted(column)).collect();
                    let list = list.join(", ");
                    let to = quoted(&format!("{prefix}{from}"));
                    self.connection
                        .execute_batch(&format!(
                            "CREATE TABLE more.{to} ({}); INSERT INTO more.{to} ({list}) SELECT {list} FROM one.{}",
                            declared.join(", "),
                            quoted(from)
                        ))
                        .map_err(failed(name, step))?;
                }
            }
            self.connection
                .execute_batch("DETACH DATABASE one")
                .map_err(failed(name, step))?;
        }
        self._scratch = Some(scratch);
        Ok(())
    }

    fn define(
        &self,
        set: &RocpdSet,
        schemas: &[(String, String)],
        window: Option<Window>,
        names: KernelNames,
    ) -> Result<()> {
        let parts: Vec<Part<'_>> = set
            .partitions()
            .iter()
            .zip(schemas)
            .map(|(partition, (schema, prefix))| Part {
                partition,
                schema,
                prefix,
                window,
                names,
                newest: newest(set),
            })
            .collect();
        let mut script = String::new();
        for (base, list) in BASE {
            let columns = columns(list);
            let selects: Vec<String> = parts.iter().map(|part| part.rows(base, &columns)).collect();
            let _ = writeln!(script, "CREATE TEMP VIEW {base} AS {};", union(&selects));
        }
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
            let _ = writeln!(script, "CREATE TEMP VIEW {name} AS {select};");
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
            let _ = writeln!(script, "CREATE TEMP VIEW {name} AS {select};");
        }
        self.connection
            .execute_batch(&script)
            .map_err(failed("unified views", "define"))
    }

    /// Prepares a statement; values for `?1`, `?2`, ... are bound by [`Statement::query`].
    ///
    /// # Errors
    ///
    /// [`Error::Sql`] with SQLite's reason.
    pub fn prepare(&self, sql: &str) -> Result<Statement<'_>> {
        Statement::new(&self.connection, sql)
    }

    /// Runs a script: any number of statements, split by SQLite itself, so that semicolons in texts and triggers are no
    /// trouble. Rows they give are dropped.
    ///
    /// # Errors
    ///
    /// [`Error::Sql`] with SQLite's reason.
    pub fn run_script(&self, script: &str) -> Result<()> {
        let mut rest = rusqlite::Batch::new(&self.connection, script);
        let failed = |reason: rusqlite::Error| Error::Sql {
            sql: script.trim().to_owned(),
            reason: crate::sql::rows::reason(&reason),
        };
        while let Some(mut statement) = rest.next().map_err(failed)? {
            let mut rows = statement.query([]).map_err(failed)?;
            while rows.next().map_err(failed)?.is_some() {}
        }
        Ok(())
    }

    /// Names of the unified tables and views.
    pub fn tables() -> impl Iterator<Item = &'static str> {
        let views = VIEWS.iter().map(|(name, _)| *name);
        let over = OVER_ALL.iter().map(|(name, _)| *name);
        BASE.iter().map(|(name, _)| *name).chain(views).chain(over)
    }
}

/// Which columns that came with newer generations views show.
#[derive(Debug, Clone, Copy)]
struct Newest {
    graphs: bool,
    samples: bool,
}

fn newest(set: &RocpdSet) -> Newest {
    let any = |table: &str, column: &str| {
        set.partitions()
            .iter()
            .any(|partition| partition.has_column(table, column))
    };
    Newest {
        graphs: any("rocpd_kernel_dispatch", "graph_exec_id"),
        samples: any("rocpd_pmc_event", "sample_id"),
    }
}

/// One partition in an attached database.
struct Part<'a> {
    partition: &'a Partition,
    schema: &'a str,
    prefix: &'a str,
    window: Option<Window>,
    names: KernelNames,
    newest: Newest,
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
        let list: Vec<String> = columns
            .iter()
            .map(|&column| {
                let alias = quoted(column);
                if column == "guid" && !self.partition.is_shared() {
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
                } else {
                    format!("NULL AS {alias}")
                }
            })
            .collect();
        let table = |name: &str| {
            format!(
                "{}.{}",
                self.schema,
                quoted(&format!("{}{name}", self.prefix))
            )
        };
        let mut select = format!("SELECT {} FROM {} X", list.join(", "), table(name));
        if tracked && let Some(track) = self.partition.table_name("rocpd_track") {
            let _ = write!(
                select,
                " LEFT JOIN {} TK ON TK.id = X.track_id",
                table(track)
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
            _ => return true,
        };
        self.partition.table(table).is_some()
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
                "since_3_0_2" | "copy_since_3_0_2" | "event_since_3_0_3" => {}
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
            let table = self.partition.table_name(base).unwrap_or_default();
            let table = quoted(&format!("{}{table}", self.prefix));
            format!(
                "(SELECT {column} FROM {}.{table} RS WHERE RS.id = E.category_id)",
                self.schema
            )
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
pub(crate) fn union(selects: &[String]) -> String {
    if selects.len() <= UNION_PARTS {
        return selects.join(" UNION ALL ");
    }
    let groups: Vec<String> = selects
        .chunks(UNION_PARTS)
        .map(|group| format!("SELECT * FROM ({})", group.join(" UNION ALL ")))
        .collect();
    union(&groups)
}
