//! A network controller of a lab, as a person writes it: its two ports, its buffers, and what its
//! control plane says and gets wrong.

use std::num::NonZeroU32;
use std::ops::Range;

use linerate_model::{BitRate, Bytes, Nanos, Problem};
use serde::Deserialize;

use super::{ETHERNET_HEADER, ETHERNET_MTU, LinkEnd, Node, NodeKind, check_name, read_end};

/// A network controller that passes a management controller's traffic through (NC-SI, DSP0222): a
/// fast port, a slow sideband, and a small buffer between them.
#[derive(Clone, Debug, PartialEq)]
pub struct Controller {
    /// Its name.
    pub name: String,
    /// Its port on the network.
    pub network: Port,
    /// Its sideband to the management controller.
    pub sideband: Port,
    /// What it holds on the way from the network to the sideband.
    pub buffer: Bytes,
    /// What it holds on the way back.
    pub transmit_buffer: Bytes,
    /// How long a frame takes through it beside waiting and serialisation, each way.
    pub delay: Nanos,
    /// IP MTU.
    pub mtu: Bytes,
    /// Packages it answers as.
    pub packages: u8,
    /// Channels of each package; the first of the first has the port on the network.
    pub channels: u8,
    /// Whether that channel passes frames from the start, as if a management controller had set it
    /// up; else it is in Initial State.
    pub configured: bool,
    /// What Get Capabilities says of its buffer; more than 32 bits hold reads as all-ones.
    pub reported_buffer: Bytes,
    /// What is wrong with its answers.
    pub faults: ControllerFaults,
}

/// One side of a controller.
#[derive(Clone, Debug, PartialEq)]
pub struct Port {
    /// What it is connected to.
    pub to: LinkEnd,
    /// Its rate each way, counted as an Ethernet wire does: with preamble, FCS and gap.
    pub rate: BitRate,
}

/// What a controller gets wrong, by order: all of it has been seen in real ones.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ControllerFaults {
    /// Get Controller Packet Statistics begins from zero at each reading, and says so.
    pub clear_on_read: bool,
    /// Statistics have 172 and 44 bytes, as in old firmware, instead of 204 and 48.
    pub legacy_statistics: bool,
    /// All statistics read all-ones, as counters do that a controller does not have.
    pub all_ones: bool,
    /// Nothing is answered.
    pub silent: bool,
    /// How long every answer takes.
    pub reply_delay: Nanos,
    /// How long nothing is heard after Reset Channel.
    pub deaf_after_reset: Nanos,
    /// Every n-th answer is lost.
    pub lose_reply_one_in: Option<NonZeroU32>,
    /// Every n-th answer comes twice.
    pub duplicate_reply_one_in: Option<NonZeroU32>,
    /// Every n-th answer has the instance number of another command.
    pub mistake_reply_one_in: Option<NonZeroU32>,
    /// Every n-th answer is cut off.
    pub truncate_reply_one_in: Option<NonZeroU32>,
    /// What stands for the checksum of answers.
    pub checksum: Checksum,
}

/// What stands where the checksum belongs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Checksum {
    /// The checksum.
    #[default]
    Right,
    /// Something else.
    Wrong,
    /// Zero: it is not used.
    None,
}

/// Pass-through buffer of the controllers in the paper that made the case (Intel, NC-SI Overview
/// and Performance, 2013).
const BUFFER: Bytes = Bytes(8 << 10);
/// Towards the faster side a queue hardly builds up; room for a burst of the management
/// controller's own.
const TRANSMIT_BUFFER: Bytes = Bytes(64 << 10);
/// Packages and channels that a control packet can address (DSP0222): three bits, and five bits
/// less the package itself.
const MAX_PACKAGES: u8 = 8;
const MAX_CHANNELS: u8 = 31;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ControllerText {
    name: String,
    network: PortText,
    sideband: PortText,
    buffer: Option<Bytes>,
    transmit_buffer: Option<Bytes>,
    delay: Option<Nanos>,
    mtu: Option<Bytes>,
    packages: Option<toml::Spanned<u8>>,
    channels: Option<toml::Spanned<u8>>,
    configured: Option<bool>,
    reported_buffer: Option<Bytes>,
    #[serde(default)]
    faults: ControllerFaults,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PortText {
    to: String,
    rate: BitRate,
}

/// Reads a controller; what cannot be is a problem.
pub(super) fn read(
    controller: &toml::Spanned<ControllerText>,
    nodes: &[Node],
    problems: &mut Vec<Problem>,
) -> Controller {
    let (text, span) = (controller.get_ref(), controller.span());
    check_name(&text.name, Some(span.clone()), problems);
    let network_kinds = [NodeKind::Switch, NodeKind::Host];
    let network = read_port("network port", &text.network, &network_kinds, &span, nodes, problems);
    let sideband = read_port("sideband", &text.sideband, &[NodeKind::Host], &span, nodes, problems);
    let buffer = text.buffer.unwrap_or(BUFFER);
    let controller = Controller {
        name: text.name.clone(),
        network,
        sideband,
        buffer,
        transmit_buffer: text.transmit_buffer.unwrap_or(TRANSMIT_BUFFER),
        delay: text.delay.unwrap_or_default(),
        mtu: text.mtu.unwrap_or(ETHERNET_MTU),
        packages: read_count("packages", text.packages.as_ref(), MAX_PACKAGES, problems),
        channels: read_count("channels", text.channels.as_ref(), MAX_CHANNELS, problems),
        configured: text.configured.unwrap_or(true),
        reported_buffer: text.reported_buffer.unwrap_or(buffer),
        faults: text.faults.clone(),
    };
    let frame = controller.mtu + ETHERNET_HEADER;
    for (key, buffer) in
        [("buffer", controller.buffer), ("transmit_buffer", controller.transmit_buffer)]
    {
        if buffer < frame {
            let problem =
                Problem::new(Some(span.clone()), format!("`{key}` does not hold one full frame"));
            problems.push(problem.expected(format!("at least {} B", frame.0)));
        }
    }
    controller
}

fn read_port(
    side: &str,
    text: &PortText,
    kinds: &[NodeKind],
    span: &Range<usize>,
    nodes: &[Node],
    problems: &mut Vec<Problem>,
) -> Port {
    let to = read_end(&text.to, nodes, span.clone(), problems);
    if nodes.iter().any(|node| node.name == to.node && !kinds.contains(&node.kind)) {
        let message = format!("the {side} of a controller cannot lead to `{}`", to.node);
        let expected = if kinds.len() > 1 { "a switch or a host" } else { "a host" };
        problems.push(Problem::new(Some(span.clone()), message).expected(expected));
    }
    if text.rate.0 <= 0.0 {
        problems.push(Problem::new(
            Some(span.clone()),
            format!("the {side} of a controller has no rate"),
        ));
    }
    Port { to, rate: text.rate }
}

/// A count from one to `most`; one if it is absent.
fn read_count(
    key: &str,
    count: Option<&toml::Spanned<u8>>,
    most: u8,
    problems: &mut Vec<Problem>,
) -> u8 {
    let Some(count) = count else { return 1 };
    let n = *count.get_ref();
    if n == 0 || n > most {
        let problem =
            Problem::new(Some(count.span()), format!("a controller cannot have {n} {key}"));
        problems.push(problem.expected(format!("1 to {most}")));
    }
    n
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Description;

    fn parse(more: &str) -> (Option<Description>, Vec<Problem>) {
        Description::parse(&format!(
            "[lab]\nname='x'\n[[host]]\nname='a'\n[[host]]\nname='bmc'\n[[router]]\nname='r'\n[[controller]]\nname='nc'\n{more}"
        ))
    }

    const PORTS: &str = "network={to='a',rate='1 Gbit/s'}\nsideband={to='bmc',rate='100 Mbit/s'}\n";

    #[test]
    fn a_controller_tells_the_truth_unless_told_otherwise() {
        let (lab, problems) = parse(PORTS);
        assert_eq!(problems, []);
        let controller = &lab.expect("no problem").controllers[0];
        assert_eq!((controller.buffer, controller.reported_buffer), (Bytes(8192), Bytes(8192)));
        assert_eq!((controller.packages, controller.channels, controller.configured), (1, 1, true));
        assert_eq!(controller.faults, ControllerFaults::default());
        let (lab, problems) = parse(&format!(
            "{PORTS}reported_buffer='7 B'\nconfigured=false\nchannels=2\nfaults={{reply_delay='30 \
                ms',checksum='wrong',lose_reply_one_in=3}}\n"
        ));
        assert_eq!(problems, []);
        let controller = &lab.expect("no problem").controllers[0];
        assert_eq!(
            (controller.reported_buffer, controller.channels, controller.configured),
            (Bytes(7), 2, false)
        );
        let faults = &controller.faults;
        assert_eq!(
            (faults.reply_delay, faults.checksum, faults.lose_reply_one_in.map(NonZeroU32::get)),
            (Nanos(30_000_000), Checksum::Wrong, Some(3))
        );
    }

    #[test]
    fn a_fault_that_does_not_exist_is_answered_with_those_that_do() {
        let fault = |text: &str| {
            let (lab, problems) = parse(&format!("{PORTS}faults={{{text}}}\n"));
            assert_eq!((lab, problems.len()), (None, 1), "{text}");
            problems.into_iter().next().expect("there is one")
        };
        let problem = fault("lose_reply_one_on=3");
        assert_eq!(problem.message, "unknown key `lose_reply_one_on`");
        assert_eq!(problem.nearest.as_deref(), Some("lose_reply_one_in"));
        let known = problem.expected.expect("the known ones");
        assert!(
            known.starts_with("one of clear_on_read, ") && known.ends_with(", checksum"),
            "{known}"
        );
        assert!(problem.span.is_some());
        let problem = fault("checksum='wrnog'");
        assert_eq!(
            (problem.message.as_str(), problem.nearest.as_deref()),
            ("unknown choice `wrnog`", Some("wrong"))
        );
        let problem = fault("reply_delay=30");
        assert_eq!(problem.message, "30 has no unit");
        assert_eq!(problem.expected.as_deref(), Some("a time with its unit, such as \"5 s\""));
    }

    #[test]
    fn what_a_controller_cannot_be_is_told_at_once() {
        let (_, problems) = parse(
            "network={to='r',rate='1 Gbit/s'}\nsideband={to='bcm',rate='0 bit/s'}\nbuffer='1 \
                KiB'\npackages=9\nchannels=0\n",
        );
        let messages: Vec<&str> = problems.iter().map(|problem| problem.message.as_str()).collect();
        assert_eq!(
            messages,
            [
                "the network port of a controller cannot lead to `r`",
                "there is no host, switch or router `bcm`",
                "the sideband of a controller has no rate",
                "a controller cannot have 9 packages",
                "a controller cannot have 0 channels",
                "`buffer` does not hold one full frame",
            ]
        );
        assert!(problems.iter().all(|problem| problem.span.is_some()));
    }
}
