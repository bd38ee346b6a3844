//! The vocabulary of measured quantities: what was measured, of what, in which unit, and which way
//! is better. Instruments exchange [`SampleSet`]s, never maps from text to numbers.

use crate::ids::{DeviceId, Rank, StrId};
use crate::units::Unit;

/// Which way a quantity improves.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Direction {
    /// Less is better (times, losses).
    LowerIsBetter,
    /// More is better (throughput, utilisation).
    HigherIsBetter,
    /// Neither (sizes, counts of work).
    Neutral,
}

/// What is measured. Each has one unit and one direction.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Quantity {
    /// Duration of one prefill step.
    PrefillStepTime,
    /// Duration of one decode step.
    DecodeStepTime,
    /// Time to first token.
    TimeToFirstToken,
    /// Time per output token.
    TimePerOutputToken,
    /// Time in which at least one kernel ran.
    GpuBusyTime,
    /// Time in which none ran.
    GpuIdleTime,
    /// Time in which a collective ran and no computation did.
    ExposedCommunicationTime,
    /// Start of device work minus start of its launch call.
    LaunchLatency,
    /// Time of one kernel.
    KernelTime,
    /// Time of one host function.
    HostFunctionTime,
    /// Bus bandwidth of a collective.
    BusBandwidth,
    /// Bytes allocated on a device.
    DeviceMemory,
    /// A quantity of an imported table, by its name there.
    Other(StrId, Unit, Direction),
}

impl Quantity {
    /// The unit of every value of this quantity.
    pub fn unit(self) -> Unit {
        match self {
            Self::BusBandwidth => Unit::BytesPerSecond,
            Self::DeviceMemory => Unit::Bytes,
            Self::Other(_, unit, _) => unit,
            _ => Unit::Nanos,
        }
    }

    /// Which way it improves.
    pub fn direction(self) -> Direction {
        match self {
            Self::BusBandwidth => Direction::HigherIsBetter,
            Self::DeviceMemory => Direction::Neutral,
            Self::Other(_, _, direction) => direction,
            _ => Direction::LowerIsBetter,
        }
    }
}

/// Whose quantity it is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Subject {
    /// The whole trace.
    Trace,
    /// One accelerator.
    Device(DeviceId),
    /// One rank of the job.
    Rank(Rank),
    /// Something with a name: a kernel, a function, an operator.
    Named(StrId),
}

/// A measured quantity of a subject.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct MetricKey {
    /// Of what.
    pub subject: Subject,
    /// What.
    pub quantity: Quantity,
}

/// The values of one metric, one per observation (cycle, step, request) in order of time.
#[derive(Clone, Debug, PartialEq)]
pub struct SampleSet {
    /// What the values measure.
    pub key: MetricKey,
    /// The values, in the quantity's unit.
    pub values: Vec<f64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_quantity_has_one_unit_and_one_direction() {
        assert_eq!(Quantity::DecodeStepTime.unit(), Unit::Nanos);
        assert_eq!(
            Quantity::BusBandwidth.direction(),
            Direction::HigherIsBetter
        );
        assert_eq!(Unit::Percent.suffix(), "_pct");
    }
}
