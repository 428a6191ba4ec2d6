//! Integers of header blocks (RFC 7541 5.1): a prefix of some bits, and groups of seven bits behind it.
//!
//! Guarantees: no integer is larger than [`MAX`], so that sums of a few of them do not overflow. Longer forms are
//! refused.

use super::HpackError;

/// The largest integer that is read: larger than every bound that there is on what it stands for.
pub(super) const MAX: usize = 1 << 24;

/// Reads the integer at the start of `input`, of which `prefix_bits` bits are in the first byte. Takes it from `input`.
pub(super) fn decode(input: &mut &[u8], prefix_bits: u8) -> Result<usize, HpackError> {
    let (&first, mut rest) = input.split_first().ok_or(HpackError)?;
    let most = (1usize << prefix_bits) - 1;
    let mut value = usize::from(first) & most;
    if value == most {
        let mut shift = 0;
        loop {
            let (&byte, behind) = rest.split_first().ok_or(HpackError)?;
            rest = behind;
            value += usize::from(byte & 0x7f) << shift;
            if value > MAX || shift > 21 {
                return Err(HpackError);
            }
            if byte & 0x80 == 0 {
                break;
            }
            shift += 7;
        }
    }
    *input = rest;
    Ok(value)
}

/// Adds `value` to `out`, with the bits of `pattern` before the prefix of `prefix_bits` bits.
pub(super) fn encode(mut value: usize, prefix_bits: u8, pattern: u8, out: &mut Vec<u8>) {
    let most = (1usize << prefix_bits) - 1;
    if value < most {
        return out.push(pattern | value as u8);
    }
    out.push(pattern | most as u8);
    value -= most;
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    // RFC 7541 C.1.
    #[test]
    fn the_examples_of_the_specification_read_as_they_stand_there() {
        for (value, prefix, bytes) in [(10, 5, &[0b01010][..]), (1337, 5, &[31, 154, 10]), (42, 8, &[42])] {
            let mut out = Vec::new();
            encode(value, prefix, 0, &mut out);
            assert_eq!(out, bytes);
            assert_eq!(decode(&mut &*out, prefix), Ok(value));
        }
    }

    #[test]
    fn what_is_too_large_or_too_long_or_ends_early_is_refused() {
        for bytes in
            [&[][..], &[31], &[31, 0x80], &[31, 0xff, 0xff, 0xff, 0xff, 0xff], &[31, 0x80, 0x80, 0x80, 0x80, 0x80, 0]]
        {
            assert_eq!(decode(&mut &*bytes, 5), Err(HpackError), "{bytes:?}");
        }
    }

    proptest! {
        #[test]
        fn any_value_comes_back(value in 0..=MAX, prefix in 4u8..=8, pattern: u8) {
            let pattern = if prefix == 8 { 0 } else { pattern << prefix };
            let mut out = Vec::new();
            encode(value, prefix, pattern, &mut out);
            let mut input = &*out;
            prop_assert_eq!(decode(&mut input, prefix), Ok(value));
            prop_assert!(input.is_empty());
        }
    }
}
