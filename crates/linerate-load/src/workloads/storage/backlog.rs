//! Blocks that were written and are to be read back: after so many writes have ended nothing is
//! started until all are, then they are read in the order of their ends, and only then the load
//! goes on. So no block is read while it is being written.

/// What may be started now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// An operation of the load.
    Load,
    /// Nothing until what is under way has ended.
    Wait,
    /// A read of these bytes at this place.
    ReadBack { offset: u64, bytes: u32 },
}

/// What one worker has written and not read back.
#[derive(Debug)]
pub(super) struct Backlog {
    /// Writes from one reading to the next.
    every: usize,
    written: Vec<(u64, u32)>,
    /// The next to be read, while they are.
    next: Option<usize>,
}

impl Backlog {
    /// For a worker with at most `depth` transfers under way; `None` if nothing is read back.
    pub(super) fn new(every: u32, depth: u32) -> Option<Self> {
        // Those under way when the backlog is full end too.
        let written = Vec::with_capacity(every as usize + depth as usize);
        (every > 0).then_some(Self { every: every as usize, written, next: None })
    }

    /// A write of the load has ended.
    #[inline]
    pub(super) fn wrote(&mut self, offset: u64, bytes: u32) {
        self.written.push((offset, bytes));
    }

    /// What may be started while `under_way` are.
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
    fn all_that_was_written_is_read_back_once_nothing_is_under_way() {
        let mut backlog = Backlog::new(2, 2).expect("one");
        assert_eq!(backlog.turn(1), Turn::Load);
        backlog.wrote(0, 512);
        assert_eq!(backlog.turn(1), Turn::Load);
        backlog.wrote(4096, 512);
        assert_eq!(backlog.turn(1), Turn::Wait, "a write is under way");
        backlog.wrote(8192, 1024);
        let read = |offset, bytes| Turn::ReadBack { offset, bytes };
        assert_eq!(
            [backlog.turn(0), backlog.turn(1), backlog.turn(2)],
            [read(0, 512), read(4096, 512), read(8192, 1024)]
        );
        assert_eq!(backlog.turn(2), Turn::Wait, "reads are under way");
        assert_eq!([backlog.turn(0), backlog.turn(0)], [Turn::Load, Turn::Load]);
        assert!(Backlog::new(0, 4).is_none());
    }
}
