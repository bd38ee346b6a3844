//! Reads CSV files of the tool as rows by column.

use std::collections::BTreeMap;

/// Returns the rows of a CSV file by column.
pub(crate) fn csv(path: &std::path::Path) -> Vec<BTreeMap<String, String>> {
    let mut rows = vec![vec![String::new()]];
    let (mut quoted, mut closed) = (false, false);
    for c in std::fs::read_to_string(path).unwrap().chars() {
        let row = rows.last_mut().unwrap();
        match c {
            '"' => {
                // Two quotes represent one.
                if closed {
                    row.last_mut().unwrap().push('"');
                }
                quoted = !quoted;
                closed = !quoted;
                continue;
            }
            ',' if !quoted => row.push(String::new()),
            '\n' if !quoted => rows.push(vec![String::new()]),
            c => row.last_mut().unwrap().push(c),
        }
        closed = false;
    }
    rows.pop();
    let header = rows.remove(0);
    let named = |row: Vec<String>| header.iter().cloned().zip(row).collect();
    rows.into_iter().map(named).collect()
}
