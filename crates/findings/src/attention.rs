//! Attention that runs as separate kernels: a product, its softmax, and another product.

use critical_path::Class;
use trace_model::kernel::KernelClass;

use crate::chains::Chain;

/// Maximum number of kernels between the two products: scale, mask, conversions and the softmax.
const BETWEEN: u64 = 8;

/// Finds them along a path.
#[derive(Debug, Default)]
pub(crate) struct Separate {
    /// The first product, and what followed it.
    open: Option<Chain>,
    has_softmax: bool,
    /// Those found: their kernels and their time, the products included.
    pub(crate) found: Vec<Chain>,
}

impl Separate {
    /// Adds a segment of the path.
    pub(crate) fn add(&mut self, class: Class, ns: i64) {
        match class {
            Class::Kernel(KernelClass::Gemm) => {
                if let Some(mut chain) = self.open.take().filter(|_| self.has_softmax) {
                    chain.kernels += 1;
                    chain.ns += ns;
                    self.found.push(chain);
                }
                self.has_softmax = false;
                self.open = Some(Chain::of_kernel(ns));
            }
            Class::Kernel(
                KernelClass::Softmax
                | KernelClass::Elementwise
                | KernelClass::Copy
                | KernelClass::Random,
            ) => {
                let Some(chain) = &mut self.open else { return };
                chain.kernels += 1;
                chain.ns += ns;
                self.has_softmax |= class == Class::Kernel(KernelClass::Softmax);
                if chain.kernels > BETWEEN {
                    self.open = None;
                }
            }
            Class::Kernel(_) => self.open = None,
            // What is between kernels neither belongs to them nor ends a chain.
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(classes: &[KernelClass]) -> Vec<(u64, i64)> {
        let mut separate = Separate::default();
        for class in classes {
            separate.add(Class::Kernel(*class), 10);
            separate.add(Class::Queue, 1);
        }
        let each = separate.found.iter().map(|chain| (chain.kernels, chain.ns));
        each.collect()
    }

    #[test]
    fn softmax_between_two_products_is_attention() {
        use KernelClass::{Elementwise, Gemm, Norm, Softmax, Sort};
        let layer = [
            Norm,
            Gemm,
            Gemm,
            Elementwise,
            Elementwise,
            Softmax,
            Gemm,
            Gemm,
            Norm,
        ];
        assert_eq!(found(&layer), [(5, 50)]);
        // A router's softmax is followed by its choice, and that of the vocabulary by no product.
        assert_eq!(found(&[Gemm, Softmax, Sort, Gemm]), []);
        assert_eq!(found(&[Gemm, Elementwise, Softmax, Norm, Gemm]), []);
        assert_eq!(found(&[Gemm, Elementwise, Gemm]), []);
    }
}
