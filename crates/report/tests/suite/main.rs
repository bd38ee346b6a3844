//! Behaviour of the crate from outside, one module per subject.
// `cfg(test)` is always on here; it tells clippy that helpers may unwrap as tests do.

#[cfg(test)]
mod csv;
#[cfg(test)]
mod golden;
#[cfg(test)]
mod json;
#[cfg(test)]
mod table;
#[cfg(test)]
mod text;
