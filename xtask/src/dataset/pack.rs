//! Compression whose output depends only on the input: a fixed pure Rust encoder, no time stamp, no
//! name.

use miniz_oxide::deflate::{compress_to_vec, compress_to_vec_zlib};

/// Returns one gzip member (RFC 1952) with modification time 0 and no file name.
pub(crate) fn gzip(data: &[u8]) -> Vec<u8> {
    let mut out = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255];
    out.extend(compress_to_vec(data, 9));
    out.extend(crc32(data).to_le_bytes());
    // RFC 1952: the length modulo 2^32.
    let length = u64::try_from(data.len()).unwrap_or(u64::MAX) & 0xffff_ffff;
    out.extend(&length.to_le_bytes()[..4]);
    out
}

/// Returns a zlib stream (RFC 1950), as in `TracePacket.compressed_packets`.
pub(crate) fn zlib(data: &[u8]) -> Vec<u8> {
    compress_to_vec_zlib(data, 9)
}

fn crc32(data: &[u8]) -> u32 {
    let mut crc = u32::MAX;
    for &byte in data {
        crc ^= u32::from(byte);
        for _ in 0..8 {
            crc = (crc >> 1) ^ (0xedb8_8320 & (crc & 1).wrapping_neg());
        }
    }
    !crc
}

#[cfg(test)]
mod tests {
    use super::{crc32, gzip};
    use std::io::Read as _;

    #[test]
    fn the_checksum_is_that_of_the_standard() {
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
    }

    #[test]
    fn another_decoder_reads_it_back() {
        let data = b"launch ".repeat(1000);
        let mut back = Vec::new();
        flate2::read::GzDecoder::new(gzip(&data).as_slice())
            .read_to_end(&mut back)
            .expect("valid gzip");
        assert_eq!(back, data);
    }
}
