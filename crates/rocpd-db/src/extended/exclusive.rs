//! Time of host calls without the calls inside them.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use crate::error::Result;
use crate::filter::{Filter, domain_of};
use crate::info::Process;
use crate::records::Region;
use crate::scan::Order;
use crate::set::RocpdSet;

/// What calls of one name took, with and without the calls inside them.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Exclusive<'a> {
    /// The process.
    pub process: &'a Process,
    /// Domain of the calls, for example `HIP`.
    pub domain: &'a str,
    /// Their name; of markers the message.
    pub name: String,
    /// How many.
    pub calls: u64,
    /// Sum of durations, ns.
    pub inclusive_ns: i64,
    /// The same without the calls directly inside, ns: over all names it is the time that threads spent in calls, once.
    pub exclusive_ns: i64,
}

/// A call that has not ended.
struct Open {
    end_ns: i64,
    name: usize,
}

/// Inclusive and exclusive time of host calls by process, domain and name, largest exclusive time first.
///
/// Calls nest by their times on a thread; one that outlives the call around it counts inside only as far as that reaches.
/// Memory: names, and the calls that are open at one time.
///
/// # Errors
///
/// When a file is damaged.
pub fn exclusive<'a>(set: &'a RocpdSet, filter: &'a Filter) -> Result<Vec<Exclusive<'a>>> {
    let mut out = Vec::new();
    for partition in 0..set.partitions().len() {
        let mut numbers: BTreeMap<(i64, &'a str, String), usize> = BTreeMap::new();
        let mut rows: Vec<Exclusive<'a>> = Vec::new();
        let mut threads: FxHashMap<(i64, i64), Vec<Open>> = FxHashMap::default();
        for region in set.scan_partition::<Region<'_>>(partition, filter, Order::Start)? {
            let r = region?;
            let domain = domain_of(r.event.and_then(|event| event.category));
            let name = r.shown_name().unwrap_or("<none>");
            let key = (r.process.id, domain, name.to_owned());
            let number = *numbers.entry(key).or_insert_with(|| {
                rows.push(Exclusive {
                    process: r.process,
                    domain,
                    name: name.to_owned(),
                    calls: 0,
                    inclusive_ns: 0,
                    exclusive_ns: 0,
                });
                rows.len() - 1
            });
            let thread = r.thread.map_or(i64::MIN, |thread| thread.id);
            let open = threads.entry((r.process.id, thread)).or_default();
            while open.last().is_some_and(|call| call.end_ns <= r.start_ns) {
                open.pop();
            }
            if let Some(around) = open.last()
                && let Some(row) = rows.get_mut(around.name)
            {
                row.exclusive_ns -= r
                    .end_ns
                    .min(around.end_ns)
                    .saturating_sub(r.start_ns)
                    .max(0);
            }
            // What reaches beyond the call around it is left out of both, so that nothing counts twice.
            let end_ns = open
                .last()
                .map_or(r.end_ns, |call| call.end_ns.min(r.end_ns));
            if let Some(row) = rows.get_mut(number) {
                row.calls += 1;
                row.inclusive_ns = row.inclusive_ns.saturating_add(r.duration_ns());
                row.exclusive_ns += end_ns.saturating_sub(r.start_ns).max(0);
            }
            open.push(Open {
                end_ns,
                name: number,
            });
        }
        rows.sort_by(|a, b| {
            (a.process.id, -a.exclusive_ns, a.domain, &a.name).cmp(&(
                b.process.id,
                -b.exclusive_ns,
                b.domain,
                &b.name,
            ))
        });
        out.extend(rows);
    }
    Ok(out)
}
