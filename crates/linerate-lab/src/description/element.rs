//! Emulated device under test, as a person writes it: its forwarding rates, buffers and faults.

use std::num::NonZeroU32;
use std::ops::Range;

use linerate_model::{BitRate, Bytes, Nanos, PacketRate, Problem, Ratio};
use serde::Deserialize;

use super::{
    ETHERNET_HEADER, Link, LinkEnd, Node, check_ends, check_name, usual_buffer, usual_mtu,
};

/// Device of two ports with a known capacity: the known answer of a measurement.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Element {
    /// Its name.
    pub name: String,
    /// Nodes at its two ports.
    pub ends: [LinkEnd; 2],
    /// Rate of its ports each way, counted as on an Ethernet wire: with preamble, FCS and gap.
    /// `None`: frames arrive at once.
    pub port_rate: Option<BitRate>,
    /// Forwarding rate each way, counted likewise. `None`: that of its ports.
    pub rate: Option<BitRate>,
    /// Frames forwarded a second, each way.
    pub packet_rate: Option<PacketRate>,
    /// Size of its buffer each way, in bytes of Ethernet frames without FCS.
    #[serde(default = "usual_buffer")]
    pub buffer: Bytes,
    /// Most frames in its buffer each way, of any size.
    pub buffer_frames: Option<NonZeroU32>,
    /// Moment at which a frame begins to leave.
    #[serde(default)]
    pub forwarding: Forwarding,
    /// Time of a frame in the device beside waiting and serialisation, each way.
    #[serde(default)]
    pub delay: Nanos,
    /// Stalls, in which no frame leaves and arriving ones wait.
    pub stall: Option<Stall>,
    /// Faults on purpose.
    #[serde(default)]
    pub faults: Faults,
    /// IP MTU.
    #[serde(default = "usual_mtu")]
    pub mtu: Bytes,
}

/// Moment at which a device begins to forward a frame (RFC 1242 clause 3.8).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Forwarding {
    /// After it has arrived completely.
    #[default]
    StoreAndForward,
    /// While it arrives.
    CutThrough,
}

/// Spans in which a device forwards nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stall {
    /// Duration of each.
    pub length: Nanos,
    /// Time from the start of one to the start of the next; the mean if they are random.
    pub every: Nanos,
    /// True if they are at random times.
    #[serde(default)]
    pub random: bool,
    /// Seed of random times.
    #[serde(default)]
    pub seed: u64,
}

/// Faults of a link or device on purpose: the known answer of a measurement.
///
/// "Every n-th" is exact, without chance. Datagrams are counted separately for each direction and
/// frame length, so that answers and the small datagrams at the beginning of a measurement do not
/// shift the count of the measured stream. Faults affect UDP over IPv4 or IPv6 without extension
/// headers; only `drop_packets` affects all IP packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Faults {
    /// Every n-th datagram is dropped.
    pub drop_one_in: Option<NonZeroU32>,
    /// Share of datagrams that is dropped at random.
    pub drop_ratio: Option<Ratio>,
    /// Share of all IP packets, including TCP, that is dropped at random.
    pub drop_packets: Option<Ratio>,
    /// Every n-th datagram arrives twice.
    pub duplicate_one_in: Option<NonZeroU32>,
    /// Every n-th datagram is overtaken by later ones.
    pub reorder_one_in: Option<NonZeroU32>,
    /// Number of datagrams that overtake it; 1 by default.
    pub reorder_by: Option<NonZeroU32>,
    /// A copy of every n-th datagram goes back to its sender.
    pub reflect_one_in: Option<NonZeroU32>,
    /// Seed of random faults.
    pub seed: u64,
}

impl Element {
    /// Returns the delay and faults of `link` as a device without limits.
    #[must_use]
    pub fn of_link(link: &Link) -> Self {
        Self {
            name: format!("link {}-{}", link.ends[0].node, link.ends[1].node),
            ends: link.ends.clone(),
            port_rate: None,
            rate: None,
            packet_rate: None,
            // A link has no buffer of its own: a shaper at its ends has.
            buffer: Bytes(u64::MAX),
            buffer_frames: None,
            forwarding: Forwarding::StoreAndForward,
            delay: link.delay.unwrap_or_default(),
            stall: None,
            faults: link.faults,
            mtu: link.mtu,
        }
    }
}

/// Returns a device under test, and adds a problem for everything impossible.
pub(super) fn read(
    element: toml::Spanned<Element>,
    nodes: &[Node],
    problems: &mut Vec<Problem>,
) -> Element {
    let (span, element) = (element.span(), element.into_inner());
    check_name(&element.name, Some(span.clone()), problems);
    check_ends(&element.ends, "a device", nodes, &span, problems);
    check(&element, &span, problems);
    element
}

/// Returns the problem of a property that is `wrong`.
fn refusal(span: &Range<usize>, wrong: bool, message: &str, expected: String) -> Option<Problem> {
    wrong.then(|| Problem::new(Some(span.clone()), message).expected(expected))
}

/// Adds a problem for every impossible property.
fn check(element: &Element, span: &Range<usize>, problems: &mut Vec<Problem>) {
    let mut refuse = |wrong, message, expected| {
        problems.extend(refusal(span, wrong, message, expected));
    };
    let rates = [element.port_rate.map(|rate| rate.0), element.rate.map(|rate| rate.0)];
    let rates = rates.into_iter().chain([element.packet_rate.map(|rate| rate.0)]).flatten();
    refuse(
        rates.into_iter().any(|rate| rate <= 0.0),
        "a rate of a device is zero",
        "a rate above zero, or none".into(),
    );
    // A port sends at its own rate at most, so a higher forwarding rate could never be seen.
    let faster = element.rate.zip(element.port_rate).is_some_and(|(rate, port)| rate.0 > port.0);
    refuse(
        faster,
        "a device cannot forward faster than the rate of its ports",
        "`rate` up to `port_rate`".into(),
    );
    let instant = element.forwarding == Forwarding::CutThrough && element.port_rate.is_none();
    let expected = "`port_rate`: without it a frame arrives at once";
    refuse(instant, "a cut-through device needs ports with a rate", expected.into());
    let frame = element.mtu + ETHERNET_HEADER;
    let small = element.buffer < frame;
    refuse(small, "`buffer` does not hold one full frame", format!("at least {} B", frame.0));
    let endless =
        // Stalls without a gap between them would stop the device for ever.
        element.stall.is_some_and(|stall| stall.length.0 == 0 || stall.length >= stall.every);
    refuse(
        endless,
        "a stall is as long as the time between stalls, or no time at all",
        "`length` below `every`".into(),
    );
    let faults = &element.faults;
    let beyond = faults.drop_ratio.is_some_and(|ratio| !(0.0..=1.0).contains(&ratio.0));
    refuse(beyond, "`drop_ratio` is not a share", "0 % to 100 %".into());
    let beyond = faults.drop_packets.is_some_and(|ratio| !(0.0..=1.0).contains(&ratio.0));
    refuse(beyond, "`drop_packets` is not a share", "0 % to 100 %".into());
    let orderly = faults.reorder_by.is_some() && faults.reorder_one_in.is_none();
    refuse(
        orderly,
        "`reorder_by` without `reorder_one_in` does nothing",
        "both, or neither".into(),
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Description;

    fn parse(more: &str) -> (Option<Description>, Vec<Problem>) {
        Description::parse(&format!(
            "[lab]\nname='x'\n[[host]]\nname='a'\n[[host]]\nname='b'\n[[element]]\nname='dut'\n\
                ends=['a','b']\n{more}"
        ))
    }

    #[test]
    fn a_device_is_read_with_no_limit_and_with_every_limit() {
        let (lab, problems) = parse("");
        assert_eq!(problems, []);
        let plain = &lab.expect("no problem").elements[0];
        assert_eq!((plain.rate, plain.packet_rate, plain.stall), (None, None, None));
        let (lab, problems) = parse(
            "port_rate='1 Gbit/s'\nrate='100 Mbit/s'\npacket_rate='20 kpps'\nbuffer='8 \
                KiB'\nbuffer_frames=4\n\
             forwarding='cut-through'\ndelay='1 ms'\nstall={length='5 ms',every='1 s'}\n\
             faults={drop_one_in=100,drop_ratio='0.1 %',duplicate_one_in=9,reorder_one_in=8,\
             reorder_by=3,reflect_one_in=7,seed=5}\n",
        );
        assert_eq!(problems, []);
        let full = &lab.expect("no problem").elements[0];
        assert_eq!(
            (full.forwarding, full.buffer, full.packet_rate),
            (Forwarding::CutThrough, Bytes(8192), Some(PacketRate(20e3)))
        );
        assert_eq!(
            full.stall.map(|stall| (stall.length, stall.every, stall.random)),
            Some((Nanos(5_000_000), Nanos(1_000_000_000), false))
        );
        assert_eq!(
            (full.faults.drop_ratio, full.faults.reorder_by.map(NonZeroU32::get)),
            (Some(Ratio(0.001)), Some(3))
        );
    }

    #[test]
    fn a_buffer_has_room_for_a_full_frame_with_its_header() {
        for (buffer, n_problems) in [("1513 B", 1), ("1514 B", 0)] {
            let (_, problems) = parse(&format!("port_rate='1 Mbit/s'\nbuffer='{buffer}'\n"));
            assert_eq!(problems.len(), n_problems, "{buffer}: {problems:?}");
        }
    }

    #[test]
    fn every_impossible_property_is_refused_at_once() {
        let (_, problems) = parse(
            "port_rate='1 Mbit/s'\nrate='2 Mbit/s'\nbuffer='100 \
                B'\nstall={length='1 s',every='1 s'}\n\
             faults={drop_ratio='101 %',reorder_by=2}\n",
        );
        assert_eq!(problems.len(), 5, "{problems:?}");
        let (_, problems) = parse("forwarding='cut-through'\npacket_rate='0 pps'\n");
        let messages: Vec<&str> = problems.iter().map(|problem| problem.message.as_str()).collect();
        assert_eq!(
            messages,
            ["a rate of a device is zero", "a cut-through device needs ports with a rate"]
        );
    }
}
