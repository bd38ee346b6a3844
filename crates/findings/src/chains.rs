//! Chains of small kernels of which one kernel could do the work.

use critical_path::Class;
use trace_model::kernel::KernelClass;

/// Number of kernels one after the other from which they are a chain.
const CHAIN: u64 = 3;

/// Kernels one after the other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Chain {
    pub(crate) kernels: u64,
    /// Their time with the gaps between them.
    pub(crate) ns: i64,
}

impl Chain {
    fn add(&mut self, other: Self, between: i64) {
        let between = if self.kernels > 0 { between } else { 0 };
        self.kernels += other.kernels;
        self.ns += between + other.ns;
    }
}

/// Finds chains of elementwise kernels along a path. A reduction between two of them is part of the chain: norms and softmax consist
/// of both.
#[derive(Debug, Default)]
pub(crate) struct Chains {
    open: Chain,
    /// Time since the last kernel of the open chain.
    since: i64,
    /// A reduction behind the open chain with the gap before it, and the time since.
    reduction: Option<(Chain, i64)>,
    found: Vec<Chain>,
}

impl Chains {
    /// Adds a segment of the path.
    pub(crate) fn add(&mut self, class: Class, ns: i64) {
        let kernel = Chain { kernels: 1, ns };
        match class {
            Class::Kernel(KernelClass::Elementwise) => {
                let between = match self.reduction.take() {
                    Some((reduction, since)) => {
                        self.open.add(reduction, 0);
                        since
                    }
                    None => self.since,
                };
                self.open.add(kernel, between);
                self.since = 0;
            }
            Class::Kernel(KernelClass::Reduction)
                if self.open.kernels > 0 && self.reduction.is_none() =>
            {
                let ns = self.since + ns;
                self.reduction = Some((Chain { kernels: 1, ns }, 0));
            }
            Class::Queue | Class::LaunchCall | Class::LaunchLatency | Class::Dispatch => {
                match &mut self.reduction {
                    Some((_, since)) => *since += ns,
                    None => self.since += ns,
                }
            }
            _ => self.close(),
        }
    }

    fn close(&mut self) {
        self.reduction = None;
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
        let mut chains = Chains::default();
        for class in classes {
            chains.add(Class::Kernel(*class), 10);
            chains.add(Class::Queue, 1);
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
}
