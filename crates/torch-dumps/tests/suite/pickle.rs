//! Pickles: plain data of all protocols, damage, and what is refused.

use byte_source::Source;
use proptest::prelude::*;
use torch_dumps::pickle::{Limits, begins, read};
use torch_dumps::{Data, Error, Id, Node};

/// Values as text, shared ones written out.
fn text(data: &Data, id: Id) -> String {
    let all = |items: &[Id]| {
        let items: Vec<String> = items.iter().map(|id| text(data, *id)).collect();
        items.join(",")
    };
    match data.get(id) {
        Node::None => "null".to_owned(),
        Node::Bool(value) => value.to_string(),
        Node::Int(value) => value.to_string(),
        Node::Real(value) => format!("{value:?}"),
        Node::Text(value) => format!("{value:?}"),
        Node::List(items) => format!("[{}]", all(items)),
        Node::Tuple(items) => format!("[{}]", all(items)),
        Node::Dict(pairs) => {
            let pairs = pairs
                .iter()
                .map(|(key, of)| format!("{}:{}", text(data, *key), text(data, *of)));
            format!("{{{}}}", pairs.collect::<Vec<_>>().join(","))
        }
        Node::Large => "large".to_owned(),
        Node::Bytes => "bytes".to_owned(),
    }
}

fn json_text(value: &serde_json::Value) -> String {
    match value {
        serde_json::Value::Array(items) => {
            format!(
                "[{}]",
                items.iter().map(json_text).collect::<Vec<_>>().join(",")
            )
        }
        serde_json::Value::Object(pairs) => {
            let pairs = pairs
                .iter()
                .map(|(key, of)| format!("{key:?}:{}", json_text(of)));
            format!("{{{}}}", pairs.collect::<Vec<_>>().join(","))
        }
        serde_json::Value::String(text) => format!("{text:?}"),
        other => other.to_string(),
    }
}

fn load(bytes: &[u8]) -> Result<(Data, Id), Error> {
    read("t.pickle", bytes, &Limits::default())
}

fn error(bytes: &[u8]) -> String {
    load(bytes).unwrap_err().to_string()
}

const PLAIN: [&[u8]; 6] = [
    include_bytes!("../data/plain_0.pickle"),
    include_bytes!("../data/plain_1.pickle"),
    include_bytes!("../data/plain_2.pickle"),
    include_bytes!("../data/plain_3.pickle"),
    include_bytes!("../data/plain_4.pickle"),
    include_bytes!("../data/plain_5.pickle"),
];

#[test]
fn all_protocols_hold_the_same_data_as_json() {
    let json: serde_json::Value = serde_json::from_str(include_str!("../data/plain.json")).unwrap();
    for (protocol, bytes) in PLAIN.iter().enumerate() {
        let (data, root) = load(bytes).unwrap();
        assert_eq!(text(&data, root), json_text(&json), "protocol {protocol}");
        assert!(begins(bytes), "protocol {protocol}");
    }
}

#[test]
fn a_pickle_that_is_cut_off_anywhere_is_an_error() {
    for bytes in PLAIN {
        for end in 0..bytes.len() {
            let error = load(&bytes[..end]).unwrap_err();
            assert!(matches!(error, Error::Truncated { .. }), "{end}: {error}");
            assert!(
                error
                    .to_string()
                    .starts_with("t.pickle: the pickle is cut off at byte")
            );
        }
    }
}

#[test]
fn what_would_run_is_refused_by_name() {
    for (bytes, what) in [
        (&b"cposix\nsystem\n(S'id'\ntR."[..], "posix.system"),
        (
            b"\x80\x04\x8c\x05posix\x8c\x06system\x93\x8c\x02id\x85R.",
            "posix.system",
        ),
        (
            b"\x80\x02cbuiltins\neval\nq\x00X\x01\x00\x00\x001\x85R.",
            "builtins.eval",
        ),
        (b"(ios\nsystem\n.", "os.system"),
        (b"\x80\x02N)\x81.", "NEWOBJ"),
        (b"\x80\x04N)}\x92.", "NEWOBJ_EX"),
        (b"(No.", "OBJ"),
        (b"N)R.", "REDUCE"),
        (b"N}b.", "BUILD"),
        (b"\x80\x02\x82\x01.", "EXT"),
        (b"P1\n.", "PERSID"),
        (b"NQ.", "PERSID"),
        (b"\x80\x05\x97.", "NEXT_BUFFER"),
        (b"\x80\x04\x93.", "?.?"),
    ] {
        let error = error(bytes);
        assert!(
            error.contains("refused") && error.contains(what),
            "{what}: {error}"
        );
        assert!(error.contains("nothing was run"), "{error}");
    }
}

#[test]
fn damage_is_an_error_with_its_place() {
    for (bytes, what) in [
        (&b"\x80\x09N."[..], "protocol 9 is unknown"),
        (b".", "without its operand"),
        (b"(.", "without its operand"),
        (b"e.", "without its mark"),
        (b"N(e.", "something that is no list"),
        (b"N(NNu.", "something that is no dictionary"),
        (b"}(Nu.", "a key without its value"),
        (b"h\x07.", "value 7 is used and was not stored"),
        (b"Ix\n.", "a number that is none"),
        (b"Fx\n.", "a real number that is none"),
        (b"S'a\n.", "not written as one"),
        (b"\x8b\xff\xff\xff\xff.", "negative length"),
        (b"\xff", "no instruction has the code 0xff"),
    ] {
        let error = error(bytes);
        assert!(
            error.contains(what) && error.contains("damaged at byte"),
            "{error}"
        );
    }
    // Lengths are claims: nothing is allocated for what is not there.
    for bytes in [
        &b"X\xff\xff\xff\xffabc"[..],
        b"\x8e\xff\xff\xff\xff\xff\xff\xff\x7f",
        b"B\xff\xff\xff\xff",
    ] {
        assert!(error(bytes).contains("cut off"));
    }
    assert!(error(b"\x8d\xff\xff\xff\xff\xff\xff\xff\xffabc").contains("need more than"));
}

#[test]
fn numbers_of_any_size_and_values_in_themselves() {
    let (data, root) = load(
        b"](L123456789012345678901234567890L\n\x8a\x08\x00\x00\x00\x00\x00\x00\x00\x80\x8a\x00e.",
    )
    .unwrap();
    assert_eq!(text(&data, root), format!("[large,{},0]", i64::MIN));
    // x = []; x.append(x)
    let (data, root) = load(b"\x80\x02]q\x00h\x00a.").unwrap();
    assert_eq!(data.items(root), [root]);
    // Nesting costs no stack.
    let mut deep = vec![b']'; 1_000_000];
    deep.extend(vec![b'a'; 999_999]);
    deep.push(b'.');
    let (data, root) = load(&deep).unwrap();
    assert_eq!((data.len(), data.items(root).len()), (1_000_000, 1));
}

#[test]
fn memory_is_limited() {
    let limits = Limits {
        memory_bytes: 10_000,
    };
    let mut bytes = vec![b'N'; 1000];
    bytes.push(b'.');
    let error = read("t.pickle", bytes.as_slice(), &limits).unwrap_err();
    assert!(
        matches!(
            error,
            Error::TooLarge {
                limit_bytes: 10_000,
                ..
            }
        ),
        "{error}"
    );
}

/// A value, to be written by an encoder of this test.
#[derive(Clone, Debug)]
enum Value {
    None,
    Bool(bool),
    Int(i64),
    Real(f64),
    Text(String),
    List(Vec<Value>),
    Tuple(Vec<Value>),
    Dict(Vec<(String, Value)>),
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::None),
        any::<bool>().prop_map(Value::Bool),
        any::<i64>().prop_map(Value::Int),
        any::<i16>().prop_map(|n| Value::Int(n.into())),
        (-1e9..1e9_f64).prop_map(Value::Real),
        "\\PC{0,8}".prop_map(Value::Text),
    ];
    leaf.prop_recursive(4, 64, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::List),
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::Tuple),
            prop::collection::vec(("[a-z]{1,4}", inner), 0..5).prop_map(Value::Dict),
        ]
    })
}

fn write(value: &Value, out: &mut Vec<u8>) {
    let word = |text: &str, out: &mut Vec<u8>| {
        out.push(b'X');
        out.extend(u32::try_from(text.len()).unwrap().to_le_bytes());
        out.extend(text.as_bytes());
    };
    match value {
        Value::None => out.push(b'N'),
        Value::Bool(value) => out.push(if *value { 0x88 } else { 0x89 }),
        Value::Int(number) => match i32::try_from(*number) {
            Ok(number) => {
                out.push(b'J');
                out.extend(number.to_le_bytes());
            }
            Err(_) => {
                out.extend([0x8a, 8]);
                out.extend(number.to_le_bytes());
            }
        },
        Value::Real(number) => {
            out.push(b'G');
            out.extend(number.to_be_bytes());
        }
        Value::Text(text) => word(text, out),
        Value::List(items) => {
            out.extend(b"](");
            items.iter().for_each(|item| write(item, out));
            out.push(b'e');
        }
        Value::Tuple(items) => {
            out.push(b'(');
            items.iter().for_each(|item| write(item, out));
            out.push(b't');
        }
        Value::Dict(pairs) => {
            out.extend(b"}(");
            for (key, of) in pairs {
                word(key, out);
                write(of, out);
            }
            out.push(b'u');
        }
    }
}

fn written(value: &Value) -> String {
    let all = |items: &[Value]| items.iter().map(written).collect::<Vec<_>>().join(",");
    match value {
        Value::None => "null".to_owned(),
        Value::Bool(value) => value.to_string(),
        Value::Int(number) => number.to_string(),
        Value::Real(number) => format!("{number:?}"),
        Value::Text(text) => format!("{text:?}"),
        Value::List(items) | Value::Tuple(items) => format!("[{}]", all(items)),
        Value::Dict(pairs) => {
            let pairs = pairs
                .iter()
                .map(|(key, of)| format!("{key:?}:{}", written(of)));
            format!("{{{}}}", pairs.collect::<Vec<_>>().join(","))
        }
    }
}

/// Reads bytes as any tool would, and answers from them.
fn answer(bytes: Vec<u8>) {
    let Ok(source) = Source::from_bytes("rank0", bytes) else {
        return;
    };
    match torch_dumps::read(source) {
        Ok(torch_dumps::Dump::Memory(snapshot)) => {
            let answer = torch_dumps::memory::Answer::new("t".to_owned(), snapshot, 5);
            for device in &answer.devices {
                device.sentence(&answer.snapshot);
                device.lines(&answer.snapshot);
            }
            torch_dumps::memory::tables::holders(&[answer]).unwrap();
        }
        Ok(torch_dumps::Dump::Flight(dump)) => {
            if let Ok(job) = torch_dumps::flight::Job::new(vec![dump]) {
                job.sentence();
                job.lines();
                torch_dumps::flight::tables::groups(&job).unwrap();
            }
        }
        Err(error) => assert!(error.to_string().contains("rank0"), "{error}"),
    }
}

proptest! {
    #[test]
    fn plain_data_survive(value in value()) {
        let mut bytes = b"\x80\x02".to_vec();
        write(&value, &mut bytes);
        bytes.push(b'.');
        let (data, root) = load(&bytes).unwrap();
        prop_assert_eq!(text(&data, root), written(&value));
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = load(&bytes);
        let codes = b"(.012dtlaesu}])NIJKMGXqhrj\x85\x86\x87\x88\x89\x8a\x8c\x8f\x90\x91\x94";
        let program: Vec<u8> = bytes.iter().map(|b| codes[usize::from(*b) % codes.len()]).collect();
        let _ = load(&program);
    }

    #[test]
    fn damaged_dumps_never_panic(which in 0..3_usize, at in any::<prop::sample::Index>(), by in any::<u8>(), cut in any::<bool>()) {
        let all: [&[u8]; 3] = [
            include_bytes!("../data/cut.pickle"),
            include_bytes!("../data/whole.pickle"),
            include_bytes!("../data/nccl_trace_rank_2"),
        ];
        let mut bytes = all[which].to_vec();
        let at = at.index(bytes.len());
        bytes[at] = by;
        if cut {
            bytes.truncate(at);
        }
        answer(bytes);
    }
}
