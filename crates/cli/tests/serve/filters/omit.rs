//! Pages without kinds of content that a client does not want: each is a file of its own, and the whole is as ever.

use super::{ask, settled};
use crate::engine::{Engine, for_engines};
use crate::server::Launch;

for_engines!([
    sped = SPED,
    amped = AMPED,
    amped_with_helper_processes = AMPED_WITH_HELPER_PROCESSES,
    proactor = PROACTOR,
    thread_pool = THREAD_POOL,
    pipelined = PIPELINED,
] => [a_page_is_without_what_is_not_wanted]);

const CONFIG: &str = "[[site]]\nroot = \"site\"\n[[site.route]]\nmatch = \"*.html\"\n\
                      filters = [{ name = \"omit\", save_data = \"pictures\" }]\n";
const PAGE: &str = "<title>A</title><style>p{}</style><script src=a.js></script><p>one<img src=a.png alt=two>three\n";

fn a_page_is_without_what_is_not_wanted(engine: Engine) {
    let server = Launch::new(engine).config(CONFIG).file("a.html", PAGE).file("a.txt", "a file\n").start();
    let text = |target: &str, fields: &str| String::from_utf8(ask(&server, "GET", target, fields).content).unwrap();
    let without_pictures = PAGE.replace("<img src=a.png alt=two>", "two");
    for _ in 0..2 {
        assert_eq!(text("/a.html", ""), PAGE);
        assert_eq!(text("/a.html?omit=pictures", ""), without_pictures);
        assert_eq!(text("/a.html", "Save-Data: on\r\n"), without_pictures);
        assert_eq!(text("/a.html?omit=", "Save-Data: on\r\n"), PAGE);
        assert_eq!(
            text("/a.html?omit=styles,scripts", "Save-Data: on\r\n"),
            PAGE.replace("<style>p{}</style>", "").replace("<script src=a.js></script>", "")
        );
        assert_eq!(text("/a.txt?omit=pictures", ""), "a file\n");
        assert_eq!(ask(&server, "GET", "/a.html?omit=words", "").status, 400);
    }
    let (whole, part) = (settled(&server, "/a.html"), settled(&server, "/a.html?omit=pictures"));
    assert_ne!(whole.field("etag"), part.field("etag"));
    for answer in [&whole, &part] {
        assert!(answer.field("vary").is_some_and(|vary| vary.contains("Save-Data")), "{:?}", answer.field("vary"));
    }
    let etag = part.field("etag").expect("it was waited for");
    assert_eq!(ask(&server, "GET", "/a.html?omit=pictures", &format!("If-None-Match: {etag}\r\n")).status, 304);
    server.finish();
}
