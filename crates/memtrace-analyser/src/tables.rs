//! The tables of an analysis: their names, columns, and which ones there are.

use report::{Column, Unit};

use crate::options::Semantics;
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
    /// What can be concluded about each type, with bounds and how sure it is.
    Verdict,
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
    pub const NATIVE: [Self; 9] = [
        Self::Verdict,
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

    /// Returns `true` if the table has at most one row for each type.
    #[must_use]
    pub const fn is_by_type(self) -> bool {
        matches!(
            self,
            Self::Verdict
                | Self::Suitability
                | Self::RetentionSummary
                | Self::WorkingSetSummary
                | Self::LocalitySummary
                | Self::Iai
                | Self::Types
                | Self::Values
                | Self::RefreshNeed
                | Self::Sampling
        )
    }

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
            Self::Verdict => "verdict",
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
            Self::Verdict => vec![
                kind(),
                C::text("suitability"),
                C::text("confidence"),
                C::text("reason"),
                C::text("at_least"),
                C::text("at_most"),
                C::text("sampling"),
                real("period"),
                real("coverage"),
                real("write_once_low"),
                real("write_once_high"),
                real("retention_p50_low_s"),
                real("retention_p50_high_s"),
                real("retention_p99_low_s"),
                real("retention_p99_high_s"),
                count("n_regions_cut_by_end"),
                count("n_regions_begun_before"),
                real_ns("read_age_p50_low_ns"),
                real_ns("read_age_p50_high_ns"),
                real_ns("read_age_p90_low_ns"),
                real_ns("read_age_p90_high_ns"),
                real_ns("read_age_p99_low_ns"),
                real_ns("read_age_p99_high_ns"),
                count("n_pairs"),
                C::bool("read_age_is_cut"),
                real("unchanged_last_s"),
                real("unchanged_low"),
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
                count("n_reads_since_allocation"),
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

    /// The columns in a semantics: in ours some tables of the reference say how sure their figures are.
    #[must_use]
    pub fn columns_in(self, semantics: Semantics) -> Vec<Column> {
        use Column as C;
        let mut columns = self.columns();
        if semantics == Semantics::Native {
            match self {
                Self::RetentionSummary => columns.push(C::text("retention_is")),
                Self::WorkingSetSummary => columns.extend([
                    C::uint("distinct_pages").unit(Unit::Count),
                    C::uint("distinct_bytes").unit(Unit::Bytes),
                ]),
                Self::Suitability => columns.extend([
                    C::text("confidence"),
                    C::text("retention_is"),
                    C::real("write_once_low"),
                    C::real("write_once_high"),
                ]),
                _ => {}
            }
        }
        columns
    }

    /// The tables that an analysis has: those of the reference, and ours in our semantics. The reference has none at all of
    /// an empty trace, and two fewer when an address does not fit 64 bits.
    #[must_use]
    pub fn of(analysis: &Analysis) -> Vec<Self> {
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
