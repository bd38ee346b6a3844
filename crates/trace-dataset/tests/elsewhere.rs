//! Files that other processes make: the same folders, whatever is lost on the way.

#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use perfetto_reader::ReadOptions;
use trace_dataset::{
    Elsewhere, Error, Export, Input, Order, Reader, Report, Take, Trouble, export,
    export_elsewhere, serve, table_maker,
};
use trace_tables::Recording;
use trace_tables::catalogue::{ArgKeys, TableSpec, table};

/// Reads files by name.
struct Files(Vec<String>);

impl Reader for Files {
    fn open(&self, place: usize, file_id: u32, _: &ArgKeys) -> Result<Recording, String> {
        let name = &self.0[place];
        let source =
            byte_source::Source::open(Path::new(name), &byte_source::OpenOptions::default());
        let source = source.map_err(|error| error.to_string())?;
        let trace = perfetto_reader::read(source, &ReadOptions::default());
        let trace = trace.map_err(|error| error.to_string())?;
        Ok(Recording::new(file_id, name, trace))
    }

    fn notes(&self, place: usize) -> Vec<String> {
        vec![format!("{}: read", self.0[place])]
    }
}

fn tables() -> Vec<&'static TableSpec> {
    let names = ["files", "kernels", "slices", "args"];
    names.iter().filter_map(|name| table(name)).collect()
}

/// What happens to the messages of the executors.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Fate {
    Arrive,
    /// The first runs end after so many messages.
    Lost {
        runs: usize,
        messages: usize,
    },
    /// The cluster refuses.
    Refused,
    /// A message is cut.
    Cut,
    /// A file would lie outside.
    Outside,
}

struct Executors {
    fate: Fate,
    scratch: PathBuf,
    runs: AtomicUsize,
    orders: AtomicUsize,
}

impl Elsewhere for Executors {
    fn run(&self, orders: &[Order], take: &mut Take<'_>) -> Result<(), Trouble> {
        let run = self.runs.fetch_add(1, Ordering::Relaxed);
        let trouble = |text: &str, is_lost| Trouble {
            text: text.to_owned(),
            is_lost,
        };
        if self.fate == Fate::Refused {
            return Err(trouble("no scheduler answers at node1:1", false));
        }
        self.orders.fetch_add(orders.len(), Ordering::Relaxed);
        let mut messages = 0;
        // As from several executors, the last first.
        for (place, order) in orders.iter().enumerate().rev() {
            // Orders travel as text.
            let text = serde_json::to_string(order).unwrap();
            let order: Order = serde_json::from_str(&text).unwrap();
            let maker = table_maker(Files(vec![order.name.clone()]), tables());
            let mut failed = None;
            let served = serve(
                &order,
                &maker,
                "the executor at node2:7",
                &self.scratch,
                &mut |line, bytes| {
                    messages += 1;
                    if let Fate::Lost { runs, messages: at } = self.fate
                        && run < runs
                        && messages > at
                    {
                        failed = Some(trouble("the connection was reset", true));
                        return false;
                    }
                    let (line, bytes) = match self.fate {
                        Fate::Cut => (line.to_owned(), bytes.get(1..).unwrap_or_default()),
                        Fate::Outside => (line.replace("table=", "../table="), bytes),
                        _ => (line.to_owned(), bytes),
                    };
                    let taken = take(place, &line, bytes);
                    if let Err(why) = taken {
                        failed = Some(trouble(&why, false));
                    }
                    failed.is_none()
                },
            );
            served.map_err(|why| trouble(&why, false))?;
            if let Some(failed) = failed {
                return Err(failed);
            }
        }
        Ok(())
    }
}

fn inputs(folder: &Path) -> Vec<Input> {
    let demo = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/demo");
    let corrupt = folder.join("corrupt.json");
    fs::write(&corrupt, "{\"traceEvents\": 7}").unwrap();
    let mut paths = vec![corrupt, folder.join("missing.json")];
    for (rank, copy) in [
        (0, "a-rank0.json.gz"),
        (1, "b-rank1.json.gz"),
        (1, "c-rank2.json.gz"),
    ] {
        let path = folder.join(copy);
        fs::copy(demo.join(format!("demo-rank{rank}.json.gz")), &path).unwrap();
        paths.push(path);
    }
    paths.iter().map(|path| Input::of(path)).collect()
}

/// Returns the files of a data set with their contents.
fn contents(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(inner) = folders.pop() {
        for entry in fs::read_dir(inner).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => folders.push(path),
                false => {
                    let relative = path.strip_prefix(folder).unwrap().to_owned();
                    found.insert(relative, fs::read(&path).unwrap());
                }
            }
        }
    }
    found
}

/// A folder with inputs and what was made of them.
struct Bench {
    folder: tempfile::TempDir,
    inputs: Vec<Input>,
}

impl Bench {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let inputs = inputs(folder.path());
        Self { folder, inputs }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn here(&self, name: &str) -> Report {
        let names = self.inputs.iter().map(|input| input.name.clone());
        let reader = Files(names.collect());
        let folder = self.at(name);
        export(&self.inputs, &reader, &options(&folder)).unwrap()
    }

    /// Also returns how often orders were sent, and how many.
    fn there(&self, name: &str, fate: Fate) -> (Result<Report, Error>, usize, usize) {
        let scratch = self.at("scratch");
        fs::create_dir_all(&scratch).unwrap();
        let executors = Executors {
            fate,
            scratch: scratch.clone(),
            runs: AtomicUsize::new(0),
            orders: AtomicUsize::new(0),
        };
        let done = export_elsewhere(&self.inputs, &executors, &options(&self.at(name)));
        assert_eq!(contents(&scratch).len(), 0, "{fate:?}");
        let count = |of: AtomicUsize| of.into_inner();
        (done, count(executors.runs), count(executors.orders))
    }
}

fn options(folder: &Path) -> Export<'_> {
    Export {
        folder,
        tables: tables(),
        tool_version: "1.2.3",
        rules: None,
        threads: 2,
    }
}

#[test]
fn folders_are_those_of_one_process() {
    let bench = Bench::new();
    let mut expected = bench.here("one");
    assert_eq!((expected.exported, expected.failures.len()), (3, 2));
    let (report, runs, orders) = bench.there("two", Fate::Arrive);
    assert_eq!(report.unwrap(), expected);
    assert_eq!((runs, orders), (1, 5));
    assert_eq!(contents(&bench.at("one")), contents(&bench.at("two")));
    // Again: what is there is neither made nor sent.
    expected = bench.here("one");
    let (report, _, orders) = bench.there("two", Fate::Arrive);
    let report = report.unwrap();
    assert_eq!((report.exported, report.skipped, orders), (0, 3, 5));
    assert_eq!(report, expected);
    // A changed input is made again, and one that is damaged now loses its files.
    fs::copy(&bench.inputs[3].name, &bench.inputs[2].name).unwrap();
    fs::write(&bench.inputs[4].name, "{\"traceEvents\": 7}").unwrap();
    expected = bench.here("one");
    let (report, ..) = bench.there("two", Fate::Arrive);
    assert_eq!((expected.exported, expected.failures.len()), (1, 3));
    assert_eq!(report.unwrap(), expected);
    assert_eq!(contents(&bench.at("one")), contents(&bench.at("two")));
}

#[test]
fn what_is_lost_on_the_way_is_ordered_again() {
    let bench = Bench::new();
    let expected = bench.here("one");
    let whole = contents(&bench.at("one"));
    for (number, messages) in [0, 1, 8, 17].into_iter().enumerate() {
        let name = format!("lost{number}");
        let fate = Fate::Lost { runs: 3, messages };
        let (report, runs, orders) = bench.there(&name, fate);
        assert_eq!(report.unwrap(), expected, "{messages}");
        assert_eq!(contents(&bench.at(&name)), whole, "{messages}");
        // What has arrived is not ordered again.
        assert!(runs > 1 && orders <= 5 * runs, "{messages}: {runs} runs");
    }
    // Not for ever; and the next call goes on.
    let fate = Fate::Lost {
        runs: 9,
        messages: 8,
    };
    let (report, runs, _) = bench.there("never", fate);
    assert!(matches!(report, Err(Error::Elsewhere { .. })) || runs <= 4);
    bench.there("never", Fate::Arrive).0.unwrap();
    assert_eq!(contents(&bench.at("never")), whole);
}

#[test]
fn who_refuses_or_sends_nonsense_changes_nothing() {
    let bench = Bench::new();
    bench.here("one");
    for (fate, expected) in [
        (Fate::Refused, "no scheduler answers at node1:1"),
        (Fate::Cut, "bytes arrived"),
        (Fate::Outside, "sent a file of the name ../table="),
    ] {
        let name = format!("{fate:?}");
        let (report, runs, _) = bench.there(&name, fate);
        let error = report.unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
        assert_eq!(runs, 1, "{name}");
        bench.there(&name, Fate::Arrive).0.unwrap();
        let (one, other) = (contents(&bench.at("one")), contents(&bench.at(&name)));
        assert_eq!(one, other, "{name}");
    }
}

#[test]
fn a_file_that_only_the_client_sees_is_named() {
    let bench = Bench::new();
    let orders = std::sync::Mutex::new(Vec::new());
    /// Keeps the orders, and carries out none.
    struct Keep<'k>(&'k std::sync::Mutex<Vec<Order>>);
    impl Elsewhere for Keep<'_> {
        fn run(&self, orders: &[Order], _: &mut Take<'_>) -> Result<(), Trouble> {
            self.0.lock().unwrap().extend_from_slice(orders);
            Err(Trouble {
                text: String::new(),
                is_lost: false,
            })
        }
    }
    let kept = export_elsewhere(&bench.inputs, &Keep(&orders), &options(&bench.at("one")));
    assert!(kept.is_err());
    for input in &bench.inputs {
        let _ = fs::remove_file(&input.name);
    }
    for order in orders.into_inner().unwrap() {
        let maker = table_maker(Files(vec![order.name.clone()]), tables());
        let mut said = String::new();
        let scratch = bench.at("scratch");
        let here = "the executor at node2:7";
        let served = serve(&order, &maker, here, &scratch, &mut |line, _| {
            said.push_str(line);
            true
        });
        served.unwrap();
        // What nobody sees is missing.
        let is_missing = order.name.ends_with("missing.json");
        let unseen = said.contains("the executor at node2:7 does not see this file");
        assert_eq!(unseen, !is_missing, "{said}");
    }
}
