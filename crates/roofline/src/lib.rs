//! How far each piece of GPU work is from the limit of its device.
//!
//! * [`CallList`]: occurrences of operators with the GPU activity that was launched for them, joined to captures where graphs
//!   are replayed;
//! * [`Models`]: what a call needs at least, from recorded arguments ([`Recorded`]): FLOPs, bytes between two ends, link bytes,
//!   and the [`Basis`] that they rest on, or why nothing is known; one model for each operator, as a row of a table or a
//!   small function;
//! * [`Devices`], [`Peaks`]: which device a recording is of, its peaks with their sources; [`Peaks::limit`]: the least time of a
//!   call, and what bounds it;
//! * [`Lengths`]: requests and tokens of a step, from the annotation of the engine; [`steps()`]: what a step needs and the
//!   [`Rung`]s from there to the measured time;
//! * [`config::Config`]: sizes of a model, and what a step needs that was not recorded;
//! * [`analyse`]: all of it as one [`Analysis`]; [`tables`], [`document`], [`text`]: the results as tables, as JSON, and in words;
//! * [`ops()`], [`copies()`]: operators of the host, copies by direction; [`kernel_details`]: kernels with shapes, rates and
//!   launch configurations;
//! * [`Knowledge`]: operators and devices, with a user's own rows.
//!
//! Bytes are compulsory traffic: what is read once and written once. Numbers are integers of 128 bits; percentages are sums of
//! limits over sums of times. Time without numbers stays, with its reason.
//!
//! What this crate does not do: no files, no formats; it measures nothing that the recording does not hold.
//!
//! ```
//! use roofline::{Context, Devices, Models, Peaks, Recorded};
//!
//! let types = r#"["c10::BFloat16", "c10::BFloat16"]"#;
//! let recorded = Recorded::parse(Some("[[32, 4096], [4096, 4096]]"), Some(types), None, None);
//! let numbers = Models::builtin().numbers("aten::mm", &recorded, &Context::default())?;
//! let peaks = Peaks::new(Devices::builtin().of_key("h100-sxm"), None, &[]);
//! let limit = peaks.limit(&numbers).expect("the peaks are known");
//! assert_eq!(limit.bound.map(|bound| bound.name()), Some("memory"));
//! assert!((limit.ns - 10_173.0).abs() < 1.0);
//! # Ok::<(), roofline::Unknown>(())
//! ```

mod analysis;
mod beyond;
mod build;
mod calls;
mod capture;
pub mod config;
mod coverage;
mod details;
mod device;
mod dtype;
mod extensions;
mod json;
mod ladder;
mod limit;
mod marks;
mod models;
mod name_sets;
mod numbers;
mod operators;
mod ops;
mod recorded;
mod source;
mod step_name;
mod steps;
pub mod tables;
pub mod text;
mod views;

pub use analysis::{Analysis, DeviceSums, Error, Gain, Options, StepForward, analyse};
pub use beyond::{Beyond, Reasons};
pub use calls::{ARG_KEYS, Call, CallList, CallOptions, CaptureCounts, Kind, NO_OPERATOR};
pub use coverage::{Cause, Coverage, Missing, Share};
pub use details::{DETAIL_KEYS, KernelDetail, details_table, kernel_details};
pub use device::{Device, DeviceProperties, Devices, PeakKey, Recognised};
pub use dtype::{Dtype, Precision};
pub use extensions::{ExtensionError, Knowledge, OperatorRows};
pub use json::{document, model_document};
pub use ladder::Rung;
pub use limit::{
    Bound, DeviceOptions, LAUNCH_US, Limit, NoSuchDevice, Peak, Peaks, RecordedDevice,
    RecordedDevices,
};
pub use marks::Mark;
pub use models::Models;
pub use numbers::{Answer, Basis, Numbers, UnitKind, Unknown};
pub use ops::{CopyRow, OPS_KEYS, OpRow, OpSort, copies, copies_table, ops, ops_table};
pub use recorded::{CollectiveSizes, Context, Recorded};
pub use step_name::{Lengths, Phase, Requests, Sums, captured_size};
pub use steps::{ENOUGH_KNOWN, Needs, StepRow, steps};
pub use views::{By, Origin, Row, Rows, Sort, rows};
