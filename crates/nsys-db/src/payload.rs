//! Binary payloads of ranges, decoded by the schemas of the export.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;
use sqlite_scan::Value;

use crate::error::Result;
use crate::export::Export;
use crate::strings::text;

/// Bytes of the header of a payload: domain, schema, size and offset.
const HEADER: usize = 32;

/// Depth of schemas within schemas.
const MAX_DEPTH: usize = 8;

/// A decoded value.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Field {
    Int(i64),
    UInt(u64),
    Real(f64),
    Text(String),
}

/// A named value of a payload.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Named {
    pub(crate) name: String,
    /// Type by the public header of NVTX; 0 for values from JSON.
    pub(crate) kind: i64,
    pub(crate) value: Field,
}

impl Named {
    pub(crate) fn unsigned(&self) -> Option<u64> {
        match &self.value {
            Field::UInt(value) => Some(*value),
            Field::Int(value) => u64::try_from(*value).ok(),
            Field::Real(_) | Field::Text(_) => None,
        }
    }
}

#[derive(Clone, PartialEq, Debug)]
struct Entry {
    offset: i64,
    kind: i64,
    name: String,
    /// Arrays and pointers are not decoded.
    is_plain: bool,
}

/// Schemas by domain and id. They have no process; several processes repeat them.
#[derive(Debug, Default)]
pub(crate) struct Schemas {
    entries: FxHashMap<(i64, i64), BTreeMap<i64, Entry>>,
    enums: FxHashMap<(i64, i64), Enumeration>,
}

/// Size of an enumeration in bytes where stated, and the names of its values.
type Enumeration = (Option<i64>, FxHashMap<i64, String>);

/// What a row has beside its range.
pub(crate) struct Payload {
    pub(crate) fields: Vec<Named>,
    /// It could not be decoded.
    pub(crate) is_damaged: bool,
}

impl Payload {
    /// Decodes the payload of a row, if it has one: JSON, else bytes; `string` returns strings by id.
    pub(crate) fn of(
        schemas: &Schemas,
        [json_id, json, binary]: [Value<'_>; 3],
        string: impl FnOnce(i64) -> Result<Option<String>>,
    ) -> Result<Option<Self>> {
        let json = match (text(json), json_id.as_int()) {
            (Some(json), _) => Some(json),
            (None, Some(id)) => string(id)?,
            (None, None) => None,
        };
        let fields = match json {
            Some(json) => fields_of_json(&json),
            None if binary == Value::Null => return Ok(None),
            None => schemas.decode(binary),
        };
        Ok(Some(Self {
            is_damaged: fields.is_none(),
            fields: fields.unwrap_or_default(),
        }))
    }
}

fn fields_of_json(json: &str) -> Option<Vec<Named>> {
    Some(match serde_json::from_str(json).ok()? {
        serde_json::Value::Object(object) => object.into_iter().map(json_field).collect(),
        other => vec![Named {
            name: "json".to_owned(),
            kind: 0,
            value: Field::Text(other.to_string()),
        }],
    })
}

fn json_field((name, value): (String, serde_json::Value)) -> Named {
    let value = match value {
        serde_json::Value::String(text) => Field::Text(text),
        serde_json::Value::Number(number) => match (number.as_i64(), number.as_u64()) {
            (Some(value), _) => Field::Int(value),
            (None, Some(value)) => Field::UInt(value),
            _ => Field::Real(number.as_f64().unwrap_or(f64::NAN)),
        },
        other => Field::Text(other.to_string()),
    };
    Named {
        name,
        kind: 0,
        value,
    }
}

impl Schemas {
    pub(crate) fn read(export: &Export) -> Result<Self> {
        let mut schemas = Self::default();
        let columns = [
            "domainId",
            "schemaId",
            "idx",
            "type",
            "name",
            "offset",
            "arrayOrUnionDetail",
        ];
        export.scan("NVTX_PAYLOAD_SCHEMA_ENTRIES", columns, |_, values| {
            let [domain, schema, index, kind, name, offset, detail] = values;
            if let (Some(domain), Some(schema), Some(kind)) =
                (domain.as_int(), schema.as_int(), kind.as_int())
            {
                let own = schemas.entries.entry((domain, schema)).or_default();
                let index = index
                    .as_int()
                    .unwrap_or_else(|| i64::try_from(own.len()).unwrap_or(0));
                own.entry(index).or_insert_with(|| Entry {
                    offset: offset.as_int().unwrap_or(0),
                    kind,
                    name: text(name).unwrap_or_else(|| format!("field {index}")),
                    is_plain: detail.as_int().unwrap_or(0) == 0,
                });
            }
            Ok(())
        })?;
        export.scan(
            "NVTX_PAYLOAD_ENUMS",
            ["domainId", "schemaId", "size"],
            |_, [domain, schema, size]| {
                if let (Some(domain), Some(schema)) = (domain.as_int(), schema.as_int()) {
                    schemas.enums.entry((domain, schema)).or_default().0 = size.as_int();
                }
                Ok(())
            },
        )?;
        let columns = ["domainId", "schemaId", "name", "value"];
        export.scan(
            "NVTX_PAYLOAD_ENUM_ENTRIES",
            columns,
            |_, [domain, schema, name, value]| {
                if let (Some(domain), Some(schema), Some(value), Some(name)) =
                    (domain.as_int(), schema.as_int(), value.as_int(), text(name))
                {
                    let own = schemas.enums.entry((domain, schema)).or_default();
                    own.1.entry(value).or_insert(name);
                }
                Ok(())
            },
        )?;
        Ok(schemas)
    }

    /// Decodes a payload: a blob, or its hexadecimal text. `None` if it is damaged, or of an unknown schema.
    pub(crate) fn decode(&self, value: Value<'_>) -> Option<Vec<Named>> {
        let decoded;
        let bytes = match value {
            Value::Blob(bytes) => bytes,
            Value::Text(text) => {
                decoded = unhex(text)?;
                &decoded
            }
            _ => return None,
        };
        let word = |at: usize| -> Option<u64> {
            let bytes = bytes.get(at..at + 8)?;
            Some(u64::from_le_bytes(bytes.try_into().ok()?))
        };
        let (domain, schema) = (word(0)?.cast_signed(), word(8)?.cast_signed());
        let (size, offset) = (
            usize::try_from(word(16)?).ok()?,
            usize::try_from(word(24)?).ok()?,
        );
        if offset < HEADER {
            return None;
        }
        let payload = bytes.get(offset..offset.checked_add(size)?)?;
        let mut fields = Vec::new();
        self.fields((domain, schema), payload, "", MAX_DEPTH, &mut fields)?;
        Some(fields)
    }

    fn fields(
        &self,
        schema: (i64, i64),
        payload: &[u8],
        prefix: &str,
        depth: usize,
        out: &mut Vec<Named>,
    ) -> Option<()> {
        let entries = self.entries.get(&schema)?;
        if depth == 0 {
            return None;
        }
        for entry in entries.values().filter(|entry| entry.is_plain) {
            let at = usize::try_from(entry.offset).ok()?;
            let rest = payload.get(at..)?;
            let name = format!("{prefix}{}", entry.name);
            let of = (schema.0, entry.kind);
            // Numbers of types come before those of schemas, which producers may choose.
            let value = if let Some(size) = size_of(entry.kind) {
                rest.get(..size)?;
                scalar(entry.kind, rest)?
            } else if let Some((size, names)) = self.enums.get(&of) {
                let kind = match size {
                    Some(1) => 12,
                    Some(2) => 14,
                    Some(8) => 18,
                    _ => 16,
                };
                let value = scalar(kind, rest)?;
                let number = match value {
                    Field::UInt(number) => number.cast_signed(),
                    _ => 0,
                };
                names
                    .get(&number)
                    .map_or(value, |name| Field::Text(name.clone()))
            } else if self.entries.contains_key(&of) {
                self.fields(of, rest, &format!("{name}."), depth - 1, out)?;
                continue;
            } else {
                // Texts and handles point to memory that was not recorded.
                continue;
            };
            out.push(Named {
                name,
                kind: entry.kind,
                value,
            });
        }
        Some(())
    }
}

/// Bytes of a scalar type of the public header of NVTX, for 64-bit Linux.
fn size_of(kind: i64) -> Option<usize> {
    Some(match kind {
        1 | 2 | 11 | 12 => 1,
        3 | 4 | 13 | 14 => 2,
        5 | 6 | 15 | 16 | 19 => 4,
        7..=10 | 17 | 18 | 20 | 22 | 23 => 8,
        _ => return None,
    })
}

fn scalar(kind: i64, bytes: &[u8]) -> Option<Field> {
    let bytes = bytes.get(..size_of(kind)?)?;
    let is_signed = matches!(kind, 1 | 3 | 5 | 7 | 9 | 11 | 13 | 15 | 17);
    let mut wide = [0_u8; 8];
    wide.get_mut(..bytes.len())?.copy_from_slice(bytes);
    let raw = u64::from_le_bytes(wide);
    Some(match kind {
        19 => Field::Real(f64::from(f32::from_le_bytes(bytes.try_into().ok()?))),
        20 => Field::Real(f64::from_bits(raw)),
        _ if is_signed => {
            let unused = 64 - 8 * u32::try_from(bytes.len()).ok()?;
            Field::Int(raw.cast_signed().checked_shl(unused)? >> unused)
        }
        _ => Field::UInt(raw),
    })
}

fn unhex(text: &[u8]) -> Option<Vec<u8>> {
    let text = text.trim_ascii();
    let text = text.strip_prefix(b"0x").unwrap_or(text);
    let digit = |byte: u8| {
        char::from(byte)
            .to_digit(16)
            .and_then(|digit| u8::try_from(digit).ok())
    };
    if !text.len().is_multiple_of(2) {
        return None;
    }
    text.chunks_exact(2)
        .map(|pair| match *pair {
            [high, low] => Some(digit(high)? << 4 | digit(low)?),
            _ => None,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schemas() -> Schemas {
        let mut schemas = Schemas::default();
        let entry = |offset, kind, name: &str| Entry {
            offset,
            kind,
            name: name.to_owned(),
            is_plain: true,
        };
        let list = [
            entry(0, 18, "communicator"),
            entry(8, 22, "size"),
            entry(16, 900, "operation"),
            entry(20, 5, "peer"),
        ];
        schemas.entries.insert((1, 7), (0..).zip(list).collect());
        let names = FxHashMap::from_iter([(1, "Prod".to_owned())]);
        schemas.enums.insert((1, 900), (Some(4), names));
        schemas
    }

    fn payload(size: u64, body: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for word in [1, 7, size, 32] {
            bytes.extend(u64::to_le_bytes(word));
        }
        bytes.extend(body);
        bytes
    }

    #[test]
    fn fields_by_the_schema_as_blob_and_as_text() {
        let mut body = 0x39ea_0fc7_dbf2_6f66_u64.to_le_bytes().to_vec();
        body.extend(4096_u64.to_le_bytes());
        body.extend(1_u32.to_le_bytes());
        body.extend((-3_i32).to_le_bytes());
        let bytes = payload(24, &body);
        let fields = schemas().decode(Value::Blob(&bytes)).unwrap();
        let values: Vec<&Field> = fields.iter().map(|field| &field.value).collect();
        assert_eq!(
            values,
            [
                &Field::UInt(0x39ea_0fc7_dbf2_6f66),
                &Field::UInt(4096),
                &Field::Text("Prod".to_owned()),
                &Field::Int(-3),
            ]
        );
        let hex: String = bytes.iter().map(|byte| format!("{byte:02X}")).collect();
        assert_eq!(
            schemas().decode(Value::Text(hex.as_bytes())).unwrap(),
            fields
        );
    }

    #[test]
    fn damaged_payloads_are_nothing() {
        let bytes = payload(24, &[0; 24]);
        for length in 0..bytes.len() {
            assert_eq!(
                schemas().decode(Value::Blob(&bytes[..length])),
                None,
                "{length}"
            );
        }
        assert_eq!(
            schemas().decode(Value::Blob(&payload(u64::MAX, &[0; 24]))),
            None
        );
        assert_eq!(schemas().decode(Value::Blob(&payload(8, &[0; 24]))), None);
        assert_eq!(schemas().decode(Value::Text(b"zz")), None);
    }
}
