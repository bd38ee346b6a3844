//! Which functions take longer in some cycles than in others of the same side, kernels of a device that do so alike as one.

use std::collections::BTreeMap;

use super::panel::{Column, Panel};
use crate::document::{PausedFunction, Role};
use crate::report_text::short;
use crate::side::{Class, is_wait};
use crate::verdict::is_alike;

/// Part of the time that a function must take to be named.
const NAMED: f64 = 0.2;
/// Functions that are named.
const SHOWN: usize = 3;
/// Kernels of a device from which on all of them may be one.
const SEVERAL: usize = 4;
/// Part of them, by count and by time, that must be slower alike.
const MOST: f64 = 0.6;
/// Factor from which on they are slower at all.
const SLOWER: f64 = 1.05;
/// Kernels with less than this part of the time are not counted one by one.
const SMALL: f64 = 0.002;

/// Kernels of one rank and device.
type Group<'c> = (Vec<&'c Column>, Vec<[f64; 2]>);

fn rank_of(role: Option<usize>, roles: &[Role], side: usize) -> Option<String> {
    let role = roles.iter().find(|known| Some(known.role) == role)?;
    role.ranks[side].clone().filter(|_| roles.len() > 1)
}

/// The functions that take most of the `wanted` microseconds, longest first: `times` gives what each takes usually, and in the
/// cycles in question. Kernels of a device that are slower by about one factor are one of them.
pub(super) fn functions(
    panel: &Panel,
    roles: &[Role],
    side: usize,
    wanted: f64,
    times: &dyn Fn(&Column) -> Option<[f64; 2]>,
) -> Vec<PausedFunction> {
    let mut groups: BTreeMap<(Option<usize>, &str), Group<'_>> = BTreeMap::new();
    let mut found: Vec<PausedFunction> = Vec::new();
    // Collectives wait for what the others do, and sums repeat their parts.
    let own = panel.columns.iter().filter(|c| {
        c.key.kind == "function" && c.key.class != Class::Collective && !is_wait(&c.key.name)
    });
    for column in own {
        let Some([before, after]) = times(column) else {
            continue;
        };
        if column.key.class == Class::Kernel && before > 0.0 {
            let group = groups
                .entry((column.key.role, &column.key.device))
                .or_default();
            group.0.push(column);
            group.1.push([before, after]);
        }
        if after - before >= NAMED * wanted {
            found.push(PausedFunction {
                name: column.key.name.clone(),
                device: column.key.device.clone(),
                rank: rank_of(column.key.role, roles, side),
                excess_us: after - before,
            });
        }
    }
    for ((role, device), (columns, times)) in groups {
        let sum = |at: usize| times.iter().map(|own| own[at]).sum::<f64>();
        let (all, factor) = (sum(0), sum(1) / sum(0));
        let counted = || times.iter().filter(|own| own[0] >= SMALL * all);
        let like = counted().filter(|own| is_alike(own[1] / own[0], factor));
        let (count, time) = like.fold((0.0, 0.0), |sum, own| (sum.0 + 1.0, sum.1 + own[0]));
        let part = (count / counted().count().max(1) as f64).min(time / all);
        let excess = sum(1) - all;
        if counted().count() < SEVERAL || factor < SLOWER || part < MOST || excess < NAMED * wanted
        {
            continue;
        }
        found.retain(|f| f.device != device || !columns.iter().any(|c| c.key.name == f.name));
        found.push(PausedFunction {
            name: format!(
                "all kernels of {device}, slower by {} %,",
                short((factor - 1.0) * 100.0)
            ),
            device: device.to_owned(),
            rank: rank_of(role, roles, side),
            excess_us: excess,
        });
    }
    found.sort_by(|a, b| {
        b.excess_us
            .total_cmp(&a.excess_us)
            .then_with(|| (&a.name, &a.device).cmp(&(&b.name, &b.device)))
    });
    found.truncate(SHOWN);
    found
}
