//! Requests and tokens of a step, from the annotation that the engine writes around it.
//!
//! The forms are those of vLLM (plain, with the sum of squares, and with the sums that a profiling patch adds), SGLang and
//! TensorRT-LLM. An annotation of another form gives no lengths.

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
        of_tensorrt(name)
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

/// The rest of a name that is read from left to right.
struct Rest<'n>(&'n str);

impl Rest<'_> {
    /// Takes this text.
    fn text(&mut self, text: &str) -> Option<()> {
        self.0 = self.0.strip_prefix(text)?;
        Some(())
    }

    /// Takes a number; `Some(None)` if it is too large.
    fn number(&mut self) -> Option<Option<u128>> {
        let end = self.0.find(|c: char| !c.is_ascii_digit());
        let (digits, rest) = self.0.split_at(end.unwrap_or(self.0.len()));
        self.0 = rest;
        (!digits.is_empty()).then(|| parsed(digits))
    }

    /// Takes `(tokens)`, or `(tokens_more)`.
    fn counts(&mut self) -> Option<(Option<u128>, Option<u128>)> {
        self.text("(")?;
        let tokens = self.number()?;
        let more = match self.text("_") {
            Some(()) => self.number()?,
            None => None,
        };
        self.text(")")?;
        Some((tokens, more))
    }

    /// Takes `(sq1sk2sqsq3sqsk4)`.
    fn sums(&mut self) -> Option<Sums> {
        let mut after = |text: &str| {
            self.text(text)?;
            self.number()?
        };
        let sums = Sums {
            q: after("(sq")?,
            k: after("sk")?,
            qq: after("sqsq")?,
            qk: after("sqsk")?,
        };
        self.text(")")?;
        Some(sums)
    }

    fn end(&self) -> Option<()> {
        self.0.is_empty().then_some(())
    }
}

/// Numbers of up to 64 bits, so that sums and products of two fit.
fn parsed(text: &str) -> Option<u128> {
    text.parse::<u64>().ok().map(u128::from)
}

/// `[Executor] _forward_step 7: 2 ctx reqs, 512 ctx tokens, 3 gen reqs`, and what follows.
fn of_tensorrt(name: &str) -> Option<Lengths> {
    let mut rest = Rest(name);
    rest.text("[Executor] _forward_step ")?;
    rest.number()?;
    rest.text(": ")?;
    let requests = rest.number()?;
    rest.text(" ctx reqs, ")?;
    // Versions without the tokens of prompts give only how many requests there are; no request has no tokens.
    let mut next = Rest(rest.0);
    let stated = next.number();
    let tokens = match stated.and_then(|n| next.text(" ctx tokens, ").map(|()| n)) {
        Some(tokens) => {
            rest = next;
            tokens
        }
        None => requests.filter(|n| *n == 0),
    };
    let generation = rest.number()??;
    rest.text(" gen")?;
    let _long_form = rest.text("eration");
    rest.text(" reqs")?;
    Some(Lengths {
        context: Requests::new(requests, tokens),
        generation: Requests::new(Some(generation), Some(generation)),
    })
}

fn of_vllm(name: &str) -> Option<Lengths> {
    old_vllm(name)
        .or_else(|| plain_vllm(name))
        .or_else(|| patched_vllm(name))
}

/// `execute_new_1_cached_12`.
fn old_vllm(name: &str) -> Option<Lengths> {
    let mut rest = Rest(name);
    rest.text("execute_new_")?;
    let new = rest.number()?;
    rest.text("_cached_")?;
    let cached = rest.number()?;
    rest.end()?;
    Some(Lengths {
        context: Requests::new(new, None),
        generation: Requests::new(cached, None),
    })
}

/// `execute_context_2(273_52229)_generation_25(25)`.
fn plain_vllm(name: &str) -> Option<Lengths> {
    let mut rest = Rest(name);
    rest.text("execute_context_")?;
    let requests = rest.number()?;
    let (tokens, qq) = rest.counts()?;
    rest.text("_generation_")?;
    let continued = rest.number()?;
    let (generated, _) = rest.counts()?;
    rest.end()?;
    let mut context = Requests::new(requests, tokens);
    context.qq = qq;
    Some(Lengths {
        context,
        generation: Requests::new(continued, generated),
    })
}

/// `execute_535_context_3(sq527…)_generation_8(sq8…)`.
fn patched_vllm(name: &str) -> Option<Lengths> {
    let mut rest = Rest(name);
    rest.text("execute_")?;
    rest.number()?;
    rest.text("_context_")?;
    let requests = rest.number()?;
    let context = rest.sums()?;
    rest.text("_generation_")?;
    let continued = rest.number()?;
    let generation = rest.sums()?;
    rest.end()?;
    Some(Lengths {
        context: Requests::with_sums(requests, context),
        generation: Requests::with_sums(continued, generation),
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
        let short = l("[Executor] _forward_step 8: 0 ctx reqs, 6 gen reqs");
        assert_eq!((short.requests(), short.tokens()), (Some(6), Some(6)));
        assert_eq!(short.phase(), Some(Phase::Decode));
        let short = l("[Executor] _forward_step 9: 2 ctx reqs, 6 generation reqs");
        assert_eq!((short.requests(), short.tokens()), (Some(8), None));
        assert_eq!(short.phase(), Some(Phase::Mixed));
        for other in [
            "ProfilerStep#3",
            "execute_diffusion_x",
            "prefill[bs=1 tok=3 ctx=[1]]",
            "execute_context_x(1)_generation_1(1)",
            "execute_context_1(1_)_generation_1(1)",
            "execute_context_1(1)_generation_1(1) ",
            "execute_new_1_cached_",
            "execute_1_context_1(sq1sk1sqsq1)_generation_0(sq0sk0sqsq0sqsk0)",
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
