//! Another congestion control for connections that name none (`net.ipv4.tcp_congestion_control` of the sender).
//!
//! What speaks for it: segments are sent again while the path has room. Loss that is not congestion makes Reno and CUBIC halve and
//! recover over many round trips (RFC 9438, RFC 5681); a control that models the path does not. What it does not see: what it does to others on
//! the path.

use super::{By, Candidate, Known, LEAST_EFFECT, LOSSY, TuningExperiment};
use crate::End;

const SETTING: &str = "net.ipv4.tcp_congestion_control";
/// Less room than this is not worth a change.
const LEAST_ROOM: f64 = 1.2;

/// See the file.
pub(super) struct CongestionControl;

impl TuningExperiment for CongestionControl {
    fn name(&self) -> &'static str {
        "congestion_control"
    }

    fn summary(&self) -> &'static str {
        "another congestion control at the sender, where segments are sent again and the path has room"
    }

    fn asks(&self) -> &'static [&'static str] {
        &[SETTING]
    }

    fn candidates(&self, path: &Known<'_>) -> Vec<Candidate> {
        let Some(before) = path.sender.settings.get(SETTING) else { return Vec::new() };
        let lossy = path.value("retransmit_ratio").filter(|share| *share > LOSSY && path.room() > LEAST_ROOM);
        let Some(again) = lossy else { return Vec::new() };
        let others = path.sender.congestion_controls.iter().filter(|name| *name != before);
        let candidate = |name: &String| Candidate {
            name: format!("{name} instead of {before}"),
            end: End::Sender,
            setting: SETTING,
            by: By::Agent,
            before: before.clone(),
            after: name.clone(),
            why: format!(
                "{:.2} % of the segments are sent again, and the path has room for x{:.1}",
                again * 100.0,
                path.room()
            ),
            ratio: [LEAST_EFFECT, path.room()],
        };
        others.map(candidate).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::cases::{host, point};
    use super::*;

    #[test]
    fn it_is_tried_where_loss_leaves_room_and_nowhere_else() {
        let tried = |share: f64, lost: f64| {
            let point = point(share, &[("retransmit_ratio", lost)]);
            let sender = host(&[(SETTING, "cubic")]);
            CongestionControl.candidates(&Known {
                point: &point,
                sender,
                receiver: host(&[]),
                flood: None,
                dropped: None,
            })
        };
        let names: Vec<String> = tried(0.1, 0.01).into_iter().map(|candidate| candidate.after).collect();
        assert_eq!(names, ["reno", "bbr"]);
        assert!(tried(0.1, 0.0).is_empty() && tried(0.95, 0.01).is_empty());
    }
}
