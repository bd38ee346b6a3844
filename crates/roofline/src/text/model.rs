//! A step that was not recorded, by the configuration of its model.

use report::human;

use super::Line;
use super::words::{bytes, counted};
use crate::config::{Config, Forward};
use crate::limit::Peaks;

/// The numbers of a forward pass, by the names that they have in JSON.
pub fn quantities(needs: &Forward) -> [(&'static str, u128); 9] {
    [
        ("tokens", needs.tokens),
        ("requests", needs.requests),
        ("weight_bytes", needs.weight_bytes),
        ("weight_bytes_low", needs.weight_bytes_low),
        ("weight_bytes_high", needs.weight_bytes_high),
        ("kv_bytes", needs.kv_bytes),
        ("linear_flops", needs.linear_flops),
        ("attention_flops", needs.attention_flops),
        ("allreduce_bytes", needs.allreduce_bytes),
    ]
}

/// Returns what a step needs on each of `ranks` ranks as a sentence, with its least time on a device of this name and these peaks where
/// they are known, and what that consists of.
pub fn forward(
    config: &Config,
    needs: &Forward,
    ranks: u128,
    (device, peaks): (&str, &Peaks),
) -> (String, Vec<Line>) {
    let limit = needs.limit(config, ranks, peaks);
    let requests = format!(
        "A step with {} of {}",
        counted(needs.tokens, "token"),
        counted(needs.requests, "request")
    );
    let reads = format!(
        "{} of weights and {} of keys and values on {}",
        bytes(needs.weight_bytes),
        bytes(needs.kv_bytes),
        match ranks {
            1 => "1 rank".to_owned(),
            n => format!("each of {n} ranks"),
        }
    );
    let sentence = match &limit {
        Some(limit) => format!(
            "{requests} takes at least {} on {device}: it reads {reads}.",
            human::duration(limit.ns())
        ),
        None => format!(
            "{requests} reads {reads}; --device or --peak hbm= and bf16= gives the least time of that."
        ),
    };
    let mut lines: Vec<Line> = Vec::new();
    if needs.weight_bytes_low != needs.weight_bytes_high {
        let text = format!(
            "{} to {}, by which experts are drawn",
            bytes(needs.weight_bytes_low),
            bytes(needs.weight_bytes_high)
        );
        lines.push(("weights", text));
    }
    if let Some(limit) = &limit {
        let text = format!(
            "{}: the longer of memory {} and arithmetic {} ({} in products with weights), and all-reduces {}",
            human::duration(limit.ns()),
            human::duration(limit.memory_ns),
            human::duration(limit.compute_ns),
            limit.precision.name(),
            limit
                .link_ns
                .map_or("without a known link".to_owned(), human::duration)
        );
        lines.push(("limit", text));
    }
    (sentence, lines)
}
