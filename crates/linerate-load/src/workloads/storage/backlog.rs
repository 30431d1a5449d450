//! Written blocks that wait to be read back. After a number of completed writes the worker starts
//! nothing until all writes have ended. Then it reads the blocks in the order of their ends, and
//! only then the load continues. So no block is read while it is being written.

/// Operation that may start now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// An operation of the load.
    Load,
    /// Nothing until all transfers in flight have ended.
    Wait,
    /// A read of these bytes at this place.
    ReadBack { offset: u64, bytes: u32 },
}

/// Blocks that one worker has written and not read back.
#[derive(Debug)]
pub(super) struct Backlog {
    /// Writes from one reading to the next.
    every: usize,
    written: Vec<(u64, u32)>,
    /// Index of the next block to read, during read back.
    next: Option<usize>,
}

impl Backlog {
    /// Creates the backlog of a worker with at most `depth` transfers in flight; `None` if nothing
    /// is read back.
    pub(super) fn new(every: u32, depth: u32) -> Option<Self> {
        // Transfers in flight when the backlog is full end later and are added.
        let written = Vec::with_capacity(every as usize + depth as usize);
        (every > 0).then_some(Self { every: every as usize, written, next: None })
    }

    /// Adds a completed write of the load.
    #[inline]
    pub(super) fn wrote(&mut self, offset: u64, bytes: u32) {
        self.written.push((offset, bytes));
    }

    /// Returns the operation that may start while `under_way` are in flight.
    #[inline]
    pub(super) fn turn(&mut self, under_way: u32) -> Turn {
        match self.next {
            None if self.written.len() < self.every => Turn::Load,
            None if under_way > 0 => Turn::Wait,
            None => {
                self.next = Some(0);
                self.turn(under_way)
            }
            Some(place) if place < self.written.len() => {
                let (offset, bytes) = self.written[place];
                self.next = Some(place + 1);
                Turn::ReadBack { offset, bytes }
            }
            Some(_) if under_way > 0 => Turn::Wait,
            Some(_) => {
                self.written.clear();
                self.next = None;
                Turn::Load
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_written_blocks_are_read_back_once_nothing_is_in_flight() {
        let mut backlog = Backlog::new(2, 2).expect("one");
        assert_eq!(backlog.turn(1), Turn::Load);
        backlog.wrote(0, 512);
        assert_eq!(backlog.turn(1), Turn::Load);
        backlog.wrote(4096, 512);
        assert_eq!(backlog.turn(1), Turn::Wait, "a write is in flight");
        backlog.wrote(8192, 1024);
        let read = |offset, bytes| Turn::ReadBack { offset, bytes };
        assert_eq!(
            [backlog.turn(0), backlog.turn(1), backlog.turn(2)],
            [read(0, 512), read(4096, 512), read(8192, 1024)]
        );
        assert_eq!(backlog.turn(2), Turn::Wait, "reads are in flight");
        assert_eq!([backlog.turn(0), backlog.turn(0)], [Turn::Load, Turn::Load]);
        assert!(Backlog::new(0, 4).is_none());
    }
}
