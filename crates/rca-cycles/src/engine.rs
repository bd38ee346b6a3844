//! Engines by rules that are data: which calls are steps, and what tells their phase.

use trace_model::Waiting;
use trace_model::kernel::NamePattern;

/// The rules that come with the crate, in the form that [`parse`] reads.
pub const BUILT_IN: &str = include_str!("../rules/engines.rules");

/// How one engine's steps look.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Engine {
    /// Name of the engine.
    pub name: String,
    /// One step.
    pub step: Vec<NamePattern>,
    /// A call at whose end a step begins.
    pub after: Vec<NamePattern>,
    /// Calls that open a step.
    pub begin: Vec<NamePattern>,
    /// Calls that belong to the step before them.
    pub result: Vec<NamePattern>,
    /// Names inside a prefill.
    pub prefill: Vec<NamePattern>,
    /// Names inside a decode step.
    pub decode: Vec<NamePattern>,
    /// Names inside a step that is both.
    pub mixed: Vec<NamePattern>,
}

/// Why rules cannot be read.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RuleError {
    /// A line begins with none of the known words.
    #[error(
        "line {line}: {word:?} is no rule; use engine, step, after, begin, result, prefill, decode or mixed"
    )]
    UnknownWord {
        /// Line number from 1.
        line: usize,
        /// The word.
        word: String,
    },
    /// A rule stands before the first engine.
    #[error("line {line}: a rule before the first engine; begin with a line 'engine NAME'")]
    NoEngine {
        /// Line number from 1.
        line: usize,
    },
}

/// Reads rules: a line `engine NAME`, then lines of a word and patterns separated by ` | `.
/// Empty lines and lines that begin with `#` mean nothing.
///
/// # Errors
///
/// A line of another form, by number.
///
/// ```
/// let engines = rca_cycles::engine::parse("engine mine\nstep  Loop.tick | *loop.py(*): tick")?;
/// assert_eq!(engines[0].step.len(), 2);
/// # Ok::<(), rca_cycles::engine::RuleError>(())
/// ```
pub fn parse(text: &str) -> Result<Vec<Engine>, RuleError> {
    let mut engines: Vec<Engine> = Vec::new();
    for (i, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        if word == "engine" {
            engines.push(Engine {
                name: rest.trim().to_owned(),
                ..Engine::default()
            });
            continue;
        }
        let Some(engine) = engines.last_mut() else {
            return Err(RuleError::NoEngine { line: i + 1 });
        };
        let list = match word {
            "step" => &mut engine.step,
            "after" => &mut engine.after,
            "begin" => &mut engine.begin,
            "result" => &mut engine.result,
            "prefill" => &mut engine.prefill,
            "decode" => &mut engine.decode,
            "mixed" => &mut engine.mixed,
            other => {
                return Err(RuleError::UnknownWord {
                    line: i + 1,
                    word: other.to_owned(),
                });
            }
        };
        list.extend(
            rest.split(" | ")
                .map(|p| NamePattern::glob(p.trim()).ignoring_case()),
        );
    }
    Ok(engines)
}

/// The rules that come with the crate.
pub fn built_in() -> Vec<Engine> {
    parse(BUILT_IN).unwrap_or_default()
}

/// Does any of the patterns match?
pub(crate) fn any(patterns: &[NamePattern], name: &str) -> bool {
    patterns.iter().any(|p| p.matches(name))
}

/// Functions that only wrap others and cut nothing.
pub(crate) fn is_wrapper(name: &str) -> bool {
    const WRAPPERS: [&str; 6] = [
        "_call_impl",
        "_wrapped_call_impl",
        "decorate_context",
        "wrapper",
        "inner",
        "<lambda>",
    ];
    let last = name.rsplit([' ', '.']).next().unwrap_or(name);
    WRAPPERS.contains(&last)
}

/// Copies that return when they are done: their time on the host is waiting.
pub(crate) fn is_blocking_copy(name: &str) -> bool {
    const COPIES: [&str; 7] = [
        "cudaMemcpy",
        "cudaMemcpy2D",
        "cuMemcpyDtoH_v2",
        "cuMemcpyHtoD_v2",
        "hipMemcpy",
        "hipMemcpy2D",
        "hipMemcpyWithStream",
    ];
    COPIES.contains(&name)
}

/// Returns `true` for calls of a layer of the model: a class called a layer, or a module as PyTorch marks them,
/// called a layer or block. Normalisations of layers (`LayerNorm`, `layer_norm`) are none, and neither are
/// built-in functions, whatever they are about.
pub fn is_layer(name: &str) -> bool {
    if name.contains(".py(") || name.starts_with('<') {
        return false;
    }
    let module = name.strip_prefix("nn.Module: ");
    let called = module.unwrap_or_else(|| name.split(['.', '(']).next().unwrap_or(name));
    let called = called.to_lowercase();
    let kind = called.replace("layernorm", "").replace("layer_norm", "");
    kind.contains("layer") || (module.is_some() && kind.contains("block"))
}

/// Returns `true` for functions that wait for something else than the device; a frame around such a wait runs no code meanwhile.
pub(crate) fn is_wait(name: &str) -> bool {
    matches!(Waiting::of_call(name), Some(Waiting::Input | Waiting::Peer))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rules_that_come_along_are_read() {
        let engines = parse(BUILT_IN).unwrap();
        let names: Vec<&str> = engines.iter().map(|e| e.name.as_str()).collect();
        assert_eq!(
            names,
            [
                "annotated",
                "sglang",
                "vllm-v1",
                "vllm-v0",
                "tensorrt-llm",
                "pytorch"
            ]
        );
        let by_name = |name: &str| engines.iter().find(|e| e.name == name).unwrap();
        assert!(any(
            &by_name("sglang").step,
            "/sgl-workspace/sglang/python/sglang/srt/managers/scheduler.py(2919): _run_batch_inner"
        ));
        assert!(any(
            &by_name("sglang").prefill,
            "ModelRunner.forward_extend"
        ));
        assert!(any(
            &by_name("vllm-v1").step,
            "vllm/v1/worker/gpu_model_runner.py(3380): execute_model"
        ));
    }

    #[test]
    fn layers_by_name() {
        for name in [
            "Qwen3DecoderLayer.forward",
            "nn.Module: LlamaDecoderLayer_7",
            "EncoderLayer",
            "LayerNormedLayer.forward",
        ] {
            assert!(is_layer(name), "{name}");
        }
        for name in [
            "nn.Module: LayerNorm_3",
            "FusedLayerNorm.forward",
            "layer_norm",
            "sglang/layers/linear.py(20): forward",
            "Model.layers",
        ] {
            assert!(!is_layer(name), "{name}");
        }
    }

    #[test]
    fn wrong_rules_are_named_by_line() {
        assert_eq!(
            parse("step x").unwrap_err(),
            RuleError::NoEngine { line: 1 }
        );
        assert!(matches!(
            parse("engine a\nsteps x").unwrap_err(),
            RuleError::UnknownWord { line: 2, .. }
        ));
    }
}
