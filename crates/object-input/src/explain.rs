//! Errors of requests as sentences.

use std::error::Error as StdError;
use std::io;

use byte_source::Error;
use object_store::client::{HttpError, HttpErrorKind};

use crate::address::{Address, Kind};
use crate::bucket::has_any;

/// What an S3 user must know to be let in.
const S3_KEYS: &str = "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY (of a profile: `eval \"$(aws configure export-credentials \
                       --format env)\"`), or AWS_SKIP_SIGNATURE=true for a public bucket";

/// What a folder of a web server is.
pub(crate) const NO_LISTING: &str =
    "a web server has no listing unless it answers WebDAV: name the files themselves";

/// An error of a request.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) error: Error,
    /// `true` if the server answered.
    pub(crate) is_answer: bool,
}

impl Failure {
    pub(crate) fn of(name: &str, error: &object_store::Error) -> Self {
        let is_missing = matches!(error, object_store::Error::NotFound { .. });
        Self {
            error: explain(name, error),
            is_answer: is_missing || Found::of(error).status.is_some(),
        }
    }
}

/// Returns one sentence for an error of a request for `name`: the reason and the remedy. The crate's own text is not used, because it
/// contains URLs with their queries.
#[must_use]
pub fn explain(name: &str, error: &object_store::Error) -> Error {
    let Ok(address) = Address::parse(name) else {
        return remote(name, last(error));
    };
    let found = Found::of(error);
    let is_missing = matches!(error, object_store::Error::NotFound { .. });
    if is_missing || found.status == Some(404) {
        return match is_bucket_missing(&found) {
            true => remote(name, no_bucket(&address)),
            false => Error::NoObject {
                name: name.to_owned(),
            },
        };
    }
    remote(name, text(&address, error, &found))
}

fn remote(name: &str, text: String) -> Error {
    Error::Remote {
        name: name.to_owned(),
        text,
    }
}

/// What the links of an error say.
#[derive(Default)]
pub(crate) struct Found {
    /// Status of the response.
    pub(crate) status: Option<u16>,
    /// Code in its XML.
    code: Option<String>,
    kind: Option<HttpErrorKind>,
    io: Option<io::ErrorKind>,
    /// All texts, for words in them only.
    all: String,
}

impl Found {
    pub(crate) fn of(error: &object_store::Error) -> Self {
        let mut found = Self::default();
        let mut next: Option<&(dyn StdError + 'static)> = Some(error);
        while let Some(link) = next {
            found.all.push_str(&link.to_string());
            found.all.push('\n');
            if let Some(http) = link.downcast_ref::<HttpError>() {
                found.kind = found.kind.or(Some(http.kind()));
            }
            if let Some(io) = link.downcast_ref::<io::Error>() {
                found.io = Some(io.kind());
            }
            next = link.source();
        }
        let after = found.all.split("status code: ").nth(1);
        let digits = after.and_then(|text| text.get(..3));
        found.status = digits.and_then(|digits| digits.parse().ok());
        let code = found.all.split_once("<Code>");
        let code = code.and_then(|(_, rest)| Some(rest.split_once("</Code>")?.0));
        let is_word = |code: &&str| {
            !code.is_empty() && code.len() < 64 && code.chars().all(|c| c.is_ascii_alphanumeric())
        };
        found.code = code.filter(is_word).map(str::to_owned);
        found
    }

    /// Returns `true` if the server gives no parts of an object.
    pub(crate) fn refuses_ranges(&self) -> bool {
        self.all.contains("Range request not supported")
            || self.all.contains("non-partial response")
    }

    /// Returns `true` if an object is shorter than the range that was asked for.
    pub(crate) fn is_beyond_end(&self) -> bool {
        self.status == Some(416)
    }

    fn has(&self, words: &[&str]) -> bool {
        words.iter().any(|word| self.all.contains(word))
    }

    /// Returns the status and the code of a response, as text.
    fn shown(&self) -> String {
        let status = self.status.map(|status| status.to_string());
        let words: Vec<String> = status.into_iter().chain(self.code.clone()).collect();
        match words.is_empty() {
            true => String::new(),
            false => format!(" ({})", words.join(" ")),
        }
    }
}

fn is_bucket_missing(found: &Found) -> bool {
    let code = found.code.as_deref().unwrap_or_default();
    ["NoSuchBucket", "ContainerNotFound"].contains(&code)
        || found.has(&["The specified bucket does not exist"])
}

fn no_bucket(address: &Address) -> String {
    let bucket = address.bucket();
    match address.kind {
        Kind::S3 => format!(
            "no bucket `{bucket}` at this endpoint: check its name, AWS_ENDPOINT_URL and AWS_REGION"
        ),
        Kind::Azure => {
            format!("no container `{bucket}`: check its name and AZURE_STORAGE_ACCOUNT_NAME")
        }
        _ => format!("no bucket `{bucket}`: check its name"),
    }
}

fn text(address: &Address, error: &object_store::Error, found: &Found) -> String {
    let shown = found.shown();
    let host = host(address);
    if found.has(&["Missing SecretAccessKey", "Missing AccessKeyId"]) {
        return "only one of AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY is set: set both"
            .to_owned();
    }
    if found.has(&["Account must be specified"]) {
        return "no account: set AZURE_STORAGE_ACCOUNT_NAME and a key, a SAS token or AZURE_CLIENT_ID".to_owned();
    }
    if lacks_credentials(address.kind) && found.has(&["169.254.", "metadata.google.internal"]) {
        return format!("no credentials: {}", keys(address.kind));
    }
    if found.has(&["scheme is not allowed"]) {
        return "the endpoint is plain http, which is refused: use https, or set AWS_ALLOW_HTTP=true (GOOGLE_, AZURE_) if it is meant"
            .to_owned();
    }
    if matches!(found.status, Some(401 | 403))
        || matches!(
            error,
            object_store::Error::PermissionDenied { .. }
                | object_store::Error::Unauthenticated { .. }
        )
    {
        return format!("access is refused{shown}: {}", keys(address.kind));
    }
    let is_other_region = [
        Some("PermanentRedirect"),
        Some("AuthorizationHeaderMalformed"),
        Some("IllegalLocationConstraintException"),
    ]
    .contains(&found.code.as_deref());
    if is_other_region || found.has(&["redirect without LOCATION"]) {
        return format!("the bucket is in another region{shown}: set AWS_REGION to it");
    }
    if found.has(&["decoding PROPFIND"]) {
        return NO_LISTING.to_owned();
    }
    match found.status {
        Some(400 | 405 | 501) if address.kind == Kind::Web => {
            return NO_LISTING.to_owned();
        }
        Some(429 | 503) => {
            return format!("the server is overloaded{shown}: repeat the command later");
        }
        Some(status) if status >= 500 => {
            return format!("the server failed{shown}: repeat the command later");
        }
        Some(_) => return format!("the server refuses the request{shown}"),
        None => {}
    }
    let lower = found.all.to_ascii_lowercase();
    if found.has(&[
        "dns error",
        "failed to lookup address",
        "Name or service not known",
    ]) {
        return format!(
            "the name {host} is not resolved: check {}",
            where_from(address.kind)
        );
    }
    if lower.contains("certificate")
        || lower.contains("tls handshake")
        || lower.contains("invalidcontenttype")
    {
        return format!(
            "TLS to {host} failed ({}): for an own certificate authority set SSL_CERT_FILE to its PEM file; for plain http give an \
             http:// endpoint",
            last(error)
        );
    }
    if found.io == Some(io::ErrorKind::ConnectionRefused) {
        return format!(
            "{host} refuses the connection: is a server running there? check {}",
            where_from(address.kind)
        );
    }
    if found.has(&["Content-Length Header missing"]) {
        return "the server states no size (Content-Length): download the file first".to_owned();
    }
    match found.kind {
        Some(HttpErrorKind::Timeout) => {
            format!(
                "{host} does not answer in time: check the network, a proxy and {}",
                where_from(address.kind)
            )
        }
        Some(HttpErrorKind::Connect) => format!(
            "no connection to {host} ({}): check the network and {}",
            last(error),
            where_from(address.kind)
        ),
        _ => format!("the request failed: {}", last(error)),
    }
}

/// Returns the sentence for an endpoint of S3 without encryption that is not allowed; `None` otherwise.
pub(crate) fn plain_http() -> Option<String> {
    let is_allowed = std::env::var("AWS_ALLOW_HTTP").is_ok_and(|value| {
        ["1", "true", "on", "yes", "y"].contains(&value.trim().to_ascii_lowercase().as_str())
    });
    let endpoint = endpoint()?;
    (endpoint.starts_with("http://") && !is_allowed).then(|| {
        let shown = byte_source::remote::named(&endpoint).into_owned();
        format!(
            "the endpoint {shown} is plain http, over which keys and data can be read: use https, or set AWS_ALLOW_HTTP=true if it is \
             meant"
        )
    })
}

fn endpoint() -> Option<String> {
    ["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"]
        .iter()
        .find_map(|name| std::env::var(name).ok().filter(|value| !value.is_empty()))
}

/// Returns the name of the server, as far as it is known.
fn host(address: &Address) -> String {
    let of = |url: &str| {
        let url = byte_source::remote::named(url).into_owned();
        let rest = url.split_once("://").map_or(url.as_str(), |(_, rest)| rest);
        rest.split('/').next().unwrap_or_default().to_owned()
    };
    match address.kind {
        Kind::Web => of(&address.base),
        Kind::S3 => endpoint().map_or_else(|| "the S3 endpoint".to_owned(), |url| of(&url)),
        Kind::Google => "storage.googleapis.com".to_owned(),
        Kind::Azure => "the storage account".to_owned(),
    }
}

fn where_from(kind: Kind) -> &'static str {
    match kind {
        Kind::S3 => "AWS_ENDPOINT_URL and AWS_REGION",
        Kind::Google => "the network",
        Kind::Azure => "AZURE_STORAGE_ACCOUNT_NAME",
        Kind::Web => "the URL",
    }
}

fn keys(kind: Kind) -> String {
    match kind {
        Kind::S3 => format!("{S3_KEYS}; reading needs s3:GetObject and s3:ListBucket"),
        Kind::Google => "set GOOGLE_SERVICE_ACCOUNT to the key file of an account that may read, or GOOGLE_SKIP_SIGNATURE=true for a \
                         public bucket"
            .to_owned(),
        Kind::Azure => "set AZURE_STORAGE_ACCOUNT_KEY, AZURE_STORAGE_SAS_KEY or AZURE_CLIENT_ID, AZURE_CLIENT_SECRET and \
                        AZURE_TENANT_ID of an account that may read"
            .to_owned(),
        Kind::Web => "a signed URL may have expired; a server that asks for a password takes https://USER:PASSWORD@HOST/...".to_owned(),
    }
}

fn lacks_credentials(kind: Kind) -> bool {
    match kind {
        Kind::S3 => !has_any(&["AWS_ACCESS_KEY_ID", "AWS_WEB_IDENTITY_TOKEN_FILE"]),
        Kind::Google => !has_any(&[
            "GOOGLE_SERVICE_ACCOUNT",
            "GOOGLE_SERVICE_ACCOUNT_PATH",
            "GOOGLE_SERVICE_ACCOUNT_KEY",
            "GOOGLE_APPLICATION_CREDENTIALS",
            "SERVICE_ACCOUNT",
        ]),
        Kind::Azure | Kind::Web => false,
    }
}

/// Returns the innermost reason on one line, without URLs.
fn last(error: &object_store::Error) -> String {
    let mut link: &(dyn StdError + 'static) = error;
    while let Some(source) = link.source() {
        link = source;
    }
    let text = link.to_string();
    let words = text.split_whitespace();
    let plain: Vec<&str> = words
        .filter(|word| !word.contains("://"))
        .take(40)
        .collect();
    plain.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn generic(text: &str) -> object_store::Error {
        object_store::Error::Generic {
            store: "S3",
            source: text.to_owned().into(),
        }
    }

    #[test]
    fn sentences_name_the_remedy_and_no_secret() {
        let signed = "Error performing GET https://h/k?X-Amz-Signature=hunter2 in 1ms - Server returned non-2xx status code: ";
        for (name, error, want) in [
            (
                "s3://b/k",
                "403 Forbidden: <Error><Code>AccessDenied</Code></Error>",
                "access is refused (403 AccessDenied): set AWS_ACCESS_KEY_ID",
            ),
            (
                "https://h/k",
                "403 Forbidden: ",
                "access is refused (403): a signed URL may have expired",
            ),
            (
                "s3://b/k",
                "404 Not Found: <Error><Code>NoSuchBucket</Code></Error>",
                "no bucket `b`",
            ),
            (
                "s3://b/k",
                "404 Not Found: <Error><Code>NoSuchKey</Code></Error>",
                "no such object",
            ),
            (
                "s3://b/k",
                "400 Bad Request: <Code>AuthorizationHeaderMalformed</Code>",
                "another region",
            ),
            (
                "s3://b/k",
                "503 Slow Down: <Code>SlowDown</Code>",
                "overloaded (503 SlowDown)",
            ),
            ("https://h/k/", "405 Method Not Allowed: ", "no listing"),
        ] {
            let text = explain(name, &generic(&format!("{signed}{error}"))).to_string();
            assert!(
                text.starts_with(&format!("{name}: ")) && text.contains(want),
                "{text}"
            );
            assert!(!text.contains("hunter2"), "{text}");
        }
        let text = explain(
            "https://h/k",
            &generic("no luck with https://u:SECRET@h/k?x"),
        )
        .to_string();
        assert_eq!(text, "https://h/k: the request failed: no luck with");
    }
}
