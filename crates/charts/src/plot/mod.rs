//! Plots: lines and points over two axes, horizontal bars, histograms with power-of-two bins, heat
//! maps.
//!
//! Every plot is a plain value with a method [`draw`](LinePlot::draw); equal values give equal
//! bytes. Points that cannot be shown (not-a-number, zero on a logarithmic axis) are left out and
//! counted below the figure.

mod axis;
mod bars;
mod frame;
mod heat;
mod lines;

pub(crate) use axis::Ruler;
pub use axis::{Axis, Scale};
pub use bars::{Bar, BarChart, Histogram};
pub use heat::HeatMap;
pub use lines::{Dot, GAP, LinePlot, Mark, RefLine, Series};

/// Returns a width that can be drawn: at least 240 pixels.
fn usable(width_px: f64) -> f64 {
    if width_px.is_finite() {
        width_px.clamp(240.0, 20_000.0)
    } else {
        720.0
    }
}
