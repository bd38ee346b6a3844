//! Tests that damaged streams keep the good data and report where it ends.

use crate::support::{gzip, read, tar, text, xz, zip, zstd};
use byte_source::{Container, DamageKind, Error};

#[test]
fn gzip_truncated_anywhere_keeps_a_prefix() {
    let content = text(60_000);
    let packed = gzip(&content);
    let mut longest = 0;
    for cut in (0..packed.len()).step_by(100).chain([packed.len() - 1]) {
        match read(packed[..cut].to_vec()) {
            Ok((kept, damage)) => {
                assert!(content.starts_with(&kept), "cut at {cut}");
                assert!(kept.len() >= longest, "cut at {cut}");
                longest = kept.len();
                assert_eq!(damage.len(), 1, "cut at {cut}");
                assert_eq!(damage[0].container, Container::Gzip);
                assert_eq!(damage[0].kind, DamageKind::Truncated);
                assert_eq!(damage[0].compressed_offset, cut as u64);
                assert_eq!(damage[0].uncompressed_offset, kept.len() as u64);
            }
            Err(Error::Empty { .. }) => assert_eq!(cut, 0),
            // The table of the first block is longer than this.
            Err(Error::NothingDecoded { damage, .. }) => {
                assert!(cut <= 200, "cut at {cut}");
                assert_eq!(damage.kind, DamageKind::Truncated);
            }
            Err(other) => panic!("cut at {cut}: {other}"),
        }
    }
    // Without the last byte only the trailer is incomplete.
    assert_eq!(longest, content.len());
}

#[test]
fn zstd_and_xz_truncated_keep_a_prefix() {
    let content = text(700_000);
    for packed in [zstd(&content), xz(&content)] {
        for share in 1..20 {
            let cut = packed.len() * share / 20;
            match read(packed[..cut].to_vec()) {
                Ok((kept, damage)) => {
                    assert!(content.starts_with(&kept));
                    // Blocks of 128 KiB at most are lost.
                    let expected = content.len() * share / 20;
                    assert!(kept.len() + 200_000 > expected, "{share}: {}", kept.len());
                    assert_eq!(damage.len(), 1);
                    assert_eq!(damage[0].kind, DamageKind::Truncated);
                    assert_eq!(damage[0].compressed_offset, cut as u64);
                    assert_eq!(damage[0].uncompressed_offset, kept.len() as u64);
                }
                Err(Error::NothingDecoded { .. }) => assert!(share < 6, "{share}"),
                Err(other) => panic!("{other}"),
            }
        }
    }
}

#[test]
fn a_wrong_checksum_is_reported_and_reading_goes_on_with_the_next_member() {
    let mut packed = gzip(b"first ");
    let at = packed.len();
    packed[at - 8] ^= 0x55;
    packed.extend(gzip(b"second"));
    let (kept, damage) = read(packed).unwrap();
    assert_eq!(kept, b"first second");
    assert_eq!(damage.len(), 1);
    assert_eq!(
        damage[0].to_string(),
        format!("gzip checksum mismatch at compressed byte {at}, uncompressed byte 6")
    );
    assert!(!damage[0].kind.is_harmless());
}

#[test]
fn a_wrong_length_is_reported() {
    let mut packed = gzip(b"content");
    *packed.last_mut().unwrap() = 1;
    let (kept, damage) = read(packed).unwrap();
    assert_eq!(kept, b"content");
    assert_eq!(damage[0].kind, DamageKind::Length);
}

#[test]
fn zstd_checksums_count() {
    let content = text(300_000);
    let mut packed = zstd(&content);
    *packed.last_mut().unwrap() ^= 1;
    let (kept, damage) = read(packed).unwrap();
    assert_eq!(kept, content);
    assert_eq!(damage.len(), 1);
    assert_eq!(damage[0].kind, DamageKind::Checksum);
    assert_eq!(damage[0].uncompressed_offset, 300_000);
}

#[test]
fn garbage_inside_ends_the_stream_with_what_was_good() {
    let content = text(400_000);
    for (pack, name) in [
        (gzip as fn(&[u8]) -> Vec<u8>, "gzip"),
        (zstd, "zstd"),
        (xz, "xz"),
    ] {
        let mut packed = pack(&content);
        let middle = packed.len() / 2;
        packed[middle..middle + 64].fill(0xff);
        let (kept, damage) = read(packed).unwrap();
        let same = kept
            .iter()
            .zip(&content)
            .take_while(|(a, b)| a == b)
            .count();
        // The bytes directly before the break may already be wrong.
        assert!(same >= 60_000, "{name}: {same}");
        assert!(
            kept.len() < content.len() || damage[0].kind == DamageKind::Checksum,
            "{name}"
        );
        assert_eq!(damage.len(), 1, "{name}: {damage:?}");
        assert!(
            matches!(damage[0].kind, DamageKind::Corrupt | DamageKind::Checksum),
            "{name}: {damage:?}"
        );
        assert_eq!(damage[0].uncompressed_offset, kept.len() as u64, "{name}");
    }
}

#[test]
fn garbage_after_the_last_member_is_harmless() {
    for pack in [gzip, zstd, xz] {
        let mut packed = pack(b"content");
        let end = packed.len() as u64;
        packed.extend(b"and a note");
        let (kept, damage) = read(packed).unwrap();
        assert_eq!(kept, b"content");
        assert_eq!(damage.len(), 1);
        assert_eq!(damage[0].kind, DamageKind::TrailingGarbage);
        assert!(damage[0].kind.is_harmless());
        assert_eq!(damage[0].compressed_offset, end);
    }
}

#[test]
fn zero_padding_is_no_damage_even_between_members() {
    for pack in [gzip, zstd, xz] {
        let mut packed = pack(b"one ");
        packed.extend([0; 1024]);
        packed.extend(pack(b"two"));
        packed.extend([0; 200_000]);
        assert_eq!(read(packed).unwrap(), (b"one two".to_vec(), vec![]));
    }
}

#[test]
fn inner_and_outer_damage_are_both_told() {
    let inner = gzip(&text(50_000));
    let outer = gzip(&inner);
    let (kept, damage) = read(outer[..outer.len() - 100].to_vec()).unwrap();
    assert!(text(50_000).starts_with(&kept));
    let kinds: Vec<_> = damage.iter().map(|damage| damage.kind).collect();
    assert_eq!(kinds, [DamageKind::Truncated, DamageKind::Truncated]);
    // The outer one is noticed first; its output is the inner one's input.
    assert_eq!(damage[0].uncompressed_offset, damage[1].compressed_offset);
}

#[test]
fn nothing_decoded_is_an_error() {
    let error = read(gzip(b"content")[..9].to_vec()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "test: nothing could be decompressed: gzip truncated at compressed byte 9, uncompressed byte 0"
    );
}

#[test]
fn a_broken_zip_member_is_told_from_the_directory() {
    let content = text(20_000);
    let mut packed = zip(&[("a.json", &content)], ::zip::CompressionMethod::Deflated);
    let directory = packed
        .windows(4)
        .rposition(|window| window == b"PK\x01\x02")
        .unwrap();
    packed[directory + 16] ^= 1;
    let (kept, damage) = read(packed).unwrap();
    assert_eq!(kept, content);
    assert_eq!(damage.len(), 1);
    assert_eq!(damage[0].container, Container::Zip);
    assert_eq!(damage[0].kind, DamageKind::Checksum);
}

#[test]
fn a_zip_without_its_directory_is_an_error_with_a_remedy() {
    let packed = zip(&[("a", b"x")], ::zip::CompressionMethod::Stored);
    let error = read(packed[..packed.len() - 30].to_vec()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "test: broken zip archive: copy it again, or repair it with `zip -FF`"
    );
}

#[test]
fn a_tar_that_is_cut_off_keeps_the_beginning_of_its_last_member() {
    let content = text(9_000);
    let archive = tar(&[("a", b"whole"), ("b", &content)]);
    // Two headers and the first member's block of 512 bytes come before the second's data.
    let members: Vec<_> = byte_source::Members::from_bytes(
        "t.tar",
        archive[..512 * 3 + 1000].to_vec(),
        &byte_source::OpenOptions::default(),
    )
    .unwrap()
    .map(|member| crate::support::drain(member.unwrap()).unwrap())
    .collect();
    assert_eq!(members.len(), 2);
    assert_eq!(members[0], (b"whole".to_vec(), vec![]));
    assert_eq!(members[1].0, &content[..1000]);
    assert_eq!(members[1].1.len(), 1);
    assert_eq!(
        members[1].1[0].to_string(),
        "tar truncated at compressed byte 2536, uncompressed byte 1000"
    );
}
