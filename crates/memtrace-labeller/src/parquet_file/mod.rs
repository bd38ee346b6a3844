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
