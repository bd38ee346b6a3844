//! Compares the bytes of archives with the format, and reads archives with OTF2's own printer if it
//! is installed.

#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

use std::path::Path;
use std::process::Command;

use otf2_writer::{Archive, Error, GroupKind, LocationKind, Role};

/// Location, time, region, and whether it is entered.
type Event = (usize, u64, u32, bool);

fn write(folder: &Path, events: &[Event], locations: usize) -> Result<(), Error> {
    let mut archive = Archive::create(folder, "a", "test")?;
    let places: Vec<_> = (0..locations).map(|_| archive.add_location()).collect();
    for &(location, time, region, enters) in events {
        match enters {
            true => archive.enter(places[location], time, region, Some((0, 3)))?,
            false => archive.leave(places[location], time, region)?,
        }
    }
    let last = events.iter().map(|event| event.1).max().unwrap_or(0);
    archive.clock(1_000_000_000, 0, last)?;
    for text in ["", "node", "process", "category"] {
        archive.string(text)?;
    }
    let long = "é".repeat(400);
    let names: Vec<u32> = (0..300)
        .map(|number| archive.string(&format!("region {number} {long}")))
        .collect::<Result<_, _>>()?;
    archive.string_attribute(3, 0)?;
    let node = archive.node(1, 1)?;
    let group = archive.group(2, GroupKind::Process, node)?;
    for place in places {
        archive.location(place, 2, LocationKind::Thread, group)?;
    }
    for name in names {
        archive.region(name, Role::Function)?;
    }
    archive.finish()
}

/// Returns deeply nested events and equal times, in many chunks.
fn events(count: u64, locations: usize) -> Vec<Event> {
    let mut events = Vec::new();
    for at in 0..count {
        for location in 0..locations {
            let region = u32::try_from((at * 7 + location as u64) % 300).unwrap();
            let time = 1_000_000_000_000 + at * 10;
            events.push((location, time, region, true));
            events.push((location, time + at % 3, region, false));
        }
    }
    events
}

/// Decodes a compressed integer; returns it and its length in bytes.
fn integer(bytes: &[u8]) -> (u64, usize) {
    let length = usize::from(bytes[0]);
    let mut value = [0; 8];
    value[..length].copy_from_slice(&bytes[1..=length]);
    (u64::from_le_bytes(value), length + 1)
}

/// Decodes a file of events according to the format.
fn decode(bytes: &[u8]) -> Vec<(u64, u32, bool)> {
    let mut found = Vec::new();
    for chunk in bytes.chunks(256 << 10) {
        assert_eq!(chunk[..2], [3, b'B']);
        let first = u64::from_le_bytes(chunk[2..10].try_into().unwrap());
        let last = u64::from_le_bytes(chunk[10..18].try_into().unwrap());
        assert_eq!(first, found.len() as u64 + 1);
        let mut time = None;
        let mut at = 18;
        loop {
            match chunk[at] {
                0 => {
                    assert_eq!(chunk.len(), 256 << 10);
                    assert!(chunk[at..].iter().all(|byte| *byte == 0));
                    break;
                }
                2 => {
                    assert_eq!(chunk[at..], [2, 1]);
                    break;
                }
                5 => {
                    let bytes = chunk[at + 1..at + 9].try_into().unwrap();
                    time = Some(u64::from_le_bytes(bytes));
                    at += 9;
                }
                6 => at += 2 + usize::from(chunk[at + 1]),
                kind @ (12 | 13) => {
                    let (region, length) = integer(&chunk[at + 1..]);
                    found.push((time.unwrap(), u32::try_from(region).unwrap(), kind == 12));
                    at += 1 + length;
                }
                other => panic!("record {other} at {at}"),
            }
        }
        if last != 0 {
            assert_eq!(last, found.len() as u64);
        }
    }
    found
}

#[test]
fn events_of_many_chunks_are_those_that_were_written() {
    let folder = tempfile::tempdir().unwrap();
    let planted = events(16_000, 2);
    write(folder.path(), &planted, 3).unwrap();
    for location in 0..3 {
        let bytes = std::fs::read(folder.path().join(format!("a/{location}.evt"))).unwrap();
        let own: Vec<_> = planted
            .iter()
            .filter(|event| event.0 == location)
            .map(|&(_, time, region, enters)| (time, region, enters))
            .collect();
        assert_eq!(decode(&bytes), own);
        assert_eq!(bytes.len() > 256 << 10, !own.is_empty());
    }
}

#[test]
fn equal_archives_are_equal_bytes_and_times_never_go_back() {
    let folder = tempfile::tempdir().unwrap();
    let files = ["a.otf2", "a.def", "a/0.evt", "a/0.def"];
    let mut before = Vec::new();
    for run in 0..2 {
        write(folder.path(), &events(10, 1), 1).unwrap();
        let bytes: Vec<_> = files
            .iter()
            .map(|file| std::fs::read(folder.path().join(file)).unwrap())
            .collect();
        match run {
            0 => before = bytes,
            _ => assert_eq!(bytes, before),
        }
    }
    let error = write(folder.path(), &[(0, 5, 0, true), (0, 4, 0, false)], 1).unwrap_err();
    assert!(matches!(error, Error::Order { time: 4, before: 5 }));
}

#[test]
#[ignore = "needs otf2-print (Debian: otf2-tools)"]
fn otf2_print_reads_every_event() {
    let folder = tempfile::tempdir().unwrap();
    let planted = events(16_000, 2);
    write(folder.path(), &planted, 3).unwrap();
    let output = Command::new("otf2-print")
        .arg(folder.path().join("a.otf2"))
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && errors.is_empty(), "{errors}");
    let text = String::from_utf8(output.stdout).unwrap();
    let mut found: Vec<Event> = Vec::new();
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        if words.first() == Some(&"ENTER") || words.first() == Some(&"LEAVE") {
            let region = line.rsplit_once('<').unwrap().1.trim_end_matches('>');
            let number = region.parse().unwrap();
            assert!(line.contains(&format!("Region: \"region {number} éé")));
            found.push((
                words[1].parse().unwrap(),
                words[2].parse().unwrap(),
                number,
                words[0] == "ENTER",
            ));
        }
    }
    // The printer merges locations by time.
    for location in 0..3 {
        let of = |list: &[Event]| -> Vec<Event> {
            list.iter().filter(|e| e.0 == location).copied().collect()
        };
        assert_eq!(of(&found), of(&planted));
    }
}
