//! Call stacks: chains of slices as lists of frames, stored once each in a prefix tree.

mod frames;
mod normalise;
mod table;

pub use frames::{FrameFilter, StackReader, StackRules};
pub use normalise::{Normalise, smart, trim_digits};
pub use table::{StackId, StackTable};

/// How a slice without a name is shown.
pub const NO_NAME: &str = "[No name]";
