//! What a sender makes up for that was held up by other programs.

use linerate_model::{Nanos, ProbePhase};

/// Datagrams that a sender may be late and still send. On a busy host it is held up for some
/// milliseconds again and again, and would not reach its rate otherwise.
const MOST: u64 = 64;
/// Time of the ramp in which a late sender makes up for what it missed, and the fewest datagrams. A
/// longer burst overflows a small buffer at any rate, which looks like random loss.
const OF_RAMP: Nanos = Nanos::from_millis(5);
pub(super) const LEAST_OF_RAMP: u64 = 4;
/// Share of its datagrams below which a step does not have its rate: its sender was held up.
const REACHED: f64 = 0.8;

/// Returns the most datagrams that a sender makes up for, whose datagrams are due every `gap` ns.
pub(super) fn most(is_ramp: bool, gap: f64) -> u64 {
    match is_ramp {
        true => ((OF_RAMP.0 as f64 / gap) as u64).clamp(LEAST_OF_RAMP, MOST),
        false => MOST,
    }
}

/// Returns true if the sender was held up so long that `step`, whose datagrams were due every `gap`
/// ns, did not have its rate. The few datagrams of such a step wait for CPUs of busy hosts, which
/// looks like a queue.
pub(super) fn fell_behind(step: &ProbePhase, gap: f64) -> bool {
    let due = step.until.since(step.from).0 as f64 / gap;
    (step.n as f64) < REACHED * due
}
