//! Tests the behaviour of the crate from outside, one module per subject.
// `cfg(test)` is always on here; it tells clippy that helpers may unwrap as tests do.

#[cfg(test)]
mod containers;
#[cfg(test)]
mod damage;
#[cfg(test)]
mod files;
#[cfg(test)]
mod members;
#[cfg(test)]
mod support;
