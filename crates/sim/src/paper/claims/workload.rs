//! Claims about the six workloads (section 6.1, figure 6).

use super::grid::{DISK, Grid, LEVEL, LOCKS, ONE};
use super::{Claim, Finding, above, claim};
use crate::arch::Kind::{self, CoAmped, Mp, Pipelined, Sped, ThreadPool};
use crate::paper::figures::title;
use crate::paper::{Figure, Figures};

pub(super) fn claims(figures: &Figures) -> Vec<Claim> {
    let grid = |name: &'static str| Grid {
        points: figures.of(Figure::Fig6).iter().filter(|o| o.scenario.workload == name).collect(),
    };
    let (cse, ucb, psu, world) = (grid("cse"), grid("ucb"), grid("psu"), grid("worldcup98"));
    let (clarknet, nasa) = (grid("clarknet"), grid("nasa"));
    let grows = |other: Kind| {
        let gain = |n| Some(above(cse.rate(Pipelined, n)?, cse.rate(other, n)?));
        Some((gain(4)?, gain(16)?))
    };
    let difference = (|| {
        let gains = [grows(ThreadPool)?, grows(Sped)?, grows(CoAmped)?];
        let text = format!(
            "at 4 and 16: MT {:+.1} {:+.1}, SPED {:+.1} {:+.1}, AMPED {:+.1} {:+.1} %",
            gains[0].0, gains[0].1, gains[1].0, gains[1].1, gains[2].0, gains[2].1
        );
        Some((text, gains.iter().all(|gain| gain.1 > gain.0 + 1.0)))
    })();
    let hits = (|| {
        let hit = |kind| Some(cse.at(kind, 16)?.hit_ratio * 100.0);
        let (pipelined, amped, mp) = (hit(Pipelined)?, hit(CoAmped)?, hit(Mp)?);
        Some((format!("{pipelined:.2} against AMPED {amped:.2}, MP {mp:.2} %"), pipelined > amped && amped > mp))
    })();
    let sped_below_amped = (|| {
        let counts: Option<Vec<_>> = (1..=16).map(|n| Some(above(cse.rate(Sped, n)?, cse.rate(CoAmped, n)?))).collect();
        let worst = above(cse.rate(Sped, 16)?, cse.rate(CoAmped, 16)?);
        Some((format!("{worst:+.1} % at 16"), counts?.into_iter().all(|gain| gain < 0.0)))
    })();
    let comparable = |grid: &Grid, a: Kind, b: Kind, range: std::ops::RangeInclusive<u32>| -> Finding {
        let gaps: Option<Vec<_>> = range.map(|n| Some(above(grid.rate(a, n)?, grid.rate(b, n)?))).collect();
        let worst = gaps?.into_iter().max_by(|x, y| x.abs().total_cmp(&y.abs()))?;
        Some((format!("differ by {worst:+.1} % at most"), worst.abs() <= 5.0))
    };
    let drops = |kind: Kind| -> Finding {
        let (n, fall) = psu.peak(kind)?;
        Some((format!("most at {n}, {fall:.0} % less at 16"), (7..=11).contains(&n) && fall > 10.0))
    };
    let mt_below = (|| {
        let gain = above(psu.rate(ThreadPool, 16)?, psu.rate(Pipelined, 16)?);
        Some((format!("MT {gain:+.1} % at 16"), gain < -1.0))
    })();
    let highest = (|| {
        let rate = |grid: &Grid| grid.rate(Pipelined, 16);
        let others = [rate(&cse)?, rate(&ucb)?, rate(&psu)?, rate(&clarknet)?, rate(&nasa)?];
        let own = rate(&world)?;
        let text = format!("{own:.0}/s; the next {:.0}/s", others.iter().copied().fold(0.0, f64::max));
        Some((text, others.iter().all(|&other| other < own)))
    })();
    let similar = |a: &Grid, b: &Grid| -> Finding {
        let (x, y) = (a.leader(16)?.0, b.leader(16)?.0);
        Some((format!("at 16 first {} and {}", title(x), title(y)), x == y))
    };
    let mut claims = vec![
        claim("6.1", "CSE: PIPELINED up to 30 % above MT", cse.gain(Pipelined, ThreadPool, 30.0), LOCKS),
        claim("6.1", "CSE: PIPELINED up to 30 % above SPED", cse.gain(Pipelined, Sped, 30.0), DISK),
        claim("6.1", "CSE: PIPELINED up to 30 % above AMPED", cse.gain(Pipelined, CoAmped, 30.0), DISK),
        claim("6.1", "CSE: the differences grow with processors", difference, DISK),
        claim("6.1", "CSE: PIPELINED has the higher hit ratio", hits, ""),
        claim(
            "6.1",
            "CSE: SPED below AMPED",
            sped_below_amped,
            "where the disk limits both are equal: a loop that stalls costs nothing if everybody waits for the disk",
        ),
        claim(
            "6.1",
            "UCB: AMPED best up to 3 processors",
            ucb.is_best(CoAmped, 1..=3),
            "at one processor all but MP and SPED are within 2 %; from two on the disk limits, and the copies of the structures cost AMPED hits",
        ),
        claim("6.1", "UCB: PIPELINED best beyond 3 processors", ucb.is_best(Pipelined, 4..=16), LEVEL),
        claim(
            "6.1",
            "UCB: PIPELINED noticeably above SPED and AMPED at 16",
            (|| {
                let (a, b) = (
                    above(ucb.rate(Pipelined, 16)?, ucb.rate(CoAmped, 16)?),
                    above(ucb.rate(Pipelined, 16)?, ucb.rate(Sped, 16)?),
                );
                Some((format!("{a:+.0} % against AMPED, {b:+.0} % against SPED"), a > 10.0 && b > 10.0))
            })(),
            "",
        ),
        claim("6.1", "PSU: PIPELINED best beyond 8 processors", psu.is_best(Pipelined, 9..=16), DISK),
        claim("6.1", "PSU: SPED comparable to PIPELINED up to 8", comparable(&psu, Sped, Pipelined, 1..=8), DISK),
        claim("6.1", "PSU: AMPED comparable to PIPELINED up to 8", comparable(&psu, CoAmped, Pipelined, 1..=8), DISK),
        claim("6.1", "PSU: SPED drops beyond 9 processors", drops(Sped), DISK),
        claim("6.1", "PSU: AMPED drops beyond 9 processors", drops(CoAmped), DISK),
        claim(
            "6.1",
            "PSU: MT below PIPELINED",
            mt_below,
            "both are at the edge where the disk begins to limit: PIPELINED has come to wait there, MT, slower at its locks, has not filled the disk's queue within the warm-up",
        ),
        claim("6.1", "WorldCup98: MT level with PIPELINED", comparable(&world, ThreadPool, Pipelined, 1..=16), LOCKS),
        claim(
            "6.1",
            "WorldCup98: the highest throughput of all workloads",
            highest,
            "the lock of the data cache limits at 1 / 13.5 us = 74,074 requests/s, and other workloads reach that too",
        ),
        claim("6.1", "ClarkNet like PSU", similar(&clarknet, &psu), "ClarkNet is limited by the lock, PSU by the disk"),
        claim("6.1", "NASA like WorldCup98", similar(&nasa, &world), "their leaders are close together"),
    ];
    for (says, grid) in [
        ("CSE: MP worst", &cse),
        ("UCB: MP worst", &ucb),
        ("PSU: MP worst", &psu),
        ("ClarkNet: MP worst", &clarknet),
        ("NASA: MP worst", &nasa),
        ("WorldCup98: MP worst", &world),
    ] {
        claims.push(claim("6.1", says, grid.is_worst(Mp), ONE));
    }
    claims
}
