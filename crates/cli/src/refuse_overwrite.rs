//! Refuses to overwrite an input.

use std::path::Path;

use crate::run::usage;

/// Refuses outputs that would replace one of the inputs, or each other. Standard input and output
/// (`-`), devices and folders are never replaced.
///
/// # Errors
///
/// Wrong usage, naming the output.
pub fn refuse_overwrite<I: AsRef<Path>, O: AsRef<Path>>(
    inputs: impl IntoIterator<Item = I>,
    outputs: impl IntoIterator<Item = O>,
) -> anyhow::Result<()> {
    let mut outputs: Vec<O> = outputs.into_iter().collect();
    outputs.retain(|path| {
        let path = path.as_ref();
        // Regular files under `/dev`, such as those of `/dev/shm`, are checked.
        path != Path::new("-") && (!path.starts_with("/dev") || path.is_file())
    });
    if outputs.is_empty() {
        return Ok(());
    }
    let inputs: Vec<I> = inputs.into_iter().collect();
    for (number, output) in outputs.iter().enumerate() {
        let output = output.as_ref();
        refuse_url(output)?;
        if inputs.iter().any(|input| is_same(input.as_ref(), output)) {
            return Err(usage(format!(
                "{}: an input, which the output would replace: name another output",
                output.display()
            )));
        }
        let mut earlier = outputs.iter().take(number);
        if earlier.any(|other| other.as_ref() == output) {
            return Err(usage(format!(
                "{}: named for two outputs: name another for one",
                output.display()
            )));
        }
    }
    Ok(())
}

/// Refuses an output that is a URL: results are written to local files and folders.
///
/// # Errors
///
/// Wrong usage, naming the output.
pub fn refuse_url(output: &Path) -> anyhow::Result<()> {
    match byte_source::remote::is_url(output) {
        true => Err(usage(format!(
            "{}: results are written to local folders and files: give one, and copy it to the bucket when it is complete",
            output.display()
        ))),
        false => Ok(()),
    }
}

/// Returns `true` if both paths denote the same existing file.
fn is_same(input: &Path, output: &Path) -> bool {
    let real = |path: &Path| path.canonicalize().ok().filter(|path| path.is_file());
    real(input).is_some_and(|input| real(output) == Some(input))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inputs_are_spared_by_any_of_their_names() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::write(at("trace"), "x").unwrap();
        let around = folder.path().join(".").join("trace");
        assert!(refuse_overwrite([at("trace")], [at("report")]).is_ok());
        assert!(refuse_overwrite([at("trace")], [around]).is_err());
        assert!(refuse_overwrite([at("missing")], [at("missing")]).is_ok());
        assert!(refuse_overwrite([at("trace")], [at("a"), at("a")]).is_err());
        assert!(refuse_overwrite([at("trace")], ["s3://bucket/report"]).is_err());
        assert!(refuse_overwrite(["-"], ["-", "/dev/null", "/dev/null"]).is_ok());
    }
}
