//! Limits of a job beside its rate (`flow`, `latency_target`), and contents of its writes
//! (`dedupe_percentage`, `buffer_compress_percentage`).

use super::super::{Class, Malformed};
use super::Reader;
use super::text::{MICROS, Setting, seconds};
use Class::{Approximate, Exact, Ignored, Refused};

impl Reader {
    /// Reads `flow` and related keys.
    pub(super) fn flow(&mut self) -> Result<(), Malformed> {
        let Some(setting) = self.take("flow") else { return Ok(()) };
        let weight: i64 = self.number(&setting)?;
        // Old versions let the counter go down; since 3.27 weights are positive, so the meaning is
        // lost.
        if weight < 0 {
            self.class(
                &setting,
                Refused,
                "a counter that goes down: weights are 1 or more since fio 3.27",
            );
            return Ok(());
        }
        if weight > 0 {
            self.job.value("flow", weight);
        }
        let note = "flow: workers start transfers in the ratio of their weights";
        self.class(&setting, if weight > 0 { Exact } else { Ignored }, note);
        if let Some(setting) = self.take("flow_sleep") {
            self.class(&setting, Approximate, "a worker that is ahead looks again after 50 us");
        }
        Ok(())
    }

    /// Reads `latency_target` and related keys.
    pub(super) fn latency_target(&mut self) -> Result<(), Malformed> {
        let window = self.take("latency_window");
        let share = self.take("latency_percentile");
        let Some(setting) = self.take("latency_target") else {
            for setting in [window, share].into_iter().flatten() {
                self.class(&setting, Ignored, "no latency_target");
            }
            return Ok(());
        };
        let target = time(&setting)?;
        if target <= 0.0 {
            self.class(&setting, Ignored, "no latency_target");
            return Ok(());
        }
        self.job.text("latency_target", &format!("{} us", target * MICROS));
        let note = "latency_target: each worker looks for the greatest depth, from 1 on; fio \
            begins with iodepth";
        self.class(&setting, Approximate, note);
        if let Some(setting) = window {
            let window = time(&setting)?;
            self.job.text("latency_window", &format!("{} us", window * MICROS));
            self.class(&setting, Exact, "latency_window");
        }
        // fio's default.
        let mut within = 100.0;
        if let Some(setting) = share {
            within = self.number(&setting)?;
            self.class(&setting, Exact, "latency_share");
        }
        self.job.text("latency_share", &format!("{within} %"));
        Ok(())
    }

    /// Reads the contents of writes: zeros in them, and copies.
    pub(super) fn contents(&mut self) -> Result<(), Malformed> {
        // Contents matter only for what is written.
        let writes = self.job.read < 1.0 && !self.job.has("trim");
        for (key, name) in
            [("buffer_compress_percentage", "compress"), ("dedupe_percentage", "copies")]
        {
            let Some(setting) = self.take(key) else { continue };
            let share: f64 = self.number(&setting)?;
            if !(0.0..=100.0).contains(&share) {
                return Err(Malformed::new(
                    setting.line,
                    format!("{key}={share}: not a share in per cent"),
                ));
            }
            if share <= 0.0 || !writes {
                let note = if writes { "the same as here" } else { "nothing is written" };
                self.class(&setting, Ignored, note);
                continue;
            }
            self.job.text(name, &format!("{share} %"));
            match name {
                "copies" => self.class(&setting, Exact, "copies"),
                _ => self.class(
                    &setting,
                    Approximate,
                    "compress: zeros in each 512 B, behind a stamp of 32 B",
                ),
            }
        }
        if let Some(setting) = self.take("buffer_compress_chunk") {
            // The zeros of one block are spread over its sectors; fio spreads them over chunks.
            let is_same = self.bytes(&setting, &setting.value).is_ok_and(|bytes| bytes == 512);
            self.class(
                &setting,
                if is_same { Exact } else { Approximate },
                "zeros are in each 512 B",
            );
        }
        self.copies()
    }

    /// Reads the contents of copies.
    fn copies(&mut self) -> Result<(), Malformed> {
        let keys = ["dedupe_mode", "dedupe_working_set_percentage", "dedupe_global"];
        let [mode, set, global] = keys.map(|key| self.take(key));
        let has_copies = self.job.has("copies");
        let is_set = mode.as_ref().is_some_and(|mode| mode.value == "working_set");
        if let Some(mode) = mode {
            let known = is_set || mode.value == "repeat";
            match (known, has_copies) {
                (false, _) => self.class(&mode, Refused, "repeat and working_set only"),
                (true, false) => self.class(&mode, Ignored, "no copies"),
                (true, true) if is_set => {
                    self.class(&mode, Approximate, "copies_of: contents that nothing else has")
                }
                (true, true) => {
                    self.class(&mode, Approximate, "copies of one content, not of the write before")
                }
            }
        }
        if let Some(set) = set {
            let share: f64 = self.number(&set)?;
            let size = self.job.bytes("size").or(self.job.bytes("span"));
            match (size.zip(self.job.block), is_set && has_copies) {
                (_, false) => self.class(&set, Ignored, "no working set"),
                (Some((size, block)), true) => {
                    let n = (size as f64 * share / 100.0 / block as f64).max(1.0) as u64;
                    // `copies_of` has 32 bits: a plan with more would be refused.
                    self.job.value("copies_of", n.min(1 << 31));
                    self.class(
                        &set,
                        Exact,
                        format!("copies_of {n}: this many blocks are that share of the size"),
                    );
                }
                (None, true) => {
                    self.class(&set, Refused, "a share of a size: give `size`, and one block size")
                }
            }
        }
        if let Some(global) = global {
            let note = "each job repeats contents of its own";
            self.class(&global, if global.value == "0" { Ignored } else { Approximate }, note);
        }
        Ok(())
    }

    /// Reads `zonemode=strided`: a window that moves on.
    pub(super) fn strided(&mut self) -> Result<bool, Malformed> {
        let mode = self.take("zonemode");
        let has_size = self.settings.iter().any(|setting| setting.key == "zonesize");
        // fio reads `zonesize` alone as strided, so its presence decides without a mode.
        let is_strided = mode.as_ref().map_or(has_size, |mode| mode.value == "strided");
        if let Some(mode) = mode {
            match is_strided {
                true => self.class(&mode, Exact, "zone_size, zone_range and zone_skip"),
                // The mode is classed with the keys that no part took.
                false => self.settings.push(mode),
            }
        }
        if !is_strided {
            return Ok(false);
        }
        if !has_size {
            return Err(Malformed::new(1, "zonemode=strided needs zonesize"));
        }
        for (key, name) in
            [("zonesize", "zone_size"), ("zonerange", "zone_range"), ("zoneskip", "zone_skip")]
        {
            let Some(setting) = self.take(key) else { continue };
            if setting.value == "0" {
                self.class(&setting, Ignored, "the same as here");
                continue;
            }
            let bytes = self.bytes(&setting, &setting.value)?;
            self.job.size(name, bytes);
            self.class(&setting, Exact, name);
        }
        Ok(true)
    }
}

/// Reads a time, in seconds. A number without a unit is in microseconds.
fn time(setting: &Setting) -> Result<f64, Malformed> {
    seconds(&setting.value, MICROS).ok_or_else(|| setting.is_no("time", &setting.value))
}
