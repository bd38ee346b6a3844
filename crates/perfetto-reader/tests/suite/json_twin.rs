//! Reads random events with the reader and with a slow reference model on top of `serde_json`.

use std::collections::BTreeMap;

use crate::json_support::{options, try_read};
use proptest::prelude::*;
use serde_json::Value;
use trace_model::{ArgValue, Slice, Trace, TrackKind};

/// One slice in a form that both readers produce.
#[derive(Clone, Debug, PartialEq, PartialOrd)]
struct Row {
    ts: i64,
    /// Unknown for begins, because it depends on the other events.
    dur: Option<i64>,
    category: Option<String>,
    name: Option<String>,
    args: String,
}

// ---- the reference model ----

/// Converts decimal microseconds to nanoseconds, from the text of a number with at most three
/// decimals.
fn nanos_of_text(text: &str) -> Option<i64> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let (whole, decimals) = digits.split_once('.').unwrap_or((digits, ""));
    let all_digits = |t: &str| t.bytes().all(|b| b.is_ascii_digit());
    if whole.is_empty() || !all_digits(whole) || !all_digits(decimals) || decimals.len() > 3 {
        return None;
    }
    let ns: i64 = format!("{whole}{decimals:0<3}").parse().ok()?;
    Some(if text.starts_with('-') { -ns } else { ns })
}

fn nanos(value: &Value) -> Option<i64> {
    match value {
        Value::Number(n) => nanos_of_text(&n.to_string()),
        Value::String(s) => nanos_of_text(s),
        _ => None,
    }
}

fn text(value: &Value) -> Option<String> {
    value.as_str().filter(|s| !s.is_empty()).map(str::to_owned)
}

/// Formats arguments without nulls, in the order of their keys.
fn args(value: &Value) -> String {
    let mut map = BTreeMap::new();
    match value {
        Value::Object(members) => {
            for (k, v) in members.iter().filter(|(_, v)| !v.is_null()) {
                map.insert(format!("args.{k}"), v.to_string());
            }
        }
        Value::Null => {}
        other => {
            map.insert("args".to_owned(), other.to_string());
        }
    }
    format!("{map:?}")
}

fn has_id(event: &Value) -> bool {
    let is_id = |v: &Value| v.is_number() || text(v).is_some();
    is_id(&event["id"]) || is_id(&event["id2"]["local"]) || is_id(&event["id2"]["global"])
}

/// Returns the slice that an event starts, if any.
fn twin_row(event: &Value) -> Option<Row> {
    let phase = event["ph"].as_str()?.chars().next()?;
    let ts = nanos(&event["ts"]).filter(|&ts| ts >= 0)?;
    let dur = match phase {
        'X' => Some(nanos(&event["dur"]).filter(|&d| d >= 0)?),
        'i' => Some(0),
        'B' => None,
        'b' | 'n' if has_id(event) && (event["pid"].is_number() || event["pid"].is_string()) => {
            (phase == 'n').then_some(0)
        }
        _ => return None,
    };
    Some(Row {
        ts,
        dur,
        category: text(&event["cat"]),
        name: text(&event["name"]),
        args: args(&event["args"]),
    })
}

fn twin_samples(event: &Value) -> Vec<(i64, String, String)> {
    let mut samples = Vec::new();
    if let (Some('C'), Some(ts), Some(members)) = (
        event["ph"].as_str().and_then(|p| p.chars().next()),
        nanos(&event["ts"]).filter(|&ts| ts >= 0),
        event["args"].as_object(),
    ) {
        let name = event["name"].as_str().unwrap_or_default();
        let id = text(&event["id"]).map_or(String::new(), |id| format!(" id: {id}"));
        for (key, value) in members {
            let value = match value {
                Value::Number(n) => n.as_f64(),
                Value::String(s) => serde_json::from_str::<f64>(s).ok(),
                _ => None,
            };
            if let Some(value) = value {
                samples.push((ts, format!("{name}{id} {key}"), format!("{value:?}")));
            }
        }
    }
    samples
}

// ---- the reader ----

fn json_of(value: ArgValue<'_>) -> String {
    match value {
        ArgValue::Int(n) => n.to_string(),
        ArgValue::UInt(n) => n.to_string(),
        ArgValue::Real(x) => Value::from(x).to_string(),
        ArgValue::Bool(b) => b.to_string(),
        ArgValue::Str(s) => Value::from(s).to_string(),
        ArgValue::Json(raw) => serde_json::from_str::<Value>(raw)
            .expect("kept JSON is JSON")
            .to_string(),
        other => panic!("{other:?}"),
    }
}

fn row(slice: Slice<'_>, is_begin: bool) -> Row {
    let args: BTreeMap<_, _> = slice
        .args()
        .map(|(k, v)| (k.to_owned(), json_of(v)))
        .collect();
    Row {
        ts: slice.ts().nanos(),
        dur: slice.dur().map(|d| d.get()).filter(|_| !is_begin),
        category: slice.category().map(str::to_owned),
        name: slice.name().map(str::to_owned),
        args: format!("{args:?}"),
    }
}

fn samples(trace: &Trace) -> Vec<(i64, String, String)> {
    let name =
        |s: trace_model::CounterSample| trace.track(s.track).name.map_or("", |n| trace.text(n));
    trace
        .counters()
        .iter()
        .map(|s| (s.ts.nanos(), name(s).to_owned(), format!("{:?}", s.value)))
        .collect()
}

// ---- random events ----

fn blank() -> impl Strategy<Value = String> + Clone {
    prop_oneof![5 => Just(String::new()), 1 => "[ \t\r\n]{1,20}"]
}

fn pick(list: &'static [&'static str]) -> impl Strategy<Value = String> + Clone {
    prop::sample::select(list).prop_map(str::to_owned)
}

fn json_value() -> impl Strategy<Value = String> {
    let leaf = pick(&[
        "0",
        "1",
        "-17",
        "123456789012345678",
        "18446744073709551615",
        "0.5",
        "1e3",
        "-2.25E-2",
        "true",
        "false",
        "null",
        r#""""#,
        r#""plain""#,
        r#""a long text that needs more than one block to scan""#,
        r#""quo\"te""#,
        r#""\\""#,
        r#""{[""#,
        r#""]}""#,
        r#""é\u00e9\ud83d\ude00""#,
        r#""tab\t""#,
    ]);
    leaf.prop_recursive(4, 24, 4, |inner| {
        let spaced = (blank(), inner, blank()).prop_map(|(a, v, b)| format!("{a}{v}{b}"));
        let member = (
            pick(&["a", "b", "long key with blanks", "ph", "args"]),
            spaced.clone(),
        )
            .prop_map(|(k, v)| format!("\"{k}\":{v}"));
        prop_oneof![
            prop::collection::vec(spaced, 0..4).prop_map(|v| format!("[{}]", v.join(","))),
            prop::collection::vec(member, 0..4).prop_map(|v| format!("{{{}}}", v.join(","))),
        ]
    })
}

fn arguments() -> impl Strategy<Value = String> {
    let key = pick(&[
        r#""a""#,
        r#""correlation""#,
        r#""External id""#,
        r#""k\u0065y""#,
        r#""key""#,
        r#""""#,
        r#""a\"b""#,
        r#""Input Dims""#,
    ]);
    let member = (blank(), key, blank(), blank(), json_value(), blank())
        .prop_map(|(a, k, b, c, v, d)| format!("{a}{k}{b}:{c}{v}{d}"));
    let object = prop::collection::vec(member, 0..6).prop_map(|m| format!("{{{}}}", m.join(",")));
    prop_oneof![6 => object, 1 => json_value()]
}

fn time() -> impl Strategy<Value = String> {
    let number = (0..1_000_000_i64, 0..1000_u32, 0..4_usize).prop_map(|(whole, frac, digits)| {
        let frac = format!("{frac:03}");
        if digits == 0 {
            whole.to_string()
        } else {
            format!("{whole}.{}", &frac[..digits])
        }
    });
    prop_oneof![
        12 => number.clone(),
        1 => number.prop_map(|n| format!("\"{n}\"")),
        1 => pick(&["null", "true", "-5", r#""x""#, r#""1 ""#, "[]", "{}", "0"]),
    ]
}

fn member() -> impl Strategy<Value = (String, String)> {
    let text = pick(&[
        r#""kernel""#,
        r#""cpu_op""#,
        r#""aten::mm""#,
        r#""""#,
        "null",
        r#""n\u0061me""#,
        r#""é""#,
        r#""a name that is a good deal longer than thirty-two bytes, for the blocks""#,
    ]);
    let number = || {
        pick(&[
            "0",
            "1",
            "2",
            "-1",
            "1.5",
            r#""Spans""#,
            "null",
            "7000000000",
            "\"1\"",
        ])
    };
    prop_oneof![
        3 => (Just("cat".to_owned()), text.clone()),
        3 => (Just("name".to_owned()), text),
        2 => (Just("pid".to_owned()), number()),
        2 => (Just("tid".to_owned()), number()),
        2 => (Just("id".to_owned()), pick(&["1", "2", r#""0x1""#, r#""""#, "null"])),
        1 => (Just("id2".to_owned()), pick(&[r#"{"local":"7"}"#, r#"{ "global" : 8 }"#, "{}"])),
        4 => (Just("args".to_owned()), arguments()),
        1 => (Just("s".to_owned()), pick(&[r#""g""#, r#""p""#, r#""t""#])),
        1 => (Just("bp".to_owned()), pick(&[r#""e""#])),
        1 => (pick(&["unknown", "n", "phx", "eightkey", "p\\u0068x", "a\\\"b"]), json_value()),
        2 => (Just("dur".to_owned()), time()),
        1 => (Just("tts".to_owned()), time()),
    ]
}

fn event() -> impl Strategy<Value = String> {
    let phase = pick(&[
        "\"X\"",
        "\"X\"",
        "\"X\"",
        "\"B\"",
        "\"i\"",
        "\"b\"",
        "\"n\"",
        "\"C\"",
        "\"C\"",
        "\"M\"",
        "\"s\"",
        "\"f\"",
        "\"Q\"",
        "\"\\u0058\"",
        "\"Xy\"",
    ]);
    let sure = (phase, time(), time());
    (
        sure,
        prop::collection::vec(member(), 0..8),
        blank(),
        blank(),
        any::<prop::sample::Index>(),
    )
        .prop_map(|((phase, ts, dur), mut members, a, b, place)| {
            members.push(("dur".to_owned(), dur));
            members.insert(place.index(members.len()), ("ph".to_owned(), phase));
            members.insert(place.index(members.len()), ("ts".to_owned(), ts));
            let members: Vec<_> = members
                .into_iter()
                .map(|(k, v)| format!("{a}\"{k}\"{b}:{a}{v}{b}"))
                .collect();
            format!("{{{}}}", members.join(","))
        })
}

fn sorted<T: PartialOrd>(mut rows: Vec<T>) -> Vec<T> {
    rows.sort_by(|a, b| a.partial_cmp(b).expect("no NaN"));
    rows
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn reader_and_twin_agree(
        events in prop::collection::vec((event(), blank()), 0..12),
        chunk in prop_oneof![Just(0_usize), 16..400_usize],
    ) {
        let events: Vec<_> = events.into_iter().map(|(e, b)| format!("{e}{b}")).collect();
        let text = format!("{{\"traceEvents\": [{}]}}", events.join(","));
        let document: Value = serde_json::from_str(&text).unwrap();
        let parsed = document["traceEvents"].as_array().unwrap();

        let trace = try_read(text.as_bytes(), &options(2, chunk)).unwrap();
        let expected = sorted(parsed.iter().filter_map(twin_row).collect());
        // Only enclosing slices end a slice here: begins are those that are open or were truncated,
        // and a begin with the same text as a complete event differs only by its track.
        let begins: Vec<_> = expected.iter().filter(|r| r.dur.is_none()).cloned().collect();
        let found: Vec<Row> = trace
            .slices()
            .map(|s| {
                let begin = row(s, true);
                let is_open = s.dur().is_none();
                let is_instant_track = matches!(s.track().kind, TrackKind::GlobalInstant | TrackKind::ProcessInstant);
                let was_cut = !is_instant_track && begins.contains(&begin)
                    && !expected.contains(&row(s, false));
                row(s, is_open || was_cut)
            })
            .collect();
        prop_assert_eq!(sorted(found), expected, "{}", text);
        let twins = sorted(parsed.iter().flat_map(twin_samples).collect());
        prop_assert_eq!(sorted(samples(&trace)), twins, "{}", text);
        let skipped = trace_model::IssueKind::JsonEventSkipped;
        prop_assert_eq!(trace.diagnostics().count_of(skipped), 0, "{}", text);
    }
}
