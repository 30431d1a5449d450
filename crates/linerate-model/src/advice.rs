//! Recommendations of a finding: a step, its expected effect, and the command that takes it.
//!
//! A command names no host: the same finding is shown for a ledger, a lab and a live path. The
//! report adds the place from the campaign it describes.

use serde::{Deserialize, Serialize};

/// A recommended next step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Advice {
    /// The step as an imperative clause, without a full stop: `double the send buffer`.
    pub step: String,
    /// The expected effect if the claim is true: `goodput rises by half or more`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effect: Option<String>,
    /// The command that takes the step, where one exists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<Command>,
}

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

impl Advice {
    /// A step with neither an effect nor a command.
    #[must_use]
    pub fn new(step: impl Into<String>) -> Self {
        Self { step: step.into(), effect: None, command: None }
    }

    /// Adds the expected effect.
    #[must_use]
    pub fn expecting(self, effect: impl Into<String>) -> Self {
        Self { effect: Some(effect.into()), ..self }
    }

    /// Adds the command that takes the step; `None` changes nothing.
    #[must_use]
    pub fn with_command(self, command: impl Into<Option<Command>>) -> Self {
        Self { command: command.into().or(self.command), ..self }
    }
}

impl From<&str> for Advice {
    fn from(step: &str) -> Self {
        Self::new(step)
    }
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
