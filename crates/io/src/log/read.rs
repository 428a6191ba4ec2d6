//! Lines of access logs, read: those of [`line`](super::line) in the formats that have names, and so those of Apache
//! and nginx in the combined format.
//!
//! Owns: which parts of a line say who asked for which target, when, and how much was sent. Reads nothing from files.

use std::net::IpAddr;

use serde::Deserialize;

use super::calendar::unix_seconds_of;

/// A parsed line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Milliseconds since the epoch.
    pub unix_ms: u64,
    /// The client; none for Unix sockets.
    pub client: Option<IpAddr>,
    /// The host that was asked, where the format has it.
    pub host: Option<String>,
    /// The path as received, without the query; `/` if the target had none.
    pub path: String,
    /// Bytes of content that were sent.
    pub bytes: u64,
}

/// The fields of a line in JSON that are read.
#[derive(Deserialize)]
struct JsonLine {
    time: String,
    #[serde(rename = "client.address")]
    client: Option<String>,
    #[serde(rename = "server.address")]
    host: Option<String>,
    #[serde(rename = "url.path")]
    path: Option<String>,
    #[serde(default)]
    bytes: u64,
}

const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// Parses `line`; nothing if it is in no format that is known.
pub fn read(line: &str) -> Option<Entry> {
    if line.starts_with('{') { read_json(line) } else { read_combined(line) }
}

fn read_json(line: &str) -> Option<Entry> {
    let JsonLine { time, client, host, path, bytes } = serde_json::from_str(line).ok()?;
    let client = match client {
        Some(client) => Some(client.parse().ok()?),
        None => None,
    };
    let host = host.map(|host| host_name(&host).to_owned());
    Some(Entry { unix_ms: rfc3339_ms(&time)?, client, host, path: path.unwrap_or_else(|| "/".to_owned()), bytes })
}

/// A host without its port.
fn host_name(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    }
}

/// `ADDRESS IDENTITY USER [TIME] "METHOD TARGET VERSION" STATUS BYTES ...`, also behind `HOST:PORT `: what follows is
/// not looked at.
fn read_combined(line: &str) -> Option<Entry> {
    let (who, rest) = line.split_once(" [")?;
    let (time, rest) = rest.split_once("] \"")?;
    let mut who = who.split(' ');
    let (host, client) = match (who.next()?, who.next(), who.next(), who.next()) {
        (host, Some(client), Some(_), Some(_)) => (Some(host_name(host)).filter(|host| *host != "-"), client),
        (client, ..) => (None, client),
    };
    let client = match client {
        // A Unix socket: this server's word, and nginx's.
        "-" | "unix:" => None,
        address => Some(address.parse().ok()?),
    };
    let (request, rest) = rest.split_at(end_of_quotation(rest)?);
    let mut numbers = rest[1..].split_ascii_whitespace();
    let _status: u16 = numbers.next()?.parse().ok()?;
    let bytes = match numbers.next()? {
        "-" => 0,
        bytes => bytes.parse().ok()?,
    };
    let target = request.split(' ').nth(1).unwrap_or("/");
    let path = target.split('?').next().filter(|path| path.starts_with('/')).unwrap_or("/");
    Some(Entry { unix_ms: combined_ms(time)?, client, host: host.map(str::to_owned), path: path.to_owned(), bytes })
}

/// Where the quotation ends that `text` begins within.
fn end_of_quotation(text: &str) -> Option<usize> {
    let mut is_escaped = false;
    text.bytes().position(|byte| {
        let ends = byte == b'"' && !is_escaped;
        is_escaped = byte == b'\\' && !is_escaped;
        ends
    })
}

/// `21/Nov/2026:04:00:00 +0000`
fn combined_ms(text: &str) -> Option<u64> {
    let (date, time) = text.split_once(':')?;
    let [day, month, year] = parts(date, '/')?;
    let month = MONTHS.iter().position(|name| *name == month)? as u64 + 1;
    let (time, zone) = time.split_once(' ')?;
    let seconds = seconds_of(year, month, day, time)?;
    offset(seconds, zone).map(|seconds| seconds * 1000)
}

/// `2026-11-21T04:00:00.123Z`, with any fraction and any zone.
fn rfc3339_ms(text: &str) -> Option<u64> {
    let (date, rest) = text.split_once(['T', 't', ' '])?;
    let [year, month, day] = parts(date, '-')?;
    let (time, rest) = rest.split_at_checked(8)?;
    let seconds = seconds_of(year, month.parse().ok()?, day, time)?;
    let (fraction, zone) = match rest.strip_prefix('.') {
        Some(rest) => rest.split_at(rest.bytes().position(|byte| !byte.is_ascii_digit())?),
        None => ("", rest),
    };
    let thousandth = |at: usize| u64::from(fraction.as_bytes().get(at).map_or(0, |digit| digit - b'0'));
    let ms = thousandth(0) * 100 + thousandth(1) * 10 + thousandth(2);
    let zone = if zone.eq_ignore_ascii_case("z") { "+0000".to_owned() } else { zone.replace(':', "") };
    offset(seconds, &zone).map(|seconds| seconds * 1000 + ms)
}

fn parts(text: &str, separator: char) -> Option<[&str; 3]> {
    let mut parts = text.split(separator);
    let three = [parts.next()?, parts.next()?, parts.next()?];
    parts.next().is_none().then_some(three)
}

fn seconds_of(year: &str, month: u64, day: &str, time: &str) -> Option<u64> {
    let [hour, minute, second] = parts(time, ':')?;
    let number = |text: &str, most: u64| text.parse().ok().filter(|number| *number <= most);
    let date = (number(year, 9999)?, month, number(day, 31)?);
    // 60 is a leap second.
    unix_seconds_of(date, (number(hour, 23)?, number(minute, 59)?, number(second, 60)?))
}

/// The instant in UTC of a time in the zone `+HHMM`.
fn offset(seconds: u64, zone: &str) -> Option<u64> {
    let (sign, digits) = zone.split_at_checked(1)?;
    let (hours, minutes) = digits.split_at_checked(2)?;
    let ahead = hours.parse::<u64>().ok()? * 3600 + minutes.parse::<u64>().ok()? * 60;
    match sign {
        "+" => seconds.checked_sub(ahead),
        "-" => seconds.checked_add(ahead),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::line::{LogTime, Record, append};
    use lamna_config::settings::LogFormat;

    fn record(target: &'static [u8]) -> Record<'static> {
        Record {
            user: None,
            client: "2001:db8::1".parse().ok(),
            method: b"GET",
            target,
            version: "HTTP/1.1",
            status: 200,
            bytes: 4312,
            referer: Some(b"https://a.example/ \"x\" [y]"),
            user_agent: None,
            host: Some(b"b.example:8080"),
            duration_us: 17,
            tls: None,
            id: None,
            request: None,
        }
    }

    #[test]
    fn what_this_server_writes_is_read_in_every_format_with_a_name() {
        for unix_ms in [0, 951_782_399_999, 951_782_400_000, 1_795_233_600_123, 4_102_444_799_001] {
            for (target, path) in [(&b"/a?b \"c"[..], "/a"), (b"*", "/"), (b"/x/%20\\y", "/x/%20\\y")] {
                let mut line = Vec::new();
                append(&mut line, &LogFormat::Json, &LogTime::new(unix_ms), &record(target));
                let expected = Entry {
                    unix_ms,
                    client: "2001:db8::1".parse().ok(),
                    host: Some("b.example".to_owned()),
                    path: path.to_owned(),
                    bytes: 4312,
                };
                assert_eq!(read(std::str::from_utf8(&line).unwrap().trim_end()), Some(expected.clone()));
                let mut line = Vec::new();
                append(&mut line, &LogFormat::Combined, &LogTime::new(unix_ms), &record(target));
                let path = path.replace('\\', "\\\\");
                let whole_second = Entry { unix_ms: unix_ms / 1000 * 1000, path, ..expected };
                let without_host = Entry { host: None, ..whole_second.clone() };
                assert_eq!(read(std::str::from_utf8(&line).unwrap().trim_end()), Some(without_host));
                let mut line = Vec::new();
                append(&mut line, &LogFormat::VhostCombined, &LogTime::new(unix_ms), &record(target));
                assert_eq!(read(std::str::from_utf8(&line).unwrap().trim_end()), Some(whole_second));
            }
        }
    }

    #[test]
    fn logs_of_nginx_are_read_with_their_zone() {
        let line =
            r#"192.0.2.7 - alice [21/Nov/2026:06:30:00 +0230] "GET /a?b HTTP/1.1" 304 0 "-" "curl/8.0 [x] \"y\"""#;
        let entry = read(line).unwrap();
        assert_eq!((entry.unix_ms, entry.client), (1_795_233_600_000, "192.0.2.7".parse().ok()));
        assert_eq!((entry.path.as_str(), entry.bytes), ("/a", 0));
        // A request that could not be read.
        let line = r#"192.0.2.7 - - [20/Nov/2026:23:00:00 -0500] "\x16\x03\x01" 400 157 "-" "-""#;
        let entry = read(line).unwrap();
        assert_eq!((entry.unix_ms, entry.path.as_str()), (1_795_233_600_000, "/"));
    }

    #[test]
    fn what_is_no_line_of_a_log_is_not_read() {
        for line in [
            "",
            "{}",
            "{\"time\":\"yesterday\"}",
            "192.0.2.7",
            "192.0.2.7 - - [21/Nov/2026:06:30:00 +0000] \"GET / HTTP/1.1 200 5",
            "somebody - - [21/Nov/2026:06:30:00 +0000] \"GET / HTTP/1.1\" 200 5",
            "192.0.2.7 - - [31/Feb/2026:06:30:00 +0000] \"GET / HTTP/1.1\" 200 5",
            "192.0.2.7 - - [21/Nev/2026:06:30:00 +0000] \"GET / HTTP/1.1\" 200 5",
            "192.0.2.7 - - [21/Nov/2026:06:30:00 \u{e9}] \"GET / HTTP/1.1\" 200 5",
        ] {
            assert_eq!(read(line), None, "{line}");
        }
    }
}
