//! Whether the calls of several ranks are of one collective.

use std::collections::BTreeMap;

use super::Entry;

/// How the calls of one collective differ.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Mismatch {
    /// Different operations.
    Operation,
    /// Different sizes where these must be equal.
    Size,
    /// Different dtypes.
    Dtype,
}

impl Mismatch {
    /// Returns the stable machine name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Operation => "operation",
            Self::Size => "size",
            Self::Dtype => "dtype",
        }
    }
}

/// Operations whose sizes may differ between ranks.
const UNEVEN: [&str; 5] = [
    "all_to_all",
    "all_to_all_single",
    "all_to_all_v_single",
    "all_gather_v",
    "reduce_scatter_v",
];

/// What must be equal on all ranks, if it is known.
fn keys(entry: &Entry) -> [(Mismatch, Option<String>); 5] {
    let operation = entry.operation.as_str();
    let is_uneven = UNEVEN.contains(&operation);
    let known = |text: String| (!text.is_empty()).then_some(text);
    let inputs = known(entry.inputs.sizes_text()).filter(|_| !is_uneven && operation != "scatter");
    let outputs = known(entry.outputs.sizes_text()).filter(|_| !is_uneven && operation != "gather");
    // Only the root has inputs of a scatter or broadcast, and outputs of a gather.
    let is_rooted = matches!(operation, "scatter" | "broadcast" | "_broadcast_oop");
    let of = known(entry.inputs.dtypes_text()).filter(|_| !is_rooted && inputs.is_some());
    let to =
        known(entry.outputs.dtypes_text()).filter(|_| operation != "gather" && outputs.is_some());
    [
        (Mismatch::Operation, Some(operation.to_owned())),
        (Mismatch::Size, inputs),
        (Mismatch::Size, outputs),
        (Mismatch::Dtype, of),
        (Mismatch::Dtype, to),
    ]
}

/// Returns how calls of one collective differ, and the ranks that are not with the majority; all ranks if there is none.
/// `calls` has the calls of each rank, of which a coalesced group has several.
pub(super) fn mismatch(calls: &BTreeMap<u32, Vec<&Entry>>) -> Option<(Mismatch, Vec<u32>)> {
    let longest = calls.values().map(Vec::len).max().unwrap_or(0);
    let mut found: Option<(Mismatch, Vec<u32>)> = None;
    for at in 0..longest {
        let all = calls.iter().map(|(rank, list)| (*rank, list.get(at)));
        let keys: Vec<(u32, Option<[_; 5]>)> = all
            .map(|(rank, entry)| (rank, entry.map(|entry| keys(entry))))
            .collect();
        for key in 0..5 {
            let mut kind = Mismatch::Operation;
            let mut sides: BTreeMap<Option<&str>, Vec<u32>> = BTreeMap::new();
            for (rank, keys) in &keys {
                match keys.as_ref().and_then(|keys| keys.get(key)) {
                    Some((of, value)) => {
                        kind = *of;
                        // What is unknown agrees with everything.
                        if let Some(value) = value {
                            sides.entry(Some(value)).or_default().push(*rank);
                        }
                    }
                    // A shorter coalesced group.
                    None if key == 0 => sides.entry(None).or_default().push(*rank),
                    None => {}
                }
            }
            if sides.len() < 2 || found.as_ref().is_some_and(|(known, _)| *known <= kind) {
                continue;
            }
            found = Some((kind, minority(sides.into_values().collect())));
        }
    }
    found
}

/// Returns the ranks that are not on the largest side; all if two sides are the largest.
fn minority(mut sides: Vec<Vec<u32>>) -> Vec<u32> {
    sides.sort_by_key(|side| std::cmp::Reverse(side.len()));
    let is_tie = match sides.as_slice() {
        [first, second, ..] => first.len() == second.len(),
        _ => true,
    };
    let skip = usize::from(!is_tie);
    let mut ranks: Vec<u32> = sides.into_iter().skip(skip).flatten().collect();
    ranks.sort_unstable();
    ranks
}
