//! Questions about one experiment: which architecture is best, where, by how much. And the reasons that several claims
//! fail for.

use super::{Finding, above, meets};
use crate::arch::Kind::{self, Pipelined};
use crate::paper::figures::title;
use crate::run::Outcome;

pub(super) const LOCKS: &str = "both use the same two locks for the same 20 us a request; MT pays for more switches there while the processors are \
    busy, and nothing once the disk limits, since both have the same cache";
pub(super) const DISK: &str = "a request costs 0.15 ms of one of the processors and a miss 3 to 4 ms of the only disk, so few misses in a \
    hundred make the disk the limit at fewer processors than in the paper; then hits decide, and the copies of \
    the structures cost AMPED and SPED theirs";
pub(super) const LEVEL: &str = "the disk limits, and MT has the same cache: both are level";
pub(super) const ONE: &str = "with one or two processors they, not the disk, limit MP, which pays for no locks and stalls for no misses; \
    SPED stalls";

/// The points of one experiment: throughput by architecture and number of processors.
pub(super) struct Grid<'a> {
    pub(super) points: Vec<&'a Outcome>,
}

impl Grid<'_> {
    pub(super) fn at(&self, kind: Kind, processors: u32) -> Option<&Outcome> {
        let fits = |o: &&&Outcome| o.scenario.architecture == kind && o.scenario.processors == processors;
        self.points.iter().find(fits).copied()
    }

    pub(super) fn rate(&self, kind: Kind, processors: u32) -> Option<f64> {
        Some(self.at(kind, processors)?.requests_per_s.mean)
    }

    /// How much more `a` does than `b` at best over all processor counts, in per cent, and where.
    pub(super) fn best_gain(&self, a: Kind, b: Kind) -> Option<(f64, u32)> {
        let gains: Option<Vec<_>> = (1..=16).map(|n| Some((above(self.rate(a, n)?, self.rate(b, n)?), n))).collect();
        gains?.into_iter().max_by(|x, y| x.0.total_cmp(&y.0))
    }

    /// Processor counts of `range` at which `kind` is more than 1 % above everybody else.
    pub(super) fn best_at(&self, kind: Kind, range: std::ops::RangeInclusive<u32>) -> Option<Vec<u32>> {
        let wins = |n: u32| {
            let own = self.rate(kind, n)?;
            let others = Kind::PAPER.into_iter().filter(|&other| other != kind);
            let rates: Option<Vec<_>> = others.map(|other| self.rate(other, n)).collect();
            Some(rates?.into_iter().all(|other| above(own, other) > 1.0))
        };
        let wins: Option<Vec<_>> = range.map(|n| Some((n, wins(n)?))).collect();
        Some(wins?.into_iter().filter(|win| win.1).map(|win| win.0).collect())
    }

    /// `kind` is best at every count of `range`.
    pub(super) fn is_best(&self, kind: Kind, range: std::ops::RangeInclusive<u32>) -> Finding {
        let count = range.clone().count();
        let wins = self.best_at(kind, range.clone())?;
        let (best, rate) = self.leader(*range.end())?;
        let own = above(self.rate(kind, *range.end())?, rate);
        let text = format!(
            "best at {} of {count} counts; at {}: {own:+.1} % against {}",
            wins.len(),
            range.end(),
            title(best)
        );
        Some((text, wins.len() == count))
    }

    pub(super) fn leader(&self, processors: u32) -> Option<(Kind, f64)> {
        let rates: Option<Vec<_>> =
            Kind::PAPER.iter().map(|&kind| Some((kind, self.rate(kind, processors)?))).collect();
        rates?.into_iter().max_by(|a, b| a.1.total_cmp(&b.1))
    }

    /// `kind` is never more than 1 % above the worst of the others.
    pub(super) fn is_worst(&self, kind: Kind) -> Finding {
        let mut bad = Vec::new();
        for n in 1..=16 {
            let own = self.rate(kind, n)?;
            let others: Option<Vec<_>> =
                Kind::PAPER.iter().filter(|&&other| other != kind).map(|&other| self.rate(other, n)).collect();
            if above(own, others?.into_iter().fold(f64::INFINITY, f64::min)) > 1.0 {
                bad.push(n);
            }
        }
        let ratio = self.rate(kind, 16)? / self.rate(Pipelined, 16)?;
        let text = format!("{:.0} % of PIPELINED at 16; not worst at {bad:?}", ratio * 100.0);
        Some((text, bad.is_empty()))
    }

    /// Where `kind` has its maximum, and how far it has fallen from there at 16 processors, in per cent.
    pub(super) fn peak(&self, kind: Kind) -> Option<(u32, f64)> {
        let rates: Option<Vec<_>> = (1..=16).map(|n| Some((n, self.rate(kind, n)?))).collect();
        let (n, best) = rates?.into_iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
        Some((n, (1.0 - self.rate(kind, 16)? / best) * 100.0))
    }

    pub(super) fn gain(&self, a: Kind, b: Kind, said: f64) -> Finding {
        let (gain, n) = self.best_gain(a, b)?;
        Some((format!("up to {gain:+.1} % (at {n})"), meets(gain, said)))
    }
}
