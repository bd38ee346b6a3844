//! Reads arbitrary bytes as the pages of a SQLite file: every table, and single rows.
#![no_main]

use byte_source::Source;
use libfuzzer_sys::fuzz_target;
use sqlite_scan::{Database, Error, Leaves, Lookup};

fuzz_target!(|data: &[u8]| {
    let Ok(source) = Source::from_bytes("fuzzed", data.to_vec()) else {
        return;
    };
    let Ok(database) = Database::from_source(source, None) else {
        return;
    };
    for def in &database.catalog().tables {
        let Some(table) = database.table(&def.name) else {
            continue;
        };
        let first = def
            .columns
            .first()
            .map_or("", |column| column.name.as_str());
        // The first error ends a scan.
        let _ = table.scan([first, "end"], |_, _| Ok::<_, Error>(()));
        let Ok(leaves) = Leaves::of(database.file(), def.root) else {
            continue;
        };
        let pick = def.pick([first]);
        let mut lookup = Lookup::new(database.file(), &leaves);
        for rowid in [1, 2, 1000, i64::MIN, i64::MAX] {
            let _ = lookup.get(rowid, &pick);
        }
    }
});
