//! Numbers, paths and lists in words.

use report::human;

/// Returns a duration with four digits.
pub(crate) fn shown(ns: i64) -> String {
    human::duration(real(ns))
}

/// Returns an integer as a real, for statistics.
#[expect(clippy::cast_precision_loss, reason = "statistics and four digits")]
pub(crate) fn real(n: i64) -> f64 {
    n as f64
}

/// Returns a count as a real, for statistics.
#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^53")]
pub(crate) fn count(n: usize) -> f64 {
    n as f64
}

/// Returns the nearest integer.
#[expect(
    clippy::cast_possible_truncation,
    reason = "casts from reals saturate, which is what is wanted"
)]
pub(crate) fn nearest(value: f64) -> i64 {
    value.round() as i64
}

/// Returns a factor with up to four digits: `1.25`.
pub(crate) fn factor(value: f64) -> String {
    let text = format!("{value:.3}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    text.to_owned()
}

/// Returns a path as a word of a shell.
pub(crate) fn quoted(path: &str) -> String {
    let is_safe = |c: char| c.is_ascii_alphanumeric() || "/._-+=:@%,".contains(c);
    match !path.is_empty() && path.chars().all(is_safe) {
        true => path.to_owned(),
        false => format!("'{}'", path.replace('\'', "'\\''")),
    }
}

/// Maximum number of members that a sentence names.
const NAMED: usize = 6;

/// Returns ranks as text: `rank 3`, `ranks 1 to 4 and 9`, `ranks 1, 5, 9 and 20 more`.
pub(crate) fn ranks(ranks: &[u32]) -> String {
    let word = if ranks.len() == 1 { "rank" } else { "ranks" };
    let mut runs: Vec<(u32, u32)> = Vec::new();
    for rank in ranks {
        match runs.last_mut() {
            Some(last) if last.1.checked_add(1) == Some(*rank) => last.1 = *rank,
            _ => runs.push((*rank, *rank)),
        }
    }
    let named = runs.iter().take(NAMED);
    let mut texts: Vec<String> = named
        .clone()
        .map(|(from, to)| match to - from {
            0 => from.to_string(),
            1 => format!("{from}, {to}"),
            _ => format!("{from} to {to}"),
        })
        .collect();
    let told: usize = named.map(|(from, to)| (to - from) as usize + 1).sum();
    if told < ranks.len() {
        texts.push(format!(
            "{} more",
            human::count((ranks.len() - told) as u64)
        ));
    }
    format!("{word} {}", list(&texts))
}

/// Joins texts with commas and "and".
pub(crate) fn list(texts: &[String]) -> String {
    match texts {
        [] => String::new(),
        [one] => one.clone(),
        [head @ .., last] => format!("{} and {last}", head.join(", ")),
    }
}

/// Returns a count with its noun.
pub(crate) fn counted(n: usize, one: &str, several: &str) -> String {
    match n {
        1 => format!("1 {one}"),
        n => format!("{} {several}", human::count(n as u64)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_ranks_are_short() {
        assert_eq!(ranks(&[3]), "rank 3");
        assert_eq!(ranks(&[1, 2, 3, 4, 9]), "ranks 1 to 4 and 9");
        assert_eq!(ranks(&[1, 2]), "ranks 1, 2");
        assert_eq!(
            ranks(&[0, 2, 4, 6, 8, 10, 12, 14]),
            "ranks 0, 2, 4, 6, 8, 10 and 2 more"
        );
        assert_eq!(quoted("a b'c"), "'a b'\\''c'");
        assert_eq!(factor(1.25), "1.25");
        assert_eq!(factor(2.0), "2");
    }
}
