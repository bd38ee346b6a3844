//! Dumps of PyTorch's Flight Recorder: which rank did not arrive at which collective.

use report::Table;
use torch_dumps::flight::{Job, tables};

use crate::comm::Listing;
use crate::{Document, Error, Form, Result};

/// Returns the document about the ranks of a job: groups, the last collective of each rank, collectives.
///
/// # Errors
///
/// Returns an error if dumps do not have the table that was asked for.
pub fn document(job: &Job, table: Option<Listing>, form: Form) -> Result<Document> {
    let make = |name: Listing| -> Result<Table> {
        Ok(match name {
            Listing::Groups => tables::groups(job)?,
            Listing::Ranks => tables::ranks(job)?,
            Listing::Kernels | Listing::Collectives => tables::calls(job)?,
            Listing::Types | Listing::Late | Listing::Host => {
                return Err(Error::NoTable {
                    available: "groups, ranks and collectives",
                });
            }
        })
    };
    let mut document = Document::new(tables::SCHEMA_VERSION);
    match (table, form) {
        (Some(one), _) => document.push(make(one)?),
        (None, Form::Text) => {}
        (None, _) => {
            for name in [Listing::Groups, Listing::Ranks, Listing::Collectives] {
                document.push(make(name)?);
            }
        }
    }
    document.sentence(job.sentence());
    for (label, text) in job.lines() {
        document.line(label, text);
    }
    match table {
        Some(one) => document.table("", make(one)?),
        None => {
            document.table("groups", tables::groups_narrow(job)?);
            let ranks = tables::ranks_narrow(job)?;
            if ranks.rows() > 0 {
                document.table("last collective of each rank", ranks);
            }
        }
    }
    Ok(document)
}
