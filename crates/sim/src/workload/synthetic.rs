//! File sizes of the synthetic workloads.
//!
//! Sizes are log-normal. Their spread and their independence of popularity are those of real logs: over the three logs
//! in `docs/internals/simulator.md` the standard deviation of the logarithm is 2.11, 1.54 and 1.84, and the rank
//! correlation of requests and size is 0.04, 0.05 and -0.18. The quantiles are handed out to the ranks of popularity by
//! the van der Corput sequence (1935): every stretch of ranks then has nearly the whole distribution, and the few files
//! at the head, which would otherwise decide the mean transfer by luck, are the same in every replication.

/// Standard deviation of the natural logarithm of file sizes: the mean over the three logs.
pub const SIZE_SIGMA: f64 = 1.83;

/// Smallest file, in bytes.
const SIZE_MIN: f64 = 64.0;

/// Sizes by rank of popularity, log-normal, that add up to about `data_set_bytes`.
pub fn file_sizes(count: usize, data_set_bytes: u64) -> Vec<u64> {
    let raw: Vec<f64> =
        (1..=count as u32).map(|rank| (SIZE_SIGMA * normal_quantile(van_der_corput(rank))).exp()).collect();
    let scale = data_set_bytes as f64 / raw.iter().sum::<f64>();
    raw.iter().map(|size| (size * scale).max(SIZE_MIN) as u64).collect()
}

/// The bits of `n` mirrored at the binary point: 1/2, 1/4, 3/4, 1/8, ...
fn van_der_corput(n: u32) -> f64 {
    f64::from(n.reverse_bits()) / 4_294_967_296.0
}

/// The quantile of the standard normal distribution at `p` in (0, 1). Acklam's rational approximation (2003), relative
/// error below 1.2e-9.
fn normal_quantile(p: f64) -> f64 {
    const A: [f64; 6] = [
        -3.969683028665376e+01,
        2.209460984245205e+02,
        -2.759285104469687e+02,
        1.38357751867269e+02,
        -3.066479806614716e+01,
        2.506628277459239e+00,
    ];
    const B: [f64; 5] = [
        -5.447609879822406e+01,
        1.615858368580409e+02,
        -1.556989798598866e+02,
        6.680131188771972e+01,
        -1.328068155288572e+01,
    ];
    const C: [f64; 6] = [
        -7.784894002430293e-03,
        -3.223964580411365e-01,
        -2.400758277161838e+00,
        -2.549732539343734e+00,
        4.374664141464968e+00,
        2.938163982698783e+00,
    ];
    const D: [f64; 4] = [7.784695709041462e-03, 3.224671290700398e-01, 2.445134137142996e+00, 3.754408661907416e+00];
    let polynomial = |coefficients: &[f64], x: f64| coefficients.iter().fold(0.0, |sum, c| sum * x + c);
    let tail = |p: f64| {
        let q = (-2.0 * p.ln()).sqrt();
        polynomial(&C, q) / (polynomial(&D, q) * q + 1.0)
    };
    if p < 0.02425 {
        tail(p)
    } else if p > 1.0 - 0.02425 {
        -tail(1.0 - p)
    } else {
        let q = p - 0.5;
        let r = q * q;
        polynomial(&A, r) * q / (polynomial(&B, r) * r + 1.0)
    }
}
