//! Recognises files of known kinds that this crate does not read, and recommends what to do with
//! them.

/// A kind of file that is recognised but not read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Foreign {
    /// Kind of the file, with its article.
    pub(crate) what: &'static str,
    /// Recommended action.
    pub(crate) remedy: &'static str,
}

const GIT_LFS: Foreign = Foreign {
    what: "a Git LFS pointer, not the file itself",
    remedy: "run `git lfs pull`, or download the raw file",
};
const HTML: Foreign = Foreign {
    what: "an HTML page",
    remedy: "the download gave a web page (a login, an error): download the raw file",
};
const NOT_FOUND: Foreign = Foreign {
    what: "the answer of a web server that did not find the file",
    remedy: "download the file from an address that exists",
};
const NOTEBOOK: Foreign = Foreign {
    what: "a Jupyter notebook",
    remedy: "give the trace that the notebook wrote or reads",
};
const NCU: Foreign = Foreign {
    what: "a report of Nsight Compute",
    remedy: "it holds counters of single kernels and no course of time",
};
pub(crate) const OTHER_LIST: Foreign = Foreign {
    what: "a JSON list of values",
    remedy: "the events of a trace are objects: give the file that the profiler wrote",
};
const XML: Foreign = Foreign {
    what: "an XML document",
    remedy: "the download may have failed: look at its text",
};
const NSYS: Foreign = Foreign {
    what: "a report of Nsight Systems",
    remedy: "the format is closed: export it with `nsys export --type sqlite --include-blobs true FILE` and give the .sqlite file",
};
const PERF: Foreign = Foreign {
    what: "a recording of perf",
    remedy: "it holds samples of the host and no GPU activity",
};
const PICKLE: Foreign = Foreign {
    what: "a Python pickle",
    remedy: "memory snapshots of PyTorch are read by `trace-info memory`, Flight Recorder dumps by `trace-info comm`",
};
const CHAKRA: Foreign = Foreign {
    what: "an execution trace of Chakra",
    remedy: "it holds a graph of operators and no times of the device: give the trace that was recorded with it",
};
const PROMETHEUS: Foreign = Foreign {
    what: "metrics in the text format of Prometheus",
    remedy: "they hold no events: `perf-compare` compares two of them",
};
const XPLANE: Foreign = Foreign {
    what: "an XPlane of JAX or TensorFlow",
    remedy: "`trace-info` reads it by its content; or give the .trace.json.gz that the profiler writes next to it",
};

/// First bytes of a file, leading blanks skipped, and the kind that they identify.
const BEGINNINGS: &[(&[u8], Foreign)] = &[
    (b"version https://git-lfs.github.com/spec/", GIT_LFS),
    (b"<!doctype html", HTML),
    (b"<html", HTML),
    (b"<?xml", XML),
    (b"404: Not Found", NOT_FOUND),
    (b"404 Not Found", NOT_FOUND),
    (b"Not Found", NOT_FOUND),
    (b"Entry not found", NOT_FOUND),
    (b"403: Forbidden", NOT_FOUND),
    (b"403 Forbidden", NOT_FOUND),
    (b"PERFILE2", PERF),
    (b"# HELP ", PROMETHEUS),
    (b"# TYPE ", PROMETHEUS),
    (b"\x80\x04\x95", PICKLE),
    (b"\x80\x05\x95", PICKLE),
    (b"\x80\x02", PICKLE),
];

/// Suffixes of file names that identify a kind when the first bytes do not.
const ENDINGS: &[(&str, Foreign)] = &[
    (".nsys-rep", NSYS),
    (".ncu-rep", NCU),
    (".ipynb", NOTEBOOK),
    (".qdrep", NSYS),
    (".qdstrm", NSYS),
    (".et", CHAKRA),
];

/// Sets of keys of a JSON object that identify a kind when all of them are present.
const KEYS: &[(&[&str], Foreign)] = &[
    (
        &["schema", "nodes"],
        Foreign {
            what: "an execution trace of PyTorch",
            remedy: "it holds operators without the device's times: give the trace that was exported with it by export_chrome_trace",
        },
    ),
    (
        &["$schema", "profiles"],
        Foreign {
            what: "a profile for speedscope",
            remedy: "it holds stacks of samples and no GPU activity: give the trace that it was made of",
        },
    ),
    (
        &["meta", "threads"],
        Foreign {
            what: "a profile of samply or the Firefox profiler",
            remedy: "it holds samples of the host and no GPU activity: record the GPU with a profiler of its own",
        },
    ),
    (
        &["nodes", "samples", "timeDeltas"],
        Foreign {
            what: "a CPU profile of V8",
            remedy: "it holds samples of the host and no GPU activity",
        },
    ),
    (&["cells", "nbformat"], NOTEBOOK),
    (
        &["segments", "device_traces"],
        Foreign {
            what: "a memory snapshot of PyTorch",
            remedy: "it is read by `trace-info memory`",
        },
    ),
    (
        &["pg_config"],
        Foreign {
            what: "a Flight Recorder dump of PyTorch",
            remedy: "give the dumps of all ranks to `trace-info comm`",
        },
    ),
    (
        &["request_throughput"],
        Foreign {
            what: "the result of a serving benchmark",
            remedy: "it holds no events: `perf-compare` compares two of them",
        },
    ),
    (
        &["resourceSpans"],
        Foreign {
            what: "an export of OpenTelemetry",
            remedy: "it holds spans of services and no GPU activity",
        },
    ),
];

/// Returns the kind of a file that begins with `head` and is neither JSON nor Perfetto.
pub(crate) fn of_head(name: &str, head: &[u8]) -> Option<Foreign> {
    let text = byte_source::magic::skip_utf8_bom(head).trim_ascii_start();
    let begins = |begin: &[u8]| {
        let same = text.get(..begin.len());
        same.is_some_and(|same| same.eq_ignore_ascii_case(begin))
    };
    let by_head = BEGINNINGS.iter().find(|(begin, _)| begins(begin));
    let name = name.to_ascii_lowercase();
    let by_name = || {
        ENDINGS
            .iter()
            .find(|(end, _)| name.ends_with(end))
            .map(|f| f.1)
    };
    by_head.map(|f| f.1).or_else(by_name)
}

/// Returns the kind of a JSON object with these keys.
pub(crate) fn of_keys(keys: &[String]) -> Option<Foreign> {
    let has = |key: &&str| keys.iter().any(|k| k == key);
    let found = KEYS.iter().find(|(all, _)| all.iter().all(has));
    found.map(|f| f.1)
}

/// Returns the kind if `head` begins an XSpace: its planes, field 1, begin with an id and a name such as `/host:CPU`.
pub(crate) fn xplane(head: &[u8]) -> Option<Foreign> {
    let rest = head.strip_prefix(b"\x0a")?;
    let after = |bytes: &[u8]| {
        bytes
            .iter()
            .take(10)
            .position(|b| *b < 0x80)
            .map(|at| at + 1)
    };
    let mut plane = rest.get(after(rest)?..)?;
    if let Some(id) = plane.strip_prefix(b"\x08") {
        plane = id.get(after(id)?..)?;
    }
    let name = plane.strip_prefix(b"\x12")?;
    let name = name.get(after(name)?..)?;
    let names: [&[u8]; 4] = [b"/host:", b"/device:", b"/task:", b"Task Environment"];
    names.iter().any(|n| name.starts_with(n)).then_some(XPLANE)
}

/// A profile in the format of pprof.
const PPROF: Foreign = Foreign {
    what: "a pprof profile (Go, py-spy, JAX memory profile)",
    remedy: "it holds samples and no times of events: record a trace",
};

/// Returns the kind if `head` begins a pprof profile: a message whose first fields are types of samples, two numbers each, which
/// a Perfetto trace cannot begin with: field 1 of its packets is no number.
pub(crate) fn pprof(head: &[u8]) -> Option<Foreign> {
    // Field 1 (sample_type) of a few bytes: fields 1 and 2 of it are small numbers.
    let value_type = |bytes: &[u8]| -> Option<usize> {
        let [0x0a, len @ 2..=8, rest @ ..] = bytes else {
            return None;
        };
        let inside = rest.get(..usize::from(*len))?;
        let is_pair = matches!(inside, [0x08, a, 0x10, b] if *a < 0x80 && *b < 0x80)
            || matches!(inside, [0x08 | 0x10, a] if *a < 0x80);
        is_pair.then_some(2 + usize::from(*len))
    };
    let mut at = value_type(head)?;
    while let Some(more) = head.get(at..).and_then(value_type) {
        at += more;
    }
    // Samples, field 2, or mappings, field 3, follow.
    matches!(head.get(at), Some(0x12 | 0x1a)).then_some(PPROF)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_known_by_their_beginning() {
        let what = |name: &str, head: &[u8]| of_head(name, head).map(|f| f.what);
        let pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n";
        assert_eq!(what("t.json", pointer), Some(GIT_LFS.what));
        assert_eq!(
            what("t.json", b"\n  <!DOCTYPE html><html>"),
            Some(HTML.what)
        );
        assert_eq!(what("t.json", b"<HTML lang=en>"), Some(HTML.what));
        assert_eq!(what("run.nsys-rep", b"\0\x01"), Some(NSYS.what));
        assert_eq!(what("run.bin", b"\0\x01"), None);
    }

    #[test]
    fn planes_of_xla_are_no_packets() {
        let space =
            |plane: &[u8]| [&[0x0a, u8::try_from(plane.len()).unwrap_or(u8::MAX)], plane].concat();
        assert_eq!(
            xplane(&space(b"\x08\x81\x01\x12\x09/host:CPU")),
            Some(XPLANE)
        );
        assert_eq!(xplane(&space(b"\x12\x0d/device:GPU:0")), Some(XPLANE));
        assert_eq!(xplane(&space(b"\x40\x05\x12\x09/host:CPU")), None);
        assert_eq!(xplane(b"\x0a"), None);
    }

    #[test]
    fn profiles_of_pprof() {
        // Types `cpu, nanoseconds` and `samples, count`, then a sample.
        let profile = b"\x0a\x04\x08\x01\x10\x02\x0a\x04\x08\x03\x10\x04\x12\x0b\x0a\x02\x01\x02";
        assert_eq!(pprof(profile), Some(PPROF));
        // Packets: a timestamp and an identifier; one of ftrace events.
        assert_eq!(pprof(b"\x0a\x04\x40\x01\x50\x02\x12\x00"), None);
        assert_eq!(pprof(b"\x0a\x04\x0a\x02\x08\x01\x12\x00"), None);
        assert_eq!(pprof(b"\x0a\x04\x08\x01"), None);
    }
}
