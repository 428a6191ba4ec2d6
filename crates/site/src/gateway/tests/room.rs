//! An answer comes to its end whenever there is room for it: what a program waits for is all that it is woken by.

use lamna_config::answer_cache::AnswerCache;
use lamna_proto::caching::Facts;
use lamna_proto::caching::status::Forwarded;
use lamna_proto::gateway::fields::{Fields, LineEnds};
use lamna_sys::clock::Clock;

use super::*;
use crate::cache::Store;
use crate::gateway::{Cached, Role, Wanted};

/// A fixed sequence of numbers for each seed.
struct Dice(u64);

impl Dice {
    fn once_in(&mut self, times: u64) -> bool {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33).is_multiple_of(times)
    }
}

/// Carries `program` out as a connection would on which there is room now and then. What it gives.
fn drive_with_room(program: &mut dyn Program, dice: &mut Dice) -> Vec<u8> {
    let begun = std::time::Instant::now();
    let now = || Instant::from_ms(1_000 + begun.elapsed().as_millis() as u64);
    let (mut got, mut room) = (Vec::new(), dice.once_in(2));
    loop {
        assert!(begun.elapsed() < Duration::from_secs(20), "it waits for ever: {program:?}");
        let next = match program.run(Input { content: &[], is_last: true, room, now: now() }) {
            StepResult::Gives(part, next) => {
                assert!(room, "nothing is given without room");
                got.extend_from_slice(part.content.as_ref().map_or(&[], |content| content.bytes()));
                if part.end.is_some() {
                    return got;
                }
                next
            }
            StepResult::Waits(next) => next,
            other => panic!("{other:?}"),
        };
        let awaited = program.socket().filter(|_| next.readable || next.writable);
        assert!(next.room || next.until.is_some() || awaited.is_some(), "it waits for nothing: {next:?} {program:?}");
        room = dice.once_in(2);
        if room && next.room {
            continue;
        }
        let mut flags = PollFlags::empty();
        flags.set(PollFlags::IN, next.readable);
        flags.set(PollFlags::OUT, next.writable);
        let timeout = Timespec { tv_sec: 0, tv_nsec: 2_000_000 };
        let is_ready = match awaited {
            Some(socket) => poll(&mut [PollFd::from_borrowed_fd(socket, flags)], Some(&timeout)).unwrap() > 0,
            None => false,
        };
        let is_late = next.until.is_some_and(|until| until <= now());
        if !(is_ready || is_late) {
            // Nothing but room is left to come about; or nothing has yet.
            while !next.room && next.until.is_none_or(|until| until > now()) {
                let Some(socket) = awaited else { continue };
                if poll(&mut [PollFd::from_borrowed_fd(socket, flags)], Some(&timeout)).unwrap() > 0 {
                    break;
                }
                assert!(begun.elapsed() < Duration::from_secs(20), "it waits for ever: {next:?} {program:?}");
            }
            room |= next.room;
        }
    }
}

#[test]
fn answers_come_to_their_end_whenever_there_is_room_kept_or_not() {
    const BYTES: usize = 150_000;
    let content: Vec<u8> = (0..BYTES).map(|at| (at / 7 + at / 256) as u8).collect();
    let answer = |head: &str| [format!("HTTP/1.1 200 OK\r\n{head}\r\n").as_bytes(), &content].concat();
    let length = format!("Content-Length: {BYTES}\r\n");
    for seed in 0..40 {
        let mut dice = Dice(seed);
        let line = ["Cache-Control: max-age=60\r\n", "Cache-Control: no-store\r\n", ""][seed as usize % 3];
        let bytes = answer(&(length.clone() + line));
        let deed: Deed = Box::new(move |stream, received| {
            take_head(stream, received);
            for piece in bytes.chunks(30_000) {
                stream.write_all(piece).unwrap();
                thread::sleep(Duration::from_millis(1));
            }
        });
        let (place, thread) = application(vec![deed]);
        let front = Front::new(&[place], |_| {});
        let mut gateway = front.program("GET /a HTTP/1.1\r\nHost: x\r\n\r\n");
        let store = Arc::new(Store::new(64 << 20, 100));
        let got = if seed % 4 == 0 {
            drive_with_room(&mut *gateway, &mut dice)
        } else {
            let facts = Facts::of(true, Fields::check(b"", LineEnds::CrLf).unwrap_or_default(), false, |_| false);
            let wanted = Wanted {
                store: store.clone(),
                clock: Clock::start(),
                settings: AnswerCache::default(),
                site: 0,
                depends_on_requests: false,
                method: b"GET"[..].into(),
                target: b"/a"[..].into(),
                key: b"/a"[..].into(),
                facts,
                fields: Box::default(),
                stale: None,
                validates: false,
                why: Forwarded::Miss,
            };
            let role = if seed % 5 == 1 { Role::Alone } else { Role::Joins { may_lead: true } };
            drive_with_room(&mut Cached::new(gateway, wanted, role), &mut dice)
        };
        assert!(got == content, "seed {seed}: {} bytes", got.len());
        thread.join().unwrap();
        assert_eq!(store.answer_flights().waiting(), 0);
    }
}
