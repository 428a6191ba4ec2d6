//! The keys `command` and `instances` of a proxy: an application that the server starts, and that listens itself.
//!
//! Owns: their judgement, and which process listens where. Each process has a place of its own. What they are started
//! with is in `config::gateway`, and who starts them in `process::applications`.

use std::net::IpAddr;

use toml::Spanned;

use super::bounds;
use super::gateways::program_of;
use super::shapes::GatewayTable;
use crate::checker::Checker;
use crate::gateway::{GatewaySettings, ProgramPlace, ProgramSettings, UpstreamSettings};
use crate::unit::Unit;
use crate::upstream_address::{Place, UpstreamAddress};
use crate::written::Amount;

/// The processes of the application, if the server starts it. Further instances become further places.
pub(super) fn judge(table: &GatewayTable, settings: &mut GatewaySettings, checker: &mut Checker<'_>) {
    let Some(command) = &table.command else {
        if let Some(instances) = &table.instances {
            checker.problem(instances.span(), "`instances` says how often `command` is started, and there is none");
        }
        return;
    };
    let Some(program) = program_of(command, "node\", \"app.js", checker) else { return };
    if let Some(instances) = &table.instances {
        match several(instances, &settings.upstreams, checker) {
            Some(upstreams) => settings.upstreams = upstreams,
            None => return,
        }
    }
    let places: Option<Vec<ProgramPlace>> =
        settings.upstreams.iter().map(|upstream| place_of(&upstream.address)).collect();
    let Some(places) = places else {
        let hint = Some("write to = \"http://127.0.0.1:3000\", or to = \"unix:/run/lamna/app.sock\"".into());
        let message = "an application with a `command` listens on this machine, without TLS";
        return checker.problem_with_hint(command.span(), message, hint);
    };
    if places.iter().enumerate().any(|(index, place)| places[..index].contains(place)) {
        return checker.problem(command.span(), "each place of an application with a `command` is there once");
    }
    let names = ["{host}", "{port}", "{socket}"];
    let is_missing =
        |text: &String| places.iter().any(|place| names.iter().any(|name| place.fill(text).contains(name)));
    if let Some(argument) = program.iter().find(|text| is_missing(text)) {
        let message = format!(
            "`{argument}` names what a place in `to` does not have: a Unix socket has {{socket}}, others {{host}} and {{port}}"
        );
        return checker.problem(command.span(), message);
    }
    let of_place = |place| ProgramSettings { program: program.clone(), place };
    settings.programs = places.into_iter().map(of_place).collect();
}

fn place_of(address: &UpstreamAddress) -> Option<ProgramPlace> {
    match &address.place {
        _ if address.is_secure => None,
        Place::Unix(path) => Some(ProgramPlace::Socket(path.clone())),
        // `localhost` is both.
        Place::Fixed { addresses, .. } => {
            let first = addresses.first().filter(|address| is_loopback(address.ip()))?;
            Some(ProgramPlace::Port(*first))
        }
        Place::Named { .. } => None,
    }
}

fn is_loopback(address: IpAddr) -> bool {
    address.to_canonical().is_loopback()
}

/// As many places as instances: the ports that follow, and sockets with a number behind their name.
fn several(
    instances: &Spanned<Amount>,
    upstreams: &[UpstreamSettings],
    checker: &mut Checker<'_>,
) -> Option<Vec<UpstreamSettings>> {
    if matches!(instances.get_ref(), Amount::Text(_)) {
        checker.problem(instances.span(), "`instances` of a `proxy` is a number: each has a place of its own");
        return None;
    }
    let number = checker.amount("instances", instances, Unit::Count, &bounds::INSTANCES)?;
    let [first] = upstreams else {
        let hint = Some("leave `instances` out: one process listens at each place in `to`".into());
        checker.problem_with_hint(instances.span(), "`instances` counts on from one place, and `to` has several", hint);
        return None;
    };
    let places: Option<Vec<UpstreamSettings>> = (0..number as u16) // Within bounds that fit.
        .map(|number| Some(UpstreamSettings { address: nth(&first.address, number)?, weight: first.weight }))
        .collect();
    if places.is_none() {
        checker.problem(instances.span(), "there are not as many ports, or the path of a socket becomes too long");
    }
    places
}

/// Place `number` of those that begin with `first`; none if it cannot be.
fn nth(first: &UpstreamAddress, number: u16) -> Option<UpstreamAddress> {
    if number == 0 {
        return Some(first.clone());
    }
    let text = match &first.place {
        Place::Unix(path) => format!("unix:{}.{}", path.to_str()?, number + 1),
        Place::Fixed { addresses, authority } if addresses.len() > 1 => {
            let name = authority.split(':').next()?;
            format!("http://{name}:{}", addresses.first()?.port().checked_add(number)?)
        }
        Place::Fixed { addresses, .. } => {
            let mut address = *addresses.first()?;
            address.set_port(address.port().checked_add(number)?);
            format!("http://{address}")
        }
        // It is refused.
        Place::Named { .. } => return Some(first.clone()),
    };
    text.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(first: &str, numbers: std::ops::Range<u16>) -> Vec<String> {
        let first = first.parse().unwrap();
        numbers.filter_map(|number| Some(nth(&first, number)?.to_string())).collect()
    }

    #[test]
    fn further_instances_are_at_further_places() {
        assert_eq!(places("http://127.0.0.1:3000", 0..2), ["127.0.0.1:3000", "127.0.0.1:3001"]);
        assert_eq!(places("http://[::1]:3000", 0..2), ["[::1]:3000", "[::1]:3001"]);
        assert_eq!(places("http://localhost:3000", 0..2), ["localhost:3000", "localhost:3001"]);
        assert_eq!(places("unix:/run/a.sock", 0..3), ["unix:/run/a.sock", "unix:/run/a.sock.2", "unix:/run/a.sock.3"]);
        assert_eq!(places("http://127.0.0.1:65535", 0..2), ["127.0.0.1:65535"], "there is no further port");
    }

    #[test]
    fn a_program_is_told_where_to_listen() {
        let port = ProgramPlace::Port("127.0.0.1:3000".parse().unwrap());
        assert_eq!(port.fill("--listen={host}:{port}"), "--listen=127.0.0.1:3000");
        assert_eq!(port.fill("{socket} {} {Port}"), "{socket} {} {Port}");
        let socket = ProgramPlace::Socket("/run/a.sock".into());
        assert_eq!(socket.fill("unix:{socket}"), "unix:/run/a.sock");
        assert_eq!(socket.variables(), [("SOCKET", "/run/a.sock".to_owned())]);
    }
}
