//! Claims about the number of clients (section 6.3, figure 8).

use super::grid::{DISK, Grid, LOCKS, ONE};
use super::{Claim, above, claim, meets};
use crate::arch::Kind::{Mp, Pipelined, ThreadPool};
use crate::paper::figures::title;
use crate::paper::{Figure, Figures};

pub(super) fn claims(figures: &Figures) -> Vec<Claim> {
    let grid = |clients: u32| Grid {
        points: figures.of(Figure::Fig8).iter().filter(|o| o.scenario.clients == clients).collect(),
    };
    let (few, some, more, many) = (grid(500), grid(1_500), grid(2_000), grid(2_500));
    let waited = (|| {
        let waited = |grid: &Grid| Some(grid.at(ThreadPool, 16)?.lock_waited_us);
        let (a, b) = (waited(&few)?, waited(&many)?);
        Some((
            format!("{a:.1} us a request with 500, {b:.1} us with 2,500: {:+.0} %", above(b, a)),
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
        Some((text, above(p, rate) > -1.0 && above(t, rate) > -12.0 && first == Pipelined))
    })();
    let widening = (|| {
        let gain = |grid: &Grid| Some(grid.best_gain(Pipelined, ThreadPool)?.0);
        let gains = [gain(&few)?, gain(&some)?, gain(&more)?, gain(&many)?];
        let text = format!("{:+.1}, {:+.1}, {:+.1}, {:+.1} %", gains[0], gains[1], gains[2], gains[3]);
        Some((text, gains.windows(2).all(|pair| pair[1] > pair[0])))
    })();
    vec![
        claim("6.3", "500 clients: PIPELINED first, MT next", leading, DISK),
        claim("6.3", "500 clients: PIPELINED up to 12 % above MT", few.gain(Pipelined, ThreadPool, 12.0), LOCKS),
        claim(
            "6.3",
            "figure 8c (taken as 2,000 clients): 18 % above MT",
            more.gain(Pipelined, ThreadPool, 18.0),
            LOCKS,
        ),
        claim("6.3", "figure 8d (2,500 clients): 26 % above MT", many.gain(Pipelined, ThreadPool, 26.0), LOCKS),
        claim("6.3", "the lead over MT grows with clients", widening, LOCKS),
        claim(
            "6.3",
            "MT's time at locks grows by 20 % from 500 to 2,500 clients",
            waited,
            "the disk limits at this size of memory, so the processors and the locks are idle most of the time, and at most 1,024 threads compete, however many clients wait outside",
        ),
        claim("6.3", "500 clients: MP worst", few.is_worst(Mp), ONE),
        claim("6.3", "1,500 clients: MP worst", some.is_worst(Mp), ONE),
        claim("6.3", "2,500 clients: MP worst", many.is_worst(Mp), ONE),
    ]
}
