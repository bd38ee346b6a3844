//! The periods of a trace.

use std::io::Write;

use rca_cycles::Analysis;
use rca_cycles::compat::{PeriodMethod, Periods};
use report::{Cell, Column, JsonDocument, RowSink, TextOptions, TextWriter, Unit};

use crate::text::{Names, time};
use crate::{document, nanos};

/// The periods of a trace.
#[derive(Debug, Clone)]
pub struct Rhythm {
    method: &'static str,
    anchor: String,
    /// The median length, if there is one.
    pub period_ns: Option<i64>,
    periods: Vec<Stretch>,
}

/// The interval from one period to the next.
#[derive(Debug, Clone, serde::Serialize)]
struct Stretch {
    count: usize,
    start_ns: i64,
    end_ns: i64,
    phase: &'static str,
    partial: bool,
}

impl Rhythm {
    /// Converts the result of the period finder to the format of the default analysis.
    #[must_use]
    pub fn of_periods(method: PeriodMethod, found: &Periods) -> Self {
        let ns = nanos;
        let each = found.list.iter();
        let periods = each
            .map(|p| Stretch {
                count: p.count,
                start_ns: ns(p.start_us),
                end_ns: ns(p.end_us),
                phase: match p.kind {
                    1 => "prefill",
                    2 => "decode",
                    _ => "unknown",
                },
                partial: false,
            })
            .collect();
        let mut lengths: Vec<i64> = found
            .list
            .windows(2)
            .map(|w| ns(w[1].start_us - w[0].start_us))
            .collect();
        lengths.sort_unstable();
        Self {
            method: method.name(),
            anchor: found.anchor.clone().unwrap_or_default(),
            period_ns: lengths.get(lengths.len() / 2).copied(),
            periods,
        }
    }

    /// Returns the cycles of the default analysis.
    #[must_use]
    pub fn of_cycles(analysis: &Analysis) -> Self {
        let each = analysis.cycles.iter().enumerate();
        Self {
            method: analysis.method.name(),
            anchor: analysis.anchor.clone(),
            period_ns: analysis.period_ns(),
            periods: each
                .map(|(i, c)| Stretch {
                    count: i + 1,
                    start_ns: c.start_ns,
                    end_ns: c.end_ns,
                    phase: c.phase.name(),
                    partial: c.partial.is_some(),
                })
                .collect(),
        }
    }

    /// Writes the periods as JSON.
    ///
    /// # Errors
    ///
    /// Those of `out`.
    pub fn json(&self, out: &mut dyn Write) -> Result<(), report::Error> {
        let mut document = JsonDocument::new(out, document::VERSION)?;
        document.member("method", self.method)?;
        document.member("anchor", &self.anchor)?;
        document.member("period_ns", &self.period_ns)?;
        document.member("periods", &self.periods)?;
        document.finish()
    }

    /// Writes the periods for people.
    ///
    /// # Errors
    ///
    /// Those of `out`.
    pub fn text(&self, out: &mut dyn Write, names: Names) -> Result<(), report::Error> {
        let anchor = match self.anchor.as_str() {
            "" => "nothing".to_owned(),
            anchor => names.fit(anchor, 50),
        };
        writeln!(out, "cut at {anchor} ({})", self.method)?;
        match self.period_ns {
            Some(ns) => writeln!(out, "median period {}\n", time(ns))?,
            None => writeln!(out, "no period\n")?,
        }
        let first = self.periods.first().map_or(0, |p| p.start_ns);
        self.rows(&mut TextWriter::new(out, TextOptions::default()), first)
    }

    /// Writes a row for each, with starts counted from `origin`.
    ///
    /// # Errors
    ///
    /// Those of `sink`.
    pub fn rows(&self, sink: &mut dyn RowSink, origin: i64) -> Result<(), report::Error> {
        sink.begin(&[
            Column::uint("count"),
            Column::int("start_ns").unit(Unit::Nanos).title("start"),
            Column::int("end_ns").unit(Unit::Nanos).title("end"),
            Column::int("length_ns").unit(Unit::Nanos).title("length"),
            Column::text("phase"),
            Column::bool("partial"),
        ])?;
        for p in &self.periods {
            sink.row(&[
                Cell::from(p.count),
                Cell::from(p.start_ns - origin),
                Cell::from(p.end_ns - origin),
                Cell::from(p.end_ns - p.start_ns),
                Cell::from(p.phase),
                Cell::from(p.partial),
            ])?;
        }
        sink.finish()
    }
}
