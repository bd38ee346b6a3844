//! Arguments of calls by event.

use std::cell::RefCell;
use std::path::Path;

use rocpd_db::{Arg, Filter, Lookup, Order, Region, RocpdSet, domain_of};
use spill_sort::{Item, word};

use super::by_event::{Builder, ByEvent, Key, MEMORY_BYTES, OfEvent, small, sorter};
use super::{Options, Shown};
use crate::Result;

/// Location of an argument of an event.
#[derive(Debug, Clone, Copy)]
struct Stored {
    key: Key,
    row: i64,
}

impl Item for Stored {
    const BYTES: usize = 24;

    fn put(&self, out: &mut Vec<u8>) {
        let (partition, event) = self.key;
        out.extend_from_slice(&u64::from(partition).to_le_bytes());
        out.extend_from_slice(&event.to_le_bytes());
        out.extend_from_slice(&self.row.to_le_bytes());
    }

    fn get(bytes: &[u8]) -> Self {
        let partition = u32::try_from(word(bytes, 0)).unwrap_or(u32::MAX);
        Self {
            key: (partition, word(bytes, 8).cast_signed()),
            row: word(bytes, 16).cast_signed(),
        }
    }
}

impl OfEvent for Stored {
    fn key(&self) -> Key {
        self.key
    }
}

/// Arguments of calls: keys in the form of annotations, and values.
pub(super) type CallArgs = Vec<(String, String)>;

/// Finds the arguments of calls. Only their locations are kept; texts are read when needed.
pub(super) struct ArgTable<'a> {
    /// `true` if the arguments of all calls are written.
    all: bool,
    /// `true` if the arguments of kernel driver events are written.
    kfd: bool,
    places: ByEvent<Stored>,
    rows: RefCell<Lookup<'a, Arg>>,
}

impl<'a> ArgTable<'a> {
    /// Reads the locations of arguments, if any are written; `folder` stores them if they are many.
    pub(super) fn read(set: &'a RocpdSet, options: &Options, folder: &Path) -> Result<Self> {
        let all = options.call_args;
        let by_default = options.shown == Shown::All;
        let kfd = options.kfd_args && (all || (by_default && set.has_domain("KFD")?));
        let mut builder = Builder::new(folder, MEMORY_BYTES);
        if all || kfd {
            let mut sorter = sorter::<Stored>(folder);
            let filter = Filter::default();
            for arg in set.scan::<Arg>(&filter, Order::Stored)? {
                let arg = arg?;
                sorter.push(Stored {
                    key: (small(arg.partition), arg.event_id),
                    row: arg.id,
                })?;
            }
            let mut sorted = sorter.finish()?;
            while let Some(place) = sorted.next_item()? {
                builder.add(place)?;
            }
        }
        Ok(Self {
            all,
            kfd,
            places: builder.finish()?,
            rows: RefCell::new(set.lookup()?),
        })
    }

    /// Returns `true` if the slice of a call shows its arguments.
    fn wants(&self, category: Option<&str>) -> bool {
        match is_kfd(category) {
            true => self.kfd,
            false => self.all,
        }
    }

    /// Stores the arguments of a call in `found`, by position, if they are written.
    pub(super) fn find(&self, call: &Region<'_>, found: &mut CallArgs) -> Result<()> {
        found.clear();
        let (Some(event), true) = (call.event, self.wants(call.category())) else {
            return Ok(());
        };
        let mut places = Vec::new();
        let key = (small(call.process.partition), event.id);
        self.places.find(key, |place| places.push(place.row))?;
        let mut own: Vec<Arg> = Vec::with_capacity(places.len());
        for row in places {
            own.extend(self.rows.borrow_mut().get(call.process.partition, row)?);
        }
        own.sort_by_key(|arg| arg.position);
        found.extend(own.into_iter().map(|arg| {
            let name = match arg.name.as_str() {
                "" => arg.position.to_string(),
                name => name.to_owned(),
            };
            (format!("args.{name}"), arg.value.unwrap_or_default())
        }));
        Ok(())
    }
}

/// Returns `true` if a call is a kernel driver event.
pub(super) fn is_kfd(category: Option<&str>) -> bool {
    domain_of(category).eq_ignore_ascii_case("KFD")
}
