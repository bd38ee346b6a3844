//! `trace-info gpu`.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::panic::resume_unwind;
use std::thread;

use clap::{Args, ValueEnum};
use cli::Outcome;
use gpu_time::comm::{HOST_MARKS, SHAPE_KEYS, host_collectives, host_communication};
use gpu_time::compat::{hta, tracelens};
use gpu_time::tables::{self, GpuRow};
use gpu_time::{
    GpuTime, GpuWork, IdleBound, IdleVerdict, NoGpuWork, Note, PassingTime, PlaceKind, Roles,
    Rules, Split, account, idle_parts, notes, percent, split,
};
use perfetto_reader::{ArgPolicy, HostSlices, ReadOptions};
use rca_cycles::Limit;
use report::human;
use trace_input::{ClassesArgs, NamedTrace};
use trace_model::{TimeRange, Trace};

use crate::args::{RULES, ReportArgs, ReportFormat};
use crate::document::{Destination, Document};
use crate::empty::{self, Answers};
use crate::kernels::precise;
use crate::outlined;
use crate::part::{self, PartArgs};

pub(crate) const HELP: &str = "\
Times are exact unions of half-open intervals over all streams and devices:
  computation + exposed communication + exposed memcpy + idle = span
Exposed communication is time in which communication runs and no computation;
memcpy does not hide it. Times are nanoseconds (_ns); CSV with the rules of
others has their columns in microseconds (_us), what is not known as nan.
A window, and a step with --step-by time, cuts work at its ends, and its length
is the span.

Example:
  trace-info gpu rank*.json.gz --format csv --output gpu.csv
  trace-info gpu t.json.gz --per-step
  trace-info gpu t.json.gz --window +100ms..+200ms --per-stream";

#[derive(Debug, Args)]
pub(crate) struct GpuArgs {
    #[command(flatten)]
    pub(crate) report: ReportArgs,
    #[command(flatten)]
    pub(crate) rules: RulesArgs,
    /// One account for each stream
    #[arg(long)]
    pub(crate) per_stream: bool,
    /// One account for each device
    #[arg(long, conflicts_with = "per_stream")]
    pub(crate) per_device: bool,
    /// For several traces: notes and times of each instead of one table
    #[arg(long)]
    pub(crate) details: bool,
    #[command(flatten)]
    pub(crate) part: PartArgs,
}

/// How kernels are classified, and what counts.
#[derive(Debug, Args)]
pub(crate) struct RulesArgs {
    /// What counts as communication, computation and copying
    #[arg(long, help_heading = RULES, value_enum, value_name = "RULES", default_value_t)]
    pub(crate) rules: RulesName,
    /// Only work whose launch is in the trace, as TraceLens' reports have it
    #[arg(long, help_heading = RULES)]
    pub(crate) linked_only: bool,
    #[command(flatten)]
    pub(crate) classes: ClassesArgs,
    /// With --rules hta: cut events to whole microseconds, as that tool does by default
    #[arg(long, help_heading = RULES)]
    pub(crate) hta_rounding: bool,
}

impl RulesArgs {
    pub(crate) fn check(&self) -> anyhow::Result<()> {
        let is_hta = self.rules == RulesName::Hta;
        if self.hta_rounding && !is_hta {
            return Err(cli::usage("--hta-rounding needs --rules hta"));
        }
        if self.linked_only && is_hta {
            return Err(cli::usage(
                "--linked-only does not go with --rules hta, which has a choice of its own",
            ));
        }
        Ok(())
    }

    /// Returns `true` if of the host only the launches of GPU activity decide what counts, and how.
    pub(crate) fn needs_launches_only(&self) -> bool {
        matches!(self.rules, RulesName::Extended | RulesName::Exact)
    }

    /// Returns the GPU activity of `trace`, with the given classes.
    pub(crate) fn work<'t>(&self, trace: &'t Trace) -> GpuWork<'t> {
        GpuWork::with_vocabulary(trace, self.classes.vocabulary())
    }

    /// Returns the GPU activity that the rules keep.
    pub(crate) fn events<'w>(&self, work: &'w GpuWork<'_>) -> Cow<'w, [gpu_time::GpuEvent]> {
        match (self.rules, self.linked_only) {
            (RulesName::Hta, _) => Cow::Owned(hta::events(work, self.hta_rounding)),
            (_, true) => Cow::Owned(tracelens::linked(work)),
            _ => Cow::Borrowed(work.events()),
        }
    }
}

/// Rules, as command-line values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum RulesName {
    /// Collective libraries, expert-parallel dispatch and combine, custom and fused collectives
    #[default]
    Extended,
    /// Communication is kernels named nccl or rccl
    Exact,
    /// Window, classes and events of HolisticTraceAnalysis
    Hta,
    /// Classes of TraceLens
    Tracelens,
}

impl From<RulesName> for Rules {
    fn from(name: RulesName) -> Self {
        match name {
            RulesName::Exact => Self::Exact,
            RulesName::Extended => Self::Extended,
            RulesName::Hta => Self::Hta,
            RulesName::Tracelens => Self::TraceLens,
        }
    }
}

/// Results of one trace.
struct Answer {
    trace: String,
    /// The bound of the trace, as a sentence.
    headline: String,
    rows: Vec<GpuRow>,
    whole: GpuTime,
    notes: Vec<Note>,
    /// Collectives of the host, in which no GPU takes part.
    host: Option<Note>,
    types: Vec<hta::Combination>,
}

/// Keeps the arguments that give the sizes of the host's collectives.
pub(crate) fn keep_shapes(options: &mut ReadOptions) {
    if let ArgPolicy::Only(kept) = &mut options.args {
        kept.extend(SHAPE_KEYS.iter().map(|key| (*key).to_owned()));
    }
}

pub(crate) fn run(args: &GpuArgs) -> anyhow::Result<Outcome> {
    args.rules.check()?;
    let report = &args.report;
    let to = Destination::open(report)?;
    let traces = report.traces()?;
    // Which of host and device waits for the other is said of each trace in words, and needs all calls of the host: of a large
    // recording they are too many to be kept, and the text says so.
    let is_text = cli::in_process::is_active()
        || matches!(
            report.format.format(),
            ReportFormat::Text | ReportFormat::Md
        );
    let is_one_table = traces.len() > 1 && !args.is_parted() && !args.details;
    let wants_headline = is_text && !is_one_table;
    let is_large = traces.iter().any(|path| trace_input::is_large(path));
    let may_be_lean = args.part.is_whole() && args.rules.needs_launches_only();
    let reads_host = wants_headline && !(is_large && may_be_lean);
    // Then nothing is asked of the host that a look at each activity does not tell.
    let may_pass = !reads_host && may_be_lean && !args.rules.linked_only;
    let fresh = || {
        let vocabulary = args.rules.classes.vocabulary();
        let rules = Rules::from(args.rules.rules);
        may_pass.then(|| PassingTime::new(vocabulary, rules, args.by_place()))
    };
    let each = empty::read_each_passing(
        report,
        &traces,
        |options| {
            args.part.keep_args(options);
            keep_shapes(options);
            if !reads_host && may_be_lean {
                options.host = HostSlices::Launching(HOST_MARKS.to_vec());
            }
            if !reads_host && args.rules.needs_launches_only() {
                let outlining = outlined::but_communicating(args.rules.classes.vocabulary());
                options.outline = args.part.outline(outlining);
            }
        },
        (fresh, PassingTime::add, true),
        |input, passed| match passed {
            Some(passed) => Ok((answer_passed(args, input, passed, wants_headline), None)),
            None => answer(args, input, wants_headline, reads_host),
        },
    )?;
    document(args, &each)?.write(to)?;
    each.end(report)
}

impl GpuArgs {
    /// Returns what the breakdown is split by.
    fn by_place(&self) -> Option<PlaceKind> {
        match (self.per_stream, self.per_device) {
            (true, _) => Some(PlaceKind::Stream),
            (_, true) => Some(PlaceKind::Device),
            _ => None,
        }
    }

    /// Returns `true` if each trace has several rows.
    fn is_parted(&self) -> bool {
        self.part.by_step() || self.per_stream || self.per_device
    }
}

fn answer(
    args: &GpuArgs,
    input: &NamedTrace,
    wants_headline: bool,
    reads_host: bool,
) -> anyhow::Result<(Answer, Option<NoGpuWork>)> {
    let work = args.rules.work(&input.trace);
    let rules = Rules::from(args.rules.rules);
    let kept = args.rules.events(&work);
    let events = &*kept;
    let mut roles = Roles::new(&work, rules);
    let whole = account(&mut roles, events, None);
    let (mut how, more) = args.part.resolve(input, &work)?;
    how.by_place = args.by_place();
    let mut notes = notes(&work, rules, events, &whole);
    notes.extend(more);
    let trace = input.label.clone();
    let plain = args.part.is_whole() && how.by_place.is_none();
    let parts = match plain {
        true => Vec::new(),
        false => split(&work, &mut roles, events, &how),
    };
    let row = |step: Option<usize>, time: GpuTime| GpuRow {
        of: part::of(&trace, &how, step),
        rules,
        events_total: input.trace.meta().events,
        time,
        ..GpuRow::default()
    };
    let mut rows: Vec<GpuRow> = Vec::new();
    for part in parts.iter().filter(|part| args.part.wants(part.step)) {
        rows.push(GpuRow {
            device: part.device.map(|d| d.0),
            stream: part.stream.map(|s| s.0),
            host_ns: part.step.and_then(|at| {
                let steps = how.steps.as_ref()?;
                Some(steps.get(at)?.range.duration().get())
            }),
            ..row(part.step, part.time)
        });
    }
    if plain {
        rows.push(row(None, whole));
    }
    if let (Some(_), [only]) = (how.window, parts.as_slice()) {
        let outside = (events.len() as u64).saturating_sub(only.time.gpu_events);
        notes.push(
            Note::new("outside", "lie outside of the window and do not count").count(outside),
        );
        let clipped = clipped(events, how.window);
        notes.push(Note::new("clipped", "are cut at an end of the window").count(clipped));
    }
    let types = match args.rules.rules {
        RulesName::Hta => hta::combinations(&mut roles, events),
        _ => Vec::new(),
    };
    let time = match (how.window, parts.as_slice()) {
        (Some(_), [only]) => only.time,
        _ => whole,
    };
    let devices = events
        .iter()
        .map(|event| event.device)
        .collect::<BTreeSet<_>>();
    let headline = match devices.len() {
        _ if !wants_headline => String::new(),
        0 | 1 => {
            let threads = args.report.input.threads().get();
            headline(&time, reads_host.then(|| Host::of(&work, &how, threads)))
        }
        count => {
            let mut by_device = Split::default();
            by_device.window = how.window;
            by_device.by_place = Some(PlaceKind::Device);
            gpu_time::answer::devices(&split(&work, &mut roles, events, &by_device), count, &time)
        }
    };
    let host = host_note(&input.trace);
    let answer = Answer {
        headline,
        trace,
        rows,
        whole,
        notes,
        host,
        types,
    };
    Ok((answer, part::no_gpu_time(&work, &how)))
}

/// Returns the answer about a trace whose GPU activities were passed on; `input` is the rest of it.
fn answer_passed(
    args: &GpuArgs,
    input: &NamedTrace,
    passed: PassingTime,
    wants_headline: bool,
) -> Answer {
    let rules = Rules::from(args.rules.rules);
    let trace = input.label.clone();
    let (whole, devices) = (passed.whole(), passed.devices());
    let mut how = Split::default();
    how.by_place = args.by_place();
    let row = |time: GpuTime| GpuRow {
        of: part::of(&trace, &how, None),
        rules,
        events_total: input.trace.meta().events,
        time,
        ..GpuRow::default()
    };
    let rows = match how.by_place {
        None => vec![row(whole)],
        Some(_) => {
            let parts = passed.parts().into_iter();
            parts
                .map(|part| GpuRow {
                    device: part.device.map(|d| d.0),
                    stream: part.stream.map(|s| s.0),
                    ..row(part.time)
                })
                .collect()
        }
    };
    let headline = match devices.len() {
        _ if !wants_headline => String::new(),
        0 | 1 => headline(&whole, None),
        count => gpu_time::answer::devices(&devices, count, &whole),
    };
    let mut notes = passed.notes(&input.trace);
    notes.extend(part::notes(input));
    Answer {
        headline,
        rows,
        whole,
        notes,
        host: host_note(&input.trace),
        types: Vec::new(),
        trace,
    }
}

/// Returns the note on collectives of the host.
fn host_note(trace: &Trace) -> Option<Note> {
    let found = host_collectives(trace);
    host_communication(&found).map(|text| {
        let sum = found.iter().map(|kind| kind.durations.sum_ns).sum();
        Note::new("host_communication", text).ns(sum)
    })
}

/// What the calls of the host say: who waits for whom, and why the device idles.
struct Host {
    slack: Option<rca_cycles::Slack>,
    verdict: IdleVerdict,
}

impl Host {
    fn of(work: &GpuWork<'_>, how: &Split, threads: usize) -> Self {
        let slack = || rca_cycles::slack(work.trace(), how.window);
        let (slack, verdict) = match threads {
            1 => (slack(), idle_verdict(work, how)),
            _ => thread::scope(|scope| {
                let slack = scope.spawn(slack);
                let verdict = idle_verdict(work, how);
                (
                    slack.join().unwrap_or_else(|panic| resume_unwind(panic)),
                    verdict,
                )
            }),
        };
        Self { slack, verdict }
    }
}

/// Minimum share of exposed communication in the span that bounds a trace, in percent.
const MUCH: f64 = gpu_time::IDLE_MUCH_PCT;

/// Returns why the device idles, as decided by `trace-info idle`.
fn idle_verdict(work: &GpuWork<'_>, how: &Split) -> IdleVerdict {
    let mut whole = Split::default();
    whole.window = how.window;
    let parts = idle_parts(work, &whole, 0);
    IdleVerdict::of(parts.iter().map(|part| &part.idle))
}

/// Returns why the device idles, if it idles much and not for lack of launches.
fn idle_reason(verdict: &IdleVerdict) -> Option<String> {
    match verdict.bound {
        IdleBound::Input
        | IdleBound::LongCall
        | IdleBound::Gaps
        | IdleBound::Blocked
        | IdleBound::Unknown => {
            let (cause, _) = verdict.causes().into_iter().next()?;
            Some(format!("The GPU idles, most of it {}", cause.explanation()))
        }
        _ => None,
    }
}

/// Explains the mark of long steps, where there is one.
fn outlier_legend(rows: &[GpuRow], document: &mut Document) {
    if tables::has_outliers(rows) {
        document.line("!", "lasts more than twice the median step of its kind");
    }
}

/// Returns the bound of the GPU time, with its evidence in numbers.
/// `host` is `None` where only the launches of the host were read, so that nothing is said of its waits.
fn headline(time: &GpuTime, host: Option<Host>) -> String {
    let share = |ns: i64| percent(ns, time.span_ns).unwrap_or(0.0);
    let (idle, comm) = (share(time.idle_ns), share(time.exposed_comm_ns));
    let copy = share(time.exposed_memcpy_ns);
    let is_copy = copy > idle.max(comm).max(share(time.comp_ns));
    let is_examined = host.is_some();
    // The host could not have started work sooner that starts long after its launch.
    let (slack, verdict) = match host {
        Some(host) => (host.slack, host.verdict),
        None => (None, IdleVerdict::of([])),
    };
    let limit = slack.and_then(|slack| Some((slack, slack.limit()?)));
    let is_host = |(slack, limit): (rca_cycles::Slack, Limit)| match limit {
        Limit::Host => true,
        Limit::Turns => slack.mostly_host(),
        _ => false,
    };
    let reason = match idle >= comm && is_examined {
        true => idle_reason(&verdict),
        false => None,
    };
    let word = match (limit, reason) {
        _ if is_copy => "Copy-bound".to_owned(),
        (_, Some(word)) => word,
        (Some(both @ (_, Limit::Turns)), _) => match is_host(both) {
            true => "Host and GPU take turns, mostly the host".to_owned(),
            false => "Host and GPU take turns, mostly the GPU".to_owned(),
        },
        (Some((_, Limit::Balanced)), _) => {
            "Host and GPU are balanced: neither waits for the other".to_owned()
        }
        (Some(both), _) if is_host(both) && verdict.bound.is_launch() => {
            format!("{} (the GPU waits for launches)", verdict.bound.words())
        }
        (Some(both), _) if is_host(both) => "Host-bound (the GPU waits for launches)".to_owned(),
        (Some(_), _) if comm > share(time.comp_ns) => "Communication-bound".to_owned(),
        (Some(_), _) => "GPU-bound".to_owned(),
        (None, _) if comm >= MUCH => "Communication-bound".to_owned(),
        (None, _) if share(time.comp_ns) >= 100.0 - MUCH => "GPU-bound".to_owned(),
        (None, _) if !is_examined => {
            "Host not examined (of a file of this size only its launches are read; `trace-info idle --window A..B` says why the GPU \
             idles)"
                .to_owned()
        }
        (None, _) => "Neither idle time nor communication dominates".to_owned(),
    };
    let waits = match slack.filter(|_| limit.is_some()) {
        Some(slack) => format!(
            "; the GPU waits for launches {}, the host for the GPU {}",
            human::percent(slack.device_free() * 100.0),
            human::percent(slack.host_wait() * 100.0)
        ),
        None => String::new(),
    };
    let overlap = match time.comm_comp_overlap_pct() {
        Some(pct) => format!(
            "; {} of communication overlaps computation",
            human::percent(pct)
        ),
        None if time.graphs > 0 => String::new(),
        None => "; no communication".to_owned(),
    };
    let copies = match copy >= 1.0 {
        true => format!(", copies exposed {}", human::percent(copy)),
        false => String::new(),
    };
    let span = human::duration(precise(time.span_ns));
    let (computes, exposed) = (human::percent(share(time.comp_ns)), human::percent(comm));
    let idles = human::percent(idle);
    if time.graphs == 0 {
        return format!(
            "{word}: of {span} the GPU computes {computes}, communicates exposed {exposed}{copies}, idles {idles}{overlap}{waits}."
        );
    }
    let communicates = match time.comm_comp_overlap_pct() {
        Some(_) => format!(", communicates exposed at least {exposed}"),
        None => String::new(),
    };
    let graphs = match time.graphs {
        1 => "1 CUDA graph counts as computation".to_owned(),
        n => format!("{} CUDA graphs count as computation", human::count(n)),
    };
    format!(
        "{word}: of {span} the GPU computes or runs graphs {computes}{communicates}{copies}, idles at least \
         {idles}{overlap}{waits}. {graphs}: what runs inside, communication included, is not recorded; record with \
         `nsys profile --cuda-graph-trace=node`."
    )
}

fn clipped(events: &[gpu_time::GpuEvent], window: Option<TimeRange>) -> u64 {
    let cut = |at: i64| {
        let crosses = |e: &&gpu_time::GpuEvent| e.start_ns < at && at < e.end_ns;
        events.iter().filter(crosses).count() as u64
    };
    window.map_or(0, |w| cut(w.start.nanos()) + cut(w.end.nanos()))
}

fn document(args: &GpuArgs, each: &Answers<Answer>) -> anyhow::Result<Document> {
    let answers = &each.results;
    let rows: Vec<GpuRow> = answers.iter().flat_map(|a| a.rows.clone()).collect();
    let notes = answers
        .iter()
        .flat_map(|a| a.notes.iter().chain(&a.host).map(|n| (a.trace.as_str(), n)));
    let mut document = Document::new(tables::SCHEMA_VERSION);
    document.tables = vec![tables::gpu(&rows)?, tables::notes(notes)?];
    if args.rules.rules == RulesName::Hta {
        let types = answers
            .iter()
            .map(|a| (a.trace.as_str(), a.types.as_slice()));
        document.tables.push(tables::hta_types(types)?);
    }
    // The reference table has the names and units of the other tools.
    if args.rules.rules != RulesName::Extended {
        document.csv = Some((tables::reference(&rows)?, "nan"));
    }
    let parted = args.is_parted();
    if answers.len() > 1 && !parted && !args.details {
        document.sentence(gpu_time::answer::traces(&rows));
        document.table("", tables::traces(&rows)?);
        let text = "notes and times of each trace with --details";
        document.line("more", text);
        return Ok(document);
    }
    for (answer, why) in each.with_reasons() {
        document.heading(&answer.trace);
        let is_empty = empty::instead_of_tables(&mut document, why);
        if !is_empty {
            document.sentence(answer.headline.clone());
            document.notes(&answer.notes);
        }
        if let Some(host) = &answer.host {
            document.line("host communication", host.text.clone());
        }
        if is_empty {
            continue;
        }
        if parted {
            if !answer.rows.is_empty() {
                document.table("", tables::parts(&answer.rows)?);
                outlier_legend(&answer.rows, &mut document);
            }
        } else {
            let time = answer.rows.first().map_or(answer.whole, |row| row.time);
            document.table("", tables::profile(&time)?);
        }
        if !answer.types.is_empty() {
            let types = [(answer.trace.as_str(), answer.types.as_slice())];
            document.table("kernel types at once", tables::hta_types(types)?);
        }
    }
    Ok(document)
}
