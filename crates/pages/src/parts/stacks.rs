//! Host stacks that launched GPU time, as a flame graph.

use charts::flame::{Direction, FlameGraph, FlameOptions};
use report::Unit;

use super::rows_left_out;
use crate::page::{Section, View};
use crate::shown::{self, NAME};

/// Maximum number of stacks, and of frames of a stack.
const STACKS: usize = 2000;
const FRAMES: usize = 96;

pub(crate) fn section(view: &View<'_>) -> Option<Section> {
    let stacks = &view.document.figures.stacks;
    let mut order: Vec<usize> = (0..stacks.len()).collect();
    order.sort_by_key(|at| (std::cmp::Reverse(stacks[*at].gpu_ns), *at));
    let most = view.most(STACKS);
    order.truncate(most);
    let mut graph = FlameGraph::new();
    for at in &order {
        let frames: Vec<String> = stacks[*at]
            .frames
            .iter()
            .take(FRAMES)
            .map(|frame| shown::cut(frame, NAME))
            .collect();
        graph.add(
            frames.iter().map(String::as_str),
            u64::try_from(stacks[*at].gpu_ns).unwrap_or(0),
        );
    }
    if graph.total() == 0 {
        return None;
    }
    let mut options = FlameOptions::default();
    options.title = "GPU time by the host stack that launched it".into();
    options.unit = Unit::Nanos;
    options.width_px = 1080.0;
    options.min_frame_px = 1.0;
    options.direction = Direction::Icicle;
    options.root = "all stacks".into();
    let drawn = graph.draw(&options);
    let body = format!(
        "<div class=\"flame\"><p class=\"tools js-only\"><label>Search frames <input type=\"search\" autocomplete=\"off\" spellcheck=\"false\"/></label><output class=\"hint\" aria-live=\"polite\"></output></p>\n\
         <figure class=\"scroll\" tabindex=\"0\" role=\"group\" aria-label=\"Flame graph\">{}</figure></div>\n{}",
        drawn.svg,
        rows_left_out("/figures/stacks", stacks.len(), most)
    );
    Section::new("stacks", "Launch stacks", body)
}
