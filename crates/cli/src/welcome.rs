//! Conveniences for a user who has just started a server by hand: the QR code of its address, the browser, and what is
//! missing in the directory.
//!
//! Owns: which of the addresses is shown to which user. Is done with before the server has threads: the sockets listen
//! already, so early clients wait in the queue.

use std::env;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::io::{self, IsTerminal, Write as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use lamna_server::config::has_index;
use lamna_server::config::settings::{ListenAddress, Settings, SiteSettings};
use lamna_server::listen::Listener;
use lamna_server::log::errors::{self, Level};
use qrcodegen::{QrCode, QrCodeEcc};

use crate::args::ServeArgs;

/// Says and does what `args` ask for, for a server that listens at `listeners`.
pub(crate) fn welcome(args: &ServeArgs, settings: &Settings, listeners: &[Arc<Listener>]) {
    if let (None, [site]) = (&args.config, &settings.sites[..]) {
        remark(site);
    }
    let addresses: Vec<&ListenAddress> = listeners.iter().map(|listener| listener.address()).collect();
    if args.qr {
        match for_others(&addresses, route_of) {
            Ok(address) => print_code(&format!("http://{address}/")),
            Err(why) => errors::tell(Level::Warning, format_args!("no QR code: {why}")),
        }
    }
    if args.open {
        let opened = for_this_machine(&addresses).and_then(|address| open(&format!("http://{address}/")));
        if let Err(why) = opened {
            errors::tell(Level::Warning, format_args!("no browser was opened: {why}"));
        }
    }
}

/// Says what visitors see of a directory without an index file. Where an application runs files, or answers everything,
/// it may have one of its own.
fn remark(site: &SiteSettings) {
    if !site.has_root() || has_index(site) || site.gateways().next().is_some() {
        return;
    }
    let root = site.root.display();
    match site.browse {
        true => errors::tell(Level::Info, format_args!("{root} has no index file: it is listed")),
        false => errors::tell(
            Level::Warning,
            format_args!("{root} has no index file, so that visitors are answered with 403: --browse lists it"),
        ),
    }
}

/// The address by which other machines reach the server. `route` gives this machine's own address in the network of
/// that kind.
fn for_others(addresses: &[&ListenAddress], route: impl Fn(IpAddr) -> Option<IpAddr>) -> Result<SocketAddr, String> {
    let tcp = || addresses.iter().filter_map(|address| tcp(address));
    if let Some(named) = tcp().find(|address| !address.ip().is_loopback() && !address.ip().is_unspecified()) {
        return Ok(named);
    }
    let Some(every) = tcp().find(|address| address.ip().is_unspecified()) else {
        let port = tcp().next().map_or(8080, |address| address.port());
        return Err(format!("only this machine reaches the server; for others, say --listen :{port}"));
    };
    let own = route(every.ip()).or_else(|| route(Ipv4Addr::UNSPECIFIED.into()).filter(|_| every.is_ipv6()));
    let own = own.ok_or("this machine has no address in a network")?;
    Ok(SocketAddr::new(own, every.port()))
}

/// The address by which this machine reaches the server.
fn for_this_machine(addresses: &[&ListenAddress]) -> Result<SocketAddr, String> {
    let first = addresses.iter().find_map(|address| tcp(address));
    let address = first.ok_or("browsers do not reach Unix sockets")?;
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    Ok(SocketAddr::new(ip, address.port()))
}

fn tcp(address: &ListenAddress) -> Option<SocketAddr> {
    match address {
        ListenAddress::Tcp(address) => Some(*address),
        ListenAddress::Unix(_) => None,
    }
}

/// The address that this machine would send from to somewhere far away. Asks the table of routes, and sends nothing.
fn route_of(every: IpAddr) -> Option<IpAddr> {
    // Addresses for documentation (RFC 5737, RFC 3849), which no host has.
    let far: IpAddr = match every {
        IpAddr::V4(_) => Ipv4Addr::new(203, 0, 113, 1).into(),
        IpAddr::V6(_) => Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1).into(),
    };
    let socket = UdpSocket::bind(SocketAddr::new(every, 0)).ok()?;
    socket.connect(SocketAddr::new(far, 9)).ok()?;
    let own = socket.local_addr().ok()?.ip();
    (!own.is_loopback() && !own.is_unspecified()).then_some(own)
}

fn print_code(url: &str) {
    // An address always fits.
    let Ok(code) = QrCode::encode_text(url, QrCodeEcc::Low) else { return };
    let mut stderr = io::stderr();
    let picture = picture(&code, stderr.is_terminal());
    // Without standard error it is lost.
    let _ = stderr.write_all(format!("\n{picture}\n  {url}\n\n").as_bytes());
}

/// Two rows of the code in each line. Terminals that are dark get it black on white by their colours, as cameras want
/// it.
fn picture(code: &QrCode, has_colours: bool) -> String {
    let (begin, end) = if has_colours { ("\x1b[30;107m", "\x1b[0m") } else { ("", "") };
    let reach = -QUIET..code.size() + QUIET;
    let mut picture = String::new();
    for row in reach.clone().step_by(2) {
        let line: String = reach
            .clone()
            .map(|column| match (code.get_module(column, row), code.get_module(column, row + 1)) {
                (true, true) => '█',
                (true, false) => '▀',
                (false, true) => '▄',
                (false, false) => ' ',
            })
            .collect();
        writeln!(picture, "{begin}{line}{end}").expect("writing to a string does not fail");
    }
    picture
}

/// Modules of white around the code: half of what ISO 18004 asks for, which cameras are content with.
const QUIET: i32 = 2;

/// Has a browser open `url`, which is not waited for.
fn open(url: &str) -> Result<(), String> {
    let wanted = env::var_os("BROWSER").filter(|browser| !browser.is_empty());
    let program = wanted.clone().unwrap_or_else(|| OsString::from("xdg-open"));
    let Some(program) = find(Path::new(&program)) else {
        return Err(match wanted {
            Some(browser) => format!("BROWSER names {}, which is not there; open {url}", browser.display()),
            None => format!("there is no xdg-open on PATH; open {url}"),
        });
    };
    // The shell leaves it to init, so that nothing has to wait for its end.
    let started = Command::new("/bin/sh")
        .args(["-c", "\"$0\" \"$1\" >/dev/null 2>&1 </dev/null &"])
        .arg(program)
        .arg(url)
        .stdin(Stdio::null())
        .status();
    started.map(drop).map_err(|error| format!("{error}; open {url}"))
}

/// The program of this name on PATH; a path is taken as it is.
fn find(program: &Path) -> Option<PathBuf> {
    if program.components().count() > 1 {
        return program.is_file().then(|| program.to_owned());
    }
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path).map(|directory| directory.join(program)).find(|found| found.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses(texts: &[&str]) -> Vec<ListenAddress> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    #[test]
    fn others_are_shown_an_address_that_they_can_reach() {
        let others = |texts: &[&str], own: Option<&str>| {
            let addresses = addresses(texts);
            let addresses: Vec<_> = addresses.iter().collect();
            for_others(&addresses, |every| {
                own.map(|own| own.parse::<IpAddr>().unwrap()).filter(|own| own.is_ipv4() == every.is_ipv4())
            })
        };
        let home = Some("192.168.1.7");
        assert_eq!(others(&["0.0.0.0:8080"], home), Ok("192.168.1.7:8080".parse().unwrap()));
        assert_eq!(others(&["[::]:8080"], home), Ok("192.168.1.7:8080".parse().unwrap()), "both kinds come in there");
        assert_eq!(others(&["8080", "192.0.2.1:81"], home), Ok("192.0.2.1:81".parse().unwrap()));
        assert!(others(&["unix:s", "8081"], home).unwrap_err().contains("--listen :8081"));
        assert!(others(&["0.0.0.0:8080"], None).unwrap_err().contains("no address"));
    }

    #[test]
    fn this_machine_opens_an_address_of_its_own() {
        let own = |texts: &[&str]| {
            let addresses = addresses(texts);
            for_this_machine(&addresses.iter().collect::<Vec<_>>()).map(|address| address.to_string())
        };
        assert_eq!(own(&["0.0.0.0:80"]), Ok("127.0.0.1:80".into()));
        assert_eq!(own(&["[::]:80"]), Ok("[::1]:80".into()));
        assert_eq!(own(&["unix:s", "8080"]), Ok("127.0.0.1:8080".into()));
        assert!(own(&["unix:s"]).is_err());
    }

    #[test]
    fn a_picture_has_every_module_where_the_code_has_it() {
        let code = QrCode::encode_text("http://192.168.1.7:8080/", QrCodeEcc::Low).unwrap();
        let picture = picture(&code, false);
        let lines: Vec<Vec<char>> = picture.lines().map(|line| line.chars().collect()).collect();
        for row in 0..code.size() {
            for column in 0..code.size() {
                let at = lines[((row + QUIET) / 2) as usize][(column + QUIET) as usize];
                let is_dark = if (row + QUIET) % 2 == 0 { "█▀" } else { "█▄" }.contains(at);
                assert_eq!(is_dark, code.get_module(column, row), "{column}, {row}");
            }
        }
        assert!(lines.iter().all(|line| line.len() == lines[0].len() && line[0] == ' '));
    }
}
