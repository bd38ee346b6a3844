//! Requests and tokens of a step, from the annotation that the engine writes around it.
//!
//! The forms are those of vLLM (plain, with the sum of squares, and with the sums that a profiling patch adds), SGLang and
//! TensorRT-LLM. An annotation of another form gives no lengths.

use std::sync::LazyLock;

use regex::{Captures, Regex};

/// Sums over the requests of one kind.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Sums {
    /// New tokens (queries) Σq.
    pub q: u128,
    /// Keys, with those of earlier steps, Σk.
    pub k: u128,
    /// Σq².
    pub qq: u128,
    /// Σq·k.
    pub qk: u128,
}

/// Requests of one kind: with prompt tokens (context), or continued (generation).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Requests {
    /// How many.
    pub requests: Option<u128>,
    /// Their new tokens.
    pub tokens: Option<u128>,
    /// Σq², where it is the only sum that is given.
    pub qq: Option<u128>,
    /// All sums.
    pub sums: Option<Sums>,
}

impl Requests {
    fn new(requests: Option<u128>, tokens: Option<u128>) -> Self {
        Self {
            requests,
            tokens,
            ..Self::default()
        }
    }

    fn none() -> Self {
        Self::new(Some(0), Some(0))
    }

    fn with_sums(requests: Option<u128>, sums: Sums) -> Self {
        Self {
            requests,
            tokens: Some(sums.q),
            qq: Some(sums.qq),
            sums: Some(sums),
        }
    }
}

/// Lengths of the requests of one step.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Lengths {
    /// Requests with prompt tokens.
    pub context: Requests,
    /// Continued requests.
    pub generation: Requests,
}

/// Kind of work of a step.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Phase {
    /// Prompt tokens only.
    Prefill,
    /// Continued requests only.
    Decode,
    /// Both.
    Mixed,
    /// Neither.
    Idle,
}

impl Phase {
    /// The name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Prefill => "prefill",
            Self::Decode => "decode",
            Self::Mixed => "mixed",
            Self::Idle => "idle",
        }
    }
}

impl Lengths {
    /// Returns the lengths that the annotation `name` gives, or `None` if it has none of the known forms.
    ///
    /// ```
    /// let lengths = roofline::Lengths::of_name("execute_context_2(273_52229)_generation_25(25)").unwrap();
    /// assert_eq!(lengths.context.tokens, Some(273));
    /// assert_eq!(lengths.context.qq, Some(52_229));
    /// assert_eq!(lengths.tokens(), Some(298));
    /// ```
    pub fn of_name(name: &str) -> Option<Self> {
        if name.starts_with("execute_") {
            return of_vllm(name);
        }
        if name.starts_with("step[") {
            return of_sglang(name);
        }
        let found = TENSORRT.captures(name)?;
        let generation = number(&found, 3)?;
        Some(Self {
            context: Requests::new(number(&found, 1), number(&found, 2)),
            generation: Requests::new(Some(generation), Some(generation)),
        })
    }

    /// New tokens of all requests.
    pub fn tokens(&self) -> Option<u128> {
        Some(self.context.tokens? + self.generation.tokens?)
    }

    /// Requests of both kinds.
    pub fn requests(&self) -> Option<u128> {
        Some(self.context.requests? + self.generation.requests?)
    }

    /// Sums over all requests, if they are given.
    pub fn sums(&self) -> Option<Sums> {
        let (a, b) = (self.context.sums?, self.generation.sums?);
        Some(Sums {
            q: a.q + b.q,
            k: a.k + b.k,
            qq: a.qq + b.qq,
            qk: a.qk + b.qk,
        })
    }

    /// Returns the kind of work of the step; `None` where the numbers of requests are not given.
    pub fn phase(&self) -> Option<Phase> {
        let some = |kind: &Requests| match (kind.requests, kind.tokens) {
            (Some(n), _) | (None, Some(n)) => Some(n > 0),
            (None, None) => None,
        };
        Some(match (some(&self.context)?, some(&self.generation)?) {
            (true, false) => Phase::Prefill,
            (false, true) => Phase::Decode,
            (true, true) => Phase::Mixed,
            (false, false) => Phase::Idle,
        })
    }
}

/// Returns the size of the graph that is captured within the annotation `name` (`capture_32_FULL`).
pub fn captured_size(name: &str) -> Option<u128> {
    let rest = name.strip_prefix("capture_")?;
    let (size, _) = rest.split_once('_')?;
    size.parse().ok()
}

// A pattern that does not compile is found by the tests of this module; it then matches nothing.
fn pattern(text: &str) -> Regex {
    Regex::new(text).unwrap_or_else(|_| Regex::new("$^").expect("an empty pattern"))
}

static OLD: LazyLock<Regex> = LazyLock::new(|| pattern(r"^execute_new_(\d+)_cached_(\d+)$"));

static PLAIN: LazyLock<Regex> = LazyLock::new(|| {
    pattern(r"^execute_context_(\d+)\((\d+)(?:_(\d+))?\)_generation_(\d+)\((\d+)(?:_\d+)?\)$")
});

static SUMS: LazyLock<Regex> = LazyLock::new(|| {
    let sums = r"\(sq(\d+)sk(\d+)sqsq(\d+)sqsk(\d+)\)";
    pattern(&format!(
        r"^execute_(\d+)_context_(\d+){sums}_generation_(\d+){sums}$"
    ))
});

static TENSORRT: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"^\[Executor\] _forward_step \d+: (\d+) ctx reqs, (\d+) ctx tokens, (\d+) gen(?:eration)? reqs",
    )
});

/// Numbers of up to 64 bits, so that sums and products of two fit.
fn parsed(text: &str) -> Option<u128> {
    text.parse::<u64>().ok().map(u128::from)
}

fn number(found: &Captures<'_>, at: usize) -> Option<u128> {
    parsed(found.get(at)?.as_str())
}

fn of_vllm(name: &str) -> Option<Lengths> {
    if let Some(found) = OLD.captures(name) {
        return Some(Lengths {
            context: Requests::new(number(&found, 1), None),
            generation: Requests::new(number(&found, 2), None),
        });
    }
    if let Some(found) = PLAIN.captures(name) {
        let mut context = Requests::new(number(&found, 1), number(&found, 2));
        context.qq = number(&found, 3);
        return Some(Lengths {
            context,
            generation: Requests::new(number(&found, 4), number(&found, 5)),
        });
    }
    let found = SUMS.captures(name)?;
    let sums = |from: usize| {
        Some(Sums {
            q: number(&found, from)?,
            k: number(&found, from + 1)?,
            qq: number(&found, from + 2)?,
            qk: number(&found, from + 3)?,
        })
    };
    Some(Lengths {
        context: Requests::with_sums(number(&found, 2), sums(3)?),
        generation: Requests::with_sums(number(&found, 7), sums(8)?),
    })
}

fn of_sglang(name: &str) -> Option<Lengths> {
    let inside = name.strip_prefix("step[")?.strip_suffix(']')?;
    let mut words = inside.split_whitespace();
    let mode = words.next()?;
    let fields: Vec<(&str, u128)> = words
        .filter_map(|word| {
            let (key, value) = word.split_once('=')?;
            Some((key, parsed(value)?))
        })
        .collect();
    let field = |key: &str| fields.iter().find(|f| f.0 == key).map(|f| f.1);
    let sums = |kind: &str| {
        let of = |what: &str| field(&format!("{kind}_{what}"));
        Some(Sums {
            q: of("sq")?,
            k: of("sk")?,
            qq: of("sqsq")?,
            qk: of("sqsk")?,
        })
    };
    let (requests, tokens) = (field("bs"), field("toks"));
    let (mut context, mut generation) = match mode {
        "DECODE" => (Requests::none(), Requests::new(requests, requests)),
        "EXTEND" => (Requests::new(requests, tokens), Requests::none()),
        "IDLE" => (Requests::none(), Requests::none()),
        // How many of the requests continue is not given.
        "MIXED" => (Requests::new(None, tokens), Requests::default()),
        _ => return None,
    };
    let (c, g) = (sums("c"), sums("g"));
    if c.is_some() || g.is_some() {
        // A kind that the detailed form leaves out has no requests.
        let of = |kind: Requests, sums: Option<Sums>| {
            let none = kind.requests.or(Some(0)).filter(|_| sums.is_none());
            Requests::with_sums(kind.requests.or(none), sums.unwrap_or_default())
        };
        (context, generation) = (of(context, c), of(generation, g));
    }
    Some(Lengths {
        context,
        generation,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_compile() {
        for pattern in [&OLD, &PLAIN, &SUMS, &TENSORRT] {
            assert!(pattern.as_str().len() > 5);
        }
    }

    #[test]
    fn forms_of_all_engines_are_read() {
        let l = |name| Lengths::of_name(name).unwrap();
        let old = l("execute_new_1_cached_12");
        assert_eq!((old.requests(), old.tokens()), (Some(13), None));
        let sums = l(
            "execute_535_context_3(sq527sk1263sqsq109697sqsk244186)_generation_8(sq8sk11641sqsq8sqsk11641)",
        );
        assert_eq!(sums.sums().unwrap().k, 1263 + 11641);
        assert_eq!(sums.phase(), Some(Phase::Mixed));
        let decode = l("step[DECODE bs=16]");
        assert_eq!((decode.requests(), decode.tokens()), (Some(16), Some(16)));
        assert_eq!(decode.sums(), None);
        let detailed = l("step[DECODE bs=16 g_sq=16 g_sk=30635 g_sqsq=16 g_sqsk=30635]");
        assert_eq!(detailed.sums().unwrap().k, 30635);
        assert_eq!(detailed.context.requests, Some(0));
        assert_eq!(l("step[EXTEND bs=2 toks=712]").context.tokens, Some(712));
        assert_eq!(l("step[IDLE]").phase(), Some(Phase::Idle));
        let trt = l("[Executor] _forward_step 7: 2 ctx reqs, 512 ctx tokens, 3 gen reqs");
        assert_eq!((trt.requests(), trt.tokens()), (Some(5), Some(515)));
        for other in [
            "ProfilerStep#3",
            "execute_diffusion_x",
            "prefill[bs=1 tok=3 ctx=[1]]",
            "execute_context_x(1)_generation_1(1)",
            "step[",
            "step[]",
            "",
        ] {
            assert_eq!(Lengths::of_name(other), None, "{other}");
        }
        assert_eq!(captured_size("capture_32_FULL"), Some(32));
        assert_eq!(captured_size("capture_x"), None);
    }

    #[test]
    fn numbers_beyond_64_bits_are_no_lengths() {
        let name = format!("execute_context_1({})_generation_0(0)", "9".repeat(60));
        assert_eq!(Lengths::of_name(&name).and_then(|l| l.tokens()), None);
    }
}
