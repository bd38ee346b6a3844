//! Rules for communication, computation and memcpy: the project's definition and those of other
//! analyzers.

use serde::Serialize;
use trace_model::StrId;

use crate::work::{GpuEvent, GpuWork, WorkKind};

/// A set of rules that classify GPU activity.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Rules {
    /// Communication is a kernel with `nccl` or `rccl` in its name, in any case; computation is
    /// every other kernel and every memset; memcpy is its own class.
    Exact,
    /// Communication follows the vocabulary
    /// ([`Vocabulary::communication`](trace_model::kernel::Vocabulary::communication)): collective
    /// libraries, dispatch and combine of expert parallelism, custom, symmetric-memory and fused
    /// all-reduces, NVSHMEM and others, and kernels of unknown name that a communication operator
    /// launched; all else as `Exact`.
    #[default]
    Extended,
    /// Rules of HolisticTraceAnalysis 0.5: communication is `nccl*Kernel*`, memcpy is `Memcpy*`,
    /// `Memset*` and `dma*`, computation is everything else whose name has no `Memcpy`, `Memset` or
    /// `Sync`.
    Hta,
    /// Rules of TraceLens: as `Exact`, except that communication includes `cross_device_reduce`,
    /// and kernels named `MEMORY_COPY_*` or `__amd_rocclr_copyBuffer*` are memcpys.
    TraceLens,
}

impl Rules {
    /// Returns the stable machine name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Exact => "exact",
            Self::Extended => "extended",
            Self::Hta => "hta",
            Self::TraceLens => "tracelens",
        }
    }

    /// Returns a description of the classes in one line.
    pub fn explanation(self) -> &'static str {
        match self {
            Self::Exact => "communication = kernels named nccl or rccl",
            Self::Extended => {
                "communication = collective libraries, expert-parallel dispatch and combine, custom and symmetric-memory collectives"
            }
            Self::Hta => {
                "as HolisticTraceAnalysis 0.5: its window, nccl*Kernel, any event with a stream"
            }
            Self::TraceLens => {
                "as TraceLens: nccl, rccl, cross_device_reduce; ROCm copy kernels are copies"
            }
        }
    }

    /// Returns the role of a GPU activity of this kind and name. `communicates` returns the
    /// vocabulary's answer for the name; it is called only if it matters.
    pub fn role(self, kind: WorkKind, name: &str, communicates: impl FnOnce() -> bool) -> Role {
        if self == Self::Hta {
            return hta_role(name);
        }
        match kind {
            WorkKind::Memcpy => return Role::Memcpy,
            WorkKind::Memset => return Role::Memset,
            WorkKind::Graph => return Role::Computation,
            WorkKind::Kernel => {}
        }
        let is_communication = match self {
            Self::Extended => communicates(),
            _ => has(name, "nccl") || has(name, "rccl"),
        };
        if is_communication {
            return Role::Communication;
        }
        match self {
            Self::TraceLens if name.contains("cross_device_reduce") => {
                return Role::Communication;
            }
            Self::TraceLens
                if name.starts_with("MEMORY_COPY_")
                    || name.starts_with("__amd_rocclr_copyBuffer") =>
            {
                return Role::Memcpy;
            }
            _ => {}
        }
        if name.starts_with("Memcpy") || name.starts_with("Memset") {
            Role::CopyKernel
        } else {
            Role::Computation
        }
    }
}

/// Returns `true` if `name` contains the lower-case `part`, ignoring case.
fn has(name: &str, part: &str) -> bool {
    name.as_bytes()
        .windows(part.len())
        .any(|w| w.eq_ignore_ascii_case(part.as_bytes()))
}

fn hta_role(name: &str) -> Role {
    let rest = name.strip_prefix("nccl");
    if rest.is_some_and(|rest| rest.contains("Kernel")) {
        Role::Communication
    } else if ["Memcpy", "Memset", "dma"]
        .iter()
        .any(|p| name.starts_with(p))
    {
        Role::Memcpy
    } else if ["Memcpy", "Memset", "Sync"]
        .iter()
        .any(|p| name.contains(p))
    {
        Role::Neither
    } else {
        Role::Computation
    }
}

/// Role of a GPU activity in a breakdown.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub enum Role {
    /// Computation.
    Computation,
    /// A kernel named like a memcpy or memset: computation, but not in
    /// [`GpuTime::kernel_comp_ns`](crate::GpuTime::kernel_comp_ns).
    CopyKernel,
    /// A memset: computation, but not in
    /// [`GpuTime::kernel_comp_ns`](crate::GpuTime::kernel_comp_ns).
    Memset,
    /// Communication.
    Communication,
    /// A memcpy.
    Memcpy,
    /// None of these, but busy time. Only with [`Rules::Hta`].
    Neither,
}

/// Roles of the events of one trace; each name is classified once.
#[derive(Debug)]
pub struct Roles<'w, 't> {
    work: &'w GpuWork<'t>,
    rules: Rules,
    /// Roles by name; kernels are separate from memcpys and memsets.
    known: Vec<[Option<Role>; 4]>,
}

impl<'w, 't> Roles<'w, 't> {
    /// Creates an empty cache of roles.
    pub fn new(work: &'w GpuWork<'t>, rules: Rules) -> Self {
        Self {
            known: vec![[None; 4]; work.trace().strings().len()],
            work,
            rules,
        }
    }

    /// Returns the role of `event`.
    pub fn of(&mut self, event: &GpuEvent) -> Role {
        let (work, rules) = (self.work, self.rules);
        let decide = |name: Option<StrId>| {
            let name = name.map_or("", |id| work.trace().text(id));
            let vocabulary = work.index().vocabulary();
            rules.role(event.kind, name, || {
                vocabulary.communication(name).is_some()
            })
        };
        // The operator that launched the kernel counts too, so the name alone does not decide.
        if rules == Rules::Extended
            && event.kind == WorkKind::Kernel
            && work.index().is_collective(work.slice(event))
        {
            return Role::Communication;
        }
        let kind = match event.kind {
            WorkKind::Kernel => 0,
            WorkKind::Memcpy => 1,
            WorkKind::Memset => 2,
            WorkKind::Graph => 3,
        };
        let slot = event.name.and_then(|id| self.known.get_mut(id.index()));
        match slot.and_then(|kinds| kinds.get_mut(kind)) {
            Some(known) => *known.get_or_insert_with(|| decide(event.name)),
            None => decide(event.name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rules_differ_where_they_should() {
        use Role::{Communication as Comm, Computation as Comp, CopyKernel, Memcpy, Neither};
        let vocabulary = trace_model::kernel::Vocabulary::default();
        let communicates = |name: &str| vocabulary.communication(name).is_some();
        // Exact, Extended, Hta, TraceLens.
        for (name, want) in [
            (
                "ncclDevKernel_Generic_1(ncclDevKernelArgs)",
                [Comm, Comm, Comm, Comm],
            ),
            ("ncclDev_AllReduce", [Comm, Comm, Comp, Comm]),
            ("void RCCLSomething()", [Comm, Comm, Comp, Comm]),
            ("multimem_all_reduce_kernel", [Comp, Comm, Comp, Comp]),
            (
                "void deep_ep::intranode::dispatch<8>(int)",
                [Comp, Comm, Comp, Comp],
            ),
            ("void gemm<ncclComm>(int)", [Comm, Comp, Comp, Comm]),
            (
                "sglang::cross_device_reduce_1stage",
                [Comp, Comm, Comp, Comm],
            ),
            ("MEMORY_COPY_DEVICE_TO_DEVICE", [Comp, Comp, Comp, Memcpy]),
            ("__amd_rocclr_copyBufferAligned", [Comp, Comp, Comp, Memcpy]),
            ("Memcpy DtoD", [CopyKernel, CopyKernel, Memcpy, CopyKernel]),
            ("dma_copy", [Comp, Comp, Memcpy, Comp]),
            ("cudaStreamSync", [Comp, Comp, Neither, Comp]),
            ("gemm", [Comp, Comp, Comp, Comp]),
        ] {
            let all = [Rules::Exact, Rules::Extended, Rules::Hta, Rules::TraceLens];
            let got = all.map(|r| r.role(WorkKind::Kernel, name, || communicates(name)));
            assert_eq!(got, want, "{name}");
        }
    }
}
