//! Traces, region maps and KV life cycles as Parquet.

mod read;
mod write;

pub(crate) use read::ParquetRows;
pub use read::{ParquetInfo, check_parquet};
pub use write::{Compression, TraceWriter, write_kv_blocks, write_region_map};

#[cfg(test)]
mod tests {
    use byte_source::Source;

    use super::*;
    use crate::access::Access;
    use crate::names::{Name, Names};

    fn read_back(rows: &[Access], compression: Compression) -> (Vec<Access>, bool) {
        let mut names = Names::new();
        let mut writer = TraceWriter::new("t", Vec::new(), "native-1", compression);
        writer.write(rows, &names).unwrap();
        let source = Source::from_bytes("t.parquet", writer.finish().unwrap()).unwrap();
        let mut reader = ParquetRows::new(source).unwrap();
        let mut back = Vec::new();
        while reader.next_batch(&mut names, &mut back).unwrap() {}
        (back, reader.has_regions())
    }

    #[test]
    fn every_compression_is_read_back() {
        let rows: Vec<Access> = (0..3000).map(|at| Access::new(at, at << 9)).collect();
        for compression in [
            Compression::Zstd,
            Compression::Snappy,
            Compression::Gzip,
            Compression::None,
        ] {
            let (back, _) = read_back(&rows, compression);
            let of = |rows: &[Access]| {
                let key = |row: &Access| (row.timestamp_ns, row.address, row.address_page);
                rows.iter().map(key).collect::<Vec<_>>()
            };
            assert_eq!(of(&back), of(&rows), "{compression:?}");
        }
    }

    /// As other writers pack it.
    #[test]
    fn other_compressions_are_read_too() {
        use parquet::arrow::ArrowWriter;
        use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
        use parquet::basic::{BrotliLevel, Compression as Codec};
        use parquet::file::properties::WriterProperties;

        let rows: Vec<Access> = (0..3000).map(|at| Access::new(at, at << 9)).collect();
        let mut writer = TraceWriter::new("t", Vec::new(), "native-1", Compression::None);
        writer.write(&rows, &Names::new()).unwrap();
        let plain = bytes::Bytes::from(writer.finish().unwrap());
        for codec in [
            Codec::LZ4,
            Codec::LZ4_RAW,
            Codec::BROTLI(BrotliLevel::default()),
        ] {
            let reader = ParquetRecordBatchReaderBuilder::try_new(plain.clone()).unwrap();
            let properties = WriterProperties::builder().set_compression(codec).build();
            let schema = std::sync::Arc::clone(reader.schema());
            let mut packed = ArrowWriter::try_new(Vec::new(), schema, Some(properties)).unwrap();
            for batch in reader.build().unwrap() {
                packed.write(&batch.unwrap()).unwrap();
            }
            let packed = packed.into_inner().unwrap();
            assert!(packed.len() < plain.len(), "{codec:?}");
            let source = Source::from_bytes("t.parquet", packed).unwrap();
            let mut reader = ParquetRows::new(source).unwrap();
            let mut back = Vec::new();
            while reader.next_batch(&mut Names::new(), &mut back).unwrap() {}
            let of = |rows: &[Access]| -> Vec<(u64, u64)> {
                rows.iter()
                    .map(|row| (row.timestamp_ns, row.address))
                    .collect()
            };
            assert_eq!(of(&back), of(&rows), "{codec:?}");
        }
    }

    #[test]
    fn the_step_of_the_clock_is_remembered() {
        for step in [0, 10_000_000] {
            let writer = TraceWriter::new("t", Vec::new(), "native-1", Compression::Zstd);
            let mut writer = writer.clock_step(step);
            writer.write(&[Access::new(1, 2)], &Names::new()).unwrap();
            let source = Source::from_bytes("t.parquet", writer.finish().unwrap()).unwrap();
            assert_eq!(ParquetRows::new(source).unwrap().clock_step_ns(), step);
        }
    }

    #[test]
    fn one_region_makes_a_trace_labelled() {
        let mut rows = vec![Access::new(1, 2); 3];
        assert!(!read_back(&rows, Compression::Zstd).1);
        rows[1].region_id = 7;
        assert!(read_back(&rows, Compression::Zstd).1);
        rows[1].region_id = 0;
        rows[2].region_type = Name::KV_CACHE;
        assert!(read_back(&rows, Compression::Zstd).1);
    }
}
