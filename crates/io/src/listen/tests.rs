//! That addresses are bound, changed, probed and reported.

use super::*;
use lamna_config::setting::table::find;
use lamna_config::{Overrides, check, load};
use rustix::fs::OFlags;
use rustix::io::FdFlags;
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::Duration;
use tempfile::TempDir;

/// A directory with `site/` and the text as `lamna.toml`.
fn directory_with(text: &str) -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    std::fs::create_dir(directory.path().join("site")).unwrap();
    std::fs::write(directory.path().join("lamna.toml"), text).unwrap();
    directory
}

fn listen(text: &str) -> ListenSettings {
    text.parse().expect("test addresses are well formed")
}

fn any_port(text: &str) -> ListenAddress {
    text.parse().expect("test addresses are well formed")
}

fn tcp_address(listener: &Listener) -> SocketAddr {
    match listener.address() {
        ListenAddress::Tcp(address) => *address,
        other => panic!("bound to {other}"),
    }
}

pub(super) fn message(addresses: &[ListenSettings]) -> String {
    bind(addresses).expect_err("this cannot be bound").to_string()
}

pub(super) fn assert_prepared(listener: &Listener) {
    assert_eq!(rustix::io::fcntl_getfd(listener).unwrap(), FdFlags::CLOEXEC);
    assert!(rustix::fs::fcntl_getfl(listener).unwrap().contains(OFlags::NONBLOCK));
}

#[test]
fn port_0_is_bound_to_a_real_port_that_takes_connections() {
    let listeners = bind(&[listen("127.0.0.1:0")]).unwrap();
    let address = tcp_address(&listeners[0]);
    assert_ne!(address.port(), 0);
    TcpStream::connect(address).unwrap();
    assert_prepared(&listeners[0]);
    assert!(sockopt::tcp_nodelay(&listeners[0]).unwrap());
}

#[test]
fn an_ipv6_listener_leaves_ipv4_to_another() {
    let Ok(listeners) = bind(&[listen("[::1]:0")]) else {
        return; // A machine without IPv6.
    };
    assert!(sockopt::ipv6_v6only(&listeners[0]).unwrap());
}

#[test]
fn a_port_alone_is_bound_for_ipv4_and_for_ipv6() {
    let listeners = bind(&[listen("0")]).unwrap();
    let port = tcp_address(&listeners[0]).port();
    let addresses: Vec<SocketAddr> = listeners.iter().map(|one| tcp_address(one)).collect();
    assert_eq!(addresses[0], ([0, 0, 0, 0], port).into());
    assert!(TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok());
    if let Some(ipv6) = addresses.get(1) {
        assert_eq!(*ipv6, (Ipv6Addr::UNSPECIFIED, port).into());
        assert!(TcpStream::connect((Ipv6Addr::LOCALHOST, port)).is_ok());
    }
    drop(listeners);
    // Meanwhile a connection of another test may have the port as its own.
    let again = || bind(&[listen(&port.to_string())]).inspect_err(|_| thread::sleep(Duration::from_millis(100))).ok();
    let listeners = (0..100).find_map(|_| again()).unwrap();
    assert_eq!(listeners.iter().map(|one| tcp_address(one)).collect::<Vec<_>>(), addresses);
    assert!(message(&[listen(&port.to_string())]).contains("cannot listen on 0.0.0.0:"));
    assert!(is_without_family(Errno::AFNOSUPPORT) && !is_without_family(Errno::ADDRINUSE));
}

#[test]
fn a_change_keeps_what_is_named_binds_what_is_new_and_leaves_all_if_it_cannot() {
    let before = bind(&[listen("127.0.0.1:0"), listen("127.0.0.1:0")]).unwrap();
    let named = |at: usize| listen(&before[at].address().to_string());
    let now = change(&before, &[listen("127.0.0.1:0"), named(1)]).unwrap();
    assert!(Arc::ptr_eq(&now[0], &before[0]) && Arc::ptr_eq(&now[1], &before[1]));
    let now = change(&before, &[named(1), listen("[::1]:0")]);
    if let Ok(now) = now {
        assert!(Arc::ptr_eq(&now[0], &before[1]) && now.len() == 2);
        let gone = removed(&before, &now);
        assert!(gone.len() == 1 && Arc::ptr_eq(&gone[0], &before[0]));
    }
    assert!(change(&before, &[]).unwrap().len() == 2);
    let busy = TcpListener::bind("127.0.0.1:0").unwrap();
    let error = change(&before, &[named(0), listen(&busy.local_addr().unwrap().to_string())]).unwrap_err();
    assert!(error.to_string().contains("another program listens on"), "{error}");
    let every = listen(&tcp_address(&before[0]).port().to_string());
    let error = change(&before, &[every]).unwrap_err();
    assert!(error.to_string().contains("this server listens at 127.0.0.1:"), "{error}");
    let denied = tcp_error(([127, 0, 0, 1], 80).into(), Errno::ACCESS).of_change(&named(0).at, &[]);
    assert!(denied.to_string().contains("before it became another user"), "{denied}");
}

#[test]
fn a_port_in_use_is_reported_with_a_remedy() {
    let first = bind(&[listen("127.0.0.1:0")]).unwrap();
    let message = message(&[first[0].address().clone().into()]);
    assert!(message.contains("another program listens on 127.0.0.1:"), "{message}");
}

#[test]
fn probing_finds_what_would_not_be_bound_and_takes_what_another_server_listens_at() {
    let busy = bind(&[listen("127.0.0.1:0")]).unwrap();
    assert!(probe(busy[0].address()).is_ok());
    assert!(probe(&any_port("192.0.2.1:80")).is_err());
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a");
    let address = ListenAddress::Unix(path.clone());
    assert!(probe(&address).is_ok() && !path.exists());
    let listening = bind(&[address.clone().into()]).unwrap();
    assert!(probe(&address).is_ok());
    drop(listening);
    std::fs::write(&path, "a file").unwrap();
    assert!(probe_one(&address).unwrap_err().to_string().contains("not a socket"));
    for path in ["/nonexistent/a".to_owned(), "/x".repeat(100)] {
        assert!(probe(&ListenAddress::Unix(path.into())).is_err());
    }
}

#[test]
fn an_address_of_another_machine_is_reported_with_a_remedy() {
    let message = message(&[listen("192.0.2.1:0")]);
    assert!(message.contains("no interface of this machine"), "{message}");
}

#[test]
fn a_low_port_without_rights_is_a_matter_of_permission() {
    let error = tcp_error(([127, 0, 0, 1], 80).into(), Errno::ACCESS);
    assert!(error.is_permission_denied());
    assert!(error.to_string().contains("CAP_NET_BIND_SERVICE"));
}

#[test]
fn a_default_port_in_use_is_passed_over() {
    let busy = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = busy.local_addr().unwrap().port();
    assert!(first_free(port..=port).is_err());
    let next = first_free(port..=port.saturating_add(20));
    assert!(next.is_ok_and(|listener| tcp_address(&listener).port() > port) || port > u16::MAX - 20);
}

#[test]
fn if_one_address_cannot_be_bound_none_is() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a");
    let addresses = [ListenAddress::Unix(path.clone()), ListenAddress::Unix("/nonexistent/b".into())].map(Into::into);
    assert!(message(&addresses).contains("the directory `/nonexistent` does not exist"));
    assert!(!path.exists());
}

#[test]
fn what_the_command_line_overrides_is_not_looked_for() {
    let directory = directory_with("log = \"nowhere/log\"\nadmin = \"unix:nowhere/a\"\n[[site]]\nroot = \"site\"\n");
    let file = directory.path().join("lamna.toml");
    assert!(check(Some(&file), &Overrides::default(), probe).is_err());
    let off = ["log", "admin"].map(|name| (name, find(name).unwrap().parse("off").unwrap()));
    let overrides = Overrides { settings: off.to_vec(), ..Overrides::default() };
    assert!(check(Some(&file), &overrides, probe).is_ok());
}

#[test]
fn a_log_that_can_be_written_and_not_opened_is_found_by_checking() {
    let directory = directory_with("log = \"socket\"\n[[site]]\nroot = \"site\"\n");
    let _socket = std::os::unix::net::UnixListener::bind(directory.path().join("socket")).unwrap();
    let error = check(Some(&directory.path().join("lamna.toml")), &Overrides::default(), probe).unwrap_err();
    assert!(error.to_string().contains("lamna.toml:1:7: the access log `"), "{error}");
}

#[test]
fn checking_finds_what_binding_would_find_and_loading_leaves_that_to_binding() {
    for (listen, message) in [
        ("192.0.2.1:80", "no interface of this machine has the address 192.0.2.1"),
        ("unix:run/a.sock", "run` does not exist; create it first"),
        ("unix:lamna.toml", "not a socket"),
    ] {
        let directory = directory_with(&format!("listen = [\"{listen}\"]\n[[site]]\nroot = \"site\"\n"));
        let file = directory.path().join("lamna.toml");
        assert!(load(Some(&file), &Overrides::default()).is_ok(), "{listen}");
        let report = check(Some(&file), &Overrides::default(), probe).unwrap_err().to_string();
        assert!(report.contains("lamna.toml:1:11: cannot listen on ") && report.contains(message), "{report}");
        // What the command line says in its place is what counts.
        let overrides = Overrides { listen: vec!["127.0.0.1:0".parse().unwrap()], ..Overrides::default() };
        assert!(check(Some(&file), &overrides, probe).is_ok());
        let overrides = Overrides { listen: vec!["192.0.2.1:80".parse().unwrap()], ..Overrides::default() };
        assert!(
            check(Some(&file), &overrides, probe).unwrap_err().to_string().starts_with("cannot listen on 192.0.2.1:80")
        );
    }
}
