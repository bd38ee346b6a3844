//! What agents are called.

use rocpd_db::Agent;

use crate::args::AgentIndex;

impl AgentIndex {
    /// As [`Self::label`]; none where the index or the type is not known.
    pub(crate) fn exact(self, agent: &Agent) -> Option<String> {
        match self {
            Self::Absolute => agent.absolute_index,
            Self::Relative => agent.logical_index,
            Self::TypeRelative => agent.type_index.filter(|_| agent.kind.is_some()),
        }
        .map(|_| self.label(agent))
    }

    /// `Agent 4`, `Agent 1` or `GPU 0`; index 0 where none is known.
    pub(crate) fn label(self, agent: &Agent) -> String {
        let (label, index) = self.parts(agent);
        format!("{label} {index}")
    }

    /// As [`Self::label`], with a dash.
    pub(crate) fn dashed(self, agent: &Agent) -> String {
        let (label, index) = self.parts(agent);
        format!("{label}-{index}")
    }

    /// Label and index.
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
