//! How an application misbehaves over HTTP/1.1.

use std::io::{BufRead, BufReader, Read};
use std::time::Duration;

use super::application::{Act, Asked, Socket};
use super::{Manner, asked_for, cut, factor};
use crate::storm::Random;
use crate::tree::pattern;

pub(super) fn read_request(reader: &mut BufReader<Socket>) -> Option<Asked> {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head).ok()? == 0 {
            return None;
        }
    }
    let field = |name: &str| head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
    let mut words = head.split(' ');
    let (method, path) = (words.next()?, words.next()?);
    let announced = field("Content-Length").and_then(|length| length.parse().ok());
    Some(Asked { announced, ..asked_for(method, path)? })
}

/// The whole content, or nothing.
pub(super) fn read_content(asked: &Asked, reader: &mut BufReader<Socket>) -> Option<Vec<u8>> {
    let mut content = Vec::new();
    if !asked.is_post {
        return Some(content);
    }
    if let Some(length) = asked.announced {
        content.resize(length, 0);
        reader.read_exact(&mut content).ok()?;
        return Some(content);
    }
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let bytes = usize::from_str_radix(line.trim(), 16).ok()?;
        let mut chunk = vec![0; bytes + 2];
        reader.read_exact(&mut chunk).ok()?;
        content.extend_from_slice(&chunk[..bytes]);
        if bytes == 0 {
            return Some(content);
        }
    }
}

fn head(status: &str, number: u64, fields: &str) -> Vec<u8> {
    format!("HTTP/1.1 {status}\r\nX-Number: {number}\r\n{fields}\r\n").into_bytes()
}

fn sized(number: u64, announced: usize, content: &[u8]) -> Vec<u8> {
    [head("200 OK", number, &format!("Content-Length: {announced}\r\n")), content.to_vec()].concat()
}

/// Chunks of any size, with their head and their end.
fn chunked(number: u64, mut content: &[u8], random: &mut Random) -> Vec<u8> {
    let mut said = head("200 OK", number, "Transfer-Encoding: chunked\r\n");
    while !content.is_empty() {
        let (chunk, rest) = content.split_at(content.len().min(1 + random.below(20_000)));
        said.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
        said.extend_from_slice(chunk);
        said.extend_from_slice(b"\r\n");
        content = rest;
    }
    said.extend_from_slice(b"0\r\n\r\n");
    said
}

pub(super) fn acts(asked: &Asked, random: &mut Random) -> Vec<Act> {
    let Asked { number, bytes, .. } = *asked;
    let content = pattern(bytes, factor(number));
    let whole = || sized(number, bytes, &content);
    let ends = if random.below(2) == 0 { Act::Close } else { Act::Reset };
    match asked.manner {
        Manner::Sized if asked.is_head => vec![Act::Say(sized(number, bytes, b""))],
        Manner::Sized => vec![Act::Say(whole())],
        Manner::Unframed => vec![Act::Say(chunked(number, &content, random))],
        Manner::Dripped => cut(&whole(), 40, random).into_iter().map(Act::Say).collect(),
        Manner::Hinted => vec![Act::Say(hints(3)), Act::Say(whole())],
        Manner::Echo => vec![Act::Take, Act::Say(whole())],
        Manner::Closes => vec![ends],
        Manner::Garbage => {
            vec![Act::Say((0..1 + random.below(2_000)).map(|_| random.below(256) as u8).collect()), ends]
        }
        Manner::HalfHead => {
            let head = head("200 OK", number, "Content-Length: 5\r\n");
            vec![Act::Say(head[..1 + random.below(head.len() - 1)].to_vec()), Act::Close]
        }
        Manner::LongHead => {
            let long = "x".repeat(66_000 + random.below(300_000));
            vec![Act::Say(head("200 OK", number, &format!("Content-Length: 0\r\nX-Long: {long}\r\n"))), ends]
        }
        Manner::TwoLengths => {
            vec![
                Act::Say(head("200 OK", number, "Content-Length: 3\r\nContent-Length: 4\r\n")),
                Act::Say(b"abc".into()),
            ]
        }
        Manner::Short => vec![Act::Say(sized(number, bytes + 1 + random.below(9), &content)), ends],
        Manner::Long => vec![Act::Say([whole(), b"and more".to_vec()].concat())],
        Manner::TwoAnswers => vec![Act::Say([whole(), sized(0, 4, b"evil")].concat())],
        Manner::CutFrames => {
            let said = chunked(number, &content, random);
            vec![Act::Say(said[..random.below(said.len())].to_vec()), ends]
        }
        Manner::BadFrames => {
            let said = chunked(number, &content, random);
            vec![Act::Say([&said[..said.len() - 5], b"no size\r\n"].concat())]
        }
        Manner::Refuses => vec![Act::Say(head("101 Switching Protocols", number, "Upgrade: websocket\r\n"))],
        Manner::Unwanted => vec![Act::Say(head("200 OK", number, "Transfer-Encoding: gzip, chunked\r\n"))],
        Manner::HintsOnly => vec![Act::Say(hints(1 + random.below(3))), Act::Close],
        Manner::HintsForEver => vec![Act::Say(hints(300)), Act::Hang],
        Manner::Hangs => vec![Act::Hang],
        Manner::HangsInHead => vec![Act::Say(head("200 OK", number, "")[..20].to_vec()), Act::Hang],
        Manner::HangsInContent => vec![Act::Say(sized(number, bytes + 1, &content)), Act::Hang],
        Manner::Leaves => vec![Act::Pause(Duration::from_millis(5)), Act::Say(whole())],
        Manner::CutUpload => vec![Act::Take],
        // The content may have been sent: who did not say that it closes would meet the next request.
        Manner::Early => {
            let fields = "Content-Length: 0\r\nConnection: close\r\n";
            vec![Act::Say(head("413 Content Too Large", number, fields)), Act::Close]
        }
        Manner::DiesInUpload => vec![Act::TakeSome(bytes / 2), ends],
    }
}

fn hints(count: usize) -> Vec<u8> {
    b"HTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\n\r\n".repeat(count)
}
