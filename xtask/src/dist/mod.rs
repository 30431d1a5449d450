//! `cargo xtask dist`: static programs, packages of Debian and RPM, an image for containers, and a
//! bill of materials of each program.
//!
//! Each target has two programs: `linerate`, and `linerate-agent` for hosts with little memory.
//! They need no library of the host. Each is checked for its size and for being static, and
//! `SHA256SUMS` has the checksums of all files. A static program asks the name service of its host
//! through libraries of glibc's own version; elsewhere it knows only addresses and names of
//! `/etc/hosts`.

pub(crate) mod build;
mod content;
mod deb;
mod image;
mod rpm;
mod sbom;
pub(crate) mod target;
mod tried;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, ensure};

use crate::tools::{self, printed};
use build::{Build, built};
use content::Programs;
use target::{MOST_OF_PROGRAM, TARGETS, Target};

/// Folder of what is built, below the root.
const FOLDER: &str = "target/dist";

/// Section of symbols, which only a debugger reads.
const SYMBOLS: &str = ".symtab";

/// Description of linerate in packages, in a line and in a paragraph.
const SUMMARY: &str = "measures networks and disks, and names the bottleneck with proof";
const ABOUT: &str = "\
linerate measures how fast hosts move data over networks and disks, what each
byte and packet costs, what theory would allow, and what the bottleneck is.
The agent is not started: see linerate-agent.service for its rights.";

/// Options of `dist`.
#[derive(clap::Parser)]
struct Options {
    /// Only this target, by its name in Rust or Debian; may be repeated
    #[arg(long, value_name = "NAME")]
    target: Vec<String>,
    /// Only the agent
    #[arg(long)]
    agent: bool,
    /// Also install, use and remove the package of this host in a clean Debian system
    #[arg(long, conflicts_with = "agent")]
    try_package: bool,
    /// Folder of the results
    #[arg(long, default_value = FOLDER, value_name = "FOLDER")]
    out: PathBuf,
}

/// Builds, checks and packs the requested targets.
pub(crate) fn run(root: &Path, arguments: &[String]) -> anyhow::Result<ExitCode> {
    let options: Options = crate::parsed("dist", arguments)?;
    let targets = target::chosen(&options.target)?;
    let mut missing = tools::provide(tools::FOR_DIST)?;
    if options.try_package {
        missing.extend(tools::provide(tools::FOR_TRIED_PACKAGES)?);
    }
    ensure!(missing.is_empty(), "missing here: {}", missing.join("; "));
    let out = root.join(options.out);
    fs::create_dir_all(&out).with_context(|| format!("create {}", out.display()))?;
    let (mut made, mut over) = (Vec::new(), Vec::new());
    let mut all = Vec::new();
    for target in targets {
        let agent = program((root, &out), target, Build::Agent, &mut over)?;
        made.extend([sbom::written(root, &out, target, Build::Agent.package())?, agent.clone()]);
        if options.agent {
            continue;
        }
        let linerate = program((root, &out), target, Build::Program, &mut over)?;
        let programs = Programs { of_host: of_host(root)?, linerate, agent };
        made.push(sbom::written(root, &out, target, Build::Program.package())?);
        let package = deb::package(root, &out, target, &programs)?;
        if options.try_package && target.triple.starts_with(std::env::consts::ARCH) {
            tried::in_clean_system(&out, &package)?;
        }
        made.push(package);
        made.push(rpm::package(root, &out, target, &programs)?);
        made.push(programs.linerate.clone());
        all.push((target, programs));
    }
    if !all.is_empty() {
        made.push(image::package(root, &out, &all)?);
    }
    let names = made.iter().filter_map(|file| file.file_name());
    let sums = printed(Command::new("sha256sum").args(names).current_dir(&out))?;
    fs::write(out.join("SHA256SUMS"), sums)?;
    for file in &made {
        println!("{:>10} bytes  {}", file.metadata()?.len(), file.display());
    }
    ensure!(over.is_empty(), "{}", over.join("; "));
    Ok(ExitCode::SUCCESS)
}

/// Builds a program, checks it, and copies it to `out` under a name with its target. Adds it to
/// `over` if it is larger than its limit.
fn program(
    (root, out): (&Path, &Path),
    target: &Target,
    build: Build,
    over: &mut Vec<String>,
) -> anyhow::Result<PathBuf> {
    let file = built(root, &root.join(FOLDER), target, build)?;
    let headers = headers(&file)?;
    ensure!(is_static(&headers), "{} needs libraries of the host", file.display());
    ensure!(!headers.contains(SYMBOLS), "{} has its symbols: strip it", file.display());
    let size = file.metadata()?.len();
    let most = if build == Build::Agent { target.most_of_agent } else { MOST_OF_PROGRAM };
    if size > most {
        over.push(format!("{} has {size} bytes, more than {most}", file.display()));
    }
    let copy = out.join(format!("{}-{}", build.package(), target.triple));
    fs::copy(&file, &copy).with_context(|| format!("copy {}", file.display()))?;
    Ok(copy)
}

/// Returns a program that runs on this host.
fn of_host(root: &Path) -> anyhow::Result<PathBuf> {
    let own = TARGETS.iter().find(|one| one.triple.starts_with(std::env::consts::ARCH));
    let own = own.context("there is no target for this host")?;
    built(root, &root.join(FOLDER), own, Build::Program)
}

/// Returns the headers of a program, as readelf prints them.
fn headers(program: &Path) -> anyhow::Result<String> {
    let mut readelf = Command::new("readelf");
    printed(readelf.args(["--wide", "--program-headers", "--section-headers"]).arg(program))
}

/// Returns whether a program with these `headers`, as readelf prints them, needs no loader.
fn is_static(headers: &str) -> bool {
    headers.contains("LOAD") && !headers.contains("INTERP")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_asks_for_a_loader_is_not_static() {
        let own = std::env::current_exe().expect("it runs");
        let headers = headers(&own).expect("readelf comes with the compiler's linker");
        assert!(!is_static(&headers), "this test is dynamic");
        assert!(headers.contains(SYMBOLS), "this test has symbols");
        let without: Vec<&str> = headers.lines().filter(|line| !line.contains("INTERP")).collect();
        let without = without.join("\n").replace("interpreter", "");
        assert!(is_static(&without), "{without}");
        assert!(!is_static("no program"));
    }
}
