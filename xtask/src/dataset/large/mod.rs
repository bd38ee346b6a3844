//! Streams large traces for measurements: with a given number of events, or copies of a given
//! trace.

mod copies;
mod kineto;
mod perfetto;

use crate::options::Options;
use anyhow::{Context as _, Result, bail, ensure};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

/// Contents of a large file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Written {
    pub(crate) events: u64,
    pub(crate) kernels: u64,
}

/// `cargo xtask dataset --events N …`, `--bytes N …` or `--copies-of FILE …`.
pub(crate) fn run(options: &Options) -> Result<()> {
    let output = options
        .value("output")
        .context("--output FILE is missing: where should the trace go?")?;
    let written = if let Some(source) = options.value("copies-of") {
        copies(
            Path::new(source),
            options.number("copies")?.unwrap_or(2),
            Path::new(output),
        )?
    } else {
        let bytes = options.number("bytes")?;
        let events = options
            .number("events")?
            .or_else(|| bytes.map(|bytes| bytes / 50_000 + 1))
            .context("--events N is missing")?;
        // Flow events, three in a hundred, have no padding.
        let padding = bytes.map_or(0, |bytes| (bytes / events).saturating_sub(253) * 103 / 100);
        ensure!(
            padding == 0 || options.value("format") != Some("perfetto"),
            "--bytes pads JSON only"
        );
        generate(
            options.value("format").unwrap_or("kineto"),
            events,
            padding,
            options.flag("gzip"),
            Path::new(output),
        )?
    };
    let size = std::fs::metadata(output)?.len();
    println!(
        "{output}: {} events, {} kernels, {size} bytes",
        written.events, written.kernels
    );
    Ok(())
}

/// Writes `events` events in `format`; `padding` bytes of text are added to each JSON event.
pub(crate) fn generate(
    format: &str,
    events: u64,
    padding: u64,
    gzip: bool,
    output: &Path,
) -> Result<Written> {
    into_file(gzip, output, |out| match format {
        "kineto" => kineto::write(events, padding, out),
        "perfetto" => perfetto::write(events, out),
        other => bail!("unknown format {other:?}; known: kineto, perfetto"),
    })
}

/// Writes `count` copies of a Kineto trace as one trace, shifted in time and ids.
pub(crate) fn copies(source: &Path, count: u64, output: &Path) -> Result<Written> {
    let gzip = output
        .extension()
        .is_some_and(|extension| extension == "gz");
    into_file(gzip, output, |out| copies::write(source, count, out))
}

fn into_file(
    gzip: bool,
    output: &Path,
    write: impl FnOnce(&mut dyn Write) -> Result<Written>,
) -> Result<Written> {
    let file = File::create(output).with_context(|| format!("creating {}", output.display()))?;
    let file = BufWriter::with_capacity(1 << 20, file);
    if gzip {
        let mut encoder = flate2::write::GzEncoder::new(file, flate2::Compression::default());
        let written = write(&mut encoder)?;
        encoder.finish()?.flush()?;
        return Ok(written);
    }
    let mut file = file;
    let written = write(&mut file)?;
    file.flush()?;
    Ok(written)
}

#[cfg(test)]
mod tests {
    use super::{Written, copies, kineto, perfetto};

    #[test]
    fn a_trace_has_the_wanted_number_of_events_and_balanced_flows() {
        let mut out = Vec::new();
        let written = kineto::write(60_000, 0, &mut out).expect("writes to memory");
        let trace: serde_json::Value = serde_json::from_slice(&out).expect("valid JSON");
        let events = trace["traceEvents"].as_array().expect("events");
        assert_eq!(events.len(), 60_000);
        let count =
            |key: &str, value: &str| events.iter().filter(|event| event[key] == value).count();
        assert_eq!(
            u64::try_from(count("cat", "kernel")).expect("few"),
            written.kernels
        );
        assert_eq!(count("ph", "s"), count("cat", "kernel"));
        // The mix of the imitated trace: 88 % Python frames, 6 % operators, 253 bytes per event.
        assert!(
            (52_000..54_500).contains(&count("cat", "python_function")),
            "{}",
            count("cat", "python_function")
        );
        assert!(
            (3_400..4_200).contains(&count("cat", "cpu_op")),
            "{}",
            count("cat", "cpu_op")
        );
        assert!(
            (235..270).contains(&(out.len() / 60_000)),
            "{}",
            out.len() / 60_000
        );
    }

    #[test]
    fn copies_differ_in_time_and_ids_alone() {
        let folder = std::env::temp_dir().join(format!("xtask-copies-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder for temporary files");
        let (source, output) = (folder.join("a.json"), folder.join("b.json"));
        let text = r#"{"head": [1], "traceEvents": [{"ph": "X", "ts": 10.25, "dur": 2, "name": "a \"ts\": 1", "args": {"correlation": 5}}, {"ph": "s", "id": 5, "ts": 11}], "tail": "]"}"#;
        std::fs::write(&source, text).expect("written");
        let written = copies(&source, 3, &output).expect("copied");
        assert_eq!(
            written,
            Written {
                events: 6,
                kernels: 0
            }
        );
        let copied = std::fs::read_to_string(&output).expect("readable");
        let first = r#"{"head": [1], "traceEvents": [{"ph": "X", "ts": 10.25, "dur": 2, "name": "a \"ts\": 1", "args": {"correlation": 5}}, {"ph": "s", "id": 5, "ts": 11}, {"ph": "X", "ts": "#;
        assert!(copied.starts_with(first), "{copied}");
        let trace: serde_json::Value = serde_json::from_str(&copied).expect("valid JSON");
        let step = |key: &str, at: usize| trace["traceEvents"][at][key].as_f64().expect("a number");
        assert_eq!(trace["tail"], "]");
        assert!(step("ts", 4) - step("ts", 2) > 2.0);
        assert!((step("ts", 4) - step("ts", 2) - (step("ts", 2) - step("ts", 0))).abs() < 1e-9);
        assert_eq!(
            trace["traceEvents"][2]["args"]["correlation"],
            trace["traceEvents"][3]["id"]
        );
        std::fs::remove_dir_all(&folder).expect("removed");
    }

    #[test]
    fn a_protobuf_trace_is_a_sequence_of_packets() {
        let mut out = Vec::new();
        let written = perfetto::write(10_000, &mut out).expect("writes to memory");
        assert!(written.kernels > 500);
        let (mut at, mut packets) = (0, 0_u64);
        while at < out.len() {
            assert_eq!(out[at], 0x0a);
            // All packets of this generator are shorter than 16 kB: one or two bytes of length.
            let (len, used) = match out[at + 1] {
                short if short < 0x80 => (usize::from(short), 1),
                long => (usize::from(long & 0x7f) | usize::from(out[at + 2]) << 7, 2),
            };
            at += 1 + used + len;
            packets += 1;
        }
        assert_eq!(at, out.len());
        assert_eq!(written.events, 10_000);
        assert!(packets >= 10_000);
    }
}
