//! Results by mail.

use std::io::{Cursor, Write as _};
use std::path::Path;

use anyhow::Context as _;
use lettre::message::header::ContentType;
use lettre::message::{Attachment, MultiPart, SinglePart};
use lettre::transport::smtp::authentication::Credentials;
use lettre::{Message, SmtpTransport, Transport as _};

use crate::args::MailArgs;

/// Lines of a preview.
const PREVIEW_LINES: usize = 20;

/// Sends a file to everybody, through the server that was named.
pub(crate) fn send(args: &MailArgs, file: Option<&Path>) -> anyhow::Result<()> {
    let from = args.email_from.as_deref().unwrap_or_default();
    let mut message = Message::builder()
        .from(
            from.parse()
                .with_context(|| format!("--email-from {from}"))?,
        )
        .subject(&args.email_subject);
    for to in &args.email_to {
        let to = to.trim();
        message = message.to(to.parse().with_context(|| format!("--email-to {to}"))?);
    }
    let mut body = "The result of the query is attached.\n".to_owned();
    let mut parts = MultiPart::mixed().build();
    if let Some(path) = file {
        let bytes = std::fs::read(path).with_context(|| format!("{}", path.display()))?;
        if args.inline_preview {
            let text = String::from_utf8_lossy(&bytes);
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
        parts = parts.singlepart(SinglePart::plain(body));
        parts = parts.singlepart(Attachment::new(name).body(bytes, kind));
    } else {
        parts = parts.singlepart(SinglePart::plain(body));
    }
    let message = message.multipart(parts)?;
    let mut transport = SmtpTransport::builder_dangerous(&args.smtp_server).port(args.smtp_port);
    if let (Some(user), Some(password)) = (&args.smtp_user, &args.smtp_password) {
        transport = transport.credentials(Credentials::new(user.clone(), password.clone()));
    }
    transport
        .build()
        .send(&message)
        .with_context(|| format!("mail server {}:{}", args.smtp_server, args.smtp_port))?;
    Ok(())
}

fn packed(name: &str, bytes: &[u8]) -> anyhow::Result<Vec<u8>> {
    let mut zip = zip::ZipWriter::new(Cursor::new(Vec::new()));
    zip.start_file(name, zip::write::SimpleFileOptions::default())?;
    zip.write_all(bytes)?;
    Ok(zip.finish()?.into_inner())
}
