//! Steps of a running server as they come, and alarms to another server.
//!
//! * [`Source`]: a table or log that grows, or the address of an engine's metrics; [`follow()`] asks several of them again and
//!   again;
//! * [`post()`]: sends a document to a webhook.
//!
//! What the lines and metrics mean is decided in `serving-logs`. Addresses with `https` need the feature `tls`, which trusts the
//! certificates of the machine.
//!
//! ```
//! use serving_watch::Source;
//!
//! let folder = std::env::temp_dir().join(format!("watch-{}", std::process::id()));
//! std::fs::create_dir_all(&folder)?;
//! let file = folder.join("steps.csv");
//! std::fs::write(&file, "start_ts,duration_us,batch_size\n1,100,4\n2,11")?;
//! let mut source = Source::of(&file)?;
//! // The last line has no end yet.
//! assert_eq!(source.poll()?.len(), 1);
//! # std::fs::remove_dir_all(&folder)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod follow;
mod http;

pub use follow::{Pace, Source, follow};
pub use http::{is_address, post};

/// Why a source cannot be asked, or a document not be sent.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file cannot be read.
    #[error("{path}: {source}")]
    File {
        /// The file.
        path: String,
        /// The reason.
        source: std::io::Error,
    },
    /// A server gives no answer.
    #[error("{address}: {source}")]
    Server {
        /// The address.
        address: String,
        /// The reason.
        source: Box<ureq::Error>,
    },
    /// An address with `https`, without the feature `tls`.
    #[error("{address}: this build has no TLS; use http, or a build with the feature `tls`")]
    NoTls {
        /// The address.
        address: String,
    },
    /// An answer without metrics of an engine.
    #[error(
        "{address}: no metrics of vLLM or SGLang there; give the address of the engine's /metrics"
    )]
    NoMetrics {
        /// The address.
        address: String,
    },
}
