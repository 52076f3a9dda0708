//! A point in time, in UTC and nothing else: an epoch that is read in the local time zone repeats ids after a move.

use std::fmt;
use std::time::{SystemTime, UNIX_EPOCH};

const MICROS_PER_SECOND: u64 = 1_000_000;
const SECONDS_PER_DAY: u64 = 86_400;

/// Microseconds since 1970-01-01T00:00:00Z, leap seconds not counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(u64);

impl Moment {
    pub const fn from_micros(micros: u64) -> Self {
        Moment(micros)
    }

    pub const fn micros(self) -> u64 {
        self.0
    }
}

/// One before 1970 is 1970.
impl From<SystemTime> for Moment {
    fn from(time: SystemTime) -> Self {
        let since_1970 = time.duration_since(UNIX_EPOCH).unwrap_or_default();
        Moment(u64::try_from(since_1970.as_micros()).unwrap_or(u64::MAX))
    }
}

/// RFC 3339, in milliseconds, or in microseconds where it has such.
impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seconds, micros) = (self.0 / MICROS_PER_SECOND, self.0 % MICROS_PER_SECOND);
        let (days, second) = (seconds / SECONDS_PER_DAY, seconds % SECONDS_PER_DAY);
        let (year, month, day) = civil(days);
        let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.")?;
        match micros % 1000 {
            0 => write!(f, "{:03}Z", micros / 1000),
            _ => write!(f, "{micros:06}Z"),
        }
    }
}

/// Year, month and day of so many days after 1970-01-01 (Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms",
/// `civil_from_days`).
fn civil(days: u64) -> (u64, u64, u64) {
    // Days since 0000-03-01: leap days then come last in their years.
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    (era * 400 + year_of_era + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::Moment;
    use proptest::prelude::*;
    use std::time::{Duration, UNIX_EPOCH};

    #[test]
    fn moments_are_written_in_utc() {
        let check = |micros: u64, expect: &str| assert_eq!(Moment::from_micros(micros).to_string(), expect);
        check(0, "1970-01-01T00:00:00.000Z");
        check(951_782_400_000_000, "2000-02-29T00:00:00.000Z");
        check(951_868_799_999_999, "2000-02-29T23:59:59.999999Z");
        check(1_288_834_974_657_000, "2010-11-04T01:42:54.657Z");
        check(253_402_300_800_000_000, "10000-01-01T00:00:00.000Z");
        check(u64::MAX, "586524-01-19T08:01:49.551615Z");
    }

    proptest! {
        /// The judge knows years up to 9999.
        #[test]
        fn as_another_library_writes_them(micros in 0..253_402_300_800_000_000_u64) {
            let expect = humantime::format_rfc3339_micros(UNIX_EPOCH + Duration::from_micros(micros)).to_string();
            let found = Moment::from_micros(micros).to_string();
            prop_assert_eq!(found.trim_end_matches('Z'), expect.trim_end_matches("000Z").trim_end_matches('Z'));
        }
    }
}
