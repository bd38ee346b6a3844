//! Builds a query from the arguments.

use std::io::{BufRead, IsTerminal as _};

use launch_stacks::{
    KernelSelector, Linking, NameMatch, Order, Pick, Query, Window, WindowChoice, find_windows,
};
use trace_model::callstack::{FrameFilter, Normalise};
use trace_model::{Timestamp, Trace};

use crate::args::{self, COMPAT_FUNCTION, COMPAT_KERNEL, Cli, Sort};
use crate::prompt;

/// Returns the query without its windows.
///
/// # Errors
///
/// Returns an error for wrong usage: a pattern that is not a regular expression.
pub(crate) fn query(cli: &Cli) -> anyhow::Result<Query> {
    let mut query = Query::default();
    if let Some(rows) = &cli.kernels.classes {
        query.vocabulary = query.vocabulary.with_rules(rows.clone());
    }
    query.kernels = kernels(cli)?;
    query.linking = match (cli.compat, cli.kernels.heuristic) {
        (true, _) => Linking::Flows,
        (false, false) => Linking::Best,
        (false, true) => Linking::Heuristic,
    };
    query.filter.threads.clone_from(&cli.window.thread);
    query.filter.pids.clone_from(&cli.window.pid);
    query.filter.within = cli.window.within;
    let rules = &mut query.stacks.rules;
    rules.depth = usize::try_from(cli.stacks.stack_depth).unwrap_or(0);
    rules.collapse_recursion = cli.stacks.collapse_recursion;
    let default = match cli.is_text() {
        true => args::Normalise::Smart,
        false => args::Normalise::Digits,
    };
    rules.normalise = match cli.stacks.normalize.unwrap_or(default) {
        args::Normalise::None => Normalise::None,
        args::Normalise::Digits => Normalise::Digits,
        args::Normalise::Smart => Normalise::Smart,
    };
    rules.filter = match cli.stacks.frames {
        args::Frames::Python => FrameFilter::Python,
        args::Frames::Ops => FrameFilter::Ops,
        args::Frames::All => FrameFilter::All,
        args::Frames::NoWrappers => FrameFilter::NoWrappers,
    };
    query.stacks.extend = !cli.compat;
    query.measure = !cli.compat;
    Ok(query)
}

fn kernels(cli: &Cli) -> anyhow::Result<KernelSelector> {
    let k = &cli.kernels;
    let mut selector = KernelSelector::default();
    selector
        .names
        .extend(k.kernel_name.iter().map(|n| NameMatch::Exact(n.clone())));
    for pattern in &k.kernel {
        let name = NameMatch::regex(pattern).map_err(|e| cli::usage(e.to_string()))?;
        selector.names.push(name);
    }
    selector
        .names
        .extend(k.kernel_glob.iter().map(|g| NameMatch::glob(g)));
    selector.collectives = k.collectives;
    selector.strict_category = cli.compat;
    if selector.names.is_empty() && !selector.collectives {
        if cli.compat {
            selector
                .names
                .push(NameMatch::Exact(COMPAT_KERNEL.to_owned()));
        } else {
            selector.collectives = true;
        }
    }
    Ok(selector)
}

/// Returns the sort key of stacks.
pub(crate) fn order(cli: &Cli) -> Order {
    let default = match cli.is_text() {
        true => Sort::Gpu,
        false => Sort::Count,
    };
    match cli.report.sort.unwrap_or(default) {
        Sort::Count => Order::Count,
        Sort::Gpu => Order::Gpu,
        Sort::Exposed => Order::Exposed,
        Sort::Bytes => Order::Bytes,
    }
}

/// Returns the windows to use in `trace`, asking for one if requested. `None` if there were several
/// candidates, which have been listed, and nobody can be asked.
///
/// # Errors
///
/// Returns an error for an unknown function, a bad index, or a cancelled choice.
pub(crate) fn windows(
    cli: &Cli,
    trace: &Trace,
    several_traces: bool,
) -> anyhow::Result<WindowChoice> {
    let w = &cli.window;
    match (w.start_ts, w.duration) {
        (Some(start), Some(duration)) => {
            if duration < 0 && !cli.compat {
                return Err(cli::usage(format!(
                    "invalid window of {duration} ns: end before start; --duration is at least 0"
                )));
            }
            let end = start.saturating_add(duration);
            let between = (Timestamp::from_nanos(start), Timestamp::from_nanos(end));
            return Ok(WindowChoice::Given(vec![Window::between(
                between.0, between.1,
            )]));
        }
        (Some(_), None) => {
            let note = "warning: --start-ts is ignored without --duration";
            cli.verbosity.note(note);
        }
        (None, Some(_)) => {
            let note = "warning: --duration is ignored without --start-ts";
            cli.verbosity.note(note);
        }
        (None, None) => {}
    }
    let function = match (&w.function_name, &w.window_regex) {
        (Some(name), _) => NameMatch::function(name),
        (None, Some(re)) => NameMatch::regex(re).map_err(|e| cli::usage(e.to_string()))?,
        (None, None) if cli.compat => NameMatch::function(COMPAT_FUNCTION),
        (None, None) => return Ok(WindowChoice::WholeTrace),
    };
    let pick = match (w.index, w.nth) {
        (Some(index), _) => Some(Pick::Index(index)),
        (None, Some(range)) => Some(range),
        _ if w.all_windows => Some(Pick::All),
        _ if w.first => Some(Pick::First),
        _ if w.last => Some(Pick::Last),
        _ => None,
    };
    cli.verbosity
        .note(format!("searching for '{}'", function.text()));
    let pick = match pick {
        Some(pick) => pick,
        None => ask(cli, trace, &function, several_traces)?,
    };
    Ok(WindowChoice::Function(function, pick))
}

fn ask(
    cli: &Cli,
    trace: &Trace,
    function: &NameMatch,
    several_traces: bool,
) -> anyhow::Result<Pick> {
    let candidates = find_windows(trace, function);
    if candidates.is_empty() || (candidates.len() == 1 && !cli.compat) {
        return Ok(Pick::First);
    }
    let stdin = std::io::stdin();
    let may_ask = cli.compat || (stdin.is_terminal() && !several_traces);
    // Another program's input is not for answers, nor are its signals for this tool.
    if may_ask && !cli::in_process::is_active() {
        prompt::cancel_on_interrupt();
        return prompt::choose(&candidates, &mut stdin.lock() as &mut dyn BufRead);
    }
    prompt::list(&candidates);
    Err(cli::usage(format!(
        "{} slices match '{}': choose with --index, --first, --last, --nth or --all-windows",
        candidates.len(),
        function.text()
    )))
}
