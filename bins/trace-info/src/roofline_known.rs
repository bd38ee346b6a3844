//! Answers without a trace, as text: a step of a model, the devices.

use report::{Column, Table};
use roofline::config::{Config, Forward};
use roofline::{Knowledge, PeakKey, Peaks, text};

use crate::document::Document;
use crate::roofline::RooflineArgs;

/// What a step of a model needs that was not recorded.
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
    let peaks = Peaks::new(device, None, &args.peak);
    let name = device.map_or("the given peaks", roofline::Device::name);
    let ranks = u128::from(args.tp.unwrap_or(1));
    let (sentence, lines) = text::forward(config, needs, ranks, (name, &peaks));
    document.sentence(sentence);
    for (label, line) in lines {
        document.line(label, line);
    }
    let columns = vec![
        Column::text("quantity"),
        Column::text("value").align(report::Align::Right),
    ];
    let mut table = Table::new("model", columns)?;
    for (name, value) in text::quantities(needs) {
        let value = text::count_of(value);
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
