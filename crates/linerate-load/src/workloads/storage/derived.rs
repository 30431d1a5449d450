//! Values derived from the parameters of `storage`.

use linerate_disk::Synchrony;

use super::access;
use super::params::{Flush, StorageParams};
use super::places::Window;
use crate::Times;
use crate::workloads::arrivals::Rate;

impl StorageParams {
    /// Returns the window that transfers stay in, if there is one.
    pub(super) fn window(&self) -> Option<Window> {
        let bytes = self.zone_size?.0;
        Some(Window {
            bytes,
            range: self.zone_range.map_or(bytes, |range| range.0),
            skip: self.zone_skip.0,
        })
    }

    /// Returns operations per second of all workers together, if they have a rate.
    pub(super) fn operations_per_second(&self) -> Option<f64> {
        Some(match self.arrivals.rate? {
            Rate::Packets(rate) => rate.0,
            Rate::Bits(rate) => {
                rate.0 / f64::from(u8::BITS) / access::mean_bytes(&self.lines, self.weight_of)
            }
        })
    }

    /// Returns true if any line reads.
    pub(super) fn moves_reads(&self) -> bool {
        self.lines.iter().any(|line| line.weight > 0.0 && (line.read > 0.0 || line.reply > 0))
    }

    /// Returns true if any line writes.
    pub(super) fn moves_writes(&self) -> bool {
        self.trim.0 < 1.0
            && self
                .lines
                .iter()
                .any(|line| line.weight > 0.0 && (line.read < 1.0 || line.reply > 0))
    }

    /// Returns true if the load changes the target.
    pub(super) fn writes(&self) -> bool {
        self.trim.0 > 0.0 || self.moves_writes()
    }

    /// Returns the bytes of the longest transfer.
    pub(super) fn longest(&self) -> u64 {
        self.lines.iter().map(|line| line.size.max(line.reply)).max().unwrap_or(0)
    }

    /// Returns the times that a worker measures.
    pub(super) fn times(&self) -> Times {
        Times {
            service: self.moves_reads() || self.verify_backlog > 0,
            writes: self.moves_writes(),
            flushes: self.flush != Flush::None,
            trims: self.trim.0 > 0.0,
            response: self.arrivals.is_open() || self.lines.iter().any(|line| line.reply > 0),
            operations: true,
            ..Times::NONE
        }
    }

    /// Describes durability for reports; `None` if nothing makes writes durable.
    pub(super) fn durability(&self) -> Option<String> {
        let sync = match self.sync {
            Synchrony::None => None,
            Synchrony::Data => Some("each write is durable before it ends (O_DSYNC)".to_owned()),
            Synchrony::All => {
                Some("each write and its metadata are durable before it ends (O_SYNC)".to_owned())
            }
        };
        let call = self.flush.operation().map(|_| self.flush.name());
        let flush = call.map(|call| match self.flush_every {
            1 => format!("{call} after each write"),
            n => format!("{call} after every {n} writes of a worker"),
        });
        let texts: Vec<String> = [sync, flush].into_iter().flatten().collect();
        (!texts.is_empty()).then(|| texts.join("; "))
    }

    /// Names the I/O priorities for reports; `None` if no transfer has one.
    pub(super) fn priorities(&self) -> Option<String> {
        let mut texts: Vec<String> = Vec::new();
        for line in self.lines.iter().filter(|line| line.weight > 0.0) {
            let name = line.priority.unwrap_or_default().to_string();
            if !texts.contains(&name) {
                texts.push(name);
            }
        }
        (texts.iter().any(|name| name != "none")).then(|| texts.join(", "))
    }

    /// Describes the data written for reports; `None` if all blocks differ and do not compress.
    pub(super) fn data(&self) -> Option<String> {
        let zeros = (self.compress.0 > 0.0).then(|| format!("{} zeros", self.compress));
        let copies = (self.copies.0 > 0.0).then(|| {
            format!("{} of the writes repeat one of {} contents", self.copies, self.copies_of)
        });
        let texts: Vec<String> = [zeros, copies].into_iter().flatten().collect();
        (!texts.is_empty()).then(|| texts.join("; "))
    }
}
