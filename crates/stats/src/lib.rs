//! Statistics that several analyses share, each with one definition.
//!
//! * [`quantile`], [`percentile`] and [`quantile_at`]: between order statistics (Hyndman and Fan's type 7, numpy's default); [`nearest_rank`]: a
//!   recorded value; [`median`];
//! * [`mann_whitney`] on [`pooled_ranks`];
//! * tails and quantiles of the normal and of Student's t distribution, [`ln_gamma`].
//!
//! Special functions are those of `statrs`.
//!
//! ```
//! let sorted = [1.0, 2.0, 4.0, 8.0];
//! assert_eq!(stats::quantile(&sorted, 0.5), 3.0);
//! // Complete separation of three and three: 2 / C(6, 3).
//! let p = stats::mann_whitney(&[1.0, 2.0, 3.0], &[4.0, 5.0, 6.0]);
//! assert!((p - 0.1).abs() < 1e-12);
//! ```

#![expect(
    clippy::cast_precision_loss,
    reason = "counts of samples are below 2^53"
)]

mod order;
mod rank;
mod special;

pub use order::{
    median, nearest_rank, percentile, quantile, quantile_at, quantile_position, sorted,
};
pub use rank::{mann_whitney, pooled_ranks};
pub use special::{ln_gamma, normal_quantile, normal_sf, student_quantile, student_sf2};
