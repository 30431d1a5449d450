//! `linerate import`: a foreign job file as a plan, with the fate of every key.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use linerate_campaign::job_files::JobFile;
use linerate_import::Kind;
use serde_json::json;

use crate::exit::{Exit, Outcome};
use crate::reports::write_file;

#[derive(Debug, Args)]
pub(crate) struct ImportArgs {
    #[command(subcommand)]
    what: ImportWhat,
}

#[derive(Debug, Subcommand)]
enum ImportWhat {
    /// An Iometer configuration (.icf): its disk workers, access specifications, ramp-up, run time
    /// and depth cycling
    Icf(FileArgs),
    /// A fio job file: a strict subset; unknown keys are refused
    Fio(FileArgs),
}

#[derive(Debug, Args)]
struct FileArgs {
    /// The file
    file: PathBuf,
    /// Target on this host for a target of the file: a block device, a file to read, or a folder
    /// for a scratch file
    #[arg(long, value_name = "NAME=TARGET")]
    map: Vec<String>,
    /// File for the plan [default: standard output]
    #[arg(short, long, value_name = "PLAN")]
    out: Option<PathBuf>,
}

/// Reads the file, reports the fate of every key, and writes the plan.
pub(crate) fn run(args: &ImportArgs, json: bool) -> Outcome {
    let (args, kind) = match &args.what {
        ImportWhat::Icf(args) => (args, Kind::Icf),
        ImportWhat::Fio(args) => (args, Kind::Fio),
    };
    let job_file = JobFile::read(kind, &args.file, &args.map)?;
    let plan = job_file.plan();
    if json {
        println!("{}", json!({ "plan": plan, "keys": job_file.keys() }));
    } else {
        // The plan has standard output.
        job_file.lines().iter().for_each(|line| eprintln!("{line}"));
    }
    let plan = plan.ok_or_else(|| job_file.refusal())?;
    match &args.out {
        Some(path) => write_file("plan", path, &plan)?,
        None if json => {}
        None => print!("{plan}"),
    }
    Ok(Exit::Done)
}
