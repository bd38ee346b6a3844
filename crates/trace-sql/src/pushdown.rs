//! Conditions that a scan can use: files, time, names, keys of arguments.
//!
//! Every condition is checked again on the rows, so a scan may return more than satisfies it, but never less.

use datafusion::common::ScalarValue;
use datafusion::logical_expr::{BinaryExpr, Expr, Operator};
use trace_tables::catalogue::TableSpec;

/// Conditions on the rows of one table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Pushed {
    /// Bounds of the column that the table is sorted by, both included.
    pub(crate) between: Option<(i64, i64)>,
    pub(crate) names: Option<Vec<String>>,
    pub(crate) keys: Option<Vec<String>>,
    pub(crate) files: Option<Vec<i64>>,
}

impl Pushed {
    /// Collects what can be used of conditions that all hold.
    pub(crate) fn new<'e>(table: &TableSpec, filters: impl IntoIterator<Item = &'e Expr>) -> Self {
        let mut pushed = Self::default();
        for filter in filters {
            pushed.add(table, filter);
        }
        pushed
    }

    /// Returns `true` if something of a condition can be used.
    pub(crate) fn uses(table: &TableSpec, filter: &Expr) -> bool {
        Self::new(table, [filter]) != Self::default()
    }

    fn add(&mut self, table: &TableSpec, filter: &Expr) {
        match filter {
            Expr::BinaryExpr(BinaryExpr {
                left,
                op: Operator::And,
                right,
            }) => {
                self.add(table, left);
                self.add(table, right);
            }
            Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
                if let (Some(name), Some(value)) = (column(left), literal(right)) {
                    self.compare(table, name, *op, value);
                } else if let (Some(value), Some(name)) = (literal(left), column(right))
                    && let Some(op) = op.swap()
                {
                    self.compare(table, name, op, value);
                }
            }
            Expr::Between(between) if !between.negated => {
                let bounds = (literal(&between.low), literal(&between.high));
                if let (Some(name), (Some(low), Some(high))) = (column(&between.expr), bounds) {
                    self.compare(table, name, Operator::GtEq, low);
                    self.compare(table, name, Operator::LtEq, high);
                }
            }
            Expr::InList(list) if !list.negated => {
                let values: Option<Vec<&ScalarValue>> = list.list.iter().map(literal).collect();
                if let (Some(name), Some(values)) = (column(&list.expr), values) {
                    self.equal(table, name, &values);
                }
            }
            _ => {}
        }
    }

    fn compare(&mut self, table: &TableSpec, name: &str, op: Operator, value: &ScalarValue) {
        if op == Operator::Eq {
            self.equal(table, name, &[value]);
        }
        if Some(name) != table.sorted_by {
            return;
        }
        let ScalarValue::Int64(Some(value)) = value else {
            return;
        };
        let bounds = match op {
            Operator::Eq => (*value, *value),
            Operator::Gt => (value.saturating_add(1), i64::MAX),
            Operator::GtEq => (*value, i64::MAX),
            Operator::Lt => (i64::MIN, value.saturating_sub(1)),
            Operator::LtEq => (i64::MIN, *value),
            _ => return,
        };
        let (from, to) = self.between.unwrap_or((i64::MIN, i64::MAX));
        self.between = Some((from.max(bounds.0), to.min(bounds.1)));
    }

    /// Adds the condition that a column has one of some values.
    fn equal(&mut self, table: &TableSpec, name: &str, values: &[&ScalarValue]) {
        let texts = || -> Option<Vec<String>> {
            let texts = values.iter().map(|value| value.try_as_str().flatten());
            texts.map(|text| text.map(str::to_owned)).collect()
        };
        let ints = || -> Option<Vec<i64>> {
            let ints = values.iter().map(|value| match value {
                ScalarValue::Int64(value) => *value,
                _ => None,
            });
            ints.collect()
        };
        match (table.name, name) {
            ("slices" | "kernels", "name") => narrow(&mut self.names, texts()),
            ("args", "key" | "flat_key") => narrow(&mut self.keys, texts()),
            (_, "file_id") => narrow(&mut self.files, ints()),
            _ => {}
        }
    }
}

/// Keeps the values that both lists have.
fn narrow<T: PartialEq>(known: &mut Option<Vec<T>>, more: Option<Vec<T>>) {
    let Some(more) = more else {
        return;
    };
    *known = Some(match known.take() {
        None => more,
        Some(known) => known
            .into_iter()
            .filter(|value| more.contains(value))
            .collect(),
    });
}

fn column(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::Column(column) => Some(&column.name),
        Expr::Cast(cast) => column(&cast.expr),
        _ => None,
    }
}

fn literal(expr: &Expr) -> Option<&ScalarValue> {
    let value = match expr {
        Expr::Literal(value, _) => value,
        _ => return None,
    };
    match value {
        ScalarValue::Dictionary(_, value) => Some(value),
        value => Some(value),
    }
}

#[cfg(test)]
mod tests {
    use datafusion::logical_expr::{col, lit};
    use trace_tables::catalogue::table;

    use super::*;

    #[test]
    fn conditions_narrow_the_scan() {
        let slices = table("slices").unwrap();
        let filter = col("ts").gt(lit(5_i64)).and(lit(9_i64).gt_eq(col("ts")));
        let more = col("name").in_list(vec![lit("a"), lit("b")], false);
        let again = col("name").eq(lit("b"));
        let pushed = Pushed::new(slices, [&filter, &more, &again]);
        assert_eq!(pushed.between, Some((6, 9)));
        assert_eq!(pushed.names, Some(vec!["b".to_owned()]));
        // A condition of another kind narrows nothing.
        for filter in [
            col("ts").gt(lit(5_i64)).or(col("ts").lt(lit(3_i64))),
            col("dur").gt(lit(5_i64)),
            col("name").not_eq(lit("a")),
            col("name").in_list(vec![lit("a"), col("category")], false),
        ] {
            assert!(!Pushed::uses(slices, &filter), "{filter}");
        }
        let flows = table("flows").unwrap();
        assert!(!Pushed::uses(flows, &col("id").gt(lit(5_i64))));
        assert!(Pushed::uses(flows, &col("file_id").eq(lit(1_i64))));
    }
}
