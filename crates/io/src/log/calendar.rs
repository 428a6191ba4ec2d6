//! Calendar dates in UTC from seconds since the epoch.
//!
//! Owns: the arithmetic of the proleptic Gregorian calendar, without leap seconds, as POSIX defines the epoch, and the
//! RFC 3339 form. HTTP dates are the protocol's business; what time it is, is the caller's.

use lamna_proto::date::days_since_epoch;

/// The last second that has a year of four digits: 9999-12-31 23:59:59.
const UNIX_SECONDS_MAX: u64 = 253_402_300_799;

/// Days from 0000-03-01 to 1970-01-01. Counting from a March puts the leap day at the end of the year.
const DAYS_BEFORE_EPOCH: u64 = 719_468;

const DAYS_PER_ERA: u64 = 146_097;

/// A date and a time of day in UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Calendar {
    /// 1970 to 9999.
    pub year: u16,
    /// 1 to 12.
    pub month: u8,
    /// 1 to 31.
    pub day: u8,
    /// 0 to 23.
    pub hour: u8,
    /// 0 to 59.
    pub minute: u8,
    /// 0 to 59.
    pub second: u8,
}

impl Calendar {
    /// The date of this second. Instants after the year 9999 are taken for its last second.
    pub fn from_unix_seconds(unix_seconds: u64) -> Calendar {
        let seconds = unix_seconds.min(UNIX_SECONDS_MAX);
        let (year, month, day) = date_of_day(seconds / 86_400);
        let second_of_day = seconds % 86_400;
        Calendar {
            year,
            month,
            day,
            hour: (second_of_day / 3600) as u8,
            minute: (second_of_day / 60 % 60) as u8,
            second: (second_of_day % 60) as u8,
        }
    }

    /// RFC 3339 5.6: `2026-11-21T04:00:00Z`, always in ASCII.
    pub fn rfc3339(&self) -> [u8; 20] {
        let mut text = *b"0000-00-00T00:00:00Z";
        put_four_digits(&mut text[0..4], self.year);
        put_two_digits(&mut text[5..7], self.month);
        put_two_digits(&mut text[8..10], self.day);
        put_two_digits(&mut text[11..13], self.hour);
        put_two_digits(&mut text[14..16], self.minute);
        put_two_digits(&mut text[17..19], self.second);
        text
    }
}

/// The minute of a second since the epoch, as in `2026-11-21 04:00 UTC`.
pub fn minute(unix_seconds: u64) -> String {
    let Calendar { year, month, day, hour, minute, .. } = Calendar::from_unix_seconds(unix_seconds);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02} UTC")
}

/// The second of a date (year, month, day) and a time of day (hour, minute, second) in UTC. None if there is no such
/// day, or it is before 1970.
pub(crate) fn unix_seconds_of(date: (u64, u64, u64), time: (u64, u64, u64)) -> Option<u64> {
    let (year, month, day) = date;
    if !(1970..=9999).contains(&year) || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    let days = u64::try_from(days_since_epoch(year as i64, month as i64, day as i64)).ok()?;
    let is_a_day = date_of_day(days) == (year as u16, month as u8, day as u8);
    is_a_day.then(|| days * 86_400 + time.0 * 3600 + time.1 * 60 + time.2)
}

/// Writes a number below 100 as two digits into the first two bytes.
pub(crate) fn put_two_digits(text: &mut [u8], number: u8) {
    text[0] = b'0' + number / 10 % 10;
    text[1] = b'0' + number % 10;
}

/// Writes a number below 10,000 as four digits into the first four bytes.
pub(crate) fn put_four_digits(text: &mut [u8], number: u16) {
    put_two_digits(&mut text[0..2], (number / 100) as u8);
    put_two_digits(&mut text[2..4], (number % 100) as u8);
}

/// Year, month and day of a day counted from the epoch. An era is the 400 years after which the calendar repeats.
fn date_of_day(days_since_epoch: u64) -> (u16, u8, u8) {
    let days = days_since_epoch + DAYS_BEFORE_EPOCH;
    let (era, day_of_era) = (days / DAYS_PER_ERA, days % DAYS_PER_ERA);
    let leap_corrected = day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096;
    let year_of_era = leap_corrected / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    // From March on, lengths of months repeat as 31, 30, 31, 30, 31: 153 days for five months.
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    (year as u16, month as u8, day as u8)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn rfc3339(unix_seconds: u64) -> String {
        String::from_utf8(Calendar::from_unix_seconds(unix_seconds).rfc3339().to_vec()).expect("ASCII")
    }

    proptest! {
        #[test]
        fn every_second_is_found_again_by_its_date(unix_seconds in 0..=UNIX_SECONDS_MAX) {
            let Calendar { year, month, day, hour, minute, second } = Calendar::from_unix_seconds(unix_seconds);
            let date = (u64::from(year), u64::from(month), u64::from(day));
            let time = (u64::from(hour), u64::from(minute), u64::from(second));
            prop_assert_eq!(unix_seconds_of(date, time), Some(unix_seconds));
        }
    }

    #[test]
    fn there_are_no_seconds_of_days_that_are_not() {
        for date in [(2026, 2, 29), (2026, 0, 1), (2026, 13, 1), (2026, 4, 31), (2026, 1, 0), (1969, 12, 31)] {
            assert_eq!(unix_seconds_of(date, (0, 0, 0)), None, "{date:?}");
        }
    }

    #[test]
    fn known_instants_have_their_dates() {
        assert_eq!(rfc3339(0), "1970-01-01T00:00:00Z");
        assert_eq!(rfc3339(951_782_400), "2000-02-29T00:00:00Z");
        assert_eq!(rfc3339(1_000_000_000), "2001-09-09T01:46:40Z");
        assert_eq!(rfc3339(1_795_233_600), "2026-11-21T04:00:00Z");
        assert_eq!(rfc3339(4_107_542_399), "2100-02-28T23:59:59Z");
        assert_eq!(rfc3339(4_107_542_400), "2100-03-01T00:00:00Z");
    }

    #[test]
    fn the_far_future_is_the_end_of_the_year_9999() {
        assert_eq!(rfc3339(UNIX_SECONDS_MAX), "9999-12-31T23:59:59Z");
        assert_eq!(rfc3339(u64::MAX), "9999-12-31T23:59:59Z");
    }

    proptest! {
        #[test]
        fn later_instants_have_later_dates(first in 0..UNIX_SECONDS_MAX, step in 1..10_000_000_u64) {
            prop_assert!(rfc3339(first) < rfc3339((first + step).min(UNIX_SECONDS_MAX)));
        }

        #[test]
        fn fields_stay_in_their_ranges(unix_seconds in 0..=UNIX_SECONDS_MAX) {
            let date = Calendar::from_unix_seconds(unix_seconds);
            prop_assert!((1970..=9999).contains(&date.year) && (1..=12).contains(&date.month));
            prop_assert!((1..=31).contains(&date.day) && date.hour < 24 && date.minute < 60 && date.second < 60);
        }
    }
}
