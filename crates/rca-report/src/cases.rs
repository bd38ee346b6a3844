//! The results of many cases for people and as a table.

use std::io::{self, Write};

use report::text::wrapped;
use serde_json::Value;
use trace_model::kernel::display_names;

use crate::text::Names;

/// Writes a row for each culprit.
///
/// # Errors
///
/// Those of `out`.
pub fn csv(out: &mut dyn Write, results: &[Value]) -> io::Result<()> {
    writeln!(out, "case,place,name,kind,device,rank,effect_ns")?;
    for case in results {
        for (i, c) in case["culprits"]
            .as_array()
            .into_iter()
            .flatten()
            .enumerate()
        {
            let quoted =
                |v: &Value| format!("\"{}\"", v.as_str().unwrap_or("").replace('"', "\"\""));
            let number = |v: &Value| v.as_i64().map_or_else(String::new, |n| n.to_string());
            writeln!(
                out,
                "{},{},{},{},{},{},{}",
                quoted(&case["case"]),
                i + 1,
                quoted(&c["name"]),
                c["kind"].as_str().unwrap_or(""),
                number(&c["device"]),
                number(&c["rank"]),
                number(&c["effect_ns"]),
            )?;
        }
    }
    Ok(())
}

/// Writes the answer of each case, with its culprits.
///
/// # Errors
///
/// Those of `out`.
pub fn text(out: &mut dyn Write, names: Names, results: &[Value]) -> io::Result<()> {
    for case in results {
        let name = case["case"].as_str().unwrap_or("");
        let summary = case["error"]
            .as_str()
            .map(str::to_owned)
            .or_else(|| {
                Some(format!(
                    "not comparable: {}",
                    case["not_comparable"].as_str()?
                ))
            })
            .or_else(|| Some(format!("{}.", case["headline"].as_str()?)))
            .unwrap_or_default();
        for (i, line) in wrapped(&format!("{name}: {summary}"), 76)
            .iter()
            .enumerate()
        {
            let indent = if i > 0 { "    " } else { "" };
            writeln!(out, "{indent}{line}")?;
        }
        let of_case = || case["culprits"].as_array().into_iter().flatten();
        let is_kernel = |c: &&Value| c["kind"].as_str() == Some("kernel");
        let kernels = of_case().filter(is_kernel);
        let short = display_names(kernels.filter_map(|c| c["name"].as_str()));
        for c in of_case().take(5) {
            #[expect(clippy::cast_precision_loss, reason = "shown with four digits")]
            let effect = c["effect_ns"].as_i64().unwrap_or(0) as f64;
            let (kind, name) = (c["kind"].as_str(), c["name"].as_str());
            let (kind, name) = (kind.unwrap_or(""), name.unwrap_or(""));
            // The name of a rank already contains its kind: `rank N`.
            let kind = if name.starts_with(kind) { "" } else { kind };
            let what = format!(
                "{kind} {}",
                names.fit(short.get(name).map_or(name, String::as_str), 40)
            );
            let phase = c["phase"].as_str().unwrap_or("");
            // Behind the phase may stand which of two modes it is.
            let (phase, mode) = phase.split_once('/').unwrap_or((phase, ""));
            let phase = if phase == "unknown" { "" } else { phase };
            let per = [mode, phase, "cycle"]
                .into_iter()
                .filter(|word| !word.is_empty());
            let per = per.collect::<Vec<_>>().join(" ");
            writeln!(
                out,
                "  {:>10} per {per}  {}",
                report::human::duration(effect),
                what.trim_start(),
            )?;
            let slow = c["slow_cycles"].as_array().map_or(0, Vec::len);
            if slow > 0 {
                writeln!(out, "              (slow in {slow} cycles only)")?;
            }
            if c["explained_by_verdict"].as_bool() == Some(false) {
                writeln!(out, "              (evidence beyond the cause above)")?;
            }
        }
    }
    Ok(())
}
