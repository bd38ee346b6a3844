//! Events one by one, as the lines stand.

use blkio_parser::{Error, Format, Reader};

#[test]
fn lines_one_by_one() {
    let long = "9".repeat(100_000);
    let log = format!(
        "10, R, 4096, 8, 8\r\n\nLost 3 events\n{long}\n20, W, 512, 1\nI\n30, FF, 0, 0, 0\n40, R, 4096, 8, 1"
    );
    // However little there is at once.
    for capacity in [1, 7, 4096] {
        let input = std::io::BufReader::with_capacity(capacity, log.as_bytes());
        let mut reader = Reader::detect("x", input).unwrap();
        assert_eq!(reader.format(), Format::FiveColumn);
        let mut times = Vec::new();
        let mut errors = Vec::new();
        for event in &mut reader {
            match event {
                Ok(event) => times.push(event.t_ns),
                Err(Error::Malformed {
                    line,
                    offset,
                    reason,
                    ..
                }) => errors.push((line, offset, reason)),
                Err(other) => panic!("{other}"),
            }
        }
        assert_eq!(times, [10, 30]);
        assert_eq!(errors.len(), 3);
        assert_eq!(errors[0], (4, 34, "line longer than 4 KiB"));
        assert_eq!((errors[1].0, errors[1].1), (5, 100_035));
        assert_eq!((errors[2].0, errors[2].2), (8, "truncated"));
        let counts = reader.counts();
        assert_eq!(
            (counts.lost_events, counts.blank, counts.malformed),
            (3, 1, 3)
        );
        assert!(counts.unterminated_last_line);
    }
    assert!(Reader::detect("x", &b"nothing"[..]).is_err());
    assert!(Reader::detect("x", &b"@usecs:\n[64, 128)  32 |@@@  |\n"[..]).is_err());
}
