//! Writing header blocks (RFC 7541 6).
//!
//! Owns: [`Encoder`], the table of one direction, and the form of fields that refer to no table but the static one
//! ([`write_field`]), so that they can be written once for all connections. Does not decide what is worth a place in
//! the table: its caller does.

use super::table::{STATIC, Table};
use super::{huffman, integer};

/// The largest table that we use, whatever the peer allows, in bytes: the few fields that all answers have fit, and a
/// connection that is idle holds little.
const TABLE_BYTES_MAX: usize = 256;

/// Writes header blocks, one after the other.
#[derive(Debug)]
pub(crate) struct Encoder {
    table: Table,
    /// The sizes that the peer has to be told of: the smallest since the last block, and the one now (RFC 7541 4.2).
    resized: Option<(usize, usize)>,
}

impl Encoder {
    /// For a connection whose peer has not said how large its table is: 4,096 bytes (RFC 9113 6.5.2), of which we use
    /// fewer.
    pub(crate) fn new() -> Encoder {
        Encoder { table: Table::new(TABLE_BYTES_MAX), resized: Some((TABLE_BYTES_MAX, TABLE_BYTES_MAX)) }
    }

    /// The peer's table may be so large from now on.
    pub(crate) fn handle_table_size(&mut self, size: usize) {
        let size = size.min(TABLE_BYTES_MAX);
        if size != self.table.size_max() {
            let least = self.resized.map_or(size, |(least, _)| least.min(size));
            self.resized = Some((least, size));
            self.table.set_size_max(size);
        }
    }

    /// To be written before the first field of each block.
    pub(crate) fn begin(&mut self, out: &mut Vec<u8>) {
        if let Some((least, now)) = self.resized.take() {
            if least < now {
                integer::encode(least, 5, 0x20, out);
            }
            integer::encode(now, 5, 0x20, out);
        }
    }

    /// Writes a field that is worth a place in the table: the next block refers to it by one byte.
    pub(crate) fn write(&mut self, name: &[u8], value: &[u8], out: &mut Vec<u8>) {
        if let Some(index) = self.table.find(name, value) {
            return integer::encode(1 + STATIC.len() + index, 7, 0x80, out);
        }
        write_literal(name, value, 6, 0x40, out);
        self.table.insert(name, value);
    }

    /// Bytes of memory that it holds.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.table.memory_bytes()
    }
}

/// Writes a field in the form that needs no table but the static one, and changes none. `name` is in lower case.
pub(crate) fn write_field(name: &[u8], value: &[u8], out: &mut Vec<u8>) {
    match STATIC.iter().position(|field| (field.0.as_bytes(), field.1.as_bytes()) == (name, value)) {
        Some(at) => integer::encode(at + 1, 7, 0x80, out),
        None => write_literal(name, value, 4, 0, out),
    }
}

fn write_literal(name: &[u8], value: &[u8], prefix_bits: u8, pattern: u8, out: &mut Vec<u8>) {
    match STATIC.iter().position(|(known, _)| known.as_bytes() == name) {
        Some(at) => integer::encode(at + 1, prefix_bits, pattern, out),
        None => {
            out.push(pattern);
            write_string(name, out);
        }
    }
    write_string(value, out);
}

fn write_string(text: &[u8], out: &mut Vec<u8>) {
    let coded = huffman::coded_bytes(text);
    if coded < text.len() {
        integer::encode(coded, 7, 0x80, out);
        huffman::encode(text, out);
    } else {
        integer::encode(text.len(), 7, 0, out);
        out.extend_from_slice(text);
    }
}
