//! Parses what-if changes: `kernel:*gemm*=0.5,launch=0`.

use std::fmt;
use std::str::FromStr;

use trace_model::kernel::NamePattern;

/// The kind of time that a change affects.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
#[non_exhaustive]
pub enum Target {
    /// Computing kernels.
    Kernel,
    /// Memcpys.
    Memcpy,
    /// Memsets.
    Memset,
    /// Collectives.
    Comm,
    /// Host code.
    Host,
    /// Runtime API calls that launch nothing.
    Api,
    /// Host code between the launches of a run.
    Dispatch,
    /// Launch API calls and launch latency.
    Launch,
    /// Gaps between queued operations.
    Gap,
    /// Synchronization.
    Sync,
    /// Waiting for requests.
    Requests,
    /// Loading data.
    Input,
    /// Time that nothing explains.
    Unexplained,
}

impl Target {
    /// All targets with a factor.
    pub const ALL: [Self; 13] = [
        Self::Kernel,
        Self::Memcpy,
        Self::Memset,
        Self::Comm,
        Self::Host,
        Self::Api,
        Self::Dispatch,
        Self::Launch,
        Self::Gap,
        Self::Sync,
        Self::Requests,
        Self::Input,
        Self::Unexplained,
    ];

    /// Stable machine name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Kernel => "kernel",
            Self::Memcpy => "memcpy",
            Self::Memset => "memset",
            Self::Comm => "comm",
            Self::Host => "host",
            Self::Api => "api",
            Self::Dispatch => "dispatch",
            Self::Launch => "launch",
            Self::Gap => "gap",
            Self::Sync => "sync",
            Self::Requests => "requests",
            Self::Input => "input",
            Self::Unexplained => "unexplained",
        }
    }
}

/// Selects a part of a target.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Selector {
    /// The whole target.
    All,
    /// The class with this name.
    Class(String),
    /// Names that match this pattern.
    Name(NamePattern),
    /// Exactly this name.
    Exact(String),
    /// A part of the target with a keyword of its own: `call`, `latency`, `wait`, `transfer`,
    /// `d2h`.
    Part(&'static str),
}

/// One action of a change.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Action {
    /// The selected time is multiplied by `factor`.
    Scale {
        target: Target,
        selector: Selector,
        factor: f64,
    },
    /// Collectives take their bytes divided by this link speed, in gigabytes per second.
    Link(f64),
    /// The launches of each run become one graph launch.
    Graph,
    /// Removes synchronizations that are followed by launches.
    Async,
    /// Adjacent kernels on a stream become one that takes `factor` of their total time.
    Fuse { name: NamePattern, factor: f64 },
    /// All time on a rank is multiplied by this factor; without a factor, the rank becomes as fast
    /// as the median one.
    Rank { rank: u32, factor: Option<f64> },
}

/// A what-if change: actions that apply together.
///
/// ```
/// use critical_path::Change;
///
/// let change: Change = "kernel:*gemm*=1/2,graph".parse()?;
/// assert_eq!(change.to_string(), "kernel:*gemm*=1/2,graph");
/// assert!("kernels=0.5".parse::<Change>().is_err());
/// # Ok::<(), critical_path::ChangeError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    text: String,
    pub(crate) actions: Vec<Action>,
}

/// A change that cannot be parsed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "invalid change `{text}`: {why}; expected TARGET[:SELECTOR]=FACTOR with TARGET one of {targets}, or graph, async, fuse:GLOB, comm=link:GB/s, rank:N=median|FACTOR",
    targets = Target::ALL.map(Target::name).join(", ")
)]
pub struct ChangeError {
    text: String,
    why: String,
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.text.fmt(f)
    }
}

impl FromStr for Change {
    type Err = ChangeError;

    fn from_str(text: &str) -> Result<Self, ChangeError> {
        let actions = split(text).into_iter().map(action);
        let actions: Result<Vec<Action>, String> = actions.collect();
        match actions {
            Ok(actions) => Ok(Self {
                text: text.to_owned(),
                actions,
            }),
            Err(why) => Err(ChangeError {
                text: text.to_owned(),
                why,
            }),
        }
    }
}

impl Change {
    /// Returns `true` if the change needs the message sizes of collectives.
    pub fn needs_sizes(&self) -> bool {
        let mut actions = self.actions.iter();
        actions.any(|action| matches!(action, Action::Link(_)))
    }

    /// Returns the assumptions behind the change.
    pub(crate) fn assumes(&self) -> Vec<&'static str> {
        let each = self.actions.iter().filter_map(|action| match action {
            Action::Scale { .. } => None,
            Action::Graph => Some(
                "shapes and addresses stay the same from step to step, and launching a graph takes 10 \u{b5}s",
            ),
            Action::Async => Some("the host reads nothing that a removed synchronisation waited for"),
            Action::Fuse { .. } => Some(
                "a fused kernel takes as long as its parts, and the host code between their launches is gone",
            ),
            Action::Link(_) => Some("collectives take their bytes at this speed and no latency"),
            Action::Rank { .. } => Some("the other ranks keep their pace"),
        });
        let mut all: Vec<&str> = each.collect();
        all.dedup();
        all
    }

    pub(crate) fn of(text: impl Into<String>, actions: Vec<Action>) -> Self {
        Self {
            text: text.into(),
            actions,
        }
    }
}

/// Splits a list of changes at its commas. A comma within brackets belongs to a name.
fn split(text: &str) -> Vec<&str> {
    let (mut out, mut depth, mut from) = (Vec::new(), 0_i32, 0);
    for (at, c) in text.char_indices() {
        match c {
            '(' | '<' | '[' | '{' => depth += 1,
            ')' | '>' | ']' | '}' => depth -= 1,
            ',' if depth <= 0 => {
                out.push(&text[from..at]);
                from = at + 1;
            }
            _ => {}
        }
    }
    out.push(&text[from..]);
    out
}

fn action(text: &str) -> Result<Action, String> {
    let text = text.trim();
    match text {
        "" => return Err("a change is empty".to_owned()),
        "graph" => return Ok(Action::Graph),
        "async" => return Ok(Action::Async),
        _ => {}
    }
    if let Some(rest) = text.strip_prefix("fuse:") {
        // A glob may contain `=`: the part behind the last one is a factor if it parses as one.
        let cut = rest.rsplit_once('=');
        let cut = cut.and_then(|(name, number)| Some((name, factor(number).ok()?)));
        let (name, factor) = cut.unwrap_or((rest, 1.0));
        if name.is_empty() {
            return Err("fuse needs a glob".to_owned());
        }
        let name = NamePattern::glob(name);
        return Ok(Action::Fuse { name, factor });
    }
    let Some((what, value)) = text.rsplit_once('=') else {
        return Err(format!("`{text}` has no factor"));
    };
    let (target, selector) = match what.split_once(':') {
        Some((target, selector)) => (target, Some(selector)),
        None => (what, None),
    };
    if target == "rank" {
        let rank = selector.and_then(|rank| rank.parse().ok());
        let rank = rank.ok_or_else(|| format!("`{what}` names no rank"))?;
        let factor = match value {
            "median" => None,
            value => Some(factor(value)?),
        };
        return Ok(Action::Rank { rank, factor });
    }
    if ["graph", "async"].contains(&target) {
        return Err(format!("`{target}` takes no factor"));
    }
    let known = Target::ALL.into_iter().find(|known| known.name() == target);
    let target = known.ok_or_else(|| format!("`{target}` is no target"))?;
    if let (Target::Comm, None, Some(speed)) = (target, selector, value.strip_prefix("link:")) {
        let speed = number(speed).filter(|speed| *speed > 0.0);
        return match speed {
            Some(speed) => Ok(Action::Link(speed)),
            None => Err(format!("`{value}` is no speed in GB/s")),
        };
    }
    Ok(Action::Scale {
        target,
        selector: select(target, selector)?,
        factor: factor(value)?,
    })
}

fn select(target: Target, selector: Option<&str>) -> Result<Selector, String> {
    let Some(text) = selector else {
        return Ok(Selector::All);
    };
    if text.is_empty() {
        return Err(format!("`{}:` selects nothing", target.name()));
    }
    if let Some(class) = text.strip_prefix("class:") {
        return Ok(Selector::Class(class.to_owned()));
    }
    let parts: &[&'static str] = match target {
        Target::Memcpy => &["h2d", "d2h", "d2d"],
        Target::Launch => &["call", "latency"],
        Target::Comm => &["wait", "transfer"],
        _ => &[],
    };
    Ok(match parts.iter().find(|part| **part == text) {
        Some(part) => Selector::Part(part),
        None => Selector::Name(NamePattern::glob(text)),
    })
}

fn factor(text: &str) -> Result<f64, String> {
    let text = text.trim();
    let value = match text.split_once('/') {
        Some((above, below)) => {
            let below = number(below).filter(|below| *below > 0.0);
            number(above).zip(below).map(|(above, below)| above / below)
        }
        None => number(text),
    };
    value.ok_or_else(|| format!("`{text}` is no factor of 0 or more, as 0.5 or 1/2"))
}

fn number(text: &str) -> Option<f64> {
    let plain = text.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    let value: f64 = text.parse().ok()?;
    (plain && value.is_finite() && value <= 1e9).then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_read() {
        let parse = |text: &str| text.parse::<Change>().map(|change| change.actions.len());
        for (text, count) in [
            ("kernel=0.5", 1),
            ("kernel:class:gemm=1/2,host=0", 2),
            ("kernel:void f<int, 4>(float*)=0.5,async", 2),
            ("comm=link:50", 1),
            ("comm:wait=0,comm:transfer=0.5", 2),
            ("fuse:*norm*", 1),
            ("fuse:*norm*=0.5,graph", 2),
            ("rank:3=median,rank:1=0.5", 2),
        ] {
            assert_eq!(parse(text), Ok(count), "{text}");
        }
    }

    #[test]
    fn what_is_no_change_is_refused_with_the_targets() {
        for text in [
            "",
            "kernel",
            "kernel=",
            "kernel=-1",
            "kernel=1/0",
            "kernel=nan",
            "kernel=inf",
            "kernels=1",
            "kernel:=1",
            "rank:x=1",
            "rank=1",
            "comm=link:0",
            "fuse:",
            "kernel=0.5,,host=1",
            "graph=2",
            "async:x=1",
        ] {
            let error = text.parse::<Change>().unwrap_err().to_string();
            assert!(error.contains("unexplained"), "{text}: {error}");
        }
    }
}
