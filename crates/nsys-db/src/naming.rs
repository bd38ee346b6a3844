//! Names of processes and threads, without what they tell of users.

use rustc_hash::FxHashMap;
use trace_model::{LaneId, ProcessId, StrId};

use crate::error::Result;
use crate::ids::{ProcessKey, tid};
use crate::load::Loader;
use crate::strings::text;

impl Loader<'_> {
    /// Names processes and threads.
    pub(crate) fn names(&mut self) -> Result<()> {
        let export = self.export;
        let mut process_names: FxHashMap<ProcessKey, StrId> = FxHashMap::default();
        let mut by_pid: FxHashMap<i64, StrId> = FxHashMap::default();
        export.scan(
            "PROCESSES",
            ["globalPid", "pid", "name"],
            |_, [global, pid, name]| {
                let Some(name) = text(name).filter(|name| !name.is_empty()) else {
                    return Ok(());
                };
                let key = global.as_int().map(ProcessKey::of);
                let is_known = match key {
                    Some(key) => self.processes.contains_key(&key),
                    None => pid.as_int().is_some(),
                };
                if is_known {
                    // Paths of programs name users.
                    let base = name.rsplit(['/', '\\']).next().unwrap_or(&name);
                    let name = self.builder.string(base);
                    match (key, pid.as_int()) {
                        (Some(key), _) => _ = process_names.entry(key).or_insert(name),
                        (None, Some(pid)) => _ = by_pid.entry(pid).or_insert(name),
                        (None, None) => {}
                    }
                }
                Ok(())
            },
        )?;
        let mut names = std::mem::take(&mut self.thread_names);
        export.scan(
            "ThreadNames",
            ["globalTid", "nameId"],
            |_, [thread, name]| {
                if let Some(thread) = thread.as_int()
                    && self.threads.contains_key(&thread)
                    && let Some(name) = self.name(name)?
                {
                    // Some programs name threads after the path they run.
                    let (whole, base) = (self.str(name), without_folders(self.str(name)));
                    let name = match base == whole {
                        true => name,
                        false => self.builder.string(&base),
                    };
                    names.insert(thread, name);
                }
                Ok(())
            },
        )?;
        for (key, id) in &self.processes {
            let own = process_names.get(key).or_else(|| by_pid.get(&key.pid()));
            let main = (key.machine().checked_shl(48).unwrap_or(0)
                | key.pid().cast_unsigned() << 24
                | key.pid().cast_unsigned())
            .cast_signed();
            if let Some(row) = self.builder.processes_mut().get_mut(id.index()) {
                row.name = own.or_else(|| names.get(&main)).copied();
            }
        }
        let mut threads: Vec<(i64, LaneId)> = self.threads.iter().map(|(k, v)| (*k, *v)).collect();
        threads.sort_unstable_by_key(|(key, _)| *key);
        let mut by_thread: FxHashMap<(ProcessId, i64), StrId> = FxHashMap::default();
        for (global, _) in threads {
            if let (Some(name), Some(process)) = (
                names.get(&global),
                self.processes.get(&ProcessKey::of(global)),
            ) {
                by_thread.insert((*process, tid(global)), *name);
            }
        }
        for thread in self.builder.threads_mut() {
            if let Some(process) = thread.process {
                thread.name = by_thread.get(&(process, thread.tid.0)).copied();
            }
        }
        Ok(())
    }
}

/// Returns a name with each absolute path in it cut to its last part: folders name users. `kworker/0:1` is no path.
pub(crate) fn without_folders(name: &str) -> String {
    let base = |word: &str| {
        let bytes = word.as_bytes();
        let has_drive = bytes.get(1) == Some(&b':') && matches!(bytes.get(2), Some(b'\\' | b'/'));
        let is_path = word.starts_with(['/', '\\']) || word.starts_with("~/") || has_drive;
        let last = word.rsplit(['/', '\\']).find(|part| !part.is_empty());
        match is_path {
            true => last.unwrap_or("").to_owned(),
            false => word.to_owned(),
        }
    };
    name.split(' ').map(base).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::without_folders;

    #[test]
    fn paths_in_names_lose_their_folders() {
        for (name, want) in [
            ("/srv/user/venv/bin/python3", "python3"),
            (
                "python3 /srv/user/serve.py --port 1",
                "python3 serve.py --port 1",
            ),
            ("C:\\Users\\user\\app.exe", "app.exe"),
            ("~/bin/run", "run"),
            ("kworker/0:1", "kworker/0:1"),
            ("VLLM::Worker_TP0", "VLLM::Worker_TP0"),
        ] {
            assert_eq!(without_folders(name), want);
        }
    }
}
