//! Exits of commands, and failures with their messages.

use std::fmt::Display;

use crate::{Lines, Problem, printable};

/// Exit of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// Done, every goal met.
    Done,
    /// Done, but a goal or shape was missed.
    Missed,
    /// The command or plan is wrong; nothing was run.
    Wrong,
    /// The measurement is invalid.
    Invalid,
    /// A host, agent or permission is missing.
    Missing,
    /// Interrupted; what was measured is in the ledger.
    Interrupted,
}

impl Exit {
    /// Returns the exit code, which is a promise to scripts.
    #[must_use]
    pub const fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Missed => 1,
            Self::Wrong => 2,
            Self::Invalid => 3,
            Self::Missing => 4,
            Self::Interrupted => 130,
        }
    }
}

/// Result of a step of a command.
pub type Result<T, E = Failure> = std::result::Result<T, E>;

/// Result of a command.
pub type Outcome = Result<Exit>;

/// Work that could not be done: a message, and the exit of the command.
#[derive(Clone, Debug, PartialEq)]
pub struct Failure {
    exit: Exit,
    cause: Cause,
    /// Set if an agent was busy with another campaign.
    busy: Option<Busy>,
}

/// An agent that is busy.
#[derive(Clone, Debug, PartialEq)]
struct Busy {
    /// Place in its queue, from 1.
    turn: u64,
    /// The message without its remedy.
    fact: String,
}

/// Cause of a failure.
#[derive(Clone, Debug, PartialEq)]
pub enum Cause {
    /// Operation, object, cause and remedy.
    Message(String),
    /// Problems in a person's text, each with its place; at least one.
    Text {
        /// Where the text is from.
        origin: String,
        /// The text.
        text: String,
        /// The problems.
        problems: Vec<Problem>,
    },
}

impl Failure {
    /// Returns a failure of class `exit`. `message` names operation, object, cause and remedy.
    pub fn new(exit: Exit, message: impl Display) -> Self {
        Self { exit, cause: Cause::Message(message.to_string()), busy: None }
    }

    /// Returns the failure of a wrong command line or plan.
    pub fn wrong(message: impl Display) -> Self {
        Self::new(Exit::Wrong, message)
    }

    /// Returns the failure of a missing host, file or permission.
    pub fn missing(message: impl Display) -> Self {
        Self::new(Exit::Missing, message)
    }

    /// Returns the failure of an agent that is busy with another campaign, as `fact` says, and for
    /// which this one would wait as number `turn`, from 1.
    pub fn busy(fact: impl Display, turn: u64) -> Self {
        let message = format!("{fact} Wait (`--wait`), or end that campaign.");
        Self { busy: Some(Busy { turn, fact: fact.to_string() }), ..Self::missing(message) }
    }

    /// Returns the failure with every problem of `text`, which was read from `origin`.
    #[must_use]
    pub fn in_text(origin: &str, text: &str, problems: &[Problem]) -> Self {
        let mut problems = problems.to_vec();
        // An empty list would print nothing but the exit code.
        if problems.is_empty() {
            problems.push(Problem::new(
                None,
                "the text is refused without a reason: please report this as a defect",
            ));
        }
        Self {
            exit: Exit::Wrong,
            cause: Cause::Text { origin: origin.to_owned(), text: text.to_owned(), problems },
            busy: None,
        }
    }

    /// Adds a line of advice to the message.
    #[must_use]
    pub fn advised(mut self, advice: &str) -> Self {
        if let Cause::Message(message) = &mut self.cause {
            message.push('\n');
            message.push_str(advice);
        }
        self
    }

    /// Returns the exit of the command.
    #[must_use]
    pub const fn exit(&self) -> Exit {
        self.exit
    }

    /// Returns whether an agent was busy with another campaign, which ends without intervention.
    #[must_use]
    pub const fn is_busy(&self) -> bool {
        self.busy.is_some()
    }

    /// Returns the place in the queue of a busy agent, from 1, and what it is busy with.
    #[must_use]
    pub fn queue(&self) -> Option<(u64, &str)> {
        self.busy.as_ref().map(|busy| (busy.turn, &*busy.fact))
    }

    /// Returns whether only this piece of work cannot be done, because its plan is refused or
    /// yields no figure. No host is missing, so other work can go on.
    #[must_use]
    pub const fn is_confined(&self) -> bool {
        matches!(self.exit, Exit::Wrong | Exit::Invalid)
    }

    /// Returns the cause.
    #[must_use]
    pub const fn cause(&self) -> &Cause {
        &self.cause
    }

    /// Returns the message, without the places in a text.
    #[must_use]
    pub fn message(&self) -> String {
        match &self.cause {
            Cause::Message(message) => message.clone(),
            Cause::Text { origin, problems, .. } => {
                let messages: Vec<&str> =
                    problems.iter().map(|problem| problem.message.as_str()).collect();
                // The origin may be a file name with control characters.
                format!("{}: {}", printable(origin, Lines::One), messages.join("; "))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_that_is_refused_has_at_least_one_problem() {
        let Cause::Text { problems, .. } = Failure::in_text("x.toml", "", &[]).cause else {
            panic!("of a text")
        };
        assert_eq!(problems.len(), 1);
        let said =
            Failure::in_text("x.toml", "", &[Problem::new(None, "one"), Problem::new(None, "two")]);
        assert_eq!((said.exit(), said.message().as_str()), (Exit::Wrong, "x.toml: one; two"));
    }
}
