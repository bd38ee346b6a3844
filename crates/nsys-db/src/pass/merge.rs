//! Merges the tables of GPU activities in order of start.

use std::sync::mpsc::Receiver;

use rustc_hash::FxHashMap;

use crate::error::Result;
use crate::pass::operators::Around;
use crate::pass::rows::{Batch, Row, Rows, Totals};
use crate::pass::{Work, WorkKind};

/// Where batches of a table come from.
pub(super) enum Feed<'p> {
    Here(Box<Rows<'p>>),
    Thread(Receiver<Result<Batch>>),
}

/// One table of a merge.
pub(super) struct Input<'p> {
    pub(super) feed: Feed<'p>,
    pub(super) kind: WorkKind,
    pub(super) rows: Vec<Row>,
    pub(super) at: usize,
    /// Number of each name among those of all tables.
    pub(super) names: Vec<usize>,
    pub(super) totals: Totals,
}

impl<'p> Input<'p> {
    pub(super) fn new(feed: Feed<'p>, kind: WorkKind) -> Self {
        Self {
            feed,
            kind,
            rows: Vec::new(),
            at: 0,
            names: Vec::new(),
            totals: Totals::default(),
        }
    }

    /// Makes the next row available; returns its start.
    pub(super) fn head(&mut self, all: &mut AllNames) -> Result<Option<i64>> {
        while self.at >= self.rows.len() {
            let batch = match &mut self.feed {
                Feed::Here(rows) => rows.batch()?,
                Feed::Thread(receiver) => receiver.recv().ok().transpose()?,
            };
            let Some(batch) = batch else {
                return Ok(None);
            };
            for name in batch.names {
                self.names.push(all.number(name));
            }
            let totals = &mut self.totals;
            totals.rows += batch.rows.len() as u64;
            totals.unattributed += batch.unattributed;
            totals.working.extend(batch.working);
            totals.launched_graphs.extend(batch.launched_graphs);
            if batch.tally.is_some() {
                totals.tally = batch.tally;
            }
            self.rows = batch.rows;
            self.at = 0;
        }
        Ok(self.rows.get(self.at).map(|row| row.start))
    }
}

/// Names of all tables.
#[derive(Default)]
pub(super) struct AllNames {
    numbers: FxHashMap<String, usize>,
    pub(super) texts: Vec<String>,
}

impl AllNames {
    pub(super) fn number(&mut self, name: String) -> usize {
        let texts = &mut self.texts;
        *self.numbers.entry(name).or_insert_with_key(|name| {
            texts.push(name.clone());
            texts.len() - 1
        })
    }
}

/// Several tables in order of start.
pub(super) struct Merge<'p> {
    pub(super) inputs: Vec<Input<'p>>,
    names: AllNames,
    around: &'p Around,
}

impl<'p> Merge<'p> {
    pub(super) fn new(around: &'p Around) -> Self {
        Self {
            inputs: Vec::new(),
            names: AllNames::default(),
            around,
        }
    }

    pub(super) fn run(&mut self, each: &mut impl FnMut(&Work<'_>)) -> Result<()> {
        let mut heads = Vec::with_capacity(self.inputs.len());
        for input in &mut self.inputs {
            heads.push(input.head(&mut self.names)?);
        }
        loop {
            let known = heads.iter().enumerate();
            let first = known.filter_map(|(at, head)| head.map(|start| (start, at)));
            let Some((_, at)) = first.min() else {
                return Ok(());
            };
            let Some(input) = self.inputs.get_mut(at) else {
                return Ok(());
            };
            // Rows of one table until another comes first.
            let others = heads.iter().enumerate().filter(|(other, _)| *other != at);
            let next = others.filter_map(|(_, head)| *head).min();
            while let Some(row) = input.rows.get(input.at) {
                if next.is_some_and(|next| row.start > next) {
                    break;
                }
                input.at += 1;
                let dur = row.end.saturating_sub(row.start);
                input.totals.dur_ns = input.totals.dur_ns.saturating_add(dur);
                let name_id = row.name.and_then(|name| input.names.get(name as usize));
                let name = name_id.and_then(|id| self.names.texts.get(*id));
                each(&Work {
                    start_ns: row.start,
                    end_ns: row.end,
                    kind: input.kind,
                    name: name.map(String::as_str),
                    name_id: name_id.copied(),
                    device: row.device,
                    stream: row.stream,
                    launch_ns: row.launch_ns,
                    operators: row.operators.map(|number| {
                        let list = self.around.list(number);
                        (number as usize, list)
                    }),
                });
            }
            let head = input.head(&mut self.names)?;
            if let Some(slot) = heads.get_mut(at) {
                *slot = head;
            }
        }
    }
}
