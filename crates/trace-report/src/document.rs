//! Documents: tables for programs, sentences, lines and narrower tables for text output.

use std::io::Write;

use gpu_time::{NoGpuWork, Note};
use report::human;
use report::text::wrapped;
use report::{
    CsvOptions, CsvWriter, JsonDocument, ParquetWriter, SchemaVersion, Table, TextOptions,
    TextWriter,
};

/// Width of text in characters.
const WIDTH: usize = 78;

/// How much of an answer is made: what one output shows.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Form {
    /// Sentences and the narrow tables: text, Markdown.
    #[default]
    Text,
    /// All tables with exact values: a JSON document.
    Tables,
    /// The main table with exact values: CSV, Parquet.
    MainTable,
}

impl Form {
    /// Returns `true` for text output.
    #[must_use]
    pub fn is_text(self) -> bool {
        self == Self::Text
    }
}

/// A block of the text.
#[derive(Debug)]
enum Block {
    /// A heading.
    Heading(String),
    /// The answer, as a sentence over the whole width.
    Sentence(String),
    /// A label on the left, text on the right.
    Line(String, String),
    /// A table with its title.
    Table(String, Table),
}

/// Results of an analysis, ready to be written in any format.
///
/// ```
/// use report::{Cell, Column, SchemaVersion, Table};
/// use trace_report::Document;
///
/// let mut table = Table::new("steps", vec![Column::text("step"), Column::uint("dur_ns")])?;
/// table.push(&[Cell::from("decode"), Cell::from(5_u64)])?;
/// let mut document = Document::new(SchemaVersion { major: 1, minor: 0 });
/// document.sentence("The only step takes 5 ns.");
/// document.push(table);
/// let (mut text, mut csv) = (Vec::new(), Vec::new());
/// document.write_text(None, &mut text)?;
/// document.write_csv(&mut csv)?;
/// assert_eq!(text, b"The only step takes 5 ns.\n");
/// assert_eq!(csv, b"step,dur_ns\ndecode,5\n");
/// # Ok::<(), report::Error>(())
/// ```
#[derive(Debug)]
pub struct Document {
    version: SchemaVersion,
    text: Vec<Block>,
    tables: Vec<Table>,
    csv: Option<(Table, &'static str)>,
}

impl Document {
    /// Creates an empty document; `version` is that of its tables.
    #[must_use]
    pub fn new(version: SchemaVersion) -> Self {
        Self {
            version,
            text: Vec::new(),
            tables: Vec::new(),
            csv: None,
        }
    }

    /// Returns the version of the tables.
    #[must_use]
    pub fn version(&self) -> SchemaVersion {
        self.version
    }

    /// Returns the tables for programs, the main one first.
    #[must_use]
    pub fn tables(&self) -> &[Table] {
        &self.tables
    }

    /// Returns the tables for programs, the main one first, without the text.
    #[must_use]
    pub fn into_tables(self) -> Vec<Table> {
        self.tables
    }

    /// Returns the answers in words, in order.
    pub fn sentences(&self) -> impl Iterator<Item = &str> {
        self.text.iter().filter_map(|block| match block {
            Block::Sentence(text) => Some(text.as_str()),
            _ => None,
        })
    }

    /// Adds a heading to the text, such as the name of a trace.
    pub fn heading(&mut self, text: &str) {
        self.text.push(Block::Heading(text.to_owned()));
    }

    /// Adds the answer as a sentence.
    pub fn sentence(&mut self, text: impl Into<String>) {
        self.text.push(Block::Sentence(text.into()));
    }

    /// Adds a line of text with a label.
    pub fn line(&mut self, label: &str, text: impl Into<String>) {
        self.text.push(Block::Line(label.to_owned(), text.into()));
    }

    /// Adds a line for each note, with its count unless the text contains it.
    pub fn notes(&mut self, notes: &[Note]) {
        for note in notes {
            let text = match note.count {
                Some(count) if note.code != "counted" => {
                    format!("{} {}", human::count(count), note.text)
                }
                _ => note.text.clone(),
            };
            self.line(note.code, text);
        }
    }

    /// Adds the reason for missing GPU activity in place of tables that would show only zeros. Returns `true` if there is one.
    pub fn reason(&mut self, why: Option<&NoGpuWork>) -> bool {
        if let Some(why) = why {
            self.line("empty", why.text.clone());
        }
        why.is_some()
    }

    /// Adds a table to the text.
    pub fn table(&mut self, title: &str, table: Table) {
        self.text.push(Block::Table(title.to_owned(), table));
    }

    /// Adds a table for programs. The first is the main one: CSV and Parquet contain that table.
    pub fn push(&mut self, table: Table) {
        self.tables.push(table);
    }

    /// Sets the table for CSV if it is not the main one, and its text for null.
    pub fn set_csv(&mut self, table: Table, null: &'static str) {
        self.csv = Some((table, null));
    }

    /// Writes all tables for programs as one JSON document.
    ///
    /// # Errors
    ///
    /// Returns an error if `out` cannot be written.
    pub fn write_json(&self, out: &mut dyn Write) -> report::Result<()> {
        let mut document = JsonDocument::new(out, self.version)?;
        for table in &self.tables {
            document.table(table.name(), table)?;
        }
        document.finish()?;
        Ok(())
    }

    /// Writes the main table, or the one of [`set_csv`](Self::set_csv), as comma-separated values.
    ///
    /// # Errors
    ///
    /// Returns an error if `out` cannot be written.
    pub fn write_csv(&self, out: &mut dyn Write) -> report::Result<()> {
        let main = self.tables.first().map(|table| (table, ""));
        let special = self.csv.as_ref().map(|(table, null)| (table, *null));
        if let Some((table, null)) = special.or(main) {
            let options = CsvOptions {
                null: null.into(),
                ..CsvOptions::default()
            };
            table.write_to(&mut CsvWriter::new(out, options))?;
        }
        Ok(())
    }

    /// Writes the main table as a Parquet file.
    ///
    /// # Errors
    ///
    /// Returns an error if `out` cannot be written.
    pub fn write_parquet(&self, out: &mut (dyn Write + Send)) -> report::Result<()> {
        match self.tables.first() {
            Some(main) => main.write_to(&mut ParquetWriter::new(out, self.version)),
            None => Ok(()),
        }
    }

    /// Writes the text; tables are at most `table_width` characters wide.
    ///
    /// # Errors
    ///
    /// Returns an error if `out` cannot be written.
    pub fn write_text(
        &self,
        table_width: Option<usize>,
        out: &mut dyn Write,
    ) -> report::Result<()> {
        self.people(out, table_width, false)
    }

    /// Writes the text as Markdown.
    ///
    /// # Errors
    ///
    /// Returns an error if `out` cannot be written.
    pub fn write_markdown(&self, out: &mut dyn Write) -> report::Result<()> {
        self.people(out, None, true)
    }

    fn people(
        &self,
        out: &mut dyn Write,
        width: Option<usize>,
        markdown: bool,
    ) -> report::Result<()> {
        let labels = self.text.iter().filter_map(|block| match block {
            Block::Line(label, _) => Some(label.chars().count()),
            _ => None,
        });
        let label_width = labels.max().unwrap_or(0) + 2;
        // Words that stand above a table without rows say why it has none.
        let has_words = |at: usize| {
            let above = self.text.iter().take(at).rev();
            let mut above = above.take_while(|block| !matches!(block, Block::Heading(_)));
            above.any(|block| matches!(block, Block::Sentence(_) | Block::Line(..)))
        };
        for (at, block) in self.text.iter().enumerate() {
            match block {
                Block::Table(_, table) if table.rows() == 0 && has_words(at) => {}
                Block::Heading(text) => {
                    if at > 0 {
                        writeln!(out)?;
                    }
                    let mark = if markdown { "# " } else { "" };
                    writeln!(out, "{mark}{text}")?;
                    if markdown {
                        writeln!(out)?;
                    }
                }
                Block::Sentence(text) if markdown => writeln!(out, "{text}\n")?,
                Block::Sentence(text) => {
                    for part in wrapped(text, WIDTH) {
                        writeln!(out, "{part}")?;
                    }
                }
                Block::Line(label, text) if markdown => writeln!(out, "- {label}: {text}")?,
                Block::Line(label, text) => {
                    let room = WIDTH.saturating_sub(label_width).max(20);
                    for (i, part) in wrapped(text, room).iter().enumerate() {
                        let label = if i == 0 { label } else { "" };
                        writeln!(out, "  {label:<label_width$}{part}")?;
                    }
                }
                Block::Table(title, table) => {
                    if at > 0 {
                        writeln!(out)?;
                    }
                    match (markdown, title.as_str()) {
                        (_, "") => {}
                        (true, title) => writeln!(out, "## {title}\n")?,
                        (false, title) => writeln!(out, "{title}")?,
                    }
                    let options = TextOptions {
                        width,
                        markdown,
                        ..TextOptions::default()
                    };
                    table.write_to(&mut TextWriter::new(&mut *out, options))?;
                }
            }
        }
        Ok(())
    }
}
