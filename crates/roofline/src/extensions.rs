//! Rows of operators and devices as TOML: the built-in tables, and a user's own.

use serde::Deserialize;

use crate::device::{Device, DeviceRow, Devices};
use crate::models::Models;

/// Error in a table of operators or devices.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExtensionError {
    /// Not TOML, or a row with unknown keys or values of another kind.
    #[error("{0}")]
    Toml(String),
    /// A row of an operator.
    #[error("operator {name}: {what}")]
    Operator {
        /// The first name of the row.
        name: String,
        /// Problem, and what was expected.
        what: String,
    },
    /// A row of a device.
    #[error("device {key}: {what}")]
    Device {
        /// Its key.
        key: String,
        /// Problem, and what was expected.
        what: String,
    },
}

/// One or several names.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
enum Names {
    One(String),
    Several(Vec<String>),
}

/// One row of operators.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawOperator {
    name: Names,
    roles: Option<String>,
    flops_per_element: Option<u64>,
    of: Option<usize>,
    pointwise: Option<usize>,
    reduction: Option<u64>,
    result: Option<String>,
    like: Option<String>,
    arguments: Option<Vec<usize>>,
    model: Option<String>,
    unknown: Option<String>,
    /// Where the formula comes from; for readers of the table.
    #[expect(dead_code, reason = "documentation within the table")]
    source: Option<String>,
}

/// One row of operators, of all its names.
#[derive(Clone, Debug, Default)]
pub(crate) struct OperatorRow {
    pub(crate) names: Vec<String>,
    pub(crate) roles: Option<String>,
    pub(crate) flops_per_element: Option<u64>,
    pub(crate) of: Option<usize>,
    pub(crate) pointwise: Option<usize>,
    pub(crate) reduction: Option<u64>,
    pub(crate) result: Option<String>,
    pub(crate) like: Option<String>,
    pub(crate) arguments: Option<Vec<usize>>,
    pub(crate) model: Option<String>,
    pub(crate) unknown: Option<String>,
}

/// Parsed rows of operators.
#[derive(Clone, Debug, Default)]
pub struct OperatorRows {
    pub(crate) rows: Vec<OperatorRow>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    operator: Vec<RawOperator>,
    #[serde(default)]
    device: Vec<DeviceRow>,
}

impl From<RawOperator> for OperatorRow {
    fn from(raw: RawOperator) -> Self {
        Self {
            names: match raw.name {
                Names::One(name) => vec![name],
                Names::Several(names) => names,
            },
            roles: raw.roles,
            flops_per_element: raw.flops_per_element,
            of: raw.of,
            pointwise: raw.pointwise,
            reduction: raw.reduction,
            result: raw.result,
            like: raw.like,
            arguments: raw.arguments,
            model: raw.model,
            unknown: raw.unknown,
        }
    }
}

fn parse(text: &str) -> Result<File, ExtensionError> {
    toml::from_str(text).map_err(|error| ExtensionError::Toml(error.to_string()))
}

impl OperatorRows {
    /// Parses the rows `[[operator]]` of a table.
    ///
    /// # Errors
    /// [`ExtensionError::Toml`] with the place of what cannot be read.
    pub fn parse(text: &str) -> Result<Self, ExtensionError> {
        let rows = parse(text)?.operator.into_iter().map(Into::into);
        Ok(Self {
            rows: rows.collect(),
        })
    }
}

/// Operators and devices: the built-in ones, with a user's own before them.
#[derive(Clone, Debug)]
pub struct Knowledge {
    /// The operators.
    pub models: Models,
    /// The devices.
    pub devices: Devices,
}

impl Default for Knowledge {
    fn default() -> Self {
        Self {
            models: Models::builtin().clone(),
            devices: Devices::builtin().clone(),
        }
    }
}

impl Knowledge {
    /// Adds the rows of a user's table: `[[operator]]` and `[[device]]`.
    ///
    /// # Errors
    /// [`ExtensionError`] names the row, and what was expected.
    ///
    /// ```
    /// let mut knowledge = roofline::Knowledge::default();
    /// knowledge.extend("[[operator]]\nname = 'mylib::rope'\nroles = 'u r'\nflops_per_element = 3\n").unwrap();
    /// assert!(knowledge.models.knows("mylib::rope"));
    /// let error = knowledge.extend("[[operator]]\nname = 'x'\nroles = 'q'").unwrap_err();
    /// assert!(error.to_string().starts_with("operator x: unknown role"));
    /// ```
    pub fn extend(&mut self, text: &str) -> Result<(), ExtensionError> {
        let file = parse(text)?;
        let rows = file.operator.into_iter().map(Into::into);
        self.models.extend(&OperatorRows {
            rows: rows.collect(),
        })?;
        let devices = file.device.into_iter().map(|row| {
            let device = Device::new(row)?;
            device.check_pattern()?;
            Ok(device)
        });
        let devices: Result<Vec<Device>, ExtensionError> = devices.collect();
        self.devices.extend(devices?);
        Ok(())
    }
}
