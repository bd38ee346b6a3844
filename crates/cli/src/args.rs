//! Groups of arguments that mean the same in every tool; flatten the ones a tool needs.

use std::num::{NonZeroU64, NonZeroUsize};
use std::path::PathBuf;
use std::sync::Arc;

use byte_source::{OpenOptions, Progress};
use clap::{Args, ValueEnum};

use crate::output::Output;
use crate::size::ByteSize;
use crate::terminal;

/// An enumeration of output formats that includes JSON.
pub trait HasJson: ValueEnum + Default + Clone + Send + Sync + 'static {
    /// The format of `--json`.
    const JSON: Self;
}

/// The formats of most tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum Format {
    /// Aligned text for people
    #[default]
    Text,
    /// One JSON document, exact values
    Json,
    /// Comma-separated values with a header line, exact values
    Csv,
}

impl HasJson for Format {
    const JSON: Self = Self::Json;
}

/// `--format FORMAT` and `--json`.
///
/// A tool with formats other than [`Format`] uses its own enumeration.
#[derive(Debug, Clone, Args)]
pub struct FormatArgs<F: HasJson = Format> {
    /// Format of the result; the first one listed unless given
    // Not `default_value_t`: clap keeps that in a static, which all `F` of one program would share.
    #[arg(long, value_enum, value_name = "FORMAT", help_heading = "Output")]
    format: Option<F>,
    /// Short for --format json
    #[arg(long, conflicts_with = "format", help_heading = "Output")]
    json: bool,
}

impl<F: HasJson> FormatArgs<F> {
    /// Returns the requested format, or the default.
    pub fn format(&self) -> F {
        self.format_or(F::default())
    }

    /// Returns the requested format, or `unless_given`.
    pub fn format_or(&self, unless_given: F) -> F {
        if self.json {
            F::JSON
        } else {
            self.format.clone().unwrap_or(unless_given)
        }
    }
}

/// `-o FILE`.
#[derive(Debug, Clone, Default, Args)]
pub struct OutputArgs {
    /// Write the result to FILE, complete or not at all ('-' is standard output)
    #[arg(short, long, value_name = "FILE", help_heading = "Output")]
    pub output: Option<PathBuf>,
}

impl OutputArgs {
    /// Opens the destination: the file, or standard output if none is given.
    ///
    /// # Errors
    ///
    /// Returns an error if the file cannot be created; see [`Output::file`].
    pub fn open(&self) -> anyhow::Result<Output> {
        match &self.output {
            Some(path) if path.as_os_str() != "-" => Output::file(path),
            _ => Ok(Output::stdout()),
        }
    }
}

/// `--max-uncompressed SIZE`, `--max-ratio N`, `--threads N`, `--strict`.
#[derive(Debug, Clone, Default, Args)]
pub struct InputArgs {
    /// Maximum number of bytes one input may decompress to, for trusted input beyond the default of 64G
    #[arg(long, value_name = "SIZE", help_heading = "Input")]
    pub max_uncompressed: Option<ByteSize>,
    /// Maximum number of bytes that one compressed byte may become, for trusted input beyond the default of 1000
    #[arg(long, value_name = "N", help_heading = "Input")]
    pub max_ratio: Option<NonZeroU64>,
    /// Threads to work with [default: all cores]
    #[arg(long, value_name = "N", help_heading = "Input")]
    pub threads: Option<NonZeroUsize>,
    /// Fail on the first damaged or malformed piece of input
    #[arg(long, help_heading = "Input")]
    pub strict: bool,
}

impl InputArgs {
    /// Returns the options for opening sources: limits, and a counter to display.
    ///
    /// The size limit does not change the ratio limit: an input that expands like a decompression
    /// bomb is rejected until both allow it.
    pub fn open_options(&self, progress: Option<Arc<Progress>>) -> OpenOptions {
        let mut options = OpenOptions::default();
        options.progress = progress;
        if let Some(size) = self.max_uncompressed {
            options.limits.max_uncompressed_bytes = size.bytes();
        }
        if let Some(ratio) = self.max_ratio {
            options.limits.max_ratio = Some(ratio.get());
        }
        options
    }

    /// Returns the requested number of threads, or one per core that the process may use.
    pub fn threads(&self) -> NonZeroUsize {
        self.threads
            .or_else(|| std::thread::available_parallelism().ok())
            .unwrap_or(NonZeroUsize::MIN)
    }

    /// Returns the words of a command line that make another process read inputs as this one does, one a line; threads are its own matter.
    #[must_use]
    pub fn words(&self) -> String {
        let mut words = Vec::new();
        if self.strict {
            words.push("--strict".to_owned());
        }
        if let Some(size) = self.max_uncompressed {
            words.extend(["--max-uncompressed".to_owned(), size.bytes().to_string()]);
        }
        if let Some(ratio) = self.max_ratio {
            words.extend(["--max-ratio".to_owned(), ratio.to_string()]);
        }
        words.join("\n")
    }

    /// Reads what [`Self::words`] returns.
    ///
    /// # Errors
    ///
    /// Returns the sentence of the parser on words of another version.
    pub fn of_words(words: &str) -> Result<Self, String> {
        /// The arguments alone.
        #[derive(clap::Parser)]
        struct Only {
            #[command(flatten)]
            input: InputArgs,
        }
        let words = ["input"].into_iter().chain(words.lines());
        let read = <Only as clap::Parser>::try_parse_from(words);
        read.map(|only| only.input)
            .map_err(|error| error.to_string().trim().to_owned())
    }

    /// Shares the threads among inputs that are read at once: returns how many are, and the options of each.
    #[must_use]
    pub fn shared_by(&self, inputs: usize) -> (usize, Self) {
        let threads = self.threads().get();
        let workers = threads.min(inputs).max(1);
        let each = Self {
            threads: NonZeroUsize::new(threads.div_ceil(workers)),
            ..self.clone()
        };
        (workers, each)
    }
}

/// `-q` and `-v`.
#[derive(Debug, Clone, Copy, Default, Args)]
pub struct VerbosityArgs {
    /// Say nothing on standard error but errors
    #[arg(short, long, conflicts_with = "verbose", help_heading = "Output")]
    pub quiet: bool,
    /// Say on standard error what was found and how long it took
    #[arg(short, long, help_heading = "Output")]
    pub verbose: bool,
}

impl VerbosityArgs {
    /// Prints a line on standard error unless `-q`.
    pub fn note(self, line: impl AsRef<str>) {
        if !self.quiet {
            terminal::say(line.as_ref());
        }
    }

    /// Prints a line on standard error with `-v`. The line is built only if it is printed.
    pub fn detail<S: AsRef<str>>(self, line: impl FnOnce() -> S) {
        if self.verbose {
            terminal::say(line().as_ref());
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Everything {
        #[command(flatten)]
        format: FormatArgs,
        #[command(flatten)]
        output: OutputArgs,
        #[command(flatten)]
        input: InputArgs,
        #[command(flatten)]
        verbosity: VerbosityArgs,
    }

    fn parse(line: &str) -> Result<Everything, clap::Error> {
        Everything::try_parse_from(std::iter::once("tool").chain(line.split_whitespace()))
    }

    #[test]
    fn formats() {
        let format = |line| parse(line).map(|args| args.format.format());
        assert_eq!(format("").unwrap(), Format::Text);
        assert_eq!(format("--json").unwrap(), Format::Json);
        assert_eq!(format("--format csv").unwrap(), Format::Csv);
        assert!(format("--json --format csv").is_err());
        assert!(format("--format xml").is_err());
    }

    #[test]
    fn other_processes_get_the_same_options() {
        let args = parse("--max-uncompressed 3M --max-ratio 7 --threads 3 --strict").unwrap();
        let again = InputArgs::of_words(&args.input.words()).unwrap();
        assert_eq!(again.words(), args.input.words());
        let size = |input: &InputArgs| input.max_uncompressed.unwrap().bytes();
        assert_eq!(size(&again), size(&args.input));
        assert!(again.strict && again.threads.is_none());
        assert_eq!(InputArgs::default().words(), "");
        assert!(InputArgs::of_words("--strict\n--later").is_err());
    }

    #[test]
    fn limits_and_threads() {
        let args = parse("--max-uncompressed 100G --max-ratio 5000 --threads 3 --strict").unwrap();
        let options = args.input.open_options(None);
        assert_eq!(options.limits.max_uncompressed_bytes, 100 << 30);
        assert_eq!(options.limits.max_ratio, Some(5000));
        let sized = parse("--max-uncompressed 100G").unwrap().input;
        let alarm = byte_source::Limits::default().max_ratio;
        assert_eq!(sized.open_options(None).limits.max_ratio, alarm);
        assert!(alarm.is_some());
        assert_eq!(args.input.threads().get(), 3);
        assert!(args.input.strict);
        let defaults = parse("").unwrap().input.open_options(None);
        assert_eq!(defaults.limits, byte_source::Limits::default());
        assert!(parse("--threads 0").is_err());
        assert!(parse("--max-uncompressed 1XB").is_err());
    }

    #[test]
    fn quiet_and_verbose_exclude_each_other() {
        assert!(parse("-v").unwrap().verbosity.verbose);
        assert!(parse("-qv").is_err());
    }
}
