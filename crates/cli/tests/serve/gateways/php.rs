//! php-fpm behind the server: a real application that speaks FastCGI. Skipped, by name, where it is not installed.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use super::post;
use rustix::process::{Pid, Signal, kill_process};

use crate::client::PATIENCE;
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
] => [scripts_are_run_and_files_are_served]);

struct Php(Child);

impl Drop for Php {
    fn drop(&mut self) {
        // It ends its own processes, which would outlive it if it were killed.
        let _ = kill_process(Pid::from_child(&self.0), Signal::TERM);
        let _ = self.0.wait();
    }
}

/// One of its own, which listens at `socket`.
fn start_php(directory: &Path, socket: &Path) -> Option<Php> {
    let names = ["php-fpm", "php-fpm8.4", "php-fpm8.3", "php-fpm8.2"];
    let paths = ["/usr/sbin", "/usr/local/sbin", "/usr/bin"];
    let program =
        names.iter().flat_map(|name| paths.map(|path| Path::new(path).join(name))).find(|file| file.exists())?;
    let settings = format!(
        "[global]\nerror_log = {0}/fpm.log\ndaemonize = no\n[www]\nlisten = {1}\npm = static\npm.max_children = 3\n\
         catch_workers_output = yes\nphp_admin_value[post_max_size] = 20M\n",
        directory.display(),
        socket.display()
    );
    fs::write(directory.join("fpm.conf"), settings).unwrap();
    let mut command = Command::new(program);
    command.args(["--nodaemonize", "--allow-to-run-as-root", "--fpm-config"]).arg(directory.join("fpm.conf"));
    let php = Php(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().ok()?);
    eventually("php-fpm listens", PATIENCE, || socket.exists().then_some(()));
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
         [[site.route]]\nmatch = \"/front/*\"\ntry = [\"$path\", \"/front/index.php\"]\nfastcgi = \"unix:{}\"\n",
        socket.display(),
        socket.display()
    );
    let launch =
        Launch::new(engine).file("index.php", INDEX).file("a.css", "a {}\n").file("image.png", "<?php echo 'run';");
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
        ("/front/pretty/address", "GET /front/index.php - /front/pretty/address - 0"),
        ("/front/", "GET /front/index.php - /front/ - 0"),
    ] {
        // The second answer is found in the cache: that it is a script, and not what the script says.
        for _ in 0..2 {
            assert_eq!(told(path), (200, expected.to_owned()), "{path}");
        }
    }
    assert_eq!(told("/a.css"), (200, "a {}\n".to_owned()));
    assert_eq!(told("/fail.php"), (503, "later".to_owned()));
    assert_eq!(told("/none.php").0, 404);
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
