//! Kernel and resources against the closed forms of queueing theory. Long enough that 2 % is many standard errors for
//! the fixed seeds; nothing here depends on real time.

use lamna_policy::stats::Moments;
use lamna_sim::kernel::{Calendar, Nanos, Stream};
use lamna_sim::resource::{Disk, Finished, Processors, Start, TaskId};

const TOLERANCE: f64 = 0.02;

enum Event {
    Arrival,
    Processor(usize),
}

/// Mean sojourn in nanoseconds of Poisson arrivals, with mean `interval`, at `count` processors with this quantum.
fn open_station(
    seed: u64,
    count: usize,
    quantum: Nanos,
    interval: f64,
    jobs: usize,
    mut service: impl FnMut(&mut Stream) -> f64,
) -> f64 {
    let (mut arrivals, mut services) = (Stream::new(seed, "arrivals"), Stream::new(seed, "services"));
    let mut processors = Processors::new(count, 0, quantum, quantum);
    let mut calendar = Calendar::new();
    let mut arrived = Vec::new();
    let mut sojourn = Moments::new();
    let schedule = |calendar: &mut Calendar<Event>, start: Option<Start>| {
        if let Some(Start { processor, after }) = start {
            calendar.after(after, Event::Processor(processor));
        }
    };
    calendar.after(0, Event::Arrival);
    while sojourn.count() < jobs as u64 {
        let event = calendar.next().expect("arrivals never end");
        let start = match event {
            Event::Arrival => {
                calendar.after(arrivals.exponential(interval) as Nanos, Event::Arrival);
                arrived.push(calendar.now());
                let task = TaskId(arrived.len() as u32 - 1);
                processors.wake(task, service(&mut services) as Nanos, calendar.now())
            }
            Event::Processor(processor) => match processors.finish(processor, calendar.now()) {
                Finished::Preempted(start) => Some(start),
                Finished::Task(TaskId(task)) => {
                    sojourn.add((calendar.now() - arrived[task as usize]) as f64);
                    processors.block(processor, calendar.now())
                }
            },
        };
        schedule(&mut calendar, start);
    }
    sojourn.mean()
}

fn assert_close(found: f64, expected: f64, what: &str) {
    let error = (found / expected - 1.0).abs();
    assert!(error < TOLERANCE, "{what}: {found} against {expected}, {:.2} % off", error * 100.0);
}

/// Probability of waiting in M/M/c, with `load` = arrival rate * mean service.
fn erlang_c(c: usize, load: f64) -> f64 {
    let mut blocking = 1.0;
    for k in 1..=c {
        blocking = load * blocking / (k as f64 + load * blocking);
    }
    blocking / (1.0 - load / c as f64 * (1.0 - blocking))
}

#[test]
fn one_server_with_exponential_times_is_m_m_1() {
    for utilisation in [0.3, 0.7, 0.85] {
        let found = open_station(1, 1, Nanos::MAX, 1e6 / utilisation, 600_000, |s| s.exponential(1e6));
        assert_close(found, 1e6 / (1.0 - utilisation), "M/M/1");
    }
}

#[test]
fn several_servers_with_exponential_times_are_m_m_c() {
    for (c, utilisation) in [(2, 0.8), (4, 0.7), (16, 0.9)] {
        let load = utilisation * c as f64;
        let expected = 1e6 + erlang_c(c, load) * 1e6 / (c as f64 - load);
        let found = open_station(2, c, Nanos::MAX, 1e6 / load, 600_000, |s| s.exponential(1e6));
        assert_close(found, expected, "M/M/c");
    }
}

#[test]
fn constant_service_in_order_of_arrival_is_m_d_1() {
    let found = open_station(3, 1, Nanos::MAX, 1e6 / 0.7, 400_000, |_| 1e6);
    assert_close(found, 1e6 * (1.0 + 0.7 / (2.0 * 0.3)), "M/D/1");
}

#[test]
fn a_small_quantum_shares_the_processor_whatever_the_service_times() {
    // M/G/1-PS depends on the mean of the service time only: a hyperexponential one with a squared coefficient of
    // variation of 4 and a constant one alike.
    let hyper = |s: &mut Stream| {
        let long = s.unit() < 0.112_70;
        s.exponential(if long { 1e6 / (2.0 * 0.112_70) } else { 1e6 / (2.0 * 0.887_30) })
    };
    let found = open_station(4, 1, 20_000, 1e6 / 0.7, 400_000, hyper);
    assert_close(found, 1e6 / 0.3, "M/H2/1-PS");
    let found = open_station(5, 1, 20_000, 1e6 / 0.7, 150_000, |_| 1e6);
    assert_close(found, 1e6 / 0.3, "M/D/1-PS");
}

#[test]
fn machines_and_repairmen_have_the_closed_form() {
    // M/M/c//N: `machines` work for an exponential time and then need one of `c` repairmen.
    for (machines, repairmen, work, repair) in [(10_usize, 1_usize, 8e6, 1e6), (20, 3, 5e6, 1e6)] {
        let found = repaired_per_s(machines, repairmen, work, repair);
        assert_close(found, repairs_per_s(machines, repairmen, work, repair), "machine repair");
    }
}

fn repaired_per_s(machines: usize, repairmen: usize, work: f64, repair: f64) -> f64 {
    let (mut works, mut repairs) = (Stream::new(6, "work"), Stream::new(6, "repair"));
    let mut processors = Processors::new(repairmen, 0, Nanos::MAX, Nanos::MAX);
    let mut calendar = Calendar::new();
    for machine in 0..machines {
        calendar.after(works.exponential(work) as Nanos, (true, machine));
    }
    let mut done = 0_u64;
    while done < 500_000 {
        let (breaks, number) = calendar.next().expect("machines never rest");
        let start = if breaks {
            processors.wake(TaskId(number as u32), repairs.exponential(repair) as Nanos, calendar.now())
        } else {
            match processors.finish(number, calendar.now()) {
                Finished::Preempted(start) => Some(start),
                Finished::Task(TaskId(machine)) => {
                    done += 1;
                    calendar.after(works.exponential(work) as Nanos, (true, machine as usize));
                    processors.block(number, calendar.now())
                }
            }
        };
        if let Some(Start { processor, after }) = start {
            calendar.after(after, (false, processor));
        }
    }
    done as f64 * 1e9 / calendar.now() as f64
}

fn repairs_per_s(machines: usize, repairmen: usize, work: f64, repair: f64) -> f64 {
    let mut weight = 1.0;
    let (mut total, mut busy) = (1.0, 0.0);
    for broken in 1..=machines {
        let servers = broken.min(repairmen) as f64;
        weight *= (machines - broken + 1) as f64 / work * repair / servers;
        total += weight;
        busy += weight * servers;
    }
    busy / total / repair * 1e9
}

#[test]
fn a_disk_with_one_place_is_m_g_1_by_pollaczek_and_khinchine() {
    // Latency uniform over 0 to 2 ms and a constant transfer of 0.5 ms.
    let (mean, variance) = (1.5e6, (2e6_f64).powi(2) / 12.0);
    let utilisation = 0.6;
    let interval = mean / utilisation;
    let mut disk = Disk::new(1_000_000, 1.0, 1e9, 1, Stream::new(7, "disk"));
    let mut arrivals = Stream::new(7, "arrivals");
    let mut calendar = Calendar::new();
    let mut sojourn = Moments::new();
    calendar.after(0, None);
    while sojourn.count() < 600_000 {
        let begun = match calendar.next().expect("arrivals never end") {
            None => {
                calendar.after(arrivals.exponential(interval) as Nanos, None);
                let now = calendar.now();
                disk.read(now, 500_000, now)
            }
            Some(since) => {
                sojourn.add((calendar.now() - since) as f64);
                disk.done(calendar.now())
            }
        };
        if let Some((since, after)) = begun {
            calendar.after(after, Some(since));
        }
    }
    let waiting = utilisation * (variance + mean * mean) / (2.0 * mean * (1.0 - utilisation));
    assert_close(sojourn.mean(), mean + waiting, "M/G/1");
}

#[test]
fn a_bound_task_waits_for_its_processor_and_a_sleeping_one_is_late() {
    let mut processors = Processors::new(2, 0, Nanos::MAX, Nanos::MAX);
    processors.let_sleep(50, 10, 0, 0);
    processors.keep_awake(1);
    processors.bind(TaskId(0), 0);
    processors.bind(TaskId(1), 0);
    processors.bind(TaskId(2), 1);
    // Idle since the beginning, longer than ten.
    assert_eq!(processors.wake(TaskId(0), 100, 20), Some(Start { processor: 0, after: 150 }));
    assert_eq!(processors.wake(TaskId(1), 100, 20), None, "the other processor is idle, but not its own");
    assert_eq!(processors.wake(TaskId(2), 100, 20), Some(Start { processor: 1, after: 100 }), "kept awake");
    assert_eq!(processors.finish(0, 0), Finished::Task(TaskId(0)));
    assert_eq!(processors.block(0, 170), Some(Start { processor: 0, after: 100 }));
    assert_eq!(processors.finish(0, 0), Finished::Task(TaskId(1)));
    assert_eq!(processors.block(0, 270), None);
    assert_eq!(processors.wake(TaskId(1), 100, 275), Some(Start { processor: 0, after: 100 }), "not asleep yet");
}
