//! Aligns two lists of kernel names.

/// Returns the name of a kernel without return type, template arguments, parameters and clone
/// suffixes.
pub fn kernel_stem(name: &str) -> String {
    let name = name.strip_prefix("void ").unwrap_or(name);
    let name = name.split(" [clone ").next().unwrap_or(name);
    let name = name.strip_suffix(".kd").unwrap_or(name);
    let mut out = String::with_capacity(name.len());
    let mut rest = name;
    while let Some(c) = rest.chars().next() {
        if let Some(after) = rest.strip_prefix("(anonymous namespace)") {
            out.push_str("(anonymous namespace)");
            rest = after;
            continue;
        }
        match c {
            '(' => break,
            // An unmatched bracket is part of the name (`operator<`).
            '<' => match closing(rest) {
                Some(after) => {
                    rest = after;
                    continue;
                }
                None => out.push(c),
            },
            _ => out.push(c),
        }
        rest = &rest[c.len_utf8()..];
    }
    out
}

/// Returns the text after the bracket that closes the one at the start of `text`.
fn closing(text: &str) -> Option<&str> {
    let mut depth = 0_usize;
    for (i, c) in text.char_indices() {
        match c {
            '<' => depth += 1,
            '>' if !text[..i].ends_with('-') => {
                depth = depth.checked_sub(1)?;
                if depth == 0 {
                    return Some(&text[i + 1..]);
                }
            }
            _ => {}
        }
    }
    None
}

/// Maximum number of edits between the lists. Beyond it the search gives up and returns only the
/// common beginning and end; this bounds time and memory at a few hundred million steps and tens of
/// megabytes.
const MOST_EDITS: usize = 3000;

/// Returns a longest common subsequence as ascending pairs of indices, by the greedy algorithm of
/// Myers (1986): time and memory grow with the number of differences, not with the product of the
/// lengths.
pub fn longest_common<T: PartialEq>(a: &[T], b: &[T]) -> Vec<(usize, usize)> {
    let head = a.iter().zip(b).take_while(|(x, y)| x == y).count();
    let (ra, rb) = (&a[head..], &b[head..]);
    let tail = ra
        .iter()
        .rev()
        .zip(rb.iter().rev())
        .take_while(|(x, y)| x == y)
        .count();
    let middle = myers(&ra[..ra.len() - tail], &rb[..rb.len() - tail]);
    let ends = (0..tail).rev().map(|i| (a.len() - 1 - i, b.len() - 1 - i));
    (0..head)
        .map(|i| (i, i))
        .chain(middle.into_iter().map(|(x, y)| (x + head, y + head)))
        .chain(ends)
        .collect()
}

fn myers<T: PartialEq>(a: &[T], b: &[T]) -> Vec<(usize, usize)> {
    let (n, m) = (a.len(), b.len());
    if n == 0 || m == 0 {
        return Vec::new();
    }
    // `furthest[k + d]` is the position along `a` on diagonal k (x - y) after d edits.
    let mut history: Vec<Vec<usize>> = Vec::new();
    let mut found = None;
    for d in 0..=(n + m).min(MOST_EDITS) {
        let mut row = vec![0_usize; 2 * d + 1];
        for i in (0..=2 * d).step_by(2) {
            // Diagonal k = i - d; in the row before, k + 1 is at i and k - 1 at i - 2.
            let before = |j: Option<usize>| {
                let row: &Vec<usize> = history.last()?;
                row.get(j?).copied()
            };
            let down = before(Some(i)).filter(|_| i < 2 * d);
            let right = before(i.checked_sub(2)).filter(|_| i > 0);
            let mut x = match (down, right) {
                (Some(x), Some(r)) => x.max(r + 1),
                (Some(x), None) => x,
                (None, Some(r)) => r + 1,
                (None, None) => 0,
            };
            // y = x - k; points left of or above the lists cannot be reached.
            let Some(mut y) = (x + d).checked_sub(i) else {
                continue;
            };
            while x < n && y < m && a[x] == b[y] {
                (x, y) = (x + 1, y + 1);
            }
            row[i] = x;
            // This is the diagonal on which both lists end.
            if x >= n && i + m == n + d {
                found = Some((d, i));
                break;
            }
        }
        history.push(row);
        if found.is_some() {
            break;
        }
    }
    let Some((last, mut i)) = found else {
        return Vec::new();
    };
    let mut pairs = Vec::new();
    let mut x = n;
    for d in (0..=last).rev() {
        let (entry, next) = if d == 0 {
            (0, 0)
        } else {
            let row = &history[d - 1];
            let down = row.get(i).copied().filter(|_| i < 2 * d);
            let right = i.checked_sub(2).and_then(|j| row.get(j)).copied();
            match (down, right) {
                (Some(x), Some(r)) if x > r => (x, i),
                (Some(x), None) => (x, i),
                (_, Some(r)) => (r + 1, i - 2),
                (None, None) => (0, 0),
            }
        };
        while x > entry {
            x -= 1;
            pairs.push((x, x + d - i));
        }
        if d == 0 {
            break;
        }
        x = if next == i { entry } else { entry - 1 };
        i = next;
    }
    pairs.reverse();
    pairs
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn stems() {
        for (name, want) in [
            ("void f<1, g<int> >(int*, T<2>)", "f"),
            (
                "void at::native::(anonymous namespace)::k<4>(char*)",
                "at::native::(anonymous namespace)::k",
            ),
            ("Cijk_Alik.kd", "Cijk_Alik"),
            ("f(int) [clone .isra.0]", "f"),
            ("operator<", "operator<"),
            ("k<&(silu(float const&))>(int)", "k"),
        ] {
            assert_eq!(kernel_stem(name), want);
        }
    }

    /// Computes the length by the textbook recurrence.
    fn slow(a: &[u8], b: &[u8]) -> usize {
        let mut best = vec![vec![0; b.len() + 1]; a.len() + 1];
        for i in 0..a.len() {
            for j in 0..b.len() {
                best[i + 1][j + 1] = if a[i] == b[j] {
                    best[i][j] + 1
                } else {
                    best[i][j + 1].max(best[i + 1][j])
                };
            }
        }
        best[a.len()][b.len()]
    }

    proptest! {
        #[test]
        fn is_a_common_subsequence_and_none_is_longer(
            a in prop::collection::vec(0_u8..4, 0..24),
            b in prop::collection::vec(0_u8..4, 0..24),
        ) {
            let pairs = longest_common(&a, &b);
            prop_assert!(pairs.iter().all(|&(i, j)| a[i] == b[j]));
            prop_assert!(pairs.windows(2).all(|w| w[0].0 < w[1].0 && w[0].1 < w[1].1));
            prop_assert_eq!(pairs.len(), slow(&a, &b));
        }
    }
}
