//! An emulated device under test, as a person writes it: what it can forward, what it holds, and
//! what it gets wrong.

use std::num::NonZeroU32;
use std::ops::Range;

use linerate_model::{BitRate, Bytes, Nanos, PacketRate, Problem, Ratio};
use serde::Deserialize;

use super::{
    DEFAULT_BUFFER, ETHERNET_HEADER, ETHERNET_MTU, Link, LinkEnd, Node, check_name, read_end,
};

/// A device of two ports whose capacity is known, so that what a measurement must find is known.
#[derive(Clone, Debug, PartialEq)]
pub struct Element {
    /// Its name.
    pub name: String,
    /// What its two ports lead to.
    pub ends: [LinkEnd; 2],
    /// Rate of its ports each way, counted as an Ethernet wire does: with preamble, FCS and gap.
    /// `None`: frames are there at once.
    pub port_rate: Option<BitRate>,
    /// What it forwards each way, counted likewise; `None`: as much as its ports.
    pub rate: Option<BitRate>,
    /// Frames it forwards a second, each way.
    pub packet_rate: Option<PacketRate>,
    /// What it holds each way, as Ethernet frames without FCS.
    pub buffer: Bytes,
    /// How many frames it holds each way, whatever their size.
    pub buffer_frames: Option<NonZeroU32>,
    /// When a frame begins to leave.
    pub forwarding: Forwarding,
    /// How long a frame takes through it beside waiting and serialisation, each way.
    pub delay: Nanos,
    /// When it stands still: nothing leaves, what comes is held.
    pub stall: Option<Stall>,
    /// What it does to datagrams on purpose.
    pub faults: Faults,
    /// IP MTU.
    pub mtu: Bytes,
}

/// When a device begins to send a frame on (RFC 1242 clause 3.8).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Forwarding {
    /// Once it has come whole.
    #[default]
    StoreAndForward,
    /// As it comes.
    CutThrough,
}

/// Spans in which a device forwards nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stall {
    /// How long each lasts.
    pub length: Nanos,
    /// From the start of one to the start of the next, on average if they are random.
    pub every: Nanos,
    /// Whether they come at random.
    #[serde(default)]
    pub random: bool,
    /// Seed of their times, if they do.
    #[serde(default)]
    pub seed: u64,
}

/// What a link or device does to datagrams on purpose, so that what a measurement must find is
/// known.
///
/// Every n-th is meant exactly, by no chance. Datagrams are counted for each direction and frame
/// length apart: neither answers nor the few small ones with which a measurement begins move the
/// count of the stream that is measured. Only UDP, over IPv4 or IPv6 without extension headers, is
/// touched, but for `drop_packets`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Faults {
    /// Every n-th datagram is dropped.
    pub drop_one_in: Option<NonZeroU32>,
    /// This part of them is dropped, at random.
    pub drop_ratio: Option<Ratio>,
    /// This part of all IP packets is dropped, at random, TCP's too.
    pub drop_packets: Option<Ratio>,
    /// Every n-th datagram arrives twice.
    pub duplicate_one_in: Option<NonZeroU32>,
    /// Every n-th datagram is overtaken by those after it.
    pub reorder_one_in: Option<NonZeroU32>,
    /// By how many; one unless it is said.
    pub reorder_by: Option<NonZeroU32>,
    /// A copy of every n-th datagram goes back where it came from.
    pub reflect_one_in: Option<NonZeroU32>,
    /// Seed of what is random.
    pub seed: u64,
}

impl Element {
    /// What `link` does to frames beside its shaper, as a device without limits.
    #[must_use]
    pub fn of_link(link: &Link) -> Self {
        Self {
            name: format!("link {}-{}", link.ends[0].node, link.ends[1].node),
            ends: link.ends.clone(),
            port_rate: None,
            rate: None,
            packet_rate: None,
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

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ElementText {
    name: String,
    ends: [String; 2],
    port_rate: Option<BitRate>,
    rate: Option<BitRate>,
    packet_rate: Option<PacketRate>,
    buffer: Option<Bytes>,
    buffer_frames: Option<NonZeroU32>,
    #[serde(default)]
    forwarding: Forwarding,
    delay: Option<Nanos>,
    stall: Option<Stall>,
    #[serde(default)]
    faults: Faults,
    mtu: Option<Bytes>,
}

/// Reads a device under test; what cannot be is a problem.
pub(super) fn read(
    element: &toml::Spanned<ElementText>,
    nodes: &[Node],
    problems: &mut Vec<Problem>,
) -> Element {
    let (text, span) = (element.get_ref(), element.span());
    check_name(&text.name, Some(span.clone()), problems);
    if text.ends[0] == text.ends[1] {
        problems.push(Problem::new(Some(span.clone()), "a device joins two different nodes"));
    }
    let element = Element {
        name: text.name.clone(),
        ends: [0, 1].map(|i| read_end(&text.ends[i], nodes, span.clone(), problems)),
        port_rate: text.port_rate,
        rate: text.rate,
        packet_rate: text.packet_rate,
        buffer: text.buffer.unwrap_or(DEFAULT_BUFFER),
        buffer_frames: text.buffer_frames,
        forwarding: text.forwarding,
        delay: text.delay.unwrap_or_default(),
        stall: text.stall,
        faults: text.faults,
        mtu: text.mtu.unwrap_or(ETHERNET_MTU),
    };
    check(&element, &span, problems);
    element
}

/// What no device can be.
fn check(element: &Element, span: &Range<usize>, problems: &mut Vec<Problem>) {
    let mut refuse = |wrong: bool, message: &str, expected: String| {
        if wrong {
            problems.push(Problem::new(Some(span.clone()), message).expected(expected));
        }
    };
    let rates = [element.port_rate.map(|rate| rate.0), element.rate.map(|rate| rate.0)];
    let rates = rates.into_iter().chain([element.packet_rate.map(|rate| rate.0)]).flatten();
    refuse(
        rates.into_iter().any(|rate| rate <= 0.0),
        "a rate of a device is zero",
        "a rate above zero, or none".into(),
    );
    let faster = element.rate.zip(element.port_rate).is_some_and(|(rate, port)| rate.0 > port.0);
    refuse(
        faster,
        "a device cannot forward faster than its ports carry",
        "`rate` up to `port_rate`".into(),
    );
    let instant = element.forwarding == Forwarding::CutThrough && element.port_rate.is_none();
    let expected = "`port_rate`: without it a frame is there at once";
    refuse(instant, "a cut-through device needs ports with a rate", expected.into());
    let frame = element.mtu + ETHERNET_HEADER;
    let small = element.buffer < frame;
    refuse(small, "`buffer` does not hold one full frame", format!("at least {} B", frame.0));
    let endless =
        element.stall.is_some_and(|stall| stall.length.0 == 0 || stall.length >= stall.every);
    refuse(
        endless,
        "a stall is as long as the time between stalls, or no time at all",
        "`length` below `every`".into(),
    );
    let faults = &element.faults;
    let beyond = faults.drop_ratio.is_some_and(|ratio| !(0.0..=1.0).contains(&ratio.0));
    refuse(beyond, "`drop_ratio` is no part of a whole", "0 % to 100 %".into());
    let beyond = faults.drop_packets.is_some_and(|ratio| !(0.0..=1.0).contains(&ratio.0));
    refuse(beyond, "`drop_packets` is no part of a whole", "0 % to 100 %".into());
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
            "[lab]\nname='x'\n[[host]]\nname='a'\n[[host]]\nname='b'\n[[element]]\nname='dut'\nends=['a','b']\n{more}"
        ))
    }

    #[test]
    fn a_device_without_limits_forwards_all_and_one_with_all_of_them_is_read() {
        let (lab, problems) = parse("");
        assert_eq!(problems, []);
        let plain = &lab.expect("no problem").elements[0];
        assert_eq!((plain.rate, plain.packet_rate, plain.stall), (None, None, None));
        let (lab, problems) = parse(
            "port_rate='1 Gbit/s'\nrate='100 Mbit/s'\npacket_rate='20 kpps'\nbuffer='8 \
                KiB'\nbuffer_frames=4\n\
             forwarding='cut-through'\ndelay='1 ms'\nstall={length='5 ms',every='1 s'}\n\
             faults={drop_one_in=100,drop_ratio='0.1 %',duplicate_one_in=9,reorder_one_in=8,reorder_by=3,reflect_one_in=7,seed=5}\n",
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
    fn a_buffer_holds_a_full_frame_with_its_header() {
        for (buffer, n_problems) in [("1513 B", 1), ("1514 B", 0)] {
            let (_, problems) = parse(&format!("port_rate='1 Mbit/s'\nbuffer='{buffer}'\n"));
            assert_eq!(problems.len(), n_problems, "{buffer}: {problems:?}");
        }
    }

    #[test]
    fn what_no_device_can_be_is_refused_at_once() {
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
