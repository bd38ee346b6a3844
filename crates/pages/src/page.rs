//! The page as a whole: head, order of the sections, size.

use std::fmt::Write as _;

use charts::escape;
use findings::Document;
use sha2::{Digest as _, Sha256};

use crate::MOST_BYTES;
use crate::classes::Classes;
use crate::parts;
use crate::shown;

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// What the sections are made of.
pub(crate) struct View<'a> {
    pub(crate) document: &'a Document,
    pub(crate) classes: Classes,
    /// How often the number of rows was halved to keep the page small.
    halved: u32,
}

impl View<'_> {
    /// Returns the number of rows to show where `rows` are shown at full size.
    pub(crate) fn most(&self, rows: usize) -> usize {
        rows.checked_shr(self.halved).unwrap_or(0)
    }
}

/// A section.
pub(crate) struct Section {
    pub(crate) anchor: &'static str,
    pub(crate) heading: &'static str,
    pub(crate) body: String,
}

impl Section {
    /// Creates a section; none if there is nothing to show.
    pub(crate) fn new(anchor: &'static str, heading: &'static str, body: String) -> Option<Self> {
        (!body.is_empty()).then_some(Self {
            anchor,
            heading,
            body,
        })
    }
}

pub(crate) fn html(document: &Document) -> String {
    let mut view = View {
        document,
        classes: Classes::new(document),
        halved: 0,
    };
    loop {
        let page = write(&view);
        // All lists are cut to a length, so halving ends below the limit.
        if page.len() <= MOST_BYTES || view.halved == 12 {
            return page;
        }
        view.halved += 1;
    }
}

fn write(view: &View<'_>) -> String {
    let sections: Vec<Section> = [
        parts::budget::section(view),
        parts::findings::section(view),
        parts::timeline::section(view),
        parts::series::steps(view),
        parts::lateness::section(view),
        parts::roofline::section(view),
        parts::tables::kernels(view),
        parts::stacks::section(view),
        parts::tables::host(view),
        parts::series::memory(view),
        parts::storage::section(view),
        parts::logs::section(view),
        parts::comparison::section(view),
        parts::closing::missing(view),
        parts::closing::appendix(view),
    ]
    .into_iter()
    .flatten()
    .collect();
    let mut out = String::new();
    head(&mut out, view);
    out.push_str("<body>\n<div class=\"sheet\">\n");
    out.push_str(&parts::answer::header(view));
    out.push_str("<nav aria-label=\"Contents\"><ul>\n");
    for section in &sections {
        // Writing into a String cannot fail, here and below.
        let _ = writeln!(
            out,
            "<li><a href=\"#{}\">{}</a></li>",
            section.anchor, section.heading
        );
    }
    out.push_str("</ul></nav>\n<main>\n");
    for Section {
        anchor,
        heading,
        body,
    } in &sections
    {
        let _ = writeln!(
            out,
            "<section id=\"{anchor}\" aria-labelledby=\"{anchor}-h\">\n<h2 id=\"{anchor}-h\">{heading}</h2>\n{body}</section>"
        );
    }
    out.push_str("</main>\n</div>\n");
    let _ = write!(out, "<script>{SCRIPT}</script>\n</body>\n</html>\n");
    out
}

fn head(out: &mut String, view: &View<'_>) {
    let hash = base64(&Sha256::digest(SCRIPT.as_bytes()));
    let title = escape(&shown::cut(&view.document.answer.sentence, 90));
    let _ = write!(
        out,
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; \
         script-src 'sha256-{hash}'; img-src data:; base-uri 'none'; form-action 'none'\"/>\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n\
         <meta name=\"color-scheme\" content=\"light dark\"/>\n<meta name=\"referrer\" content=\"no-referrer\"/>\n\
         <link rel=\"icon\" href=\"data:,\"/>\n<title>{title}</title>\n<style>\n{STYLE}{}{}</style>\n</head>\n",
        charts::fluid::STYLE,
        view.classes.css()
    );
}

/// Returns base64 with padding, for hashes of a content security policy.
fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::new();
    for chunk in bytes.chunks(3) {
        let word = chunk
            .iter()
            .fold(0_u32, |word, byte| word << 8 | u32::from(*byte))
            << (8 * (3 - chunk.len()));
        for place in 0..4 {
            if place <= chunk.len() {
                let digit = usize::try_from(word >> (18 - 6 * place) & 63).unwrap_or(0);
                out.push(char::from(DIGITS[digit]));
            } else {
                out.push('=');
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::base64;

    /// The vectors of RFC 4648, section 10.
    #[test]
    fn base64_is_that_of_the_standard() {
        for (text, expected) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("fooba", "Zm9vYmE="),
            ("foobar", "Zm9vYmFy"),
        ] {
            assert_eq!(base64(text.as_bytes()), expected);
        }
    }
}
