//! `linerate reproduce`: a paper's tests on emulated testbeds, and whether its shapes hold.

use std::path::{Path, PathBuf};

use linerate_analysis::reproduce::{Reproduction, sun_netframe};
use linerate_analysis::{Study, study};
use serde_json::json;

use crate::campaign::{self, Request};
use crate::cli::{Global, Output, Paper, Place, ReportFormat, ReproduceArgs};
use crate::commands::plan;
use crate::exit::{Exit, Failure, Outcome};
use crate::progress::Display;
use crate::{reports, show, testbeds};

/// The campaigns of the Sun paper: plan and lab.
const SUN: [(&str, &str); 4] =
    [("sun-link", "sun-link"), ("sun-platform", "sun-slower"), ("sun-buses", "sun-buses"), ("sun-host", "pair")];
/// What `--quick` changes in each plan.
const QUICK: [&str; 2] = ["campaign.repeats=3", "duration=\"1500 ms\""];

/// Runs the paper's campaigns, prints its tables beside ours, and checks the shapes.
pub(crate) fn run(args: &ReproduceArgs, global: Global) -> Outcome {
    let Paper::SunNetframe = args.paper;
    let out = args.out.clone().unwrap_or_else(|| PathBuf::from("sun-netframe"));
    std::fs::create_dir_all(&out)
        .map_err(|error| Failure::missing(format!("create folder {}: {error}", out.display())))?;
    let mut studies = Vec::new();
    for (plan, lab) in SUN {
        match carry_out(plan, lab, args.quick, &out, global)? {
            Ok(study) => studies.push(study),
            Err(exit) => return Ok(exit),
        }
    }
    let [link, slower, buses, host] = &studies[..] else {
        return Err(Failure::missing("reproduce: not every campaign was run"));
    };
    let reproduction = sun_netframe(link, slower, buses, host);
    if global.json {
        println!("{}", json!(reproduction));
    } else {
        print(&reproduction);
        println!("\nledgers and reports in {}", out.display());
    }
    Ok(if reproduction.holds() { Exit::Done } else { Exit::Missed })
}

/// Runs one campaign; the inner error is the exit of one that was interrupted.
fn carry_out(name: &str, lab: &str, quick: bool, out: &Path, global: Global) -> Result<Result<Study, Exit>, Failure> {
    let set: Vec<String> = if quick { QUICK.iter().map(|text| (*text).to_owned()).collect() } else { Vec::new() };
    let (found, plan) = plan::read(name, &set)?;
    let mut ground = testbeds::prepare(&Place { lab: Some(lab.to_owned()), ..Place::default() })?;
    if !global.quiet {
        eprintln!("{name} on lab {lab}");
    }
    let ledger = out.join(format!("{name}.ledger"));
    let request = Request { found: &found, plan: &plan, ground: &ground, ledger: &ledger, resume: false };
    let mut display = Display::new(global);
    let (campaign, summary) = campaign::conduct(&request, &mut |event| display.show(&event))?;
    drop(display);
    ground.dismantle();
    let study = study(&campaign);
    reports::write(&campaign, &study, &Output { format: vec![ReportFormat::Html], out: out.join(name) })?;
    Ok(match campaign::exit_of(&summary)? {
        Exit::Done | Exit::Missed => Ok(study),
        other => Err(other),
    })
}

fn print(reproduction: &Reproduction) {
    println!("{}\nemulated testbeds: shapes are compared, not absolute figures\n", reproduction.paper);
    for table in &reproduction.tables {
        println!("{}", show::table(&table.title, &table.head, &table.rows));
    }
    for shape in &reproduction.shapes {
        let word = match shape.holds {
            Some(true) => "holds ",
            Some(false) => "MISSED",
            None => "  -   ",
        };
        println!("{word} {:5} {}", shape.id, shape.claim);
        println!("             {}", shape.measured);
    }
    let count = |wanted| reproduction.shapes.iter().filter(|shape| shape.holds == wanted).count();
    println!("\n{} hold, {} missed, {} not judged", count(Some(true)), count(Some(false)), count(None));
}
