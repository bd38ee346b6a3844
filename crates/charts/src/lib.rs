//! Figures as SVG: flame graphs and plots, and one self-contained HTML page.
//!
//! * `flame`: flame graphs of weighted call stacks, and the difference of two;
//! * `plot`: lines, points, horizontal bars, power-of-two histograms, heat maps;
//! * `fluid`: layers over two axes whose width follows the page, with text that keeps its size;
//! * `html`: a page of text, tables and figures in one file.
//!
//! The output has no scripts and no external references, all text is escaped, and the same input gives the same bytes:
//! colours are derived from names and order from sorting, never from a clock or a hash map. Omitted elements (frames too
//! narrow to see, points without a position on the axis) are counted and reported in the figure.
//!
//! The features `raster` and `pdf` render a figure as PNG or PDF (`render`), with the fonts of the machine.
//!
//! Out of scope: interaction beyond tooltips, statistics.
//!
//! ```
//! use charts::flame::{FlameGraph, FlameOptions};
//! use charts::html::{Page, Section};
//!
//! let mut graph = FlameGraph::new();
//! graph.add(["forward", "mlp", "gemm"], 900);
//! graph.add(["forward", "mlp", "all_reduce"], 100);
//! let drawn = graph.draw(&FlameOptions::default());
//! let page = Page::new("Launches").section(Section::new("Stacks").figure(&drawn.svg, "by launches"));
//! assert!(page.to_html().contains("all_reduce"));
//! ```

mod colour;
pub mod flame;
pub mod fluid;
pub mod html;
pub mod plot;
#[cfg(any(feature = "raster", feature = "pdf"))]
pub mod render;
mod svg;

pub use crate::svg::{Svg, escape};
