//! Tests exports: contents, repetition, failures, kills.

#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use parquet::file::reader::{FileReader as _, SerializedFileReader};
use parquet::record::RowAccessor as _;
use perfetto_reader::{ArgPolicy, ReadOptions};
use trace_dataset::{Error, Export, Input, Reader, Report, export, is_data_set};
use trace_tables::catalogue::{ArgKeys, TABLES, TableSpec, table};
use trace_tables::{Recording, Request, scan};

struct Files<'f> {
    inputs: &'f [Input],
    /// Number of files read.
    read: AtomicUsize,
}

impl Reader for Files<'_> {
    fn open(&self, place: usize, file_id: u32, args: &ArgKeys) -> Result<Recording, String> {
        self.read.fetch_add(1, Ordering::Relaxed);
        let name = &self.inputs[place].name;
        let source =
            byte_source::Source::open(Path::new(name), &byte_source::OpenOptions::default());
        let mut options = ReadOptions::default();
        options.args = match args {
            ArgKeys::None => ArgPolicy::None,
            ArgKeys::Only(keys) => ArgPolicy::Only(keys.clone()),
            ArgKeys::All => ArgPolicy::All,
        };
        let trace = source
            .map_err(|error| error.to_string())
            .and_then(|source| {
                perfetto_reader::read(source, &options).map_err(|error| error.to_string())
            })?;
        Ok(Recording::new(file_id, name, trace))
    }
}

fn demo(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../testdata/demo")
        .join(name)
}

/// Copies the demo's ranks into a folder, and returns them as inputs.
fn inputs(folder: &Path) -> Vec<Input> {
    ["demo-rank0.json.gz", "demo-rank1.json.gz"]
        .map(|name| {
            let path = folder.join(name);
            fs::copy(demo(name), &path).unwrap();
            input(&path)
        })
        .into()
}

fn input(path: &Path) -> Input {
    Input {
        name: path.display().to_string(),
        path: Some(path.to_owned()),
        tag: None,
    }
}

fn run(
    inputs: &[Input],
    folder: &Path,
    tables: &[&'static TableSpec],
    threads: usize,
) -> (Result<Report, Error>, usize) {
    let reader = Files {
        inputs,
        read: AtomicUsize::new(0),
    };
    let options = Export {
        folder,
        tables: tables.to_vec(),
        tool_version: "1.2.3",
        rules: None,
        threads,
    };
    let done = export(inputs, &reader, &options);
    (done, reader.read.load(Ordering::Relaxed))
}

/// Returns the visible files of a data set with their contents.
fn contents(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(inner) = folders.pop() {
        for entry in fs::read_dir(inner).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let relative = path.strip_prefix(folder).unwrap().to_owned();
                found.insert(relative, fs::read(&path).unwrap());
            }
        }
    }
    found
}

fn all() -> Vec<&'static TableSpec> {
    TABLES.iter().collect()
}

#[test]
fn tables_are_written_as_they_are_and_do_not_depend_on_threads() {
    let folder = tempfile::tempdir().unwrap();
    let inputs = inputs(folder.path());
    let (one, two) = (folder.path().join("one"), folder.path().join("two"));
    let (report, read) = run(&inputs, &one, &all(), 1);
    let report = report.unwrap();
    assert_eq!((report.exported, report.skipped, read), (2, 0, 2));
    run(&inputs, &two, &all(), 3).0.unwrap();
    assert_eq!(contents(&one), contents(&two));
    assert!(is_data_set(&one) && !is_data_set(folder.path()));
    for file in contents(&one).into_keys() {
        let text = file.display().to_string();
        assert!(
            text.ends_with(".parquet")
                || text == "manifest.json"
                || text.starts_with("_inferscope/"),
            "{text}"
        );
        assert!(!text.starts_with("_inferscope/tmp"), "{text}");
    }
    // Row by row, against a scan of the recording.
    let run_name = folder
        .path()
        .file_name()
        .unwrap()
        .to_string_lossy()
        .into_owned();
    let reader = Files {
        inputs: &inputs,
        read: AtomicUsize::new(0),
    };
    let kernels = table("kernels").unwrap();
    let recording = reader
        .open(1, 1, &Request::all(kernels).arg_keys(kernels))
        .unwrap();
    let mut expected = Vec::new();
    scan(&recording, kernels, &Request::all(kernels), &mut |batch| {
        use arrow_array::cast::AsArray as _;
        use arrow_array::types::Int64Type;
        let (ids, times) = (
            batch.column(2).as_primitive::<Int64Type>(),
            batch.column(3).as_primitive::<Int64Type>(),
        );
        let names = arrow_array::cast::as_dictionary_array::<arrow_array::types::Int32Type>(
            batch.column(5),
        );
        let names = names.downcast_dict::<arrow_array::StringArray>().unwrap();
        for row in 0..batch.num_rows() {
            expected.push((
                ids.value(row),
                times.value(row),
                arrow_array::ArrayAccessor::value(&names, row).to_owned(),
            ));
        }
        true
    })
    .unwrap();
    let path = one.join(format!(
        "table=kernels/run={}/rank=1/part-000001.parquet",
        run_name
    ));
    let file = SerializedFileReader::new(fs::File::open(path).unwrap()).unwrap();
    assert!(
        file.metadata()
            .row_group(0)
            .column(3)
            .statistics()
            .is_some()
    );
    let found: Vec<_> = file
        .get_row_iter(None)
        .unwrap()
        .map(|row| {
            let row = row.unwrap();
            assert_eq!((row.get_long(0).unwrap(), row.get_long(1).unwrap()), (1, 1));
            (
                row.get_long(2).unwrap(),
                row.get_long(3).unwrap(),
                row.get_string(5).unwrap().clone(),
            )
        })
        .collect();
    assert!(!found.is_empty());
    assert_eq!(found, expected);
    assert!(found.is_sorted_by_key(|row| row.1));
}

#[test]
fn a_repeated_export_writes_only_what_changed() {
    let folder = tempfile::tempdir().unwrap();
    let mut inputs = inputs(folder.path());
    let out = folder.path().join("out");
    run(&inputs, &out, &all(), 2).0.unwrap();
    let before = contents(&out);
    let (report, read) = run(&inputs, &out, &all(), 2);
    let report = report.unwrap();
    assert_eq!((report.exported, report.skipped, read), (0, 2, 0));
    assert_eq!(contents(&out), before);
    // A changed input is replaced under its number, a new one gets the next.
    fs::copy(demo("demo-rank1.json.gz"), &inputs[0].name).unwrap();
    let more = folder.path().join("capture.json.gz");
    fs::copy(demo("demo-capture-rank0.json.gz"), &more).unwrap();
    inputs.insert(0, input(&more));
    let (report, read) = run(&inputs, &out, &all(), 2);
    let report = report.unwrap();
    assert_eq!((report.exported, report.skipped, read), (2, 1, 2));
    let kernels: Vec<String> = contents(&out)
        .into_keys()
        .map(|path| path.display().to_string())
        .filter(|path| path.starts_with("table=kernels"))
        .map(|path| path.split('/').skip(2).collect::<Vec<_>>().join("/"))
        .collect();
    assert_eq!(
        kernels,
        [
            "rank=0/part-000002.parquet",
            "rank=1/part-000000.parquet",
            "rank=1/part-000001.parquet"
        ]
    );
}

#[test]
fn a_recording_given_twice_is_exported_once() {
    let folder = tempfile::tempdir().unwrap();
    let inputs = inputs(folder.path());
    let out = folder.path().join("out");
    // The same file by another path, in one run.
    let again = input(&folder.path().join(".").join("demo-rank0.json.gz"));
    let twice = [inputs[0].clone(), again];
    let (report, read) = run(&twice, &out, &all(), 2);
    let report = report.unwrap();
    assert_eq!((report.exported, report.skipped, read), (1, 1, 1));
    // A copy of it, later.
    let copy = folder.path().join("copy.json.gz");
    fs::copy(&inputs[0].name, &copy).unwrap();
    let (report, read) = run(&[input(&copy), inputs[1].clone()], &out, &all(), 2);
    let report = report.unwrap();
    assert_eq!((report.exported, report.skipped, read), (1, 1, 1));
    let kernels = contents(&out).into_keys();
    let kernels = kernels.filter(|path| path.starts_with("table=kernels"));
    assert_eq!(kernels.count(), 2);
}

#[test]
fn a_broken_input_is_a_row_of_failures() {
    let folder = tempfile::tempdir().unwrap();
    let mut inputs = inputs(folder.path());
    let broken = folder.path().join("broken.json");
    fs::write(&broken, "no trace").unwrap();
    inputs.insert(1, input(&broken));
    inputs.push(input(&folder.path().join("missing.json")));
    let out = folder.path().join("out");
    let (report, _) = run(&inputs, &out, &all(), 2);
    let report = report.unwrap();
    assert_eq!((report.exported, report.failures.len()), (2, 2));
    assert!(
        report.failures[0].0.ends_with("broken.json")
            && report.failures[1].0.ends_with("missing.json")
    );
    let failures = || -> Vec<i64> {
        let file = fs::File::open(out.join("table=failures/part-000000.parquet")).unwrap();
        let file = SerializedFileReader::new(file).unwrap();
        file.get_row_iter(None)
            .unwrap()
            .map(|row| row.unwrap().get_long(0).unwrap())
            .collect()
    };
    assert_eq!(failures(), [1, 3]);
    // Once it can be read it is exported, and no failure any more.
    fs::copy(demo("demo-capture-rank0.json.gz"), &broken).unwrap();
    let (report, read) = run(&inputs, &out, &all(), 2);
    let report = report.unwrap();
    assert_eq!((report.exported, report.skipped, read), (1, 2, 1));
    assert_eq!(failures(), [3]);
}

#[test]
fn what_a_killed_export_leaves_is_no_data_and_the_next_one_completes_it() {
    let folder = tempfile::tempdir().unwrap();
    let inputs = inputs(folder.path());
    let (whole, killed) = (folder.path().join("whole"), folder.path().join("killed"));
    run(&inputs, &whole, &all(), 1).0.unwrap();
    let expected = contents(&whole);
    run(&inputs, &killed, &all(), 1).0.unwrap();
    // Killed while the second input was written: some files aside, none in place, none of `files`.
    let name = folder
        .path()
        .file_name()
        .unwrap()
        .to_string_lossy()
        .into_owned();
    for table in TABLES {
        fs::remove_file(killed.join(format!(
            "table={}/run={name}/rank=1/part-000001.parquet",
            table.name
        )))
        .unwrap();
    }
    fs::remove_file(killed.join("_inferscope/inputs/000001.json")).unwrap();
    let aside = killed.join("_inferscope/tmp/000001");
    fs::create_dir_all(&aside).unwrap();
    fs::write(aside.join("kernels"), "half a file").unwrap();
    let mut manifest = fs::read_to_string(killed.join("manifest.json")).unwrap();
    manifest = manifest.replace("\"done\"", "\"ignored\"");
    fs::write(killed.join("manifest.json"), manifest).unwrap();
    let (report, read) = run(&inputs, &killed, &all(), 1);
    let report = report.unwrap();
    assert_eq!((report.exported, report.skipped, read), (1, 1, 1));
    assert_eq!(contents(&killed), expected);
}

#[test]
fn a_folder_with_other_files_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let inputs = inputs(folder.path());
    let (done, read) = run(&inputs, folder.path(), &all(), 1);
    assert!(matches!(done, Err(Error::NotOurs { .. })));
    assert_eq!(read, 0);
    let out = folder.path().join("out");
    run(&inputs, &out, &[table("files").unwrap()], 1).0.unwrap();
    let manifest = out.join("manifest.json");
    let text = fs::read_to_string(&manifest).unwrap();
    fs::write(
        &manifest,
        text.replacen("\"schema_version\": \"1.", "\"schema_version\": \"99.", 1),
    )
    .unwrap();
    let error = run(&inputs, &out, &all(), 1).0.unwrap_err();
    assert!(error.to_string().contains("version 99."), "{error}");
    fs::write(&manifest, "{").unwrap();
    let error = run(&inputs, &out, &all(), 1).0.unwrap_err();
    assert!(error.to_string().contains("damaged"), "{error}");
}
