//! An operation under way: whose account it belongs to, what follows it, and what may become of it.

use linerate_model::{Nanos, OperationKind};
use linerate_sys::storage::{Operation, Priority};

use super::access::Line;
use super::stamp::Flaw;
use crate::Start;

/// A transfer under way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Flight {
    pub(super) started: Nanos,
    /// Whose account it belongs to, with its reply, and when it was to start.
    pub(super) kind: OperationKind,
    pub(super) intended: Nanos,
    pub(super) operation: Operation,
    pub(super) offset: u64,
    pub(super) bytes: u32,
    pub(super) priority: Priority,
    /// What follows it, if anything.
    pub(super) reply: Option<Reply>,
    /// It is no part of the load: it reads back what the load wrote.
    pub(super) is_read_back: bool,
}

impl Flight {
    /// When the operation it belongs to was started.
    pub(super) fn start(&self) -> Start {
        Start { at: self.reply.map_or(self.started, |reply| reply.since), intended: self.intended }
    }
}

/// The transfer in the other direction that ends a transaction.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reply {
    pub(super) line: Line,
    /// When its request started: the transaction's time counts from there.
    pub(super) since: Nanos,
    /// Whether this is it, and not its request.
    pub(super) is_under_way: bool,
}

/// Why a worker stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    Transfer {
        operation: Operation,
        offset: u64,
        bytes: u32,
        result: i32,
    },
    Block {
        at: u64,
        flaw: Flaw,
    },
    Budget,
    /// The device may no longer be written to.
    Revoked,
    Engine {
        code: i32,
    },
}

impl Fault {
    /// For people: what failed on `target`, to which `most` bytes may be written.
    pub(super) fn told(self, target: &str, most: u64) -> String {
        match self {
            Self::Transfer { operation, offset, bytes, result } => {
                let why = told(result);
                match operation {
                    Operation::Read => format!("read {bytes} bytes at {offset} of {target}: {why}"),
                    Operation::Write => {
                        format!("write {bytes} bytes at {offset} of {target}: {why}")
                    }
                    Operation::Trim => {
                        format!("discard {bytes} bytes at {offset} of {target}: {why}")
                    }
                    Operation::Fsync | Operation::Fdatasync => format!("flush {target}: {why}"),
                }
            }
            Self::Block { at, flaw } => {
                format!("verify the block at {at} of {target}: {}", flaw.told())
            }
            Self::Budget => {
                format!(
                    "write to {target}: the budget of {most} bytes is used up (parameter \
                        `max_written`)"
                )
            }
            Self::Revoked => format!("write to {target}: stopped, since it is in use or changed"),
            Self::Engine { code } => {
                format!("transfer to or from {target}: {}", std::io::Error::from_raw_os_error(code))
            }
        }
    }
}

/// Whose account an operation belongs to that begins with `operation`.
pub(super) fn kind(operation: Operation) -> OperationKind {
    match operation {
        Operation::Read => OperationKind::Request,
        Operation::Write => OperationKind::Write,
        Operation::Trim => OperationKind::Trim,
        Operation::Fsync | Operation::Fdatasync => OperationKind::Flush,
    }
}

/// What a transfer's result says that is not what was asked for.
pub(super) fn told(result: i32) -> String {
    match result {
        ..0 => std::io::Error::from_raw_os_error(-result).to_string(),
        moved => format!("only {moved} bytes were moved"),
    }
}
