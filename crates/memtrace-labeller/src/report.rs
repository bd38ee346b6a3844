//! What a reader found, beside the rows.

use std::collections::BTreeMap;

use crate::access::Access;
use crate::names::Name;
use crate::perf_text::Skip;

/// How many positions of each reason are kept.
const KEPT: usize = 5;

/// Lines or records that gave no row, for one reason.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Skipped {
    /// How many.
    pub count: u64,
    /// Numbers of the first few, from 1.
    pub first: Vec<u64>,
}

/// What the rows of an input are, which limits what can be concluded from them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Records {
    /// Loads, stores, first touches of pages.
    #[default]
    Accesses,
    /// Allocations: a store when memory is allocated, a load when it is released. Nothing is known of reads.
    Allocations,
    /// Regions of memory that a monitor found accessed (DAMON), neither loads nor stores.
    Regions,
}

impl Records {
    /// The name in metadata.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Accesses => "accesses",
            Self::Allocations => "allocations",
            Self::Regions => "regions",
        }
    }

    /// The one with a name; accesses for any other name.
    ///
    /// ```
    /// use memtrace_labeller::Records;
    /// assert_eq!(Records::named("regions"), Records::Regions);
    /// ```
    #[must_use]
    pub fn named(name: &str) -> Self {
        [Self::Allocations, Self::Regions]
            .into_iter()
            .find(|records| records.name() == name)
            .unwrap_or_default()
    }
}

/// What a reader found, beside the rows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReadReport {
    /// The run that the first row names, where rows name one.
    pub run: Option<Name>,
    /// Format of the input.
    pub format: &'static str,
    /// What the times count: `perf`, `instructions`, `epoch`, `unknown`.
    pub clock: &'static str,
    /// Lines, or records of a binary file.
    pub lines: u64,
    /// Rows that came out.
    pub rows: u64,
    /// Samples that the kernel says it lost.
    pub lost: u64,
    /// What gave no row, by reason.
    pub skipped: BTreeMap<Skip, Skipped>,
    /// Damage of the container, as text.
    pub damage: Vec<String>,
    /// What one must know of the rows to read them right.
    pub note: Option<&'static str>,
}

impl ReadReport {
    pub(crate) fn new(format: &'static str, clock: &'static str) -> Self {
        Self {
            run: None,
            format,
            clock,
            ..Self::default()
        }
    }

    /// Numbers a row and hands it on.
    pub(crate) fn take(&mut self, mut row: Access, rows: &mut Vec<Access>) {
        row.sample_id = self.rows;
        self.rows += 1;
        rows.push(row);
    }

    /// Takes what the line read last turned out to be: a row, nothing of interest, or why it cannot be used.
    pub(crate) fn take_line(
        &mut self,
        found: Result<Option<Access>, Skip>,
        rows: &mut Vec<Access>,
    ) {
        match found {
            Ok(Some(row)) => self.take(row, rows),
            Ok(None) => {}
            Err(reason) => self.skip(reason, self.lines),
        }
    }

    pub(crate) fn skip(&mut self, reason: Skip, number: u64) {
        let skipped = self.skipped.entry(reason).or_default();
        skipped.count += 1;
        if skipped.first.len() < KEPT {
            skipped.first.push(number);
        }
    }

    /// Adds what a part of the input gave, whose lines begin behind `before`.
    pub fn absorb(&mut self, part: &Self, before: u64) {
        self.lines += part.lines;
        self.rows += part.rows;
        self.lost += part.lost;
        for (reason, from) in &part.skipped {
            let into = self.skipped.entry(*reason).or_default();
            into.count += from.count;
            let room = KEPT.saturating_sub(into.first.len());
            into.first
                .extend(from.first.iter().take(room).map(|line| line + before));
        }
    }

    /// Whether something was skipped that does not belong into a healthy file, or the container is damaged.
    #[must_use]
    pub fn is_damaged(&self) -> bool {
        !self.damage.is_empty() || self.skipped.keys().any(|reason| !reason.is_harmless())
    }

    /// Whether everything but comments and blank lines gave a row, which is what strict reading asks for.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        let harmless = |reason: &Skip| reason.is_harmless() && *reason != Skip::KernelAddress;
        self.damage.is_empty() && self.skipped.keys().all(harmless)
    }

    /// Everything that was skipped, whatever the reason.
    #[must_use]
    pub fn skipped_total(&self) -> u64 {
        self.skipped.values().map(|skipped| skipped.count).sum()
    }
}
