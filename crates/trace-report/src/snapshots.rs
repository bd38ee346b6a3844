//! Memory snapshots of PyTorch: who holds the peak, and fragmentation.

use torch_dumps::memory::{Answer, tables};

use crate::{Document, Form, Result};

/// Maximum number of rows of the list of holders, in text.
const TOP: usize = 12;

/// Returns the document of snapshots; `series` for the course of each as well.
///
/// # Errors
///
/// Returns an error if a table cannot be made.
pub fn document(answers: &[Answer], series: bool, form: Form) -> Result<Document> {
    let mut document = Document::new(tables::SCHEMA_VERSION);
    if !form.is_text() {
        document.push(tables::holders(answers)?);
        document.push(tables::devices(answers)?);
        document.push(tables::pools(answers)?);
        if series {
            document.push(tables::series(answers)?);
        }
    }
    for answer in answers {
        document.heading(&answer.label);
        if answer.devices.is_empty() {
            document
                .sentence("The snapshot holds no memory: no segment and no event of any device.");
        }
        for device in &answer.devices {
            document.sentence(device.sentence(&answer.snapshot));
            for (label, text) in device.lines(&answer.snapshot) {
                document.line(label, text);
            }
            if device.replay.holders.is_empty() {
                continue;
            }
            let title = match answer.devices.len() {
                1 => String::new(),
                _ => format!("GPU {}", device.device),
            };
            document.table(&title, tables::categories(device)?);
            document.table(
                "allocated at the peak, most first",
                tables::holders_narrow(answer, device, TOP)?,
            );
        }
        if series {
            document.table("over time", tables::course(answer)?);
        }
    }
    Ok(document)
}
