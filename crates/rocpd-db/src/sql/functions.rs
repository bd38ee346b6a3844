//! Functions that SQL over databases may use besides SQLite's own.

use rusqlite::Connection;
use rusqlite::functions::FunctionFlags;
use rusqlite::types::{Value, ValueRef};

type One = fn(f64) -> f64;
type Two = fn(f64, f64) -> f64;

/// SQLite's mathematical functions of one number, which its build here does not have.
const OF_ONE: [(&str, One); 17] = [
    ("sqrt", f64::sqrt),
    ("exp", f64::exp),
    ("ln", f64::ln),
    ("log", f64::log10),
    ("log10", f64::log10),
    ("log2", f64::log2),
    ("sin", f64::sin),
    ("cos", f64::cos),
    ("tan", f64::tan),
    ("asin", f64::asin),
    ("acos", f64::acos),
    ("atan", f64::atan),
    ("sinh", f64::sinh),
    ("cosh", f64::cosh),
    ("tanh", f64::tanh),
    ("degrees", f64::to_degrees),
    ("radians", f64::to_radians),
];

/// Those that leave whole numbers as they are.
const ROUNDING: [(&str, One); 4] = [
    ("ceil", f64::ceil),
    ("ceiling", f64::ceil),
    ("floor", f64::floor),
    ("trunc", f64::trunc),
];

/// And of two.
const OF_TWO: [(&str, Two); 5] = [
    ("pow", f64::powf),
    ("power", f64::powf),
    ("atan2", f64::atan2),
    ("mod", |a, b| a % b),
    ("log", |base, x| x.ln() / base.ln()),
];

/// Adds them, and `rocpd_demangle(name)` and `rocpd_truncate(name)`. As in SQLite, what has no value is NULL.
pub(super) fn add(connection: &Connection) -> rusqlite::Result<()> {
    let flags = FunctionFlags::SQLITE_UTF8
        | FunctionFlags::SQLITE_DETERMINISTIC
        | FunctionFlags::SQLITE_INNOCUOUS;
    let real = |value: f64| (!value.is_nan()).then_some(value);
    for (name, function) in OF_ONE {
        connection.create_scalar_function(name, 1, flags, move |context| {
            Ok(number(context, 0).and_then(|x| real(function(x))))
        })?;
    }
    for (name, function) in ROUNDING {
        connection.create_scalar_function(name, 1, flags, move |context| {
            Ok(match context.get_raw(0) {
                ValueRef::Integer(value) => Value::Integer(value),
                _ => number(context, 0).map_or(Value::Null, |x| Value::Real(function(x))),
            })
        })?;
    }
    for (name, function) in OF_TWO {
        connection.create_scalar_function(name, 2, flags, move |context| {
            let both = number(context, 0).zip(number(context, 1));
            Ok(both.and_then(|(a, b)| real(function(a, b))))
        })?;
    }
    connection.create_scalar_function("pi", 0, flags, |_| Ok(std::f64::consts::PI))?;
    connection.create_scalar_function("rocpd_demangle", 1, flags, |context| {
        let name: Option<String> = context.get(0)?;
        Ok(name.and_then(|name| crate::demangle(&name)))
    })?;
    connection.create_scalar_function("rocpd_truncate", 1, flags, |context| {
        let name: Option<String> = context.get(0)?;
        Ok(name.map(|name| crate::truncate(&name).to_owned()))
    })
}

/// An argument as a number, also one that is written as text; nothing for what is none.
#[expect(
    clippy::cast_precision_loss,
    reason = "the functions are defined on reals"
)]
fn number(context: &rusqlite::functions::Context<'_>, at: usize) -> Option<f64> {
    match context.get_raw(at) {
        ValueRef::Integer(value) => Some(value as f64),
        ValueRef::Real(value) => Some(value),
        ValueRef::Text(text) => std::str::from_utf8(text).ok()?.trim().parse().ok(),
        ValueRef::Null | ValueRef::Blob(_) => None,
    }
}
