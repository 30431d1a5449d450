//! `linerate reproduce`: a paper's tests on emulated testbeds, and whether its shapes hold.

use std::path::{Path, PathBuf};

use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use linerate_analysis::{Study, study};
use linerate_campaign::testbeds::Place;
use linerate_campaign::{checks, conduct, sandbox};
use linerate_model::Campaign;
use linerate_papers::document::of_reproduction;
use linerate_papers::recipes::{RECIPES, Recipe, Step};
use linerate_report::compose;

use crate::args::{DEFAULT_FORMAT, Formats, Global};
use crate::commands::ends::make_folder;
use crate::commands::measure;
use crate::exit::{Exit, Failure, Outcome};
use crate::reports;

#[derive(Debug, Args)]
pub(crate) struct ReproduceArgs {
    /// Paper to reproduce
    #[arg(value_parser = paper())]
    pub(crate) paper: &'static Recipe,
    /// Run fewer points and repeats
    #[arg(long)]
    pub(crate) quick: bool,
    /// Folder for the ledgers and the report [default: the name of the paper]
    #[arg(long)]
    pub(crate) out: Option<PathBuf>,
    /// Continue with the ledgers in that folder: complete campaigns are judged again, not run again
    #[arg(long)]
    pub(crate) resume: bool,
}

/// Returns the parser of a paper's name.
fn paper() -> impl TypedValueParser<Value = &'static Recipe> {
    // Not a `ValueEnum`: the recipes belong to another crate.
    let values = RECIPES.map(|one| PossibleValue::new(one.name).help(one.summary));
    PossibleValuesParser::new(values).map(|name| {
        RECIPES
            .into_iter()
            .find(|one| one.name == name)
            .expect("the parser allows only names of papers")
    })
}

/// Runs the paper's campaigns, prints its tables beside ours, and checks the shapes.
pub(crate) fn run(args: &ReproduceArgs, global: Global) -> Outcome {
    let recipe = args.paper;
    let out = args.out.clone().unwrap_or_else(|| PathBuf::from(recipe.name));
    make_folder(&out)?;
    let (mut studies, mut hosts) = (Vec::new(), None);
    for step in recipe.steps {
        match carry_out(step, args, &out, global)? {
            Ok((campaign, study)) => {
                // The hosts of the first campaign describe all: they are one machine.
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
    let saved = Formats { format: vec![DEFAULT_FORMAT] }.saved(&out);
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
    // Where a lab needs a user namespace, this program starts again inside it: before it prints.
    sandbox::enter()?;
    if !global.quiet {
        eprintln!("{name} on lab {lab}");
    }
    let ledger = out.join(format!("{name}.ledger"));
    // A ledger that was never made cannot be continued.
    let resume = args.resume && ledger.exists();
    let place = Place { lab: Some((*lab).to_owned()), ..Place::default() };
    let (campaign, summary) =
        measure::at("reproduce", &place, (&found, &plan), (&ledger, resume), global)?;
    let study = study(&campaign);
    let report = compose(&campaign, &study);
    reports::save(&report, &[DEFAULT_FORMAT], &out.join(name))?;
    Ok(match conduct::exit_of(&summary)? {
        // Failed trials do not end a reproduction; its shapes are then not judged.
        Exit::Done | Exit::Missed => Ok((campaign, study)),
        other => Err(other),
    })
}
