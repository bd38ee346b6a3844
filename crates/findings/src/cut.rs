//! An answer cut to a number of rows, for programs and agents.

use crate::document::{Document, Figures};

/// Maximum size of a cut document as JSON, in bytes.
const BYTES: usize = 25_000;

/// Maximum number of rows of evidence of a finding of a cut document.
const EVIDENCE: usize = 3;

impl Document {
    /// Cuts the document to `rows` findings behind the finding `after`, without the rows of figures, and to 25 kB as JSON.
    /// `cursor` then is the finding to continue after, if others follow.
    #[must_use]
    pub fn cut(mut self, rows: usize, after: Option<&str>) -> Self {
        self.figures = Figures::default();
        if let Some(after) = after {
            let found = self.findings.iter().position(|finding| finding.id == after);
            self.findings.drain(..found.map_or(0, |at| at + 1));
        }
        let left = self.findings.len();
        self.findings.truncate(rows);
        for finding in &mut self.findings {
            finding.evidence.truncate(EVIDENCE);
            finding.place.stack.truncate(8);
        }
        let size = |document: &Self| serde_json::to_string(document).map_or(0, |text| text.len());
        while self.findings.len() > 1 && size(&self) > BYTES {
            self.findings.pop();
        }
        if size(&self) > BYTES {
            self.appendix.rules.clear();
            self.scope.files.truncate(8);
            self.trust.notes.truncate(4);
        }
        let is_cut = self.findings.len() < left;
        self.cursor = self
            .findings
            .last()
            .filter(|_| is_cut)
            .map(|finding| finding.id.clone());
        self
    }
}

#[cfg(test)]
mod tests {
    use crate::document::{Document, Finding};

    #[test]
    fn pages_of_a_cut_document_add_up() {
        let finding = |at: usize| Finding {
            id: format!("f{at}"),
            title: "x".repeat(900),
            ..Finding::default()
        };
        let whole = Document {
            findings: (0..70).map(finding).collect(),
            total: 70,
            ..Document::default()
        };
        let (mut seen, mut after) = (Vec::new(), None);
        loop {
            let page = whole.clone().cut(50, after.as_deref());
            assert!(serde_json::to_string(&page).unwrap().len() <= super::BYTES);
            assert_eq!(page.total, 70);
            seen.extend(page.findings.iter().map(|finding| finding.id.clone()));
            after = page.cursor;
            if after.is_none() {
                break;
            }
        }
        let all: Vec<String> = whole
            .findings
            .iter()
            .map(|finding| finding.id.clone())
            .collect();
        assert_eq!(seen, all);
    }
}
