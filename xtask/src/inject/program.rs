//! The program of one step: ranges of the host, host time, launches and waits.

use std::rc::Rc;

/// GPU work of a launch.
#[derive(Clone, Debug)]
pub(crate) struct Work {
    pub(crate) name: Rc<str>,
    pub(crate) stream: u32,
    pub(crate) us: f64,
    /// Bytes of a memcpy; `None` for a kernel.
    pub(crate) bytes: Option<u64>,
    /// `true` for a collective, which ends on all ranks together.
    pub(crate) joint: bool,
}

impl Work {
    pub(crate) fn kernel(name: &str, us: f64) -> Self {
        Self {
            name: name.into(),
            stream: 7,
            us,
            bytes: None,
            joint: false,
        }
    }

    pub(crate) fn collective(name: &str, us: f64) -> Self {
        Self {
            joint: true,
            ..Self::kernel(name, us)
        }
    }

    pub(crate) fn copy(name: &str, us: f64, bytes: u64) -> Self {
        Self {
            bytes: Some(bytes),
            ..Self::kernel(name, us)
        }
    }
}

pub(crate) const TO_GPU: &str = "Memcpy HtoD (Pinned -> Device)";
pub(crate) const TO_HOST: &str = "Memcpy DtoH (Device -> Pinned)";
pub(crate) const ON_GPU: &str = "Memcpy DtoD (Device -> Device)";

/// One operation of the host.
#[derive(Clone, Debug)]
pub(crate) enum Op {
    /// Begins a range: name, category.
    Open(Rc<str>, &'static str),
    /// Ends the innermost range.
    Close,
    /// The host works for so many microseconds.
    Host(f64),
    /// A runtime call of so many microseconds that launches work.
    Launch(Rc<str>, f64, Vec<Work>),
    /// A runtime call that waits for all work of this step so far, or with `true` up to the mark of the step before.
    Wait(Rc<str>, bool),
    /// Work up to here is what a later wait is for.
    Mark,
}

/// Writes programs.
#[derive(Default)]
pub(crate) struct Program(pub(crate) Vec<Op>);

impl Program {
    pub(crate) fn range(&mut self, name: &str, cat: &'static str, body: impl FnOnce(&mut Self)) {
        self.0.push(Op::Open(name.into(), cat));
        body(self);
        self.0.push(Op::Close);
    }

    /// A Python function.
    pub(crate) fn call(&mut self, name: &str, body: impl FnOnce(&mut Self)) {
        self.range(name, "python_function", body);
    }

    /// A Python function that calls nothing.
    pub(crate) fn leaf(&mut self, name: &str, us: f64) {
        self.call(name, |p| p.host(us));
    }

    pub(crate) fn host(&mut self, us: f64) {
        self.0.push(Op::Host(us));
    }

    pub(crate) fn launch(&mut self, api: &str, us: f64, work: Vec<Work>) {
        self.0.push(Op::Launch(api.into(), us, work));
    }

    /// An operator that launches one kernel.
    pub(crate) fn operator(&mut self, name: &str, us: f64, work: Work) {
        self.range(name, "cpu_op", |p| {
            p.host(us);
            p.launch("cudaLaunchKernel", 3.2, vec![work]);
        });
    }

    pub(crate) fn copy(&mut self, work: Work) {
        self.launch("cudaMemcpyAsync", 5.0, vec![work]);
    }

    pub(crate) fn wait(&mut self, api: &str, for_last: bool) {
        self.0.push(Op::Wait(api.into(), for_last));
    }

    pub(crate) fn mark(&mut self) {
        self.0.push(Op::Mark);
    }
}

/// Inserts operations at the begin of the first range whose name contains `at`; where none does, at the begin of the step.
pub(crate) fn insert(ops: Vec<Op>, at: &str, new: &[Op]) -> Vec<Op> {
    let place = ops
        .iter()
        .position(|op| matches!(op, Op::Open(name, _) if name.contains(at)))
        .map_or(0, |place| place + 1);
    let mut ops = ops;
    ops.splice(place..place, new.iter().cloned());
    ops
}

/// Replaces each piece of work by others.
pub(crate) fn rework(ops: Vec<Op>, by: &dyn Fn(&Work) -> Vec<Work>) -> Vec<Op> {
    ops.into_iter()
        .map(|op| match op {
            Op::Launch(api, us, work) => Op::Launch(api, us, work.iter().flat_map(by).collect()),
            other => other,
        })
        .collect()
}

/// Launches the kernels of graphs one by one, each after `us` of host time.
pub(crate) fn without_graphs(ops: Vec<Op>, us: f64) -> Vec<Op> {
    let mut out = Vec::new();
    for op in ops {
        match op {
            Op::Launch(api, _, work) if api.contains("GraphLaunch") => {
                let single = if api.starts_with("hip") {
                    "hipLaunchKernel"
                } else {
                    "cudaLaunchKernel"
                };
                for one in work {
                    out.push(Op::Open("aten::op".into(), "cpu_op"));
                    out.push(Op::Host(us));
                    out.push(Op::Launch(single.into(), 3.5, vec![one]));
                    out.push(Op::Close);
                }
            }
            other => out.push(other),
        }
    }
    out
}

/// Returns `true` if the program launches a graph.
pub(crate) fn has_graph(ops: &[Op]) -> bool {
    ops.iter()
        .any(|op| matches!(op, Op::Launch(api, ..) if api.contains("GraphLaunch")))
}
