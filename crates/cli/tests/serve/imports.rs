//! Configurations of other servers as `lamna import` makes them ours, each started and asked, over HTTP/1.1 and HTTP/2:
//! files, applications and the paths that they are asked for, redirects, and what is refused. Those of PHP are in
//! `gateways/imported.rs`.

use std::fs;
use std::process::Command;

use crate::brought::application;
use crate::engine::{Engine, for_engines};
use crate::http2::Http2;
use crate::server::{Launch, Server};

for_engines!([
    amped = AMPED,
    sped = SPED,
    thread_pool = THREAD_POOL,
    thread_per_session = THREAD_PER_SESSION,
    pipelined = PIPELINED,
    proactor = PROACTOR,
    mp = MP,
] => [haproxy_is_imported_and_asked, apache_is_imported_and_asked, nginx_is_imported_and_asked, caddy_is_imported_and_asked]);

/// A server with what is imported of a configuration, in which `ROOT` is the root of files, and `ONE` and `TWO` are
/// addresses of applications, which answer with the head that they are asked with and their name.
fn serve(engine: Engine, kind: &str, text: &str) -> Server {
    let mut launch = Launch::new(engine).argument("--h2c");
    for name in ["index.html", "a.txt", "private/a.txt", "a.bak", "sub/index.html"] {
        launch = launch.file(name, format!("file {name}"));
    }
    let root = launch.site().display().to_string();
    let text = text.replace("ROOT", &root).replace("ONE", &application(ONE).to_string());
    let text = text.replace("TWO", &application(TWO).to_string());
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("imported.conf");
    fs::write(&file, text).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_lamna"));
    let output = command.arg("import").arg(&file).args(["--from", kind]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let imported = String::from_utf8(output.stdout).unwrap();
    let lines = imported.lines().filter(|line| !line.starts_with("listen = ")).collect::<Vec<_>>().join("\n");
    launch.config(&lines).start()
}

const ONE: &[(&str, &str)] = &[("/who", "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\none")];
const TWO: &[(&str, &str)] = &[("/who", "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\ntwo")];

/// Asks for each path. An answer is its status, and behind a space a part of its content or where it leads.
fn hold(server: Server, answers: &[(&str, &str)]) {
    let (mut client, mut http2) = (server.connect(), Http2::connect(server.address()));
    for (path, expected) in answers {
        let (status, part) = expected.split_once(' ').unwrap_or((expected, ""));
        let response = client.get(path).unwrap();
        let told = response.field("Location").unwrap_or_default().to_owned();
        let content = String::from_utf8_lossy(&response.content).into_owned();
        let said = format!("{} {told} {content}", response.status);
        assert!(response.status.to_string() == status && (told == part || content.contains(part)), "{path}: {said}");
        let answer = http2.get(path);
        let told = answer.fields.iter().find(|(name, _)| name == "location").map_or("", |(_, value)| value);
        let content = String::from_utf8_lossy(&answer.content).into_owned();
        let said = format!("{} {told} {content}", answer.status);
        assert!(answer.status.to_string() == status && (told == part || content.contains(part)), "{path}, h2c: {said}");
    }
    server.finish();
}

fn haproxy_is_imported_and_asked(engine: Engine) {
    let text = "defaults\n mode http\n timeout client 30s\n timeout server 30s\n timeout connect 5s\n\
                frontend web\n bind *:80\n acl is_admin path_beg /admin\n http-request deny if is_admin\n\
                \x20http-request redirect location /new code 301 if { path /old }\n\
                \x20http-request set-header X-From proxy\n use_backend api if { path_beg /api/ }\n default_backend site\n\
                backend api\n http-request replace-path /api/(.*) /\\1\n server a ONE\n\
                backend site\n server b TWO\n";
    let answers = [
        ("/who", "200 two"),
        ("/api/who", "200 one"),
        ("/x", "200 X-From: proxy"),
        ("/old", "301 /new"),
        ("/admin", "403"),
        ("/admin/x", "403"),
        ("/sub/../admin/x", "403"),
    ];
    hold(serve(engine, "haproxy", text), &answers);
}

fn apache_is_imported_and_asked(engine: Engine) {
    let text = "<VirtualHost *:80>\nServerName a.example\nDocumentRoot ROOT\n\
                <Directory ROOT>\nRequire all granted\n</Directory>\n\
                <Location /private>\nRequire all denied\n</Location>\n\
                <FilesMatch \"\\.bak$\">\nRequire all denied\n</FilesMatch>\n\
                Redirect 301 /old /new\nProxyPass /api http://ONE\n</VirtualHost>\n";
    let answers = [
        ("/", "200 file index.html"),
        ("/a.txt", "200 file a.txt"),
        ("/sub", "301 /sub/"),
        ("/api/who", "200 one"),
        ("/old", "301 /new"),
        ("/private/a.txt", "403"),
        ("/sub/..//private/a.txt", "403"),
        ("/a.bak", "403"),
        ("/none", "404"),
    ];
    hold(serve(engine, "apache", text), &answers);
}

fn nginx_is_imported_and_asked(engine: Engine) {
    let text = "server {\nroot ROOT;\nlocation / { try_files $uri $uri/ /; }\n\
                location /api/ { rewrite ^/api/(.*)$ /$1 break; proxy_pass http://ONE; }\n\
                location /app/ { proxy_pass http://TWO; proxy_set_header X-From proxy; }\n\
                location /private/ { deny all; }\nlocation ~ \\.bak$ { return 403; }\n}\n";
    let answers = [
        ("/a.txt", "200 file a.txt"),
        ("/none", "200 file index.html"),
        ("/api", "301 /api/"),
        ("/api/who", "200 one"),
        ("/app/x", "200 X-From: proxy"),
        ("/app", "301 /app/"),
        // What nobody may have is not there.
        ("/private/a.txt", "404"),
        ("/a.bak", "403"),
    ];
    hold(serve(engine, "nginx", text), &answers);
}

fn caddy_is_imported_and_asked(engine: Engine) {
    let text = "http://:80 {\nroot * ROOT\nfile_server\ntry_files {path} /\n\
                @backup path *.bak\nrespond @backup 403\nrespond /private/* 403\n\
                handle_path /api* {\nreverse_proxy ONE\n}\nhandle_path /app/* {\nrewrite * /app{path}\nreverse_proxy TWO\n}\n}\n";
    let answers = [
        ("/a.txt", "200 file a.txt"),
        ("/none", "200 file index.html"),
        ("/api/who", "200 one"),
        ("/api", "308 /api/"),
        ("/app/x", "200 GET /app/x"),
        ("/private/a.txt", "403"),
        ("/PRIVATE/a.txt", "403"),
        ("/a.bak", "403"),
        ("/a.BAK", "403"),
    ];
    hold(serve(engine, "caddy", text), &answers);
}
