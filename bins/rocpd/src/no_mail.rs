//! Replaces `mail` in builds without it: a request for mail is refused before any other work.

use std::path::Path;

use crate::args::MailArgs;

/// A message; it has no values in this build.
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

/// Never called, since there is no letter.
pub(crate) fn send(letter: Letter, _: &MailArgs, _: &Path) -> anyhow::Result<()> {
    match letter {}
}
