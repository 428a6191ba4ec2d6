//! HTTP dates (RFC 9110 5.6.7): from and to seconds since 1970-01-01 00:00:00 UTC.
//!
//! Owns: the two conversions, what happens at the edges of the calendar, and the number of a day for dates in other
//! notations. Does not know the time. The calendar of HTTP dates is the `httpdate` crate's.

use std::io::Write;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Bytes of a date in the preferred format, such as `Sun, 06 Nov 1994 08:49:37 GMT`.
pub const DATE_BYTES: usize = 29;

/// Bytes of the longest date, such as `Wednesday, 09-Nov-94 08:49:37 GMT`.
const DATE_BYTES_MAX: usize = 33;

/// The last second that four digits of a year can name: 9999-12-31 23:59:59.
const UNIX_SECONDS_MAX: u64 = 253_402_300_799;

/// The date in the preferred format, IMF-fixdate. Later instants than the end of the year 9999 are given as that.
pub fn format(unix_seconds: u64) -> [u8; DATE_BYTES] {
    let since_epoch = Duration::from_secs(unix_seconds.min(UNIX_SECONDS_MAX));
    let mut text = [b' '; DATE_BYTES];
    // IMF-fixdate has a fixed length, and it is the length of the array.
    write!(&mut text[..], "{}", httpdate::HttpDate::from(UNIX_EPOCH + since_epoch))
        .expect("an IMF-fixdate is 29 bytes long");
    text
}

/// Seconds since 1970 of a date in any of the three formats that a recipient must accept: IMF-fixdate, the obsolete
/// RFC 850 format, and that of `asctime`. `None` for anything else, for days that the calendar does not have or that
/// have another day name, for leap seconds, and for dates before 1970, which no file of ours carries.
///
/// Years of two digits are taken to be 1970 to 2069. The specification's sliding window of 50 years would need the
/// present time, and differs by years that no client of the obsolete format has a reason to send.
pub fn parse(field: &[u8]) -> Option<u64> {
    let date: httpdate::HttpDate = std::str::from_utf8(field).ok()?.parse().ok()?;
    let since_epoch = SystemTime::from(date).duration_since(UNIX_EPOCH).ok()?;
    Some(since_epoch.as_secs())
}

/// As [`parse`], and in any case: the formats are case-sensitive (RFC 9110 5.6.7), and a cache is to read them as if
/// they were not (RFC 9111 4.2).
pub fn parse_any_case(field: &[u8]) -> Option<u64> {
    let mut text = [0; DATE_BYTES_MAX];
    let text = text.get_mut(..field.len())?;
    let mut in_word = false;
    for (to, &from) in text.iter_mut().zip(field) {
        *to = if in_word { from.to_ascii_lowercase() } else { from.to_ascii_uppercase() };
        in_word = from.is_ascii_alphabetic();
    }
    if let Some(zone) = text.last_chunk_mut::<3>().filter(|zone| *zone == b"Gmt") {
        *zone = *b"GMT";
    }
    parse(text)
}

/// Days since 1970-01-01 of a date in the Gregorian calendar, which goes on before its first day. `month` is 1 to 12.
pub fn days_since_epoch(year: i64, month: i64, day: i64) -> i64 {
    // Years begin in March: the leap day is the last one, and five months have 153 days.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let leap_days = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    year * 365 + leap_days + (153 * month + 2) / 5 + day - 1 - DAYS_BEFORE_EPOCH
}

/// Days from 0000-03-01 to 1970-01-01.
const DAYS_BEFORE_EPOCH: i64 = 719_468;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    // The three examples of RFC 9110 5.6.7 name the same instant.
    const EXAMPLE: u64 = 784_111_777;

    #[test]
    fn the_preferred_format_is_written() {
        assert_eq!(&format(EXAMPLE), b"Sun, 06 Nov 1994 08:49:37 GMT");
        assert_eq!(&format(0), b"Thu, 01 Jan 1970 00:00:00 GMT");
    }

    #[test]
    fn all_three_formats_are_read() {
        assert_eq!(parse(b"Sun, 06 Nov 1994 08:49:37 GMT"), Some(EXAMPLE));
        assert_eq!(parse(b"Sunday, 06-Nov-94 08:49:37 GMT"), Some(EXAMPLE));
        assert_eq!(parse(b"Sun Nov  6 08:49:37 1994"), Some(EXAMPLE));
    }

    #[test]
    fn caches_read_dates_in_any_case() {
        for field in ["SUN, 06 nov 1994 08:49:37 gmt", "sunday, 06-NOV-94 08:49:37 Gmt", "sun nov  6 08:49:37 1994"] {
            assert_eq!((parse(field.as_bytes()), parse_any_case(field.as_bytes())), (None, Some(EXAMPLE)), "{field}");
        }
        assert_eq!(parse_any_case(b"Wednesday, 09-Nov-94 08:49:37 GMT"), Some(EXAMPLE + 3 * 86_400));
        for field in ["", "0", "SUN, 06 NOV 1994 08:49:37 CET", "Wednesday, 09-Nov-1994 08:49:37 GMT"] {
            assert_eq!(parse_any_case(field.as_bytes()), None, "{field}");
        }
    }

    #[test]
    fn instants_after_the_year_9999_are_given_as_its_end() {
        assert_eq!(&format(u64::MAX), b"Fri, 31 Dec 9999 23:59:59 GMT");
        assert_eq!(format(UNIX_SECONDS_MAX + 1), format(UNIX_SECONDS_MAX));
        assert_eq!(parse(&format(u64::MAX)), Some(UNIX_SECONDS_MAX));
    }

    #[test]
    fn what_is_not_a_date_is_none() {
        let refused: [&[u8]; 11] = [
            b"",
            b"0",
            b"Sun, 06 Nov 1994 08:49:37 CET",
            b"Sun, 6 Nov 1994 08:49:37 GMT",
            b"Mon, 06 Nov 1994 08:49:37 GMT",
            b"Sun, 31 Feb 1994 08:49:37 GMT",
            b"Sun, 06 Nov 1994 24:00:00 GMT",
            b"Wed, 31 Dec 1969 23:59:59 GMT",
            b"Sat Jan  1 00:00:00 0000",
            b"Sun, 06 Nov 1994 08:49:37 GMT, Sun, 06 Nov 1994 08:49:37 GMT",
            b"\xff\xfe",
        ];
        for field in refused {
            assert_eq!(parse(field), None, "{}", field.escape_ascii());
        }
    }

    #[test]
    fn days_are_those_of_the_calendar() {
        for (date, expected) in
            [((1970, 1, 1), 0), ((1969, 12, 31), -1), ((2000, 2, 29), 11_016), ((2026, 11, 23), 20_780)]
        {
            assert_eq!(days_since_epoch(date.0, date.1, date.2), expected, "{date:?}");
        }
    }

    proptest! {
        #[test]
        fn a_day_later_is_a_day_more(day in 1_i64..28, month in 1_i64..13, year in -400_i64..2400) {
            prop_assert_eq!(days_since_epoch(year, month, day + 1), days_since_epoch(year, month, day) + 1);
        }

        #[test]
        fn what_is_written_is_read_back(unix_seconds in 0..=UNIX_SECONDS_MAX) {
            prop_assert_eq!(parse(&format(unix_seconds)), Some(unix_seconds));
        }

        #[test]
        fn any_bytes_can_be_read(field: Vec<u8>) {
            let _ = (parse(&field), parse_any_case(&field));
        }

        #[test]
        fn a_damaged_date_never_panics(at in 0..DATE_BYTES, byte: u8, form in 0..3_usize) {
            let mut field = [
                &b"Sun, 06 Nov 1994 08:49:37 GMT"[..],
                b"Sunday, 06-Nov-94 08:49:37 GMT",
                b"Sun Nov  6 08:49:37 1994     ",
            ][form].to_vec();
            field[at] = byte;
            if let Some(unix_seconds) = parse(&field) {
                prop_assert!(unix_seconds <= UNIX_SECONDS_MAX);
            }
        }
    }
}
