//! Options of reading.

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use byte_source::Progress;
use rustc_hash::FxHashMap;
use trace_model::kernel::KernelRules;
use trace_model::{OverlapPolicy, TimeRange, Trace};

/// Selects the arguments to keep. Arguments that are not kept cost almost nothing.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub enum ArgPolicy {
    /// All, lossless.
    #[default]
    All,
    /// None.
    None,
    /// Arguments with these keys, written without prefix (`correlation`).
    Only(Vec<String>),
}

/// Selects the slices of the host to keep.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub enum HostSlices {
    /// All.
    #[default]
    All,
    /// What says what launched GPU activity: the calls that launched some and the operators around them; and slices whose names
    /// begin like one of these.
    Launching(Vec<&'static str>),
}

/// Selects slices of which only the outline is read: see [`EventBatch::outline`](trace_model::EventBatch::outline).
///
/// ```
/// use perfetto_reader::Outlining;
///
/// // Python functions that are no modules.
/// let outlining = Outlining::new(|category, name| category == "python_function" && !name.starts_with("nn.Module: "));
/// # let _ = outlining;
/// ```
#[derive(Clone)]
pub struct Outlining {
    by: Arc<Selects>,
    /// Verdicts by category and name; files repeat a few thousand names.
    known: Arc<RwLock<Verdicts>>,
    keeps: bool,
    whole_within_kept: bool,
    suffices: Option<Arc<Suffices>>,
}

type Verdicts = FxHashMap<Box<str>, FxHashMap<Box<str>, bool>>;
type Selects = dyn Fn(&str, &str) -> bool + Send + Sync;
type Suffices = dyn Fn(&Trace) -> bool + Send + Sync;

/// Maximum number of verdicts that are remembered of each category.
const MOST_KNOWN: usize = 1 << 20;

impl Outlining {
    /// Selects complete slices by category and name. The function is asked once for most names, from several threads; for
    /// slices without a category or a name it is not asked, and they are kept.
    pub fn new(by: impl Fn(&str, &str) -> bool + Send + Sync + 'static) -> Self {
        Self {
            by: Arc::new(by),
            known: Arc::default(),
            keeps: false,
            whole_within_kept: false,
            suffices: None,
        }
    }

    /// Keeps the outlines as well, as [`FinishOptions::keep_outlines`](trace_model::FinishOptions) does.
    #[must_use]
    pub fn keeping(mut self) -> Self {
        self.keeps = true;
        self
    }

    /// Reads what lies within a slice that is not selected as a whole, as
    /// [`FinishOptions::whole_within_kept`](trace_model::FinishOptions) does.
    #[must_use]
    pub fn whole_within_kept(mut self) -> Self {
        self.whole_within_kept = true;
        self
    }

    /// Sets a condition on what is read: see [`Outlining::suffices`].
    #[must_use]
    pub fn provided(mut self, suffices: impl Fn(&Trace) -> bool + Send + Sync + 'static) -> Self {
        self.suffices = Some(Arc::new(suffices));
        self
    }

    /// Returns `false` if the file should be read again as a whole: if the condition is not met, or an arrow leads from or to a
    /// slice that was selected, so that it does not say anything of the other.
    pub fn suffices(&self, trace: &Trace) -> bool {
        let condition = self.suffices.as_ref();
        trace.outlines().half_arrows() == 0 && condition.is_none_or(|suffices| suffices(trace))
    }

    /// Returns `true` if what lies within slices that are kept is kept.
    pub(crate) fn is_whole_within_kept(&self) -> bool {
        self.whole_within_kept
    }

    /// Returns `true` if outlines are kept.
    pub(crate) fn keeps(&self) -> bool {
        self.keeps
    }

    pub(crate) fn selects(&self, category: &str, name: &str) -> bool {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(verdict) = known.get(category).and_then(|names| names.get(name)) {
            return *verdict;
        }
        drop(known);
        let verdict = (self.by)(category, name);
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        let names = known.entry(category.into()).or_default();
        if names.len() < MOST_KNOWN {
            names.insert(name.into(), verdict);
        }
        verdict
    }
}

impl fmt::Debug for Outlining {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outlining")
            .field("keeps", &self.keeps)
            .field("whole_within_kept", &self.whole_within_kept)
            .finish_non_exhaustive()
    }
}

/// Options of [`crate::read`]. The default keeps everything and uses all cores.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ReadOptions {
    /// Reproduces Perfetto's trace processor where this crate's default is better: binary64
    /// microseconds, merging of process and thread numbers, binding of flows. Default is false.
    pub compat: bool,
    /// Default is [`ArgPolicy::All`].
    pub args: ArgPolicy,
    /// Keep only slices of these categories, if given. Default is all.
    pub categories: Option<Vec<String>>,
    /// Keep only events that start in this range. Default is everything.
    pub range: Option<TimeRange>,
    /// A format whose host slices are tables of their own leaves out the others, and counts them; other formats always have
    /// all. If the recording has no GPU activity, all are kept, so that the reason can be found. Default is all.
    pub host: HostSlices,
    /// Reads only the outlines of some slices: Chrome JSON without [`ReadOptions::compat`]; other formats read all as a whole.
    /// Default is none.
    pub outline: Option<Outlining>,
    /// Reads counters. A format whose counters are tables of their own leaves them out otherwise; others always have them.
    /// Default is true.
    pub counters: bool,
    /// Treatment of partially overlapping slices. Default is to move them to overflow tracks.
    pub overlap: OverlapPolicy,
    /// Maximum partial overlap on a host thread that is attributed to imprecise clocks, as in
    /// [`trace_model::FinishOptions`]. In nanoseconds; default is 0.
    pub snap_ns: i64,
    /// Keeps events before time zero; [`ReadOptions::compat`] drops them regardless. Default is
    /// false: they are counted and left out, as in Perfetto's trace processor.
    pub keep_negative: bool,
    /// Worker threads; 0 means one per core. The result does not depend on it. Default is 0.
    pub threads: usize,
    /// Fails on the first dropped or repaired record. Default is false.
    pub strict: bool,
    /// Maximum nesting depth of JSON values and debug annotations. Default is 64.
    pub max_depth: usize,
    /// Maximum expanded size of a bundle of compressed packets in bytes. Default is 1 GiB.
    pub max_bundle_bytes: u64,
    /// Maximum number of places recorded per kind of issue. Default is 100.
    pub places: usize,
    /// Rules for kernels that the trace is to carry ([`trace_model::Trace::kernel_rules`]). Default is none.
    pub kernel_rules: KernelRules,
    /// Counts input bytes, for a progress display.
    pub progress: Option<Arc<Progress>>,
    /// Size of the pieces in which JSON is scanned, in bytes; 0 for the default. The result does
    /// not depend on it; the field exists for tests.
    #[doc(hidden)]
    pub chunk_bytes: usize,
}

impl Default for ReadOptions {
    fn default() -> Self {
        Self {
            compat: false,
            args: ArgPolicy::All,
            categories: None,
            range: None,
            host: HostSlices::All,
            outline: None,
            counters: true,
            overlap: OverlapPolicy::Spill,
            snap_ns: 0,
            keep_negative: false,
            threads: 0,
            strict: false,
            max_depth: 64,
            max_bundle_bytes: 1 << 30,
            places: trace_model::DEFAULT_PLACES,
            kernel_rules: KernelRules::default(),
            progress: None,
            chunk_bytes: 0,
        }
    }
}

impl ReadOptions {
    /// Returns the number of worker threads to use.
    pub fn worker_threads(&self) -> usize {
        match self.threads {
            0 => std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
            n => n,
        }
    }
}
