//! How long data lives in memory, from labelled accesses.
//!
//! [`Analyser`] takes rows that `memtrace-labeller` read and labelled, in any portions, and gives an [`Analysis`]: for each region
//! and each type of region
//!
//! * retention (first store to last load), and what each store leaves until the next one;
//! * write-once ratio, reads per write, working set, strides, intervals between accesses of an address;
//! * how old data is when it is read, which decides how long memory must keep it;
//! * reuse distances and miss ratios, pages over time, sharing between threads, accesses by token;
//! * what sampling hides, with confidence intervals;
//! * whether the type could sit in memory that forgets.
//!
//! Rows beyond a budget ([`AnalysisOptions::memory_bytes`]) are spilled to disk and sorted there; results depend neither on the
//! budget nor on the number of threads. Quantiles are exact: linear interpolation between neighbours (Hyndman and Fan, type 7).
//! [`AnalysisOptions::approximate`] takes those of many values from a sketch, with an error that the result states.
//!
//! [`Semantics::Mrm`] gives the tables of the reference, the Python package `mrm-trace` 0.1, value for value.
//!
//! It does not read formats, and it does not draw.
//!
//! ```
//! use byte_source::Source;
//! use memtrace_analyser::{AnalysisOptions, compute_all};
//! use memtrace_labeller::{InputOptions, LabelOptions, Labeller, Names, RowStream};
//!
//! let text = b"cli 42 [0] 1.0: cpu/mem-stores/P: 7f00 kv_update+0x10 (/x.so)\n\
//!              cli 42 [0] 3.5: cpu/mem-loads/P: 7f00 kv_read+0x8 (/x.so)\n";
//! let mut names = Names::new();
//! let mut stream = RowStream::open(Source::from_bytes("perf.txt", text.to_vec())?, &InputOptions::default())?;
//! let mut labeller = Labeller::new(LabelOptions::native());
//! let mut rows = Vec::new();
//! while stream.next_batch(&mut names, &mut rows)? {}
//! for row in &mut rows {
//!     labeller.label(row, &mut names)?;
//! }
//! let analysis = compute_all(&rows, &names, AnalysisOptions::default())?;
//! let cache = &analysis.types[0];
//! assert_eq!((cache.region_type.as_str(), cache.retention_s[0]), ("kv_cache", 2.5));
//! assert_eq!(cache.values.and_then(|values| values.read_age_ns).map(|ages| ages[2]), Some(2.5e9));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![cfg_attr(not(test), warn(clippy::indexing_slicing))]

mod addresses;
mod bands;
mod drift;
mod engine;
mod error;
mod evidence;
mod extents;
mod late;
mod lives;
mod options;
mod quantile;
mod record;
mod region_list;
mod regions;
mod result;
mod reuse;
mod sketch;
mod spacing;
mod summary;
mod table_rows;
mod tables;
mod tokens;
mod verdict;
mod walk;

pub use engine::Analyser;
pub use error::{Error, Result};
pub use evidence::Rate;
pub use late::{LateStores, Unchanged};
pub use options::{AnalysisOptions, Semantics, SuitabilityLimits};
pub use region_list::{RegionList, Regions};
pub use regions::BlockLife;
pub use result::{
    AddressBand, Analysis, Estimate, Intervals, RegionMetrics, Reuse, Sampling, TokenAccesses,
    TypeMetrics, Values,
};
pub use tables::AnalysisTable;
pub use verdict::{Bounds, Verdict};

use memtrace_labeller::{Access, Names};

/// Everything about rows that are all in memory.
///
/// # Errors
///
/// As [`Analyser::push`] and [`Analyser::finish`].
pub fn compute_all(rows: &[Access], names: &Names, options: AnalysisOptions) -> Result<Analysis> {
    let mut analyser = Analyser::new(options);
    analyser.push(rows)?;
    analyser.finish(names)
}
