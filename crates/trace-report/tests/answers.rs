//! Answers about recordings of the repository, without a command line.

use std::path::Path;

use byte_source::{OpenOptions, Source};
use perfetto_reader::ReadOptions;
use report::{Cell, Column, SchemaVersion, Table};
use trace_model::Trace;
use trace_report::part::MayOutline;
use trace_report::{
    Document, Error, Form, Outlined, PartChoice, StepChoice, StepSource, comm, critical_path, diff,
    gpu, idle, kernels, launch, memory, merge, ops, reasons_only, roofline, summary,
};

type Any<T> = Result<T, Box<dyn std::error::Error>>;

/// Reads a recording of `testdata/`.
fn trace(name: &str) -> Any<Trace> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata");
    let source = Source::open(folder.join(name), &OpenOptions::default())?;
    Ok(perfetto_reader::read(source, &ReadOptions::default())?)
}

const RANK0: &str = "demo/demo-rank0.json.gz";
const RANK1: &str = "demo/demo-rank1.json.gz";
/// Has no GPU activity.
const NO_GPU: &str = "kineto/odd-text.json";

fn text(document: &Document) -> Any<String> {
    let mut out = Vec::new();
    document.write_text(None, &mut out)?;
    Ok(String::from_utf8(out)?)
}

fn csv(document: &Document) -> Any<String> {
    let mut out = Vec::new();
    document.write_csv(&mut out)?;
    Ok(String::from_utf8(out)?)
}

/// Makes the document of every answer about one recording.
fn documents(trace: &Trace, part: &PartChoice, form: Form) -> Any<Vec<(&'static str, Document)>> {
    let mut all = Vec::new();
    let mut question = gpu::Question::default();
    question.part = part.clone();
    let found = gpu::Answer::new(&question, "t", trace)?;
    all.push(("gpu", gpu::document(&question, &[found])?));
    let mut question = kernels::Question::default();
    question.part = part.clone();
    let found = kernels::Answer::new(&question, "t", trace)?;
    all.push(("kernels", kernels::document(&question, &[found])?));
    let mut question = idle::Question::default();
    question.part = part.clone();
    question.longest = 3;
    let found = idle::Answer::new(&question, "t", trace)?;
    all.push(("idle", idle::document(&question, &[found])?));
    let mut question = launch::Question::default();
    question.part = part.clone();
    let found = launch::Answer::new(&question, "t", trace)?;
    all.push(("launch", launch::document(&question, &[found])?));
    let mut question = memory::Question::default();
    question.part = part.clone();
    let found = memory::Answer::new(&question, "t", trace)?;
    all.push(("memory", memory::document(&question, &[found])?));
    let mut question = ops::Question::default();
    question.form = form;
    let found = ops::Answer::new(&question, "t", trace)?;
    all.push(("ops", ops::document(&question, &[found])?));
    let mut question = roofline::Question::default();
    question.part = part.clone();
    question.form = form;
    let known = roofline::Known::default();
    let found = roofline::Answer::new(&question, &known, &[], ("t", trace))?;
    all.push(("roofline", roofline::document(&question, &[found])?));
    let mut question = comm::Question::new(form);
    question.part = part.clone();
    question.part.per_step = false;
    let found = question.digest("t.json", "t", trace)?;
    let ranks = comm::Ranks::new(vec![found])?;
    all.push(("comm", ranks.document(&question)?));
    let question = critical_path::Question::default();
    let recording = question.recording(("t.json", "t"), trace, false);
    let job = critical_path::Ranks::new(&question, vec![recording])?.join();
    let answer = job.answer(&question)?;
    all.push(("critical_path", answer.document(&question, form)?));
    let mut question = diff::Question::default();
    question.part = part.clone();
    question.form = form;
    let found = diff::document(&question, ["a", "b"], [trace, trace])?;
    all.push(("diff", found));
    Ok(all)
}

#[test]
fn every_answer_has_text_and_a_main_table() {
    let trace = trace(RANK0).unwrap();
    for (name, document) in documents(&trace, &PartChoice::default(), Form::Text).unwrap() {
        assert!(!text(&document).unwrap().is_empty(), "{name}");
    }
    for (name, document) in documents(&trace, &PartChoice::default(), Form::MainTable).unwrap() {
        let rows = csv(&document).unwrap().lines().count();
        // Memory is not recorded.
        assert_eq!(rows > 1, name != "memory", "{name}");
    }
}

#[test]
fn no_answer_and_no_error_names_an_option_of_a_command_line() {
    let trace = trace(RANK0).unwrap();
    let mut part = PartChoice::default();
    part.per_step = true;
    part.steps = StepSource::Annotation;
    let mut all = documents(&trace, &PartChoice::default(), Form::Text).unwrap();
    all.extend(documents(&trace, &part, Form::Text).unwrap());
    for (name, document) in all {
        let text = text(&document).unwrap();
        // Advice on how to record names options of recorders.
        let options = text.split(" --").skip(1);
        let own: Vec<&str> = options
            .filter(|rest| {
                ["per-step", "step", "steps", "window", "details", "no-"]
                    .iter()
                    .any(|own| rest.starts_with(own))
            })
            .collect();
        assert!(own.is_empty(), "{name}: {own:?}");
    }
    for error in [
        Error::NoStepChosen {
            all: 3,
            side: Some("B"),
        },
        Error::NoSuchSlice {
            index: 1,
            pattern: "x*".to_owned(),
            count: 1,
        },
        Error::NoTable {
            available: "groups",
        },
    ] {
        assert!(!error.to_string().contains("--"), "{error}");
    }
}

#[test]
fn parts_of_a_breakdown_add_up_to_its_span() {
    let trace = trace(RANK0).unwrap();
    let mut question = gpu::Question::default();
    question.part.per_step = true;
    let answer = gpu::Answer::new(&question, "t", &trace).unwrap();
    assert!(answer.answer.rows().len() > 2);
    for row in answer.answer.rows() {
        let time = row.time;
        let parts = time.comp_ns + time.exposed_comm_ns + time.exposed_memcpy_ns + time.idle_ns;
        assert_eq!(parts, time.span_ns, "{:?}", row.of);
    }
    assert!(answer.answer.headline().ends_with('.'));
}

#[test]
fn steps_are_chosen_by_number_and_name() {
    let trace = trace(RANK0).unwrap();
    let work = gpu_time::GpuWork::new(&trace);
    let mut part = PartChoice::default();
    part.per_step = true;
    let (all, _) = part.resolve(&work).unwrap();
    let all = all.steps.unwrap();
    part.step = Some(StepChoice::Numbers(1..3));
    let (some, notes) = part.resolve(&work).unwrap();
    let some = some.steps.unwrap();
    assert_eq!(some.len(), 2);
    assert_eq!(some[0].range, all[1].range);
    assert_eq!(some[1].number, Some(2));
    assert!(
        notes
            .iter()
            .any(|note| note.code == "chosen" && note.count == Some(2))
    );
    part.step = Some(StepChoice::Names(all[0].name.clone()));
    assert!(!part.resolve(&work).unwrap().0.steps.unwrap().is_empty());
    part.step = Some(StepChoice::Numbers(900..901));
    let error = part.resolve(&work).unwrap_err();
    assert!(matches!(error, Error::NoStepChosen { all: n, side: None } if n == all.len()));
    part = PartChoice::default();
    part.window_of = Some((all[0].name.clone(), 0));
    assert_eq!(part.window(&work).unwrap(), Some(all[0].range));
    part.window_of = Some(("nothing".to_owned(), 2));
    let error = part.window(&work).unwrap_err().to_string();
    assert_eq!(error, "no slice number 2 is named `nothing`: there are 0");
}

#[test]
fn advice_is_in_the_words_of_the_program_that_asks() {
    let trace = trace(NO_GPU).unwrap();
    let work = gpu_time::GpuWork::new(&trace);
    let mut part = PartChoice::default();
    part.per_step = true;
    part.steps = StepSource::Annotation;
    let (steps, note) = part.find_steps(&work);
    assert!(steps.is_empty());
    assert_eq!(note.text, "no annotation is known as a step");
    part.remedy = "say which".into();
    let note = part.find_steps(&work).1;
    assert_eq!(note.text, "no annotation is known as a step: say which");
}

#[test]
fn slices_are_read_in_outline_only_where_none_selects_the_part() {
    let mut part = PartChoice::default();
    assert_eq!(part.may_outline(), MayOutline::Always);
    part.per_step = true;
    assert_eq!(part.may_outline(), MayOutline::WithSteps);
    part.steps = StepSource::Cycle;
    assert_eq!(part.may_outline(), MayOutline::Never);
    part.steps = StepSource::Annotation;
    assert_eq!(part.may_outline(), MayOutline::Always);
    part.step_pattern = Some("x".to_owned());
    assert_eq!(part.may_outline(), MayOutline::Never);
    let all = Outlined::all();
    assert!(all.contains("python_function", "queue.py(154): get"));
    assert!(!all.contains("cuda_runtime", "cudaLaunchKernel"));
    let waiting = Outlined::but_waiting();
    assert!(!waiting.contains("python_function", "queue.py(154): get"));
    assert!(waiting.is_kept() && !all.is_kept());
}

#[test]
fn groups_that_depend_on_launches_are_not_made_from_activities_alone() {
    let mut question = kernels::Question::default();
    assert!(question.passing().is_some());
    question.by = vec![gpu_time::KernelsBy::Operator];
    assert!(question.passing().is_none());
    assert!(question.outlined().is_none());
    question.by = vec![gpu_time::KernelsBy::Name, gpu_time::KernelsBy::Shape];
    assert!(question.arg_keys().contains(&"Input Dims".to_owned()));
    question.by.clear();
    question.part.per_step = true;
    assert!(question.passing().is_none());
}

#[test]
fn missing_gpu_activity_is_a_reason_and_no_comparison() {
    let empty = trace(NO_GPU).unwrap();
    let full = trace(RANK0).unwrap();
    let question = launch::Question::default();
    let answered = launch::Answer::new(&question, "empty", &empty).unwrap();
    let reasons = reasons_only(
        std::slice::from_ref(&answered),
        SchemaVersion { major: 1, minor: 0 },
    );
    let alone = text(&reasons.unwrap()).unwrap();
    assert!(alone.starts_with("empty\n  empty  "), "{alone}");
    let both = [
        answered,
        launch::Answer::new(&question, "full", &full).unwrap(),
    ];
    assert!(reasons_only(&both, SchemaVersion { major: 1, minor: 0 }).is_none());
    let text = text(&launch::document(&question, &both).unwrap()).unwrap();
    assert!(text.contains("\nfull\n"), "{text}");
    let error = diff::document(&diff::Question::default(), ["a", "b"], [&full, &empty]);
    let error = error.unwrap_err();
    assert!(matches!(error, Error::NothingToCompare { .. }), "{error}");
    assert!(
        error.to_string().starts_with("cannot compare: B: "),
        "{error}"
    );
}

#[test]
fn a_recording_does_not_differ_from_itself() {
    let trace = trace(RANK0).unwrap();
    let mut question = diff::Question::default();
    let same = diff::document(&question, ["a", "b"], [&trace, &trace]).unwrap();
    let lines = text(&same).unwrap();
    assert!(lines.contains("  A  a\n  B  b\n"), "{lines}");
    question.form = Form::Tables;
    let all = diff::document(&question, ["a", "b"], [&trace, &trace]).unwrap();
    assert_eq!(all.tables().len(), diff::Listing::ALL.len());
    question.table = Some(diff::Listing::Totals);
    let one = diff::document(&question, ["a", "b"], [&trace, &trace]).unwrap();
    assert_eq!(one.tables().len(), 1);
}

#[test]
fn ranks_may_come_in_any_order() {
    let (first, second) = (trace(RANK0).unwrap(), trace(RANK1).unwrap());
    let mut question = comm::Question::new(Form::Tables);
    let document = |question: &comm::Question, swapped: bool| -> Any<String> {
        let mut all = vec![
            question.digest("rank0.json", "rank0", &first)?,
            question.digest("rank1.json", "rank1", &second)?,
        ];
        if swapped {
            all.reverse();
        }
        csv(&comm::Ranks::new(all)?.document(question)?)
    };
    let rows = document(&question, false).unwrap();
    assert!(rows.lines().count() > 10);
    assert_eq!(rows, document(&question, true).unwrap());
    question.rules = gpu_time::comm::CommRules::TraceLens;
    question.table = Some(comm::Listing::Late);
    let error = document(&question, false).unwrap_err().to_string();
    assert_eq!(
        error,
        "no such table: there are kernels, collectives, types and ranks"
    );
}

#[test]
fn merged_recordings_are_on_the_clock_of_the_first_rank() {
    let (first, second) = (trace(RANK0).unwrap(), trace(RANK1).unwrap());
    let digests = || {
        vec![
            merge::digest("rank1.json", &second),
            merge::digest("rank0.json", &first),
        ]
    };
    let placed = merge::place(digests(), false).unwrap();
    let sources: Vec<&str> = placed.iter().map(|one| one.source.as_str()).collect();
    assert_eq!(sources, ["rank0.json", "rank1.json"]);
    assert_eq!(placed[0].alignment.offset_ns, 0);
    assert!(placed.iter().all(|one| one.alignment.error_ns.is_none()));
    let aligned = merge::place(digests(), true).unwrap();
    assert_eq!(aligned[0].alignment.offset_ns, 0);
    assert!(aligned[1].alignment.error_ns.is_some());
    assert!(aligned.iter().all(|one| !one.is_unaligned));
    let empty = trace(NO_GPU).unwrap();
    let alone = vec![
        merge::digest("rank0.json", &first),
        merge::digest("rank1.json", &empty),
    ];
    let placed = merge::place(alone, true).unwrap();
    assert!(!placed[0].is_unaligned && placed[1].is_unaligned);
}

#[test]
fn segments_are_kept_for_tracks_and_dropped_unless_they_are_listed() {
    let trace = trace(RANK0).unwrap();
    let mut question = critical_path::Question::default();
    question.tracks = true;
    let recording = question.recording(("t.json", "t"), &trace, false);
    let job = critical_path::Ranks::new(&question, vec![recording]).unwrap();
    assert_eq!(job.count(), 1);
    let mut answer = job.join().answer(&question).unwrap();
    let tracks = answer.take_tracks(&question).unwrap();
    assert!(!tracks.is_empty());
    let json = serde_json::to_value(answer.json()).unwrap();
    assert_eq!(json["schema"], "critical-path/1");
    let segments = json["segments"].as_array().map_or(0, Vec::len);
    assert_eq!(segments, 0);
    question.step = Some(900);
    let recording = question.recording(("t.json", "t"), &trace, false);
    let job = critical_path::Ranks::new(&question, vec![recording]).unwrap();
    let error = job.join().answer(&question).unwrap_err();
    assert!(error.to_string().starts_with("no step 900"), "{error}");
}

#[test]
fn devices_have_sources_and_an_unknown_one_is_an_error() {
    let known = roofline::Known::default();
    let devices = roofline::devices(&known.knowledge).unwrap();
    assert!(csv(&devices).unwrap().contains("h100-sxm,"));
    let config = ::roofline::config::Config::parse(
        r#"{"model_type": "llama", "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32,
            "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 128256}"#,
    )
    .unwrap();
    let requests = [::roofline::config::Request {
        new: 1,
        keys: 2000,
        count: 8,
    }];
    let forward = roofline::Forward::new(&config, &requests, 2, 2).unwrap();
    let document = forward.document(&known.knowledge, Some("h100-sxm"), &[]);
    let document = document.unwrap();
    let quantities = csv(&document).unwrap();
    let json = forward.json();
    assert!(quantities.starts_with("quantity,value\n"), "{quantities}");
    assert!(json.is_object());
    assert_eq!(document.sentences().count(), 1);
    let error = forward.document(&known.knowledge, Some("abacus"), &[]);
    assert_eq!(error.unwrap_err().to_string(), r#"no device "abacus""#);
    assert!(roofline::Forward::new(&config, &requests, 7, 2).is_err());
}

#[test]
fn a_description_states_contents_and_quality() {
    let trace = trace("kineto/truncated.json").unwrap();
    let found = summary::Described::new("cut.json", &trace);
    assert!(!found.summary().healthy);
    let mut out = Vec::new();
    found.write_text(false, None, &mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    assert!(text.starts_with("cut.json\n"), "{text}");
    assert!(text.contains("INCOMPLETE"), "{text}");
    let mut out = Vec::new();
    summary::write_json(&[found], &mut out).unwrap();
    let json: serde_json::Value = serde_json::from_slice(&out).unwrap();
    assert_eq!(json["traces"][0]["healthy"], false);
}

/// Returns a table with one column.
fn table(rows: &[u64]) -> report::Result<Table> {
    let mut table = Table::new("t", vec![Column::uint("n")])?;
    for row in rows {
        table.push(&[Cell::UInt(*row)])?;
    }
    Ok(table)
}

#[test]
fn documents_are_written_in_all_formats() {
    let mut document = Document::new(SchemaVersion { major: 1, minor: 0 });
    document.heading("trace");
    document.sentence("All is well.");
    document.line("note", "word ".repeat(30).trim());
    // The words above say why it has no rows.
    document.table("left out", table(&[]).unwrap());
    document.table("shown", table(&[7]).unwrap());
    document.push(table(&[1, 2]).unwrap());
    document.push(table(&[3]).unwrap());
    let plain = text(&document).unwrap();
    assert!(
        plain.starts_with("trace\nAll is well.\n  note  word"),
        "{plain}"
    );
    assert!(
        plain.lines().all(|line| line.chars().count() <= 80),
        "{plain}"
    );
    assert!(
        !plain.contains("left out") && plain.contains("\nshown\nn\n"),
        "{plain}"
    );
    let mut out = Vec::new();
    document.write_markdown(&mut out).unwrap();
    let markdown = String::from_utf8(out).unwrap();
    assert!(
        markdown.starts_with("# trace\n\nAll is well.\n\n- note: word"),
        "{markdown}"
    );
    assert!(markdown.contains("\n## shown\n"), "{markdown}");
    let mut out = Vec::new();
    document.write_json(&mut out).unwrap();
    assert!(serde_json::from_slice::<serde_json::Value>(&out).is_ok());
    assert_eq!(csv(&document).unwrap(), "n\n1\n2\n");
    let mut out = Vec::new();
    document.write_parquet(&mut out).unwrap();
    assert!(out.starts_with(b"PAR1") && out.ends_with(b"PAR1"));
    document.set_csv(table(&[9]).unwrap(), "nan");
    assert_eq!(csv(&document).unwrap(), "n\n9\n");
    assert_eq!(document.sentences().collect::<Vec<_>>(), ["All is well."]);
}
