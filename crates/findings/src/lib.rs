//! What limits an inference, why, and what would help by how much.
//!
//! * [`Document`]: the answer as data. Text, pages and tracks are made of it alone.

mod document;

pub use document::*;
