//! Where the blocks of all inputs come together: one table of texts, one order, and memory that goes round.

use std::collections::VecDeque;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::analyse::runs::{Batch, Shape};
use crate::blocks::{Block, Parsed};
use crate::event::Symbols;
use crate::first_sizes::FirstSizes;
use crate::order::{Held, Order};

/// Batches handed on whose memory is waited for before new memory is taken.
const REUSED: usize = 32;

/// Takes the next batch, with all texts that its events refer to.
pub(crate) type Take<'t> = dyn FnMut(&Arc<Batch>, &Symbols) + 't;

/// The place where blocks come together.
pub(crate) struct Merge<'a, 't> {
    pub(crate) order: Order,
    pub(crate) symbols: Symbols,
    /// What was handed on last, to use its memory again.
    handed: VecDeque<Arc<Batch>>,
    /// Whether shapes are wanted.
    shaping: bool,
    /// The first issue that was handed on, once shapes are.
    first_issue_ns: Option<u64>,
    /// Memory for a shape.
    spare: Shape,
    /// Names of processes that some inputs tell for all: those of records of blktrace.
    names: FxHashMap<u32, u32>,
    /// Which sizes come first, if that is wanted.
    pub(crate) first_sizes: Option<FirstSizes>,
    take: &'a mut Take<'t>,
}

impl<'a, 't> Merge<'a, 't> {
    /// Hands batches to `take`, with their shapes if those are wanted.
    pub(crate) fn new(order: Order, shaping: bool, take: &'a mut Take<'t>) -> Self {
        Self {
            order,
            symbols: Symbols::default(),
            handed: VecDeque::new(),
            shaping,
            first_issue_ns: None,
            spare: Shape::default(),
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
        for block in self.order.push(piece) {
            self.hand_on(block);
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

    pub(crate) fn hand_on(&mut self, held: Held) {
        let Held {
            mut events,
            mut shape,
        } = held;
        if !self.names.is_empty() {
            for event in events.iter_mut().filter(|e| e.comm == 0 && e.pid != 0) {
                if let Some(name) = self.names.get(&event.pid) {
                    event.comm = *name;
                    // What was found before has no names.
                    shape = None;
                }
            }
        }
        if events.is_empty() {
            return;
        }
        let shape = match shape {
            Some(shape) => shape,
            None if self.shaping => {
                let spare = std::mem::take(&mut self.spare);
                Shape::of(&events, &mut self.first_issue_ns, spare)
            }
            None => Shape::default(),
        };
        let batch = Arc::new(Batch {
            events: Arc::new(events),
            shape,
        });
        (self.take)(&batch, &self.symbols);
        self.handed.push_back(batch);
        if self.handed.len() > REUSED {
            self.handed.pop_front();
        }
    }

    /// Gives a block what its reader needs: the texts so far, and memory if there is any to use again.
    pub(crate) fn equip(&mut self, block: &mut Block) {
        block.symbols = self.symbols.to_begin_with();
        block.wants_first_sizes = self.first_sizes.is_some();
        let Batch { events, shape } = self.unused();
        block.spare = Arc::into_inner(events).unwrap_or_default();
        block.spare.clear();
        match self.first_issue_ns {
            Some(first) if self.shaping => block.shaping = Some((first, shape)),
            _ => self.spare = shape,
        }
    }

    /// The oldest batch, if nobody needs it any more.
    fn unused(&mut self) -> Batch {
        let oldest = self.handed.pop_front();
        match oldest.map(Arc::try_unwrap) {
            Some(Ok(batch)) => batch,
            Some(Err(held)) => {
                self.handed.push_front(held);
                Batch::default()
            }
            None => Batch::default(),
        }
    }
}
