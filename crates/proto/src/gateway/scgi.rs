//! SCGI as the web server's side of it (Simple Common Gateway Interface, Neil Schemenauer, 2008).
//!
//! Owns: the beginning of a request, [`write_begin`] and [`set_length`]. Content follows without framing, and the
//! answer is what a script of CGI prints, to the end of the connection
//! ([`cgi::StreamReader`](crate::gateway::cgi::StreamReader)). Guarantees: `CONTENT_LENGTH` is first and always there,
//! and no variable holds a NUL. A connection carries one request.
//!
//! ```text
//!  us:   LENGTH ":" "CONTENT_LENGTH" 0 digits 0 "SCGI" 0 "1" 0 (name 0 value 0)... ","  content
//!  them: head of CGI, content, end of the connection
//! ```

use super::cgi::TooLong;

/// Bytes that all variables of one request may take. Four times what a request's head may have.
pub const VARIABLE_BYTES_MAX: usize = 256 * 1024;

const LENGTH: &[u8] = b"CONTENT_LENGTH";
const VERSION: &[u8] = b"SCGI\x001\0";

/// Appends the beginning of a request: the variables that `fill` gives, with `content_bytes` as the length of the
/// content. A length among the variables is left out.
///
/// # Errors
/// [`TooLong`]; `out` is then as it was.
pub fn write_begin(
    content_bytes: u64,
    out: &mut Vec<u8>,
    fill: impl FnOnce(&mut dyn FnMut(&[u8], &[u8])),
) -> Result<(), TooLong> {
    let start = out.len();
    let mut is_too_long = false;
    out.extend_from_slice(VERSION);
    fill(&mut |name, value| {
        is_too_long |= out.len() - start + name.len() + value.len() > VARIABLE_BYTES_MAX;
        if is_too_long || name == LENGTH {
            return;
        }
        [name, b"\0", value, b"\0"].iter().for_each(|part| out.extend_from_slice(part));
    });
    if is_too_long {
        out.truncate(start);
        return Err(TooLong);
    }
    out.push(b',');
    let first = first_of(content_bytes, out.len() - start - 1);
    out.splice(start..start, first);
    Ok(())
}

/// Says how long the content is, in the beginning of a request that [`write_begin`] has written: it was not known
/// before.
pub fn set_length(content_bytes: u64, begin: &mut Vec<u8>) {
    let Some(rest) = memchr::memmem::find(begin, VERSION) else { return };
    let first = first_of(content_bytes, begin.len() - rest - 1);
    begin.splice(..rest, first);
}

/// The length of the netstring, and the first variable of it. `rest_bytes` follow, without the comma.
fn first_of(content_bytes: u64, rest_bytes: usize) -> Vec<u8> {
    let variable = [LENGTH, b"\0", content_bytes.to_string().as_bytes(), b"\0"].concat();
    [format!("{}:", variable.len() + rest_bytes).as_bytes(), &variable].concat()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    type Pairs = Vec<(Vec<u8>, Vec<u8>)>;

    fn begin(content_bytes: u64, pairs: &Pairs) -> Result<Vec<u8>, TooLong> {
        let mut out = Vec::new();
        write_begin(content_bytes, &mut out, |give| pairs.iter().for_each(|(name, value)| give(name, value)))?;
        Ok(out)
    }

    /// As an application reads it: all variables, in order.
    fn read(bytes: &[u8]) -> Pairs {
        let colon = bytes.iter().position(|byte| *byte == b':').unwrap();
        let length: usize = std::str::from_utf8(&bytes[..colon]).unwrap().parse().unwrap();
        let (netstring, comma) = bytes[colon + 1..].split_at(length);
        assert_eq!(comma, b",");
        let mut parts = netstring.split(|byte| *byte == 0).map(<[u8]>::to_vec);
        let mut pairs = Vec::new();
        while let (Some(name), Some(value)) = (parts.next(), parts.next()) {
            pairs.push((name, value));
        }
        pairs
    }

    #[test]
    fn a_request_begins_as_the_specification_shows() {
        let pairs =
            vec![(b"REQUEST_METHOD".to_vec(), b"POST".to_vec()), (b"REQUEST_URI".to_vec(), b"/deepthought".to_vec())];
        let expected = b"70:CONTENT_LENGTH\x0027\0SCGI\x001\0REQUEST_METHOD\0POST\0REQUEST_URI\0/deepthought\0,";
        assert_eq!(begin(27, &pairs).unwrap().escape_ascii().to_string(), expected.escape_ascii().to_string());
    }

    #[test]
    fn too_many_variables_are_refused_and_nothing_is_written() {
        let pairs: Pairs = (0..10).map(|_| (b"A".to_vec(), vec![b'x'; VARIABLE_BYTES_MAX / 8])).collect();
        assert_eq!(begin(0, &pairs), Err(TooLong));
    }

    proptest! {
        #[test]
        fn variables_are_read_as_they_were_written_whenever_the_length_is_known(
            pairs in prop::collection::vec(
                (prop::collection::vec(1..=255_u8, 1..40), prop::collection::vec(1..=255_u8, 0..300)), 0..6),
            bytes: u64,
        ) {
            let mut expected = vec![
                (LENGTH.to_vec(), bytes.to_string().into_bytes()),
                (b"SCGI".to_vec(), b"1".to_vec()),
            ];
            expected.extend(pairs.clone());
            prop_assert_eq!(&read(&begin(bytes, &pairs).unwrap()), &expected);
            let mut later = begin(0, &pairs).unwrap();
            set_length(bytes, &mut later);
            prop_assert_eq!(read(&later), expected);
        }
    }
}
