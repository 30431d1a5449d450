//! Commands of `cargo xtask` in the documentation exist: task, subject and options.

use super::Finding;
use super::repository::Repository;
use crate::{TASKS, bench, torture};

const COMMAND: &str = "cargo xtask ";
/// Attribute of clap with which a struct includes the options of another one.
const FLATTENED: &str = "#[command(flatten)]";

/// Finds tasks, subjects and options that `cargo xtask` does not have.
pub(super) fn exist(repository: &Repository) -> Vec<Finding> {
    let pages = repository.files.iter().filter(|file| file.path.ends_with(".md"));
    let lines = pages.flat_map(|page| page.text.lines().zip(1..).map(move |line| (page, line)));
    let shown = lines.flat_map(|(page, (line, number))| {
        line.split(COMMAND).skip(1).map(move |rest| (page, number, rest))
    });
    let unknown = shown.filter_map(|(page, number, rest)| {
        // The command ends with its code span, or at a comment of the shell.
        let command = rest.split(['`', '#', '&', ';']).next().unwrap_or_default();
        let what = unknown(repository, command)?;
        let remedy = "write the command as `cargo xtask` has it now";
        Some(Finding::new(format!("{}:{number}", page.path), what, remedy))
    });
    unknown.collect()
}

/// Returns the first word of `command` that is neither a task, nor its subject, nor its option.
fn unknown(repository: &Repository, command: &str) -> Option<String> {
    let mut words = command.split_whitespace();
    let task = words.next()?;
    if !TASKS.iter().any(|known| known.name == task) {
        return Some(format!("no task is called `{task}`"));
    }
    let subjects: Vec<&str> = match task {
        "bench" => bench::BENCHMARKS.iter().map(|one| one.name).collect(),
        "torture" => torture::SUBJECTS.iter().map(|one| one.name).collect(),
        _ => Vec::new(),
    };
    let subject = words.clone().next().filter(|_| !subjects.is_empty());
    // In capitals it stands for any.
    let subject = subject.filter(|word| word.starts_with(|first: char| first.is_lowercase()));
    if let Some(word) = subject.filter(|word| !subjects.contains(word)) {
        return Some(format!("`{task}` has no subject `{word}`"));
    }
    let options = words.filter(|word| word.starts_with("--"));
    let mut gone = options.filter(|option| !is_read(repository, task, subject, option));
    gone.next().map(|option| format!("`{task}` does not read `{option}`"))
}

/// Returns true if the source of the task or of its subject declares `option` to clap.
fn is_read(repository: &Repository, task: &str, subject: Option<&str>, option: &str) -> bool {
    let folder = format!("xtask/src/{task}");
    let of_task = ["", "/mod"].map(|file| format!("{folder}{file}.rs"));
    let shared = format!("{folder}/options.rs");
    let of_subject = subject.map(|name| format!("{folder}/{}", name.replace('-', "_")));
    let rest = |path: &str| Some(path.strip_prefix(of_subject.as_deref()?)?.to_owned());
    let is_its_own = |path: &str| rest(path).is_some_and(|r| r == ".rs" || r.starts_with('/'));
    let field = format!("{}:", option.trim_start_matches('-').replace('-', "_"));
    // Options that several subjects share count where a subject includes them.
    let own = || repository.rust().filter(|file| is_its_own(&file.path));
    let shares = own().any(|file| file.text.contains(FLATTENED));
    let counts = |path: &String| of_task.contains(path) || (shares && *path == shared);
    let of_all = repository.rust().filter(|file| counts(&file.path));
    of_all.chain(own()).any(|file| declares(&file.text, &field))
}

/// Returns true if `field` follows an attribute of clap that makes it an option.
fn declares(text: &str, field: &str) -> bool {
    let attributes = text.split("#[arg(long").skip(1);
    let mut fields = attributes.filter_map(|rest| rest.split_once(")]\n"));
    fields.any(|(_, rest)| rest.trim_start().starts_with(field))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_names_a_task_a_subject_and_an_option_that_exist() {
        let page = "`cargo xtask tidy` and `cargo xtask tidi`\n\
            `cargo xtask torture SUBJECT --quick`, `cargo xtask torture kegs`\n\
            cargo xtask bench fire-hose --out f  # --not-read\n\
            cargo xtask bench fire-hose --loud\n\
            cargo xtask bench scan --seed 1 --n-trials 2 --only x\n\
            cargo xtask bench frames --rounds 6\n\
            cargo xtask bench fire-hose --rounds 6\n";
        let repository = Repository::of(&[
            ("docs/a.md", page),
            ("xtask/src/torture/mod.rs", "#[arg(long)]\nquick: bool,"),
            ("xtask/src/bench/fire_hose.rs", "#[arg(long)]\nout: Option<PathBuf>,"),
            ("xtask/src/bench/compare.rs", "#[arg(long)]\nloud: bool,"),
            ("xtask/src/bench/options.rs", "#[arg(long)]\nrounds: usize,"),
            ("xtask/src/bench/frames.rs", "#[command(flatten)]\nruns: RunOptions,"),
            (
                "xtask/src/bench/scan/mod.rs",
                "#[arg(long)]\n    seed: u32,\n    #[arg(long, default_value = \"1\")]\n    n_trials: \
                    u32,\n    only: bool,\n",
            ),
        ]);
        let found = exist(&repository).into_iter().map(|one| format!("{} {}", one.place, one.what));
        assert_eq!(
            found.collect::<Vec<_>>(),
            [
                "docs/a.md:1 no task is called `tidi`",
                "docs/a.md:2 `torture` has no subject `kegs`",
                "docs/a.md:4 `bench` does not read `--loud`",
                "docs/a.md:5 `bench` does not read `--only`",
                "docs/a.md:7 `bench` does not read `--rounds`",
            ]
        );
    }
}
