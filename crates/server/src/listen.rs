//! Placeholder until the listeners are merged.
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
/// A listening socket.
#[derive(Debug)]
pub struct Listener {
    fd: OwnedFd,
    address: String,
}
impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
impl std::fmt::Display for Listener {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.address)
    }
}
/// Binds.
pub fn bind(addresses: &[crate::config::settings::ListenAddress]) -> Vec<Listener> {
    addresses
        .iter()
        .map(|a| match a {
            crate::config::settings::ListenAddress::Tcp(a) => {
                let fd = rustix::net::socket_with(
                    rustix::net::AddressFamily::INET,
                    rustix::net::SocketType::STREAM,
                    rustix::net::SocketFlags::NONBLOCK | rustix::net::SocketFlags::CLOEXEC,
                    None,
                )
                .unwrap();
                rustix::net::sockopt::set_socket_reuseaddr(&fd, true).unwrap();
                rustix::net::sockopt::set_tcp_nodelay(&fd, true).unwrap();
                set_defer(&fd);
                rustix::net::bind(&fd, a).unwrap();
                rustix::net::listen(&fd, 4096).unwrap();
                Listener { fd, address: format!("http://{a}") }
            }
            _ => unreachable!(),
        })
        .collect()
}
#[allow(unsafe_code)]
fn set_defer(fd: &OwnedFd) {
    use std::os::fd::AsRawFd;
    let v: i32 = 1;
    unsafe {
        libc::setsockopt(fd.as_raw_fd(), libc::IPPROTO_TCP, libc::TCP_DEFER_ACCEPT, (&raw const v).cast(), 4);
    }
}
