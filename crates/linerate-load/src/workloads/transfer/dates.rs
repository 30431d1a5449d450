//! Dates as protocols write them, UTC.

use std::fmt::Display;

use jiff::Timestamp;

/// A second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Date(Timestamp);

impl Date {
    /// Returns the date `seconds` after the start of 1970, or the nearest one whose year has four
    /// digits.
    pub(crate) fn of(seconds: i64) -> Self {
        let nearest = seconds.clamp(Timestamp::MIN.as_second(), Timestamp::MAX.as_second());
        Self(Timestamp::from_second(nearest).expect("the range of timestamps"))
    }

    /// `Sun, 06 Nov 1994 08:49:37 GMT` (RFC 9110 clause 5.6.7).
    pub(crate) fn http(self) -> impl Display {
        self.0.strftime("%a, %d %b %Y %H:%M:%S GMT")
    }

    /// `19941106084937` (RFC 3659 clause 2.3).
    pub(crate) fn ftp(self) -> impl Display {
        self.0.strftime("%Y%m%d%H%M%S")
    }

    /// `Nov  6  1994`, as `ls -l` writes old files.
    pub(crate) fn list(self) -> impl Display {
        self.0.strftime("%b %e  %Y")
    }

    /// `06-Nov-1994 08:49`, as indexes of web servers write it.
    pub(crate) fn index(self) -> impl Display {
        self.0.strftime("%d-%b-%Y %H:%M")
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
        assert_eq!(Date::of(i64::MAX).ftp().to_string(), "99991230220000");
        assert_eq!(Date::of(784_111_777).list().to_string(), "Nov  6  1994");
        assert_eq!(Date::of(784_111_777).index().to_string(), "06-Nov-1994 08:49");
    }
}
