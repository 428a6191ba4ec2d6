//! Reading header blocks (RFC 7541 6).
//!
//! Owns: [`Decoder`], the table of one direction. Guarantees: the work for a block is linear in its bytes and in those of the
//! fields that it stands for, as far as the visitor wants them; an index costs as much as the entry is long. Whoever visits
//! bounds what is kept. Does not judge fields.

use super::table::{STATIC, Table};
use super::{HpackError, huffman, integer};

/// Reads header blocks, one after the other.
#[derive(Debug)]
pub(crate) struct Decoder {
    table: Table,
    /// What we have told the peer that the table may be (SETTINGS_HEADER_TABLE_SIZE).
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

    /// Reads a whole block, and shows each field to `visit`.
    ///
    /// # Errors
    /// It cannot be read, and neither can what follows: an error of the connection (RFC 9113 4.3).
    pub(crate) fn decode(
        &mut self,
        mut block: &[u8],
        scratch: &mut Scratch,
        mut visit: impl FnMut(&[u8], &[u8]),
    ) -> Result<(), HpackError> {
        let mut may_resize = true;
        while let Some(&first) = block.first() {
            if first & 0x80 != 0 {
                let index = integer::decode(&mut block, 7)?;
                let (name, value) = self.field(index)?;
                visit(name, value);
            } else if first & 0xe0 == 0x20 {
                // RFC 7541 4.2: at the start of a block only.
                let size = integer::decode(&mut block, 5)?;
                if !may_resize || size > self.size_max {
                    return Err(HpackError);
                }
                self.table.set_size_max(size);
                continue;
            } else {
                let is_indexed = first & 0x40 != 0;
                let index = integer::decode(&mut block, if is_indexed { 6 } else { 4 })?;
                scratch.name.clear();
                if index > 0 {
                    // Copied, because inserting may let go of the entry that the name is of.
                    scratch.name.extend_from_slice(self.field(index)?.0);
                } else {
                    string(&mut block, &mut scratch.name)?;
                }
                scratch.value.clear();
                string(&mut block, &mut scratch.value)?;
                visit(&scratch.name, &scratch.value);
                if is_indexed {
                    self.table.insert(&scratch.name, &scratch.value);
                }
            }
            may_resize = false;
        }
        Ok(())
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

    fn read(decoder: &mut Decoder, block: &str) -> Result<String, HpackError> {
        let mut fields = Vec::new();
        decoder.decode(&hex(block), &mut Scratch::default(), |name, value| {
            fields.push(format!("{}: {}", String::from_utf8_lossy(name), String::from_utf8_lossy(value)));
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
            assert_eq!(read(&mut Decoder::new(4096), block), Err(HpackError), "{block}");
        }
    }

    #[test]
    fn the_table_may_be_resized_at_the_start_of_a_block_and_no_larger_than_we_said() {
        let mut decoder = Decoder::new(100);
        assert!(read(&mut decoder, "20 3f45 82").is_ok());
        assert!(read(&mut decoder, "3f46").is_err());
    }
}
