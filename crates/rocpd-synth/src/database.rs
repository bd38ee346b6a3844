//! Writes rows to tables.

use std::collections::HashMap;
use std::path::Path;

use rusqlite::types::Value;
use rusqlite::{CachedStatement, Connection};

use crate::schema::tables;

/// Error of writing a database.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// SQLite failed.
    #[error("cannot write the database")]
    Sqlite(#[from] rusqlite::Error),
    /// The folder could not be created, or an old file could not be removed.
    #[error("cannot write files")]
    Io(#[from] std::io::Error),
}

/// A database under construction.
pub(crate) struct Database {
    connection: Connection,
    suffix: String,
    strings: HashMap<String, i64>,
    next: HashMap<&'static str, i64>,
    inserts: HashMap<&'static str, String>,
}

impl Database {
    pub(crate) fn create(
        path: &Path,
        guid: &str,
        suffix: &str,
        generation: u32,
    ) -> Result<Self, Error> {
        if path.exists() {
            std::fs::remove_file(path)?;
        }
        let connection = Connection::open(path)?;
        connection.execute_batch(
            "PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF; PRAGMA foreign_keys=OFF; PRAGMA temp_store=MEMORY",
        )?;
        connection.set_prepared_statement_cache_capacity(64);
        // Defaults of the format are texts in double quotes.
        connection.set_db_config(rusqlite::config::DbConfig::SQLITE_DBCONFIG_DQS_DDL, true)?;
        connection.execute_batch("BEGIN")?;
        connection.execute_batch(&tables(suffix, guid, generation))?;
        let mut database = Self {
            connection,
            suffix: suffix.to_owned(),
            strings: HashMap::new(),
            next: HashMap::new(),
            inserts: HashMap::new(),
        };
        database.string("")?;
        Ok(database)
    }

    /// Adds a row with the next id of its table and returns the id.
    pub(crate) fn add<const N: usize>(
        &mut self,
        table: &'static str,
        columns: &str,
        values: [Value; N],
    ) -> Result<i64, Error> {
        let id = self.next.entry(table).or_insert(0);
        *id += 1;
        let id = *id;
        self.add_with_id(table, columns, id, values)?;
        Ok(id)
    }

    /// Adds a row with a given id.
    pub(crate) fn add_with_id<const N: usize>(
        &mut self,
        table: &'static str,
        columns: &str,
        id: i64,
        values: [Value; N],
    ) -> Result<(), Error> {
        let suffix = &self.suffix;
        let sql = self.inserts.entry(table).or_insert_with(|| {
            let marks = vec!["?"; N + 1].join(", ");
            format!("INSERT INTO `rocpd_{table}{suffix}` (id, {columns}) VALUES ({marks})")
        });
        let mut statement: CachedStatement<'_> = self.connection.prepare_cached(sql)?;
        statement.raw_bind_parameter(1, id)?;
        for (at, value) in values.into_iter().enumerate() {
            statement.raw_bind_parameter(at + 2, value)?;
        }
        statement.raw_execute()?;
        Ok(())
    }

    /// Returns the id of a text.
    pub(crate) fn string(&mut self, text: &str) -> Result<i64, Error> {
        if let Some(&id) = self.strings.get(text) {
            return Ok(id);
        }
        let id = self.add("string", "string", [Value::Text(text.to_owned())])?;
        self.strings.insert(text.to_owned(), id);
        Ok(id)
    }

    pub(crate) fn finish(self) -> Result<(), Error> {
        self.connection.execute_batch("COMMIT")?;
        Ok(())
    }
}
