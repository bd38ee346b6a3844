//! Options that choose how GPU activity is classified, and what counts.

use clap::{Args, ValueEnum};
use gpu_time::Rules;
use trace_input::ClassesArgs;
use trace_report::RulesChoice;

use crate::args::RULES;

/// How kernels are classified, and what counts.
#[derive(Debug, Args)]
pub(crate) struct RulesArgs {
    /// What counts as communication, computation and copying
    #[arg(long, help_heading = RULES, value_enum, value_name = "RULES", default_value_t)]
    pub(crate) rules: RulesName,
    /// Only work whose launch is in the trace, as TraceLens' reports have it
    #[arg(long, help_heading = RULES)]
    pub(crate) linked_only: bool,
    #[command(flatten)]
    pub(crate) classes: ClassesArgs,
    /// With --rules hta: cut events to whole microseconds, as that tool does by default
    #[arg(long, help_heading = RULES)]
    pub(crate) hta_rounding: bool,
}

impl RulesArgs {
    pub(crate) fn check(&self) -> anyhow::Result<()> {
        let is_hta = self.rules == RulesName::Hta;
        if self.hta_rounding && !is_hta {
            return Err(cli::usage("--hta-rounding needs --rules hta"));
        }
        if self.linked_only && is_hta {
            return Err(cli::usage(
                "--linked-only does not go with --rules hta, which has a choice of its own",
            ));
        }
        Ok(())
    }

    /// Returns how activity is classified, and what counts.
    pub(crate) fn choice(&self) -> RulesChoice {
        let mut choice = RulesChoice::default();
        choice.rules = self.rules.into();
        choice.linked_only = self.linked_only;
        choice.vocabulary = self.classes.vocabulary();
        choice.hta_rounding = self.hta_rounding;
        choice
    }
}

/// Rules, as command-line values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum RulesName {
    /// Collective libraries, expert-parallel dispatch and combine, custom and fused collectives
    #[default]
    Extended,
    /// Communication is kernels named nccl or rccl
    Exact,
    /// Window, classes and events of HolisticTraceAnalysis
    Hta,
    /// Classes of TraceLens
    Tracelens,
}

impl From<RulesName> for Rules {
    fn from(name: RulesName) -> Self {
        match name {
            RulesName::Exact => Self::Exact,
            RulesName::Extended => Self::Extended,
            RulesName::Hta => Self::Hta,
            RulesName::Tracelens => Self::TraceLens,
        }
    }
}
