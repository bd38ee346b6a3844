//! Tests the conformance of perfetto-reader with the full Perfetto schema.
