//! Makes yardsticks, what a device can do, from measurements elsewhere.

use blkio_companions::deepnvme;
use blkio_companions::fio::{FioResult, Totals};

use crate::error::{Error, Result};
use crate::limit::Yardstick;

/// Returns the yardstick of a rate (`3.2GB/s`, `500MiB/s`) in both directions; `None` if the text is no rate.
#[must_use]
pub fn of_rate(text: &str) -> Option<Yardstick> {
    Some(Yardstick {
        name: text.to_owned(),
        bytes_per_s: [Some(rate(text)?); 2],
        iops: [None; 2],
        size_bytes: [None; 2],
    })
}

/// Returns the yardstick that a JSON result of fio or a log of deepnvme measured.
///
/// # Errors
///
/// Content that is neither.
pub fn of_measurement(name: &str, content: &[u8]) -> Result<Yardstick> {
    let name = name.to_owned();
    if let Some(found) = deepnvme::parse(content) {
        let is_store = name.contains("store");
        let rate = Some(found.exact * (1_u64 << 30) as f64);
        return Ok(Yardstick {
            name,
            bytes_per_s: if is_store { [None, rate] } else { [rate, None] },
            iops: [None; 2],
            size_bytes: [None; 2],
        });
    }
    let fio = FioResult::parse(&name, content).map_err(|error| {
        Error::Input(format!(
            "{name}: neither fio's JSON nor a log of deepnvme: {error}"
        ))
    })?;
    // Jobs of one result run at the same time unless they wait for each other: the best of them is what is certain.
    let best = |of: fn(&blkio_companions::fio::Job) -> Totals| {
        let totals = fio.jobs.iter().map(of).filter(|totals| totals.bytes > 0);
        totals.max_by(|a, b| a.bw_kib_s.total_cmp(&b.bw_kib_s))
    };
    let both = [best(|job| job.read), best(|job| job.write)];
    let rates = both.map(|of| of.map(|of| of.bw_kib_s * 1024.0));
    let size_bytes = both.map(|of| of.map(|of| of.bytes as f64 / of.ios.max(1) as f64));
    let mut iops = [None; 2];
    for ((iops, rate), size) in iops.iter_mut().zip(rates).zip(size_bytes) {
        *iops = rate.zip(size).map(|(rate, size)| rate / size);
    }
    Ok(Yardstick {
        name,
        bytes_per_s: rates,
        iops,
        size_bytes,
    })
}

/// Returns the bytes per second of a number with a unit.
fn rate(text: &str) -> Option<f64> {
    let text = text.trim().strip_suffix("/s")?;
    let at = text.find(|c: char| c.is_ascii_alphabetic())?;
    let (number, unit) = text.split_at(at);
    let scale = match unit.trim() {
        "B" => 1.0,
        "kB" | "KB" => 1e3,
        "MB" => 1e6,
        "GB" => 1e9,
        "KiB" => 1024.0,
        "MiB" => 1_048_576.0,
        "GiB" => 1_073_741_824.0,
        _ => return None,
    };
    let number: f64 = number.trim().parse().ok()?;
    (number.is_finite() && number > 0.0).then_some(number * scale)
}
