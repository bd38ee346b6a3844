//! Functions of PerfettoSQL, and those that recordings need.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow_array::cast::AsArray as _;
use arrow_array::types::Int64Type;
use arrow_array::{Array as _, ArrayRef, Float64Array, Int64Array, StringArray};
use arrow_schema::DataType;
use datafusion::catalog::TableFunctionImpl;
use datafusion::catalog::{TableFunctionArgs, TableProvider};
use datafusion::common::{DataFusionError, Result, ScalarValue, plan_err};
use datafusion::datasource::MemTable;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
    create_udf,
};
use datafusion::prelude::SessionContext;
use trace_model::{ArgValue, Slice, SliceId};
use trace_tables::catalogue::table;
use trace_tables::scan::split_id;
use trace_tables::{Recording, Request, scan};

use crate::store::Store;
use crate::stored::Stored;

/// Where slices and their arguments are.
#[derive(Clone, Debug)]
pub(crate) enum Place {
    /// In recordings.
    Recordings(Arc<Store>),
    /// In the files of a data set.
    DataSet(Arc<Stored>),
}

/// Name of the functions that read an argument of a slice, by the type that they return.
pub(crate) const EXTRACT_ARG: [&str; 3] = ["extract_arg", "extract_arg_int", "extract_arg_real"];

/// Registers the functions.
pub(crate) fn register(context: &SessionContext, place: &Place) {
    for function in PLAIN.into_iter().filter_map(plain) {
        context.register_udf(function);
    }
    for name in EXTRACT_ARG {
        if let Some(function) = ExtractArg::named(name, place.clone()) {
            context.register_udf(ScalarUDF::from(function));
        }
    }
    for (name, downwards) in [("ancestor_slice", false), ("descendant_slice", true)] {
        let function = Relatives {
            name,
            downwards,
            place: place.clone(),
        };
        context.register_udtf(name, Arc::new(function));
    }
}

/// Names of the functions of their arguments alone.
const PLAIN: [&str; 2] = ["str_split", "overlap_ns"];

/// Returns a function of its arguments alone by its name.
pub(crate) fn plain(name: &str) -> Option<ScalarUDF> {
    use DataType::{Int64, Utf8};
    let immutable = Volatility::Immutable;
    match name {
        "str_split" => Some(create_udf(
            name,
            vec![Utf8, Utf8, Int64],
            Utf8,
            immutable,
            Arc::new(str_split),
        )),
        "overlap_ns" => Some(create_udf(
            name,
            vec![Int64; 4],
            Int64,
            immutable,
            Arc::new(overlap),
        )),
        _ => None,
    }
}

/// `extract_arg` and its variants.
#[derive(Debug)]
pub(crate) struct ExtractArg {
    name: &'static str,
    returns: DataType,
    signature: Signature,
    place: Place,
}

impl ExtractArg {
    /// Returns the function of a name.
    pub(crate) fn named(name: &str, place: Place) -> Option<Self> {
        let name = EXTRACT_ARG.into_iter().find(|known| *known == name)?;
        let returns = match name {
            "extract_arg_int" => DataType::Int64,
            "extract_arg_real" => DataType::Float64,
            _ => DataType::Utf8,
        };
        // Not evaluated before the files are read.
        let volatility = Volatility::Volatile;
        Some(Self {
            name,
            returns,
            signature: Signature::exact(vec![DataType::Int64, DataType::Utf8], volatility),
            place,
        })
    }

    pub(crate) fn place(&self) -> &Place {
        &self.place
    }
}

// One engine has one place.
impl PartialEq for ExtractArg {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for ExtractArg {}

impl Hash for ExtractArg {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl ScalarUDFImpl for ExtractArg {
    fn name(&self) -> &'static str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(self.returns.clone())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        extract_arg(&self.place, &args.args, &self.returns)
    }
}

/// Returns the arguments as arrays of one length.
fn arrays<const N: usize>(args: &[ColumnarValue]) -> Result<[ArrayRef; N]> {
    let arrays = ColumnarValue::values_to_arrays(args)?;
    arrays
        .try_into()
        .or_else(|_| plan_err!("expected {N} arguments"))
}

/// Returns part `n` (from 0) of a text that is cut at a separator; null past the last one.
fn str_split(args: &[ColumnarValue]) -> Result<ColumnarValue> {
    let [texts, separators, places] = arrays(args)?;
    let (texts, separators) = (texts.as_string::<i32>(), separators.as_string::<i32>());
    let places = places.as_primitive::<Int64Type>();
    let part = |((text, separator), place): ((Option<&str>, Option<&str>), Option<i64>)| {
        let place = usize::try_from(place?).ok()?;
        match separator? {
            "" => Some(text?).filter(|_| place == 0).map(str::to_owned),
            separator => text?.split(separator).nth(place).map(str::to_owned),
        }
    };
    let parts: StringArray = texts.iter().zip(separators).zip(places).map(part).collect();
    Ok(ColumnarValue::Array(Arc::new(parts)))
}

/// Returns the length of the intersection of two spans, given as start and duration each.
fn overlap(args: &[ColumnarValue]) -> Result<ColumnarValue> {
    let columns: [ArrayRef; 4] = arrays(args)?;
    let [a, b, c, d] = columns
        .each_ref()
        .map(|column| column.as_primitive::<Int64Type>());
    let one = |[a, b, c, d]: [i64; 4]| {
        let end = a.saturating_add(b).min(c.saturating_add(d));
        end.saturating_sub(a.max(c)).max(0)
    };
    let all = a.iter().zip(b).zip(c).zip(d);
    let all = all.map(|(((a, b), c), d)| Some([a?, b?, c?, d?]));
    let lengths: Int64Array = all.map(|spans| spans.map(one)).collect();
    Ok(ColumnarValue::Array(Arc::new(lengths)))
}

/// Looks a slice up by its id.
struct Finder<'s> {
    store: &'s Store,
    last: Option<(u32, Arc<Recording>)>,
}

impl Finder<'_> {
    /// Calls `read` with the slice; `None` if there is none with this id, or its file cannot be read.
    fn with<T>(&mut self, id: i64, read: impl FnOnce(Slice<'_>) -> Option<T>) -> Option<T> {
        let (file, row) = split_id(id)?;
        if self.last.as_ref().is_none_or(|(known, _)| *known != file) {
            let place = usize::try_from(file).ok()?;
            if place >= self.store.files() {
                return None;
            }
            self.last = Some((file, self.store.get(place).ok()?));
        }
        let (_, recording) = self.last.as_ref()?;
        let row = usize::try_from(row).ok()?;
        let id = SliceId::new(row).filter(|_| row < recording.trace.len())?;
        read(recording.trace.slice(id))
    }
}

/// Returns an argument of a slice by its key, with or without the prefix of the format.
fn extract_arg(place: &Place, args: &[ColumnarValue], ty: &DataType) -> Result<ColumnarValue> {
    let [sets, keys] = arrays(args)?;
    let (sets, keys) = (sets.as_primitive::<Int64Type>(), keys.as_string::<i32>());
    let asked = |row: usize| -> Option<(i64, &str)> {
        let set = (!sets.is_null(row)).then(|| sets.value(row))?;
        let key = (!keys.is_null(row)).then(|| keys.value(row))?;
        Some((set, key))
    };
    let rows = 0..sets.len();
    let found: Vec<Option<Value>> = match place {
        Place::Recordings(store) => {
            let mut finder = Finder { store, last: None };
            let mut find = |row: usize| {
                let (set, key) = asked(row)?;
                finder.with(set, |slice| value_of(slice, key))
            };
            rows.clone().map(&mut find).collect()
        }
        Place::DataSet(stored) => {
            let find = |row: usize| {
                let Some((set, key)) = asked(row) else {
                    return Ok(None);
                };
                Ok(stored.arg(key)?.get(&set).cloned())
            };
            rows.clone().map(find).collect::<Result<_>>()?
        }
    };
    let mut found = found.into_iter();
    let mut find = |_: usize| found.next().flatten();
    let array: ArrayRef = match ty {
        DataType::Int64 => Arc::new(rows.map(|row| find(row)?.int()).collect::<Int64Array>()),
        DataType::Float64 => Arc::new(rows.map(|row| find(row)?.real()).collect::<Float64Array>()),
        _ => Arc::new(
            rows.map(|row| Some(find(row)?.text))
                .collect::<StringArray>(),
        ),
    };
    Ok(ColumnarValue::Array(array))
}

/// Value of an argument.
#[derive(Clone, Debug)]
pub(crate) struct Value {
    pub(crate) text: String,
    pub(crate) int: Option<i64>,
}

impl Value {
    fn int(&self) -> Option<i64> {
        self.int.or_else(|| self.text.parse().ok())
    }

    fn real(&self) -> Option<f64> {
        self.text.parse().ok()
    }
}

fn value_of(slice: Slice<'_>, key: &str) -> Option<Value> {
    let bare = trace_model::bare_key(key);
    // A part of a nested argument is in the table of arguments only.
    let value = slice.arg(bare)?;
    let int = value.as_i64();
    let text = match value {
        ArgValue::Int(n) => n.to_string(),
        ArgValue::UInt(n) => n.to_string(),
        ArgValue::Real(x) => report::real_text(x, report::RealFormat::ShortestPoint),
        ArgValue::Bool(b) => b.to_string(),
        ArgValue::Str(text) | ArgValue::Json(text) => text.to_owned(),
        ArgValue::Pointer(p) => format!("{p:#x}"),
        _ => return None,
    };
    Some(Value { text, int })
}

/// `ancestor_slice(id)` and `descendant_slice(id)`: the slices around a slice, or within it.
#[derive(Debug)]
struct Relatives {
    name: &'static str,
    downwards: bool,
    place: Place,
}

impl TableFunctionImpl for Relatives {
    fn call_with_args(&self, args: TableFunctionArgs<'_, '_>) -> Result<Arc<dyn TableProvider>> {
        let [Expr::Literal(ScalarValue::Int64(Some(id)), _)] = args.exprs() else {
            return plan_err!(
                "{} takes the id of one slice as a number; for the slices of many, walk `parent_id` with WITH RECURSIVE",
                self.name
            );
        };
        let Some(slices) = table("slices") else {
            return plan_err!("no table of slices");
        };
        let store = match &self.place {
            Place::Recordings(store) => store,
            Place::DataSet(stored) => {
                let found = stored.relatives(*id, self.downwards)?;
                let (schema, batches) = found.unwrap_or_else(|| (slices.schema(), Vec::new()));
                return Ok(Arc::new(MemTable::try_new(schema, vec![batches])?));
            }
        };
        let mut request = Request::all(slices);
        let wanted = crate::store::Wanted {
            args: request.arg_keys(slices),
            ..crate::store::Wanted::default()
        };
        store.want(&wanted);
        let rows = self.rows(store, *id)?;
        let mut batches = Vec::new();
        if let Some((recording, rows)) = rows {
            request.rows = Some(rows);
            scan(&recording, slices, &request, &mut |batch| {
                batches.push(batch);
                true
            })?;
        }
        let batches: std::result::Result<_, _> = batches
            .into_iter()
            .map(|batch| store.typed(batch))
            .collect();
        let schema = store.schema(slices);
        Ok(Arc::new(MemTable::try_new(schema, vec![batches?])?))
    }
}

impl Relatives {
    /// Returns the rows of the relatives of a slice, ascending.
    fn rows(&self, store: &Store, id: i64) -> Result<Option<(Arc<Recording>, Vec<usize>)>> {
        let place = split_id(id).and_then(|(file, row)| {
            Some((usize::try_from(file).ok()?, usize::try_from(row).ok()?))
        });
        let Some((file, row)) = place.filter(|place| place.0 < store.files()) else {
            return Ok(None);
        };
        let recording = store.get(file);
        let recording = recording.map_err(|why| DataFusionError::External(why.into()))?;
        let trace = &recording.trace;
        let Some(id) = SliceId::new(row).filter(|_| row < trace.len()) else {
            return Ok(None);
        };
        let slice = trace.slice(id);
        let mut rows: Vec<usize> = match self.downwards {
            false => slice.ancestors().map(|slice| slice.id().index()).collect(),
            // A slice comes behind those around it, and before the next one at its depth.
            true => {
                let track = trace.slices_on(slice.track_id());
                let from = track.partition_point(|other| *other <= id);
                let behind = track.iter().skip(from).map(|id| trace.slice(*id));
                let inside = behind.take_while(|other| other.depth() > slice.depth());
                inside.map(|slice| slice.id().index()).collect()
            }
        };
        rows.sort_unstable();
        Ok(Some((recording, rows)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(value: impl Into<ScalarValue>) -> ColumnarValue {
        ColumnarValue::Scalar(value.into())
    }

    #[test]
    fn texts_are_split_from_zero() {
        let part = |text: &str, separator: &str, place: i64| {
            let args = [value(text), value(separator), value(place)];
            let parts = str_split(&args).unwrap().into_array(1).unwrap();
            let parts = parts.as_string::<i32>();
            (!parts.is_null(0)).then(|| parts.value(0).to_owned())
        };
        assert_eq!(part("a<-b<-c", "<-", 1).as_deref(), Some("b"));
        assert_eq!(part("a", "<-", 0).as_deref(), Some("a"));
        assert_eq!(part("a", "<-", 1), None);
        assert_eq!(part("a", "<-", -1), None);
        assert_eq!(part("a", "", 0).as_deref(), Some("a"));
    }

    #[test]
    fn spans_intersect_in_their_common_time() {
        let length = |numbers: [i64; 4]| {
            let found = overlap(&numbers.map(value)).unwrap().into_array(1).unwrap();
            found.as_primitive::<Int64Type>().value(0)
        };
        assert_eq!(length([0, 10, 5, 10]), 5);
        assert_eq!(length([0, 10, 2, 3]), 3);
        assert_eq!(length([0, 10, 10, 3]), 0);
        assert_eq!(length([i64::MAX - 1, 10, 0, i64::MAX]), 1);
    }
}
