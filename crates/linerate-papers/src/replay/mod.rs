//! The papers' printed arithmetic, recomputed, and its contradictions.
//!
//! Each paper is one data file in `data/` with only printed figures, and one file here that
//! recomputes the figures that follow from them. Nothing is measured: a replay needs no testbed and
//! its result never changes.

mod cisco_vic;
mod follows;
mod hp_ftp;
mod idt_pcie;
mod intel_ncsi;
mod sun_netframe;

use linerate_analysis::limits::{ethernet, headers, tcp};
use linerate_model::{BitRate, Bytes};
use serde::{Deserialize, Serialize};

pub use cisco_vic::cisco_vic;
pub use hp_ftp::hp_ftp;
pub use idt_pcie::idt_pcie;
pub use intel_ncsi::intel_ncsi;
pub use sun_netframe::sun_netframe;

/// A paper's figures, recomputed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Replay {
    /// Name of the paper.
    pub paper: String,
    /// One item for each printed figure or claim, in the order of the paper.
    pub items: Vec<ReplayItem>,
}

/// One printed figure or claim beside the value that follows from the paper's other figures.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReplayItem {
    /// Its name: that of the erratum, where it is one (docs/methodology/papers.md#printed-figures).
    pub id: String,
    /// The figure compared.
    pub what: String,
    /// Value in print.
    pub printed: String,
    /// Value that follows from the paper's own figures, with the arithmetic.
    pub recomputed: String,
    /// True if the two agree.
    pub agrees: bool,
    /// For a figure that follows from others: digits after the decimal point to which it is printed
    /// and compared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digits: Option<i32>,
    /// The mistake a reader would make, or the conclusion from the agreement.
    pub why_it_matters: String,
}

/// Returns an item that this crate computes, rather than one listed in a data file.
fn item(
    id: impl Into<String>,
    what: impl Into<String>,
    printed: impl Into<String>,
    recomputed: impl Into<String>,
    agrees: bool,
    why: impl Into<String>,
) -> ReplayItem {
    ReplayItem {
        id: id.into(),
        what: what.into(),
        printed: printed.into(),
        recomputed: recomputed.into(),
        agrees,
        digits: None,
        why_it_matters: why.into(),
    }
}

/// A paper that can be replayed.
#[derive(Debug)]
pub struct Paper {
    /// Its name on the command line.
    pub name: &'static str,
    /// Its title.
    pub title: &'static str,
    /// Recomputes it.
    pub replay: fn() -> Replay,
}

/// Every paper, alphabetically.
pub static REPLAYS: &[Paper] = &[
    Paper { name: "cisco-vic", title: cisco_vic::TITLE, replay: cisco_vic },
    Paper { name: "hp-ftp", title: hp_ftp::TITLE, replay: hp_ftp },
    Paper { name: "idt-pcie", title: idt_pcie::TITLE, replay: idt_pcie },
    Paper { name: "intel-ncsi", title: intel_ncsi::TITLE, replay: intel_ncsi },
    Paper { name: "sun-netframe", title: sun_netframe::TITLE, replay: sun_netframe },
];

/// Returns the paper called `name`.
#[must_use]
pub fn paper(name: &str) -> Option<&'static Paper> {
    REPLAYS.iter().find(|paper| paper.name == name)
}

impl Replay {
    /// Returns the arithmetic of an item, for tests.
    #[cfg(test)]
    fn recomputed(&self, id: &str) -> &str {
        &self.items.iter().find(|item| item.id == id).expect(id).recomputed
    }

    /// Returns the items that do not agree.
    pub(crate) fn disagreements(&self) -> impl Iterator<Item = &ReplayItem> {
        self.items.iter().filter(|item| !item.agrees)
    }
}

/// Returns the payload that a TCP stream carries over a link, both in Mbit/s. Without timestamps
/// the ceiling is higher, so the paper gets the benefit of the doubt.
fn link_ceiling(megabits: f64, mtu: u64) -> f64 {
    let headers = headers::tcp(headers::IpVersion::V4, headers::Timestamps::Off);
    let overhead = ethernet::packet_overhead(0);
    tcp::goodput(BitRate(megabits * 1e6), Bytes(mtu), overhead, headers).0 / 1e6
}

/// Returns whether `printed` is `value` to the printed number of decimals, rounded half up or cut
/// off: papers do both.
fn agrees_to(printed: f64, value: f64, decimals: i32) -> bool {
    /// Error of decimal fractions in binary.
    const ROUNDING: f64 = 1e-9;
    let scale = 10_f64.powi(decimals);
    let target = (printed * scale).round();
    // Half up and not half to even, because printed tables round half up.
    let rounded = (value * scale + 0.5 + ROUNDING).floor();
    // Some papers cut digits off instead of rounding.
    let cut = (value * scale + ROUNDING).floor();
    target == rounded || target == cut
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn papers_are_registered_alphabetically_and_their_items_are_complete() {
        assert!(REPLAYS.iter().map(|paper| paper.name).is_sorted());
        for entry in REPLAYS {
            let replay = (paper(entry.name).expect("registered").replay)();
            assert_eq!(replay.paper, entry.title);
            let mut ids: Vec<&str> = replay.items.iter().map(|item| item.id.as_str()).collect();
            ids.sort_unstable();
            ids.dedup();
            assert_eq!(ids.len(), replay.items.len(), "{}: an id is used twice", entry.name);
            for item in &replay.items {
                let texts = [&item.what, &item.printed, &item.recomputed, &item.why_it_matters];
                assert!(texts.iter().all(|text| !text.is_empty()), "{}", item.id);
            }
        }
    }

    #[test]
    fn rounding_and_cutting_off_both_agree_and_nothing_else_does() {
        assert!(agrees_to(84.60, 84.609, 2) && agrees_to(84.61, 84.609, 2));
        assert!(agrees_to(61.01, 61.005, 2));
        assert!(!agrees_to(84.62, 84.609, 2) && !agrees_to(1.63, 1.620, 2));
    }
}
