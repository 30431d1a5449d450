//! Dates as protocols write them: seconds since 1970 as a day of the Gregorian calendar and a time
//! of that day, UTC.

use std::fmt;

const SECONDS_OF_DAY: i64 = 86_400;
/// Days of 400 years: the calendar repeats after them.
const DAYS_OF_ERA: i64 = 146_097;
/// Days from 1 March of the year 0 to 1 January 1970.
const DAYS_BEFORE_1970: i64 = 719_468;
const WEEKDAYS: [&str; 7] = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"];
const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// A second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Date {
    year: i64,
    /// Counted from 1, like the day.
    month: usize,
    day: i64,
    weekday: usize,
    second_of_day: i64,
}

impl Date {
    /// Returns the date `seconds` after the start of 1970.
    pub(crate) fn of(seconds: i64) -> Self {
        let days = seconds.div_euclid(SECONDS_OF_DAY);
        // Years begin in March here, so that the leap day is the last day of the year.
        let shifted = days + DAYS_BEFORE_1970;
        let day_of_era = shifted.rem_euclid(DAYS_OF_ERA);
        let year_of_era =
            (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let from_march = (5 * day_of_year + 2) / 153;
        let day = day_of_year - (153 * from_march + 2) / 5 + 1;
        let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
        let year = year_of_era + shifted.div_euclid(DAYS_OF_ERA) * 400 + i64::from(month <= 2);
        Self {
            year,
            month: month as usize,
            day,
            // 1970 began on a Thursday.
            weekday: (days + 4).rem_euclid(7) as usize,
            second_of_day: seconds.rem_euclid(SECONDS_OF_DAY),
        }
    }

    /// `Sun, 06 Nov 1994 08:49:37 GMT` (RFC 9110 clause 5.6.7).
    pub(crate) fn http(self) -> Written {
        Written(self, Style::Http)
    }

    /// `19941106084937` (RFC 3659 clause 2.3).
    pub(crate) fn ftp(self) -> Written {
        Written(self, Style::Ftp)
    }

    /// `Nov  6  1994`, as `ls -l` writes old files.
    pub(crate) fn list(self) -> Written {
        Written(self, Style::List)
    }

    /// `06-Nov-1994 08:49`, as indexes of web servers write it.
    pub(crate) fn index(self) -> Written {
        Written(self, Style::Index)
    }
}

/// A date as it is written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Written(Date, Style);

#[derive(Clone, Copy, Debug)]
enum Style {
    Http,
    Ftp,
    List,
    Index,
}

impl fmt::Display for Written {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Date { year, month, day, weekday, second_of_day } = self.0;
        let (hour, minute, second) =
            (second_of_day / 3600, second_of_day / 60 % 60, second_of_day % 60);
        let (weekday, name) = (WEEKDAYS[weekday], MONTHS[month - 1]);
        match self.1 {
            Style::Http => write!(
                f,
                "{weekday}, {day:02} {name} {year:04} {hour:02}:{minute:02}:{second:02} GMT"
            ),
            Style::Ftp => write!(f, "{year:04}{month:02}{day:02}{hour:02}{minute:02}{second:02}"),
            Style::List => write!(f, "{name} {day:2}  {year:04}"),
            Style::Index => write!(f, "{day:02}-{name}-{year:04} {hour:02}:{minute:02}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_those_of_the_calendar() {
        // The example of RFC 9110 clause 5.6.7; a leap day; the last second before 1970; date -u -d
        // @4102444800.
        assert_eq!(Date::of(784_111_777).http().to_string(), "Sun, 06 Nov 1994 08:49:37 GMT");
        assert_eq!(Date::of(951_782_400).ftp().to_string(), "20000229000000");
        assert_eq!(Date::of(-1).http().to_string(), "Wed, 31 Dec 1969 23:59:59 GMT");
        assert_eq!(Date::of(4_102_444_800).http().to_string(), "Fri, 01 Jan 2100 00:00:00 GMT");
        assert_eq!(Date::of(784_111_777).list().to_string(), "Nov  6  1994");
        assert_eq!(Date::of(784_111_777).index().to_string(), "06-Nov-1994 08:49");
    }
}
