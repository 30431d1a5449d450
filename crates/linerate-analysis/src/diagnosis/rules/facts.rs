//! Facts of the probe of a path, as rules read them (docs/methodology/path-probe.md).

use linerate_model::Direction;
use linerate_model::path::{Fact, Limiter, PathFacts};
use linerate_model::{Ratio, metric};

use super::value;
use crate::diagnosis::Evidence;
use crate::path::REAL_LOSS;
use crate::{JobStudy, PointStudy};

/// Buffer over the bandwidth-delay product below which one flow cannot keep the link busy: CUBIC
/// (RFC 9438) continues with 0.7 of its window after a loss, and 1 / 0.7 - 1 is 0.43.
const SHALLOW: f64 = 0.43;
/// Buffer over the bandwidth-delay product from which the queue adds more to the round-trip time
/// than any flow needs.
const BLOATED: f64 = 4.0;
/// Buffer over the bandwidth-delay product below which data hardly wait.
const NO_QUEUE: f64 = 0.1;
/// Ratio of the rate of bursts to the highest rate of the ramp from which no link of the path was
/// near its rate.
const FAST: f64 = 3.0;
const BITS_PER_BYTE: f64 = 8.0;

/// Returns the rate that a direction is known to carry, in bit/s of packets.
pub(super) fn carries(facts: &PathFacts) -> Option<f64> {
    facts.capacity.map(|capacity| capacity.low).or(facts.carried).map(|rate| rate.0)
}

/// Returns true if the probe found a policer on the path of the data.
pub(super) fn is_policed(point: &PointStudy, job: &JobStudy, direction: Direction) -> bool {
    point.data_path(job, direction).is_some_and(polices)
}

/// Returns true if data above a token rate are dropped and hardly wait: behind a policer, or a
/// shaper whose queue holds next to nothing. On a busy host the delays of arrivals look like such a
/// queue.
fn polices(facts: &PathFacts) -> bool {
    match facts.limiter {
        Some(Limiter::Policer) => true,
        Some(Limiter::Shaper) => {
            let buffer = Buffer::of(facts);
            buffer.is_some_and(|buffer| buffer.bytes < NO_QUEUE * buffer.product)
        }
        _ => false,
    }
}

/// Returns true if goodput is near a rate that the probe measured, or a policer drops data.
pub(super) fn is_at_known_limit(point: &PointStudy, job: &JobStudy, direction: Direction) -> bool {
    is_policed(point, job, direction)
        || MeasuredLink::of(point, job, direction).is_some_and(|link| link.is_full())
}

/// Returns true if goodput is 80 % or more of the rate of a link or policer that the probe
/// measured: whatever else is scarce, it does not limit the flow.
pub(super) fn reaches_path(point: &PointStudy, job: &JobStudy, direction: Direction) -> bool {
    let facts = point.data_path(job, direction).filter(|facts| facts.limiter.is_some());
    let rate = facts.and_then(|facts| facts.capacity).map(|rate| rate.value.0);
    let goodput = value(job, metric::GOODPUT, direction);
    rate.zip(goodput).is_some_and(|(rate, goodput)| goodput >= MeasuredLink::NEAR * rate)
}

/// Returns the loss that the probe saw below the rate of the path, where no buffer overflows;
/// `None` if an accident explains it.
pub(super) fn random_loss(
    point: &PointStudy,
    job: &JobStudy,
    direction: Direction,
) -> Option<Fact<Ratio>> {
    let facts = point.data_path(job, direction)?;
    // Drops of the receiver's own socket are losses of the tool.
    facts.idle_loss.filter(|loss| loss.low.0 > REAL_LOSS && facts.receiver_drops == 0)
}

/// Returns true if the probe lost datagrams on a path without a slow link, where no buffer explains
/// the loss: bursts arrived several times as fast as the rates at which datagrams were lost.
pub(super) fn loses_at_random(point: &PointStudy, job: &JobStudy, direction: Direction) -> bool {
    let facts = point.data_path(job, direction).filter(|facts| facts.limiter.is_none());
    let is_fast = facts.is_some_and(|facts| {
        let burst = facts.burst_rate.zip(facts.carried);
        burst.is_some_and(|(burst, carried)| burst.low.0 > FAST * carried.0)
    });
    is_fast && random_loss(point, job, direction).is_some()
}

/// Link or shaper of which the probe measured the rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct MeasuredLink {
    limiter: Limiter,
    /// Rate in bit/s of packets.
    pub(super) rate: f64,
    goodput: f64,
    buffer: Option<Buffer>,
}

/// Buffer of a link that the probe filled.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Buffer {
    bytes: f64,
    /// Bytes in flight that keep the link busy without a queue.
    product: f64,
}

impl Buffer {
    fn of(facts: &PathFacts) -> Option<Self> {
        let bytes = facts.queue_bytes.filter(|_| facts.is_queue_full)?.value.0 as f64;
        let rtt = facts.base_rtt?.value.as_secs_f64();
        Some(Self { bytes, product: facts.capacity?.value.0 * rtt / BITS_PER_BYTE })
    }
}

impl MeasuredLink {
    /// Ratio of goodput to the rate from which the link is saturated. Headers take 0.04 of the
    /// rate, and recovery from losses some more.
    pub(super) const NEAR: f64 = 0.8;

    pub(super) fn of(point: &PointStudy, job: &JobStudy, direction: Direction) -> Option<Self> {
        let facts = point.data_path(job, direction)?;
        let limiter = facts.limiter.filter(|_| !polices(facts))?;
        let rate = facts.capacity?.value.0;
        let goodput = value(job, metric::GOODPUT, direction)?;
        Some(Self { limiter, rate, goodput, buffer: Buffer::of(facts) })
    }

    /// Returns goodput over the rate.
    pub(super) fn share(&self) -> f64 {
        self.goodput / self.rate
    }

    /// Returns true if goodput is the rate of the link without headers.
    pub(super) fn is_full(&self) -> bool {
        self.share() >= Self::NEAR
    }

    /// Returns true if the buffer is known to be large enough for one flow to keep the link busy.
    pub(super) fn is_deep(&self) -> bool {
        self.buffer.is_some_and(|buffer| buffer.bytes >= SHALLOW * buffer.product)
    }

    /// Returns true if the buffer is known to be too small for that.
    pub(super) fn is_shallow(&self) -> bool {
        self.survivable().is_some()
    }

    /// Returns the bytes in flight that half fill a buffer which is too small for that.
    pub(super) fn survivable(&self) -> Option<f64> {
        let shallow = self.buffer.filter(|_| !self.is_deep());
        shallow.map(|buffer| buffer.product + buffer.bytes / 2.0)
    }

    /// Returns true if the buffer is several times larger than any flow needs.
    pub(super) fn is_bloated(&self) -> bool {
        self.buffer.is_some_and(|buffer| buffer.bytes >= BLOATED * buffer.product)
    }

    /// Returns goodput beside the rate, and the size of the buffer where it is known.
    pub(super) fn evidence(&self) -> Vec<Evidence> {
        let Self { limiter, rate: capacity, goodput, buffer } = *self;
        let of_path = Evidence::OfPath { limiter, capacity, goodput };
        let of_buffer = buffer
            .map(|Buffer { bytes, product }| Evidence::Buffer { bytes: bytes as u64, product });
        [of_path].into_iter().chain(of_buffer).collect()
    }
}

#[cfg(test)]
mod tests {
    use linerate_model::path::Method;
    use linerate_model::{BitRate, Bytes, Nanos};

    use super::super::cases::on_path;
    use super::*;

    /// A path of 20 Mbit/s and 20 ms (50 kB) with a buffer of `bytes` that the probe filled.
    fn buffered(limiter: Limiter, bytes: u64) -> PointStudy {
        let mut point = on_path(&[("goodput", 12e6)], Some(limiter), 2e7);
        let facts = &mut point.path[0];
        facts.base_rtt = Some(Fact::exact(Nanos::from_millis(20), Method::Pings));
        facts.queue_bytes = Some(Fact::exact(Bytes(bytes), Method::Flood));
        facts.is_queue_full = true;
        point
    }

    #[test]
    fn a_buffer_is_judged_by_the_bandwidth_delay_product() {
        let link = |bytes| {
            let point = buffered(Limiter::Link, bytes);
            MeasuredLink::of(&point, &point.jobs[0], Direction::Tx).expect("a link")
        };
        let judged = |bytes| (link(bytes).is_deep(), link(bytes).is_bloated());
        assert_eq!(
            [12_000, 50_000, 300_000].map(judged),
            [(false, false), (true, false), (true, true)]
        );
        assert_eq!(link(12_000).survivable(), Some(56_000.0));
        assert_eq!(link(50_000).survivable(), None);
        assert!(
            link(50_000)
                .evidence()
                .contains(&Evidence::Buffer { bytes: 50_000, product: 50_000.0 })
        );
    }

    #[test]
    fn a_shaper_polices_where_its_queue_holds_next_to_nothing() {
        let policed = |limiter, bytes| {
            let point = buffered(limiter, bytes);
            is_policed(&point, &point.jobs[0], Direction::Tx)
        };
        assert!(policed(Limiter::Shaper, 4_000) && !policed(Limiter::Shaper, 20_000));
        assert!(!policed(Limiter::Link, 4_000) && policed(Limiter::Policer, 4_000));
    }

    #[test]
    fn loss_at_rates_far_below_those_of_bursts_fills_no_buffer() {
        let at_random = |burst: f64| {
            let mut point = on_path(&[], None, 0.0);
            let facts = &mut point.path[0];
            (facts.capacity, facts.carried) = (None, Some(BitRate(5e7)));
            facts.burst_rate = Some(Fact::exact(BitRate(burst), Method::Trains));
            let [value, low, high] = [0.01, 0.005, 0.02].map(Ratio);
            facts.idle_loss = Some(Fact { value, low, high, n: 900, method: Method::Ramp });
            loses_at_random(&point, &point.jobs[0], Direction::Tx)
        };
        assert!(at_random(1e9) && !at_random(6e7), "a link of 60 Mbit/s may drop bursts");
    }

    #[test]
    fn loss_of_the_probe_counts_beyond_accidents_and_drops_of_the_tool() {
        let lost = |low, receiver_drops| {
            let mut point = on_path(&[], None, 2e7);
            let [value, low, high] = [0.01, low, 0.02].map(Ratio);
            point.path[0].idle_loss = Some(Fact { value, low, high, n: 900, method: Method::Ramp });
            point.path[0].receiver_drops = receiver_drops;
            random_loss(&point, &point.jobs[0], Direction::Tx).is_some()
        };
        assert_eq!([lost(0.005, 0), lost(0.0003, 0), lost(0.005, 3)], [true, false, false]);
    }
}
