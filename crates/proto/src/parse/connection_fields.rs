//! Fields that concern one connection, and not the message that they stand in (RFC 9110 7.6.1).
//!
//! Owns: the table of them, with what each version and each direction does about it. Pure. Fields that `Connection`
//! names beside these are the business of [`EndToEnd`](crate::gateway::fields::EndToEnd).
//!
//! | | a gateway | a request of HTTP/2 | an answer over HTTP/2 | a request for another target |
//! | --- | --- | --- | --- | --- |
//! | all | does not pass it on | | | |
//! | `http1_only` | | is malformed with it | leaves it out | |
//! | `of_content` | | | | leaves it out |

/// A row of the table.
struct ConnectionField {
    /// In lower case.
    name: &'static [u8],
    /// HTTP/2 does not have it (RFC 9113 8.2.2): it speaks of a connection of HTTP/1.x.
    http1_only: bool,
    /// It frames the content of a request, or asks for another protocol to follow.
    of_content: bool,
}

const fn row(name: &'static str) -> ConnectionField {
    ConnectionField { name: name.as_bytes(), http1_only: false, of_content: false }
}

const fn row_of_http1(name: &'static str) -> ConnectionField {
    ConnectionField { http1_only: true, ..row(name) }
}

/// The table. With those that are for the next proxy only (RFC 9110 11.7).
const ROWS: [ConnectionField; 10] = [
    row_of_http1("connection"),
    row_of_http1("keep-alive"),
    row_of_http1("proxy-connection"),
    ConnectionField { of_content: true, ..row_of_http1("transfer-encoding") },
    ConnectionField { of_content: true, ..row_of_http1("upgrade") },
    // It goes with an upgrade (RFC 7540 3.2.1).
    ConnectionField { of_content: true, ..row("http2-settings") },
    // HTTP/2 has it with one value (RFC 9113 8.2.2).
    row("te"),
    row("proxy-authenticate"),
    row("proxy-authorization"),
    row("proxy-authentication-info"),
];

/// A bit for each length that a name of the table has: most fields are found to be none of these by their length.
const LENGTHS: u32 = {
    let (mut lengths, mut at) = (0, 0);
    while at < ROWS.len() {
        lengths |= 1 << ROWS[at].name.len();
        at += 1;
    }
    lengths
};

/// The row of a field, in whichever case its name is.
fn find(name: &[u8]) -> Option<&'static ConnectionField> {
    static TABLE: [ConnectionField; ROWS.len()] = ROWS;
    let may_be = name.len() < 32 && LENGTHS & (1 << name.len()) != 0;
    TABLE.iter().filter(|_| may_be).find(|row| name.eq_ignore_ascii_case(row.name))
}

/// Whether a field concerns one connection, whether or not `Connection` names it.
pub(crate) fn is_of_connection(name: &[u8]) -> bool {
    find(name).is_some()
}

/// Whether HTTP/2 has no such field.
pub(crate) fn is_http1_only(name: &[u8]) -> bool {
    find(name).is_some_and(|row| row.http1_only)
}

/// Whether a field goes with the content or the protocol of one request, and not with a request for another target in
/// its place.
pub(crate) fn is_of_content(name: &[u8]) -> bool {
    find(name).is_some_and(|row| row.of_content)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_field_is_found_in_any_case_and_none_that_is_like_it() {
        for row in &ROWS {
            assert!(row.name.iter().all(|byte| !byte.is_ascii_uppercase()));
            assert!(is_of_connection(row.name) && is_of_connection(&row.name.to_ascii_uppercase()));
            assert!(!is_of_connection(&row.name[1..]) && !is_of_connection(&[row.name, b"s"].concat()));
        }
        assert!(!is_of_connection(b"") && !is_of_connection(b"content-type") && !is_of_connection(&[b'a'; 40]));
    }

    #[test]
    fn a_gateway_passes_none_on_that_another_version_or_target_leaves_out() {
        for name in ["connection", "Keep-Alive", "proxy-connection", "Transfer-Encoding", "upgrade"] {
            assert!(is_http1_only(name.as_bytes()) && is_of_connection(name.as_bytes()), "{name}");
        }
        assert!(!is_http1_only(b"te") && !is_http1_only(b"http2-settings"));
        for name in ["transfer-encoding", "upgrade", "http2-settings"] {
            assert!(is_of_content(name.as_bytes()), "{name}");
        }
        assert!(!is_of_content(b"connection") && !is_of_content(b"te"));
    }
}
