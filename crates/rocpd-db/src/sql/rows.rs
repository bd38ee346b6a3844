//! Statements, and their rows one at a time.

use rusqlite::Connection;
use rusqlite::types::ValueRef;

use crate::error::{Error, Result};

/// A value of a row, or one to bind.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum SqlValue<'a> {
    /// NULL.
    Null,
    /// An integer.
    Int(i64),
    /// A real number.
    Real(f64),
    /// A text; bytes that are not UTF-8 come as [`SqlValue::Blob`].
    Text(&'a str),
    /// Bytes.
    Blob(&'a [u8]),
}

impl rusqlite::ToSql for SqlValue<'_> {
    fn to_sql(&self) -> rusqlite::Result<rusqlite::types::ToSqlOutput<'_>> {
        let value = match *self {
            Self::Null => ValueRef::Null,
            Self::Int(value) => ValueRef::Integer(value),
            Self::Real(value) => ValueRef::Real(value),
            Self::Text(text) => ValueRef::Text(text.as_bytes()),
            Self::Blob(bytes) => ValueRef::Blob(bytes),
        };
        Ok(rusqlite::types::ToSqlOutput::Borrowed(value))
    }
}

/// A prepared statement.
#[derive(Debug)]
pub struct Statement<'c> {
    sql: String,
    statement: rusqlite::Statement<'c>,
}

/// SQLite's own words.
pub(super) fn reason(error: &rusqlite::Error) -> String {
    match error {
        rusqlite::Error::SqliteFailure(_, Some(message)) => message.clone(),
        rusqlite::Error::SqlInputError { msg, .. } => msg.clone(),
        error => error.to_string(),
    }
}

impl<'c> Statement<'c> {
    pub(super) fn new(connection: &'c Connection, sql: &str) -> Result<Self> {
        match connection.prepare(sql) {
            Ok(statement) => Ok(Self {
                sql: sql.to_owned(),
                statement,
            }),
            Err(error) => Err(Error::Sql {
                sql: sql.to_owned(),
                reason: reason(&error),
            }),
        }
    }

    /// Names of the columns, in order.
    #[must_use]
    pub fn columns(&self) -> Vec<String> {
        self.statement.column_names().map(str::to_owned).collect()
    }

    /// Runs the statement with values for its parameters; rows come as they are asked for.
    ///
    /// # Errors
    ///
    /// [`Error::Sql`] when the number of values is wrong or SQLite refuses.
    pub fn query(&mut self, values: &[SqlValue<'_>]) -> Result<Rows<'_>> {
        let columns = self.statement.column_count();
        let names = self.columns();
        match self.statement.query(rusqlite::params_from_iter(values)) {
            Ok(rows) => Ok(Rows {
                sql: &self.sql,
                rows,
                columns,
                names,
            }),
            Err(error) => Err(Error::Sql {
                sql: self.sql.clone(),
                reason: reason(&error),
            }),
        }
    }
}

/// The rows of a statement.
pub struct Rows<'s> {
    sql: &'s str,
    rows: rusqlite::Rows<'s>,
    columns: usize,
    names: Vec<String>,
}

impl std::fmt::Debug for Rows<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Rows")
            .field("sql", &self.sql)
            .finish_non_exhaustive()
    }
}

impl Rows<'_> {
    /// Names of the columns, in order.
    #[must_use]
    pub fn columns(&self) -> Vec<String> {
        self.names.clone()
    }

    /// The next row; `None` after the last.
    ///
    /// # Errors
    ///
    /// [`Error::Sql`] when SQLite fails on the way.
    #[expect(
        clippy::should_implement_trait,
        reason = "a row lives only until the next call, as an Iterator's items do not"
    )]
    pub fn next(&mut self) -> Result<Option<SqlRow<'_>>> {
        let columns = self.columns;
        match self.rows.next() {
            Ok(Some(row)) => Ok(Some(SqlRow { row, columns })),
            Ok(None) => Ok(None),
            Err(error) => Err(Error::Sql {
                sql: self.sql.to_owned(),
                reason: reason(&error),
            }),
        }
    }
}

/// A row; its texts are borrowed until the next one is asked for.
#[derive(Debug, Clone, Copy)]
pub struct SqlRow<'r> {
    row: &'r rusqlite::Row<'r>,
    columns: usize,
}

impl<'r> SqlRow<'r> {
    /// Number of values.
    #[must_use]
    pub fn len(&self) -> usize {
        self.columns
    }

    /// Whether there is no value at all, as rows of statements that return nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.columns == 0
    }

    /// A value; NULL beyond the last.
    #[must_use]
    pub fn get(&self, column: usize) -> SqlValue<'r> {
        match self.row.get_ref(column) {
            Ok(ValueRef::Integer(value)) => SqlValue::Int(value),
            Ok(ValueRef::Real(value)) => SqlValue::Real(value),
            Ok(ValueRef::Text(bytes)) => match std::str::from_utf8(bytes) {
                Ok(text) => SqlValue::Text(text),
                Err(_) => SqlValue::Blob(bytes),
            },
            Ok(ValueRef::Blob(bytes)) => SqlValue::Blob(bytes),
            Ok(ValueRef::Null) | Err(_) => SqlValue::Null,
        }
    }
}
