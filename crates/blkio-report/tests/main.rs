//! One executable of all tests.

mod input;
mod reference;
mod reference_model;
mod requeue;
mod variants;
