//! Inputs in object stores: the same answers as from local files, from a server on loopback that speaks S3.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use super::server::{Answer, Server};
use super::text;

fn testdata(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../testdata")
        .join(name)
}

/// Runs the tool with credentials of the server's buckets.
fn with(server: &Server, words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_inferscope"))
        .args(words)
        .env("AWS_ENDPOINT_URL", &server.url)
        .env("AWS_ALLOW_HTTP", "true")
        .env("AWS_ACCESS_KEY_ID", "KEYID")
        .env("AWS_SECRET_ACCESS_KEY", "TOPSECRET")
        .env("AWS_REGION", "us-east-1")
        .env("NO_PROXY", "127.0.0.1")
        .output()
        .unwrap()
}

/// Uploads a folder under a prefix of a bucket.
fn upload(server: &Server, folder: &Path, prefix: &str) {
    for entry in fs::read_dir(folder).unwrap().flatten() {
        let name = format!("{prefix}/{}", entry.file_name().to_str().unwrap());
        match entry.path().is_dir() {
            true => upload(server, &entry.path(), &name),
            false => server.put(&name, fs::read(entry.path()).unwrap(), Answer::Whole),
        }
    }
}

/// A run of two ranks, packed and plain, with a file that is no recording, and recordings of other formats.
fn recordings(folder: &Path) {
    let run = folder.join("run");
    fs::create_dir_all(&run).unwrap();
    let packed = testdata("demo/demo-rank0.json.gz");
    fs::copy(&packed, run.join("rank0.json.gz")).unwrap();
    let plain = byte_source::Source::open(
        testdata("demo/demo-rank1.json.gz"),
        &byte_source::OpenOptions::default(),
    );
    let mut bytes = Vec::new();
    std::io::Read::read_to_end(&mut plain.unwrap().into_read().unwrap(), &mut bytes).unwrap();
    fs::write(run.join("rank1.json"), bytes).unwrap();
    fs::write(run.join("notes.txt"), "no recording").unwrap();
    fs::write(run.join("report.json"), "{\"no\": \"events\"}").unwrap();
    let other = folder.join("other");
    fs::create_dir_all(&other).unwrap();
    fs::copy(testdata("perfetto/sdk.pftrace"), other.join("sdk.pftrace")).unwrap();
    for name in ["host-0_4000_0_results.db", "host-1_4000_1_results.db"] {
        fs::copy(testdata("rocpd").join(name), other.join(name)).unwrap();
    }
}

const BY_CLASS: &str = "SELECT rank, class, count(*) AS n, sum(dur) AS ns FROM kernels GROUP BY rank, class ORDER BY 1, 2";

#[test]
fn answers_are_those_of_local_files() {
    let folder = tempfile::tempdir().unwrap();
    recordings(folder.path());
    let server = Server::start();
    upload(&server, folder.path(), "bucket");
    let here = folder.path().to_str().unwrap();
    let calls: [&[&str]; 8] = [
        &["trace-info", "gpu", "@/run/rank0.json.gz", "--json"],
        &["trace-info", "gpu", "@/run/", "--json"],
        &["trace-info", "comm", "@/run", "--json"],
        &["trace-info", "@/other/sdk.pftrace", "--json"],
        &[
            "trace-info",
            "gpu",
            "@/other/host-0_4000_0_results.db",
            "--json",
        ],
        &[
            "sql",
            "SELECT file, hash, format, rank FROM files ORDER BY 1",
            "@/run/",
            "--format",
            "csv",
        ],
        &["sql", BY_CLASS, "@/", "--format", "csv"],
        &["why", "@/run/", "--json"],
    ];
    for words in calls {
        let local: Vec<String> = words.iter().map(|word| word.replace('@', here)).collect();
        let local: Vec<&str> = local.iter().map(String::as_str).collect();
        let remote: Vec<String> = words
            .iter()
            .map(|word| word.replace('@', "s3://bucket"))
            .collect();
        let remote: Vec<&str> = remote.iter().map(String::as_str).collect();
        let (one, two) = (with(&server, &local), with(&server, &remote));
        assert_eq!(
            one.status.code(),
            Some(0),
            "{local:?} {}",
            text(&one.stderr)
        );
        let same = |bytes: &[u8]| text(bytes).replace("s3://bucket", here);
        assert_eq!(same(&two.stderr), text(&one.stderr), "{remote:?}");
        assert_eq!(same(&two.stdout), text(&one.stdout), "{remote:?}");
        assert_eq!(two.status.code(), Some(0));
    }
}

#[test]
fn exports_skip_what_is_there_and_name_what_vanished() {
    let folder = tempfile::tempdir().unwrap();
    recordings(folder.path());
    let server = Server::start();
    upload(&server, &folder.path().join("run"), "bucket/run");
    let there = folder.path().join("there");
    let there = there.to_str().unwrap();
    let export = [
        "export",
        "s3://bucket/run/",
        "-o",
        there,
        "--tables",
        "kernels,slices,args",
    ];
    let made = with(&server, &export);
    assert_eq!(made.status.code(), Some(0), "{}", text(&made.stderr));
    server.requests();
    let again = with(&server, &export);
    assert!(
        text(&again.stderr).contains("2 skipped"),
        "{}",
        text(&again.stderr)
    );
    let largest = server
        .requests()
        .into_iter()
        .filter_map(|r| Some(r.range?.1 - r.range?.0));
    assert!(
        largest.max().unwrap() < 64 << 10,
        "only the begin of each is looked at"
    );
    // The rows are those of an export of local files.
    let here = folder.path().join("here");
    let here = here.to_str().unwrap();
    let run = folder.path().join("run");
    let local = [
        "export",
        run.to_str().unwrap(),
        "-o",
        here,
        "--tables",
        "kernels,slices,args",
    ];
    assert_eq!(with(&server, &local).status.code(), Some(0));
    let path = "table=kernels/run=run/rank=1/part-000001.parquet";
    assert!(
        fs::read(format!("{here}/{path}")).unwrap() == fs::read(format!("{there}/{path}")).unwrap()
    );
    let hash = |set: &str| {
        let manifest: serde_json::Value =
            serde_json::from_slice(&fs::read(format!("{set}/manifest.json")).unwrap()).unwrap();
        manifest["inputs"][0]["done"]["hash"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    assert_eq!(hash(here), hash(there));

    // One object changes to something else, one can be listed and not read.
    server.put(
        "bucket/run/rank1.json",
        "{\"traceEvents\": [}",
        Answer::Whole,
    );
    server.put(
        "bucket/run/rank2.json",
        "{\"traceEvents\": []}",
        Answer::Status(404, "NoSuchKey"),
    );
    let partly = with(&server, &export);
    assert_eq!(partly.status.code(), Some(3));
    let said = text(&partly.stderr);
    assert!(
        said.contains("left out: s3://bucket/run/rank2.json: no such object"),
        "{said}"
    );
    let failed = with(
        &server,
        &[
            "sql",
            "SELECT file FROM failures ORDER BY 1",
            there,
            "--format",
            "csv",
        ],
    );
    assert!(text(&failed.stdout).contains("s3://bucket/run/rank2.json"));
    let fleet = folder.path().join("fleet");
    let job = with(
        &server,
        &["fleet", "s3://bucket/run/", "-o", fleet.to_str().unwrap()],
    );
    assert_eq!(job.status.code(), Some(3), "{}", text(&job.stderr));
    assert!(text(&job.stderr).contains("left out: s3://bucket/run/rank2.json"));
    let refused = with(&server, &["export", there, "-o", "s3://bucket/set"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(text(&refused.stderr).contains("results are written to local folders"));
}

#[test]
fn a_data_set_in_a_bucket_answers_as_the_local_one() {
    let folder = tempfile::tempdir().unwrap();
    recordings(folder.path());
    let server = Server::start();
    let set = folder.path().join("set");
    let set = set.to_str().unwrap();
    let run = folder.path().join("run");
    let made = with(&server, &["export", run.to_str().unwrap(), "-o", set]);
    assert_eq!(made.status.code(), Some(0), "{}", text(&made.stderr));
    upload(&server, Path::new(set), "bucket/sets/a set");
    for query in [
        BY_CLASS,
        "SELECT count(*), min(ts), max(ts + dur) FROM slices WHERE dur > 100000",
        "SELECT name, extract_arg(arg_set_id, 'stream') AS s FROM slice WHERE category = 'kernel' ORDER BY ts, id LIMIT 5",
        "SELECT * FROM failures",
    ] {
        let one = with(&server, &["sql", query, set, "--format", "csv"]);
        let two = with(
            &server,
            &["sql", query, "s3://bucket/sets/a set", "--format", "csv"],
        );
        assert_eq!(text(&two.stderr), text(&one.stderr));
        assert_eq!(text(&two.stdout), text(&one.stdout), "{query}");
        assert_eq!(two.status.code(), Some(0));
    }
    let ranged = server
        .requests()
        .into_iter()
        .filter(|r| r.path.ends_with(".parquet"));
    assert!(
        ranged.clone().count() > 0
            && ranged
                .clone()
                .all(|r| r.method == "HEAD" || r.range.is_some())
    );
    // A file that is missing is named, and left out.
    server.put(
        "bucket/sets/a set/table=kernels/run=run/rank=0/part-000000.parquet",
        "cut",
        Answer::Whole,
    );
    let cut = with(
        &server,
        &[
            "sql",
            "SELECT DISTINCT rank FROM kernels",
            "s3://bucket/sets/a set",
            "--format",
            "csv",
        ],
    );
    assert_eq!(cut.status.code(), Some(3), "{}", text(&cut.stderr));
    assert!(
        text(&cut.stderr).contains("has 3 bytes instead of"),
        "{}",
        text(&cut.stderr)
    );
}

#[test]
fn errors_name_the_remedy_and_no_secret() {
    let server = Server::start();
    server.put(
        "bucket/run/rank0.json",
        "{}",
        Answer::Status(403, "AccessDenied"),
    );
    server.put("closed/.denied", "", Answer::Whole);
    for (words, want) in [
        (
            ["trace-info", "s3://bucket/run/rank0.json"],
            "access is refused (403 AccessDenied): set AWS_ACCESS_KEY_ID",
        ),
        (
            ["trace-info", "s3://closed/run/"],
            "access is refused (403 AccessDenied)",
        ),
        (
            ["trace-info", "s3://nowhere/run/"],
            "no bucket `nowhere` at this endpoint",
        ),
        (
            ["trace-info", "s3://bucket/run/rank7.json"],
            "no such object",
        ),
        (
            ["trace-info", "s3://bucket/nothing/"],
            "this folder is empty",
        ),
        (
            ["trace-info", "s3://A:TOPSECRET@bucket/run/rank0.json"],
            "credentials in the URL are not used",
        ),
    ] {
        let answer = with(&server, &words);
        let said = text(&answer.stderr);
        assert_eq!(answer.status.code(), Some(3), "{said}");
        assert!(said.contains(want), "{said}");
        assert!(
            !said.contains("TOPSECRET") && !said.contains("KEYID"),
            "{said}"
        );
        assert_eq!(said.lines().count(), 1, "{said}");
    }
    let plain = Command::new(env!("CARGO_BIN_EXE_inferscope"))
        .args(["trace-info", "s3://bucket/run/rank0.json"])
        .env("AWS_ENDPOINT_URL", &server.url)
        .env_remove("AWS_ALLOW_HTTP")
        .output()
        .unwrap();
    assert!(
        text(&plain.stderr).contains("set AWS_ALLOW_HTTP=true"),
        "{}",
        text(&plain.stderr)
    );
}
