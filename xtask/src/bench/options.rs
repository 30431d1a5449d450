//! Options of benchmarks, and steps that benchmarks share.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::str::FromStr;

use anyhow::{Context, anyhow, ensure};
use serde::de::DeserializeOwned;

use super::own;
use crate::tools::{self, Tool};

/// Parses the options of `cargo xtask bench NAME`.
pub(super) fn parsed<T: clap::Parser>(name: &str, arguments: &[String]) -> anyhow::Result<T> {
    crate::parsed(&format!("bench {name}"), arguments)
}

/// Options of benchmarks that run several contestants in rounds.
#[derive(Debug, clap::Args)]
pub(super) struct RunOptions {
    /// Rounds
    // An interval of 95 % needs six.
    #[arg(long, value_parser = count::<usize>, default_value = "6")]
    pub(super) rounds: usize,
    /// Length of a run, s
    #[arg(long, value_parser = count::<u32>, default_value = "1")]
    pub(super) seconds: u32,
    /// File of the table
    #[arg(long)]
    pub(super) out: Option<PathBuf>,
}

/// Parses a number of at least one.
pub(crate) fn count<N: FromStr + PartialOrd + From<u8>>(text: &str) -> Result<N, String> {
    let count = text.parse().ok().filter(|count| *count >= N::from(1));
    count.ok_or_else(|| "give a whole number of at least 1".to_owned())
}

/// Installs `wanted`, and fails with the names of what is still missing.
pub(super) fn provide(wanted: &'static [Tool]) -> anyhow::Result<()> {
    let missing = tools::provide(wanted)?;
    ensure!(missing.is_empty(), "missing here: {}", missing.join("; "));
    Ok(())
}

/// Returns the program under test: `given`, or a release build of this tree.
pub(crate) fn program(root: &Path, given: Option<&Path>) -> anyhow::Result<PathBuf> {
    match given {
        Some(program) => {
            program.canonicalize().with_context(|| format!("find {}", program.display()))
        }
        None => own::build(root, "linerate", &["--bin", "linerate"]),
    }
}

/// Returns those of `all` whose name contains one of `parts`; all of them if there are no parts.
pub(super) fn chosen<T>(
    all: impl IntoIterator<Item = T>,
    parts: &[String],
    name: impl Fn(&T) -> String,
) -> anyhow::Result<Vec<T>> {
    let (mut chosen, mut names) = (Vec::new(), Vec::new());
    for one in all {
        let name = name(&one);
        if parts.is_empty() || parts.iter().any(|part| name.contains(part.as_str())) {
            chosen.push(one);
        }
        names.push(name);
    }
    let only = || format!("--only {}: not in a name of:\n  ", parts.join(" --only "));
    ensure!(!chosen.is_empty(), anyhow!("{}{}", only(), names.join("\n  ")));
    Ok(chosen)
}

/// Reads what an earlier run of this benchmark kept in `file`; nothing if there is no such file.
pub(super) fn kept<T: DeserializeOwned + Default>(file: Option<&Path>) -> anyhow::Result<T> {
    let Some(file) = file.filter(|file| file.exists()) else { return Ok(T::default()) };
    let text = std::fs::read_to_string(file).with_context(|| format!("read {}", file.display()))?;
    serde_json::from_str(&text)
        .with_context(|| format!("read {}: not kept by this bench", file.display()))
}

/// Runs linerate by `command` and returns what it printed. A trial without a figure is a normal
/// outcome on a busy machine: the campaign has a ledger and a report all the same.
pub(super) fn ran(command: &mut Command) -> anyhow::Result<Vec<u8>> {
    /// Exit code of `linerate` where a trial carries no figure.
    const SPOILT: i32 = 3;
    let output = command.output().with_context(|| format!("start {command:?}"))?;
    let ended = output.status.success() || output.status.code() == Some(SPOILT);
    ensure!(ended, "{command:?}: {}", String::from_utf8_lossy(&output.stderr).trim());
    Ok(output.stdout)
}

/// Writes `text` to `file` if there is one.
pub(crate) fn keep(file: Option<&Path>, text: impl AsRef<[u8]>) -> anyhow::Result<()> {
    let Some(file) = file else { return Ok(()) };
    std::fs::write(file, text).with_context(|| format!("write {}", file.display()))
}

/// Parses the words of `text`, for tests.
#[cfg(test)]
pub(super) fn words<T: clap::Parser>(text: &str) -> anyhow::Result<T> {
    parsed("NAME", &text.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
}
