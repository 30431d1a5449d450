//! Recipes of the reproductions: which plans run on which labs, and how their studies are judged.

use linerate_analysis::Study;
use linerate_model::{Campaign, TestbedKind};

use crate::reproduce::{
    CiscoStudies, Comparison, IntelStudies, Reproduction, SunStudies, cisco_settings, cisco_vic,
    hp_ftp, idt_pcie, intel_ncsi, sun_netframe, with_storage,
};

/// Every recipe, by the name of its paper.
pub static RECIPES: [&Recipe; 5] = [&CISCO, &HP, &IDT, &INTEL, &SUN];

/// A campaign of a reproduction.
#[derive(Debug)]
pub struct Step {
    /// Name of its ledger and report.
    pub name: &'static str,
    /// Preset plan.
    pub plan: &'static str,
    /// Preset lab.
    pub lab: &'static str,
    /// Changes to the plan with `--quick`.
    pub quick: &'static [&'static str],
    /// What the campaign is on real hosts.
    pub on_hosts: OnHosts,
}

/// Campaign on real hosts, which have no lab's settings.
#[derive(Clone, Copy, Debug)]
pub enum OnHosts {
    /// The plan is all that it is.
    Plan,
    /// The plan, with these settings at those of the endpoints that there are.
    Settings {
        /// Names of endpoints.
        at: &'static [&'static str],
        /// Names and values.
        values: &'static [[&'static str; 2]],
    },
    /// None: another campaign has the same plan, and only the lab differs.
    Nothing,
}

impl Step {
    /// Returns the changes to the plan for hosts with `endpoints`, in the form of `--set`; `None`
    /// if the campaign would be the same as another one there.
    #[must_use]
    pub fn for_hosts(&self, endpoints: &[&str]) -> Option<Vec<String>> {
        match self.on_hosts {
            OnHosts::Plan => Some(Vec::new()),
            OnHosts::Nothing => None,
            OnHosts::Settings { at, values } => {
                let held = at.iter().filter(|at| endpoints.contains(at)).flat_map(|at| {
                    values.iter().map(move |[name, value]| {
                        format!("{{ at = \"{at}\", name = \"{name}\", value = \"{value}\" }}")
                    })
                });
                let held: Vec<String> = held.collect();
                Some(vec![format!("campaign.settings=[{}]", held.join(", "))])
            }
        }
    }

    const fn on_hosts(self, on_hosts: OnHosts) -> Self {
        Self { on_hosts, ..self }
    }
}

const fn step(
    name: &'static str,
    plan: &'static str,
    lab: &'static str,
    quick: &'static [&'static str],
) -> Step {
    Step { name, plan, lab, quick, on_hosts: OnHosts::Plan }
}

/// The campaigns that reproduce a paper, and the judgement of their studies.
#[derive(Debug)]
pub struct Recipe {
    /// Name of the paper, and of the default folder.
    pub name: &'static str,
    /// The paper in a few words.
    pub summary: &'static str,
    /// Its campaigns, in order.
    pub steps: &'static [Step],
    /// Judges the studies of the steps, in their order. Returns `None` if one is missing.
    pub judge: fn(&[Study]) -> Option<Reproduction>,
    /// Compares the hosts of the paper with ours, from the first campaign; `None` if the paper does
    /// not describe its hosts.
    pub hosts: Option<fn(&Campaign) -> Comparison>,
}

const SHORT: &[&str] = &["campaign.repeats=3", "duration=\"1500 ms\""];

impl Recipe {
    /// Returns the reproduction from the studies of the steps, in their order, measured at `place`;
    /// `quick` if they were shortened. A study without points leaves its shapes unjudged. `None` if
    /// one is missing.
    #[must_use]
    pub fn reproduction(
        &self,
        studies: &[Study],
        quick: bool,
        place: TestbedKind,
    ) -> Option<Reproduction> {
        let mut reproduction = (self.judge)(studies)?;
        let named: Vec<(&str, &Study)> =
            self.steps.iter().map(|step| step.name).zip(studies).collect();
        reproduction.count_trials(&named, quick);
        reproduction.place = place;
        reproduction.campaigns = self
            .steps
            .iter()
            .map(|step| {
                let command = format!("linerate run {} --lab {}", step.plan, step.lab);
                (step.name.to_owned(), command)
            })
            .collect();
        if place != TestbedKind::Lab {
            reproduction.mark_as_real();
        }
        Some(reproduction)
    }
}

static SUN: Recipe = Recipe {
    name: "sun-netframe",
    summary: "Sun, NetFrame (2001)",
    steps: &[
        step("sun-link", "sun-link", "sun-link", SHORT),
        step("sun-platform", "sun-platform", "sun-platform", SHORT),
        step("sun-slower", "sun-platform", "sun-slower", SHORT).on_hosts(OnHosts::Nothing),
        step("sun-buses", "sun-buses", "sun-buses", SHORT),
        step("sun-host", "sun-host", "pair", SHORT),
    ],
    // The number of studies is fixed by the steps. A partial run judges nothing rather than
    // something else.
    judge: |studies| match studies {
        [link, faster, slower, buses, host] => {
            Some(sun_netframe(&SunStudies { link, faster, slower, buses, host }))
        }
        _ => None,
    },
    hosts: None,
};

const FEW_PAYLOADS: &[&str] = &[
    "campaign.repeats=3",
    "duration=\"1 s\"",
    "payload, TCP.axis.params.message_size=[\"64 B\", \"1 KiB\", \"64 KiB\"]",
    "payload, UDP.axis.params.datagram_size=[\"64 B\", \"1 KiB\", \"8972 B\"]",
];
const FEW_SIZES: &[&str] = &[
    "campaign.repeats=3",
    "duration=\"1500 ms\"",
    "packets.axis.params.frame_size=[\"1004 B\", \"3004 B\", \"5004 B\", \"9004 B\"]",
];
/// Pairs stay eight: six are the fewest with an interval.
const HALF_SECONDS: &[&str] = &["duration=\"500 ms\""];
/// Draws stay 20: fewer say little of a hash.
const FOUR_FLOWS: &[&str] =
    &["duration=\"300 ms\"", "warmup=\"100 ms\"", "axis.params.streams=[4]"];

static CISCO: Recipe = Recipe {
    name: "cisco-vic",
    summary: "Cisco, UCS VIC 1240/1280 on RHEL 6.2 (2012)",
    steps: &[
        step("payload", "cisco-payload", "cisco-vic", FEW_PAYLOADS),
        step("ports-vic", "cisco-ports", "cisco-vic", FEW_SIZES),
        step("ports-expander", "cisco-ports", "cisco-expander", FEW_SIZES)
            .on_hosts(OnHosts::Nothing),
        step("draws-vic", "cisco-draws", "cisco-vic", FOUR_FLOWS),
        step("draws-expander", "cisco-draws", "cisco-expander", FOUR_FLOWS)
            .on_hosts(OnHosts::Nothing),
        step("draws-polarised", "cisco-draws", "cisco-polarised", FOUR_FLOWS)
            .on_hosts(OnHosts::Nothing),
        step("placement", "placement", "pair", HALF_SECONDS),
        // A failure every three seconds: shorter trials have none.
        step("failover", "cisco-failover", "cisco-failover", &["campaign.repeats=3"])
            .on_hosts(OnHosts::Nothing),
    ],
    judge: |studies| match studies {
        [payload, vic, expander, vic_draws, expander_draws, polarised, placement, failover] => {
            let studies = CiscoStudies {
                payload,
                vic,
                expander,
                vic_draws,
                expander_draws,
                polarised,
                placement,
                failover,
            };
            Some(cisco_vic(&studies))
        }
        _ => None,
    },
    hosts: Some(cisco_settings),
};

static HP: Recipe = Recipe {
    name: "hp-ftp",
    summary: "HP 9000 N4000, FTP over Gigabit Ethernet (1999)",
    steps: &[
        step("clients", "hp-clients", "hp-ftp", &["campaign.repeats=3", "duration=\"2500 ms\""]),
        step("server", "hp-server", "pair", SHORT),
    ],
    judge: |studies| match studies {
        [clients, server] => Some(hp_ftp(clients, server)),
        _ => None,
    },
    hosts: None,
};

static IDT: Recipe = Recipe {
    name: "idt-pcie",
    summary: "IDT, 89PES24T6G2 PCI Express switch: Ethernet and storage",
    steps: &[
        step(
            "throughput",
            "idt-throughput",
            "idt-pcie",
            &["compare.pairs=1", "axis.params.frame_size=[\"64 B\", \"512 B\", \"1518 B\"]"],
        ),
        step("latency", "idt-latency", "idt-pcie", SHORT),
        // Six pairs are the fewest with an interval.
        step(
            "mixed",
            "idt-mixed",
            "idt-mixed",
            &["duration=\"500 ms\"", "axis.job.0.params.read=[\"50 %\"]"],
        ),
        step(
            "sizes",
            "idt-sizes",
            "idt-mixed",
            &[
                "campaign.repeats=2",
                "axis.job.1.params.frame_size=[\"64 B\", \"512 B\", \"1518 B\"]",
            ],
        ),
        step(
            "shared-edge",
            "shared-edge",
            "shared-edge",
            &["duration=\"500 ms\"", "shared edge.axis.job.0.params.direction=[\"rx\"]"],
        ),
    ],
    judge: |studies| match studies {
        [throughput, latency, mixed, sizes, edge] => {
            Some(with_storage(idt_pcie(throughput, latency), mixed, sizes, edge))
        }
        _ => None,
    },
    hosts: None,
};

/// A table of one run each needs whole seconds: three are the least that show a series.
const TABLES: &[&str] = &["duration=\"3 s\""];

/// The paper's cure (S1.12).
const TUNED: OnHosts = OnHosts::Settings {
    at: &["bmc1", "bmc2"],
    values: &[["net.ipv4.tcp_rmem", "4096 12288 12288"], ["net.ipv4.tcp_wmem", "4096 16384 16384"]],
};

static INTEL: Recipe = Recipe {
    name: "intel-ncsi",
    summary: "Intel, NC-SI overview and performance (2013)",
    steps: &[
        step("tables-default", "intel-tables", "ncsi-paper", TABLES),
        step("tables-tuned", "intel-tables", "ncsi-tuned", TABLES).on_hosts(TUNED),
        step("causes-default", "intel-causes", "ncsi-paper", SHORT),
        step("causes-tuned", "intel-causes", "ncsi-tuned", SHORT).on_hosts(TUNED),
        step("port-100m", "intel-link-speed", "ncsi-100m", SHORT).on_hosts(OnHosts::Nothing),
        step("port-1g", "intel-link-speed", "ncsi", SHORT),
        step("port-10g", "intel-link-speed", "ncsi-10g", SHORT).on_hosts(OnHosts::Nothing),
        step("cpu", "intel-cpu", "ncsi-cpu", &["campaign.repeats=2", "duration=\"1 s\""]),
        step("fire-hose", "fire-hose", "ncsi", &["campaign.repeats=1"]),
    ],
    judge: |studies| match studies {
        [default, tuned, causes, causes_tuned, slow_port, fast_port, faster_port, cpu, hose] => {
            Some(intel_ncsi(&IntelStudies {
                default,
                tuned,
                causes,
                causes_tuned,
                slow_port,
                fast_port,
                faster_port,
                cpu,
                hose,
            }))
        }
        _ => None,
    },
    hosts: None,
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_campaigns_of_a_paper_are_the_same_on_real_hosts() {
        for recipe in RECIPES {
            let mut campaigns: Vec<(&str, Vec<String>)> = recipe
                .steps
                .iter()
                .filter_map(|step| Some((step.plan, step.for_hosts(&["a", "bmc1"])?)))
                .collect();
            let n = campaigns.len();
            campaigns.sort();
            campaigns.dedup();
            assert_eq!(campaigns.len(), n, "{}: {campaigns:?}", recipe.name);
        }
    }

    #[test]
    fn settings_are_those_of_the_endpoints_that_there_are() {
        let step = INTEL.steps.iter().find(|step| step.name == "tables-tuned").expect("it has one");
        let found = step.for_hosts(&["a", "bmc1"]).expect("a campaign");
        let rmem = r#"{ at = "bmc1", name = "net.ipv4.tcp_rmem", value = "4096 12288 12288" }"#;
        let wmem = r#"{ at = "bmc1", name = "net.ipv4.tcp_wmem", value = "4096 16384 16384" }"#;
        assert_eq!(found, [format!("campaign.settings=[{rmem}, {wmem}]")]);
    }
}
