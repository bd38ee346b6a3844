//! Single records by row id.

use std::sync::LazyLock;

use crate::error::Result;
use crate::filter::Filter;
use crate::records::{Context, Record, WIDTH, pick_of};
use crate::set::RocpdSet;
use crate::value::Fields;
use sqlite_scan::Pick;

/// No condition.
static EVERYTHING: LazyLock<Filter> = LazyLock::new(Filter::default);

/// Reads single records of one kind by row id, with the pages it used last at hand.
#[derive(Debug)]
pub struct Lookup<'a, R> {
    /// By partition; nothing where there is no such table.
    tables: Vec<Option<Table<'a>>>,
    kind: std::marker::PhantomData<R>,
}

#[derive(Debug)]
struct Table<'a> {
    rows: sqlite_scan::Lookup<'a>,
    pick: Pick<WIDTH>,
    context: Context<'a>,
}

impl RocpdSet {
    /// Reads single records of one kind by row id.
    ///
    /// ```
    /// use rocpd_db::{Arg, Filter, OpenOptions, Order, RocpdSet};
    ///
    /// # let folder = tempfile::tempdir()?;
    /// # rocpd_synth::generate(folder.path(), &rocpd_synth::Shape::small())?;
    /// let set = RocpdSet::open(&[folder.path()], &OpenOptions::default())?;
    /// let filter = Filter::default();
    /// let mut lookup = set.lookup::<Arg>()?;
    /// let arg = set.scan::<Arg>(&filter, Order::Stored)?.next().unwrap()?;
    /// assert_eq!(lookup.get(0, arg.id)?.unwrap().value, arg.value);
    /// assert!(lookup.get(0, -1)?.is_none());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// When a table cannot be found in its file.
    pub fn lookup<'a, R: Record<'a>>(&'a self) -> Result<Lookup<'a, R>> {
        let open = |partition: &'a crate::Partition| -> Result<Option<Table<'a>>> {
            let Some(table) = partition.table(R::TABLE) else {
                return Ok(None);
            };
            Ok(Some(Table {
                rows: table.lookup(partition)?,
                pick: pick_of::<R>(table),
                context: Context::new(partition, &EVERYTHING)?,
            }))
        };
        let tables: Result<_> = self.partitions().iter().map(open).collect();
        Ok(Lookup {
            tables: tables?,
            kind: std::marker::PhantomData,
        })
    }
}

impl<'a, R: Record<'a>> Lookup<'a, R> {
    /// The record with a row id in a partition; `None` if there is none or it cannot be read.
    ///
    /// # Errors
    ///
    /// When the file is damaged.
    pub fn get(&mut self, partition: usize, rowid: i64) -> Result<Option<R>> {
        let Some(Some(table)) = self.tables.get_mut(partition) else {
            return Ok(None);
        };
        let Some(row) = table.rows.get(rowid, &table.pick)? else {
            return Ok(None);
        };
        let record = R::read(&mut table.context, rowid, Fields(&row))?;
        Ok(record.ok().flatten())
    }
}
