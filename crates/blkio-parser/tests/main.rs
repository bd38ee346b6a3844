//! One executable of all tests.

mod operations;
mod pairing;
mod reader;
