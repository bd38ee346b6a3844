//! Scrapes and webhooks.

use std::sync::LazyLock;
use std::time::Duration;

use ureq::Agent;

use crate::Error;

/// How long a server may take to answer.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum number of bytes of an answer.
const LIMIT: u64 = 64 << 20;

/// Returns `true` if a name is an address to ask.
#[must_use]
pub fn is_address(name: &str) -> bool {
    name.starts_with("http://") || name.starts_with("https://")
}

static AGENT: LazyLock<Agent> = LazyLock::new(|| {
    let config = Agent::config_builder().timeout_global(Some(TIMEOUT));
    #[cfg(feature = "tls")]
    let config = config.tls_config(tls());
    config.build().into()
});

/// The certificates of the machine, since metrics are often behind an authority of one's own; without any, those of Mozilla.
#[cfg(feature = "tls")]
fn tls() -> ureq::tls::TlsConfig {
    use ureq::tls::{Certificate, RootCerts, TlsConfig};
    let own = rustls_native_certs::load_native_certs().certs;
    let roots: Vec<Certificate<'static>> = own
        .iter()
        .map(|found| Certificate::from_der(found).to_owned())
        .collect();
    let roots = match roots.is_empty() {
        true => RootCerts::WebPki,
        false => RootCerts::new_with_certs(&roots),
    };
    TlsConfig::builder().root_certs(roots).build()
}

fn check(address: &str) -> Result<(), Error> {
    if cfg!(feature = "tls") || !address.starts_with("https://") {
        return Ok(());
    }
    Err(Error::NoTls {
        address: address.to_owned(),
    })
}

fn failed(address: &str, source: ureq::Error) -> Error {
    Error::Server {
        address: address.to_owned(),
        source: Box::new(source),
    }
}

/// Returns the body of an answer.
pub(crate) fn get(address: &str) -> Result<String, Error> {
    check(address)?;
    let ask = || {
        let mut answer = AGENT.get(address).call()?;
        answer
            .body_mut()
            .with_config()
            .limit(LIMIT)
            .read_to_string()
    };
    ask().map_err(|error| failed(address, error))
}

/// Sends a JSON document.
///
/// # Errors
///
/// [`Error::Server`] if there is no answer, or one with a status other than 2xx; [`Error::NoTls`].
pub fn post(address: &str, body: &str) -> Result<(), Error> {
    check(address)?;
    let send = AGENT.post(address).content_type("application/json");
    send.send(body)
        .map(|_| ())
        .map_err(|error| failed(address, error))
}
