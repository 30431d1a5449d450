//! Counters of a port: readings, and sums since an observation began. 32-bit counters continue
//! beyond their wrap, and counters that restarted are distinguished from those that wrapped.

use linerate_model::series::observer;

/// Number of counters of a port: every column but the resets, which follow from them.
pub(super) const N_COUNTERS: usize = observer::ALL.len() - 1;

/// How wide a counter is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Width {
    /// It wraps at 2^32.
    Narrow,
    /// It does not wrap within a lifetime.
    Wide,
}

/// A counter's value and how wide it is, if it is counted.
type Value = Option<(u64, Width)>;

/// One reading of a port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    /// In the order of [`observer::ALL`]; `None` where the observer does not count it.
    pub(super) values: [Value; N_COUNTERS],
    /// Time since the observer began, hundredths of a second; it wraps after 497 days.
    pub(super) uptime: Option<u32>,
    /// That time when the counters last began anew.
    pub(super) discontinuity: Option<u32>,
}

/// Sums of the readings.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Progress {
    last: Option<Counts>,
    sums: [u64; N_COUNTERS],
    resets: u64,
}

/// A time since the beginning that falls by less than this has wrapped.
const UPTIME_WRAP: u32 = u32::MAX / 2;

impl Progress {
    /// Takes a reading: what each counter has grown by since the first one, and how often they
    /// began anew.
    pub(super) fn advance(&mut self, now: &Counts) -> ([Option<u64>; N_COUNTERS], u64) {
        let began_anew = self.last.is_some_and(|last| began_anew(&last, now));
        self.resets += u64::from(began_anew);
        let mut grown = [None; N_COUNTERS];
        for (index, cell) in grown.iter_mut().enumerate() {
            let Some((value, width)) = now.values[index] else { continue };
            let before = self
                .last
                .and_then(|last| last.values[index])
                // A counter that changed its width is another counter: the difference would mean
                // nothing.
                .filter(|(_, before)| *before == width);
            self.sums[index] += match before {
                // What was counted before the reset is lost, what came after it is not.
                _ if began_anew => value,
                None => 0,
                Some((before, Width::Narrow)) => {
                    u64::from((value as u32).wrapping_sub(before as u32))
                }
                // A wide counter that falls without a restart is a fault of the agent. It adds
                // nothing.
                Some((before, Width::Wide)) => value.saturating_sub(before),
            };
            *cell = Some(self.sums[index]);
        }
        // A counter that is missing this time continues from its last value.
        let mut kept = *now;
        if let Some(last) = self.last.filter(|_| !began_anew) {
            for (value, before) in kept.values.iter_mut().zip(last.values) {
                *value = value.or(before);
            }
        }
        self.last = Some(kept);
        (grown, self.resets)
    }
}

fn began_anew(last: &Counts, now: &Counts) -> bool {
    fn fell((before, after): (&Value, &Value)) -> bool {
        matches!((before, after),
        // A 32-bit counter that falls has wrapped; only a 64-bit one proves a restart.
        (Some((before, Width::Wide)), Some((after, Width::Wide))) if after < before)
    }
    let restarted = matches!((last.uptime, now.uptime),
        // An uptime that falls by much has wrapped after 497 days.
        (Some(before), Some(after)) if after < before && before - after < UPTIME_WRAP);
    let broken = last.discontinuity.is_some()
        && now.discontinuity.is_some()
        && last.discontinuity != now.discontinuity;
    restarted || broken || last.values.iter().zip(&now.values).any(fell)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(octets: u64, width: Width, uptime: u32) -> Counts {
        let mut counts =
            Counts { uptime: Some(uptime), discontinuity: Some(0), ..Counts::default() };
        counts.values[0] = Some((octets, width));
        counts
    }

    #[test]
    fn a_narrow_counter_goes_on_beyond_its_wrap() {
        let mut progress = Progress::default();
        assert_eq!(
            progress.advance(&counts(u64::from(u32::MAX) - 9, Width::Narrow, 100)).0[0],
            Some(0)
        );
        assert_eq!(
            progress.advance(&counts(90, Width::Narrow, 200)),
            ([Some(100), None, None, None, None, None, None, None], 0)
        );
    }

    #[test]
    fn counters_that_begin_anew_are_told_from_those_that_wrap() {
        let mut progress = Progress::default();
        progress.advance(&counts(5_000, Width::Narrow, 900));
        let (grown, resets) = progress.advance(&counts(40, Width::Narrow, 3));
        assert_eq!((grown[0], resets), (Some(40), 1), "the agent restarted");
        let mut broken = counts(10, Width::Narrow, 104);
        broken.discontinuity = Some(103);
        assert_eq!(progress.advance(&broken).1, 2, "the agent says so");
        let mut wide = Progress::default();
        wide.advance(&counts(5_000, Width::Wide, 100));
        assert_eq!(wide.advance(&counts(4_999, Width::Wide, 200)).1, 1, "no wide counter wraps");
    }

    #[test]
    fn the_time_since_the_beginning_may_wrap_too() {
        let mut progress = Progress::default();
        progress.advance(&counts(5, Width::Wide, u32::MAX - 10));
        assert_eq!(
            progress.advance(&counts(9, Width::Wide, 90)),
            ([Some(4), None, None, None, None, None, None, None], 0)
        );
    }

    #[test]
    fn a_counter_that_was_not_told_once_goes_on() {
        let mut progress = Progress::default();
        progress.advance(&counts(100, Width::Wide, 100));
        let silent = Counts { uptime: Some(150), ..Counts::default() };
        assert_eq!(progress.advance(&silent).0[0], None);
        assert_eq!(progress.advance(&counts(160, Width::Wide, 200)).0[0], Some(60));
    }
}
