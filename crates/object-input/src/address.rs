//! What a URL names: a bucket, and a key in it.

use byte_source::Error;
use object_store::path::Path;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// Characters that stay in the path of a web address.
const PLAIN: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~')
    .remove(b'/')
    .remove(b'=')
    .remove(b'+')
    .remove(b',')
    .remove(b'@')
    .remove(b':')
    .remove(b'(')
    .remove(b')');

/// Kind of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    S3,
    Google,
    Azure,
    Web,
}

/// A URL, taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    pub(crate) kind: Kind,
    /// Scheme and bucket or server, without a slash at the end.
    pub(crate) base: String,
    /// Key in the bucket; empty for the bucket itself.
    pub(crate) key: Path,
}

impl Address {
    /// Takes a URL apart.
    ///
    /// # Errors
    ///
    /// Returns an error for a scheme that is not read, a URL without a bucket, and a key with empty parts.
    pub(crate) fn parse(url: &str) -> Result<Self, Error> {
        let wrong = |text: String| Error::Remote {
            name: url.to_owned(),
            text,
        };
        let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
        let kind = match scheme.to_ascii_lowercase().as_str() {
            "s3" | "s3a" => Kind::S3,
            "gs" => Kind::Google,
            "az" | "adl" | "azure" | "abfs" | "abfss" => Kind::Azure,
            "http" | "https" => Kind::Web,
            _ => {
                return Err(wrong(format!(
                    "{scheme}:// is not read: give s3://, gs://, az://, https:// or http://, or a local path"
                )));
            }
        };
        let (bucket, key) = rest.split_once('/').unwrap_or((rest, ""));
        if bucket.is_empty() {
            return Err(wrong(format!(
                "the URL names no bucket: {scheme}://BUCKET/KEY"
            )));
        }
        // A number tells apart URLs whose queries were taken away.
        let key = match kind {
            Kind::Web => key.split('#').next().unwrap_or(key),
            _ => key,
        };
        let parsed = match kind {
            Kind::Web => Path::from_url_path(key),
            _ => Path::parse(key),
        };
        let key = parsed.map_err(|_| {
            wrong(
                "the key has a part that is empty, `.` or `..`, which is not read: copy the object to another key"
                    .to_owned(),
            )
        })?;
        Ok(Self {
            kind,
            base: format!("{scheme}://{bucket}"),
            key,
        })
    }

    /// Returns the URL of another key in the same bucket.
    pub(crate) fn url_of(&self, key: &Path) -> String {
        match self.kind {
            Kind::Web => format!("{}/{}", self.base, utf8_percent_encode(key.as_ref(), PLAIN)),
            _ => format!("{}/{key}", self.base),
        }
    }

    /// Returns the name of the bucket, container or server.
    pub(crate) fn bucket(&self) -> &str {
        let rest = self.base.split_once("://").map_or("", |(_, rest)| rest);
        match self.kind {
            Kind::Azure => rest.split('@').next().unwrap_or(rest),
            _ => rest,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_taken_apart_and_put_together() {
        for (url, kind, bucket, key) in [
            (
                "s3://b/run 1/a%20b=c.json",
                Kind::S3,
                "b",
                "run 1/a%20b=c.json",
            ),
            ("s3a://b", Kind::S3, "b", ""),
            ("gs://b/p/", Kind::Google, "b", "p"),
            ("abfss://c@a.host/k", Kind::Azure, "c", "k"),
            ("http://h:8080/a%20b/c", Kind::Web, "h:8080", "a b/c"),
        ] {
            let found = Address::parse(url).unwrap();
            assert_eq!((found.kind, found.bucket()), (kind, bucket), "{url}");
            assert_eq!(found.key.as_ref(), key, "{url}");
            if !url.ends_with('/') && !key.is_empty() {
                assert_eq!(found.url_of(&found.key), url);
            }
        }
        assert_eq!(Address::parse("http://h/x#2").unwrap().key.as_ref(), "x");
        for url in ["hdfs://h/x", "s3:///x", "s3://b/a//c"] {
            assert!(Address::parse(url).is_err(), "{url}");
        }
    }
}
