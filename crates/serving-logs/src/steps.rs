//! Tables of steps with their workload.

use crate::Error;
use crate::csv::{Table, cell};

/// One step.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct StepRow {
    /// Start in µs; 0 if the table does not have it.
    pub start_us: f64,
    /// Duration in µs.
    pub duration_us: f64,
    /// Number of requests in the batch.
    pub batch: f64,
    /// Mean input length in tokens.
    pub input: f64,
    /// Mean output length in tokens.
    pub output: f64,
    /// `true` if the step processed prompts.
    pub prefill: bool,
}

/// Reads a table with the columns `duration_us`, `batch_size`, `avg_input_length`,
/// `avg_output_length`, and optionally `forward_mode` (1 prefill, 2 decode) and `start_ts`; names
/// may begin with `compute_`. Returns the steps and the number of rows that could not be read.
///
/// # Errors
///
/// Returns an error if the column `duration_us` or `batch_size` is missing, or a duration is
/// negative or not finite.
pub fn steps(text: &str) -> Result<(Vec<StepRow>, usize), Error> {
    let mut table = Table::new(text);
    let duration = table.needs("duration_us")?;
    let [batch, input, output, mode] = [
        "batch_size",
        "avg_input_length",
        "avg_output_length",
        "forward_mode",
    ]
    .map(|name| {
        table
            .column(&format!("compute_{name}"))
            .or_else(|| table.column(name))
    });
    if batch.is_none() {
        table.needs("batch_size")?;
    }
    let start = table.column("start_ts");
    let (mut steps, mut skipped) = (Vec::new(), 0);
    while let Some(row) = table.row() {
        let number = |column| cell(&row, column).parse::<f64>().ok();
        let (Some(duration_us), Some(batch)) = (number(Some(duration)), number(batch)) else {
            skipped += 1;
            continue;
        };
        if !(duration_us.is_finite() && duration_us >= 0.0) {
            return Err(Error::Duration {
                line: table.line(),
                value: cell(&row, Some(duration)).to_owned(),
            });
        }
        steps.push(StepRow {
            start_us: number(start).unwrap_or(0.0),
            duration_us,
            batch,
            input: number(input).unwrap_or(0.0),
            output: number(output).unwrap_or(0.0),
            prefill: number(mode).is_some_and(|m| (m - 1.0).abs() < 0.5),
        });
    }
    Ok((steps, skipped))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn impossible_durations_and_missing_columns_are_named() {
        let table = |value: &str| format!("\u{feff}duration_us;batch_size\n1.5;2\n\n{value};2\n");
        assert_eq!(steps(&table("3")).unwrap().0.len(), 2);
        for value in ["-1", "inf", "NaN"] {
            let error = steps(&table(value)).unwrap_err().to_string();
            assert!(
                error.starts_with("line 4: ") && error.contains(value),
                "{error}"
            );
        }
        for (names, lacks) in [
            ("a,batch_size", "duration_us"),
            ("duration_us,b", "batch_size"),
        ] {
            assert!(steps(names).unwrap_err().to_string().contains(lacks));
        }
    }

    #[test]
    fn both_ways_of_naming_columns_are_read() {
        let a = "start_ts,duration_us,compute_batch_size,compute_avg_input_length,compute_avg_output_length,compute_forward_mode\n1,100,4,8,2,1\n2,x,1,1,1,2\n";
        let (steps_a, skipped) = steps(a).unwrap();
        assert_eq!(skipped, 1);
        assert!(steps_a[0].prefill);
        let b = "job_name,start_ts,duration_us,batch_size,avg_input_length,avg_output_length\nj,1,100,4,8,2\n";
        let (steps_b, _) = steps(b).unwrap();
        assert!(!steps_b[0].prefill);
        assert_eq!(
            (steps_a[0].batch, steps_a[0].input, steps_a[0].output),
            (steps_b[0].batch, steps_b[0].input, steps_b[0].output)
        );
    }
}
