//! A connection that sees every database through unified views.

use std::fmt::Write as _;
use std::path::Path;

use rusqlite::fallible_iterator::FallibleIterator as _;
use rusqlite::limits::Limit;
use rusqlite::{Connection, OpenFlags};

use crate::error::{Error, Result};
use crate::filter::Window;
use crate::kernel_names::KernelNames;
use crate::set::RocpdSet;
use crate::sql::base::BASE;
use crate::sql::define::{Newest, Part, base_views, data_views, quoted};
use crate::sql::rows::Statement;
use crate::sql::views::{OVER_ALL, SUMMARIES, VIEWS};
use sqlite_scan::Scratch;

/// What all attached databases together may keep of their pages, KiB.
const CACHE_KIB: usize = 32 << 10;

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
            let schema = format!("db{number}");
            session.attach(place, &schema, name)?;
            // SQLite would keep 2 MB of pages of each.
            let kib = (CACHE_KIB / direct).clamp(256, 2000);
            session
                .connection
                .execute_batch(&format!("PRAGMA {schema}.cache_size=-{kib}"))
                .map_err(failed(name, "set up"))?;
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

impl SqlSession {
    fn attach(&self, place: &Path, schema: &str, name: &str) -> Result<()> {
        self.connection
            .execute(&format!("ATTACH DATABASE ?1 AS {schema}"), [uri(place)])
            .map(drop)
            .map_err(failed(name, "attach"))
    }

    fn add_functions(&self) -> Result<()> {
        crate::sql::functions::add(&self.connection).map_err(failed("SQL session", "add functions"))
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
        let newest = Newest::of(set);
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
                newest,
                plain: false,
            })
            .collect();
        let mut script = base_views(&parts, "TEMP ");
        script += &data_views(&parts, "TEMP ");
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
        let summaries = SUMMARIES.iter().map(|(name, ..)| *name);
        let base = BASE.iter().map(|(name, _)| *name);
        base.chain(views).chain(over).chain(summaries)
    }
}
