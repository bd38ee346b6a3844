//! Which cause fits what was measured.
//!
//! Measured quantities (`signal`) are compared with a table of signatures (`signature`, `signatures.toml`); the one that
//! fits best and is not contradicted is the cause (`judge`).

mod classes;
mod counted;
mod explain;
mod host;
mod judge;
mod kernels;
mod moving;
mod observe;
mod ranks;
mod signal;
mod signature;
mod stalls;

pub(crate) use judge::{Facts, conclude};
pub(crate) use kernels::{is_alike, is_attention, is_matrix};
pub(crate) use observe::{native, observe, observe_samples, roles_by_place};
pub use signature::Signatures;
