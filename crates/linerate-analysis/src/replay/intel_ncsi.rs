//! NC-SI Overview and Performance (Intel 2013): the 32 averages of section 11 and what the text says of them.
//!
//! Units: Mbit/s of payload as iperf printed them. The averages follow only with decimal half-up rounding: in binary
//! floating point 61.005 is a little less, and one of the 32 fails.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::{Replay, ReplayItem};
use crate::statistics::mean_half_up;

/// The paper's title.
pub(super) const TITLE: &str = "NC-SI Overview and Performance, revision 1.1, Intel 2013";

#[derive(Deserialize)]
struct Series {
    printed: f64,
    values: Vec<f64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Printed {
    claim: Vec<Claim>,
    window: Window,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Claim {
    id: String,
    what: String,
    says: Says,
    megabits: f64,
    series: Vec<String>,
    why: String,
}

/// How a text hedges a figure.
#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Says {
    About,
    Nearly,
    Over,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Window {
    initial_kb: u64,
    initial_bytes: u64,
    final_kb: u64,
    final_bytes: u64,
}

impl Says {
    /// Whether a value may be spoken of so.
    fn fits(self, value: f64, figure: f64) -> bool {
        /// How far "about" and "nearly" reach.
        const REACH: f64 = 0.05;
        match self {
            Self::About => (value / figure - 1.0).abs() <= REACH,
            Self::Nearly => value <= figure && value >= figure * (1.0 - REACH),
            Self::Over => value >= figure,
        }
    }

    const fn word(self) -> &'static str {
        match self {
            Self::About => "about",
            Self::Nearly => "nearly",
            Self::Over => "over",
        }
    }
}

/// Recomputes the paper.
#[must_use]
pub fn intel_ncsi() -> Replay {
    let series: BTreeMap<String, Series> = serde_json::from_str(include_str!("../../fixtures/intel-ncsi-series.json"))
        .expect("the embedded series are well formed");
    let printed: Printed =
        toml::from_str(include_str!("../../data/intel-ncsi.toml")).expect("the embedded data file is well formed");
    let mut items: Vec<ReplayItem> = series.iter().map(|(name, series)| average(name, series)).collect();
    items.extend(printed.claim.iter().map(|claim| compare(claim, &series)));
    items.push(window_unit(&printed.window));
    Replay { paper: TITLE.to_owned(), items }
}

fn average(name: &str, series: &Series) -> ReplayItem {
    /// Decimals of the samples and of the average, as printed.
    const PLACES: u32 = 2;
    let printed = format!("{:.2}", series.printed);
    let recomputed = mean_half_up(&series.values, PLACES, PLACES).unwrap_or_default();
    let n = series.values.len();
    ReplayItem {
        id: name.to_owned(),
        what: format!("average of {n} seconds"),
        agrees: printed == recomputed,
        printed: format!("{printed} Mbit/s"),
        recomputed: format!("{recomputed} Mbit/s, rounded half up in decimal"),
        why_it_matters: "the tables are what they say; what they count is another question".to_owned(),
    }
}

fn compare(claim: &Claim, series: &BTreeMap<String, Series>) -> ReplayItem {
    let averages: Vec<f64> = claim.series.iter().map(|name| series[name].printed).collect();
    let mean = averages.iter().sum::<f64>() / averages.len() as f64;
    ReplayItem {
        id: claim.id.clone(),
        what: claim.what.clone(),
        printed: format!("{} {} Mbit/s", claim.says.word(), claim.megabits),
        recomputed: format!("mean of {averages:?} = {mean:.2} Mbit/s"),
        agrees: claim.says.fits(mean, claim.megabits),
        why_it_matters: claim.why.clone(),
    }
}

fn window_unit(window: &Window) -> ReplayItem {
    let kibibytes = |bytes: u64| bytes as f64 / 1024.0;
    let kilobits = |bytes: u64| bytes as f64 * 8.0 / 1e3;
    let agrees = kilobits(window.initial_bytes).round() as u64 == window.initial_kb
        && kilobits(window.final_bytes).round() as u64 == window.final_kb;
    ReplayItem {
        id: "E1.e".to_owned(),
        what: "unit of the TCP windows".to_owned(),
        printed: format!("{} Kb and {} Kb", window.initial_kb, window.final_kb),
        recomputed: format!(
            "{} B = {:.1} KiB = {:.0} kbit; {} B = {:.1} KiB = {:.0} kbit",
            window.initial_bytes,
            kibibytes(window.initial_bytes),
            kilobits(window.initial_bytes),
            window.final_bytes,
            kibibytes(window.final_bytes),
            kilobits(window.final_bytes)
        ),
        agrees,
        why_it_matters: "read as bits the windows are an eighth, and the device's buffer of 8 KiB would have sufficed"
            .to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_32_averages_agree_and_exactly_three_statements_do_not() {
        let replay = intel_ncsi();
        let averages = replay.items.iter().filter(|item| item.what.starts_with("average of 60"));
        assert_eq!(averages.filter(|item| item.agrees).count(), 32);
        let found: Vec<&str> = replay.disagreements().map(|item| item.id.as_str()).collect();
        assert_eq!(found, ["E1.b", "E1.d", "E1.e"]);
    }

    #[test]
    fn binary_rounding_would_lose_one_average() {
        let series: BTreeMap<String, Series> =
            serde_json::from_str(include_str!("../../fixtures/intel-ncsi-series.json")).expect("well formed");
        let binary = |series: &Series| {
            let mean = series.values.iter().sum::<f64>() / series.values.len() as f64;
            format!("{mean:.2}") == format!("{:.2}", series.printed)
        };
        assert!(series.values().filter(|series| binary(series)).count() < 32);
    }
}
