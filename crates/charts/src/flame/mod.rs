//! Flame graphs: a prefix tree of call stacks, drawn so that width is value.
//!
//! Frames of equal name under the same caller are merged, siblings are sorted by name (bytewise), so the order in which
//! stacks arrive does not matter. [`FlameGraph`] shows one set of values, [`DiffFlameGraph`] compares two.

mod draw;
mod tree;

use std::borrow::Cow;

use report::Unit;

use crate::svg::Svg;
use tree::StackTree;

pub use tree::FrameId;

/// Appearance of a flame graph.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct FlameOptions {
    /// Heading.
    pub title: Cow<'static, str>,
    /// A line under the heading; left out when empty.
    pub subtitle: Cow<'static, str>,
    /// Unit of the values, which labels and tooltips scale.
    pub unit: Unit,
    /// Width of the figure in pixels, at least 300.
    pub width_px: f64,
    /// Minimum width of a drawn frame in pixels; narrower frames and their callees are left out.
    pub min_frame_px: f64,
    /// Position of the root.
    pub direction: Direction,
    /// Name of the root, which contains everything.
    pub root: Cow<'static, str>,
}

impl Default for FlameOptions {
    fn default() -> Self {
        Self {
            title: Cow::Borrowed("Flame graph"),
            subtitle: Cow::Borrowed(""),
            unit: Unit::Count,
            width_px: 1200.0,
            min_frame_px: 0.3,
            direction: Direction::Flame,
            root: Cow::Borrowed("all"),
        }
    }
}

/// Position of the root of the stacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Direction {
    /// Root at the bottom, callees above their callers.
    #[default]
    Flame,
    /// Root at the top, callees below.
    Icicle,
}

/// Value that determines a frame's width in a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum DiffWidth {
    /// The share in the second profile. Frames missing from it have no width; the figure states
    /// their share.
    #[default]
    Second,
    /// The mean of both shares, so that every frame is visible.
    Mean,
}

/// A drawn flame graph and statistics of the frames left out.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct FlameSvg {
    /// The figure.
    pub svg: Svg,
    /// Number of frames that were too narrow to draw, including callees.
    pub pruned_frames: usize,
    /// Total width of these frames in percent of the root's; callees are part of their callers and
    /// not counted again.
    pub pruned_pct: f64,
}

/// A flame graph of one set of values.
///
/// ```
/// use charts::flame::{FlameGraph, FlameOptions};
/// let mut graph = FlameGraph::new();
/// graph.add(["main", "decode", "all_reduce"], 30);
/// graph.add(["main", "decode", "gemm"], 70);
/// let drawn = graph.draw(&FlameOptions::default());
/// assert!(drawn.svg.as_str().contains("gemm"));
/// assert_eq!(drawn.pruned_frames, 0);
/// ```
#[derive(Debug, Default)]
pub struct FlameGraph {
    tree: StackTree,
}

impl FlameGraph {
    /// Creates an empty graph.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds `value` to a stack, given as frames from the root. Values of equal stacks are summed.
    pub fn add<'a>(&mut self, frames: impl IntoIterator<Item = &'a str>, value: u64) {
        let at = self.tree.descend(frames);
        self.tree.add(at, 0, value);
    }

    /// Returns the frame `name` under `parent` (`None`: the root) after adding `value` to it. For
    /// callers with a prefix tree: call it once per node, parents before children.
    pub fn add_child(&mut self, parent: Option<FrameId>, name: &str, value: u64) -> FrameId {
        let at = self.tree.child(parent.unwrap_or(FrameId::ROOT), name);
        self.tree.add(at, 0, value);
        at
    }

    /// Returns the sum of all values.
    #[must_use]
    pub fn total(&self) -> u128 {
        self.tree.totals()[0][0]
    }

    /// Draws the graph. Cost: the number of frames times the logarithm of the number of siblings.
    #[must_use]
    pub fn draw(&self, options: &FlameOptions) -> FlameSvg {
        draw::draw(&self.tree, options, &draw::Single)
    }
}

/// Compares two sets of values over the same stacks. Both are shares of their own total, so runs of
/// different length are comparable: red is a larger share in the second, blue a smaller one.
#[derive(Debug, Default)]
pub struct DiffFlameGraph {
    tree: StackTree,
    width: DiffWidth,
}

impl DiffFlameGraph {
    /// Creates an empty comparison.
    #[must_use]
    pub fn new(width: DiffWidth) -> Self {
        Self {
            tree: StackTree::default(),
            width,
        }
    }

    /// Adds to the first profile, frames from the root.
    pub fn add_first<'a>(&mut self, frames: impl IntoIterator<Item = &'a str>, value: u64) {
        let at = self.tree.descend(frames);
        self.tree.add(at, 0, value);
    }

    /// Adds to the second profile, frames from the root.
    pub fn add_second<'a>(&mut self, frames: impl IntoIterator<Item = &'a str>, value: u64) {
        let at = self.tree.descend(frames);
        self.tree.add(at, 1, value);
    }

    /// Draws the comparison.
    #[must_use]
    pub fn draw(&self, options: &FlameOptions) -> FlameSvg {
        draw::draw(
            &self.tree,
            options,
            &draw::Diff::new(&self.tree, self.width),
        )
    }
}
