//! Facts about the recording and its export: versions, clocks, options.

use sqlite_scan::Value;
use trace_model::ClockDomain;

use crate::error::Result;
use crate::export::Export;
use crate::strings::text;

/// Facts of the tables of metadata. Only named entries are read: others hold environments, arguments and paths.
#[derive(Debug, Default)]
pub(crate) struct Session {
    /// Version of the schema; none in exports of 2021.
    pub(crate) schema: Option<String>,
    /// Version of the exporter, which may be newer than the recorder.
    pub(crate) exporter: Option<String>,
    /// Times are Unix times.
    pub(crate) is_normalised: bool,
    /// Nanoseconds by which the export moved all times.
    pub(crate) shift_ns: i64,
    /// Unix time of the start of the collection.
    pub(crate) utc_ns: Option<i64>,
    /// Length of the collection.
    pub(crate) duration_ns: Option<i64>,
    /// How CUDA graphs were recorded.
    pub(crate) graph_mode: Option<String>,
    /// Calls of the CUDA API were left out by the recorder.
    pub(crate) is_api_subset: bool,
    /// The export left out tables, or times.
    pub(crate) is_filtered: bool,
    /// The export includes binary payloads, and JSON.
    pub(crate) has_blobs: Option<bool>,
    /// See `has_blobs`.
    pub(crate) has_json: Option<bool>,
}

impl Session {
    pub(crate) fn read(export: &Export) -> Result<Self> {
        let mut session = Self::default();
        for table in ["META_DATA_EXPORT", "EXPORT_META_DATA"] {
            export.scan(table, ["name", "value"], |_, [name, value]| {
                session.exported(name, value);
                Ok(())
            })?;
        }
        export.scan(
            "META_DATA_CAPTURE",
            ["name", "value"],
            |_, [name, value]| {
                session.captured(name, value);
                Ok(())
            },
        )?;
        export.scan(
            "TARGET_INFO_SESSION_START_TIME",
            ["utcEpochNs"],
            |_, [utc]| {
                session.utc_ns = session.utc_ns.or(utc.as_int());
                Ok(())
            },
        )?;
        export.scan("ANALYSIS_DETAILS", ["duration"], |_, [duration]| {
            session.duration_ns = session.duration_ns.or(duration.as_int());
            Ok(())
        })?;
        Ok(session)
    }

    fn exported(&mut self, name: Value<'_>, value: Value<'_>) {
        let Value::Text(name) = name else { return };
        let is_true = || {
            matches!(
                value,
                Value::Text(b"true" | b"1" | b"True" | b"TRUE") | Value::Int(1)
            )
        };
        let number = || match value {
            Value::Int(number) => Some(number),
            Value::Text(text) => std::str::from_utf8(text).ok()?.trim().parse().ok(),
            _ => None,
        };
        let is_set = || matches!(value, Value::Text(text) if !text.trim_ascii().is_empty());
        match name {
            b"EXPORT_SCHEMA_VERSION" => self.schema = version(value),
            b"EXPORT_PRODUCT_VERSION" => self.exporter = version(value),
            b"EXPORT_PARAM_TIME_NORMALIZE" => self.is_normalised = is_true(),
            b"EXPORT_PARAM_TIME_SHIFT" => self.shift_ns = number().unwrap_or(0),
            b"EXPORT_PARAM_TABLES_TO_EXPORT" | b"EXPORT_PARAM_TIMES_TO_EXPORT" => {
                self.is_filtered |= is_set();
            }
            b"EXPORT_PARAM_INCLUDE_BLOBS" => self.has_blobs = Some(is_true()),
            b"EXPORT_PARAM_INCLUDE_JSON" => self.has_json = Some(is_true()),
            _ => {}
        }
    }

    fn captured(&mut self, name: Value<'_>, value: Value<'_>) {
        let Value::Text(name) = name else { return };
        if name.ends_with(b"CUDA_GRAPH_TRACE_OPTIONS:MODE") {
            // A word; anything longer is not one of the modes.
            let mode = text(value).filter(|mode| mode.len() <= 16);
            let mode = mode.filter(|mode| mode.chars().all(|c| c.is_ascii_alphanumeric()));
            if self.graph_mode.is_none() {
                self.graph_mode = mode;
            }
        } else if name == b"CUDA_SKIP_SOME_API_CALLS" {
            self.is_api_subset = matches!(value, Value::Text(b"true"));
        }
    }

    /// Returns the recorded time at which the collection starts.
    pub(crate) fn start_ns(&self) -> i64 {
        match self.is_normalised {
            true => self.shift_ns.saturating_add(self.utc_ns.unwrap_or(0)),
            false => self.shift_ns,
        }
    }

    /// Returns the offset from recorded times to Unix time. For shifted times it is an assumption: no document describes them.
    pub(crate) fn base_ns(&self) -> i64 {
        match (self.is_normalised, self.utc_ns) {
            (true, _) => 0_i64.saturating_sub(self.shift_ns),
            (false, Some(utc)) => utc.saturating_sub(self.shift_ns),
            (false, None) => 0,
        }
    }

    pub(crate) fn clock(&self) -> ClockDomain {
        match self.is_normalised {
            true => ClockDomain::RealTime,
            false => ClockDomain::Session,
        }
    }

    /// Returns `true` if the schema is at least this version.
    pub(crate) fn is_at_least(&self, version: [u32; 3]) -> bool {
        let Some(schema) = &self.schema else {
            return false;
        };
        let mut parts = schema
            .split('.')
            .map(|part| part.parse::<u32>().unwrap_or(0));
        let own = [(); 3].map(|()| parts.next().unwrap_or(0));
        own >= version
    }
}

/// Returns a version; other texts are not repeated.
fn version(value: Value<'_>) -> Option<String> {
    let is_version = |text: &String| {
        text.len() <= 32
            && text
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || c == '.' || c == '-')
    };
    text(value).filter(is_version)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn normalised_and_shifted_times() {
        let mut session = Session {
            utc_ns: Some(1_000),
            ..Session::default()
        };
        assert_eq!((session.start_ns(), session.base_ns()), (0, 1_000));
        session.shift_ns = 50;
        assert_eq!((session.start_ns(), session.base_ns()), (50, 950));
        session.shift_ns = 0;
        session.is_normalised = true;
        assert_eq!((session.start_ns(), session.base_ns()), (1_000, 0));
        session.schema = Some("3.23.3".to_owned());
        assert!(session.is_at_least([3, 23, 3]) && !session.is_at_least([3, 24, 0]));
        assert!(session.is_at_least([3, 4, 0]));
    }
}
