//! A program that the server is a part of: a directory, a handler and a filter of its own. docs/extending.md leads
//! through it.
//!
//!     cargo run -p lamna-server --example embedded -- site

mod rot13;

use lamna_server::embed::{Builder, Reply, Running, StartError};

fn main() -> Result<(), StartError> {
    let directory = std::env::args().nth(1).unwrap_or_else(|| ".".to_owned());
    let server = serve(&directory, ([127, 0, 0, 1], 8080))?;
    println!("serving {directory} at http://{}/", server.address());
    server.wait();
    Ok(())
}

fn serve(directory: &str, address: impl Into<std::net::SocketAddr>) -> Result<Running, StartError> {
    Builder::new(directory)
        .listen(address)
        .handler("/hello/*", |asked| match asked.method.as_str() {
            "GET" | "HEAD" => Reply::text(format!("hello {}\n", asked.path.trim_start_matches("/hello/"))),
            "POST" => Reply::text(format!("{} bytes\n", asked.content.len())),
            _ => Reply { status: 405, ..Reply::text("that is not done here\n") },
        })
        .filter("/secret/*", "rot13", rot13::Rot13)
        .start()
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpStream;

    use super::*;

    fn ask(server: &Running, request: &str) -> String {
        let mut stream = TcpStream::connect(server.address()).expect("it listens");
        stream.write_all(request.as_bytes()).expect("it takes requests");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("it answers in text");
        answer
    }

    fn get(server: &Running, path: &str) -> String {
        ask(server, &format!("GET {path} HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n"))
    }

    #[test]
    fn files_the_handler_and_the_filter_answer_beside_each_other() {
        let site = tempfile::tempdir().expect("there is room for one");
        std::fs::create_dir(site.path().join("secret")).expect("it is empty");
        for name in ["a.txt", "secret/a.txt"] {
            std::fs::write(site.path().join(name), "Hello\n").expect("it can be written");
        }
        let server = serve(&site.path().display().to_string(), ([127, 0, 0, 1], 0)).expect("it can be served");
        assert!(get(&server, "/a.txt").ends_with("\r\n\r\nHello\n"));
        assert!(get(&server, "/secret/a.txt").ends_with("\r\n\r\nUryyb\n"));
        let hello = get(&server, "/hello/you");
        assert!(hello.starts_with("HTTP/1.1 200") && hello.ends_with("\r\n\r\nhello you\n"), "{hello}");
        let post = "POST /hello/ HTTP/1.1\r\nHost: test\r\nContent-Length: 5\r\nConnection: close\r\n\r\n12345";
        assert!(ask(&server, post).ends_with("\r\n\r\n5 bytes\n"));
        let delete = ask(&server, "DELETE /hello/ HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n");
        assert!(delete.starts_with("HTTP/1.1 405"), "{delete}");
        assert_eq!(server.services().known()[0].runs, 1);
        let address = server.address();
        server.stop();
        assert!(TcpStream::connect(address).is_err(), "nobody listens any more");
    }

    #[test]
    fn what_cannot_be_served_is_an_error_and_says_why() {
        let none = serve("/nowhere/at/all", ([127, 0, 0, 1], 0)).expect_err("there is no such directory");
        assert!(none.to_string().contains("/nowhere/at/all"), "{none}");
        let wrong = Builder::new(".").filter("/*", "markdown", rot13::Rot13).start().expect_err("the name is taken");
        assert!(wrong.to_string().contains("is a filter of the server"), "{wrong}");
    }
}
