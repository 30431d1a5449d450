//! Sweep of the window, per socket: goodput and loss of a stream with each window, and the window
//! worth trying.

use linerate_analysis::Study;
use linerate_analysis::fire_hose::{Drops, Hose, WindowPoint, attribute, onset};
use linerate_analysis::tune::{Choice, change_of, choose, retransmitted, window_seen};
use linerate_model::series::tcp_extension as tcp;
use linerate_model::{BitRate, Bytes, Campaign, Series, TrialRecord, metric, series};

use super::ends::Ends;
use super::findings::{WORTH, WindowFindings, WindowRow};
use super::readings::{trial, typical};
use crate::stages::Bench;
use crate::{Ended, Exit, Failure};

/// Largest share of segments sent again that still counts as no loss.
const NO_LOSS: f64 = 1e-3;

/// Runs a stream with each window around a buffer of `frames` full frames, and chooses one.
pub(super) fn sweep(
    bench: &dyn Bench,
    ends: &Ends,
    quick: bool,
    hose: &Hose,
    frames: u64,
    findings: &mut WindowFindings,
) -> Result<Choice, Ended> {
    let windows: Vec<u64> =
        segments(frames, quick).into_iter().map(|segments| segments * hose.mss.0).collect();
    let repeats = if quick { 1 } else { 2 };
    let draft = ends.path.draft("tune-windows", repeats, &ends.path.windows(&windows));
    let (campaign, study) = bench.observe("windows", &draft)?;
    let invalid = || Failure::new(Exit::Invalid, "tune: the window sweep gave no figures");
    let own = row(&campaign, &study, "own window", None).ok_or_else(invalid)?;
    let rows: Vec<WindowRow> = windows
        .iter()
        .filter_map(|&bytes| row(&campaign, &study, &format!("window {bytes}"), Some(bytes)))
        .collect();
    let points: Vec<WindowPoint> = rows.iter().filter_map(point).collect();
    let found = onset(&points).ok_or_else(invalid)?;
    let attribution = trial(&campaign, "own window")
        .map(|trial| attribute(&drops(trial, ends, hose, &own), &hose.bracket()));
    let mut choice = choose(&found, BitRate(own.goodput));
    if choice.gain < WORTH {
        // No window helps. The cost of the window that the law allows is still worth knowing.
        let safe = hose.bracket().safe.max(hose.bracket().least).0;
        let nearest = rows.iter().min_by_key(|row| row.window.unwrap_or(0).abs_diff(safe));
        if let Some(point) = nearest.and_then(point) {
            let clean = point.loss < NO_LOSS;
            choice = Choice { point, gain: point.goodput.0 / own.goodput, clean };
        }
    }
    findings.set_sweep(hose, &own, rows, &found, attribution);
    Ok(choice)
}

/// Returns the windows to run, in segments, for a buffer of `frames` full frames: from the least
/// that TCP works with to far beyond the buffer, densest around its size.
fn segments(frames: u64, quick: bool) -> Vec<u64> {
    let mut segments = vec![2, frames, 2 * frames, 4 * frames, 16 * frames];
    if !quick {
        let around = [3, frames.saturating_sub(1), frames + 1, frames * 3 / 2, 3 * frames];
        segments.extend(around.into_iter().chain([8 * frames]));
    }
    segments.retain(|segments| *segments >= 2);
    segments.sort_unstable();
    segments.dedup();
    segments
}

fn point(row: &WindowRow) -> Option<WindowPoint> {
    let window = Bytes(row.window?);
    Some(WindowPoint { window, loss: row.loss, goodput: BitRate(row.goodput) })
}

/// Returns the figures of the stream that ran as sweep `name`.
fn row(campaign: &Campaign, study: &Study, name: &str, window: Option<u64>) -> Option<WindowRow> {
    let goodput = typical(study, name, metric::GOODPUT)?;
    let runs = campaign.trials.iter().filter(|trial| trial.spec.sweep == name);
    let seen = runs.filter_map(window_seen).max();
    let loss = typical(study, name, metric::RETRANSMIT_RATIO).unwrap_or(0.0);
    Some(WindowRow { window, goodput, loss, seen })
}

/// Returns the counters of one stream with the host's own window.
fn drops(trial: &TrialRecord, ends: &Ends, hose: &Hose, own: &WindowRow) -> Drops {
    let there =
        |columns: &[Series]| change_of(trial, &ends.to.host, |read| series::any(columns, read));
    let pauses = |host: &str| {
        change_of(trial, host, |read| read.is_of(series::ETHTOOL) && read.name().contains("pause"))
    };
    Drops {
        controller_received: there(&[series::ncsi::PASS_THROUGH_RECEIVED]),
        controller_dropped: there(&[series::ncsi::PASS_THROUGH_DROPPED]),
        ring_missed: there(&[series::interface::RX_MISSED, series::interface::RX_FIFO]),
        socket_dropped: there(&[tcp::BACKLOG_DROP, tcp::RCV_PRUNED, tcp::RCV_QUEUE_DROP]),
        retransmitted: retransmitted(trial),
        pauses: [&ends.from.host, &ends.to.host]
            .into_iter()
            .filter_map(|host| pauses(host))
            .reduce(|a, b| a + b),
        utilisation: own.goodput / hose.full_rate().0,
        window: own.seen.unwrap_or(0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_lie_around_the_buffer_and_none_is_below_two_segments() {
        assert_eq!(segments(5, true), [2, 5, 10, 20, 80]);
        assert_eq!(segments(5, false), [2, 3, 4, 5, 6, 7, 10, 15, 20, 40, 80]);
        assert_eq!(segments(1, true), [2, 4, 16]);
        assert!(segments(0, false).iter().all(|segments| *segments >= 2));
    }
}
