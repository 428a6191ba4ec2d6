//! Claims about the size of memory (section 6.2, figure 7).

use super::grid::{DISK, Grid, LEVEL, LOCKS, ONE};
use super::{Claim, Finding, above, claim};
use crate::arch::Kind::{self, CoAmped, Mp, Pipelined, Sped, ThreadPool};
use crate::paper::figures::title;
use crate::paper::{Figure, Figures};
use crate::run::{Bottleneck, Outcome};

const GIB: u64 = 1 << 30;

pub(super) fn claims(figures: &Figures) -> Vec<Claim> {
    let grid = |gibibytes: u64| {
        let (figure, workload) = if gibibytes == 4 { (Figure::Fig6, "cse") } else { (Figure::Fig7, "cse") };
        let fits = |o: &&Outcome| o.scenario.workload == workload && o.scenario.system_memory_bytes == gibibytes * GIB;
        Grid { points: figures.of(figure).iter().filter(fits).collect() }
    };
    let (one, two, three, four) = (grid(1), grid(2), grid(3), grid(4));
    let disk_bound = (|| {
        let bound: Option<Vec<_>> =
            Kind::PAPER.iter().map(|&kind| Some((kind, one.at(kind, 16)?.bottleneck == Bottleneck::Disk))).collect();
        let bound = bound?;
        let names: Vec<_> = bound.iter().filter(|point| point.1).map(|point| title(point.0)).collect();
        Some((format!("at 16: {}", names.join(", ")), names.len() == 5))
    })();
    let flat = |kind: Kind| -> Finding {
        let gain = above(one.rate(kind, 16)?, one.rate(kind, 5)?);
        Some((format!("{gain:+.0} % from 5 to 16"), gain.abs() < 10.0))
    };
    let peak_at_5 = |kind: Kind| -> Finding {
        let (n, fall) = one.peak(kind)?;
        Some((format!("most at {n}, {fall:.0} % less at 16"), (4..=6).contains(&n) && fall > 1.0))
    };
    let evident = |kind: Kind| -> Finding {
        let gain = |grid: &Grid| Some(grid.rate(Pipelined, 16)? - grid.rate(kind, 16)?);
        let (a, b, c) = (gain(&one)?, gain(&two)?, gain(&three)?);
        Some((format!("{a:+.0}, {b:+.0}, {c:+.0} requests/s at 16 with 1, 2, 3 GiB"), a < b && b < c && c > 0.0))
    };
    let beyond_12 = |kind: Kind| -> Finding {
        let bound: Option<Vec<_>> =
            (1..=16).map(|n| Some((n, three.at(kind, n)?.bottleneck == Bottleneck::Disk))).collect();
        let bound: Vec<_> = bound?.into_iter().filter(|point| point.1).map(|point| point.0).collect();
        Some((format!("at {bound:?}"), bound.first().is_some_and(|n| (12..=14).contains(n))))
    };
    let free = (|| {
        let others: Option<Vec<_>> = [ThreadPool, Sped, CoAmped, Pipelined]
            .into_iter()
            .map(|kind| Some(four.at(kind, 16)?.disk_utilisation))
            .collect();
        let mp = four.at(Mp, 16)?.disk_utilisation;
        let most = others?.into_iter().fold(0.0, f64::max);
        Some((format!("disk busy {:.0} % at most; MP {:.0} %", most * 100.0, mp * 100.0), most < 0.9 && mp > 0.9))
    })();
    vec![
        claim("6.2", "CSE, 1 GB: all are bounded by the disk", disk_bound, DISK),
        claim("6.2", "CSE, 1 GB: PIPELINED best", one.is_best(Pipelined, 2..=16), LEVEL),
        claim("6.2", "CSE, 1 GB: MP worst", one.is_worst(Mp), ONE),
        claim("6.2", "CSE, 1 GB: SPED rises to 5 processors and falls after", peak_at_5(Sped), DISK),
        claim("6.2", "CSE, 1 GB: AMPED rises to 5 processors and falls after", peak_at_5(CoAmped), DISK),
        claim("6.2", "CSE, 1 GB: MT stable", flat(ThreadPool), DISK),
        claim("6.2", "CSE, 1 GB: PIPELINED stable", flat(Pipelined), DISK),
        claim("6.2", "PIPELINED's lead over AMPED grows from 1 to 3 GB", evident(CoAmped), DISK),
        claim("6.2", "PIPELINED's lead over SPED grows from 1 to 3 GB", evident(Sped), DISK),
        claim("6.2", "CSE, 3 GB: the disk bounds SPED beyond 12 processors", beyond_12(Sped), DISK),
        claim("6.2", "CSE, 3 GB: the disk bounds AMPED beyond 12 processors", beyond_12(CoAmped), DISK),
        claim("6.2", "CSE, 4 GB: the disk bounds none but MP", free, DISK),
        claim("6.2", "CSE, 4 GB: PIPELINED 32 % above MT", four.gain(Pipelined, ThreadPool, 32.0), LOCKS),
    ]
}
