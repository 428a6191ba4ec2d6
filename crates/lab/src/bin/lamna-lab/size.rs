//! Amounts of bytes on the command line.
//!
//! Owns: the syntax: a whole number, and optionally K, M, G or T, also written as KiB, MiB, GiB or TiB. Binary units only: `KB`
//! would leave open which of two numbers is meant.

const UNITS: [(&str, u64); 4] = [("K", 1 << 10), ("M", 1 << 20), ("G", 1 << 30), ("T", 1 << 40)];

/// Reads a number of bytes, as in `65536`, `64K`, `64KiB` or `64 KiB`.
///
/// # Errors
/// What is wrong, in words.
pub(crate) fn parse_size(text: &str) -> Result<u64, String> {
    let digits_len = text.bytes().take_while(u8::is_ascii_digit).count();
    let (digits, unit) = text.split_at(digits_len);
    let unit = unit.trim_start_matches(' ');
    let scale = match unit {
        "" | "B" => Some(1),
        _ => {
            let short = unit.strip_suffix("iB").unwrap_or(unit);
            UNITS.iter().find(|(name, _)| *name == short).map(|(_, scale)| *scale)
        }
    };
    match (digits.parse::<u64>(), scale) {
        (Ok(number), Some(scale)) => number.checked_mul(scale).ok_or_else(|| format!("`{text}` is too much")),
        _ => Err(format!("`{text}` is not a number of bytes as in 65536, 64K or 64KiB")),
    }
}

#[cfg(test)]
mod tests {
    use super::parse_size;

    #[test]
    fn sizes_take_binary_units_in_short_and_in_full() {
        assert_eq!(parse_size("17"), Ok(17));
        assert_eq!(parse_size("7B"), Ok(7));
        assert_eq!(parse_size("8G"), Ok(8 << 30));
        assert_eq!(parse_size("1GiB"), Ok(1 << 30));
        assert_eq!(parse_size("512 KiB"), Ok(512 << 10));
    }

    #[test]
    fn decimal_units_signs_fractions_and_overflow_are_refused() {
        for text in ["", "G", "iB", "512KB", "8m", "-1", "1.5M", "1é", "99999999999T"] {
            assert!(parse_size(text).is_err(), "{text}");
        }
    }
}
