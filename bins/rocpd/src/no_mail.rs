//! Stands in for `mail` in builds without it: a request for mail is refused before any work is done.

use std::path::Path;

use crate::args::MailArgs;

/// A message; there is none in this build.
pub(crate) enum Letter {}

/// Refuses to send mail.
pub(crate) fn letter(args: &MailArgs) -> anyhow::Result<Option<Letter>> {
    if args.email_to.is_empty() {
        return Ok(None);
    }
    Err(cli::cannot_answer(
        "--email-to: this build sends no mail: use `inferscope rocpd`, or build with the feature `mail`",
    ))
}

/// Is never called, since there is no letter.
pub(crate) fn send(letter: Letter, _: &MailArgs, _: &Path) -> anyhow::Result<()> {
    match letter {}
}
