//! The affinity of requests: by which of them an application's places are the same.
//!
//! Owns: [`of`], a number for what `sticky` names of a request. Guarantees: the same in every process, on every machine
//! and after a restart. Which place a number leads to is `lamna_policy::upstream`'s to say.

use std::net::IpAddr;

use lamna_config::gateway::Sticky;
use lamna_policy::upstream::affinity::number;
use lamna_proto::gateway::fields::Fields;

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
    use super::*;

    #[test]
    fn a_cookie_is_found_by_its_whole_name() {
        assert_eq!(cookie(b"a=1; session=x y;  id=\"2\"", b"id"), Some(&b"\"2\""[..]));
        assert_eq!(cookie(b"xid=1;id2=3; id", b"id"), None);
        assert_eq!(cookie(b"id=; id=2", b"id"), None);
        assert_eq!(cookie(b"", b"id"), None);
    }
}
