//! The documentation of the tables.

use std::fmt::Write as _;

use super::{
    CATALOGUE_VERSION, ColumnSpec, FAILURES, FAILURES_COLUMNS, FAILURES_DOC, TABLES, VIEWS,
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
        "## Views\n\nWith the names and columns of Perfetto's trace processor, so that plain PerfettoSQL runs unchanged. `args` has its \
         columns as well.\n\n| view | rows | as |\n|---|---|---|\n",
    );
    for view in VIEWS {
        let _ = writeln!(out, "| `{}` | {} | `{}` |", view.name, view.doc, view.sql);
    }
    out.push_str(FUNCTIONS);
    out
}
