//! The analysis as tables.

use std::io::Write;

use report::{Cell, Column, RowSink, Table, Unit};

use crate::error::{Error, Result};
use crate::result::Analysis;

/// A table of the analysis.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum AnalysisTable {
    /// From the first store of each region to its last load.
    RetentionPerRegion,
    /// The same by type.
    RetentionSummary,
    /// Addresses that were stored to once.
    WriteOnce,
    /// Loads and stores.
    ReadFreq,
    /// Pages of each region.
    WorkingSetPerRegion,
    /// The same by type.
    WorkingSetSummary,
    /// Strides of each region.
    LocalityPerRegion,
    /// The same by type.
    LocalitySummary,
    /// Intervals between accesses of the same address.
    Iai,
    /// What could sit in memory that forgets.
    Suitability,
    /// Our figures by type: weighted means, distinct pages, sharing.
    Types,
    /// What stores leave until the next store, and how old it is when it is read.
    Values,
    /// Retention that a share of the loads needs, and what refreshing costs: how often a value is refreshed on average in
    /// memory that keeps data for so long, which is also the energy of refreshing in units of that of writing it once.
    RefreshNeed,
    /// Estimates of what sampling hides.
    Sampling,
    /// Distinct pages, loads and stores over time.
    Windows,
    /// Reuse distances.
    ReuseDistance,
    /// Miss ratio by cache size.
    MissRatio,
    /// Accesses by token.
    Tokens,
}

impl AnalysisTable {
    /// The tables of the reference, in its order.
    pub const MRM: [Self; 10] = [
        Self::RetentionPerRegion,
        Self::RetentionSummary,
        Self::WriteOnce,
        Self::ReadFreq,
        Self::WorkingSetPerRegion,
        Self::WorkingSetSummary,
        Self::LocalityPerRegion,
        Self::LocalitySummary,
        Self::Iai,
        Self::Suitability,
    ];

    /// The tables that only we have.
    pub const NATIVE: [Self; 8] = [
        Self::Types,
        Self::Values,
        Self::RefreshNeed,
        Self::Sampling,
        Self::Windows,
        Self::ReuseDistance,
        Self::MissRatio,
        Self::Tokens,
    ];

    /// The tables of a metric by the name that configurations give it, for example `retention_duration`; `None` for a name that is
    /// none of [`AnalysisTable::METRICS`].
    #[must_use]
    pub fn of_metric(metric: &str) -> Option<&'static [Self]> {
        Some(match metric {
            "retention_duration" => &[Self::RetentionPerRegion, Self::RetentionSummary],
            "write_once_ratio" => &[Self::WriteOnce],
            "read_frequency" => &[Self::ReadFreq],
            "working_set_size" => &[Self::WorkingSetPerRegion, Self::WorkingSetSummary],
            "access_locality" => &[Self::LocalityPerRegion, Self::LocalitySummary],
            "inter_access_interval" => &[Self::Iai],
            _ => return None,
        })
    }

    /// The metrics of [`AnalysisTable::of_metric`].
    pub const METRICS: [&'static str; 6] = [
        "retention_duration",
        "write_once_ratio",
        "read_frequency",
        "working_set_size",
        "access_locality",
        "inter_access_interval",
    ];

    /// The table's name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::RetentionPerRegion => "retention_per_region",
            Self::RetentionSummary => "retention_summary",
            Self::WriteOnce => "write_once",
            Self::ReadFreq => "read_freq",
            Self::WorkingSetPerRegion => "working_set_per_region",
            Self::WorkingSetSummary => "working_set_summary",
            Self::LocalityPerRegion => "locality_per_region",
            Self::LocalitySummary => "locality_summary",
            Self::Iai => "iai",
            Self::Suitability => "suitability",
            Self::Types => "types",
            Self::Values => "values",
            Self::RefreshNeed => "refresh_need",
            Self::Sampling => "sampling",
            Self::Windows => "windows",
            Self::ReuseDistance => "reuse_distance",
            Self::MissRatio => "miss_ratio",
            Self::Tokens => "tokens",
        }
    }

    /// The columns.
    #[must_use]
    pub fn columns(self) -> Vec<Column> {
        use Column as C;
        let id = || C::uint("region_id");
        let kind = || C::text("region_type");
        let ns = |name: &'static str| C::uint(name).unit(Unit::Nanos);
        let real_ns = |name: &'static str| C::real(name).unit(Unit::Nanos);
        let count = |name: &'static str| C::uint(name).unit(Unit::Count);
        let real = |name: &'static str| C::real(name);
        match self {
            Self::RetentionPerRegion => vec![
                id(),
                kind(),
                ns("first_write_ns"),
                ns("last_read_ns"),
                ns("retention_ns"),
                real("retention_s"),
            ],
            Self::RetentionSummary => vec![
                kind(),
                count("n_regions"),
                real("retention_p50_s"),
                real("retention_p90_s"),
                real("retention_p99_s"),
                real("retention_mean_s"),
            ],
            Self::WriteOnce => vec![
                id(),
                kind(),
                count("n_written_addresses"),
                count("n_write_once_addresses"),
                real("write_once_ratio"),
            ],
            Self::ReadFreq => vec![
                id(),
                kind(),
                count("total_reads"),
                count("total_writes"),
                count("total_accesses"),
                real("read_fraction"),
                real("reads_per_write"),
            ],
            Self::WorkingSetPerRegion => vec![
                id(),
                count("unique_pages"),
                kind(),
                C::uint("working_set_bytes").unit(Unit::Bytes),
            ],
            Self::WorkingSetSummary => vec![
                kind(),
                count("n_regions"),
                count("total_pages"),
                C::uint("total_bytes").unit(Unit::Bytes),
                real("mean_pages_per_region"),
                count("max_pages_per_region"),
            ],
            Self::LocalityPerRegion => vec![
                id(),
                kind(),
                count("n_accesses"),
                real("mean_stride_bytes"),
                real("median_stride_bytes"),
                real("same_page_fraction"),
            ],
            Self::LocalitySummary => vec![
                kind(),
                real("mean_stride_bytes"),
                real("median_stride_bytes"),
                real("same_page_fraction"),
            ],
            Self::Iai => vec![
                kind(),
                count("n_intervals"),
                ns("iai_p50_ns"),
                ns("iai_p90_ns"),
                ns("iai_p99_ns"),
                real_ns("iai_mean_ns"),
            ],
            Self::Suitability => vec![
                kind(),
                real("write_once_ratio_mean"),
                real("retention_p99_s"),
                real("retention_p50_s"),
                C::text("suitability"),
            ],
            Self::Types => vec![
                kind(),
                count("samples"),
                real("sample_share"),
                real("retention_mean_by_accesses_s"),
                real("retention_mean_by_bytes_s"),
                real("write_once_ratio_by_addresses"),
                count("distinct_pages"),
                C::uint("distinct_bytes").unit(Unit::Bytes),
                count("distinct_lines"),
                count("shared_pages"),
            ],
            Self::Values => vec![
                kind(),
                count("n_values"),
                count("n_values_read"),
                real_ns("value_retention_p50_ns"),
                real_ns("value_retention_p90_ns"),
                real_ns("value_retention_p99_ns"),
                real_ns("value_retention_mean_ns"),
                count("n_reads"),
                count("n_reads_before_store"),
                real_ns("read_age_p50_ns"),
                real_ns("read_age_p90_ns"),
                real_ns("read_age_p99_ns"),
                real_ns("read_age_mean_ns"),
                count("n_values_below_resolution"),
            ],
            Self::RefreshNeed => vec![
                kind(),
                real_ns("required_retention_p99_ns"),
                real("refreshes_per_value_at_1s"),
                real("refreshes_per_value_at_60s"),
            ],
            Self::Sampling => vec![
                kind(),
                real("accesses"),
                real("accesses_low"),
                real("accesses_high"),
                real("read_fraction"),
                real("read_fraction_low"),
                real("read_fraction_high"),
                real("addresses_at_least"),
                real("addresses_low"),
                real("addresses_high"),
                real("coverage"),
            ],
            Self::Windows => vec![
                kind(),
                ns("start_ns"),
                count("distinct_pages"),
                count("loads"),
                count("stores"),
            ],
            Self::ReuseDistance => vec![count("distance_pages_at_most"), count("accesses")],
            Self::MissRatio => vec![count("cache_pages"), real("miss_ratio")],
            Self::Tokens => vec![
                count("token_index"),
                kind(),
                count("loads"),
                count("stores"),
            ],
        }
    }

    /// The tables that an analysis has: those of the reference, and ours in our semantics. The reference has none at all of
    /// an empty trace, and two fewer when an address does not fit 64 bits.
    #[must_use]
    pub fn of(analysis: &Analysis) -> Vec<Self> {
        use crate::options::Semantics;
        if analysis.semantics == Semantics::Native {
            return Self::MRM.into_iter().chain(Self::NATIVE).collect();
        }
        let without: &[Self] = if analysis.rows == 0 {
            return Vec::new();
        } else if analysis.wide_addresses {
            &[
                Self::LocalityPerRegion,
                Self::LocalitySummary,
                Self::Suitability,
            ]
        } else {
            &[]
        };
        Self::MRM
            .into_iter()
            .filter(|table| !without.contains(table))
            .collect()
    }
}

type Rows<'a> = dyn FnMut(&[Cell<'_>]) -> Result<()> + 'a;

impl Analysis {
    /// Writes one table to a sink, from `begin` to `finish`.
    ///
    /// # Errors
    ///
    /// When the sink refuses.
    pub fn write_table(&self, table: AnalysisTable, sink: &mut dyn RowSink) -> Result<()> {
        sink.begin(&table.columns())?;
        self.rows_of(table, &mut |cells| Ok(sink.row(cells)?))?;
        Ok(sink.finish()?)
    }

    /// One table, held in memory.
    ///
    /// # Errors
    ///
    /// None in practice; the signature is that of [`report::Table`].
    pub fn table(&self, table: AnalysisTable) -> Result<Table> {
        let mut held = Table::new(table.name(), table.columns())?;
        self.rows_of(table, &mut |cells| Ok(held.push(cells)?))?;
        Ok(held)
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
            let id = Cell::UInt(region.region_id);
            let kind = Cell::Text(self.type_name(region.type_index));
            match table {
                AnalysisTable::RetentionPerRegion => row(&[
                    id,
                    kind,
                    region.first_write_ns.into(),
                    region.last_read_ns.into(),
                    region.retention_ns.into(),
                    region.retention_s().into(),
                ])?,
                AnalysisTable::WriteOnce => {
                    if let Some(ratio) = region.write_once_ratio() {
                        row(&[
                            id,
                            kind,
                            region.n_written_addresses.into(),
                            region.n_write_once_addresses.into(),
                            ratio.into(),
                        ])?;
                    }
                }
                AnalysisTable::ReadFreq => row(&[
                    id,
                    kind,
                    region.total_reads.into(),
                    region.total_writes.into(),
                    (region.total_reads + region.total_writes).into(),
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
                if let Some(iai) = kind.intervals {
                    row(&[
                        name,
                        iai.n_intervals.into(),
                        iai.p50_ns.into(),
                        iai.p90_ns.into(),
                        iai.p99_ns.into(),
                        iai.mean_ns.into(),
                    ])?;
                }
                continue;
            }
            if kind.n_regions == 0 {
                continue;
            }
            match table {
                AnalysisTable::RetentionSummary => row(&[
                    name,
                    kind.n_regions.into(),
                    p50.into(),
                    p90.into(),
                    p99.into(),
                    mean.into(),
                ])?,
                AnalysisTable::WorkingSetSummary => row(&[
                    name,
                    kind.n_regions.into(),
                    kind.total_pages.into(),
                    (kind.total_pages * 4096).into(),
                    crate::quantile::mean(u128::from(kind.total_pages), kind.n_regions).into(),
                    kind.max_pages_per_region.into(),
                ])?,
                AnalysisTable::LocalitySummary => row(&[
                    name,
                    kind.mean_stride_bytes.into(),
                    kind.median_stride_bytes.into(),
                    kind.same_page_fraction.into(),
                ])?,
                _ => row(&[
                    name,
                    kind.write_once_ratio_mean.unwrap_or(0.0).into(),
                    p99.into(),
                    p50.into(),
                    kind.suitability.into(),
                ])?,
            }
        }
        Ok(())
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
        for kind in &self.types {
            let name = Cell::Text(&kind.region_type);
            match (table, kind.values, kind.sampling) {
                (AnalysisTable::Types, _, _) => row(&[
                    name,
                    kind.samples.into(),
                    crate::quantile::mean(u128::from(kind.samples), self.rows).into(),
                    kind.retention_mean_by_accesses_s.into(),
                    kind.retention_mean_by_bytes_s.into(),
                    kind.write_once_ratio_by_addresses
                        .map_or(Cell::Null, Cell::Real),
                    kind.distinct_pages.into(),
                    (kind.distinct_pages * 4096).into(),
                    kind.distinct_lines.into(),
                    kind.shared_pages.into(),
                ])?,
                (AnalysisTable::Values, Some(values), _) => {
                    let [r50, r90, r99, rmean] = values.retention_ns.map(Cell::Real);
                    let [a50, a90, a99, amean] = values.read_age_ns.map(Cell::Real);
                    row(&[
                        name,
                        values.n_values.into(),
                        values.n_read.into(),
                        r50,
                        r90,
                        r99,
                        rmean,
                        values.n_reads.into(),
                        values.n_reads_before_store.into(),
                        a50,
                        a90,
                        a99,
                        amean,
                        values.n_below_resolution.into(),
                    ])?;
                }
                (AnalysisTable::RefreshNeed, Some(values), _) => {
                    // A value that lives for t in memory that keeps data for T is refreshed t/T times on average.
                    let [_, _, _, mean] = values.retention_ns;
                    let [_, _, p99, _] = values.read_age_ns;
                    row(&[name, p99.into(), (mean / 1e9).into(), (mean / 60e9).into()])?;
                }
                (AnalysisTable::Sampling, _, Some(sampling)) => {
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
                            (*loads).into(),
                            (*stores).into(),
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
                .columns()
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
