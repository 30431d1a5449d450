//! Sentences on the place that loses frames behind a slow link.

use linerate_analysis::fire_hose::DropEvidence;

/// Returns the evidence of an attribution of drops.
#[must_use]
pub fn drops(evidence: &DropEvidence) -> String {
    match *evidence {
        DropEvidence::Ring { missed, dropped: Some(dropped) } => {
            format!("{missed} frames missed by the receive ring, {dropped} by the controller")
        }
        DropEvidence::Ring { missed, dropped: None } => {
            format!("{missed} frames missed by the receive ring; the controller was not read")
        }
        DropEvidence::Controller { dropped, received, retransmitted, window, safe } => format!(
            "the controller dropped {dropped} of {received} frames; {retransmitted} segments were \
             retransmitted; window {window} B against a safe {safe} B"
        ),
        DropEvidence::Socket { lost, dropped } => {
            format!("{lost} frames dropped at a socket, {dropped} by the controller")
        }
        DropEvidence::Pauses(n) => format!("{n} pause frames, no drops"),
        DropEvidence::Retransmitted { n, dropped } => {
            format!("{n} segments retransmitted, {dropped} dropped by the controller")
        }
        DropEvidence::NoDrops { utilisation } => {
            format!("no drops; the sideband is {:.0} % used", utilisation * 100.0)
        }
        DropEvidence::WindowAboveSafe { n, window, safe } => {
            format!("{n} segments retransmitted at a window of {window} B against a safe {safe} B")
        }
        DropEvidence::WindowFits { n, window } => {
            format!("{n} segments retransmitted at a window of {window} B, which fits")
        }
        DropEvidence::NoRetransmissions { utilisation: Some(used) } => {
            format!("no retransmissions, {:.0} % used", used * 100.0)
        }
        DropEvidence::NoRetransmissions { utilisation: None } => "no retransmissions".to_owned(),
        DropEvidence::NotRead => "neither the controller nor the sender could be read".to_owned(),
    }
}
