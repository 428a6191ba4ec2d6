//! Mean and variance of a stream, and the confidence interval of the mean of few independent observations.

/// Running count, mean and variance (Welford's recurrence, 1962: no cancellation, one pass).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Moments {
    count: u64,
    mean: f64,
    /// Sum of squared deviations from the mean.
    deviation: f64,
}

impl Moments {
    /// Nothing observed yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds one observation.
    pub fn add(&mut self, value: f64) {
        self.count += 1;
        let delta = value - self.mean;
        self.mean += delta / self.count as f64;
        self.deviation += delta * (value - self.mean);
    }

    /// Adds all of `other`'s observations.
    pub fn merge(&mut self, other: &Moments) {
        if other.count == 0 {
            return;
        }
        let count = (self.count + other.count) as f64;
        let delta = other.mean - self.mean;
        self.deviation += other.deviation + delta * delta * self.count as f64 * other.count as f64 / count;
        self.mean += delta * other.count as f64 / count;
        self.count += other.count;
    }

    /// Observations.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Zero if nothing was observed.
    pub fn mean(&self) -> f64 {
        self.mean
    }

    /// Unbiased; zero below two observations.
    pub fn variance(&self) -> f64 {
        if self.count < 2 { 0.0 } else { self.deviation / (self.count - 1) as f64 }
    }

    /// The interval that holds the true mean with 95 % confidence, if observations are independent and nearly normal.
    /// With fewer than two observations nothing is known: the half width is infinite.
    pub fn interval(&self) -> Interval {
        if self.count < 2 {
            return Interval { mean: self.mean, half_width: f64::INFINITY };
        }
        let error = (self.variance() / self.count as f64).sqrt();
        Interval { mean: self.mean, half_width: student_quantile(self.count - 1) * error }
    }
}

impl Extend<f64> for Moments {
    fn extend<I: IntoIterator<Item = f64>>(&mut self, values: I) {
        values.into_iter().for_each(|value| self.add(value));
    }
}

impl FromIterator<f64> for Moments {
    fn from_iter<I: IntoIterator<Item = f64>>(values: I) -> Self {
        let mut moments = Moments::new();
        moments.extend(values);
        moments
    }
}

/// `mean` plus or minus `half_width`, in the unit of what was observed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// The middle.
    pub mean: f64,
    /// Never negative.
    pub half_width: f64,
}

/// The 0.975 quantile of Student's t distribution, for a two-sided interval of 95 %. Exact closed forms for one and two
/// degrees of freedom; above that the expansion about the normal quantile (Abramowitz and Stegun 26.7.5), whose error
/// is below 1 % at three degrees and below 0.1 % from five.
pub fn student_quantile(degrees_of_freedom: u64) -> f64 {
    const Z: f64 = 1.959_963_984_540_054;
    match degrees_of_freedom {
        0 => f64::INFINITY,
        1 => 12.706_204_736,
        2 => 4.302_652_730,
        n => {
            let n = n as f64;
            let (z3, z5, z7, z9) = (Z.powi(3), Z.powi(5), Z.powi(7), Z.powi(9));
            Z + (z3 + Z) / (4.0 * n)
                + (5.0 * z5 + 16.0 * z3 + 3.0 * Z) / (96.0 * n.powi(2))
                + (3.0 * z7 + 19.0 * z5 + 17.0 * z3 - 15.0 * Z) / (384.0 * n.powi(3))
                + (79.0 * z9 + 776.0 * z7 + 1482.0 * z5 - 1920.0 * z3 - 945.0 * Z) / (92_160.0 * n.powi(4))
        }
    }
}
