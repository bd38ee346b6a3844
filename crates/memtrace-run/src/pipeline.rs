//! Reads, labels, writes and analyses rows; each step has its own thread.

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

/// Number of stores to the KV cache that are examined to find the block size.
const STORES_FOR_BLOCKS: usize = 65_536;
/// Maximum number of rows buffered meanwhile.
const ROWS_FOR_BLOCKS: usize = 262_144;

/// Steps applied to the rows of an input.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Steps {
    /// Options for labelling the rows; without them rows keep their labels.
    pub label: Option<LabelOptions>,
    /// Infers the size of KV blocks from the first stores, in native semantics.
    pub infer_kv_blocks: bool,
    /// Address ranges passed to the labeller.
    pub ranges: Vec<memtrace_labeller::AddressRange>,
    /// Recorded mappings and unmappings with their times.
    pub unmaps: Vec<memtrace_labeller::Unmap>,
    /// Words of symbols whose accesses are stores.
    pub store_symbols: Vec<String>,
    /// Options of the analysis, if requested.
    pub analyse: Option<AnalysisOptions>,
}

/// Result of processing an input.
#[derive(Debug)]
#[non_exhaustive]
pub struct Processed {
    /// Texts of the rows.
    pub names: Names,
    /// Report of the reader.
    pub report: ReadReport,
    /// Regions, if rows were labelled.
    pub regions: RegionMap,
    /// Blocks of the KV cache, if rows were labelled.
    pub kv_blocks: KvBlocks,
    /// Counts of the labels.
    pub counts: LabelCounts,
    /// Assumed size of a KV block in bytes, in native semantics.
    pub kv_block_bytes: Option<u64>,
    /// The analysis, if requested.
    pub analysis: Option<Analysis>,
}

/// A batch on its way to the writer, with the texts that are new in it.
struct Parcel {
    rows: Arc<Vec<Access>>,
    texts: Vec<Box<str>>,
}

/// Receives batches of rows with the table of their texts.
pub trait RowOutput: Send {
    /// Writes a batch.
    ///
    /// # Errors
    ///
    /// Returns an error if writing fails.
    fn rows(&mut self, rows: &[Access], names: &Names) -> Result<()>;
}

impl<W: Write + Send> RowOutput for TraceWriter<W> {
    fn rows(&mut self, rows: &[Access], names: &Names) -> Result<()> {
        Ok(self.write(rows, names)?)
    }
}

/// Passes the rows of an input through the steps and to `output`.
///
/// Labelling depends on the order of the rows and stays on the calling thread; writing and
/// analysing run in parallel. Few batches are in flight, so memory is that of the steps.
///
/// # Errors
///
/// The first error of any step.
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
            // A failed step closes its channel; its error is returned when it is joined.
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
    // State that only labelling needs is freed for the analysis.
    let (regions, kv_blocks) = labeller.map(Labeller::into_maps).unwrap_or_default();
    let analysis = analysis
        .map(|mut analyser| {
            analyser.reserve(regions.heap_bytes() + kv_blocks.heap_bytes());
            for block in kv_blocks.iter() {
                if block.allocated_ns.is_some() || block.freed_ns.is_some() {
                    let life = BlockLife::new(block.allocated_ns, block.freed_ns);
                    analyser.set_life(block.region_id, life);
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

/// Marks accesses as stores by their symbol: a breakpoint does not distinguish loads from stores.
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
