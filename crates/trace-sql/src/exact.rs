//! Integers that never wrap: a sum, difference, product or `sum()` that does not fit in its type is an error.
//!
//! DataFusion's own wrap silently, and six times since 1970 in nanoseconds add up to more than 64 bits.

use std::any::type_name;
use std::collections::HashMap;
use std::fmt;
use std::marker::PhantomData;
use std::mem::size_of;
use std::sync::Arc;

use arrow_array::cast::AsArray as _;
use arrow_array::types::{ArrowPrimitiveType, Int64Type, UInt64Type};
use arrow_array::{Array as _, ArrayRef, BooleanArray, PrimitiveArray};
use arrow_schema::{ArrowError, DataType, FieldRef};
use datafusion::arrow::compute::kernels::numeric::{add, mul, sub};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode as _};
use datafusion::common::{DFSchema, DataFusionError, Result, ScalarValue, plan_err};
use datafusion::functions_aggregate::sum::sum_udaf;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::{AggregateOrderSensitivity, merge_schema};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, BinaryExpr, ColumnarValue, EmitTo, Expr,
    ExprSchemable as _, GroupsAccumulator, LogicalPlan, Operator, ReversedUDAF, ScalarFunctionArgs,
    ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use datafusion::optimizer::AnalyzerRule;
use datafusion::physical_expr_common::datum::apply;
use datafusion::prelude::SessionContext;

/// Replaces `sum`, and the arithmetic of integers.
pub(crate) fn register(context: &SessionContext) {
    context.register_udaf(sum());
    context.add_analyzer_rule(Arc::new(Exact::default()));
}

/// Returns `sum`.
pub(crate) fn sum() -> AggregateUDF {
    AggregateUDF::from(Sum { inner: sum_udaf() })
}

/// Returns `true` if a function is [`sum`].
pub(crate) fn is_sum(function: &AggregateUDF) -> bool {
    function.inner().downcast_ref::<Sum>().is_some()
}

/// Returns an operator by the name of its function.
pub(crate) fn arithmetic(name: &str) -> Option<ScalarUDF> {
    let operators = [Op::Add, Op::Sub, Op::Mul].map(Arithmetic::new);
    let found = operators.into_iter().find(|known| known.name() == name);
    found.map(ScalarUDF::from)
}

/// Returns the error for a number that does not fit.
fn overflow(number: i128, ty: &str) -> DataFusionError {
    let text = format!("{number} does not fit in {ty}");
    DataFusionError::ArrowError(Box::new(ArrowError::ArithmeticOverflow(text)), None)
}

/// Makes the operators `+`, `-` and `*` of integers functions that check their results.
#[derive(Debug)]
struct Exact {
    add: Arc<ScalarUDF>,
    sub: Arc<ScalarUDF>,
    mul: Arc<ScalarUDF>,
}

impl Default for Exact {
    fn default() -> Self {
        let one = |op| Arc::new(ScalarUDF::from(Arithmetic::new(op)));
        Self {
            add: one(Op::Add),
            sub: one(Op::Sub),
            mul: one(Op::Mul),
        }
    }
}

impl AnalyzerRule for Exact {
    fn name(&self) -> &'static str {
        "exact_integers"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let done = plan.transform_up_with_subqueries(|plan| self.plan(plan))?;
        Ok(done.data)
    }
}

impl Exact {
    fn plan(&self, plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
        if matches!(plan, LogicalPlan::TableScan(_)) {
            return Ok(Transformed::no(plan));
        }
        let schema = merge_schema(&plan.inputs());
        let names = NamePreserver::new(&plan);
        let changed = plan.map_expressions(|expr| {
            let name = names.save(&expr);
            let changed = expr.transform_up(|expr| Ok(self.expr(expr, &schema)))?;
            Ok(changed.update_data(|expr| name.restore(expr)))
        })?;
        match changed.transformed {
            true => changed.map_data(LogicalPlan::recompute_schema),
            false => Ok(changed),
        }
    }

    fn expr(&self, expr: Expr, schema: &DFSchema) -> Transformed<Expr> {
        let Expr::BinaryExpr(BinaryExpr { left, op, right }) = &expr else {
            return Transformed::no(expr);
        };
        let function = match op {
            Operator::Plus => &self.add,
            Operator::Minus => &self.sub,
            Operator::Multiply => &self.mul,
            _ => return Transformed::no(expr),
        };
        // Types of columns of an outer query are not known here; such an operator stays as it is.
        let types = (left.get_type(schema), right.get_type(schema));
        let (Ok(a), Ok(b)) = types else {
            return Transformed::no(expr);
        };
        if a != b || !a.is_integer() {
            return Transformed::no(expr);
        }
        let args = vec![left.as_ref().clone(), right.as_ref().clone()];
        let call = ScalarFunction::new_udf(Arc::clone(function), args);
        Transformed::yes(Expr::ScalarFunction(call))
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Op {
    Add,
    Sub,
    Mul,
}

/// An operator of two integers of one type.
#[derive(PartialEq, Eq, Hash, Debug)]
struct Arithmetic {
    op: Op,
    signature: Signature,
}

impl Arithmetic {
    fn new(op: Op) -> Self {
        Self {
            op,
            signature: Signature::any(2, Volatility::Immutable),
        }
    }
}

impl ScalarUDFImpl for Arithmetic {
    fn name(&self) -> &'static str {
        match self.op {
            Op::Add => "exact_add",
            Op::Sub => "exact_subtract",
            Op::Mul => "exact_multiply",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match types {
            [a, b] if a == b && a.is_integer() => Ok(a.clone()),
            _ => plan_err!("{} takes two integers of one type", self.name()),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [left, right] = args.args.as_slice() else {
            return plan_err!("{} takes two integers", self.name());
        };
        match self.op {
            Op::Add => apply(left, right, add),
            Op::Sub => apply(left, right, sub),
            Op::Mul => apply(left, right, mul),
        }
    }
}

/// `sum` whose integers do not wrap; of other types it is DataFusion's.
#[derive(PartialEq, Eq, Hash, Debug)]
struct Sum {
    inner: Arc<AggregateUDF>,
}

impl AggregateUDFImpl for Sum {
    fn name(&self) -> &'static str {
        "sum"
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.inner.return_type(types)
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        match args.return_field.data_type() {
            DataType::Int64 => Ok(Box::new(OneSum::<Int64Type>::new(args.is_distinct))),
            DataType::UInt64 => Ok(Box::new(OneSum::<UInt64Type>::new(args.is_distinct))),
            _ => self.inner.accumulator(args),
        }
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        self.inner.state_fields(args)
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs<'_>) -> bool {
        self.inner.groups_accumulator_supported(args)
    }

    fn create_groups_accumulator(
        &self,
        args: AccumulatorArgs<'_>,
    ) -> Result<Box<dyn GroupsAccumulator>> {
        match args.return_field.data_type() {
            DataType::Int64 => Ok(Box::new(GroupSums::<Int64Type>::default())),
            DataType::UInt64 => Ok(Box::new(GroupSums::<UInt64Type>::default())),
            _ => self.inner.create_groups_accumulator(args),
        }
    }

    fn create_sliding_accumulator(
        &self,
        args: AccumulatorArgs<'_>,
    ) -> Result<Box<dyn Accumulator>> {
        match args.return_field.data_type() {
            DataType::Int64 | DataType::UInt64 => self.accumulator(args),
            _ => self.inner.create_sliding_accumulator(args),
        }
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        ReversedUDAF::Identical
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        AggregateOrderSensitivity::Insensitive
    }
}

/// An integer type whose values fit in 128 bits with room for any number of them.
trait Narrow: ArrowPrimitiveType<Native: Into<i128> + TryFrom<i128>> {
    /// Name of the type in errors.
    const NAME: &'static str;
}

impl Narrow for Int64Type {
    const NAME: &'static str = "a 64-bit integer";
}

impl Narrow for UInt64Type {
    const NAME: &'static str = "an unsigned 64-bit integer";
}

fn narrow<T: Narrow>(sum: i128) -> Result<T::Native> {
    T::Native::try_from(sum).map_err(|_| overflow(sum, T::NAME))
}

/// The sum of all rows, or of the rows of a sliding window.
struct OneSum<T> {
    sum: i128,
    count: u64,
    /// With `DISTINCT`, how often each value is there.
    seen: Option<HashMap<i128, u64>>,
    ty: PhantomData<fn() -> T>,
}

impl<T> fmt::Debug for OneSum<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} {}", self.sum, self.count, type_name::<T>())
    }
}

impl<T: Narrow> OneSum<T> {
    fn new(is_distinct: bool) -> Self {
        Self {
            sum: 0,
            count: 0,
            seen: is_distinct.then(HashMap::new),
            ty: PhantomData,
        }
    }

    fn add(&mut self, value: i128) {
        if let Some(seen) = &mut self.seen {
            let times = seen.entry(value).or_default();
            *times += 1;
            if *times > 1 {
                return;
            }
        }
        self.sum += value;
        self.count += 1;
    }

    fn remove(&mut self, value: i128) {
        if let Some(seen) = &mut self.seen {
            let times = seen.entry(value).or_default();
            *times = times.saturating_sub(1);
            if *times > 0 {
                return;
            }
            seen.remove(&value);
        }
        self.sum -= value;
        self.count = self.count.saturating_sub(1);
    }

    fn each(array: &ArrayRef) -> impl Iterator<Item = i128> + '_ {
        let values = array.as_primitive::<T>().iter().flatten();
        values.map(Into::into)
    }

    fn scalar(value: Option<T::Native>) -> Result<ScalarValue> {
        let array: PrimitiveArray<T> = [value].into_iter().collect();
        ScalarValue::try_from_array(&array, 0)
    }
}

impl<T: Narrow + fmt::Debug> Accumulator for OneSum<T> {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        for array in values.iter().take(1) {
            Self::each(array).for_each(|value| self.add(value));
        }
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        if self.seen.is_none() {
            return self.update_batch(states);
        }
        for state in states.iter().take(1) {
            for list in state.as_list::<i32>().iter().flatten() {
                self.update_batch(&[list])?;
            }
        }
        Ok(())
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        for array in values.iter().take(1) {
            Self::each(array).for_each(|value| self.remove(value));
        }
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let Some(seen) = &self.seen else {
            return Ok(vec![self.evaluate()?]);
        };
        let mut values: Vec<i128> = seen.keys().copied().collect();
        values.sort_unstable();
        let values = values.into_iter();
        let values = values.map(|value| Self::scalar(Some(narrow::<T>(value)?)));
        let values: Vec<ScalarValue> = values.collect::<Result<_>>()?;
        let list = ScalarValue::new_list_nullable(&values, &T::DATA_TYPE);
        Ok(vec![ScalarValue::List(list)])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let sum = match self.count {
            0 => None,
            _ => Some(narrow::<T>(self.sum)?),
        };
        Self::scalar(sum)
    }

    fn size(&self) -> usize {
        let seen = self.seen.as_ref().map_or(0, HashMap::capacity);
        size_of::<Self>() + seen * size_of::<(i128, u64)>()
    }
}

/// The sums of groups; `None` of those without a value.
struct GroupSums<T> {
    sums: Vec<Option<i128>>,
    ty: PhantomData<fn() -> T>,
}

impl<T> Default for GroupSums<T> {
    fn default() -> Self {
        Self {
            sums: Vec::new(),
            ty: PhantomData,
        }
    }
}

impl<T: Narrow> GroupsAccumulator for GroupSums<T> {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        total: usize,
    ) -> Result<()> {
        self.sums.resize(total, None);
        let Some(values) = values.first() else {
            return Ok(());
        };
        let passes =
            |row: usize| filter.is_none_or(|filter| filter.is_valid(row) && filter.value(row));
        let values = values.as_primitive::<T>().iter().zip(groups).enumerate();
        for (row, (value, group)) in values {
            if let Some(value) = value
                && passes(row)
                && let Some(sum) = self.sums.get_mut(*group)
            {
                *sum = Some(sum.unwrap_or(0) + value.into());
            }
        }
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef], groups: &[usize], total: usize) -> Result<()> {
        self.update_batch(states, groups, None, total)
    }

    fn evaluate(&mut self, emit: EmitTo) -> Result<ArrayRef> {
        let sums = emit.take_needed(&mut self.sums).into_iter();
        let sums = sums.map(|sum| sum.map(narrow::<T>).transpose());
        let sums: PrimitiveArray<T> = sums.collect::<Result<_>>()?;
        Ok(Arc::new(sums))
    }

    fn state(&mut self, emit: EmitTo) -> Result<Vec<ArrayRef>> {
        Ok(vec![self.evaluate(emit)?])
    }

    fn convert_to_state(
        &self,
        values: &[ArrayRef],
        filter: Option<&BooleanArray>,
    ) -> Result<Vec<ArrayRef>> {
        let values = values.iter().take(1).map(|values| {
            let each = values.as_primitive::<T>().iter().enumerate();
            let kept = each.map(|(row, value)| {
                let passes = filter.is_none_or(|f| f.is_valid(row) && f.value(row));
                value.filter(|_| passes)
            });
            let kept: PrimitiveArray<T> = kept.collect();
            Arc::new(kept) as ArrayRef
        });
        Ok(values.collect())
    }

    fn size(&self) -> usize {
        self.sums.capacity() * size_of::<Option<i128>>()
    }
}
