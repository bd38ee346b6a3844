//! Generates a sampled memory trace of any length in the format of `perf script`: load weights,
//! generate tokens, free memory.
//!
//! Three accesses in five read weights, one in five reads the KV cache, the rest store to it, use
//! activations or belong to the runtime; symbols are those of llama.cpp. The footprint is fixed (1
//! GiB of weights, 64 MiB of KV cache in blocks of 256 bytes, 4 MiB of activations), so a longer
//! trace is a longer run of the same model. Rows are in order of time, 10 µs apart.

use super::rng::Rng;
use crate::options::Options;
use anyhow::{Context as _, Result};
use std::fs::File;
use std::io::{BufWriter, Write};

const WEIGHTS: u64 = 0x7f3a_0000_0000;
const WEIGHT_PAGES: u64 = 262_144;
const CACHE: u64 = 0x7f5c_4000_0000;
const CACHE_BLOCKS: u64 = 262_144;
const ACTIVATIONS: u64 = 0x5580_9000_0000;
const ACTIVATION_PAGES: u64 = 1024;
/// First time, and time between two rows.
const START_NS: u64 = 100_000_000_000;
const STEP_NS: u64 = 10_000;
/// Number of rows per token.
const TOKEN_ROWS: u64 = 2000;

const STORE: &str = "cpu/mem-stores/P";
const LOAD: &str = "cpu/mem-loads,ldlat=20/P";

struct Row {
    event: &'static str,
    address: u64,
    symbol: &'static str,
    object: &'static str,
}

const ENGINE: &str = "(/usr/lib/libggml.so)";
const SYSTEM: &str = "(/usr/lib/libc.so.6)";

/// Returns the ends of loading (a tenth of the rows) and of generation (the last hundredth frees
/// memory).
const fn phases(rows: u64) -> (u64, u64) {
    (rows / 10, rows - rows / 100)
}

/// `cargo xtask dataset memtrace --events N --output FILE [--seed N]`; the phases are written to
/// `FILE.phases.json`.
///
/// With `/dev/stdout` the rows can be piped, and no file of phases is written.
pub(crate) fn run(options: &Options) -> Result<()> {
    let output = options
        .value("output")
        .context("--output FILE is missing: where should the trace go?")?;
    let rows = options
        .number("events")?
        .context("--events N is missing: how many rows?")?;
    let seed = options.number("seed")?.unwrap_or(1);
    let file = File::create(output).with_context(|| format!("creating {output}"))?;
    let mut file = BufWriter::with_capacity(1 << 20, file);
    write(rows, seed, &mut file)?;
    file.flush()?;
    if !output.starts_with("/dev/") {
        std::fs::write(format!("{output}.phases.json"), boundaries(rows))?;
    }
    Ok(())
}

/// Returns the phases in the format of `--phases`.
fn boundaries(rows: u64) -> String {
    let (loaded, done) = phases(rows);
    let at = |row: u64| START_NS + row * STEP_NS;
    let line = |name: &str, from: u64, to: u64| {
        format!(
            r#"    {{"phase": "{name}", "start_ns": {}, "end_ns": {}}}"#,
            at(from),
            at(to)
        )
    };
    format!(
        "{{\n  \"phase_boundaries\": [\n{},\n{},\n{}\n  ]\n}}\n",
        line("weight_load", 0, loaded),
        line("generation", loaded, done),
        line("teardown", done, rows)
    )
}

fn write(rows: u64, seed: u64, out: &mut dyn Write) -> Result<()> {
    let mut rng = Rng::new(seed);
    let (loaded, done) = phases(rows);
    for at in 0..rows {
        let row = if at < loaded {
            load(at, loaded)
        } else if at < done {
            generate((at - loaded) / TOKEN_ROWS, &mut rng)
        } else {
            Row {
                event: STORE,
                address: WEIGHTS + rng.below(WEIGHT_PAGES) * 4096,
                symbol: "munmap",
                object: SYSTEM,
            }
        };
        let time = START_NS + at * STEP_NS;
        writeln!(
            out,
            "       llama-cli    4242 [{:03}] {:>6}.{:09}: {}: {:>16x} {}+0x10 {}",
            at & 3,
            time / 1_000_000_000,
            time % 1_000_000_000,
            row.event,
            row.address,
            row.symbol,
            row.object
        )?;
    }
    Ok(())
}

/// Returns a store to the weights, page by page.
const fn load(at: u64, loaded: u64) -> Row {
    // Exact for any number of rows below 2^46.
    let page = at * WEIGHT_PAGES / loaded;
    Row {
        event: STORE,
        address: WEIGHTS + page * 4096 + at % 64 * 64,
        symbol: if at.is_multiple_of(3) {
            "llama_model_load"
        } else {
            "__memcpy_avx_unaligned_erms"
        },
        object: SYSTEM,
    }
}

/// Returns an access during a token; when the cache is full, it restarts.
fn generate(token: u64, rng: &mut Rng) -> Row {
    let pick = rng.below(100);
    let newest = token * 64 % CACHE_BLOCKS;
    let (event, address, symbol) = match pick {
        0..60 => (
            LOAD,
            WEIGHTS + rng.below(WEIGHT_PAGES) * 4096 + rng.below(64) * 64,
            *rng.pick(&[
                "ggml_vec_dot_f16",
                "ggml_mul_mat",
                "ggml_vec_dot_q4_K_q8_K",
                "ggml_vec_dot_q6_K_q8_K",
            ]),
        ),
        60..80 => (
            LOAD,
            CACHE + rng.below(newest + 64) * 256 + rng.below(4) * 64,
            *rng.pick(&["llama_kv_cache_get", "kv_read_block", "attn_cache_read"]),
        ),
        80..86 => (
            STORE,
            CACHE + (newest + rng.below(64)) * 256 + rng.below(4) * 64,
            *rng.pick(&["llama_kv_store", "kv_write_block"]),
        ),
        86..98 => (
            if rng.below(2) == 0 { LOAD } else { STORE },
            ACTIVATIONS + rng.below(ACTIVATION_PAGES) * 4096 + rng.below(64) * 64,
            *rng.pick(&["ggml_rms_norm", "ggml_silu_f32", "ggml_rope_inplace"]),
        ),
        _ => (
            LOAD,
            0x7ffc_0000_0000 + rng.below(64) * 4096 + rng.below(512) * 8,
            *rng.pick(&["memcpy", "main", "malloc"]),
        ),
    };
    Row {
        event,
        address,
        symbol,
        object: ENGINE,
    }
}

#[cfg(test)]
mod tests {
    use super::{boundaries, write};

    #[test]
    fn rows_are_those_of_a_run() {
        let mut out = Vec::new();
        write(20_000, 1, &mut out).expect("writes to memory");
        let text = String::from_utf8(out).expect("text");
        assert_eq!(text.lines().count(), 20_000);
        let first = "       llama-cli    4242 [000]    100.000000000: cpu/mem-stores/P:     7f3a00000000 llama_model_load+0x10 (/usr/lib/libc.so.6)";
        assert_eq!(text.lines().next(), Some(first));
        let cache = text.lines().filter(|line| line.contains(" 7f5c4")).count();
        assert!((4000..5500).contains(&cache), "{cache}");
        assert!(
            text.lines()
                .skip(2000)
                .take(100)
                .all(|line| !line.contains("model_load"))
        );
    }

    #[test]
    fn phases_follow_each_other() {
        let phases: serde_json::Value =
            serde_json::from_str(&boundaries(1000)).expect("valid JSON");
        let list = &phases["phase_boundaries"];
        assert_eq!(list[0]["end_ns"], list[1]["start_ns"]);
        assert_eq!(list[1]["end_ns"], list[2]["start_ns"]);
        assert_eq!(list[2]["end_ns"], 100_010_000_000_u64);
    }
}
