//! What the tables of an analysis hold.

use std::io::Write;

use memtrace_labeller::Records;
use report::{Cell, RowSink, Table};

use crate::error::{Error, Result};
use crate::evidence::Rate;
use crate::options::Semantics;
use crate::result::{Analysis, TypeMetrics};
use crate::tables::AnalysisTable;
use crate::verdict::{Bounds, Verdict};

type Rows<'a> = dyn FnMut(&[Cell<'_>]) -> Result<()> + 'a;

impl Analysis {
    /// Writes one table to a sink, from `begin` to `finish`.
    ///
    /// # Errors
    ///
    /// When the sink refuses.
    pub fn write_table(&self, table: AnalysisTable, sink: &mut dyn RowSink) -> Result<()> {
        sink.begin(&table.columns_in(self.semantics))?;
        self.rows_of(table, &mut |cells| Ok(sink.row(cells)?))?;
        Ok(sink.finish()?)
    }

    /// One table, held in memory.
    ///
    /// # Errors
    ///
    /// When spilled regions cannot be read back.
    pub fn table(&self, table: AnalysisTable) -> Result<Table> {
        Ok(self.table_head(table, usize::MAX)?.0)
    }

    /// The first rows of a table, and how many it has.
    ///
    /// # Errors
    ///
    /// When spilled regions cannot be read back.
    pub fn table_head(&self, table: AnalysisTable, rows: usize) -> Result<(Table, usize)> {
        let mut held = Table::new(table.name(), table.columns_in(self.semantics))?;
        let mut all = 0;
        self.rows_of(table, &mut |cells| {
            all += 1;
            if all <= rows {
                held.push(cells)?;
            }
            Ok(())
        })?;
        Ok((held, all))
    }

    fn type_name(&self, at: usize) -> &str {
        self.types.get(at).map_or("", |kind| &*kind.region_type)
    }

    fn rows_of(&self, table: AnalysisTable, row: &mut Rows<'_>) -> Result<()> {
        match table {
            AnalysisTable::RetentionPerRegion
            | AnalysisTable::WriteOnce
            | AnalysisTable::ReadFreq
            | AnalysisTable::WorkingSetPerRegion
            | AnalysisTable::LocalityPerRegion => self.region_rows(table, row),
            AnalysisTable::RetentionSummary
            | AnalysisTable::WorkingSetSummary
            | AnalysisTable::LocalitySummary
            | AnalysisTable::Iai
            | AnalysisTable::Suitability => self.type_rows(table, row),
            _ => self.native_rows(table, row),
        }
    }

    fn region_rows(&self, table: AnalysisTable, row: &mut Rows<'_>) -> Result<()> {
        for region in &self.regions {
            let region = region?;
            let id = Cell::UInt(region.region_id);
            let kind = Cell::Text(self.type_name(region.type_index));
            match table {
                AnalysisTable::RetentionPerRegion => {
                    let accessed = region.total_reads + region.total_writes > 0;
                    let known = accessed || self.semantics == Semantics::Mrm;
                    let cell = |value: Cell<'static>| if known { value } else { Cell::Null };
                    row(&[
                        id,
                        kind,
                        cell(region.first_write_ns.into()),
                        cell(region.last_read_ns.into()),
                        cell(region.retention_ns.into()),
                        cell(region.retention_s().into()),
                    ])?;
                }
                AnalysisTable::WriteOnce => {
                    if let Some(ratio) = region.write_once_ratio() {
                        let kind_of = self.types.get(region.type_index);
                        // Samples show too few stores.
                        let is_known = kind_of.is_some_and(|kind| kind.write_once().is_some());
                        let ratio = Some(ratio).filter(|_| is_known);
                        row(&[
                            id,
                            kind,
                            region.n_written_addresses.into(),
                            region.n_write_once_addresses.into(),
                            ratio.into(),
                        ])?;
                    }
                }
                AnalysisTable::ReadFreq if !self.has_reads() => {}
                AnalysisTable::ReadFreq => row(&[
                    id,
                    kind,
                    region.weighted_reads.into(),
                    region.weighted_writes.into(),
                    region
                        .weighted_reads
                        .saturating_add(region.weighted_writes)
                        .into(),
                    region.read_fraction().into(),
                    region.reads_per_write().into(),
                ])?,
                AnalysisTable::WorkingSetPerRegion => row(&[
                    id,
                    region.unique_pages.into(),
                    kind,
                    (region.unique_pages * 4096).into(),
                ])?,
                _ => row(&[
                    id,
                    kind,
                    region.n_accesses.into(),
                    region.mean_stride_bytes.into(),
                    region.median_stride_bytes.into(),
                    region.same_page_fraction.into(),
                ])?,
            }
        }
        Ok(())
    }

    fn type_rows(&self, table: AnalysisTable, row: &mut Rows<'_>) -> Result<()> {
        for kind in &self.types {
            let name = Cell::Text(&kind.region_type);
            let [p50, p90, p99, mean] = kind.retention_s;
            if table == AnalysisTable::Iai {
                if let Some(iai) = kind.intervals.filter(|_| self.has_reads()) {
                    // Between samples are accesses that were not recorded.
                    let is_whole = !kind.is_sampled();
                    let ns = |ns: u64| Some(ns).filter(|_| is_whole);
                    row(&[
                        name,
                        iai.n_intervals.into(),
                        ns(iai.p50_ns).into(),
                        ns(iai.p90_ns).into(),
                        ns(iai.p99_ns).into(),
                        Some(iai.mean_ns).filter(|_| is_whole).into(),
                    ])?;
                }
                continue;
            }
            if kind.n_regions == 0 {
                continue;
            }
            // A region of allocations is a page or all that nothing classifies: how long that was used says nothing.
            let known = kind.has_accesses() && self.has_reads() || self.semantics == Semantics::Mrm;
            let time = |seconds: f64| {
                if known {
                    Cell::Real(seconds)
                } else {
                    Cell::Null
                }
            };
            match table {
                AnalysisTable::RetentionSummary => row(self.shown(
                    &[
                        name,
                        kind.n_regions.into(),
                        time(p50),
                        time(p90),
                        time(p99),
                        time(mean),
                        self.retention_is(kind).into(),
                    ],
                    6,
                ))?,
                AnalysisTable::WorkingSetSummary => row(self.shown(
                    &[
                        name,
                        kind.n_regions.into(),
                        kind.total_pages.into(),
                        (kind.total_pages * 4096).into(),
                        crate::quantile::mean(u128::from(kind.total_pages), kind.n_regions).into(),
                        kind.max_pages_per_region.into(),
                        kind.distinct_pages.into(),
                        (kind.distinct_pages * 4096).into(),
                    ],
                    6,
                ))?,
                AnalysisTable::LocalitySummary => row(&[
                    name,
                    kind.mean_stride_bytes.into(),
                    kind.median_stride_bytes.into(),
                    kind.same_page_fraction.into(),
                ])?,
                _ => {
                    let verdict = kind.verdict.as_ref();
                    let once = verdict.and_then(|verdict| verdict.write_once);
                    let ratio = match verdict {
                        None => Some(kind.write_once_ratio_mean.unwrap_or(0.0)),
                        Some(_) => kind.write_once(),
                    };
                    row(self.shown(
                        &[
                            name,
                            ratio.into(),
                            time(p99),
                            time(p50),
                            kind.suitability.into(),
                            verdict.map_or(Cell::Null, |verdict| verdict.confidence.into()),
                            self.retention_is(kind).into(),
                            once.map(|once| once.low).into(),
                            once.and_then(|once| once.high).into(),
                        ],
                        5,
                    ))?;
                }
            }
        }
        Ok(())
    }

    /// Cells of a table in the semantics of the analysis: the reference has the first ones only.
    fn shown<'a, 'b>(&self, cells: &'b [Cell<'a>], of_reference: usize) -> &'b [Cell<'a>] {
        match self.semantics {
            Semantics::Mrm => cells.get(..of_reference).unwrap_or(cells),
            Semantics::Native => cells,
        }
    }

    /// Returns `true` if loads are reads: in captures of allocations they are releases.
    fn has_reads(&self) -> bool {
        self.records != Records::Allocations
    }

    /// How the retention of a type is to be read: `exact`, `at least`, or as a number of `instructions`.
    fn retention_is(&self, kind: &TypeMetrics) -> Option<&'static str> {
        let is_known = kind.has_accesses() && self.has_reads();
        let verdict = kind.verdict.as_ref().filter(|_| is_known)?;
        if self.made_up_clock {
            return Some("instructions");
        }
        let is_exact = kind.is_complete() && verdict.partly == 0;
        Some(if is_exact { "exact" } else { "at least" })
    }

    fn native_rows(&self, table: AnalysisTable, row: &mut Rows<'_>) -> Result<()> {
        match table {
            AnalysisTable::ReuseDistance => {
                for (distance, count) in self.reuse.iter().flat_map(|reuse| &reuse.histogram) {
                    row(&[(*distance).into(), (*count).into()])?;
                }
                return Ok(());
            }
            AnalysisTable::MissRatio => {
                for (pages, ratio) in self.reuse.iter().flat_map(|reuse| &reuse.miss_ratios) {
                    row(&[(*pages).into(), (*ratio).into()])?;
                }
                return Ok(());
            }
            AnalysisTable::Tokens => {
                for token in &self.tokens {
                    row(&[
                        token.token_index.into(),
                        self.type_name(token.type_index).into(),
                        token.loads.into(),
                        token.stores.into(),
                    ])?;
                }
                return Ok(());
            }
            _ => {}
        }
        let has_reads = self.has_reads();
        for kind in &self.types {
            let name = Cell::Text(&kind.region_type);
            match (table, kind.values, kind.sampling) {
                (AnalysisTable::Types, _, _) => row(&[
                    name,
                    kind.samples.into(),
                    crate::quantile::mean(u128::from(kind.samples), self.rows).into(),
                    Some(kind.retention_mean_by_accesses_s)
                        .filter(|_| has_reads)
                        .into(),
                    Some(kind.retention_mean_by_bytes_s)
                        .filter(|_| has_reads)
                        .into(),
                    kind.write_once_ratio_by_addresses
                        .filter(|_| kind.write_once().is_some())
                        .into(),
                    kind.distinct_pages.into(),
                    (kind.distinct_pages * 4096).into(),
                    // Of what is larger than an access only the first line is known to be touched.
                    Some(kind.distinct_lines)
                        .filter(|_| self.records == Records::Accesses)
                        .into(),
                    kind.shared_pages.into(),
                ])?,
                (AnalysisTable::Verdict, _, _) => {
                    if let Some(verdict) = &kind.verdict {
                        row(&verdict_cells(name, verdict, has_reads))?;
                    }
                }
                (AnalysisTable::Values, Some(values), _) => {
                    // Samples join values: what they leave says nothing about single values.
                    let is_complete = kind.is_complete();
                    let own = |all: Option<[f64; 4]>| all.filter(|_| is_complete);
                    let [r50, r90, r99, rmean] = cells(own(values.retention_ns));
                    let [mut a50, mut a90, mut a99, amean] =
                        cells(own(values.read_age_ns).filter(|_| has_reads));
                    if !is_complete {
                        [a50, a90, a99] = kind.read_ages().map(Cell::from);
                    }
                    let reads = |count: u64| Some(count).filter(|_| has_reads);
                    row(&[
                        name,
                        values.n_values.into(),
                        values.n_read.into(),
                        r50,
                        r90,
                        r99,
                        rmean,
                        reads(values.n_reads).into(),
                        reads(values.n_reads_before_store).into(),
                        a50,
                        a90,
                        a99,
                        amean,
                        values.n_below_resolution.into(),
                        reads(values.n_reads_since_allocation).into(),
                    ])?;
                }
                (AnalysisTable::RefreshNeed, Some(values), _) if has_reads => {
                    // A value that lives for t in memory that keeps data for T is refreshed t/T times on average.
                    let mean = values.retention_ns.map(|[_, _, _, mean]| mean);
                    let mean = mean.filter(|_| kind.is_complete());
                    let mut p99 = values.read_age_ns.map(|[_, _, p99, _]| p99);
                    if !kind.is_complete() {
                        [_, _, p99] = kind.read_ages();
                    }
                    let times = |interval_ns: f64| mean.map(|mean| mean / interval_ns);
                    row(&[name, p99.into(), times(1e9).into(), times(60e9).into()])?;
                }
                (AnalysisTable::Sampling, _, Some(sampling)) if has_reads => {
                    let three = |e: crate::result::Estimate| [e.value, e.low, e.high];
                    let [a, al, ah] = three(sampling.accesses).map(Cell::Real);
                    let [r, rl, rh] = three(sampling.read_fraction).map(Cell::Real);
                    let [d, dl, dh] = three(sampling.addresses).map(Cell::Real);
                    row(&[
                        name,
                        a,
                        al,
                        ah,
                        r,
                        rl,
                        rh,
                        d,
                        dl,
                        dh,
                        sampling.coverage.into(),
                    ])?;
                }
                (AnalysisTable::Windows, _, _) => {
                    let windows = kind.window_pages.iter().zip(&kind.window_loads);
                    for (at, ((pages, loads), stores)) in
                        (0_u64..).zip(windows.zip(&kind.window_stores))
                    {
                        row(&[
                            name,
                            (self.first_ns + at * self.window_ns).into(),
                            (*pages).into(),
                            Some(*loads).filter(|_| has_reads).into(),
                            Some(*stores).filter(|_| has_reads).into(),
                        ])?;
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Writes all tables, see [`Analysis::write_json_of`].
    ///
    /// # Errors
    ///
    /// When `out` refuses.
    pub fn write_json_tables(&self, out: &mut dyn Write) -> Result<()> {
        self.write_json_of(&AnalysisTable::of(self), out)
    }

    /// Writes tables as one JSON object keyed by table name, each with `columns` and `rows`: the reference's results as they are
    /// recorded for comparison. Without tables the object is empty.
    ///
    /// # Errors
    ///
    /// When `out` refuses.
    pub fn write_json_of(&self, tables: &[AnalysisTable], out: &mut dyn Write) -> Result<()> {
        let failed = |source: std::io::Error| Error::Write {
            name: "analysis".to_owned(),
            source,
        };
        let mut text = String::from("{");
        for (at, table) in tables.iter().copied().enumerate() {
            let columns: Vec<String> = table
                .columns_in(self.semantics)
                .iter()
                .map(|column| column.name().to_owned())
                .collect();
            let columns = serde_json::Value::from(columns);
            let comma = if at == 0 { "" } else { "," };
            text.push_str(&format!(
                "{comma}\n\"{}\":{{\"columns\":{columns},\n\"rows\":[",
                table.name()
            ));
            let mut first = true;
            self.rows_of(table, &mut |cells| {
                text.push_str(if first { "\n[" } else { ",\n[" });
                first = false;
                for (at, cell) in cells.iter().enumerate() {
                    if at > 0 {
                        text.push(',');
                    }
                    text.push_str(&json(*cell).to_string());
                }
                text.push(']');
                if text.len() > 1 << 16 {
                    out.write_all(text.as_bytes()).map_err(failed)?;
                    text.clear();
                }
                Ok(())
            })?;
            text.push_str("]}");
        }
        text.push_str("}\n");
        out.write_all(text.as_bytes()).map_err(failed)
    }
}

/// The row of a verdict.
fn verdict_cells<'a>(name: Cell<'a>, verdict: &'a Verdict, has_reads: bool) -> Vec<Cell<'a>> {
    let (sampling, period) = match verdict.rate {
        Rate::Complete => ("complete", Some(1.0)),
        Rate::Sampled(p) => ("sampled", Some(1.0 / p)),
        Rate::Unknown => ("not stated", None),
    };
    let mut cells = vec![
        name,
        verdict.class.into(),
        verdict.confidence.into(),
        verdict.reason.into(),
        verdict.at_least.into(),
        verdict.at_most.into(),
        sampling.into(),
        period.into(),
        verdict.coverage.into(),
    ];
    let both = |bounds: Option<Bounds>| -> [Cell<'static>; 2] {
        let high = bounds.and_then(|bounds| bounds.high);
        [bounds.map(|bounds| bounds.low).into(), high.into()]
    };
    cells.extend(both(verdict.write_once));
    let lives = [verdict.retention_p50_s, verdict.retention_p99_s];
    cells.extend(
        lives
            .map(|life| both(Some(life).filter(|_| has_reads)))
            .as_flattened(),
    );
    cells.push(verdict.cut_by_end.into());
    let begun_before = Some(verdict.begun_before).filter(|_| verdict.rate == Rate::Complete);
    cells.push(begun_before.into());
    for at in 0..3 {
        let ages = verdict.read_age_ns.as_ref();
        cells.extend(both(ages.and_then(|ages| ages.get(at).copied())));
    }
    cells.push(verdict.pairs.into());
    cells.push(verdict.ages_go_on.into());
    let unchanged = verdict.unchanged.filter(|one| one.share_low > 0.0);
    cells.push(
        unchanged
            .map(|one| crate::quantile::real(one.last_ns) / 1e9)
            .into(),
    );
    cells.push(unchanged.map(|one| one.share_low).into());
    cells
}

/// Quantiles as cells, empty where there are none.
fn cells(quantiles: Option<[f64; 4]>) -> [Cell<'static>; 4] {
    quantiles.map_or([Cell::Null; 4], |all| all.map(Cell::Real))
}

fn json(cell: Cell<'_>) -> serde_json::Value {
    match cell {
        Cell::Int(value) => value.into(),
        Cell::UInt(value) => value.into(),
        Cell::Real(value) => value.into(),
        Cell::Text(value) => value.into(),
        Cell::Bool(value) => value.into(),
        _ => serde_json::Value::Null,
    }
}
