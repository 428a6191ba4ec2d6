//! A server that is started as root and becomes another user: what it can do before, and what it can no longer do
//! after.

use std::fs;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU16, Ordering::Relaxed};

use rustix::process::geteuid;

use crate::client::{Client, PATIENCE};
use crate::control::order;
use crate::engine::{AMPED, Engine, for_engines};
use crate::processes::is_gone;
use crate::server::{Launch, Server, eventually, processes_of};
use crate::skip::skipped;

for_engines!(all every_architecture_becomes_another_user: [
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
    whoever_serves_is_the_user_that_was_named_and_hands_its_port_and_connections_over,
]);

/// The user that nobody is logged in as.
const NOBODY: u32 = 65534;

/// Whether this is root. If it is not, the test `name` is said to be skipped.
fn is_root(name: &str) -> bool {
    if !geteuid().is_root() {
        skipped(name, "it takes root to become another user");
    }
    geteuid().is_root()
}

/// Lets others into the directory of a server.
fn open(launch: Launch) -> Launch {
    set_mode(launch.directory(), 0o777);
    launch
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("the test's own file");
}

/// An address of loopback at a port that only root may take; none if this machine lets everybody.
fn privileged() -> Option<SocketAddrV4> {
    let limit = fs::read_to_string("/proc/sys/net/ipv4/ip_unprivileged_port_start").unwrap_or_default();
    let limit: u16 = limit.trim().parse().unwrap_or(1024);
    // No other test has the same address: neither of this process nor of another.
    static NEXT: AtomicU16 = AtomicU16::new(600);
    let [low, high, ..] = std::process::id().to_le_bytes();
    let address = Ipv4Addr::new(127, 77, high, low);
    let port = NEXT.fetch_add(1, Relaxed);
    (port < limit).then(|| SocketAddrV4::new(address, port))
}

/// What a process of the server is: user, group, further groups.
type Identity = (Vec<String>, Vec<String>, Vec<String>);

/// That of every thread of every process.
fn identities(server: &Server) -> Vec<Identity> {
    let mut found = Vec::new();
    for process in processes_of(&server.directory().join("lamna.toml")).into_keys() {
        for task in fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten() {
            let Ok(status) = fs::read_to_string(task.path().join("status")) else { continue };
            let value = |name: &str| {
                let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
                line.split_whitespace().map(str::to_owned).collect::<Vec<_>>()
            };
            found.push((value("Uid:"), value("Gid:"), value("Groups:")));
        }
    }
    found
}

fn assert_nobody(server: &Server) {
    let found = identities(server);
    assert!(!found.is_empty());
    let four = |number: u32| vec![number.to_string(); 4];
    for identity in found {
        assert_eq!(identity, (four(NOBODY), four(12345), vec!["12345".to_owned()]));
    }
}

fn whoever_serves_is_the_user_that_was_named_and_hands_its_port_and_connections_over(engine: Engine) {
    let name = "whoever_serves_is_the_user_that_was_named_and_hands_its_port_and_connections_over";
    if !is_root(name) {
        return;
    }
    let Some(address) = privileged() else { return skipped(name, "every port is for everybody here") };
    let launch = open(Launch::new(engine).file("a.txt", "hello").config("user = \"65534\"\ngroup = \"12345\"\n"));
    let mut server = launch.listen(address.to_string()).start();
    let mut client = Client::connect(address.into());
    assert_eq!(client.get("/a.txt").unwrap().content, b"hello");
    assert_nobody(&server);
    let first = server.pid();
    order(&server, &["upgrade"]).unwrap();
    server.wait_to_hear("has taken over");
    eventually("who was succeeded ends", PATIENCE, || is_gone(first).then_some(()));
    assert_eq!(client.get("/a.txt").unwrap().content, b"hello");
    assert_eq!(Client::connect(address.into()).get("/a.txt").unwrap().content, b"hello");
    assert_nobody(&server);
    drop(client);
    order(&server, &["drain"]).unwrap();
    server.wait_to_hear("served ");
    let said = server.said();
    assert!(!said.contains("serving as root") && !said.contains("a reload will fail"), "{said}");
}

#[test]
fn logs_and_sockets_belong_to_the_user_and_others_files_are_denied() {
    let name = "logs_and_sockets_belong_to_the_user_and_others_files_are_denied";
    if !is_root(name) {
        return;
    }
    let launch = open(Launch::new(AMPED).file("a.txt", "hello").file("secret.txt", "secret"));
    set_mode(&launch.site().join("secret.txt"), 0o600);
    let (log, socket) = (launch.directory().join("access.log"), launch.directory().join("http.sock"));
    let launch = launch.config("user = \"nobody\"\nerror_log = \"error.log\"\n").argument("--log");
    let launch = launch
        .argument(&log.display().to_string())
        .argument("--listen")
        .argument(&format!("unix:{}", socket.display()));
    let server = launch.start();
    let mut client = server.connect();
    assert_eq!(client.get("/a.txt").unwrap().content, b"hello");
    assert_eq!(client.get("/secret.txt").unwrap().status, 403);
    for path in [&log, &socket, &server.directory().join("error.log")] {
        assert_eq!(fs::metadata(path).unwrap().uid(), NOBODY, "{}", path.display());
    }
    let status = order(&server, &["status"]).unwrap();
    assert!(status.contains("nobody (65534)"), "{status}");
    drop(client);
    server.finish();
    assert!(!socket.exists(), "it removes what is its own");
}

/// What `lamna check` says of this configuration, and how it ends.
fn check(directory: &Path, config: &str) -> (bool, String) {
    let file = directory.join("lamna.toml");
    fs::write(&file, config).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_lamna"));
    let output = command.args(["check", "--config"]).arg(&file).output().unwrap();
    (output.status.success(), String::from_utf8(output.stderr).unwrap())
}

#[test]
fn check_says_what_the_user_may_not_read() {
    if !is_root("check_says_what_the_user_may_not_read") {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    set_mode(directory.path(), 0o755);
    let root = directory.path().join("root");
    fs::create_dir(&root).unwrap();
    let config = "user = \"nobody\"\nlisten = [\"127.0.0.1:0\"]\n[[site]]\nroot = \"root\"\n";
    let (is_good, said) = check(directory.path(), config);
    assert!(is_good, "{said}");

    set_mode(&root, 0o700);
    let (is_good, said) = check(directory.path(), config);
    assert!(!is_good && said.contains("may not search the directory") && said.contains("checked as nobody"), "{said}");
    set_mode(&root, 0o755);

    let pair = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let (certificate, key) = (directory.path().join("a.pem"), directory.path().join("a.key"));
    fs::write(certificate, pair.cert.pem()).unwrap();
    fs::write(&key, pair.signing_key.serialize_pem()).unwrap();
    let with_tls = format!("{config}certificate = \"a.pem\"\nkey = \"a.key\"\n");
    let (is_good, said) = check(directory.path(), &with_tls);
    assert!(is_good, "{said}");
    set_mode(&key, 0o600);
    let (is_good, said) = check(directory.path(), &with_tls);
    assert!(!is_good && said.contains("a.key"), "{said}");

    set_mode(directory.path(), 0o711);
    set_mode(&directory.path().join("lamna.toml"), 0o600);
    let (is_good, said) = check(directory.path(), config);
    assert!(!is_good && said.contains("lamna.toml") && said.contains("checked as nobody"), "a reload reads it: {said}");
}

#[test]
fn users_that_cannot_be_had_keep_a_server_from_starting() {
    let (_, said) = Launch::new(AMPED).config("user = \"no-such-user\"\n").fail();
    assert!(said.contains("there is no user `no-such-user`"), "{said}");
    let (_, said) = Launch::new(AMPED).config("group = \"root\"\n").fail();
    assert!(said.contains("`group` needs `user`"), "{said}");
    if !is_root("users_that_cannot_be_had_keep_a_server_from_starting") {
        return;
    }
    let launch = open(Launch::new(AMPED).config("user = \"daemon\"\n"));
    let (_, said) = launch.wrapped(&["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]).fail();
    assert!(said.contains("cannot become daemon") && said.contains("It takes root"), "{said}");
}

#[test]
fn another_user_takes_a_restart() {
    let server = Launch::new(AMPED).start();
    fs::write(server.directory().join("lamna.toml"), "user = \"nobody\"\n[[site]]\nroot = \"site\"\n").unwrap();
    let refused = order(&server, &["reload"]).unwrap_err();
    assert!(refused.contains("another user or group") && refused.contains("restart"), "{refused}");
    server.finish();
}
