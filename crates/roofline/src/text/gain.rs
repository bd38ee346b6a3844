//! What an operator would gain at its limit.

use report::human;

use super::words::short;
use crate::analysis::{Analysis, Gain};
use crate::numbers::Basis;
use crate::views::{Row, nanos};

/// What the calls of an operator would gain at their limit, with the kernel that takes most of their time.
pub(super) fn gain_text(gain: &Gain, analysis: &Analysis) -> String {
    let row = &gain.row;
    // A lower bound leaves less to gain, an estimate as much as it is right.
    let sure = match row.basis() {
        Basis::Bound => "at most ",
        Basis::Estimate => "about ",
        _ => "",
    };
    let mut text = format!(
        "{sure}{} in {} {}",
        human::duration(row.gain_ns().unwrap_or(0.0)),
        human::count(row.calls),
        gain.op
    );
    let mut inside = Vec::new();
    if gain.kinds > 1 {
        inside.push(format!("{} rows", human::count(gain.kinds)));
    }
    if !gain.kernel.is_empty() && gain.kernel != gain.op {
        inside.push(format!("mostly kernel {}", short(&gain.kernel)));
    }
    if !inside.is_empty() {
        text.push_str(&format!(" ({})", inside.join(", ")));
    }
    match bound_text(row, analysis) {
        "" => {}
        bound => text.push_str(&format!(", bound by {bound}")),
    }
    if row.pct().is_some() {
        text.push_str(&format!(", at {} %", pct_text(row)));
        text.push_str(" of the limit");
    }
    if let Some(device) = row.device.and_then(|id| analysis.devices.get(id)) {
        text.push_str(&format!(" of device {} ({})", device.id, device.name));
    }
    if gain.no_window {
        text.push_str(" if no layer has a window");
    }
    text
}

/// The percentage of a row, with the ends that its bytes allow.
pub(super) fn pct_text(row: &Row) -> String {
    let Some(pct) = row.pct() else {
        return String::new();
    };
    let of = |limit: Option<f64>| {
        let time = nanos(row.known_time_ns);
        limit.filter(|_| time > 0.0).map(|ns| 100.0 * ns / time)
    };
    let digits = |pct: f64| format!("{pct:.1}");
    match row.basis() {
        Basis::Bound => format!("≥ {}", digits(of(row.limit_low_ns).unwrap_or(pct))),
        Basis::Estimate => match (of(row.limit_low_ns), of(row.limit_high_ns)) {
            (Some(low), Some(high)) if digits(low) != digits(high) => {
                format!("{} ({} to {})", digits(pct), digits(low), digits(high))
            }
            _ => digits(pct),
        },
        _ => digits(pct),
    }
}

/// Resource that bounds a row; calls shorter than the launch floor are bound by their launch.
pub(super) fn bound_text(row: &Row, analysis: &Analysis) -> &'static str {
    let device = row.device.unwrap_or(analysis.main_device);
    let device = analysis.devices.get(device);
    match row.bound() {
        Some(_) if device.is_some_and(|device| row.is_launch_bound(&device.peaks)) => "launch",
        Some(bound) => bound.name(),
        None => "",
    }
}
