//! Names of kernels and functions in the engineer's words.

use trace_model::kernel::display_names;

use crate::numbers::plain;

/// Maximum number of characters of a name in a sentence.
const NAME: usize = 48;

/// Returns a short name of a host function: without the folder of its file.
pub(crate) fn function(name: &str) -> String {
    if name.is_empty() {
        return "host code without slices".to_owned();
    }
    // `vllm/v1/worker/gpu_model_runner.py(812): _prepare_inputs`
    let short = match name.split_once(".py(") {
        Some((file, rest)) => match rest.split_once("): ") {
            Some((_, function)) => {
                let file = file.rsplit(['/', '\\']).next().unwrap_or(file);
                format!("{function} ({file}.py)")
            }
            None => name.to_owned(),
        },
        None => name.to_owned(),
    };
    plain(&short, NAME)
}

/// Returns a short name of a kernel.
pub(crate) fn kernel(name: &str) -> String {
    let short = display_names([name]).remove(name);
    plain(short.as_deref().unwrap_or(name), NAME)
}

/// Returns short names of two kernels that differ where the names do.
pub(crate) fn two_kernels(first: &str, second: &str) -> [String; 2] {
    let short = display_names([first, second]);
    [first, second].map(|name| plain(short.get(name).map_or(name, String::as_str), NAME))
}

/// Returns a path for a command line of a shell.
pub(crate) fn quoted(path: &str) -> String {
    let is_safe = |c: char| c.is_ascii_alphanumeric() || "/._-+=:@%!,".contains(c);
    match !path.is_empty() && path.chars().all(|c| is_safe(c) && c != '!') {
        true => path.to_owned(),
        false => format!("'{}'", path.replace('\'', "'\\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_lose_their_folders() {
        let name = "vllm/v1/worker/gpu_model_runner.py(812): _prepare_inputs";
        assert_eq!(function(name), "_prepare_inputs (gpu_model_runner.py)");
        assert_eq!(function("aten::item"), "aten::item");
        assert_eq!(function(""), "host code without slices");
    }

    #[test]
    fn paths_survive_a_shell() {
        assert_eq!(quoted("run/rank0.json.gz"), "run/rank0.json.gz");
        assert_eq!(quoted("a b!c"), "'a b!c'");
        assert_eq!(quoted("it's"), "'it'\\''s'");
    }
}
