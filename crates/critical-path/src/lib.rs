//! Step times, their critical path, and what a change would gain.
mod calls;
mod class;
mod graph;
mod guess;
mod lags;
mod marks;
mod names;
mod ops;
mod part;
mod path;
mod points;
mod steps;
mod summary;
mod waits;

pub use class::{Class, EdgeKind, Evidence, Group, Lag, Limit};
pub use graph::Graph;
pub use lags::LagTime;
pub use marks::marks;
pub use part::{Part, PartOptions};
pub use path::{Groups, Segment};
pub use steps::{Flag, Mark, Step};
pub use summary::Summary;
