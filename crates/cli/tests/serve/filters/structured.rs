//! Overviews of pages and their sections: each is a file of its own, in every engine, and the whole is as ever.

use std::fs;

use super::{ask, settled};
use crate::client::PATIENCE;
use crate::control;
use crate::engine::{AMPED, Engine, PIPELINED, PROACTOR, SPED, THREAD_POOL, for_engines};
use crate::held::memory_of;
use crate::server::{Launch, Server, eventually};

for_engines!(all structures_are_tried_with_every_architecture: [
    sped = SPED,
    sped_caches_off = SPED_CACHES_OFF,
    amped = AMPED,
    amped_entries_off = AMPED_ENTRIES_OFF,
    amped_with_helper_processes = AMPED_WITH_HELPER_PROCESSES,
    co_amped = CO_AMPED,
    proactor = PROACTOR,
    thread_pool = THREAD_POOL,
    thread_per_request = THREAD_PER_REQUEST,
    thread_per_session = THREAD_PER_SESSION,
    pipelined = PIPELINED,
    mp = MP,
] => [
    the_overview_and_sections_are_files_of_their_own,
    who_prefers_the_overview_is_given_it,
    what_there_is_not_is_said,
    plain_text_has_sections,
]);

const CONFIG: &str = r#"
[[site]]
root = "site"
browse = true
error_pages = { 404 = "/404.html" }

[[site.route]]
match = ["*.html", "*.txt"]
structured = { save_data = true }

[[site.route]]
match = "*.md"
filters = ["markdown"]
structured = { save_data = true }
"#;

/// A page of about a megabyte with 60 sections.
fn page() -> String {
    let section = |at: usize| {
        let (level, parent) = if at.is_multiple_of(5) { (2, "") } else { (3, "<div class=part>") };
        let paragraph = format!("<p>Paragraph of <a href=\"/{at}\">section {at}</a>, a &lt; b.\n");
        format!("{parent}<h{level} id=\"s{at}\">Section {at}</h{level}>\n{}", paragraph.repeat(300))
    };
    let sections: String = (0..60).map(section).collect();
    let head = "<meta charset=utf-8><title>A manual</title><link rel=stylesheet href=/s.css>";
    format!("<!doctype html><html lang=en><head>{head}</head><body><h1>Manual</h1>{sections}</body></html>")
}

/// More than filters take.
fn large_page() -> String {
    format!("<h1>Large</h1>{}", " ".repeat(16 << 20))
}

const TEXT: &str = "Manual\n======\n\nWords.\n\nSecond\n------\n\nMore <words>.\n";

fn start(engine: Engine) -> Server {
    Launch::new(engine)
        .config(CONFIG)
        .file("a.html", page())
        .file("large.html", large_page())
        .file("404.html", "<h1>Nothing</h1>")
        .file("a.txt", TEXT)
        .file("list/a.png", "a picture")
        .file("a.md", "# One\n\nfirst\n\n# Two\n\nsecond\n")
        .start()
}

fn the_overview_and_sections_are_files_of_their_own(engine: Engine) {
    let server = start(engine);
    let whole = settled(&server, "/a.html");
    assert!(whole.content == page().as_bytes());
    assert!(whole.field("vary").is_some_and(|vary| vary.contains("Prefer, Save-Data")), "{:?}", whole.field("vary"));
    let mut etags = vec![whole.field("etag").expect("it was waited for").to_owned()];
    for (target, part) in [
        ("/a.html?view=outline", "<a href=\"?section=s59\">Section 59</a>"),
        ("/a.html?section=s7", "<h3 id=\"s7\">Section 7</h3>"),
        ("/a.md?section=two", "<p>second</p>"),
    ] {
        let made = settled(&server, target);
        let text = String::from_utf8_lossy(&made.content);
        assert!(made.status == 200 && text.contains(part), "{target}: {text}");
        assert!(made.content.len() < whole.content.len() / 10);
        assert!(made.field("vary").is_some_and(|vary| vary.contains("Prefer")), "{:?}", made.field("vary"));
        let etag = made.field("etag").expect("it was waited for");
        assert!(etag.starts_with('"') && etags.iter().all(|other| other != etag), "{etag} is strong and its own");
        assert_eq!(ask(&server, "GET", target, &format!("If-None-Match: {etag}\r\n")).status, 304);
        let range = ask(&server, "GET", target, &format!("Range: bytes=5-14\r\nIf-Range: {etag}\r\n"));
        assert_eq!((range.status, &range.content[..]), (206, &made.content[5..15]));
        etags.push(etag.to_owned());
    }
    server.finish();
}

fn who_prefers_the_overview_is_given_it(engine: Engine) {
    let server = start(engine);
    for _ in 0..2 {
        let preferred = ask(&server, "GET", "/a.html", "Prefer: view=outline\r\n");
        assert_eq!(preferred.field("preference-applied"), Some("view=outline"));
        let overview = ask(&server, "GET", "/a.html?view=outline", "");
        assert_eq!((&preferred.content, overview.field("preference-applied")), (&overview.content, None));
        assert!(ask(&server, "GET", "/a.html", "Save-Data: on\r\n").content == overview.content);
        let fields = "Save-Data: on\r\nPrefer: view=outline\r\n";
        assert!(ask(&server, "GET", "/a.html?view=whole", fields).content == page().as_bytes());
        assert!(ask(&server, "GET", "/a.html", "").content == page().as_bytes());
        let large = ask(&server, "GET", "/large.html", "Prefer: view=outline\r\n");
        assert!(large.content == large_page().as_bytes() && large.field("preference-applied").is_none());
        // It is not smaller than the page.
        assert_eq!(ask(&server, "GET", "/404.html", "Save-Data: on\r\n").content, b"<h1>Nothing</h1>");
    }
    server.finish();
}

#[test]
fn ever_new_sections_that_there_are_not_push_out_nothing_that_is_asked_for_and_take_the_memory_of_the_cache() {
    const PAGES: usize = 9;
    const SECTIONS: usize = 1_900;
    const FILES: usize = 20;
    for engine in [SPED, AMPED] {
        let mut launch = Launch::new(engine).config(&format!("cache_bytes = \"8 MiB\"\n{CONFIG}"));
        for page in 0..PAGES {
            launch = launch.file(&format!("p{page}.html"), "<h2 id=a>A</h2>");
        }
        for file in 0..FILES {
            launch = launch.file(&format!("{file}.bin"), vec![file as u8; 50_000]);
        }
        let server = launch.start();
        settled(&server, "/0.bin");
        let mut client = server.connect();
        let mut ask = |target: &str| client.get(target).unwrap_or_else(|fault| panic!("{target}: {fault}"));
        let mut ask_for_files = || {
            (0..FILES).for_each(|file| assert!(ask(&format!("/{file}.bin")).content == vec![file as u8; 50_000]));
        };
        let memory_bytes = || memory_of(server.pid().as_raw_nonzero().get());
        let misses = || {
            control::wait_until_counted(&server, "/0.bin");
            control::figure(&server, "lamna_cache_lookups_total{result=\"miss\"}")
        };
        // One use of a page of 2 KiB is worth as much as twenty of a file of 50 KB: so many that none is near that.
        (0..60).for_each(|_| ask_for_files());
        let before = memory_bytes();
        let mut others = server.connect();
        for number in 0..PAGES * SECTIONS {
            let target = format!("/p{}.html?section=none-{number}", number % PAGES);
            assert_eq!(others.get(&target).expect("it is answered").status, 404, "{target}");
            if number % 500 == 0 {
                ask_for_files();
            }
        }
        let missed = misses();
        ask_for_files();
        assert_eq!(misses(), missed, "of what is asked for again and again nothing was pushed out");
        // 17,100 pages of 2 KiB and more would be 40 MiB.
        let after = memory_bytes();
        assert!(after < before + (20 << 20), "{after} bytes, {before} before");
        server.finish();
    }
}

fn what_there_is_not_is_said(engine: Engine) {
    let server = start(engine);
    for _ in 0..2 {
        let absent = ask(&server, "GET", "/a.html?section=none", "");
        assert_eq!((absent.status, &absent.content[..]), (404, &b"<h1>Nothing</h1>"[..]));
        assert_eq!(ask(&server, "GET", "/none.html?section=nothing", "").status, 404);
        let large = ask(&server, "GET", "/large.html?section=large", "");
        assert_eq!(large.status, 422, "it is too large to be divided");
    }
    let said = server.finish();
    assert!(!said.contains("cannot be filtered"), "who asks has caused it: {said}");
}

/// Bytes that a process has read, from wherever.
fn read_bytes(server: &Server) -> u64 {
    let text = fs::read_to_string(format!("/proc/{}/io", server.pid().as_raw_nonzero())).expect("our own child");
    text.lines().find_map(|line| line.strip_prefix("rchar: ")?.parse().ok()).expect("the kernel counts")
}

#[test]
fn a_section_of_a_page_whose_structure_is_known_takes_its_part_of_the_file() {
    let text = "words ".repeat(5_000);
    let many = |section: &dyn Fn(usize) -> String| (0..100).map(section).collect::<String>();
    let files = [
        ("many.html", many(&|at| format!("<h2 id=section-{at}>Section {at}</h2><p>{text}\n"))),
        ("many.md", many(&|at| format!("## Section {at}\n\n{text}\n\n")) + "[a]: /b\n"),
        ("many.txt", many(&|at| format!("Section {at}\n-------\n{text}\n\n"))),
    ];
    for engine in [SPED, AMPED, PROACTOR, THREAD_POOL, PIPELINED] {
        let launch = Launch::new(engine).config(CONFIG);
        let server = files.iter().fold(launch, |launch, (name, content)| launch.file(name, content)).start();
        for (name, _) in &files {
            settled(&server, &format!("/{name}?view=outline"));
            let whole = ask(&server, "GET", &format!("/{name}?section=section-0"), "");
            assert_eq!(whole.status, 200);
            let before = read_bytes(&server);
            for at in 50..60 {
                let found = ask(&server, "GET", &format!("/{name}?section=section-{at}"), "");
                let found = String::from_utf8_lossy(&found.content).into_owned();
                assert!(
                    found.contains(&format!(">Section {at}</h2>")) && !found.contains(&format!("Section {}<", at + 2)),
                    "{found}"
                );
            }
            let read = read_bytes(&server) - before;
            assert!(read < 1_000_000, "{read} bytes were read for ten sections of 30 kB, of {name}, which has 3 MB");
            let absent = ask(&server, "GET", &format!("/{name}?section=none"), "");
            assert_eq!(absent.status, 404);
        }
        server.finish();
    }
}

#[test]
fn sections_of_markdown_have_the_links_of_the_whole() {
    let whole = format!("# One\n\n[link][a] {}\n\n# Two\n\n[a]: /there.html\n", "words ".repeat(2_000));
    let server = Launch::new(AMPED)
        .config(CONFIG)
        .file("a.md", &whole)
        .file("small.md", "# One\n")
        .file("bad.md", b"# One\n\xff\n# Two\n")
        .start();
    // The first is made of the whole, the second of its structure.
    for _ in 0..2 {
        let made = ask(&server, "GET", "/a.md?section=one", "");
        let text = String::from_utf8_lossy(&made.content);
        assert!(text.contains("<a href=\"/there.html\">link</a>") && text.contains("<h1 id=\"one\">"), "{text}");
        let saved = ask(&server, "GET", "/a.md", "Save-Data: on\r\n");
        assert!(String::from_utf8_lossy(&saved.content).contains("<a href=\"?section=two\">Two</a>"));
        // The overview would be larger than this page.
        let small = ask(&server, "GET", "/small.md", "Save-Data: on\r\n");
        assert_eq!(small.content, ask(&server, "GET", "/small.md", "").content);
        // What is no UTF-8 is divided as the page that it becomes.
        let bad = ask(&server, "GET", "/bad.md?section=one", "");
        assert!(String::from_utf8_lossy(&bad.content).contains("\u{fffd}"), "{bad:?}");
    }
    server.finish();
}

#[test]
fn what_is_known_of_a_page_ends_with_the_page() {
    let page = |word: &str| format!("<h1 id=a>{word}</h1><p>{}<h1 id=b>{word} more</h1>", word.repeat(1000));
    let server = Launch::new(AMPED).config(CONFIG).file("a.html", page("old")).start();
    settled(&server, "/a.html?view=outline");
    assert!(String::from_utf8_lossy(&ask(&server, "GET", "/a.html?section=b", "").content).contains("old more"));
    fs::write(server.directory().join("site/a.html"), page("newer")).unwrap();
    eventually("the new page is served", PATIENCE, || {
        let made = ask(&server, "GET", "/a.html?section=b", "");
        String::from_utf8_lossy(&made.content).contains("<h1 id=b>newer more</h1>").then_some(())
    });
    server.finish();
}

fn plain_text_has_sections(engine: Engine) {
    let server = start(engine);
    for _ in 0..2 {
        let section = ask(&server, "GET", "/a.txt?section=second", "");
        let text = String::from_utf8_lossy(&section.content);
        assert!(text.contains("More &lt;words&gt;.") && !text.contains("Words."), "{text}");
        assert_eq!(section.field("content-type"), Some("text/html; charset=utf-8"));
        for fields in ["", "Save-Data: on\r\n"] {
            let whole = ask(&server, "GET", "/a.txt", fields);
            assert_eq!(
                (&whole.content[..], whole.field("content-type")),
                (TEXT.as_bytes(), Some("text/plain; charset=utf-8"))
            );
        }
    }
    server.finish();
}

/// More of them than there are forms of a picture.
#[test]
fn all_sections_of_a_page_can_be_read_one_after_the_other() {
    let text = "words ".repeat(500);
    let sections: String = (0..300).map(|at| format!("<h2 id=s{at}>Section {at}</h2><p>{text}\n")).collect();
    let server = Launch::new(AMPED).config(CONFIG).file("many.html", sections).start();
    for at in 0..300 {
        let section = ask(&server, "GET", &format!("/many.html?section=s{at}"), "");
        assert_eq!(section.status, 200, "section {at}");
    }
    server.finish();
}

#[test]
fn listings_show_no_pictures_that_nobody_makes_small() {
    let config = CONFIG.replace("[\"*.html\", \"*.txt\"]", "\"*\"");
    let server = Launch::new(AMPED).config(&config).file("list/a.png", "a picture").start();
    let listing = String::from_utf8(ask(&server, "GET", "/list/", "").content).expect("it is text");
    assert!(listing.contains("a.png") && !listing.contains("<img src"), "{listing}");
    server.finish();
}
