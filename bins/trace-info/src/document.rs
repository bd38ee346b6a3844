//! Results of an analysis: tables for programs, lines and narrower tables for text output.

use std::io::Write;

use byte_source::output::AtomicFile;
use cli::Output;
use gpu_time::Note;
use report::human;
use report::text::wrapped;
use report::{
    CsvOptions, CsvWriter, JsonDocument, ParquetWriter, SchemaVersion, Table, TextOptions,
    TextWriter,
};

use crate::args::{ReportArgs, ReportFormat};

/// Destination of a document. It is opened before the trace is read, so that a wrong path fails at
/// once.
pub(crate) enum Destination {
    Stream(Output, ReportFormat),
    Parquet(AtomicFile),
}

impl Destination {
    pub(crate) fn open(args: &ReportArgs) -> anyhow::Result<Self> {
        let format = args.format.format();
        if format != ReportFormat::Parquet {
            return Ok(Self::Stream(args.output.open()?, format));
        }
        match &args.output.output {
            Some(path) if path.as_os_str() != "-" => Ok(Self::Parquet(AtomicFile::create(path)?)),
            _ => Err(cli::usage(
                "--format parquet needs --output FILE: Parquet is not written to standard output",
            )),
        }
    }
}

/// A block of the text.
pub(crate) enum Block {
    /// A heading.
    Heading(String),
    /// The answer, as a sentence over the whole width.
    Sentence(String),
    /// A label on the left, text on the right.
    Line(String, String),
    /// A table with its title.
    Table(String, Table),
}

/// Results of an analysis.
pub(crate) struct Document {
    pub(crate) version: SchemaVersion,
    /// Text output.
    pub(crate) text: Vec<Block>,
    /// Tables for programs. The first is the main one: CSV and Parquet contain that table.
    pub(crate) tables: Vec<Table>,
    /// The table for CSV if it is not the main one, and its text for null.
    pub(crate) csv: Option<(Table, &'static str)>,
}

impl Document {
    pub(crate) fn new(version: SchemaVersion) -> Self {
        Self {
            version,
            text: Vec::new(),
            tables: Vec::new(),
            csv: None,
        }
    }

    pub(crate) fn heading(&mut self, text: &str) {
        self.text.push(Block::Heading(text.to_owned()));
    }

    /// Adds the answer as a sentence.
    pub(crate) fn sentence(&mut self, text: impl Into<String>) {
        self.text.push(Block::Sentence(text.into()));
    }

    pub(crate) fn line(&mut self, label: &str, text: impl Into<String>) {
        self.text.push(Block::Line(label.to_owned(), text.into()));
    }

    /// Adds a line for each note, with its count unless the text contains it.
    pub(crate) fn notes(&mut self, notes: &[Note]) {
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

    pub(crate) fn table(&mut self, title: &str, table: Table) {
        self.text.push(Block::Table(title.to_owned(), table));
    }

    /// Writes the document in the format of the destination.
    pub(crate) fn write(self, to: Destination) -> anyhow::Result<()> {
        match to {
            Destination::Parquet(mut file) => {
                if let Some(main) = self.tables.first() {
                    main.write_to(&mut ParquetWriter::new(&mut file, self.version))?;
                }
                file.commit()?;
            }
            Destination::Stream(mut out, format) => {
                match format {
                    ReportFormat::Json if cli::in_process::is_active() && out.is_stdout() => {
                        self.give()
                    }
                    ReportFormat::Json => self.json(&mut out)?,
                    ReportFormat::Csv => self.csv(&mut out)?,
                    ReportFormat::Md => self.people(&mut out, true)?,
                    ReportFormat::Text | ReportFormat::Parquet => self.people(&mut out, false)?,
                }
                out.finish()?;
            }
        }
        Ok(())
    }

    /// Gives the tables of `--json`, and the answers in words, to the program that runs the tool.
    fn give(self) {
        let sentences = self.text.into_iter().filter_map(|block| match block {
            Block::Sentence(text) => Some(text),
            _ => None,
        });
        cli::in_process::give(self.version, self.tables, sentences.collect());
    }

    fn json(&self, out: &mut dyn Write) -> anyhow::Result<()> {
        let mut document = JsonDocument::new(out, self.version)?;
        for table in &self.tables {
            document.table(table.name(), table)?;
        }
        document.finish()?;
        Ok(())
    }

    fn csv(&self, out: &mut dyn Write) -> anyhow::Result<()> {
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

    fn people(&self, out: &mut dyn Write, markdown: bool) -> anyhow::Result<()> {
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
                    for part in wrapped(text, 78) {
                        writeln!(out, "{part}")?;
                    }
                }
                Block::Line(label, text) if markdown => writeln!(out, "- {label}: {text}")?,
                Block::Line(label, text) => {
                    let room = 78_usize.saturating_sub(label_width).max(20);
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
                        width: cli::terminal::table_width().filter(|_| !markdown),
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
