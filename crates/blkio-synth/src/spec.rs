//! The specification of a trace.

use serde_json::Value;

/// Error of a specification.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SpecError {
    /// The text is not a JSON object.
    #[error("expected a JSON object: {0}")]
    NoObject(String),
    /// The value of a field has another kind or is out of range.
    #[error("{field}: expected {expected}")]
    Value {
        /// The field.
        field: String,
        /// Accepted values.
        expected: String,
    },
    /// The field does not exist.
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
    /// Constant gaps of the mean.
    Constant,
    /// Bursts of 64 requests, a tenth of the mean gap apart, with pauses that preserve the mean.
    Bursts,
}

/// Law of the latencies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum LatencyLaw {
    /// A fifth of the mean plus an exponential part.
    #[default]
    Exponential,
    /// Constant: the mean.
    Constant,
    /// Uniform from zero to twice the mean.
    Uniform,
    /// Heavy tail with exponent 2.5.
    Pareto,
}

/// Locations of data requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Pattern {
    /// Through the cache, then again from its start.
    #[default]
    Loop,
    /// Sequential, also beyond the end of the cache, for a TiB.
    Sequential,
    /// A constant stride between requests; later rounds fill the gaps.
    Strided,
    /// Anywhere in the cache, some places much more often than others.
    Zipf,
    /// Anywhere in the cache.
    Random,
}

/// A request size and its weight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size {
    /// Size in bytes, whole sectors.
    pub bytes: u64,
    /// Weight of the size among all sizes.
    pub weight: u64,
}

/// Parameters of a generated trace.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Spec {
    /// Total number of requests.
    pub requests: u64,
    /// Share of the requests in prefill.
    pub prefill_share: f64,
    /// Silence between prefill and decode in nanoseconds.
    pub silence_ns: u64,
    /// Mean time between requests in nanoseconds.
    pub mean_gap_ns: u64,
    /// Arrival process.
    pub arrivals: Arrivals,
    /// Mean latency in nanoseconds.
    pub mean_latency_ns: u64,
    /// Law of the latencies.
    pub latency_law: LatencyLaw,
    /// Size of the cache on the device, in bytes.
    pub cache_bytes: u64,
    /// First sector of the cache.
    pub first_sector: u64,
    /// Locations of data requests.
    pub pattern: Pattern,
    /// Number of streams, chosen at random, each in its own part of the cache.
    pub streams: u64,
    /// Bytes from one request of a strided stream to the next.
    pub stride_bytes: u64,
    /// Exponent of [`Pattern::Zipf`].
    pub zipf_exponent: f64,
    /// Sizes of data requests; if empty, decode reads 128 KiB, and prefill writes 128 to 1,280 KiB.
    pub sizes: Vec<Size>,
    /// Share of other requests: metadata, flushes, synchronous reads.
    pub noise_share: f64,
    /// Share of completions that are lost.
    pub lost_completions: f64,
    /// Maximum reordering of lines in nanoseconds.
    pub reorder_ns: u64,
    /// Start time in nanoseconds.
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

/// Parses one of several names.
fn one_of<T: Copy>(key: &str, value: &Value, names: &[(&str, T)]) -> Result<T, SpecError> {
    let found = value
        .as_str()
        .and_then(|text| names.iter().find(|(name, _)| *name == text));
    found.map(|(_, found)| *found).ok_or_else(|| {
        let names: Vec<&str> = names.iter().map(|(name, _)| *name).collect();
        SpecError::value(key, format!("one of {}", names.join(", ")))
    })
}

/// Parses sizes from an object: bytes to weight.
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
    /// Parses JSON with any of the fields; the others keep their defaults. `arrivals`,
    /// `latency_law` and `pattern` are lower-case names, `sizes` is an object of bytes and weights.
    ///
    /// # Errors
    ///
    /// Returns an error if the text is not a JSON object, or a field is unknown or has the wrong
    /// kind of value.
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
