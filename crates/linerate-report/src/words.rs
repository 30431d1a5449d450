//! Words that several sections use: dates, counts, kinds of path.

use linerate_model::{Nanos, TestbedKind};

use crate::document::{EMULATED, Origin};

/// `1 point`, `60 points`.
#[must_use]
pub(crate) fn count(n: usize, thing: &str) -> String {
    if n == 1 { format!("1 {thing}") } else { format!("{n} {thing}s") }
}

/// Wall clock in UTC, to the minute.
#[must_use]
pub(crate) fn date(at: Nanos) -> String {
    stamp(at, "%Y-%m-%d %H:%M UTC")
}

/// Wall clock in UTC as RFC 3339, to the second.
#[must_use]
pub(crate) fn rfc3339(at: Nanos) -> String {
    stamp(at, "%Y-%m-%dT%H:%M:%SZ")
}

fn stamp(at: Nanos, form: &str) -> String {
    jiff::Timestamp::from_nanosecond(i128::from(at.0))
        .map_or_else(|_| format!("{} ns after 1970", at.0), |stamp| stamp.strftime(form).to_string())
}

/// What kind of path, for running text.
#[must_use]
pub(crate) const fn testbed_words(kind: TestbedKind) -> &'static str {
    match kind {
        TestbedKind::Lab => "on an emulated path between network namespaces of one kernel",
        TestbedKind::Hosts => "on the path between hosts",
        TestbedKind::Loopback => "on one host's loopback",
    }
}

/// Where figures come from, as a label; of trials the kind of path.
#[must_use]
pub(crate) const fn origin_label(origin: Origin) -> &'static str {
    match origin {
        Origin::Measured(TestbedKind::Lab) => EMULATED,
        Origin::Measured(TestbedKind::Hosts) => "hosts",
        Origin::Measured(TestbedKind::Loopback) => "loopback",
        Origin::Computed => "computed",
        Origin::Read => "read",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_told_in_utc() {
        assert_eq!(rfc3339(Nanos(1_795_219_500_000_000_000)), "2026-11-21T00:05:00Z");
        assert_eq!(date(Nanos(0)), "1970-01-01 00:00 UTC");
    }
}
