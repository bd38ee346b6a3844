//! Queries that run elsewhere, on an engine of several processes.

use std::fmt;

use arrow_array::RecordBatch;
use async_trait::async_trait;
use datafusion::common::Result;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::datasource::source_as_provider;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::SessionState;
use datafusion::logical_expr::{FetchType, Limit, LogicalPlan, SkipType};
use futures::future::BoxFuture;

use crate::beside::BesideTable;
use crate::error::SqlError;

/// An engine of several processes, which share the plan of a query by [`crate::remote`].
#[async_trait]
pub trait Cluster: fmt::Debug + Send + Sync {
    /// Starts a query; `None` if it reads nothing, and is better run here.
    ///
    /// # Errors
    ///
    /// Returns an error if the cluster cannot be reached, or does not take the query.
    async fn start(
        &self,
        state: &SessionState,
        plan: &LogicalPlan,
    ) -> std::result::Result<Option<Job>, SqlError>;

    /// Describes an error of a running query.
    fn describe(&self, error: &datafusion::common::DataFusionError) -> SqlError;
}

/// A query that runs.
pub struct Job {
    /// Its rows.
    pub rows: SendableRecordBatchStream,
    /// What it has to say when its rows have ended. The cluster may then forget them.
    pub report: BoxFuture<'static, std::result::Result<Report, SqlError>>,
    /// `true` if the cluster has ended its work well: an error of the rows is one of their way here, and it helps to start the query
    /// again.
    pub is_done: BoxFuture<'static, bool>,
}

impl fmt::Debug for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Job").finish_non_exhaustive()
    }
}

/// What the processes of a cluster found out about the files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Files that were left out, with the reason.
    pub left_out: Vec<(usize, String)>,
    /// What is missing of files that were read.
    pub notes: Vec<(usize, String)>,
}

/// Where a statement runs.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Here,
    /// Here, which the user should know.
    HereBecause(&'static str),
    There,
    Refused(&'static str),
}

/// Decides where a statement runs.
pub(crate) fn place(plan: &LogicalPlan) -> Result<Place> {
    match plan {
        LogicalPlan::Analyze(_) => {
            return Ok(Place::Refused(
                "EXPLAIN ANALYZE measures one process: leave --cluster out",
            ));
        }
        LogicalPlan::Copy(_) => {
            return Ok(Place::Refused(
                "statements that write files run in one process: leave --cluster out, or write the rows with -o",
            ));
        }
        LogicalPlan::Explain(_)
        | LogicalPlan::Ddl(_)
        | LogicalPlan::Statement(_)
        | LogicalPlan::DescribeTable(_) => return Ok(Place::Here),
        _ => {}
    }
    // The first rows of the first files: no reason to start a job over all of them.
    if let Some(limited) = Limited::new(plan)
        && !limited.filters
    {
        return Ok(Place::Here);
    }
    let (mut scans, mut beside, mut recursive) = (false, false, false);
    plan.apply_with_subqueries(|node| {
        if let LogicalPlan::TableScan(scan) = node {
            scans = true;
            let table = source_as_provider(&scan.source)?;
            beside |= table.downcast_ref::<BesideTable>().is_some();
        }
        recursive |= matches!(node, LogicalPlan::RecursiveQuery(_));
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(match (scans, beside, recursive) {
        (true, true, _) => Place::HereBecause(
            "findings, logs and tables of databases are read in this process, not on the cluster",
        ),
        (true, _, true) => {
            Place::HereBecause("WITH RECURSIVE runs in this process, not on the cluster")
        }
        (true, _, false) => Place::There,
        (false, _, _) => Place::Here,
    })
}

/// A query for the first rows of a table in the order of its files.
///
/// A cluster would return any rows, because it collects partitions as they come. So it runs the query without its limit, and the
/// client takes the first rows.
pub(crate) struct Limited<'p> {
    pub(crate) input: &'p LogicalPlan,
    pub(crate) window: Window,
    /// Rows are chosen by conditions.
    filters: bool,
}

impl<'p> Limited<'p> {
    pub(crate) fn new(plan: &'p LogicalPlan) -> Option<Self> {
        let LogicalPlan::Limit(limit) = plan else {
            return None;
        };
        let window = Window::new(limit)?;
        let mut filters = false;
        let mut inner = limit.input.as_ref();
        loop {
            let mut subqueries = false;
            let looked = inner.apply_subqueries(|_| {
                subqueries = true;
                Ok(TreeNodeRecursion::Stop)
            });
            if looked.is_err() || subqueries {
                return None;
            }
            inner = match inner {
                LogicalPlan::Projection(node) => node.input.as_ref(),
                LogicalPlan::SubqueryAlias(node) => node.input.as_ref(),
                LogicalPlan::Filter(node) => {
                    filters = true;
                    node.input.as_ref()
                }
                LogicalPlan::TableScan(_) => break,
                _ => return None,
            };
        }
        Some(Self {
            input: limit.input.as_ref(),
            window,
            filters,
        })
    }
}

/// The rows between `OFFSET` and `LIMIT`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Window {
    skip: usize,
    fetch: usize,
}

impl Window {
    pub(crate) const ALL: Self = Self {
        skip: 0,
        fetch: usize::MAX,
    };

    fn new(limit: &Limit) -> Option<Self> {
        let skip = limit.get_skip_type().ok()?;
        let fetch = limit.get_fetch_type().ok()?;
        match (skip, fetch) {
            (SkipType::Literal(skip), FetchType::Literal(fetch)) => Some(Self {
                skip,
                fetch: fetch.unwrap_or(usize::MAX),
            }),
            _ => None,
        }
    }

    /// Returns the rows of the next batch that are within.
    pub(crate) fn cut(&mut self, batch: &RecordBatch) -> RecordBatch {
        let skipped = self.skip.min(batch.num_rows());
        let taken = self.fetch.min(batch.num_rows() - skipped);
        self.skip -= skipped;
        if self.fetch != usize::MAX {
            self.fetch -= taken;
        }
        batch.slice(skipped, taken)
    }

    pub(crate) fn is_full(&self) -> bool {
        self.fetch == 0
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::Int64Array;
    use datafusion::prelude::SessionContext;

    use super::*;

    fn plan(sql: &str) -> LogicalPlan {
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        runtime.unwrap().block_on(planned(sql))
    }

    async fn planned(sql: &str) -> LogicalPlan {
        let context = SessionContext::new();
        let rows = context.sql("SELECT 1 AS a, 2 AS b").await.unwrap();
        context.register_table("t", rows.into_view()).unwrap();
        let schema = context.table("t").await.unwrap().schema().inner().clone();
        let table = datafusion::datasource::MemTable::try_new(schema, vec![vec![]]).unwrap();
        context.register_table("m", Arc::new(table)).unwrap();
        context.state().create_logical_plan(sql).await.unwrap()
    }

    #[test]
    fn statements_have_places() {
        for (sql, expected) in [
            ("SELECT a FROM m", Place::There),
            ("SELECT a, count(*) FROM m GROUP BY a LIMIT 3", Place::There),
            ("SELECT a FROM m ORDER BY a LIMIT 3", Place::There),
            ("SELECT a FROM m WHERE b > 1 LIMIT 3", Place::There),
            (
                "SELECT a FROM m WHERE b IN (SELECT a FROM m) LIMIT 3",
                Place::There,
            ),
            (
                "SELECT a + 1 FROM (SELECT a FROM m) AS x LIMIT 3",
                Place::Here,
            ),
            ("SELECT 1", Place::Here),
            ("EXPLAIN SELECT a FROM m", Place::Here),
        ] {
            assert_eq!(place(&plan(sql)).unwrap(), expected, "{sql}");
        }
        let analyze = plan("EXPLAIN ANALYZE SELECT a FROM m");
        assert!(matches!(place(&analyze).unwrap(), Place::Refused(_)));
        let recursive = plan(
            "WITH RECURSIVE n AS (SELECT a FROM m UNION ALL SELECT a + 1 FROM n WHERE a < 3) SELECT * FROM n",
        );
        assert!(matches!(place(&recursive).unwrap(), Place::HereBecause(_)));
    }

    #[test]
    fn the_first_rows_of_a_filter_are_cut_here() {
        let plan = plan("SELECT a FROM m WHERE b > 1 LIMIT 3 OFFSET 4");
        let limited = Limited::new(&plan).unwrap();
        let mut window = limited.window;
        assert_eq!(window, Window { skip: 4, fetch: 3 });
        let batch = |from: i64, to: i64| {
            let column = Arc::new(Int64Array::from_iter_values(from..to)) as _;
            RecordBatch::try_from_iter([("a", column)]).unwrap()
        };
        let mut rows = Vec::new();
        for batch in [batch(0, 3), batch(3, 6), batch(6, 9)] {
            let cut = window.cut(&batch);
            let column = cut.column(0).as_any().downcast_ref::<Int64Array>().unwrap();
            rows.extend(column.values().iter().copied());
        }
        assert_eq!(rows, [4, 5, 6]);
        assert!(window.is_full());
        let mut all = Window::ALL;
        assert_eq!(all.cut(&batch(0, 3)).num_rows(), 3);
        assert!(!all.is_full());
    }
}
