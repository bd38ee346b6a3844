//! Reads objects of S3, Google Cloud Storage and Azure, and files of web servers, where a path is taken.
//!
//! [`install`] makes this crate the [`byte_source::remote::Store`] of the process. From then on `Source::open` and everything above it
//! takes `s3://bucket/key`, `gs://bucket/key`, `az://container/key` and `http(s)://host/path`; `s3://bucket/prefix/` is a folder. The
//! `object_store` crate speaks the protocols, and takes credentials and endpoints from the environment (`AWS_*`, `GOOGLE_*`,
//! `AZURE_*`).
//!
//! * An object is read in parts of 4 MiB, of which two are downloaded ahead of the reader, so that memory does not grow with its
//!   size and a slow reader does not let a connection time out. The first request brings the first 64 KiB, the size and the ETag, so
//!   that looking at what an object is costs one small request.
//! * Each part must be of the object that was opened: another ETag, time or size is an error, and so is an early end.
//! * Failed requests are repeated as `object_store` does; before a server has answered once only twice, so that a wrong name or
//!   endpoint is reported at once.
//! * Errors are one sentence with a remedy. They contain neither credentials nor signed queries.
//!
//! Methods block; one small runtime of two threads does the waiting. [`data_store`] is for an engine that reads by itself.
//!
//! The crate writes no objects, and knows no format.

#![cfg_attr(not(test), warn(clippy::indexing_slicing))]

mod address;
mod bucket;
mod explain;
mod objects;
mod parts;
mod runtime;

pub use bucket::data_store;
pub use explain::explain;
pub use object_store;

use std::sync::Arc;

/// Makes URLs readable in this process; later calls have no effect. Nothing is connected before a URL is used.
pub fn install() {
    byte_source::remote::install(|| Arc::new(objects::Objects::default()));
}
