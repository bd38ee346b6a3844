//! Did the second run differ from the first, by how much, and why?

mod analyse;
pub mod compat;
pub mod document;
mod error;
mod headline;
mod render;
mod report_text;
mod side;
mod stats;
mod summary;
mod table;
mod verdict;

pub use analyse::{Options, Times, compare, compare_times, slow_steps_by_chance};
pub use document::{Report, SCHEMA_VERSION};
pub use error::{Error, Result};
pub use render::{FailOn, Gate};
pub use side::{CAPTURE_SETTINGS, LoadOptions, Recording, Side, load};
pub use verdict::Signatures;
