//! Development tasks: `cargo xtask test` and others. Run it without arguments for the list.

#![forbid(unsafe_code)]

mod bench;
mod dist;
mod docs;
mod instructions;
#[cfg(test)]
mod packaging;
mod test;
mod tidy;
mod tools;
mod torture;
mod vm;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Task: its name on the command line, its summary and its function.
struct Task {
    name: &'static str,
    summary: &'static str,
    run: fn(root: &Path, arguments: &[String]) -> anyhow::Result<ExitCode>,
}

const fn task(
    name: &'static str,
    summary: &'static str,
    run: fn(&Path, &[String]) -> anyhow::Result<ExitCode>,
) -> Task {
    Task { name, summary, run }
}

/// Every task, alphabetically.
static TASKS: &[Task] = &[
    task("bench", "linerate against the generators Debian ships: bench peers", bench::run),
    task("dist", "static programs and Debian packages, for each processor", dist::run),
    task("docs", "write docs/reference anew, from the registries and the command line", docs::run),
    task("instructions", "instructions of an operation, against another build", instructions::run),
    task("test", "everything that must pass: format, clippy, tidy and all tests", test::run),
    task("tidy", "the promises of ARCHITECTURE.md that a compiler does not check", tidy::run),
    task("torture", "kills, damage and hostile input: torture SUBJECT (see --help)", torture::run),
    task("vm", "other kernels and topologies, in virtual machines", vm::run),
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Some(task) = arguments.first().and_then(|name| TASKS.iter().find(|task| task.name == name))
    else {
        eprintln!("usage: cargo xtask TASK");
        for task in TASKS {
            eprintln!("  {:12} {}", task.name, task.summary);
        }
        return ExitCode::from(2);
    };
    (task.run)(&repository_root(), &arguments[1..]).unwrap_or_else(|error| {
        // Help is no failure, and clap's message names its cause itself.
        if let Some(refused) = error.downcast_ref::<clap::Error>() {
            refused.exit();
        }
        eprintln!("xtask {}: {error:#}", task.name);
        ExitCode::FAILURE
    })
}

/// Parses the options of `cargo xtask TASK`.
fn parsed<T: clap::Parser>(task: &str, arguments: &[String]) -> anyhow::Result<T> {
    let usage = format!("cargo xtask {task}");
    let matches = T::command().no_binary_name(true).bin_name(usage).try_get_matches_from(arguments);
    Ok(T::from_arg_matches(&matches?)?)
}

/// The folder of the workspace: the parent of this crate's.
fn repository_root() -> PathBuf {
    let here =
        PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| "./xtask".into()));
    here.parent().map_or_else(|| PathBuf::from("."), Path::to_path_buf)
}
