//! Checks of parameters of `storage` that do not go together.

use linerate_disk::Synchrony;
use linerate_model::{Bytes, Nanos, ParamError};
use linerate_sys::storage::Priority;

use super::access::{self, Line};
use super::params::{Cache, Flush, Regions, StorageParams, TRANSFER, Wanted};
use super::places::{self, Pattern};
use super::prepare;
use crate::parameter::wrong;

impl StorageParams {
    /// Reads the access specification and the zones, and checks that all parameters go together.
    pub(super) fn check(&mut self) -> Result<(), ParamError> {
        self.lines = match &self.access {
            Some(text) => access::parse(text)?,
            None => vec![Line {
                size: self.block_size.0,
                weight: 1.0,
                read: self.read.0,
                random: self.random.0,
                burst: self.burst,
                delay: self.delay,
                align: self.align.unwrap_or(self.block_size).0,
                reply: self.reply.0,
                priority: None,
            }],
        };
        self.shares = self.zones.as_deref().map_or(Ok(Vec::new()), places::zones)?;
        if !self.shares.is_empty() && self.pattern != Pattern::Uniform {
            return Err(wrong(
                "zones",
                "places in zones are drawn evenly: remove the pattern, or the zones",
            ));
        }
        self.check_lines()?;
        if self.engine == Wanted::Pread && self.depth > 1 {
            let cause = format!(
                "`pread` has one transfer in flight, not {}: set depth = 1, or engine \
                    = \"threads\"",
                self.depth
            );
            return Err(wrong("engine", cause));
        }
        if self.engine == Wanted::Aio && self.cache == Cache::Buffered {
            return Err(wrong(
                "engine",
                "native AIO is asynchronous past the page cache only: set cache = \"direct\"",
            ));
        }
        if self.engine == Wanted::IoUringPolling && self.cache == Cache::Buffered {
            return Err(wrong(
                "engine",
                "the page cache has no queue to poll: set cache = \"direct\"",
            ));
        }
        if self.engine == Wanted::Threads && self.depth > prepare::MOST_THREADS {
            let cause = format!(
                "{} threads per worker are too many: at most {}",
                self.depth,
                prepare::MOST_THREADS
            );
            return Err(wrong("depth", cause));
        }
        self.settle_priorities()?;
        if self.verify
            && self.moves_reads()
            && self.writes()
            && u64::from(self.depth) * u64::from(self.workers) > 1
        {
            let cause = "a block may be read while it is being written: set depth = 1 and workers \
                = 1, or read = \"100 %\"";
            return Err(wrong("verify", cause));
        }
        self.check_durability()?;
        self.check_contents()?;
        self.check_zones()?;
        self.check_pace()?;
        if self.arrivals.is_open() && self.lines.iter().any(|line| line.delay > Nanos(0)) {
            return Err(wrong(
                "delay",
                "pauses belong to a closed loop: remove the rate, or the pauses",
            ));
        }
        self.arrivals.check()
    }

    /// Gives every line without a priority the job's.
    fn settle_priorities(&mut self) -> Result<(), ParamError> {
        let of_job: Priority = self.priority.parse().map_err(|why| wrong("priority", why))?;
        for line in &mut self.lines {
            line.priority.get_or_insert(of_job);
        }
        Ok(())
    }

    fn check_lines(&self) -> Result<(), ParamError> {
        let key = if self.access.is_some() { "access" } else { "block_size" };
        if self.lines.iter().map(|line| line.weight).sum::<f64>() <= 0.0 {
            return Err(wrong("access", "no line has a weight"));
        }
        for line in &self.lines {
            // A reply of zero bytes stands for none. A transfer of zero bytes is a mistake.
            for bytes in
                [line.size, line.reply].into_iter().filter(|bytes| *bytes > 0 || line.size == 0)
            {
                if !TRANSFER.contains(&Bytes(bytes)) {
                    return Err(wrong(
                        key,
                        format!(
                            "a transfer of {} is out of range: {} to {}",
                            Bytes(bytes),
                            TRANSFER.start(),
                            TRANSFER.end()
                        ),
                    ));
                }
            }
        }
        Ok(())
    }

    fn check_contents(&self) -> Result<(), ParamError> {
        for (key, share) in [("compress", self.compress), ("copies", self.copies)] {
            if share.0 > 0.0 && !self.moves_writes() {
                return Err(wrong(key, "the load writes nothing: set read below 100 %"));
            }
        }
        if self.copies_of > 1 && self.copies.0 == 0.0 {
            return Err(wrong("copies_of", "needs copies above 0 %"));
        }
        if self.copies.0 > 0.0 && self.verify {
            return Err(wrong(
                "copies",
                "copies carry no place of their own to verify: remove verify, or the copies",
            ));
        }
        if self.verify_backlog == 0 {
            return Ok(());
        }
        if !self.verify || !self.moves_writes() {
            return Err(wrong("verify_backlog", "needs verify = true, and read below 100 %"));
        }
        if self.arrivals.is_open() || self.lines.iter().any(|line| line.reply > 0) {
            return Err(wrong(
                "verify_backlog",
                "blocks are read back in a closed loop without replies",
            ));
        }
        let is_sequence =
            self.lines.iter().all(|line| line.random == 0.0) && self.regions == Regions::Disjoint;
        if self.workers > 1 && !is_sequence {
            let cause = "a worker may read what another is writing: set workers = 1, or random \
                = \"0 %\" and regions = \"disjoint\"";
            return Err(wrong("verify_backlog", cause));
        }
        Ok(())
    }

    fn check_zones(&self) -> Result<(), ParamError> {
        let Some(window) = self.window() else {
            let is_given = self.zone_range.is_some() || self.zone_skip.0 > 0;
            return if is_given {
                Err(wrong("zone_size", "zone_range and zone_skip need zone_size"))
            } else {
                Ok(())
            };
        };
        if window.range < self.longest() {
            return Err(wrong(
                "zone_size",
                format!("a zone is shorter than a transfer of {}", Bytes(self.longest())),
            ));
        }
        if self.backward || !self.shares.is_empty() || self.pattern != Pattern::Uniform {
            return Err(wrong(
                "zone_size",
                "a moving zone has evenly drawn places: remove backward, zones and pattern",
            ));
        }
        Ok(())
    }

    fn check_pace(&self) -> Result<(), ParamError> {
        if self.reopen_every > 0 && self.arrivals.is_open() {
            return Err(wrong(
                "reopen_every",
                "a target is reopened when nothing is in flight: remove the rate",
            ));
        }
        if self.latency_target.is_some() && self.arrivals.is_open() {
            return Err(wrong(
                "latency_target",
                "it searches for the depth of a closed loop: remove the rate",
            ));
        }
        if self.flow > 0 && self.arrivals.is_open() {
            return Err(wrong(
                "flow",
                "a rate of its own and a ratio to others exclude each other: remove one",
            ));
        }
        Ok(())
    }

    fn check_durability(&self) -> Result<(), ParamError> {
        let has_replies = self.lines.iter().any(|line| line.reply > 0);
        if self.flush != Flush::None && !self.moves_writes() {
            return Err(wrong("flush", "the load writes nothing to flush: set read below 100 %"));
        }
        if self.flush_every > 1 && self.flush == Flush::None {
            return Err(wrong("flush_every", "it needs flush = \"fsync\" or \"fdatasync\""));
        }
        if self.flush != Flush::None && has_replies {
            return Err(wrong(
                "flush",
                "a transaction with a reply has no place for a flush: remove one of them",
            ));
        }
        if self.sync != Synchrony::None && !self.moves_writes() {
            return Err(wrong("sync", "the load writes nothing: set read below 100 %"));
        }
        if self.trim.0 > 0.0 && has_replies {
            return Err(wrong("trim", "a discard has no reply: remove one of them"));
        }
        if self.trim.0 > 0.0 && self.verify {
            return Err(wrong(
                "trim",
                "discarded blocks cannot be verified: the device chooses their content",
            ));
        }
        Ok(())
    }
}
