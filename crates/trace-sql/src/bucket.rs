//! Data sets in object stores.

use std::path::Path;

use byte_source::remote;
use datafusion::prelude::SessionContext;

use crate::error::SqlError;

/// Returns the URL of a folder without a slash at its end; `None` for a local one.
pub(crate) fn url_of(folder: &Path) -> Option<String> {
    let url = remote::url(folder)?;
    Some(url.trim_end_matches('/').to_owned())
}

/// Returns the text of a path for the engine, which decodes that of a URL.
pub(crate) fn encoded(path: &Path) -> String {
    let text = path.display().to_string();
    match remote::is_url(path) {
        true => text
            .replace('%', "%25")
            .replace('#', "%23")
            .replace('?', "%3F"),
        false => text,
    }
}

/// Makes the engine read the bucket of a folder, if it is in one.
///
/// # Errors
///
/// Returns an error if this build reads no object stores, or the environment lacks something that is needed for this one.
#[cfg(feature = "objects")]
pub(crate) fn register(context: &SessionContext, folder: &Path) -> Result<(), SqlError> {
    use crate::error::ErrorKind;
    if let Some(url) = remote::url(folder) {
        let found = object_input::data_store(url);
        let (base, store) =
            found.map_err(|error| SqlError::new(ErrorKind::Input, error.to_string()))?;
        context.register_object_store(&base, store);
    }
    Ok(())
}

/// Without the feature `objects` there is none.
#[cfg(not(feature = "objects"))]
#[expect(
    clippy::unnecessary_wraps,
    reason = "with the feature `objects` it can fail"
)]
pub(crate) fn register(_: &SessionContext, _: &Path) -> Result<(), SqlError> {
    Ok(())
}

/// Returns the sentence for a request that failed, if this is the cause of an error.
#[cfg(feature = "objects")]
pub(crate) fn failed_request(
    folder: &str,
    error: &(dyn std::error::Error + 'static),
) -> Option<String> {
    use object_input::object_store;
    let mut next = Some(error);
    while let Some(link) = next {
        let found = link.downcast_ref::<object_store::Error>();
        let boxed = link.downcast_ref::<Box<object_store::Error>>();
        if let Some(error) = found.or(boxed.map(Box::as_ref)) {
            return Some(object_input::explain(folder, error).to_string());
        }
        next = link.source();
    }
    None
}

/// Without the feature `objects` no request is made.
#[cfg(not(feature = "objects"))]
pub(crate) fn failed_request(_: &str, _: &(dyn std::error::Error + 'static)) -> Option<String> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_engine_decodes_what_was_encoded() {
        let path = Path::new("s3://b/set/table=kernels/run=a%2Fb/rank=0");
        assert_eq!(encoded(path), "s3://b/set/table=kernels/run=a%252Fb/rank=0");
        assert_eq!(encoded(Path::new("/tmp/a%2Fb")), "/tmp/a%2Fb");
        assert_eq!(
            url_of(Path::new("s3://b/set/")).as_deref(),
            Some("s3://b/set")
        );
        assert_eq!(url_of(Path::new("set")), None);
    }
}
