//! fio's job files, a strict subset: what is not in the table below is refused.
//!
//! `[global]` holds for the sections after it; a key without a value is set. Sizes are as fio reads them: `4k`, `4KB` and `4ki` are 4096
//! bytes, `4kib` is 4000 (its `kb_base` is 1024). Defaults are fio's: one synchronous, buffered read of 4 KiB at a time. Not taken: trims,
//! `include`, several files, offsets, flushes, arithmetic.

mod keys;
mod text;

use keys::{AS_HERE, HARMLESS};
use text::{MICROS, Section, Setting, seconds, sections, size};

use super::plan::{Job, Sweep};
use super::{Class, Imported, Malformed, Targets};

/// A job that fio would end when it has been through its size.
const UNTIMED_SECONDS: f64 = 60.0;

/// Reads a whole file.
pub(super) fn read(text: &str, targets: &Targets<'_>) -> Result<Imported, Malformed> {
    let mut imported = Imported::default();
    let mut globals: Vec<Setting> = Vec::new();
    let sections = sections(text)?;
    if !sections.iter().any(|section| !is_global(section)) {
        return Err(Malformed {
            line: text.lines().count().max(1),
            what: "no job: is this a fio job file, and whole?".into(),
        });
    }
    for section in sections {
        if is_global(&section) {
            globals.extend(section.settings);
            continue;
        }
        let mut settings: Vec<Setting> = Vec::new();
        for setting in globals.iter().cloned().chain(section.settings) {
            // The last one counts.
            settings.retain(|known| known.key != setting.key);
            settings.push(setting);
        }
        let mut reader = Reader { settings, imported, job: Job::default() };
        let (sweep, apart) = reader.sweep(&section.name, section.line, targets)?;
        imported = reader.imported;
        match imported.sweeps.last_mut().filter(|_| !apart) {
            Some(before) if before.seconds == sweep.seconds && before.warmup == sweep.warmup => {
                before.name = format!("{}, {}", before.name, sweep.name);
                before.jobs.extend(sweep.jobs);
            }
            Some(_) => {
                let note =
                    "it runs beside the job before it for another time: add `stonewall`, or make the times the same";
                imported.class(section.line, format!("[{}]", section.name), Class::Refused, note);
            }
            None => imported.sweeps.push(sweep),
        }
    }
    imported.keys.sort_by(|a, b| (a.line, &a.key).cmp(&(b.line, &b.key)));
    imported.keys.dedup();
    Ok(imported)
}

fn is_global(section: &Section) -> bool {
    section.name == "global"
}

struct Reader {
    settings: Vec<Setting>,
    imported: Imported,
    job: Job,
}

impl Reader {
    fn take(&mut self, key: &str) -> Option<Setting> {
        let place = self.settings.iter().position(|setting| setting.key == key)?;
        Some(self.settings.remove(place))
    }

    fn class(&mut self, setting: &Setting, class: Class, note: impl Into<String>) {
        self.imported.class(setting.line, format!("{}={}", setting.key, setting.value), class, note);
    }

    /// The value of `key`, classed exact with `note`.
    fn exact(&mut self, key: &str, note: &str) -> Option<Setting> {
        let setting = self.take(key)?;
        self.class(&setting, Class::Exact, note);
        Some(setting)
    }

    fn is_set(&mut self, key: &str, note: &str) -> bool {
        self.exact(key, note).is_some_and(|setting| setting.value != "0")
    }

    /// A size; 0 and nonsense are told with their place.
    fn bytes(&self, setting: &Setting, text: &str) -> Result<u64, Malformed> {
        let what = || Malformed { line: setting.line, what: format!("{}={text}: not a size", setting.key) };
        size(text).filter(|bytes| *bytes > 0).ok_or_else(what)
    }

    fn number<T: std::str::FromStr>(&self, setting: &Setting) -> Result<T, Malformed> {
        let what =
            || Malformed { line: setting.line, what: format!("{}={}: not a number", setting.key, setting.value) };
        setting.value.trim().parse().map_err(|_| what())
    }

    fn time(&mut self, key: &str, note: &str) -> Result<Option<f64>, Malformed> {
        let Some(setting) = self.exact(key, note) else { return Ok(None) };
        let what = || Malformed { line: setting.line, what: format!("{}={}: not a time", setting.key, setting.value) };
        seconds(&setting.value, 1.0).map(Some).ok_or_else(what)
    }

    /// The sweep of one job, and whether it begins after all before it.
    fn sweep(&mut self, name: &str, line: usize, targets: &Targets<'_>) -> Result<(Sweep, bool), Malformed> {
        let apart =
            self.is_set("stonewall", "a sweep of its own") | self.is_set("wait_for_previous", "a sweep of its own");
        let seconds = self.time("runtime", "duration")?.filter(|seconds| *seconds > 0.0);
        let timed = self.is_set("time_based", "duration");
        let warmup = self.time("ramp_time", "warmup")?.unwrap_or(0.0);
        match seconds {
            Some(_) if timed => {}
            Some(_) => {
                let note = "for all of `runtime`; fio would end when it has been through `size`";
                self.imported.class(line, format!("[{name}] without time_based"), Class::Approximate, note);
            }
            None => {
                let note = format!("for {UNTIMED_SECONDS} s; fio would end when it has been through `size`");
                self.imported.class(line, format!("[{name}] without runtime"), Class::Approximate, note);
            }
        }
        self.target(name, line, targets)?;
        self.transfers(name)?;
        self.engine(name, line)?;
        self.load()?;
        for setting in std::mem::take(&mut self.settings) {
            self.other(&setting);
        }
        let sweep = Sweep {
            name: name.to_owned(),
            warmup,
            seconds: seconds.unwrap_or(UNTIMED_SECONDS),
            jobs: vec![std::mem::take(&mut self.job)],
            depths: Vec::new(),
        };
        Ok((sweep, apart))
    }

    /// What is loaded, and how much of it.
    fn target(&mut self, name: &str, line: usize, targets: &Targets<'_>) -> Result<(), Malformed> {
        let (file, folder) = (self.take("filename"), self.take("directory"));
        let sizes = [self.take("size"), self.take("filesize")];
        let written = file.as_ref().or(folder.as_ref()).map_or(name, |setting| setting.value.as_str()).to_owned();
        let path = match (&file, &folder) {
            (Some(file), Some(folder)) => format!("{}/{}", folder.value, file.value),
            _ => written.clone(),
        };
        let target = targets.mapped(&written).map_or(path, str::to_owned);
        let at = std::path::Path::new(&target);
        let is_scratch = at.is_dir() || (!at.exists() && at.parent().is_some_and(std::path::Path::is_dir));
        let chosen =
            if at.is_dir() || !is_scratch { target.clone() } else { at.parent().unwrap_or(at).display().to_string() };
        let (class, note) = match &file {
            Some(file) if file.value.contains(':') && targets.mapped(&written).is_none() => {
                (Class::Refused, "several files: give each a job of its own, or name one with --map".to_owned())
            }
            _ if !at.is_absolute() => (Class::Refused, format!("say where that is: --map '{written}=/...'")),
            _ if is_scratch => (Class::Approximate, format!("a scratch file without a name in {chosen}")),
            _ => (Class::Exact, format!("target {chosen}")),
        };
        let setting = file.or(folder).unwrap_or(Setting { line, key: "filename".into(), value: written });
        self.class(&setting, class, note);
        self.job.text("target", &chosen);
        for setting in sizes.into_iter().flatten() {
            if setting.value.ends_with('%') {
                let all = setting.value == "100%";
                self.class(
                    &setting,
                    if all { Class::Exact } else { Class::Refused },
                    "a share of the target: write it in bytes",
                );
                continue;
            }
            let bytes = self.bytes(&setting, &setting.value)?;
            self.job.text(if is_scratch { "size" } else { "span" }, &format!("{bytes} B"));
            self.class(&setting, Class::Exact, if is_scratch { "size of the scratch file" } else { "span" });
        }
        Ok(())
    }

    /// Sizes, directions and places of transfers.
    fn transfers(&mut self, name: &str) -> Result<(), Malformed> {
        let mode = self.take("rw").or_else(|| self.take("readwrite"));
        let mode = mode.unwrap_or(Setting { line: 0, key: "rw".into(), value: "read".into() });
        let (word, run) = mode.value.split_once(':').unwrap_or((&mode.value, ""));
        let shares = match word {
            "read" => Some((100.0, 0.0)),
            "write" => Some((0.0, 0.0)),
            "randread" => Some((100.0, 100.0)),
            "randwrite" => Some((0.0, 100.0)),
            "rw" | "readwrite" => Some((50.0, 0.0)),
            "randrw" => Some((50.0, 100.0)),
            _ => None,
        };
        let Some((mut read, mut random)) = shares else {
            self.class(&mode, Class::Refused, "reads and writes only");
            return Ok(());
        };
        let is_mixed = read == 50.0;
        match run {
            "" if mode.line > 0 => self.class(&mode, Class::Exact, "read and random"),
            "" => {}
            _ => match run.parse::<f64>() {
                Ok(run) if run >= 1.0 && random > 0.0 => {
                    random = 100.0 / run;
                    self.class(&mode, Class::Approximate, format!("random {random} %, drawn for each transfer"));
                }
                _ => self.class(&mode, Class::Refused, "holes between sequential transfers"),
            },
        }
        let mix = [("rwmixread", false), ("rwmixwrite", true)];
        for (key, is_writes) in mix {
            let Some(setting) = self.take(key) else { continue };
            let share: f64 = self.number(&setting)?;
            if !(0.0..=100.0).contains(&share) {
                return Err(Malformed { line: setting.line, what: format!("{key}={share}: not a share in per cent") });
            }
            if is_mixed {
                read = if is_writes { 100.0 - share } else { share };
            }
            self.class(&setting, if is_mixed { Class::Exact } else { Class::Ignored }, "share of reads");
        }
        if let Some(setting) = self.exact("percentage_random", "random") {
            random = self.number(&setting)?;
        }
        self.sizes(read, random)?;
        self.places(name, random)
    }

    /// `bs`, with one size for reads and one for writes, or `bssplit`.
    fn sizes(&mut self, read: f64, random: f64) -> Result<(), Malformed> {
        let align = match self.exact("blockalign", "align").or_else(|| self.exact("ba", "align")) {
            Some(setting) => Some(self.bytes(&setting, &setting.value)?),
            None => None,
        };
        let aligned = align.map_or(String::new(), |bytes| format!(", align {bytes} B"));
        if let Some(setting) = self.take("bssplit") {
            return self.split(&setting, read, random, &aligned);
        }
        let setting = self.take("bs").or_else(|| self.take("blocksize"));
        let text = setting.as_ref().map_or("4096", |setting| setting.value.as_str()).to_owned();
        let parts: Vec<&str> = text.split(',').map(str::trim).collect();
        let nowhere = Setting { line: 0, key: "bs".into(), value: text.clone() };
        let setting = setting.unwrap_or(nowhere);
        let of = |place: usize| match parts.get(place).copied() {
            // One that is left out is as fio's default; those behind the last are as that.
            Some("") => Ok(4096),
            Some(part) => self.bytes(&setting, part),
            None => self.bytes(&setting, parts.last().copied().unwrap_or("4096")),
        };
        let (reads, writes) = (of(0)?, of(1)?);
        if reads == writes || read >= 100.0 || read <= 0.0 {
            let one = if read <= 0.0 { writes } else { reads };
            self.job.text("block_size", &format!("{one} B"));
            self.job.text("read", &format!("{read} %"));
            self.job.text("random", &format!("{random} %"));
            if let Some(align) = align {
                self.job.text("align", &format!("{align} B"));
            }
        } else {
            let line = |bytes, weight, read| {
                format!("{bytes} B, weight {weight} %, read {read} %, random {random} %{aligned}")
            };
            self.job.text("access", &[line(reads, read, 100), line(writes, 100.0 - read, 0)].join("; "));
        }
        if setting.line > 0 {
            self.class(&setting, Class::Exact, "block_size");
        }
        Ok(())
    }

    /// `SIZE/PER CENT:...`; shares that are left out divide the rest.
    fn split(&mut self, setting: &Setting, read: f64, random: f64, aligned: &str) -> Result<(), Malformed> {
        if setting.value.contains(',') {
            self.class(setting, Class::Refused, "splits of reads and of writes apart");
            return Ok(());
        }
        let wrong = |what: String| Malformed { line: setting.line, what: format!("bssplit={}: {what}", setting.value) };
        let mut parts = Vec::new();
        for part in setting.value.split(':') {
            let (bytes, share) = part.split_once('/').unwrap_or((part, ""));
            let share = match share.trim() {
                "" => None,
                text => Some(text.parse::<f64>().map_err(|_| wrong(format!("`{text}` is not a share")))?),
            };
            parts.push((self.bytes(setting, bytes)?, share));
        }
        let given: f64 = parts.iter().filter_map(|(_, share)| *share).sum();
        let open = parts.iter().filter(|(_, share)| share.is_none()).count();
        if given > 100.0 || (open == 0 && given < 100.0) {
            return Err(wrong(format!("the shares add up to {given} %")));
        }
        let rest = (100.0 - given) / open.max(1) as f64;
        let line = |(bytes, share): &(u64, Option<f64>)| {
            format!("{bytes} B, weight {} %, read {read} %, random {random} %{aligned}", share.unwrap_or(rest))
        };
        let lines: Vec<String> = parts.iter().map(line).collect();
        self.job.text("access", &lines.join("; "));
        self.class(setting, Class::Exact, "lines of an access specification");
        Ok(())
    }

    /// Where random transfers go.
    fn places(&mut self, name: &str, random: f64) -> Result<(), Malformed> {
        let repeats = self.is_set("norandommap", "places may come again");
        let law = self.take("random_distribution");
        let parts = law.as_ref().map(|setting| setting.value.split_once(':').unwrap_or((&setting.value, "")));
        match (parts, &law) {
            (None | Some(("random", _)), _) => {
                if random >= 100.0 && !repeats {
                    self.job.text("pattern", "permutation");
                    let note = "pattern permutation: each place once before any again";
                    self.imported.class(0, format!("[{name}] without norandommap"), Class::Exact, note);
                }
                if let Some(law) = &law {
                    self.class(law, Class::Exact, "pattern");
                }
            }
            (Some(("zipf", theta)), Some(law)) => {
                let theta: f64 = match theta.split(':').next().unwrap_or("") {
                    "" => 1.1,
                    text => text
                        .parse()
                        .map_err(|_| Malformed { line: law.line, what: format!("zipf:{text}: not a number") })?,
                };
                self.job.text("pattern", "zipf");
                self.job.text("skew", &format!("{} %", theta * 100.0));
                self.class(law, Class::Approximate, "pattern zipf; which places are the frequent ones differs");
            }
            (Some(_), Some(law)) => self.class(law, Class::Refused, "random and zipf only"),
            (Some(_), None) => {}
        }
        Ok(())
    }

    fn engine(&mut self, name: &str, line: usize) -> Result<(), Malformed> {
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
            // Buffered, native AIO blocks as it submits, whatever its depth.
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
            let (class, note) = match (is_synchronous, wanted) {
                (true, 2..) => {
                    (Class::Approximate, "depth 1: a synchronous engine has one transfer under way, in fio too")
                }
                _ => (Class::Exact, "depth"),
            };
            self.class(setting, class, note);
        }
        if is_synchronous {
            wanted = 1;
        }
        self.job.value("depth", wanted.max(1).to_string());
        match (ours, engine) {
            (Some(ours), Some(engine)) => {
                let ours = self.polled(ours);
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
                self.class(&engine, Class::Refused, "io_uring, libaio, posixaio and the synchronous ones only")
            }
            (None, None) => {}
        }
        Ok(())
    }

    /// io_uring's own kinds.
    fn polled(&mut self, ours: &'static str) -> &'static str {
        let mut found = ours;
        for (key, kind) in [("hipri", "io_uring_polling"), ("sqthread_poll", "io_uring_thread")] {
            let is_on = self.settings.iter().any(|setting| setting.key == key && setting.value != "0");
            if is_on && found == "io_uring" {
                found = kind;
                self.exact(key, kind);
            }
        }
        found
    }

    fn load(&mut self) -> Result<(), Malformed> {
        if let Some(setting) = self.exact("numjobs", "workers") {
            let workers: u32 = self.number(&setting)?;
            self.job.value("workers", workers.max(1).to_string());
        }
        // fio's jobs all begin at the same place.
        self.job.text("regions", "same");
        if let Some(setting) = self.take("rate_iops") {
            let rate: f64 = self.number(&setting)?;
            let workers = self.job.params.iter().find(|(name, _)| *name == "workers");
            let workers: f64 = workers.and_then(|(_, n)| n.parse().ok()).unwrap_or(1.0);
            self.job.text("rate", &format!("{} pps", rate * workers));
            self.class(&setting, Class::Approximate, "rate, whatever the disk does; fio falls behind it with the disk");
        }
        if let Some(setting) = self.take("thinktime") {
            let what = || Malformed { line: setting.line, what: format!("thinktime={}: not a time", setting.value) };
            let pause = seconds(&setting.value, MICROS).ok_or_else(what)?;
            self.job.text("delay", &format!("{} us", (pause * MICROS).round()));
            self.class(&setting, Class::Approximate, "delay, counted from the last start instead of the last end");
        }
        if let Some(setting) = self.exact("thinktime_blocks", "burst") {
            let burst: u32 = self.number(&setting)?;
            self.job.value("burst", burst.max(1).to_string());
        }
        if let Some(setting) = self.take("verify") {
            if setting.value != "0" && setting.value != "none" {
                self.job.value("verify", "true".into());
                self.class(
                    &setting,
                    Class::Approximate,
                    "verify: every block read is checked by linerate's own stamps",
                );
            } else {
                self.class(&setting, Class::Ignored, "nothing is verified");
            }
        }
        Ok(())
    }

    /// A key that no other part took.
    fn other(&mut self, setting: &Setting) {
        let as_here = AS_HERE.iter().find(|(key, _)| *key == setting.key);
        if let Some((_, why)) = HARMLESS.iter().find(|(key, _)| *key == setting.key) {
            self.class(setting, Class::Ignored, *why);
        } else if as_here.is_some_and(|(_, values)| values.is_empty() || values.contains(&setting.value.as_str())) {
            self.class(setting, Class::Ignored, "it is so anyway");
        } else if as_here.is_some() {
            self.class(setting, Class::Refused, "it would change the load, and cannot be had");
        } else {
            self.class(setting, Class::Refused, "not known here");
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn none() -> Targets<'static> {
        Targets { map: Vec::new() }
    }

    fn param(imported: &Imported, sweep: usize, job: usize, name: &str) -> Option<String> {
        imported.sweeps[sweep].jobs[job].params.iter().find(|(key, _)| *key == name).map(|(_, value)| value.clone())
    }

    const SAMPLE: &str = include_str!("../../../tests/fixtures/mixed.fio");

    #[test]
    fn a_job_file_becomes_sweeps_at_its_stonewalls() {
        let imported = read(SAMPLE, &none()).expect("well formed");
        assert!(imported.keys.iter().all(|key| key.class != Class::Refused), "{:#?}", imported.keys);
        assert_eq!(imported.sweeps.len(), 2, "{:?}", imported.sweeps);
        assert_eq!(
            (imported.sweeps[0].seconds, imported.sweeps[0].warmup, imported.sweeps[0].jobs.len()),
            (2.0, 1.0, 2)
        );
        let first = |name| param(&imported, 0, 0, name);
        assert_eq!(first("block_size").as_deref(), Some("\"4096 B\""));
        assert_eq!(first("depth").as_deref(), Some("16"));
        assert_eq!((first("engine").as_deref(), first("cache").as_deref()), (Some("\"io_uring\""), Some("\"direct\"")));
        assert_eq!(first("pattern"), None, "norandommap");
        let expected =
            "\"4096 B, weight 60 %, read 70 %, random 100 %; 65536 B, weight 40 %, read 70 %, random 100 %\"";
        assert_eq!(param(&imported, 1, 0, "access").as_deref(), Some(expected));
        let text = super::super::plan::text("mixed", "mixed.fio", &imported);
        let (plan, problems) = linerate_model::plan::parse(&text);
        assert!(plan.is_some() && problems.is_empty(), "{problems:?}\n{text}");
    }

    #[test]
    fn sizes_and_times_are_read_as_fio_reads_them() {
        for (text, bytes) in
            [("4k", 4096), ("4KB", 4096), ("4ki", 4096), ("4kib", 4000), ("4KiB", 4000), ("512", 512), ("1G", 1 << 30)]
        {
            assert_eq!(size(text), Some(bytes), "{text}");
        }
        for text in ["", "k", "4q", "4kk", "99999999999999999999", "99999999999p"] {
            assert_eq!(size(text), None, "{text}");
        }
        assert_eq!(
            (seconds("30", 1.0), seconds("500ms", 1.0), seconds("2m", 1.0)),
            (Some(30.0), Some(0.5), Some(120.0))
        );
        assert_eq!(seconds("100", MICROS), Some(1e-4));
    }

    #[test]
    fn what_would_change_the_load_is_refused_by_name() {
        for (line, why) in [
            ("rw=trim", "reads and writes only"),
            ("ioengine=rbd", "io_uring, libaio"),
            ("fsync=1", "cannot be had"),
            ("offset=4k", "cannot be had"),
            ("no_such_key=1", "not known"),
            ("filename=/tmp/a:/tmp/b", "several files"),
            ("bssplit=4k/50:8k/50,4k", "apart"),
            ("random_distribution=pareto:0.2", "zipf only"),
        ] {
            let imported = read(&format!("[job]\ndirectory=/tmp\nsize=1m\n{line}\n"), &none()).expect("well formed");
            let refused: Vec<_> = imported.keys.iter().filter(|key| key.class == Class::Refused).collect();
            assert!(refused.len() == 1 && refused[0].note.contains(why) && refused[0].line == 4, "{line}: {refused:?}");
        }
    }

    #[test]
    fn a_file_that_is_cut_off_or_foreign_is_told_with_its_place() {
        for (text, line, what) in [
            ("", 1, "no job"),
            ("[global]\nrw=read\n", 2, "no job"),
            ("rw=read\n[job]\n", 1, "before any section"),
            ("[job]\nrw=read\n[glo", 3, "cut off"),
            ("[job]\ndirectory=${HOME\n", 2, "cut off"),
            ("[job]\nbs=\n", 2, "not a size"),
            ("[job]\niodepth=many\n", 2, "not a number"),
            ("[job]\nruntime=soon\n", 2, "not a time"),
            ("[job]\nbssplit=4k/70:8k/70\n", 2, "add up to 140 %"),
        ] {
            let wrong = read(text, &none()).expect_err(text);
            assert!(wrong.line == line && wrong.what.contains(what), "{text}: {wrong:?}");
        }
    }

    proptest! {
        #[test]
        fn hostile_files_never_panic(
            text in "(\\[[a-z]{0,6}\\]?\n|(rw|bs|bssplit|size|iodepth|runtime|filename|rate_iops|thinktime|random_distribution|rwmixread)=[0-9a-z:/,.%$\\{\\}-]{0,12}\n){0,12}",
            place in 0_usize..2_000,
            c: char,
        ) {
            let _any = read(&text, &none());
            let mut changed: Vec<char> = SAMPLE.chars().collect();
            let place = place % changed.len();
            changed[place] = c;
            let _almost = read(&changed.into_iter().collect::<String>(), &none());
        }
    }
}
