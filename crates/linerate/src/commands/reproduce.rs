//! `linerate reproduce`: a paper's tests on emulated testbeds, and whether its shapes hold.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use linerate_analysis::{Study, study};
use linerate_campaign::checks;
use linerate_campaign::conduct::{self, Request};
use linerate_campaign::testbeds::{self, Place};
use linerate_model::Campaign;
use linerate_papers::document::of_reproduction;
use linerate_papers::reproduce::{
    CiscoStudies, Comparison, IntelStudies, Reproduction, cisco_settings, cisco_vic, hp_ftp,
    idt_pcie, intel_ncsi, sun_netframe, with_storage,
};

use crate::args::{Global, Output, ReportFormat, Saved};
use crate::exit::{Exit, Failure, Outcome};
use crate::progress::Display;
use crate::reports;

#[derive(Debug, Args)]
pub(crate) struct ReproduceArgs {
    /// The paper
    pub(crate) paper: Paper,
    /// A shorter run: fewer points and repeats
    #[arg(long)]
    pub(crate) quick: bool,
    /// Folder for the ledgers and the report
    #[arg(long)]
    pub(crate) out: Option<PathBuf>,
    /// Go on with the ledgers already in that folder: what they have is judged again and not run
    /// again
    #[arg(long)]
    pub(crate) resume: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Paper {
    /// Cisco, UCS VIC 1240/1280 on RHEL 6.2 (2012)
    CiscoVic,
    /// HP 9000 N4000, FTP over Gigabit Ethernet (1999)
    HpFtp,
    /// IDT, 89PES24T6G2 PCI Express switch: Ethernet and storage
    IdtPcie,
    /// Intel, NC-SI overview and performance (2013)
    IntelNcsi,
    /// Sun, NetFrame (2001)
    SunNetframe,
}

/// A campaign of a reproduction.
struct Step {
    /// What its ledger and report are called.
    name: &'static str,
    /// Preset plan.
    plan: &'static str,
    /// Preset lab.
    lab: &'static str,
    /// What `--quick` changes in the plan.
    quick: &'static [&'static str],
}

/// What it takes to reproduce a paper.
struct Recipe {
    /// The folder written to unless another is named.
    folder: &'static str,
    steps: &'static [Step],
    /// Judges the studies of the steps, in their order.
    judge: fn(&[Study]) -> Option<Reproduction>,
    /// What the paper records of its hosts beside ours, where it records it; of the first step's
    /// campaign.
    hosts: Option<fn(&Campaign) -> Comparison>,
}

const SHORT: &[&str] = &["campaign.repeats=3", "duration=\"1500 ms\""];

static SUN: Recipe = Recipe {
    folder: "sun-netframe",
    steps: &[
        Step { name: "sun-link", plan: "sun-link", lab: "sun-link", quick: SHORT },
        Step { name: "sun-platform", plan: "sun-platform", lab: "sun-slower", quick: SHORT },
        Step { name: "sun-buses", plan: "sun-buses", lab: "sun-buses", quick: SHORT },
        Step { name: "sun-host", plan: "sun-host", lab: "pair", quick: SHORT },
    ],
    judge: |studies| match studies {
        [link, slower, buses, host] => Some(sun_netframe(link, slower, buses, host)),
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
    folder: "cisco-vic",
    steps: &[
        Step { name: "payload", plan: "cisco-payload", lab: "cisco-vic", quick: FEW_PAYLOADS },
        Step { name: "ports-vic", plan: "cisco-ports", lab: "cisco-vic", quick: FEW_SIZES },
        Step {
            name: "ports-expander",
            plan: "cisco-ports",
            lab: "cisco-expander",
            quick: FEW_SIZES,
        },
        Step { name: "draws-vic", plan: "cisco-draws", lab: "cisco-vic", quick: FOUR_FLOWS },
        Step {
            name: "draws-expander",
            plan: "cisco-draws",
            lab: "cisco-expander",
            quick: FOUR_FLOWS,
        },
        Step {
            name: "draws-polarised",
            plan: "cisco-draws",
            lab: "cisco-polarised",
            quick: FOUR_FLOWS,
        },
        Step { name: "placement", plan: "placement", lab: "cisco-vic", quick: HALF_SECONDS },
    ],
    judge: |studies| match studies {
        [payload, vic, expander, vic_draws, expander_draws, polarised, placement] => {
            let studies = CiscoStudies {
                payload,
                vic,
                expander,
                vic_draws,
                expander_draws,
                polarised,
                placement,
            };
            Some(cisco_vic(&studies))
        }
        _ => None,
    },
    hosts: Some(cisco_settings),
};

static HP: Recipe = Recipe {
    folder: "hp-ftp",
    steps: &[
        Step {
            name: "clients",
            plan: "hp-clients",
            lab: "hp-ftp",
            quick: &["campaign.repeats=3", "duration=\"2500 ms\""],
        },
        Step { name: "server", plan: "hp-server", lab: "pair", quick: SHORT },
    ],
    judge: |studies| match studies {
        [clients, server] => Some(hp_ftp(clients, server)),
        _ => None,
    },
    hosts: None,
};

static IDT: Recipe = Recipe {
    folder: "idt-pcie",
    steps: &[
        Step {
            name: "throughput",
            plan: "idt-throughput",
            lab: "idt-pcie",
            quick: &["compare.pairs=1", "axis.params.frame_size=[\"64 B\", \"512 B\", \"1518 B\"]"],
        },
        Step { name: "latency", plan: "idt-latency", lab: "idt-pcie", quick: SHORT },
        Step {
            name: "mixed",
            plan: "idt-mixed",
            lab: "idt-mixed",
            // Six pairs are the fewest with an interval.
            quick: &["duration=\"500 ms\"", "axis.job.0.params.read=[\"50 %\"]"],
        },
        Step {
            name: "sizes",
            plan: "idt-sizes",
            lab: "idt-mixed",
            quick: &[
                "campaign.repeats=2",
                "axis.job.1.params.frame_size=[\"64 B\", \"512 B\", \"1518 B\"]",
            ],
        },
        Step {
            name: "shared-edge",
            plan: "shared-edge",
            lab: "shared-edge",
            quick: &["duration=\"500 ms\"", "shared edge.axis.job.0.params.direction=[\"rx\"]"],
        },
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

static INTEL: Recipe = Recipe {
    folder: "intel-ncsi",
    steps: &[
        Step { name: "tables-default", plan: "intel-tables", lab: "ncsi-paper", quick: TABLES },
        Step { name: "tables-tuned", plan: "intel-tables", lab: "ncsi-tuned", quick: TABLES },
        Step { name: "causes-default", plan: "intel-causes", lab: "ncsi-paper", quick: SHORT },
        Step { name: "causes-tuned", plan: "intel-causes", lab: "ncsi-tuned", quick: SHORT },
        Step { name: "port-100m", plan: "intel-link-speed", lab: "ncsi-100m", quick: SHORT },
        Step { name: "port-1g", plan: "intel-link-speed", lab: "ncsi", quick: SHORT },
        Step {
            name: "cpu",
            plan: "intel-cpu",
            lab: "ncsi-cpu",
            quick: &["campaign.repeats=2", "duration=\"1 s\""],
        },
        Step { name: "fire-hose", plan: "fire-hose", lab: "ncsi", quick: &["campaign.repeats=1"] },
    ],
    judge: |studies| match studies {
        [default, tuned, causes, causes_tuned, slow_port, fast_port, cpu, hose] => {
            Some(intel_ncsi(&IntelStudies {
                default,
                tuned,
                causes,
                causes_tuned,
                slow_port,
                fast_port,
                cpu,
                hose,
            }))
        }
        _ => None,
    },
    hosts: None,
};

/// Runs the paper's campaigns, prints its tables beside ours, and checks the shapes.
pub(crate) fn run(args: &ReproduceArgs, global: Global) -> Outcome {
    let recipe = match args.paper {
        Paper::CiscoVic => &CISCO,
        Paper::HpFtp => &HP,
        Paper::IdtPcie => &IDT,
        Paper::IntelNcsi => &INTEL,
        Paper::SunNetframe => &SUN,
    };
    let out = args.out.clone().unwrap_or_else(|| PathBuf::from(recipe.folder));
    std::fs::create_dir_all(&out)
        .map_err(|error| Failure::missing(format!("create folder {}: {error}", out.display())))?;
    let (mut studies, mut hosts) = (Vec::new(), None);
    for step in recipe.steps {
        match carry_out(step, args, &out, global)? {
            Ok((campaign, study)) => {
                hosts = hosts.or_else(|| recipe.hosts.map(|beside| beside(&campaign)));
                studies.push(study);
            }
            Err(exit) => return Ok(exit),
        }
    }
    let mut reproduction = (recipe.judge)(&studies)
        .ok_or_else(|| Failure::missing("reproduce: not every campaign was run"))?;
    reproduction.tables.extend(hosts);
    // The campaigns' reports have folders of their own below this one.
    let saved = Saved { format: vec![ReportFormat::Html], out: out.clone() };
    reports::answer(&of_reproduction(&reproduction), &saved, global)?;
    if !global.json {
        println!("ledgers and reports of the campaigns in {}", out.display());
    }
    Ok(if reproduction.holds() { Exit::Done } else { Exit::Missed })
}

/// Runs one campaign; the inner error is the exit of one that was interrupted.
fn carry_out(
    step: &Step,
    args: &ReproduceArgs,
    out: &Path,
    global: Global,
) -> Result<Result<(Campaign, Study), Exit>, Failure> {
    let Step { name, plan, lab, quick: changes } = step;
    let set: Vec<String> = if args.quick {
        changes.iter().map(|text| (*text).to_owned()).collect()
    } else {
        Vec::new()
    };
    let (found, plan) = checks::read(plan, &set)?;
    let mut ground =
        testbeds::prepare(&Place { lab: Some((*lab).to_owned()), ..Place::default() })?;
    if !global.quiet {
        eprintln!("{name} on lab {lab}");
    }
    let ledger = out.join(format!("{name}.ledger"));
    let resume = args.resume && ledger.exists();
    let request = Request { found: &found, plan: &plan, ground: &ground, ledger: &ledger, resume };
    let mut display = Display::new(global);
    let (campaign, summary) = conduct::conduct(&request, &mut |event| display.show(&event))?;
    drop(display);
    ground.dismantle();
    let study = study(&campaign);
    reports::write(
        &campaign,
        &study,
        &Output { format: vec![ReportFormat::Html], out: out.join(name) },
    )?;
    Ok(match conduct::exit_of(&summary)? {
        Exit::Done | Exit::Missed => Ok((campaign, study)),
        other => Err(other),
    })
}
