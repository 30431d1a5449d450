//! TCP over Ethernet: the most payload a full link delivers to the application, each way.
//!
//! Units: bit/s of payload. Layer: L4. Standards: RFC 9293 (TCP), RFC 7323 (timestamps), RFC 6349 3
//! (the same arithmetic for test engineers), IEEE 802.3 for the wire.
//!
//! Not covered: acknowledgements of data that flows the other way (up to 2.7 % of the wire with one
//! for two segments), slow start, windows and loss (see [`super::window`]), and messages too small
//! to fill a segment.

use linerate_model::{BitRate, Bytes, Ceiling, Direction, ParamError, Params, metric};
use serde::Deserialize;

use super::headers::{self, IpVersion, Timestamps};
use super::options::{mtu, plain, read, refusal};
use super::{Limit, OptionDoc, defaults, ethernet, required};

const SOURCE: &str = "RFC 9293 3.1, RFC 7323 3.2, IEEE 802.3 clauses 3.1 and 4.4.2; RFC 6349 3";

/// Returns the payload each full packet carries: the MTU without `headers`; zero if nothing is
/// left.
#[must_use]
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
#[must_use]
pub fn goodput(rate: BitRate, mtu: Bytes, frame_overhead: Bytes, headers: Bytes) -> BitRate {
    let payload = segment_payload(mtu, headers).0 as f64;
    // An MTU of zero without overhead would divide by zero.
    let wire = ethernet::on_wire(mtu, frame_overhead).0.max(1) as f64;
    BitRate(rate.0 * payload / wire)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Parameters {
    rate: BitRate,
    #[serde(deserialize_with = "mtu")]
    mtu: Bytes,
    /// Without them the bound is higher, so leaving the flag out never understates it.
    #[serde(default)]
    timestamps: bool,
    /// VLAN tags. Hosts send untagged frames by default.
    #[serde(default)]
    vlan: u32,
    /// IPv4 headers are smaller: the higher bound.
    #[serde(default)]
    ipv6: bool,
}

const OPTIONS: &[OptionDoc] = &[
    required("rate", "rate of the link, such as \"10 Gbit/s\""),
    required("mtu", "IP MTU, such as 1500 or \"9000 B\""),
    defaults("timestamps", "false", "segments carry the timestamps option (12 B)"),
    defaults("vlan", "0", "VLAN tags on each frame, 4 bytes each"),
    defaults("ipv6", "false", "IPv6 instead of IPv4"),
];

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
    let errors = problems(rate, mtu, vlan, ip);
    if !errors.is_empty() {
        return Err(errors);
    }
    let timestamps = if timestamps { Timestamps::On } else { Timestamps::Off };
    let headers = headers::tcp(ip, timestamps);
    let overhead = ethernet::packet_overhead(vlan);
    let payload = segment_payload(mtu, headers);
    let wire = ethernet::on_wire(mtu, overhead);
    let goodput = goodput(rate, mtu, overhead, headers);
    let derivation = vec![
        format!(
            "headers: {} {} B + TCP {} B + timestamps {} B = {} B",
            ip.name(),
            ip.header().0,
            headers::TCP.0,
            timestamps.size().0,
            headers.0
        ),
        format!("payload of a full segment: {} B - {} B = {} B", mtu.0, headers.0, payload.0),
        wire_line(mtu, vlan, wire),
        format!(
            "{} / {} = {:.6} of the wire is payload",
            payload.0,
            wire.0,
            payload.0 as f64 / wire.0 as f64
        ),
        format!(
            "{} bit/s x {} / {} = {} bit/s each way",
            plain(rate.0),
            payload.0,
            wire.0,
            plain(goodput.0)
        ),
    ];
    let name = format!("tcp over ethernet {rate}, mtu {}", mtu.0);
    Ok(vec![Ceiling::new(name, metric::GOODPUT, goodput.0, Direction::Tx, derivation, SOURCE)])
}

/// Returns the line of a derivation with the bytes a packet occupies on the wire.
pub(super) fn wire_line(packet: Bytes, vlan: u32, wire: Bytes) -> String {
    let sum =
        format!("{} B + Ethernet 18 B + {vlan} tags x 4 B + preamble 8 B + gap 12 B", packet.0);
    let plain_sum = packet + ethernet::packet_overhead(vlan);
    // Short frames are padded, which the derivation must show or its sum is wrong.
    if plain_sum == wire {
        format!("on the wire: {sum} = {} B", wire.0)
    } else {
        format!("on the wire: {sum} = {} B, padded to {} B", plain_sum.0, wire.0)
    }
}

/// Returns an error if a link or the MTU of IP on it is out of range.
pub(super) fn problems(rate: BitRate, mtu: Bytes, vlan: u32, ip: IpVersion) -> Vec<ParamError> {
    /// The IPv4 total length is 16 bits; jumbograms are not modelled.
    const LARGEST_MTU: Bytes = Bytes(65_535);
    let mut errors = ethernet::link_problems(rate, vlan);
    if mtu < ip.smallest_mtu() || mtu > LARGEST_MTU {
        let cause = format!(
            "{} B is no MTU of {}: {} to {} B",
            mtu.0,
            ip.name(),
            ip.smallest_mtu().0,
            LARGEST_MTU.0
        );
        errors.push(refusal("mtu", cause));
    }
    errors
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let mut params = Params::default();
        params.set("rate", "10 Gbit/s");
        params.set("mtu", "9000 B");
        params.set("timestamps", true);
        let ceilings = super::ceilings(&params).expect("good options");
        assert_eq!((ceilings[0].value / 1e6).floor(), 9900.0);
        assert!(ceilings[0].value < 9966e6, "Cisco's single flow is above it");
        assert_eq!(ceilings[0].derivation[1], "payload of a full segment: 9000 B - 52 B = 8948 B");
        assert_eq!(
            ceilings[0].derivation[4],
            "10000000000 bit/s x 8948 / 9038 = 9900420447 bit/s each way"
        );
    }

    #[test]
    fn an_mtu_too_small_for_its_protocol_is_refused() {
        let mut params = Params::default();
        params.set("rate", "1 Gbit/s");
        params.set("mtu", "1000 B");
        params.set("ipv6", true);
        let errors = super::ceilings(&params).expect_err("IPv6 needs 1280");
        assert_eq!(errors[0].key, "mtu");
    }
}
