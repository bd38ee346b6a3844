//! Builds containers with known content.

use std::io::{Read as _, Write as _};

use byte_source::{ChunkOptions, Damage, Error, Source};

/// Returns text that looks like a trace and never repeats.
pub(crate) fn text(bytes: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut out = Vec::with_capacity(bytes + 64);
    let mut event = 0;
    while out.len() < bytes {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        let (ts, stream) = (state >> 40, state >> 61);
        write!(
            out,
            "{{\"ph\":\"X\",\"ts\":{ts},\"id\":{event},\"tid\":{stream}}},"
        )
        .unwrap();
        event += 1;
    }
    out.truncate(bytes);
    out
}

pub(crate) fn gzip(content: &[u8]) -> Vec<u8> {
    let mut writer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    writer.write_all(content).unwrap();
    writer.finish().unwrap()
}

pub(crate) fn zstd(content: &[u8]) -> Vec<u8> {
    let mut writer = zstd::Encoder::new(Vec::new(), 1).unwrap();
    writer.include_checksum(true).unwrap();
    writer.write_all(content).unwrap();
    writer.finish().unwrap()
}

pub(crate) fn xz(content: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    liblzma::read::XzEncoder::new(content, 0)
        .read_to_end(&mut out)
        .unwrap();
    out
}

pub(crate) fn tar(members: &[(&str, &[u8])]) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    for (name, content) in members {
        let mut header = tar::Header::new_gnu();
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        builder.append_data(&mut header, name, *content).unwrap();
    }
    builder.into_inner().unwrap()
}

pub(crate) fn zip(members: &[(&str, &[u8])], method: zip::CompressionMethod) -> Vec<u8> {
    let mut writer = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    let options = zip::write::SimpleFileOptions::default().compression_method(method);
    for (name, content) in members {
        if name.ends_with('/') {
            writer.add_directory(*name, options).unwrap();
        } else {
            writer.start_file(*name, options).unwrap();
            writer.write_all(content).unwrap();
        }
    }
    writer.finish().unwrap().into_inner()
}

/// Returns all bytes of a source, read in chunks, and its damage.
pub(crate) fn drain(source: Source) -> Result<(Vec<u8>, Vec<Damage>), Error> {
    drain_by(source, ChunkOptions::default().size)
}

pub(crate) fn drain_by(source: Source, size: usize) -> Result<(Vec<u8>, Vec<Damage>), Error> {
    let mut options = ChunkOptions::default();
    options.size = size;
    let mut chunks = source.into_chunks(options)?;
    let mut all = Vec::new();
    while let Some(chunk) = chunks.next()? {
        assert_eq!(chunk.offset(), all.len() as u64);
        assert!(!chunk.is_empty());
        all.extend_from_slice(&chunk);
    }
    Ok((all, chunks.damage().records()))
}

/// Opens bytes and reads them to the end.
pub(crate) fn read(bytes: Vec<u8>) -> Result<(Vec<u8>, Vec<Damage>), Error> {
    drain(Source::from_bytes("test", bytes)?)
}
