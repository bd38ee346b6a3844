//! What public analysers do differently, so that their numbers can be explained.

pub mod hta;
pub mod tracelens;
