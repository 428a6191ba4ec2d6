//! uwsgi as the web server's side of it (the uwsgi Protocol, uWSGI 2.0 documentation).
//!
//! Owns: the beginning of a request, [`write_begin`] and [`add_variable`]. Content follows without framing, and the
//! answer is HTTP or what a script of CGI prints, to the end of the connection
//! ([`cgi::StreamReader`](crate::gateway::cgi::StreamReader)). Guarantees: the block of variables is as long as its
//! header says, at most 65,535 bytes. A connection carries one request.
//!
//! ```text
//!  us:   modifier 0 (1 byte), length of the block (2), modifier 0 (1), then (length (2), name, length (2), value)...  content
//!  them: status line of HTTP or head of CGI, content, end of the connection         all numbers little-endian
//! ```

use super::cgi::TooLong;

const HEADER_BYTES: usize = 4;
/// The most bytes that the block of variables may have: its length has 16 bits.
const BLOCK_BYTES_MAX: usize = u16::MAX as usize;
/// Bytes that are left for variables that are known later.
const SPARE_BYTES: usize = 64;

/// Appends the beginning of a request: a block of the variables that `fill` gives.
///
/// # Errors
/// [`TooLong`]; `out` is then as it was.
pub fn write_begin(out: &mut Vec<u8>, fill: impl FnOnce(&mut dyn FnMut(&[u8], &[u8]))) -> Result<(), TooLong> {
    let start = out.len();
    let mut is_too_long = false;
    out.extend_from_slice(&[0; HEADER_BYTES]);
    fill(&mut |name, value| {
        let block_bytes = out.len() - start - HEADER_BYTES;
        is_too_long |= block_bytes + pair_bytes(name, value) > BLOCK_BYTES_MAX - SPARE_BYTES;
        if !is_too_long {
            append(name, value, out);
        }
    });
    if is_too_long {
        out.truncate(start);
        return Err(TooLong);
    }
    settle(&mut out[start..]);
    Ok(())
}

/// Adds a short variable to the beginning of a request that has been written: one whose value was not known before. One
/// that does not fit is left out: [`write_begin`] has left room for one of at most 60 bytes, name and value together.
pub fn add_variable(name: &[u8], value: &[u8], begin: &mut Vec<u8>) {
    debug_assert!(pair_bytes(name, value) <= SPARE_BYTES, "a variable that is known later is short");
    if begin.len() - HEADER_BYTES + pair_bytes(name, value) <= BLOCK_BYTES_MAX {
        append(name, value, begin);
        settle(begin);
    }
}

fn pair_bytes(name: &[u8], value: &[u8]) -> usize {
    2 + name.len() + 2 + value.len()
}

fn append(name: &[u8], value: &[u8], out: &mut Vec<u8>) {
    for text in [name, value] {
        // Both fit the block, whose length has 16 bits.
        out.extend_from_slice(&(text.len() as u16).to_le_bytes());
        out.extend_from_slice(text);
    }
}

/// Writes the length of the block into its header.
fn settle(begin: &mut [u8]) {
    let length = (begin.len() - HEADER_BYTES) as u16; // Within BLOCK_BYTES_MAX.
    begin[1..3].copy_from_slice(&length.to_le_bytes());
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    type Pairs = Vec<(Vec<u8>, Vec<u8>)>;

    fn begin(pairs: &Pairs) -> Result<Vec<u8>, TooLong> {
        let mut out = Vec::new();
        write_begin(&mut out, |give| pairs.iter().for_each(|(name, value)| give(name, value)))?;
        Ok(out)
    }

    /// As an application reads it.
    fn read(bytes: &[u8]) -> Pairs {
        let (header, mut block) = bytes.split_at(HEADER_BYTES);
        assert_eq!((header[0], header[3]), (0, 0));
        assert_eq!(usize::from(u16::from_le_bytes([header[1], header[2]])), block.len());
        let mut text = || {
            let (length, rest) = block.split_at(2);
            let (text, rest) = rest.split_at(u16::from_le_bytes([length[0], length[1]]).into());
            block = rest;
            (text.to_vec(), rest.is_empty())
        };
        let mut pairs = Vec::new();
        while bytes.len() > HEADER_BYTES {
            let (name, _) = text();
            let (value, is_last) = text();
            pairs.push((name, value));
            if is_last {
                break;
            }
        }
        pairs
    }

    #[test]
    fn a_request_begins_with_its_variables() {
        let pairs = vec![(b"A".to_vec(), b"bc".to_vec()), (b"E".to_vec(), vec![])];
        assert_eq!(begin(&pairs).unwrap(), b"\0\x0c\0\0\x01\0A\x02\0bc\x01\0E\0\0");
        assert_eq!(begin(&vec![]).unwrap(), [0; 4]);
    }

    #[test]
    fn too_many_variables_are_refused_and_room_is_left_for_the_length() {
        let fits = BLOCK_BYTES_MAX - SPARE_BYTES - pair_bytes(b"A", b"");
        assert_eq!(begin(&vec![(b"A".to_vec(), vec![7; fits + 1])]), Err(TooLong));
        let mut pairs = vec![(b"A".to_vec(), vec![7; fits])];
        let mut written = begin(&pairs).unwrap();
        add_variable(b"CONTENT_LENGTH", u64::MAX.to_string().as_bytes(), &mut written);
        pairs.push((b"CONTENT_LENGTH".to_vec(), u64::MAX.to_string().into_bytes()));
        assert_eq!(read(&written), pairs);
    }

    proptest! {
        #[test]
        fn variables_are_read_as_they_were_written(
            pairs in prop::collection::vec(
                (prop::collection::vec(any::<u8>(), 0..40), prop::collection::vec(any::<u8>(), 0..300)), 0..6),
        ) {
            prop_assert_eq!(read(&begin(&pairs).unwrap()), pairs);
        }
    }
}
