//! Answers without a trace, as text: a step of a model, the devices.

use report::human;
use report::{Column, Table};
use roofline::config::{Config, Forward};
use roofline::{Knowledge, PeakKey};

use crate::document::Document;
use crate::roofline::RooflineArgs;
use crate::roofline_text::{bytes, count_of};

/// The numbers of a forward pass.
pub(crate) fn quantities(needs: &Forward) -> [(&'static str, u128); 9] {
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

pub(crate) fn forward(
    document: &mut Document,
    args: &RooflineArgs,
    (config, needs): (&Config, &Forward),
    knowledge: &Knowledge,
) -> anyhow::Result<()> {
    let device = args.device.as_deref().map(|key| {
        knowledge
            .devices
            .of_key(key)
            .ok_or_else(|| cli::usage(format!("no device {key:?} (--list-devices)")))
    });
    let device = device.transpose()?;
    let peaks = roofline::Peaks::new(device, None, &args.peak);
    let ranks = args.tp.unwrap_or(1);
    let limit = needs.limit(config, u128::from(ranks), &peaks);
    let several = |n: u128, what: &str| match n {
        1 => format!("1 {what}"),
        n => format!("{} {what}s", count_of(n)),
    };
    let requests = format!(
        "A step with {} of {}",
        several(needs.tokens, "token"),
        several(needs.requests, "request")
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
    let named = device.map_or("the given peaks", roofline::Device::name);
    match &limit {
        Some(limit) => document.sentence(format!(
            "{requests} takes at least {} on {named}: it reads {reads}.",
            human::duration(limit.ns())
        )),
        None => document.sentence(format!(
            "{requests} reads {reads}; --device or --peak hbm= and bf16= gives the least time of that."
        )),
    }
    if needs.weight_bytes_low != needs.weight_bytes_high {
        let text = format!(
            "{} to {}, by which experts are drawn",
            bytes(needs.weight_bytes_low),
            bytes(needs.weight_bytes_high)
        );
        document.line("weights", text);
    }
    if let Some(limit) = &limit {
        document.line(
            "limit",
            format!(
                "{}: the longer of memory {} and arithmetic {} ({} in products with weights), and all-reduces {}",
                human::duration(limit.ns()),
                human::duration(limit.memory_ns),
                human::duration(limit.compute_ns),
                limit.precision.name(),
                limit.link_ns.map_or("without a known link".to_owned(), human::duration)
            ),
        );
    }
    let columns = vec![
        Column::text("quantity"),
        Column::text("value").align(report::Align::Right),
    ];
    let mut table = Table::new("model", columns)?;
    for (name, value) in quantities(needs) {
        let value = count_of(value);
        table.push(&[name.into(), value.as_str().into()])?;
    }
    document.table("", table);
    Ok(())
}

/// The devices that are known.
pub(crate) fn devices(document: &mut Document, knowledge: &Knowledge) -> anyhow::Result<()> {
    document.sentence(
        "TFLOP/s dense at boost clock; GB/s of memory, of the link between devices and of that to the host, one way. (?) marks \
         numbers without a vendor's source.",
    );
    let keys: Vec<PeakKey> = PeakKey::all()
        .filter(|key| *key != PeakKey::Launch)
        .collect();
    let mut columns = vec![Column::text("key")];
    columns.extend(
        keys.iter()
            .map(|key| Column::text(key.name()).align(report::Align::Right)),
    );
    columns.push(Column::text("source"));
    let mut table = Table::new("devices", columns)?;
    for device in knowledge.devices.iter() {
        let numbers: Vec<String> = keys
            .iter()
            .map(|key| match device.peak(*key) {
                Some(value) if device.is_sourced(*key) => value.to_string(),
                Some(value) => format!("{value} (?)"),
                None => String::new(),
            })
            .collect();
        let mut cells = vec![device.key().into()];
        cells.extend(numbers.iter().map(|n| report::Cell::from(n.as_str())));
        cells.push(device.source().into());
        table.push(&cells)?;
    }
    document.table("", table);
    Ok(())
}
