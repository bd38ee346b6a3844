//! What operation letters mean.
#![expect(
    clippy::unwrap_used,
    reason = "a test stops where something is not as it should be"
)]

use blkio_parser::{Direction, Operation, Rwbs};

fn decode(text: &str) -> Operation {
    Rwbs::new(text.as_bytes()).unwrap().decode()
}

#[test]
fn directions_follow_the_operation_and_not_any_letter() {
    let table = [
        ("R", Direction::Read),
        ("RA", Direction::Read),
        ("RSM", Direction::Read),
        ("W", Direction::Write),
        ("FWFSM", Direction::Write),
        ("FWS", Direction::Write),
        ("WFS", Direction::Write),
        ("D", Direction::Discard),
        ("DS", Direction::Discard),
        ("DE", Direction::Discard),
        ("E", Direction::Discard),
        ("FF", Direction::Flush),
        ("FN", Direction::Flush),
        ("N", Direction::None),
        ("NS", Direction::None),
        ("ZR", Direction::Zone),
        ("ZRA", Direction::Zone),
        ("ZA", Direction::Zone),
        ("B", Direction::Other),
        ("F", Direction::Flush),
    ];
    for (text, direction) in table {
        assert_eq!(decode(text).direction, direction, "{text}");
    }
}

#[test]
fn flags_are_told_apart_by_place() {
    let all = decode("FWFSM");
    assert!(all.preflush && all.fua && all.sync && all.meta);
    let fua = decode("WF");
    assert!(fua.fua && !fua.preflush);
    let flush = decode("FF");
    assert!(!flush.fua && flush.preflush);
    assert!(decode("RA").ahead && !decode("RA").sync);
    assert!(decode("DES").secure && decode("DES").sync);
    assert!(!decode("ZRA").ahead, "a reset of all zones is no readahead");
}

#[test]
fn only_short_capital_texts_are_accepted() {
    assert!(Rwbs::new(b"").is_none());
    assert!(Rwbs::new(b"r").is_none());
    assert!(Rwbs::new(b"R1").is_none());
    assert!(Rwbs::new(&[b'W'; 16]).is_none());
    assert_eq!(Rwbs::new(&[b'W'; 15]).unwrap().as_str(), "W".repeat(15));
}

#[test]
fn the_published_rule_looks_for_letters_anywhere() {
    let reset = Rwbs::new(b"ZR").unwrap();
    assert!(reset.contains_r() && !reset.contains_w());
    assert!(!Rwbs::new(b"FF").unwrap().contains_r());
}
