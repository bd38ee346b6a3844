//! Behaviour of the tool from outside, one module per subject.
// `cfg(test)` is always on here; it tells clippy that helpers may unwrap as tests do.

#[cfg(test)]
mod agreement;
#[cfg(test)]
mod analyses;
#[cfg(test)]
mod classes;
#[cfg(test)]
mod cli;
#[cfg(test)]
mod comm;
#[cfg(test)]
mod critical_path;
#[cfg(test)]
mod diff;
#[cfg(test)]
mod golden;
#[cfg(test)]
mod gpu_golden;
#[cfg(test)]
mod host_waits;
#[cfg(test)]
mod inputs;
#[cfg(test)]
mod lost_work;
#[cfg(test)]
mod nsys;
#[cfg(test)]
mod nsys_operators;
#[cfg(test)]
mod outlines;
#[cfg(test)]
mod rewrite;
#[cfg(test)]
mod roofline;
#[cfg(test)]
mod signal;
#[cfg(test)]
mod support;
