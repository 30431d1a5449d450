//! Command lines of this program that findings recommend.
//!
//! A command names no host: the same finding is shown for a ledger, a lab and a live path. The
//! report adds the place from the campaign it describes.

use serde::{Deserialize, Serialize};

/// A command line of this program without the place it runs at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Command {
    /// Subcommand: `diagnose`, `tune window`.
    pub verb: String,
    /// Endpoints between which it runs; absent for a command of this host alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<CommandPath>,
    /// Arguments as the program receives them: no shell quoting.
    pub arguments: Vec<String>,
}

/// Endpoints of a command's load, by their names in the testbed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommandPath {
    /// First endpoint of the job.
    pub from: String,
    /// Second endpoint of the job.
    pub to: String,
}

impl Command {
    /// A command of this host alone.
    #[must_use]
    pub fn local(verb: &str, arguments: &[&str]) -> Self {
        let arguments = arguments.iter().map(|&argument| argument.to_owned()).collect();
        Self { verb: verb.to_owned(), path: None, arguments }
    }

    /// Moves the command to the path between two endpoints.
    #[must_use]
    pub fn between(self, from: &str, to: &str) -> Self {
        Self { path: Some(CommandPath { from: from.to_owned(), to: to.to_owned() }), ..self }
    }
}
