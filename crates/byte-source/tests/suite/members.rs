//! Tests archives, whose files are separate sources.

use std::fs;

use crate::support::{drain, gzip, tar, text, zip, zstd};
use byte_source::{Error, Members, OpenOptions, Source};

fn all(members: Members) -> Vec<(String, Vec<u8>)> {
    members
        .map(|source| {
            let source = source.unwrap();
            let name = source.name().to_owned();
            let (bytes, damage) = drain(source).unwrap();
            assert_eq!(damage, []);
            (name, bytes)
        })
        .collect()
}

fn expected(archive: &str, members: &[(&str, &[u8])]) -> Vec<(String, Vec<u8>)> {
    members
        .iter()
        .map(|(name, bytes)| (format!("{archive}!{name}"), bytes.to_vec()))
        .collect()
}

#[test]
fn zip_and_tar_members_in_the_order_of_the_directory() {
    let long = text(50_000);
    let name = format!("{}/rank1.json", "deep".repeat(40));
    let members: [(&str, &[u8]); 3] = [("rank2.json", &long), (&name, b"{}"), ("z", b"[]")];
    let options = OpenOptions::default();
    for archive in [
        zip(&members, ::zip::CompressionMethod::Stored),
        zip(&members, ::zip::CompressionMethod::Deflated),
        tar(&members),
        gzip(&tar(&members)),
        zstd(&zip(&members, ::zip::CompressionMethod::Deflated)),
    ] {
        let from_bytes = Members::from_bytes("a", archive.clone(), &options).unwrap();
        assert_eq!(all(from_bytes), expected("a", &members));
        let from_pipe = Members::from_reader("a", std::io::Cursor::new(archive), &options).unwrap();
        assert_eq!(all(from_pipe), expected("a", &members));
    }
}

#[test]
fn stored_members_can_be_read_at_random() {
    let members: [(&str, &[u8]); 2] = [("a", b"0123456789"), ("b", b"abcdefghij")];
    for archive in [
        zip(&members, ::zip::CompressionMethod::Stored),
        tar(&members),
        gzip(&tar(&members)),
    ] {
        let second = Members::from_bytes("x", archive, &OpenOptions::default())
            .unwrap()
            .nth(1)
            .unwrap()
            .unwrap();
        let access = second.random_access().unwrap();
        assert_eq!(access.len(), 10);
        let mut buffer = [0; 4];
        assert_eq!(access.read_at(8, &mut buffer).unwrap(), 2);
        assert_eq!(&buffer[..2], b"ij");
    }
}

#[test]
fn members_may_be_compressed_and_archives_again() {
    let inner = zip(&[("c.json", b"deep")], ::zip::CompressionMethod::Deflated);
    let outer = tar(&[
        ("a.json", b"plain"),
        ("b.json.gz", &gzip(b"packed")),
        ("more.zip", &inner),
    ]);
    let members = Members::from_bytes("o.tar", outer, &OpenOptions::default()).unwrap();
    let names: Vec<_> = all(members);
    assert_eq!(
        names,
        [
            ("o.tar!a.json".to_owned(), b"plain".to_vec()),
            ("o.tar!b.json.gz".to_owned(), b"packed".to_vec()),
            ("o.tar!more.zip!c.json".to_owned(), b"deep".to_vec()),
        ]
    );
}

/// Changes both headers of all members to the method zstd.
fn as_zstd(mut zip: Vec<u8>) -> Vec<u8> {
    for at in 0..zip.len() - 12 {
        let method = match &zip[at..at + 4] {
            b"PK\x03\x04" => at + 8,
            b"PK\x01\x02" => at + 10,
            _ => continue,
        };
        zip[method] = 93;
    }
    zip
}

#[test]
fn a_member_as_it_is_stays_compressed() {
    use ::zip::CompressionMethod;
    let directory = tempfile::tempdir().unwrap();
    let packed = gzip(b"plain");
    let members: [(&str, &[u8]); 2] = [("a.json", b"{}"), ("b/c.json.gz", &packed)];
    let streams = members.map(|(name, bytes)| (name, zstd(bytes)));
    let streams = streams.each_ref().map(|(name, bytes)| (*name, &bytes[..]));
    let options = OpenOptions::default();
    for (name, archive) in [
        ("stored.zip", zip(&members, CompressionMethod::Stored)),
        ("deflated.zip", zip(&members, CompressionMethod::Deflated)),
        (
            "zstd.zip",
            as_zstd(zip(&streams, CompressionMethod::Stored)),
        ),
        ("t.tar", tar(&members)),
        ("t.tar.gz", gzip(&tar(&members))),
    ] {
        let path = directory.path().join(name);
        fs::write(&path, &archive).unwrap();
        let as_is = |path: &str| drain(Source::open_as_is(path, &options).unwrap()).unwrap();
        let path = path.display().to_string();
        assert_eq!(as_is(&path), (archive, vec![]), "{name}");
        let member = format!("{path}!b/c.json.gz");
        assert_eq!(as_is(&member), (packed.clone(), vec![]), "{name}");
        let opened = Source::open(&member, &options).unwrap();
        assert_eq!(drain(opened).unwrap().0, b"plain", "{name}");
    }
    let outer = directory.path().join("outer.tar");
    fs::write(&outer, tar(&[("in.tar", &tar(&members)), ("x", b"x")])).unwrap();
    let member = format!("{}!in.tar!b/c.json.gz", outer.display());
    let source = Source::open_as_is(&member, &options).unwrap();
    assert_eq!(source.name(), member);
    assert_eq!(drain(source).unwrap().0, packed);
    let absent = format!("{}!in.tar!d.json", outer.display());
    assert!(matches!(
        Source::open_as_is(absent, &options),
        Err(Error::NoSuchMember { .. })
    ));
}

#[test]
fn one_bad_member_does_not_hide_the_others() {
    let archive = tar(&[
        ("a", b"1"),
        ("empty", b""),
        ("bad", b"BZh91AY&SY"),
        ("z", b"2"),
    ]);
    let results: Vec<_> = Members::from_bytes("t", archive, &OpenOptions::default())
        .unwrap()
        .map(|member| member.map(|source| source.name().to_owned()))
        .collect();
    assert_eq!(results[0].as_deref().unwrap(), "t!a");
    assert!(matches!(&results[1], Err(Error::Empty { name }) if name == "t!empty"));
    assert!(matches!(
        &results[2],
        Err(Error::Unsupported { what: "bzip2", .. })
    ));
    assert_eq!(results[3].as_deref().unwrap(), "t!z");
    assert_eq!(results.len(), 4);
}

#[test]
fn an_archive_of_one_file_is_that_file() {
    let archive = zip(
        &[("dir/", b""), ("dir/rank0.json", b"{}")],
        ::zip::CompressionMethod::Deflated,
    );
    let source = Source::from_bytes("run.zip", archive).unwrap();
    assert_eq!(source.name(), "run.zip!dir/rank0.json");
    assert_eq!(source.logical_name(), "rank0.json");
    assert_eq!(drain(source).unwrap().0, b"{}");
}

#[test]
fn several_files_are_an_error_that_shows_the_way() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("ranks.zip");
    let members: [(&str, &[u8]); 2] = [("r0.json", b"zero"), ("sub/r1.json.gz", &gzip(b"one"))];
    fs::write(&path, zip(&members, ::zip::CompressionMethod::Deflated)).unwrap();
    let options = OpenOptions::default();
    let first = match Source::open(&path, &options) {
        Err(Error::SeveralMembers {
            count: 2, first, ..
        }) => first,
        other => panic!("{other:?}"),
    };
    assert_eq!(first, format!("{}!r0.json", path.display()));
    let read = |name: &str| drain(Source::open(name, &options).unwrap()).unwrap().0;
    assert_eq!(read(&first), b"zero");
    assert_eq!(read(&format!("{}!sub/r1.json.gz", path.display())), b"one");
    assert_eq!(Source::open_all(&path, &options).unwrap().count(), 2);
    assert_eq!(Source::open_all(&first, &options).unwrap().count(), 1);
    match Source::open(format!("{}!r2.json", path.display()), &options) {
        Err(Error::NoSuchMember { member, .. }) => assert_eq!(member, "r2.json"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_archive_without_files() {
    let empty = zip(&[], ::zip::CompressionMethod::Stored);
    let error = Source::from_bytes("e.zip", empty).unwrap_err();
    assert_eq!(error.to_string(), "e.zip: the zip archive holds no files");
}

#[test]
fn large_archives_in_containers_are_spooled_to_a_file() {
    // Larger than the part kept in memory.
    let big = vec![b'x'; 70 << 20];
    let archive = zstd(&tar(&[("a", b"first"), ("big", &big)]));
    let sources: Vec<_> = Members::from_bytes("t", archive.clone(), &OpenOptions::default())
        .unwrap()
        .map(Result::unwrap)
        .collect();
    assert_eq!(sources[1].random_access().unwrap().len(), 70 << 20);
    assert_eq!(drain(sources.into_iter().nth(1).unwrap()).unwrap().0, big);

    let mut options = OpenOptions::default();
    options.limits.max_uncompressed_bytes = 69 << 20;
    let refused = Members::from_bytes("t", archive, &options);
    assert!(matches!(refused, Err(Error::OutputLimit { .. })));
}
