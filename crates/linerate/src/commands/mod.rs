//! The commands, one file each.

pub(crate) mod compare;
pub(crate) mod dashboard;
pub(crate) mod demo;
pub(crate) mod diagnose;
pub(crate) mod disk;
mod doctor;
mod ends;
mod facts;
pub(crate) mod flows;
pub(crate) mod import;
pub(crate) mod lab;
pub(crate) mod ledger;
pub(crate) mod limit;
pub(crate) mod list;
mod measure;
pub(crate) mod mesh;
pub(crate) mod ncsi;
pub(crate) mod plan;
pub(crate) mod probe;
pub(crate) mod replay;
pub(crate) mod report;
pub(crate) mod reproduce;
pub(crate) mod run;
pub(crate) mod serve;
pub(crate) mod testbed;
pub(crate) mod to;
pub(crate) mod tune;

use std::path::Path;

use linerate_agent::commands::{agent, pair};
use linerate_agent::serving;

use crate::cli::{self, Command, Invocation};
use crate::commands::disk::DiskAction;
use crate::commands::lab::{LabAction, LabArgs};
use crate::exit::{Exit, Failure, Outcome};
use crate::output::CONSOLE;
use crate::reference;

/// Runs the command of the command line.
pub(crate) fn dispatch(invocation: Invocation) -> Outcome {
    let global = invocation.cli.global;
    if only_prints(&invocation.cli.command) {
        linerate_sys::signal::end_on_broken_pipe();
    }
    match invocation.cli.command {
        Command::Demo(args) => demo::run(&args, global),
        Command::Run(args) => run::run(&args, global),
        Command::To(args) => to::run(&args, global),
        Command::Serve(args) => serve::run(&args, global),
        Command::Plan(args) => plan::run(&args, global),
        Command::Report(args) => report::run(&args, global),
        Command::Dashboard(args) => dashboard::run(&args, global),
        Command::Compare(args) => compare::run(&args, global),
        Command::Reproduce(args) => reproduce::run(&args, global),
        Command::Replay(args) => replay::run(&args, global),
        Command::Limit => match &invocation.limit {
            Some(matches) => limit::run(matches, global),
            None => Err(Failure::wrong("limit: name a calculator (see linerate limit --help)")),
        },
        Command::Flows(args) => flows::run(&args.action, global),
        Command::Probe(args) => probe::run(&args, global),
        Command::Diagnose(args) => diagnose::run(&args, global),
        Command::Mesh(args) => mesh::run(&args, global),
        Command::Tune(args) => tune::run(&args, global),
        Command::Agent(args) => agent::run(args, global.quiet, CONSOLE),
        Command::Pair(args) => pair::run(args, global.json, CONSOLE),
        Command::Ledger(args) => ledger::run(&args.action, global),
        Command::Testbed(args) => testbed::run(&args.action),
        Command::Lab(args) => lab::run(args.action, global.json),
        Command::Disk(args) => disk::run(*args, global),
        Command::Import(args) => import::run(&args, global.json),
        Command::Ncsi(args) => ncsi::run(&args, global),
        Command::Facts => facts::run(global.json),
        Command::Doctor { saved } => doctor::run(&saved, global),
        Command::List(args) => list::run(&args, global),
        Command::Completions { shell } => {
            clap_complete::generate(shell, &mut cli::command(), "linerate", &mut std::io::stdout());
            Ok(Exit::Done)
        }
        Command::Restore => serving::restore_at_end().map(|()| Exit::Done),
        Command::Reference { out } => write_reference(&out),
        Command::Man => {
            let page = clap_mangen::Man::new(cli::command()).render(&mut std::io::stdout());
            page.map(|()| Exit::Done)
                .map_err(|error| Failure::missing(format!("write manual page: {error}")))
        }
    }
}

/// Writes the pages of the reference into the folder `out`.
fn write_reference(out: &Path) -> Outcome {
    let failed = |error| Failure::missing(format!("write reference to {}: {error}", out.display()));
    std::fs::create_dir_all(out).map_err(failed)?;
    for page in reference::pages() {
        linerate_sys::whole_file::replace(&out.join(page.name), page.text.as_bytes())
            .map_err(|error| failed(error.cause))?;
    }
    Ok(Exit::Done)
}

/// Returns whether a command opens no socket, so that it may end when its reader does.
fn only_prints(command: &Command) -> bool {
    matches!(
        command,
        Command::Plan(_)
            | Command::Import(_)
            | Command::Replay(_)
            | Command::Limit
            | Command::Facts
            | Command::Lab(LabArgs { action: LabAction::List | LabAction::Exec { .. } })
            | Command::Ledger(_)
            | Command::List(_)
            | Command::Completions { .. }
            | Command::Man
    ) || matches!(command, Command::Disk(args) if matches!(args.action, DiskAction::List { .. }))
}
