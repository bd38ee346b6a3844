//! Read, label, write, analyse: each on a thread of its own.

use std::io::Write;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread;

use memtrace_analyser::{Analyser, Analysis, AnalysisOptions, BlockLife};
use memtrace_labeller::{
    Access, KvBlocks, LabelCounts, LabelOptions, Labeller, Name, Names, ReadReport, Records,
    RegionMap, Regions, RowStream, TraceWriter, infer_kv_block_bytes,
};

use crate::error::{Error, Result};

/// Stores to the KV cache that are looked at to find the size of a block.
const STORES_FOR_BLOCKS: usize = 65_536;
/// Rows that are held back meanwhile, at most.
const ROWS_FOR_BLOCKS: usize = 262_144;

/// What is done with the rows of an input.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Steps {
    /// Labels the rows; without it they stay as they are.
    pub label: Option<LabelOptions>,
    /// Finds the size of KV blocks from the first stores, when labels are ours.
    pub infer_kv_blocks: bool,
    /// Ranges made known to the labeller.
    pub ranges: Vec<memtrace_labeller::AddressRange>,
    /// What was mapped and unmapped when.
    pub unmaps: Vec<memtrace_labeller::Unmap>,
    /// Accesses from symbols with these words are stores.
    pub store_symbols: Vec<String>,
    /// Analyses them.
    pub analyse: Option<AnalysisOptions>,
}

/// What came of it.
#[derive(Debug)]
#[non_exhaustive]
pub struct Processed {
    /// The texts of the rows.
    pub names: Names,
    /// What the reader found.
    pub report: ReadReport,
    /// The regions, when rows were labelled.
    pub regions: RegionMap,
    /// The blocks of the KV cache, when rows were labelled.
    pub kv_blocks: KvBlocks,
    /// How rows were labelled.
    pub counts: LabelCounts,
    /// Bytes of a KV block that were assumed, when labels are ours.
    pub kv_block_bytes: Option<u64>,
    /// The analysis, when it was asked for.
    pub analysis: Option<Analysis>,
}

/// A batch on its way to the writer, with the texts that are new in it.
struct Parcel {
    rows: Arc<Vec<Access>>,
    texts: Vec<Box<str>>,
}

/// Takes batches of rows with the table of their texts.
pub trait RowOutput: Send {
    /// Takes a batch.
    ///
    /// # Errors
    ///
    /// When the destination refuses.
    fn rows(&mut self, rows: &[Access], names: &Names) -> Result<()>;
}

impl<W: Write + Send> RowOutput for TraceWriter<W> {
    fn rows(&mut self, rows: &[Access], names: &Names) -> Result<()> {
        Ok(self.write(rows, names)?)
    }
}

/// Sends the rows of an input through the steps, and to `output`.
///
/// Labelling goes by the order of the rows and stays on the calling thread; writing and analysing run beside it. Batches in
/// flight are few, so memory is that of the steps.
///
/// # Errors
///
/// The first one of any step.
pub fn process(
    mut stream: RowStream,
    mut names: Names,
    steps: Steps,
    output: Option<&mut dyn RowOutput>,
) -> Result<Processed> {
    let store_symbols = steps.store_symbols;
    let mut options = steps.label;
    let mut held = Vec::new();
    let mut more = true;
    if let Some(LabelOptions {
        regions: Regions::Native { kv_block_bytes, .. },
        rules,
        ..
    }) = &mut options
        && steps.infer_kv_blocks
    {
        let mut stores = Vec::new();
        while more && held.len() < ROWS_FOR_BLOCKS && stores.len() < STORES_FOR_BLOCKS {
            let before = held.len();
            more = stream.next_batch(&mut names, &mut held)?;
            mark_stores(
                held.get_mut(before..).unwrap_or_default(),
                &names,
                &store_symbols,
            );
            for row in held.iter().skip(before).filter(|row| row.is_store()) {
                let kind = rules.classify(
                    names.get(row.phase),
                    names.text(row.op),
                    names.text(row.symbol),
                    names.text(row.dso),
                );
                if kind == Some("kv_cache") || row.region_type == Name::KV_CACHE {
                    stores.push(row.address);
                }
            }
        }
        *kv_block_bytes = infer_kv_block_bytes(&stores);
    }
    let kv_block_bytes = match &options {
        Some(LabelOptions {
            regions: Regions::Native { kv_block_bytes, .. },
            ..
        }) => Some(*kv_block_bytes),
        _ => None,
    };
    let mut labeller = options.map(Labeller::new);
    if let Some(labeller) = &mut labeller {
        labeller.register_address_ranges(&steps.ranges, &mut names);
        labeller.register_unmaps(&steps.unmaps);
    }
    let analyse = steps.analyse.map(|mut options| {
        options.resolution_ns = options.resolution_ns.max(stream.resolution_ns());
        options.made_up_clock |= stream.counts_instructions();
        if stream.records() != Records::Accesses {
            options.records = stream.records();
        }
        options
    });
    let analysis = thread::scope(|scope| -> Result<Option<Analyser>> {
        let (to_writer, writer) = match output {
            Some(output) => {
                let (send, receive) = sync_channel::<Parcel>(4);
                (
                    Some(send),
                    Some(scope.spawn(move || write_all(&receive, output))),
                )
            }
            None => (None, None),
        };
        let (to_analyser, analyser) = match analyse {
            Some(options) => {
                let (send, receive) = sync_channel::<(Arc<Vec<Access>>, u64)>(4);
                let work = move || -> Result<Analyser> {
                    let mut analyser = Analyser::new(options);
                    for (rows, held) in receive {
                        analyser.reserve(held);
                        analyser.push(&rows)?;
                    }
                    Ok(analyser)
                };
                (Some(send), Some(scope.spawn(work)))
            }
            None => (None, None),
        };
        let mut told = 0;
        let mut rows = std::mem::take(&mut held);
        let mut marked = rows.len();
        loop {
            if rows.is_empty() && !more {
                break;
            }
            mark_stores(
                rows.get_mut(marked..).unwrap_or_default(),
                &names,
                &store_symbols,
            );
            if let Some(labeller) = &mut labeller {
                let mut failure = None;
                rows.retain_mut(|row| {
                    failure.is_none()
                        && match labeller.label(row, &mut names) {
                            Ok(kept) => kept,
                            Err(error) => {
                                failure = Some(error);
                                false
                            }
                        }
                });
                if let Some(error) = failure {
                    return Err(error.into());
                }
            }
            let batch = Arc::new(std::mem::take(&mut rows));
            // A step that failed hangs up; its error is told when it is joined.
            let mut alive = true;
            if let Some(send) = &to_writer {
                let texts = names.since(told).map(Box::from).collect();
                told = names.len();
                alive &= send
                    .send(Parcel {
                        rows: Arc::clone(&batch),
                        texts,
                    })
                    .is_ok();
            }
            if let Some(send) = &to_analyser {
                let held = labeller.as_ref().map_or(0, Labeller::heap_bytes);
                alive &= send.send((batch, held)).is_ok();
            }
            if !alive || !more {
                break;
            }
            marked = 0;
            more = stream.next_batch(&mut names, &mut rows)?;
        }
        drop((to_writer, to_analyser));
        if let Some(writer) = writer {
            writer.join().map_err(|_| Error::Thread)??;
        }
        analyser
            .map(|analyser| analyser.join().map_err(|_| Error::Thread)?)
            .transpose()
    })?;
    let counts = labeller.as_ref().map(Labeller::counts).unwrap_or_default();
    // What only labelling needs makes room for the analysis.
    let (regions, kv_blocks) = labeller.map(Labeller::into_maps).unwrap_or_default();
    let analysis = analysis
        .map(|mut analyser| {
            analyser.reserve(regions.heap_bytes() + kv_blocks.heap_bytes());
            for block in kv_blocks.iter() {
                if block.allocated_ns.is_some() || block.freed_ns.is_some() {
                    let life = BlockLife::new(block.allocated_ns, block.freed_ns);
                    analyser.set_life(block.block_id, life);
                }
            }
            analyser.finish(&names)
        })
        .transpose()?;
    Ok(Processed {
        report: stream.report(),
        regions,
        kv_blocks,
        counts,
        kv_block_bytes,
        names,
        analysis,
    })
}

fn write_all(parcels: &Receiver<Parcel>, output: &mut dyn RowOutput) -> Result<()> {
    let mut names = Names::new();
    for parcel in parcels {
        for text in &parcel.texts {
            names.intern(text);
        }
        output.rows(&parcel.rows, &names)?;
    }
    Ok(())
}

/// Makes stores of accesses whose symbol says so: a breakpoint does not tell loads from stores.
pub(crate) fn mark_stores(rows: &mut [Access], names: &Names, words: &[String]) {
    if words.is_empty() {
        return;
    }
    for row in rows {
        let symbol = names.text(row.symbol);
        if words.iter().any(|word| symbol.contains(word.as_str())) {
            row.op = Name::STORE;
        }
    }
}
