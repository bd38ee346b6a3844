//! Behaviour of the crate from outside, one module per subject.
// `cfg(test)` is always on here; it tells clippy that helpers may unwrap as tests do.

#[cfg(test)]
mod classes;
#[cfg(test)]
mod comm_groups;
#[cfg(test)]
mod comm_planted;
#[cfg(test)]
mod comm_reference;
#[cfg(test)]
mod compat_planted;
#[cfg(test)]
mod diff_planted;
#[cfg(test)]
mod diff_reference;
#[cfg(test)]
mod diff_steps;
#[cfg(test)]
mod edges;
#[cfg(test)]
mod no_work;
#[cfg(test)]
mod peers;
#[cfg(test)]
mod planted;
#[cfg(test)]
mod reference_model;
#[cfg(test)]
mod support;
#[cfg(test)]
mod sweep;
