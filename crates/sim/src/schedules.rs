//! The effect of the order of service: one bottleneck, turn by turn, under an open load of a mix of sizes.
//!
//! Owns: the experiment. The order is that of `lamna_policy::schedule`, the code that serves. Requests arrive by a
//! Poisson process, so many for each of the bottleneck's capacity, whether or not others are finished: in a closed loop
//! a slow answer would hold back the next request, and every order would look alike. Every schedule meets the same
//! arrivals.
//!
//! The bottleneck is a link that sends one turn after the other (the queue is in the server, as with
//! `TCP_NOTSENT_LOWAT`), or a disk that reads as many pieces at once as it has places. A turn that has begun ends.
//! Nothing else costs anything: what else a server does adds to every order alike.

use lamna_policy::schedule::{Priority, Queue, Schedule, WaiterId};
use lamna_policy::stats::{Histogram, Moments};
use lamna_policy::words::{Align, Table};

use crate::kernel::{Calendar, Nanos, Stream};
use crate::parameters::DiskParameters;
use crate::resource::{Disk, Link};

/// Requests of one size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Class {
    /// Bytes of the content.
    pub bytes: u64,
    /// Share of all requests.
    pub share: f64,
}

/// The mix of WebSTONE: Table 1 of *JAWS over ATM* (1997).
pub const WEBSTONE: [Class; 4] = [
    Class { bytes: 500, share: 0.35 },
    Class { bytes: 5_000, share: 0.50 },
    Class { bytes: 50_000, share: 0.14 },
    Class { bytes: 5_000_000, share: 0.01 },
];

/// The bottleneck.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Bottleneck {
    /// The link, of so many bits a second.
    Link(f64),
    /// The disk. Nothing is in memory.
    Disk(DiskParameters),
}

impl Bottleneck {
    /// As in results.
    pub fn name(&self) -> &'static str {
        match self {
            Bottleneck::Link(_) => "link",
            Bottleneck::Disk(_) => "disk",
        }
    }

    /// Mean time that one turn of `bytes` takes of it.
    fn cost(&self, bytes: u64) -> Nanos {
        let us = match self {
            Bottleneck::Link(bits_per_s) => bytes as f64 * 8e6 / bits_per_s,
            Bottleneck::Disk(disk) => disk.latency_us + bytes as f64 * 1e6 / disk.bytes_per_s,
        };
        (us * 1e3) as Nanos
    }

    /// Mean time that all of `bytes` takes of it, in turns of `turn_bytes`.
    fn cost_of_all(&self, bytes: u64, turn_bytes: u64) -> Nanos {
        let rest = bytes % turn_bytes;
        let whole = bytes / turn_bytes * self.cost(turn_bytes);
        if rest > 0 || bytes == 0 { whole + self.cost(rest) } else { whole }
    }

    /// Requests of `classes` that it can do in a second.
    fn capacity(&self, classes: &[Class], turn_bytes: u64) -> f64 {
        let mean =
            |value: &dyn Fn(u64) -> f64| classes.iter().map(|class| class.share * value(class.bytes)).sum::<f64>();
        let one_by_one = 1e9 / mean(&|bytes| self.cost_of_all(bytes, turn_bytes) as f64);
        match self {
            Bottleneck::Link(_) => one_by_one,
            Bottleneck::Disk(disk) => {
                let transfers = disk.bytes_per_s / mean(&|bytes| bytes as f64);
                (one_by_one * f64::from(disk.parallelism)).min(transfers)
            }
        }
    }
}

/// One experiment.
#[derive(Clone, Debug)]
pub struct Question {
    /// The bottleneck.
    pub bottleneck: Bottleneck,
    /// Sizes; shares add up to one.
    pub classes: Vec<Class>,
    /// Offered load, as a share of the capacity. Below 1.
    pub load: f64,
    /// Most bytes of a request in one turn. Positive.
    pub turn_bytes: u64,
    /// Choices after which one that waits is overdue.
    pub patience: u32,
    /// Requests counted, after a tenth as many to warm up.
    pub requests: u64,
    /// Seed of the arrivals.
    pub seed: u64,
}

/// The outcome of one size.
#[derive(Clone, Debug)]
pub struct ClassOutcome {
    /// Bytes of the content; `None` for all together.
    pub bytes: Option<u64>,
    /// Requests counted.
    pub requests: u64,
    /// From arrival to the end of the last turn, in nanoseconds.
    pub mean: f64,
    /// The same, half of them.
    pub p50: Nanos,
    /// The same, 99 of 100.
    pub p99: Nanos,
}

/// The outcome of one schedule.
#[derive(Clone, Debug)]
pub struct ScheduleOutcome {
    /// The order of service.
    pub schedule: Schedule,
    /// All requests first, then by class.
    pub classes: Vec<ClassOutcome>,
    /// The most turns of others between two of one that waited.
    pub waited_most: u64,
    /// Share of time that the bottleneck had something to do, over its places.
    pub utilisation: f64,
}

/// Serves the same arrivals in each order.
pub fn schedules(question: &Question) -> Vec<ScheduleOutcome> {
    Schedule::ALL.map(|schedule| Server::new(question, schedule).run()).into()
}

/// As CSV. Latencies in milliseconds.
pub fn schedules_csv(question: &Question, outcomes: &[ScheduleOutcome]) -> String {
    let mut text = String::from(
        "bottleneck,load,turn_bytes,patience,schedule,bytes,requests,mean_ms,p50_ms,p99_ms,waited_most_turns\n",
    );
    for outcome in outcomes {
        for class in &outcome.classes {
            let size = class.bytes.map_or("all".to_owned(), |bytes| bytes.to_string());
            text.push_str(&format!(
                "{},{},{},{},{},{size},{},{:.3},{:.3},{:.3},{}\n",
                question.bottleneck.name(),
                question.load,
                question.turn_bytes,
                question.patience,
                outcome.schedule,
                class.requests,
                class.mean / 1e6,
                class.p50 as f64 / 1e6,
                class.p99 as f64 / 1e6,
                outcome.waited_most,
            ));
        }
    }
    text
}

/// As a table, each latency beside its ratio to round robin's.
pub fn schedules_table(outcomes: &[ScheduleOutcome]) -> String {
    let right = Align::Right;
    let mut table = Table::new(&[Align::Left, right, right, right, right, right, right, right]);
    table.row(["schedule", "bytes", "requests", "mean ms", "of rr", "p50 ms", "p99 ms", "of rr"]);
    let Some(base) = outcomes.iter().find(|outcome| outcome.schedule == Schedule::RoundRobin) else {
        return String::new();
    };
    for outcome in outcomes {
        for (class, rr) in outcome.classes.iter().zip(&base.classes) {
            table.row([
                outcome.schedule.name().to_owned(),
                class.bytes.map_or("all".to_owned(), |bytes| bytes.to_string()),
                class.requests.to_string(),
                format!("{:.2}", class.mean / 1e6),
                format!("{:.2}", class.mean / rr.mean),
                format!("{:.2}", class.p50 as f64 / 1e6),
                format!("{:.2}", class.p99 as f64 / 1e6),
                format!("{:.2}", class.p99 as f64 / rr.p99.max(1) as f64),
            ]);
        }
    }
    table.to_string()
}

enum Event {
    Arrival,
    TurnEnded(u32),
}

/// A request under way.
#[derive(Clone, Copy, Default)]
struct Request {
    class: usize,
    left: u64,
    arrived: Nanos,
    /// Among those that are counted.
    counts: bool,
    /// Turns that had been given when it was queued.
    queued: u64,
}

enum Resource {
    Link(Link),
    Disk(Disk<u32>),
}

struct Server<'a> {
    question: &'a Question,
    calendar: Calendar<Event>,
    queue: Queue,
    resource: Resource,
    places_free: u32,
    requests: Vec<Request>,
    free: Vec<u32>,
    times: Stream,
    sizes: Stream,
    gap_mean: f64,
    arrivals: u64,
    /// Counted and not finished, or yet to arrive.
    missing: u64,
    turns: u64,
    waited_most: u64,
    latencies: Vec<(Histogram, Moments)>,
}

impl<'a> Server<'a> {
    fn new(question: &'a Question, schedule: Schedule) -> Self {
        let (resource, places_free) = match question.bottleneck {
            Bottleneck::Link(bits_per_s) => (Resource::Link(Link::new(bits_per_s)), 1),
            Bottleneck::Disk(disk) => {
                let (latency, random) = (crate::parameters::nanos(disk.latency_us), Stream::new(question.seed, "disk"));
                let places = disk.parallelism as usize;
                (Resource::Disk(Disk::new(latency, disk.spread, disk.bytes_per_s, places, random)), disk.parallelism)
            }
        };
        let per_s = question.bottleneck.capacity(&question.classes, question.turn_bytes) * question.load;
        Server {
            question,
            calendar: Calendar::new(),
            queue: Queue::new(schedule).with_patience(question.patience),
            resource,
            places_free,
            requests: Vec::new(),
            free: Vec::new(),
            times: Stream::new(question.seed, "arrivals"),
            sizes: Stream::new(question.seed, "sizes"),
            gap_mean: 1e9 / per_s,
            arrivals: 0,
            missing: question.requests,
            turns: 0,
            waited_most: 0,
            latencies: vec![Default::default(); question.classes.len() + 1],
        }
    }

    fn run(mut self) -> ScheduleOutcome {
        self.calendar.after(0, Event::Arrival);
        while self.missing > 0 {
            // An arrival schedules the next one, so something is always to come.
            match self.calendar.next() {
                Some(Event::Arrival) => self.arrive(),
                Some(Event::TurnEnded(slot)) => self.end_turn(slot),
                None => break,
            }
            self.begin_turns();
        }
        let busy = match &self.resource {
            Resource::Link(link) => link.busy as f64,
            Resource::Disk(disk) => disk.busy as f64 / disk.parallelism() as f64,
        };
        let sizes = std::iter::once(None).chain(self.question.classes.iter().map(|class| Some(class.bytes)));
        let classes = sizes.zip(&self.latencies).map(|(bytes, (histogram, moments))| ClassOutcome {
            bytes,
            requests: moments.count(),
            mean: moments.mean(),
            p50: histogram.quantile(0.5),
            p99: histogram.quantile(0.99),
        });
        ScheduleOutcome {
            schedule: self.queue.schedule(),
            classes: classes.collect(),
            waited_most: self.waited_most,
            utilisation: busy / self.calendar.now().max(1) as f64,
        }
    }

    fn arrive(&mut self) {
        let warm_up = self.question.requests / 10;
        let counts = (warm_up..warm_up + self.question.requests).contains(&self.arrivals);
        self.arrivals += 1;
        let class = self.draw_class();
        let request = Request {
            class,
            left: self.question.classes[class].bytes,
            arrived: self.calendar.now(),
            counts,
            queued: self.turns,
        };
        let slot = self.free.pop().unwrap_or(self.requests.len() as u32);
        if slot as usize == self.requests.len() {
            self.requests.push(request);
        }
        self.requests[slot as usize] = request;
        self.queue.push(WaiterId(slot), self.priority(request.left));
        let gap = self.times.exponential(self.gap_mean);
        self.calendar.after(gap as Nanos, Event::Arrival);
    }

    fn draw_class(&mut self) -> usize {
        let mut left = self.sizes.unit();
        let last = self.question.classes.len() - 1;
        let is_over = |class: &Class| {
            left -= class.share;
            left < 0.0
        };
        self.question.classes.iter().position(is_over).unwrap_or(last)
    }

    /// The claim of a request. Its unit is what the bottleneck takes time for: bytes of a link, reads of a disk, on
    /// which 500 bytes take about as long as 50,000.
    fn priority(&self, left: u64) -> Priority {
        match self.question.bottleneck {
            Bottleneck::Link(_) => Priority::of(left),
            Bottleneck::Disk(_) => Priority::of(left.div_ceil(self.question.turn_bytes)),
        }
    }

    fn begin_turns(&mut self) {
        while self.places_free > 0 {
            let Some(WaiterId(slot)) = self.queue.pop() else { return };
            self.places_free -= 1;
            let now = self.calendar.now();
            let request = &mut self.requests[slot as usize];
            let bytes = request.left.min(self.question.turn_bytes);
            request.left -= bytes;
            self.waited_most = self.waited_most.max(self.turns - request.queued);
            self.turns += 1;
            let after = match &mut self.resource {
                Resource::Link(link) => link.send(bytes, now),
                // Never queues there: no more turns are under way than it has places.
                Resource::Disk(disk) => disk.read(slot, bytes, now).map_or(0, |(_, after)| after),
            };
            self.calendar.after(after, Event::TurnEnded(slot));
        }
    }

    fn end_turn(&mut self, slot: u32) {
        self.places_free += 1;
        if let Resource::Disk(disk) = &mut self.resource {
            // No request waits in the disk's own queue.
            let next = disk.done(self.calendar.now());
            debug_assert!(next.is_none(), "a read waited in the disk");
        }
        let request = &mut self.requests[slot as usize];
        if request.left > 0 {
            request.queued = self.turns;
            let left = request.left;
            self.queue.resume(WaiterId(slot), self.priority(left));
            return;
        }
        self.free.push(slot);
        if request.counts {
            self.missing -= 1;
            let latency = self.calendar.now() - request.arrived;
            for index in [0, request.class + 1] {
                let (histogram, moments) = &mut self.latencies[index];
                histogram.add(latency);
                moments.add(latency as f64);
            }
        }
    }
}
