//! Does a configuration fit what a recording shows of its model?
//!
//! Attention shows heads, products with weights show widths: in each layer of a decoder every such product has the hidden size on one
//! side. What a recording does not show contradicts nothing.

use std::collections::BTreeMap;

use super::{Config, ConfigError};
use crate::numbers::Shape;

/// Padding of widths and vocabularies that engines use, in elements.
const PADDING: [u128; 7] = [1, 16, 32, 64, 128, 256, 512];

/// The fewest columns of a vocabulary; heads of classifiers are narrower.
const VOCABULARY: u128 = 512;

/// A product with a weight of some sides.
#[derive(Clone, Copy, Default)]
struct Product {
    /// Most of them in one step.
    most: u128,
    /// Elements of the weights of all.
    elements: u128,
}

/// One step.
#[derive(Default)]
struct Step {
    attention: u128,
    /// Part of its work has no operator, so that attention may be among it.
    is_partial: bool,
    products: BTreeMap<(u128, u128), u128>,
}

/// What a recording shows of the sizes of its model.
#[derive(Default)]
pub(crate) struct Shown {
    steps: BTreeMap<u32, Step>,
    /// Heads of keys and values, and their size.
    heads: Option<(Option<u128>, u128)>,
    /// Experts of a layer and of a token.
    experts: Option<(u128, u128)>,
}

impl Shown {
    /// Adds a call of a step, with what its numbers show.
    pub(crate) fn add(&mut self, step: u32, shape: Option<Shape>, is_attention: bool) {
        let own = self.steps.entry(step).or_default();
        own.attention += u128::from(is_attention);
        match shape {
            Some(Shape::Attention { heads_kv, size }) if is_attention => {
                self.heads.get_or_insert((heads_kv, size));
            }
            Some(Shape::Product { inner, outer }) => {
                *own.products.entry((inner, outer)).or_default() += 1;
            }
            Some(Shape::Experts { all, each_token }) => {
                self.experts.get_or_insert((all, each_token));
            }
            _ => {}
        }
    }

    /// Adds work of a step whose operator is not known.
    pub(crate) fn add_unknown(&mut self, step: u32) {
        self.steps.entry(step).or_default().is_partial = true;
    }

    fn products(&self) -> BTreeMap<(u128, u128), Product> {
        let mut all: BTreeMap<(u128, u128), Product> = BTreeMap::new();
        for step in self.steps.values() {
            for ((inner, outer), count) in &step.products {
                let own = all.entry((*inner, *outer)).or_default();
                own.most = own.most.max(*count);
                let elements = inner.saturating_mul(*outer).saturating_mul(*count);
                own.elements = own.elements.saturating_add(elements);
            }
        }
        all
    }
}

fn contradiction(what: &'static str, config: u128, recorded: u128) -> Result<(), ConfigError> {
    Err(ConfigError::Contradiction {
        what,
        config,
        recorded,
    })
}

/// Is `found` the part of `whole` that one of `ranks` ranks has, padded or not?
fn is_part(found: u128, whole: u128, ranks: u128) -> bool {
    let own = whole.div_ceil(ranks);
    let padded = PADDING.iter().any(|by| {
        found == own.next_multiple_of(*by) || found == whole.next_multiple_of(*by).div_ceil(ranks)
    });
    whole > 0 && padded
}

impl Config {
    /// Checks the configuration against what a recording shows: of one of `tp` ranks, in a job of `world` devices, among which
    /// layers other than attention may be divided otherwise.
    ///
    /// # Errors
    /// [`ConfigError::Contradiction`] with both values.
    pub(crate) fn check(
        &self,
        shown: &Shown,
        tp: u128,
        world: Option<u128>,
    ) -> Result<(), ConfigError> {
        let tp = tp.max(1);
        if let Some((heads_kv, size)) = shown.heads {
            let own = (self.kv_heads / tp).max(1);
            let is_even =
                self.kv_heads.is_multiple_of(tp) || tp.is_multiple_of(self.kv_heads.max(1));
            match (heads_kv, &self.latent) {
                (Some(recorded), None) if is_even && recorded != own => {
                    contradiction("key and value heads per rank", own, recorded)?;
                }
                _ => {}
            }
            let own = match &self.latent {
                Some(latent) => latent.kv_rank + latent.rope,
                None => self.head_dim,
            };
            if own != size {
                contradiction("values in a head", own, size)?;
            }
        }
        if let Some((all, each_token)) = shown.experts {
            // Shared experts may be stored with the others, and ranks may have a part of all.
            let extra = [0, self.shared_experts];
            let fits = |n: u128| n > 0 && self.experts.is_multiple_of(n) && self.experts > 0;
            if !extra.iter().any(|more| fits(all.saturating_sub(*more))) {
                contradiction("experts", self.experts, all)?;
            }
            let fits = |more: &u128| self.experts_per_token + more == each_token;
            if !extra.iter().any(fits) {
                contradiction("experts per token", self.experts_per_token, each_token)?;
            }
        }
        let products = shown.products();
        self.check_hidden(&products)?;
        if self.is_hybrid {
            return Ok(());
        }
        self.check_layers(shown, &products)?;
        if shown.heads.is_none() {
            // Products of attention are known by its heads.
            return Ok(());
        }
        let world = world.unwrap_or(tp).clamp(tp, 1 << 16);
        let ranks: Vec<u128> = (1..=world)
            .filter(|n| *n == tp || (world > tp && world.is_multiple_of(*n)))
            .collect();
        self.check_widths(&products, &ranks, tp)
    }

    fn check_hidden(&self, products: &BTreeMap<(u128, u128), Product>) -> Result<(), ConfigError> {
        let with = |side: u128| -> u128 {
            let all = products.iter();
            let own = all.filter(|((inner, outer), _)| *inner == side || *outer == side);
            own.fold(0, |sum, (_, product)| sum.saturating_add(product.elements))
        };
        let all = products.values();
        let all = all.fold(0_u128, |sum, product| sum.saturating_add(product.elements));
        let sides = products.keys().flat_map(|(inner, outer)| [*inner, *outer]);
        // Of sides that are equally common the least, as widths inside of a layer are larger.
        let best = sides
            .map(|side| (with(side), std::cmp::Reverse(side)))
            .max();
        match best {
            Some((most, std::cmp::Reverse(side)))
                if most / 9 >= all / 10 && with(self.hidden) < most / 2 =>
            {
                contradiction("hidden size", self.hidden, side)
            }
            _ => Ok(()),
        }
    }

    /// The attention calls of a step are a multiple of the layers; the recording may have cut a step.
    fn check_layers(
        &self,
        shown: &Shown,
        products: &BTreeMap<(u128, u128), Product>,
    ) -> Result<(), ConfigError> {
        let mut counts: BTreeMap<u128, u128> = BTreeMap::new();
        for step in shown.steps.values().filter(|step| !step.is_partial) {
            *counts.entry(step.attention).or_default() += 1;
        }
        counts.remove(&0);
        if counts.keys().any(|count| count.is_multiple_of(self.layers)) {
            return Ok(());
        }
        let most = counts
            .iter()
            .max_by_key(|(count, steps)| (**steps, **count));
        let Some((count, steps)) = most else {
            return Ok(());
        };
        // The product with the vocabulary is the last of a step.
        let has_end = products
            .iter()
            .any(|((inner, _), product)| *inner == self.hidden && product.most < *count);
        match *count > self.layers || *steps > 1 || has_end {
            true => contradiction("layers", self.layers, *count),
            false => Ok(()),
        }
    }

    fn check_widths(
        &self,
        products: &BTreeMap<(u128, u128), Product>,
        ranks: &[u128],
        tp: u128,
    ) -> Result<(), ConfigError> {
        let shared = self.shared_experts * self.expert_inner;
        let is_width = |n: u128| {
            let wholes = [self.inner, self.expert_inner, shared];
            let fits = |whole: u128| ranks.iter().any(|ranks| is_part(n, whole, *ranks));
            wholes.into_iter().any(fits)
        };
        let is_up = |n: u128| is_width(n) || (n.is_multiple_of(2) && is_width(n / 2));
        let attended = |ranks: u128| match &self.latent {
            Some(latent) => self.heads / ranks * latent.v,
            None => self.heads / ranks * self.head_dim,
        };
        let is_attended = |n: u128| ranks.iter().any(|ranks| attended(*ranks) == n);
        // By the product out of it: the one into it may have the gate beside, and then fits twice the width as well.
        let has_width =
            (products.keys()).any(|(inner, outer)| *outer == self.hidden && is_width(*inner));
        // Each layer ends with a product from its inner width to the hidden size.
        let other = products.iter().filter(|((inner, outer), product)| {
            *outer == self.hidden && !is_attended(*inner) && product.most >= self.layers
        });
        let other = other.max_by_key(|(_, product)| product.elements);
        if let Some(((inner, _), _)) = other.filter(|_| !has_width && self.inner > 0) {
            contradiction(
                "intermediate size per rank",
                self.inner.div_ceil(tp),
                *inner,
            )?;
        }
        let is_vocabulary = |n: u128| {
            let mut all = ranks.iter();
            all.any(|ranks| is_part(n, self.vocabulary, *ranks))
        };
        let is_of_layer = |n: u128| {
            let of = |ranks: &u128| {
                let kv = (self.kv_heads / ranks).max(1) * self.head_dim;
                n == attended(*ranks) + 2 * kv || n == kv || n == attended(*ranks)
            };
            is_up(n) || n == self.experts || ranks.iter().any(of)
        };
        // Not in each layer, but from the hidden size to something wide.
        let once = products.iter().filter(|((inner, outer), product)| {
            *inner == self.hidden && product.most < self.layers && *outer >= VOCABULARY
        });
        let once: Vec<u128> = once.map(|((_, outer), _)| *outer).collect();
        let other = once.iter().filter(|n| !is_of_layer(**n)).max();
        match other.filter(|_| !once.iter().any(|n| is_vocabulary(*n))) {
            Some(found) => {
                contradiction("vocabulary per rank", self.vocabulary.div_ceil(tp), *found)
            }
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZES: [(&str, u128); 7] = [
        ("hidden_size", 1024),
        ("num_hidden_layers", 4),
        ("num_attention_heads", 16),
        ("num_key_value_heads", 4),
        ("head_dim", 64),
        ("intermediate_size", 2816),
        ("vocab_size", 32_000),
    ];

    fn config(key: &str, value: u128) -> Config {
        let own = |(name, n): &(&str, u128)| match *name == key {
            true => format!("\"{name}\": {value}"),
            false => format!("\"{name}\": {n}"),
        };
        let all: Vec<String> = SIZES.iter().map(own).collect();
        Config::parse(&format!("{{{}}}", all.join(", "))).unwrap()
    }

    /// Steps of the model of these sizes on one of `tp` ranks.
    fn shown(tp: u128, steps: u32) -> Shown {
        let mut shown = Shown::default();
        for step in 0..steps {
            let mut product = |inner, outer| {
                shown.add(step, Some(Shape::Product { inner, outer }), false);
            };
            for _ in 0..4 {
                product(1024, 24 * 64 / tp);
                product(1024 / tp, 1024);
                product(1024, 2 * 2816 / tp);
                product(2816 / tp, 1024);
            }
            product(1024, 32_000 / tp);
            let heads = Shape::Attention {
                heads_kv: Some(4 / tp),
                size: 64,
            };
            for _ in 0..4 {
                shown.add(step, Some(heads), true);
            }
        }
        shown
    }

    #[test]
    fn each_size_that_differs_is_named_with_both_values() {
        for tp in [1, 2, 4] {
            for steps in [1, 3] {
                let shown = shown(tp, steps);
                assert_eq!(config("", 0).check(&shown, tp, None), Ok(()));
                assert_eq!(config("", 0).check(&shown, tp, Some(8)), Ok(()));
                for (key, value, wanted) in [
                    ("num_hidden_layers", 7, "layers 7, the recording 4"),
                    ("num_hidden_layers", 40, "layers 40, the recording 4"),
                    ("num_hidden_layers", 3, "layers 3, the recording 4"),
                    ("num_key_value_heads", 8, "heads per rank"),
                    ("head_dim", 128, "values in a head 128, the recording 64"),
                    ("hidden_size", 2048, "hidden size 2048, the recording 1024"),
                    ("hidden_size", 2816, "hidden size 2816, the recording 1024"),
                    ("intermediate_size", 3996, "intermediate size per rank"),
                    ("intermediate_size", 5632, "intermediate size per rank"),
                    ("vocab_size", 50_000, "vocabulary per rank"),
                    ("vocab_size", 64_000, "vocabulary per rank"),
                ] {
                    let error = config(key, value).check(&shown, tp, None).unwrap_err();
                    let error = error.to_string();
                    assert!(error.contains(wanted), "{key} {tp} {steps}: {error}");
                }
            }
        }
    }

    #[test]
    fn what_is_padded_cut_or_not_recorded_contradicts_nothing() {
        let padded = config("vocab_size", 31_990);
        assert_eq!(padded.check(&shown(1, 2), 1, None), Ok(()));
        assert_eq!(config("", 0).check(&Shown::default(), 1, None), Ok(()));
        // A step that ends before its product with the vocabulary.
        let mut cut = Shown::default();
        let heads = Shape::Attention {
            heads_kv: Some(4),
            size: 64,
        };
        cut.add(0, Some(heads), true);
        let product = Shape::Product {
            inner: 1024,
            outer: 24 * 64,
        };
        cut.add(0, Some(product), false);
        assert_eq!(config("", 0).check(&cut, 1, None), Ok(()));
        // A step with a graph whose kernels have no operator.
        let mut partial = shown(1, 2);
        for step in 0..2 {
            partial.add_unknown(step);
        }
        let other = config("num_hidden_layers", 40);
        assert_eq!(other.check_layers(&partial, &partial.products()), Ok(()));
        // Attention on each rank alone, the rest divided.
        let mut mixed = Shown::default();
        for _ in 0..4 {
            mixed.add(0, Some(heads), true);
            for (inner, outer) in [(1024, 24 * 64), (1024, 1024), (1024, 704), (352, 1024)] {
                mixed.add(0, Some(Shape::Product { inner, outer }), false);
            }
        }
        assert_eq!(config("", 0).check(&mixed, 1, Some(8)), Ok(()));
    }
}
