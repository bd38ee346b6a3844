//! Conformance of perfetto-reader against the full Perfetto schema.
