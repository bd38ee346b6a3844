//! Tests against a server on loopback: what is read is what is there, and what goes wrong is named.

mod server;

use std::io::{Read as _, Write as _};
use std::path::Path;
use std::sync::Arc;

use byte_source::{OpenOptions, Progress, Source, remote};
use server::{Answer, Server};

fn start() -> Server {
    object_input::install();
    Server::start()
}

/// Bytes that no compression makes smaller.
fn noise(count: usize) -> Vec<u8> {
    let mut state = 1_u64;
    let next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()[0]
    };
    std::iter::repeat_with(next).take(count).collect()
}

fn read(url: &str) -> Result<Vec<u8>, String> {
    let source = Source::open(url, &OpenOptions::default()).map_err(|error| error.to_string())?;
    let mut bytes = Vec::new();
    let mut reader = source.into_read().map_err(|error| error.to_string())?;
    match reader.read_to_end(&mut bytes) {
        Ok(_) => Ok(bytes),
        Err(error) => Err(error.to_string()),
    }
}

#[test]
fn objects_are_read_in_parts_and_hashed_on_the_way() {
    let server = start();
    let bytes = noise(10 << 20);
    server.put("b/large.bin", bytes.clone(), Answer::Whole);
    let url = format!("{}/b/large.bin", server.url);
    assert!(read(&url).unwrap() == bytes);
    let ranges: Vec<_> = server
        .requests()
        .into_iter()
        .map(|r| r.range.unwrap())
        .collect();
    let head = 64 << 10;
    let part = 4 << 20;
    let want = [0, head, head + part, head + 2 * part, bytes.len()];
    let mut found = ranges.clone();
    found.sort_unstable();
    assert_eq!(
        found,
        want.windows(2)
            .map(|w| (w[0], w[1] - 1))
            .collect::<Vec<_>>()
    );
    // The hash of "abc" is that of FIPS 180.
    server.put("b/abc", "abc", Answer::Whole);
    let url = format!("{}/b/abc", server.url);
    for _ in 0..2 {
        // Whether it was read before or not.
        assert_eq!(
            remote::hash(Path::new(&url)).unwrap(),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
        assert_eq!(read(&url).unwrap(), b"abc");
    }
    assert_eq!(remote::stat(Path::new(&url)).unwrap().unwrap().bytes, 3);
}

#[test]
fn servers_without_ranges_and_slow_ones_give_the_same_bytes() {
    let server = start();
    let bytes = noise(300_000);
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(&bytes).unwrap();
    let packed = gzip.finish().unwrap();
    for (name, answer) in [
        ("whole", Answer::Whole),
        ("no-ranges", Answer::WithoutRanges),
        ("slow", Answer::Slow),
    ] {
        let path = format!("b/{name}.gz");
        server.put(&path, packed.clone(), answer);
        let url = format!("{}/{path}", server.url);
        assert!(read(&url).unwrap() == bytes, "{name}");
    }
}

#[test]
fn what_goes_wrong_is_one_sentence() {
    let server = start();
    let bytes = noise(9 << 20);
    for (name, answer, want) in [
        (
            "early",
            Answer::EndsAt(5 << 20),
            "ended at byte 5242880 of 9437184",
        ),
        (
            "changes",
            Answer::Changes,
            "the object changed while it was read",
        ),
        (
            "gone",
            Answer::GoneAfter(1),
            "the object was removed while it was read",
        ),
        (
            "denied",
            Answer::Status(403, "AccessDenied"),
            "access is refused (403 AccessDenied)",
        ),
        (
            "missing",
            Answer::Status(404, "NoSuchKey"),
            "no such object",
        ),
        (
            "odd",
            Answer::Status(418, "Teapot"),
            "the server refuses the request (418 Teapot)",
        ),
    ] {
        server.put(&format!("b/{name}"), bytes.clone(), answer);
        let url = format!("{}/b/{name}", server.url);
        let error = read(&url).unwrap_err();
        assert!(
            error.starts_with(&format!("{url}: ")) && error.contains(want),
            "{error}"
        );
    }
    server.put("b/empty", "", Answer::Whole);
    let error = read(&format!("{}/b/empty", server.url)).unwrap_err();
    assert!(error.contains("empty (0 bytes)"), "{error}");
    // A folder of a web server.
    let folder = format!("{}/b/", server.url);
    let error = byte_source::expand_inputs([&folder], |_| true)
        .unwrap_err()
        .to_string();
    assert!(error.contains("no listing"), "{error}");
    let error = read(&folder).unwrap_err();
    assert!(error.contains("is a directory"), "{error}");
    // Nothing listens there any more.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let error = read(&format!("http://{address}/x.json")).unwrap_err();
    assert!(
        error.contains(&format!("{address} refuses the connection")),
        "{error}"
    );
    let error = read("http://no-such-host.invalid/x.json").unwrap_err();
    assert!(error.contains("no-such-host.invalid"), "{error}");
    let error = read("hdfs://namenode/x.json").unwrap_err();
    assert!(error.contains("hdfs:// is not read"), "{error}");
}

#[test]
fn credentials_of_a_url_are_sent_and_not_shown() {
    let server = start();
    server.put("b/a.json", "{}", Answer::Whole);
    let address = server.url.strip_prefix("http://").unwrap();
    let given = format!("http://me:p%40ss@{address}/b/a.json?X-Amz-Signature=SIGNED");
    let name = remote::named(&given).into_owned();
    assert_eq!(name, format!("http://{address}/b/a.json"));
    assert_eq!(read(&name).unwrap(), b"{}");
    let request = server.requests().remove(0);
    assert_eq!(request.query, "X-Amz-Signature=SIGNED");
    // `me:p@ss` in base 64.
    assert_eq!(request.authorization.as_deref(), Some("Basic bWU6cEBzcw=="));
    server.put("b/b.json", "", Answer::Status(403, "SignatureDoesNotMatch"));
    let given = format!("http://me:SECRET@{address}/b/b.json?X-Amz-Signature=SIGNED");
    let error = read(&remote::named(&given)).unwrap_err();
    assert!(error.contains("may have expired"), "{error}");
    assert!(
        !error.contains("SIGNED") && !error.contains("SECRET"),
        "{error}"
    );
}

#[test]
fn archives_are_fetched_once_and_read_by_position() {
    let server = start();
    // A tar archive of two files.
    let mut tar = Vec::new();
    for (name, content) in [("rank0.json", "zero"), ("rank1.json", "one")] {
        let mut header = [0_u8; 512];
        header[..name.len()].copy_from_slice(name.as_bytes());
        header[100..107].copy_from_slice(b"0000644");
        let size = format!("{:011o}", content.len());
        header[124..135].copy_from_slice(size.as_bytes());
        header[156] = b'0';
        header[257..262].copy_from_slice(b"ustar");
        header[148..156].fill(b' ');
        let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
        header[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
        tar.extend_from_slice(&header);
        tar.extend_from_slice(content.as_bytes());
        tar.resize(tar.len().next_multiple_of(512), 0);
    }
    tar.resize(tar.len() + 1024, 0);
    server.put("b/job.tar", tar, Answer::Whole);
    let url = format!("{}/b/job.tar", server.url);
    let (names, broken) = byte_source::member_names(&url, &OpenOptions::default()).unwrap();
    assert!(broken.is_none());
    assert_eq!(
        names,
        [format!("{url}!rank0.json"), format!("{url}!rank1.json")]
    );
    assert_eq!(read(&names[1]).unwrap(), b"one");
    assert_eq!(read(&names[0]).unwrap(), b"zero");
    let asked = server
        .requests()
        .into_iter()
        .filter(|r| r.path == "b/job.tar");
    assert_eq!(asked.count(), 1, "the first request has brought all");
    let copy = remote::fetched(Path::new(&url), &OpenOptions::default()).unwrap();
    assert!(copy.is_file());
}

#[test]
fn a_stop_ends_a_download() {
    let server = start();
    server.put("b/x", noise(20 << 20), Answer::Whole);
    let mut options = OpenOptions::default();
    let progress = Arc::new(Progress::default());
    options.progress = Some(Arc::clone(&progress));
    let url = format!("{}/b/x", server.url);
    let mut reader = Source::open(&url, &options).unwrap().into_read().unwrap();
    assert_eq!(progress.total(), 20 << 20);
    let mut first = [0; 16];
    reader.read_exact(&mut first).unwrap();
    progress.stop();
    let mut rest = Vec::new();
    assert!(reader.read_to_end(&mut rest).is_err());
    assert!(rest.len() < 20 << 20);
}
