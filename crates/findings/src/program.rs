//! What kind of program a recording is of, which decides the remedies that apply.

use gpu_time::Recorder;
use trace_model::Trace;

/// The program that was recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Program {
    /// It trains a model.
    Training,
    /// vLLM.
    Vllm,
    /// SGLang.
    Sglang,
    /// Operators of PyTorch without the functions around them: it may be an engine.
    Unknown,
    /// None of the engines.
    Other,
}

impl Program {
    /// Tells the program by the names in its recording.
    ///
    /// Cost: a pass over the names.
    pub(crate) fn of(trace: &Trace, recorder: Recorder, has_python: bool) -> Self {
        const TRAINING: [&str; 3] = ["Optimizer.step#", "autograd::engine::", "AccumulateGrad"];
        let has =
            |takes: &dyn Fn(&str) -> bool| trace.strings().iter().any(|(_, text)| takes(text));
        if has(&|text| TRAINING.iter().any(|name| text.starts_with(name))) {
            return Self::Training;
        }
        match recorder {
            Recorder::Sglang => return Self::Sglang,
            Recorder::Vllm => return Self::Vllm,
            _ => {}
        }
        // Other recorders have the files of functions as well.
        if has(&|text| text.contains("sglang/srt/")) {
            return Self::Sglang;
        }
        if has(&|text| text.contains("vllm/v1/") || text.contains("vllm/worker/")) {
            return Self::Vllm;
        }
        match !has_python && has(&|text| text.starts_with("aten::")) {
            true => Self::Unknown,
            false => Self::Other,
        }
    }
}
