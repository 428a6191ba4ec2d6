//! Times as logs write them, as nanoseconds since 1970.
//!
//! Read: `10/Oct/2000:13:55:36 -0700` (NCSA), `2000-10-10T20:55:36.5Z` and with an offset (RFC 3339), and seconds since
//! 1970 with a fraction. Leap seconds count as the second after.

use lamna_proto::date::days_since_epoch;

const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// The time of the common and combined formats, without the brackets.
pub(super) fn read_ncsa(text: &str) -> Option<i128> {
    let (time, zone) = text.split_once(' ')?;
    let mut parts = time.split(['/', ':']);
    let day = number(parts.next()?)?;
    let name = parts.next()?;
    let month = MONTHS.iter().position(|month| month.eq_ignore_ascii_case(name))? as i64 + 1;
    let year = number(parts.next()?)?;
    let clock = [parts.next()?, parts.next()?, parts.next()?];
    let seconds = seconds_of(year, month, day, clock.map(number))?;
    (parts.next().is_none()).then_some(())?;
    Some(i128::from(seconds - offset(zone)?) * 1_000_000_000)
}

/// RFC 3339, also with a space in place of the T and an offset without its colon.
pub(super) fn read_rfc3339(text: &str) -> Option<i128> {
    let (date, rest) = (text.get(..10)?, text.get(11..)?);
    let mut date = date.split('-').map(number);
    let (year, month, day) = (date.next()??, date.next()??, date.next()??);
    let zone_at = rest.find(['Z', 'z', '+', '-'])?;
    let (clock, zone) = rest.split_at(zone_at);
    let (whole, fraction) = clock.split_once('.').unwrap_or((clock, "0"));
    let mut clock = whole.split(':');
    let clock = [clock.next()?, clock.next()?, clock.next()?];
    let seconds = seconds_of(year, month, day, clock.map(number))?;
    let zone = if zone.eq_ignore_ascii_case("z") { 0 } else { offset(zone)? };
    Some(i128::from(seconds - zone) * 1_000_000_000 + i128::from(nanoseconds(fraction)?))
}

/// Seconds since 1970 as a number.
pub(super) fn from_unix(seconds: f64) -> Option<i128> {
    (seconds.is_finite() && seconds.abs() < 1e12).then_some((seconds * 1e9) as i128)
}

fn nanoseconds(fraction: &str) -> Option<u32> {
    if fraction.is_empty() || !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let digits = fraction.bytes().chain(std::iter::repeat(b'0')).take(9);
    Some(digits.fold(0, |number, digit| number * 10 + u32::from(digit - b'0')))
}

fn seconds_of(year: i64, month: i64, day: i64, clock: [Option<i64>; 3]) -> Option<i64> {
    let [hour, minute, second] = clock;
    let (hour, minute, second) = (hour?, minute?, second?);
    let valid = (1..=12).contains(&month) && (1..=31).contains(&day) && hour < 24 && minute < 60 && second <= 60;
    (valid && year < 10_000).then(|| days_since_epoch(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second)
}

/// `+0130`, `+01:30`, in seconds.
fn offset(zone: &str) -> Option<i64> {
    let (sign, digits) = match zone.split_at_checked(1)? {
        ("+", digits) => (1, digits),
        ("-", digits) => (-1, digits),
        _ => return None,
    };
    let hours = number(digits.get(..2)?)?;
    let minutes = number(digits.get(2..)?.trim_start_matches(':'))?;
    (hours < 24 && minutes < 60).then_some(sign * (hours * 3600 + minutes * 60))
}

/// One to four digits.
fn number(text: &str) -> Option<i64> {
    (text.len() <= 4 && text.bytes().all(|byte| byte.is_ascii_digit())).then_some(())?;
    text.parse().ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn known_times_are_read() {
        assert_eq!(read_ncsa("10/Oct/2000:13:55:36 -0700"), Some(971_211_336_000_000_000));
        assert_eq!(read_ncsa("01/Jan/1970:00:00:00 +0000"), Some(0));
        assert_eq!(read_ncsa("29/Feb/2024:12:00:00 +0530"), Some(1_709_188_200_000_000_000));
        assert_eq!(read_rfc3339("2000-10-10T20:55:36.5Z"), Some(971_211_336_500_000_000));
        assert_eq!(read_rfc3339("2000-10-10 13:55:36-07:00"), Some(971_211_336_000_000_000));
        assert_eq!(from_unix(1.5), Some(1_500_000_000));
    }

    #[test]
    fn what_is_no_time_is_refused() {
        for text in
            ["", "10/Oct/2000:13:55:36", "10/Foo/2000:13:55:36 +0000", "10/Oct/2000:25:55:36 +0000", "1/2/3:4 +"]
        {
            assert_eq!(read_ncsa(text), None, "{text}");
        }
        for text in ["", "2000-10-10", "2000-13-10T20:55:36Z", "2000-10-10T20:55:36", "2000-10-10T20:55:36.Z"] {
            assert_eq!(read_rfc3339(text), None, "{text}");
        }
        assert_eq!(from_unix(f64::NAN), None);
    }

    proptest! {
        #[test]
        fn no_text_is_a_panic(text in ".{0,40}") {
            _ = (read_ncsa(&text), read_rfc3339(&text));
        }

        #[test]
        fn both_notations_mean_the_same(
            year in 1900_i64..2100, month in 1_usize..13, day in 1_u8..29, hour in 0_u8..24, minute in 0_u8..60,
        ) {
            let rfc3339 = format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:07Z");
            let ncsa = format!("{day:02}/{}/{year:04}:{hour:02}:{minute:02}:07 +0000", MONTHS[month - 1]);
            prop_assert_eq!(read_rfc3339(&rfc3339), read_ncsa(&ncsa));
            prop_assert!(read_ncsa(&ncsa).is_some());
        }
    }
}
