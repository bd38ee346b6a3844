//! Behaviour of the crate from outside, one module per subject.
// `cfg(test)` is always on here; it tells clippy that helpers may unwrap as tests do.

#[cfg(test)]
mod json_document;
#[cfg(test)]
mod json_events;
#[cfg(test)]
mod json_golden;
#[cfg(test)]
mod json_outlines;
#[cfg(test)]
mod json_reference;
#[cfg(test)]
mod json_stacks;
#[cfg(test)]
mod json_support;
#[cfg(test)]
mod json_twin;
#[cfg(test)]
mod proto_compat;
#[cfg(test)]
mod proto_cursor;
#[cfg(test)]
mod proto_damage;
#[cfg(test)]
mod proto_golden;
#[cfg(test)]
mod proto_reference;
#[cfg(test)]
mod proto_semantics;
#[cfg(test)]
mod proto_truth;
#[cfg(test)]
mod write_chrome;
mod write_json;
#[cfg(test)]
mod write_lanes;
#[cfg(test)]
mod write_roundtrip;
#[cfg(test)]
mod write_support;
