//! Another congestion control for connections that name none (`net.ipv4.tcp_congestion_control` of
//! the sender).
//!
//! Evidence: segments are retransmitted while the path has room. Loss that is not congestion makes
//! Reno and CUBIC halve and recover over many round trips (RFC 9438, RFC 5681); a control that
//! models the path does not. Not covered: the effect on other traffic on the path.

use linerate_model::metric;

use super::{Hindrance, Known, LEAST_EFFECT, LOSSY, Looked, Proposal, TuningExperiment};
use crate::PathEnd;
use crate::diagnosis::Evidence;

const SETTING: &str = "net.ipv4.tcp_congestion_control";
/// Less room than this is not worth a change.
const LEAST_ROOM: f64 = 1.2;

/// Experiment with another congestion control.
pub(super) const EXPERIMENT: TuningExperiment = TuningExperiment {
    name: "congestion_control",
    summary: "another congestion control at the sender, where segments are retransmitted and the \
        path has room",
    asks: &[SETTING],
    floods: false,
    look,
};

fn look(path: &Known<'_>) -> Vec<Looked> {
    let present = path.sender.settings.get(SETTING).and_then(|value| value.as_ref().ok());
    let others = path.sender.congestion_controls.iter().filter(|name| Some(*name) != present);
    let looked: Vec<Looked> = others.map(|other| candidate(path, Some(other))).collect();
    // One line is enough for what hinders all of them.
    if looked.iter().any(Result::is_ok) { looked } else { vec![candidate(path, None)] }
}

/// Returns the candidate `other`, or why it is not tried; `None` if the kernel has no other.
fn candidate(path: &Known<'_>, other: Option<&String>) -> Looked {
    path.at(PathEnd::Sender, SETTING, |_| {
        let retransmitted = path.share(metric::RETRANSMIT_RATIO, LOSSY)?;
        let room = path.room();
        let below = Evidence::BelowCeiling { share: 1.0 / room };
        if room <= LEAST_ROOM {
            return Err(Hindrance::NoEvidence(Some(below)));
        }
        let after = other.ok_or(Hindrance::NoOtherControl)?.clone();
        let evidence = vec![retransmitted, below];
        Ok(Proposal { after, evidence, ratio: [LEAST_EFFECT, room] })
    })
}

#[cfg(test)]
mod tests {
    use super::super::HindranceKind::{AlreadySo, NotOffered, NothingSpeaksForIt};
    use super::super::cases::{host, known, parted, point};
    use super::super::{HindranceKind, Host};
    use super::*;

    #[test]
    fn it_is_tried_where_loss_leaves_room_and_nowhere_else() {
        let tried = |share: f64, lost: f64, sender: Host| {
            let point = point(share, &[("retransmit_ratio", lost)]);
            let (found, hindered) = parted(super::look(&known(&point, sender, host(&[]))));
            (found.into_iter().map(|candidate| candidate.after).collect::<Vec<_>>(), hindered)
        };
        let cubic = || host(&[(SETTING, "cubic")]);
        assert_eq!(tried(0.1, 0.01, cubic()).0, ["reno", "bbr"]);
        let none = |kind: HindranceKind| (vec![], vec![kind]);
        assert_eq!(tried(0.1, 0.0, cubic()), none(NothingSpeaksForIt));
        assert_eq!(tried(0.95, 0.01, cubic()), none(NothingSpeaksForIt));
        assert_eq!(tried(0.1, 0.01, host(&[])), none(NotOffered));
        assert_eq!(
            tried(0.1, 0.01, Host { congestion_controls: vec!["cubic".into()], ..cubic() }),
            none(AlreadySo)
        );
    }
}
