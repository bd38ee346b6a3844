//! safetensors, the format of Hugging Face: eight bytes of length, a JSON object of tensors, then their data.
//!
//! The layout is that of the `README.md` of huggingface/safetensors, which also sets the limit of the header.

use std::fmt;
use std::io::Read;

use serde::de::{Deserializer as _, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, de};

use super::header::Header;
use super::{Tensor, TensorTable};
use crate::error::{Error, Result};

const MAX_JSON: u64 = 100_000_000;
const METADATA_KEY: &str = "__metadata__";

#[derive(Deserialize)]
struct Entry {
    #[serde(default)]
    dtype: Option<String>,
    #[serde(default)]
    shape: Option<Vec<u64>>,
    data_offsets: [u64; 2],
}

/// Tensors in the order of the header, names given twice included.
struct Entries;

impl<'de> Visitor<'de> for Entries {
    type Value = Vec<(String, Entry)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of tensors")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut entries = Vec::new();
        while let Some(name) = map.next_key::<String>()? {
            if name == METADATA_KEY {
                map.next_value::<IgnoredAny>()?;
            } else {
                let entry = map.next_value::<Entry>();
                let entry = entry
                    .map_err(|error| de::Error::custom(format_args!("tensor {name:?}: {error}")))?;
                entries.push((name, entry));
            }
        }
        Ok(entries)
    }
}

/// Bits of an element; `None` for types that are not known yet.
fn bits_of(dtype: &str) -> Option<u64> {
    Some(match dtype {
        "F4" => 4,
        "F6_E2M3" | "F6_E3M2" => 6,
        "BOOL" | "U8" | "I8" | "F8_E5M2" | "F8_E4M3" | "F8_E8M0" => 8,
        "U16" | "I16" | "F16" | "BF16" => 16,
        "U32" | "I32" | "F32" => 32,
        "U64" | "I64" | "F64" | "C64" => 64,
        _ => return None,
    })
}

pub(super) fn read<R: Read>(header: &mut Header<R>) -> Result<TensorTable> {
    let length = header.u64()?;
    if length > MAX_JSON {
        return Err(header.broken("the header says it is longer than 100 MB"));
    }
    let text = header.bytes(length)?;
    let data_start = header.offset();
    let name = header.name().to_owned();
    let mut json = serde_json::Deserializer::from_slice(&text);
    let entries = json
        .deserialize_map(Entries)
        .and_then(|entries| json.end().map(|()| entries))
        .map_err(|source| Error::Json {
            name: name.clone(),
            source,
        })?;
    let tensors = entries
        .into_iter()
        .map(|(tensor, entry)| {
            let wrong = |what| Error::Tensor {
                name: name.clone(),
                tensor: tensor.clone(),
                what,
            };
            let [start, end] = entry.data_offsets;
            let bytes = end
                .checked_sub(start)
                .ok_or_else(|| wrong("ends before it begins"))?;
            if let (Some(bits), Some(shape)) =
                (entry.dtype.as_deref().and_then(bits_of), &entry.shape)
            {
                let needed = shape
                    .iter()
                    .try_fold(bits, |bits, size| bits.checked_mul(*size))
                    .map(|bits| bits.div_ceil(8));
                if needed != Some(bytes) {
                    return Err(wrong("has a shape that does not fit its offsets"));
                }
            }
            let offset = data_start
                .checked_add(start)
                .ok_or_else(|| wrong("begins beyond any file"))?;
            Ok(Tensor {
                name: tensor,
                offset,
                bytes,
            })
        })
        .collect::<Result<_>>()?;
    Ok(TensorTable {
        format: "safetensors",
        data_start,
        tensors,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(json: &str, data: u64) -> Result<TensorTable> {
        let mut file = (json.len() as u64).to_le_bytes().to_vec();
        file.extend_from_slice(json.as_bytes());
        let size = file.len() as u64 + data;
        TensorTable::read("m.safetensors", &file[..], Some(size))
    }

    #[test]
    fn tensors_are_sorted_by_place_and_metadata_is_none() {
        let json = r#"{"__metadata__": {"format": "pt"},
            "b": {"dtype": "BF16", "shape": [3, 2], "data_offsets": [8, 20]},
            "a": {"dtype": "F4", "shape": [16], "data_offsets": [0, 8]},
            "c": {"dtype": "Q7", "shape": [1], "data_offsets": [20, 23]}}"#;
        let found = table(json, 23).unwrap();
        let start = 8 + json.len() as u64;
        assert_eq!(found.data_start, start);
        let places: Vec<_> = found
            .tensors
            .iter()
            .map(|tensor| (&*tensor.name, tensor.offset - start, tensor.bytes))
            .collect();
        assert_eq!(places, [("a", 0, 8), ("b", 8, 12), ("c", 20, 3)]);
        assert!(table(json, 22).unwrap_err().to_string().contains("'c'"));
    }

    #[test]
    fn what_cannot_be_is_said() {
        let says = |json: &str, what: &str| {
            let error = table(json, 1 << 20).unwrap_err().to_string();
            assert!(error.contains(what), "{error}");
        };
        says(
            r#"{"a": {"dtype": "F32", "shape": [2], "data_offsets": [8, 4]}}"#,
            "ends before",
        );
        says(
            r#"{"a": {"dtype": "F32", "shape": [3], "data_offsets": [0, 8]}}"#,
            "does not fit",
        );
        says(
            r#"{"a": {"dtype": "F32", "shape": [4294967296, 4294967296], "data_offsets": [0, 8]}}"#,
            "does not fit",
        );
        says(
            r#"{"a": {"data_offsets": [18446744073709551615, 18446744073709551615]}}"#,
            "beyond any file",
        );
        says(r#"{"a": {"data_offsets": [0, 1048577]}}"#, "beyond the end");
        says(r#"{"a": {"data_offsets": [0]}}"#, "tensor \"a\"");
        says(r#"{"a": {"data_offsets": [-1, 5]}}"#, "tensor \"a\"");
        says(r#"{"a": {"data_offsets": [0, 8]}"#, "EOF");
        says(r#"{"a": 1}"#, "tensor \"a\"");
        let mut long = u64::MAX.to_le_bytes().to_vec();
        long.push(b'{');
        let error = TensorTable::read("m", &long[..], None).unwrap_err();
        assert!(error.to_string().contains("100 MB"), "{error}");
        let mut cut = 50_u64.to_le_bytes().to_vec();
        cut.extend_from_slice(b"{\"a\"");
        let error = TensorTable::read("m", &cut[..], None).unwrap_err();
        assert!(error.to_string().contains("ends within"), "{error}");
        let error = TensorTable::read("m", &b"PK\x03\x04"[..], None).unwrap_err();
        assert!(matches!(error, Error::Unrecognised { .. }));
    }
}
