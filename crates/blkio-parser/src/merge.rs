//! Merges the blocks of all inputs: one table of texts, one order.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::blocks::{Block, Parsed};
use crate::event::{Event, Symbols};
use crate::first_sizes::FirstSizes;
use crate::order::Order;

/// Takes the next events, with all texts that they refer to.
pub(crate) type Take<'t> = dyn FnMut(Arc<Vec<Event>>, &Symbols) + 't;

/// The place where blocks come together.
pub(crate) struct Merge<'a, 't> {
    pub(crate) order: Order,
    pub(crate) symbols: Symbols,
    /// Names of processes that some inputs tell for all: those of records of blktrace.
    names: FxHashMap<u32, u32>,
    /// Which sizes come first, if that is wanted.
    pub(crate) first_sizes: Option<FirstSizes>,
    take: &'a mut Take<'t>,
}

impl<'a, 't> Merge<'a, 't> {
    /// Hands events to `take`.
    pub(crate) fn new(order: Order, take: &'a mut Take<'t>) -> Self {
        Self {
            order,
            symbols: Symbols::default(),
            names: FxHashMap::default(),
            first_sizes: None,
            take,
        }
    }

    /// Takes the events of the next block.
    pub(crate) fn block(&mut self, parsed: Parsed) {
        let Parsed {
            mut piece,
            symbols,
            first_sizes,
        } = parsed;
        let renumber = self.symbols.absorb(&symbols);
        if let (Some(all), Some(these)) = (&mut self.first_sizes, first_sizes) {
            all.append(&these, &renumber);
        }
        if !renumber.is_identity() {
            for event in piece.events_mut() {
                renumber.apply(event);
            }
        }
        for events in self.order.push(piece) {
            self.hand_on(events);
        }
    }

    /// Takes over names of processes, as numbers of `symbols`; events without a name that are handed on later get them.
    pub(crate) fn name_processes(
        &mut self,
        names: impl Iterator<Item = (u32, u32)>,
        symbols: &Symbols,
    ) {
        for (pid, name) in names {
            let name = self.symbols.comm(symbols.comm_of(name));
            self.names.insert(pid, name);
        }
    }

    pub(crate) fn hand_on(&mut self, mut events: Vec<Event>) {
        if !self.names.is_empty() {
            for event in events.iter_mut().filter(|e| e.comm == 0 && e.pid != 0) {
                event.comm = self.names.get(&event.pid).copied().unwrap_or(0);
            }
        }
        if !events.is_empty() {
            (self.take)(Arc::new(events), &self.symbols);
        }
    }

    /// Gives a block the texts so far.
    pub(crate) fn equip(&mut self, block: &mut Block) {
        block.symbols = self.symbols.to_begin_with();
        block.wants_first_sizes = self.first_sizes.is_some();
    }
}
