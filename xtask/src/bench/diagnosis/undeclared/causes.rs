//! Causes on paths without a declared capacity: one limit each, made with tools that are not
//! linerate's.
//!
//! A seed draws the rate, the delay and the buffer of a path. No test of linerate uses these
//! values.

use super::super::answers::Cause;
use super::super::draw::Draw;
use super::relay::Hop;
use crate::bench::truth::ground::End;

/// Interface of an end towards the relay.
const DEVICE: &str = "lrx";
/// A frame of full size, in bytes.
const FRAME: f64 = 1514.0;
const BITS_PER_BYTE: f64 = 8.0;

/// A path with a limit, and the load on it.
pub(super) struct Setup {
    /// Hops towards the receiver and back; `None` for ends on one bridge without a relay.
    pub(super) hops: Option<[Hop; 2]>,
    /// Commands that are run at an end beforehand.
    pub(super) commands: Vec<(End, Vec<String>)>,
    /// Rules of `nft` at the receiver.
    pub(super) nft: Option<String>,
    /// Parameters of the load.
    pub(super) params: Vec<String>,
    /// Other programs.
    pub(super) company: Company,
}

/// Other programs that run during the diagnosis.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Company {
    None,
    /// iperf3 over the same path, with as many TCP flows.
    Iperf(u32),
    /// Loops on the CPU that this end runs on.
    BusyCpu(End),
    /// curl reads a file from linerate at this rate, in bytes/s, instead of linerate's own load.
    Reader(u32),
}

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

/// Returns a path over the relay with these hops and nothing else.
fn relayed(there: Hop, back: Hop) -> Setup {
    Setup {
        hops: Some([there, back]),
        commands: Vec::new(),
        nft: None,
        params: Vec::new(),
        company: Company::None,
    }
}

/// Returns a path of `rtt` seconds, with `there` as the hop towards the receiver.
fn path(rtt: f64, there: Hop) -> Setup {
    let delay = rtt / 2.0;
    relayed(Hop { delay, ..there }, Hop { delay, ..Hop::default() })
}

/// Returns ends on one bridge.
fn direct() -> Setup {
    Setup { hops: None, ..relayed(Hop::default(), Hop::default()) }
}

/// Returns the path with a kernel setting of three values at `end`.
fn with_memory(mut setup: Setup, end: End, name: &str, bytes: f64) -> Setup {
    let most = bytes.round();
    let setting = format!("net.ipv4.{name}=4096 {most} {most}");
    setup.commands.push((end, vec!["sysctl".into(), "-qw".into(), setting]));
    setup
}

/// Returns a slow hop with a buffer of `buffer` times the bandwidth-delay product, at least
/// `least` bytes.
fn slow_hop(draw: &mut Draw, buffer: f64, least: f64) -> (f64, Hop) {
    let (rate, rtt) = (draw.between(13e6, 47e6), draw.between(0.011, 0.044));
    let buffer = (buffer * rate * rtt / BITS_PER_BYTE).max(least);
    (rtt, Hop { rate, buffer, ..Hop::default() })
}

/// Every cause.
pub(super) const CAUSES: &[Cause<Setup>] = &[
    Cause::new("no fault", &["unknown", "sender_cpu", "receiver_cpu", "cpu_taken"], |_| direct())
        .alone(),
    Cause::new("receive buffer", &["receive_window"], |draw| {
        let setup = path(draw.between(0.018, 0.055), Hop::default());
        with_memory(setup, End::B, "tcp_rmem", draw.between(23_000.0, 54_000.0))
    }),
    Cause::new("send buffer by sysctl", &["send_buffer"], |draw| {
        let setup = path(draw.between(0.018, 0.055), Hop::default());
        with_memory(setup, End::A, "tcp_wmem", draw.between(14_000.0, 37_000.0))
    }),
    Cause::new("slow reader (curl)", &["slow_receiver"], |draw| {
        let rate = draw.between(410e3, 1.3e6) as u32;
        let setup = path(draw.between(0.009, 0.027), Hop::default());
        Setup { company: Company::Reader(rate), ..setup }
    }),
    Cause::new("slow source", &["slow_source"], |draw| Setup {
        params: vec![format!("source_rate={:.0} bit/s", draw.between(3e6, 11e6))],
        ..path(draw.between(0.009, 0.027), Hop::default())
    }),
    Cause::new("path MTU black hole", &["path_mtu"], |draw| {
        let mtu = draw.between(1_290.0, 1_460.0) as usize;
        let delay = draw.between(0.004, 0.017);
        let hop = Hop { delay, mtu, ..Hop::default() };
        relayed(hop, hop)
    }),
    Cause::new("slow hop, tiny buffer", &["fire_hose", "path_rate"], |draw| {
        let (rtt, hop) = slow_hop(draw, 0.0, 0.0);
        path(rtt, Hop { buffer: draw.between(5.0, 12.0) * FRAME, ..hop })
    }),
    Cause::new("slow hop, normal buffer", &["path_rate"], |draw| {
        let (rtt, hop) = slow_hop(draw, 1.0, 40.0 * FRAME);
        path(rtt, hop)
    }),
    Cause::new("slow hop, huge buffer", &["path_rate"], |draw| {
        let (rtt, hop) = slow_hop(draw, 1.0, 0.0);
        path(rtt, Hop { buffer: hop.rate * draw.between(0.25, 0.8) / BITS_PER_BYTE, ..hop })
    }),
    Cause::new("policer", &["policer"], |draw| {
        let (rate, rtt) = (draw.between(13e6, 41e6), draw.between(0.011, 0.033));
        let bucket = rate * draw.between(0.02, 0.09) / BITS_PER_BYTE;
        path(rtt, Hop { token_rate: rate, bucket, ..Hop::default() })
    }),
    Cause::new("policer (nft)", &["policer"], |draw| {
        let rate = draw.between(13e6, 41e6);
        let (kilobytes, burst) = (rate / 8.192e3, rate * draw.between(0.02, 0.09) / 8.192e3);
        let rule = format!(
            "table netdev referee {{ chain police {{ type filter hook ingress device {DEVICE} \
                    priority 0; limit rate over {kilobytes:.0} kbytes/second burst {burst:.0} \
                    kbytes drop; }}; }};\n"
        );
        Setup { nft: Some(rule), ..path(draw.between(0.011, 0.033), Hop::default()) }
    }),
    Cause::new("tbf on the sender's interface", &["link_ceiling", "path_rate"], |draw| {
        let (rate, latency) = (draw.between(13e6, 47e6), draw.between(30.0, 120.0));
        let shaper = format!(
            "tc qdisc add dev {DEVICE} root tbf rate {rate:.0}bit burst 5kb latency \
                    {latency:.0}ms"
        );
        let mut setup = path(draw.between(0.011, 0.044), Hop::default());
        setup.commands.push((End::A, words(&shaper)));
        setup
    }),
    Cause::new("cross traffic (iperf3)", &["cross_traffic"], |draw| {
        let (rtt, hop) = slow_hop(draw, 1.5, 60.0 * FRAME);
        let flows = draw.between(2.0, 6.0).round() as u32;
        Setup { company: Company::Iperf(flows), ..path(rtt, hop) }
    }),
    Cause::new("slow reverse path", &["reverse_path"], |draw| {
        let delay = draw.between(0.004, 0.014);
        let (rate, buffer) = (draw.between(0.1e6, 0.3e6), draw.between(9e3, 31e3));
        relayed(Hop { delay, ..Hop::default() }, Hop { delay, rate, buffer, ..Hop::default() })
    }),
    Cause::new("random loss", &["path_loss"], |draw| {
        let loss = draw.between(0.003, 0.017);
        path(draw.between(0.013, 0.041), Hop { loss, burst: 1.0, ..Hop::default() })
    }),
    Cause::new("burst loss", &["path_loss"], |draw| {
        let (loss, burst) = (draw.between(0.005, 0.02), draw.between(4.0, 10.0));
        path(draw.between(0.013, 0.041), Hop { loss, burst, ..Hop::default() })
    }),
    Cause::new("lossy slow hop", &["path_loss"], |draw| {
        let (rate, loss) = (draw.between(31e6, 47e6), draw.between(0.005, 0.015));
        let hop = Hop { rate, buffer: 150e3, loss, burst: 1.0, ..Hop::default() };
        path(draw.between(0.021, 0.041), hop)
    }),
    Cause::new("busy CPU, sender", &["cpu_taken", "sender_cpu"], |_| Setup {
        company: Company::BusyCpu(End::A),
        ..direct()
    })
    .alone(),
    Cause::new("busy CPU, receiver", &["cpu_taken", "receiver_cpu"], |_| Setup {
        company: Company::BusyCpu(End::B),
        ..direct()
    })
    .alone(),
    Cause::new("small messages", &["small_message"], |draw| Setup {
        params: vec![format!("message_size={:.0} B", draw.between(40.0, 300.0))],
        ..direct()
    })
    .alone(),
    Cause::new("pacing", &["congestion_control"], |draw| Setup {
        params: vec![format!("pacing_rate={:.0} bit/s", draw.between(7e6, 29e6))],
        ..path(draw.between(0.011, 0.044), Hop::default())
    }),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn causes_have_names_of_their_own_and_a_seed_changes_the_path() {
        let mut names: Vec<&str> = CAUSES.iter().map(|cause| cause.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), CAUSES.len());
        for cause in CAUSES.iter().filter(|cause| !cause.is_alone) {
            let drawn = |seed| (cause.setup)(&mut Draw::of(cause.name, seed));
            let (one, other) = (drawn(1), drawn(2));
            assert!(one.hops != other.hops, "{}", cause.name);
            assert_eq!(one.hops, drawn(1).hops, "{}", cause.name);
        }
    }
}
