//! Causes of overruns of the sideband, row by row, with the console of the paper that each row
//! resembles, and the limit of traffic in both directions.

use linerate_model::{Direction, metric};

use super::{DataDirection, change, is_worse, value};
use crate::reproduce::{Comparison, mbit};
use linerate_analysis::Study;

/// Payload of one answer of the virtual media rows, bits.
pub(super) const BLOCK_BITS: f64 = 16.0 * 1024.0 * 8.0;
/// The rows: sweep, and the direction of the sender of bulk data.
const STREAMS: [&str; 4] =
    ["stream, cubic", "stream, bbr", "stream, legacy reno", "stream, legacy bbr"];
const MEDIA: [&str; 2] = ["virtual media, cubic", "virtual media, legacy reno"];
/// Default and tuned averages of controller 1 in the paper, Mbit/s: its Linux and its Windows
/// console, alone.
const PAPER: [(&str, f64, f64); 2] = [("Linux", 63.98, 63.32), ("Windows", 7.88, 64.83)];
/// Buffer size of the lab's controllers, bits.
const BUFFER_BITS: f64 = 8192.0 * 8.0;

/// Returns the payload delivered to the management controller, bit/s.
fn goodput(study: &Study, row: &str) -> Option<f64> {
    // Virtual media asks for blocks, so its rate is counted in answers and not in bytes.
    if MEDIA.contains(&row) {
        return value(study, row, metric::TRANSACTION_RATE, Direction::Sum)
            .map(|rate| rate * BLOCK_BITS);
    }
    value(study, row, metric::GOODPUT, Direction::Tx)
}

/// Returns default and tuned goodput of a row.
pub(super) fn pair(default: &Study, tuned: &Study, row: &str) -> Option<(f64, f64)> {
    Some((goodput(default, row)?, goodput(tuned, row)?))
}

/// Returns the distance of a row from the paper's console: the sum of the distances of both
/// figures, in doublings.
fn distance((default, tuned): (f64, f64), paper: (f64, f64)) -> f64 {
    const MEGABIT: f64 = 1e6;
    // In doublings, half and twice the paper's figure are equally far from it.
    (default / MEGABIT / paper.0).log2().abs() + (tuned / MEGABIT / paper.1).log2().abs()
}

/// Returns the rows, with the console of the paper that each resembles.
pub(super) fn rows(default: &Study, tuned: &Study) -> Comparison {
    let nearest: Vec<_> = PAPER
        .iter()
        .map(|(name, before, after)| (*name, nearest(default, tuned, (*before, *after))))
        .collect();
    let row = |row: &'static str| row_of(default, tuned, row, &nearest);
    Comparison::new(
        "Causes: to the BMC, Mbit/s, bytes sent again and frames the controller says it dropped, \
            default and tuned, and the paper's console each resembles",
        ["row", "default", "again", "dropped", "tuned", "again", "dropped", "ratio", "most like"],
        STREAMS.into_iter().chain(MEDIA).map(row).collect(),
    )
}

/// Returns the row whose figures are nearest to those of the `paper`, default and tuned.
fn nearest(default: &Study, tuned: &Study, paper: (f64, f64)) -> Option<&'static str> {
    let rows = STREAMS.into_iter().chain(MEDIA);
    rows.filter_map(|row| Some((row, pair(default, tuned, row)?)))
        .min_by(|(_, a), (_, b)| distance(*a, paper).total_cmp(&distance(*b, paper)))
        .map(|(row, _)| row)
}

/// Returns a row of the table. `nearest` has the row that each console of the paper resembles.
fn row_of(
    default: &Study,
    tuned: &Study,
    row: &'static str,
    nearest: &[(&str, Option<&str>)],
) -> Vec<String> {
    let figures = pair(default, tuned, row);
    let (before, after, ratio) = figures
        .map_or(("-".into(), "-".into(), "-".into()), |(before, after)| {
            (mbit(before), mbit(after), format!("{:.2}", after / before))
        });
    let alike: Vec<&str> =
        nearest.iter().filter(|(_, near)| *near == Some(row)).map(|(name, _)| *name).collect();
    vec![
        row.to_owned(),
        before,
        resent(default, row),
        dropped(default, row),
        after,
        resent(tuned, row),
        dropped(tuned, row),
        ratio,
        alike.join(", "),
    ]
}

fn resent(study: &Study, row: &str) -> String {
    // A management controller that requests blocks is the active end.
    let bulk = if MEDIA.contains(&row) { Direction::Rx } else { Direction::Tx };
    let ratio = value(study, row, metric::RETRANSMIT_RATIO, bulk);
    ratio.map_or("-".into(), |ratio| format!("{:.2} %", ratio * 100.0))
}

fn dropped(study: &Study, row: &str) -> String {
    let read = |metric| value(study, row, metric, Direction::Sum);
    let share = read(metric::CONTROLLER_DROPPED)
        .zip(read(metric::CONTROLLER_RECEIVED))
        // Without received frames there is no share.
        .filter(|(_, all)| *all > 0.0);
    share.map_or("-".into(), |(dropped, all)| format!("{:.2} %", dropped / all * 100.0))
}

/// Compares, with data in both directions, the rate of a window no larger than the buffer over the
/// measured round trip with the measured rate.
pub(super) fn both_ways(default: &Study, tuned: &Study) -> Comparison {
    let mut rows = Vec::new();
    for (label, study) in [("default", default), ("tuned", tuned)] {
        for console in ["a", "b"] {
            for bmc in ["bmc1", "bmc2"] {
                // Both modes of one pair are compared, because the round trip alone is the
                // baseline.
                let name =
                    |mode: &str| format!("{console} {bmc} {mode} {}", DataDirection::ToBmc.word());
                let read = |mode, metric| value(study, &name(mode), metric, Direction::Tx);
                let (Some(alone), Some(goodput), Some(rtt), Some(rtt_alone)) = (
                    read("uni", metric::GOODPUT),
                    read("bidi", metric::GOODPUT),
                    read("bidi", metric::RTT),
                    read("uni", metric::RTT),
                ) else {
                    continue;
                };
                rows.push(vec![
                    format!("{label}, console {console}, {bmc}"),
                    mbit(alone),
                    mbit(goodput),
                    format!("{:.2} ms", rtt_alone * 1e3),
                    format!("{:.2} ms", rtt * 1e3),
                    // A window as large as the buffer passes once each round trip, which grows with
                    // the queue of the other direction.
                    mbit(BUFFER_BITS / rtt),
                ]);
            }
        }
    }
    Comparison::new(
        "Both ways: data to the BMC waits for acknowledgements that queue behind the BMC's own \
            data, Mbit/s",
        ["what", "alone", "both ways", "round trip alone", "both ways", "a buffer each round trip"],
        rows,
    )
}

/// Returns the rows of figures that became worse.
pub(super) fn worse(default: &Study, tuned: &Study) -> Vec<Vec<String>> {
    let rows =
        STREAMS.into_iter().chain(MEDIA).filter_map(|row| Some((row, pair(default, tuned, row)?)));
    rows.filter(|(_, (before, after))| is_worse(*before, *after))
        .map(|(row, (before, after))| change(row.to_owned(), before, after))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_collapse_that_is_cured_is_most_like_windows() {
        let windows = (PAPER[1].1, PAPER[1].2);
        let linux = (PAPER[0].1, PAPER[0].2);
        assert!(distance((9e6, 60e6), windows) < distance((9e6, 60e6), linux));
        assert!(distance((80e6, 70e6), linux) < distance((80e6, 70e6), windows));
    }
}
