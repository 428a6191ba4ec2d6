//! One line of an access log, in any of the formats that servers write.
//!
//! Read: common and combined (NCSA httpd; nginx, Apache, lighttpd, h2o and Lamna by default), and JSON by Lamna, Caddy,
//! and the field names usual with nginx. Guarantees: any bytes are a line or none, never a panic.

use serde_json::Value;

use super::time;

/// The relevant fields of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// Nanoseconds since 1970; none if the line has no time that can be read.
    pub at_ns: Option<i128>,
    /// As logged.
    pub method: String,
    /// Path and query, without a fragment; begins with a slash.
    pub path: String,
    /// HTTP status.
    pub status: u16,
    /// Bytes of content; zero for `-`.
    pub bytes: u64,
}

/// Takes a line apart; none if it is of no format.
pub fn parse(line: &str) -> Option<Line> {
    if line.trim_start().starts_with('{') { parse_json(line) } else { parse_common(line) }
}

/// `host ident user [time] "METHOD target PROTOCOL" status bytes ...`. The quote that ends the request is looked for
/// from behind the status, because some servers log quotes as they come.
fn parse_common(line: &str) -> Option<Line> {
    let (before, rest) = line.split_once('"')?;
    let at_ns = before.rsplit_once('[').and_then(|(_, time)| time::read_ncsa(time.trim_end().strip_suffix(']')?));
    rest.match_indices("\" ").find_map(|(end, _)| {
        let mut words = rest[end + 2..].split_ascii_whitespace();
        let status = words.next().filter(|word| word.len() == 3)?.parse().ok()?;
        let bytes = match words.next()? {
            "-" => 0,
            digits => digits.parse().ok()?,
        };
        let (method, target) = rest[..end].split_once(' ')?;
        let target = target.rsplit_once(" HTTP/").map_or(target, |(target, _)| target);
        Some(Line { at_ns, method: method.to_owned(), path: path(&unescape(target))?, status, bytes })
    })
}

fn parse_json(line: &str) -> Option<Line> {
    let object: Value = serde_json::from_str(line).ok()?;
    let text = |names: &[&str]| names.iter().find_map(|name| field(&object, name)?.as_str());
    let number = |names: &[&str]| {
        let value = names.iter().find_map(|name| field(&object, name))?;
        value.as_u64().or_else(|| value.as_str()?.parse().ok())
    };
    let method = text(&["http.request.method", "request.method", "request_method", "method"])?.to_owned();
    let target = match text(&["url.path"]) {
        Some(path) => text(&["url.query"]).map_or(path.to_owned(), |query| format!("{path}?{query}")),
        None => text(&["url.original", "request.uri", "request_uri", "uri", "url", "path"])?.to_owned(),
    };
    let status = number(&["http.response.status_code", "status", "status_code"])?;
    let bytes = number(&["http.response.body.size", "size", "body_bytes_sent", "bytes_sent", "bytes"]);
    Some(Line {
        at_ns: json_time(&object),
        method,
        path: path(&target)?,
        status: u16::try_from(status).ok()?,
        bytes: bytes.unwrap_or(0),
    })
}

fn json_time(object: &Value) -> Option<i128> {
    let names = ["timestamp", "@timestamp", "ts", "time", "time_iso8601", "msec", "time_local"];
    let value = names.iter().find_map(|name| field(object, name))?;
    match value {
        Value::Number(number) => time::from_unix(number.as_f64()?),
        Value::String(text) => {
            time::read_rfc3339(text).or_else(|| time::read_ncsa(text)).or_else(|| time::from_unix(text.parse().ok()?))
        }
        _ => None,
    }
}

/// A field by its name with dots, whether the dots are part of the name or mean nesting.
fn field<'a>(object: &'a Value, name: &str) -> Option<&'a Value> {
    object.get(name).or_else(|| {
        let (outer, inner) = name.split_once('.')?;
        field(object.get(outer)?, inner)
    })
}

/// A target as the load generator can send it again.
fn path(target: &str) -> Option<String> {
    // Absolute form (RFC 9112 3.2.2).
    let target = match target.split_once("://") {
        Some((scheme, rest)) if scheme.bytes().all(|byte| byte.is_ascii_alphabetic()) => {
            rest.find('/').map_or("/", |at| &rest[at..])
        }
        _ => target,
    };
    let path = target.split('#').next().unwrap_or_default().trim();
    if !path.starts_with('/') {
        return None;
    }
    // A space cannot be sent as it is.
    let fits = path.bytes().all(|byte| byte > b' ' && byte != 0x7f);
    Some(if fits { path.to_owned() } else { path.chars().map(escape).collect() })
}

fn escape(character: char) -> String {
    if character <= ' ' || character == '\u{7f}' { format!("%{:02X}", character as u32) } else { character.into() }
}

/// Undoes the backslashes before quotes and backslashes; other escapes stand for bytes that no path here needs.
fn unescape(text: &str) -> String {
    text.replace("\\\"", "\"").replace("\\\\", "\\")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn line(at_ns: i128, method: &str, path: &str, status: u16, bytes: u64) -> Option<Line> {
        Some(Line { at_ns: Some(at_ns), method: method.into(), path: path.into(), status, bytes })
    }

    const AT_NS: i128 = 971_211_336_000_000_000;

    #[test]
    fn common_and_combined_lines_are_read() {
        let common = r#"1.2.3.4 - bob [10/Oct/2000:13:55:36 -0700] "GET /a%20b?c HTTP/1.0" 200 2326"#;
        assert_eq!(parse(common), line(AT_NS, "GET", "/a%20b?c", 200, 2326));
        let combined = format!("{common} \"http://x/ \\\"q\\\" 200 1\" \"agent\"");
        assert_eq!(parse(&combined), parse(common));
        let odd = r#"h - - [10/Oct/2000:13:55:36 -0700] "GET /with "quotes" and spaces" 304 -"#;
        assert_eq!(parse(odd), line(AT_NS, "GET", "/with%20\"quotes\"%20and%20spaces", 304, 0));
        let absolute = r#"h - - [10/Oct/2000:13:55:36 -0700] "GET http://h/x#y HTTP/1.1" 200 1"#;
        assert_eq!(parse(absolute), line(AT_NS, "GET", "/x", 200, 1));
    }

    #[test]
    fn json_lines_of_several_servers_are_read() {
        let lamna = r#"{"time":"2000-10-10T20:55:36Z","http.request.method":"GET","url.path":"/a","url.query":"q","http.response.status_code":200,"bytes":7,"duration":0.1}"#;
        assert_eq!(parse(lamna), line(AT_NS, "GET", "/a?q", 200, 7));
        let caddy = r#"{"ts":971211336.0,"request":{"method":"HEAD","uri":"/a"},"status":200,"size":7}"#;
        assert_eq!(parse(caddy), line(AT_NS, "HEAD", "/a", 200, 7));
        let nginx = r#"{"time_iso8601":"2000-10-10T20:55:36+00:00","request_method":"GET","request_uri":"/a","status":"200","body_bytes_sent":"7"}"#;
        assert_eq!(parse(nginx), line(AT_NS, "GET", "/a", 200, 7));
    }

    #[test]
    fn garbage_is_no_line() {
        for text in
            ["", "{", "{}", "hello", "\"\" 200 1", r#"h - - [x] "GET" 200 1"#, r#"h - - [x] "GET * HTTP/1.1" 200 1"#]
        {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_text_is_a_panic_and_a_path_can_be_sent(text in ".{0,60}", status in "[0-9a]{1,4}") {
            for text in [text.clone(), format!("h - - [t] \"GET /{text} HTTP/1.1\" {status} 5"), format!("{{\"uri\":{text:?}}}")] {
                if let Some(line) = parse(&text) {
                    prop_assert!(line.path.starts_with('/'));
                    prop_assert!(line.path.bytes().all(|byte| byte > b' ' && byte != 0x7f));
                }
            }
        }
    }
}
