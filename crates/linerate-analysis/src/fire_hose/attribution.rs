//! Attribution of lost frames: to the controller, the receive ring of the management controller, a
//! socket, or something else.
//!
//! Input: deltas of counters over one interval with a TCP test. The rules are those of the NC-SI
//! reference 7.5, in their order. Not covered: frames lost before the controller, which appear only
//! as an unexplained remainder.

use serde::Serialize;

use super::Bracket;
use Culprit::{
    ControllerOther, ControllerWindow, Elsewhere, NotLoss, Nothing, Pause, Ring, Socket, Unknown,
};

/// Share of the frames received that must be dropped for the drops to matter.
const MATTERS: f64 = 1e-3;
/// Range of retransmissions per drop within which the drops were the retransmitted segments. Other
/// flows and broadcast frames are dropped too.
const RETRANSMITTED: std::ops::RangeInclusive<f64> = 0.5..=2.0;
/// Share of the highest goodput below which a loss-free path is slow.
const SLOW: f64 = 0.7;

/// Counter deltas over the interval; `None` where a counter could not be read.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Drops {
    /// Frames the controller received from the network (pass-through statistics, counter 6).
    pub controller_received: Option<u64>,
    /// Frames it dropped (counter 7).
    pub controller_dropped: Option<u64>,
    /// Frames the management controller's interface had no receive buffer for (missed and FIFO
    /// errors).
    pub ring_missed: Option<u64>,
    /// Frames its sockets dropped.
    pub socket_dropped: Option<u64>,
    /// Segments the sender retransmitted.
    pub retransmitted: Option<u64>,
    /// Pause frames at the controller's port, both ways.
    pub pauses: Option<u64>,
    /// Goodput as a share of the highest the sideband carries.
    pub utilisation: f64,
    /// Bytes the sender had in flight at most.
    pub window: u64,
}

/// The component that lost the frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Culprit {
    /// The window overruns the controller's buffer.
    ControllerWindow,
    /// The controller drops although the window fits: broadcast, other flows, traffic of its own
    /// host.
    ControllerOther,
    /// The management controller's receive ring or CPU.
    Ring,
    /// A socket of the management controller.
    Socket,
    /// Somewhere else, before the controller.
    Elsewhere,
    /// Nothing is lost: pause frames hold the traffic up.
    Pause,
    /// Nothing is lost: the window is too small for the round trip, or the management controller
    /// too slow.
    NotLoss,
    /// Nothing is lost, and the sideband is used.
    Nothing,
    /// The counters needed are missing.
    Unknown,
}

/// A component with the evidence against it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Attribution {
    /// The component.
    pub culprit: Culprit,
    /// Evidence.
    pub evidence: DropEvidence,
    /// True if the controller's own counters show it.
    pub certain: bool,
}

/// Evidence of an attribution: counts of frames and segments, and windows in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "fields are what they are called")]
pub enum DropEvidence {
    /// Frames missed by the receive ring; drops of the controller, if it was read.
    Ring { missed: u64, dropped: Option<u64> },
    /// Frames that the controller dropped.
    Controller { dropped: u64, received: u64, retransmitted: u64, window: u64, safe: u64 },
    /// Frames dropped at a socket.
    Socket { lost: u64, dropped: u64 },
    /// Pause frames without drops.
    Pauses(u64),
    /// Segments retransmitted; drops of the controller.
    Retransmitted { n: u64, dropped: u64 },
    /// No drops at this use of the sideband.
    NoDrops { utilisation: f64 },
    /// Segments retransmitted at a window above the safe one; the controller was not read.
    WindowAboveSafe { n: u64, window: u64, safe: u64 },
    /// Segments retransmitted at a window that fits; the controller was not read.
    WindowFits { n: u64, window: u64 },
    /// No retransmissions at this use of the sideband, if it is low; the controller was not read.
    NoRetransmissions { utilisation: Option<f64> },
    /// Neither the controller nor the sender could be read.
    NotRead,
}

/// Returns which component lost the frames that `drops` counts, compared with the law's `bracket`.
#[must_use]
pub fn attribute(drops: &Drops, bracket: &Bracket) -> Attribution {
    let said = |culprit, certain, evidence| Attribution { culprit, evidence, certain };
    // A missing counter of the ring counts as no drops, so that the other counters still decide.
    let missed = drops.ring_missed.unwrap_or(0);
    let retransmitted = drops.retransmitted.unwrap_or(0);
    let (Some(received), Some(dropped)) = (drops.controller_received, drops.controller_dropped)
    else {
        return without_controller(drops, bracket);
    };
    // The ring comes first: frames that the controller passed on and the ring lost look like path
    // loss to the sender.
    if missed > 0 && (dropped as f64) < received as f64 * MATTERS {
        return said(Ring, true, DropEvidence::Ring { missed, dropped: Some(dropped) });
    }
    if dropped as f64 > received as f64 * MATTERS {
        // One retransmission per drop shows that the dropped frames were segments of the test.
        let ratio = retransmitted as f64 / dropped as f64;
        let (window, safe) = (drops.window, bracket.safe.0);
        let evidence = DropEvidence::Controller { dropped, received, retransmitted, window, safe };
        // Both signs are needed: broadcast frames overflow the buffer as well, whatever the window
        // is.
        let window = drops.window > bracket.safe.0 && RETRANSMITTED.contains(&ratio);
        return said(if window { ControllerWindow } else { ControllerOther }, true, evidence);
    }
    // Sockets lose what controller and ring already passed, so they are asked after both.
    if let Some(socket @ 1..) = drops.socket_dropped {
        return said(Socket, true, DropEvidence::Socket { lost: socket, dropped });
    }
    // Pause frames replace drops. They are a cause only where nothing was dropped.
    if let Some(pauses @ 1..) = drops.pauses {
        return said(Pause, true, DropEvidence::Pauses(pauses));
    }
    if retransmitted as f64 > received as f64 * MATTERS {
        let evidence = DropEvidence::Retransmitted { n: retransmitted, dropped };
        return said(Elsewhere, true, evidence);
    }
    let evidence = DropEvidence::NoDrops { utilisation: drops.utilisation };
    said(if drops.utilisation < SLOW { NotLoss } else { Nothing }, true, evidence)
}

/// Returns the attribution without controller counters, from retransmissions alone.
fn without_controller(drops: &Drops, bracket: &Bracket) -> Attribution {
    // Retransmissions show that frames were lost, not where.
    let said = |culprit, evidence| Attribution { culprit, evidence, certain: false };
    if let Some(missed @ 1..) = drops.ring_missed {
        return said(Ring, DropEvidence::Ring { missed, dropped: None });
    }
    match drops.retransmitted {
        Some(n @ 1..) if drops.window > bracket.safe.0 => said(
            ControllerWindow,
            DropEvidence::WindowAboveSafe { n, window: drops.window, safe: bracket.safe.0 },
        ),
        Some(n @ 1..) => said(Elsewhere, DropEvidence::WindowFits { n, window: drops.window }),
        Some(0) if drops.utilisation < SLOW => {
            said(NotLoss, DropEvidence::NoRetransmissions { utilisation: Some(drops.utilisation) })
        }
        Some(_) => said(Nothing, DropEvidence::NoRetransmissions { utilisation: None }),
        None => said(Unknown, DropEvidence::NotRead),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::SIDEBAND;
    use super::*;

    fn culprit(drops: Drops) -> Culprit {
        attribute(&drops, &SIDEBAND.bracket()).culprit
    }

    #[test]
    fn each_signature_has_its_culprit() {
        let seen = Drops {
            controller_received: Some(100_000),
            controller_dropped: Some(0),
            retransmitted: Some(0),
            utilisation: 0.95,
            window: 65_536,
            ..Drops::default()
        };
        assert_eq!(culprit(seen), Nothing);
        let overrun = Drops { controller_dropped: Some(2500), retransmitted: Some(2600), ..seen };
        assert_eq!(culprit(overrun), ControllerWindow);
        assert_eq!(culprit(Drops { window: 7300, ..overrun }), ControllerOther);
        assert_eq!(
            culprit(Drops { retransmitted: Some(3), ..overrun }),
            ControllerOther,
            "not ours"
        );
        assert_eq!(culprit(Drops { ring_missed: Some(40), ..seen }), Ring);
        assert_eq!(culprit(Drops { socket_dropped: Some(40), ..seen }), Socket);
        assert_eq!(culprit(Drops { pauses: Some(9), ..seen }), Pause);
        assert_eq!(culprit(Drops { retransmitted: Some(900), ..seen }), Elsewhere);
        assert_eq!(culprit(Drops { utilisation: 0.4, ..seen }), NotLoss);
    }

    #[test]
    fn without_the_controller_nothing_is_certain() {
        let seen = Drops {
            retransmitted: Some(300),
            window: 65_536,
            utilisation: 0.4,
            ..Drops::default()
        };
        let attribution = attribute(&seen, &SIDEBAND.bracket());
        assert_eq!((attribution.culprit, attribution.certain), (ControllerWindow, false));
        assert_eq!(culprit(Drops { window: 7300, ..seen }), Elsewhere);
        assert_eq!(culprit(Drops { retransmitted: Some(0), ..seen }), NotLoss);
        assert_eq!(culprit(Drops { retransmitted: None, ..seen }), Unknown);
    }
}
