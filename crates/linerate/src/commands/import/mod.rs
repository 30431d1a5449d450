//! `linerate import`: a foreign job file becomes a plan of workload `storage`. Every key of it is classed and told; a key that would change
//! the load and cannot be had here is refused, and then there is no plan. An imported plan never carries consent to write.

mod fio;
#[cfg(test)]
mod fuzz;
mod icf;
mod plan;

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use serde::Serialize;

use crate::exit::{Exit, Failure, Outcome};

#[derive(Debug, Args)]
pub(crate) struct ImportArgs {
    #[command(subcommand)]
    what: ImportWhat,
}

#[derive(Debug, Subcommand)]
enum ImportWhat {
    /// An Iometer configuration (.icf): its disk workers, access specifications, ramp-up, run time and depth cycling
    Icf(FileArgs),
    /// A fio job file: a strict subset; what is not known is refused
    Fio(FileArgs),
}

#[derive(Debug, Args)]
struct FileArgs {
    /// The file
    file: PathBuf,
    /// What a target of the file is here: a block device, a file to be read, or a folder for a scratch file
    #[arg(long, value_name = "NAME=TARGET")]
    map: Vec<String>,
    /// Where the plan goes [default: standard output]
    #[arg(short, long, value_name = "PLAN")]
    out: Option<PathBuf>,
}

/// What becomes of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
enum Class {
    /// The plan does the same.
    Exact,
    /// The plan does nearly the same; the note says how it differs.
    Approximate,
    /// It changes nothing that is measured.
    Ignored,
    /// It cannot be had: there is no plan.
    Refused,
}

impl Class {
    const ALL: [Self; 4] = [Self::Exact, Self::Approximate, Self::Ignored, Self::Refused];

    const fn word(self) -> &'static str {
        match self {
            Self::Exact => "exact",
            Self::Approximate => "approximate",
            Self::Ignored => "ignored",
            Self::Refused => "refused",
        }
    }
}

/// A key of a foreign file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Key {
    /// Its line, from 1.
    line: usize,
    /// As written.
    key: String,
    class: Class,
    /// What it becomes, or why it does not.
    note: String,
}

/// A file that is not what it should be, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Malformed {
    line: usize,
    what: String,
}

/// A foreign file, read.
#[derive(Clone, Debug, Default, PartialEq)]
struct Imported {
    keys: Vec<Key>,
    sweeps: Vec<plan::Sweep>,
}

impl Imported {
    fn class(&mut self, line: usize, key: impl Into<String>, class: Class, note: impl Into<String>) {
        self.keys.push(Key { line, key: key.into(), class, note: note.into() });
    }
}

/// What targets of the file are here.
struct Targets<'a> {
    map: Vec<(&'a str, &'a str)>,
    /// Where the file lies: what it includes is looked for there.
    folder: &'a Path,
}

impl Targets<'_> {
    /// What stands for `name`, if a person said so.
    fn mapped(&self, name: &str) -> Option<&str> {
        self.map.iter().find(|(from, _)| *from == name).map(|(_, to)| *to)
    }
}

/// Reads the text of one kind of file.
type Reader = fn(&str, &Targets<'_>) -> Result<Imported, Malformed>;

/// Reads the file, tells of every key, and writes the plan.
pub(crate) fn run(args: &ImportArgs, json: bool) -> Outcome {
    let (args, read): (_, Reader) = match &args.what {
        ImportWhat::Icf(args) => (args, icf::read),
        ImportWhat::Fio(args) => (args, fio::read),
    };
    let name = args.file.display();
    let bytes = std::fs::read(&args.file).map_err(|error| Failure::missing(format!("import {name}: {error}")))?;
    // Iometer wrote the code page of its Windows; what matters is ASCII.
    let text = String::from_utf8_lossy(&bytes);
    let pairs = args.map.iter().map(|text| match text.split_once('=') {
        Some((name, target)) => Ok((name.to_owned(), target.to_owned())),
        None => Err(Failure::wrong(format!("--map {text}: not NAME=TARGET"))),
    });
    let pairs = pairs.collect::<Result<Vec<_>, _>>()?;
    let folder = args.file.parent().unwrap_or(Path::new("."));
    let targets = Targets { folder, map: pairs.iter().map(|(a, b)| (a.as_str(), b.as_str())).collect() };
    let imported = read(&text, &targets)
        .map_err(|wrong| Failure::wrong(format!("import {name}, line {}: {}", wrong.line, wrong.what)))?;
    let refused = imported.keys.iter().filter(|key| key.class == Class::Refused).count();
    let plan = (refused == 0).then(|| plan::text(&stem(&args.file), &format!("{name}"), &imported));
    if json {
        println!("{}", serde_json::json!({ "plan": plan, "keys": imported.keys }));
    } else {
        tell(&imported.keys);
    }
    let Some(plan) = plan else {
        let plural = if refused == 1 { "" } else { "s" };
        return Err(Failure::wrong(format!("import {name}: {refused} key{plural} refused; no plan was written")));
    };
    match &args.out {
        Some(path) => linerate_sys::whole_file::replace(path, plan.as_bytes())
            .map_err(|error| Failure::missing(format!("write plan {}: {}", path.display(), error.cause)))?,
        None if json => {}
        None => print!("{plan}"),
    }
    Ok(Exit::Done)
}

fn stem(path: &Path) -> String {
    path.file_stem().map_or_else(|| "imported".to_owned(), |stem| stem.to_string_lossy().into_owned())
}

/// One line for each key, on standard error: the plan has standard output.
fn tell(keys: &[Key]) {
    for key in keys {
        eprintln!("{:>5}  {:<11}  {}: {}", key.line, key.class.word(), key.key, key.note);
    }
    let counts = Class::ALL.map(|class| {
        let n = keys.iter().filter(|key| key.class == class).count();
        format!("{n} {}", class.word())
    });
    eprintln!("{} keys: {}", keys.len(), counts.join(", "));
}
