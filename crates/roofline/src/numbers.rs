//! Least needs of a call: FLOPs, bytes and where the arithmetic runs, with the basis of these numbers.

use crate::dtype::Precision;

/// Units of the device that do the arithmetic of a call.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum UnitKind {
    /// Matrix units.
    Matrix,
    /// Vector units.
    Vector,
    /// None: data is moved only.
    Move,
    /// The link between devices.
    Link,
}

impl UnitKind {
    /// The name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Matrix => "matrix",
            Self::Vector => "vector",
            Self::Move => "move",
            Self::Link => "link",
        }
    }
}

/// Basis of numbers.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Basis {
    /// Recorded shapes alone.
    Exact,
    /// Recorded shapes with the sums that the step's annotation gives.
    Annotation,
    /// A stated assumption.
    Estimate,
    /// The lower side is certain.
    Bound,
    /// There are no numbers.
    Unknown,
}

impl Basis {
    /// All of them, in the order of tables.
    pub const ALL: [Self; 5] = [
        Self::Exact,
        Self::Annotation,
        Self::Estimate,
        Self::Bound,
        Self::Unknown,
    ];

    /// The name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Exact => "exact",
            Self::Annotation => "annotation",
            Self::Estimate => "estimate",
            Self::Bound => "bound",
            Self::Unknown => "unknown",
        }
    }
}

/// What the numbers of a call show of the sizes of its model.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Shape {
    /// A product with a weight of these sides, whatever it is packed in.
    Product { inner: u128, outer: u128 },
    /// Attention over a cache.
    Attention { heads_kv: Option<u128>, size: u128 },
    /// Experts of a layer, and of each token.
    Experts { all: u128, each_token: u128 },
}

/// Least needs of one call.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub struct Numbers {
    /// Arithmetic operations, two for each multiply-add; `None` where they are not known.
    pub flops: Option<u128>,
    /// Bytes between the device and its memory.
    pub bytes: u128,
    /// Lower end of the bytes.
    pub bytes_low: u128,
    /// Upper end of the bytes; `None` where there is none.
    pub bytes_high: Option<u128>,
    /// Bytes that one device sends over the link between devices, or over that to the host.
    pub link_bytes: u128,
    /// Where the arithmetic runs.
    pub unit: UnitKind,
    /// The arithmetic of matrix units.
    pub precision: Option<Precision>,
    /// Basis of the numbers.
    pub basis: Basis,
    /// Bytes that are weights of the model.
    pub weight_bytes: u128,
    /// Bytes that are keys and values of attention.
    pub kv_bytes: u128,
    /// Rows of a matrix product, with padding.
    pub rows: Option<u128>,
    /// Assumptions and remarks.
    pub note: String,
    /// The link bytes go to or from the host.
    pub to_host: bool,
    /// What they show of the model.
    pub(crate) shape: Option<Shape>,
}

/// Why a call has no numbers.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, thiserror::Error)]
#[error("{0}")]
pub struct Unknown(pub String);

impl Unknown {
    pub(crate) const NO_MODEL: &'static str = "no model";
    pub(crate) const NO_OPERATOR: &'static str = "no operator";
    pub(crate) const NO_SHAPES: &'static str = "no shapes";
    const UNEXPECTED: &'static str = "arguments not as expected";

    pub(crate) fn new(text: &str) -> Self {
        Self(text.to_owned())
    }

    pub(crate) fn unexpected() -> Self {
        Self::new(Self::UNEXPECTED)
    }
}

/// Remark on attention whose window, if it has one, is not recorded.
pub(crate) const NO_WINDOW: &str = "no window assumed";

/// Numbers, or why there are none.
pub type Answer = Result<Numbers, Unknown>;

impl Numbers {
    /// Exact numbers.
    pub(crate) fn exact(unit: UnitKind, flops: u128, bytes: u128) -> Self {
        Self {
            flops: Some(flops),
            bytes,
            bytes_low: bytes,
            bytes_high: Some(bytes),
            link_bytes: 0,
            unit,
            precision: None,
            basis: Basis::Exact,
            weight_bytes: 0,
            kv_bytes: 0,
            rows: None,
            note: String::new(),
            to_host: false,
            shape: None,
        }
    }

    /// A matrix operator of this arithmetic.
    pub(crate) fn matrix(precision: Precision, flops: u128, bytes: u128) -> Self {
        Self {
            precision: Some(precision),
            ..Self::exact(UnitKind::Matrix, flops, bytes)
        }
    }

    /// Numbers of a call that moves data and computes nothing.
    pub(crate) fn moved(bytes: u128) -> Self {
        Self::exact(UnitKind::Move, 0, bytes)
    }

    pub(crate) fn weights(mut self, bytes: u128) -> Self {
        self.weight_bytes = bytes;
        self
    }

    pub(crate) fn kv(mut self, bytes: u128) -> Self {
        self.kv_bytes = bytes;
        self
    }

    pub(crate) fn link(mut self, bytes: u128) -> Self {
        self.link_bytes = bytes;
        self
    }

    pub(crate) fn basis(mut self, basis: Basis, note: impl Into<String>) -> Self {
        self.basis = basis;
        self.note = note.into();
        self
    }

    pub(crate) fn between(mut self, low: u128, high: Option<u128>) -> Self {
        (self.bytes_low, self.bytes_high) = (low, high);
        self
    }

    /// Returns `true` for attention whose window, if it has one, is not known.
    pub fn assumes_no_window(&self) -> bool {
        self.note.contains(NO_WINDOW)
    }

    /// The bytes that are certain: the lower end of a lower bound.
    pub fn sure_bytes(&self) -> u128 {
        match self.basis {
            Basis::Bound => self.bytes_low,
            _ => self.bytes,
        }
    }

    /// Returns these numbers as those of one of several calls, of which `others` are the rest: between the ends of all.
    ///
    /// # Errors
    /// [`Unknown`] if one of the others has no numbers.
    pub(crate) fn one_of(mut self, others: &[Answer]) -> Answer {
        let others: Result<Vec<&Numbers>, &Unknown> = others.iter().map(Result::as_ref).collect();
        let others = others.map_err(|_| Unknown::new(Self::UNDECIDED))?;
        if others.iter().all(|other| **other == self) {
            return Ok(self);
        }
        for other in others {
            self.bytes_low = self.bytes_low.min(other.bytes_low);
            self.bytes_high = self.bytes_high.zip(other.bytes_high).map(|(a, b)| a.max(b));
        }
        self.basis = self.basis.max(Basis::Estimate);
        if !self.note.is_empty() {
            self.note.push_str("; ");
        }
        self.note.push_str(Self::UNDECIDED);
        Ok(self)
    }

    /// Remark on numbers of a replay with several captures.
    const UNDECIDED: &str = "several captures fit; which was replayed is not recorded";

    /// A copy of this many bytes between the memories of the device and of the host.
    pub(crate) fn host_copy(bytes: u128) -> Self {
        let mut numbers = Self::moved(bytes).link(bytes);
        numbers.note = "host copy".to_owned();
        numbers.to_host = true;
        numbers
    }
}
