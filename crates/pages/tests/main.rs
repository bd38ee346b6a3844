//! Behaviour of the crate from outside.
// `cfg(test)` is always on here; it tells clippy that helpers may unwrap as tests do.

#[cfg(test)]
mod browser;
#[cfg(test)]
mod documents;
#[cfg(test)]
mod written;
