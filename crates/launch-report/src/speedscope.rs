//! A sampled profile in speedscope's file format (speedscope.app/file-format-schema.json).

use std::collections::HashMap;
use std::io::Write;

use serde_json::{Value, json};

use crate::Report;

/// Writes one profile for each trace over shared frames.
pub(crate) fn write(report: &Report<'_>, out: &mut dyn Write) -> report::Result<()> {
    let mut frames: Vec<Value> = Vec::new();
    let mut at: HashMap<String, usize> = HashMap::new();
    let mut profiles: Vec<Value> = Vec::new();
    for trace in report.traces {
        let (mut samples, mut weights) = (Vec::new(), Vec::new());
        for stack in &trace.answer.groups {
            let sample: Vec<usize> = report
                .frames(trace, stack)
                .into_iter()
                .map(|f| {
                    *at.entry(f.to_owned()).or_insert_with(|| {
                        frames.push(json!({ "name": f }));
                        frames.len() - 1
                    })
                })
                .collect();
            samples.push(sample);
            weights.push(report.weight(stack));
        }
        let unit = if report.weighs_time() {
            "nanoseconds"
        } else {
            "none"
        };
        profiles.push(json!({
            "type": "sampled",
            "name": format!("{} of {}", report.weight_title(), trace.input.path),
            "unit": unit,
            "startValue": 0,
            "endValue": weights.iter().sum::<u64>(),
            "samples": samples,
            "weights": weights,
        }));
    }
    let document = json!({
        "$schema": "https://www.speedscope.app/file-format-schema.json",
        "exporter": concat!("nccl-stacks ", env!("CARGO_PKG_VERSION")),
        "name": format!("launch stacks of {}", report.kernels),
        "activeProfileIndex": 0,
        "shared": { "frames": frames },
        "profiles": profiles,
    });
    serde_json::to_writer(&mut *out, &document).map_err(std::io::Error::from)?;
    writeln!(out)?;
    Ok(())
}
