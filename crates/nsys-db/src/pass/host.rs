//! Counts what the host did, and notes when the calls started that launched GPU activities.

use rustc_hash::{FxHashMap, FxHashSet};
use sqlite_scan::{Leaves, Value};
use trace_model::kernel::{is_graph_launch, is_launch_api};

use crate::error::Result;
use crate::host::{BACKTRACE, CALLS, RUNTIME, SYNC, is_openacc, without_version};
use crate::ids::ProcessKey;
use crate::links::CallStarts;
use crate::load::Loader;
use crate::pass::operators::{Covered, InnerCall, Wanted, Where};
use crate::strings::{Strings, text};
use crate::tally::{Span, Tally};

/// What is known of calls of one name.
#[derive(Clone, Copy)]
struct CallKind {
    launches: bool,
    launches_graph: bool,
}

/// Calls of a part of their table.
struct CallsPart<'e> {
    tally: Tally,
    rows: u64,
    strings: Strings<'e>,
    names: FxHashMap<i64, CallKind>,
    launching: FxHashSet<ProcessKey>,
    last_launching: Option<ProcessKey>,
    graphs: Vec<(ProcessKey, i64)>,
    inner: Vec<InnerCall>,
    is_across: bool,
}

impl CallsPart<'_> {
    fn kind(&mut self, name: Value<'_>) -> Result<CallKind> {
        let of = |text: &str| {
            let shown = without_version(text);
            CallKind {
                launches: is_launch_api(shown),
                launches_graph: is_graph_launch(shown),
            }
        };
        let Some(id) = name.as_int() else {
            return Ok(of(&text(name).unwrap_or_default()));
        };
        if let Some(known) = self.names.get(&id) {
            return Ok(*known);
        }
        let kind = of(&self.strings.get(id)?.unwrap_or_default());
        self.names.insert(id, kind);
        Ok(kind)
    }
}

/// What an answer needs of calls.
pub(super) struct Calls {
    pub(super) starts: CallStarts,
    /// Those within operators that can matter.
    pub(super) inner: Vec<InnerCall>,
    /// They cross operators or are too many.
    pub(super) is_unknown: bool,
}

/// Rows of a part of a table of which nothing but the number matters.
struct CountPart {
    tally: Tally,
    rows: u64,
}

impl<'e> Loader<'e> {
    /// Counts the calls of the host, and finds when the calls started that launched GPU activities, and which of them are within
    /// operators.
    pub(super) fn count_host(
        &mut self,
        within: (&Wanted<'_>, &Covered),
        leaves: Option<&'e Leaves>,
    ) -> Result<Calls> {
        self.count_table(SYNC, "globalPid", false)?;
        let calls = self.count_api(within, leaves)?;
        for (table, category) in CALLS {
            self.count_table(table, "globalTid", category == "overhead")?;
        }
        let names: Vec<String> = self.export.table_names().map(str::to_owned).collect();
        for table in names.iter().filter(|name| is_openacc(name)) {
            self.count_table(table, "globalTid", false)?;
        }
        self.samples()?;
        if self.options.counters {
            self.scheduling()?;
        }
        Ok(calls)
    }

    fn count_table(&mut self, table: &str, process: &'static str, is_overhead: bool) -> Result<()> {
        let of_activity = process == "globalPid";
        let sole = match of_activity && self.options.process.is_some() {
            true => Some(self.process_of_work(Value::Null)?),
            false => None,
        };
        let (wanted, empty) = (self.options.process, &self.tally);
        let parts = self.export.scan_parts(
            table,
            ["start", "end", process, "eventClass"],
            self.options.threads,
            || {
                let tally = empty.fresh();
                Ok(CountPart { tally, rows: 0 })
            },
            |part, row, [start, end, process, class]| {
                if !of_activity && class.as_int() == Some(BACKTRACE) {
                    return Ok(());
                }
                if let Some(wanted) = wanted
                    && let Some(process) = process.as_int().map(ProcessKey::of).or(sole)
                    && process != wanted
                {
                    return Ok(());
                }
                if let Some((start, end)) = part.tally.within(table, row, start, end) {
                    part.rows += 1;
                    part.tally.extend(start, end);
                }
                Ok(())
            },
        )?;
        for part in parts {
            self.tally.absorb(part.tally);
            self.count_rows(table, part.rows);
            self.counts.overhead += if is_overhead { part.rows } else { 0 };
        }
        Ok(())
    }

    fn count_api(
        &mut self,
        (wanted_operators, covered): (&Wanted<'_>, &Covered),
        leaves: Option<&'e Leaves>,
    ) -> Result<Calls> {
        let starts = CallStarts::new(
            self.linked.take().unwrap_or_default(),
            self.options.launches,
        );
        let (wanted, empty, export) = (self.options.process, &self.tally, self.export);
        let columns = [
            "start",
            "end",
            "eventClass",
            "globalTid",
            "correlationId",
            "nameId",
        ];
        let parts = export.scan_parts(
            RUNTIME,
            columns,
            self.options.threads,
            || {
                Ok(CallsPart {
                    tally: empty.fresh(),
                    rows: 0,
                    strings: Strings::new(export, leaves)?,
                    names: FxHashMap::default(),
                    launching: FxHashSet::default(),
                    last_launching: None,
                    graphs: Vec::new(),
                    inner: Vec::new(),
                    is_across: false,
                })
            },
            |part, row, [start, end, class, thread, correlation, name]| {
                if class.as_int() == Some(BACKTRACE) {
                    return Ok(());
                }
                let Some(thread) = thread.as_int() else {
                    part.tally.bad_value(RUNTIME, row, "globalTid");
                    return Ok(());
                };
                let process = ProcessKey::of(thread);
                if wanted.is_some_and(|wanted| wanted != process) {
                    return Ok(());
                }
                let (start, end, is_early) = match part.tally.span(RUNTIME, row, start, end) {
                    Span::Bad => return Ok(()),
                    Span::Early(start, end) => (start, end, true),
                    Span::Within(start, end) => (start, end, false),
                };
                let call = part.kind(name)?;
                let launches = call.launches || call.launches_graph;
                let id = correlation.as_int().filter(|id| *id != 0);
                let is_linked = id.is_some_and(|id| starts.add(process, id, start, launches));
                if let (true, false, Some(id)) = (is_linked, covered.is_empty(), id) {
                    let inner = InnerCall {
                        thread,
                        times: (start, end),
                        row,
                        correlation: id,
                        launches_graph: call.launches_graph,
                    };
                    match covered.place(thread, inner.times) {
                        Where::Outside => {}
                        Where::Inside if wanted_operators.may_keep() => part.inner.push(inner),
                        _ => part.is_across = true,
                    }
                }
                match is_early {
                    // What it launched may have run in the collection.
                    true if !is_linked => part.tally.before += 1,
                    true => part.tally.extend(start, end),
                    false => {
                        part.rows += 1;
                        part.tally.extend(start, end);
                        if launches && part.last_launching != Some(process) {
                            part.last_launching = Some(process);
                            part.launching.insert(process);
                        }
                        if call.launches_graph {
                            part.graphs.extend(id.map(|id| (process, id)));
                        }
                    }
                }
                Ok(())
            },
        )?;
        let (mut inner, mut is_unknown) = (Vec::new(), false);
        for part in parts {
            inner.extend(part.inner);
            is_unknown |= part.is_across;
            self.tally.absorb(part.tally);
            self.count_rows(RUNTIME, part.rows);
            self.counts.api_calls += part.rows;
            self.launching.extend(part.launching);
            let graphs = part.graphs.into_iter().map(|key| (key, false));
            self.graph_launches.extend(graphs);
        }
        Ok(Calls {
            starts,
            inner,
            is_unknown,
        })
    }
}
