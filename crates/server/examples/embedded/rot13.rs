//! rot13 as a filter of the program itself.

use lamna_filter::{Content, Fault, Filter, Make};

/// Makes filters that turn letters by 13 places.
#[derive(Debug)]
pub(crate) struct Rot13;

impl Make for Rot13 {
    fn start(&self, content: &mut Content) -> Option<Box<dyn Filter>> {
        (content.is_plain() && content.media_type.starts_with("text/")).then(|| Box::new(Turning) as Box<dyn Filter>)
    }
}

struct Turning;

impl Filter for Turning {
    fn take(&mut self, piece: &[u8], out: &mut Vec<u8>) -> Result<(), Fault> {
        out.extend(piece.iter().map(|byte| turn(*byte)));
        Ok(())
    }

    fn finish(&mut self, _: &mut Vec<u8>) -> Result<(), Fault> {
        Ok(())
    }
}

fn turn(byte: u8) -> u8 {
    match byte {
        b'a'..=b'z' => (byte - b'a' + 13) % 26 + b'a',
        b'A'..=b'Z' => (byte - b'A' + 13) % 26 + b'A',
        other => other,
    }
}
