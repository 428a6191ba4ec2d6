//! Content that is kept for an application while the program is upgraded: the process that has begun to keep it asks
//! the application.

use super::Line;
use crate::engine::Engine;
use crate::gateways::Application;
use crate::server::Launch;
use crate::tree::pattern;

crate::engine::for_engines!([
    amped = AMPED,
    proactor = PROACTOR,
    pipelined = PIPELINED,
    thread_pool = THREAD_POOL,
    co_amped = CO_AMPED,
    mp = MP,
] => [content_that_is_kept_is_sent_by_the_process_that_keeps_it]);

fn content_that_is_kept_is_sent_by_the_process_that_keeps_it(engine: Engine) {
    let application = Application::start();
    let proxy =
        format!("{{ to = \"http://{}\", buffer = \"10 KiB\", buffer_directory = \"site\" }}", application.address);
    let lines = format!("[[site]]\nroot = \"site\"\n[[site.route]]\nmatch = \"/app/*\"\nproxy = {proxy}\n");
    let mut line = Line::start(Launch::new(engine).config(&lines));
    let content = pattern(300_000, 3);
    let mut client = line.server.connect();
    client.send(format!("POST /app/echo HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n", content.len()).as_bytes());
    client.send(&content[..100_000]);
    line.upgrade();
    client.send(&content[100_000..]);
    assert!(client.receive(true).unwrap().content == content);
    drop(client);
    line.is_alone();
    let said = line.end();
    assert!(!said.contains("cannot be kept"), "{said}");
}
