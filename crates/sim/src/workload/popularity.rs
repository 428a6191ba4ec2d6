//! Drawing from a discrete distribution in constant time: Walker's alias method, in Vose's formulation (1991).

use crate::kernel::Stream;

/// Weights of Zipf's law for `count` ranks: the r-th most popular has weight r^-`exponent`.
pub fn zipf(count: usize, exponent: f64) -> Vec<f64> {
    (1..=count).map(|rank| (rank as f64).powf(-exponent)).collect()
}

/// A distribution over 0..n.
pub struct Alias {
    probabilities: Vec<f64>,
    /// For each column: the share of it that is its own, in 2^32nds, and who owns the rest.
    columns: Vec<(u32, u32)>,
}

impl Alias {
    /// From weights, which are finite, not negative, not all zero and fewer than 2^32.
    pub fn new(mut weights: Vec<f64>) -> Self {
        let total: f64 = weights.iter().sum();
        assert!(total > 0.0 && total.is_finite(), "weights add up to nothing");
        weights.iter_mut().for_each(|weight| *weight /= total);
        let count = weights.len();
        let mut share: Vec<f64> = weights.iter().map(|p| p * count as f64).collect();
        let (mut poor, mut rich): (Vec<usize>, Vec<usize>) = (0..count).partition(|&i| share[i] < 1.0);
        let mut columns: Vec<(u32, u32)> = (0..count).map(|i| (u32::MAX, i as u32)).collect();
        while let (Some(&taker), Some(&giver)) = (poor.last(), rich.last()) {
            poor.pop();
            columns[taker] = ((share[taker] * 4_294_967_296.0) as u32, giver as u32);
            share[giver] -= 1.0 - share[taker];
            if share[giver] < 1.0 {
                rich.pop();
                poor.push(giver);
            }
        }
        Alias { probabilities: weights, columns }
    }

    /// The probability of each number.
    pub fn probabilities(&self) -> impl Iterator<Item = f64> + '_ {
        self.probabilities.iter().copied()
    }

    /// Draws a number. One draw gives column and share.
    pub fn draw(&self, random: &mut Stream) -> u32 {
        let bits = random.bits();
        let column = ((u128::from(bits >> 32) * self.columns.len() as u128) >> 32) as usize;
        let (own, other) = self.columns[column];
        if (bits as u32) < own { column as u32 } else { other }
    }
}
