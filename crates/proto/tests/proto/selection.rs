//! Which answer a resource gives: conditional requests, ranges, content negotiation, redirects.
//!
//! Owns: these cases.

use crate::conversation::{answer, get, peer, responses, statuses};
use crate::responses::Response;
use crate::site::{FILE_BYTES, LARGE_BYTES, SMALL, pattern};

const MODIFIED: &str = "Sun, 06 Nov 1994 08:49:37 GMT";
const EARLIER: &str = "Sun, 06 Nov 1994 08:49:36 GMT";

fn get_with(path: &str, fields: &str) -> Response {
    answer(get(path, fields))
}

#[test]
fn rfc_9110_15_4_5_a_client_that_has_it_already_is_told_so() {
    for fields in [
        "If-None-Match: \"small\"\r\n".to_string(),
        "If-None-Match: \"x\"\r\nIf-None-Match: W/\"small\"\r\n".to_string(),
        "If-None-Match: *\r\n".to_string(),
        format!("If-Modified-Since: {MODIFIED}\r\n"),
    ] {
        let response = get_with("/small", &fields);
        assert_eq!(response.status, 304, "{fields}");
        let names: Vec<_> = response.fields.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["Date", "Server", "Last-Modified", "ETag"]);
    }
    let mut peer = peer();
    peer.converse(get("/coded", "If-None-Match: \"i\"\r\n").repeat(2));
    assert_eq!(statuses(&peer), [304, 304]);
    assert_eq!(responses(&peer)[0].field("vary"), Some("Accept-Encoding"));
}

#[test]
fn rfc_9110_13_2_2_preconditions_are_taken_in_their_order() {
    for (fields, status) in [
        (format!("If-Match: \"small\"\r\nIf-Unmodified-Since: {EARLIER}\r\n"), 200),
        (format!("If-Unmodified-Since: {EARLIER}\r\nIf-None-Match: \"small\"\r\n"), 412),
        (format!("If-None-Match: \"x\"\r\nIf-Modified-Since: {MODIFIED}\r\n"), 200),
        ("If-Match: \"x\"\r\nIf-None-Match: \"small\"\r\n".to_string(), 412),
        ("If-None-Match: \"small\"\r\nRange: bytes=0-1\r\n".to_string(), 304),
        ("If-Match: \"small\"\r\nRange: bytes=0-1\r\n".to_string(), 206),
        ("If-Match: \"x\"\r\nRange: bytes=99-\r\n".to_string(), 412),
        (format!("If-Modified-Since: {MODIFIED}\r\nIf-Modified-Since: {MODIFIED}\r\n"), 200),
    ] {
        assert_eq!(get_with("/small", &fields).status, status, "{fields}");
    }
}

#[test]
fn rfc_9110_13_2_1_preconditions_do_not_apply_to_what_is_not_there() {
    assert_eq!(get_with("/nothing", "If-Match: \"x\"\r\nRange: bytes=0-1\r\n").status, 404);
    assert_eq!(get_with("/redirect", "If-None-Match: *\r\n").status, 308);
}

#[test]
fn rfc_9110_15_3_7_1_a_single_range_is_sent_alone() {
    for (path, size, content) in [
        ("/small", SMALL.len(), SMALL.to_vec()),
        ("/large", LARGE_BYTES, pattern(LARGE_BYTES)),
        ("/file", FILE_BYTES, pattern(FILE_BYTES)),
        ("/lazy", 5_000, pattern(5_000)),
    ] {
        let last = size - 2;
        let response = get_with(path, &format!("Range: bytes=3-{last}\r\n"));
        assert_eq!((response.status, &response.content[..]), (206, &content[3..=last]), "{path}");
        assert_eq!(response.field("content-range"), Some(format!("bytes 3-{last}/{size}").as_str()));
        assert_eq!(response.field("content-type"), Some("text/plain"));
        assert!(response.field("etag").is_some() && response.field("date").is_some());
    }
}

#[test]
fn rfc_9110_15_3_7_2_several_ranges_are_parts_of_one_message() {
    for (path, content) in [("/large", pattern(LARGE_BYTES)), ("/file", pattern(FILE_BYTES))] {
        let response = get_with(path, "Range: bytes=500-509,0-4,-3\r\n");
        let media_type = response.field("content-type").expect("it has a type");
        let boundary = media_type.strip_prefix("multipart/byteranges; boundary=").expect("it has parts");
        let size = content.len();
        let mut expected = Vec::new();
        for (first, last) in [(500, 509), (0, 4), (size - 3, size - 1)] {
            let head = format!(
                "\r\n--{boundary}\r\nContent-Type: text/plain\r\nContent-Range: bytes {first}-{last}/{size}\r\n\r\n"
            );
            expected.extend_from_slice(head.as_bytes());
            expected.extend_from_slice(&content[first..=last]);
        }
        expected.extend_from_slice(format!("\r\n--{boundary}--\r\n").as_bytes());
        assert_eq!(response.status, 206);
        assert_eq!(String::from_utf8_lossy(&response.content), String::from_utf8_lossy(&expected), "{path}");
        assert_eq!(response.field("content-range"), None);
    }
}

#[test]
fn a_report_counts_the_whole_content_of_a_multipart_message() {
    let mut peer = peer();
    peer.converse(get("/file", "Range: bytes=500-509,0-4\r\n"));
    assert_eq!(peer.reports[0].content_bytes, responses(&peer)[0].content.len() as u64);
}

#[test]
fn rfc_9110_15_5_17_a_range_outside_is_told_the_size() {
    let response = get_with("/file", "Range: bytes=10000-\r\n");
    assert_eq!((response.status, response.field("content-range")), (416, Some("bytes */10000")));
    assert!(!response.content.is_empty());
}

#[test]
fn rfc_9110_14_2_ranges_are_for_get_and_may_be_ignored() {
    assert_eq!(get_with("/small", "Range: lines=0-1\r\n").status, 200);
    assert_eq!(get_with("/small", "Range: bytes=0-1\r\nRange: bytes=0-1\r\n").status, 200);
    assert_eq!(get_with("/large", "Range: bytes=0-1,200-201,400-401,600-601,800-801\r\n").status, 200);
    assert_eq!(get_with("/empty", "Range: bytes=-1\r\n").status, 200);
    let mut peer = peer();
    peer.converse(get("/small", "Range: bytes=0-1\r\n").replace("GET", "HEAD"));
    assert_eq!(statuses(&peer), [200]);
}

#[test]
fn rfc_9110_13_1_5_if_range_holds_for_the_same_strong_validator() {
    for (path, value, status) in [
        ("/small", "\"small\"", 206),
        ("/small", "\"x\"", 200),
        ("/weak", "W/\"weak\"", 200),
        ("/small", MODIFIED, 206),
        ("/small", EARLIER, 200),
        ("/small", "\"small\"\r\nIf-Range: \"small\"", 200),
    ] {
        let response = get_with(path, &format!("Range: bytes=0-1\r\nIf-Range: {value}\r\n"));
        assert_eq!(response.status, status, "{path} {value}");
    }
}

#[test]
fn rfc_9110_12_5_3_the_coding_is_the_client_s_choice() {
    for (accept, coding, etag) in [
        ("", None, "\"i\""),
        ("Accept-Encoding: gzip, br\r\n", Some("br"), "\"b\""),
        ("Accept-Encoding: gzip\r\nAccept-Encoding: br;q=0.5\r\n", Some("gzip"), "\"g\""),
        ("Accept-Encoding: zstd\r\n", None, "\"i\""),
    ] {
        let response = get_with("/coded", accept);
        assert_eq!((response.field("content-encoding"), response.field("etag")), (coding, Some(etag)), "{accept}");
        assert_eq!(response.field("vary"), Some("Accept-Encoding"));
        assert_eq!(response.content, coding.unwrap_or("identity").as_bytes());
    }
    assert_eq!(get_with("/coded", "Accept-Encoding: br\r\nIf-None-Match: \"b\"\r\n").status, 304);
    assert_eq!(get_with("/coded", "Accept-Encoding: br\r\nIf-None-Match: \"i\"\r\n").status, 200);
    let part = get_with("/coded", "Accept-Encoding: br\r\nRange: bytes=1-\r\n");
    assert_eq!((part.status, &part.content[..], part.field("content-encoding")), (206, &b"r"[..], Some("br")));
}

#[test]
fn rfc_9110_12_5_1_the_type_is_the_client_s_choice() {
    let html = get_with("/typed", "Accept: text/*\r\n");
    let json = get_with("/typed", "Accept: text/*;q=0.1, application/json\r\n");
    assert_eq!(html.field("content-type"), Some("text/html; charset=utf-8"));
    assert_eq!((json.field("content-type"), json.field("vary")), (Some("application/json"), Some("Accept")));
}

#[test]
fn rfc_9110_10_2_2_a_redirect_keeps_the_query() {
    for (target, location) in
        [("/redirect", "/there/"), ("/redirect?a=b?c", "/there/?a=b?c"), ("/redirect?", "/there/?")]
    {
        for connection in ["", "Connection: close\r\n"] {
            let response = get_with(target, connection);
            assert_eq!((response.status, response.field("location")), (308, Some(location)), "{target}");
            assert_eq!(response.content, b"Moved.\n");
        }
    }
}
