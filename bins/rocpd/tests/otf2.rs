//! Archives read back by OTF2's own printer: every record is an enter and a leave, and the totals are those planted.

#![cfg(feature = "otf2")]
#![expect(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a failed step fails the test, and a skipped one says so"
)]

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use rocpd_synth::{Made, Moments, Shape, generate};

/// Calls and their total, by name.
type Totals = BTreeMap<String, (u64, i64)>;

/// What `otf2-print` says of an archive; nothing, said loudly, where it is not installed.
fn printed(archive: &Path) -> Option<String> {
    let output = match Command::new("otf2-print").arg(archive).output() {
        Ok(output) => output,
        Err(error) => {
            eprintln!("SKIPPED: otf2-print: {error}: install OTF2's tools (Debian: otf2-tools)");
            return None;
        }
    };
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    assert!(errors.is_empty(), "{errors}");
    Some(String::from_utf8(output.stdout).unwrap())
}

/// Enters and leaves by region, from lines such as `ENTER   3   1700000000   Region: "name" <7>`.
fn totals(text: &str) -> Totals {
    let mut open: BTreeMap<&str, Vec<(&str, i64)>> = BTreeMap::new();
    let mut totals = Totals::new();
    let mut last: BTreeMap<&str, i64> = BTreeMap::new();
    for line in text.lines() {
        let mut words = line.split_whitespace();
        let kind = words.next().unwrap_or_default();
        if kind != "ENTER" && kind != "LEAVE" {
            continue;
        }
        let location = words.next().unwrap();
        let time: i64 = words.next().unwrap().parse().unwrap();
        let name = line.split_once("Region: \"").unwrap().1;
        let name = name.rsplit_once("\" <").unwrap().0;
        // Within a location time does not go back, and regions nest.
        let before = last.insert(location, time).unwrap_or(i64::MIN);
        assert!(before <= time, "{line}");
        let stack = open.entry(location).or_default();
        if kind == "ENTER" {
            stack.push((name, time));
            continue;
        }
        let (entered, start) = stack.pop().unwrap();
        assert_eq!(entered, name, "{line}");
        let total = totals.entry(name.to_owned()).or_default();
        total.0 += 1;
        total.1 += time - start;
    }
    assert!(open.values().all(Vec::is_empty), "an enter without leave");
    totals
}

fn planted(made: &[Made]) -> Totals {
    let mut totals = Totals::new();
    let mut add = |name: &str, moments: &Moments| {
        let total = totals.entry(name.to_owned()).or_default();
        total.0 += moments.calls;
        total.1 += moments.total_ns;
    };
    for truth in made.iter().map(|made| &made.truth) {
        for (name, moments) in truth.kernels.iter().chain(&truth.copies) {
            add(name, moments);
        }
        for (name, moments) in truth.domains.values().flatten().chain(&truth.markers) {
            add(name, moments);
        }
        for (kind, moments) in &truth.allocations {
            add(&format!("MEMORY_ALLOCATION_{kind}"), moments);
        }
    }
    totals
}

#[test]
fn archives_say_what_was_planted() {
    let folder = tempfile::tempdir().unwrap();
    let shape = Shape {
        ranks: 2,
        nodes: 2,
        equal_pids: true,
        orphans: false,
        steps: 12,
        ..Shape::small()
    };
    let made = generate(&folder.path().join("in"), &shape).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_rocpd"))
        .current_dir(folder.path())
        .args(["convert", "-i", "in", "-f", "otf2", "-d", "out", "-o", "a"])
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let archive = folder.path().join("out/a_results.otf2");
    let Some(text) = printed(&archive) else {
        return;
    };
    // Names are printed as they are, a line break among them: lines of one event are joined again.
    let text = text.replace("with\nnewline", "with newline");
    let mut expected = planted(&made);
    if let Some((name, total)) = expected
        .iter()
        .find(|(name, _)| name.contains('\n'))
        .map(|(name, total)| (name.clone(), *total))
    {
        expected.remove(&name);
        expected.insert(name.replace('\n', " "), total);
    }
    assert_eq!(totals(&text), expected);
}
