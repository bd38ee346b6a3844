//! What the configuration of the model says of the calls, and whether it fits what they show.

use rustc_hash::FxHashMap;

use super::{Builder, Sought, place};
use crate::calls::{Kind, flag};
use crate::config::{ConfigError, Experts, Shown};
use crate::numbers::Shape;

impl Builder<'_, '_, '_> {
    /// Ranks of tensor parallelism: as given, else by the heads of queries, which must not contradict the configuration.
    pub(super) fn ranks(&self, sought: &Sought) -> Result<Option<u128>, ConfigError> {
        let Some(config) = self.options.config else {
            return Ok(self.options.tp);
        };
        let mut calls = sought.operators();
        let attention = calls.find(|(_, op)| self.is_attention(*op));
        let heads = attention.and_then(|(_, op)| {
            let (own, op) = self.operator_of(op)?;
            let recorded = own.signature(op).recorded();
            let queries = recorded.tensor(own.info(op).query?)?;
            queries.dim(-2).ok().filter(|n| *n > 0)
        });
        let tp = match (self.options.tp, heads) {
            (Some(tp), _) => tp,
            (None, Some(heads)) => (config.heads() / heads).max(1),
            (None, None) => 1,
        };
        config.check_ranks(tp)?;
        let own = config.heads() / tp;
        match heads {
            Some(recorded) if recorded != own => Err(ConfigError::Contradiction {
                what: "query heads per rank",
                config: own,
                recorded,
            }),
            _ => Ok(Some(tp)),
        }
    }

    /// Checks the configuration against the sizes that the calls of steps show.
    pub(super) fn check_sizes(
        &self,
        sought: &Sought,
        kinds: &[Kind],
        tp: Option<u128>,
        world_size: Option<u32>,
    ) -> Result<(), ConfigError> {
        let Some(config) = self.options.config else {
            return Ok(());
        };
        let mut shown = Shown::default();
        for (call, op) in sought.operators() {
            let Some(step) = call.step() else { continue };
            if op.is_none() {
                if call.has(flag::IN_GRAPH) {
                    shown.add_unknown(step);
                }
                continue;
            }
            let kind = kinds.get(call.kind as usize);
            let numbers = kind.and_then(|kind| kind.answer.as_ref().ok());
            // Products of activations show no weight.
            let shape = numbers.and_then(|n| {
                n.shape.filter(|shape| match shape {
                    Shape::Product { .. } => n.weight_bytes > 0,
                    _ => true,
                })
            });
            shown.add(step, shape, self.is_attention(op));
        }
        config.check(&shown, tp.unwrap_or(1), world_size.map(u128::from))
    }

    pub(super) fn check_experts(
        &self,
        sought: &Sought,
        experts: Option<&Experts>,
    ) -> Result<(), ConfigError> {
        if self.options.config.is_none() {
            return Ok(());
        }
        let own = experts.map_or(0, |experts| experts.all);
        for (_, op) in sought.operators() {
            let Some((source, op)) = self.operator_of(op) else {
                continue;
            };
            let Some(at) = source.info(op).router else {
                continue;
            };
            let recorded = source.signature(op).recorded();
            let logits = recorded.tensor(at).and_then(|t| t.dim(-1).ok());
            return match logits {
                Some(recorded) if recorded != own => Err(ConfigError::Contradiction {
                    what: "experts",
                    config: own,
                    recorded,
                }),
                _ => Ok(()),
            };
        }
        Ok(())
    }

    /// Left windows of attention calls whose layer is certain: those of a step are one a layer, in order.
    pub(super) fn windows(&self, sought: &Sought) -> FxHashMap<u32, u128> {
        let mut windows = FxHashMap::default();
        let Some(config) = self.options.config else {
            return windows;
        };
        let mut by_step: Vec<Vec<u32>> = vec![Vec::new(); self.marks.all.len()];
        for (at, (call, op)) in sought.operators().enumerate() {
            if let Some(step) = call.step().filter(|_| self.is_attention(op)) {
                by_step[step as usize].push(place(at));
            }
        }
        let layers = config.layers();
        for calls in by_step {
            let count = calls.len() as u128;
            if count == 0 || !count.is_multiple_of(layers) {
                continue;
            }
            for (call, n) in calls.into_iter().zip(0_u128..) {
                if let Some(window) = config.window_of(n % layers) {
                    windows.insert(call, window.saturating_sub(1));
                }
            }
        }
        windows
    }
}
