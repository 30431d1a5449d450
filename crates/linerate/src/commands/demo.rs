//! `linerate demo`: two short labs on this machine alone, in under two minutes. The first shows how
//! near a path comes to its ceiling; the second has an injected limit, which is proven and cured.

use std::path::PathBuf;

use clap::Args;
use linerate_answers::demo::{self, Injected};
use linerate_campaign::conduct::Measured;
use linerate_campaign::diagnose::{INJECTED, LONG_LAB, exit_of, injected};
use linerate_campaign::ends::make_folder;
use linerate_campaign::testbeds::Place;
use linerate_campaign::{checks, conclusion, sandbox};

use crate::args::{DEFAULT_FORMAT, Global};
use crate::commands::measure::{self, Person};
use crate::exit::{Exit, Outcome};
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
    let Measured { campaign, study, summary } =
        measure::at("demo", &place, (&found, &plan), (&ledger, false), global)?;
    let exit = conclusion::outcome(&campaign, &study, &summary)?;
    let folder = args.out.join("diagnosis");
    let rungs = match lab_possible && exit != Exit::Interrupted {
        true => {
            announce(
                "Part 2 of 2: the limit of a long path, proven by experiments, a minute",
                global,
            );
            // A lab has no agent that others use.
            injected(&folder, &Person::new("demo", global, None))?
        }
        false => Vec::new(),
    };
    let found = Injected { rungs: &rungs, lab: LONG_LAB, parameter: INJECTED, folder: &folder };
    let found = (!rungs.is_empty()).then_some(&found);
    let report = demo::document(&campaign, &study, found);
    let files = reports::save(&report, &[DEFAULT_FORMAT], &args.out)?;
    if global.json {
        println!("{}", report.study);
    } else {
        print!("{}", demo::summary(&report));
        println!("ledger {}", ledger.display());
        files.iter().for_each(|file| println!("report {}", file.display()));
    }
    // A limit that noise kept from a proof is a goal that was missed.
    let is_missed = exit == Exit::Done && found.is_some() && exit_of(&rungs) != Exit::Done;
    Ok(if is_missed { Exit::Missed } else { exit })
}

fn announce(part: &str, global: Global) {
    if !global.quiet {
        eprintln!("{part}");
    }
}
