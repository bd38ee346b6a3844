//! Call stacks: chains of slices as lists of frames, each stored once in a prefix tree.

mod frames;
mod normalise;
mod table;

pub use frames::{FrameFilter, StackReader, StackRules};
pub use normalise::{Normalise, smart, trim_digits, without_addresses};
pub use table::{StackId, StackTable};

/// Text of a slice without a name.
pub const NO_NAME: &str = "[No name]";
