//! `linerate import`: a foreign job file as a plan, with the fate of every key.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use linerate_import::{Class, Key, Kind, PathKind, Surroundings, Targets};

use crate::exit::{Exit, Failure, Outcome};

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

/// This host, for an importer. Only regular files are read: a pipe or a device might never end.
struct ThisHost;

impl Surroundings for ThisHost {
    fn at(&self, path: &Path) -> Option<PathKind> {
        let about = std::fs::metadata(path).ok()?;
        // Files and devices are targets alike.
        Some(if about.is_dir() { PathKind::Folder } else { PathKind::Other })
    }

    fn text(&self, path: &Path, most_bytes: u64) -> Result<String, String> {
        let about = std::fs::metadata(path).map_err(|error| error.to_string())?;
        // A file that an imported text names is foreign input and may be huge.
        if !about.is_file() || about.len() > most_bytes {
            return Err(format!("not a regular file of at most {most_bytes} B"));
        }
        std::fs::read_to_string(path).map_err(|error| error.to_string())
    }

    fn variable(&self, name: &str) -> Option<String> {
        std::env::var(name).ok()
    }
}

/// Reads the file, reports the fate of every key, and writes the plan.
pub(crate) fn run(args: &ImportArgs, json: bool) -> Outcome {
    let (args, kind) = match &args.what {
        ImportWhat::Icf(args) => (args, Kind::Icf),
        ImportWhat::Fio(args) => (args, Kind::Fio),
    };
    let name = args.file.display();
    let bytes = std::fs::read(&args.file)
        .map_err(|error| Failure::missing(format!("import {name}: {error}")))?;
    // Iometer wrote the code page of its Windows. All keys are ASCII.
    let text = String::from_utf8_lossy(&bytes);
    let pairs = args.map.iter().map(|text| match text.split_once('=') {
        Some((name, target)) => Ok((name.to_owned(), target.to_owned())),
        None => Err(Failure::wrong(format!("--map {text}: not NAME=TARGET"))),
    });
    let pairs = pairs.collect::<Result<Vec<_>, _>>()?;
    let folder = args.file.parent().unwrap_or(Path::new("."));
    let map = pairs.iter().map(|(a, b)| (a.as_str(), b.as_str())).collect();
    let imported = linerate_import::read(kind, &text, &Targets { map, folder, here: &ThisHost })
        .map_err(|wrong| {
            Failure::wrong(format!("import {name}, line {}: {}", wrong.line, wrong.what))
        })?;
    let plan = imported.plan(&stem(&args.file), &name.to_string());
    if json {
        println!("{}", serde_json::json!({ "plan": plan, "keys": imported.keys }));
    } else {
        report(&imported.keys);
    }
    let Some(plan) = plan else {
        // A plan that leaves out a key would measure another load.
        let refused = imported.n_refused();
        let plural = if refused == 1 { "" } else { "s" };
        return Err(Failure::wrong(format!(
            "import {name}: {refused} key{plural} refused; no plan was written"
        )));
    };
    match &args.out {
        Some(path) => {
            // A plan is written whole or not at all.
            linerate_sys::whole_file::replace(path, plan.as_bytes()).map_err(|error| {
                Failure::missing(format!("write plan {}: {}", path.display(), error.cause))
            })?
        }
        None if json => {}
        None => print!("{plan}"),
    }
    Ok(Exit::Done)
}

// The plan is named after its source.
fn stem(path: &Path) -> String {
    path.file_stem()
        .map_or_else(|| "imported".to_owned(), |stem| stem.to_string_lossy().into_owned())
}

/// Prints one line for each key on standard error: the plan has standard output.
fn report(keys: &[Key]) {
    for key in keys {
        eprintln!("{:>5}  {:<11}  {}: {}", key.line, key.class.word(), key.key, key.note);
    }
    let counts = Class::ALL.map(|class| {
        let n = keys.iter().filter(|key| key.class == class).count();
        format!("{n} {}", class.word())
    });
    eprintln!("{} keys: {}", keys.len(), counts.join(", "));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_regular_files_are_included() {
        let refused = ThisHost.text(Path::new("/dev/null"), 1 << 20).expect_err("a device");
        assert!(refused.contains("not a regular file"), "{refused}");
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), "rw=read\n").expect("written");
        assert_eq!(ThisHost.text(file.path(), 8).as_deref(), Ok("rw=read\n"));
        assert!(ThisHost.text(file.path(), 7).is_err(), "longer");
        assert_eq!(ThisHost.at(file.path()), Some(PathKind::Other));
    }
}
