//! Ethernet: frames and bits at layers 1 and 2 that a link carries each way.
//!
//! Units: bit/s and frames/s. Layers: a frame is L2 (with its check sequence and tags); the wire is
//! L1 (with preamble and gap). Standard: IEEE 802.3 clauses 3.1, 3.2.7 and 4.4.2; IEEE 802.1Q
//! clause 9.6 for tags. The frame rates are those of RFC 2544 appendix B.
//!
//! Not covered: pause frames, a NIC's own packet-rate limit, clock tolerance (100 ppm),
//! energy-efficient sleep, and gaps shortened by a deficit idle count.

use linerate_model::{
    BitRate, Bytes, Ceiling, Direction, Layer, ModelName, PacketRate, ParamError, Params, metric,
};

use linerate_model::derivation::{Expression, Line, Measure, Quantity, Remark};

use super::options::{BITS, checked, options, positive, read, refusal};
use super::{Limit, defaults, required};

/// Preamble and start delimiter (8) plus the smallest gap between frames (12), IEEE 802.3 clauses
/// 3.1 and 4.4.2.
pub const WIRE_OVERHEAD: Bytes = Bytes(20);
/// Addresses and type (14) plus frame check sequence (4), IEEE 802.3 clause 3.1.
pub const FRAME_OVERHEAD: Bytes = Bytes(18);
/// Frame check sequence, IEEE 802.3 clause 3.2.9: network cards do not pass it on.
pub const CHECK_SEQUENCE: Bytes = Bytes(4);
/// One VLAN tag, IEEE 802.1Q clause 9.6.
pub(crate) const VLAN_TAG: Bytes = Bytes(4);
/// The smallest frame; shorter ones are padded, IEEE 802.3 clause 4.4.2.
pub const SMALLEST_FRAME: Bytes = Bytes(64);
/// The largest IP packet, and so the largest frame used in a calculation.
const LARGEST_FRAME: Bytes = Bytes(65_535);
/// Largest number of tags; no bridge stacks more.
const MOST_TAGS: u32 = 8;

/// Source of the bytes that a frame occupies on the wire.
pub(super) const WIRE_SOURCE: &str = "IEEE 802.3 clauses 3.1 and 4.4.2";
const SOURCE: &str = "IEEE 802.3 clauses 3.1 and 4.4.2; RFC 2544 appendix B";

/// Returns the bytes an Ethernet wire spends on each IP packet beyond the packet itself: 38, and 4
/// more for each VLAN tag.
///
/// # Examples
/// ```
/// use linerate_analysis::limits::ethernet::packet_overhead;
/// use linerate_model::Bytes;
///
/// // Header 14, check sequence 4, preamble 8, gap 12; a VLAN tag adds 4 (IEEE 802.3, 802.1Q).
/// assert_eq!(packet_overhead(0), Bytes(38));
/// assert_eq!(packet_overhead(1), Bytes(42));
/// ```
pub fn packet_overhead(vlan_tags: u32) -> Bytes {
    Bytes(FRAME_OVERHEAD.0 + WIRE_OVERHEAD.0 + VLAN_TAG.0 * u64::from(vlan_tags))
}

/// Returns the bytes that an IP packet occupies where `overhead` bytes are counted per packet.
///
/// An overhead of at least 38 bytes is a real wire, where short frames are padded to 64 bytes
/// before preamble and gap. A shaper that counts 14 or 0 bytes (veth, a bus) pads nothing.
///
/// # Examples
/// ```
/// use linerate_analysis::limits::ethernet::{on_wire, packet_overhead};
/// use linerate_model::Bytes;
///
/// assert_eq!(on_wire(Bytes(1500), packet_overhead(0)), Bytes(1538));
/// // A packet of 29 bytes is padded to a frame of 64 bytes, then 20 follow: 84.
/// assert_eq!(on_wire(Bytes(29), packet_overhead(0)), Bytes(84));
/// ```
pub fn on_wire(packet: Bytes, overhead: Bytes) -> Bytes {
    let bytes = packet + overhead;
    // A caller that counts less than a real wire describes a shaper, which knows no padding.
    if overhead < packet_overhead(0) { bytes } else { bytes.max(SMALLEST_FRAME + WIRE_OVERHEAD) }
}

/// Returns the most frames a link of `rate` carries each way; `frame` includes check sequence and
/// tags.
///
/// # Examples
/// ```
/// use linerate_analysis::limits::ethernet::packet_rate;
/// use linerate_model::{BitRate, Bytes};
///
/// // 10^10 / ((64 + 20) * 8): the well-known 14.88 million frames a second (RFC 2544 appendix B).
/// assert_eq!(packet_rate(BitRate(10e9), Bytes(64)).0.floor(), 14_880_952.0);
/// ```
pub fn packet_rate(rate: BitRate, frame: Bytes) -> PacketRate {
    PacketRate(rate.0 / (frame + WIRE_OVERHEAD).bits())
}

/// Returns the most frame bits a link of `rate` carries each way; `frame` includes check sequence
/// and tags.
///
/// # Examples
/// ```
/// use linerate_analysis::limits::ethernet::throughput_l2;
/// use linerate_model::{BitRate, Bytes};
///
/// // 64 of every 84 bytes on the wire are frame: 76.19 % of 1 Gbit/s.
/// assert_eq!(throughput_l2(BitRate(1e9), Bytes(64)).0.round(), 761_904_762.0);
/// ```
pub fn throughput_l2(rate: BitRate, frame: Bytes) -> BitRate {
    BitRate(packet_rate(rate, frame).0 * frame.bits())
}

options! {
    rate: BitRate = required("rate of the link, such as \"1 Gbit/s\"");
    frame_size: Bytes = required("untagged frame with its check sequence, such as \"64 B\"");
    // VLAN tags. Hosts send untagged frames by default.
    vlan: u32 = defaults("0", "VLAN tags on each frame, 4 bytes each");
}

/// The calculator `ethernet`.
pub(super) const LIMIT: Limit = Limit {
    name: "ethernet",
    summary: "frame rate and layer-1 and layer-2 throughput of an Ethernet link, each way (IEEE \
        802.3)",
    options: OPTIONS,
    ceilings,
};

fn ceilings(params: &Params) -> Result<Vec<Ceiling>, Vec<ParamError>> {
    let Parameters { rate, frame_size, vlan } = read(params, OPTIONS)?;
    let mut errors = link_problems(rate, vlan);
    if frame_size < SMALLEST_FRAME || frame_size > LARGEST_FRAME {
        errors.push(refusal(
            "frame_size",
            format!(
                "{frame_size} is not a frame: {SMALLEST_FRAME} to {} B with its FCS",
                LARGEST_FRAME.0
            ),
        ));
    }
    checked(errors)?;
    // Tags add to the frame: a tagged full frame is 1522 B (IEEE 802.3ac).
    let frame = Bytes(frame_size.0 + VLAN_TAG.0 * u64::from(vlan));
    let frames = packet_rate(rate, frame);
    let per_second = Measure::FramesPerSecond.figure(frames.0);
    let name = ModelName::Ethernet { rate, frame };
    let wire = frame + WIRE_OVERHEAD;
    let tags = Measure::Tags.of(vlan.into()) * VLAN_TAG;
    let per_frame = [
        Line::of(Quantity::FrameWithCheck, Expression::from(frame_size) + tags, frame),
        Line::of(Quantity::OnWire, gap_and_preamble(frame), wire),
        Line::equation(Expression::from(rate) / (Expression::from(wire) * BITS), per_second)
            .remark(Remark::EachWay),
    ];
    let bits = |bytes: Bytes| Expression::from(per_second) * bytes * BITS;
    let with = |line: Line| [&per_frame[..], &[line]].concat();
    let l2 = throughput_l2(rate, frame);
    let ceiling = |metric, value, lines| {
        Ceiling::new(name.clone(), metric, value, Direction::Tx, lines, SOURCE)
    };
    Ok(vec![
        ceiling(metric::PACKET_RATE, frames.0, per_frame.to_vec()).at_layer(Layer::L2),
        ceiling(metric::THROUGHPUT_L2, l2.0, with(Line::equation(bits(frame), l2))),
        // The layer-1 rate repeats the input, so that the report can show both layers beside
        // each other.
        ceiling(metric::THROUGHPUT_L2, rate.0, with(Line::equation(bits(wire), rate)))
            .at_layer(Layer::L1),
    ])
}

/// Returns the sum of `bytes`, preamble and gap.
pub(super) fn gap_and_preamble(bytes: impl Into<Expression>) -> Expression {
    bytes.into() + Quantity::Preamble.is(Bytes(8)) + Quantity::Gap.is(Bytes(12))
}

/// Returns an error if a link rate or a number of VLAN tags is out of range.
pub(super) fn link_problems(rate: BitRate, vlan: u32) -> Vec<ParamError> {
    let mut errors = positive("rate", rate);
    if vlan > MOST_TAGS {
        errors
            .push(refusal("vlan", format!("{vlan} tags on one frame: expected 0 to {MOST_TAGS}")));
    }
    errors
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::options::given;

    const GIGABIT: BitRate = BitRate(1e9);

    #[test]
    fn frame_rates_are_those_of_rfc_2544_appendix_b() {
        // RFC 2544 appendix B and RFC 6349; 9018 is a 9000-byte MTU.
        let one_gigabit: [(u64, f64); 8] = [
            (64, 1_488_095.0),
            (128, 844_594.0),
            (256, 452_898.0),
            (512, 234_962.0),
            (1024, 119_731.0),
            (1280, 96_153.0),
            (1518, 81_274.0),
            (9018, 13_830.0),
        ];
        for (frame, expected) in one_gigabit {
            assert_eq!(packet_rate(GIGABIT, Bytes(frame)).0.floor(), expected, "{frame} B");
        }
        assert_eq!(packet_rate(BitRate(10e9), Bytes(64)).0.floor(), 14_880_952.0);
        assert_eq!(packet_rate(BitRate(100e9), Bytes(64)).0.floor(), 148_809_523.0);
        assert_eq!(packet_rate(BitRate(10e9), Bytes(1518)).0.floor(), 812_743.0);
        assert_eq!(packet_rate(BitRate(100e9), Bytes(1518)).0.floor(), 8_127_438.0);
    }

    #[test]
    fn short_packets_are_padded_on_a_wire_and_not_on_a_shaper() {
        assert_eq!(on_wire(Bytes(1500), packet_overhead(0)), Bytes(1538));
        assert_eq!(on_wire(Bytes(29), packet_overhead(0)), Bytes(84));
        assert_eq!(on_wire(Bytes(1500), packet_overhead(1)), Bytes(1542));
        assert_eq!(on_wire(Bytes(29), Bytes(14)), Bytes(43));
    }

    #[test]
    fn the_calculator_prints_rate_and_both_layers() {
        let mut params = given([("rate", "1 Gbit/s"), ("frame_size", "64 B")]);
        let ceilings = super::ceilings(&params).expect("good options");
        assert_eq!(ceilings[0].value.floor(), 1_488_095.0);
        assert_eq!(ceilings[0].layer, Some(Layer::L2));
        assert!((ceilings[1].value - 761_904_761.9).abs() < 0.1);
        assert_eq!((ceilings[2].value, ceilings[2].layer), (1e9, Some(Layer::L1)));
        params.set("vlan", 1);
        let tagged = super::ceilings(&params).expect("good options");
        assert_eq!(tagged[0].value.floor(), 1_420_454.0);
    }

    #[test]
    fn all_wrong_options_are_named_at_once() {
        let mut params = Params::default();
        params.set("rate", "25");
        params.set("frame_size", "64");
        params.set("vlans", 1);
        let keys: Vec<String> =
            super::ceilings(&params).expect_err("bad").into_iter().map(|e| e.key).collect();
        assert_eq!(keys.len(), 3, "{keys:?}");
        let short = given([("rate", "0 bit/s"), ("frame_size", "60 B"), ("vlan", "9")]);
        assert_eq!(super::ceilings(&short).expect_err("bad").len(), 3);
    }
}
