//! Files of one recording of blktrace, which writes one for each processor.

use std::path::Path;

/// Between the name of a recording of blktrace and the number of the processor.
const PART: &str = ".blktrace.";

/// Returns the name of the recording and number of the processor, of `NAME.blktrace.N`, compressed or not.
#[must_use]
pub fn part(path: &Path) -> Option<(String, u32)> {
    let name = path.file_name()?.to_str()?;
    let (recording, rest) = name.rsplit_once(PART)?;
    let number = rest.split('.').next()?;
    let ending = rest.strip_prefix(number)?;
    let is_known = ["", ".gz", ".zst", ".xz"].contains(&ending);
    is_known.then_some(())?;
    Some((recording.to_owned(), number.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_told_by_their_names() {
        let of = |name: &str| part(Path::new(name));
        assert_eq!(of("a/blk.blktrace.11"), Some(("blk".to_owned(), 11)));
        assert_eq!(of("b.blktrace.0.gz"), Some(("b".to_owned(), 0)));
        for other in [
            "blk.blktrace",
            "blk.blktrace.x",
            "blk.blktrace.0.txt",
            "blk.0",
        ] {
            assert_eq!(of(other), None, "{other}");
        }
    }
}
