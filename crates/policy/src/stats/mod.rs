//! Statistics of what was observed: moments, confidence intervals, distributions. Plain numbers, no clocks.

mod histogram;
mod moments;

pub use histogram::Histogram;
pub use moments::{Interval, Moments, student_quantile};
