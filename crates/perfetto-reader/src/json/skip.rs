//! Steps over values outside the events, in any pieces, and keeps selected ones.

/// State of stepping over the value of one document key.
#[derive(Debug, Default)]
pub(super) struct Skipper {
    depth: usize,
    in_string: bool,
    after_backslash: bool,
    is_scalar: bool,
    kept: Option<Vec<u8>>,
}

/// Metadata values longer than this are not kept.
const LONGEST: usize = 16 << 20;

impl Skipper {
    pub(super) fn new(keep: bool) -> Self {
        Self {
            kept: keep.then(Vec::new),
            ..Self::default()
        }
    }

    /// Consumes more text. Returns how much of it belongs to the value, and `true` if the value
    /// ends there.
    pub(super) fn feed(&mut self, text: &[u8]) -> (usize, bool) {
        let mut at = 0;
        let mut ended = false;
        while !ended && let Some(&b) = text.get(at) {
            if self.in_string {
                if self.after_backslash {
                    self.after_backslash = false;
                    at += 1;
                    continue;
                }
                let rest = text.get(at..).unwrap_or_default();
                let Some(found) = memchr::memchr2(b'"', b'\\', rest) else {
                    at = text.len();
                    break;
                };
                at += found;
                if text.get(at) == Some(&b'"') {
                    self.in_string = false;
                    ended = self.depth == 0;
                } else {
                    self.after_backslash = true;
                }
                at += 1;
                continue;
            }
            match b {
                b',' | b'}' | b']' | b' ' | b'\t' | b'\n' | b'\r' if self.is_scalar => break,
                b'"' => self.in_string = true,
                b'{' | b'[' => self.depth += 1,
                b'}' | b']' => {
                    self.depth = self.depth.saturating_sub(1);
                    ended = self.depth == 0;
                }
                _ if self.depth == 0 => self.is_scalar = true,
                _ => {}
            }
            at += 1;
        }
        ended |= self.is_scalar && at < text.len();
        if let Some(kept) = &mut self.kept {
            kept.extend_from_slice(text.get(..at).unwrap_or_default());
            if kept.len() > LONGEST {
                self.kept = None;
            }
        }
        (at, ended)
    }

    /// Returns the text of the value if it was selected and is not too long.
    pub(super) fn into_kept(self) -> Option<Vec<u8>> {
        self.kept
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_pieces_give_the_same_value() {
        for value in [r#"{"a":["}\"",{"b":1}]}"#, r#""x\\\"y""#, "-1.5e3", "[]"] {
            let text = format!("{value} , \"next\"");
            for cut in 0..=value.len() {
                let mut skipper = Skipper::new(true);
                let (first, ended) = skipper.feed(&text.as_bytes()[..cut]);
                let mut used = first;
                if !ended {
                    assert_eq!(first, cut);
                    let (second, ended) = skipper.feed(&text.as_bytes()[cut..]);
                    assert!(ended, "{value} {cut}");
                    used += second;
                }
                assert_eq!(used, value.len(), "{value} {cut}");
                assert_eq!(skipper.into_kept().as_deref(), Some(value.as_bytes()));
            }
        }
    }
}
