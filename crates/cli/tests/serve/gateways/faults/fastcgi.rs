//! How an application misbehaves over FastCGI.

use std::io::{BufReader, Read};
use std::time::Duration;

use super::application::{Act, Asked, Socket};
use super::{Manner, asked_for, cut, factor};
use crate::storm::Random;
use crate::tree::pattern;

const END_REQUEST: u8 = 3;
const PARAMS: u8 = 4;
const STDOUT: u8 = 6;
const STDERR: u8 = 7;

fn read_record(reader: &mut BufReader<Socket>) -> Option<(u8, Vec<u8>)> {
    let mut header = [0; 8];
    reader.read_exact(&mut header).ok()?;
    let length = usize::from(u16::from_be_bytes([header[4], header[5]]));
    let mut content = vec![0; length + usize::from(header[6])];
    reader.read_exact(&mut content).ok()?;
    content.truncate(length);
    Some((header[1], content))
}

/// The content of one stream, up to the record that ends it.
fn read_stream(reader: &mut BufReader<Socket>, kind: Option<u8>) -> Option<Vec<u8>> {
    let mut stream = Vec::new();
    loop {
        let (found, content) = read_record(reader)?;
        if kind.is_none_or(|kind| found == kind) {
            if content.is_empty() {
                return Some(stream);
            }
            stream.extend_from_slice(&content);
        }
    }
}

pub(super) fn read_request(reader: &mut BufReader<Socket>) -> Option<Asked> {
    let parameters = read_stream(reader, Some(PARAMS))?;
    let (mut rest, mut found) = (&parameters[..], [String::new(), String::new()]);
    let names = [&b"REQUEST_METHOD"[..], b"REQUEST_URI"];
    while !rest.is_empty() {
        let lengths = [length(&mut rest)?, length(&mut rest)?];
        let (name, after) = rest.split_at_checked(lengths[0])?;
        let (value, after) = after.split_at_checked(lengths[1])?;
        if let Some(at) = names.iter().position(|one| *one == name) {
            found[at] = String::from_utf8(value.to_vec()).ok()?;
        }
        rest = after;
    }
    asked_for(&found[0], &found[1])
}

fn length(rest: &mut &[u8]) -> Option<usize> {
    let (first, after) = rest.split_first()?;
    if *first < 128 {
        *rest = after;
        return Some(usize::from(*first));
    }
    let (long, after) = rest.split_first_chunk::<4>()?;
    *rest = after;
    Some((u32::from_be_bytes(*long) & 0x7fff_ffff) as usize)
}

/// The whole content, or nothing.
pub(super) fn read_content(reader: &mut BufReader<Socket>) -> Option<Vec<u8>> {
    read_stream(reader, None)
}

fn record(kind: u8, content: &[u8], padding: u8) -> Vec<u8> {
    let [high, low] = (content.len() as u16).to_be_bytes();
    [&[1, kind, 0, 1, high, low, padding, 0], content, &vec![0; usize::from(padding)]].concat()
}

/// Output of a script in records of any size, with words for the error log between them.
fn output(text: &[u8], random: &mut Random) -> Vec<u8> {
    let mut said = Vec::new();
    for piece in cut(text, 60_000, random) {
        if random.below(4) == 0 {
            said.extend(record(STDERR, b"a notice\n", random.below(9) as u8));
        }
        said.extend(record(STDOUT, &piece, random.below(9) as u8));
    }
    said
}

fn end(protocol_status: u8) -> Vec<u8> {
    record(END_REQUEST, &[0, 0, 0, 0, protocol_status, 0, 0, 0], 0)
}

fn script(number: u64, announced: Option<usize>, content: &[u8]) -> Vec<u8> {
    let length = announced.map(|bytes| format!("Content-Length: {bytes}\n")).unwrap_or_default();
    [format!("Status: 200 OK\r\nX-Number: {number}\n{length}\n").as_bytes(), content].concat()
}

pub(super) fn acts(asked: &Asked, random: &mut Random) -> Vec<Act> {
    let Asked { number, bytes, .. } = *asked;
    let content = pattern(bytes, factor(number));
    let ended = |text: &[u8], random: &mut Random| [output(text, random), end(0)].concat();
    let whole = script(number, Some(bytes), &content);
    let ends = if random.below(2) == 0 { Act::Close } else { Act::Reset };
    // What comes without content ends with an empty stream all the same.
    let mut acts = if asked.is_post { Vec::new() } else { vec![Act::Take] };
    acts.extend(match asked.manner {
        Manner::Sized if asked.is_head => vec![Act::Say(ended(&script(number, Some(bytes), b""), random))],
        Manner::Sized | Manner::Hinted => vec![Act::Say(ended(&whole, random))],
        Manner::Unframed => vec![Act::Say(ended(&script(number, None, &content), random))],
        Manner::Dripped => cut(&ended(&whole, random), 40, random).into_iter().map(Act::Say).collect(),
        Manner::Echo => vec![Act::Take, Act::Say(ended(&whole, random))],
        Manner::Closes | Manner::HintsOnly => vec![ends],
        Manner::Garbage => {
            vec![Act::Say((0..1 + random.below(2_000)).map(|_| random.below(256) as u8).collect()), ends]
        }
        Manner::HalfHead => {
            let said = record(STDOUT, &script(number, None, b""), 0);
            vec![Act::Say(said[..1 + random.below(said.len() - 1)].to_vec()), Act::Close]
        }
        Manner::LongHead => {
            let long = "x".repeat(66_000 + random.below(300_000));
            vec![Act::Say(output(format!("X-Long: {long}\n\n").as_bytes(), random)), ends]
        }
        Manner::TwoLengths => {
            let text = format!("X-Number: {number}\nContent-Length: 3\nContent-Length: 4\n\nabc");
            vec![Act::Say(ended(text.as_bytes(), random))]
        }
        Manner::Short => {
            vec![Act::Say(ended(&script(number, Some(bytes + 1 + random.below(9)), &content), random))]
        }
        Manner::Long => vec![Act::Say(ended(&[whole, b"and more".to_vec()].concat(), random))],
        Manner::TwoAnswers => {
            let second = ended(&script(0, Some(4), b"evil"), random);
            vec![Act::Say([ended(&whole, random), second].concat())]
        }
        Manner::CutFrames => {
            let said = ended(&script(number, None, &content), random);
            vec![Act::Say(said[..random.below(said.len())].to_vec()), ends]
        }
        Manner::BadFrames => {
            let mut bad = record(STDOUT, b"more", 0);
            // Another version, type, or request.
            bad[random.below(3)] = 9;
            vec![Act::Say([output(&script(number, None, &content), random), bad].concat())]
        }
        Manner::Refuses => vec![Act::Say(end(1))],
        Manner::Unwanted => vec![Act::Say(end(2))],
        Manner::HintsForEver | Manner::Hangs => vec![Act::Hang],
        Manner::HangsInHead => vec![Act::Say(record(STDOUT, b"X-Number: ", 0)), Act::Hang],
        Manner::HangsInContent => {
            vec![Act::Say(output(&script(number, Some(bytes + 1), &content), random)), Act::Hang]
        }
        Manner::Leaves => vec![Act::Pause(Duration::from_millis(5)), Act::Say(ended(&whole, random))],
        Manner::CutUpload => vec![Act::Take],
        // It has no way to say that it closes, and so takes what is still to come.
        Manner::Early => vec![Act::Say(ended(b"Status: 413\n\n", random)), Act::Take],
        Manner::DiesInUpload => vec![Act::TakeSome(bytes / 2), ends],
    });
    acts
}
