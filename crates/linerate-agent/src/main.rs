//! `linerate-agent`: the agent alone, for hosts with little memory.
//!
//! Its commands are those of `linerate`, so it can be installed under that name where another host
//! starts `linerate agent --stdio`.

#![forbid(unsafe_code)]

use std::io::Write;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use linerate_agent::commands::Console;
use linerate_agent::commands::agent::{self, AgentArgs};
use linerate_agent::commands::pair::{self, PairArgs};
use linerate_agent::serving;
use linerate_model::failure::{Cause, Exit, Outcome};
use linerate_model::{Lines, Problem, printable};

/// The agent of linerate, without the commands that begin measurements
#[derive(Debug, Parser)]
#[command(version)]
struct CommandLine {
    /// Print errors only
    #[arg(long, short = 'q', global = true)]
    quiet: bool,
    /// Print peers as JSON
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    command: AgentCommand,
}

#[derive(Debug, Subcommand)]
enum AgentCommand {
    /// Serve conductors on this host
    Agent(AgentArgs),
    /// Exchange keys with another host
    Pair(PairArgs),
    /// Put back what an agent left changed, when its end of the pipe closes
    #[command(hide = true)]
    Restore,
}

/// The streams of this process. One that its reader has closed ends nothing.
const CONSOLE: Console = Console {
    out: |line| drop(writeln!(std::io::stdout(), "{}", printable(line, Lines::Several))),
    err: |line| drop(writeln!(std::io::stderr(), "{}", printable(line, Lines::Several))),
};

fn main() -> ExitCode {
    // Without it the kernel kills the program at the file size limit before it can report the
    // error.
    linerate_sys::signal::fail_beyond_file_size_limit();
    let line = CommandLine::parse();
    match run(line) {
        Ok(exit) => exit.code().into(),
        Err(failure) => {
            match failure.cause() {
                Cause::Message(message) => (CONSOLE.err)(&format!("linerate: {message}")),
                Cause::Text { origin, text, problems } => {
                    problems.iter().for_each(|one| (CONSOLE.err)(&at_its_line(origin, text, one)));
                }
            }
            failure.exit().code().into()
        }
    }
}

fn run(line: CommandLine) -> Outcome {
    match line.command {
        AgentCommand::Agent(args) => agent::run(args, line.quiet, CONSOLE),
        AgentCommand::Pair(args) => pair::run(args, line.json, CONSOLE),
        AgentCommand::Restore => serving::restore_at_end().map(|()| Exit::Done),
    }
}

/// Returns a problem of the text `source`, which was read from `origin`, with its line.
fn at_its_line(origin: &str, source: &str, problem: &Problem) -> String {
    let span = problem.span.as_ref();
    let before = span.and_then(|span| source.get(..span.start));
    let line = before.map_or(1, |before| 1 + before.matches('\n').count());
    let expected = problem.expected.as_ref().map(|expected| format!(" (expected {expected})"));
    let origin = printable(origin, Lines::One);
    format!("error: {origin}:{line}: {}{}", problem.message, expected.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_of_the_policy_has_the_line_where_it_is() {
        let source = "[network]\nrate = 5\n";
        let problem = Problem::new(Some(17..18), "5 has no unit");
        let shown = at_its_line("agent.toml", source, &problem);
        assert_eq!(shown, "error: agent.toml:2: 5 has no unit");
        let beyond = Problem::new(Some(90..91), "cut off").expected("a rate");
        assert_eq!(at_its_line("a", source, &beyond), "error: a:1: cut off (expected a rate)");
    }
}
