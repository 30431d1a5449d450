//! A shallow buffer between a fast link and a slow one, as behind an NC-SI sideband: the window
//! that loses nothing, and the goodput it allows.
//!
//! Units: bytes in flight, bit/s of payload. Layer: L4; rates are those of the wires. Source:
//! docs/methodology/fire-hose.md#the-law; the sideband is 50 MHz x 2 bit with Ethernet framing
//! (DSP0222, RMII). The law itself is in [`crate::fire_hose`].

use linerate_model::derivation::{Expression, Line, Quantity, Statement};
use linerate_model::{
    BitRate, Bytes, Ceiling, Direction, ModelName, Nanos, ParamError, Params, metric,
};

use super::options::{BITS, checked, mtu, options, positive, read, refusal};
use super::window::product_line;
use super::{Limit, defaults, ethernet, required};
use crate::fire_hose::{Bracket, Hose};

/// Bytes of an Ethernet header: a frame as buffers hold it, without FCS.
const ETHERNET_HEADER: Bytes = Bytes(14);
/// Headers of IPv4 (RFC 791 clause 3.1) and TCP (RFC 9293 clause 3.1) without options.
const HEADERS: Bytes = Bytes(40);
const SOURCE: &str = "tail drop of whole frames; RFC 6349 3.3.1 for the bandwidth-delay product";

options! {
    buffer: Bytes = required("what the device holds, such as \"8 KiB\"");
    feed: BitRate = required("rate of the fast link, such as \"1 Gbit/s\"");
    drain: BitRate = defaults("100 Mbit/s", "rate of the slow link");
    rtt: Nanos = required("round-trip time while nothing waits, such as \"0.5 ms\"");
    #[serde(deserialize_with = "mtu")]
    mtu: Bytes = defaults("1500", "IP MTU");
    burst: Bytes = defaults("0 B", "token bucket in front of the buffer, if it is a shaper's");
    flows: u32 = defaults("1", "senders at once");
}

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
    checked(problems(&parameters))?;
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
        errors.extend(positive(key, rate));
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
    let wire = hose.frame + ethernet::WIRE_OVERHEAD + ethernet::CHECK_SEQUENCE;
    let frame = Expression::from(hose.frame) + Quantity::FrameCheck.is(ethernet::CHECK_SEQUENCE);
    let derivation = vec![
        Line::of(Quantity::OnWire, ethernet::gap_and_preamble(frame), wire),
        Line::equation(Expression::from(hose.drain) * hose.mss.0 / wire.0, rate),
    ];
    let name = ModelName::SlowLink(hose.drain);
    Ceiling::new(name, metric::GOODPUT, rate.0, Direction::Tx, derivation, ethernet::WIRE_SOURCE)
}

/// Returns the three forms, and what of them to set.
fn windows(hose: &Hose, bracket: &Bracket) -> Vec<Ceiling> {
    let room = hose.buffer + hose.burst;
    let frames = room.0 / hose.frame.0.max(1);
    let bound = |name: ModelName, bytes: Bytes, derivation: Vec<Line>| {
        Ceiling::new(name, metric::IN_FLIGHT, bytes.0 as f64, Direction::Tx, derivation, SOURCE)
    };
    let mut bounds = vec![bound(
        ModelName::FrameGranular,
        bracket.frame_granular,
        vec![
            Line::of(
                Quantity::WholeFrames,
                (Expression::from(room) / hose.frame).floor(),
                frames as f64,
            ),
            Line::equation(Expression::from(frames) * hose.mss, bracket.frame_granular),
        ],
    )];
    bounds.extend(bracket.fluid.map(|fluid| {
        let drained = Expression::from(1.0) - hose.drain.0 / hose.feed.0;
        let line = Line::equation(Expression::from(room) / drained, fluid);
        let burst = hose
            .longest_burst()
            .map(|frames| Statement::LongestBurst { frames: frames.into() }.into());
        let derivation = [line].into_iter().chain(burst).collect();
        bound(ModelName::Fluid, fluid, derivation)
    }));
    let product = bracket.bandwidth_delay_product;
    bounds.push(bound(
        ModelName::AckClocked,
        bracket.ack_clocked,
        vec![
            product_line(hose.drain, hose.rtt, product),
            Line::equation(Expression::from(room) + product, bracket.ack_clocked),
        ],
    ));
    bounds.push(bound(ModelName::SafeWindow, bracket.safe, verdicts(hose, bracket)));
    bounds
}

fn verdicts(hose: &Hose, bracket: &Bracket) -> Vec<Line> {
    let smaller = Expression::from(bracket.frame_granular).smaller(bracket.ack_clocked);
    let mut lines = vec![
        Line::equation(smaller, bracket.safe),
        Statement::LossFree { exists: bracket.loss_free_exists(), least: bracket.least }.into(),
        Statement::FullRate {
            is_possible: bracket.full_rate_possible(),
            path: bracket.bandwidth_delay_product,
        }
        .into(),
    ];
    if hose.flows > 1 {
        let each = Bytes(bracket.safe.0 / u64::from(hose.flows));
        lines.push(Statement::Shared { flows: hose.flows, each, most: hose.most_flows() }.into());
    }
    lines
}

fn predicted(hose: &Hose, bracket: &Bracket) -> Ceiling {
    let rate = hose.goodput(bracket.safe);
    let by_window = BitRate(bracket.safe.bits() / hose.rtt.as_secs_f64());
    let derivation = vec![
        Line::of(
            Quantity::WindowPerRoundTrip,
            Expression::from(bracket.safe) * BITS / hose.rtt,
            by_window,
        ),
        Line::equation(Expression::from(by_window).smaller(hose.full_rate()), rate),
    ];
    Ceiling::new(
        ModelName::SafeWindowGoodput,
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
        let path = Bytes(12_500);
        assert_eq!(all[4].derivation[2], Statement::FullRate { is_possible: false, path }.into());
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
