//! Answers of tools, and their tables, as Python objects that do not change.

use std::sync::{Arc, OnceLock};

use arrow_array::ffi::FFI_ArrowSchema;
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{RecordBatch, RecordBatchIterator};
use cli::in_process;
use pyo3::exceptions::{PyKeyError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyCapsule, PyList};
use report::{Cell, SchemaVersion};

use crate::document;

/// What a tool answered.
#[pyclass(frozen, module = "inferscope._native")]
pub(crate) struct Answer {
    answer: in_process::Answer,
    /// Tables that the tool gave as such.
    given: Vec<Arc<Shared>>,
    /// Those, and the ones in the JSON document, which is read when they are asked for.
    tables: OnceLock<Vec<Arc<Shared>>>,
}

/// A table and its Arrow form, which is made once and shared by all who read it.
struct Shared {
    table: report::Table,
    version: SchemaVersion,
    batches: OnceLock<Vec<RecordBatch>>,
}

impl Answer {
    pub(crate) fn new(mut answer: in_process::Answer) -> Self {
        let given = answer.tables.take();
        let given = given.map(|(version, tables)| shared(version, tables));
        Self {
            answer,
            given: given.unwrap_or_default(),
            tables: OnceLock::new(),
        }
    }

    fn tables(&self) -> PyResult<&[Arc<Shared>]> {
        if let Some(tables) = self.tables.get() {
            return Ok(tables);
        }
        let mut all = self.given.clone();
        if !self.answer.output.is_empty() || all.is_empty() {
            let (version, mut found) =
                document::tables(&self.answer.output).map_err(PyValueError::new_err)?;
            found.retain(|table| self.given.iter().all(|g| g.table.name() != table.name()));
            all.extend(shared(version, found));
        }
        Ok(self.tables.get_or_init(|| all))
    }

    fn json_bytes(&self) -> PyResult<Vec<u8>> {
        match self.given.first() {
            Some(main) if self.answer.output.is_empty() => {
                let tables = self.given.iter().map(|shared| &shared.table);
                in_process::document(main.version, self.answer.layout, tables).map_err(defect)
            }
            _ => Ok(self.answer.output.clone()),
        }
    }
}

fn shared(version: SchemaVersion, tables: Vec<report::Table>) -> Vec<Arc<Shared>> {
    let share = |table| {
        Arc::new(Shared {
            table,
            version,
            batches: OnceLock::new(),
        })
    };
    tables.into_iter().map(share).collect()
}

#[pymethods]
impl Answer {
    #[getter]
    fn code(&self) -> u8 {
        self.answer.code
    }

    #[getter]
    fn notes(&self) -> Vec<String> {
        self.answer.notes.clone()
    }

    #[getter]
    fn error(&self) -> Option<&str> {
        self.answer.error.as_deref()
    }

    #[getter]
    fn sentences(&self) -> Vec<String> {
        self.answer.sentences.clone()
    }

    /// Returns the JSON document, the same bytes as those of the command line.
    fn json<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let json = py.detach(|| self.json_bytes())?;
        Ok(PyBytes::new(py, &json))
    }

    /// Returns the names of the tables, the main one first.
    fn names(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        py.detach(|| {
            let tables = self.tables()?.iter();
            Ok(tables
                .map(|shared| shared.table.name().to_owned())
                .collect())
        })
    }

    /// Returns a table by its name.
    fn table(&self, py: Python<'_>, name: &str) -> PyResult<Table> {
        let tables = py.detach(|| self.tables())?;
        let found = tables.iter().find(|shared| shared.table.name() == name);
        match found {
            Some(shared) => Ok(Table(Arc::clone(shared))),
            None => {
                let names: Vec<&str> = tables.iter().map(|shared| shared.table.name()).collect();
                Err(PyKeyError::new_err(format!(
                    "no table {name:?}; there are: {}",
                    names.join(", ")
                )))
            }
        }
    }
}

/// Returns the answer that a JSON document stands for, such as one that a tool wrote to a file.
#[pyfunction]
pub(crate) fn parse(json: Vec<u8>, notes: Vec<String>) -> Answer {
    Answer::new(in_process::Answer {
        output: json,
        notes,
        ..in_process::Answer::default()
    })
}

/// A table of an answer.
#[pyclass(frozen, module = "inferscope._native")]
pub(crate) struct Table(Arc<Shared>);

impl Table {
    fn batches(&self) -> report::Result<&[RecordBatch]> {
        if let Some(batches) = self.0.batches.get() {
            return Ok(batches);
        }
        let made = report::record_batches(&self.0.table, self.0.version)?;
        Ok(self.0.batches.get_or_init(|| made))
    }
}

#[pymethods]
impl Table {
    #[getter]
    fn name(&self) -> &str {
        self.0.table.name()
    }

    #[getter]
    fn columns(&self) -> Vec<&str> {
        let columns = self.0.table.columns().iter();
        columns.map(report::Column::name).collect()
    }

    /// Returns the kind (int, uint, real, text, bool), the unit and the title of each column.
    #[getter]
    fn schema(&self) -> Vec<(&str, &'static str, &'static str, &str)> {
        let columns = self.0.table.columns().iter();
        let of = |column: &'_ report::Column| (column.kind().name(), column.unit_of().symbol());
        columns
            .map(|column| {
                let (kind, unit) = of(column);
                (column.name(), kind, unit, column.heading())
            })
            .collect()
    }

    fn __len__(&self) -> usize {
        self.0.table.rows()
    }

    /// Returns the rows from `start` to before `end` as lists.
    fn rows<'py>(
        &self,
        py: Python<'py>,
        start: usize,
        end: usize,
    ) -> PyResult<Vec<Bound<'py, PyList>>> {
        let table = &self.0.table;
        let width = table.columns().len();
        (start..end.min(table.rows()))
            .map(|row| {
                let cells = (0..width).map(|at| {
                    Ok(match table.cell(row, at).unwrap_or(Cell::Null) {
                        Cell::Null => py.None().into_bound(py),
                        Cell::Int(value) => value.into_pyobject(py)?.into_any(),
                        Cell::UInt(value) => value.into_pyobject(py)?.into_any(),
                        Cell::Real(value) => value.into_pyobject(py)?.into_any(),
                        Cell::Text(value) => value.into_pyobject(py)?.into_any(),
                        Cell::Bool(value) => value.into_pyobject(py)?.to_owned().into_any(),
                    })
                });
                PyList::new(py, cells.collect::<PyResult<Vec<_>>>()?)
            })
            .collect()
    }

    /// Exports the rows by the Arrow PyCapsule interface; consumers share the buffers.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        // The interface lets a producer ignore the request.
        drop(requested_schema);
        let batches = py.detach(|| self.batches()).map_err(defect)?.to_vec();
        let schema = report::arrow_schema(self.0.table.columns(), self.0.version);
        let reader = RecordBatchIterator::new(batches.into_iter().map(Ok), schema);
        let stream = FFI_ArrowArrayStream::new(Box::new(reader));
        PyCapsule::new_with_value(py, stream, c"arrow_array_stream")
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        let schema = report::arrow_schema(self.0.table.columns(), self.0.version);
        let schema = FFI_ArrowSchema::try_from(schema.as_ref()).map_err(defect)?;
        PyCapsule::new_with_value(py, schema, c"arrow_schema")
    }
}

fn defect(error: impl std::fmt::Display) -> PyErr {
    PyRuntimeError::new_err(format!("internal defect: {error}"))
}
