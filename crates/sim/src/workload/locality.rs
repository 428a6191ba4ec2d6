//! How often an LRU cache of a given size has what is asked for, and the exponent of popularity that makes it so.
//!
//! For independent requests the hit ratio follows from Che's approximation (Che, Tung, Wang 2002; Fricker, Robert,
//! Roberts 2012 for why it is so good): every file stays for the same characteristic time, namely the one for which the
//! expected bytes of all files that were asked for within it are the cache.

use super::{Profile, file_sizes, zipf};

/// Share of requests found in an LRU cache of `cache_bytes`, for independent requests with these weights.
pub fn lru_hit_ratio(weights: &[f64], sizes: &[u64], cache_bytes: u64) -> f64 {
    let total: f64 = weights.iter().sum();
    if sizes.iter().sum::<u64>() <= cache_bytes {
        return 1.0;
    }
    let held = |time: f64| -> f64 {
        weights.iter().zip(sizes).map(|(w, &size)| size as f64 * -(-w / total * time).exp_m1()).sum()
    };
    let (mut low, mut high) = (0.0_f64, 1.0_f64);
    while held(high) < cache_bytes as f64 {
        low = high;
        high *= 4.0;
    }
    // Geometric bisection: 40 halvings leave a relative error far below that of the approximation.
    for _ in 0..40 {
        let middle = if low > 0.0 { (low * high).sqrt() } else { high / 2.0 };
        if held(middle) < cache_bytes as f64 { low = middle } else { high = middle }
    }
    weights.iter().map(|w| w / total * -(-w / total * high).exp_m1()).sum()
}

/// The exponent for which a synthetic workload has the locality of `profile`, to four digits.
pub fn fit_exponent(profile: &Profile) -> f64 {
    let sizes = file_sizes(profile.files, profile.data_set_bytes);
    let (mut low, mut high) = (0.2, 3.0);
    for _ in 0..18 {
        let middle = (low + high) / 2.0;
        let hits = lru_hit_ratio(&zipf(profile.files, middle), &sizes, profile.locality_cache_bytes);
        if hits < profile.locality { low = middle } else { high = middle }
    }
    ((low + high) / 2.0 * 1e4).round() / 1e4
}
