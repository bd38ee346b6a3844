//! The command `check`: the files of a run and the quality of its trace.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::path::Path;

use byte_source::{OpenOptions, Source};
use cli::{Format, Outcome, usage};
use memtrace_labeller::{InputFormat, InputOptions, RowStream, Schema, check_parquet};
use memtrace_run::{
    ACCESSES, FIRST_TOUCHES, FileFinding, MANIFEST_FILE, Quality, QualityProfile, Verdict, judge,
    run_metadata, unlisted, verify_manifest,
};
use report::{JsonDocument, SchemaVersion};

use crate::args::CheckArgs;
use crate::input::{coded, trace_of};

pub(crate) fn run(args: &CheckArgs) -> anyhow::Result<Outcome> {
    if !args.path.exists() {
        // Opening it reports the problem.
        coded(Source::open(&args.path, &OpenOptions::default()))?;
    }
    let profile = match args.profile.as_deref() {
        None => profile_of(&args.path),
        Some("perf-mem") => Some(QualityProfile::PerfMem),
        Some("perf-mem-labelled") => Some(QualityProfile::PerfMemLabelled),
        Some("memray") => Some(QualityProfile::Memray),
        Some("pagefaults") => Some(QualityProfile::PageFaults),
        Some("other") => Some(QualityProfile::Other),
        Some(_) => {
            return Err(usage(
                "--profile is one of perf-mem, perf-mem-labelled, memray, pagefaults, other",
            ));
        }
    };
    let mut findings: Vec<FileFinding> = Vec::new();
    let mut has_manifest = true;
    if args.path.is_dir() {
        has_manifest = args.path.join(MANIFEST_FILE).is_file();
        findings = if has_manifest {
            coded(verify_manifest(&args.path))?.1
        } else {
            coded(unlisted(&args.path, None))?
        };
    }
    let mut schemas = Vec::new();
    if args.path.is_file() {
        schemas.push(("trace", problem(&args.path, Schema::Trace)?));
    }
    if args.path.is_dir() {
        for (file, schema) in [
            ("trace.parquet", Schema::Trace),
            ("region_map.parquet", Schema::RegionMap),
            ("kv_block_lifecycle.parquet", Schema::KvBlockLifecycle),
        ] {
            let path = args.path.join(file);
            if path.is_file() {
                schemas.push((file, problem(&path, schema)?));
            }
        }
    }
    let trace = trace_of(&args.path);
    let broken = schemas.iter().any(|(_, problem)| problem.is_some());
    let quality: Option<Quality> = match profile {
        Some(profile) if trace.is_file() && !broken => {
            let source = coded(Source::open(&trace, &OpenOptions::default()))?;
            let stream = coded(RowStream::open(source, &InputOptions::default()))?;
            Some(coded(judge(stream, profile))?)
        }
        _ => None,
    };
    let bad = !has_manifest
        || !findings.is_empty()
        || broken
        || quality
            .as_ref()
            .is_some_and(|quality| quality.verdict == Verdict::Fail);
    let mut out = args.output.open()?;
    if args.format.format() == Format::Json {
        let mut document = JsonDocument::new(&mut out, SchemaVersion::new(1, 0))?;
        document.member("complete", &has_manifest)?;
        document.member("ok", &!bad)?;
        document.member("files", &findings)?;
        document.member("schemas", &schemas)?;
        document.member("quality", &quality)?;
        document.finish()?;
    } else {
        if !has_manifest {
            writeln!(out, "no manifest: the run is not complete; what is there:")?;
        }
        for finding in &findings {
            writeln!(out, "{}: {}", finding.path, finding.problem)?;
        }
        for (file, problem) in &schemas {
            match problem {
                Some(problem) => writeln!(out, "{file}: {problem}")?,
                None => writeln!(out, "{file}: schema ok")?,
            }
        }
        if let Some(quality) = &quality {
            writeln!(out, "quality: {:?}, {} rows", quality.verdict, quality.rows)?;
            for (column, share, verdict) in &quality.columns {
                writeln!(out, "  {column}: {:.1} % {verdict:?}", share * 100.0)?;
                if *column == ACCESSES && *verdict != Verdict::Pass {
                    writeln!(out, "{FIRST_TOUCHES}")?;
                }
            }
        }
        if !bad {
            writeln!(out, "fine")?;
        }
    }
    out.finish()?;
    Ok(if bad {
        Outcome::ConditionFailed
    } else {
        Outcome::Fine
    })
}

/// Returns the problem with a file that should be Parquet of this schema.
fn problem(path: &Path, schema: Schema) -> anyhow::Result<Option<String>> {
    let source = coded(Source::open(path, &OpenOptions::default()))?;
    let mut head = [0; 4];
    let is_parquet = File::open(path)
        .and_then(|mut file| file.read_exact(&mut head))
        .is_ok_and(|()| InputFormat::sniff(&head) == Some(InputFormat::Parquet));
    if !is_parquet {
        let text = "no Parquet file; `memtrace label` writes one: -o trace.parquet";
        return Ok(Some(text.to_owned()));
    }
    Ok(check_parquet(source, schema)
        .err()
        .map(|error| error.to_string()))
}

/// Returns the profile of a run, by the collector in its metadata; regardless of the collector,
/// page faults are not accesses.
fn profile_of(path: &Path) -> Option<QualityProfile> {
    let metadata = run_metadata(path).unwrap_or_default();
    let collector = metadata.get("collector").and_then(|used| used.get("type"));
    match collector.and_then(|name| name.as_str()) {
        Some("perf" | "perf_mem") => Some(QualityProfile::PerfMem),
        Some("memray") => Some(QualityProfile::Memray),
        _ => Some(QualityProfile::PageFaults),
    }
}
