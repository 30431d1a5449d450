//! NC-SI Overview and Performance (Intel 2013): the 32 averages of section 11, the seconds behind
//! them, and the statements of the text.
//!
//! Units: Mbit/s of payload as iperf printed them. The averages follow only with decimal half-up
//! rounding: a mean that is computed in binary floating point may be a little less than 61.005, and
//! then one of the 32 fails.

mod seconds;

use std::collections::BTreeMap;

use minijinja::value::Serde;
use serde::Deserialize;

use super::{Paper, ReplayItem, item, items as of_file};
use linerate_analysis::statistics::mean_half_up;

/// Decimals of the samples and of the averages, as printed.
const PLACES: u32 = 2;

/// One column of a table of section 11: sixty seconds and their average, Mbit/s.
#[derive(Deserialize)]
struct Series {
    printed: f64,
    values: Vec<f64>,
}

/// The columns by table, controller and direction: "11.1.1 default RHEL | B1 uni N2B".
type Tables = BTreeMap<String, Series>;

/// Recomputes the paper: its averages, the statements of its text, and what the seconds show.
pub(super) fn items(paper: &Paper) -> Vec<ReplayItem> {
    let tables = tables();
    let mut items: Vec<ReplayItem> =
        tables.iter().map(|(name, series)| average(name, series)).collect();
    items.push(all_averages(&tables));
    let averages: BTreeMap<&str, f64> =
        tables.iter().map(|(name, series)| (name.as_str(), series.printed)).collect();
    let mut claims = of_file::with_known(paper, [("average", Serde(&averages).into())]);
    // Claims come from several lists of the file; the report follows the numbering of the errata.
    claims.sort_by(|a, b| a.id.cmp(&b.id));
    items.extend(claims);
    items.extend(seconds::check(&tables));
    items
}

fn tables() -> Tables {
    serde_json::from_str(include_str!("../../../data/intel-ncsi-series.json"))
        .expect("the embedded series are well formed")
}

fn average(name: &str, series: &Series) -> ReplayItem {
    let printed = half_up_average(series);
    let n = series.values.len();
    item(
        name.to_owned(),
        format!("average of {n} seconds, rounded half up in decimal"),
        format!("{} Mbit/s", printed.0),
        format!("{} Mbit/s", printed.1),
        printed.0 == printed.1,
        "The printed seconds give the printed averages. The seconds count write calls, not \
            delivered bytes: see quantum 128 KiB.",
    )
}

/// E1.a: number of averages that follow, and that would follow in binary floating point.
fn all_averages(tables: &Tables) -> ReplayItem {
    let all = tables.len();
    let decimal = tables
        .values()
        .map(half_up_average)
        .filter(|(printed, recomputed)| printed == recomputed)
        .count();
    // Counted to show that the means fail in binary arithmetic, which a careless check would take
    // for errors of the paper.
    let binary = tables.values().filter(|series| {
        let mean = series.values.iter().sum::<f64>() / series.values.len() as f64;
        format!("{mean:.2}") == format!("{:.2}", series.printed)
    });
    item(
        "E1.a",
        "averages of the four tables",
        format!("{all} averages"),
        format!("{decimal} follow, rounded half up in decimal; {} in binary", binary.count()),
        decimal == all,
        "Ties such as 61.005 have no exact binary form, so linerate keeps the samples as decimals.",
    )
}

/// Returns the average as printed, and as it follows from the seconds.
fn half_up_average(series: &Series) -> (String, String) {
    (
        format!("{:.2}", series.printed),
        // A series without values has no average, and an empty text agrees with nothing.
        mean_half_up(&series.values, PLACES, PLACES).unwrap_or_default(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_32_averages_agree_and_the_known_disagreements_are_found_and_no_others() {
        let replay = crate::replay::paper("intel-ncsi").expect("registered").replay();
        let averages = replay.items.iter().filter(|item| item.what.starts_with("average of 60"));
        assert_eq!(averages.filter(|item| item.agrees).count(), 32);
        let found: Vec<&str> = replay.disagreements().map(|item| item.id.as_str()).collect();
        assert_eq!(
            found,
            [
                "E1.b",
                "E1.c",
                "E1.d",
                "E1.e",
                "E1.f",
                "E1.g",
                "E1.j",
                "quantum 128 KiB",
                "quantum 8 KiB",
                "E1.h trend",
                "E1.h stall"
            ]
        );
    }

    #[test]
    fn binary_rounding_would_lose_one_average() {
        let item = all_averages(&tables());
        assert!(
            item.agrees
                && item.recomputed.starts_with("32 follow")
                && item.recomputed.ends_with("31 in binary")
        );
    }
}
