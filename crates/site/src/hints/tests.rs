//! Tests of learning from requests as serving threads tell them, without a server.

use std::sync::Arc;

use lamna_config::settings::SiteSettings;
use lamna_io::file_state::Stamps;
use lamna_proto::exchange::RequestedResource;
use lamna_proto::limits::Limits;
use lamna_proto::message::Status;
use lamna_proto::parse::head::{Parsed, parse};
use lamna_proto::resource::{Description, Representation, Resource};

use super::*;
use crate::cache::Entry;
use crate::cache::two_generation_map::Key;

/// A site for any host that has hints.
fn hints() -> Hints {
    let sites = vec![SiteSettings { hints: Some(true), ..SiteSettings::new("/".into()) }];
    Hints::still(&Settings { sites, ..Settings::default() })
}

/// A request, as the drive loop has it, told and learned from.
struct Visitor<'h> {
    hints: &'h Hints,
    connection: u64,
    now_ms: u64,
}

impl Visitor<'_> {
    /// Asks for `path` with these further fields.
    fn ask(&mut self, path: &str, fields: &str) {
        self.now_ms += 100;
        let text = format!("GET {path} HTTP/1.1\r\nHost: site.test\r\n{fields}\r\n");
        let Ok(Parsed::Complete(head)) = parse(text.as_bytes(), &Limits::default()) else { panic!("it is a head") };
        let request = lamna_proto::message::Request { bytes: text.as_bytes(), head: &head };
        let (bare, query) = path.split_once('?').map_or((path, None), |(bare, query)| (bare, Some(query)));
        let requested = RequestedResource {
            host: Some(b"site.test"),
            path: bare.as_bytes(),
            query: query.map(str::as_bytes),
            path_and_query: path.as_bytes(),
            request: Some(request),
            is_again: false,
            redirects: 0,
            led: None,
            found: None,
        };
        if let Some(sample) = self.hints.sample(0, &requested) {
            let is_html = bare.ends_with('/');
            assert!(self.hints.observe(0, &sample, bare.as_bytes(), is_html, self.connection, self.now_ms));
        }
        self.hints.learning.look();
    }
}

fn visitor(hints: &Hints, connection: u64) -> Visitor<'_> {
    Visitor { hints, connection, now_ms: 5_000 * connection }
}

fn following(hints: &Hints, path: &str) -> Vec<(String, u16)> {
    let predictions = hints.following(0, path.as_bytes());
    predictions.following.iter().map(|one| (one.target.to_string(), one.probability.thousandths())).collect()
}

#[test]
fn what_a_page_is_followed_by_is_learned_from_referer() {
    let hints = hints();
    for connection in 1..=9 {
        let mut visitor = visitor(&hints, connection);
        visitor.ask("/", "");
        // Over another connection.
        visitor.connection = 100 + connection;
        visitor.ask("/style.css", "Referer: http://site.test/\r\n");
        visitor.ask("/style.css", "Referer: http://site.test/\r\n");
        visitor.ask("/other.css", "Referer: http://elsewhere.test/\r\n");
    }
    assert_eq!(following(&hints, "/"), [("/style.css".to_owned(), 900)], "once for each view");
    let predictions = hints.following(0, b"/");
    assert_eq!(predictions.visits, 9);
    let after_ms = predictions.following[0].after_ms;
    assert!((88..=100).contains(&after_ms), "{after_ms}");
}

#[test]
fn what_a_stylesheet_asks_for_belongs_to_the_page_by_the_order_on_its_connection() {
    let hints = hints();
    for connection in 1..=9 {
        let mut visitor = visitor(&hints, connection);
        visitor.ask("/", "Sec-Fetch-Dest: document\r\n");
        visitor.ask("/style.css", "Referer: http://site.test/\r\n");
        visitor.ask("/font.woff2", "Referer: http://site.test/style.css\r\n");
    }
    let of_page: Vec<String> = following(&hints, "/").into_iter().map(|(target, _)| target).collect();
    assert_eq!(of_page, ["/style.css", "/font.woff2"]);
    assert_eq!(following(&hints, "/style.css"), [("/font.woff2".to_owned(), 900)]);
}

#[test]
fn what_another_page_asks_for_over_the_same_connection_is_not_this_ones() {
    let hints = hints();
    let mut visitor = visitor(&hints, 1);
    for _ in 0..9 {
        visitor.ask("/one/", "");
        visitor.ask("/two/", "");
        visitor.ask("/one.css", "Referer: http://site.test/one/\r\n");
    }
    assert_eq!(following(&hints, "/two/"), []);
}

#[test]
fn what_comes_long_after_a_page_and_frames_in_it_say_nothing() {
    let hints = hints();
    let mut visitor = visitor(&hints, 1);
    for _ in 0..9 {
        visitor.ask("/", "");
        visitor.ask("/frame/", "Sec-Fetch-Dest: iframe\r\n");
        visitor.ask("/in-page.png", "");
        visitor.now_ms += 20_000;
        visitor.ask("/late.png", "");
    }
    let targets: Vec<String> = following(&hints, "/").into_iter().map(|(target, _)| target).collect();
    assert_eq!(targets, ["/frame/", "/in-page.png"]);
    assert_eq!(following(&hints, "/frame/"), []);
}

#[test]
fn queries_credentials_and_guesses_are_not_learned_from() {
    let hints = hints();
    let mut visitor = visitor(&hints, 1);
    let referer = "Referer: http://site.test/\r\n";
    for _ in 0..9 {
        visitor.ask("/?session=1", "");
        visitor.ask("/private?token=1", referer);
        visitor.ask("/mine", &format!("{referer}Authorization: Basic x\r\n"));
        visitor.ask("/guess/", &format!("{referer}Sec-Purpose: prefetch\r\n"));
        visitor.ask("/style.css", "Referer: http://site.test/?session=1\r\n");
    }
    assert_eq!(following(&hints, "/"), [("/style.css".to_owned(), 900)]);
    let all: Vec<String> = hints.learning.lock().names.all().map(|(_, name)| name.to_owned()).collect();
    assert_eq!(all, ["/style.css"]);
}

#[test]
fn a_site_without_hints_is_not_learned_from() {
    let site = |hints| SiteSettings { hints, ..SiteSettings::new("/".into()) };
    let settings = Settings { sites: vec![site(Some(true)), site(None)], ..Settings::default() };
    let hints = Hints::still(&settings);
    assert!(hints.has_site(0) && !hints.has_site(1) && !hints.has_site(7));
    assert!(sites(&Settings { sites: vec![site(None)], ..Settings::default() }).is_none());
}

#[test]
fn links_of_a_parsed_page_are_known_before_anybody_follows_them() {
    let hints = hints();
    hints.handle_links(0, b"/", ["/style.css"].into_iter());
    let predictions = hints.following(0, b"/");
    assert_eq!(&*predictions.following[0].target, "/style.css");
}

#[test]
fn predictions_lie_on_the_entry_of_the_page_with_sizes_that_the_cache_knows() {
    let entry = |content: &[u8]| {
        let description = Description { media_type: Some("text/html"), ..Description::of(Status(200)) };
        let representation = Representation::with_content(&description, content).unwrap();
        Arc::new(Entry::new(Resource::one(Status(200), representation), Stamps::none(), 5_000))
    };
    let (hints, store) = (hints(), Arc::new(Store::new(4 << 20, 100)));
    attach(Some(&hints), &store);
    let page = entry(b"page");
    store.insert(Key { site: 0, path: b"/" }, page.clone());
    store.insert(Key { site: 0, path: b"/style.css" }, entry(b"twelve bytes"));
    assert!(page.predictions().is_none());
    for connection in 1..=9 {
        let mut visitor = visitor(&hints, connection);
        visitor.ask("/", "");
        visitor.ask("/style.css", "Referer: http://site.test/\r\n");
    }
    let predictions = page.predictions();
    let one = &predictions.as_ref().expect("it was asked for often").following[0];
    assert_eq!((&*one.target, one.bytes), ("/style.css", Some(12)));
    assert!(store.bytes() > page.memory_bytes(), "they count");
}

#[test]
fn a_million_urls_take_no_more_memory_than_was_given() {
    const BYTES: u64 = 64 << 20;
    let mut settings = Settings::default();
    settings.hints.bytes_max = BYTES;
    let learning = learning::Learning::open(&settings.hints, None, false, SharedMemory::default(), None);
    let mut learner = learning.lock();
    for number in 0..1_000_000_u32 {
        let path = format!("/archive/{:04}/page{number:07}.html", number % 1_000);
        let referer = format!("/archive/{:04}/", number % 1_000);
        let mut one = Observation::new(path.as_bytes(), referer.as_bytes()).unwrap();
        (one.at_ms, one.is_page, one.connection) = (number, true, u64::from(number));
        learner.learn(&one);
    }
    let known = learner.table.len();
    assert!(known > 960_000, "{known}");
    let bytes = learner.memory_bytes() + observation::Queues::MEMORY_BYTES;
    assert!(bytes as u64 <= BYTES, "{bytes}");
}
