//! Stores argument lists as one JSON text, for traces with more shapes than the store can number.

use std::fmt::Write as _;

use crate::intern::StringTable;
use crate::table::args::{Arg, ArgStore, ArgValue, bare_key};

pub(crate) fn args_as_json(list: &[Arg], strings: &StringTable) -> String {
    let mut out = String::from("{");
    for (i, arg) in list.iter().enumerate() {
        if i > 0 {
            out.push(',');
        }
        push_text(&mut out, bare_key(strings.get(arg.key)));
        out.push(':');
        // Writing to a String cannot fail.
        let _ = match ArgStore::decode(*arg, strings) {
            ArgValue::Int(n) => write!(out, "{n}"),
            ArgValue::UInt(n) | ArgValue::Pointer(n) => write!(out, "{n}"),
            ArgValue::Real(x) if x.is_finite() => write!(out, "{x:?}"),
            ArgValue::Real(_) => write!(out, "null"),
            ArgValue::Bool(b) => write!(out, "{b}"),
            ArgValue::Json(raw) => write!(out, "{raw}"),
            ArgValue::Str(s) => {
                push_text(&mut out, s);
                Ok(())
            }
        };
    }
    out.push('}');
    out
}

fn push_text(out: &mut String, text: &str) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            c if c < ' ' => {
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_every_kind_of_value() {
        let mut s = StringTable::new();
        let (k, b, t) = (s.intern("args.k"), s.intern("args.\"b"), s.intern("a\n\"x"));
        let raw = s.intern("[1,2]");
        let list = [
            Arg::int(k, -1),
            Arg::bool(b, true),
            Arg::text(k, t),
            Arg::json(k, raw),
        ];
        assert_eq!(
            args_as_json(&list, &s),
            r#"{"k":-1,"\"b":true,"k":"a\u000a\"x","k":[1,2]}"#
        );
    }
}
