//! A shallow buffer between a fast link and a slow one, as behind an NC-SI sideband: the window
//! that loses nothing, and the goodput it allows.
//!
//! Units: bytes in flight, bit/s of payload. Layer: L4; rates are those of the wires. Source:
//! docs/methodology/fire-hose.md#the-law; the sideband is 50 MHz x 2 bit with Ethernet framing
//! (DSP0222, RMII). The law itself is in [`crate::fire_hose`].

use linerate_model::{BitRate, Bytes, Ceiling, Direction, Nanos, ParamError, Params, metric};
use serde::Deserialize;

use super::options::{mtu, plain, read, refusal};
use super::{Limit, OptionDoc, defaults, required};
use crate::fire_hose::{Bracket, Hose};

/// Bytes of an Ethernet header: a frame as buffers hold it, without FCS.
const ETHERNET_HEADER: Bytes = Bytes(14);
/// Headers of IPv4 (RFC 791 clause 3.1) and TCP (RFC 9293 clause 3.1) without options.
const HEADERS: Bytes = Bytes(40);
const SOURCE: &str = "tail drop of whole frames; RFC 6349 3.3.1 for the bandwidth-delay product";

fn default_mtu() -> Bytes {
    Bytes(1500)
}

fn default_drain() -> BitRate {
    BitRate(1e8)
}

fn one_flow() -> u32 {
    1
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Parameters {
    buffer: Bytes,
    feed: BitRate,
    #[serde(default = "default_drain")]
    drain: BitRate,
    rtt: Nanos,
    #[serde(default = "default_mtu", deserialize_with = "mtu")]
    mtu: Bytes,
    #[serde(default)]
    burst: Bytes,
    #[serde(default = "one_flow")]
    flows: u32,
}

const OPTIONS: &[OptionDoc] = &[
    required("buffer", "what the device holds, such as \"8 KiB\""),
    required("feed", "rate of the fast link, such as \"1 Gbit/s\""),
    defaults("drain", "100 Mbit/s", "rate of the slow link"),
    required("rtt", "round-trip time while nothing waits, such as \"0.5 ms\""),
    defaults("mtu", "1500", "IP MTU"),
    defaults("burst", "0 B", "token bucket in front of the buffer, if it is a shaper's"),
    defaults("flows", "1", "senders at once"),
];

/// The calculator `ncsi`.
pub(super) const LIMIT: Limit = Limit {
    name: "ncsi",
    summary: "the TCP window that a shallow buffer behind a faster link survives (NC-SI sideband, \
        switch port, bridge)",
    options: OPTIONS,
    ceilings,
};

fn ceilings(params: &Params) -> Result<Vec<Ceiling>, Vec<ParamError>> {
    let parameters: Parameters = read(params, OPTIONS)?;
    let errors = problems(&parameters);
    if !errors.is_empty() {
        return Err(errors);
    }
    let Parameters { buffer, feed, drain, rtt, mtu, burst, flows } = parameters;
    // Buffers hold frames without FCS, which the receiving port has already checked and
    // removed.
    let (frame, mss) = (mtu + ETHERNET_HEADER, Bytes(mtu.0 - HEADERS.0));
    let hose = Hose { buffer, burst, feed, drain, frame, mss, rtt, flows };
    let bracket = hose.bracket();
    let mut ceilings = vec![full_rate(&hose)];
    // Where the feed is no faster, no window overruns the buffer and there is nothing to set.
    if hose.can_overrun() {
        ceilings.extend(windows(&hose, &bracket));
        ceilings.push(predicted(&hose, &bracket));
    }
    Ok(ceilings)
}

fn problems(parameters: &Parameters) -> Vec<ParamError> {
    let mut errors = Vec::new();
    for (key, rate) in [("feed", parameters.feed), ("drain", parameters.drain)] {
        if rate.0 <= 0.0 {
            errors.push(refusal(key, "a link has a rate above zero, such as \"1 Gbit/s\""));
        }
    }
    if parameters.rtt.0 == 0 {
        errors.push(refusal("rtt", "a round trip takes time: expected more than 0 s"));
    }
    // The payload below is a difference that must not underflow.
    if parameters.mtu <= HEADERS {
        errors.push(refusal("mtu", format!("leaves no payload beside {} B of headers", HEADERS.0)));
    }
    if parameters.flows == 0 {
        errors.push(refusal("flows", "no sender, no window: expected 1 or more"));
    }
    errors
}

fn full_rate(hose: &Hose) -> Ceiling {
    let rate = hose.full_rate();
    let derivation = vec![
        format!(
            "a segment of {} B each frame of {} B and 24 B of preamble, FCS and gap",
            hose.mss.0, hose.frame.0
        ),
        format!(
            "{} bit/s x {} / {} = {} bit/s",
            plain(hose.drain.0),
            hose.mss.0,
            hose.frame.0 + 24,
            plain(rate.0)
        ),
    ];
    let name = format!("slow link of {}", hose.drain);
    Ceiling::new(
        name,
        metric::GOODPUT,
        rate.0,
        Direction::Tx,
        derivation,
        "IEEE 802.3 clauses 3.2 and 4.4.2",
    )
}

/// Returns the three forms, and what of them to set.
fn windows(hose: &Hose, bracket: &Bracket) -> Vec<Ceiling> {
    let room = hose.buffer + hose.burst;
    let ratio = plain(hose.drain.0 / hose.feed.0);
    let frames = room.0 / hose.frame.0.max(1);
    let bound = |name: &str, bytes: Bytes, derivation: Vec<String>| {
        Ceiling::new(name, metric::IN_FLIGHT, bytes.0 as f64, Direction::Tx, derivation, SOURCE)
    };
    let mut bounds = vec![bound(
        "frame-granular: fits without any draining, at any feed",
        bracket.frame_granular,
        vec![
            format!("whole frames that fit: floor({} B / {} B) = {frames}", room.0, hose.frame.0),
            format!("{frames} x {} B of payload = {} B", hose.mss.0, bracket.frame_granular.0),
        ],
    )];
    bounds.extend(bracket.fluid.map(|fluid| {
        let mut derivation = vec![format!("{} B / (1 - {ratio}) = {} B", room.0, fluid.0)];
        derivation.extend(
            hose.longest_burst().map(|n| format!("counted in whole frames: a burst of {n} passes")),
        );
        bound("fluid: a burst that drains while it arrives", fluid, derivation)
    }));
    let product = bracket.bandwidth_delay_product;
    bounds.push(bound(
        "ACK-clocked: the buffer and what the path holds",
        bracket.ack_clocked,
        vec![
            format!(
                "bandwidth-delay product: {} bit/s x {} s / 8 = {} B",
                plain(hose.drain.0),
                plain(hose.rtt.as_secs_f64()),
                product.0
            ),
            format!("{} B + {} B = {} B", room.0, product.0, bracket.ack_clocked.0),
        ],
    ));
    bounds.push(bound("safe window, all senders together", bracket.safe, verdicts(hose, bracket)));
    bounds
}

fn verdicts(hose: &Hose, bracket: &Bracket) -> Vec<String> {
    let mut lines = vec![format!(
        "min({} B, {} B) = {} B",
        bracket.frame_granular.0, bracket.ack_clocked.0, bracket.safe.0
    )];
    lines.push(if bracket.loss_free_exists() {
        format!("at least {} B (two segments each): a loss-free window exists", bracket.least.0)
    } else {
        format!(
            "less than {} B (two segments each): no loss-free window exists; pace the sender, or \
                slow the fast link",
            bracket.least.0
        )
    });
    lines.push(if bracket.full_rate_possible() {
        "it fills the path: full rate and no loss are both possible".to_owned()
    } else {
        format!(
            "the path holds {} B: full rate and no loss are not both possible",
            bracket.bandwidth_delay_product.0
        )
    });
    if hose.flows > 1 {
        lines.push(format!(
            "for each of {}: {} B; at most {} can share it",
            hose.flows,
            bracket.safe.0 / u64::from(hose.flows),
            hose.most_flows()
        ));
    }
    lines
}

fn predicted(hose: &Hose, bracket: &Bracket) -> Ceiling {
    let rate = hose.goodput(bracket.safe);
    let derivation = vec![
        format!(
            "one safe window each round trip: {} B x 8 / {} s = {} bit/s",
            bracket.safe.0,
            plain(hose.rtt.as_secs_f64()),
            plain(bracket.safe.bits() / hose.rtt.as_secs_f64())
        ),
        format!(
            "the slow link carries {} bit/s: the smaller is {} bit/s",
            plain(hose.full_rate().0),
            plain(rate.0)
        ),
    ];
    Ceiling::new(
        "predicted with the safe window",
        metric::GOODPUT,
        rate.0,
        Direction::Tx,
        derivation,
        SOURCE,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ceilings(options: &[(&str, &str)]) -> Vec<Ceiling> {
        let mut params = Params::default();
        for (key, value) in options {
            params.set(key, *value);
        }
        super::ceilings(&params).expect("good options")
    }

    #[test]
    fn the_papers_sideband_is_that_of_the_reference() {
        // docs/methodology/ceilings.md#nc-si-sideband and docs/methodology/fire-hose.md#the-law:
        // 94.93 Mbit/s at full rate, 7300 B in whole frames, 9102 B as a fluid; 58 Mbit/s at 1 ms.
        let all = ceilings(&[
            ("buffer", "8 KiB"),
            ("feed", "1 Gbit/s"),
            ("drain", "100 Mbit/s"),
            ("rtt", "1 ms"),
        ]);
        let values: Vec<f64> = all.iter().map(|ceiling| ceiling.value.round()).collect();
        assert_eq!(values, [94_928_479.0, 7300.0, 9102.0, 20_692.0, 7300.0, 58_400_000.0]);
        assert!(all[4].derivation[2].contains("not both possible"), "{:?}", all[4].derivation);
    }

    #[test]
    fn a_feed_no_faster_than_the_drain_needs_no_window() {
        assert_eq!(
            ceilings(&[("buffer", "8 KiB"), ("feed", "100 Mbit/s"), ("rtt", "1 ms")]).len(),
            1
        );
    }

    #[test]
    fn what_cannot_be_is_refused_all_at_once() {
        let mut params = Params::default();
        for (key, value) in
            [("buffer", "8 KiB"), ("feed", "0 bit/s"), ("rtt", "0 s"), ("mtu", "40")]
        {
            params.set(key, value);
        }
        let keys: Vec<String> =
            super::ceilings(&params).expect_err("bad").into_iter().map(|e| e.key).collect();
        assert_eq!(keys, ["feed", "rtt", "mtu"]);
    }
}
