//! Operations in flight: their account, their reply, and their faults.

use linerate_model::{Nanos, OperationKind};
use linerate_sys::storage::{Operation, Priority};

use super::access::Line;
use super::stamp::Flaw;
use crate::Start;

/// A transfer in flight.
#[derive(Clone, Copy, Debug)]
pub(super) struct Flight {
    pub(super) started: Nanos,
    /// Account that counts it, together with its reply.
    pub(super) kind: OperationKind,
    /// Scheduled start.
    pub(super) intended: Nanos,
    pub(super) operation: Operation,
    pub(super) offset: u64,
    pub(super) bytes: u32,
    pub(super) priority: Priority,
    /// Transfer that follows it, if any.
    pub(super) reply: Option<Reply>,
    /// True if it reads back written blocks, and is no part of the load.
    pub(super) is_read_back: bool,
}

impl Flight {
    /// Returns the start of its operation.
    pub(super) fn start(&self) -> Start {
        Start { at: self.reply.map_or(self.started, |reply| reply.since), intended: self.intended }
    }
}

/// The transfer in the other direction that ends a transaction.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reply {
    pub(super) line: Line,
    /// Start of its request, from which the transaction's time counts.
    pub(super) since: Nanos,
    /// True once the reply is in flight, not its request.
    pub(super) is_under_way: bool,
}

/// Reason for which a worker stopped.
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
    /// The device may no longer be written.
    Revoked,
    Engine {
        code: i32,
    },
}

impl Fault {
    /// Describes the failure on `target`, to which at most `most` bytes may be written.
    pub(super) fn message(self, target: &str, most: u64) -> String {
        match self {
            Self::Transfer { operation, offset, bytes, result } => {
                let why = shortfall(result);
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
                format!("verify the block at {at} of {target}: {}", flaw.message())
            }
            Self::Budget => {
                format!(
                    "write to {target}: the budget of {most} bytes is used up (parameter \
                        `max_written`)"
                )
            }
            Self::Revoked => {
                format!("write to {target}: stopped because the device is in use or was changed")
            }
            Self::Engine { code } => {
                format!("transfer to or from {target}: {}", std::io::Error::from_raw_os_error(code))
            }
        }
    }
}

/// Returns the account of operations that begin with `operation`.
pub(super) fn kind(operation: Operation) -> OperationKind {
    match operation {
        Operation::Read => OperationKind::Request,
        Operation::Write => OperationKind::Write,
        Operation::Trim => OperationKind::Trim,
        Operation::Fsync | Operation::Fdatasync => OperationKind::Flush,
    }
}

/// Describes the `result` of a transfer that did not move all its bytes.
pub(super) fn shortfall(result: i32) -> String {
    match result {
        ..0 => std::io::Error::from_raw_os_error(-result).to_string(),
        moved => format!("only {moved} bytes were moved"),
    }
}
