//! Free SQL over all databases at once.

mod base;
mod define;
mod functions;
mod rows;
mod session;
mod views;

pub(crate) use define::stored_views;
pub use rows::{Rows, SqlRow, SqlValue, Statement};
pub use session::SqlSession;
pub(crate) use session::uri;
