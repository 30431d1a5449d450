//! Exit codes: a promise to scripts.

use std::fmt::Display;
use std::process::ExitCode;

use linerate_control::{ControlError, ErrorClass};
use linerate_store::StoreError;

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Done, every goal met.
    Done = 0,
    /// Done, but a goal or shape was missed.
    Missed = 1,
    /// The command or plan is wrong; nothing was run.
    Wrong = 2,
    /// The measurement is invalid.
    Invalid = 3,
    /// A host, agent or permission is missing.
    Missing = 4,
    /// Interrupted; what was measured is in the ledger.
    Interrupted = 130,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// A command that could not do its work: what to say, and with which code to leave.
#[derive(Debug)]
pub(crate) struct Failure {
    exit: Exit,
    message: String,
}

impl Failure {
    /// A failure of class `exit`; `message` says operation, object, cause and remedy.
    pub(crate) fn new(exit: Exit, message: impl Display) -> Self {
        Self { exit, message: message.to_string() }
    }

    /// A wrong command line or plan.
    pub(crate) fn wrong(message: impl Display) -> Self {
        Self::new(Exit::Wrong, message)
    }

    /// A missing host, file or permission.
    pub(crate) fn missing(message: impl Display) -> Self {
        Self::new(Exit::Missing, message)
    }

    /// What is said of it.
    pub(crate) fn message(&self) -> &str {
        &self.message
    }

    /// Prints it and yields its code.
    pub(crate) fn report(&self) -> ExitCode {
        for (index, line) in self.message.lines().enumerate() {
            if index == 0 && !line.starts_with("error") {
                eprintln!("linerate: {line}");
            } else {
                eprintln!("{line}");
            }
        }
        self.exit.into()
    }
}

impl From<ControlError> for Failure {
    fn from(error: ControlError) -> Self {
        match error.class() {
            ErrorClass::Usage => Self::wrong(error),
            ErrorClass::Missing => Self::missing(error),
        }
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self::missing(error)
    }
}

/// What a command yields.
pub(crate) type Outcome = Result<Exit, Failure>;
