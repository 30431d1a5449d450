//! UDP over Ethernet: the most payload and the most datagrams a full link delivers, each way.
//!
//! Units: bit/s of payload, datagrams/s. Layer: L4. Standards: RFC 768 (UDP), RFC 791 3.2 and RFC
//! 8200 4.5 (fragmentation), IEEE 802.3 for the wire.
//!
//! Not covered: the sender's and receiver's cost per datagram, which is nearly always what binds
//! first, and tunnels.

use linerate_model::derivation::{Expression, Line, Measure, Quantity, Remark, Statement};
use linerate_model::{
    BitRate, Bytes, Ceiling, Direction, ModelName, PacketRate, ParamError, Params, metric,
};

use super::headers::{self, IpVersion};
use super::options::{BITS, checked, mtu, options, read, refusal};
use super::tcp::{ip_header, problems, wire_line};
use super::{Limit, defaults, ethernet, optional, required};

const SOURCE: &str = "RFC 768, RFC 791 3.2, RFC 8200 4.5, IEEE 802.3 clauses 3.1 and 4.4.2";

/// Fragments carry multiples of this many bytes, except the last one: RFC 791 3.2.
const FRAGMENT_UNIT: u64 = 8;
/// Header that IPv6 adds to each fragment, RFC 8200 4.5; IPv4 has the fields in its own header.
const IPV6_FRAGMENT_HEADER: u64 = 8;
/// UDP's length field is 16 bits and counts its own header; over IPv4 the IP header is inside the
/// 16 bits of the packet.
const LARGEST_DATAGRAM: u64 = 65_535;

/// Returns the IP packets one datagram of `payload` bytes becomes on a link of `mtu`, and their
/// bytes in all.
///
/// # Examples
/// ```
/// use linerate_analysis::limits::headers::IpVersion;
/// use linerate_analysis::limits::udp::packets;
/// use linerate_model::Bytes;
///
/// // 1472 bytes fit into one packet of 1500; one byte more makes a second fragment of 21 bytes.
/// assert_eq!(packets(Bytes(1472), Bytes(1500), IpVersion::V4), [Bytes(1500)]);
/// assert_eq!(packets(Bytes(1473), Bytes(1500), IpVersion::V4), [Bytes(1500), Bytes(21)]);
/// ```
#[must_use]
pub fn packets(payload: Bytes, mtu: Bytes, ip: IpVersion) -> Vec<Bytes> {
    let whole = payload + headers::udp(ip);
    if whole <= mtu {
        return vec![whole];
    }
    let per_fragment_header = match ip {
        IpVersion::V4 => ip.header().0,
        // IPv6 fragments carry an extension header, IPv4 keeps these fields in its own header.
        IpVersion::V6 => ip.header().0 + IPV6_FRAGMENT_HEADER,
    };
    let room = mtu.0.saturating_sub(per_fragment_header);
    // An MTU without room for one unit would loop without end.
    let room = (room / FRAGMENT_UNIT * FRAGMENT_UNIT).max(FRAGMENT_UNIT);
    let data = payload.0 + headers::UDP.0;
    // The UDP header travels only in the first fragment, so it counts as data of the fragments
    // here.
    let full = std::iter::repeat_n(Bytes(room + per_fragment_header), (data / room) as usize);
    let rest = data % room;
    full.chain((rest > 0).then_some(Bytes(rest + per_fragment_header))).collect()
}

/// Returns the most datagrams of `payload` bytes a path of `rate` delivers each way;
/// `frame_overhead` as in [`super::tcp::goodput`].
pub(crate) fn datagram_rate(
    rate: BitRate,
    payload: Bytes,
    mtu: Bytes,
    frame_overhead: Bytes,
    ip: IpVersion,
) -> PacketRate {
    let wire: f64 = packets(payload, mtu, ip)
        .iter()
        .map(|packet| ethernet::on_wire(*packet, frame_overhead).bits())
        .sum();
    PacketRate(rate.0 / wire)
}

/// Returns the most payload a path of `rate` delivers each way in datagrams of `payload` bytes.
///
/// # Examples
/// ```
/// use linerate_analysis::limits::headers::IpVersion;
/// use linerate_analysis::limits::{ethernet, udp};
/// use linerate_model::{BitRate, Bytes};
///
/// let wire = ethernet::packet_overhead(0);
/// let goodput = udp::goodput(BitRate(1e9), Bytes(1472), Bytes(1500), wire, IpVersion::V4);
/// // 1472 payload bytes in every 1538 bytes on the wire.
/// assert!((goodput.0 / 1e6 - 957.09).abs() < 0.005);
/// ```
pub fn goodput(
    rate: BitRate,
    payload: Bytes,
    mtu: Bytes,
    frame_overhead: Bytes,
    ip: IpVersion,
) -> BitRate {
    BitRate(datagram_rate(rate, payload, mtu, frame_overhead, ip).0 * payload.bits())
}

/// Returns the largest payload that is not fragmented on a link of `mtu`.
pub(crate) fn largest_payload(mtu: Bytes, ip: IpVersion) -> Bytes {
    Bytes(mtu.0.saturating_sub(headers::udp(ip).0))
}

options! {
    rate: BitRate = required("rate of the link, such as \"1 Gbit/s\"");
    #[serde(deserialize_with = "mtu")]
    mtu: Bytes = required("IP MTU, such as 1500 or \"9000 B\"");
    // If omitted, the datagram fills one packet: the highest goodput there is.
    payload: Option<Bytes> = optional("payload of a datagram; left out, it fills one packet");
    // VLAN tags. Hosts send untagged frames by default.
    vlan: u32 = defaults("0", "VLAN tags on each frame, 4 bytes each");
    // IPv4 headers are smaller: the higher bound.
    ipv6: bool = defaults("false", "IPv6 instead of IPv4");
}

/// The calculator `udp`.
pub(super) const LIMIT: Limit = Limit {
    name: "udp",
    summary: "UDP goodput and datagram rate of a full Ethernet link, each way (RFC 768, IEEE \
        802.3)",
    options: OPTIONS,
    ceilings,
};

fn ceilings(params: &Params) -> Result<Vec<Ceiling>, Vec<ParamError>> {
    let Parameters { rate, mtu, payload, vlan, ipv6 } = read(params, OPTIONS)?;
    let ip = IpVersion::from_flag(ipv6);
    let mut errors = problems(rate, mtu, vlan, ip);
    let payload = payload.unwrap_or(largest_payload(mtu, ip));
    // The IPv4 limit of 65,507 B applies to both versions, because it is the smaller one.
    let largest = LARGEST_DATAGRAM - headers::udp(IpVersion::V4).0;
    if payload.0 == 0 || payload.0 > largest {
        errors.push(refusal("payload", format!("{payload} is no datagram: 1 to {largest} B")));
    }
    checked(errors)?;
    let overhead = ethernet::packet_overhead(vlan);
    let rate_of = datagram_rate(rate, payload, mtu, overhead, ip);
    let goodput = goodput(rate, payload, mtu, overhead, ip);
    let fragments = packets(payload, mtu, ip);
    let headers = headers::udp(ip);
    let mut derivation =
        vec![Line::of(Quantity::Headers, ip_header(ip) + Quantity::Udp.is(headers::UDP), headers)];
    derivation.push(match fragments[..] {
        [packet] => Line::of(Quantity::Packet, Expression::from(payload) + headers, packet),
        _ => Statement::Fragments { payload, mtu, packets: fragments.len() }.into(),
    });
    derivation.extend(
        fragments.iter().map(|part| wire_line(*part, vlan, ethernet::on_wire(*part, overhead))),
    );
    let wire: u64 = fragments.iter().map(|part| ethernet::on_wire(*part, overhead).0).sum();
    let datagrams = Measure::DatagramsPerSecond.figure(rate_of.0);
    derivation.push(
        Line::equation(Expression::from(rate) / (Expression::from(Bytes(wire)) * BITS), datagrams)
            .remark(Remark::EachWay),
    );
    let name = ModelName::Udp { rate, mtu, payload };
    // Each fragment is a packet of its own for every device on the path.
    let packet_rate = rate_of.0 * fragments.len() as f64;
    let per_packet = Line::equation(
        Expression::from(datagrams) * Measure::Packets.of(fragments.len() as f64),
        Measure::PacketsPerSecond.figure(packet_rate),
    );
    let bits = Line::equation(Expression::from(datagrams) * payload * BITS, goodput);
    let with = |lines: &[Line]| [&derivation[..], lines].concat();
    let ceiling = |metric, value, lines: &[Line]| {
        Ceiling::new(name.clone(), metric, value, Direction::Tx, with(lines), SOURCE)
    };
    Ok(vec![
        ceiling(metric::GOODPUT, goodput.0, &[bits]),
        ceiling(metric::MESSAGE_RATE, rate_of.0, &[]),
        ceiling(metric::PACKET_RATE, packet_rate, &[per_packet]),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::options::given;

    fn fraction(mtu: u64, payload: u64, ip: IpVersion) -> f64 {
        goodput(BitRate(1.0), Bytes(payload), Bytes(mtu), ethernet::packet_overhead(0), ip).0
    }

    #[test]
    fn full_datagrams_reach_the_known_fractions() {
        // docs/methodology/ceilings.md#ethernet; 9927 Mbit/s of 10 Gbit/s at an MTU of 9000 stands
        // there too.
        assert!((fraction(1500, 1472, IpVersion::V4) - 0.957_087).abs() < 5e-7);
        assert!((fraction(9000, 8972, IpVersion::V4) - 0.992_697).abs() < 5e-7);
        assert_eq!((fraction(9000, 8972, IpVersion::V4) * 1e4).round(), 9927.0);
        assert_eq!(largest_payload(Bytes(1500), IpVersion::V6), Bytes(1452));
    }

    #[test]
    fn tiny_datagrams_are_bound_by_the_smallest_frame() {
        // RFC 2544 appendix B: 1 488 095 frames a second, whatever of 1 to 18 bytes is inside.
        for payload in [1, 18] {
            let rate = datagram_rate(
                BitRate(1e9),
                Bytes(payload),
                Bytes(1500),
                ethernet::packet_overhead(0),
                IpVersion::V4,
            );
            assert_eq!(rate.0.floor(), 1_488_095.0);
        }
    }

    #[test]
    fn a_large_datagram_is_cut_into_fragments_of_eight_byte_units() {
        // NFS's classic 8192 B over 1500: five full fragments of 1480 B and one of 800 B of data.
        let parts = packets(Bytes(8192), Bytes(1500), IpVersion::V4);
        assert_eq!(parts, [1500, 1500, 1500, 1500, 1500, 820].map(Bytes));
        let six = packets(Bytes(1453), Bytes(1500), IpVersion::V6);
        assert_eq!(six, [1496, 61].map(Bytes));
    }

    #[test]
    fn the_calculator_prints_goodput_datagrams_and_packets() {
        let mut params = given([("rate", "1 Gbit/s"), ("mtu", "1500")]);
        let ceilings = super::ceilings(&params).expect("good options");
        assert!((ceilings[0].value - 957_087_126.1).abs() < 0.1);
        assert_eq!(ceilings[1].value.floor(), 81_274.0);
        params.set("payload", "8 KiB");
        let cut = super::ceilings(&params).expect("good options");
        assert!((cut[2].value / cut[1].value - 6.0).abs() < 1e-12);
        params.set("payload", "0 B");
        assert_eq!(super::ceilings(&params).expect_err("empty")[0].key, "payload");
    }
}
