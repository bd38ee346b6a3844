//! Tables of KV blocks that an engine exports: which block was allocated from when to when.

use serde::Deserialize;

use crate::error::{Error, Result};
use crate::ranges::AddressRange;

#[derive(Deserialize)]
struct Table {
    /// Address of block 0, for blocks without an address of their own.
    #[serde(default)]
    base_address: Option<u64>,
    block_bytes: u64,
    blocks: Vec<Block>,
}

#[derive(Deserialize)]
struct Block {
    block_id: u64,
    #[serde(default)]
    address: Option<u64>,
    #[serde(default)]
    alloc_ns: Option<u64>,
    #[serde(default)]
    free_ns: Option<u64>,
}

/// Reads a table of KV blocks from JSON: `block_bytes`, and `blocks` with `block_id`, `alloc_ns` and `free_ns` in the clock of the
/// trace, both to be left out where they lie outside of it; a block is at its `address`, else at `base_address` plus so many blocks
/// as its id says.
///
/// Each allocation of a block becomes a range of its own: a region, and an entry of the KV life cycle that ends when it is freed.
///
/// # Errors
///
/// [`Error::Json`], and [`Error::KvTable`] for blocks of no bytes, without an address, or freed before they are allocated.
///
/// ```
/// let text = br#"{"base_address": 4096, "block_bytes": 256, "blocks": [{"block_id": 2, "alloc_ns": 5, "free_ns": 9}]}"#;
/// let ranges = memtrace_labeller::kv_table_from_json("blocks.json", text)?;
/// assert_eq!((ranges[0].addr_start, ranges[0].addr_end, ranges[0].to_ns), (4608, 4864, Some(9)));
/// # Ok::<(), memtrace_labeller::Error>(())
/// ```
pub fn kv_table_from_json(name: &str, text: &[u8]) -> Result<Vec<AddressRange>> {
    let table: Table = serde_json::from_slice(text).map_err(|source| Error::Json {
        name: name.to_owned(),
        source,
    })?;
    let wrong = |block_id: u64, what: &'static str| Error::KvTable {
        name: name.to_owned(),
        block_id,
        what,
    };
    let range = |block: &Block| {
        let id = block.block_id;
        let start = match (block.address, table.base_address) {
            (Some(address), _) => Some(address),
            (None, Some(base)) => id
                .checked_mul(table.block_bytes)
                .and_then(|offset| base.checked_add(offset)),
            (None, None) => return Err(wrong(id, "has no address, and the table no base_address")),
        };
        let start = start.ok_or_else(|| wrong(id, "lies beyond 64 bits"))?;
        let end = start
            .checked_add(table.block_bytes)
            .filter(|end| *end > start)
            .ok_or_else(|| wrong(id, "has no bytes, or lies beyond 64 bits"))?;
        if block.free_ns < block.alloc_ns && block.free_ns.is_some() {
            return Err(wrong(id, "is freed before it is allocated"));
        }
        Ok(AddressRange::new(start, end, "kv_cache")
            .named(format!("block {id}"))
            .valid(block.alloc_ns, block.free_ns)
            .as_block(id))
    };
    table.blocks.iter().map(range).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mistakes_name_their_block() {
        for (text, what) in [
            (
                r#"{"block_bytes": 8, "blocks": [{"block_id": 3}]}"#,
                "block 3 has no address",
            ),
            (
                r#"{"block_bytes": 0, "base_address": 8, "blocks": [{"block_id": 0}]}"#,
                "block 0 has no bytes",
            ),
            (
                r#"{"block_bytes": 8, "blocks": [{"block_id": 1, "address": 8, "alloc_ns": 9, "free_ns": 4}]}"#,
                "block 1 is freed before",
            ),
            (
                r#"{"block_bytes": 8, "base_address": 1, "blocks": [{"block_id": 18446744073709551615}]}"#,
                "beyond 64 bits",
            ),
            (r#"{"blocks": []}"#, "block_bytes"),
        ] {
            let error = kv_table_from_json("t", text.as_bytes()).unwrap_err();
            assert!(error.to_string().contains(what), "{error}");
        }
    }
}
