//! php-fpm behind the server: a real application that speaks FastCGI. Skipped, by name, where it is not installed.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use super::post;
use rustix::process::{Pid, Signal, kill_process};

use crate::access::{ADA, SESAME};
use crate::client::{Client, PATIENCE};
use crate::engine::{Engine, for_engines};
use crate::server::{Launch, eventually};
use crate::skip::skipped;
use crate::tree::pattern;

for_engines!([
    mp = MP,
    thread_pool = THREAD_POOL,
    thread_per_request = THREAD_PER_REQUEST,
    thread_per_session = THREAD_PER_SESSION,
    sped = SPED,
    amped = AMPED,
    amped_with_helper_processes = AMPED_WITH_HELPER_PROCESSES,
    co_amped = CO_AMPED,
    pipelined = PIPELINED,
    proactor = PROACTOR,
] => [
    scripts_are_run_and_files_are_served,
    scripts_that_are_reached_by_other_routes_are_never_shown,
    a_flag_has_the_scripts_of_a_directory_run,
    scripts_know_who_was_let_in_and_not_the_password,
    what_scripts_let_others_have_is_kept,
]);

pub(crate) struct Php(Child);

impl Drop for Php {
    fn drop(&mut self) {
        // It ends its own processes, which would outlive it if it were killed.
        let _ = kill_process(Pid::from_child(&self.0), Signal::TERM);
        let _ = self.0.wait();
    }
}

/// One of its own, which listens at `socket`.
pub(crate) fn start_php(directory: &Path, socket: &Path) -> Option<Php> {
    let names = ["php-fpm", "php-fpm8.4", "php-fpm8.3", "php-fpm8.2"];
    let paths = ["/usr/sbin", "/usr/local/sbin", "/usr/bin"];
    let program =
        names.iter().flat_map(|name| paths.map(|path| Path::new(path).join(name))).find(|file| file.exists())?;
    let settings = format!(
        "[global]\nerror_log = {0}/fpm.log\ndaemonize = no\n[www]\nlisten = {1}\npm = static\npm.max_children = 3\n\
         catch_workers_output = yes\nphp_admin_value[post_max_size] = 2G\nphp_admin_value[upload_max_filesize] = 2G\n\
         php_admin_value[upload_tmp_dir] = {0}\nphp_admin_value[session.save_path] = {0}\n",
        directory.display(),
        socket.display()
    );
    fs::write(directory.join("fpm.conf"), settings).unwrap();
    let mut command = Command::new(program);
    command.args(["--nodaemonize", "--allow-to-run-as-root", "--fpm-config"]).arg(directory.join("fpm.conf"));
    let php = Php(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().ok()?);
    eventually("php-fpm listens", PATIENCE, || UnixStream::connect(socket).ok());
    Some(php)
}

const INDEX: &str = r#"<?php
header('X-From: php');
header('Content-Type: text/plain');
echo $_SERVER['REQUEST_METHOD'], ' ', $_SERVER['SCRIPT_NAME'], ' ', $_SERVER['PATH_INFO'] ?? '-', ' ', $_SERVER['REQUEST_URI'], ' ',
    $_GET['q'] ?? '-', ' ', strlen(file_get_contents('php://input'));
"#;

fn scripts_are_run_and_files_are_served(engine: Engine) {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("php.sock");
    let Some(_php) = start_php(directory.path(), &socket) else {
        return skipped("gateways::php", "php-fpm is not installed");
    };
    let lines = format!(
        "[[site]]\nroot = \"site\"\n[[site.route]]\nmatch = \"/*\"\nfastcgi = \"unix:{}\"\n\
         [[site.route]]\nmatch = \"/front/*\"\ntry = [\"$path\", \"/front/index.php\"]\nfastcgi = \"unix:{}\"\n\
         [[site.route]]\nmatch = \"/whole/*\"\ntry = [\"$path\", \"/front/index.php$path\"]\n\
         [[site.route]]\nmatch = \"/refused/*\"\nrewrite = \"/.denied\"\ntry = []\n",
        socket.display(),
        socket.display()
    );
    let launch =
        Launch::new(engine).file("index.php", INDEX).file("a.css", "a {}\n").file("image.png", "<?php echo 'run';");
    let launch = launch.file("refused/index.php", INDEX);
    let launch = launch.file("front/index.php", INDEX).file("big.php", "<?php echo str_repeat('0123456789', 100000);");
    let server = launch.file("fail.php", "<?php http_response_code(503); echo 'later';").config(&lines).start();
    let mut client = server.connect();
    let mut told = |path: &str| {
        let response = client.get(path).unwrap();
        (response.status, String::from_utf8_lossy(&response.content).into_owned())
    };
    for (path, expected) in [
        ("/", "GET /index.php - / - 0"),
        ("/index.php?q=1", "GET /index.php - /index.php?q=1 1 0"),
        ("/index.php/info/x", "GET /index.php /info/x /index.php/info/x - 0"),
        // What follows the folder of the script is within the script.
        ("/front/pretty/address", "GET /front/index.php /pretty/address /front/pretty/address - 0"),
        ("/front/index.php", "GET /front/index.php - /front/index.php - 0"),
        ("/front/index.php/x", "GET /front/index.php /x /front/index.php/x - 0"),
        // As it is written.
        ("/whole/pretty", "GET /front/index.php /whole/pretty /whole/pretty - 0"),
        ("/front/", "GET /front/index.php - /front/ - 0"),
    ] {
        // The second answer is found in the cache: that it is a script, and not what the script says.
        for _ in 0..2 {
            assert_eq!(told(path), (200, expected.to_owned()), "{path}");
        }
    }
    assert_eq!(told("/a.css"), (200, "a {}\n".to_owned()));
    assert_eq!(told("/fail.php"), (503, "later".to_owned()));
    for path in ["/none.php", "/refused/index.php", "/refused/index.php/info"] {
        assert_eq!(told(path).0, 404, "{path}");
    }
    // A picture is never run, however it is asked for.
    assert_eq!(told("/image.png"), (200, "<?php echo 'run';".to_owned()));
    assert_eq!(told("/image.png/x.php").0, 404);
    assert!(client.get("/big.php").unwrap().content == b"0123456789".repeat(100_000));
    let content = pattern(300_000, 3);
    assert_eq!(post(&mut client, "/index.php", &content).content, b"POST /index.php - /index.php - 300000");
    let mut changing = server.connect();
    assert_eq!(post(&mut changing, "/a.css", b"x").status, 405, "a file takes nothing");
    server.finish();
}

/// Counts how often it has been run for each page. A form adds to the news, and leads back to them.
const NEWS: &str = r#"<?php
$path = parse_url($_SERVER['REQUEST_URI'], PHP_URL_PATH);
$counts = __DIR__ . '/runs' . str_replace('/', '-', $path);
file_put_contents($counts, 'x', FILE_APPEND);
if ($_SERVER['REQUEST_METHOD'] === 'POST') {
    header('Location: /news', true, 303);
    exit;
}
if ($path === '/mine') {
    setcookie('seen', '1');
}
if ($path === '/checked') {
    header('ETag: "one"');
    header('Cache-Control: no-cache');
    if (($_SERVER['HTTP_IF_NONE_MATCH'] ?? '') === '"one"') {
        http_response_code(304);
        exit;
    }
} else {
    header('Cache-Control: max-age=600');
}
echo filesize($counts);
"#;

fn what_scripts_let_others_have_is_kept(engine: Engine) {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("php.sock");
    let Some(_php) = start_php(directory.path(), &socket) else {
        return skipped("gateways::php", "php-fpm is not installed");
    };
    let lines = format!(
        "[[site]]\nroot = \"site\"\n[[site.route]]\nmatch = \"/*\"\ntry = [\"$path\", \"/index.php\"]\ncache = true\n\
         fastcgi = \"unix:{}\"\n",
        socket.display()
    );
    let server = Launch::new(engine).file("index.php", NEWS).file("a.txt", "a file\n").config(&lines).start();
    let mut client = server.connect();
    let mut told = |path: &str| String::from_utf8(client.get(path).unwrap().content).unwrap();
    assert_eq!(["/news", "/news", "/news?page=2", "/news"].map(&mut told), ["1", "1", "2", "1"]);
    assert_eq!(["/mine", "/mine"].map(&mut told), ["1", "2"], "what sets a cookie is for one client");
    // The second was validated: the script was run, and said nothing but that.
    assert_eq!(["/checked", "/checked"].map(&mut told), ["1", "1"]);
    assert_eq!(["/a.txt", "/a.txt"].map(&mut told), ["a file\n", "a file\n"]);
    assert_eq!(fs::read(server.site().join("runs-checked")).unwrap(), b"xx");
    // Of the same host, or it would say nothing about these pages.
    client.send(b"POST /add HTTP/1.1\r\nHost: test\r\nContent-Length: 0\r\n\r\n");
    assert_eq!(client.receive(true).unwrap().status, 303);
    let response = client.get("/news").unwrap();
    assert_eq!(response.content, b"3", "the form has led to it");
    assert_eq!(response.field("Cache-Status"), Some("Lamna; fwd=uri-miss; stored"));
    server.finish();
}

fn scripts_that_are_reached_by_other_routes_are_never_shown(engine: Engine) {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("php.sock");
    let Some(_php) = start_php(directory.path(), &socket) else {
        return skipped("gateways::php", "php-fpm is not installed");
    };
    let launch = Launch::new(engine).file("index.php", INDEX).file("missing.php", INDEX);
    let aliased = launch.directory().join("aliased");
    fs::create_dir(&aliased).unwrap();
    fs::write(aliased.join("index.php"), INDEX).unwrap();
    fs::write(aliased.join("file.php"), "<?php echo $_SERVER['SCRIPT_FILENAME'];").unwrap();
    let filename = aliased.join("file.php").display().to_string();
    fs::write(aliased.join("a.txt"), "text").unwrap();
    let lines = format!(
        "[[site]]\nroot = \"site\"\nindex = [\"index.php\"]\nerror_pages = {{ \"404\" = \"/missing.php\" }}\n\
         [[site.alias]]\nprefix = \"/other/\"\nroot = \"{}\"\n\
         [[site.route]]\nmatch = \"*.php\"\nfastcgi = \"unix:{}\"\n\
         [[site.route]]\nmatch = \"/front/*\"\ntry = [\"$path\", \"/index.php\"]\n",
        aliased.display(),
        socket.display()
    );
    let server = launch.config(&lines).start();
    let mut client = server.connect();
    // An index file, a path that `try` leads to it, and both beneath an alias: no route of the path itself runs
    // scripts.
    for (path, expected) in [
        ("/", "GET /index.php - / - 0"),
        ("/front/x", "GET /index.php /front/x /front/x - 0"),
        // The name is what leads to the script from outside, the prefix of the alias included (RFC 3875 4.1.13).
        ("/other/", "GET /other/index.php - /other/ - 0"),
        ("/other/index.php?q=1", "GET /other/index.php - /other/index.php?q=1 1 0"),
        ("/other/index.php/x/y", "GET /other/index.php /x/y /other/index.php/x/y - 0"),
        ("/other/file.php", &filename),
        ("/other/a.txt", "text"),
    ] {
        for _ in 0..2 {
            let response = client.get(path).unwrap();
            let content = String::from_utf8_lossy(&response.content);
            assert_eq!((response.status, &*content), (200, expected), "{path}");
        }
    }
    assert_eq!(post(&mut client, "/", b"abc").content, b"POST /index.php - / - 3");
    // A script is no error page: the server sends its own.
    let response = client.get("/none").unwrap();
    let content = String::from_utf8_lossy(&response.content);
    assert!(response.status == 404 && !content.contains("<?php") && !content.contains("GET /"), "{content}");
    server.finish();
}

fn a_flag_has_the_scripts_of_a_directory_run(engine: Engine) {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("php.sock");
    let Some(_php) = start_php(directory.path(), &socket) else {
        return skipped("gateways::php", "php-fpm is not installed");
    };
    let launch = Launch::new(engine).file("index.php", INDEX).file("a.css", "a {}\n");
    let server = launch.argument(&format!("--fastcgi=unix:{}", socket.display())).start();
    let mut client = server.connect();
    assert_eq!(client.get("/").unwrap().content, b"GET /index.php - / - 0");
    assert_eq!(client.get("/index.php/x").unwrap().content, b"GET /index.php /x /index.php/x - 0");
    assert_eq!(client.get("/a.css").unwrap().content, b"a {}\n");
    assert_eq!(post(&mut client, "/", b"abc").content, b"POST /index.php - / - 3");
    server.finish();
}

fn scripts_know_who_was_let_in_and_not_the_password(engine: Engine) {
    const WHO: &str = "<?php echo $_SERVER['REMOTE_USER'] ?? '-', ' ', $_SERVER['AUTH_TYPE'] ?? '-', ' ', $_SERVER['HTTP_AUTHORIZATION'] ?? '-';";
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("php.sock");
    let Some(_php) = start_php(directory.path(), &socket) else {
        return skipped("gateways::php", "php-fpm is not installed");
    };
    let told = |arguments: &[&str]| {
        let launch =
            Launch::new(engine).file("index.php", WHO).argument(&format!("--fastcgi=unix:{}", socket.display()));
        let server = arguments.iter().fold(launch, |launch, argument| launch.argument(argument)).start();
        let mut client = server.connect();
        let told = ["", ADA].map(|fields| {
            client.send(format!("GET / HTTP/1.1\r\nHost: a\r\n{fields}\r\n").as_bytes());
            let response = client.receive(true).unwrap();
            (response.status, String::from_utf8_lossy(&response.content).into_owned())
        });
        server.finish();
        told
    };
    let [stranger, ada] = told(&["--auth", &format!("ada:{SESAME}")]);
    assert_eq!((stranger.0, ada), (401, (200, "ada Basic -".to_owned())));
    // Whom the server does not ask, the application may.
    let [stranger, ada] = told(&[]);
    assert_eq!(stranger, (200, "- - -".to_owned()));
    assert_eq!(ada, (200, "- - Basic YWRhOm9wZW4gc2VzYW1l".to_owned()));
}

#[test]
fn without_a_configuration_the_flag_serves_the_directory_that_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("php.sock");
    let Some(_php) = start_php(directory.path(), &socket) else {
        return skipped("gateways::php", "php-fpm is not installed");
    };
    for is_named in [true, false] {
        let site = directory.path().join(format!("site-{is_named}"));
        fs::create_dir_all(site.join("sub")).unwrap();
        fs::write(site.join("index.php"), INDEX).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_lamna"));
        command.args(["serve", "--listen", "127.0.0.1:0", "--log", "off"]).current_dir(&site);
        command.arg(format!("--fastcgi=unix:{}", socket.display()));
        command.env("LAMNA_RUNTIME_DIR", directory.path().join("control"));
        if is_named {
            command.arg(&site).current_dir(directory.path());
        }
        let mut server = Ended(command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap());
        let mut said = BufReader::new(server.0.stderr.take().unwrap()).lines();
        let address = said.find_map(|line| Some(line.ok()?.split_once(" at http://")?.1.to_owned())).unwrap();
        let address = address.split(['/', ' ', ',']).next().unwrap().parse().unwrap();
        let mut client = Client::connect(address);
        assert_eq!(client.get("/").unwrap().content, b"GET /index.php - / - 0");
        assert_eq!(client.get("/sub/").unwrap().status, 403, "directories are not listed beside an application");
    }
}

/// A server that is killed when the test ends.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
