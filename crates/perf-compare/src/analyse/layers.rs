//! Functions that differ in one number only, such as the layers or modules of a model, as one finding.

use std::collections::BTreeMap;

use super::panel::{Column, Key};
use crate::document::{Finding, Statement};
use crate::side::{Class, numbered};

/// The kind of a column that is the sum of others.
pub(super) const KIND: &str = "layers";
/// Fewest functions that are one.
const FEWEST: usize = 3;
/// Part of the functions, and of their time, that has to change with the sum for it to be the finding.
const MOST: f64 = 0.6;
/// Times of such functions change alike if they do so by this factor of each other, on a log scale.
const ALIKE: std::ops::RangeInclusive<f64> = 1.0 / 3.0..=3.0;

/// Sums of the columns of the host whose names differ in one number only.
pub(super) fn sums(columns: &[Column]) -> Vec<Column> {
    let mut groups: BTreeMap<(Option<usize>, String, String), Vec<&Column>> = BTreeMap::new();
    for column in columns {
        let key = &column.key;
        if key.class == Class::Host
            && let Some(template) = numbered(&key.name)
        {
            let group = (key.role, key.device.clone(), template);
            groups.entry(group).or_default().push(column);
        }
    }
    let of_group = |((role, device, name), members): ((_, _, _), Vec<&Column>)| {
        let first = members.first()?;
        let lengths = first.values.each_ref().map(Vec::len);
        // Cycles that lack some of them cannot be summed.
        let is_whole = |c: &&Column| c.values.each_ref().map(Vec::len) == lengths;
        if members.len() < FEWEST || !members.iter().all(is_whole) {
            return None;
        }
        let values = [0, 1].map(|side| {
            let at = |i: usize| members.iter().map(|c| c.values[side][i]).sum::<f64>();
            (0..lengths[side]).map(at).collect()
        });
        Some(Column {
            key: Key {
                kind: KIND,
                name,
                class: Class::Host,
                device,
                role,
            },
            values,
            calls: [0, 1].map(|side| members.iter().map(|c| c.calls[side]).sum()),
            present: [0, 1].map(|side| members.iter().any(|c| c.present[side])),
            single: Default::default(),
        })
    };
    groups.into_iter().filter_map(of_group).collect()
}

/// Keeps the sums that are what changed, and marks their members; drops the others, of which a member or none is what changed.
pub(super) fn roll_up(findings: &mut Vec<Finding>) {
    let sums: Vec<Finding> = findings.extract_if(.., |f| f.kind == KIND).collect();
    for mut sum in sums {
        if sum.verdict != Statement::Changed {
            continue;
        }
        let is_member = |f: &Finding| {
            f.kind == "function"
                && (f.role, &f.cycle_type, &f.device) == (sum.role, &sum.cycle_type, &sum.device)
                && numbered(&f.name).as_ref() == Some(&sum.name)
        };
        let members: Vec<&Finding> = findings.iter().filter(|f| is_member(f)).collect();
        let log = |f: &Finding| (f.effect.candidate / f.effect.baseline).ln();
        let all = log(&sum);
        let is_alike = |f: &&&Finding| match all.is_finite() {
            true => ALIKE.contains(&(log(f) / all)),
            // All of them are new, or gone.
            false => !log(f).is_finite() && (log(f) > 0.0) == (all > 0.0),
        };
        let size = |f: &Finding| f.effect.baseline.max(f.effect.candidate);
        let alike: Vec<&&Finding> = members.iter().filter(is_alike).collect();
        let time = |list: &mut dyn Iterator<Item = f64>| list.sum::<f64>();
        let part =
            time(&mut alike.iter().map(|f| size(f))) / time(&mut members.iter().map(|f| size(f)));
        let count = alike.len() as f64 / members.len().max(1) as f64;
        if alike.len() < FEWEST || count < MOST || part < MOST {
            continue;
        }
        sum.members = Some(members.len());
        let name = sum.name.clone();
        for finding in findings.iter_mut().filter(|f| is_member(f)) {
            finding.part_of = Some(name.clone());
        }
        findings.push(sum);
    }
}
