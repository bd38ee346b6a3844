//! The client of a bucket or server.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use base64::Engine as _;
use byte_source::Error;
use byte_source::remote::Secret;
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::azure::MicrosoftAzureBuilder;
use object_store::client::SpawnedReqwestConnector;
use object_store::gcp::GoogleCloudStorageBuilder;
use object_store::http::HttpBuilder;
use object_store::{
    BackoffConfig, ClientConfigKey, ClientOptions, HeaderMap, HeaderValue, ObjectStore, RetryConfig,
};
use url::Url;

use crate::address::{Address, Kind};
use crate::explain::{explain, plain_http};
use crate::runtime::handle;

/// Repetitions of a request before the server has answered once.
const FIRST_RETRIES: usize = 2;

/// Repetitions of a request later.
const RETRIES: usize = 8;

/// Time for a request, which is at most a part; a server that sends nothing is given up earlier.
const TIMEOUT: Duration = Duration::from_secs(300);

/// A bucket or server.
#[derive(Debug)]
pub(crate) struct Bucket {
    /// For the time before the server has answered: gives up soon.
    first: Arc<dyn ObjectStore>,
    patient: Arc<dyn ObjectStore>,
    has_answered: AtomicBool,
}

impl Bucket {
    pub(crate) fn store(&self) -> Arc<dyn ObjectStore> {
        match self.has_answered() {
            true => Arc::clone(&self.patient),
            false => Arc::clone(&self.first),
        }
    }

    pub(crate) fn has_answered(&self) -> bool {
        self.has_answered.load(Ordering::Relaxed)
    }

    pub(crate) fn answered(&self) {
        self.has_answered.store(true, Ordering::Relaxed);
    }

    fn new(address: &Address, secret: &Secret) -> object_store::Result<Self> {
        Ok(Self {
            first: build(address, secret, FIRST_RETRIES)?,
            patient: build(address, secret, RETRIES)?,
            has_answered: AtomicBool::new(false),
        })
    }
}

/// Buckets by URL, with the credentials of that URL.
static BUCKETS: Mutex<Vec<(String, Secret, Arc<Bucket>)>> = Mutex::new(Vec::new());

/// Returns the bucket of a URL that messages call `name`; one that was used before is the same.
///
/// # Errors
///
/// Returns an error if the environment lacks something that is needed for it.
pub(crate) fn bucket_of(name: &str, address: &Address) -> Result<Arc<Bucket>, Error> {
    let secret = byte_source::remote::secret(name).unwrap_or_default();
    if address.kind != Kind::Web && secret != Secret::default() {
        return Err(Error::Remote {
            name: name.to_owned(),
            text: "credentials in the URL are not used: set them in the environment (docs/guide/fleet.md)".to_owned(),
        });
    }
    if address.kind == Kind::S3
        && let Some(text) = plain_http()
    {
        return Err(Error::Remote {
            name: name.to_owned(),
            text,
        });
    }
    let mut known = BUCKETS.lock().unwrap_or_else(PoisonError::into_inner);
    let own = known
        .iter()
        .find(|(base, own, _)| *base == address.base && *own == secret);
    if let Some((_, _, bucket)) = own {
        return Ok(Arc::clone(bucket));
    }
    let built = Bucket::new(address, &secret).map_err(|error| explain(name, &error))?;
    let bucket = Arc::new(built);
    known.push((address.base.clone(), secret, Arc::clone(&bucket)));
    Ok(bucket)
}

/// Forgets the clients, so that a changed environment has an effect.
pub(crate) fn forget() {
    BUCKETS
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .clear();
}

fn build(
    address: &Address,
    secret: &Secret,
    retries: usize,
) -> object_store::Result<Arc<dyn ObjectStore>> {
    let handle = handle().map_err(|source| object_store::Error::Generic {
        store: "runtime",
        source: Box::new(source),
    })?;
    let connector = SpawnedReqwestConnector::new(handle.clone());
    let retry = RetryConfig {
        max_retries: retries,
        backoff: BackoffConfig::default(),
        ..RetryConfig::default()
    };
    // What the environment states wins.
    let timeout = |variable: &str| {
        let is_set = retries == FIRST_RETRIES || std::env::var_os(variable).is_some();
        (!is_set).then(|| format!("{} seconds", TIMEOUT.as_secs()))
    };
    Ok(match address.kind {
        Kind::S3 => {
            let mut builder = AmazonS3Builder::from_env().with_bucket_name(address.bucket());
            if let Some(timeout) = timeout("AWS_TIMEOUT") {
                let key = AmazonS3ConfigKey::Client(ClientConfigKey::Timeout);
                builder = builder.with_config(key, timeout);
            }
            let builder = builder.with_retry(retry).with_http_connector(connector);
            Arc::new(builder.build()?)
        }
        Kind::Google => {
            let builder = GoogleCloudStorageBuilder::from_env()
                .with_bucket_name(address.bucket())
                .with_retry(retry)
                .with_http_connector(connector);
            Arc::new(builder.build()?)
        }
        Kind::Azure => {
            let builder = MicrosoftAzureBuilder::from_env()
                .with_url(&address.base)
                .with_retry(retry)
                .with_http_connector(connector);
            Arc::new(builder.build()?)
        }
        Kind::Web => {
            let mut options = ClientOptions::new().with_allow_http(true);
            if let Some(timeout) = timeout("") {
                options = options.with_config(ClientConfigKey::Timeout, timeout);
            }
            if let Some(value) = secret.user.as_deref().and_then(basic) {
                let mut headers = HeaderMap::new();
                headers.insert("authorization", value);
                options = options.with_default_headers(headers);
            }
            let query = secret.query.as_deref().unwrap_or_default();
            let query = query.split('#').next().unwrap_or_default();
            let url = match query.is_empty() {
                true => address.base.clone(),
                false => format!("{}/?{query}", address.base),
            };
            let builder = HttpBuilder::new()
                .with_url(url)
                .with_client_options(options)
                .with_retry(retry)
                .with_http_connector(connector);
            Arc::new(builder.build()?)
        }
    })
}

/// Returns the header for a user and password as a URL has them.
fn basic(user: &str) -> Option<HeaderValue> {
    let (user, password) = user.split_once(':').unwrap_or((user, ""));
    let mut bytes: Vec<u8> = percent_encoding::percent_decode_str(user).collect();
    bytes.push(b':');
    bytes.extend(percent_encoding::percent_decode_str(password));
    let text = base64::engine::general_purpose::STANDARD.encode(bytes);
    let mut value = HeaderValue::from_str(&format!("Basic {text}")).ok()?;
    value.set_sensitive(true);
    Some(value)
}

/// Returns what an engine needs to read a folder of objects by itself: the URL of the bucket, and the bucket.
///
/// # Errors
///
/// Returns an error if the URL names no bucket, or the environment lacks something that is needed for it.
pub fn data_store(url: &str) -> Result<(Url, Arc<dyn ObjectStore>), Error> {
    let address = Address::parse(url)?;
    let bucket = bucket_of(url, &address)?;
    let base = Url::parse(&address.base).map_err(|error| Error::Remote {
        name: url.to_owned(),
        text: format!("no URL: {error}"),
    })?;
    Ok((base, Arc::clone(&bucket.patient)))
}

/// Settings of the environment, for error messages: which are set, never their values.
pub(crate) fn has_any(variables: &[&str]) -> bool {
    let is_set = |name: &&str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    variables.iter().any(is_set)
}
