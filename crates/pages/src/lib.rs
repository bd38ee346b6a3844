//! The answer of `why` as one self-contained HTML page and as Markdown.
//!
//! * [`html`]: a page that opens from disk, requests nothing, and takes at most [`MOST_BYTES`];
//! * [`markdown()`]: the answer for a pull request, an issue or the summary of a job.
//!
//! Both show a [`findings::Document`] and compute nothing: every number of the page carries the place in the JSON that it was
//! taken from (`data-path`, a JSON pointer) and its exact value (`data-v`). Widths and positions in figures follow from
//! numbers of the document.
//!
//! All text of the document is untrusted: it is escaped, cut to a length, and isolated from the direction of the text around
//! it. The content security policy of the page allows its own script, by hash, and nothing from elsewhere. Without scripts
//! the page reads from top to bottom; scripts add zoom, search and sorting.
//!
//! Out of scope: choosing, ranking or wording findings.
//!
//! ```
//! let mut document = findings::Document::default();
//! document.answer.sentence = "Decode steps take 41.2 ms.".to_owned();
//! let page = pages::html(&document);
//! assert!(page.contains("Decode steps take 41.2 ms.") && page.len() < pages::MOST_BYTES);
//! assert!(pages::markdown(&document).starts_with("### Decode steps take 41.2 ms."));
//! ```

mod classes;
mod markdown;
mod page;
mod parts;
mod shown;

use findings::Document;

/// Maximum size of a page in bytes.
pub const MOST_BYTES: usize = 2_000_000;

/// Returns the page. Figures and tables show fewer rows, and say so, where it would exceed [`MOST_BYTES`].
#[must_use]
pub fn html(document: &Document) -> String {
    page::html(document)
}

/// Returns the answer, the budget, the findings and the next commands as Markdown for GitHub: headings from the third level,
/// names that mention nobody and link nowhere.
#[must_use]
pub fn markdown(document: &Document) -> String {
    markdown::write(document)
}
