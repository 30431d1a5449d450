//! Commands and their arguments.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{ArgMatches, CommandFactory, FromArgMatches, Parser, Subcommand};
use linerate_campaign::iperf3::{translated, wants_json, wants_stream};

use linerate_agent::commands::agent::AgentArgs;
use linerate_agent::commands::pair::PairArgs;

use crate::args::{Global, Saved};
use crate::commands::compare::CompareArgs;
use crate::commands::dashboard::DashboardArgs;
use crate::commands::demo::DemoArgs;
use crate::commands::diagnose::DiagnoseArgs;
use crate::commands::disk::DiskArgs;
use crate::commands::flows::FlowsArgs;
use crate::commands::import::ImportArgs;
use crate::commands::lab::LabArgs;
use crate::commands::ledger::LedgerArgs;
use crate::commands::limit;
use crate::commands::list::ListArgs;
use crate::commands::mesh::MeshArgs;
use crate::commands::ncsi::NcsiArgs;
use crate::commands::plan::PlanArgs;
use crate::commands::probe::ProbeArgs;
use crate::commands::replay::ReplayArgs;
use crate::commands::report::ReportArgs;
use crate::commands::reproduce::ReproduceArgs;
use crate::commands::run::RunArgs;
use crate::commands::serve::ServeArgs;
use crate::commands::testbed::TestbedArgs;
use crate::commands::to::ToArgs;
use crate::commands::tune::TuneArgs;
use crate::exit::{Exit, Failure};
use crate::output;

/// Measure how fast a machine moves data over networks and disks, the cost of each packet, the
/// theoretical limits, and the bottleneck.
#[derive(Debug, Parser)]
#[command(name = "linerate", version, propagate_version = true, disable_help_subcommand = true)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a short characterization in a temporary lab and write the report
    Demo(DemoArgs),
    /// Run a plan: a file, or a preset (see `linerate list plans`)
    Run(RunArgs),
    /// Measure the path to a host now, with the option letters of iperf3
    To(Box<ToArgs>),
    /// Serve files to other programs (curl, wget, lftp, browsers) and measure their goodput
    Serve(ServeArgs),
    /// Check a plan and print its trials and their duration
    Plan(PlanArgs),
    /// Judge a recorded campaign and write the report
    Report(ReportArgs),
    /// Serve web pages over a folder of ledgers: reports, comparisons and the running campaign
    Dashboard(DashboardArgs),
    /// Compare two recorded campaigns: changes for the worse or better, changes that noise hides,
    /// and differences between the hosts
    ///
    /// Exit 1 if a figure got worse, 0 otherwise.
    Compare(CompareArgs),
    /// Repeat a paper's tests on emulated testbeds and compare the shapes of the results
    Reproduce(ReproduceArgs),
    /// Recompute a paper's printed figures and list those that disagree
    Replay(ReplayArgs),
    /// Measure facts of a path: capacity, queue, policer or shaper, delay, loss and MTU, both ways
    Probe(ProbeArgs),
    /// Find the bottleneck of a path, and prove it by experiments beside a placebo
    Diagnose(DiagnoseArgs),
    /// Measure all pairs of many hosts, and name the host, pair or uplink that differs
    ///
    /// Exit 1 if a suspect is confirmed, 0 otherwise.
    Mesh(Box<MeshArgs>),
    /// Change a setting with consent, prove its effect, and put it back
    Tune(TuneArgs),
    /// Calculate an upper bound, with its derivation
    Limit,
    /// Choose ports that put flows on chosen members of a link group, find the member of each flow,
    /// and judge how flows are spread
    Flows(FlowsArgs),
    /// Serve measurements that other hosts run
    Agent(AgentArgs),
    /// Exchange keys with another host, with a one-time token
    Pair(PairArgs),
    /// Print a testbed file
    Testbed(TestbedArgs),
    /// Build, list, enter and remove emulated testbeds
    Lab(LabArgs),
    /// Check a ledger for damage, and copy the readable part of a damaged one
    Ledger(LedgerArgs),
    /// List disks, load one, and give or end consent to write to one
    Disk(Box<DiskArgs>),
    /// Convert a job file of fio or Iometer into a plan, with the fate of each of its keys
    ///
    /// A key that changes the load and has no equivalent is refused: no plan is written, exit 2. An
    /// imported plan carries no consent to write.
    Import(ImportArgs),
    /// Query the network controller behind a BMC's sideband over NC-SI (read-only without
    /// --allow-set)
    ///
    /// Queries go through the kernel's NC-SI stack (generic netlink) where that owns the interface,
    /// and in raw frames elsewhere. The answer names the transport and the reason.
    Ncsi(NcsiArgs),
    /// Print the hardware and kernel facts of this host
    Facts,
    /// Check what this host can and cannot measure, and the tool's own ceiling
    Doctor {
        #[command(flatten)]
        saved: Saved,
    },
    /// List workloads, metrics, plans and other names
    List(ListArgs),
    /// Print shell completions
    #[command(hide = true)]
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Print the manual page
    #[command(hide = true)]
    Man,
    /// Put back the settings that an agent changed here, when standard input ends
    #[command(hide = true)]
    Restore,
    /// Write the reference, page by page
    #[command(hide = true)]
    Reference {
        /// The folder
        out: PathBuf,
    },
}

/// Parsed command line: the arguments, and the matches of `limit`, whose options come from its
/// registry.
#[derive(Debug)]
pub(crate) struct Invocation {
    pub(crate) cli: Cli,
    pub(crate) limit: Option<ArgMatches>,
}

/// Returns the whole command line, registries included.
pub(crate) fn command() -> clap::Command {
    // Bounds are a registry of the model; a new one needs no code here.
    Cli::command().mut_subcommand("limit", |command| {
        command
            .subcommand_required(true)
            .arg_required_else_help(true)
            .subcommands(limit::subcommands())
    })
}

/// Parses the command line. Help, version and mistakes end the program as clap does, mistakes with
/// exit code 2.
pub(crate) fn parse() -> Result<Invocation, Failure> {
    let command = command();
    let typed: Vec<OsString> = std::env::args_os().collect();
    let is_command = |word: &str| command.find_subcommand(word).is_some();
    // A path that is not UTF-8 is none of the words which iperf3 has.
    let words = match typed.iter().map(|word| word.to_str().map(str::to_owned)).collect() {
        Some(words) => {
            let words: Vec<String> = words;
            // Mistakes have a document, too.
            output::set_json(wants_json(&words));
            output::set_stream(wants_stream(&words));
            translated(words, is_command)?.into_iter().map(OsString::from).collect()
        }
        None => typed,
    };
    let matches = command.try_get_matches_from(words).unwrap_or_else(|error| {
        let _unread = error.print();
        if error.exit_code() == i32::from(Exit::Wrong.code()) && output::lacks_document() {
            let (text, code) = (error.render().to_string(), Exit::Wrong.code());
            output::document("error", linerate_answers::failure_json(text.trim_end(), code));
        }
        if error.kind() == ErrorKind::InvalidSubcommand
            && let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidSubcommand)
        {
            eprintln!("To measure the path to a host of this name: linerate to {word}");
        }
        std::process::exit(error.exit_code())
    });
    let mut cli =
        Cli::from_arg_matches(&matches).map_err(|error| Failure::wrong(error.to_string()))?;
    if let Command::To(args) = &cli.command {
        cli.global.json |= args.is_json || args.is_stream;
        output::set_stream(args.is_stream);
        cli.global.verbose |= args.is_verbose;
    }
    output::set_color(cli.global.color.is_wanted());
    output::set_json(cli.global.json);
    let limit = matches.subcommand_matches("limit").cloned();
    Ok(Invocation { cli, limit })
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use super::*;

    /// A command line in a page: where it is, and its words.
    struct Shown {
        place: String,
        words: Vec<String>,
    }

    /// Markdown files of the repository's root and of docs.
    fn pages() -> Vec<PathBuf> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let mut folders = vec![root.join("docs")];
        let mut pages: Vec<PathBuf> = Vec::new();
        let mut read = |folder: &Path, folders: &mut Vec<PathBuf>, only_files: bool| {
            for entry in std::fs::read_dir(folder).expect("the folder is there") {
                let path = entry.expect("readable").path();
                if path.is_dir() && !only_files {
                    folders.push(path);
                } else if path.extension().is_some_and(|ending| ending == "md") {
                    pages.push(path);
                }
            }
        };
        read(&root, &mut folders, true);
        while let Some(folder) = folders.pop() {
            read(&folder, &mut folders, false);
        }
        pages
    }

    /// Lines of `sh` blocks that begin with `linerate`.
    fn shown(place: &str, text: &str) -> Vec<Shown> {
        let mut in_shell = false;
        let mut found = Vec::new();
        for (at, line) in text.lines().enumerate() {
            if let Some(language) = line.strip_prefix("```") {
                in_shell = language == "sh";
            } else if in_shell && line.starts_with("linerate ") {
                let words = shlex::split(line).expect("quotes are closed");
                found.push(Shown { place: format!("{place}:{}", at + 1), words });
            }
        }
        found
    }

    #[test]
    fn every_command_in_the_documentation_is_accepted() {
        let mut n_shown = 0;
        for page in pages() {
            let text = std::fs::read_to_string(&page).expect("it is text");
            for Shown { place, words } in shown(&page.display().to_string(), &text) {
                n_shown += 1;
                let matches = command()
                    .try_get_matches_from(&words)
                    .unwrap_or_else(|error| panic!("{place}: {words:?}: {error}"));
                // A ceiling is only arithmetic, so that it is computed, too.
                if let Some(limit) = matches.subcommand_matches("limit") {
                    let cli = Cli::from_arg_matches(&matches).expect("clap accepted it");
                    limit::run(limit, cli.global).unwrap_or_else(|failure| {
                        panic!("{place}: {words:?}: {failure:?}");
                    });
                }
            }
        }
        assert!(n_shown > 50, "only {n_shown} commands were found");
    }

    #[test]
    fn help_is_shown_where_it_is_asked_for_or_a_name_is_missing() {
        use clap::error::ErrorKind;
        for (words, kind, part) in [
            (["linerate", "to", "-h"].as_slice(), ErrorKind::DisplayHelp, "--parallel"),
            (&["linerate", "tune"], ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand, "window"),
        ] {
            let shown = command().try_get_matches_from(words).expect_err("help");
            assert_eq!(shown.kind(), kind, "{words:?}");
            assert!(shown.to_string().contains(part), "{words:?}: {shown}");
        }
    }

    #[test]
    fn commands_are_found_in_shell_blocks_only_and_split_as_a_shell_does() {
        let text = "linerate to a\n```sh\nlinerate to b  # c\ncargo x\n```\n```\nlinerate to \
            c\n```\n\
            ```sh\nlinerate limit tcp --rate \"10 Gbit/s\" --set a='b c'\n```\n";
        let found: Vec<Vec<String>> =
            shown("p", text).into_iter().map(|shown| shown.words).collect();
        assert_eq!(
            found,
            [
                vec!["linerate", "to", "b"],
                vec!["linerate", "limit", "tcp", "--rate", "10 Gbit/s", "--set", "a=b c"],
            ]
        );
    }
}
