//! One line of the access log.
//!
//! Owns: the formats. Writes into the caller's buffer and allocates nothing else, as it runs once for each response on
//! the workers' own time. Guarantees that every record is exactly one line, whatever bytes a peer sent, and that a JSON
//! line is one valid object in UTF-8. Does not decide what is logged or read the clock.

use std::io::Write as _;
use std::net::IpAddr;

use lamna_config::access_log::LogFormat;
use lamna_proto::message::Request;
use lamna_proto::parse::host;

use super::encode::{push_decimal, push_escaped, push_escaped_but, push_json_escaped, push_seconds};
use super::template;
use crate::log::calendar::{Calendar, put_four_digits, put_two_digits};

/// The log record of one response. Bytes of requests are as the peer sent them.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    /// The peer's address; none for Unix sockets. An IPv4 address mapped into IPv6 is logged as IPv4.
    pub client: Option<IpAddr>,
    /// The verified user.
    pub user: Option<&'a str>,
    /// Method; empty if the request line could not be read.
    pub method: &'a [u8],
    /// Request target (RFC 9112 3.2) in any of its forms.
    pub target: &'a [u8],
    /// Protocol and version, such as `HTTP/1.1`.
    pub version: &'a str,
    /// Status code of the response.
    pub status: u16,
    /// Bytes of content sent, without header and framing.
    pub bytes: u64,
    /// Value of Referer.
    pub referer: Option<&'a [u8]>,
    /// Value of User-Agent.
    pub user_agent: Option<&'a [u8]>,
    /// The authority that was asked: a host, and a port if the request names one.
    pub host: Option<&'a [u8]>,
    /// From the first byte of the request to the last of the response handed to the kernel, in microseconds.
    pub duration_us: u64,
    /// The results of the handshake, if the connection is one of TLS.
    pub tls: Option<Tls<'a>>,
    /// The ID of the request, if the line is to have it.
    pub id: Option<&'a [u8]>,
    /// The request, for templates that have fields of it; none if its head could not be read.
    pub request: Option<Request<'a>>,
}

/// The results of a handshake, by the names of IANA.
#[derive(Clone, Copy, Debug)]
pub struct Tls<'a> {
    /// `1.2` or `1.3`.
    pub version: &'a str,
    /// The cipher suite.
    pub cipher: &'a str,
    /// The group of the key exchange; empty if there was none.
    pub group: &'a str,
    /// The protocol above, as ALPN names it.
    pub protocol: &'a str,
    /// The client came with a ticket.
    pub is_resumed: bool,
    /// The subject of the client's certificate.
    pub client_subject: Option<&'a str>,
}

/// The time of a line in every format. What is above milliseconds is rendered again only when the second changes.
#[derive(Clone, Debug)]
pub struct LogTime {
    unix_ms: u64,
    combined: [u8; 28],
    rfc3339: [u8; 24],
}

impl LogTime {
    /// This moment, in milliseconds since the epoch.
    pub fn new(unix_ms: u64) -> LogTime {
        let mut time = LogTime::of_second(unix_ms / 1000);
        time.set_milliseconds(unix_ms);
        time
    }

    /// Milliseconds since the epoch.
    pub fn unix_ms(&self) -> u64 {
        self.unix_ms
    }

    fn of_second(unix_seconds: u64) -> LogTime {
        let date = Calendar::from_unix_seconds(unix_seconds);
        let mut rfc3339 = *b"0000-00-00T00:00:00.000Z";
        // All but the `Z` at its end.
        rfc3339[..19].copy_from_slice(&date.rfc3339()[..19]);
        LogTime { unix_ms: unix_seconds * 1000, combined: common_log_time(&date), rfc3339 }
    }

    /// Moves to this moment, in milliseconds since the epoch.
    pub fn update(&mut self, unix_ms: u64) {
        if unix_ms / 1000 != self.unix_ms / 1000 {
            *self = LogTime::of_second(unix_ms / 1000);
        }
        self.set_milliseconds(unix_ms);
    }

    fn set_milliseconds(&mut self, unix_ms: u64) {
        self.unix_ms = unix_ms;
        let milliseconds = (unix_ms % 1000) as u16;
        self.rfc3339[20] = b'0' + (milliseconds / 100) as u8;
        put_two_digits(&mut self.rfc3339[21..23], (milliseconds % 100) as u8);
    }

    /// `[21/Nov/2026:04:00:00 +0000]`.
    pub fn combined(&self) -> &[u8] {
        &self.combined
    }

    /// `2026-11-21T04:00:00.000Z` (RFC 3339).
    pub fn rfc3339(&self) -> &[u8] {
        &self.rfc3339
    }
}

/// Appends one line, its line feed included. At most four bytes for each byte of the record in the combined format, six
/// in JSON, and some 400 more.
pub fn append(line: &mut Vec<u8>, format: &LogFormat, time: &LogTime, record: &Record<'_>) {
    match format {
        LogFormat::Combined => append_combined(line, time, record),
        LogFormat::VhostCombined => {
            let (host, port) = authority(record);
            push_escaped_but(line, Some(host).filter(|host| !host.is_empty()).unwrap_or(b"-"), b' ');
            line.push(b':');
            push_escaped_but(line, port, b' ');
            line.push(b' ');
            append_combined(line, time, record);
        }
        LogFormat::Json => append_json(line, time, record),
        LogFormat::Template(template) => template::append(line, template, time, record),
    }
}

/// The host that was asked, which is empty if there is none, and the port, which is that of the scheme if none was
/// named.
pub(super) fn authority<'a>(record: &Record<'a>) -> (&'a [u8], &'a [u8]) {
    let (host, port) = host_and_port(record.host.unwrap_or_default());
    let usual: &[u8] = if record.tls.is_some() { b"443" } else { b"80" };
    (host, port.unwrap_or(usual))
}

/// Host and port as they were sent, right or wrong.
fn host_and_port(authority: &[u8]) -> (&[u8], Option<&[u8]>) {
    let host = host::name_of(authority);
    (host, authority[host.len()..].strip_prefix(b":").filter(|port| !port.is_empty()))
}

/// Apache's combined log format: `%h %l %u %t "%r" %>s %b "%{Referer}i" "%{User-Agent}i"`, with its escapes and with
/// `-` for what is missing. `%l` always is; `%u` is the verified user. The ID of the request stands behind it, if the
/// record has it.
pub fn append_combined(line: &mut Vec<u8>, time: &LogTime, record: &Record<'_>) {
    line.reserve(typical_length(record));
    push_address(line, record.client);
    line.extend_from_slice(b" - ");
    // A space in it would end it.
    push_escaped_but(line, record.user.unwrap_or("-").as_bytes(), b' ');
    line.push(b' ');
    line.extend_from_slice(time.combined());
    line.extend_from_slice(b" \"");
    push_request_line(line, record);
    line.extend_from_slice(b"\" ");
    push_decimal(line, record.status.into());
    line.push(b' ');
    match record.bytes {
        0 => line.push(b'-'),
        bytes => push_decimal(line, bytes),
    }
    line.extend_from_slice(b" \"");
    push_escaped(line, record.referer.unwrap_or(b"-"));
    line.extend_from_slice(b"\" \"");
    push_escaped(line, record.user_agent.unwrap_or(b"-"));
    line.push(b'"');
    if let Some(id) = record.id {
        line.extend_from_slice(b" \"");
        push_escaped(line, id);
        line.push(b'"');
    }
    line.push(b'\n');
}

/// One JSON object. Attributes have the names of OpenTelemetry's semantic conventions where there are such; `time` is
/// after RFC 3339, `duration` in seconds, `bytes` those of the content sent. What is missing is left out. Bytes that
/// are not UTF-8 become U+FFFD.
pub fn append_json(line: &mut Vec<u8>, time: &LogTime, record: &Record<'_>) {
    line.reserve(typical_length(record) + 320);
    line.extend_from_slice(b"{\"time\":\"");
    line.extend_from_slice(time.rfc3339());
    line.push(b'"');
    if record.client.is_some() {
        line.extend_from_slice(b",\"client.address\":\"");
        push_address(line, record.client);
        line.push(b'"');
    }
    push_member(line, "user.name", record.user.map(str::as_bytes));
    push_member(line, "http.request.method", Some(record.method).filter(|method| !method.is_empty()));
    push_target(line, record.target);
    let version = record.version.strip_prefix("HTTP/").unwrap_or(record.version);
    push_member(line, "network.protocol.version", Some(version.as_bytes()));
    push_server(line, record.host);
    line.extend_from_slice(b",\"http.response.status_code\":");
    push_decimal(line, record.status.into());
    line.extend_from_slice(b",\"bytes\":");
    push_decimal(line, record.bytes);
    line.extend_from_slice(b",\"duration\":");
    push_seconds(line, record.duration_us);
    push_member(line, "user_agent.original", record.user_agent);
    push_member(line, "http.request.header.referer", record.referer);
    push_member(line, "request_id", record.id);
    if let Some(tls) = &record.tls {
        push_tls(line, tls);
    }
    line.extend_from_slice(b"}\n");
}

/// Host and port; both together if they cannot be told apart.
fn push_server(line: &mut Vec<u8>, authority: Option<&[u8]>) {
    let Some(authority) = authority else { return };
    let (host, port) = host_and_port(authority);
    match port.map(|port| std::str::from_utf8(port).ok()?.parse::<u16>().ok()) {
        None if host.len() == authority.len() => push_member(line, "server.address", Some(host)),
        Some(Some(port)) => {
            push_member(line, "server.address", Some(host));
            line.extend_from_slice(b",\"server.port\":");
            push_decimal(line, port.into());
        }
        None | Some(None) => push_member(line, "server.address", Some(authority)),
    }
}

fn push_tls(line: &mut Vec<u8>, tls: &Tls<'_>) {
    let Tls { version, cipher, group, protocol, is_resumed, client_subject } = *tls;
    push_member(line, "tls.protocol.version", Some(version.as_bytes()));
    push_member(line, "tls.cipher", Some(cipher.as_bytes()));
    push_member(line, "tls.curve", Some(group.as_bytes()).filter(|group| !group.is_empty()));
    push_member(line, "tls.next_protocol", Some(protocol.as_bytes()));
    line.extend_from_slice(if is_resumed { b",\"tls.resumed\":true" } else { b",\"tls.resumed\":false" });
    push_member(line, "tls.client.subject", client_subject.map(str::as_bytes));
}

/// Room for a line in which nothing is escaped, so that a buffer grows once at most.
fn typical_length(record: &Record<'_>) -> usize {
    let optional = |value: Option<&[u8]>| value.map_or(0, <[u8]>::len);
    128 + record.method.len()
        + record.target.len()
        + optional(record.host)
        + optional(record.referer)
        + optional(record.user_agent)
        + record.id.map_or(0, |id| id.len() + 24)
        + record.tls.map_or(0, |tls| 192 + optional(tls.client_subject.map(str::as_bytes)))
}

fn common_log_time(date: &Calendar) -> [u8; 28] {
    const MONTHS: &[u8; 36] = b"JanFebMarAprMayJunJulAugSepOctNovDec";
    let mut text = *b"[00/Jan/0000:00:00:00 +0000]";
    let month = 3 * usize::from(date.month - 1);
    put_two_digits(&mut text[1..3], date.day);
    text[4..7].copy_from_slice(&MONTHS[month..month + 3]);
    put_four_digits(&mut text[8..12], date.year);
    put_two_digits(&mut text[13..15], date.hour);
    put_two_digits(&mut text[16..18], date.minute);
    put_two_digits(&mut text[19..21], date.second);
    text
}

fn push_request_line(line: &mut Vec<u8>, record: &Record<'_>) {
    if record.method.is_empty() {
        return line.push(b'-');
    }
    push_escaped(line, record.method);
    line.push(b' ');
    push_escaped(line, record.target);
    line.push(b' ');
    push_escaped(line, record.version.as_bytes());
}

/// Path and query of a target that has them; other forms of target stay whole.
fn push_target(line: &mut Vec<u8>, target: &[u8]) {
    if target.first() != Some(&b'/') {
        return push_member(line, "url.original", Some(target).filter(|target| !target.is_empty()));
    }
    match memchr::memchr(b'?', target) {
        None => push_member(line, "url.path", Some(target)),
        Some(mark) => {
            push_member(line, "url.path", Some(&target[..mark]));
            push_member(line, "url.query", Some(&target[mark + 1..]));
        }
    }
}

pub(super) fn push_address(line: &mut Vec<u8>, address: Option<IpAddr>) {
    match address.map(|address| address.to_canonical()) {
        None => line.push(b'-'),
        Some(IpAddr::V4(address)) => {
            let [first, rest @ ..] = address.octets();
            push_decimal(line, first.into());
            for octet in rest {
                line.push(b'.');
                push_decimal(line, octet.into());
            }
        }
        Some(IpAddr::V6(address)) => write!(line, "{address}").expect("writing to memory cannot fail"),
    }
}

/// Appends a member with a string value to an object that has one already; nothing if there is no value.
fn push_member(line: &mut Vec<u8>, name: &str, value: Option<&[u8]>) {
    let Some(value) = value else { return };
    line.extend_from_slice(b",\"");
    line.extend_from_slice(name.as_bytes());
    line.extend_from_slice(b"\":\"");
    push_json_escaped(line, value);
    line.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::super::encode::tests::any_bytes;
    use super::*;
    use proptest::option;
    use proptest::prelude::*;
    use std::hint::black_box;
    use std::net::{Ipv4Addr, Ipv6Addr};
    use std::time::Instant;

    const RECORD: Record<'static> = Record {
        user: None,
        client: Some(IpAddr::V4(Ipv4Addr::new(192, 0, 2, 17))),
        method: b"GET",
        target: b"/a/b.html?c=d",
        version: "HTTP/1.1",
        status: 200,
        bytes: 4312,
        referer: Some(b"https://example.org/start"),
        user_agent: Some(b"Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"),
        host: Some(b"example.org"),
        duration_us: 1_000_123,
        tls: None,
        id: None,
        request: None,
    };

    fn combined(record: &Record<'_>) -> String {
        let mut line = Vec::new();
        append(&mut line, &LogFormat::Combined, &LogTime::new(1_795_233_600_042), record);
        String::from_utf8(line).expect("ASCII")
    }

    fn json(record: &Record<'_>) -> serde_json::Value {
        let mut line = Vec::new();
        append(&mut line, &LogFormat::Json, &LogTime::new(1_795_233_600_042), record);
        assert_eq!(line.pop(), Some(b'\n'));
        assert!(!line.contains(&b'\n'));
        serde_json::from_slice(&line).expect("JSON")
    }

    #[test]
    fn what_a_request_is_called_stands_at_the_end_and_in_json_is_a_member() {
        let named = Record { id: Some(b"0123456789abcdef"), ..RECORD };
        assert!(combined(&named).ends_with(" Firefox/140.0\" \"0123456789abcdef\"\n"), "{}", combined(&named));
        assert_eq!(json(&named)["request_id"], "0123456789abcdef");
    }

    #[test]
    fn who_was_let_in_is_named_and_ends_no_field() {
        let record = Record { user: Some("ada \"l\""), ..RECORD };
        assert!(combined(&record).contains(" - ada\\x20\\\"l\\\" ["), "{}", combined(&record));
        let record = Record { user: Some("ada"), ..RECORD };
        assert!(combined(&record).contains(" - ada ["));
    }

    #[test]
    fn a_combined_line_is_apaches() {
        let expected = "192.0.2.17 - - [21/Nov/2026:04:00:00 +0000] \"GET /a/b.html?c=d HTTP/1.1\" 200 4312 \
                        \"https://example.org/start\" \
                        \"Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0\"\n";
        assert_eq!(combined(&RECORD), expected);
    }

    #[test]
    fn what_is_missing_is_a_hyphen() {
        let record = Record { client: None, method: b"", bytes: 0, referer: None, user_agent: None, ..RECORD };
        assert_eq!(combined(&record), "- - - [21/Nov/2026:04:00:00 +0000] \"-\" 200 - \"-\" \"-\"\n");
    }

    #[test]
    fn a_combined_line_escapes_as_apache_does() {
        let record = Record { user_agent: Some(b"a\"b\\c\n\r\t\x08\x0b\x00\x1b\x7f\xff"), ..RECORD };
        assert!(combined(&record).ends_with("\"a\\\"b\\\\c\\n\\r\\t\\b\\v\\x00\\x1b\\x7f\\xff\"\n"));
    }

    #[test]
    fn addresses_are_in_their_usual_forms() {
        let start = |address: &str| {
            let client = Some(address.parse().expect("an address"));
            combined(&Record { client, ..RECORD }).split(' ').next().map(str::to_owned)
        };
        assert_eq!(start("255.10.0.1").as_deref(), Some("255.10.0.1"));
        assert_eq!(start("2001:db8::1").as_deref(), Some("2001:db8::1"));
        assert_eq!(start("::ffff:192.0.2.1").as_deref(), Some("192.0.2.1"));
    }

    #[test]
    fn a_json_line_has_the_names_of_the_conventions() {
        let expected = serde_json::json!({
            "time": "2026-11-21T04:00:00.042Z",
            "client.address": "192.0.2.17",
            "http.request.method": "GET",
            "url.path": "/a/b.html",
            "url.query": "c=d",
            "network.protocol.version": "1.1",
            "server.address": "example.org",
            "http.response.status_code": 200,
            "bytes": 4312,
            "duration": 1.000123,
            "user_agent.original": "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0",
            "http.request.header.referer": "https://example.org/start",
        });
        assert_eq!(json(&RECORD), expected);
    }

    #[test]
    fn a_json_line_has_the_port_that_was_asked_by_itself() {
        let server = |host: &str| {
            let line = json(&Record { host: Some(host.as_bytes()), ..RECORD });
            (line["server.address"].as_str().map(str::to_owned), line.get("server.port").and_then(|port| port.as_u64()))
        };
        for (host, address, port) in [
            ("a.example", "a.example", None),
            ("a.example:8443", "a.example", Some(8443)),
            ("[2001:db8::1]:80", "[2001:db8::1]", Some(80)),
            ("a.example:99999", "a.example:99999", None),
            ("a.example:b", "a.example:b", None),
        ] {
            assert_eq!(server(host), (Some(address.to_owned()), port), "{host}");
        }
    }

    #[test]
    fn a_vhost_combined_line_begins_with_host_and_port() {
        let line = |record: &Record<'_>| {
            let mut line = Vec::new();
            append(&mut line, &LogFormat::VhostCombined, &LogTime::new(1_795_233_600_042), record);
            String::from_utf8(line).expect("ASCII")
        };
        assert_eq!(line(&RECORD), format!("example.org:80 {}", combined(&RECORD)));
        let begins = |host: Option<&[u8]>, with: &str| {
            let line = line(&Record { host, ..RECORD });
            assert!(line.starts_with(&format!("{with} 192.0.2.17 ")), "{line}");
        };
        begins(Some(b"a.example:8080"), "a.example:8080");
        begins(Some(b"a b\n\"c:d"), "a\\x20b\\n\\\"c:d");
        begins(None, "-:80");
    }

    #[test]
    fn a_json_line_of_a_secured_connection_says_what_was_agreed_on() {
        let tls = Tls {
            version: "1.3",
            cipher: "TLS_AES_128_GCM_SHA256",
            group: "x25519",
            protocol: "h2",
            is_resumed: false,
            client_subject: Some("CN=a \"b\", O=c"),
        };
        let line = json(&Record { tls: Some(tls), ..RECORD });
        let without = json(&RECORD);
        let mut expected = without.as_object().expect("an object").clone();
        for (name, value) in [
            ("tls.protocol.version", "1.3"),
            ("tls.cipher", "TLS_AES_128_GCM_SHA256"),
            ("tls.curve", "x25519"),
            ("tls.next_protocol", "h2"),
            ("tls.client.subject", "CN=a \"b\", O=c"),
        ] {
            expected.insert(name.to_owned(), value.into());
        }
        expected.insert("tls.resumed".to_owned(), false.into());
        assert_eq!(line, serde_json::Value::Object(expected));
        let brief = Tls { group: "", is_resumed: true, client_subject: None, ..tls };
        let line = json(&Record { tls: Some(brief), ..RECORD });
        assert_eq!((line.get("tls.curve"), line.get("tls.client.subject")), (None, None));
        assert_eq!(line["tls.resumed"], true);
    }

    #[test]
    fn a_json_line_leaves_out_what_is_missing() {
        let record =
            Record { client: None, method: b"", target: b"", referer: None, user_agent: None, host: None, ..RECORD };
        let line = json(&record);
        assert_eq!(line.as_object().map(serde_json::Map::len), Some(5));
        assert_eq!(json(&Record { target: b"*", ..RECORD })["url.original"], "*");
    }

    #[test]
    fn the_time_is_rendered_again_when_the_second_changes() {
        let mut time = LogTime::new(0);
        assert_eq!(time.combined(), b"[01/Jan/1970:00:00:00 +0000]");
        time.update(1_795_233_600_007);
        assert_eq!(time.combined(), b"[21/Nov/2026:04:00:00 +0000]");
        assert_eq!(time.rfc3339(), b"2026-11-21T04:00:00.007Z");
        time.update(1_795_233_600_999);
        assert_eq!(time.rfc3339(), b"2026-11-21T04:00:00.999Z");
    }

    /// Prints what a line costs. Run with `cargo test --release -- --ignored --nocapture nanoseconds`.
    #[test]
    #[ignore = "a measurement"]
    fn nanoseconds_per_line() {
        const LINES: u32 = 2_000_000;
        for format in [LogFormat::Combined, LogFormat::Json] {
            let mut buffer = Vec::with_capacity(64 * 1024);
            let mut time = LogTime::new(0);
            let start = Instant::now();
            for line in 0..LINES {
                time.update(u64::from(line >> 6));
                append(&mut buffer, &format, &time, black_box(&RECORD));
                if buffer.len() > 32 * 1024 {
                    black_box(&buffer);
                    buffer.clear();
                }
            }
            println!("{format:?}: {:.1} ns", start.elapsed().as_nanos() as f64 / f64::from(LINES));
        }
    }

    proptest! {
        #[test]
        fn any_record_is_one_line_of_printable_ascii(
            method in any_bytes(), target in any_bytes(), referer in option::of(any_bytes()), address: [u8; 16],
            status: u16, bytes: u64, duration_us: u64,
        ) {
            let client = Some(IpAddr::V6(Ipv6Addr::from(address)));
            let referer = referer.as_deref();
            let record = Record { client, method: &method, target: &target, referer, status, bytes, duration_us, ..RECORD };
            let line = combined(&record);
            let content = line.strip_suffix('\n').expect("a line feed at the end");
            prop_assert!(content.bytes().all(|byte| (b' '..=b'~').contains(&byte)));
        }

        #[test]
        fn any_record_is_one_json_object_with_its_values(
            method in any_bytes(), target in any_bytes(), referer in any_bytes(), host in option::of(any_bytes()),
            status: u16, bytes: u64, duration_us: u64,
        ) {
            let (referer, host) = (Some(&referer[..]), host.as_deref());
            let line = json(&Record { method: &method, target: &target, referer, host, status, bytes, duration_us, ..RECORD });
            let lossy = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            let (referer, host) = (referer.map(lossy), host.map(lossy));
            prop_assert_eq!(line["http.request.header.referer"].as_str(), referer.as_deref());
            let port = line.get("server.port").map_or_else(String::new, |port| format!(":{port}"));
            let shown = line["server.address"].as_str().map(|address| format!("{address}{port}"));
            let same = |shown: &str, sent: &str| shown == sent || sent.strip_suffix(':') == Some(shown);
            prop_assert!(shown.is_some() == host.is_some());
            prop_assert!(shown.zip(host).is_none_or(|(shown, host)| same(&shown, &host) || host.contains(":0") || host.contains(":+")));
            prop_assert_eq!(line["bytes"].as_u64(), Some(bytes));
            prop_assert_eq!(line["http.response.status_code"].as_u64(), Some(status.into()));
        }
    }
}
