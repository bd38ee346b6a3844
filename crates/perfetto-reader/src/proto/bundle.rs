//! Expands bundles of compressed packets: a zlib stream or a zstd frame inside a packet.

use std::io::Read;

use crate::proto::frame::{BadFrame, Framer};

/// Bytes decompressed at a time.
const BLOCK: usize = 256 << 10;
/// Maximum expansion per compressed byte; applies above [`GRACE`].
const MAX_RATIO: u64 = 2000;
/// Expanded size that is always accepted, in bytes.
const GRACE: u64 = 16 << 20;
/// Maximum window of a zstd frame, as a power of two.
const MAX_WINDOW_LOG: u32 = 27;

/// Compression of a bundle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Codec {
    Zlib,
    Zstd,
}

/// Remaining expanded bytes of a bundle; nested bundles draw on the same budget.
#[derive(Debug)]
pub(crate) struct Budget {
    left: u64,
}

impl Budget {
    /// Returns the budget of a bundle of `compressed` bytes.
    pub(crate) fn new(compressed: usize, max_bytes: u64) -> Self {
        let by_ratio = (compressed as u64).saturating_mul(MAX_RATIO).max(GRACE);
        Self {
            left: by_ratio.min(max_bytes),
        }
    }
}

/// Reason why a bundle was not read to its end. The packets before were delivered.
#[derive(Debug)]
pub(crate) enum BundleError<E> {
    /// The stream or its contents are broken or too large.
    Broken(&'static str),
    /// The receiver of the packets failed.
    Sink(E),
}

impl<E> From<BadFrame> for BundleError<E> {
    fn from(bad: BadFrame) -> Self {
        Self::Broken(bad.what)
    }
}

/// Expands `compressed` and passes the packets inside to `sink`.
pub(crate) fn expand<E>(
    codec: Codec,
    compressed: &[u8],
    budget: &mut Budget,
    mut sink: impl FnMut(&[u8], &mut Budget) -> Result<(), E>,
) -> Result<(), BundleError<E>> {
    let mut reader: Box<dyn Read + '_> = match codec {
        Codec::Zlib => Box::new(flate2::bufread::ZlibDecoder::new(compressed)),
        Codec::Zstd => Box::new(
            zstd_reader(compressed)
                .ok_or(BundleError::Broken("the zstd frame cannot be opened"))?,
        ),
    };
    let mut framer = Framer::of_bundle();
    let mut block = vec![0_u8; BLOCK.min(compressed.len().saturating_mul(64).max(512))];
    loop {
        let count = match reader.read(&mut block) {
            Ok(0) => break,
            Ok(count) => count,
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => continue,
            Err(_) => return Err(BundleError::Broken("the compressed stream is damaged")),
        };
        budget.left = budget
            .left
            .checked_sub(count as u64)
            .ok_or(BundleError::Broken("the bundle expands beyond its limit"))?;
        let part = block.get(..count).unwrap_or_default();
        framer.push(part, |packet, _| {
            sink(packet, budget).map_err(BundleError::Sink)
        })?;
    }
    match framer.tail() {
        None => Ok(()),
        Some(_) => Err(BundleError::Broken("the bundle ends inside a packet")),
    }
}

fn zstd_reader(compressed: &[u8]) -> Option<impl Read + '_> {
    let mut decoder = zstd::stream::read::Decoder::with_buffer(compressed).ok()?;
    decoder.window_log_max(MAX_WINDOW_LOG).ok()?;
    Some(decoder.single_frame())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    pub(crate) fn zlib(plain: &[u8]) -> Vec<u8> {
        let mut out = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::best());
        out.write_all(plain).unwrap();
        out.finish().unwrap()
    }

    fn count(codec: Codec, bytes: &[u8], max: u64) -> (u64, Option<&'static str>) {
        let mut packets = 0;
        let mut budget = Budget::new(bytes.len(), max);
        let result = expand(codec, bytes, &mut budget, |_, _| {
            packets += 1;
            Ok::<(), ()>(())
        });
        let what = match result {
            Ok(()) => None,
            Err(BundleError::Broken(what)) => Some(what),
            Err(BundleError::Sink(())) => unreachable!(),
        };
        (packets, what)
    }

    #[test]
    fn both_codecs_expand() {
        let plain = [0x0a, 2, 0x50, 1].repeat(1000);
        assert_eq!(count(Codec::Zlib, &zlib(&plain), 1 << 30), (1000, None));
        let framed = zstd::bulk::compress(&plain, 3).unwrap();
        assert_eq!(count(Codec::Zstd, &framed, 1 << 30), (1000, None));
    }

    #[test]
    fn damage_keeps_the_packets_before_and_says_so() {
        let plain = [0x0a, 2, 0x50, 1].repeat(100_000);
        let mut cut = zlib(&plain);
        cut.truncate(cut.len() / 2);
        let (packets, what) = count(Codec::Zlib, &cut, 1 << 30);
        assert!(packets > 1000, "{packets}");
        assert_eq!(what, Some("the compressed stream is damaged"));
        let (packets, what) = count(Codec::Zlib, &zlib(&[0x0a, 1, 0, 0x12, 0]), 1 << 30);
        assert_eq!((packets, what.is_some()), (1, true));
        let (packets, what) = count(Codec::Zlib, &zlib(&[0x0a, 9, 0]), 1 << 30);
        assert_eq!(
            (packets, what),
            (0, Some("the bundle ends inside a packet"))
        );
    }

    #[test]
    fn bombs_stop_at_the_limit() {
        let bomb = zlib(&vec![0; 40 << 20]);
        let limit = Some("the bundle expands beyond its limit");
        // A run of zeros is not a packet: the frame stops it immediately.
        assert_eq!(
            count(Codec::Zlib, &bomb, 1 << 30).1,
            Some("something else than packets in a bundle of compressed packets")
        );
        let empty_packets = [0x0a, 0x00].repeat(20 << 20);
        assert_eq!(
            count(Codec::Zlib, &zlib(&empty_packets), 1 << 20),
            (0, limit)
        );
        let bomb = zstd::bulk::compress(&empty_packets, 19).unwrap();
        assert_eq!(count(Codec::Zstd, &bomb, 1 << 30), (0, limit));
    }
}
