//! Behaviour of the crate from outside, one module per subject.
// `cfg(test)` is always on here; it tells clippy that helpers may unwrap as tests do.

#[cfg(test)]
mod flame;
#[cfg(test)]
mod html;
#[cfg(test)]
mod plot;
