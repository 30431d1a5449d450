//! The tables: every contestant, and what was aimed at.

use std::fmt::Write as _;

use super::super::markdown;
use super::readings::{Figure, IOPS, IOPS_PER_CORE, P99_US, Runs};
use super::rows::{Contestant, FilePlace};
use crate::bench::statistics::Median;

/// A ratio that should not be on the wrong side of its bound.
struct Aim {
    what: &'static str,
    of: Figure,
    bound: Bound,
}

#[derive(Clone, Copy)]
enum Bound {
    AtLeast(f64),
    AtMost(f64),
}

/// A device decides: both should be alike.
const ON_DISK: [Aim; 2] = [
    Aim { what: "as many IOPS", of: IOPS, bound: Bound::AtLeast(0.99) },
    Aim { what: "p99", of: P99_US, bound: Bound::AtMost(1.03) },
];
/// The CPU decides.
const AT_ONCE: [Aim; 1] = [Aim { what: "IOPS", of: IOPS, bound: Bound::AtLeast(1.1) }];
const BY_RING: [Aim; 2] = [
    Aim { what: "io_uring, IOPS", of: IOPS, bound: Bound::AtLeast(1.0) },
    Aim {
        what: "io_uring, IOPS per busy core-second",
        of: IOPS_PER_CORE,
        bound: Bound::AtLeast(1.15),
    },
];
/// The depth for which io_uring's aims are set.
const RING_DEPTH: u32 = 16;
/// Closing intervals should cost less than this share of the rate.
const INTERVALS: [Aim; 1] =
    [Aim { what: "IOPS with intervals", of: IOPS, bound: Bound::AtLeast(0.99) }];

/// An interval that holds the median less surely decides nothing.
const SURE: f64 = 0.95;

impl Bound {
    fn told(self) -> String {
        match self {
            Self::AtLeast(bound) => format!(">= {bound}"),
            Self::AtMost(bound) => format!("<= {bound}"),
        }
    }

    /// A bound inside the interval is not decided.
    fn judged(self, ratio: &Median) -> &'static str {
        let (met, missed) = match self {
            Self::AtLeast(bound) => (ratio.low >= bound, ratio.high < bound),
            Self::AtMost(bound) => (ratio.high <= bound, ratio.low > bound),
        };
        match (met, missed) {
            _ if ratio.coverage < SURE => "open: too few rounds",
            (true, _) => "met",
            (_, true) => "missed",
            _ => "open",
        }
    }
}

/// Everything measured so far.
pub(super) fn document(runs: &[Runs], seconds: u32, notes: &[String]) -> String {
    const AIM_HEADS: [&str; 4] = ["", "aim, linerate over fio's best", "", ""];
    const HEADS: [&str; 8] = [
        "",
        "contestant",
        "IOPS",
        "p99, us",
        "IOPS per busy core-second",
        "IOPS, the first over it",
        "p99, the first over it",
        "per core, the first over it",
    ];
    let aims: Vec<Vec<String>> = runs.iter().flat_map(aims).collect();
    let contestants: Vec<Vec<String>> = runs.iter().flat_map(contestants).collect();
    let (aims, contestants) =
        (markdown::table(&AIM_HEADS, &aims), markdown::table(&HEADS, &contestants));
    let mut text = format!("{aims}\n{contestants}");
    let rounds = || runs.iter().map(Runs::rounds);
    // Writing to a String cannot fail.
    let _ = writeln!(
        text,
        "\nMedians of {} to {} rounds with runs of {seconds} s, and of the ratios within a round; \
            in brackets order-statistic intervals (of \
         95 % from six rounds on), in parentheses the number of rounds. Files of {} MiB.",
        rounds().min().unwrap_or(0),
        rounds().max().unwrap_or(0),
        super::FILE_BYTES >> 20
    );
    for note in notes {
        let _ = writeln!(text, "- {note}");
    }
    text
}

fn aims(runs: &Runs) -> Vec<Vec<String>> {
    let contestants = || runs.row.contestants.iter().copied().enumerate();
    let best = |of: Figure, is_ring: bool| fastest_other(runs, of, is_ring);
    let (ours, theirs, aims): (_, _, &[Aim]) = match (runs.row.place, runs.row.depth) {
        _ if !runs.row.about.is_empty() => (Some(0), Some(1), &INTERVALS),
        (FilePlace::Disk, _) => (Some(0), best(IOPS, false), &ON_DISK),
        (_, 1) => (Some(0), best(IOPS, false), &AT_ONCE),
        (_, RING_DEPTH) if runs.row.block_kib == 4 => {
            let ours = contestants().find(|(_, one)| one.is_linerate() && one.is_ring());
            (ours.map(|(index, _)| index), best(IOPS, true), &BY_RING)
        }
        _ => return Vec::new(),
    };
    let Some(pair) = ours.zip(theirs) else { return Vec::new() };
    let mut rows = Vec::new();
    for aim in aims {
        let Some(ratio) = runs.ratio(pair, aim.of) else { continue };
        let again = contestants()
            .find(|(_, one)| *one == Contestant::Again)
            .map(|(index, _)| (pair.0, index));
        let itself =
            again.and_then(|again| runs.ratio(again, aim.of)).map_or_else(String::new, |ratio| {
                format!("; linerate over itself {}", Median::shown(Some(ratio)))
            });
        let against = runs.row.contestants[pair.1].name();
        rows.push(vec![
            runs.row.name(),
            format!("{} {} (against {against})", aim.what, aim.bound.told()),
            Median::shown(Some(ratio)),
            format!("{}{itself}", aim.bound.judged(&ratio)),
        ]);
    }
    rows
}

/// Returns the index of the fastest contestant that is not linerate; with `is_ring`, of those that
/// use a ring.
fn fastest_other(runs: &Runs, of: Figure, is_ring: bool) -> Option<usize> {
    let theirs = runs
        .row
        .contestants
        .iter()
        .enumerate()
        .filter(|(_, one)| !one.is_linerate() && (one.is_ring() || !is_ring));
    let known = theirs.filter_map(|(index, _)| Some((index, runs.median(index, of)?.value)));
    known.max_by(|(_, one), (_, other)| one.total_cmp(other)).map(|(index, _)| index)
}

fn contestants(runs: &Runs) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    for (index, contestant) in runs.row.contestants.iter().enumerate() {
        let median =
            |of: Figure| runs.median(index, of).map_or("-".to_owned(), |median| median.cell(plain));
        let ratio = |of: Figure| Median::shown(runs.ratio((0, index), of).filter(|_| index > 0));
        let engine =
            runs.readings[index].iter().flatten().find_map(|reading| reading.engine.clone());
        let engine = engine.map_or_else(String::new, |engine| {
            format!(": {}", engine.split(" (").next().unwrap_or(""))
        });
        rows.push(vec![
            runs.row.name(),
            format!("{}{engine}", contestant.name()),
            median(IOPS),
            median(P99_US),
            median(IOPS_PER_CORE),
            ratio(IOPS),
            ratio(P99_US),
            ratio(IOPS_PER_CORE),
        ]);
    }
    rows
}

/// Whole, with thin groups of digits; small ones with one place.
fn plain(value: f64) -> String {
    if value < 100.0 {
        return format!("{value:.1}");
    }
    let digits = format!("{value:.0}");
    let mut grouped = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            grouped.push(' ');
        }
        grouped.push(digit);
    }
    grouped
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::storage::readings::Reading;
    use crate::bench::storage::rows::rows;

    #[test]
    fn figures_are_grouped() {
        assert_eq!(
            [plain(1_234_567.4), plain(999.6), plain(71.25)],
            ["1 234 567", "1 000", "71.2"]
        );
    }

    #[test]
    fn every_figure_has_its_interval_and_the_number_of_rounds() {
        let mut runs = Runs::none(rows()[0]);
        for round in 0..6 {
            let reading = Reading {
                iops: 1000.0 + f64::from(round),
                p99_us: 70.0,
                iops_per_core: 5.0,
                engine: None,
            };
            runs.readings[0].push(Some(reading));
        }
        let cells = &contestants(&runs)[0];
        assert_eq!(
            cells[2..5],
            ["1 002 [1 000, 1 005] (6)", "70.0 [70.0, 70.0] (6)", "5.0 [5.0, 5.0] (6)"]
        );
    }

    #[test]
    fn an_aim_is_met_missed_or_open_by_its_whole_interval() {
        let row = rows()
            .into_iter()
            .find(|row| row.name() == "memory, 4 KiB random read, depth 1")
            .expect("a row");
        let verdict = |ours: [f64; 6]| {
            let mut runs = Runs::none(row);
            for ours in ours {
                for (index, iops) in [ours, 100.0].into_iter().enumerate() {
                    let reading = Reading { iops, p99_us: 1.0, iops_per_core: 1.0, engine: None };
                    runs.readings[index].push(Some(reading));
                }
            }
            aims(&runs)[0][2..].join(" | ")
        };
        assert!(
            verdict([112.0, 113.0, 111.0, 112.0, 115.0, 112.0])
                .ends_with("1.120 [1.110, 1.150] (6) | met")
        );
        assert!(verdict([108.0, 109.0, 107.0, 108.0, 105.0, 108.0]).ends_with("| missed"));
        assert!(
            verdict([f64::NAN, 113.0, 111.0, 112.0, 115.0, 112.0])
                .ends_with("| open: too few rounds")
        );
        assert!(verdict([108.0, 112.0, 107.0, 112.0, 105.0, 108.0]).ends_with("| open"));
    }
}
