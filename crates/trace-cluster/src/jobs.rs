//! Files of recordings that executors make.

use std::sync::Arc;

use trace_dataset::{Elsewhere, Order, Take, Trouble};
use trace_sql::remote::{self, Work, Workers};
use trace_sql::{Cluster, SqlError};

use crate::address::Address;
use crate::client::Client;

/// Has the executors of a cluster make the files of recordings, one task a recording. Several calls may run at once.
#[derive(Debug)]
pub struct Jobs {
    workers: Workers,
    name: &'static str,
    options: String,
}

impl Jobs {
    /// Creates the client's side of work that executors know as `name`; they get `options` with each recording. Nothing is sent yet.
    ///
    /// # Errors
    ///
    /// Returns an error if no thread can be started.
    pub fn new(address: &Address, name: &'static str, options: String) -> Result<Self, SqlError> {
        let client: Arc<dyn Cluster> = Arc::new(Client::new(address.clone()));
        Ok(Self {
            workers: Workers::new(client)?,
            name,
            options,
        })
    }
}

impl Elsewhere for Jobs {
    fn run(&self, orders: &[Order], take: &mut Take<'_>) -> Result<(), Trouble> {
        let trouble = |text: String, is_lost| Trouble { text, is_lost };
        let order = |order: &Order| {
            let recipe = serde_json::to_string(order);
            let recipe = recipe.map_err(|error| trouble(error.to_string(), false))?;
            let name = order.name.clone();
            Ok(remote::Order { name, recipe })
        };
        let work = Work {
            name: self.name.to_owned(),
            options: self.options.clone(),
            orders: orders.iter().map(order).collect::<Result<_, Trouble>>()?,
        };
        let done = self.workers.run(work, take);
        done.map_err(|lost| trouble(lost.error.to_string(), lost.is_done))
    }
}
