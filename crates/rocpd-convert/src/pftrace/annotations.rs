//! Arguments of slices.

use trace_model::ArgValue;

/// Arguments of one slice, in a reused buffer.
#[derive(Debug)]
pub(super) struct Annotations<'v> {
    wanted: Wanted<'v>,
    list: Vec<(&'v str, ArgValue<'v>)>,
}

/// Selection of arguments.
#[derive(Debug, Clone, Copy)]
pub(super) enum Wanted<'v> {
    All,
    /// The arguments with these keys.
    Only(&'v [String]),
}

impl Wanted<'_> {
    fn takes(self, key: &str) -> bool {
        match self {
            Self::All => true,
            Self::Only(keys) => keys.iter().any(|wanted| wanted == key),
        }
    }
}

/// Reusable buffer for arguments.
#[derive(Debug, Default)]
pub(super) struct Room(Vec<(&'static str, ArgValue<'static>)>);

impl Room {
    /// Begins the arguments of a slice; forced arguments are kept even if they are not selected.
    #[inline]
    pub(super) fn open<'v>(&mut self, wanted: Wanted<'v>) -> Annotations<'v> {
        Annotations {
            wanted,
            list: emptied(std::mem::take(&mut self.0)),
        }
    }

    /// Returns the buffer.
    #[inline]
    pub(super) fn close(&mut self, annotations: Annotations<'_>) {
        self.0 = emptied(annotations.list);
    }
}

/// The same memory for values that live another time: collecting in place keeps it.
#[expect(
    clippy::unnecessary_filter_map,
    reason = "filter would keep the lifetime, which is what changes"
)]
fn emptied<'a, 'b>(list: Vec<(&'a str, ArgValue<'a>)>) -> Vec<(&'b str, ArgValue<'b>)> {
    list.into_iter().filter_map(|_| None).collect()
}

impl<'v> Annotations<'v> {
    #[inline]
    pub(super) fn add(&mut self, key: &'v str, value: ArgValue<'v>) {
        if self.wanted.takes(key) {
            self.list.push((key, value));
        }
    }

    /// Adds an argument regardless of the selection.
    pub(super) fn force(&mut self, key: &'v str, value: ArgValue<'v>) {
        self.list.push((key, value));
    }

    #[inline]
    pub(super) fn int(&mut self, key: &'v str, value: i64) {
        self.add(key, ArgValue::Int(value));
    }

    /// Adds an optional argument; nothing if the value is unknown.
    #[inline]
    pub(super) fn maybe(&mut self, key: &'v str, value: Option<i64>) {
        if let Some(value) = value {
            self.int(key, value);
        }
    }

    #[inline]
    pub(super) fn text(&mut self, key: &'v str, value: &'v str) {
        self.add(key, ArgValue::Str(value));
    }

    pub(super) fn times(&mut self, start_ns: i64, end_ns: i64) {
        self.int("begin_ns", start_ns);
        self.int("end_ns", end_ns);
        self.int("delta_ns", end_ns.saturating_sub(start_ns));
    }

    /// Marks the slice as cut, regardless of the selection.
    pub(super) fn clipped(&mut self, clipped: bool) {
        if clipped {
            self.force("clipped", ArgValue::Bool(true));
        }
    }

    pub(super) fn list(&self) -> &[(&'v str, ArgValue<'v>)] {
        &self.list
    }
}
