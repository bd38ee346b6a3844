//! Reproduces the rules of public analyzers, to explain differences from their numbers.

pub mod hta;
pub mod tracelens;
