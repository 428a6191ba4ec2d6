//! Applications at several places, of which a client gets to the same.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;

use crate::client::APPLICATION_PATIENCE;
use crate::control::order;
use crate::engine::{Engine, for_engines};
use crate::http2::{Http2, request};
use crate::server::Launch;

for_engines!([
    mp = MP,
    thread_pool = THREAD_POOL,
    sped = SPED,
    amped = AMPED,
    co_amped = CO_AMPED,
    pipelined = PIPELINED,
    proactor = PROACTOR,
] => [a_client_gets_to_the_same_place]);

/// A place that answers with its port. One that is out closes what it accepts.
pub(crate) struct Place {
    pub(crate) address: SocketAddr,
    is_out: Arc<AtomicBool>,
    is_over: Arc<AtomicBool>,
}

impl Place {
    pub(crate) fn start() -> Place {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let place = Place { address, is_out: Arc::default(), is_over: Arc::default() };
        let (is_out, is_over) = (place.is_out.clone(), place.is_over.clone());
        thread::spawn(move || {
            for stream in listener.incoming().flatten().take_while(|_| !is_over.load(Relaxed)) {
                stream.set_read_timeout(Some(APPLICATION_PATIENCE)).unwrap();
                let is_out = is_out.clone();
                thread::spawn(move || answer(stream, address.port(), &is_out));
            }
        });
        place
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.is_over.store(true, Relaxed);
        let _ = TcpStream::connect(self.address);
    }
}

fn answer(mut stream: TcpStream, port: u16, is_out: &AtomicBool) -> Option<()> {
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    loop {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if is_out.load(Relaxed) || reader.read_line(&mut head).ok()? == 0 {
                return None;
            }
        }
        if is_out.load(Relaxed) {
            return None;
        }
        let told = port.to_string();
        stream.write_all(format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{told}", told.len()).as_bytes()).ok()?;
    }
}

fn a_client_gets_to_the_same_place(engine: Engine) {
    let places = [Place::start(), Place::start(), Place::start()];
    let to: Vec<String> = places.iter().map(|place| format!("\"http://{}\"", place.address)).collect();
    let to = to.join(", ");
    let config = format!(
        "limit_exempt = []\n[[site]]\n[[site.route]]\nmatch = \"/cookie/*\"\nproxy = {{ to = [{to}], sticky = {{ cookie = \"id\" }} }}\n\
         [[site.route]]\nmatch = \"/header/*\"\nproxy = {{ to = [{to}], sticky = {{ header = \"X-User\" }} }}\n\
         [[site.route]]\nmatch = \"/client/*\"\nproxy = {{ to = [{to}], sticky = \"client\" }}\n"
    );
    let server = Launch::new(engine).argument("--h2c").config(&config).start();
    let ask = |host: u8, path: &str, fields: &str| {
        let mut client = server.connect_from(host);
        client.send(format!("GET {path} HTTP/1.1\r\nHost: a\r\n{fields}\r\n").as_bytes());
        let response = client.receive(true).unwrap_or_else(|fault| panic!("{path} {fields}: {fault}"));
        assert_eq!(response.status, 200, "{path} {fields}");
        String::from_utf8(response.content).unwrap()
    };
    let by_cookie = |number: u8| ask(1, "/cookie/", &format!("Cookie: a=b; id=user-{number}; xid=1\r\n"));
    let by_header = |number: u8| ask(1, "/header/", &format!("X-User: user-{number}\r\n"));
    let by_client = |number: u8| ask(number + 2, "/client/", "");
    let of_cookies: Vec<String> = (0..24).map(by_cookie).collect();
    let of_clients: Vec<String> = (0..24).map(by_client).collect();
    let mut counts: BTreeMap<&String, u32> = BTreeMap::new();
    of_cookies.iter().chain(&of_clients).for_each(|place| *counts.entry(place).or_default() += 1);
    assert!(counts.len() == 3, "all places are asked: {counts:?}");
    let check = |round: &str| {
        for number in 0..24 {
            assert_eq!(by_cookie(number), of_cookies[usize::from(number)], "{round}: {number}");
            // The value counts, and not where it stands.
            assert_eq!(by_header(number), of_cookies[usize::from(number)], "{round}: {number}");
            assert_eq!(by_client(number), of_clients[usize::from(number)], "{round}: {number}");
        }
        let mut over_http2 = Http2::connect(server.address());
        let answer = over_http2.try_ask(request("GET", "/cookie/", &[("cookie", "a=b"), ("cookie", "id=user-3")]));
        assert_eq!(String::from_utf8(answer.unwrap().content).unwrap(), of_cookies[3], "{round}");
    };
    check("from the start");
    order(&server, &["reload"]).unwrap();
    check("after a reload");
    if !matches!(engine.architecture, "mp" | "co-amped") {
        let other = if engine.architecture == "amped" { "thread-pool" } else { "amped" };
        order(&server, &["arch", "set", other]).unwrap();
        check("by another engine");
    }
    // The clients of a place that is out get to others, and nobody else moves.
    let out = places[0].address.port().to_string();
    places[0].is_out.store(true, Relaxed);
    for number in 0..24 {
        let (own, now) = (&of_cookies[usize::from(number)], by_cookie(number));
        assert!(now != out && (*own == out || *own == now), "{number}: {own} {now}");
    }
    server.finish();
}
