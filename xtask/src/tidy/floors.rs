//! Checks dependencies between crates. A new crate or a new edge requires a change of this table,
//! and thus a review.

use super::Tree;
use crate::workspace::PREFIX;

/// Every package of the workspace, for the crates that combine them.
const ANY: &[&str] = &["*"];

/// Each package and the workspace packages it may use, without tests.
const FLOORS: &[(&str, &[&str])] = &[
    // floor 0
    ("trace-model", &[]),
    ("byte-source", &[]),
    ("object-input", &["byte-source"]),
    ("report", &[]),
    ("spill-sort", &[]),
    ("stats", &[]),
    ("rocpd-synth", &[]),
    ("blkio-synth", &[]),
    ("serving-synth", &[]),
    ("blkio-companions", &["stats"]),
    ("otf2-writer", &[]),
    ("test-data", &[]),
    ("sqlite-scan", &["byte-source"]),
    // floor 1
    ("perfetto-reader", &["trace-model", "byte-source"]),
    ("serving-logs", &["trace-model"]),
    ("serving-watch", &["serving-logs"]),
    (
        "rocpd-db",
        &["trace-model", "byte-source", "sqlite-scan", "stats"],
    ),
    ("nsys-db", &["trace-model", "byte-source", "sqlite-scan"]),
    ("xplane", &["trace-model", "byte-source"]),
    (
        "blkio-parser",
        &["blkio-companions", "byte-source", "stats"],
    ),
    (
        "blkio-collect",
        &["blkio-companions", "blkio-parser", "byte-source"],
    ),
    ("memtrace-labeller", &["byte-source"]),
    ("rank-align", &["trace-model"]),
    // floor 2
    ("rca-cycles", &["critical-path", "stats", "trace-model"]),
    (
        "memtrace-analyser",
        &[
            "memtrace-labeller",
            "byte-source",
            "report",
            "spill-sort",
            "stats",
        ],
    ),
    (
        "memtrace-run",
        &[
            "memtrace-labeller",
            "memtrace-analyser",
            "byte-source",
            "report",
            "charts",
        ],
    ),
    (
        "gpu-time",
        &["trace-model", "rank-align", "report", "stats"],
    ),
    (
        "critical-path",
        &["gpu-time", "report", "stats", "trace-model"],
    ),
    (
        "perf-compare",
        &["byte-source", "report", "stats", "trace-model"],
    ),
    (
        "roofline",
        &["gpu-time", "launch-stacks", "trace-model", "report"],
    ),
    ("launch-stacks", &["trace-model", "rank-align", "stats"]),
    (
        "launch-report",
        &[
            "launch-stacks",
            "gpu-time",
            "trace-model",
            "report",
            "charts",
        ],
    ),
    ("charts", &["report"]),
    ("pages", &["findings", "charts", "report"]),
    (
        "rca-report",
        &[
            "charts",
            "critical-path",
            "gpu-time",
            "perf-compare",
            "rca-cycles",
            "report",
            "serving-logs",
            "trace-model",
        ],
    ),
    (
        "trace-tables",
        &[
            "critical-path",
            "gpu-time",
            "launch-stacks",
            "rca-cycles",
            "report",
            "trace-model",
        ],
    ),
    (
        "trace-dataset",
        &["byte-source", "trace-model", "trace-tables"],
    ),
    (
        "fleet",
        &[
            "byte-source",
            "charts",
            "critical-path",
            "gpu-time",
            "rca-cycles",
            "report",
            "stats",
            "trace-dataset",
            "trace-model",
            "trace-tables",
        ],
    ),
    (
        "trace-sql",
        &[
            "byte-source",
            "object-input",
            "report",
            "trace-model",
            "trace-tables",
        ],
    ),
    (
        "database-tables",
        &[
            "byte-source",
            "nsys-db",
            "rocpd-db",
            "sqlite-scan",
            "trace-tables",
        ],
    ),
    ("trace-cluster", &["trace-dataset", "trace-sql"]),
    ("trace-convert", &["trace-model"]),
    ("torch-dumps", &["byte-source", "report"]),
    (
        "rocpd-convert",
        &[
            "rocpd-db",
            "trace-model",
            "byte-source",
            "report",
            "perfetto-reader",
            "otf2-writer",
            "spill-sort",
        ],
    ),
    (
        "blkio-report",
        &[
            "blkio-parser",
            "blkio-companions",
            "byte-source",
            "report",
            "charts",
            "perf-compare",
            "stats",
        ],
    ),
    (
        "findings",
        &[
            "blkio-companions",
            "blkio-parser",
            "critical-path",
            "gpu-time",
            "perf-compare",
            "rca-cycles",
            "report",
            "roofline",
            "serving-logs",
            "stats",
            "trace-model",
        ],
    ),
    (
        "trace-report",
        &[
            "charts",
            "critical-path",
            "gpu-time",
            "rca-cycles",
            "report",
            "roofline",
            "torch-dumps",
            "trace-convert",
            "trace-model",
            "trace-tables",
        ],
    ),
    // floor 3
    ("cli", ANY),
    ("trace-input", ANY),
    ("why-input", ANY),
    ("table-input", ANY),
    ("nccl-stacks", ANY),
    ("trace-info", ANY),
    ("cycle-rca", ANY),
    ("perf-compare-tool", ANY),
    ("rocpd", ANY),
    ("blkio", ANY),
    ("memtrace", ANY),
    ("why", ANY),
    ("sql", ANY),
    ("export", ANY),
    ("fleet-tool", ANY),
    ("inferscope", ANY),
    ("mcp", ANY),
    ("python", ANY),
    // outside the layers
    (
        "perfetto-oracle",
        &["perfetto-reader", "trace-model", "byte-source"],
    ),
    ("byte-source-fuzz", &["byte-source"]),
    (
        "blkio-parser-fuzz",
        &["blkio-parser", "blkio-companions", "blkio-report"],
    ),
    (
        "memtrace-labeller-fuzz",
        &["memtrace-labeller", "byte-source"],
    ),
    (
        "perfetto-reader-fuzz",
        &["perfetto-reader", "byte-source", "trace-model"],
    ),
    ("rocpd-db-fuzz", &["rocpd-db"]),
    ("sqlite-scan-fuzz", &["sqlite-scan", "byte-source"]),
    ("nsys-db-fuzz", &["nsys-db", "byte-source"]),
    ("torch-dumps-fuzz", &["torch-dumps", "byte-source"]),
    ("xplane-fuzz", &["xplane", "byte-source"]),
    ("xtask", &["serving-synth"]),
];

/// The package with all tools.
const ALL_TOOLS: &str = "inferscope";

/// The package that has it as a module for Python.
const PYTHON: &str = "python";

/// Packages that only tools may use, and that no library may depend on, not even in tests.
const TOOLS: &[&str] = &[
    "cli",
    "trace-input",
    "why-input",
    "table-input",
    "nccl-stacks",
    "trace-info",
    "rocpd",
    "perf-compare-tool",
    "blkio",
    "memtrace",
    "cycle-rca",
    "why",
    "sql",
    "export",
    "fleet-tool",
    "inferscope",
    "mcp",
    PYTHON,
    "xtask",
];

/// Libraries among them that the tools share.
const SHARED: &[&str] = &["cli", "trace-input", "why-input", "table-input"];

/// External packages that are heavy or appear in interfaces, and their allowed users.
const CONFINED: &[(&str, &[&str])] = &[
    ("clap", TOOLS),
    ("anyhow", TOOLS),
    ("indicatif", &["cli"]),
    ("prost", &["perfetto-reader", "perfetto-oracle", "xplane"]),
    ("perfetto_protos", &["perfetto-oracle"]),
    (
        "arrow-array",
        &[
            "report",
            "rocpd-db",
            "rocpd-convert",
            "memtrace-labeller",
            "nsys-db",
            "trace-tables",
            "trace-dataset",
            "trace-sql",
            "database-tables",
            PYTHON,
        ],
    ),
    (
        "parquet",
        &[
            "report",
            "memtrace-labeller",
            "nsys-db",
            "perf-compare",
            "trace-dataset",
            "trace-sql",
        ],
    ),
    // One crate compiles it, and no instrument needs it; the other joins it to Ballista, if that is compiled at all.
    ("datafusion", &["trace-sql", "trace-cluster"]),
    ("datafusion-proto", &["trace-cluster"]),
    ("ballista-core", &["trace-cluster"]),
    ("ballista-scheduler", &["trace-cluster"]),
    ("ballista-executor", &["trace-cluster"]),
    // Packets of a protobuf trace may be compressed one by one, so the reader inflates too.
    ("flate2", &["byte-source", "perfetto-reader", "xtask"]),
    ("zstd", &["byte-source", "perfetto-reader"]),
    ("liblzma", &["byte-source"]),
    ("tar", &["byte-source", "xtask"]),
    ("zip", &["byte-source", "rocpd"]),
    ("pyo3", &[PYTHON]),
    ("rmcp", &["mcp"]),
    ("object_store", &["object-input"]),
    (
        "tokio",
        &["mcp", "object-input", "trace-sql", "trace-cluster"],
    ),
    ("rusqlite", &["rocpd-db", "rocpd-synth"]),
    ("lettre", &["rocpd"]),
    ("ureq", &["serving-watch"]),
    ("cpp_demangle", &["trace-model"]),
    ("statrs", &["stats"]),
    ("sketches-ddsketch", &["fleet"]),
    ("memmap2", &["byte-source"]),
];

struct Package {
    name: String,
    place: String,
    /// Name, and `true` if it is only for tests.
    uses: Vec<(String, bool)>,
}

pub(super) fn check(tree: &mut Tree) {
    let root = tree.root.to_string_lossy().into_owned();
    let packages: Vec<Package> = tree.metadata["packages"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|value| package(value, &root))
        .collect();
    for (name, _) in FLOORS {
        if !packages.iter().any(|package| package.name == *name) {
            tree.broken(
                "xtask/src/tidy/floors.rs",
                format!("the table names {name}, which is no package"),
            );
        }
    }
    for package in &packages {
        let Some((_, may)) = FLOORS.iter().find(|(name, _)| *name == package.name) else {
            tree.broken(
                &package.place,
                "this package has no floor; add it to xtask/src/tidy/floors.rs",
            );
            continue;
        };
        for (used, test) in &package.uses {
            let house = packages.iter().any(|package| package.name == *used);
            if house && !allowed(&package.name, may, used, *test) {
                tree.broken(
                    &package.place,
                    format!("{} must not depend on {used}", package.name),
                );
            }
            let confined = CONFINED.iter().find(|(name, _)| name == used);
            if !house
                && !test
                && confined.is_some_and(|(_, users)| !users.contains(&package.name.as_str()))
            {
                tree.broken(
                    &package.place,
                    format!("{used} does not belong into {}", package.name),
                );
            }
        }
    }
}

/// Tests may use any library, but a library must not depend on a tool even in tests. The executable
/// with all tools uses them.
fn allowed(user: &str, may: &[&str], used: &str, test: bool) -> bool {
    if TOOLS.contains(&used) {
        if user == ALL_TOOLS {
            return !["xtask", ALL_TOOLS, PYTHON].contains(&used);
        }
        if (user, used) == (PYTHON, ALL_TOOLS) {
            return true;
        }
        return SHARED.contains(&used) && TOOLS.contains(&user) && user != "xtask";
    }
    may == ANY || may.contains(&used) || (test && user != "xtask")
}

/// Returns a package's name without the common prefix of published packages; the table uses names
/// of folders.
fn folder_name(package: &str) -> String {
    package.strip_prefix(PREFIX).unwrap_or(package).to_owned()
}

fn package(value: &serde_json::Value, root: &str) -> Package {
    let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    let uses = value["dependencies"].as_array().into_iter().flatten();
    let manifest = text(&value["manifest_path"]);
    Package {
        name: folder_name(&text(&value["name"])),
        place: manifest
            .strip_prefix(root)
            .unwrap_or(&manifest)
            .trim_start_matches('/')
            .to_owned(),
        uses: uses
            .map(|used| (folder_name(&text(&used["name"])), used["kind"] == "dev"))
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::{ANY, allowed};

    #[test]
    fn edges_point_down_and_never_to_a_tool() {
        assert!(allowed(
            "perfetto-reader",
            &["trace-model"],
            "trace-model",
            false
        ));
        assert!(!allowed("trace-model", &[], "byte-source", false));
        assert!(allowed(
            "launch-stacks",
            &["trace-model"],
            "perfetto-reader",
            true
        ));
        assert!(!allowed("report", &[], "cli", true));
        assert!(allowed("nccl-stacks", ANY, "cli", false));
        assert!(!allowed("nccl-stacks", ANY, "trace-info", false));
        assert!(allowed("inferscope", ANY, "trace-info", false));
        assert!(!allowed("nccl-stacks", ANY, "inferscope", true));
        assert!(allowed("python", ANY, "inferscope", false));
        assert!(!allowed("python", ANY, "trace-info", false));
        assert!(!allowed("inferscope", ANY, "python", false));
        assert!(!allowed("xtask", &[], "perfetto-reader", true));
    }
}
