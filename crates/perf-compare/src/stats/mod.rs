//! Statistics: definitions are cited where they are used.

mod compare;
mod effect;
mod multiple;
mod permute;
mod random;
mod serial;
mod trend;
mod welch;

pub(crate) use ::stats::{
    mann_whitney, median, normal_quantile, normal_sf, quantile, sorted, student_sf2,
};
pub(crate) use compare::{Compared, Effort, compare_columns, p_in_time, quantile_change};
pub(crate) use effect::{cliffs_delta, deviation, mean};
pub(crate) use multiple::adjust;
pub(crate) use permute::{Family, attainable, choose};
pub(crate) use random::Stream;
pub(crate) use serial::Dependence;
pub(crate) use trend::{continued, drift, is_within_wandering};
pub(crate) use welch::{Moments, welch_p};
