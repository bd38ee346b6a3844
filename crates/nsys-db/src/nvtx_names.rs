//! Names of domains, categories and threads, which ranges refer to.

use std::collections::{BTreeMap, BTreeSet};

use rustc_hash::{FxHashMap, FxHashSet};
use sqlite_scan::Value;

use crate::error::Result;
use crate::ids::ProcessKey;
use crate::load::Loader;
use crate::naming::without_folders;
use crate::nvtx::{Kind, TABLE};
use crate::pass::operators::{Found, Wanted};
use crate::strings::text;

/// A domain: those of two processes are different ones.
pub(crate) type DomainKey = (ProcessKey, i64);

/// Names that rows give, and the domains of communication libraries.
#[derive(Default)]
pub(crate) struct Names {
    pub(crate) domains: FxHashMap<DomainKey, String>,
    pub(crate) categories: FxHashMap<(ProcessKey, i64, i64), String>,
    /// Domains whose ranges are those of NCCL or RCCL.
    pub(crate) libraries: FxHashSet<DomainKey>,
    /// `true` if a range of a thread has no end.
    pub(crate) has_open: bool,
}

impl Names {
    /// Returns the name of a domain as it is shown; empty for the domain of all that state none.
    pub(crate) fn shown(&self, process: ProcessKey, domain: i64) -> String {
        match (domain, self.domains.get(&(process, domain))) {
            (0, _) => String::new(),
            (_, Some(name)) => name.clone(),
            (_, None) => format!("domain {domain}"),
        }
    }
}

/// A row that gives a name.
struct Naming {
    event_type: i64,
    thread: i64,
    domain: i64,
    category: Option<i64>,
    text: Option<String>,
    text_id: Option<i64>,
}

/// What a part of the table gives.
#[derive(Default)]
struct NamesPart {
    namings: Vec<Naming>,
    /// Labels of the ranges of each domain, by id.
    labels: BTreeMap<DomainKey, FxHashSet<i64>>,
    used: BTreeSet<DomainKey>,
    /// Domains with a label that is not one of a library.
    others: FxHashSet<DomainKey>,
    has_open: bool,
    found: Found,
}

impl Loader<'_> {
    /// Reads the names that rows give, which are valid at any time, and finds the operators that are `wanted`. Cost: one pass over
    /// eight columns, parts of it on all threads.
    pub(crate) fn nvtx_names(&mut self, wanted: Option<&Wanted<'_>>) -> Result<(Names, Found)> {
        let columns = [
            "eventType",
            "text",
            "textId",
            "globalTid",
            "domainId",
            "category",
            "start",
            "end",
        ];
        let empty = &self.tally;
        let parts = self.export.scan_parts(
            TABLE,
            columns,
            self.options.threads,
            || Ok(NamesPart::default()),
            |part, row, values| {
                let [kind, label, label_id, thread, domain, category, start, end] = values;
                let shape = Kind::of(kind);
                part.has_open |= end == Value::Null && shape == Kind::PushPop;
                let Some(thread) = thread.as_int() else {
                    return Ok(());
                };
                let domain = domain.as_int().unwrap_or(0);
                if let Some(event_type @ (33 | 39 | 75 | 76)) = kind.as_int() {
                    part.namings.push(Naming {
                        event_type,
                        thread,
                        domain,
                        category: category.as_int(),
                        text: text(label),
                        text_id: label_id.as_int(),
                    });
                    return Ok(());
                }
                if !matches!(shape, Kind::PushPop | Kind::StartEnd) {
                    return Ok(());
                }
                if domain != 0 {
                    let key = (ProcessKey::of(thread), domain);
                    part.used.insert(key);
                    match label {
                        Value::Text(text) if is_library_label(text) => {}
                        Value::Text(_) => _ = part.others.insert(key),
                        _ => part
                            .labels
                            .entry(key)
                            .or_default()
                            .extend(label_id.as_int()),
                    }
                } else if let Some(wanted) = wanted
                    && shape == Kind::PushPop
                {
                    let times = || empty.fresh().within(TABLE, row, start, end);
                    wanted.look(&mut part.found, thread, (label, label_id), times);
                }
                Ok(())
            },
        )?;
        let mut names = Names::default();
        let mut all = NamesPart::default();
        for part in parts {
            names.has_open |= part.has_open;
            for naming in part.namings {
                self.add_naming(naming, &mut names)?;
            }
            for (key, labels) in part.labels {
                all.labels.entry(key).or_default().extend(labels);
            }
            all.used.extend(part.used);
            all.others.extend(part.others);
            all.found.absorb(part.found);
        }
        for key in all.used {
            let is_library = match names.domains.get(&key) {
                Some(name) => {
                    name.eq_ignore_ascii_case("nccl") || name.eq_ignore_ascii_case("rccl")
                }
                None => {
                    let mut is_one = !all.others.contains(&key);
                    for id in all.labels.get(&key).into_iter().flatten() {
                        let label = self.text_of(*id)?;
                        is_one &= label.is_some_and(|label| is_library_label(label.as_bytes()));
                    }
                    is_one
                }
            };
            if is_library {
                names.libraries.insert(key);
            }
        }
        Ok((names, all.found))
    }

    /// Adds the name that a row gives, unless an earlier one did.
    fn add_naming(&mut self, naming: Naming, names: &mut Names) -> Result<()> {
        let label = match (naming.text, naming.text_id) {
            (Some(label), _) => Some(label),
            (None, Some(id)) => self.text_of(id)?,
            (None, None) => None,
        };
        let Some(label) = label.filter(|label| !label.is_empty()) else {
            return Ok(());
        };
        let (process, domain) = (ProcessKey::of(naming.thread), naming.domain);
        match naming.event_type {
            33 => {
                if let Some(category) = naming.category {
                    let key = (process, domain, category);
                    names.categories.entry(key).or_insert(label);
                }
            }
            39 => {
                let name = self.builder.string(&without_folders(&label));
                self.thread_names.entry(naming.thread).or_insert(name);
            }
            _ => {
                names.domains.entry((process, domain)).or_insert(label);
            }
        }
        Ok(())
    }
}

fn is_library_label(label: &[u8]) -> bool {
    label.starts_with(b"nccl") || label.starts_with(b"rccl")
}
