//! TCP over Ethernet: the most payload a full link delivers to the application, each way.
//!
//! Units: bit/s of payload. Layer: L4. Standards: RFC 9293 (TCP), RFC 7323 (timestamps), RFC 6349 3
//! (the same arithmetic for test engineers), IEEE 802.3 for the wire.
//!
//! Not covered: acknowledgements of data that flows the other way (up to 2.7 % of the wire with one
//! for two segments), slow start, windows and loss (see [`super::window`]), and messages too small
//! to fill a segment.

use linerate_model::derivation::{Expression, Figure, Line, Measure, Quantity, Remark};
use linerate_model::{BitRate, Bytes, Ceiling, Direction, ModelName, ParamError, Params, metric};

use super::headers::{self, IpVersion, Timestamps};
use super::options::{checked, mtu, options, read, refusal};
use super::{Limit, defaults, ethernet, required};

const SOURCE: &str = "RFC 9293 3.1, RFC 7323 3.2, IEEE 802.3 clauses 3.1 and 4.4.2; RFC 6349 3";

/// Returns the payload each full packet carries: the MTU without `headers`; zero if nothing is
/// left.
pub fn segment_payload(mtu: Bytes, headers: Bytes) -> Bytes {
    // A tiny MTU leaves no payload; the caller reports it.
    Bytes(mtu.0.saturating_sub(headers.0))
}

/// Returns the most payload a path of `rate` delivers each way in packets of `mtu` bytes.
///
/// `frame_overhead` is what is counted per packet beyond the IP packet where `rate` holds: 38 on an
/// Ethernet wire ([`ethernet::packet_overhead`]), 14 for a shaper that sees Ethernet headers, 0 for
/// a bus. `headers` are those of [`headers::tcp`]. Zero if the headers leave no room.
///
/// # Examples
/// ```
/// use linerate_analysis::limits::{ethernet, headers, tcp};
/// use linerate_model::{BitRate, Bytes};
///
/// let headers = headers::tcp(headers::IpVersion::V4, headers::Timestamps::On);
/// let goodput = tcp::goodput(BitRate(1e9), Bytes(1500), ethernet::packet_overhead(0), headers);
/// // 1448 payload bytes in every 1538 bytes on the wire.
/// assert!((goodput.0 / 1e6 - 941.48).abs() < 0.005);
/// ```
pub fn goodput(rate: BitRate, mtu: Bytes, frame_overhead: Bytes, headers: Bytes) -> BitRate {
    let payload = segment_payload(mtu, headers).0 as f64;
    // An MTU of zero without overhead would divide by zero.
    let wire = ethernet::on_wire(mtu, frame_overhead).0.max(1) as f64;
    BitRate(rate.0 * payload / wire)
}

options! {
    rate: BitRate = required("rate of the link, such as \"10 Gbit/s\"");
    #[serde(deserialize_with = "mtu")]
    mtu: Bytes = required("IP MTU, such as 1500 or \"9000 B\"");
    // Without them the bound is higher, so leaving the flag out never understates it.
    timestamps: bool = defaults("false", "segments carry the timestamps option (12 B)");
    // VLAN tags. Hosts send untagged frames by default.
    vlan: u32 = defaults("0", "VLAN tags on each frame, 4 bytes each");
    // IPv4 headers are smaller: the higher bound.
    ipv6: bool = defaults("false", "IPv6 instead of IPv4");
}

/// The calculator `tcp`.
pub(super) const LIMIT: Limit = Limit {
    name: "tcp",
    summary: "TCP goodput of a full Ethernet link, each way (RFC 9293, RFC 7323, IEEE 802.3)",
    options: OPTIONS,
    ceilings,
};

fn ceilings(params: &Params) -> Result<Vec<Ceiling>, Vec<ParamError>> {
    let Parameters { rate, mtu, timestamps, vlan, ipv6 } = read(params, OPTIONS)?;
    let ip = IpVersion::from_flag(ipv6);
    checked(problems(rate, mtu, vlan, ip))?;
    let timestamps = if timestamps { Timestamps::On } else { Timestamps::Off };
    let headers = headers::tcp(ip, timestamps);
    let overhead = ethernet::packet_overhead(vlan);
    let payload = segment_payload(mtu, headers);
    let wire = ethernet::on_wire(mtu, overhead);
    let goodput = goodput(rate, mtu, overhead, headers);
    let derivation = vec![
        headers_line(ip, timestamps),
        Line::of(Quantity::SegmentPayload, Expression::from(mtu) - headers, payload),
        wire_line(mtu, vlan, wire),
        Line::equation(
            Expression::from(payload.0) / wire.0,
            Figure::from(payload.0 as f64 / wire.0 as f64),
        )
        .remark(Remark::OfWire),
        Line::equation(Expression::from(rate) * payload.0 / wire.0, goodput)
            .remark(Remark::EachWay),
    ];
    let name = ModelName::Tcp { rate, mtu };
    Ok(vec![Ceiling::new(name, metric::GOODPUT, goodput.0, Direction::Tx, derivation, SOURCE)])
}

/// Returns the name of `ip`.
pub(crate) const fn ip_name(ip: IpVersion) -> Quantity {
    match ip {
        IpVersion::V4 => Quantity::Ipv4,
        IpVersion::V6 => Quantity::Ipv6,
    }
}

/// Returns the header of `ip` by its name.
pub(super) fn ip_header(ip: IpVersion) -> Expression {
    ip_name(ip).is(ip.header())
}

/// Returns the line of a derivation with the headers of a full segment.
pub(crate) fn headers_line(ip: IpVersion, timestamps: Timestamps) -> Line {
    let parts =
        ip_header(ip) + Quantity::Tcp.is(headers::TCP) + Quantity::Timestamps.is(timestamps.size());
    Line::of(Quantity::Headers, parts, headers::tcp(ip, timestamps))
}

/// Returns the line of a derivation with the bytes a packet occupies on the wire.
pub(super) fn wire_line(packet: Bytes, vlan: u32, wire: Bytes) -> Line {
    let frame = Expression::from(packet) + Quantity::EthernetHeader.is(ethernet::FRAME_OVERHEAD);
    let tags = Measure::Tags.of(vlan.into()) * ethernet::VLAN_TAG;
    let sum = packet + ethernet::packet_overhead(vlan);
    let line = Line::of(Quantity::OnWire, ethernet::gap_and_preamble(frame + tags), sum);
    // Short frames are padded, which the derivation must show or its sum is wrong.
    if sum == wire { line } else { line.remark(Remark::PaddedTo(wire)) }
}

/// Returns an error if a link or the MTU of IP on it is out of range.
pub(super) fn problems(rate: BitRate, mtu: Bytes, vlan: u32, ip: IpVersion) -> Vec<ParamError> {
    /// The IPv4 total length is 16 bits; jumbograms are not modelled.
    const LARGEST_MTU: Bytes = Bytes(65_535);
    let mut errors = ethernet::link_problems(rate, vlan);
    if mtu < ip.smallest_mtu() || mtu > LARGEST_MTU {
        let (name, least, most) = (ip.name(), ip.smallest_mtu().0, LARGEST_MTU.0);
        errors
            .push(refusal("mtu", format!("{} B is no MTU of {name}: {least} to {most} B", mtu.0)));
    }
    errors
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::options::given;

    fn fraction(mtu: u64, vlan: u32, ip: IpVersion, timestamps: Timestamps) -> f64 {
        goodput(
            BitRate(1.0),
            Bytes(mtu),
            ethernet::packet_overhead(vlan),
            headers::tcp(ip, timestamps),
        )
        .0
    }

    #[test]
    fn goodput_fractions_are_the_known_ones() {
        // docs/methodology/ceilings.md#ethernet: six decimals.
        let golden = [
            (1500, 0, IpVersion::V4, Timestamps::Off, 0.949_285),
            (1500, 0, IpVersion::V4, Timestamps::On, 0.941_482),
            (1500, 0, IpVersion::V6, Timestamps::On, 0.928_479),
            (1500, 1, IpVersion::V4, Timestamps::On, 0.939_040),
            (9000, 0, IpVersion::V4, Timestamps::Off, 0.991_370),
            (9000, 0, IpVersion::V4, Timestamps::On, 0.990_042),
            (9000, 0, IpVersion::V6, Timestamps::On, 0.987_829),
        ];
        for (mtu, vlan, ip, timestamps, expected) in golden {
            let value = fraction(mtu, vlan, ip, timestamps);
            assert!((value - expected).abs() < 5e-7, "{mtu} {vlan} {ip:?} {timestamps:?}: {value}");
        }
    }

    #[test]
    fn a_t3_line_of_rfc_6349_carries_42_8_megabits() {
        // RFC 6349 3.3.1: 44.21 Mbit/s, 8 bytes of overhead, 3664 packets a second of 1460 bytes.
        let value = goodput(BitRate(44.21e6), Bytes(1500), Bytes(8), Bytes(40));
        assert!((value.0 / 1e6 - 42.8).abs() < 0.01, "{value}");
        assert_eq!((value.0 / Bytes(1460).bits()).floor(), 3664.0);
    }

    #[test]
    fn the_sideband_at_100_megabits_carries_94_15_with_timestamps() {
        // docs/methodology/ceilings.md#nc-si-sideband: 94.93 and 94.15 Mbit/s.
        let value = |ts| fraction(1500, 0, IpVersion::V4, ts) * 100.0;
        assert!((value(Timestamps::Off) - 94.93).abs() < 0.005);
        assert!((value(Timestamps::On) - 94.15).abs() < 0.005);
    }

    #[test]
    fn the_calculator_derives_ciscos_ceiling_that_the_paper_exceeds() {
        let params = given([("rate", "10 Gbit/s"), ("mtu", "9000 B"), ("timestamps", "true")]);
        let ceilings = super::ceilings(&params).expect("good options");
        assert_eq!((ceilings[0].value / 1e6).floor(), 9900.0);
        assert!(ceilings[0].value < 9966e6, "Cisco's single flow is above it");
    }

    #[test]
    fn an_mtu_too_small_for_its_protocol_is_refused() {
        let params = given([("rate", "1 Gbit/s"), ("mtu", "1000 B"), ("ipv6", "true")]);
        let errors = super::ceilings(&params).expect_err("IPv6 needs 1280");
        assert_eq!(errors[0].key, "mtu");
    }
}
