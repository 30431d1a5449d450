//! `linerate reproduce`: a paper's tests on emulated testbeds, and whether its shapes hold.

use std::path::{Path, PathBuf};

use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use linerate_analysis::Study;
use linerate_campaign::conduct::Measured;
use linerate_campaign::ends::make_folder;
use linerate_campaign::testbeds::Place;
use linerate_campaign::{checks, conduct, sandbox, testbeds};
use linerate_model::{Campaign, TestbedKind};
use linerate_papers::document::of_reproduction;
use linerate_papers::recipes::{RECIPES, Recipe, Step};
use linerate_report::compose;

use crate::args::{DEFAULT_FORMAT, Formats, Global};
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
    /// Run only this campaign of the paper; shapes of the others are not judged (repeatable)
    #[arg(long, value_name = "CAMPAIGN")]
    pub(crate) step: Vec<String>,
    /// Change the plans that run: `campaign.repeats=1`, `SWEEP.duration="1 s"` (repeatable)
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
    /// Testbed file: run the plans on real hosts instead of labs
    #[arg(long, conflicts_with = "to")]
    pub(crate) testbed: Option<PathBuf>,
    /// Host with an agent: run the plans from endpoint `a` here to `b` there instead of in labs
    #[arg(long, value_name = "HOST")]
    pub(crate) to: Option<String>,
}

impl ReproduceArgs {
    /// Returns the real hosts to run on; `None` for labs.
    fn hosts(&self) -> Option<Place> {
        let Self { testbed, to, .. } = self;
        (testbed.is_some() || to.is_some()).then(|| Place {
            testbed: testbed.clone(),
            to: to.clone(),
            ..Place::default()
        })
    }

    /// Returns an error if a step is none of the paper.
    fn check_steps(&self) -> Result<(), Failure> {
        let known: Vec<&str> = self.paper.steps.iter().map(|step| step.name).collect();
        match self.step.iter().find(|step| !known.contains(&step.as_str())) {
            Some(step) => Err(Failure::wrong(format!(
                "--step {step}: {} has the campaigns {}",
                self.paper.name,
                known.join(", ")
            ))),
            None => Ok(()),
        }
    }
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
    args.check_steps()?;
    let out = args.out.clone().unwrap_or_else(|| PathBuf::from(recipe.name));
    make_folder(&out)?;
    let (mut studies, mut hosts) = (Vec::new(), None);
    for step in recipe.steps {
        match carry_out(step, args, &out, global)? {
            Ended::Measured(campaign, study) => {
                // The hosts of the first campaign describe all: they are one machine.
                hosts = hosts.or_else(|| recipe.hosts.map(|beside| beside(&campaign)));
                studies.push(*study);
            }
            Ended::LeftOut => studies.push(Study::default()),
            Ended::Interrupted(exit) => return Ok(exit),
        }
    }
    let place = if args.hosts().is_some() { TestbedKind::Hosts } else { TestbedKind::Lab };
    let mut reproduction = recipe
        .reproduction(&studies, args.quick, place)
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

/// End of a campaign of the paper.
enum Ended {
    Measured(Box<Campaign>, Box<Study>),
    /// It was not asked for, or the hosts lack its endpoints.
    LeftOut,
    Interrupted(Exit),
}

fn carry_out(
    step: &Step,
    args: &ReproduceArgs,
    out: &Path,
    global: Global,
) -> Result<Ended, Failure> {
    let Step { name, plan, lab, quick: changes, .. } = step;
    if !args.step.is_empty() && !args.step.iter().any(|wanted| wanted == name) {
        return Ok(Ended::LeftOut);
    }
    let changes: &[&str] = if args.quick { changes } else { &[] };
    let set: Vec<String> =
        changes.iter().map(|text| (*text).to_owned()).chain(args.set.iter().cloned()).collect();
    let (found, plan, place) = match args.hosts() {
        None => {
            // Where a lab needs a user namespace, this program starts again inside it: before it
            // prints.
            sandbox::enter()?;
            let (found, plan) = checks::read(plan, &set)?;
            (found, plan, Place { lab: Some((*lab).to_owned()), ..Place::default() })
        }
        Some(hosts) => {
            let testbed = testbeds::outline(&hosts)?.testbed;
            let endpoints: Vec<&str> =
                testbed.endpoints.iter().map(|endpoint| endpoint.name.as_str()).collect();
            let settings = step.for_hosts(&endpoints);
            let read = checks::read_for_hosts((name, plan), set, settings, &testbed)?;
            read.note.iter().for_each(|note| eprintln!("{note}"));
            let Some((found, plan)) = read.plan else { return Ok(Ended::LeftOut) };
            (found, plan, hosts)
        }
    };
    if !global.quiet {
        match &place.lab {
            Some(lab) => eprintln!("{name} on lab {lab}"),
            None => eprintln!("{name} on the hosts"),
        }
    }
    let ledger = out.join(format!("{name}.ledger"));
    // A ledger that was never made cannot be continued.
    let resume = args.resume && ledger.exists();
    let Measured { campaign, study, summary } =
        measure::at("reproduce", &place, (&found, &plan), (&ledger, resume), global)?;
    let report = compose(&campaign, &study);
    reports::save(&report, &[DEFAULT_FORMAT], &out.join(name))?;
    Ok(match conduct::exit_of(&summary)? {
        // Failed trials do not end a reproduction; its shapes are then not judged.
        Exit::Done | Exit::Missed => Ended::Measured(Box::new(campaign), Box::new(study)),
        other => Ended::Interrupted(other),
    })
}
