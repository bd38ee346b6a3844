//! Reads a damaged database by every reader of pages. Shared by the fuzz target and the test with damaged files.

use std::path::Path;

use rocpd_db::{
    Allocation, Dispatch, Filter, OpenOptions, Order, PmcEvent, Record, Region, RocpdSet, Sample,
};

/// Reads all records, in both orders; neither panics nor hangs. Returns `true` if the file opened and all could be read.
pub(crate) fn try_all(path: &Path) -> bool {
    let Ok(set) = RocpdSet::open(&[path], &OpenOptions::default()) else {
        return false;
    };
    let filter = Filter::default();
    let mut whole = true;
    for order in [Order::Stored, Order::Start] {
        whole &= read::<Dispatch<'_>>(&set, &filter, order);
        whole &= read::<rocpd_db::Copy<'_>>(&set, &filter, order);
        whole &= read::<Allocation<'_>>(&set, &filter, order);
        whole &= read::<Region<'_>>(&set, &filter, order);
        whole &= read::<Sample<'_>>(&set, &filter, order);
        whole &= read::<PmcEvent<'_>>(&set, &filter, order);
    }
    whole
}

fn read<'a, R: Record<'a>>(set: &'a RocpdSet, filter: &'a Filter, order: Order) -> bool {
    match set.scan::<R>(filter, order) {
        // The first error ends a scan.
        Ok(mut records) => records.all(|record| record.is_ok()),
        Err(_) => false,
    }
}
