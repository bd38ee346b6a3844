//! Names of agents.

use rocpd_db::Agent;

/// Numbering of agents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AgentIndex {
    /// Index on the machine: `Agent 4`.
    Absolute,
    /// Index among those visible to the process: `Agent 1`.
    #[default]
    Relative,
    /// Index among those of their type: `GPU 0`.
    TypeRelative,
}

impl AgentIndex {
    /// Returns [`Self::label`] if the index and the type are known.
    pub(crate) fn exact(self, agent: &Agent) -> Option<String> {
        match self {
            Self::Absolute => agent.absolute_index,
            Self::Relative => agent.logical_index,
            Self::TypeRelative => agent.type_index.filter(|_| agent.kind.is_some()),
        }
        .map(|_| self.label(agent))
    }

    /// Returns `Agent 4`, `Agent 1` or `GPU 0`; an unknown index is 0.
    #[must_use]
    pub fn label(self, agent: &Agent) -> String {
        let (label, index) = self.parts(agent);
        format!("{label} {index}")
    }

    /// Returns [`Self::label`] with a dash.
    pub(crate) fn dashed(self, agent: &Agent) -> String {
        let (label, index) = self.parts(agent);
        format!("{label}-{index}")
    }

    /// Returns the prefix and the index.
    pub(crate) fn parts(self, agent: &Agent) -> (&str, i64) {
        match self {
            Self::Absolute => ("Agent", agent.absolute_index.unwrap_or(0)),
            Self::Relative => ("Agent", agent.logical_index.unwrap_or(0)),
            Self::TypeRelative => (
                agent.kind.as_deref().unwrap_or("UNK"),
                agent.type_index.unwrap_or(0),
            ),
        }
    }
}
