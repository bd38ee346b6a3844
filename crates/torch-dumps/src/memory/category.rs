//! What memory is for, by where it was allocated.

use super::{Snapshot, StackId};

/// What an allocation is for.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Category {
    /// The program's own word for it.
    Own(String),
    /// A word of the table below.
    Known(&'static str),
    /// Its stack names nothing that is known.
    Other,
    /// Its stack was not recorded.
    NoStack,
}

impl Category {
    /// Returns its name.
    pub fn name(&self) -> &str {
        match self {
            Self::Own(name) => name,
            Self::Known(name) => name,
            Self::Other => "other",
            Self::NoStack => "no stack",
        }
    }
}

/// Words in functions and files of a stack that identify a category, in lower case. The first category with a match counts:
/// what is specific is first, and `forward` encloses most of what an inference allocates.
const WORDS: [(&str, &[&str]); 8] = [
    (
        "KV cache",
        &[
            "kv_cache",
            "kvcache",
            "kv_pool",
            "kvpool",
            "cache_engine",
            "init_cache",
            "token_to_kv",
        ],
    ),
    (
        "weights",
        &[
            "load_weights",
            "load_model",
            "weight_loader",
            "create_weights",
            "load_state_dict",
            "from_pretrained",
            "initialize_model",
            "process_weights_after_loading",
            "materialize_meta",
        ],
    ),
    (
        "optimizer",
        &[
            "_init_group",
            "optimizer.py",
            "adam.py",
            "adamw.py",
            "sgd.py",
        ],
    ),
    ("gradients", &["_engine_run_backward", "backward"]),
    (
        "communication",
        &[
            "distributed_c10d.py",
            "all_reduce",
            "all_gather",
            "reduce_scatter",
            "all_to_all",
            "custom_all_reduce",
            "pynccl",
        ],
    ),
    (
        "sampling",
        &["sampler", "sample_tokens", "logits_processor"],
    ),
    (
        "CUDA graphs",
        &["capture_model", "capture_graph", "cuda_graph", "graphs.py"],
    ),
    ("activations", &["forward", "execute_model", "_call_impl"]),
];

/// Returns the category of an allocation: the program's own word, else that of its stack.
pub(super) fn category(snapshot: &Snapshot, label: Option<u32>, stack: StackId) -> Category {
    if let Some(label) = snapshot.label(label) {
        return Category::Own(label.to_owned());
    }
    let stacks = &snapshot.stacks;
    if stacks.is_empty(stack) {
        return Category::NoStack;
    }
    let matches = |words: &[&str]| {
        stacks.any(stack, |function, file| {
            let (function, file) = (function.to_ascii_lowercase(), file.to_ascii_lowercase());
            words.iter().any(|word| match word.ends_with(".py") {
                true => file == *word,
                false => function.contains(word) || file.contains(word),
            })
        })
    };
    let found = WORDS.iter().find(|(_, words)| matches(words));
    found.map_or(Category::Other, |(name, _)| Category::Known(name))
}
