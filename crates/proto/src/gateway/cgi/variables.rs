//! The variables that tell a script of its request (RFC 3875 4.1), for an environment (CGI) or parameters (FastCGI).
//!
//! Owns: names and values. Guarantees: each name is given once. A field becomes `HTTP_` and its name only if that is a
//! name of letters, digits and hyphens, so no two fields meet in one variable (`X_User` and `X-User`); `Proxy` becomes
//! none, because programs take `HTTP_PROXY` for the proxy that they should use ("httpoxy", CVE-2016-5385 and others).

use std::io::Write;
use std::net::IpAddr;

use super::script::ScriptPaths;
use crate::gateway::fields::{EndToEnd, TooManyNamed};
use crate::gateway::forwarding::Interface;
use crate::gateway::{Believed, Inbound, RequestContent, forwarding, usually_has_content};
use crate::parse::host;

/// The server's description for a script.
#[derive(Clone, Copy, Debug)]
pub struct Server<'a> {
    /// `SERVER_SOFTWARE`.
    pub software: &'a str,
    /// `SERVER_NAME` where the client named no host.
    pub name: &'a [u8],
    /// The address and port on which the request was received; none on a Unix socket.
    pub address: Option<(IpAddr, u16)>,
}

/// The variables take more bytes than the protocol or the server allows: the request's fields are too large (431).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLong;

/// Fields that become no variable, or another one.
const OTHERWISE: &[&str] = &["host", "content-type", "proxy", "expect", "trailer"];

/// A request to a script.
#[derive(Clone, Copy, Debug)]
pub struct Variables<'a> {
    /// The request.
    pub request: &'a Inbound<'a>,
    /// Which script, and what is left of the path.
    pub paths: &'a ScriptPaths<'a>,
    /// The server's description.
    pub server: Server<'a>,
    /// How and as whom the server itself has authenticated the user (`AUTH_TYPE`, `REMOTE_USER`). The script does not
    /// see the credentials then (RFC 3875 4.1.18).
    pub user: Option<(&'a str, &'a [u8])>,
}

/// Calls `give` with each name and value. No value holds a NUL. Together they are bounded by three times the length of
/// the request's head and its fields' number, and a few names of the server.
///
/// # Errors
/// [`TooManyNamed`], before anything is given.
pub fn for_each_variable(of: &Variables<'_>, give: &mut dyn FnMut(&[u8], &[u8])) -> Result<(), TooManyNamed> {
    let fields = EndToEnd::of(of.request.fields)?.without(OTHERWISE);
    give_request(of, give);
    give_place(of, give);
    give_parties(of, give);
    give_fields(of, fields, give);
    Ok(())
}

fn give_request(of: &Variables<'_>, give: &mut dyn FnMut(&[u8], &[u8])) {
    let request = of.request;
    let query = request.query.unwrap_or_default();
    give(b"GATEWAY_INTERFACE", b"CGI/1.1");
    give(b"SERVER_PROTOCOL", request.origin.protocol.name().as_bytes());
    give(b"REQUEST_METHOD", request.method);
    // Must be there even if it is empty (4.1.7).
    give(b"QUERY_STRING", query);
    let target = if request.query.is_some() { [request.path, b"?", query].concat() } else { request.path.to_vec() };
    give(b"REQUEST_URI", &target);
    give(b"REQUEST_SCHEME", if request.origin.is_secure { b"https" } else { b"http" });
    if request.origin.is_secure {
        give(b"HTTPS", b"on");
    }
    // 4.1.2: none if there is no content, but for methods for which content is usual, as over HTTP (RFC 9110 8.6).
    // Content whose length is not known has to be buffered first: see `gateway`.
    match request.content {
        RequestContent::Sized(bytes) => give(b"CONTENT_LENGTH", bytes.to_string().as_bytes()),
        RequestContent::None if usually_has_content(request.method) => give(b"CONTENT_LENGTH", b"0"),
        RequestContent::None | RequestContent::Streamed | RequestContent::Buffered => {}
    }
    // 4.1.3.
    let media_types = request.own.values("content-type").chain(request.fields.values("content-type"));
    if let Some(media_type) = media_types.into_iter().find(|value| !value.is_empty()) {
        give(b"CONTENT_TYPE", media_type);
    }
}

fn give_place(of: &Variables<'_>, give: &mut dyn FnMut(&[u8], &[u8])) {
    let paths = of.paths;
    give(b"SCRIPT_NAME", &paths.script_name);
    give(b"DOCUMENT_URI", &[&paths.script_name, paths.path_info].concat());
    if !paths.path_info.is_empty() {
        give(b"PATH_INFO", paths.path_info);
    }
    let Some(root) = paths.root else { return };
    give(b"DOCUMENT_ROOT", if root.is_empty() { b"/" } else { root });
    give(b"SCRIPT_FILENAME", &[root, paths.file].concat());
    if !paths.path_info.is_empty() {
        give(b"PATH_TRANSLATED", &[root, paths.path_info].concat());
    }
    // PHP as CGI runs nothing without it, to be sure that a server chose the script.
    give(b"REDIRECT_STATUS", b"200");
}

fn give_parties(of: &Variables<'_>, give: &mut dyn FnMut(&[u8], &[u8])) {
    let asked = of.request.authority.and_then(|authority| host::parse(authority).ok());
    give(b"SERVER_SOFTWARE", of.server.software.as_bytes());
    give(b"SERVER_NAME", asked.map_or(of.server.name, |host| host.name));
    if let Some((address, _)) = of.server.address {
        give(b"SERVER_ADDR", address.to_canonical().to_string().as_bytes());
    }
    give(b"SERVER_PORT", server_port(of, asked.and_then(|host| host.port)).to_string().as_bytes());
    // 4.1.8 wants one; no client has an address on a Unix socket.
    match of.request.origin.client {
        Some((address, port)) => {
            give(b"REMOTE_ADDR", address.to_canonical().to_string().as_bytes());
            if port != 0 {
                give(b"REMOTE_PORT", port.to_string().as_bytes());
            }
        }
        None => give(b"REMOTE_ADDR", b""),
    }
    if let Some((scheme, user)) = of.user {
        give(b"AUTH_TYPE", scheme.as_bytes());
        give(b"REMOTE_USER", user);
    }
}

/// The port on which the request was received (4.1.15). For the client of a trusted proxy, and on a Unix socket, it is
/// the one that was asked for, or that of the scheme: a program makes addresses for clients of it.
fn server_port(of: &Variables<'_>, asked_port: Option<u16>) -> u16 {
    let origin = &of.request.origin;
    let own = of.server.address.filter(|_| origin.believed == Believed::Nothing).map(|(_, port)| port);
    own.or(asked_port).unwrap_or(if origin.is_secure { 443 } else { 80 })
}

/// 4.1.18. Lines of one field are joined (RFC 9110 5.3), those of `Cookie` as its own syntax wants it (RFC 9113 8.2.3).
fn give_fields(of: &Variables<'_>, fields: EndToEnd<'_>, give: &mut dyn FnMut(&[u8], &[u8])) {
    let request = of.request;
    // A host in the target overrides the field (RFC 9112 3.2.2).
    if let Some(authority) = request.own.values("host").next().or(request.authority) {
        give(b"HTTP_HOST", authority);
    }
    let is_given = |(name, value): &(&[u8], &[u8])| {
        let is_known_otherwise = of.user.is_some() && name.eq_ignore_ascii_case(b"authorization");
        !is_known_otherwise && forwarding::goes_on(name, value, request.origin, Interface::Script)
    };
    let is_variable =
        |(name, _): &(&[u8], &[u8])| !OTHERWISE.iter().any(|one| name.eq_ignore_ascii_case(one.as_bytes()));
    let own = request.own.iter().filter(is_variable);
    let given: Vec<(&[u8], &[u8])> = fields.iter().filter(is_given).chain(own).collect();
    let (mut variable, mut joined) = (Vec::new(), Vec::new());
    // Each name is looked for before and behind: bounded by the square of the number of fields, which is limited.
    for (index, (name, value)) in given.iter().enumerate() {
        if given[..index].iter().any(|(other, _)| other.eq_ignore_ascii_case(name)) {
            continue;
        }
        variable.clear();
        variable.extend_from_slice(b"HTTP_");
        variable.extend(name.iter().map(|byte| if *byte == b'-' { b'_' } else { byte.to_ascii_uppercase() }));
        joined.clear();
        joined.extend_from_slice(value);
        let separator: &[u8] = if name.eq_ignore_ascii_case(b"cookie") { b"; " } else { b", " };
        for (_, more) in given[index + 1..].iter().filter(|(other, _)| other.eq_ignore_ascii_case(name)) {
            // Writing to a vector does not fail.
            _ = joined.write_all(separator).and_then(|()| joined.write_all(more));
        }
        give(&variable, &joined);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;
    use crate::gateway::fields::{Fields, LineEnds};
    use crate::gateway::{Believed, Origin, Protocol};

    const ORIGIN: Origin = Origin {
        client: Some((IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1)), 5000)),
        believed: Believed::Nothing,
        behind: None,
        is_secure: false,
        protocol: Protocol::Http11,
    };

    fn request(fields: &str) -> Inbound<'_> {
        Inbound {
            method: b"GET",
            path: b"/a%20b.php/i",
            query: Some(b"q=%20"),
            authority: Some(b"www.example:8080"),
            fields: Fields::check(fields.as_bytes(), LineEnds::CrLf).unwrap(),
            own: Fields::default(),
            content: RequestContent::None,
            origin: ORIGIN,
        }
    }

    fn variables(request: &Inbound<'_>, user: Option<(&str, &[u8])>) -> BTreeMap<String, String> {
        variables_at(&ScriptPaths::of_script(b"/", b"/a b.php", b"/i", b"/srv/www/"), request, user)
    }

    fn variables_at(
        paths: &ScriptPaths<'_>,
        request: &Inbound<'_>,
        user: Option<(&str, &[u8])>,
    ) -> BTreeMap<String, String> {
        let address = Some((IpAddr::from([127, 0, 0, 1]), 8080));
        let server = Server { software: "lamna", name: b"default.example", address };
        let mut all = BTreeMap::new();
        for_each_variable(&Variables { request, paths, server, user }, &mut |name, value| {
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            assert_eq!(all.insert(text(name), text(value)), None, "{} is given twice", text(name));
        })
        .unwrap();
        all
    }

    #[test]
    fn rfc_3875_4_1_a_script_is_told_of_its_request() {
        let all = variables(&request("Host: other\r\nUser-Agent: x\r\n"), None);
        let expected = [
            ("DOCUMENT_ROOT", "/srv/www"),
            ("DOCUMENT_URI", "/a b.php/i"),
            ("GATEWAY_INTERFACE", "CGI/1.1"),
            ("HTTP_HOST", "www.example:8080"),
            ("HTTP_USER_AGENT", "x"),
            ("PATH_INFO", "/i"),
            ("PATH_TRANSLATED", "/srv/www/i"),
            ("QUERY_STRING", "q=%20"),
            ("REDIRECT_STATUS", "200"),
            ("REMOTE_ADDR", "192.0.2.1"),
            ("REMOTE_PORT", "5000"),
            ("REQUEST_METHOD", "GET"),
            ("REQUEST_SCHEME", "http"),
            ("REQUEST_URI", "/a%20b.php/i?q=%20"),
            ("SCRIPT_FILENAME", "/srv/www/a b.php"),
            ("SCRIPT_NAME", "/a b.php"),
            ("SERVER_ADDR", "127.0.0.1"),
            ("SERVER_NAME", "www.example"),
            ("SERVER_PORT", "8080"),
            ("SERVER_PROTOCOL", "HTTP/1.1"),
            ("SERVER_SOFTWARE", "lamna"),
        ];
        let all: Vec<_> = all.iter().map(|(name, value)| (&**name, &**value)).collect();
        assert_eq!(all, expected);
    }

    #[test]
    fn rfc_3875_4_1_13_the_name_of_a_script_has_the_prefix_that_leads_to_its_directory() {
        for prefix in [&b"/other/"[..], b"/other"] {
            let paths = ScriptPaths::of_script(prefix, b"/a.php", b"/i", b"/srv/other");
            let all = variables_at(&paths, &request(""), None);
            let told = ["SCRIPT_NAME", "SCRIPT_FILENAME", "DOCUMENT_ROOT", "DOCUMENT_URI"].map(|name| &*all[name]);
            assert_eq!(told, ["/other/a.php", "/srv/other/a.php", "/srv/other", "/other/a.php/i"]);
        }
    }

    #[test]
    fn rfc_3875_4_1_2_content_has_its_length_and_type() {
        let request =
            Inbound { content: RequestContent::Sized(7), ..request("Content-Type: a/b\r\nContent-Length: 9\r\n") };
        let all = variables(&request, None);
        assert_eq!((&*all["CONTENT_LENGTH"], &*all["CONTENT_TYPE"]), ("7", "a/b"));
        assert!(!all.contains_key("HTTP_CONTENT_TYPE") && !all.contains_key("HTTP_CONTENT_LENGTH"));
    }

    #[test]
    fn no_field_becomes_a_variable_that_programs_mean_something_else_by() {
        let fields = "Proxy: http://evil\r\nPROXY: x\r\nX_Forwarded_For: 1\r\nX-Forwarded-For: 1\r\nX_User: root\r\nX.User: a\r\n\
                      Connection: X-Hop\r\nX-Hop: 1\r\nTransfer-Encoding: chunked\r\nProxy-Authorization: x\r\nX-User: me\r\n";
        let all = variables(&request(fields), None);
        let names: Vec<&str> = all.keys().map(|name| &**name).filter(|name| name.starts_with("HTTP_")).collect();
        assert_eq!((names, &*all["HTTP_X_USER"]), (vec!["HTTP_HOST", "HTTP_X_USER"], "me"));
    }

    #[test]
    fn lines_of_one_field_are_one_variable() {
        let all = variables(&request("Accept: a\r\nCookie: x=1\r\nACCEPT: b\r\ncookie: y=2\r\n"), None);
        assert_eq!((&*all["HTTP_ACCEPT"], &*all["HTTP_COOKIE"]), ("a, b", "x=1; y=2"));
    }

    #[test]
    fn credentials_that_the_server_has_checked_are_not_passed_on() {
        let fields = "Authorization: Basic eA==\r\n";
        let all = variables(&request(fields), Some(("Basic", b"me")));
        assert!(!all.contains_key("HTTP_AUTHORIZATION"));
        assert_eq!((&*all["AUTH_TYPE"], &*all["REMOTE_USER"]), ("Basic", "me"));
        assert!(variables(&request(fields), None).contains_key("HTTP_AUTHORIZATION"));
    }

    #[test]
    fn the_client_of_a_trusted_proxy_has_the_port_that_it_asked_for() {
        let behind =
            Origin { client: Some((IpAddr::from([192, 0, 2, 2]), 0)), believed: Believed::XForwarded, ..ORIGIN };
        let secure = Origin { is_secure: true, ..behind };
        for (authority, origin, port) in [("a", behind, "80"), ("a", secure, "443"), ("a:8443", secure, "8443")] {
            let all = variables(&Inbound { authority: Some(authority.as_bytes()), origin, ..request("") }, None);
            assert_eq!(
                (&*all["SERVER_PORT"], &*all["SERVER_ADDR"], &*all["REMOTE_ADDR"]),
                (port, "127.0.0.1", "192.0.2.2")
            );
            assert!(!all.contains_key("REMOTE_PORT"));
        }
    }

    #[test]
    fn what_is_not_known_has_what_the_rfc_says() {
        let request =
            Inbound { authority: None, query: None, origin: Origin { client: None, ..ORIGIN }, ..request("") };
        let all = variables(&request, None);
        assert_eq!((&*all["SERVER_NAME"], &*all["QUERY_STRING"], &*all["REMOTE_ADDR"]), ("default.example", "", ""));
        assert_eq!(all["REQUEST_URI"], "/a%20b.php/i");
    }

    proptest! {
        #[test]
        fn any_fields_give_each_variable_once(fields in "([A-Za-z_.!-]{1,4}: [ -~]{0,5}\r\n){0,12}") {
            let all = variables(&request(&fields), None);
            prop_assert!(!all.contains_key("HTTP_PROXY"));
        }
    }
}
