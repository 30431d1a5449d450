//! Search for the narrowest setting that gives the chosen window: a route's window, else the
//! receive buffers of the whole host.

use linerate_analysis::tune::window_seen;
use linerate_control::{ControlError, Setting};

use super::ends::Ends;
use super::findings::{TriedSetting, WindowFindings};
use super::readings::trial;
use crate::Ended;
use crate::stages::Bench;
use crate::tune::Settings;
use crate::tune::plans::Stint;
use crate::tune::settings::{Present, WindowScope};

/// A setting holds if the sender sees a window within this share of the one wanted.
const HOLDS: f64 = 0.2;
/// Receive buffers tried until one gives the window.
const ROUNDS: usize = 4;

/// The window wanted, and the segment size it is counted in.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted {
    pub(super) window: u64,
    pub(super) mss: u64,
}

/// Finds the narrowest setting that gives the window. Returns `None` if no setting does, or none
/// may be changed.
pub(super) fn settle(
    bench: &dyn Bench,
    ends: &Ends,
    tuner: &mut dyn Settings,
    present: &Present,
    wanted: Wanted,
    findings: &mut WindowFindings,
) -> Result<Option<(WindowScope, Setting)>, Ended> {
    for (way, rounds) in [(WindowScope::Route, 1), (WindowScope::Host, ROUNDS)] {
        // Until the kernel has learned better, half of a receive buffer is window
        // (tcp_adv_win_scale 1).
        let mut buffer = 2 * wanted.window;
        for round in 0..rounds {
            let setting = present.setting(way, wanted.window, wanted.mss, buffer);
            let command = present.command(&setting);
            if let Err(error) = tuner.apply(vec![setting.clone()]) {
                findings.refused |= matches!(error, ControlError::Setting { .. });
                let why = error.to_string();
                findings.tried.push(TriedSetting { command, seen: None, holds: false, why });
                break;
            }
            let name = match way {
                WindowScope::Route => "hold-route".to_owned(),
                WindowScope::Host => format!("hold-host-{}", round + 1),
            };
            let stint = Stint::one("hold", ends.path.length(1_500), ends.path.stream(None));
            let held = bench.observe(&name, &ends.path.draft("tune-hold", 1, &[stint]));
            // The setting goes back before anything else, also if the stage failed.
            tuner.revert()?;
            let (campaign, _) = held?;
            let seen = trial(&campaign, "hold").and_then(window_seen);
            let ratio = seen.map(|seen| seen as f64 / wanted.window as f64);
            let holds = ratio.is_some_and(|ratio| (ratio - 1.0).abs() <= HOLDS);
            findings.tried.push(TriedSetting { command, seen, holds, why: String::new() });
            if holds {
                findings.refused = false;
                return Ok(Some((way, setting)));
            }
            let Some(ratio) = ratio.filter(|ratio| *ratio > 0.0) else { break };
            buffer = (buffer as f64 / ratio).round() as u64;
        }
    }
    Ok(None)
}
