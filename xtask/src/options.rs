//! Parses options of the form `--name value` and `--name`, for the few commands that have any.

use anyhow::{Context as _, Result, bail};

/// The arguments of a command.
pub(crate) struct Options {
    values: Vec<(String, Option<String>)>,
    /// Arguments that are not options, in order.
    pub(crate) words: Vec<String>,
}

impl Options {
    /// Splits `args`; `flags` take no value, `valued` take one, anything else that starts with `--` is an error.
    pub(crate) fn parse(args: &[String], flags: &[&str], valued: &[&str]) -> Result<Self> {
        let mut options = Self {
            values: Vec::new(),
            words: Vec::new(),
        };
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            match arg.strip_prefix("--") {
                None => options.words.push(arg.clone()),
                Some(name) if flags.contains(&name) => options.values.push((name.to_owned(), None)),
                Some(name) if valued.contains(&name) => {
                    let value = args
                        .next()
                        .with_context(|| format!("--{name} needs a value"))?;
                    options.values.push((name.to_owned(), Some(value.clone())));
                }
                Some(name) => bail!(
                    "no option --{name} here; known: --{}",
                    [flags, valued].concat().join(", --")
                ),
            }
        }
        Ok(options)
    }

    /// Returns `true` if a flag was given.
    pub(crate) fn flag(&self, name: &str) -> bool {
        self.values.iter().any(|(given, _)| given == name)
    }

    /// Returns the last value given for an option.
    pub(crate) fn value(&self, name: &str) -> Option<&str> {
        self.values
            .iter()
            .rev()
            .find(|(given, _)| given == name)
            .and_then(|(_, value)| value.as_deref())
    }

    /// Returns all values given for an option.
    pub(crate) fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.values
            .iter()
            .filter(move |(given, _)| given == name)
            .filter_map(|(_, value)| value.as_deref())
    }

    /// Parses a number with an optional suffix k, M or G (powers of ten) and decimals, such as
    /// `4.5G`.
    pub(crate) fn number(&self, name: &str) -> Result<Option<u64>> {
        self.value(name)
            .map(|text| number(text).with_context(|| format!("--{name} {text} is no number")))
            .transpose()
    }
}

fn number(text: &str) -> Option<u64> {
    let (digits, scale) = match text.strip_suffix(['k', 'M', 'G']) {
        Some(digits) if text.ends_with('k') => (digits, 3),
        Some(digits) if text.ends_with('M') => (digits, 6),
        Some(digits) => (digits, 9),
        None => (text, 0),
    };
    let (whole, part) = digits.split_once('.').unwrap_or((digits, ""));
    let zeros = "0".repeat(usize::checked_sub(scale, part.len())?);
    format!("{whole}{part}{zeros}").parse().ok()
}

#[cfg(test)]
mod tests {
    use super::{Options, number};

    #[test]
    fn numbers_have_suffixes() {
        assert_eq!(number("4.5G"), Some(4_500_000_000));
        assert_eq!(number("200k"), Some(200_000));
        assert_eq!(number("7"), Some(7));
        assert_eq!(number("1.5"), None);
        assert_eq!(number("x"), None);
    }

    #[test]
    fn unknown_options_are_named() {
        let args = ["--evnts".to_owned()];
        let error = Options::parse(&args, &["save"], &["events"])
            .err()
            .expect("an error");
        assert_eq!(
            error.to_string(),
            "no option --evnts here; known: --save, --events"
        );
    }
}
