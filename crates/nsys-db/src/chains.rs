//! Call chains of CUDA calls.

use rustc_hash::FxHashMap;
use sqlite_scan::Value;
use trace_model::StrId;

use crate::error::Result;
use crate::load::Loader;

const TABLE: &str = "CUDA_CALLCHAINS";
const RUNTIME: &str = "CUPTI_ACTIVITY_KIND_RUNTIME";
const BACKTRACE: i64 = 67;

/// A frame as stored.
struct Frame {
    depth: i64,
    symbol: Option<i64>,
    module: Option<i64>,
    is_unresolved: bool,
    address: Option<i64>,
}

/// Chains by the calls that they belong to.
#[derive(Default)]
pub(crate) struct Chains {
    /// Chain of the call of a thread and correlation id.
    by_call: FxHashMap<(i64, i64), i64>,
    frames: FxHashMap<i64, Vec<Frame>>,
    /// Text of each chain: frames from the innermost on, one a line.
    texts: FxHashMap<i64, Option<StrId>>,
}

impl Chains {
    pub(crate) fn new(loader: &mut Loader<'_>) -> Result<Self> {
        let mut chains = Self::default();
        let export = loader.export;
        if !export.has_rows(TABLE)? {
            return Ok(chains);
        }
        let columns = ["globalTid", "correlationId", "callchainId", "eventClass"];
        export.scan(
            RUNTIME,
            columns,
            |_, [thread, correlation, chain, class]| {
                if class.as_int() == Some(BACKTRACE)
                    && let (Some(thread), Some(correlation), Some(chain)) =
                        (thread.as_int(), correlation.as_int(), chain.as_int())
                {
                    chains.by_call.insert((thread, correlation), chain);
                }
                Ok(())
            },
        )?;
        let columns = [
            "id",
            "stackDepth",
            "symbol",
            "module",
            "unresolved",
            "originalIP",
        ];
        export.scan(
            TABLE,
            columns,
            |_, [id, depth, symbol, module, unresolved, address]| {
                if let (Some(id), Some(depth)) = (id.as_int(), depth.as_int()) {
                    loader.count_row(TABLE);
                    chains.frames.entry(id).or_default().push(Frame {
                        depth,
                        symbol: symbol.as_int(),
                        module: module.as_int(),
                        is_unresolved: unresolved.as_int().is_some_and(|flag| flag != 0),
                        address: address.as_int(),
                    });
                }
                Ok(())
            },
        )?;
        #[expect(
            clippy::iter_over_hash_type,
            reason = "each chain is sorted on its own"
        )]
        for frames in chains.frames.values_mut() {
            frames.sort_by_key(|frame| frame.depth);
        }
        Ok(chains)
    }

    /// Returns the chain of a call: that of its own row, else that of the row of class 67 for it. Its frames may be missing.
    pub(crate) fn id_of_call(
        &self,
        thread: i64,
        correlation: Option<i64>,
        own: Value<'_>,
    ) -> Option<i64> {
        if self.frames.is_empty() {
            return None;
        }
        let linked = correlation.and_then(|id| self.by_call.get(&(thread, id)).copied());
        linked.or(own.as_int())
    }

    /// Returns the frames of a call's chain: that of its own row, else that of the row of class 67 for it.
    pub(crate) fn of_call(
        &mut self,
        loader: &mut Loader<'_>,
        thread: i64,
        correlation: Option<i64>,
        own: Value<'_>,
    ) -> Result<Option<StrId>> {
        let Some(id) = self.id_of_call(thread, correlation, own) else {
            return Ok(None);
        };
        if let Some(known) = self.texts.get(&id) {
            return Ok(*known);
        }
        let frames = self.frames.get(&id).map_or(&[][..], Vec::as_slice);
        let lines = lines(loader, frames)?;
        let text = (!lines.is_empty()).then(|| loader.builder.string(&lines.join("\n")));
        self.texts.insert(id, text);
        Ok(text)
    }
}

/// Returns the frames that belong to the program, from the innermost on.
fn lines(loader: &mut Loader<'_>, frames: &[Frame]) -> Result<Vec<String>> {
    let mut lines = Vec::new();
    for frame in frames {
        let module = match frame.module {
            Some(id) => loader.text_of(id)?.unwrap_or_default(),
            None => String::new(),
        };
        if lines.is_empty() && is_recorder(&module) {
            continue;
        }
        let symbol = match frame.symbol {
            Some(id) => Some(
                loader
                    .text_of(id)?
                    .unwrap_or_else(|| format!("[string {id}]")),
            ),
            None => None,
        };
        if symbol.as_deref() == Some("[Max depth]") {
            continue;
        }
        lines.push(match symbol {
            Some(symbol) if !frame.is_unresolved && !symbol.is_empty() => symbol.replace('\n', " "),
            symbol => {
                let base = module.rsplit(['/', '\\']).next().unwrap_or_default();
                let address = symbol.filter(|text| text.starts_with("0x"));
                let address = address.or_else(|| frame.address.map(|ip| format!("0x{ip:x}")));
                let address = address.unwrap_or_else(|| "0x?".to_owned());
                let base = if base.is_empty() { "[unknown]" } else { base };
                format!("{base}!{address}")
            }
        });
    }
    Ok(lines)
}

/// Returns `true` for modules of the profiler, the driver and the runtime, whose frames lie below every call.
fn is_recorder(module: &str) -> bool {
    let base = module.rsplit(['/', '\\']).next().unwrap_or(module);
    module.contains("nsight-systems")
        || module.contains("Nsight-Systems")
        || module.contains("Nsight Systems")
        || base.starts_with("libToolsInjection")
        || base.starts_with("libcupti")
        || base.starts_with("libcuda.so")
        || base.starts_with("nvcuda")
        || base.starts_with("libcudart")
        || base.starts_with("cudart64")
}
