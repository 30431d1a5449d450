//! fio's job files, a strict subset: any key that is not in the table below is refused.
//!
//! `[global]` applies to the sections after it; a key without a value is set. Sizes are as fio
//! reads them: `4k`, `4KB` and `4ki` are 4096 bytes, `4kib` is 4000 (its `kb_base` is 1024).
//! Defaults are fio's: one synchronous, buffered read of 4 KiB at a time. Not supported: several
//! files of a job, zoned devices, arithmetic. Where fio would end after an amount, the plan has a
//! time.

mod keys;
mod lines;
mod load;
mod pace;
mod text;
mod transfers;

use std::path::Path;

use keys::{AS_HERE, CANNOT, HARMLESS};
use text::{Section, Setting, seconds, sections, size};

use serde_json::Value;

use super::plan::{Job, Sweep};
use super::{Class, Imported, Malformed, Targets};
use Class::{Approximate, Exact, Ignored, Refused};

/// Duration of a job that fio would end after its size.
const UNTIMED_SECONDS: f64 = 60.0;

/// Reads a whole file.
pub(super) fn read(text: &str, targets: &Targets<'_>) -> Result<Imported, Malformed> {
    let mut imported = Imported::default();
    let mut globals: Vec<Setting> = Vec::new();
    // True if a job of the last sweep has a runtime.
    let mut is_timed = false;
    let sections = sections(text, targets)?;
    if !sections.iter().any(|section| !is_global(section)) {
        return Err(Malformed::new(
            text.lines().count().max(1),
            "no job: is this a fio job file, and whole?",
        ));
    }
    for section in sections {
        // Several `[global]` sections add up, and each applies only to the sections after it, as in
        // fio.
        if is_global(&section) {
            globals.extend(section.settings);
            continue;
        }
        let mut settings: Vec<Setting> = Vec::new();
        for setting in globals.iter().cloned().chain(section.settings) {
            // The last setting of a key counts.
            settings.retain(|known| known.key != setting.key);
            settings.push(setting);
        }
        let mut reader = Reader { settings, imported, job: Draft::default() };
        let read = reader.sweep(&section.name, section.line, targets)?;
        imported = reader.imported;
        let before = imported.sweeps.last_mut().filter(|_| !read.is_apart);
        match before {
            // Jobs of one sweep start and end together, so they need one warm-up and one duration.
            Some(before) if before.warmup == read.sweep.warmup && fits(before, &read, is_timed) => {
                before.name = format!("{}, {}", before.name, read.sweep.name);
                if !is_timed {
                    before.seconds = if read.is_timed {
                        read.sweep.seconds
                    } else {
                        // Without a runtime fio ends each job on its own; the longest one decides.
                        before.seconds.max(read.sweep.seconds)
                    };
                }
                before.jobs.extend(read.sweep.jobs);
                is_timed |= read.is_timed;
            }
            Some(_) => {
                let note = "it runs beside the job before it for a different time: add \
                    `stonewall`, or set equal times";
                imported.class(section.line, format!("[{}]", section.name), Refused, note);
            }
            None => {
                imported.sweeps.push(read.sweep);
                is_timed = read.is_timed;
            }
        }
    }
    // Keys are classed in the order in which parts take them. A reader compares with the file, so
    // lines are sorted.
    imported.keys.sort_by(|a, b| (a.line, &a.key).cmp(&(b.line, &b.key)));
    imported.keys.dedup();
    Ok(imported)
}

/// Returns true if `read` can run beside the jobs of `before`. A job that would end with its size
/// runs as long as the others.
fn fits(before: &Sweep, read: &Read, is_timed: bool) -> bool {
    !is_timed || !read.is_timed || before.seconds == read.sweep.seconds
}

fn is_global(section: &Section) -> bool {
    section.name == "global"
}

/// Job with the facts that other keys need.
#[derive(Default)]
struct Draft {
    job: Job,
    /// Share of reads, of 1.
    read: f64,
    /// Bytes of a transfer, if all have the same.
    block: Option<u64>,
}

impl Draft {
    fn text(&mut self, name: &str, value: &str) {
        self.job.text(name, value);
    }

    fn value(&mut self, name: &str, value: impl Into<Value>) {
        self.job.value(name, value);
    }

    fn size(&mut self, name: &str, bytes: u64) {
        self.job.size(name, bytes);
    }

    /// Returns a parameter that is a size.
    fn bytes(&self, name: &str) -> Option<u64> {
        self.job.number(name)
    }

    fn has(&self, name: &str) -> bool {
        self.job.has(name)
    }
}

/// Section as a sweep.
struct Read {
    sweep: Sweep,
    /// True if it begins after everything before it.
    is_apart: bool,
    /// True if it has a runtime.
    is_timed: bool,
}

struct Reader {
    settings: Vec<Setting>,
    imported: Imported,
    job: Draft,
}

impl Reader {
    fn take(&mut self, key: &str) -> Option<Setting> {
        let place = self.settings.iter().position(|setting| setting.key == key)?;
        Some(self.settings.remove(place))
    }

    fn class(&mut self, setting: &Setting, class: Class, note: impl Into<String>) {
        self.imported.class(
            setting.line,
            format!("{}={}", setting.key, setting.value),
            class,
            note,
        );
    }

    /// Takes the setting of `key`, classed exact with `note`.
    fn exact(&mut self, key: &str, note: &str) -> Option<Setting> {
        let setting = self.take(key)?;
        self.class(&setting, Exact, note);
        Some(setting)
    }

    fn is_set(&mut self, key: &str, note: &str) -> bool {
        self.exact(key, note).is_some_and(|setting| setting.value != "0")
    }

    /// Reads a size, which is above 0.
    fn bytes(&self, setting: &Setting, text: &str) -> Result<u64, Malformed> {
        let size = size(text).filter(|bytes| *bytes > 0);
        size.ok_or_else(|| setting.is_no("size", text))
    }

    fn number<T: std::str::FromStr>(&self, setting: &Setting) -> Result<T, Malformed> {
        let text = &setting.value;
        text.trim().parse().map_err(|_| setting.is_no("number", text))
    }

    fn time(&mut self, key: &str, note: &str) -> Result<Option<f64>, Malformed> {
        let Some(setting) = self.exact(key, note) else { return Ok(None) };
        let text = &setting.value;
        seconds(text, 1.0).map(Some).ok_or_else(|| setting.is_no("time", text))
    }

    /// Makes the sweep of one job.
    fn sweep(&mut self, name: &str, line: usize, targets: &Targets<'_>) -> Result<Read, Malformed> {
        // `|`, not `||`: both keys must be taken, or the second would be classed as unknown.
        let mut is_apart = self.is_set("stonewall", "a sweep of its own")
            | self.is_set("wait_for_previous", "a sweep of its own");
        if let Some(setting) = self.take("wait_for") {
            is_apart = true;
            self.class(&setting, Approximate, "a sweep of its own, after everything before it");
        }
        let runtime = self.time("runtime", "duration")?.or(self.time("timeout", "duration")?);
        // fio treats a runtime of zero as none.
        let runtime = runtime.filter(|seconds| *seconds > 0.0);
        let timed = self.is_set("time_based", "duration");
        let warmup = self.time("ramp_time", "warmup")?.unwrap_or(0.0);
        let mut seconds = runtime.unwrap_or(UNTIMED_SECONDS);
        if let Some(delay) = self.time("startdelay", "start_after")?.filter(|delay| *delay > 0.0) {
            self.job.text("start_after", &format!("{} ms", (delay * 1e3).round()));
            // fio counts the runtime from the end of the delay; a sweep counts from its start.
            seconds += delay;
        }
        self.ends(name, line, runtime.is_some(), timed);
        self.target(name, line, targets)?;
        self.transfers(name)?;
        self.engine(name, line)?;
        self.load()?;
        let jobs = self.spread()?;
        // What no part took is classed last, so that no key is lost silently.
        for setting in std::mem::take(&mut self.settings) {
            self.other(&setting);
        }
        let sweep = Sweep { name: name.to_owned(), warmup, seconds, jobs, depths: Vec::new() };
        Ok(Read { sweep, is_apart, is_timed: runtime.is_some() })
    }

    /// Classes the keys that end the job in fio: in the plan its time ends it.
    fn ends(&mut self, name: &str, line: usize, has_runtime: bool, timed: bool) {
        // fio ends a job after its size; a plan only knows time. The difference is stated, never
        // hidden.
        match (has_runtime, timed) {
            (true, true) => {}
            (true, false) => {
                let note = "for all of `runtime`; fio would end after `size`";
                self.imported.class(
                    line,
                    format!("[{name}] without time_based"),
                    Approximate,
                    note,
                );
            }
            (false, _) => {
                let note = format!("for {UNTIMED_SECONDS} s; fio would end after `size`");
                self.imported.class(line, format!("[{name}] without runtime"), Approximate, note);
            }
        }
        for key in ["number_ios", "io_size", "io_limit", "loops", "fill_device", "fill_fs"] {
            if let Some(setting) = self.take(key) {
                self.class(&setting, Approximate, "for the sweep's time, repeated from the start");
            }
        }
        for key in ["ss", "steadystate"] {
            if let Some(setting) = self.take(key) {
                let note = "for the whole sweep; the report tests the steady state itself";
                self.class(&setting, Approximate, note);
            }
        }
    }

    /// Returns the job, or with `offset_increment` one for each of its workers, each at a later
    /// place.
    fn spread(&mut self) -> Result<Vec<Job>, Malformed> {
        /// Most jobs of a readable sweep.
        const MOST_JOBS: u64 = 64;
        let step = match self.take("offset_increment") {
            Some(setting) if setting.value == "0" => None,
            Some(setting) => Some((self.bytes(&setting, &setting.value)?, setting)),
            None => None,
        };
        let job = std::mem::take(&mut self.job).job;
        let Some((step, setting)) = step else { return Ok(vec![job]) };
        let (n, offset) = (job.number("workers").unwrap_or(1), job.number("offset").unwrap_or(0));
        // The offset of the last worker must fit as well, so the sum is checked for overflow.
        let last = step.checked_mul(n.saturating_sub(1)).and_then(|far| far.checked_add(offset));
        // With a size of its own every worker would have a scratch file, and offsets would have no
        // meaning.
        let Some(_) = last.filter(|_| n <= MOST_JOBS && !job.has("size")) else {
            let note = format!(
                "{n} jobs at places of their own: at most {MOST_JOBS}, and on a device or an \
                    existing file"
            );
            self.class(&setting, Refused, note);
            return Ok(vec![job]);
        };
        self.class(&setting, Exact, "a job for each worker, with an offset of its own");
        let mut jobs = vec![job.with_workers(1); n as usize];
        // Workers count from 0: the first starts at the offset itself, as in fio.
        for (worker, job) in (0..).zip(&mut jobs) {
            job.size("offset", offset + worker * step);
        }
        Ok(jobs)
    }

    /// Reads the target and its extent.
    fn target(&mut self, name: &str, line: usize, targets: &Targets<'_>) -> Result<(), Malformed> {
        let (file, folder) = (self.take("filename"), self.take("directory"));
        let sizes = [self.take("filesize"), self.take("size")];
        let written = file
            .as_ref()
            .or(folder.as_ref())
            .map_or(name, |setting| setting.value.as_str())
            .to_owned();
        let path = match (&file, &folder) {
            (Some(file), Some(folder)) => format!("{}/{}", folder.value, file.value),
            _ => written.clone(),
        };
        // `--map` is looked up by the text of the file; the path is only the default.
        let target = targets.mapped(&written).map_or(path, str::to_owned);
        let at = Path::new(&target);
        let is_folder = targets.is_folder(at);
        // fio makes the file if its folder exists. Such a file has no contents yet, so it is
        // scratch.
        let is_new = targets.here.at(at).is_none()
            && at.parent().is_some_and(|parent| targets.is_folder(parent));
        let is_scratch = is_folder || is_new;
        let chosen = if is_folder || !is_scratch {
            target.clone()
        } else {
            at.parent().unwrap_or(at).display().to_string()
        };
        let (class, note) = match &file {
            // fio separates several files by colons. A mapped name may contain one.
            Some(file) if file.value.contains(':') && targets.mapped(&written).is_none() => (
                Refused,
                "several files: give each a job of its own, or name one with --map".to_owned(),
            ),
            _ if !at.is_absolute() => {
                // A relative path depends on the folder in which fio was started, which the file
                // does not say.
                (Refused, format!("name it on this host: --map '{written}=/...'"))
            }
            _ if is_scratch => (Approximate, format!("a scratch file without a name in {chosen}")),
            _ => (Exact, format!("target {chosen}")),
        };
        let setting =
            file.or(folder).unwrap_or(Setting { line, key: "filename".into(), value: written });
        self.class(&setting, class, note);
        self.job.text("target", &chosen);
        let offset = match self.take("offset") {
            Some(setting) if setting.value == "0" => None,
            Some(setting) if setting.value.ends_with(['%', 'z']) => {
                self.class(
                    &setting,
                    Refused,
                    "a share or a number of zones of the target: write it in bytes",
                );
                None
            }
            Some(setting) => {
                let bytes = self.bytes(&setting, &setting.value)?;
                self.job.size("offset", bytes);
                self.class(&setting, Exact, "offset");
                Some(bytes)
            }
            None => None,
        };
        for setting in sizes.into_iter().flatten() {
            // `z` counts zones and `-` gives a range: fio reads both, and both need facts about the
            // target.
            if setting.value.ends_with('z') || setting.value.contains('-') {
                self.class(
                    &setting,
                    Refused,
                    "a number of zones, or sizes of several files: write one size in bytes",
                );
                continue;
            }
            if setting.value.ends_with('%') {
                // The whole target is the default, so 100 % needs no parameter.
                let all = setting.value == "100%";
                self.class(
                    &setting,
                    if all { Exact } else { Refused },
                    "a share of the target: write it in bytes",
                );
                continue;
            }
            let bytes = self.bytes(&setting, &setting.value)?;
            let is_exact = self.job.job.extent(is_scratch, bytes, offset.unwrap_or(0));
            let note = if is_scratch { "size of the scratch file" } else { "span" };
            if is_exact {
                self.class(&setting, Exact, note);
            } else {
                let note = format!("{note}: 1 MiB, the minimum");
                self.class(&setting, Approximate, note);
            }
        }
        Ok(())
    }

    /// Classes a key that no other part took.
    fn other(&mut self, setting: &Setting) {
        let as_here = AS_HERE.iter().find(|(key, _)| *key == setting.key);
        if let Some((_, why)) = HARMLESS.iter().find(|(key, _)| *key == setting.key) {
            self.class(setting, Ignored, *why);
        } else if as_here.is_some_and(|(_, values)| {
            values.is_empty() || values.contains(&setting.value.as_str())
        }) {
            self.class(setting, Ignored, "the same as here");
        } else if let Some((_, why)) = CANNOT.iter().find(|(key, _)| setting.key.starts_with(key)) {
            self.class(setting, Refused, *why);
        } else {
            self.class(setting, Refused, "unknown key: it may change the load");
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::fuzz::{driver, of_any};
    use super::super::simulated::SimulatedHost;
    use super::*;

    /// Reads `text` where there are no other files.
    fn alone(text: &str) -> Result<Imported, Malformed> {
        read(text, &SimulatedHost::default().targets(&[]))
    }

    /// Returns a parameter as JSON.
    fn param(imported: &Imported, sweep: usize, job: usize, name: &str) -> Option<String> {
        imported.sweeps[sweep].jobs[job].params.get(name).map(Value::to_string)
    }

    const SAMPLE: &str = include_str!("../tests/fixtures/mixed.fio");

    #[test]
    fn a_job_file_becomes_sweeps_at_its_stonewalls() {
        let imported = alone(SAMPLE).expect("well formed");
        assert!(imported.keys.iter().all(|key| key.class != Refused), "{:#?}", imported.keys);
        assert_eq!(imported.sweeps.len(), 2, "{:?}", imported.sweeps);
        let sweep = &imported.sweeps[0];
        assert_eq!((sweep.seconds, sweep.warmup, sweep.jobs.len()), (2.0, 1.0, 2));
        let first = |name| param(&imported, 0, 0, name);
        for (name, value) in [
            ("block_size", "\"4096 B\""),
            ("depth", "16"),
            ("engine", "\"io_uring\""),
            ("cache", "\"direct\""),
        ] {
            assert_eq!(first(name).as_deref(), Some(value), "{name}");
        }
        assert_eq!(first("pattern"), None, "norandommap");
        let expected = "\"4096 B, weight 60 %, read 70 %, random 100 %; 65536 B, weight 40 %, read \
            70 %, random 100 %\"";
        assert_eq!(param(&imported, 1, 0, "access").as_deref(), Some(expected));
        let text = crate::plan::text("mixed", "mixed.fio", &imported);
        let (plan, problems) = linerate_model::plan::parse(&text);
        assert!(plan.is_some() && problems.is_empty(), "{problems:?}\n{text}");
    }

    #[test]
    fn sizes_and_times_are_read_as_fio_reads_them() {
        for (texts, bytes) in [
            (&["4k", "4KB", "4ki"][..], 4096),
            (&["4kib", "4KiB"], 4000),
            (&["512"], 512),
            (&["1G"], 1 << 30),
        ] {
            for text in texts {
                assert_eq!(size(text), Some(bytes), "{text}");
            }
        }
        for text in ["", "k", "4q", "4kk", "99999999999999999999", "99999999999p"] {
            assert_eq!(size(text), None, "{text}");
        }
        let times = ["30", "500ms", "2m"].map(|text| seconds(text, 1.0));
        assert_eq!(times, [30.0, 0.5, 120.0].map(Some));
        assert_eq!(seconds("100", super::text::MICROS), Some(1e-4));
    }

    #[test]
    fn a_key_that_would_change_the_load_is_refused_by_name() {
        for (line, why) in [
            ("rw=trimwrite", "discards only"),
            ("ioengine=rbd", "io_uring, libaio"),
            ("offset=10%", "in bytes"),
            ("offset_increment=1g", "on a device"),
            ("no_such_key=1", "unknown key"),
            ("filename=/tmp/a:/tmp/b", "several files"),
            ("nrfiles=4", "a job of its own"),
            ("filesize=4k-8k", "one size"),
            ("bsrange=1k-1g", "can be listed"),
            ("random_distribution=pareto:0.2", "zoned only"),
            ("zonemode=zbd", "zoned device"),
            ("flow=-1", "goes down"),
            ("prioclass=4", "classes are 1 to 3"),
            ("atomic=1", "RWF_ATOMIC"),
            ("max_latency=5", "by its time"),
            ("numa_cpu_nodes=1", "pinning"),
        ] {
            let imported =
                alone(&format!("[job]\ndirectory=/tmp\nsize=1m\n{line}\n")).expect("well formed");
            let refused: Vec<_> = imported.keys.iter().filter(|key| key.class == Refused).collect();
            assert!(
                refused.len() == 1 && refused[0].note.contains(why) && refused[0].line == 4,
                "{line}: {refused:?}"
            );
        }
    }

    /// Returns the parameters of the only job of `lines`, by name.
    fn job_of(lines: &str) -> std::collections::BTreeMap<String, String> {
        let imported =
            alone(&format!("[job]\ndirectory=/tmp\nsize=1m\n{lines}\n")).expect("well formed");
        let refused: Vec<_> = imported.keys.iter().filter(|key| key.class == Refused).collect();
        assert!(refused.is_empty(), "{lines}: {refused:?}");
        assert_eq!((imported.sweeps.len(), imported.sweeps[0].jobs.len()), (1, 1), "{lines}");
        imported.sweeps[0].jobs[0]
            .params
            .0
            .iter()
            .map(|(name, value)| (name.clone(), value.to_string()))
            .collect()
    }

    #[test]
    fn each_key_becomes_its_parameter() {
        for (lines, name, value) in [
            ("rw=write\nfsync=8", "flush", "\"fsync\""),
            ("rw=write\nfsync=8", "flush_every", "8"),
            ("rw=randwrite\nfdatasync=1", "flush", "\"fdatasync\""),
            ("rw=write\nsync=dsync", "sync", "\"dsync\""),
            ("rw=write\nsync=1", "sync", "\"sync\""),
            ("rw=randtrim", "trim", "\"100 %\""),
            ("rw=read:60k", "stride", "\"65536 B\""),
            ("rw=read:-8k", "backward", "true"),
            ("rw=read:-8k", "stride", "\"4096 B\""),
            ("offset=4k", "size", "\"1052672 B\""),
            ("size=256k", "size", "\"1048576 B\""),
            ("startdelay=2", "start_after", "\"2000 ms\""),
            (
                "bsrange=4k-12k",
                "access",
                "\"4096 B, weight 33.333333333333336 %, read 100 %, random 0 %; 8192 B, weight \
                    33.333333333333336 %, read 100 %, random 0 %; 12288 B, weight \
                    33.333333333333336 %, read 100 %, random 0 %\"",
            ),
            (
                "rw=rw\nrwmixread=75\nbssplit=4k/50:8k,1m",
                "access",
                "\"4096 B, weight 37.5 %, read 100 %, random 0 %; 8192 B, weight 37.5 %, read 100 \
                    %, random 0 %; 1048576 B, weight 25 %, read 0 %, random 0 %\"",
            ),
            (
                "rw=randread\nrandom_distribution=zoned:50/5:30/15:20/",
                "zones",
                "\"50 % to 5 %, 30 % to 15 %, 20 % to 80 %\"",
            ),
            // 1 MB/s of 4 KiB reads by each of two jobs.
            ("rate=1m\nnumjobs=2", "rate", "\"512 pps\""),
            // Reads reach 100 a second when all transfers are 200, writes 50 when they are 100.
            ("rw=randrw\nrate_iops=100,50", "rate", "\"100 pps\""),
            ("rate_iops=100\nrate_process=poisson", "poisson", "true"),
            ("numjobs=4\t; four of them", "workers", "4"),
            ("flow=8", "flow", "8"),
            ("prioclass=2\nprio=7", "priority", "\"best-effort 7\""),
            ("prioclass=3", "priority", "\"idle 0\""),
            (
                "cmdprio_percentage=20",
                "access",
                "\"4096 B, weight 20 %, read 100 %, random 0 %, priority realtime 0; 4096 B, \
                    weight 80 %, read 100 %, random 0 %\"",
            ),
            (
                "rw=rw\nbssplit=64k/40:1024k/60,1024k/100\n\
                    cmdprio_bssplit=64k/25/1/1:64k/75/3/2/1:1024k/0,1024k/0",
                "access",
                "\"65536 B, weight 5 %, read 100 %, random 0 %, priority realtime 1; 65536 B, \
                    weight 15 %, read 100 %, random 0 %, priority idle 2 hint 1; 1048576 B, weight \
                    30 %, read 100 %, random 0 %; 1048576 B, weight 50 %, read 0 %, random 0 %\"",
            ),
            ("zonemode=strided\nzonesize=8k\nzoneskip=2g", "zone_size", "\"8192 B\""),
            ("zonemode=strided\nzonesize=8k\nzoneskip=2g", "zone_skip", "\"2147483648 B\""),
            ("zonesize=8k\nzonerange=64k", "zone_range", "\"65536 B\""),
            ("rw=write\ndedupe_percentage=30", "copies", "\"30 %\""),
            (
                "rw=write\ndedupe_percentage=30\ndedupe_mode=working_set\n\
                    dedupe_working_set_percentage=50",
                "copies_of",
                "128",
            ),
            ("rw=write\nbuffer_compress_percentage=50", "compress", "\"50 %\""),
            ("rw=write\nverify=crc32c\nverify_backlog=1024", "verify_backlog", "1024"),
            ("latency_target=5ms", "latency_target", "\"5000 us\""),
            ("latency_target=500", "latency_share", "\"100 %\""),
            ("latency_target=500\nlatency_window=5000000", "latency_window", "\"5000000 us\""),
        ] {
            assert_eq!(job_of(lines).get(name).map(String::as_str), Some(value), "{lines}: {name}");
        }
        for (lines, absent) in [
            ("fsync=8", "flush"),
            ("verify_backlog=8", "verify_backlog"),
            ("dedupe_percentage=30", "copies"),
            ("rw=write\nverify=md5\ndo_verify=0", "verify"),
            ("sync=1", "sync"),
        ] {
            assert_eq!(job_of(lines).get(absent), None, "{lines}");
        }
    }

    #[test]
    fn the_lower_one_of_two_rates_applies() {
        for (operations, expected) in [(500, "\"500 pps\""), (2_000, "\"1000 pps\"")] {
            let job = job_of(&format!("rw=read\nbs=4k\nrate=4096000\nrate_iops={operations}"));
            assert_eq!(job["rate"], expected);
        }
    }

    #[test]
    fn discards_are_not_flushed() {
        let imported =
            alone("[job]\nfilename=/dev/sdx\nsize=1m\nrw=trim\nfsync=8\n").expect("well formed");
        let flush = imported.keys.iter().find(|key| key.key.starts_with("fsync"));
        let flush = flush.expect("it is classed");
        assert_eq!(flush.class, Ignored);
        assert_eq!(flush.note, "nothing is written that could be flushed");
    }

    #[test]
    fn jobs_with_an_increment_have_places_of_their_own() {
        let host = SimulatedHost::with([("/tmp/file", "")]);
        let text = "[job]\nfilename=/tmp/file\noffset=4k\noffset_increment=1m\nnumjobs=3\n";
        let imported = read(text, &host.targets(&[])).expect("well formed");
        let offsets: Vec<_> =
            (0..3).map(|job| param(&imported, 0, job, "offset").expect("set")).collect();
        assert_eq!(offsets, ["\"4096 B\"", "\"1052672 B\"", "\"2101248 B\""]);
    }

    #[test]
    fn a_file_includes_others_and_jobs_of_no_time_run_as_long_as_the_longest() {
        let host = SimulatedHost::with([("/jobs/common.inc", "bs=8k ; of both\ndirect=1\n")]);
        let text = "[global]\ndirectory=/tmp\nsize=1m\ninclude \
            common.inc\n[first]\nrw=read\n[late]\nstartdelay=30\nname=later\n";
        let imported = read(text, &host.targets(&[])).expect("well formed");
        assert!(imported.keys.iter().all(|key| key.class != Refused), "{:?}", imported.keys);
        assert_eq!(param(&imported, 0, 1, "block_size").as_deref(), Some("\"8192 B\""));
        let seconds: Vec<f64> = imported.sweeps.iter().map(|sweep| sweep.seconds).collect();
        assert_eq!(seconds, [UNTIMED_SECONDS + 30.0]);
        let endless = SimulatedHost::with([("/jobs/common.inc", "include common.inc\n")]);
        let refused = read(text, &endless.targets(&[])).expect_err("endless");
        assert!(refused.what.contains("include each other"), "{refused:?}");
    }

    #[test]
    fn a_file_that_is_cut_off_or_foreign_is_refused_with_its_place() {
        for (text, line, what) in [
            ("", 1, "no job"),
            ("[global]\nrw=read\n", 2, "no job"),
            ("rw=read\n[job]\n", 1, "before any section"),
            ("[job]\nrw=read\n[glo", 3, "cut off"),
            ("[job]\ndirectory=${HOME\n", 2, "cut off"),
            ("[job]\nbs=${NO_SUCH_VARIABLE}\n", 2, "no NO_SUCH_VARIABLE"),
            ("[job]\nbs=${SET}\n", 2, "bs=/tmp: not a size"),
            ("[job]\ninclude no-such-file\n", 2, "include no-such-file"),
            ("[job]\nbs=\n", 2, "not a size"),
            ("[job]\niodepth=many\n", 2, "not a number"),
            ("[job]\nruntime=soon\n", 2, "not a time"),
            ("[job]\nbssplit=4k/70:8k/70\n", 2, "add up to 140 %"),
        ] {
            let wrong = alone(text).expect_err(text);
            assert!(wrong.line == line && wrong.what.contains(what), "{text}: {wrong:?}");
        }
    }

    proptest! {
        #[test]
        fn hostile_files_never_panic(
            text in "(\\[[a-z]{0,6}\\]?\n|(rw|bs|bssplit|size|iodepth|runtime|filename|rate_iops|\
                thinktime|random_distribution|rwmixread)=[0-9a-z:/,.%$\\{\\}-]{0,12}\n){0,12}",
            place in 0_usize..2_000,
            c: char,
        ) {
            let _any = alone(&text);
            let mut changed: Vec<char> = SAMPLE.chars().collect();
            let place = place % changed.len();
            changed[place] = c;
            let _almost = alone(&changed.into_iter().collect::<String>());
        }
    }

    #[test]
    fn a_job_file_cannot_include_thousands_of_files() {
        let level =
            |n: u32| (format!("/jobs/{n}.inc"), format!("include {}.inc\n", n + 1).repeat(2));
        let mut files: Vec<(String, String)> = (0..12).map(level).collect();
        files.push(("/jobs/12.inc".into(), "rw=read\n".into()));
        let host =
            SimulatedHost::with(files.iter().map(|(path, text)| (path.as_str(), text.as_str())));
        let text = "[job]\nsize=1m\nfilename=/tmp/x\ninclude 0.inc\n";
        let refused = read(text, &host.targets(&[])).expect_err("2^13 files");
        assert!(refused.what.contains("more than 256 files"), "{refused:?}");
    }

    #[test]
    fn fuzz_fio_jobs() {
        let corpus = vec![
            SAMPLE.into(),
            b"[global]\nbs=4k\n[a]\nrw=randrw:8\nbssplit=4k/60:64k/40,8k/100\nsize=10%\n\
                rate_iops=100,200\n"
                .to_vec(),
        ];
        let words = [
            "[global]\n",
            "[",
            "]",
            "=",
            "\n",
            "${",
            "}",
            "rw=",
            "bs=",
            "bssplit=",
            "size=",
            "io_size=",
            "zonesize=",
            "rate=",
            "thinktime=",
            "iodepth=",
            "verify=",
            "include x\n",
            "100%",
            "k",
            "Kib",
            ":",
            "/",
            ",",
            "-1",
            "stonewall\n",
            "random_distribution=zipf:",
            "loops=",
        ];
        driver::fuzz("fio_jobs", corpus, &words, |bytes| of_any(read, bytes));
    }
}
