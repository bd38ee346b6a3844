//! Inputs that are named by URLs.

use std::collections::BTreeSet;
use std::ffi::OsString;

use byte_source::remote;
use clap::{Command, ValueHint};

/// Inputs in object stores during a run of a tool.
pub(crate) struct Objects(());

impl Objects {
    /// Makes URLs readable if this program was built with the feature `objects`, and forgets earlier runs.
    pub(crate) fn begin() -> Self {
        #[cfg(feature = "objects")]
        object_input::install();
        remote::begin();
        Self(())
    }
}

impl Drop for Objects {
    fn drop(&mut self) {
        remote::end();
    }
}

/// Takes user, password and query out of the URLs among the words of a command line, so that no name in an output or a message has
/// them. Values of options that are URLs and no inputs, such as those of webhooks, stay as they are.
pub(crate) fn without_secrets(words: Vec<OsString>, command: &Command) -> Vec<OsString> {
    if !words
        .iter()
        .any(|word| word.to_string_lossy().contains("://"))
    {
        return words;
    }
    if takes_addresses(command, &words) {
        return words;
    }
    let mut urls = BTreeSet::new();
    options_with_urls(command, &mut urls);
    let mut is_value = false;
    let mut out = Vec::with_capacity(words.len());
    for word in words {
        let was_value = std::mem::take(&mut is_value);
        let Some(text) = word.to_str() else {
            out.push(word);
            continue;
        };
        if urls.contains(text) {
            is_value = true;
        }
        // `--baseline=URL` as well as URL.
        let (option, value) = match text.split_once('=') {
            Some((option, value)) if option.starts_with('-') && !option.contains(':') => {
                (Some(option), value)
            }
            _ => (None, text),
        };
        let is_kept = was_value
            || option.is_some_and(|option| urls.contains(option))
            || value.contains(char::is_whitespace);
        if is_kept {
            out.push(word);
            continue;
        }
        let name = remote::named(value);
        out.push(match option {
            Some(option) => format!("{option}={name}").into(),
            None => name.into_owned().into(),
        });
    }
    out
}

/// Returns `true` if what is named without an option is an address to ask, and no input.
fn takes_addresses(command: &Command, words: &[OsString]) -> bool {
    let mut command = command;
    for word in words.iter().skip(1) {
        let inner = word.to_str().and_then(|name| command.find_subcommand(name));
        if let Some(inner) = inner {
            command = inner;
        }
    }
    command
        .get_positionals()
        .any(|arg| arg.get_value_hint() == ValueHint::Url)
}

fn options_with_urls(command: &Command, out: &mut BTreeSet<String>) {
    for arg in command.get_arguments() {
        if arg.get_value_hint() == ValueHint::Url {
            out.extend(arg.get_long().map(|name| format!("--{name}")));
            out.extend(arg.get_short().map(|name| format!("-{name}")));
        }
    }
    for inner in command.get_subcommands() {
        options_with_urls(inner, out);
    }
}

#[cfg(test)]
mod tests {
    use clap::Arg;

    use super::*;

    #[test]
    fn names_of_inputs_lose_their_secrets_and_webhooks_do_not() {
        let command = Command::new("tool").subcommand(
            Command::new("watch").arg(Arg::new("w").long("webhook").value_hint(ValueHint::Url)),
        );
        let words = [
            "tool",
            "watch",
            "https://u:p@h/a.json?sig=S",
            "--baseline=https://h/b.json?sig=S",
            "--webhook",
            "https://hooks/x?token=T",
            "--webhook=https://hooks/y?token=T",
            "SELECT 'https://h/c?d'",
            "s3://bucket/rank?.json",
        ];
        let found = without_secrets(words.iter().map(OsString::from).collect(), &command);
        let found: Vec<_> = found.iter().map(|word| word.to_str().unwrap()).collect();
        assert_eq!(
            found,
            [
                "tool",
                "watch",
                "https://h/a.json",
                "--baseline=https://h/b.json",
                "--webhook",
                "https://hooks/x?token=T",
                "--webhook=https://hooks/y?token=T",
                "SELECT 'https://h/c?d'",
                "s3://bucket/rank?.json",
            ]
        );
    }
}
