//! Tests that every container returns its content: alone, nested and in pieces.

use std::io::{self, BufRead as _, Read};

use crate::support::{drain, drain_by, gzip, read, tar, text, xz, zip, zstd};
use byte_source::{Container, Error, Limits, OpenOptions, Source};
use proptest::prelude::*;

#[test]
fn every_compression_is_undone_whatever_the_name() {
    let content = text(300_000);
    for (container, packed) in [
        (Container::Gzip, gzip(&content)),
        (Container::Zstd, zstd(&content)),
        (Container::Xz, xz(&content)),
    ] {
        let source = Source::from_bytes("misleading.bz2", packed).unwrap();
        assert_eq!(source.containers(), [container]);
        assert!(source.random_access().is_none());
        let (unpacked, damage) = drain(source).unwrap();
        assert_eq!(unpacked, content, "{container}");
        assert_eq!(damage, [], "{container}");
    }
}

#[test]
fn check_sums_of_tar_may_begin_with_blanks() {
    let content = text(5_000);
    let mut packed = tar(&[("a", &content)]);
    let digits = String::from_utf8_lossy(&packed[148..156]).into_owned();
    let sum = u32::from_str_radix(digits.trim_matches(['\0', ' ']), 8).unwrap();
    for field in [
        format!("{sum:>6o}\0 "),
        format!("{sum:>7o}\0"),
        format!("{sum:<6o}\0 "),
    ] {
        packed[148..156].copy_from_slice(field.as_bytes());
        let source = Source::from_bytes("t", packed.clone()).unwrap();
        assert_eq!(source.containers(), [Container::Tar], "{field:?}");
        assert_eq!(drain(source).unwrap().0, content);
    }
    // No digits are no sum.
    packed[148..156].copy_from_slice(b"       \0");
    let source = Source::from_bytes("t", packed).unwrap();
    assert!(source.containers().is_empty());
}

#[test]
fn three_containers_may_nest_and_not_four() {
    let content = text(5_000);
    let three = gzip(&xz(&zstd(&content)));
    let source = Source::from_bytes("t", three.clone()).unwrap();
    assert_eq!(
        source.containers(),
        [Container::Gzip, Container::Xz, Container::Zstd]
    );
    assert_eq!(drain(source).unwrap().0, content);
    match read(gzip(&three)) {
        Err(Error::Nested { limit: 3, name }) => assert_eq!(name, "test"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn concatenated_members_are_one_stream() {
    let content = text(40_000);
    let (front, back) = content.split_at(12_345);
    for pack in [gzip, zstd, xz] {
        let mut packed = pack(front);
        packed.extend(pack(b""));
        packed.extend(pack(back));
        let (unpacked, damage) = read(packed).unwrap();
        assert!(unpacked == content);
        assert_eq!(damage, []);
    }
}

#[test]
fn all_optional_gzip_header_fields_are_skipped() {
    for extra in [&b""[..], &b"xy"[..], &[7; 300_000 % 65_536][..]] {
        let mut packed = Vec::new();
        flate2::GzBuilder::new()
            .filename("trace.json")
            .comment("made by hand")
            .extra(extra)
            .read(&b"content"[..], flate2::Compression::fast())
            .read_to_end(&mut packed)
            .unwrap();
        let (unpacked, damage) = read(packed).unwrap();
        assert_eq!(unpacked, b"content");
        assert_eq!(damage, []);
    }
}

#[test]
fn zstd_frames_may_be_skippable() {
    let mut packed = b"\x50\x2a\x4d\x18\x03\x00\x00\x00abc".to_vec();
    packed.extend(zstd(b"one "));
    packed.extend(b"\x5f\x2a\x4d\x18\x00\x00\x00\x00");
    packed.extend(zstd(b"two"));
    assert_eq!(read(packed).unwrap(), (b"one two".to_vec(), vec![]));
}

#[test]
fn head_grows_on_demand_and_consumes_nothing() {
    let content = text(100_000);
    let mut source = Source::from_bytes("t", gzip(&content)).unwrap();
    assert_eq!(source.head(1).unwrap(), &content[..1]);
    assert_eq!(source.head(70_000).unwrap(), &content[..70_000]);
    assert_eq!(source.head(usize::MAX).unwrap(), &content[..]);
    assert_eq!(source.head(10).unwrap(), &content[..10]);
    assert_eq!(drain(source).unwrap().0, content);
}

#[test]
fn lines_come_through() {
    let source = Source::from_bytes("t", zstd(b"alpha\nbeta\n\ngamma")).unwrap();
    let lines: Vec<String> = source
        .into_read()
        .unwrap()
        .lines()
        .collect::<Result<_, _>>()
        .unwrap();
    assert_eq!(lines, ["alpha", "beta", "", "gamma"]);
}

#[test]
fn foreign_containers_are_named_with_a_remedy() {
    let error = read(b"BZh91AY&SY rest".to_vec()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "test: bzip2 is not supported: unpack it first, for example with `bzip2 -d`"
    );
}

#[test]
fn empty_inside_and_outside() {
    for bytes in [Vec::new(), gzip(b""), zstd(b""), xz(b"")] {
        assert!(matches!(read(bytes), Err(Error::Empty { .. })));
    }
}

/// An endless reader of zeros, to generate a large bomb.
struct Zeros;

impl Read for Zeros {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        buffer.fill(0);
        Ok(buffer.len())
    }
}

fn bomb(bytes: u64) -> Vec<u8> {
    let mut packed = Vec::new();
    flate2::read::GzEncoder::new(Zeros.take(bytes), flate2::Compression::best())
        .read_to_end(&mut packed)
        .unwrap();
    packed
}

fn with_limits(change: impl FnOnce(&mut Limits)) -> OpenOptions {
    let mut options = OpenOptions::default();
    change(&mut options.limits);
    options
}

#[test]
fn a_gzip_bomb_of_zeros_sets_off_the_alarm_after_the_grace() {
    let packed = bomb(64 << 20);
    let options = with_limits(|limits| limits.ratio_grace_bytes = 32 << 20);
    let source = Source::from_bytes_with("bomb.gz", packed.clone(), &options).unwrap();
    let mut chunks = source.into_chunks(Default::default()).unwrap();
    let mut before = 0;
    let error = loop {
        match chunks.next() {
            Ok(Some(chunk)) => before += chunk.len(),
            Ok(None) => panic!("the bomb went off: {before} bytes"),
            Err(error) => break error,
        }
    };
    assert!((31 << 20..=33 << 20).contains(&before), "{before}");
    assert!(matches!(error, Error::Bomb { limit: 1000, .. }));
    assert!(error.to_string().contains("max-ratio"), "{error}");
    assert!(chunks.next().unwrap().is_none());

    // A caller who trusts the input can read it.
    let trusting = with_limits(|limits| {
        limits.ratio_grace_bytes = 32 << 20;
        limits.max_ratio = None;
    });
    let source = Source::from_bytes_with("zeros.gz", packed, &trusting).unwrap();
    assert_eq!(drain(source).unwrap().0.len(), 64 << 20);
}

#[test]
fn a_nested_bomb_is_measured_against_the_bytes_on_disk() {
    // 64 MiB of zeros in about 64 kB, and those once more in a few hundred bytes.
    let packed = gzip(&bomb(64 << 20));
    assert!(packed.len() < 20_000, "{}", packed.len());
    let options = with_limits(|limits| {
        limits.ratio_grace_bytes = 1 << 20;
        limits.max_ratio = Some(2000);
    });
    let source = Source::from_bytes_with("bomb.gz.gz", packed, &options).unwrap();
    assert!(matches!(drain(source), Err(Error::Bomb { .. })));
}

#[test]
fn the_output_limit_names_itself() {
    let content = text(100_000);
    let options = with_limits(|limits| limits.max_uncompressed_bytes = 99_999);
    let open = |options: &OpenOptions| Source::from_bytes_with("t.gz", gzip(&content), options);
    let error = drain(open(&options).unwrap()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "t.gz: more than 99999 bytes after decompression: if the file is trusted, raise max-uncompressed"
    );
    let options = with_limits(|limits| limits.max_uncompressed_bytes = 100_000);
    assert_eq!(drain(open(&options).unwrap()).unwrap().0, content);
    // Plain bytes are not limited.
    let options = with_limits(|limits| limits.max_uncompressed_bytes = 1);
    let plain = Source::from_bytes_with("t", content.clone(), &options).unwrap();
    assert_eq!(drain(plain).unwrap().0, content);
}

#[test]
fn windows_too_large_are_refused() {
    let content = text(3 << 20);
    let mut encoder = ::zstd::Encoder::new(Vec::new(), 1).unwrap();
    encoder.window_log(21).unwrap();
    io::copy(&mut &content[..], &mut encoder).unwrap();
    let options = with_limits(|limits| limits.max_decoder_bytes = 1 << 20);
    for packed in [encoder.finish().unwrap(), {
        let mut out = Vec::new();
        liblzma::read::XzEncoder::new(&content[..], 6)
            .read_to_end(&mut out)
            .unwrap();
        out
    }] {
        let refused = Source::from_bytes_with("t", packed.clone(), &options);
        assert!(
            matches!(refused, Err(Error::DecoderMemory { .. })),
            "{refused:?}"
        );
        assert_eq!(read(packed).unwrap().0.len(), 3 << 20);
    }
}

/// Returns at most this many bytes at a time, as pipes do.
struct Trickle(io::Cursor<Vec<u8>>, usize);

impl Read for Trickle {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let wanted = buffer.len().min(self.1);
        self.0.read(&mut buffer[..wanted])
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn chunk_boundaries_change_nothing(
        len in 1..60_000_usize,
        chunk in 1..9_000_usize,
        trickle in 1..5_000_usize,
        look in 0..70_000_usize,
        which in 0..5_usize,
    ) {
        let content = text(len);
        let packed = match which {
            0 => content.clone(),
            1 => gzip(&content),
            2 => zstd(&content),
            3 => xz(&content),
            _ => gzip(&zstd(&content)),
        };
        let reader = Trickle(io::Cursor::new(packed), trickle);
        let mut source = Source::from_reader("t", reader).unwrap();
        prop_assert_eq!(source.head(look).unwrap(), &content[..look.min(len)]);
        let (unpacked, damage) = drain_by(source, chunk).unwrap();
        prop_assert!(unpacked == content);
        prop_assert!(damage.is_empty());
    }

    #[test]
    fn arbitrary_bytes_never_panic(
        mut bytes in prop::collection::vec(any::<u8>(), 1..600),
        magic in 0..6_usize,
    ) {
        let seed = [
            vec![],
            gzip(b"some content to break"),
            zstd(b"some content to break"),
            xz(b"some content to break"),
            zip(&[("a", b"some content to break")], ::zip::CompressionMethod::Deflated),
            tar(&[("a", b"some content to break")]),
        ];
        // Keep a piece of a real container in front.
        let keep = bytes.len() % (seed[magic].len() + 1);
        let mut start = seed[magic][..keep].to_vec();
        start.append(&mut bytes);
        for member in byte_source::Members::from_bytes("t", start, &OpenOptions::default())
            .into_iter()
            .flatten()
            .flatten()
        {
            let _ = drain(member);
        }
    }
}
