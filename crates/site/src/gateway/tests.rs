//! Programs of gateways against applications on sockets of this machine, driven by a loop that waits with `poll(2)`.

mod room;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use lamna_config::gateway::{GatewayProtocol, GatewaySettings, UpstreamSettings};
use lamna_config::route::pattern::Pattern;
use lamna_config::route::{RouteSettings, Switch};
use lamna_config::settings::{Settings, SiteSettings};
use lamna_filter::Step;
use lamna_proto::exchange::RequestedResource;
use lamna_proto::exchange::program::{Input, Next, Program, StepResult, StreamHead};
use lamna_proto::gateway::Believed;
use lamna_proto::message::Request;
use lamna_proto::parse::head::{self, Parsed};
use lamna_proto::time::Instant;
use lamna_sys::shared_memory::SharedMemory;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::spooled::{SpoolLimit, SpoolPayer};
use super::{Gateway, GatewayRequest, begin};
use crate::content::site::Sites;
use crate::upstream::group::Group;

/// The answer that the client got.
#[derive(Debug, Default)]
struct Got {
    interim: Vec<u16>,
    head: Option<StreamHead>,
    content: Vec<u8>,
    trailers: Option<Vec<u8>>,
    /// The status of a page in place of an answer.
    page: Option<u16>,
    is_broken_off: bool,
}

impl Got {
    fn status(&self) -> u16 {
        self.page.or(self.head.as_ref().map(|head| head.status.0)).unwrap_or(0)
    }

    fn fields(&self) -> String {
        self.head.as_ref().map(|head| String::from_utf8_lossy(&head.fields).into_owned()).unwrap_or_default()
    }

    fn is_whole(&self) -> bool {
        self.trailers.is_some() && !self.is_broken_off
    }
}

/// A client that sends `content` in pieces of `piece_bytes` and takes everything at once.
fn drive(mut program: Box<Gateway>, content: &[u8], piece_bytes: usize) -> Got {
    let begun = std::time::Instant::now();
    let now = || Instant::from_ms(1_000 + begun.elapsed().as_millis() as u64);
    let mut got = Got::default();
    let mut rest = content;
    // Content behind an upgrade is not content of the request: it is not wanted before the answer.
    let has_content = !content.is_empty() && program.asked.upgrade.is_none();
    let mut next = Next { content: has_content, ..Next::default() };
    let mut is_last = !has_content;
    loop {
        let piece = if next.content { &rest[..rest.len().min(piece_bytes)] } else { &[] };
        rest = &rest[piece.len()..];
        is_last |= next.content && rest.is_empty();
        let step_result = program.run(Input { content: piece, is_last, room: true, now: now() });
        let given = match step_result {
            StepResult::Continue => Next::CONTENT,
            StepResult::Again | StepResult::Found(_) | StepResult::Redirected(_) => {
                panic!("gateways ask for no other translation")
            }
            StepResult::Answer(resource) => {
                got.page = Some(resource.status.0);
                return got;
            }
            StepResult::Failed => {
                got.is_broken_off = true;
                return got;
            }
            StepResult::Waits(next) => next,
            StepResult::Gives(part, next) => {
                got.interim.extend(part.interim.iter().map(|head| head.status.0));
                got.head = part.head.or(got.head);
                got.content.extend_from_slice(part.content.as_ref().map_or(&[], |content| content.bytes()));
                if part.end.is_some() {
                    got.trailers = part.end;
                    return got;
                }
                next
            }
        };
        next = given;
        if next.content && !rest.is_empty() || next.room {
            continue;
        }
        next.content = false;
        let mut flags = PollFlags::empty();
        flags.set(PollFlags::IN, next.readable);
        flags.set(PollFlags::OUT, next.writable);
        let until = next.until.map(|until| until.since(now()));
        let timeout = until.map(|ms| Timespec { tv_sec: (ms / 1000) as i64, tv_nsec: (ms % 1000 * 1_000_000) as i64 });
        match program.socket() {
            Some(socket) => poll(&mut [PollFd::from_borrowed_fd(socket, flags)], timeout.as_ref()).unwrap(),
            None => poll(&mut [], timeout.as_ref()).unwrap(),
        };
    }
}

/// Sites one of which has an application at these places.
struct Front {
    sites: Sites,
    group: Arc<Group>,
    _root: tempfile::TempDir,
}

impl Front {
    fn new(places: &[String], change: impl FnOnce(&mut GatewaySettings)) -> Front {
        Front::filtering(places, &[], change)
    }

    /// With filters of these names.
    fn filtering(places: &[String], names: &[&str], change: impl FnOnce(&mut GatewaySettings)) -> Front {
        let root = tempfile::tempdir().unwrap();
        let upstreams = places.iter().map(|place| UpstreamSettings::new(place.parse().unwrap())).collect();
        let mut gateway = GatewaySettings::new(GatewayProtocol::Http, upstreams);
        change(&mut gateway);
        let step = |name: &&str| Step { name: (*name).to_owned(), parameters: Default::default() };
        let filters = (!names.is_empty()).then(|| names.iter().map(step).collect());
        let paths = vec![Pattern::from_glob("/*").unwrap().remove(0)];
        let route = RouteSettings { paths, gateway: Switch::Set(gateway), filters, ..RouteSettings::default() };
        let site = SiteSettings { routes: vec![route], ..SiteSettings::new(root.path().to_owned()) };
        let sites = Sites::open(&Settings { sites: vec![site], ..Settings::default() }).unwrap();
        let group = sites.at(0).routes.groups()[0].clone();
        Front { sites, group, _root: root }
    }

    fn program(&self, request: &str) -> Box<Gateway> {
        let Ok(Parsed::Complete(head)) = head::parse(request.as_bytes(), &lamna_proto::limits::Limits::default())
        else {
            panic!("{request:?} is a request");
        };
        let request = Request { bytes: request.as_bytes(), head: &head };
        let target = request.target();
        let requested = RequestedResource {
            host: None,
            path: target,
            query: None,
            path_and_query: target,
            request: Some(request),
            is_again: false,
            redirects: 0,
            led: None,
            found: None,
        };
        let site = self.sites.at(0);
        let rules = &site.routes.effective(target, &[]);
        let client = Some([192, 0, 2, 7].into());
        let (is_secure, group) = (false, &self.group);
        let limit = &Arc::new(SpoolLimit::new(&Settings::default(), Arc::default(), SharedMemory::default()));
        begin(&GatewayRequest {
            site,
            rules,
            group,
            requested: &requested,
            request,
            client,
            ends: None,
            identity: None,
            client_subject: None,
            believed: Believed::Nothing,
            behind: client,
            is_secure,
            script: None,
            called: "7f",
            payer: None,
            spools: SpoolPayer { limit, network: None },
        })
        .unwrap()
    }

    fn get(&self) -> Got {
        drive(self.program("GET /a HTTP/1.1\r\nHost: x\r\n\r\n"), b"", 1)
    }
}

/// The script of an application on one connection, and the bytes that it has received.
type Deed = Box<dyn FnOnce(&mut TcpStream, &mut Vec<u8>) + Send>;

/// An application that treats each connection as told, in order. Gives what it has received.
fn application(each: Vec<Deed>) -> (String, JoinHandle<Vec<Vec<u8>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let place = format!("http://{}", listener.local_addr().unwrap());
    let thread = thread::spawn(move || {
        let treat = |deed: Deed| {
            let (mut stream, _) = listener.accept().unwrap();
            stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
            let mut received = Vec::new();
            deed(&mut stream, &mut received);
            received
        };
        each.into_iter().map(treat).collect()
    });
    (place, thread)
}

/// Receives a head.
fn take_head(stream: &mut TcpStream, received: &mut Vec<u8>) {
    let mut byte = [0];
    while !received.ends_with(b"\r\n\r\n") && stream.read(&mut byte).unwrap() > 0 {
        received.extend_from_slice(&byte);
    }
}

fn answers(answer: &'static [u8]) -> Deed {
    Box::new(move |stream, received| {
        take_head(stream, received);
        stream.write_all(answer).unwrap();
    })
}

fn asked(answer: &'static [u8]) -> (Got, String) {
    let (place, application) = application(vec![answers(answer)]);
    let got = Front::new(&[place], |_| {}).get();
    let received = application.join().unwrap().remove(0);
    (got, String::from_utf8(received).unwrap())
}

#[test]
fn a_request_is_passed_on_and_its_answer_comes_back() {
    let (got, received) =
        asked(b"HTTP/1.1 201 Created\r\nX-A: 1\r\nConnection: x-b\r\nX-B: 2\r\nContent-Length: 5\r\n\r\nhello");
    assert_eq!((got.status(), &*got.fields(), &*got.content), (201, "X-A: 1\r\n", &b"hello"[..]));
    assert!(got.is_whole() && got.head.unwrap().length == Some(5));
    assert!(received.starts_with("GET /a HTTP/1.1\r\nHost: x\r\n"), "{received}");
    assert!(received.contains("X-Forwarded-For: 192.0.2.7\r\n"), "{received}");
}

#[test]
fn an_answer_of_unknown_length_ends_with_its_last_chunk_or_with_the_connection() {
    let (got, _) =
        asked(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\nX-T: 1\r\n\r\n");
    assert_eq!((&*got.content, got.trailers.as_deref()), (&b"abcde"[..], Some(&b"X-T: 1\r\n"[..])));
    assert_eq!(got.head.unwrap().length, None);
    let (got, _) = asked(b"HTTP/1.1 200 OK\r\n\r\nto the end");
    assert_eq!((&*got.content, got.trailers.is_some()), (&b"to the end"[..], true));
}

#[test]
fn interim_answers_come_before_the_answer() {
    let (got, _) =
        asked(b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No\r\n\r\n");
    assert_eq!((&*got.interim, got.status(), got.is_whole()), (&[103][..], 204, true));
}

#[test]
fn an_answer_that_does_not_follow_its_interim_answers_is_told_by_its_status() {
    let (place, application) = application(vec![Box::new(|stream, received| {
        take_head(stream, received);
        stream.write_all(b"HTTP/1.1 103 Early Hints\r\n\r\n").unwrap();
        assert_eq!(stream.read(&mut [0]).unwrap(), 0, "the answer is not waited for");
    })]);
    let got = Front::new(&[place], |settings| settings.timeout_ms = 50).get();
    assert_eq!((&*got.interim, got.page), (&[103][..], Some(504)));
    application.join().unwrap();
}

#[test]
fn a_step_takes_a_bounded_part_of_what_is_no_content() {
    let (fill, filled) = std::sync::mpsc::channel();
    let (place, application) = application(vec![Box::new(move |stream, received| {
        // The records that ask have been sent by one call.
        received.push(stream.read(&mut [0]).unwrap() as u8);
        let record = [&[1, 7, 0, 1, 0xea, 0x60, 0, 0][..], &[b'e'; 60_000]].concat();
        stream.set_nonblocking(true).unwrap();
        let mut bytes = 0;
        while let Ok(sent) = stream.write(&record[bytes % record.len()..]) {
            bytes += sent;
        }
        fill.send(bytes).unwrap();
        stream.set_nonblocking(false).unwrap();
        // Until the program is dropped.
        while stream.read(&mut [0; 4_096]).is_ok_and(|bytes| bytes > 0) {}
    })]);
    let address = place.trim_start_matches("http://").to_owned();
    let front =
        Front::new(&[address], |settings| (settings.protocol, settings.scripts) = (GatewayProtocol::FastCgi, None));
    let mut program = front.program("GET /a HTTP/1.1\r\nHost: x\r\n\r\n");
    let mut step = || {
        let step_result = program.run(Input { content: b"", is_last: true, room: true, now: Instant::from_ms(1) });
        let StepResult::Waits(next) = step_result else { panic!("{step_result:?}") };
        (next, program.socket().map(|socket| socket.try_clone_to_owned().unwrap()))
    };
    let (next, socket) = step();
    if next.writable {
        poll(&mut [PollFd::new(&socket.unwrap(), PollFlags::OUT)], None).unwrap();
        step();
    }
    let filled = filled.recv().unwrap();
    let (next, socket) = step();
    let left = rustix::io::ioctl_fionread(socket.unwrap()).unwrap();
    assert!(next.readable && left > 0, "{filled} bytes have come, {left} are left");
    drop(program);
    application.join().unwrap();
}

#[test]
fn what_is_no_answer_is_502_and_what_breaks_off_is_not_whole() {
    for nonsense in [
        &b"SSH-2.0-x\r\n\r\n"[..],
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n",
        b"",
        b"HTTP/1.1 200 OK\r\na b: c\r\n\r\n",
    ] {
        assert_eq!(asked(nonsense).0.page, Some(502), "{nonsense:?}");
    }
    let (got, _) = asked(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello");
    assert!(got.is_broken_off && got.status() == 200 && got.content == b"hello");
    let (got, _) = asked(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n");
    assert!(got.is_broken_off, "without its last chunk it is not whole");
}

#[test]
fn an_answer_that_does_not_go_on_is_broken_off() {
    let (place, application) = application(vec![Box::new(|stream, received| {
        take_head(stream, received);
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello").unwrap();
        assert_eq!(stream.read(&mut [0]).unwrap(), 0, "the rest is not waited for");
    })]);
    let got = Front::new(&[place], |settings| settings.timeout_ms = 50).get();
    assert!(got.is_broken_off && got.content == b"hello");
    application.join().unwrap();
}

#[test]
fn nobody_there_is_502_and_nobody_answering_is_504() {
    let unused = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    assert_eq!(Front::new(&[format!("http://{unused}")], |_| {}).get().page, Some(502));
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let place = format!("http://{}", silent.local_addr().unwrap());
    assert_eq!(Front::new(&[place], |settings| settings.timeout_ms = 50).get().page, Some(504));
}

#[test]
fn content_is_passed_on_as_it_comes_framed_as_it_was_announced() {
    let (place, application) = application(vec![Box::new(|stream, received| {
        take_head(stream, received);
        let mut content = vec![0; 300_000];
        stream.read_exact(&mut content).unwrap();
        received.extend_from_slice(&content);
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").unwrap();
        // It is kept.
        let before = received.len();
        received.truncate(before);
        let mut next = Vec::new();
        take_head(stream, &mut next);
        let mut byte = [0];
        while !next.ends_with(b"0\r\n\r\n") && stream.read(&mut byte).unwrap() > 0 {
            next.extend_from_slice(&byte);
        }
        received.extend_from_slice(&next);
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").unwrap();
    })]);
    let front = Front::new(&[place], |_| {});
    let content: Vec<u8> = (0..300_000_u32).map(|number| number as u8).collect();
    let sized = front.program("POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 300000\r\n\r\n");
    assert!(drive(sized, &content, 7_000).is_whole());
    let streamed = front.program("POST /b HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n");
    assert!(drive(streamed, b"hello", 2).is_whole());
    let received = application.join().unwrap().remove(0);
    let at = received.windows(4).position(|four| four == b"\r\n\r\n").unwrap() + 4;
    assert!(received[at..].starts_with(&content), "every byte in its place");
    let second = String::from_utf8_lossy(&received[at + content.len()..]).into_owned();
    assert!(
        second.starts_with("POST /b HTTP/1.1\r\n") && second.ends_with("2\r\nhe\r\n2\r\nll\r\n1\r\no\r\n0\r\n\r\n"),
        "{second}"
    );
}

#[test]
fn a_kept_connection_that_was_closed_meanwhile_is_replaced() {
    let ok: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
    let (place, application) = application(vec![
        Box::new(move |stream, received| {
            take_head(stream, received);
            stream.write_all(ok).unwrap();
            // The next request is read, and not answered.
            take_head(stream, &mut Vec::new());
        }),
        answers(ok),
    ]);
    let front = Front::new(&[place], |_| {});
    assert!(front.get().is_whole() && front.get().is_whole());
    assert_eq!(application.join().unwrap().len(), 2);
    assert_eq!(front.group.status(Instant::from_ms(9_999))[0].load, 0);
}

#[test]
fn a_connection_on_which_content_is_left_to_be_sent_is_not_kept() {
    let (place, application) = application(vec![
        Box::new(|stream, received| {
            take_head(stream, received);
            stream.write_all(b"HTTP/1.1 413 Content Too Large\r\nContent-Length: 0\r\n\r\n").unwrap();
            // The connection ends; its end may overtake what was sent.
            let ended = stream.read_to_end(received);
            let in_time = ended.err().is_none_or(|error| error.kind() != std::io::ErrorKind::WouldBlock);
            assert!(in_time, "it is kept");
        }),
        answers(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"),
    ]);
    let front = Front::new(&[place], |_| {});
    // More than the sockets hold between them, and all of it taken from the client.
    let content = vec![0; 32 << 20];
    let early = front.program(&format!("POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n", content.len()));
    assert_eq!(drive(early, &content, content.len()).status(), 413);
    assert_eq!(front.get().status(), 200);
    let received = application.join().unwrap();
    assert!(received[0].len() < content.len());
    assert!(received[1].starts_with(b"GET /a "));
}

#[test]
fn what_may_have_had_an_effect_is_not_sent_again() {
    let drops: Deed = Box::new(take_head);
    let (one, first) = application(vec![drops]);
    let (other, second) = application(vec![answers(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")]);
    let front = Front::new(&[one, other], |settings| settings.upstreams[1].weight = 0);
    let got = drive(front.program("POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n"), b"", 1);
    assert_eq!(got.page, Some(502));
    assert_eq!(first.join().unwrap().len(), 1);
    assert!(!second.is_finished(), "nobody has asked it");
    // What has no effect is asked of the other place when the first is gone.
    assert_eq!(front.get().status(), 200);
    second.join().unwrap();
}

#[test]
fn a_tunnel_passes_bytes_both_ways_until_it_ends() {
    let (place, application) = application(vec![Box::new(|stream, received| {
        take_head(stream, received);
        stream.write_all(b"HTTP/1.1 101 Switching\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\nfirst").unwrap();
        let mut echoed = [0; 5];
        stream.read_exact(&mut echoed).unwrap();
        stream.write_all(&echoed).unwrap();
    })]);
    let front = Front::new(&[place], |_| {});
    let request = "GET /ws HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n";
    let got = drive(front.program(request), b"hello", 5);
    assert!(got.head.as_ref().is_some_and(|head| head.tunnels && head.status.0 == 101));
    assert!(got.fields().to_lowercase().contains("upgrade: websocket"));
    assert_eq!((&*got.content, got.is_whole()), (&b"firsthello"[..], true));
    let received = String::from_utf8(application.join().unwrap().remove(0)).unwrap();
    assert!(received.contains("Connection: upgrade\r\nUpgrade: websocket\r\n"), "{received}");
}

#[test]
fn a_tunnel_that_is_reset_before_the_client_knows_of_it_is_none_on_the_next_connection() {
    const SWITCHED: &[u8] = b"HTTP/1.1 101 Switching\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n";
    let resets = TcpListener::bind("127.0.0.1:0").unwrap();
    let (other, second) = application(vec![answers(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")]);
    let place = format!("http://{}", resets.local_addr().unwrap());
    let front = Front::new(&[place, other], |settings| settings.upstreams[1].weight = 0);
    let mut program = front.program("GET /ws HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n");
    let input = || Input { content: b"", is_last: true, room: true, now: Instant::from_ms(1) };
    while matches!(program.run(input()), StepResult::Waits(next) if next.writable) {
        poll(&mut [PollFd::from_borrowed_fd(program.socket().unwrap(), PollFlags::OUT)], None).unwrap();
    }
    let (mut stream, _) = resets.accept().unwrap();
    take_head(&mut stream, &mut Vec::new());
    stream.write_all(SWITCHED).unwrap();
    rustix::net::sockopt::set_socket_linger(&stream, Some(Duration::ZERO)).unwrap();
    // Both the switch and the reset are there when the program goes on.
    drop(stream);
    let got = drive(program, b"", 1);
    assert_eq!((got.status(), &*got.content, got.is_whole()), (200, &b"ok"[..], true));
    second.join().unwrap();
}

#[test]
fn a_tunnel_that_ends_because_it_is_quiet_is_no_request_under_way() {
    let (place, application) = application(vec![Box::new(|stream, received| {
        take_head(stream, received);
        stream.write_all(b"HTTP/1.1 101 Switching\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n").unwrap();
        assert_eq!(stream.read(&mut [0]).unwrap(), 0, "the server ends it");
    })]);
    let front = Front::new(&[place], |settings| settings.websocket_timeout_ms = Some(50));
    let mut program = front.program("GET /ws HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n");
    let begun = std::time::Instant::now();
    let now = || Instant::from_ms(1_000 + begun.elapsed().as_millis() as u64);
    let has_ended = |step_result: &StepResult| matches!(step_result, StepResult::Gives(part, _) if part.end.is_some());
    while !has_ended(&program.run(Input { content: b"", is_last: false, room: true, now: now() })) {
        thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(front.group.status(now())[0].load, 0, "the client may still take what has come");
    drop(program);
    application.join().unwrap();
}

#[test]
fn a_program_that_is_dropped_ends_its_connection() {
    let (place, application) = application(vec![Box::new(|stream, received| {
        take_head(stream, received);
        // The end comes because the client has left.
        assert_eq!(stream.read(&mut [0]).unwrap(), 0);
    })]);
    let front = Front::new(&[place], |_| {});
    let mut program = front.program("GET /a HTTP/1.1\r\nHost: x\r\n\r\n");
    let mut step_result = program.run(Input { content: b"", is_last: true, room: true, now: Instant::from_ms(1) });
    while matches!(&step_result, StepResult::Waits(next) if next.writable) {
        poll(&mut [PollFd::from_borrowed_fd(program.socket().unwrap(), PollFlags::OUT)], None).unwrap();
        step_result = program.run(Input { content: b"", is_last: true, room: true, now: Instant::from_ms(1) });
    }
    drop(program);
    application.join().unwrap();
    assert_eq!(front.group.status(Instant::from_ms(2))[0].load, 0);
}

#[test]
fn what_filters_make_is_given_in_parts_and_only_when_there_is_room() {
    const CODED: &[u8] =
        b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n";
    let content = vec![b'a'; 3_000_000];
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::new(1));
    encoder.write_all(&content).unwrap();
    let coded = encoder.finish().unwrap();
    let frame = |piece: &[u8]| [format!("{:x}\r\n", piece.len()).as_bytes(), piece, b"\r\n"].concat();
    let answer = [CODED, &frame(&coded), b"0\r\n\r\n"].concat();
    let (place, application) = application(vec![Box::new(move |stream, received| {
        take_head(stream, received);
        stream.write_all(&answer).unwrap();
    })]);
    let front = Front::filtering(&[place], &["decompress"], |_| {});
    let mut program = front.program("GET /a HTTP/1.1\r\nHost: x\r\n\r\n");
    let begun = std::time::Instant::now();
    let now = || Instant::from_ms(1_000 + begun.elapsed().as_millis() as u64);
    let (mut given, mut parts) = (0, 0);
    loop {
        let input = |room| Input { content: &[], is_last: true, room, now: now() };
        let StepResult::Waits(_) = program.run(input(false)) else { panic!("nothing is given where there is no room") };
        match program.run(input(true)) {
            StepResult::Gives(part, _) => {
                let bytes = part.content.as_ref().map_or(0, |content| content.bytes().len());
                assert!(bytes <= 80 << 10, "{bytes} at once");
                given += bytes;
                parts += 1;
                if part.end.is_some() {
                    break;
                }
            }
            StepResult::Waits(_) => thread::yield_now(),
            step_result => panic!("{step_result:?}"),
        }
    }
    assert!(given == content.len() && parts > 30, "{given} bytes in {parts} parts");
    let received = String::from_utf8(application.join().unwrap().remove(0)).unwrap();
    assert!(received.contains("Accept-Encoding: gzip, br, zstd\r\n"), "{received}");
}
