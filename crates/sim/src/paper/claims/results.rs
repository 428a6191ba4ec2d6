//! Claims about throughput (sections 5.3 and 6, figures 5 to 8).

use super::{Claim, Finding, above, claim, meets};
use crate::arch::Kind::{self, CoAmped, Mp, Pipelined, Sped, ThreadPool};
use crate::paper::figures::title;
use crate::paper::{Figure, Figures};
use crate::run::{Bottleneck, Outcome};

const GIB: u64 = 1 << 30;
const NEVER_CONTENDED: &str = "by Table 3 the locks are held for 20 us of a request's 300 to 3,000 us of processor time, \
    so even 16 processors use them to a quarter; MT also switches less often than PIPELINED";
const BOUND_BY_PROCESSORS: &str = "with the locality of Table 5 and the costs of Table 3 the processors are the bottleneck, \
    and there AMPED, without locks and with few switches, is the cheapest per request";

/// The points of one experiment: throughput by architecture and number of processors.
struct Grid<'a> {
    points: Vec<&'a Outcome>,
}

impl Grid<'_> {
    fn at(&self, kind: Kind, processors: u32) -> Option<&Outcome> {
        let fits =
            |o: &&&Outcome| o.scenario.architecture == kind && o.scenario.processors == processors;
        self.points.iter().find(fits).copied()
    }

    fn rate(&self, kind: Kind, processors: u32) -> Option<f64> {
        Some(self.at(kind, processors)?.requests_per_s.mean)
    }

    /// How much more `a` does than `b` at best over all processor counts, in per cent, and where.
    fn best_gain(&self, a: Kind, b: Kind) -> Option<(f64, u32)> {
        let gains: Option<Vec<_>> = (1..=16)
            .map(|n| Some((above(self.rate(a, n)?, self.rate(b, n)?), n)))
            .collect();
        gains?.into_iter().max_by(|x, y| x.0.total_cmp(&y.0))
    }

    /// Processor counts of `range` at which `kind` is more than 1 % above everybody else.
    fn best_at(&self, kind: Kind, range: std::ops::RangeInclusive<u32>) -> Option<Vec<u32>> {
        let wins = |n: u32| {
            let own = self.rate(kind, n)?;
            let others = Kind::PAPER.into_iter().filter(|&other| other != kind);
            let rates: Option<Vec<_>> = others.map(|other| self.rate(other, n)).collect();
            Some(rates?.into_iter().all(|other| above(own, other) > 1.0))
        };
        let wins: Option<Vec<_>> = range.map(|n| Some((n, wins(n)?))).collect();
        Some(
            wins?
                .into_iter()
                .filter(|win| win.1)
                .map(|win| win.0)
                .collect(),
        )
    }

    /// `kind` is best at every count of `range`.
    fn is_best(&self, kind: Kind, range: std::ops::RangeInclusive<u32>) -> Finding {
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

    fn leader(&self, processors: u32) -> Option<(Kind, f64)> {
        let rates: Option<Vec<_>> = Kind::PAPER
            .iter()
            .map(|&kind| Some((kind, self.rate(kind, processors)?)))
            .collect();
        rates?.into_iter().max_by(|a, b| a.1.total_cmp(&b.1))
    }

    /// `kind` is never more than 1 % above the worst of the others.
    fn is_worst(&self, kind: Kind) -> Finding {
        let mut bad = Vec::new();
        for n in 1..=16 {
            let own = self.rate(kind, n)?;
            let others: Option<Vec<_>> = Kind::PAPER
                .iter()
                .filter(|&&other| other != kind)
                .map(|&other| self.rate(other, n))
                .collect();
            if above(own, others?.into_iter().fold(f64::INFINITY, f64::min)) > 1.0 {
                bad.push(n);
            }
        }
        let ratio = self.rate(kind, 16)? / self.rate(Pipelined, 16)?;
        let text = format!(
            "{:.0} % of PIPELINED at 16; not worst at {bad:?}",
            ratio * 100.0
        );
        Some((text, bad.is_empty()))
    }

    /// Where `kind` has its maximum, and how far it has fallen from there at 16 processors, in per cent.
    fn peak(&self, kind: Kind) -> Option<(u32, f64)> {
        let rates: Option<Vec<_>> = (1..=16).map(|n| Some((n, self.rate(kind, n)?))).collect();
        let (n, best) = rates?.into_iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
        Some((n, (1.0 - self.rate(kind, 16)? / best) * 100.0))
    }

    fn gain(&self, a: Kind, b: Kind, said: f64) -> Finding {
        let (gain, n) = self.best_gain(a, b)?;
        Some((format!("up to {gain:+.1} % (at {n})"), meets(gain, said)))
    }
}

pub(super) fn claims(figures: &Figures) -> Vec<Claim> {
    let mut claims = validation(figures);
    claims.extend(workloads(figures));
    claims.extend(memory(figures));
    claims.extend(clients(figures));
    claims
}

fn validation(figures: &Figures) -> Vec<Claim> {
    let mib = |kind: Kind, mib: u64| {
        let fits = move |s: &crate::scenario::Scenario| {
            s.architecture == kind && s.data_set_bytes == mib << 20
        };
        Some(figures.find(Figure::Fig5a, fits)?.megabits_per_s)
    };
    let clients = |kind: Kind, clients: u32| {
        let fits =
            move |s: &crate::scenario::Scenario| s.architecture == kind && s.clients == clients;
        Some(figures.find(Figure::Fig5b, fits)?.megabits_per_s)
    };
    let falls = |kind: Kind| Some(above(mib(kind, 150)?, mib(kind, 90)?));
    let fall = (|| {
        let falls = [
            falls(ThreadPool)?,
            falls(Sped)?,
            falls(CoAmped)?,
            falls(Pipelined)?,
        ];
        let text = format!(
            "150 against 90 MiB: MT {:+.1}, SPED {:+.1}, AMPED {:+.1}, PIPELINED {:+.1} %",
            falls[0], falls[1], falls[2], falls[3]
        );
        Some((text, falls.iter().all(|&fall| fall < -10.0)))
    })();
    let mp = (|| {
        let lower: Option<Vec<_>> = (2..=15)
            .map(|tens| {
                Some((
                    tens * 10,
                    above(mib(Mp, tens * 10)?, mib(CoAmped, tens * 10)?),
                ))
            })
            .collect();
        let lower: Vec<_> = lower?
            .into_iter()
            .filter(|point| point.1 < -1.0)
            .map(|point| point.0)
            .collect();
        Some((
            format!(
                "below AMPED at data sets of {lower:?} MiB; {:+.1} % at 150",
                above(mib(Mp, 150)?, mib(CoAmped, 150)?)
            ),
            !lower.is_empty(),
        ))
    })();
    let many = (|| {
        let drop = above(clients(Mp, 500)?, clients(Mp, 200)?);
        Some((format!("{drop:+.1} % from 200 to 500 clients"), drop < -1.0))
    })();
    let flat = (|| {
        let worst: Option<Vec<_>> = [ThreadPool, Sped, CoAmped, Pipelined]
            .into_iter()
            .map(|kind| Some(above(clients(kind, 500)?, clients(kind, 64)?)))
            .collect();
        let worst = worst?.into_iter().fold(f64::INFINITY, f64::min);
        Some((
            format!("at worst {worst:+.1} % from 64 to 500 clients"),
            worst > -5.0,
        ))
    })();
    vec![
        claim(
            "5.3",
            "bandwidth falls once the data set exceeds 100 MB (figure 5a)",
            fall,
            "the head of the workload stays in the cache: popularity is so skewed (fitted to 99.5 % locality at two thirds of the data) that the 33 % of the bytes that do not fit get few requests",
        ),
        claim(
            "5.3",
            "MP falls below the others when its cache is smaller than the data set (figure 5a)",
            mp,
            "",
        ),
        claim(
            "5.3",
            "with many clients the others hold their bandwidth (figure 5b)",
            flat,
            "",
        ),
        claim(
            "5.3",
            "MP's bandwidth drops slowly after 200 clients (figure 5b)",
            many,
            "the number of processes is fixed at 32, so further clients wait outside and cost nothing",
        ),
    ]
}

fn workloads(figures: &Figures) -> Vec<Claim> {
    let grid = |name: &'static str| Grid {
        points: figures
            .of(Figure::Fig6)
            .iter()
            .filter(|o| o.scenario.workload == name)
            .collect(),
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
        Some((
            format!("{pipelined:.2} against AMPED {amped:.2}, MP {mp:.2} %"),
            pipelined > amped && amped > mp,
        ))
    })();
    let sped_below_amped = (|| {
        let counts: Option<Vec<_>> = (1..=16)
            .map(|n| Some(above(cse.rate(Sped, n)?, cse.rate(CoAmped, n)?)))
            .collect();
        let worst = above(cse.rate(Sped, 16)?, cse.rate(CoAmped, 16)?);
        Some((
            format!("{worst:+.1} % at 16"),
            counts?.into_iter().all(|gain| gain < 0.0),
        ))
    })();
    let comparable =
        |grid: &Grid, a: Kind, b: Kind, range: std::ops::RangeInclusive<u32>| -> Finding {
            let gaps: Option<Vec<_>> = range
                .map(|n| Some(above(grid.rate(a, n)?, grid.rate(b, n)?)))
                .collect();
            let worst = gaps?
                .into_iter()
                .max_by(|x, y| x.abs().total_cmp(&y.abs()))?;
            Some((
                format!("differ by {worst:+.1} % at most"),
                worst.abs() <= 5.0,
            ))
        };
    let drops = |kind: Kind| -> Finding {
        let (n, fall) = psu.peak(kind)?;
        Some((
            format!("most at {n}, {fall:.0} % less at 16"),
            (7..=11).contains(&n) && fall > 10.0,
        ))
    };
    let mt_below = (|| {
        let gain = above(psu.rate(ThreadPool, 16)?, psu.rate(Pipelined, 16)?);
        Some((format!("MT {gain:+.1} % at 16"), gain < -1.0))
    })();
    let highest = (|| {
        let rate = |grid: &Grid| grid.rate(Pipelined, 16);
        let others = [
            rate(&cse)?,
            rate(&ucb)?,
            rate(&psu)?,
            rate(&clarknet)?,
            rate(&nasa)?,
        ];
        let own = rate(&world)?;
        let text = format!(
            "{own:.0}/s; the next {:.0}/s",
            others.iter().copied().fold(0.0, f64::max)
        );
        Some((text, others.iter().all(|&other| other < own)))
    })();
    let similar = |a: &Grid, b: &Grid| -> Finding {
        let (x, y) = (a.leader(16)?.0, b.leader(16)?.0);
        Some((format!("at 16 first {} and {}", title(x), title(y)), x == y))
    };
    let mut claims = vec![
        claim(
            "6.1",
            "CSE: PIPELINED up to 30 % above MT",
            cse.gain(Pipelined, ThreadPool, 30.0),
            NEVER_CONTENDED,
        ),
        claim(
            "6.1",
            "CSE: PIPELINED up to 30 % above SPED",
            cse.gain(Pipelined, Sped, 30.0),
            BOUND_BY_PROCESSORS,
        ),
        claim(
            "6.1",
            "CSE: PIPELINED up to 30 % above AMPED",
            cse.gain(Pipelined, CoAmped, 30.0),
            BOUND_BY_PROCESSORS,
        ),
        claim(
            "6.1",
            "CSE: the differences grow with processors",
            difference,
            BOUND_BY_PROCESSORS,
        ),
        claim("6.1", "CSE: PIPELINED has the higher hit ratio", hits, ""),
        claim("6.1", "CSE: SPED below AMPED", sped_below_amped, ""),
        claim(
            "6.1",
            "UCB: AMPED best up to 3 processors",
            ucb.is_best(CoAmped, 1..=3),
            "first at one processor by less than the 1 % of the rule; from two on the disk limits, and the copies of the structures cost AMPED hits",
        ),
        claim(
            "6.1",
            "UCB: PIPELINED best beyond 3 processors",
            ucb.is_best(Pipelined, 4..=16),
            "the one disk limits both; MT, with the same cache, is level",
        ),
        claim(
            "6.1",
            "UCB: PIPELINED noticeably above SPED and AMPED at 16",
            (|| {
                let (a, b) = (
                    above(ucb.rate(Pipelined, 16)?, ucb.rate(CoAmped, 16)?),
                    above(ucb.rate(Pipelined, 16)?, ucb.rate(Sped, 16)?),
                );
                Some((
                    format!("{a:+.0} % against AMPED, {b:+.0} % against SPED"),
                    a > 10.0 && b > 10.0,
                ))
            })(),
            "",
        ),
        claim(
            "6.1",
            "PSU: PIPELINED best beyond 8 processors",
            psu.is_best(Pipelined, 9..=16),
            BOUND_BY_PROCESSORS,
        ),
        claim(
            "6.1",
            "PSU: SPED comparable to PIPELINED up to 8",
            comparable(&psu, Sped, Pipelined, 1..=8),
            "SPED stalls for each miss, which grow with its processes",
        ),
        claim(
            "6.1",
            "PSU: AMPED comparable to PIPELINED up to 8",
            comparable(&psu, CoAmped, Pipelined, 1..=8),
            "",
        ),
        claim(
            "6.1",
            "PSU: SPED drops beyond 9 processors",
            drops(Sped),
            BOUND_BY_PROCESSORS,
        ),
        claim(
            "6.1",
            "PSU: AMPED drops beyond 9 processors",
            drops(CoAmped),
            BOUND_BY_PROCESSORS,
        ),
        claim("6.1", "PSU: MT below PIPELINED", mt_below, NEVER_CONTENDED),
        claim(
            "6.1",
            "WorldCup98: MT level with PIPELINED",
            comparable(&world, ThreadPool, Pipelined, 1..=16),
            "",
        ),
        claim(
            "6.1",
            "WorldCup98: the highest throughput of all workloads",
            highest,
            "",
        ),
        claim("6.1", "ClarkNet like PSU", similar(&clarknet, &psu), ""),
        claim("6.1", "NASA like WorldCup98", similar(&nasa, &world), ""),
    ];
    for (says, grid) in [
        ("CSE: MP worst", &cse),
        ("UCB: MP worst", &ucb),
        ("PSU: MP worst", &psu),
        ("ClarkNet: MP worst", &clarknet),
        ("NASA: MP worst", &nasa),
        ("WorldCup98: MP worst", &world),
    ] {
        claims.push(claim(
            "6.1",
            says,
            grid.is_worst(Mp),
            "with few processors MP is limited by them and pays neither for locks nor for stalls",
        ));
    }
    claims
}

fn memory(figures: &Figures) -> Vec<Claim> {
    let grid = |gibibytes: u64| {
        let (figure, workload) = if gibibytes == 4 {
            (Figure::Fig6, "cse")
        } else {
            (Figure::Fig7, "cse")
        };
        let fits = |o: &&Outcome| {
            o.scenario.workload == workload && o.scenario.system_memory_bytes == gibibytes * GIB
        };
        Grid {
            points: figures.of(figure).iter().filter(fits).collect(),
        }
    };
    let (one, two, three, four) = (grid(1), grid(2), grid(3), grid(4));
    let disk_bound = (|| {
        let bound: Option<Vec<_>> = Kind::PAPER
            .iter()
            .map(|&kind| Some((kind, one.at(kind, 16)?.bottleneck == Bottleneck::Disk)))
            .collect();
        let bound = bound?;
        let names: Vec<_> = bound
            .iter()
            .filter(|point| point.1)
            .map(|point| title(point.0))
            .collect();
        Some((format!("at 16: {}", names.join(", ")), names.len() == 5))
    })();
    let flat = |kind: Kind| -> Finding {
        let gain = above(one.rate(kind, 16)?, one.rate(kind, 5)?);
        Some((format!("{gain:+.0} % from 5 to 16"), gain.abs() < 10.0))
    };
    let peak_at_5 = |kind: Kind| -> Finding {
        let (n, fall) = one.peak(kind)?;
        Some((
            format!("most at {n}, {fall:.0} % less at 16"),
            (4..=6).contains(&n) && fall > 1.0,
        ))
    };
    let evident = |kind: Kind| -> Finding {
        let gain = |grid: &Grid| Some(grid.rate(Pipelined, 16)? - grid.rate(kind, 16)?);
        let (a, b, c) = (gain(&one)?, gain(&two)?, gain(&three)?);
        Some((
            format!("{a:+.0}, {b:+.0}, {c:+.0} requests/s at 16 with 1, 2, 3 GiB"),
            a < b && b < c && c > 0.0,
        ))
    };
    let beyond_12 = |kind: Kind| -> Finding {
        let bound: Option<Vec<_>> = (1..=16)
            .map(|n| Some((n, three.at(kind, n)?.bottleneck == Bottleneck::Disk)))
            .collect();
        let bound: Vec<_> = bound?
            .into_iter()
            .filter(|point| point.1)
            .map(|point| point.0)
            .collect();
        Some((
            format!("at {bound:?}"),
            bound.first().is_some_and(|n| (12..=14).contains(n)),
        ))
    };
    let free = (|| {
        let others: Option<Vec<_>> = [ThreadPool, Sped, CoAmped, Pipelined]
            .into_iter()
            .map(|kind| Some(four.at(kind, 16)?.disk_utilisation))
            .collect();
        let mp = four.at(Mp, 16)?.disk_utilisation;
        let most = others?.into_iter().fold(0.0, f64::max);
        Some((
            format!(
                "disk busy {:.0} % at most; MP {:.0} %",
                most * 100.0,
                mp * 100.0
            ),
            most < 0.9 && mp > 0.9,
        ))
    })();
    vec![
        claim(
            "6.2",
            "CSE, 1 GB: all are bounded by the disk",
            disk_bound,
            BOUND_BY_PROCESSORS,
        ),
        claim(
            "6.2",
            "CSE, 1 GB: PIPELINED best",
            one.is_best(Pipelined, 2..=16),
            NEVER_CONTENDED,
        ),
        claim(
            "6.2",
            "CSE, 1 GB: MP worst",
            one.is_worst(Mp),
            "with one processor it is limited by it like the others",
        ),
        claim(
            "6.2",
            "CSE, 1 GB: SPED rises to 5 processors and falls after",
            peak_at_5(Sped),
            BOUND_BY_PROCESSORS,
        ),
        claim(
            "6.2",
            "CSE, 1 GB: AMPED rises to 5 processors and falls after",
            peak_at_5(CoAmped),
            BOUND_BY_PROCESSORS,
        ),
        claim(
            "6.2",
            "CSE, 1 GB: MT stable",
            flat(ThreadPool),
            "it still scales: not yet bounded by the disk",
        ),
        claim(
            "6.2",
            "CSE, 1 GB: PIPELINED stable",
            flat(Pipelined),
            "it still scales: not yet bounded by the disk",
        ),
        claim(
            "6.2",
            "PIPELINED's lead over AMPED grows from 1 to 3 GB",
            evident(CoAmped),
            BOUND_BY_PROCESSORS,
        ),
        claim(
            "6.2",
            "PIPELINED's lead over SPED grows from 1 to 3 GB",
            evident(Sped),
            BOUND_BY_PROCESSORS,
        ),
        claim(
            "6.2",
            "CSE, 3 GB: the disk bounds SPED beyond 12 processors",
            beyond_12(Sped),
            BOUND_BY_PROCESSORS,
        ),
        claim(
            "6.2",
            "CSE, 3 GB: the disk bounds AMPED beyond 12 processors",
            beyond_12(CoAmped),
            BOUND_BY_PROCESSORS,
        ),
        claim("6.2", "CSE, 4 GB: the disk bounds none but MP", free, ""),
        claim(
            "6.2",
            "CSE, 4 GB: PIPELINED 32 % above MT",
            four.gain(Pipelined, ThreadPool, 32.0),
            NEVER_CONTENDED,
        ),
    ]
}

fn clients(figures: &Figures) -> Vec<Claim> {
    let grid = |clients: u32| Grid {
        points: figures
            .of(Figure::Fig8)
            .iter()
            .filter(|o| o.scenario.clients == clients)
            .collect(),
    };
    let (few, some, more, many) = (grid(500), grid(1_500), grid(2_000), grid(2_500));
    let waited = (|| {
        let waited = |grid: &Grid| Some(grid.at(ThreadPool, 16)?.lock_waited_us);
        let (a, b) = (waited(&few)?, waited(&many)?);
        Some((
            format!(
                "{a:.1} us a request with 500, {b:.1} us with 2,500: {:+.0} %",
                above(b, a)
            ),
            meets(above(b, a), 20.0),
        ))
    })();
    let leading = (|| {
        let (first, rate) = few.leader(16)?;
        let (p, t) = (few.rate(Pipelined, 16)?, few.rate(ThreadPool, 16)?);
        let text = format!(
            "at 16 first {}; PIPELINED {:+.1}, MT {:+.1} % against it",
            title(first),
            above(p, rate),
            above(t, rate)
        );
        Some((
            text,
            above(p, rate) > -1.0 && above(t, rate) > -12.0 && first == Pipelined,
        ))
    })();
    let widening = (|| {
        let gain = |grid: &Grid| Some(grid.best_gain(Pipelined, ThreadPool)?.0);
        let gains = [gain(&few)?, gain(&some)?, gain(&more)?, gain(&many)?];
        let text = format!(
            "{:+.1}, {:+.1}, {:+.1}, {:+.1} %",
            gains[0], gains[1], gains[2], gains[3]
        );
        Some((text, gains.windows(2).all(|pair| pair[1] > pair[0])))
    })();
    vec![
        claim(
            "6.3",
            "500 clients: PIPELINED first, MT next",
            leading,
            BOUND_BY_PROCESSORS,
        ),
        claim(
            "6.3",
            "500 clients: PIPELINED up to 12 % above MT",
            few.gain(Pipelined, ThreadPool, 12.0),
            NEVER_CONTENDED,
        ),
        claim(
            "6.3",
            "figure 8c (taken as 2,000 clients): 18 % above MT",
            more.gain(Pipelined, ThreadPool, 18.0),
            NEVER_CONTENDED,
        ),
        claim(
            "6.3",
            "figure 8d (2,500 clients): 26 % above MT",
            many.gain(Pipelined, ThreadPool, 26.0),
            NEVER_CONTENDED,
        ),
        claim(
            "6.3",
            "the lead over MT grows with clients",
            widening,
            NEVER_CONTENDED,
        ),
        claim(
            "6.3",
            "MT's time at locks grows by 20 % from 500 to 2,500 clients",
            waited,
            "at most 64 threads a processor serve at once; 1,024 of them compete, however many clients wait outside",
        ),
        claim(
            "6.3",
            "500 clients: MP worst",
            few.is_worst(Mp),
            "with few processors it is limited by them like the others",
        ),
        claim(
            "6.3",
            "1,500 clients: MP worst",
            some.is_worst(Mp),
            "with few processors it is limited by them like the others",
        ),
        claim(
            "6.3",
            "2,500 clients: MP worst",
            many.is_worst(Mp),
            "with few processors it is limited by them like the others",
        ),
    ]
}
