//! The form of a tar archive (POSIX.1-2017 `pax`, ustar interchange format), as pure functions.
//!
//! Owns: the blocks of an entry. Guarantees: the same name, size and time give the same bytes; nothing is told of who
//! owns a file.

/// Size of the blocks of an archive.
pub(super) const BLOCK_BYTES: usize = 512;

/// The end of an archive.
pub(super) const END: [u8; 2 * BLOCK_BYTES] = [0; 2 * BLOCK_BYTES];

/// The type of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A directory: its name ends with a slash.
    Directory,
    /// A file of so many bytes, which follow.
    File(u64),
}

/// Bytes that follow content of `size` bytes, up to the next block.
pub(super) fn padding(size: u64) -> usize {
    (size.wrapping_neg() % BLOCK_BYTES as u64) as usize
}

/// Writes the head of an entry: its own block, and before that what has no place in it.
pub(super) fn write_head(name: &[u8], kind: Kind, modified_unix_seconds: u64, out: &mut Vec<u8>) {
    let size = if let Kind::File(size) = kind { size } else { 0 };
    let mut records = Vec::new();
    if name.len() > NAME_BYTES_MAX || !name.is_ascii() {
        if std::str::from_utf8(name).is_err() {
            push_record(&mut records, "hdrcharset", b"BINARY");
        }
        push_record(&mut records, "path", name);
    }
    if size > OCTAL_MAX {
        push_record(&mut records, "size", size.to_string().as_bytes());
    }
    if !records.is_empty() {
        write_block(b"pax", b'x', records.len() as u64, modified_unix_seconds, out);
        out.extend_from_slice(&records);
        out.extend(std::iter::repeat_n(0, padding(records.len() as u64)));
    }
    let flag = if kind == Kind::Directory { b'5' } else { b'0' };
    write_block(&name[..name.len().min(NAME_BYTES_MAX)], flag, size.min(OCTAL_MAX), modified_unix_seconds, out);
}

/// The longest name in a block of its own.
const NAME_BYTES_MAX: usize = 100;
/// The largest number of eleven octal digits.
const OCTAL_MAX: u64 = (1 << 33) - 1;

fn write_block(name: &[u8], flag: u8, size: u64, modified_unix_seconds: u64, out: &mut Vec<u8>) {
    let mut block = [0; BLOCK_BYTES];
    block[..name.len()].copy_from_slice(name);
    let mode: &[u8] = if flag == b'5' { b"0000755\0" } else { b"0000644\0" };
    block[100..108].copy_from_slice(mode);
    block[108..116].copy_from_slice(b"0000000\0");
    block[116..124].copy_from_slice(b"0000000\0");
    block[124..136].copy_from_slice(format!("{size:011o}\0").as_bytes());
    block[136..148].copy_from_slice(format!("{:011o}\0", modified_unix_seconds.min(OCTAL_MAX)).as_bytes());
    block[156] = flag;
    block[257..265].copy_from_slice(b"ustar\x0000");
    // The sum counts its own place as spaces.
    block[148..156].copy_from_slice(b"        ");
    let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
    block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    out.extend_from_slice(&block);
}

/// Adds `LENGTH KEY=VALUE\n`, where the length counts itself.
fn push_record(records: &mut Vec<u8>, key: &str, value: &[u8]) {
    let rest = key.len() + value.len() + 3;
    let mut length = rest + 1;
    while length != rest + length.to_string().len() {
        length = rest + length.to_string().len();
    }
    records.extend_from_slice(format!("{length} {key}=").as_bytes());
    records.extend_from_slice(value);
    records.push(b'\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_counts_its_own_length() {
        for bytes in [0, 1, 80, 88, 89, 90, 91, 985, 986, 987, 988, 989, 990] {
            let mut records = Vec::new();
            push_record(&mut records, "path", &vec![b'x'; bytes]);
            let length: usize = std::str::from_utf8(&records).unwrap().split(' ').next().unwrap().parse().unwrap();
            assert_eq!(length, records.len());
        }
    }

    #[test]
    fn what_has_no_place_in_a_block_is_told_before_it() {
        let blocks = |name: &[u8], kind| {
            let mut out = Vec::new();
            write_head(name, kind, 7, &mut out);
            out.len() / BLOCK_BYTES
        };
        assert_eq!(blocks(&[b'x'; 100], Kind::File(OCTAL_MAX)), 1);
        assert_eq!(blocks(&[b'x'; 101], Kind::File(0)), 3);
        assert_eq!(blocks("é".as_bytes(), Kind::File(0)), 3);
        assert_eq!(blocks(b"x", Kind::File(OCTAL_MAX + 1)), 3);
        assert_eq!((padding(0), padding(1), padding(512), padding(u64::MAX)), (0, 511, 0, 1));
    }
}
