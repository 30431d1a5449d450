//! Network controller of a lab, as a person writes it: its two ports, its buffers, and the faults
//! of its control plane.

use std::num::NonZeroU32;
use std::ops::Range;

use linerate_model::{BitRate, Bytes, Nanos, Problem};
use serde::Deserialize;

use super::{ETHERNET_HEADER, LinkEnd, Node, NodeKind, check_end, check_name, usual_mtu};

/// Network controller that passes a management controller's traffic through (NC-SI, DSP0222): a
/// fast port, a slow sideband, and a small buffer between them.
#[derive(Clone, Debug, PartialEq)]
pub struct Controller {
    /// Its name.
    pub name: String,
    /// Its port on the network.
    pub network: Port,
    /// Its sideband to the management controller.
    pub sideband: Port,
    /// Size of the buffer from the network to the sideband.
    pub buffer: Bytes,
    /// Frames that are dropped when it overflows.
    pub overflow: Overflow,
    /// Size of the buffer in the other direction.
    pub transmit_buffer: Bytes,
    /// Time of a frame in it beside waiting and serialisation, each way.
    pub delay: Nanos,
    /// IP MTU.
    pub mtu: Bytes,
    /// Number of packages.
    pub packages: u8,
    /// Channels of each package. The first channel of the first package has the network port.
    pub channels: u8,
    /// True if that channel passes frames from the start, as if a management controller had
    /// configured it. Otherwise it is in Initial State.
    pub configured: bool,
    /// Size of its buffer in Get Capabilities. Sizes above 32 bits read as all-ones.
    pub reported_buffer: Bytes,
    /// Faults of its answers.
    pub faults: ControllerFaults,
}

/// Frames that a full buffer drops.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Overflow {
    /// Those for which there is no room.
    #[default]
    Tail,
    /// All until it is empty again: the rest of a burst is lost with its first victim.
    Burst,
}

/// Port of a controller.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Port {
    /// Node at its other end.
    pub to: LinkEnd,
    /// Its rate each way, counted as on an Ethernet wire: with preamble, FCS and gap.
    pub rate: BitRate,
}

/// Faults of a controller on purpose. All of them exist in real controllers.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ControllerFaults {
    /// Get Controller Packet Statistics clears the counters at each reading, and reports that.
    pub clear_on_read: bool,
    /// Statistics have 172 and 44 bytes, as in old firmware, instead of 204 and 48.
    pub legacy_statistics: bool,
    /// All statistics read all-ones, like counters that a controller does not have.
    pub all_ones: bool,
    /// No command is answered.
    pub silent: bool,
    /// Delay of every answer.
    pub reply_delay: Nanos,
    /// Time after Reset Channel in which commands are ignored.
    pub deaf_after_reset: Nanos,
    /// Every n-th answer is lost.
    pub lose_reply_one_in: Option<NonZeroU32>,
    /// Every n-th answer is sent twice.
    pub duplicate_reply_one_in: Option<NonZeroU32>,
    /// Every n-th answer has the instance number of another command.
    pub mistake_reply_one_in: Option<NonZeroU32>,
    /// Every n-th answer is truncated.
    pub truncate_reply_one_in: Option<NonZeroU32>,
    /// Checksum of answers.
    pub checksum: Checksum,
}

/// Checksum of an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Checksum {
    /// The correct one.
    #[default]
    Right,
    /// A wrong one.
    Wrong,
    /// Zero: no checksum.
    None,
}

/// Default buffer: that of the controllers in the Intel paper (NC-SI Overview and Performance,
/// 2013).
const BUFFER: Bytes = Bytes(8 << 10);
/// Default transmit buffer: room for a burst of the management controller. A queue towards the
/// faster side hardly builds up.
const TRANSMIT_BUFFER: Bytes = Bytes(64 << 10);
/// Most packages that a control packet can address (DSP0222): three bits.
const MAX_PACKAGES: u8 = 8;
/// Most channels of a package: five bits, without the value for the package itself.
const MAX_CHANNELS: u8 = 31;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ControllerText {
    name: String,
    network: Port,
    sideband: Port,
    buffer: Option<Bytes>,
    #[serde(default)]
    overflow: Overflow,
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

/// Reads a controller, and adds a problem for everything impossible.
pub(super) fn read(
    controller: &toml::Spanned<ControllerText>,
    nodes: &[Node],
    problems: &mut Vec<Problem>,
) -> Controller {
    let (text, span) = (controller.get_ref(), controller.span());
    check_name(&text.name, Some(span.clone()), problems);
    let network_kinds = [NodeKind::Switch, NodeKind::Host];
    check_port("network port", &text.network, &network_kinds, &span, nodes, problems);
    check_port("sideband", &text.sideband, &[NodeKind::Host], &span, nodes, problems);
    let buffer = text.buffer.unwrap_or(BUFFER);
    let controller = Controller {
        name: text.name.clone(),
        network: text.network.clone(),
        sideband: text.sideband.clone(),
        buffer,
        overflow: text.overflow,
        transmit_buffer: text.transmit_buffer.unwrap_or(TRANSMIT_BUFFER),
        delay: text.delay.unwrap_or_default(),
        mtu: text.mtu.unwrap_or(usual_mtu()),
        packages: read_count("packages", text.packages.as_ref(), MAX_PACKAGES, problems),
        channels: read_count("channels", text.channels.as_ref(), MAX_CHANNELS, problems),
        configured: text.configured.unwrap_or(true),
        reported_buffer: text.reported_buffer.unwrap_or(buffer),
        faults: text.faults.clone(),
    };
    // A buffer below one frame would drop every full frame, which no rate explains.
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

fn check_port(
    side: &str,
    Port { to, rate }: &Port,
    kinds: &[NodeKind],
    span: &Range<usize>,
    nodes: &[Node],
    problems: &mut Vec<Problem>,
) {
    check_end(to, nodes, span, problems);
    if nodes.iter().any(|node| node.name == to.node && !kinds.contains(&node.kind)) {
        let message = format!("the {side} of a controller cannot lead to `{}`", to.node);
        let expected = if kinds.len() > 1 { "a switch or a host" } else { "a host" };
        problems.push(Problem::new(Some(span.clone()), message).expected(expected));
    }
    if rate.0 <= 0.0 {
        problems.push(Problem::new(
            Some(span.clone()),
            format!("the {side} of a controller has no rate"),
        ));
    }
}

/// Reads a count from one to `most`; one by default.
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
            "[lab]\nname='x'\n[[host]]\nname='a'\n[[host]]\nname='bmc'\n[[router]]\nname='r'\n\
                [[controller]]\nname='nc'\n{more}"
        ))
    }

    const PORTS: &str = "network={to='a',rate='1 Gbit/s'}\nsideband={to='bmc',rate='100 Mbit/s'}\n";

    #[test]
    fn a_controller_reports_true_values_unless_configured_otherwise() {
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
    fn an_unknown_fault_is_refused_with_the_known_ones() {
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
    fn every_impossible_property_is_reported_at_once() {
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
