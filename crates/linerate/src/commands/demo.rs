//! `linerate demo`: two short labs on this machine alone, in under two minutes. The first shows how
//! near a path comes to its ceiling; the second has an injected limit, which is proven and cured.

use std::path::{Path, PathBuf};

use clap::Args;
use linerate_analysis::study;
use linerate_answers::demo::{self, Injected};
use linerate_campaign::diagnose::{Load, Question, Rung, climb, exit_of};
use linerate_campaign::ends::make_folder;
use linerate_campaign::stages::Ledgers;
use linerate_campaign::testbeds::{self, Place};
use linerate_campaign::{Ended, checks, conclusion, sandbox};
use linerate_model::Nanos;

use crate::args::{DEFAULT_FORMAT, Global};
use crate::commands::measure::{self, Person};
use crate::exit::{Exit, Failure, Outcome};
use crate::reports;

#[derive(Debug, Args)]
pub(crate) struct DemoArgs {
    /// Folder for the ledgers and the report
    #[arg(long, default_value = "linerate-demo")]
    pub(crate) out: PathBuf,
}

/// The lab of the first part.
const LAB: &str = "pair-100m";
/// The plan of the first part.
const PLAN: &str = "demo";
/// The lab of the second part.
const LONG_LAB: &str = "long-path";
/// The limit of the second part: a receive buffer that holds a small part of what is in flight
/// when the long path is full.
const INJECTED: &str = "receive_buffer=128 KiB";
/// Time for the diagnosis.
const BUDGET: Nanos = Nanos::from_secs(75);

/// Measures a lab, or loopback with a warning where no lab can be built; diagnoses the lab with an
/// injected limit, and writes the report.
pub(crate) fn run(args: &DemoArgs, global: Global) -> Outcome {
    // Namespaces alone are not enough: the lab is built with programs.
    let lab_possible = sandbox::possible().is_ok() && sandbox::missing_tools().is_empty();
    // Both ends in one process compete for its CPUs, so a person should know.
    if !lab_possible && !global.quiet {
        eprintln!(
            "warning: no lab can be built here (`linerate doctor` says why); measuring loopback, \
                with both ends in one process, and nothing is diagnosed"
        );
    }
    announce("Part 1 of 2: the rates of a path with a known ceiling, half a minute", global);
    let (found, plan) = checks::read(PLAN, &[])?;
    make_folder(&args.out)?;
    let ledger = args.out.join("demo.ledger");
    let place = Place { lab: lab_possible.then(|| LAB.to_owned()), ..Place::default() };
    // Each demo begins a new campaign.
    let (campaign, summary) =
        measure::at("demo", &place, (&found, &plan), (&ledger, false), global)?;
    let study = study(&campaign);
    let exit = conclusion::outcome(&campaign, &study, &summary)?;
    let folder = args.out.join("diagnosis");
    let rungs = match lab_possible && exit != Exit::Interrupted {
        true => diagnose(&folder, global)?,
        false => Vec::new(),
    };
    let injected = Injected { rungs: &rungs, lab: LONG_LAB, parameter: INJECTED, folder: &folder };
    let injected = (!rungs.is_empty()).then_some(&injected);
    let report = demo::document(&campaign, &study, injected);
    let files = reports::save(&report, &[DEFAULT_FORMAT], &args.out)?;
    if global.json {
        println!("{}", report.study);
    } else {
        print!("{}", demo::summary(&report));
        println!("ledger {}", ledger.display());
        files.iter().for_each(|file| println!("report {}", file.display()));
    }
    // A limit that noise kept from a proof is a goal that was missed.
    let is_missed = exit == Exit::Done && injected.is_some() && exit_of(&rungs) != Exit::Done;
    Ok(if is_missed { Exit::Missed } else { exit })
}

fn announce(part: &str, global: Global) {
    if !global.quiet {
        eprintln!("{part}");
    }
}

/// Looks for the limit of the second lab, with ledgers in `folder`.
fn diagnose(folder: &Path, global: Global) -> Result<Vec<Rung>, Failure> {
    announce("Part 2 of 2: the limit of a long path, proven by experiments, a minute", global);
    let mut ground =
        testbeds::prepare(&Place { lab: Some(LONG_LAB.to_owned()), ..Place::default() })?;
    make_folder(folder)?;
    let question = Question {
        workload: "tcp_stream".to_owned(),
        params: vec![INJECTED.to_owned()],
        pairs: 6,
        seconds: 0.7,
        omit: 0.5,
        seed: 1,
    };
    let load = Load::new(&question, "a".to_owned(), "b".to_owned())?;
    // A lab has no agent that others use.
    let audience = Person::new("demo", global, None);
    let ledgers = Ledgers::new("demo", &ground, folder, &audience);
    let rungs = climb(&ledgers, load, 1, BUDGET);
    drop(audience);
    ground.dismantle();
    match rungs {
        Ok(rungs) => Ok(rungs),
        // What was measured until then is the answer.
        Err(Ended::With(_)) => Ok(Vec::new()),
        Err(Ended::Failed(failure)) => Err(failure),
    }
}
