//! The papers' printed arithmetic, recomputed, and its contradictions.
//!
//! Each paper is one data file in `data/` with its printed figures and the items that follow from
//! them ([`items`]). Nothing is measured: a replay needs no testbed and its result never changes.

mod intel_ncsi;
mod items;

use serde::{Deserialize, Serialize};

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
    /// Its figures and items.
    data: &'static str,
    compute: fn(&Paper) -> Vec<ReplayItem>,
}

impl Paper {
    /// Recomputes the paper.
    #[must_use]
    pub fn replay(&self) -> Replay {
        Replay { paper: self.title.to_owned(), items: (self.compute)(self) }
    }
}

/// Every paper, alphabetically.
pub static REPLAYS: &[Paper] = &[
    Paper {
        name: "cisco-vic",
        title: "Cisco UCS Virtual Interface Card 1240 and 1280 network performance on RHEL 6.2",
        data: include_str!("../../data/cisco-vic.toml"),
        compute: items::of_data,
    },
    Paper {
        name: "hp-ftp",
        title: "HP 9000 N4000 FTP over Gigabit Ethernet, Mier Communications 1999",
        data: include_str!("../../data/hp-ftp.toml"),
        compute: items::of_data,
    },
    Paper {
        name: "idt-pcie",
        title: "IDT 89PES24T6G2 PCI Express switch performance report",
        data: include_str!("../../data/idt-pcie.toml"),
        compute: items::of_data,
    },
    Paper {
        name: "intel-ncsi",
        title: "NC-SI Overview and Performance, revision 1.1, Intel 2013",
        data: include_str!("../../data/intel-ncsi.toml"),
        compute: intel_ncsi::items,
    },
    Paper {
        name: "sun-netframe",
        title: "Sun Fire Gigabit Performance Characterization (NetFrame 0.8.0), Sun Microsystems",
        data: include_str!("../../data/sun-netframe.toml"),
        compute: items::of_data,
    },
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn papers_are_registered_alphabetically_and_their_items_are_complete() {
        assert!(REPLAYS.iter().map(|paper| paper.name).is_sorted());
        for entry in REPLAYS {
            let replay = paper(entry.name).expect("registered").replay();
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

    /// A paper, its items that disagree, and texts in what is recomputed for an item.
    type Known = (&'static str, &'static [&'static str], &'static [(&'static str, &'static str)]);

    /// docs/methodology/papers.md#printed-figures.
    const KNOWN: [Known; 4] = [
        (
            "cisco-vic",
            &["70.8-percent", "E3.a", "dual-fabric-ceiling", "close-to-40", "E3.d-mps", "477-kpps"],
            &[
                ("E3.a", "9914 Mbit/s"),
                ("dual-fabric-ceiling", "2 x 9914 = 19827 Mbit/s"),
                ("close-to-40", "22655 Mbit/s = 56.6 % of it"),
                ("477-kpps", "34.34 Gbit/s"),
                ("pcie-division", "= 84.609 %"),
                ("E3.d-mps", "97.8 % of 55.35"),
                ("E3.d-mps", "91.2 % of 59.36"),
                ("70.8-percent", "= 70.8 %"),
                ("E3.c-links", "1.28 of 2 links and 2.48 of 4"),
                ("second-limit", "0.89 and 0.78"),
            ],
        ),
        (
            "hp-ftp",
            &["E4.a", "E4.b", "E4.d", "E4.ratio", "E4.clients"],
            &[
                ("E4.ratio", "mean 3.51, geometric mean 3.33, ratio of sums 2.96"),
                ("E4.clients", "= 12.1"),
                ("E4.clients", "= 8.3"),
                ("link-share", "80.3 %"),
                ("io-total", "5280"),
            ],
        ),
        (
            "idt-pcie",
            &[
                "48.76-gigabits",
                "76.2-percent",
                "72.7-percent",
                "E5.f-table-1",
                "E5.f-table-2",
                "identical-rows",
                "search-step",
                "E5.c",
                "E5.d",
                "E5.e",
            ],
            &[
                ("bandwidth", "= 48.76 Gbit/s"),
                ("48.76-gigabits", "24.38 of 32"),
                ("76.2-percent", "= 76.2 %; with line code and 15 % for other packets 51.8 %"),
                ("76.2-percent", "and 40 % if"),
                ("72.7-percent", "2 x 8 B for 4 packets: 64 / (64 + 24) = 72.7 %, 46.55 Gbit/s"),
                ("search-step", "= 0.71 % of the line: +0.4, -0.6, +2.8 steps"),
                ("E5.f-table-1", "3459 MB/s"),
                ("E5.f-table-2", "= 2903 MB/s"),
            ],
        ),
        (
            "sun-netframe",
            &[
                "E2.b",
                "E2.a",
                "E2.c",
                "E2.d",
                "E2.e",
                "E2.f",
                "E2.g",
                "E2.i",
                "E2.h",
                "single-schizo",
            ],
            &[
                ("E2.a", "936 / 949.3 = 98.6 %"),
                ("E2.b", "= 718.2 times"),
                ("E2.f", "1.6 GB/s"),
                ("single-schizo", "1677 Mbit/s"),
                ("second-schizo", "= 1.620; summary: 2733 / 1640 = 1.666"),
                ("slot", "544 Mbit/s"),
                ("second-bus", "1370 Mbit/s"),
                ("fifth-cpu", "861 Mbit/s"),
                ("bus-share", "41 %"),
                ("bus-share", "21 %"),
                ("packet-size-single-connection", "1136 B"),
                ("packet-size-single-cpu", "970 B"),
                ("packet-size-single-nic", "944 B"),
                ("packet-size-one-schizo", "959 B"),
                ("packet-size-io-assembly", "1023 B"),
                ("packet-size-single-connection", "3.5 data packets"),
            ],
        ),
    ];

    #[test]
    fn exactly_the_listed_figures_disagree_and_the_recomputed_are_those_of_the_methodology() {
        for (name, wrong, texts) in KNOWN {
            let replay = paper(name).expect("registered").replay();
            let found: Vec<&str> = replay.disagreements().map(|item| item.id.as_str()).collect();
            assert_eq!(found, wrong, "{name}");
            for (id, text) in texts {
                assert!(replay.recomputed(id).contains(text), "{id}: {}", replay.recomputed(id));
            }
        }
    }
}
