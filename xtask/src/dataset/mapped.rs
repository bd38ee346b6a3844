//! A model in memory: headers of a GGUF and a safetensors file, snapshots of the mappings before,
//! while and after they are loaded, and accesses with meaningless symbols, so that only the
//! mappings identify the touched memory.
//!
//! Planted truth: how often each tensor, the cache and unrelated memory was touched.

use super::Fixture;
use super::json::{Json, object};
use super::rng::Rng;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Size of the part of the GGUF file in its first mapping; the rest is in a second mapping
/// elsewhere.
const SPLIT: u64 = 8192;
const GGUF_LOW: u64 = 0x7f10_0000_0000;
const GGUF_HIGH: u64 = 0x7f20_0000_0000;
const TORCH: u64 = 0x7f30_0000_0000;
const CACHE: u64 = 0x7f40_0000_0000;
const CACHE_BYTES: u64 = 4 << 20;
const SMALL: u64 = 0x7f50_0000_0000;
const OLD: u64 = 0x7f60_0000_0000;
/// Times of the snapshots.
const BEFORE_NS: u64 = 1_000_000_000;
const LOADED_NS: u64 = 2_000_000_000;
const GONE_NS: u64 = 9_000_000_000;

/// Name, sizes, ggml type, bytes.
const GGUF_TENSORS: [(&str, &[u64], u32, u64); 4] = [
    ("token_embd.weight", &[64, 32], 0, 8192),
    ("blk.0.attn_q.weight", &[64, 64], 2, 2304),
    ("blk.0.ffn_up.weight", &[256, 8], 12, 1152),
    ("output_norm.weight", &[100], 0, 400),
];
const TORCH_TENSORS: [(&str, &str, &str, u64); 3] = [
    ("lm_head.weight", "BF16", "[32, 64]", 4096),
    ("model.embed.weight", "F32", "[16, 64]", 4096),
    ("model.norm.weight", "F32", "[24]", 96),
];

/// A tensor: name, first byte in the file, bytes.
type Place = (&'static str, u64, u64);

pub(super) fn build(seed: u64) -> Vec<Fixture> {
    let (gguf, gguf_places) = gguf();
    let (torch, torch_places) = safetensors();
    let mut rng = Rng::new(seed);
    let (text, truth) = accesses(&gguf_places, &torch_places, &mut rng);
    let maps = maps(gguf.len() as u64, torch.len() as u64);
    let name = "memtrace/mapped";
    vec![
        Fixture::plain(
            "memtrace/demo.gguf",
            "header of four tensors, zeros as data",
            gguf,
        ),
        Fixture::plain(
            "memtrace/demo.safetensors",
            "header of three tensors, zeros as data",
            torch,
        ),
        Fixture::plain(
            "memtrace/mapped.maps.txt",
            "mappings before the models are loaded, while they are there, and after",
            maps,
        ),
        Fixture::plain(
            "memtrace/mapped.perf.txt",
            "accesses to the models, their cache and other memory, all from memcpy",
            text,
        ),
        Fixture::truth(name, &truth),
    ]
}

/// Returns a little-endian GGUF file of version 3.
fn gguf() -> (Vec<u8>, Vec<Place>) {
    let mut out = b"GGUF".to_vec();
    let u32 = |out: &mut Vec<u8>, value: u32| out.extend_from_slice(&value.to_le_bytes());
    let u64 = |out: &mut Vec<u8>, value: u64| out.extend_from_slice(&value.to_le_bytes());
    let text = |out: &mut Vec<u8>, text: &str| {
        out.extend_from_slice(&(text.len() as u64).to_le_bytes());
        out.extend_from_slice(text.as_bytes());
    };
    u32(&mut out, 3);
    u64(&mut out, GGUF_TENSORS.len() as u64);
    u64(&mut out, 3);
    text(&mut out, "general.architecture");
    u32(&mut out, 8);
    text(&mut out, "llama");
    text(&mut out, "general.alignment");
    u32(&mut out, 4);
    u32(&mut out, 64);
    text(&mut out, "tokenizer.ggml.tokens");
    u32(&mut out, 9);
    u32(&mut out, 8);
    u64(&mut out, 3);
    for token in ["<s>", "</s>", "the"] {
        text(&mut out, token);
    }
    let mut offset = 0;
    let mut offsets = Vec::new();
    for (name, sizes, kind, bytes) in GGUF_TENSORS {
        text(&mut out, name);
        u32(&mut out, u32::try_from(sizes.len()).unwrap_or(0));
        for size in sizes {
            u64(&mut out, *size);
        }
        u32(&mut out, kind);
        u64(&mut out, offset);
        offsets.push(offset);
        offset = (offset + bytes).next_multiple_of(64);
    }
    let start = (out.len() as u64).next_multiple_of(64);
    out.resize(usize::try_from(start + offset).unwrap_or(0), 0);
    let places = GGUF_TENSORS
        .iter()
        .zip(offsets)
        .map(|((name, _, _, bytes), offset)| (*name, start + offset, *bytes))
        .collect();
    (out, places)
}

fn safetensors() -> (Vec<u8>, Vec<Place>) {
    let mut json = String::from(r#"{"__metadata__":{"format":"pt"}"#);
    let mut offset = 0;
    let mut places = Vec::new();
    for (name, dtype, shape, bytes) in TORCH_TENSORS {
        let end = offset + bytes;
        let _ = write!(
            json,
            r#","{name}":{{"dtype":"{dtype}","shape":{shape},"data_offsets":[{offset},{end}]}}"#
        );
        places.push((name, offset, bytes));
        offset = end;
    }
    json.push('}');
    // The library pads the header with blanks, so that the data is aligned.
    let length = json.len().next_multiple_of(8);
    let json = format!("{json:length$}");
    let mut out = (json.len() as u64).to_le_bytes().to_vec();
    out.extend_from_slice(json.as_bytes());
    let start = out.len() as u64;
    out.resize(usize::try_from(start + offset).unwrap_or(0), 0);
    for place in &mut places {
        place.1 += start;
    }
    (out, places)
}

fn maps(gguf: u64, torch: u64) -> String {
    let mut out = String::from("# pid 4242\n");
    let mut at = |time: u64, lines: &[(u64, u64, &str, u64, &str)]| {
        let _ = writeln!(out, "# time_ns {time}");
        for (start, bytes, permissions, offset, path) in lines {
            let end = start + bytes.next_multiple_of(4096);
            let _ = writeln!(
                out,
                "{start:x}-{end:x} {permissions} {offset:08x} 08:01 77                   {path}"
            );
        }
    };
    let heap = (0x5580_0000_0000, 1 << 20, "rw-p", 0, "[heap]");
    let old = (OLD, CACHE_BYTES, "rw-p", 0, "");
    at(BEFORE_NS, &[heap, old]);
    at(
        LOADED_NS,
        &[
            heap,
            (GGUF_LOW, SPLIT, "r--s", 0, "/models/tiny/demo.gguf"),
            (
                GGUF_HIGH,
                gguf - SPLIT,
                "r--s",
                SPLIT,
                "/models/tiny/demo.gguf",
            ),
            (
                TORCH,
                torch,
                "r--p",
                0,
                "/models/tiny/demo.safetensors (deleted)",
            ),
            (CACHE, CACHE_BYTES, "rw-p", 0, ""),
            (SMALL, 1 << 20, "rw-p", 0, ""),
            old,
        ],
    );
    // Another mapping occupies the place of the first model's second part.
    at(GONE_NS, &[heap, (GGUF_HIGH, 1 << 20, "rw-p", 0, ""), old]);
    out
}

fn accesses(gguf: &[Place], torch: &[Place], rng: &mut Rng) -> (String, Json) {
    let mut text = String::new();
    let mut truth: BTreeMap<String, (i64, i64)> = BTreeMap::new();
    let mut time = BEFORE_NS + 1_000_000;
    let mut row = |owner: &str, address: u64, store: bool, time: u64| {
        let event = if store {
            "cpu/mem-stores/P"
        } else {
            "cpu/mem-loads/P"
        };
        let _ = writeln!(
            text,
            "engine 4242 [001] {}.{:09}: {event}: {address:x} memcpy+0x10 (/usr/lib/libc.so.6)",
            time / 1_000_000_000,
            time % 1_000_000_000
        );
        let counts = truth.entry(owner.to_owned()).or_default();
        if store {
            counts.1 += 1;
        } else {
            counts.0 += 1;
        }
    };
    let address_of = |place: &Place, in_gguf: bool, rng: &mut Rng| {
        let at = place.1 + rng.below(place.2);
        match in_gguf {
            false => TORCH + at,
            true if at < SPLIT => GGUF_LOW + at,
            true => GGUF_HIGH + at - SPLIT,
        }
    };
    while time < GONE_NS {
        let owner = rng.below(10);
        let store = time < LOADED_NS;
        match owner {
            0..4 => {
                let place = rng.pick(gguf);
                row(place.0, address_of(place, true, rng), store, time);
            }
            4..6 => {
                let place = rng.pick(torch);
                row(place.0, address_of(place, false, rng), store, time);
            }
            6..8 => row(
                "kv_cache",
                CACHE + rng.below(CACHE_BYTES),
                rng.below(2) == 0,
                time,
            ),
            8 => row("unknown", SMALL + rng.below(1 << 20), false, time),
            _ => row("unknown", OLD + rng.below(CACHE_BYTES), false, time),
        }
        time += 10_000_000 + rng.below(5_000_000);
    }
    // The same addresses after the models are gone.
    for _ in 0..40 {
        let place = rng.pick(gguf);
        row("unknown", address_of(place, true, rng), false, time);
        row("unknown", CACHE + rng.below(CACHE_BYTES), false, time);
        time += 10_000_000;
    }
    let rows: i64 = truth.values().map(|(loads, stores)| loads + stores).sum();
    let owners = truth
        .into_iter()
        .map(|(owner, (loads, stores))| (owner, object! { "loads": loads, "stores": stores }))
        .collect();
    let truth = object! { "rows": rows, "owners": Json::Obj(owners) };
    (text, truth)
}
