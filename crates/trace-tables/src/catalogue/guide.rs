//! The documentation of the tables.

use std::fmt::Write as _;

use super::{
    BESIDE, CATALOGUE_VERSION, ColumnSpec, FAILURES, FAILURES_COLUMNS, FAILURES_DOC, TABLES, VIEWS,
};

/// What SQL has beside the tables.
const FUNCTIONS: &str = "
## Functions and rules

| function | result |
|---|---|
| `extract_arg(arg_set_id, key)` | an argument of a slice as text; `extract_arg_int` and `extract_arg_real` as a number |
| `str_split(text, separator, n)` | part `n` of a text, from 0 |
| `overlap_ns(ts, dur, ts, dur)` | length of the intersection of two spans |
| `FROM ancestor_slice(id)`, `FROM descendant_slice(id)` | the slices around or within one slice, given as a number |
| `group_concat(text, separator)` | `string_agg`; the separator is a comma if left out |

* Otherwise the language is that of [DataFusion](https://datafusion.apache.org/user-guide/sql/). The slices around many slices: walk `parent_id` with
  `WITH RECURSIVE`.
* Integers have 64 bits, and no result wraps: a sum, difference, product or `sum()` that does not fit is an error. Times since 1970 are so large that
  six add up to too much: take `sum(ts - 1700000000000000000)`, `avg(ts)`, or `sum(CAST(ts AS DECIMAL(38, 0)))`.
* `GLOB` works with a literal pattern. `LIKE` distinguishes case, as in other engines; in a query over Perfetto's views it does not, as in Perfetto.
  There null also sorts before all values; elsewhere it sorts behind them.
* Perfetto's modules, macros and `SPAN_JOIN` are refused with what to write instead.
* Statements that write or read other files are refused unless `--allow-write DIR` names their folder. Views and tables of one's own last as long as
  the command or the prompt.
* A query over several files runs over all of them: group by `rank` or `file_id`. A file that cannot be read is named, and the others answer; files
  that end early or lost events are named with what is wrong. Of a data set, parts that are missing or cut are named.
* Files of one folder are one `run`. Where two folders have one name, as many of the folders around them are added as tell them apart.
";

fn describe<'c>(
    out: &mut String,
    name: &str,
    doc: &str,
    columns: impl Iterator<Item = &'c ColumnSpec>,
) {
    let _ = writeln!(
        out,
        "## {name}\n\n{doc}\n\n| column | type | unit | |\n|---|---|---|---|"
    );
    for column in columns {
        let _ = writeln!(
            out,
            "| `{}` | {} | {} | {} |",
            column.name,
            column.ty.sql(),
            column.unit,
            column.doc.replace('|', "\\|"),
        );
    }
    out.push('\n');
}

/// The tables of databases, whose columns are those of the file.
const DATABASES: &str = "## Tables of databases

The tables of rocPD databases and of exports of Nsight Systems (SQLite, and folders of Parquet files) have the names and columns that they
have in the file, behind a column `file`: the path as given. `SHOW TABLES` lists them, `DESCRIBE` shows their columns.

* The rows of several files follow each other in the order of the files; columns are joined by name, and one that a file lacks is null.
* Types are those that the columns are declared with, widened by the values of the first 10,000 rows of each file: `BIGINT`, `DOUBLE`, `VARCHAR`, `BYTEA`.
  A later value that does not fit its column is null; such values are counted and named. Bytes of texts that are not UTF-8 read as U+FFFD.
* Case counts in DataFusion, and names without quotes become lower case. Names of these tables and of their columns are found without quotes all the
  same: `SELECT correlationId FROM CUPTI_ACTIVITY_KIND_KERNEL`. Where two names differ in case alone, or the name is a keyword, write it in quotes.
* Tables of rocPD have their names without the suffix of the process (`rocpd_kernel_dispatch`), and the views of the format are there as well,
  each over the databases of one file. Where the catalogue has a table of that name already, that one wins, and the other is found with
  `rocpd_` in front: `rocpd_kernels`, `rocpd_steps` and so on, or `nsys_` for a table of Nsight Systems.
* What holds the environment, command lines or output of processes is never read: of Nsight Systems `META_DATA_*`, `EXPORT_*`, `TARGET_INFO_SYSTEM_ENV`,
  `ProcessStreams`, `ANALYSIS_FILE`, `DIAGNOSTIC_EVENT` and `OSRT_FILE_ACCESS_DESCRIPTORS`, and of `StringIds` the rows that no column for names of
  kernels, calls, ranges, threads and symbols refers to; of rocPD the column `environment`.

";

/// Returns the documentation of all tables as Markdown.
#[must_use]
pub fn markdown() -> String {
    let mut out = String::from(
        "# Tables\n\nGenerated from the catalogue in `crates/trace-tables`; a test keeps it equal. The same tables, columns and types \
         in `inferscope sql`\nand in the Parquet files of `inferscope export` (`DIR/table=NAME/run=RUN/rank=RANK/part-NUMBER.parquet`, with `DIR/manifest.json`).\n\n",
    );
    // Writing to a String cannot fail.
    let _ = writeln!(
        out,
        "Version of the catalogue: {CATALOGUE_VERSION}. Times and durations are whole nanoseconds of the file's own clock \
         (`files.base_time_ns` leads to\nUnix time), sizes are bytes, both 64-bit signed integers. Every column may be null. Ids are \
         unique over all files of a query or\ndata set: those of the first file count from 0, as in Perfetto.\n"
    );
    for table in TABLES {
        describe(&mut out, table.name, table.doc, table.columns());
    }
    describe(&mut out, FAILURES, FAILURES_DOC, FAILURES_COLUMNS.iter());
    out.push_str(
        "## Tables beside those of recordings\n\nThey are made only when a query asks for them, and are empty where nothing that they are of was given. \
         A data set has `findings`\nif it was asked for (`inferscope export --tables all,findings`), and none of the others.\n\n",
    );
    for table in BESIDE {
        describe(&mut out, table.name, table.doc, table.columns());
    }
    out.push_str(DATABASES);
    out.push_str(
        "## Views\n\nWith the names and columns of Perfetto's trace processor, so that plain PerfettoSQL runs unchanged. `args` has its \
         columns as well.\n\n| view | rows | as |\n|---|---|---|\n",
    );
    for view in VIEWS {
        let _ = writeln!(out, "| `{}` | {} | `{}` |", view.name, view.doc, view.sql);
    }
    out.push_str(FUNCTIONS);
    out
}
