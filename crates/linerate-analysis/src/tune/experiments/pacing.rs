//! Pacing at the rate at which the path drains (`SO_MAX_PACING_RATE` of the sender's sockets,
//! socket(7)).
//!
//! Evidence: segments are retransmitted, or dropped in a queue of the sender (which TCP does not
//! count as sent), although the path carries more than the stream uses, and more can be fed into it
//! than drains. Bursts at the rate of the first link overrun a shallow buffer before the slow one
//! (docs/methodology/fire-hose.md#the-law). A sender that never exceeds the drain rate fills none.
//! The prediction uses the drain rate, which a flood of datagrams shows. Cost: the rate is a
//! constant and does not adapt to other traffic on the slow link, or to a link that becomes faster.
//!
//! Not covered: the length of a burst that the buffer absorbs. A paced sender still sends at least
//! two segments at once, and on paths shorter than a millisecond far more
//! (`net.ipv4.tcp_tso_rtt_log`): then the prediction fails, and the setting is not kept.

use linerate_model::{BitRate, metric};

use super::{
    By, Candidate, Hindrance, Known, LEAST_EFFECT, LOSSY, Looked, TuningExperiment, Untried,
};
use crate::PathEnd;
use crate::diagnosis::Evidence;
use crate::tune::Rates;
use crate::tune::observed::WIRE_OVERHEAD;

const SETTING: &str = "pacing_rate";
/// More than this goes in of what comes out where a faster link feeds a slower one.
const FASTER: f64 = 1.1;
/// Pace as a fraction of the drain rate; the rest drains what other traffic leaves in the buffer.
const PACE: f64 = 0.95;
/// Least fraction of the pace that goodput reaches: the first round trips are slower.
const REACHED: f64 = 0.75;
/// Headers of IPv4 and TCP with timestamps (RFC 791, RFC 9293, RFC 7323): what a full segment
/// carries less than its packet, bytes.
const HEADERS: f64 = 52.0;

/// Experiment with pacing.
pub(super) const EXPERIMENT: TuningExperiment = TuningExperiment {
    name: "pacing",
    summary: "the sender's sockets paced at the rate at which the path drains, where bursts \
        overrun a shallow buffer",
    asks: &[],
    floods: true,
    look,
};

fn look(path: &Known<'_>) -> Vec<Looked> {
    vec![paced(path).map_err(|hindrance| Untried {
        end: PathEnd::Sender,
        setting: SETTING,
        hindrance,
    })]
}

fn paced(path: &Known<'_>) -> Result<Candidate, Hindrance> {
    let lost = lost(path)?;
    let rates = path.flood.ok_or(Hindrance::NoEvidence(None))?;
    let now =
        path.value(metric::GOODPUT).filter(|now| *now > 0.0).ok_or(Hindrance::NoEvidence(None))?;
    let flood = Evidence::Flood { feed: rates.feed.0, drain: rates.drain.0, goodput: now };
    let pace = pace(&rates);
    if rates.feed.0 <= rates.drain.0 * FASTER || pace.0 <= now * LEAST_EFFECT {
        return Err(Hindrance::NoEvidence(Some(flood)));
    }
    Ok(Candidate {
        end: PathEnd::Sender,
        setting: SETTING,
        by: By::Load,
        before: String::new(),
        after: format!("{:.0} bit/s", pace.0),
        evidence: vec![lost, flood],
        ratio: [(REACHED * pace.0 / now).max(LEAST_EFFECT), pace.0 / now],
    })
}

/// Returns the evidence that a buffer was overrun, if any.
fn lost(path: &Known<'_>) -> Result<Evidence, Hindrance> {
    let retransmitted = path.share(metric::RETRANSMIT_RATIO, LOSSY);
    match path.dropped.filter(|dropped| *dropped > 0 && retransmitted.is_err()) {
        Some(packets) => Ok(Evidence::QueueDrops { packets }),
        None => retransmitted,
    }
}

/// Returns the payload that full segments carry at [`PACE`] of the drain rate. The kernel counts
/// payload alone where it paces by itself, and headers too where the fq discipline does: what is
/// safe for the one is for the other.
fn pace(rates: &Rates) -> BitRate {
    let packet = rates.packet.0 as f64;
    BitRate((PACE * rates.drain.0 * (packet - HEADERS).max(0.0) / (packet + WIRE_OVERHEAD)).floor())
}

#[cfg(test)]
mod tests {
    use linerate_model::Bytes;

    use super::super::HindranceKind;
    use super::super::cases::{host, known, parted, point};
    use super::*;

    fn tried(share: f64, lost: f64, feed: f64) -> Vec<Candidate> {
        with(share, lost, feed, 0)
    }

    fn with(share: f64, lost: f64, feed: f64, dropped: u64) -> Vec<Candidate> {
        let point = point(share, &[("retransmit_ratio", lost)]);
        let flood = Some(Rates { feed: BitRate(feed), drain: BitRate(100e6), packet: Bytes(1500) });
        let path = Known { flood, dropped: Some(dropped), ..known(&point, host(&[]), host(&[])) };
        parted(super::look(&path)).0
    }

    #[test]
    fn a_stream_that_overruns_a_slower_link_is_paced_below_its_rate() {
        // 33 Mbit/s of 1 Gbit/s, as the cases spell it, on a path that drains at 100 Mbit/s.
        let found = tried(0.033, 0.02, 900e6);
        assert_eq!(found.len(), 1);
        // 1448 of the 1538 bytes that a full frame takes on the wire: 95 % of 94.15 Mbit/s.
        assert_eq!(found[0].after, "89440832 bit/s");
        assert!((found[0].ratio[1] - 89.44 / 33.0).abs() < 1e-3, "{:?}", found[0].ratio);
        let flood = Evidence::Flood { feed: 900e6, drain: 100e6, goodput: 33e6 };
        let lost = Evidence::figure(metric::RETRANSMIT_RATIO, 0.02);
        assert_eq!(found[0].evidence, [lost, flood.clone()]);
        let dropped = vec![Evidence::QueueDrops { packets: 7 }, flood];
        let expected = Candidate { evidence: dropped, ..found[0].clone() };
        assert_eq!(with(0.033, 0.0, 900e6, 7), [expected]);
        assert!(found[0].ratio[0] < found[0].ratio[1] && found[0].by == By::Load);
    }

    #[test]
    fn nothing_is_paced_without_loss_without_a_slower_link_or_without_room() {
        assert!(tried(0.033, 0.0, 900e6).is_empty(), "no loss");
        assert!(tried(0.033, 0.02, 105e6).is_empty(), "what goes in comes out");
        assert!(tried(0.09, 0.02, 900e6).is_empty(), "nothing to gain");
        let point = point(0.033, &[("retransmit_ratio", 0.02)]);
        let hindered = parted(super::look(&known(&point, host(&[]), host(&[])))).1;
        assert_eq!(hindered, [HindranceKind::NothingSpeaksForIt], "no flood");
    }
}
