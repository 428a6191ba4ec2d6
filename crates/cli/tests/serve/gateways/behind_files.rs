//! Applications behind files: what is there is sent, and an application answers everything else.

use std::fs;

use super::paths::{Echo, ask, site};
use crate::access::ADA;
use crate::client::PATIENCE;
use crate::control::order;
use crate::engine::{Engine, for_engines};
use crate::http2::{Http2, request};
use crate::server::{Launch, eventually};

for_engines!([
    mp = MP,
    thread_pool = THREAD_POOL,
    thread_per_request = THREAD_PER_REQUEST,
    thread_per_session = THREAD_PER_SESSION,
    sped = SPED,
    amped = AMPED,
    co_amped = CO_AMPED,
    pipelined = PIPELINED,
    proactor = PROACTOR,
] => [
    an_application_answers_where_no_file_is,
    files_that_come_and_go_take_the_place_of_the_application,
]);

/// The status for `method` and `target`, and the content if that is 200.
fn ask_by(server: &crate::server::Server, method: &str, target: &str) -> (u16, String) {
    let mut client = server.connect();
    client.send(format!("{method} {target} HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n").as_bytes());
    let response = client.receive(method != "HEAD").unwrap_or_else(|fault| panic!("{method} {target}: {fault}"));
    let content = String::from_utf8_lossy(&response.content).into_owned();
    (response.status, if response.status == 200 { content } else { String::new() })
}

fn an_application_answers_where_no_file_is(engine: Engine) {
    let echo = Echo::start();
    let routes = format!(
        "index = [\"index.html\"]\n\
         [[site.route]]\nmatch = \"/*\"\ntry = [\"$path\", \"$path.html\", \"/all$path\"]\nproxy = \"http://{to}\"\n\
         [[site.route]]\nmatch = \"/app/*\"\nproxy = \"http://{to}\"\nstrip_prefix = \"/app\"\ntry = \"$path\"\n\
         [[site.route]]\nmatch = \"/files/*\"\nproxy = false\n\
         [[site.route]]\nmatch = \"/api/*\"\nproxy = \"http://{to}\"\n\
         [[site.route]]\nmatch = \"/admin/*\"\naccess = {{ users = [\"ada\"] }}\n",
        to = echo.address
    );
    let names = ["a.txt", "page.html", "folder/index.html", "all/b.txt", "app/c.txt", "api/d.txt", "admin/e.txt"];
    let launch = Launch::new(engine).argument("--h2c").file("empty/.hidden", "").file(".secret", "hidden");
    let launch = names.iter().fold(launch, |launch, name| launch.file(name, *name));
    let server = launch.config(&site(&routes)).start();
    let check = |round: &str| {
        for (method, target, status, told) in [
            ("GET", "/a.txt", 200, "a.txt"),
            ("GET", "/a.txt?x=1", 200, "a.txt"),
            ("GET", "/page", 200, "page.html"),
            ("GET", "/b.txt", 200, "all/b.txt"),
            ("GET", "/folder/", 200, "folder/index.html"),
            ("GET", "/folder", 301, ""),
            ("POST", "/a.txt", 405, ""),
            ("PUT", "/a.txt", 405, ""),
            ("GET", "/", 200, "/"),
            ("GET", "/gone?x=/a.txt", 200, "/gone?x=/a.txt"),
            ("GET", "/empty/", 200, "/empty/"),
            ("GET", "/a.txt/more", 200, "/a.txt/more"),
            ("GET", "/.secret", 200, "/.secret"),
            ("GET", "/a//b%2Fc%20%7E", 200, "/a//b%2Fc%20%7E"),
            ("GET", "/a%2Etxt%2F", 200, "/a%2Etxt%2F"),
            ("POST", "/gone", 200, "/gone"),
            ("DELETE", "/gone", 200, "/gone"),
            ("OPTIONS", "/gone", 200, "/gone"),
            ("FROB", "/gone", 200, "/gone"),
            ("GET", "/..%2Fa.txt", 400, ""),
            ("GET", "/../a.txt", 400, ""),
            ("GET", "/app/c.txt", 200, "app/c.txt"),
            ("GET", "/app/gone", 200, "/gone"),
            ("GET", "/api/d.txt", 200, "/api/d.txt"),
            ("GET", "/files/gone", 404, ""),
            ("GET", "/admin/e.txt", 401, ""),
            ("GET", "/admin/gone", 401, ""),
            ("POST", "/admin/gone", 401, ""),
            ("GET", "/admin%2Fgone", 401, ""),
        ] {
            assert_eq!(ask_by(&server, method, target), (status, told.to_owned()), "{round}: {method} {target}");
        }
        assert_eq!(ask(&server, b"/admin/e.txt", ADA), (200, "admin/e.txt".to_owned()), "{round}");
        assert_eq!(ask(&server, b"/admin/gone", ADA), (200, "/admin/gone".to_owned()), "{round}");
        let mut over_http2 = Http2::connect(server.address());
        for (method, target, status, told) in [
            ("GET", "/a.txt", 200, "a.txt"),
            ("GET", "/gone?x", 200, "/gone?x"),
            ("DELETE", "/gone", 200, "/gone"),
            ("DELETE", "/a.txt", 405, ""),
            ("GET", "/a%2Fb", 200, "/a%2Fb"),
            ("GET", "/admin/gone", 401, ""),
        ] {
            let answer = over_http2.try_ask(request(method, target, &[])).unwrap();
            assert_eq!(answer.status, status, "{round}: {method} {target}");
            assert!(status != 200 || answer.content == told.as_bytes(), "{round}: {method} {target}");
        }
    };
    check("from the start");
    check("from the cache");
    order(&server, &["reload"]).unwrap();
    check("after a reload");
    let other = if engine.architecture == "amped" { "thread-pool" } else { "amped" };
    if !matches!(engine.architecture, "mp" | "co-amped") {
        order(&server, &["arch", "set", other]).unwrap();
        check("by another engine");
    }
    server.finish();
}

fn files_that_come_and_go_take_the_place_of_the_application(engine: Engine) {
    let echo = Echo::start();
    let routes =
        format!("[[site.route]]\nmatch = \"/*\"\ntry = \"$path\"\nproxy = \"http://{}\"\ncache = true\n", echo.address);
    let server = Launch::new(engine).config(&site(&routes)).file("here.txt", "here").start();
    let becomes = |told: &str| {
        eventually(told, PATIENCE, || (ask(&server, b"/news.txt", "") == (200, told.to_owned())).then_some(()))
    };
    for _ in 0..2 {
        becomes("/news.txt");
        fs::write(server.site().join("news.txt"), "a file").unwrap();
        becomes("a file");
        fs::remove_file(server.site().join("news.txt")).unwrap();
    }
    becomes("/news.txt");
    server.finish();
}
