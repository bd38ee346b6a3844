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
    /// Maximum number in one step.
    most: u128,
    /// Number of weights in all of them.
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
    /// Heads of keys and values and their size, each with its attention calls.
    heads: BTreeMap<(Option<u128>, u128), u128>,
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
                *self.heads.entry((heads_kv, size)).or_default() += 1;
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
        self.check_heads(shown, tp)?;
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
        let world = world.unwrap_or(tp).clamp(tp, 1 << 16);
        let ranks = (1..=world).filter(|n| *n == tp || (world > tp && world.is_multiple_of(*n)));
        let widths = Widths {
            config: self,
            ranks: ranks.collect(),
        };
        self.check_layers(shown, &widths, &products)?;
        if shown.heads.is_empty() {
            // Products of attention are known by its heads.
            return Ok(());
        }
        let has_draft = |step: &Step| !step.attention.is_multiple_of(self.layers.max(1));
        let has_draft = shown.steps.values().any(has_draft);
        self.check_widths(&products, &widths, tp, has_draft)
    }

    /// Heads of keys and values, which those of a draft model in the same steps may differ from.
    fn check_heads(&self, shown: &Shown, tp: u128) -> Result<(), ConfigError> {
        let own_heads = (self.kv_heads / tp).max(1);
        let is_even = self.kv_heads.is_multiple_of(tp) || tp.is_multiple_of(self.kv_heads.max(1));
        let own_size = match &self.latent {
            Some(latent) => latent.kv_rank + latent.rope,
            None => self.head_dim,
        };
        let other_heads = |heads_kv: Option<u128>| match (heads_kv, &self.latent) {
            (Some(recorded), None) if is_even && recorded != own_heads => Some(recorded),
            _ => None,
        };
        let fits = |(heads_kv, size): &(Option<u128>, u128)| {
            other_heads(*heads_kv).is_none() && *size == own_size
        };
        if shown.heads.keys().any(fits) {
            return Ok(());
        }
        let most = shown.heads.iter().max_by_key(|(_, calls)| **calls);
        let Some(((heads_kv, size), _)) = most else {
            return Ok(());
        };
        if let Some(recorded) = other_heads(*heads_kv) {
            contradiction("key and value heads per rank", own_heads, recorded)?;
        }
        match own_size == *size {
            true => Ok(()),
            false => contradiction("values in a head", own_size, *size),
        }
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

    /// The attention calls of a step are a multiple of the layers, besides those of a draft model, each pass of which ends with a
    /// product with the vocabulary; the recording may have cut a step.
    fn check_layers(
        &self,
        shown: &Shown,
        widths: &Widths<'_>,
        products: &BTreeMap<(u128, u128), Product>,
    ) -> Result<(), ConfigError> {
        let mut counts: BTreeMap<u128, u128> = BTreeMap::new();
        let whole = || shown.steps.values().filter(|step| !step.is_partial);
        for step in whole().filter(|step| step.attention > 0) {
            *counts.entry(step.attention).or_default() += 1;
        }
        let fits = |step: &Step| {
            let has_draft = step.attention > self.layers && widths.ends(step) > 1;
            has_draft || step.attention.is_multiple_of(self.layers)
        };
        if whole().any(|step| step.attention > 0 && fits(step)) {
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
        widths: &Widths<'_>,
        tp: u128,
        has_draft: bool,
    ) -> Result<(), ConfigError> {
        // By the product out of it: the one into it may have the gate beside, and then fits twice the width as well.
        let mut keys = products.keys();
        let has_width = keys.any(|(inner, outer)| *outer == self.hidden && widths.is_width(*inner));
        // Each layer ends with a product from its inner width to the hidden size.
        let other = products.iter().filter(|((inner, outer), product)| {
            *outer == self.hidden && !widths.is_attended(*inner) && product.most >= self.layers
        });
        let other = other.max_by_key(|(_, product)| product.elements);
        if let Some(((inner, _), _)) = other.filter(|_| !has_width && self.inner > 0) {
            contradiction(
                "intermediate size per rank",
                self.inner.div_ceil(tp),
                *inner,
            )?;
        }
        // Not in each layer, but from the hidden size to something wide.
        let once = products.iter().filter(|((inner, outer), product)| {
            *inner == self.hidden && product.most < self.layers && *outer >= VOCABULARY
        });
        let once: Vec<u128> = once.map(|((_, outer), _)| *outer).collect();
        // Layers of a draft model have such products as well.
        if has_draft || once.iter().any(|n| widths.is_vocabulary(*n)) {
            return Ok(());
        }
        let other = once.iter().filter(|n| !widths.is_of_layer(**n)).max();
        match other {
            Some(found) => {
                contradiction("vocabulary per rank", self.vocabulary.div_ceil(tp), *found)
            }
            None => Ok(()),
        }
    }
}

/// The widths that products of a model have, on one of so many ranks.
struct Widths<'a> {
    config: &'a Config,
    ranks: Vec<u128>,
}

impl Widths<'_> {
    fn is_part(&self, n: u128, whole: u128) -> bool {
        self.ranks.iter().any(|ranks| is_part(n, whole, *ranks))
    }

    /// Is it a width inside of a layer?
    fn is_width(&self, n: u128) -> bool {
        let config = self.config;
        let shared = config.shared_experts * config.expert_inner;
        let mut wholes = [config.inner, config.expert_inner, shared].into_iter();
        wholes.any(|whole| self.is_part(n, whole))
    }

    fn attended(&self, ranks: u128) -> u128 {
        let heads = self.config.heads / ranks;
        match &self.config.latent {
            Some(latent) => heads * latent.v,
            None => heads * self.config.head_dim,
        }
    }

    /// Is it the width of what attention returns?
    fn is_attended(&self, n: u128) -> bool {
        self.ranks.iter().any(|ranks| self.attended(*ranks) == n)
    }

    fn is_vocabulary(&self, n: u128) -> bool {
        self.is_part(n, self.config.vocabulary)
    }

    /// Is it the width of a product out of the hidden size that layers have?
    fn is_of_layer(&self, n: u128) -> bool {
        let config = self.config;
        let of = |ranks: &u128| {
            let kv = (config.kv_heads / ranks).max(1) * config.head_dim;
            let attended = self.attended(*ranks);
            n == attended + 2 * kv || n == kv || n == attended
        };
        let is_up = self.is_width(n) || (n.is_multiple_of(2) && self.is_width(n / 2));
        is_up || n == config.experts || self.ranks.iter().any(of)
    }

    /// Products of a step with a vocabulary, and others from the hidden size to something wide that not all layers have, as those of a
    /// draft model are: more than one where such a model runs, whose vocabulary may be smaller.
    fn ends(&self, step: &Step) -> u128 {
        let all = step.products.iter();
        let ends = all.filter(|((inner, outer), count)| {
            let wide = *outer >= VOCABULARY && !self.is_of_layer(*outer);
            *inner == self.config.hidden
                && **count < self.config.layers
                && (self.is_vocabulary(*outer) || wide)
        });
        ends.fold(0, |sum, (_, count)| sum.saturating_add(*count))
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

    /// Adds passes of a draft model to each step: layers of other sizes with attention, then a product with its vocabulary.
    fn add_draft(shown: &mut Shown, steps: u32, (passes, layers): (u32, u32), vocabulary: u128) {
        let heads = Shape::Attention {
            heads_kv: Some(2),
            size: 128,
        };
        for step in 0..steps {
            for _ in 0..passes {
                let mut product = |inner, outer| {
                    shown.add(step, Some(Shape::Product { inner, outer }), false);
                };
                product(3 * 1024, 1024);
                for _ in 0..layers {
                    product(1024, 2304);
                    product(1024, 1024);
                    product(1024, 7168);
                    product(3584, 1024);
                }
                product(1024, vocabulary);
                for _ in 0..layers {
                    shown.add(step, Some(heads), true);
                }
            }
        }
    }

    #[test]
    fn layers_of_a_draft_model_contradict_nothing() {
        for steps in [1, 3] {
            for passes in [(1, 1), (3, 1), (2, 3)] {
                for vocabulary in [32_000, 8_000] {
                    let mut shown = shown(1, steps);
                    add_draft(&mut shown, steps, passes, vocabulary);
                    let fits = config("", 0).check(&shown, 1, None);
                    assert_eq!(fits, Ok(()), "{steps} {passes:?} {vocabulary}");
                    // More layers than all models together have.
                    let more = config("num_hidden_layers", 40);
                    more.check(&shown, 1, None).unwrap_err();
                }
            }
        }
        // Without a second product with a vocabulary the layers are those of one model.
        let mut shown = shown(1, 2);
        let heads = Shape::Attention {
            heads_kv: Some(4),
            size: 64,
        };
        (0..2).for_each(|step| shown.add(step, Some(heads), true));
        let error = config("", 0).check(&shown, 1, None).unwrap_err();
        assert!(
            error.to_string().contains("layers 4, the recording 5"),
            "{error}"
        );
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
        assert_eq!(other.check(&partial, 1, None), Ok(()));
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
