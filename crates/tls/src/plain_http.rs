//! The answer to a client that speaks plain HTTP where TLS is spoken.
//!
//! Owns: telling the two apart by the first bytes, and the answer: 400 with a link to the same place over https. It is
//! a page and not a redirect, because the user who typed the port meant it, and an application that sends its
//! credentials in clear text should fail.

use super::alert::Failure;

/// Most bytes of a request that are searched for its host and target.
const LOOK_BYTES: usize = 4096;

/// The first byte of a TLS connection: a record of type handshake.
const HANDSHAKE: u8 = 22;

/// The answer to a client whose first bytes are `received`; none if they may be TLS, or if more should come.
pub fn answer(received: &[u8], has_ended: bool) -> Option<Result<Vec<u8>, Failure>> {
    match received.first()? {
        &HANDSHAKE => return None,
        byte if byte.is_ascii_uppercase() => {}
        _ => return Some(Err(Failure::told("what the client sends is neither TLS nor HTTP"))),
    }
    let head = &received[..received.len().min(LOOK_BYTES)];
    let is_whole = memchr::memmem::find(head, b"\r\n\r\n").is_some() || received.len() > LOOK_BYTES || has_ended;
    if !is_whole {
        // A method is followed by a space. What is not one does not have to wait for a head that never comes.
        let word = head.iter().take_while(|byte| byte.is_ascii_uppercase() || **byte == b'-').count();
        let may_be_http = word == head.len() && word <= 32 || head.get(word) == Some(&b' ');
        return (!may_be_http).then(|| Err(Failure::told("what the client sends is neither TLS nor HTTP")));
    }
    let link = link(head);
    let body = match link {
        Some(link) => format!(
            "<!doctype html>\n<title>400 Bad Request</title>\n<h1>This port speaks https</h1>\n\
             <p>The request came as plain HTTP. Go to <a href=\"{link}\">{link}</a>.</p>\n"
        ),
        None => "<!doctype html>\n<title>400 Bad Request</title>\n<h1>This port speaks https</h1>\n\
                 <p>The request came as plain HTTP. Use an address that begins with https://.</p>\n"
            .to_owned(),
    };
    let answer = format!(
        "HTTP/1.1 400 Bad Request\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    );
    Some(Ok(answer.into_bytes()))
}

/// Where the same would be over https. Only what can stand in a page and in an address as it is gets into it.
fn link(head: &[u8]) -> Option<String> {
    let head = std::str::from_utf8(head).ok()?;
    let mut lines = head.split("\r\n");
    let target = lines.next()?.split(' ').nth(1)?;
    let host = lines.find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("host").then(|| value.trim())
    })?;
    let is_of_host = |byte: u8| byte.is_ascii_alphanumeric() || b".-_:[]".contains(&byte);
    let is_of_target = |byte: u8| byte.is_ascii_alphanumeric() || b"/.-_~%?=+,:;@!$*".contains(&byte);
    if host.is_empty() || !host.bytes().all(is_of_host) {
        return None;
    }
    let target = if target.starts_with('/') && target.bytes().all(is_of_target) { target } else { "/" };
    Some(format!("https://{host}{target}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(request: &[u8]) -> String {
        String::from_utf8(answer(request, false).unwrap().unwrap()).unwrap()
    }

    #[test]
    fn a_plain_request_is_answered_with_a_link_to_the_same_place() {
        let answer = text(b"GET /a/b?c=d HTTP/1.1\r\nHost: example.org:8443\r\n\r\n");
        assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
        assert!(answer.contains("<a href=\"https://example.org:8443/a/b?c=d\">"), "{answer}");
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        assert!(head.contains(&format!("Content-Length: {}", body.len())));
    }

    #[test]
    fn nothing_that_a_client_makes_up_becomes_markup() {
        for request in [
            "GET /<script> HTTP/1.1\r\nHost: a\"><script>\r\n\r\n",
            "GET /\"onclick= HTTP/1.1\r\nHost: example.org\r\n\r\n",
            "GET / HTTP/1.1\r\n\r\n",
        ] {
            let answer = text(request.as_bytes());
            assert!(!answer.contains("script") && !answer.contains("onclick"), "{answer}");
        }
    }

    #[test]
    fn what_may_be_either_is_waited_for() {
        assert!(answer(b"", false).is_none());
        assert!(answer(&[22, 3, 1], false).is_none());
        assert!(answer(b"GE", false).is_none());
        assert!(answer(b"GET / HTTP/1.1\r\nHost:", false).is_none());
        assert!(answer(b"GET / HTTP/1.1\r\nHost:", true).unwrap().is_ok(), "nothing more comes");
        assert!(answer(&[b'A'; 40], false).unwrap().is_err());
        assert!(answer(&[0x80, 0x2e], false).unwrap().is_err(), "a hello of SSL 2");
    }
}
