//! Reading header blocks (RFC 7541 6).
//!
//! Owns: [`Decoder`], the table of one direction. Guarantees: the work for a block is linear in its bytes. What it
//! stands for may be more, by references to the table: such a block is read to [`SWELLING_MAX`] times its bytes, or to
//! what a block may be long, and no further; and of fields that are not wanted nothing is copied. The visitor bounds
//! what is kept. Does not judge fields.

use super::table::{ENTRY_BYTES, STATIC, Table};
use super::{HpackError, huffman, integer};
use crate::limits::HEADER_BLOCK_BYTES_MAX;

/// How many times the bytes of a block what it stands for may be, where that is more than a block may be long. Codes
/// make text of eight bytes from five; more comes of references to one entry again and again, which no client has a use
/// for.
pub(crate) const SWELLING_MAX: usize = 4;

/// Why a block has not been read to its end: none after it can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unread {
    /// It is not in its form (RFC 9113 4.3).
    Malformed,
    /// It stands for much more than it is.
    Swollen,
}

impl From<HpackError> for Unread {
    fn from(_: HpackError) -> Unread {
        Unread::Malformed
    }
}

/// Reads header blocks, one after the other.
#[derive(Debug)]
pub(crate) struct Decoder {
    table: Table,
    /// The largest table that we have announced to the peer (SETTINGS_HEADER_TABLE_SIZE).
    size_max: usize,
}

/// Where strings that were Huffman-coded are decoded to.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    name: Vec<u8>,
    value: Vec<u8>,
}

impl Decoder {
    /// For a connection on which nothing has been received. `size_max` is what we announce.
    pub(crate) fn new(size_max: usize) -> Decoder {
        Decoder { table: Table::new(size_max), size_max }
    }

    /// Reads a whole block, and shows each field to `visit`, until that says that it wants no more. Returns for how
    /// much the block stands: bytes of its fields, and what RFC 7541 4.1 adds for each.
    ///
    /// # Errors
    /// It has not been read to its end, and what follows cannot be read: an error of the connection.
    pub(crate) fn decode(
        &mut self,
        mut block: &[u8],
        scratch: &mut Scratch,
        mut visit: impl FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<usize, Unread> {
        let bytes_max = HEADER_BLOCK_BYTES_MAX.max(SWELLING_MAX * block.len());
        let (mut may_resize, mut is_wanted, mut stands_for) = (true, true, 0_usize);
        while let Some(&first) = block.first() {
            if stands_for > bytes_max {
                return Err(Unread::Swollen);
            }
            if first & 0x80 != 0 {
                let index = integer::decode(&mut block, 7)?;
                let (name, value) = self.field(index)?;
                stands_for += name.len() + value.len() + ENTRY_BYTES;
                is_wanted = is_wanted && visit(name, value);
            } else if first & 0xe0 == 0x20 {
                // RFC 7541 4.2: at the start of a block only.
                let size = integer::decode(&mut block, 5)?;
                if !may_resize || size > self.size_max {
                    return Err(Unread::Malformed);
                }
                self.table.set_size_max(size);
                continue;
            } else {
                let is_indexed = first & 0x40 != 0;
                let index = integer::decode(&mut block, if is_indexed { 6 } else { 4 })?;
                scratch.name.clear();
                let referred = if index > 0 { self.field(index)?.0 } else { &[] };
                if index == 0 {
                    string(&mut block, &mut scratch.name)?;
                } else if is_wanted || is_indexed {
                    // Copied, because inserting may let go of the entry that the name is of.
                    scratch.name.extend_from_slice(referred);
                }
                let name_bytes = scratch.name.len().max(referred.len());
                scratch.value.clear();
                string(&mut block, &mut scratch.value)?;
                stands_for += name_bytes + scratch.value.len() + ENTRY_BYTES;
                is_wanted = is_wanted && visit(&scratch.name, &scratch.value);
                if is_indexed {
                    self.table.insert(&scratch.name, &scratch.value);
                }
            }
            may_resize = false;
        }
        Ok(stands_for)
    }

    fn field(&self, index: usize) -> Result<(&[u8], &[u8]), HpackError> {
        let at = index.checked_sub(1).ok_or(HpackError)?;
        match STATIC.get(at) {
            Some((name, value)) => Ok((name.as_bytes(), value.as_bytes())),
            None => self.table.get(at - STATIC.len()).ok_or(HpackError),
        }
    }

    /// Bytes of memory that it holds.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.table.memory_bytes()
    }
}

/// RFC 7541 5.2.
fn string(block: &mut &[u8], out: &mut Vec<u8>) -> Result<(), HpackError> {
    let is_coded = block.first().ok_or(HpackError)? & 0x80 != 0;
    let length = integer::decode(block, 7)?;
    let (text, rest) = block.split_at_checked(length).ok_or(HpackError)?;
    *block = rest;
    if is_coded {
        return huffman::decode(text, out);
    }
    out.extend_from_slice(text);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(text: &str) -> Vec<u8> {
        let digits: String = text.split_whitespace().collect();
        (0..digits.len()).step_by(2).map(|at| u8::from_str_radix(&digits[at..at + 2], 16).unwrap()).collect()
    }

    fn read(decoder: &mut Decoder, block: &str) -> Result<String, Unread> {
        let mut fields = Vec::new();
        decoder.decode(&hex(block), &mut Scratch::default(), |name, value| {
            fields.push(format!("{}: {}", String::from_utf8_lossy(name), String::from_utf8_lossy(value)));
            true
        })?;
        Ok(fields.join("\n"))
    }

    // RFC 7541 C.6: responses, Huffman-coded, in a table of 256 bytes, so that entries go.
    #[test]
    fn the_responses_of_the_specification_read_as_they_stand_there() {
        let mut decoder = Decoder::new(256);
        let first = "4882 6402 5885 aec3 771a 4b61 96d0 7abe 9410 54d4 44a8 2005 9504 0b81 66e0 82a6 2d1b ff6e 919d \
                     29ad 1718 63c7 8f0b 97c8 e9ae 82ae 43d3";
        let common = "cache-control: private\ndate: Mon, 21 Oct 2013 20:13:21 GMT\nlocation: https://www.example.com";
        assert_eq!(read(&mut decoder, first).unwrap(), format!(":status: 302\n{common}"));
        assert_eq!(read(&mut decoder, "4883 640e ffc1 c0bf").unwrap(), format!(":status: 307\n{common}"));
        let third = "88c1 6196 d07a be94 1054 d444 a820 0595 040b 8166 e084 a62d 1bff c05a 839b d9ab 77ad 94e7 821d d7f2 \
                     e6c7 b335 dfdf cd5b 3960 d5af 2708 7f36 72c1 ab27 0fb5 291f 9587 3160 65c0 03ed 4ee5 b106 3d50 07";
        let third = read(&mut decoder, third).unwrap();
        assert!(
            third.starts_with(":status: 200\ncache-control: private\ndate: Mon, 21 Oct 2013 20:13:22 GMT"),
            "{third}"
        );
        assert!(third.ends_with("set-cookie: foo=ASDJKHQKBZXOQWEOPIUAXQWEOIU; max-age=3600; version=1"), "{third}");
    }

    // RFC 7541 C.3: requests, not coded.
    #[test]
    fn the_requests_of_the_specification_read_as_they_stand_there() {
        let mut decoder = Decoder::new(4096);
        let first = "8286 8441 0f77 7777 2e65 7861 6d70 6c65 2e63 6f6d";
        let common = ":method: GET\n:scheme: http\n:path: /\n:authority: www.example.com";
        assert_eq!(read(&mut decoder, first).unwrap(), common);
        assert_eq!(
            read(&mut decoder, "8286 84be 5808 6e6f 2d63 6163 6865").unwrap(),
            format!("{common}\ncache-control: no-cache")
        );
    }

    #[test]
    fn what_cannot_be_read_is_an_error() {
        for block in
            ["80", "be", "ff8080808001", "00", "0001", "000161", "00016181", "3fe21f", "82 20", "0001 61 8130 8106"]
        {
            assert_eq!(read(&mut Decoder::new(4096), block), Err(Unread::Malformed), "{block}");
        }
    }

    #[test]
    fn the_table_may_be_resized_at_the_start_of_a_block_and_no_larger_than_we_said() {
        let mut decoder = Decoder::new(100);
        assert!(read(&mut decoder, "20 3f45 82").is_ok());
        assert!(read(&mut decoder, "3f46").is_err());
    }

    #[test]
    fn what_a_block_stands_for_is_bounded_and_names_that_nobody_wants_are_not_copied() {
        let mut decoder = Decoder::new(4096);
        let name = "n".repeat(3_900);
        let mut entry = vec![0x40, 0x7f, 0xbd, 0x1d];
        entry.extend_from_slice(name.as_bytes());
        entry.push(0);
        let mut scratch = Scratch::default();
        assert_eq!(decoder.decode(&entry, &mut scratch, |_, _| true), Ok(3_932));
        // Each two bytes of this are a field with that name, which is not indexed.
        let mut seen = 0;
        let short = [0x0f, 0x2f, 0].repeat(16);
        let stands_for = decoder.decode(&short, &mut scratch, |found, _| {
            seen += usize::from(found == name.as_bytes());
            false
        });
        assert_eq!((stands_for, seen), (Ok(16 * 3_932), 1));
        assert!(scratch.name.is_empty());
        let long = [0x0f, 0x2f, 0].repeat(1_000);
        assert_eq!(decoder.decode(&long, &mut scratch, |_, _| false), Err(Unread::Swollen));
        assert_eq!(decoder.decode(&[0xbe; 1_000], &mut scratch, |_, _| false), Err(Unread::Swollen));
        // Fields that are sent are as long as they are.
        let mut sent = Vec::new();
        for _ in 0..30 {
            sent.extend_from_slice(&[0, 1, b'a', 0x7f, 0xa1, 0x1e]);
            sent.extend_from_slice(&[b'v'; 4_000]);
        }
        assert_eq!(decoder.decode(&sent, &mut scratch, |_, _| true), Ok(30 * 4_033));
    }
}
