//! Amounts of bytes as text: `64MiB`. The one parser of sizes, for files and for every command line.
//!
//! Owns: the syntax, both ways. `KiB`, `MiB`, `GiB` and `TiB` are powers of 1024 (IEC 80000-13), and so are the letters
//! alone (`64M`), as in other servers; `kB`, `MB`, `GB` and `TB` are powers of 1000 (SI). Case does not matter. What is
//! written always has a binary unit, so that what was meant can be seen.

const BINARY: [(&str, u64); 4] = [("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
const LETTERS: [(&str, u64); 4] = [("T", 1 << 40), ("G", 1 << 30), ("M", 1 << 20), ("K", 1 << 10)];
const DECIMAL: [(&str, u64); 4] = [("TB", 1_000_000_000_000), ("GB", 1_000_000_000), ("MB", 1_000_000), ("kB", 1_000)];

/// Reads a whole number of bytes, with or without a unit: `65536`, `64KiB`, `64 KiB`, `64MB`, `64M`.
///
/// # Errors
/// The fault, as the rest of a sentence that starts with the text itself.
pub fn parse_size(text: &str) -> Result<u64, String> {
    let digits_len = text.bytes().take_while(u8::is_ascii_digit).count();
    let (digits, unit) = text.split_at(digits_len);
    if digits.is_empty() {
        return Err("is not a size: expected bytes as in 65536, or with a unit as in 64MiB".into());
    }
    let scale = unit_scale(unit.trim_start_matches(' '))?;
    digits
        .parse::<u64>()
        .ok()
        .and_then(|number| number.checked_mul(scale))
        .ok_or_else(|| "is more bytes than 64 bits can count".into())
}

/// Writes a number of bytes in the largest unit that divides it, so that [`parse_size`] reads the same number back.
pub fn format_size(bytes: u64) -> String {
    BINARY
        .iter()
        .find(|(_, scale)| bytes != 0 && bytes.is_multiple_of(*scale))
        .map_or_else(|| bytes.to_string(), |(unit, scale)| format!("{}{unit}", bytes / scale))
}

fn unit_scale(unit: &str) -> Result<u64, String> {
    if unit.is_empty() || unit.eq_ignore_ascii_case("B") {
        return Ok(1);
    }
    let units = BINARY.iter().chain(&LETTERS).chain(&DECIMAL);
    units.into_iter().find(|(name, _)| name.eq_ignore_ascii_case(unit)).map(|(_, scale)| *scale).ok_or_else(|| {
        format!("has the unknown unit `{unit}`: expected KiB, MiB, GiB or TiB (of 1024), or kB, MB, GB or TB (of 1000)")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_size_is_bytes_with_an_optional_binary_unit() {
        assert_eq!(parse_size("65536"), Ok(65536));
        assert_eq!(parse_size("64KiB"), Ok(65536));
        assert_eq!(parse_size("64 MiB"), Ok(64 << 20));
        assert_eq!(parse_size("7B"), Ok(7));
    }

    #[test]
    fn decimal_units_are_powers_of_1000_and_letters_powers_of_1024() {
        assert_eq!(parse_size("64MB"), Ok(64_000_000));
        assert_eq!(parse_size("1 kB"), Ok(1000));
        assert_eq!(parse_size("2gb"), Ok(2_000_000_000));
        assert_eq!(parse_size("64k"), Ok(65_536));
        assert_eq!(parse_size("1G"), parse_size("1gib"));
    }

    #[test]
    fn an_unknown_unit_is_answered_with_those_that_there_are() {
        for text in ["64Mb/s", "1PB", "3 bytes"] {
            assert!(parse_size(text).unwrap_err().contains("expected KiB, MiB"), "{text}");
        }
    }

    #[test]
    fn nonsense_and_overflow_are_refused() {
        for text in ["", "MiB", "-1", "1.5MiB", "99999999999TiB", "1é", "1Éclair"] {
            assert!(parse_size(text).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(bytes: u64) {
            prop_assert_eq!(parse_size(&format_size(bytes)), Ok(bytes));
        }

        #[test]
        fn whole_units_are_read_back(number in 0u64..4096, shift in 0u32..5) {
            let bytes = number << (10 * shift);
            prop_assert_eq!(parse_size(&format_size(bytes)), Ok(bytes));
        }

        #[test]
        fn no_text_panics(text in ".{0,20}") {
            let _ = parse_size(&text);
        }
    }
}
