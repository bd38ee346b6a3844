//! Sends results by mail.

use std::io::{Cursor, Write as _};
use std::path::Path;

use anyhow::Context as _;
use cli::OrExit as _;
use lettre::message::header::ContentType;
use lettre::message::{Attachment, Mailbox, MessageBuilder, MultiPart, SinglePart};
use lettre::transport::smtp::authentication::Credentials;
use lettre::transport::smtp::client::{Tls, TlsParameters};
use lettre::{Message, SmtpTransport, Transport as _};

use crate::args::MailArgs;

/// Maximum number of lines of a preview.
const PREVIEW_LINES: usize = 20;

/// A message with sender, recipients and subject.
pub(crate) struct Letter(MessageBuilder);

/// Parses the addresses before any other work, so that an error costs nothing.
pub(crate) fn letter(args: &MailArgs) -> anyhow::Result<Option<Letter>> {
    if args.email_to.is_empty() {
        return Ok(None);
    }
    let read = |option: &str, address: &str| -> anyhow::Result<Mailbox> {
        let address = address.trim();
        let read = address.parse();
        read.with_context(|| format!("--{option} {address}"))
            .or_exit(cli::Outcome::Usage)
    };
    let from = args.email_from.as_deref().unwrap_or_default();
    let mut message = Message::builder()
        .from(read("email-from", from)?)
        .subject(&args.email_subject);
    for to in &args.email_to {
        message = message.to(read("email-to", to)?);
    }
    Ok(Some(Letter(message)))
}

/// Sends a file to all recipients, through the given server.
pub(crate) fn send(letter: Letter, args: &MailArgs, path: &Path) -> anyhow::Result<()> {
    let mut body = "The result of the query is attached.\n".to_owned();
    let bytes = std::fs::read(path).with_context(|| format!("{}", path.display()))?;
    // Formats other than text have no preview.
    if args.inline_preview
        && let Ok(text) = std::str::from_utf8(&bytes)
    {
        body.push('\n');
        for line in text.lines().take(PREVIEW_LINES) {
            body.push_str(line);
            body.push('\n');
        }
    }
    let name = path
        .file_name()
        .map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_default();
    let (name, bytes) = match args.zip_attachments {
        true => (format!("{name}.zip"), packed(&name, &bytes)?),
        false => (name, bytes),
    };
    let kind = ContentType::parse("application/octet-stream")?;
    let parts = MultiPart::mixed()
        .singlepart(SinglePart::plain(body))
        .singlepart(Attachment::new(name).body(bytes, kind));
    let message = letter.0.multipart(parts)?;
    // The builder has no encryption policy, since the policy is set next.
    let mut transport = SmtpTransport::builder_dangerous(&args.smtp_server)
        .port(args.smtp_port)
        .tls(encryption(args)?);
    if let (Some(user), Some(password)) = (&args.smtp_user, &args.smtp_password) {
        transport = transport.credentials(Credentials::new(user.clone(), password.clone()));
    }
    let sent = transport.build().send(&message);
    // Converted to text: a server that closes the connection must not be mistaken for a reader that
    // closed standard output.
    sent.map(|_| ())
        .map_err(|error| anyhow::anyhow!("{}", causes(&error)))
        .with_context(|| format!("mail server {}:{}", args.smtp_server, args.smtp_port))
        .or_exit(cli::Outcome::OutputFailed)
}

/// Port of mail over TLS from the first byte (RFC 8314).
const TLS_PORT: u16 = 465;

/// Returns the encryption of the connection: from the first byte on port 465, by mandatory STARTTLS
/// if there is a password, and by STARTTLS if the server offers it otherwise. A password is never
/// sent in clear text.
fn encryption(args: &MailArgs) -> anyhow::Result<Tls> {
    let parameters = TlsParameters::new(args.smtp_server.clone())
        .with_context(|| format!("TLS for mail server {}", args.smtp_server))?;
    Ok(if args.smtp_port == TLS_PORT {
        Tls::Wrapper(parameters)
    } else if args.smtp_user.is_some() {
        Tls::Required(parameters)
    } else {
        Tls::Opportunistic(parameters)
    })
}

/// Returns an error with its causes.
fn causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let cause_text = cause.to_string();
        if !text.ends_with(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        next = cause.source();
    }
    text
}

fn packed(name: &str, bytes: &[u8]) -> anyhow::Result<Vec<u8>> {
    let mut zip = zip::ZipWriter::new(Cursor::new(Vec::new()));
    zip.start_file(name, zip::write::SimpleFileOptions::default())?;
    zip.write_all(bytes)?;
    Ok(zip.finish()?.into_inner())
}
