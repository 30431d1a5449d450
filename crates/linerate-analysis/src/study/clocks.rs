//! One-way times between two clocks: times recorded by receivers, corrected with clock readings
//! from before, during and after.
//!
//! A receiver whose sender has another clock gets an estimate of the offset before the trial, and
//! adds a constant to each time so that none is negative. Afterwards more is known: a line through
//! the exchanges of the trial, and at least those before and after it. The times of each interval
//! are moved by the difference between the line at the middle of the interval and the estimate that
//! the receiver had. The remaining uncertainty is the sum of four parts: for each host half of the
//! shortest round trip and the largest distance from the line, the possible drift of the clock
//! outside the exchanges, and the drift within an interval. Not covered: a lasting asymmetry of the
//! control path within that bound, and a drift that bends between two exchanges.

use linerate_model::{
    ClockExchange, Distribution, Interval, Nanos, Side, ToldClock, TrialClocks, TrialRecord,
};

use crate::statistics::{Course, Offset, course, exchange};

/// Possible drift of a clock outside the exchanges: an undisciplined quartz on a board (as a
/// fraction).
const UNKNOWN_DRIFT: f64 = 50e-6;
/// Exchanges with a bound above this multiple of the best one are not used, because they add more
/// uncertainty than they remove.
const GOOD: f64 = 2.0;

/// Correction of the times of one end.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Correction {
    told: ToldClock,
    /// The barrier by the conductor's clock, ns.
    barrier: f64,
    own: Course,
    other: Course,
    /// Uncertainty of a corrected time, ns.
    uncertainty: f64,
}

/// Returns the corrections of both ends of job `number`: none for an end that shares the other's
/// clock.
pub(super) fn corrections(trial: &TrialRecord, number: usize) -> [Option<Correction>; 2] {
    [Side::Active, Side::Passive].map(|side| correction(trial, number, side))
}

fn correction(trial: &TrialRecord, number: usize, side: Side) -> Option<Correction> {
    let clocks = &trial.clocks;
    // Ends that share a clock received no offset and need no correction.
    let told = *clocks.told.iter().find(|told| told.job as usize == number && told.side == side)?;
    let spec = trial.spec.jobs.get(number)?;
    let (own, other) = match side {
        Side::Active => (&spec.from.host, &spec.to.host),
        Side::Passive => (&spec.to.host, &spec.from.host),
    };
    let barrier = clocks.barrier_ns as f64;
    // Datagrams in flight arrive during the drain and carry times as well.
    let until = barrier + (trial.spec.phases.loaded().0 + trial.spec.phases.drain.0) as f64;
    let (own, own_doubt) = course_of(clocks, own, barrier, until);
    let (other, other_doubt) = course_of(clocks, other, barrier, until);
    /// Parts per billion in one.
    const BILLION: f64 = 1e9;
    // The receiver already moved its times by the rate that it knew. Only the unknown part smears
    // an interval.
    let unknown_gain = (other.skew - own.skew - told.peer.gains_ppb as f64 / BILLION).abs();
    let smear = unknown_gain * trial.spec.phases.interval.0 as f64 / 2.0;
    Some(Correction { told, barrier, own, other, uncertainty: own_doubt + other_doubt + smear })
}

impl Correction {
    /// Returns the uncertainty of a corrected time, ns; infinite if a clock was not read.
    pub(super) fn uncertainty(&self) -> f64 {
        self.uncertainty
    }

    /// `times` of `interval`, set right.
    pub(super) fn apply(&self, times: &Distribution, interval: &Interval) -> Distribution {
        times.moved(self.shift(interval))
    }

    fn shift(&self, interval: &Interval) -> i64 {
        let middle = interval.start.0 + interval.end.since(interval.start).0 / 2;
        let at = self.barrier + middle as f64;
        // Offsets are as large as uptimes; their difference is not.
        let known = self.other.offset_at(at) - self.own.offset_at(at);
        let told = self.told.peer.ahead(self.told.barrier_ns + middle);
        known.round() as i64 - told - self.told.peer.added_ns as i64
    }
}

/// Returns the course of `host`'s clock during a trial that lasted from `from` to `until`, and how
/// far it may be off; a host without readings has the conductor's clock.
fn course_of(clocks: &TrialClocks, host: &str, from: f64, until: f64) -> (Course, f64) {
    let same = Course { at: from, offset: 0.0, skew: 0.0, residual: 0.0, bound: 0.0, n: 0 };
    let Some(read) = clocks.hosts.iter().find(|clock| clock.host == host) else {
        return (same, 0.0);
    };
    let kept = kept(&read.exchanges, from, until);
    let (Some(line), Some(first), Some(last)) = (course(&kept), kept.first(), kept.last()) else {
        return (same, f64::INFINITY);
    };
    // Beyond the outermost exchanges the line is a guess, and the clock may drift by as much as an
    // undisciplined one.
    let outside = (first.at - from).max(0.0) + (until - last.at).max(0.0);
    (line, line.uncertainty() + outside * UNKNOWN_DRIFT)
}

/// Returns the exchanges a line is drawn through: the best before and the best after, and those
/// during the trial that are as good.
fn kept(made: &[ClockExchange], from: f64, until: f64) -> Vec<Offset> {
    let offsets: Vec<Offset> = made
        .iter()
        .filter_map(|one| exchange(one.sent, one.arrived, one.answered, one.heard))
        .collect();
    // One exchange on each side is kept even if it is poor: without it the line would end inside
    // the trial.
    let (before, after) =
        (best(&offsets, |one| one.at < from), best(&offsets, |one| one.at > until));
    let least = best(&offsets, |_| true).map_or(0.0, |one| one.uncertainty);
    let during = offsets
        .iter()
        .copied()
        .filter(|one| (from..=until).contains(&one.at) && one.uncertainty <= GOOD * least);
    let mut kept: Vec<Offset> = before.into_iter().chain(during).chain(after).collect();
    kept.sort_by(|a, b| a.at.total_cmp(&b.at));
    kept
}

/// Returns the most certain of those of `offsets` that are wanted.
fn best(offsets: &[Offset], is_wanted: impl Fn(&Offset) -> bool) -> Option<Offset> {
    let wanted = offsets.iter().copied().filter(is_wanted);
    wanted.min_by(|a, b| a.uncertainty.total_cmp(&b.uncertainty))
}

/// Returns the course of `host`'s clock over a whole campaign, through the best exchange of each
/// trial; `None` if it was not read. For reports: a single trial is corrected with its own
/// exchanges.
#[must_use]
pub fn clock_course<'a>(
    trials: impl IntoIterator<Item = &'a TrialRecord>,
    host: &str,
) -> Option<Course> {
    let best = trials.into_iter().filter_map(|trial| best_of(trial, host));
    course(&best.collect::<Vec<_>>())
}

/// Returns the most certain offset of `host` in `trial`.
fn best_of(trial: &TrialRecord, host: &str) -> Option<Offset> {
    let read = trial.clocks.hosts.iter().find(|clock| clock.host == host)?;
    let until = trial.clocks.barrier_ns as f64 + Nanos(trial.spec.phases.loaded().0).0 as f64;
    best(&kept(&read.exchanges, trial.clocks.barrier_ns as f64, until), |_| true)
}
