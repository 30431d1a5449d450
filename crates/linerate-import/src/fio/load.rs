//! Engine of a job, its depth, rate and durability.

use super::super::{Class, Malformed};
use super::Reader;
use super::text::{MICROS, Setting, seconds};

impl Reader {
    pub(super) fn engine(&mut self, name: &str, line: usize) -> Result<(), Malformed> {
        let direct = self.take("direct");
        let buffered = self.take("buffered");
        let is_direct = match (&direct, &buffered) {
            (Some(direct), _) => direct.value != "0",
            (None, Some(buffered)) => buffered.value == "0",
            (None, None) => false,
        };
        for setting in [direct, buffered].into_iter().flatten() {
            self.class(&setting, Class::Exact, "cache");
        }
        self.job.text("cache", if is_direct { "direct" } else { "buffered" });
        let engine = self.take("ioengine");
        let word = engine.as_ref().map_or("psync", |setting| setting.value.as_str());
        let ours = match word {
            "io_uring" => Some("io_uring"),
            "libaio" if is_direct => Some("aio"),
            // Buffered, native AIO blocks in its submission at any depth.
            "libaio" => Some("threads"),
            "psync" | "sync" | "pvsync" | "pvsync2" | "vsync" => Some("pread"),
            "posixaio" => Some("threads"),
            _ => None,
        };
        let depth = self.take("iodepth");
        let mut wanted = match &depth {
            Some(setting) => self.number::<u32>(setting)?,
            None => 1,
        };
        let is_synchronous = ours == Some("pread");
        if let Some(setting) = &depth {
            // fio accepts the key with a synchronous engine and ignores it.
            let (class, note) = match (is_synchronous, wanted) {
                (true, 2..) => (
                    Class::Approximate,
                    "depth 1: a synchronous engine has one transfer under way, in fio too",
                ),
                _ => (Class::Exact, "depth"),
            };
            self.class(setting, class, note);
        }
        if is_synchronous {
            // The depth in the plan is the one that fio really reaches.
            wanted = 1;
        }
        self.job.value("depth", wanted.max(1));
        match (ours, engine) {
            (Some(ours), Some(engine)) => {
                let ours = self.polled(ours);
                // Only the class differs: a thread pool is not the kernel's asynchronous interface.
                let same = ours != "threads";
                let note = format!("engine {ours}");
                self.class(&engine, if same { Class::Exact } else { Class::Approximate }, note);
                self.job.text("engine", ours);
            }
            (Some(ours), None) => {
                self.job.text("engine", ours);
                self.imported.class(
                    line,
                    format!("[{name}] without ioengine"),
                    Class::Exact,
                    "engine pread, as fio's default is",
                );
            }
            (None, Some(engine)) => {
                let note = "no engine for files and block devices here: io_uring, libaio, \
                    posixaio, sync, psync, vsync, pvsync, pvsync2 are";
                self.class(&engine, Class::Refused, note);
            }
            (None, None) => {}
        }
        Ok(())
    }

    /// Returns io_uring's own kinds.
    fn polled(&mut self, ours: &'static str) -> &'static str {
        let mut found = ours;
        for (key, kind) in [("hipri", "io_uring_polling"), ("sqthread_poll", "io_uring_thread")] {
            let is_on =
                self.settings.iter().any(|setting| setting.key == key && setting.value != "0");
            if is_on && found == "io_uring" {
                found = kind;
                self.exact(key, kind);
            }
        }
        found
    }

    /// Reads workers, start, rate and verification.
    pub(super) fn load(&mut self) -> Result<(), Malformed> {
        let mut workers = 1;
        if let Some(setting) = self.exact("numjobs", "workers") {
            workers = self.number::<u32>(&setting)?.max(1);
        }
        self.job.value("workers", workers);
        // fio's jobs all begin at the same place.
        self.job.text("regions", "same");
        self.rates(workers)?;
        if let Some(setting) = self.take("thinktime") {
            let pause = seconds(&setting.value, MICROS);
            let pause = pause.ok_or_else(|| setting.is_no("time", &setting.value))?;
            // `thinktime` has no unit: microseconds.
            self.job.text("delay", &format!("{} us", (pause * MICROS).round()));
            self.class(
                &setting,
                Class::Approximate,
                "delay, counted from the last start instead of the last end",
            );
        }
        if let Some(setting) = self.exact("thinktime_blocks", "burst") {
            let burst: u32 = self.number(&setting)?;
            self.job.value("burst", burst.max(1));
        }
        self.durability()?;
        self.flow()?;
        self.latency_target()?;
        self.contents()?;
        self.verify()
    }

    /// Reads `rate_iops` and `rate`, which fio counts by job and direction; ours is of all workers
    /// together.
    fn rates(&mut self, workers: u32) -> Result<(), Malformed> {
        let (read, block) = (self.job.read, self.job.block);
        // The two limits apply to each direction; the mixture decides which one is reached first.
        let shares = [read, 1.0 - read];
        let mut found: Option<f64> = None;
        for (key, is_bytes) in [("rate_iops", false), ("rate", true)] {
            let Some(setting) = self.take(key) else { continue };
            let limits: Vec<&str> = setting.value.split(',').map(str::trim).collect();
            let Some(unit) = (if is_bytes { block } else { Some(1) }) else {
                self.class(
                    &setting,
                    Class::Refused,
                    "bytes per second of transfers of several sizes: use rate_iops",
                );
                continue;
            };
            let mut lowest = f64::INFINITY;
            for (place, share) in shares.into_iter().enumerate() {
                // One value counts for every direction, as for block sizes.
                let text = limits.get(place).or(limits.last()).copied().unwrap_or_default();
                if text.is_empty() || share <= 0.0 {
                    continue;
                }
                // The direction that reaches its limit first delays the other, so the mixture stays
                // the same.
                lowest = lowest.min(self.bytes(&setting, text)? as f64 / unit as f64 / share);
            }
            if lowest.is_finite() {
                // With both keys the tighter limit decides.
                found = Some(found.map_or(lowest, |other: f64| other.min(lowest)));
            }
            self.class(
                &setting,
                Class::Approximate,
                "rate, whatever the disk does; fio falls behind it with the disk",
            );
        }
        if let Some(rate) = found {
            // fio's limit is for each job, the plan's for all workers together.
            self.job.text("rate", &format!("{} pps", rate * f64::from(workers)));
        }
        match self.take("rate_process") {
            Some(setting) if setting.value == "poisson" && found.is_some() => {
                self.job.value("poisson", true);
                self.class(&setting, Class::Exact, "poisson");
            }
            Some(setting) if setting.value == "poisson" || setting.value == "linear" => {
                self.class(
                    &setting,
                    Class::Ignored,
                    "transfers begin at equal distances, or there is no rate",
                );
            }
            Some(setting) => self.class(&setting, Class::Refused, "linear and poisson only"),
            None => {}
        }
        if let Some(setting) = self.take("io_submit_mode") {
            match setting.value.as_str() {
                "offload" if found.is_some() => {
                    let note = "times count from the intended start, whatever is under way";
                    self.class(&setting, Class::Exact, note);
                }
                // Not classed here: the table of harmless values decides.
                _ => self.settings.push(setting),
            }
        }
        Ok(())
    }

    /// Reads `fsync`, `fdatasync` and `sync`.
    fn durability(&mut self) -> Result<(), Malformed> {
        // A job that only discards has no data to flush, although its share of reads is below one.
        let writes = self.job.read < 1.0 && !self.job.has("trim");
        let mut flushes = 0;
        for key in ["fsync", "fdatasync"] {
            let Some(setting) = self.take(key) else { continue };
            let every: u32 = self.number(&setting)?;
            if every == 0 {
                self.class(&setting, Class::Ignored, "no flush");
            } else if !writes {
                self.class(&setting, Class::Ignored, "nothing is written that could be flushed");
            } else if flushes > 0 {
                self.class(
                    &setting,
                    Class::Refused,
                    "fsync and fdatasync at once: a job has one kind of flush",
                );
            } else {
                flushes += 1;
                self.job.text("flush", key);
                self.job.value("flush_every", every);
                self.class(&setting, Class::Exact, "flush and flush_every, counted as writes end");
            }
        }
        let Some(setting) = self.take("sync") else { return Ok(()) };
        match setting.value.as_str() {
            "0" | "none" => self.class(&setting, Class::Ignored, "the same as here"),
            _ if !writes => {
                self.class(&setting, Class::Ignored, "nothing is written that could be durable")
            }
            "1" | "sync" => {
                self.job.text("sync", "sync");
                self.class(&setting, Class::Exact, "sync: O_SYNC");
            }
            "dsync" => {
                self.job.text("sync", "dsync");
                self.class(&setting, Class::Exact, "sync: O_DSYNC");
            }
            _ => self.class(&setting, Class::Refused, "none, sync and dsync only"),
        }
        Ok(())
    }

    fn verify(&mut self) -> Result<(), Malformed> {
        let reads_back = self.take("do_verify");
        let is_off = reads_back.as_ref().is_some_and(|setting| setting.value == "0");
        if let Some(setting) = reads_back {
            let note = if is_off { "nothing is read back" } else { "the same as here" };
            self.class(&setting, Class::Ignored, note);
        }
        // Both keys are taken in any case, so that they are never classed as unknown.
        let [backlog, batch] = ["verify_backlog", "verify_batch"].map(|key| self.take(key));
        let Some(setting) = self.take("verify") else {
            for setting in [backlog, batch].into_iter().flatten() {
                self.class(&setting, Class::Ignored, "nothing is verified");
            }
            return Ok(());
        };
        if setting.value == "0" || setting.value == "none" || is_off {
            for setting in [Some(setting), backlog, batch].into_iter().flatten() {
                self.class(&setting, Class::Ignored, "nothing is verified");
            }
            return Ok(());
        }
        self.job.value("verify", true);
        let is_read_back = self.backlog(backlog, batch)?;
        let note = if is_read_back {
            "verify: every block is read back in between and checked by linerate's own stamps"
        } else if self.job.read <= 0.0 {
            "verify: blocks are stamped; fio would read all back when it has written them: add a \
                job that reads with verify"
        } else {
            "verify: every block read is checked by linerate's own stamps"
        };
        self.class(&setting, Class::Approximate, note);
        Ok(())
    }

    /// Reads `verify_backlog` and `verify_batch`; returns true if written blocks are read back in
    /// between.
    fn backlog(
        &mut self,
        backlog: Option<Setting>,
        batch: Option<Setting>,
    ) -> Result<bool, Malformed> {
        let every = match &backlog {
            Some(setting) => self.number::<u32>(setting)?,
            None => 0,
        };
        let writes = self.job.read < 1.0 && !self.job.has("trim");
        if let Some(setting) = &backlog {
            match every {
                0 => self.class(setting, Class::Ignored, "the same as here"),
                _ if !writes => self.class(
                    setting,
                    Class::Ignored,
                    "nothing is written that could be read back",
                ),
                _ => {
                    self.job.value("verify_backlog", every);
                    let note = "verify_backlog; writes wait until the blocks before them have been \
                        read back";
                    self.class(setting, Class::Approximate, note);
                }
            }
        }
        if let Some(setting) = &batch {
            // fio's default batch is the whole backlog.
            let is_all = self.number::<u32>(setting)? == every || setting.value == "0";
            let class = if is_all { Class::Exact } else { Class::Approximate };
            self.class(setting, class, "all blocks of the backlog are read back at once");
        }
        Ok(every > 0 && writes)
    }
}
