//! The affinity of requests: by which of them an application's places are the same.
//!
//! Owns: [`of`], a number for what `sticky` names of a request, and [`OwnCookie`], which names a place itself.
//! Guarantees: a number is the same in every process, on every machine and after a restart; a cookie that is not one of
//! this server's names no place, and is no error. Which place a number leads to is `lamna_policy::upstream`'s to say.

use std::net::IpAddr;

use lamna_config::gateway::Sticky;
use lamna_policy::upstream::affinity::number;
use lamna_proto::exchange::program::StreamHead;
use lamna_proto::gateway::fields::Fields;

use crate::upstream::group::Group;

/// The number of a request from `client` with `fields`; none if nothing of it names a place.
pub(super) fn of(sticky: &Sticky, client: Option<IpAddr>, fields: Fields<'_>) -> Option<u64> {
    match sticky {
        Sticky::Client => client.map(|client| match client.to_canonical() {
            IpAddr::V4(address) => number(&address.octets()),
            // A client has a network of its own, and changes its address in that.
            IpAddr::V6(address) => number(&address.octets()[..8]),
        }),
        Sticky::Header(name) => fields.values(name).next().filter(|value| !value.is_empty()).map(number),
        Sticky::Cookie(name) => {
            let values = fields.values("cookie").find_map(|cookies| cookie(cookies, name.as_bytes()));
            values.map(number)
        }
        Sticky::SetCookie { .. } => None,
    }
}

/// The cookie of the server that names the place of a client.
#[derive(Debug)]
pub(super) struct OwnCookie {
    /// Up to its value.
    name: String,
    /// Behind its value.
    attributes: String,
    /// The place that the request names, and whether by the value of now.
    brought: Option<(usize, bool)>,
    /// The field line for the client, with its answer.
    line: Vec<u8>,
    /// Somebody else puts the line on the answer.
    pub(super) is_deferred: bool,
}

impl OwnCookie {
    /// That of a request with `fields` to `group`; none if its places are not named so. What is not a value of one of
    /// them names none.
    pub(super) fn of(group: &Group, fields: Fields<'_>, is_secure: bool) -> Option<Box<OwnCookie>> {
        let Some(Sticky::SetCookie { name, path }) = &group.settings.sticky else { return None };
        let value = fields.values("cookie").find_map(|cookies| cookie(cookies, name.as_bytes()));
        let brought = value.and_then(|value| {
            (0..group.settings.upstreams.len()).find_map(|index| {
                let [now, before] = group.cookie_values(index)?;
                let is_now = now.as_bytes() == value;
                (is_now || before.as_bytes() == value).then_some((index, is_now))
            })
        });
        let secure = if is_secure { "; Secure" } else { "" };
        let attributes = format!("; Path={path}; HttpOnly; SameSite=Lax{secure}");
        let (name, line) = (name.clone(), Vec::new());
        Some(Box::new(OwnCookie { name, attributes, brought, line, is_deferred: false }))
    }

    /// The place that the request names.
    pub(super) fn place(&self) -> Option<usize> {
        self.brought.map(|(index, _)| index)
    }

    /// Place `index` answers: the line for the client, unless it has this value already.
    pub(super) fn answer(&mut self, group: &Group, index: usize) {
        self.line.clear();
        if self.brought != Some((index, true))
            && let Some([value, _]) = group.cookie_values(index)
        {
            let OwnCookie { name, attributes, .. } = self;
            self.line = format!("Set-Cookie: {name}={value}{attributes}\r\n").into_bytes();
        }
    }

    /// Puts the line on `head`.
    pub(super) fn give(&mut self, head: &mut StreamHead) {
        head.fields.append(&mut self.line);
    }
}

/// The value of the cookie `name` in one field (RFC 6265 4.2.1), unless it is empty.
fn cookie<'c>(cookies: &'c [u8], name: &[u8]) -> Option<&'c [u8]> {
    let pairs = cookies.split(|byte| *byte == b';').map(<[u8]>::trim_ascii);
    let mut values = pairs.filter_map(|pair| pair.strip_prefix(name)?.strip_prefix(b"="));
    values.next().filter(|value| !value.is_empty())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use lamna_config::gateway::{GatewayProtocol, GatewaySettings, UpstreamSettings};
    use lamna_proto::gateway::fields::LineEnds;
    use lamna_proto::message::Status;
    use lamna_sys::clock::Clock;
    use lamna_sys::shared_memory::SharedMemory;
    use lamna_tls::Tickets;

    use super::*;

    fn group(places: &[&str], keys: &Arc<Tickets>) -> Arc<Group> {
        let upstreams = places.iter().map(|place| UpstreamSettings::new(place.parse().unwrap())).collect();
        let mut settings = GatewaySettings::new(GatewayProtocol::Http, upstreams);
        settings.sticky = Some(Sticky::SetCookie { name: "place".into(), path: "/app/".into() });
        let group = Arc::new(Group::new(settings, 1));
        group.prepare("a.test", &SharedMemory::default(), (Clock::start(), keys)).unwrap();
        group
    }

    fn line(cookie: &mut OwnCookie, group: &Group, index: usize) -> String {
        cookie.answer(group, index);
        let mut head =
            StreamHead { status: Status(200), reason: None, fields: Vec::new(), length: None, tunnels: false };
        cookie.give(&mut head);
        String::from_utf8(head.fields).unwrap()
    }

    #[test]
    fn a_cookie_names_an_address_for_who_has_the_keys_and_nothing_for_others() {
        let keys = Arc::new(Tickets::new().unwrap());
        let two = group(&["127.0.0.1:1", "127.0.0.1:2"], &keys);
        let bring = |group: &Group, cookie: &str| {
            let fields = format!("cookie: {cookie}\r\n");
            OwnCookie::of(group, Fields::check(fields.as_bytes(), LineEnds::CrLf).unwrap(), false).unwrap()
        };
        let given = line(&mut bring(&two, "a=b"), &two, 1);
        let (pair, attributes) = given.strip_prefix("Set-Cookie: ").unwrap().split_once("; ").unwrap();
        assert_eq!(attributes, "Path=/app/; HttpOnly; SameSite=Lax\r\n");
        let mut again = bring(&two, pair);
        assert_eq!((again.place(), line(&mut again, &two, 1)), (Some(1), String::new()));
        assert!(!line(&mut again, &two, 0).is_empty(), "another place has answered");
        // In another place of the list, and in another list.
        assert_eq!(bring(&group(&["127.0.0.1:2", "127.0.0.1:3"], &keys), pair).place(), Some(0));
        assert_eq!(bring(&group(&["127.0.0.1:1", "127.0.0.1:3"], &keys), pair).place(), None);
        let others = Arc::new(Tickets::new().unwrap());
        assert_eq!(bring(&group(&["127.0.0.1:1", "127.0.0.1:2"], &others), pair).place(), None);
        let successor = Arc::new(Tickets::from_bytes(&keys.to_bytes()));
        assert_eq!(bring(&group(&["127.0.0.1:1", "127.0.0.1:2"], &successor), pair).place(), Some(1));
    }

    #[test]
    fn a_cookie_over_tls_is_for_tls() {
        let group = group(&["127.0.0.1:1"], &Arc::new(Tickets::new().unwrap()));
        let mut cookie = OwnCookie::of(&group, Fields::check(b"", LineEnds::CrLf).unwrap(), true).unwrap();
        assert!(line(&mut cookie, &group, 0).ends_with("; Path=/app/; HttpOnly; SameSite=Lax; Secure\r\n"));
    }

    #[test]
    fn a_cookie_is_found_by_its_whole_name() {
        assert_eq!(cookie(b"a=1; session=x y;  id=\"2\"", b"id"), Some(&b"\"2\""[..]));
        assert_eq!(cookie(b"xid=1;id2=3; id", b"id"), None);
        assert_eq!(cookie(b"id=; id=2", b"id"), None);
        assert_eq!(cookie(b"", b"id"), None);
    }
}
