//! Gateways: requests that go to an application have one reading, and answers of applications are read the same however
//! they are divided.
//!
//! Owns: the ambiguous forms, and inputs that are almost answers. The checks are in `gateway_checks`, which `fuzz/`
//! shares.

use proptest::prelude::*;

use crate::checks::PHRASES;
use crate::gateway_checks as checks;

/// Forms of requests that two parsers have been known to read differently: request smuggling.
const AMBIGUOUS: &[&str] = &[
    "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
    "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n",
    "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n",
    "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5, 5\r\n\r\n",
    "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: +5\r\n\r\n",
    "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0x5\r\n\r\n",
    "POST / HTTP/1.1\r\nHost: a\r\nContent-Length : 5\r\n\r\n",
    "POST / HTTP/1.1\r\nHost: a\r\nContent_Length: 50\r\nContent-Length: 5\r\n\r\n",
    "POST / HTTP/1.1\r\nHost: a\r\nTransfer_Encoding: chunked\r\nContent-Length: 5\r\n\r\n",
    "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked, chunked\r\n\r\n",
    "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: xchunked\r\n\r\n",
    "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
    "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding:\tchunked\r\n\r\n",
    "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding : chunked\r\n\r\n",
    "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding\r\n : chunked\r\n\r\n",
    "POST / HTTP/1.1\r\nHost: a\r\n Transfer-Encoding: chunked\r\n\r\n",
    "POST / HTTP/1.1\r\nHost: a\r\nX: b\rTransfer-Encoding: chunked\r\n\r\n",
    "POST / HTTP/1.1\r\nHost: a\r\nX: b\nTransfer-Encoding: chunked\r\n\r\n",
    "POST / HTTP/1.1\r\nHost: a\r\nX: b\0\r\nContent-Length: 5\r\n\r\n",
    "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n",
    "POST / HTTP/1.1\r\nHost: a\r\nConnection: Content-Length\r\nContent-Length: 5\r\n\r\n",
    "POST / HTTP/1.1\r\nHost: a\r\nConnection: Transfer-Encoding, Host\r\nTransfer-Encoding: Chunked\r\n\r\n",
    "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
    "GET http://b/ HTTP/1.1\r\nHost: a\r\n\r\n",
    "GET http://b/x HTTP/1.1\r\nHost: a\r\nX_Host: c\r\nHost_: d\r\n\r\n",
    "GET / HTTP/1.1\r\nHost: a\r\nUpgrade: h2c\r\nConnection: Upgrade, HTTP2-Settings\r\nHTTP2-Settings: AA\r\n\r\n",
    "GET /a%0d%0aX:%20y HTTP/1.1\r\nHost: a\r\n\r\n",
    "GET /a%20HTTP/1.1%0d%0aHost:%20b HTTP/1.1\r\nHost: a\r\n\r\n",
    "GET /a HTTP/1.1 HTTP/1.1\r\nHost: a\r\n\r\n",
    "GET /a%23b?c%23d HTTP/1.1\r\nHost: a\r\n\r\n",
    "GET /a/%2e%2e/b;c/..%3b/d HTTP/1.1\r\nHost: a\r\n\r\n",
    "GET //b/x HTTP/1.1\r\nHost: a\r\n\r\n",
    "GET / HTTP/1.9\r\nHost: a\r\nTE: trailers, gzip\r\nConnection: TE\r\n\r\n",
    "GET / HTTP/1.0\r\n\r\n",
    "GET / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n",
    "GET / HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 1.1.1.1\r\nX-Forwarded-For: 2.2.2.2\r\nForwarded: for=\"_x,y\"\r\n\r\n",
    "GET / HTTP/1.1\r\nHost: a\r\nCookie: a=1\r\nCookie: b=2\r\n\r\n",
];

#[test]
fn ambiguous_forms_go_to_an_application_in_one_reading_or_not_at_all() {
    let accepted: Vec<bool> = AMBIGUOUS
        .iter()
        .chain(PHRASES)
        .flat_map(|form| [&b""[..], b"hello", b"0\r\n\r\nGET /x HTTP/1.1\r\n\r\n"].map(|content| (form, content)))
        .map(|(form, content)| checks::forwarded(form.as_bytes(), content))
        .collect();
    let count = accepted.iter().filter(|accepted| **accepted).count();
    // What is written must be something.
    assert!(count > 60 && count < accepted.len(), "{count} of {}", accepted.len());
}

fn near_request() -> impl Strategy<Value = Vec<u8>> {
    let line = prop_oneof![
        Just("Content-Length: 5\r\n".to_string()),
        Just("Transfer-Encoding: chunked\r\n".to_string()),
        Just("Connection: close, X-A\r\n".to_string()),
        "Connection: [a-zA-Z-]{0,12}\r\n",
        "(Host|Cookie|Via|Forwarded|X-Forwarded-For|X-A|TE|Expect|Upgrade|Max-Forwards|Content_Length): ?[ -~]{0,12}\r\n",
        "[!-~]{1,8}:[\t -~]{0,8}\r\n",
    ];
    let target =
        prop_oneof!["/[!-~]{0,12}", "http://[a-z]{1,3}(/[!-~]{0,6})?", "/(%[0-9a-f]{2}|\\.\\.|/|;|[a-z]){0,6}"];
    ("(GET|POST|OPTIONS|BREW)", target, prop::collection::vec(line, 0..6)).prop_map(|(method, target, lines)| {
        format!("{method} {target} HTTP/1.1\r\nHost: a\r\n{}\r\n", lines.concat()).into_bytes()
    })
}

fn near_http_answer() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        4 => Just("HTTP/1.1 200 OK\r\n".to_string()),
        2 => Just("HTTP/1.1 100 Continue\r\n\r\n".to_string()),
        1 => Just("HTTP/1.1 101 x\r\nUpgrade: websocket\r\n\r\n".to_string()),
        1 => Just("HTTP/1.0 204 \r\n".to_string()),
        3 => Just("Content-Length: 5\r\n".to_string()),
        3 => Just("Transfer-Encoding: chunked\r\n".to_string()),
        1 => "(Connection|Keep-Alive|Content-Length|Upgrade|A): [ -~]{0,9}\r\n",
        6 => Just("\r\n".to_string()),
        2 => Just("5\r\nhello\r\n".to_string()),
        2 => Just("0\r\nDigest: x\r\n\r\n".to_string()),
        1 => Just("hello".to_string()),
        1 => Just("\n".to_string()),
        1 => "[ -~\r\n\t\u{0}\u{e9}]{0,9}",
    ];
    prop::collection::vec(piece, 0..9).prop_map(|pieces| pieces.concat().into_bytes())
}

fn near_script_output() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        3 => Just("Content-Type: text/html\n".to_string()),
        2 => Just("Status: 404 No\r\n".to_string()),
        2 => Just("Location: /x\n".to_string()),
        2 => Just("Content-Length: 5\n".to_string()),
        4 => Just("\n".to_string()),
        2 => Just("\r\n".to_string()),
        2 => Just("hello".to_string()),
        1 => "[ -~\r\n\t\u{0}]{0,9}",
    ];
    prop::collection::vec(piece, 0..8).prop_map(|pieces| pieces.concat().into_bytes())
}

/// Records with script output in them, some of them damaged.
fn near_records() -> impl Strategy<Value = Vec<u8>> {
    let record = |kind: u8, id: u16, content: Vec<u8>, padding: u8| {
        let (length, id) = ((content.len() as u16).to_be_bytes(), id.to_be_bytes());
        let header = [1, kind, id[0], id[1], length[0], length[1], padding, 0];
        [&header[..], &content, &vec![b'p'; usize::from(padding)]].concat()
    };
    let pieces = prop_oneof![
        8 => (near_script_output(), 0..4_u8).prop_map(move |(content, padding)| record(6, 1, content, padding)),
        3 => ("[a-z]{0,9}", 0..4_u8).prop_map(move |(text, padding)| record(7, 1, text.into_bytes(), padding)),
        3 => (0..4_u8, 0..4_u8).prop_map(move |(status, padding)| record(3, 1, vec![0, 0, 0, 1, status % 3, 0, 0, 0], padding)),
        1 => (0..13_u8, 0..3_u16, "[a-z]{0,9}").prop_map(move |(kind, id, text)| record(kind, id, text.into_bytes(), 0)),
        1 => prop::collection::vec(any::<u8>(), 0..9),
    ];
    (Just("Content-Type: a/b\n\n"), prop::collection::vec(pieces, 0..7), any::<bool>()).prop_map(
        move |(head, pieces, begins)| {
            let first = if begins { record(6, 1, head.as_bytes().to_vec(), 1) } else { Vec::new() };
            [first, pieces.concat()].concat()
        },
    )
}

fn sizes() -> impl Strategy<Value = Vec<usize>> {
    prop::collection::vec(1..40_usize, 1..5)
}

fn many() -> ProptestConfig {
    let default = ProptestConfig::default();
    ProptestConfig { cases: default.cases.max(1_500), ..default }
}

proptest! {
    #![proptest_config(many())]

    #[test]
    fn two_strict_parsers_see_the_same_request(request in near_request(), content in prop::collection::vec(any::<u8>(), 0..30)) {
        checks::forwarded(&request, &content);
    }

    #[test]
    fn an_answer_over_http_is_read_the_same_in_any_pieces(
        input in near_http_answer(), sizes in sizes(), is_head: bool, upgrades: bool,
    ) {
        checks::http1_answer(&input, &sizes, is_head, upgrades);
    }

    #[test]
    fn an_answer_over_fastcgi_is_read_the_same_in_any_pieces(input in near_records(), sizes in sizes(), is_head: bool) {
        checks::fastcgi_answer(&input, &sizes, is_head);
    }

    #[test]
    fn the_output_of_a_script_is_read_the_same_in_any_pieces(input in near_script_output(), sizes in sizes(), is_head: bool) {
        checks::cgi_answer(&input, &sizes, is_head);
    }

    #[test]
    fn any_bytes_are_an_answer_or_an_error(input in prop::collection::vec(any::<u8>(), 0..200), sizes in sizes()) {
        checks::http1_answer(&input, &sizes, false, false);
        checks::http1_answer(&[b"HTTP/1.1 200 ", &input[..]].concat(), &sizes, false, false);
        checks::fastcgi_answer(&input, &sizes, false);
        checks::fastcgi_answer(&[b"\x01\x06\x00\x01", &input[..]].concat(), &sizes, false);
        checks::cgi_answer(&input, &sizes, false);
    }
}
