//! Amounts of bytes as text: `64MiB`.
//!
//! Owns: the syntax, both ways. Binary units only (KiB, MiB, GiB, TiB of IEC 80000-13): `MB` would leave open which of
//! two numbers is meant, so it is refused with the unit that was probably wanted.

const UNITS: [(&str, u64); 4] = [("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];

/// Reads a whole number of bytes, with or without a unit: `65536`, `64KiB`, `64 KiB`.
///
/// # Errors
/// What is wrong, as the rest of a sentence that starts with the text itself.
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
    UNITS
        .iter()
        .find(|(_, scale)| bytes != 0 && bytes.is_multiple_of(*scale))
        .map_or_else(|| bytes.to_string(), |(unit, scale)| format!("{}{unit}", bytes / scale))
}

fn unit_scale(unit: &str) -> Result<u64, String> {
    if unit.is_empty() || unit == "B" {
        return Ok(1);
    }
    if let Some((_, scale)) = UNITS.iter().find(|(name, _)| *name == unit) {
        return Ok(*scale);
    }
    let meant = UNITS.iter().find(|(name, _)| unit.to_ascii_uppercase().starts_with(&name[..1]));
    Err(match meant {
        Some((name, _)) => format!("has the unknown unit `{unit}`: did you mean `{name}`?"),
        None => format!("has the unknown unit `{unit}`: expected KiB, MiB, GiB or TiB"),
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
    fn a_decimal_unit_is_refused_with_the_binary_one() {
        assert!(parse_size("64MB").unwrap_err().contains("`MiB`"));
        assert!(parse_size("64k").unwrap_err().contains("`KiB`"));
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
