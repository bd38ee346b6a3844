//! Free SQL over all databases at once.

mod base;
mod rows;
mod session;
mod views;

pub use rows::{Rows, SqlRow, SqlValue, Statement};
pub use session::SqlSession;
pub(crate) use session::{union, uri};
