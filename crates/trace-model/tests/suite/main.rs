//! Tests of the public interface, one module per subject.
// `cfg(test)` is always on here; it tells clippy that helpers may unwrap as tests do.

#[cfg(test)]
mod kernel_names;
#[cfg(test)]
mod nesting;
#[cfg(test)]
mod projection;
