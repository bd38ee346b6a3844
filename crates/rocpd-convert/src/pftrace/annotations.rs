//! Arguments of slices.

use trace_model::ArgValue;

/// Arguments of one slice, in room that is used again.
#[derive(Debug)]
pub(super) struct Annotations<'v> {
    wanted: Wanted<'v>,
    list: Vec<(&'v str, ArgValue<'v>)>,
}

/// Which arguments are wanted.
#[derive(Debug, Clone, Copy)]
pub(super) enum Wanted<'v> {
    All,
    /// Those with these keys.
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

/// Room for arguments between two slices.
#[derive(Debug, Default)]
pub(super) struct Room(Vec<(&'static str, ArgValue<'static>)>);

impl Room {
    /// Begins the arguments of a slice; what is forced is kept even if it is not wanted.
    #[inline]
    pub(super) fn open<'v>(&mut self, wanted: Wanted<'v>) -> Annotations<'v> {
        Annotations {
            wanted,
            list: emptied(std::mem::take(&mut self.0)),
        }
    }

    /// Takes the room back.
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

    /// Adds what was asked for by itself, whatever else is wanted.
    pub(super) fn force(&mut self, key: &'v str, value: ArgValue<'v>) {
        self.list.push((key, value));
    }

    #[inline]
    pub(super) fn int(&mut self, key: &'v str, value: i64) {
        self.add(key, ArgValue::Int(value));
    }

    /// Nothing for what is not known.
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

    /// Says that the slice was cut, whatever is wanted.
    pub(super) fn clipped(&mut self, clipped: bool) {
        if clipped {
            self.force("clipped", ArgValue::Bool(true));
        }
    }

    pub(super) fn list(&self) -> &[(&'v str, ArgValue<'v>)] {
        &self.list
    }
}
