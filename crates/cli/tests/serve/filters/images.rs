//! Pictures in other sizes and formats: each is a file of its own, in every engine, and few different ones exist of
//! each picture.

use std::collections::HashSet;
use std::fs;
use std::io::Write;

use super::{ask, settled};
use crate::client::PATIENCE;
use crate::engine::{AMPED, Engine, PIPELINED, PROACTOR, SPED, THREAD_POOL, for_engines};
use crate::held::memory_of;
use crate::http2::Http2;
use crate::server::{Launch, Server, eventually};

for_engines!(all images_are_tried_with_every_architecture: [
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
    a_picture_that_is_asked_for_is_a_file_of_its_own,
    what_cannot_be_asked_for_is_refused,
    the_format_is_one_that_the_client_takes,
    ever_new_forms_of_a_picture_are_refused_and_others_are_not,
    who_says_what_he_shows_is_given_no_more,
    a_picture_is_read_as_what_it_is_and_not_as_its_name_says,
]);

/// A PNG of so many pixels, which get lighter to the right.
pub(super) fn png(width: u32, height: u32) -> Vec<u8> {
    let row = (0..width).flat_map(|x| [(x * 255 / width) as u8; 3]);
    let row: Vec<u8> = [0].into_iter().chain(row).collect();
    let mut pixels = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
    (0..height).for_each(|_| pixels.write_all(&row).expect("it is written to memory"));
    let chunk = |name: &[u8], content: &[u8]| {
        let mut sum = flate2::Crc::new();
        sum.update(name);
        sum.update(content);
        [&(content.len() as u32).to_be_bytes()[..], name, content, &sum.sum().to_be_bytes()].concat()
    };
    let head = [&width.to_be_bytes()[..], &height.to_be_bytes(), &[8, 2, 0, 0, 0]].concat();
    let pixels = pixels.finish().expect("it is written to memory");
    [b"\x89PNG\r\n\x1a\n".to_vec(), chunk(b"IHDR", &head), chunk(b"IDAT", &pixels), chunk(b"IEND", b"")].concat()
}

/// Width and height of a PNG.
fn size_of(png: &[u8]) -> (u32, u32) {
    let number = |at: usize| u32::from_be_bytes(png[at..at + 4].try_into().expect("it has a head"));
    assert!(png.starts_with(b"\x89PNG"), "{:?}", String::from_utf8_lossy(png));
    (number(16), number(20))
}

fn start(engine: Engine) -> Server {
    let config = "[[site]]\nroot = \"site\"\n[[site.route]]\nmatch = \"*\"\nfilters = [{ name = \"images\", pixels_max = \"200000\" }]\n";
    Launch::new(engine)
        .config(config)
        .file("a.png", png(600, 300))
        .file("large.png", png(600, 400))
        .file("broken.png", &png(600, 300)[..200])
        .file("a.txt", "a file\n")
        .start()
}

fn a_picture_that_is_asked_for_is_a_file_of_its_own(engine: Engine) {
    let server = start(engine);
    let whole = settled(&server, "/a.png");
    assert!(whole.content == png(600, 300));
    // What is no step changes nothing.
    assert_eq!(settled(&server, "/a.png?v=7").field("etag"), whole.field("etag"));
    assert_eq!(ask(&server, "GET", "/a.txt?scale=16", "").content, b"a file\n");
    for _ in 0..2 {
        let small = settled(&server, "/a.png?scale=400");
        assert_eq!((small.status, size_of(&small.content)), (200, (512, 256)));
        assert_eq!(small.field("content-type"), Some("image/png"));
        let etag = small.field("etag").expect("it was waited for");
        assert!(etag.starts_with('"') && Some(etag) != whole.field("etag"), "{etag} is strong and its own");
        // Rounded it is the same, however it is written.
        assert_eq!(settled(&server, "/a.png?v=7&scale=512&x=scale").field("etag"), Some(etag));
        let head = ask(&server, "HEAD", "/a.png?scale=400", "");
        assert_eq!(head.field("content-length"), Some(&*small.content.len().to_string()));
        assert_eq!(ask(&server, "GET", "/a.png?scale=400", &format!("If-None-Match: {etag}\r\n")).status, 304);
        let part = ask(&server, "GET", "/a.png?scale=400", &format!("Range: bytes=1-3\r\nIf-Range: {etag}\r\n"));
        assert_eq!((part.status, &*part.content), (206, &b"PNG"[..]));
    }
    let turned = ask(&server, "GET", "/a.png?crop=1:1&scale=100&rotate=90", "");
    assert_eq!(size_of(&turned.content), (128, 128));
    let in_order = |query: &str| size_of(&ask(&server, "GET", query, "").content);
    assert_eq!(in_order("/a.png?scale=64&rotate=90"), (32, 64));
    assert_eq!(in_order("/a.png?rotate=90&scale=64"), (64, 128));
    fs::write(server.site().join("a.png"), png(300, 300)).expect("it can be written");
    eventually("the file is followed", PATIENCE, || (in_order("/a.png?scale=64") == (64, 64)).then_some(()));
    server.finish();
}

fn what_cannot_be_asked_for_is_refused(engine: Engine) {
    let server = start(engine);
    for _ in 0..2 {
        for (target, status, said) in [
            ("/a.png?scale=big", 400, "`scale` is a width, a height or both"),
            ("/a.png?rotate=45", 400, "`rotate` is 90, 180 or 270"),
            ("/a.png?format=gif", 400, "`format` is auto, jpeg, png or webp"),
            ("/broken.png?scale=16", 422, "it cannot be read as png"),
            ("/large.png?scale=16", 422, "600 by 400 pixels are too many"),
            ("/none.png?scale=16", 404, ""),
        ] {
            let answer = ask(&server, "GET", target, "");
            assert_eq!(answer.status, status, "{target}");
            assert!(String::from_utf8_lossy(&answer.content).contains(said), "{target}");
        }
        // As it is it can be had.
        assert_eq!(ask(&server, "GET", "/large.png", "").content, png(600, 400));
    }
    server.finish();
}

fn the_format_is_one_that_the_client_takes(engine: Engine) {
    let server = start(engine);
    for _ in 0..2 {
        let picture =
            |accept: &str| ask(&server, "GET", "/a.png?scale=64&format=auto", &format!("Accept: {accept}\r\n"));
        let (webp, other) = (picture("image/avif,image/webp,*/*;q=0.8"), picture("*/*"));
        assert_eq!((webp.field("content-type"), webp.field("vary")), (Some("image/webp"), Some("Accept")));
        assert!(webp.content.starts_with(b"RIFF"));
        assert_eq!((other.field("content-type"), other.field("vary")), (Some("image/png"), Some("Accept")));
        assert_eq!(size_of(&other.content), (64, 32));
        let jpeg = ask(&server, "GET", "/a.png?scale=64&format=jpeg", "");
        assert_eq!((jpeg.field("content-type"), jpeg.field("vary")), (Some("image/jpeg"), None));
        assert!(jpeg.content.starts_with(b"\xff\xd8\xff"));
    }
    server.finish();
}

#[test]
fn many_different_requests_have_few_different_pictures_made() {
    for engine in [SPED, AMPED, PROACTOR, THREAD_POOL, PIPELINED] {
        let server = start(engine);
        settled(&server, "/a.png?scale=16");
        let mut client = server.connect();
        let mut found = HashSet::new();
        for number in 1..600 {
            let target = format!("/a.png?scale={number}x{}&x={number}", 600 - number);
            let answer = client.get(&target).unwrap_or_else(|fault| panic!("{target}: {fault}"));
            found.insert(size_of(&answer.content));
        }
        assert!(found.len() <= 20, "{} sizes", found.len());
        server.finish();
    }
}

/// How many different forms are asked for; `LAMNA_DISTINCT_FORMS=1000000` asks for as many.
fn forms() -> usize {
    std::env::var("LAMNA_DISTINCT_FORMS").ok().and_then(|text| text.parse().ok()).unwrap_or(180)
}

/// One of many forms of a picture.
fn form(number: usize) -> String {
    let (left, width, height) = (number % 9 * 10, number / 9 % 9 * 10 + 10, number / 81 % 9 * 10 + 10);
    let (size, turn) = (number / 729 % 18, number / 13_122 % 3 * 90 + 90);
    let size = [16, 32, 48, 64, 96, 128, 192, 256, 384, 512, 640, 828, 1080, 1280, 1600, 1920, 2560, 3840][size];
    let gamma = number / 39_366 % 50 + 1;
    format!("/a.png?crop={left},0,{width},{height}&scale={size}&rotate={turn}&gamma={}.{}", gamma / 10, gamma % 10)
}

#[test]
fn forms_that_are_refused_take_no_memory() {
    for engine in [SPED, AMPED] {
        let server = start(engine);
        let mut client = server.connect();
        let mut ask_for = |numbers: std::ops::Range<usize>| {
            numbers.for_each(|number| assert!([200, 429].contains(&client.get(&form(number)).unwrap().status)));
        };
        let memory_bytes = || memory_of(server.pid().as_raw_nonzero().get());
        ask_for(0..2_000);
        let before = memory_bytes();
        ask_for(2_000..17_000);
        // A page of 2 KiB for each would be 30 MiB.
        assert!(memory_bytes() < before + (12 << 20), "{} bytes, {before} before", memory_bytes());
        server.finish();
    }
}

fn ever_new_forms_of_a_picture_are_refused_and_others_are_not(engine: Engine) {
    let server = start(engine);
    // On one connection, so that one process counts.
    let mut client = server.connect();
    let mut counts = std::collections::BTreeMap::new();
    for number in 0..forms() {
        let target = form(number);
        let response = client.get(&target).unwrap_or_else(|fault| panic!("{target}: {fault}"));
        response.check().unwrap();
        *counts.entry(response.status).or_insert(0) += 1;
        if response.status == 429 {
            assert!(response.field("Retry-After").is_some(), "{target}");
        }
    }
    // A crop at 90 of 100 can only be 10 wide, so some are the same. In the time that this takes a few more may be
    // made.
    let made = counts.remove(&200).unwrap_or(0);
    assert!(counts.keys().all(|status| *status == 429) && made >= 50, "{made} made, {counts:?}");
    assert!(forms() > 180 || counts.get(&429).is_some_and(|refused| *refused > 5), "{made} made, {counts:?}");
    // What was made stays, and so do other files.
    assert_eq!(client.get("/a.png?crop=0,0,10,10&scale=16&rotate=90&gamma=0.1").unwrap().status, 200);
    assert_eq!(client.get("/a.png").unwrap().status, 200);
    assert_eq!(client.get("/large.png?scale=16").unwrap().status, 422, "another file, which is too large");
    server.finish();
}

fn who_says_what_he_shows_is_given_no_more(engine: Engine) {
    let site = "[[site]]\nroot = \"site\"\n\n[[site.route]]\nmatch = \"*.png\"\nfilters = [{ name = \"images\", adapt = \"true\" }]\n";
    // More than filters take.
    let large = vec![0; (16 << 20) + 1];
    let launch = Launch::new(engine).config(site).file("a.png", png(600, 300)).file("a.html", "<p>a");
    let server = launch.file("broken.png", b"\x89PNG\r\n").file("large.png", &large).start();
    let vary = "Save-Data, Sec-CH-DPR, Sec-CH-Width, Sec-CH-Viewport-Width, DPR, Width, Viewport-Width";
    let hints = Some("Sec-CH-DPR, Sec-CH-Viewport-Width, Sec-CH-Width");
    settled(&server, "/a.png");
    for _ in 0..2 {
        let page = ask(&server, "GET", "/a.html", "Sec-CH-Width: 100\r\n");
        assert_eq!((page.field("accept-ch"), page.field("vary")), (hints, None));
        let whole = ask(&server, "GET", "/a.png", "");
        assert!(whole.content == png(600, 300) && whole.field("vary") == Some(vary), "{:?}", whole.field("vary"));
        let mut etags = vec![whole.field("etag").expect("it was waited for").to_owned()];
        for (fields, width) in [
            ("Sec-CH-Width: 100\r\n", 128),
            ("Sec-CH-Viewport-Width: 100\r\nSec-CH-DPR: 3\r\n", 384),
            ("Sec-CH-Viewport-Width: 100\r\nSec-CH-DPR: 3\r\nSave-Data: on\r\n", 128),
        ] {
            let small = ask(&server, "GET", "/a.png", fields);
            assert_eq!(size_of(&small.content), (width, width / 2), "{fields}");
            let varies = small.field("vary").expect("it depends on the client");
            assert!(varies.contains(vary) && varies.contains("Accept"), "{varies}");
            let etag = small.field("etag").expect("it is made of a file that has settled").to_owned();
            let same = ask(&server, "GET", "/a.png", &format!("{fields}If-None-Match: {etag}\r\n"));
            assert_eq!((same.status, same.field("vary")), (304, small.field("vary")));
            etags.push(etag);
        }
        assert!(etags[0] != etags[1] && etags[1] != etags[2] && etags[1] == etags[3], "{etags:?}");
        for fields in ["Sec-CH-Width: wide\r\n", "Sec-CH-Width: 0\r\n", "Sec-CH-DPR: 2\r\n"] {
            assert!(ask(&server, "GET", "/a.png", fields).content == png(600, 300), "{fields}");
        }
        assert!(ask(&server, "GET", "/a.png?adapt=off", "Sec-CH-Width: 100\r\n").content == png(600, 300));
        // A hint is no order: what cannot be made smaller is given as it is.
        for (target, content) in [("/broken.png", &b"\x89PNG\r\n"[..]), ("/large.png", &large)] {
            let whole = ask(&server, "GET", target, "Sec-CH-Width: 100\r\n");
            assert!(whole.status == 200 && whole.content == content, "{target}: {}", whole.status);
        }
        assert_eq!(ask(&server, "GET", "/broken.png?rotate=90", "Sec-CH-Width: 100\r\n").status, 422);
    }
    server.finish();
}

fn a_picture_is_read_as_what_it_is_and_not_as_its_name_says(engine: Engine) {
    let config = "[[site]]\nroot = \"site\"\nroute = [{ match = \"*\", filters = [{ name = \"images\" }] }]\n";
    let launch = Launch::new(engine).argument("--h2c").config(config).file("a.jpg", png(60, 40));
    let server = launch.file("broken.png", b"\x89PNG\r\n\x1a\n\0\0\0\xff\x01\x02\x1b[0m").start();
    let response = server.connect().get("/a.jpg?scale=48").unwrap();
    assert_eq!((response.status, response.field("Content-Type")), (200, Some("image/jpeg")));
    assert!(response.content.starts_with(b"\xff\xd8\xff"));
    assert_eq!(Http2::connect(server.address()).get("/a.jpg?scale=48").content, response.content);
    let page = server.connect().get("/broken.png?scale=48").unwrap();
    assert_eq!((page.status, &*page.reason), (422, "Unprocessable Content"));
    let text = String::from_utf8(page.content).unwrap();
    assert!(!text.contains("422 422") && !text.contains('\u{fffd}'), "{text}");
    assert!(!text.chars().any(|letter| letter.is_control() && letter != '\n'), "{text:?}");
    server.finish();
}
