//! Makes small exports, and looks at what was read of them.

use std::path::{Path, PathBuf};

use nsys_db::{Export, LoadOptions, load};
use rusqlite::Connection;
use trace_model::Trace;
use trace_model::correlation::CorrelationIndex;
use trace_model::kernel::{ActivityMap, DevicePlaces, Vocabulary};

pub(crate) const SECRET: &str = "PLANTED-SECRET";

/// Global id of a thread.
pub(crate) fn global(pid: i64, tid: i64) -> i64 {
    (1 << 48) | pid << 24 | tid
}

/// An export under construction.
pub(crate) struct Made {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) base: Connection,
    strings: i64,
}

impl Made {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let base = Connection::open(folder.path().join("a.sqlite")).unwrap();
        base.execute_batch("PRAGMA synchronous = OFF; PRAGMA journal_mode = MEMORY")
            .unwrap();
        base.execute_batch("CREATE TABLE StringIds (id INTEGER NOT NULL PRIMARY KEY, value TEXT)")
            .unwrap();
        let mut made = Self {
            folder,
            base,
            strings: 3_000_000,
        };
        // Nothing refers to the environment.
        made.string(&format!("HOME=/root\0HF_TOKEN={SECRET}\0"));
        made
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.folder.path().join("a.sqlite")
    }

    pub(crate) fn sql(&self, text: &str) -> &Self {
        self.base.execute_batch(text).unwrap();
        self
    }

    /// Ids are sparse, as in cut files.
    pub(crate) fn string(&mut self, text: &str) -> i64 {
        self.strings += 97;
        let row = (self.strings, text);
        self.base
            .execute("INSERT INTO StringIds VALUES (?1, ?2)", row)
            .unwrap();
        self.strings
    }

    pub(crate) fn kernels(&self) -> &Self {
        self.sql(
            "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, end INTEGER, -- end (of it), AS a VIRTUAL note\n
             deviceId INTEGER, contextId INTEGER, streamId INTEGER, correlationId INTEGER, globalPid INTEGER,
             demangledName INTEGER, shortName INTEGER, graphNodeId INTEGER)",
        )
    }

    pub(crate) fn kernel(
        &self,
        pid: i64,
        (start, end): (i64, i64),
        (device, stream): (i64, i64),
        id: i64,
        name: i64,
    ) -> &Self {
        let row = (start, end, device, stream, id, global(pid, 0), name);
        self.base
            .execute(
                "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL (start, end, deviceId, contextId, streamId, correlationId, globalPid, demangledName)
                 VALUES (?1, ?2, ?3, 1, ?4, ?5, ?6, ?7)",
                row,
            )
            .unwrap();
        self
    }

    pub(crate) fn calls(&self) -> &Self {
        self.sql(
            "CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER, end INTEGER, eventClass INTEGER, globalTid INTEGER,
             correlationId INTEGER, nameId INTEGER, returnValue INTEGER, callchainId INTEGER)",
        )
    }

    pub(crate) fn call(&self, pid: i64, (start, end): (i64, i64), id: i64, name: i64) -> &Self {
        let row = (start, end, global(pid, pid), id, name);
        self.base
            .execute(
                "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (?1, ?2, 0, ?3, ?4, ?5, 0, NULL)",
                row,
            )
            .unwrap();
        self
    }

    pub(crate) fn ranges(&self) -> &Self {
        self.sql(
            "CREATE TABLE NVTX_EVENTS (start INTEGER, end INTEGER, eventType INTEGER, text TEXT, globalTid INTEGER,
             textId INTEGER, domainId INTEGER, jsonText TEXT, binaryData BLOB)",
        )
    }

    pub(crate) fn range(
        &self,
        pid: i64,
        (start, end): (i64, Option<i64>),
        kind: i64,
        text: &str,
        domain: i64,
    ) -> &Self {
        let row = (start, end, kind, text, global(pid, pid), domain);
        self.base
            .execute(
                "INSERT INTO NVTX_EVENTS (start, end, eventType, text, globalTid, domainId) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
                row,
            )
            .unwrap();
        self
    }

    pub(crate) fn load(&self) -> Trace {
        read(&self.path())
    }
}

pub(crate) fn read(path: &Path) -> Trace {
    load(&Export::open(path).unwrap(), &LoadOptions::default()).unwrap()
}

/// Name of the launch of each GPU activity, in ascending time.
pub(crate) fn launches(trace: &Trace) -> Vec<Option<i64>> {
    let activities = ActivityMap::new(trace, &Vocabulary::default());
    let index = CorrelationIndex::new(trace, &activities);
    let work = activities.device_work().iter();
    work.map(|id| {
        let launch = index.launch_of(trace.slice(*id), &activities)?;
        Some(launch.ts().nanos())
    })
    .collect()
}

/// Device and stream of each GPU activity.
pub(crate) fn places(trace: &Trace) -> Vec<(i64, i64)> {
    let activities = ActivityMap::new(trace, &Vocabulary::default());
    let places = DevicePlaces::new(trace, std::iter::empty());
    let work = activities.device_work().iter().map(|id| trace.slice(*id));
    work.map(|s| (places.device(s).unwrap(), places.stream(s).unwrap()))
        .collect()
}

pub(crate) fn has(trace: &Trace, code: &str) -> Option<u64> {
    trace.meta().limit(code).map(|limit| limit.count)
}

/// Returns the limit of a code.
pub(crate) fn limit<'t>(trace: &'t Trace, code: &str) -> &'t trace_model::Limit {
    trace.meta().limit(code).unwrap()
}
