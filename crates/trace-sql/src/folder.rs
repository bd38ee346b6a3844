//! Folders of Parquet files, each of them a table.

use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;

use arrow_schema::{DataType, Field, Schema, SchemaRef};
use datafusion::datasource::TableProvider;
use datafusion::datasource::file_format::parquet::ParquetFormat;
use datafusion::datasource::listing::{
    ListingOptions, ListingTable, ListingTableConfig, ListingTableUrl,
};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

use crate::error::{ErrorKind, SqlError};

/// A table in a file of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileTable {
    /// Name.
    pub name: String,
    /// Meaning of a row.
    pub doc: String,
    /// The Parquet file.
    pub path: PathBuf,
}

impl FileTable {
    /// Returns the table of DataFusion.
    ///
    /// # Errors
    ///
    /// Returns an error if the file cannot be read.
    pub(crate) fn provider(&self) -> Result<Arc<dyn TableProvider>, SqlError> {
        let failed = |error: &dyn std::fmt::Display| {
            SqlError::new(
                ErrorKind::Input,
                format!("{}: {error}", self.path.display()),
            )
        };
        let path = self.path.canonicalize().map_err(|error| failed(&error))?;
        let file = File::open(&path).map_err(|error| failed(&error))?;
        let reader = ParquetRecordBatchReaderBuilder::try_new(file);
        let schema = viewed(reader.map_err(|error| failed(&error))?.schema());
        let url = ListingTableUrl::parse(path.display().to_string());
        let url = url.map_err(|error| failed(&error))?;
        let listing =
            ListingOptions::new(Arc::new(ParquetFormat::default())).with_file_extension("");
        let config = ListingTableConfig::new(url)
            .with_listing_options(listing)
            .with_schema(schema);
        let table = ListingTable::try_new(config).map_err(|error| failed(&error))?;
        Ok(Arc::new(table))
    }
}

/// Returns a schema with texts as they are read: as views.
fn viewed(schema: &SchemaRef) -> SchemaRef {
    let field = |field: &Arc<Field>| match field.data_type() {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Dictionary(..) => {
            Arc::new(field.as_ref().clone().with_data_type(DataType::Utf8View))
        }
        _ => Arc::clone(field),
    };
    let fields: Vec<Arc<Field>> = schema.fields().iter().map(field).collect();
    Arc::new(Schema::new(fields))
}
