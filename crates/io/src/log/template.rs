//! Lines of the access log after a template.
//!
//! Owns: the value of each variable, and how it is escaped. Guarantees, as [`line`](super::line): a record is one line,
//! and the byte that ends a value in the template does not stand within the value, whatever a peer sent. Allocates
//! nothing but the growth of the line.

use lamna_config::access_log::{LogTemplate, Part, Variable};

use super::encode::{push_decimal, push_escaped, push_escaped_but, push_json_escaped, push_milliseconds};
use super::line::{LogTime, Record, authority, push_address};

/// Appends one line, its line feed included.
pub(super) fn append(line: &mut Vec<u8>, template: &LogTemplate, time: &LogTime, record: &Record<'_>) {
    for part in &template.parts {
        match part {
            Part::Text(text) => line.extend_from_slice(text.as_bytes()),
            Part::Value { variable, end } => {
                let escape = if template.is_json { Escape::Json } else { Escape::But(*end) };
                push_value(line, variable, escape, time, record);
            }
        }
    }
    line.push(b'\n');
}

/// How values are escaped that peers have sent.
#[derive(Clone, Copy)]
enum Escape {
    /// As within a string of JSON. A missing value is empty.
    Json,
    /// As in the combined format, with this byte as well. A missing value is `-`.
    But(Option<u8>),
}

impl Escape {
    fn push(self, line: &mut Vec<u8>, value: Option<&[u8]>) {
        match (self, value) {
            (Escape::Json, value) => push_json_escaped(line, value.unwrap_or_default()),
            (Escape::But(_), None) => line.push(b'-'),
            (Escape::But(None), Some(value)) => push_escaped(line, value),
            (Escape::But(Some(end)), Some(value)) => push_escaped_but(line, value, end),
        }
    }
}

fn push_value(line: &mut Vec<u8>, variable: &Variable, escape: Escape, time: &LogTime, record: &Record<'_>) {
    let filled = |value| Some(value).filter(|value: &&[u8]| !value.is_empty());
    let (host, port) = authority(record);
    match variable {
        Variable::RemoteAddress if record.client.is_none() => escape.push(line, None),
        Variable::RemoteAddress => push_address(line, record.client),
        Variable::RemoteUser => escape.push(line, record.user.map(str::as_bytes)),
        Variable::TimeLocal => line.extend_from_slice(&time.combined()[1..27]),
        Variable::TimeIso8601 => {
            line.extend_from_slice(&time.rfc3339()[..19]);
            line.extend_from_slice(b"+00:00");
        }
        Variable::Seconds => push_milliseconds(line, time.unix_ms()),
        Variable::Request if record.method.is_empty() => escape.push(line, None),
        Variable::Request => {
            escape.push(line, Some(record.method));
            escape.push(line, Some(b" "));
            escape.push(line, Some(record.target));
            escape.push(line, Some(b" "));
            escape.push(line, Some(record.version.as_bytes()));
        }
        Variable::Method => escape.push(line, filled(record.method)),
        Variable::Target => escape.push(line, filled(record.target)),
        Variable::Query => {
            let query = memchr::memchr(b'?', record.target).map(|mark| &record.target[mark + 1..]);
            escape.push(line, query);
        }
        Variable::Protocol => escape.push(line, filled(record.version.as_bytes())),
        Variable::Scheme => line.extend_from_slice(if record.tls.is_some() { b"https" } else { b"http" }),
        Variable::Host => escape.push(line, filled(host)),
        Variable::Port => escape.push(line, Some(port)),
        Variable::Status => push_decimal(line, record.status.into()),
        Variable::ContentBytes => push_decimal(line, record.bytes),
        Variable::Duration => push_milliseconds(line, record.duration_us / 1000),
        Variable::RequestId => escape.push(line, record.id),
        Variable::TlsVersion => match &record.tls {
            Some(tls) => {
                line.extend_from_slice(b"TLSv");
                escape.push(line, Some(tls.version.as_bytes()));
            }
            None => escape.push(line, None),
        },
        Variable::TlsCipher => escape.push(line, record.tls.map(|tls| tls.cipher.as_bytes())),
        Variable::ClientSubject => {
            escape.push(line, record.tls.and_then(|tls| tls.client_subject).map(str::as_bytes));
        }
        Variable::Field(name) => {
            let mut lines = record.request.into_iter().flat_map(|request| request.lines());
            let named = lines.find(|(other, _)| other.eq_ignore_ascii_case(name.as_bytes()));
            escape.push(line, named.map(|(_, value)| value));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::buffer::tests::record;
    use super::super::encode::tests::any_bytes;
    use super::*;
    use proptest::prelude::*;

    fn written(template: &str, record: &Record<'_>) -> String {
        let mut line = Vec::new();
        let template = LogTemplate::parse(template).expect(template);
        append(&mut line, &template, &LogTime::new(1_795_233_600_042), record);
        String::from_utf8(line).expect("UTF-8")
    }

    #[test]
    fn each_variable_is_what_nginx_has_under_its_name() {
        let tls = super::super::line::Tls {
            version: "1.3",
            cipher: "TLS_AES_128_GCM_SHA256",
            group: "",
            protocol: "h2",
            is_resumed: false,
            client_subject: Some("CN=a"),
        };
        let record = Record {
            client: "192.0.2.7".parse().ok(),
            user: Some("ada"),
            host: Some(b"a.example:8443"),
            tls: Some(tls),
            id: Some(b"0123"),
            bytes: 0,
            duration_us: 1_234_567,
            ..record("/a?b=c")
        };
        for (variable, value) in [
            ("$remote_addr", "192.0.2.7"),
            ("$remote_user", "ada"),
            ("$time_local", "21/Nov/2026:04:00:00 +0000"),
            ("$time_iso8601", "2026-11-21T04:00:00+00:00"),
            ("$msec", "1795233600.042"),
            ("$request", "GET /a?b=c HTTP/1.1"),
            ("$request_method", "GET"),
            ("$request_uri", "/a?b=c"),
            ("$args", "b=c"),
            ("$server_protocol", "HTTP/1.1"),
            ("$scheme", "https"),
            ("$host:$server_port", "a.example:8443"),
            ("$status", "200"),
            ("$body_bytes_sent", "0"),
            ("$request_time", "1.234"),
            ("$request_id", "0123"),
            ("$ssl_protocol", "TLSv1.3"),
            ("$ssl_cipher", "TLS_AES_128_GCM_SHA256"),
            ("$ssl_client_s_dn", "CN=a"),
            ("a${status}b$http_x", "a200b-"),
        ] {
            assert_eq!(written(variable, &record), format!("{value}\n"));
        }
    }

    #[test]
    fn what_is_missing_is_a_hyphen_and_in_json_empty() {
        let nothing = Record { method: b"", target: b"", version: "", ..record("") };
        let variables = "$remote_addr $remote_user $request $args $host $ssl_protocol $http_referer $request_id";
        assert_eq!(written(variables, &nothing), "- - - - - - - -\n");
        let json = written("{\"a\":\"$remote_addr\",\"b\":\"$host\",\"c\":$status}", &nothing);
        assert_eq!(json, "{\"a\":\"\",\"b\":\"\",\"c\":200}\n");
        assert_eq!(written("$server_port", &nothing), "80\n");
    }

    #[test]
    fn the_byte_that_ends_a_value_does_not_stand_within_it() {
        let record = Record { user: Some("a b|c'd]e\"f"), host: Some(b"h:1"), ..record("/") };
        assert_eq!(written("$remote_user x", &record), "a\\x20b|c'd]e\\\"f x\n");
        assert_eq!(written("$remote_user|x", &record), "a b\\x7cc'd]e\\\"f|x\n");
        assert_eq!(written("'$remote_user'", &record), "'a b|c\\x27d]e\\\"f'\n");
        assert_eq!(written("[$remote_user]", &record), "[a b|c'd\\x5de\\\"f]\n");
        assert_eq!(written("\"$remote_user\"", &record), "\"a b|c'd]e\\\"f\"\n");
    }

    proptest! {
        #[test]
        fn no_peer_makes_a_second_line_or_ends_a_value(value in any_bytes(), end in prop::sample::select(vec!['"', '|', ' ', '\'', '\t', ';'])) {
            let host = [b"h", &value[..]].concat();
            let record = Record { method: b"GET", target: &value, host: Some(&host), ..record("/") };
            for variable in ["request_uri", "args", "host", "server_port"] {
                let line = written(&format!("${variable}{end}"), &record);
                let content = line.strip_suffix('\n').expect("a line feed at the end");
                prop_assert!(content.strip_suffix(end).is_some());
                prop_assert!(content.bytes().all(|byte| (b' '..=b'~').contains(&byte) || byte == b'\t' && end == '\t'));
                let inner = &content[..content.len() - 1];
                match end {
                    // Behind a backslash, as in every format.
                    '"' => prop_assert_eq!(inner.replace("\\\\", "").matches('"').count(), inner.replace("\\\\", "").matches("\\\"").count()),
                    end => prop_assert!(!inner.contains(end)),
                }
            }
            let json = written("{\"a\":\"$request_uri\",\"b\":\"$host\"}", &record);
            let read: serde_json::Value = serde_json::from_str(&json).expect("JSON");
            prop_assert_eq!(read["a"].as_str(), Some(&*String::from_utf8_lossy(&value)));
        }
    }
}
