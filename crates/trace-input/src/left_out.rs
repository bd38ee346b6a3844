//! Recordings in a folder that are not read, with a recommendation.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use byte_source::logical_name;

/// A kind of recording that is not read.
struct Kind {
    /// Suffixes of the names, without compression suffix.
    ends: &'static [&'static str],
    /// Name of the kind, in the plural.
    what: &'static str,
    /// Recommended action.
    remedy: &'static str,
}

const KINDS: [Kind; 9] = [
    Kind {
        ends: &[".nsys-rep", ".qdrep", ".qdstrm"],
        what: "reports of Nsight Systems",
        remedy: "the format is closed: `nsys export --type sqlite --include-blobs true FILE` writes a .sqlite file that is read",
    },
    Kind {
        ends: &[".sqlite", ".sqlite3"],
        what: "SQLite files without a recording",
        remedy: "they have the tables of neither Nsight Systems nor rocPD",
    },
    Kind {
        ends: &[".h5", ".hdf5"],
        what: "HDF5 files, as Nsight Systems exports",
        remedy: "export the report as SQLite: `nsys export --type sqlite --include-blobs true REPORT.nsys-rep`",
    },
    Kind {
        ends: &[".ncu-rep", ".nsight-cuprof-report"],
        what: "reports of Nsight Compute",
        remedy: "they hold counters of single kernels and no course of time",
    },
    Kind {
        ends: &[".pickle", ".pkl"],
        what: "Python pickles",
        remedy: "`trace-info memory` reads memory snapshots of PyTorch, `trace-info comm` Flight Recorder dumps",
    },
    Kind {
        ends: &[".rpd"],
        what: "databases of rocmProfileData",
        remedy: "convert them with rpd2tracing.py",
    },
    Kind {
        ends: &[".otf2"],
        what: "OTF2 archives",
        remedy: "record as Perfetto or rocPD: rocprofv3 --output-format pftrace rocpd",
    },
    Kind {
        ends: &[".ipynb"],
        what: "Jupyter notebooks",
        remedy: "give the trace that the notebook wrote or reads",
    },
    Kind {
        ends: &[".speedscope", ".prof", ".pstats", ".perf", "perf.data"],
        what: "profiles of the host",
        remedy: "they hold samples of the host and no GPU activity",
    },
];

/// Recordings that were left out, by kind.
#[derive(Debug, Default)]
pub(crate) struct LeftOut(BTreeMap<usize, Vec<PathBuf>>);

impl LeftOut {
    /// Records a file of a folder whose name is not that of a trace.
    pub(crate) fn add(&mut self, path: &Path) {
        let Some(name) = path.file_name().and_then(|name| name.to_str()) else {
            return;
        };
        let name = logical_name(name).to_ascii_lowercase();
        let is_of = |kind: &Kind| kind.ends.iter().any(|end| name.ends_with(end));
        if let Some(kind) = KINDS.iter().position(is_of) {
            self.0.entry(kind).or_default().push(path.to_owned());
        }
    }

    /// Returns a sentence for each kind.
    pub(crate) fn sentences(&self) -> Vec<String> {
        let sentence = |(kind, files): (&usize, &Vec<PathBuf>)| {
            let kind = KINDS.get(*kind)?;
            let first = files.first()?.display();
            let more = if files.len() > 1 { ", ..." } else { "" };
            let (count, what, remedy) = (files.len(), kind.what, kind.remedy);
            Some(format!(
                "left out {count} of the files, {what}: {first}{more}; {remedy}"
            ))
        };
        self.0.iter().filter_map(sentence).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recordings_are_counted_by_kind() {
        let mut left = LeftOut::default();
        for name in [
            "a.nsys-rep",
            "b.NSYS-REP",
            "a.sqlite",
            "snap.pickle.gz",
            "readme.md",
        ] {
            left.add(Path::new(name));
        }
        let all = left.sentences();
        assert_eq!(all.len(), 3, "{all:?}");
        assert!(
            all[0].starts_with(
                "left out 2 of the files, reports of Nsight Systems: a.nsys-rep, ...;"
            )
        );
        assert!(all[0].contains("nsys export --type sqlite"));
        assert!(all[2].contains("snap.pickle.gz;"), "{all:?}");
    }
}
