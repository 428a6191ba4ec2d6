//! Requests that are refused: with which status, and what becomes of the connection.
//!
//! Owns: these cases.

use lamna_proto::conn::Interest;

use crate::conversation::{GET, answer, get, peer, responses, statuses};

/// Sends `request` and another, and asserts that it is refused with `status` and the other not answered.
fn assert_closes(request: &str, status: u16) {
    let mut peer = peer();
    peer.converse([request, GET].concat());
    assert_eq!(statuses(&peer), [status], "{request:.100}");
    assert_eq!(responses(&peer)[0].field("connection"), Some("close"), "{request:.100}");
    assert_eq!(peer.interest(), Interest::LINGER, "{request:.100}");
}

#[test]
fn rfc_9110_15_5_6_methods_that_change_are_not_allowed_and_the_connection_persists() {
    for method in ["POST", "PUT", "DELETE", "PATCH", "TRACE"] {
        for content in ["\r\n", "Content-Length: 2\r\n\r\nab"] {
            let mut peer = peer();
            peer.converse([&format!("{method} /small HTTP/1.1\r\nHost: a\r\n{content}"), GET].concat());
            assert_eq!(statuses(&peer), [405, 200], "{method} {content}");
            assert_eq!(responses(&peer)[0].field("allow"), Some("GET, HEAD, OPTIONS"));
        }
        // Where chunks end is not waited for.
        assert_closes(
            &format!("{method} /small HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
            405,
        );
    }
}

#[test]
fn rfc_9110_15_6_2_unknown_methods_are_not_implemented() {
    assert_closes("BREW /pot HTTP/1.1\r\nHost: a\r\n\r\n", 501);
    assert_closes("get / HTTP/1.1\r\nHost: a\r\n\r\n", 501);
    assert_closes("CONNECT a:80 HTTP/1.1\r\nHost: a\r\n\r\n", 501);
}

#[test]
fn rfc_9112_2_3_only_major_version_1_is_spoken() {
    assert_closes("GET / HTTP/2.0\r\nHost: a\r\n\r\n", 505);
    assert_closes("GET / HTTP/0.9\r\nHost: a\r\n\r\n", 505);
    assert_eq!(answer("GET /small HTTP/1.9\r\nHost: a\r\n\r\n").status, 200);
}

#[test]
fn rfc_9112_3_too_long_targets_and_heads_have_their_own_statuses() {
    assert_closes(&get(&format!("/{}", "a".repeat(600)), ""), 414);
    assert_closes(&get(&format!("/{}", "a".repeat(3_000)), ""), 414);
    assert_closes(&get("/", &format!("A: {}\r\n", "b".repeat(3_000))), 431);
    assert_closes(&get("/", &"A: b\r\n".repeat(30)), 431);
}

#[test]
fn a_target_is_too_long_whatever_else_is_wrong_with_its_line() {
    for line in ["GET /{} x HTTP/1.1\r\n\r\n", "GET /{} HTTP/7.7\r\n\r\n", "GET /{} HTTP/1.1\n\r\n"] {
        assert_closes(&line.replace("{}", &"a".repeat(600)), 414);
    }
}

#[test]
fn rfc_9110_15_5_14_content_that_is_too_large_is_not_read() {
    assert_closes("GET /small HTTP/1.1\r\nHost: a\r\nContent-Length: 5001\r\n\r\n", 413);
    assert_closes(
        &format!("GET /small HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1389\r\n{}", "a".repeat(5_001)),
        413,
    );
}

#[test]
fn rfc_9112_6_and_7_1_doubtful_framing_is_refused() {
    assert_closes("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", 400);
    assert_closes("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", 400);
    assert_closes("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", 501);
    assert_closes("GET /small HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n", 400);
    for extension in ["", "bad[=x", "a=", "a=\"b"] {
        let body = format!("1;{extension}\r\nx\r\n0\r\n\r\n");
        assert_closes(&format!("GET /small HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n{body}"), 400);
    }
    assert_closes("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400);
}

#[test]
fn rfc_9112_3_2_every_http_1_1_request_names_one_host() {
    assert_closes("GET / HTTP/1.1\r\n\r\n", 400);
    assert_closes("GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", 400);
    for host in ["a b", ".", "a..b", ".a"] {
        assert_closes(&format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n"), 400);
    }
    assert_eq!(answer("GET /small HTTP/1.1\r\nHost: a.b.\r\n\r\n").status, 200);
    assert_closes("GET http://u@a/ HTTP/1.1\r\nHost: a\r\n\r\n", 400);
    assert_eq!(answer("GET /small HTTP/1.0\r\n\r\n").status, 200);
    // An empty one is for targets without an authority. Those of http have one, as with an empty `:authority`.
    for target in ["/small", "http://a/small", "http://a", "/small?q"] {
        for version in ["1.0", "1.1"] {
            for host in ["", " ", ":80", ":"] {
                let request = format!("GET {target} HTTP/{version}\r\nHost:{host}\r\n\r\n");
                assert_eq!(answer(&request).status, 400, "{request}");
            }
        }
    }
    assert_eq!(answer("OPTIONS * HTTP/1.1\r\nHost:\r\n\r\n").status, 204);
}

#[test]
fn rfc_9112_3_2_2_the_absolute_form_overrides_host() {
    let mut peer = peer();
    peer.converse("GET http://B.example:8080/small?q HTTP/1.1\r\nHost: a\r\n\r\n").converse(GET);
    peer.converse("GET /small HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    assert_eq!(statuses(&peer), [200, 200, 200]);
    let asked = |host: Option<&str>, query: Option<&str>| {
        (host.map(str::to_string), "/small".to_string(), query.map(str::to_string))
    };
    assert_eq!(peer.asked, [asked(Some("B.example"), Some("q")), asked(Some("a"), None), asked(None, None)]);
}

#[test]
fn rfc_9112_3_2_a_target_has_the_form_of_its_method() {
    assert_closes(&get("*", ""), 400);
    assert_closes(&get("a", ""), 400);
    assert_closes(&get("/a#b", ""), 400);
    assert_closes("CONNECT / HTTP/1.1\r\nHost: a\r\n\r\n", 400);
}

#[test]
fn what_is_not_http_is_refused_at_its_first_byte() {
    let mut peer = peer();
    peer.converse(b"\x16\x03\x01");
    assert_eq!((statuses(&peer), peer.interest()), (vec![400], Interest::LINGER));
    assert_eq!(peer.reports[0].request, None);
}

#[test]
fn rfc_9110_9_3_2_a_refused_head_has_no_content_either() {
    for (fields, status) in [
        ("Expect: wonders\r\n", 417),
        ("Content-Length: 9999\r\n", 413),
        ("Transfer-Encoding: gzip, chunked\r\n", 501),
        ("Host: b\r\n", 400),
    ] {
        let mut peer = peer();
        peer.converse(get("/small", fields).replace("GET", "HEAD"));
        assert!(peer.output.ends_with(b"\r\n\r\n"), "{fields}");
        assert_eq!(statuses(&peer), [status], "{fields}");
        assert_eq!(peer.reports[0].request.as_deref(), Some("HEAD /small"), "{fields}");
    }
    let mut peer = peer();
    peer.converse("HEAD /small HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nx");
    assert!(peer.output.ends_with(b"\r\n\r\n"));
    assert_eq!(statuses(&peer), [400]);
}

#[test]
fn rfc_9110_12_5_1_a_refusal_comes_in_the_type_that_the_client_prefers() {
    let response = answer("POST / HTTP/1.1\r\nHost: a\r\nAccept: text/plain\r\n\r\n");
    assert_eq!((response.status, response.field("content-type")), (405, Some("text/plain")));
    assert_eq!(answer("POST / HTTP/1.1\r\nHost: a\r\n\r\n").field("content-type"), Some("text/html"));
}
