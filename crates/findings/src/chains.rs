//! Chains of small kernels of which one kernel could do the work.

use critical_path::Class;
use rustc_hash::FxHashMap;
use trace_model::kernel::{KernelClass, class_of};

/// Number of kernels one after the other from which they are a chain.
const CHAIN: u64 = 3;

/// Kernels one after the other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Chain {
    pub(crate) kernels: u64,
    /// Their time with the gaps between them.
    pub(crate) ns: i64,
    /// The longest of them: one kernel that reads and writes the same once takes about as long.
    pub(crate) longest_ns: i64,
}

impl Chain {
    /// A chain of one kernel.
    pub(crate) fn of_kernel(ns: i64) -> Self {
        Self {
            kernels: 1,
            ns,
            longest_ns: ns,
        }
    }

    fn add(&mut self, other: Self, between: i64) {
        let between = if self.kernels > 0 { between } else { 0 };
        self.kernels += other.kernels;
        self.ns += between + other.ns;
        self.longest_ns = self.longest_ns.max(other.longest_ns);
    }
}

/// What a segment of a path is for a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Link {
    /// An elementwise kernel.
    Elementwise,
    /// A reduction or a copy within the device: part of a chain between two elementwise kernels.
    Between,
    /// No work: a launch, or the time in a queue.
    Gap,
    /// Anything else: the end of a chain.
    Other,
}

/// Tells links by class and name, and remembers names.
#[derive(Debug, Default)]
pub(crate) struct Links {
    of_names: FxHashMap<String, Link>,
}

impl Links {
    /// Returns what a segment is. The kernels of a norm or a rotary embedding that is written out have the class of the whole: it is
    /// their names that tell.
    pub(crate) fn of(&mut self, class: Class, name: &str) -> Link {
        match class {
            Class::Kernel(KernelClass::Elementwise) => Link::Elementwise,
            Class::Kernel(KernelClass::Reduction) => Link::Between,
            Class::Kernel(_) => match self.of_names.get(name) {
                Some(known) => *known,
                None => {
                    let link = link_of_name(name);
                    self.of_names.insert(name.to_owned(), link);
                    link
                }
            },
            Class::Queue | Class::LaunchCall | Class::LaunchLatency | Class::Dispatch => Link::Gap,
            _ => Link::Other,
        }
    }
}

/// What PyTorch names its kernels of elementwise operators, whatever these compute.
const ELEMENTWISE: &str = "elementwise_kernel";

fn link_of_name(name: &str) -> Link {
    match class_of(name) {
        KernelClass::Elementwise => Link::Elementwise,
        KernelClass::Activation | KernelClass::Copy if name.contains(ELEMENTWISE) => {
            Link::Elementwise
        }
        KernelClass::Reduction | KernelClass::Copy => Link::Between,
        _ => Link::Other,
    }
}

/// Finds chains of elementwise kernels along a path. Reductions and copies between two of them are part of the chain: norms, softmax
/// and rotary embeddings consist of these.
#[derive(Debug, Default)]
pub(crate) struct Chains {
    open: Chain,
    /// Time since the last kernel of the open chain.
    since: i64,
    /// A reduction or copy behind the open chain with the gap before it, and the time since.
    between: Option<(Chain, i64)>,
    found: Vec<Chain>,
}

impl Chains {
    /// Adds a segment of the path.
    pub(crate) fn add(&mut self, link: Link, ns: i64) {
        let kernel = Chain::of_kernel(ns);
        match link {
            Link::Elementwise => {
                let between = match self.between.take() {
                    Some((between, since)) => {
                        self.open.add(between, 0);
                        since
                    }
                    None => self.since,
                };
                self.open.add(kernel, between);
                self.since = 0;
            }
            Link::Between if self.open.kernels > 0 && self.between.is_none() => {
                let kernel = Chain {
                    ns: self.since + ns,
                    ..kernel
                };
                self.between = Some((kernel, 0));
            }
            Link::Gap => match &mut self.between {
                Some((_, since)) => *since += ns,
                None => self.since += ns,
            },
            Link::Between | Link::Other => self.close(),
        }
    }

    fn close(&mut self) {
        self.between = None;
        self.since = 0;
        let chain = std::mem::take(&mut self.open);
        if chain.kernels >= CHAIN {
            self.found.push(chain);
        }
    }

    /// Returns the chains found.
    pub(crate) fn finish(mut self) -> Vec<Chain> {
        self.close();
        self.found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(classes: &[KernelClass]) -> Vec<(u64, i64)> {
        let (mut chains, mut links) = (Chains::default(), Links::default());
        for class in classes {
            chains.add(links.of(Class::Kernel(*class), ""), 10);
            chains.add(links.of(Class::Queue, ""), 1);
        }
        let each = chains.finish().into_iter();
        each.map(|chain| (chain.kernels, chain.ns)).collect()
    }

    #[test]
    fn a_reduction_between_elementwise_kernels_is_part_of_their_chain() {
        use KernelClass::{Elementwise, Gemm, Reduction};
        // A norm: power, mean, root, two products.
        let norm = [
            Gemm,
            Elementwise,
            Reduction,
            Elementwise,
            Elementwise,
            Elementwise,
            Gemm,
        ];
        assert_eq!(found(&norm), [(5, 54)]);
        assert_eq!(found(&[Elementwise, Reduction, Elementwise]), [(3, 32)]);
        // Behind a chain it is none of it, and two of them are no norm.
        assert_eq!(found(&[Elementwise, Elementwise, Reduction, Gemm]), []);
        assert_eq!(
            found(&[Elementwise, Elementwise, Elementwise, Reduction, Gemm]),
            [(3, 32)]
        );
        assert_eq!(found(&[Elementwise, Reduction, Reduction, Elementwise]), []);
        assert_eq!(found(&[Reduction, Elementwise, Elementwise, Gemm]), []);
        let two = [
            Elementwise,
            Elementwise,
            Elementwise,
            Gemm,
            Elementwise,
            Elementwise,
            Elementwise,
        ];
        assert_eq!(found(&two), [(3, 32), (3, 32)]);
    }

    #[test]
    fn kernels_of_a_norm_that_is_written_out_are_links_by_their_names() {
        let mut links = Links::default();
        let mut of = |name: &str| links.of(Class::Kernel(KernelClass::Norm), name);
        let add = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>>(int)";
        assert_eq!(of(add), Link::Elementwise);
        let mean = "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::MeanOps<float, float>>>(int)";
        assert_eq!(of(mean), Link::Between);
        assert_eq!(
            of("void vllm::fused_add_rms_norm_kernel<c10::BFloat16, 8>(int)"),
            Link::Other
        );
        let cat = "void at::native::(anonymous namespace)::CatArrayBatchedCopy<OpaqueType<2>, unsigned int, 4>(int)";
        assert_eq!(
            links.of(Class::Kernel(KernelClass::Rotary), cat),
            Link::Between
        );
    }
}
