//! JSON as plain data.

use std::cell::RefCell;
use std::fmt;
use std::io::Read;

use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};

use crate::data::{Data, Id, Node};
use crate::error::{Error, Result};

/// Reads one JSON document. Nesting is limited to 128 levels.
pub(crate) fn read(name: &str, reader: impl Read) -> Result<(Data, Id)> {
    let data = RefCell::new(Data::default());
    let mut json = serde_json::Deserializer::from_reader(std::io::BufReader::new(reader));
    let read = Value(&data).deserialize(&mut json);
    let root = read.map_err(|error| match error.classify() {
        serde_json::error::Category::Io => Error::Io {
            name: name.to_owned(),
            source: error.into(),
        },
        _ => Error::Json {
            name: name.to_owned(),
            line: error.line(),
            column: error.column(),
            what: match error.is_eof() {
                true => "the document is cut off".to_owned(),
                false => "the document is no valid JSON".to_owned(),
            },
        },
    })?;
    Ok((data.into_inner(), root))
}

struct Value<'d>(&'d RefCell<Data>);

impl Value<'_> {
    fn add<E: serde::de::Error>(&self, node: Node) -> std::result::Result<Id, E> {
        let id = self.0.borrow_mut().add(node);
        id.ok_or_else(|| E::custom("too many values"))
    }
}

impl<'de> DeserializeSeed<'de> for Value<'_> {
    type Value = Id;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> std::result::Result<Id, D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Value<'_> {
    type Value = Id;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E: serde::de::Error>(self) -> std::result::Result<Id, E> {
        self.add(Node::None)
    }

    fn visit_bool<E: serde::de::Error>(self, value: bool) -> std::result::Result<Id, E> {
        self.add(Node::Bool(value))
    }

    fn visit_i64<E: serde::de::Error>(self, value: i64) -> std::result::Result<Id, E> {
        self.add(Node::Int(value))
    }

    fn visit_u64<E: serde::de::Error>(self, value: u64) -> std::result::Result<Id, E> {
        self.add(i64::try_from(value).map_or(Node::Large, Node::Int))
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> std::result::Result<Id, E> {
        self.add(Node::Real(value))
    }

    fn visit_str<E: serde::de::Error>(self, value: &str) -> std::result::Result<Id, E> {
        self.add(Node::Text(value.into()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut from: A) -> std::result::Result<Id, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = from.next_element_seed(Value(self.0))? {
            items.push(item);
        }
        self.add(Node::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut from: A) -> std::result::Result<Id, A::Error> {
        let mut pairs = Vec::new();
        while let Some(key) = from.next_key_seed(Value(self.0))? {
            if self.0.borrow().text(key).is_none() {
                return Err(A::Error::custom("a key that is no text"));
            }
            pairs.push((key, from.next_value_seed(Value(self.0))?));
        }
        self.add(Node::Dict(pairs))
    }
}
