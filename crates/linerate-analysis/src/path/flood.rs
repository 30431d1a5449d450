//! Sustained rate, queue and token bucket from a flood above the capacity.
//!
//! A sender on a busy host is held up now and then, and the queue runs empty meanwhile. The rate is
//! therefore taken only between datagrams that both waited, or where datagrams are dropped, and the
//! depth of the queue only where a datagram was just dropped.

use super::datagrams::{Datagram, Phase};
use crate::statistics::{MeanInterval, estimate, quantile};

/// Blocks of an interval.
const BLOCKS: usize = 20;
/// Fewest datagrams that make a flood, and fewest steps that have a rate.
const FEWEST: usize = 30;
/// The same of a path so slow that a flood has fewer arrivals. Each takes tens of milliseconds
/// there, more than a busy host adds.
const FEWEST_OF_SLOW: usize = 8;
/// Delay that may be a queue, s. Forwarding on a busy host delays most datagrams by less.
const QUEUE_DELAY_S: f64 = 0.000_5;
/// Packets that a queue holds at least.
const QUEUE_PACKETS: f64 = 3.0;
/// Part of the longest delay above which a datagram waited.
const WAITED: f64 = 0.25;
/// Fewest datagrams of a window in which drops are looked for.
const WINDOW: usize = 10;
/// Drops that a window has on average at least. Windows that are chosen because they have a drop
/// among few datagrams arrive more slowly than the path.
const DROPS_OF_WINDOW: f64 = 5.0;
/// Loss that means that datagrams were dropped for lack of room.
const LOSSY: f64 = 0.02;
/// Fewest drops at which the queue is read.
const FEWEST_DROPS: usize = 5;
/// Part of the wanted rate above which the path carried it.
const CARRIED: f64 = 0.95;
/// Ratio of the ends of the interval of a rate from which it limits nothing for certain: losses in
/// bursts look like a limit now and then. A policer in a busy virtual machine has 1.25.
const UNCERTAIN: f64 = 1.5;
/// The same of a flood that loses [`CERTAINLY_LOSSY`] or more without a queue: no burst of random
/// losses does so, whatever the rate is.
const VERY_UNCERTAIN: f64 = 3.0;
const CERTAINLY_LOSSY: f64 = 0.1;

/// Result of a flood that exceeded the path.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Overload {
    /// Rate at which datagrams arrived, bit/s.
    pub(super) rate: MeanInterval,
    /// Delay that the queue added when it was longest, s.
    pub(super) queue_s: MeanInterval,
    /// Blocks of the rate's interval.
    pub(super) n_blocks: usize,
    /// True if datagrams were dropped while the queue was this long.
    pub(super) is_full: bool,
    /// True if datagrams waited.
    pub(super) is_delayed: bool,
    /// Share of the datagrams that were dropped.
    loss: f64,
    /// Longest time without an arrival while the path was busy, s: the resolution of the record.
    pub(super) longest_gap_s: f64,
}

impl Overload {
    /// Returns true if the rate is known well enough to be that of a limit.
    pub(super) fn is_rate_known(&self) -> bool {
        let drops_surely = self.loss >= CERTAINLY_LOSSY && !self.is_delayed;
        let most = if drops_surely { VERY_UNCERTAIN } else { UNCERTAIN };
        self.rate.high < most * self.rate.low
    }
}

/// Returns the overload that `flood` shows, if it exceeded the path. `idle_loss` is the share of
/// datagrams that are lost at rates that the path carries.
pub(super) fn overload(flood: &Phase, idle_loss: f64) -> Option<Overload> {
    let arrived = &flood.arrived;
    if arrived.len() < FEWEST {
        return None;
    }
    let is_lossy = flood.loss() > LOSSY && flood.loss() > 1.5 * idle_loss + 0.01;
    let pairs = || pairs_of(arrived);
    let behind_drops = behind_drops(pairs());
    let is_full = is_lossy && behind_drops.len() >= FEWEST_DROPS;
    let queue_s = if is_full { interval(&behind_drops)? } else { growing(arrived)? };
    let waits = queue_s.value > QUEUE_DELAY_S;
    let least = WAITED * queue_s.value;
    let steps: Vec<Step> = match waits {
        true => busy(pairs(), least),
        false => dropping(arrived, flood.loss()),
    };
    let (rate, n_blocks) = rate_of(&steps, FEWEST)?;
    let is_delayed = waits && queue_s.value * rate.value / 8.0 > QUEUE_PACKETS * flood.bytes;
    // Arrivals at the wanted rate did not exceed the path, whatever delayed or dropped them. Nor
    // did those of a slow sender that all arrived as fast as they were sent, except those that the
    // path loses at any rate.
    let is_carried = flood
        .delivered()
        .is_some_and(|rate| !is_lossy && rate >= CARRIED * (1.0 - idle_loss) * flood.offered);
    let is_slower = !is_carried && rate.value < CARRIED * flood.wanted.unwrap_or(f64::INFINITY);
    let longest_gap_s = steps.iter().map(|step| step.seconds).fold(0.0, f64::max);
    let loss = flood.loss();
    let found = Overload { rate, queue_s, n_blocks, is_full, is_delayed, loss, longest_gap_s };
    (is_slower && (is_lossy || is_delayed)).then_some(found)
}

/// Returns the overload of a path on which `flood` has too few arrivals to judge by: the fastest of
/// the steps of the ramp and the flood was delivered later than it was sent, and so were others.
pub(super) fn overload_of_slow<'a>(
    steps: impl Iterator<Item = &'a Phase>,
    flood: &'a Phase,
) -> Option<Overload> {
    let steps: Vec<&Phase> = steps.chain([flood]).filter(|step| step.offered.is_finite()).collect();
    let fastest = steps.iter().max_by(|a, b| a.offered.total_cmp(&b.offered))?;
    if flood.arrived.len() >= 2 * FEWEST || !fastest.is_late() {
        return None;
    }
    let late: Vec<&Phase> = steps.into_iter().filter(|step| step.is_late()).collect();
    let pairs = || late.iter().flat_map(|step| pairs_of(&step.arrived));
    let behind_drops = behind_drops(pairs());
    let is_full = behind_drops.len() >= FEWEST_DROPS;
    let longest = pairs().map(|(_, b)| b.delay).fold(0.0, f64::max);
    let queue_s = match is_full {
        true => interval(&behind_drops)?,
        false => MeanInterval { value: longest, low: longest, high: longest },
    };
    let steps = busy(pairs(), WAITED * queue_s.value);
    let (rate, n_blocks) = rate_of(&steps, FEWEST_OF_SLOW)?;
    let longest_gap_s = steps.iter().map(|step| step.seconds).fold(0.0, f64::max);
    let (is_delayed, loss) = (true, flood.loss());
    Some(Overload { rate, queue_s, n_blocks, is_full, is_delayed, loss, longest_gap_s })
}

/// Returns every datagram with the next one.
fn pairs_of(arrived: &[Datagram]) -> impl Iterator<Item = (&Datagram, &Datagram)> {
    arrived.windows(2).map(|pair| (&pair[0], &pair[1]))
}

/// Returns the delays of the datagrams that arrived behind a dropped one.
fn behind_drops<'a>(pairs: impl Iterator<Item = (&'a Datagram, &'a Datagram)>) -> Vec<f64> {
    pairs.filter(|(a, b)| b.number > a.number + 1).map(|(_, b)| b.delay).collect()
}

/// Returns the steps between datagrams that both waited more than `least` seconds.
fn busy<'a>(pairs: impl Iterator<Item = (&'a Datagram, &'a Datagram)>, least: f64) -> Vec<Step> {
    pairs
        .filter(|(a, b)| a.delay > least && b.delay > least)
        .map(|(a, b)| Step::between(a, b))
        .collect()
}

/// Arrival after another one, while the path was busy.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Step {
    seconds: f64,
    bits: f64,
}

impl Step {
    fn between(earlier: &Datagram, later: &Datagram) -> Self {
        Self { seconds: later.received - earlier.received, bits: later.bytes * 8.0 }
    }
}

/// Returns the steps in windows in which datagrams were dropped, of which `loss` is the share.
fn dropping(arrived: &[Datagram], loss: f64) -> Vec<Step> {
    let n = WINDOW.max((DROPS_OF_WINDOW / loss.max(LOSSY)).ceil() as usize);
    let windows = arrived.windows(n).step_by(n - 1);
    let lossy = windows.filter(|window| lost_share(window) > LOSSY);
    lossy
        .flat_map(|window| window.windows(2).map(|pair| Step::between(&pair[0], &pair[1])))
        .collect()
}

/// Returns the share of the numbers between the first and the last datagram that did not arrive.
fn lost_share(datagrams: &[Datagram]) -> f64 {
    let numbers = datagrams.iter().map(|datagram| datagram.number);
    let (Some(first), Some(last)) = (numbers.clone().min(), numbers.max()) else { return 0.0 };
    1.0 - datagrams.len() as f64 / ((last - first) as f64 + 1.0)
}

/// Returns the delay of a queue that was never full: a lower bound of its depth.
fn growing(arrived: &[Datagram]) -> Option<MeanInterval> {
    let delays: Vec<f64> =
        arrived[arrived.len() * 3 / 4..].iter().map(|datagram| datagram.delay).collect();
    let value = quantile(&delays, 0.95)?;
    Some(MeanInterval { value, low: value, high: value })
}

/// Returns the median of `values` with its interval by order statistics.
fn interval(values: &[f64]) -> Option<MeanInterval> {
    let found = estimate(values)?;
    let (low, high) = (found.low.unwrap_or(found.value), found.high.unwrap_or(found.value));
    Some(MeanInterval { value: found.value, low, high })
}

/// Returns the rate of at least `fewest` steps, bit/s: the median of the rates of blocks, and their
/// number.
fn rate_of(steps: &[Step], fewest: usize) -> Option<(MeanInterval, usize)> {
    if steps.len() < fewest {
        return None;
    }
    let blocks = steps.chunks_exact((steps.len() / BLOCKS).max(2));
    let rates: Vec<f64> = blocks
        .map(|block| {
            let bits: f64 = block.iter().map(|step| step.bits).sum();
            bits / block.iter().map(|step| step.seconds).sum::<f64>()
        })
        .filter(|rate| rate.is_finite())
        .collect();
    Some((interval(&rates)?, rates.len()))
}

/// Returns the largest excess of delivered bytes over `rate` (bit/s) in any span: what a token
/// bucket of this rate lets pass at once. `datagrams` are in the order of arrival. O(n).
pub(super) fn envelope<'a>(datagrams: impl Iterator<Item = &'a Datagram>, rate: f64) -> f64 {
    let mut delivered = 0.0;
    let mut lowest = f64::INFINITY;
    let mut largest: f64 = 0.0;
    for datagram in datagrams {
        let tokens = rate / 8.0 * datagram.received;
        // The span may begin just before this datagram, and may end just behind it.
        lowest = lowest.min(delivered - tokens);
        delivered += datagram.bytes;
        largest = largest.max(delivered - tokens - lowest);
    }
    largest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_uncertain_rate_is_a_limit_only_where_much_is_dropped_without_a_queue() {
        let known = |ratio: f64, loss: f64, is_delayed: bool| {
            let rate = MeanInterval { value: 20e6, low: 20e6, high: 20e6 * ratio };
            let queue_s = MeanInterval { value: 0.0, low: 0.0, high: 0.0 };
            let (n_blocks, is_full, longest_gap_s) = (20, false, 0.0);
            Overload { rate, queue_s, n_blocks, is_full, is_delayed, loss, longest_gap_s }
                .is_rate_known()
        };
        assert!(known(1.4, 0.03, false), "a busy host");
        assert!(!known(1.6, 0.03, false) && !known(1.6, 0.3, true), "bursts of losses, or a queue");
        // Recorded behind a policer of nftables: a quarter was lost, and the host had no CPU time.
        assert!(known(2.5, 0.25, false) && !known(3.1, 0.25, false));
    }
}
