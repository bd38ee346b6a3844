//! The specification of a trace.

use serde_json::Value;

/// Why a specification cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SpecError {
    /// The text is no JSON object.
    #[error("expected a JSON object: {0}")]
    NoObject(String),
    /// A field has a value of another kind or range.
    #[error("{field}: expected {expected}")]
    Value {
        /// The field.
        field: String,
        /// What it may be.
        expected: String,
    },
    /// There is no field of this name.
    #[error("{0}: no such field")]
    Field(String),
}

impl SpecError {
    fn value(field: &str, expected: impl Into<String>) -> Self {
        Self::Value {
            field: field.to_owned(),
            expected: expected.into(),
        }
    }
}

/// Arrival process of requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Arrivals {
    /// A Poisson process.
    #[default]
    Poisson,
    /// One every mean gap.
    Constant,
    /// In bursts of 64 requests, a tenth of the mean gap from each other, with silence between that keeps the mean.
    Bursts,
}

/// Law of the latencies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum LatencyLaw {
    /// A fifth of the mean and an exponential rest.
    #[default]
    Exponential,
    /// The mean.
    Constant,
    /// Evenly from nothing to twice the mean.
    Uniform,
    /// A heavy tail of exponent 2.5.
    Pareto,
}

/// Where requests of data go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Pattern {
    /// Through the cache, and from its beginning again.
    #[default]
    Loop,
    /// Ever onward, also behind the end of the cache, for a TiB.
    Sequential,
    /// A stride from each to the next; round by round the gaps are filled.
    Strided,
    /// Anywhere in the cache, some places much more often than others.
    Zipf,
    /// Anywhere in the cache.
    Random,
}

/// A size of requests and its weight among the sizes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size {
    /// Bytes, of whole sectors.
    pub bytes: u64,
    /// Parts of all requests that have it.
    pub weight: u64,
}

/// What to make.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Spec {
    /// Requests in all.
    pub requests: u64,
    /// Share of the requests in prefill.
    pub prefill_share: f64,
    /// Silence between prefill and decode in nanoseconds.
    pub silence_ns: u64,
    /// Mean time between requests.
    pub mean_gap_ns: u64,
    /// Arrival process.
    pub arrivals: Arrivals,
    /// Mean latency.
    pub mean_latency_ns: u64,
    /// Law of the latencies.
    pub latency_law: LatencyLaw,
    /// Size of the cache on the device, in bytes.
    pub cache_bytes: u64,
    /// First sector of the cache.
    pub first_sector: u64,
    /// Where requests of data go.
    pub pattern: Pattern,
    /// Streams that take turns at random, each in its own part of the cache.
    pub streams: u64,
    /// Bytes from one request of a strided stream to the next.
    pub stride_bytes: u64,
    /// Exponent of the pattern of that name.
    pub zipf_exponent: f64,
    /// Sizes of requests of data; without any, decode reads 128 KiB, and prefill writes 128 to 1,280 KiB.
    pub sizes: Vec<Size>,
    /// Share of requests somewhere else: metadata, flushes, synchronous reads.
    pub noise_share: f64,
    /// Share of completions that are lost.
    pub lost_completions: f64,
    /// Time by which lines are out of order, in nanoseconds.
    pub reorder_ns: u64,
    /// Time of the beginning.
    pub start_ns: u64,
}

impl Default for Spec {
    fn default() -> Self {
        Self {
            requests: 2000,
            prefill_share: 0.3,
            silence_ns: 3_000_000_000,
            mean_gap_ns: 500_000,
            arrivals: Arrivals::default(),
            mean_latency_ns: 120_000,
            latency_law: LatencyLaw::default(),
            cache_bytes: 64 << 20,
            first_sector: 4096,
            pattern: Pattern::default(),
            streams: 1,
            stride_bytes: 1 << 20,
            zipf_exponent: 1.0,
            sizes: Vec::new(),
            noise_share: 0.1,
            lost_completions: 0.0,
            reorder_ns: 2_000_000,
            start_ns: 36_153_665_514_728,
        }
    }
}

/// One of several names.
fn one_of<T: Copy>(key: &str, value: &Value, names: &[(&str, T)]) -> Result<T, SpecError> {
    let found = value
        .as_str()
        .and_then(|text| names.iter().find(|(name, _)| *name == text));
    found.map(|(_, found)| *found).ok_or_else(|| {
        let names: Vec<&str> = names.iter().map(|(name, _)| *name).collect();
        SpecError::value(key, format!("one of {}", names.join(", ")))
    })
}

/// Sizes by their bytes, as an object: bytes to weight.
fn sizes(key: &str, value: &Value) -> Result<Vec<Size>, SpecError> {
    let wrong = || {
        let expected = "an object of bytes (whole sectors, below 4 GiB) and weights";
        SpecError::value(key, expected)
    };
    let size = |(bytes, weight): (&String, &Value)| {
        let bytes = bytes.parse().ok().filter(|bytes: &u64| {
            *bytes > 0 && bytes.is_multiple_of(512) && u32::try_from(*bytes).is_ok()
        })?;
        let weight = weight
            .as_u64()
            .filter(|weight| (1..=1 << 32).contains(weight))?;
        Some(Size { bytes, weight })
    };
    let map = value
        .as_object()
        .filter(|map| !map.is_empty())
        .ok_or_else(wrong)?;
    let mut sizes = map
        .iter()
        .map(size)
        .collect::<Option<Vec<Size>>>()
        .ok_or_else(wrong)?;
    sizes.sort_unstable_by_key(|size| size.bytes);
    Ok(sizes)
}

impl Spec {
    /// Parses JSON with any of the fields; the others keep their defaults. `arrivals`, `latency_law` and `pattern` are names in
    /// small letters, `sizes` is an object of bytes and weights.
    ///
    /// # Errors
    ///
    /// Text that is no JSON object, fields that do not exist or have the wrong kind of value.
    pub fn from_json(text: &[u8]) -> Result<Self, SpecError> {
        let value: Value =
            serde_json::from_slice(text).map_err(|error| SpecError::NoObject(error.to_string()))?;
        let no_object = || SpecError::NoObject("found another value".to_owned());
        let map = value.as_object().ok_or_else(no_object)?;
        let mut spec = Self::default();
        for (key, value) in map {
            let whole = || {
                value
                    .as_u64()
                    .ok_or_else(|| SpecError::value(key, "a whole number"))
            };
            let share = || {
                value
                    .as_f64()
                    .filter(|v| (0.0..=1.0).contains(v))
                    .ok_or_else(|| SpecError::value(key, "a number from 0 to 1"))
            };
            match key.as_str() {
                "requests" => spec.requests = whole()?,
                "prefill_share" => spec.prefill_share = share()?,
                "silence_ns" => spec.silence_ns = whole()?,
                "mean_gap_ns" => spec.mean_gap_ns = whole()?,
                "arrivals" => {
                    let names = [
                        ("poisson", Arrivals::Poisson),
                        ("constant", Arrivals::Constant),
                        ("bursts", Arrivals::Bursts),
                    ];
                    spec.arrivals = one_of(key, value, &names)?;
                }
                "mean_latency_ns" => spec.mean_latency_ns = whole()?,
                "latency_law" => {
                    let names = [
                        ("exponential", LatencyLaw::Exponential),
                        ("constant", LatencyLaw::Constant),
                        ("uniform", LatencyLaw::Uniform),
                        ("pareto", LatencyLaw::Pareto),
                    ];
                    spec.latency_law = one_of(key, value, &names)?;
                }
                "cache_bytes" => spec.cache_bytes = whole()?,
                "first_sector" => spec.first_sector = whole()?,
                "pattern" => {
                    let names = [
                        ("loop", Pattern::Loop),
                        ("sequential", Pattern::Sequential),
                        ("strided", Pattern::Strided),
                        ("zipf", Pattern::Zipf),
                        ("random", Pattern::Random),
                    ];
                    spec.pattern = one_of(key, value, &names)?;
                }
                "streams" => {
                    spec.streams = whole()?;
                    if !(1..=4096).contains(&spec.streams) {
                        return Err(SpecError::value(key, "a number from 1 to 4096"));
                    }
                }
                "stride_bytes" => spec.stride_bytes = whole()?,
                "zipf_exponent" => {
                    let exponent = value.as_f64().filter(|v| (0.0..=10.0).contains(v));
                    spec.zipf_exponent =
                        exponent.ok_or_else(|| SpecError::value(key, "a number from 0 to 10"))?;
                }
                "sizes" => spec.sizes = sizes(key, value)?,
                "noise_share" => spec.noise_share = share()?,
                "lost_completions" => spec.lost_completions = share()?,
                "reorder_ns" => spec.reorder_ns = whole()?,
                "start_ns" => spec.start_ns = whole()?,
                other => return Err(SpecError::Field(other.to_owned())),
            }
        }
        Ok(spec)
    }
}
