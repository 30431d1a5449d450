//! The 1920 seconds behind the averages: step size, drift, standstill, and the precision of one run
//! (E1.h and E1.i of docs/methodology/papers.md#printed-figures).

use super::{PLACES, ReplayItem, Series, Tables, item};
use linerate_analysis::statistics::{
    Settling, mean, mean_half_up, quantum_among, settling, trend, unpaired_shift,
};

/// Smallest and largest power of two searched for as a step, bytes a second.
const STEPS: std::ops::RangeInclusive<u32> = 10..=20;
/// Probability below which a trend is claimed, for all series together: each is tested at this over
/// their number.
const CHANCE: f64 = 0.05;
/// Consecutive seconds without data that are a stall: a single one may be a late write.
const STALL: usize = 3;
/// Cuts between the parts of a drifting series, seconds: the first ten, twenty more, the rest.
const PARTS: [usize; 2] = [10, 30];
/// Variation between runs according to the paper, Mbit/s.
const RUN_TO_RUN: f64 = 5.0;

/// Checks everything that follows from the seconds.
pub(super) fn check(tables: &Tables) -> Vec<ReplayItem> {
    // The Windows console wrote in blocks of another size, so its series are searched apart.
    let sent_by_windows = |name: &str| name.contains("WIN") && name.contains("N2B");
    let (windows, others): (Vec<_>, Vec<_>) =
        tables.iter().partition(|(name, _)| sent_by_windows(name));
    let mut items = Vec::new();
    items.extend(steps(
        "Linux console and BMC sending",
        &others.iter().map(|(_, s)| *s).collect::<Vec<_>>(),
    ));
    items.extend(steps(
        "Windows console sending",
        &windows.iter().map(|(_, s)| *s).collect::<Vec<_>>(),
    ));
    // Bonferroni: with this many series, a trend by chance must stay rare for all of them together.
    let asked = CHANCE / tables.len() as f64;
    items.extend(tables.iter().filter_map(|(name, series)| drift(name, series, asked)));
    items.extend(tables.iter().filter_map(|(name, series)| stall(name, series)));
    items.extend(one_run(tables));
    items
}

/// Returns `bytes` a second in Mbit/s.
fn megabits(bytes: u32) -> f64 {
    f64::from(bytes) * 8.0 / 1e6
}

fn steps(who: &str, series: &[&Series]) -> Option<ReplayItem> {
    /// Returns the half width of a printed value: to 0.01 below ten, to 0.1 above, and a little
    /// more for binary rounding.
    fn half_width(value: f64) -> f64 {
        if value < 10.0 { 0.005_001 } else { 0.050_001 }
    }
    let values: Vec<f64> = series.iter().flat_map(|series| series.values.iter().copied()).collect();
    let half_widths: Vec<f64> = values.iter().map(|value| half_width(*value)).collect();
    // Buffers of applications are powers of two.
    let candidates: Vec<f64> = STEPS.map(|power| megabits(1 << power)).collect();
    let found = quantum_among(&values, &half_widths, &candidates)?;
    let bytes = (found.step * 1e6 / 8.0).round();
    let kibibytes = bytes / 1024.0;
    Some(item(
        format!("quantum {kibibytes} KiB"),
        format!("{who}: resolution of the printed seconds"),
        format!("{} seconds of goodput", values.len()),
        format!(
            "{} of the {} informative seconds are multiples of {bytes} B",
            found.multiples, found.telling
        ),
        // The finding exists only if a step was found, so the item always disagrees.
        false,
        format!(
            "iperf counted calls of write(), not delivered bytes, so a second is known only to \
                {:.3} Mbit/s. The two consoles wrote blocks of different sizes.",
            found.step
        ),
    ))
}

fn drift(name: &str, series: &Series, probability: f64) -> Option<ReplayItem> {
    let found = trend(&series.values).filter(|trend| trend.probability < probability)?;
    let [first, second] = PARTS;
    let parts = [&series.values[..first], &series.values[first..second], &series.values[second..]];
    let means: Vec<String> =
        parts.iter().filter_map(|part| mean(part)).map(|mean| format!("{mean:.1}")).collect();
    Some(item(
        "E1.h trend",
        format!("{name}: one average for {} seconds", series.values.len()),
        format!("{:.2} Mbit/s", series.printed),
        format!(
            "{} Mbit/s in seconds 1 to {first}, {} to {second}, and later (Mann-Kendall tau {:.2}, \
                p {:.0e}){}",
            means.join(", "),
            first + 1,
            found.tau,
            found.probability,
            settling(&series.values).map_or_else(String::new, |found| told(&found))
        ),
        false,
        "The rate is not steady, so its average depends on the length of the run.",
    ))
}

/// Returns the class of a series and its levels in words.
fn told(found: &Settling) -> String {
    let levels: Vec<String> = found
        .levels
        .iter()
        .map(|level| format!("{:.1} to second {}", level.value, level.to))
        .collect();
    format!("; it {}: {}", found.class.word(), levels.join(", "))
}

fn stall(name: &str, series: &Series) -> Option<ReplayItem> {
    let start = series
        .values
        .windows(STALL)
        .position(|seconds| seconds.iter().all(|second| *second == 0.0))?;
    let n_still = series.values[start..].iter().take_while(|second| **second == 0.0).count();
    // The mean without the stall shows how much the average hides.
    let moving: Vec<f64> = series.values.iter().copied().filter(|second| *second > 0.0).collect();
    Some(item(
        "E1.h stall",
        format!("{name}: one average over a stall"),
        format!("{:.2} Mbit/s", series.printed),
        format!(
            "nothing for {n_still} seconds from second {}, {} Mbit/s without them",
            start + 1,
            mean_half_up(&moving, PLACES, PLACES)?
        ),
        false,
        "A transfer that stops for seconds has a fault of its own, which the average hides.",
    ))
}

/// E1.i: the text claims "did not change" from one run each.
fn one_run(tables: &Tables) -> Option<ReplayItem> {
    let [default, tuned] =
        ["11.1.1 default RHEL | B1 uni N2B", "11.2.1 modified RHEL | B1 uni N2B"];
    let shift = unpaired_shift(&tables[default].values, &tables[tuned].values)?;
    let (low, high) = shift.interval?;
    Some(item(
        "E1.i",
        "RHEL, network to BMC, default against tuned, first controller",
        format!("no change, runs vary by {RUN_TO_RUN} Mbit/s"),
        format!(
            "shift {:+.2} [{low:+.2}, {high:+.2}] Mbit/s, with seconds as samples (Hodges-Lehmann, \
                95 %)",
            shift.value
        ),
        // An interval that contains zero is consistent with no change, and proves nothing more.
        low <= 0.0 && high >= 0.0,
        "Consistent, not proven. One run per cell does not show the variation between runs, which \
            exceeds that between seconds.",
    ))
}

#[cfg(test)]
mod tests {
    use super::super::tables;
    use super::*;

    fn item(id: &str) -> ReplayItem {
        check(&tables()).into_iter().find(|item| item.id == id).expect(id)
    }

    /// docs/methodology/papers.md#printed-figures, E1.h.
    #[test]
    fn one_series_of_32_drifts_and_one_stands_still_for_four_seconds() {
        let items = check(&tables());
        assert_eq!(items.iter().filter(|item| item.id.starts_with("E1.h")).count(), 2);
        assert!(item("E1.h trend").recomputed.starts_with("17.8, 5.7, 3.5 Mbit/s"));
        assert!(
            item("E1.h trend")
                .recomputed
                .ends_with("; it slows down: 17.5 to second 12, 3.9 to second 60"),
            "{}",
            item("E1.h trend").recomputed
        );
        assert!(item("E1.h trend").what.starts_with("11.1.1 default RHEL | B2 bi N2B"));
        assert!(
            item("E1.h stall")
                .recomputed
                .starts_with("nothing for 4 seconds from second 24, 30.95 Mbit/s")
        );
    }

    /// docs/methodology/repeats.md#quanta: all informative seconds, 215 of them on the Windows
    /// console.
    #[test]
    fn all_telling_seconds_are_multiples_of_the_block_written() {
        assert!(item("quantum 128 KiB").recomputed.starts_with("1440 of the 1440"));
        assert!(
            item("quantum 8 KiB").recomputed.starts_with("2"),
            "{}",
            item("quantum 8 KiB").recomputed
        );
    }

    /// docs/methodology/with-and-without.md#the-figure.
    #[test]
    fn the_shift_of_one_run_against_another_is_that_of_the_reference() {
        assert!(item("E1.i").recomputed.starts_with("shift -1.00 [-3.20, +2.10]"));
    }
}
