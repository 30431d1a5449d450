//! False statements of a malicious end.

use std::net::{IpAddr, SocketAddr};

use linerate_load::Offer;
use serde_json::{Value, json};

/// Port at which the victim accepts connections.
pub(crate) const VICTIM_TCP: u16 = 5000;
/// Port of the victim at which nothing listens.
const VICTIM_UDP: u16 = 5300;
/// Text that a terminal would obey: a window title, a cleared screen, a colour as a C1 sequence, a
/// change of direction.
pub(crate) const HOSTILE: &str = "\x1b]0;owned\x07\x1b[2J\u{9b}31m\u{202e}\r\nforged";

/// Kind of attack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Attack {
    /// No attack: load goes to the attacker itself. A control of the counters.
    Proven,
    /// Every address of an offer is the victim's.
    Victim,
    /// The first address is the attacker's, where the secret is proved; those for data are the
    /// victim's.
    Split,
    /// The first address is the victim's, those for data are the attacker's.
    First,
    /// The attacker connects, and its datagrams have the victim's address as their source. Another
    /// program rewrites them.
    Spoof,
    /// All texts consist of control characters.
    Texts,
}

impl Attack {
    pub(crate) fn named(name: &str) -> Result<Self, String> {
        match name {
            "proven" => Ok(Self::Proven),
            "victim" => Ok(Self::Victim),
            "split" => Ok(Self::Split),
            "first" => Ok(Self::First),
            "spoof" => Ok(Self::Spoof),
            "texts" => Ok(Self::Texts),
            _ => Err(format!("`{name}` is not an attack")),
        }
    }

    /// Returns the offer that replaces the `truth`.
    pub(crate) fn offer(self, truth: &Offer, victim: IpAddr) -> Offer {
        let (tcp, udp) = (SocketAddr::new(victim, VICTIM_TCP), SocketAddr::new(victim, VICTIM_UDP));
        let mut addresses = truth.addresses.clone();
        if addresses.len() == 1 {
            // A second address, for workloads that would use one.
            addresses.push(addresses[0]);
        }
        match self {
            Self::Proven | Self::Spoof | Self::Texts => return truth.clone(),
            Self::First => addresses[0] = tcp,
            Self::Split => addresses[1..].fill(udp),
            Self::Victim => {
                addresses.fill(udp);
                addresses[0] = tcp;
            }
        }
        Offer { addresses }
    }
}

/// Returns every workload that reaches another host, with parameters by which the active end sends.
/// With `few`, one of each kind.
pub(crate) fn workloads(few: bool) -> Vec<(&'static str, Value)> {
    let frames = |mode: &str| ("frames", json!({ "mode": mode, "allow_outside_lab": true }));
    if few {
        return vec![("udp_stream", json!({})), ("tcp_stream", json!({})), frames("live")];
    }
    let mut all = vec![
        ("udp_stream", json!({})),
        ("udp_stream", json!({ "direction": "both", "streams": 2 })),
        ("udp_rr", json!({})),
        ("tcp_stream", json!({})),
        ("tcp_rr", json!({})),
        ("tcp_crr", json!({})),
        ("http", json!({ "direction": "tx" })),
        ("ftp", json!({ "direction": "tx" })),
    ];
    let modes = [
        "live",
        "packet",
        "packet_bypass",
        "packet_ring",
        "packet_ring_bypass",
        "udp",
        "xdp",
        "xdp_copy",
        "xdp_generic",
    ];
    all.extend(modes.map(frames));
    all
}
