//! `blkio stacks`.

use std::io::Write as _;
use std::path::Path;

use blkio_report::files::whole;
use blkio_report::stacks::{OwnRules, Stacks};
use blkio_report::tables;
use charts::flame::{FlameGraph, FlameOptions};
use cli::{OrExit as _, Outcome, Output};
use report::Column;
use serde_json::{Value, json};

use crate::args::StacksArgs;
use crate::reading::{OrCode as _, write_json};

fn own_rules(path: &Path) -> anyhow::Result<OwnRules> {
    let text = whole(path).or_code()?;
    OwnRules::parse(&String::from_utf8_lossy(&text))
        .map_err(|line| {
            anyhow::anyhow!(
                "{}: line {line}: a class without beginnings of function names",
                path.display()
            )
        })
        .or_exit(cli::Outcome::Unreadable)
}

/// Returns the requests of all classes.
fn total(classes: &[(&str, u64)]) -> u64 {
    let counts = classes.iter().map(|class| class.1);
    counts.fold(0, u64::saturating_add)
}

/// Keys of a map of stacks that are printed as text; the other formats have all.
const KEYS_PRINTED: usize = 10;

pub(crate) fn run(args: &StacksArgs) -> anyhow::Result<Outcome> {
    let own = match &args.rules {
        None => OwnRules::default(),
        Some(path) => own_rules(path)?,
    };
    let found = Stacks::parse_with(&whole(&args.file).or_code()?, &own);
    if found.stacks.is_empty() {
        return Err(anyhow::anyhow!(
            "{}: no stacks: expected what bpftrace prints of a map of stacks, or a trace with call chains (perf script)",
            args.file.display()
        ))
        .or_exit(cli::Outcome::Unreadable);
    }
    if let Some(path) = &args.svg {
        let mut graph = FlameGraph::new();
        for stack in &found.stacks {
            let mut frames = vec![stack.map.as_str()];
            frames.extend(Some(stack.key.as_str()).filter(|key| !key.is_empty()));
            frames.extend(stack.frames.iter().rev().map(String::as_str));
            graph.add(frames, stack.count);
        }
        let mut out = Output::file(path)?;
        out.write_all(graph.draw(&FlameOptions::default()).svg.as_str().as_bytes())?;
        out.finish()?;
    }
    if found.malformed > 0 {
        args.verbosity.note(format!(
            "blkio: warning: {}: entries that are cut or have no count, left out: {}",
            args.file.display(),
            found.malformed
        ));
    }
    let mut out = args.output.open()?;
    if args.folded {
        out.write_all(found.folded().as_bytes())?;
        out.finish()?;
        return Ok(Outcome::Fine);
    }
    let maps: Vec<(&str, Vec<(&str, u64)>)> = found
        .maps()
        .into_iter()
        .map(|map| (map, found.classes(map)))
        .collect();
    match args.format.format() {
        cli::Format::Json => {
            let maps: serde_json::Map<String, Value> = maps
                .iter()
                .map(|(map, classes)| {
                    let total = total(classes);
                    let classes: Vec<Value> = classes
                        .iter()
                        .map(|(class, count)| {
                            let share = *count as f64 / total.max(1) as f64;
                            json!({"class": class, "requests": count, "share": share})
                        })
                        .collect();
                    let submissions = found.submissions(map);
                    let submissions: Vec<Value> = submissions
                        .iter()
                        .map(|(name, count)| json!({"submission": name, "requests": count}))
                        .collect();
                    let mut value =
                        json!({"requests": total, "classes": classes, "submissions": submissions});
                    let keys = found.keys(map);
                    if !keys.is_empty() {
                        let keys = keys.iter();
                        value["keys"] = keys
                            .map(|(key, count)| json!({"key": key, "requests": count}))
                            .collect();
                    }
                    ((*map).to_owned(), value)
                })
                .collect();
            let document = json!({
                "schema_version": 1,
                "stacks": found.stacks.len(),
                "printed_twice": found.duplicates,
                "malformed": found.malformed,
                "maps": maps,
            });
            write_json(&document, &mut out)?;
        }
        cli::Format::Csv => {
            let mut columns = tables::named_columns(&["map", "by", "name"], &["requests"]);
            columns.push(Column::real("share"));
            let rows = maps.iter().flat_map(|(map, classes)| {
                let total = total(classes);
                let classes = classes.iter().map(|found| ("class", *found));
                let submissions = found.submissions(map).into_iter();
                let keys = found.keys(map).into_iter();
                let all = classes
                    .chain(submissions.map(|found| ("submission", found)))
                    .chain(keys.map(|found| ("key", found)));
                let row = move |(by, (name, count)): (&str, (&str, u64))| {
                    let share = count as f64 / total.max(1) as f64;
                    let texts = [*map, by, name].map(Value::from);
                    [&texts[..], &[count.into(), share.into()]].concat()
                };
                all.map(row).collect::<Vec<_>>()
            });
            tables::print_table(&mut out, report::Format::Csv, &columns, rows)?;
        }
        cli::Format::Text => {
            for (map, classes) in &maps {
                let total = total(classes);
                writeln!(out, "{map}: {total} requests")?;
                for (class, count) in classes {
                    let share = *count as f64 / total.max(1) as f64 * 100.0;
                    writeln!(out, "  {class:<16} {count:>10}  {share:5.1} %")?;
                }
                for (name, count) in found.submissions(map) {
                    writeln!(out, "  submitted by {name}: {count}")?;
                }
                let keys = found.keys(map);
                for (key, count) in keys.iter().take(KEYS_PRINTED) {
                    writeln!(out, "  of {key}: {count}")?;
                }
                if keys.len() > KEYS_PRINTED {
                    writeln!(out, "  and of {} more", keys.len() - KEYS_PRINTED)?;
                }
            }
        }
    }
    out.finish()?;
    Ok(Outcome::Fine)
}
