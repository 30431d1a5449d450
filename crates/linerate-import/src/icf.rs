//! Iometer's configuration files (.icf), versions 2003 to 1.1.0. Keys begin with an apostrophe, and
//! their values follow on lines of their own. An apostrophe before blanks begins a caption.
//!
//! One access specification of each worker at a time is a sweep, whose jobs are workers times
//! targets. A network worker over TCP becomes a stream of messages, or with replies requests and
//! responses. Not supported: VI, cycles of targets and workers.

mod entries;
mod network;
mod sweeps;

use super::{Class, Imported, Malformed, Targets};
use Class::{Approximate, Exact, Ignored, Refused};
use entries::{Entry, entries, fields, numbers};

/// Unit of sizes and starts of targets.
const SECTOR: u64 = 512;
/// Supported test types, by name and by number in old files: everything at once; once for each
/// depth.
const NORMAL: (&str, &str) = ("NORMAL", "0");
const CYCLE_DEPTH: (&str, &str) = ("CYCLE_OUTSTANDING_IOS", "6");
/// Duration of a run that Iometer would only end by hand.
const ENDLESS_SECONDS: f64 = 60.0;
/// Most depths of a cycle, because Iometer's steps may be one.
const MOST_DEPTHS: usize = 64;
/// Size of a scratch file where Iometer would have filled the volume.
const SCRATCH_BYTES: u64 = 256 << 20;

#[derive(Clone, Default)]
struct Specification {
    name: String,
    /// Line of the file, and the line of a `storage` access specification.
    lines: Vec<(usize, String)>,
    /// The same lines as numbers.
    raw: Vec<RawLine>,
}

/// Access line: bytes, shares in per cent, milliseconds.
#[derive(Clone, Copy)]
struct RawLine {
    size: u64,
    read: u64,
    delay: u64,
    reply: u64,
}

/// Load of a worker.
#[derive(Clone, Copy, Default, PartialEq)]
enum Kind {
    #[default]
    Disk,
    Tcp,
    /// The Virtual Interface Architecture, or an unknown type.
    Other,
}

/// Name of the mapped target for files without workers.
const ANY: &str = "*";

#[derive(Clone, Default)]
struct Worker {
    line: usize,
    name: String,
    depth: u32,
    /// Transactions per opening of a target, if the test reopens it.
    reopens: Option<u64>,
    span: u64,
    /// Bytes skipped at the start of the target.
    offset: u64,
    specifications: Vec<(usize, String)>,
    targets: Vec<(usize, String)>,
    kind: Kind,
}

#[derive(Default)]
struct Reader {
    imported: Imported,
    seconds: f64,
    warmup: f64,
    depths: Vec<u32>,
    cycles: bool,
    specifications: Vec<Specification>,
    workers: Vec<Worker>,
}

/// Reads a whole file.
pub(super) fn read(text: &str, targets: &Targets<'_>) -> Result<Imported, Malformed> {
    let entries = entries(text)?;
    let mut reader = Reader { seconds: ENDLESS_SECONDS, ..Reader::default() };
    let mut section: Option<&Entry<'_>> = None;
    for entry in &entries {
        if entry.is("end ") {
            reader.end(entry);
        }
        if SECTIONS.iter().any(|name| entry.is(name)) {
            if let Some(open) = section {
                let what = format!("section `{}` of line {} was not ended", open.key, open.line);
                return Err(Malformed::new(entry.line, what));
            }
            section = Some(entry);
        } else if section.is_some_and(|open| {
            entry.is("end ") && entry.key[4..].trim().eq_ignore_ascii_case(open.key)
        }) {
            section = None;
        } else {
            reader.take(entry)?;
        }
    }
    match section {
        Some(open) => {
            let what = format!("section `{}` does not end: the file is cut off", open.key);
            Err(Malformed::new(open.line, what))
        }
        None => Ok(reader.finish(targets)),
    }
}

const SECTIONS: [&str; 4] =
    ["test setup", "results display", "access specifications", "manager list"];

impl Reader {
    fn class(&mut self, entry: &Entry<'_>, class: Class, note: impl Into<String>) {
        let value = entry.values.first().map_or(String::new(), |(_, value)| format!(" = {value}"));
        self.imported.class(entry.line, format!("{}{value}", entry.key), class, note);
    }

    fn end(&mut self, entry: &Entry<'_>) {
        if entry.is("end worker")
            // A worker of an unknown type stays until its end, so that its keys are not attributed
            // to another.
            && self.workers.last().is_some_and(|worker| worker.kind == Kind::Other)
        {
            self.workers.pop();
        }
    }

    fn take(&mut self, entry: &Entry<'_>) -> Result<(), Malformed> {
        match () {
            () if entry.is("end")
                || entry.is("target assignments")
                || entry.is("default target settings") =>
            {
                Ok(())
            }
            () if entry.is("run time") => self.run_time(entry),
            () if entry.is("ramp up time") => {
                self.warmup = entry.numbers(1)?[0] as f64;
                self.class(entry, Exact, "warmup");
                Ok(())
            }
            () if entry.is("queue depth cycling") => self.depth_cycling(entry),
            () if entry.is("test type") => self.test_type(entry),
            () if entry.is("access specification name") => self.specification(entry),
            () if entry.is("size,") => self.lines(entry),
            () if entry.is("worker type") => self.worker_type(entry),
            () if entry.is("worker cycling") || entry.is("disk cycling") => {
                self.class(entry, Ignored, "only for cycles of workers and targets");
                Ok(())
            }
            () if entry.is("worker") => {
                let name = entry.value()?.1.to_owned();
                self.workers.push(Worker { line: entry.line, name, depth: 1, ..Worker::default() });
                Ok(())
            }
            () if entry.is("number of outstanding ios") => self.outstanding(entry),
            () if entry.is("disk maximum size") => self.extent(entry),
            () if entry.is("assigned access specs") => {
                let names =
                    entry.values.iter().map(|(line, name)| (*line, (*name).to_owned())).collect();
                self.worker(entry)?.specifications = names;
                Ok(())
            }
            () if entry.is("target type") || entry.is("target manager") => Ok(()),
            () if entry.is("target") => {
                let (line, name) = entry.value()?;
                self.worker(entry)?.targets.push((line, name.to_owned()));
                Ok(())
            }
            () => self.other(entry),
        }
    }

    fn other(&mut self, entry: &Entry<'_>) -> Result<(), Malformed> {
        /// Keys that change no measured value, with the reason.
        const HARMLESS: [(&str, &str); 12] = [
            ("test description", "the ledger has the plan's name"),
            ("default disk workers", "workers are those of the list"),
            ("default network workers", "workers are those of the list"),
            ("default workers", "workers are those of the list"),
            ("record results", "everything is recorded"),
            ("record last update", "nothing is displayed meanwhile"),
            ("update frequency", "nothing is displayed meanwhile"),
            ("bar chart", "nothing is displayed meanwhile"),
            ("manager id", "its workers run here"),
            ("manager network address", "its workers run here"),
            ("local network interface", "of a network worker"),
            ("vi outstanding", "of a network worker"),
        ];
        match HARMLESS.iter().find(|(key, _)| entry.is(key)) {
            Some((_, why)) => self.class(entry, Ignored, *why),
            None => self.class(entry, Refused, "this key is unknown"),
        }
        Ok(())
    }

    fn worker(&mut self, entry: &Entry<'_>) -> Result<&mut Worker, Malformed> {
        let what = || Malformed::new(entry.line, format!("`{}` is outside of a worker", entry.key));
        self.workers.last_mut().ok_or_else(what)
    }

    fn run_time(&mut self, entry: &Entry<'_>) -> Result<(), Malformed> {
        let numbers = entry.numbers(3)?;
        let seconds = numbers[0] as f64 * 3600.0 + numbers[1] as f64 * 60.0 + numbers[2] as f64;
        if seconds > 0.0 {
            self.seconds = seconds;
            self.class(entry, Exact, "duration");
        } else {
            self.class(
                entry,
                Approximate,
                format!("duration {ENDLESS_SECONDS} s; Iometer would run until it is stopped"),
            );
        }
        Ok(())
    }

    fn depth_cycling(&mut self, entry: &Entry<'_>) -> Result<(), Malformed> {
        let numbers = entry.numbers(3)?;
        let (line, text) = entry.value()?;
        let (start, end, step) = (numbers[0], numbers[1], numbers[2]);
        if start == 0 || step == 0 {
            return Err(Malformed::new(line, format!("`{text}`: depths and steps begin at 1")));
        }
        // Iometer treats a factor of 1 as a sum.
        let is_factor = fields(text)
            .last()
            .is_some_and(|kind| kind.eq_ignore_ascii_case("exponential") || *kind == "1")
            && step > 1;
        let next =
            |depth: &u64| if is_factor { depth.checked_mul(step) } else { depth.checked_add(step) };
        let depths = std::iter::successors(Some(start), next)
            .take_while(|depth| *depth <= end)
            // A step of one from 1 to 10,000 would be 10,000 trials.
            .take(MOST_DEPTHS);
        self.depths = depths.filter_map(|depth| u32::try_from(depth).ok()).collect();
        self.class(entry, Exact, "the axis of depths, if the test type cycles through them");
        Ok(())
    }

    fn test_type(&mut self, entry: &Entry<'_>) -> Result<(), Malformed> {
        let (_, text) = entry.value()?;
        // Old files write numbers, newer ones names.
        let is = |kind: (&str, &str)| text.eq_ignore_ascii_case(kind.0) || text == kind.1;
        self.cycles = is(CYCLE_DEPTH);
        if self.cycles || is(NORMAL) {
            self.class(
                entry,
                Exact,
                if self.cycles { "an axis of depths" } else { "all workers and targets at once" },
            );
        } else {
            self.class(
                entry,
                Refused,
                "cycles of workers and targets: set it to NORMAL or \
                CYCLE_OUTSTANDING_IOS, and write the others as sweeps",
            );
        }
        Ok(())
    }

    fn specification(&mut self, entry: &Entry<'_>) -> Result<(), Malformed> {
        let (_, text) = entry.value()?;
        // The name may have commas; its default assignment may not.
        let name = text.rsplit_once(',').map_or(text, |(name, _)| name);
        self.specifications
            .push(Specification { name: name.to_owned(), ..Specification::default() });
        Ok(())
    }

    /// size, % of size, % reads, % random, delay, burst, align, reply.
    fn lines(&mut self, entry: &Entry<'_>) -> Result<(), Malformed> {
        // Before 1998.05.21 specifications had no names.
        // Lines without a name in front of them begin a new specification.
        if self.specifications.last().is_none_or(|last| !last.lines.is_empty()) {
            self.specifications.push(Specification::default());
        }
        let mut whole = 0;
        for &(line, text) in &entry.values {
            let n = numbers(line, text, 6)?;
            let (align, reply) = (n.get(6).copied().unwrap_or(0), n.get(7).copied().unwrap_or(0));
            if n[0] < SECTOR || n[2] > 100 || n[3] > 100 {
                return Err(Malformed::new(
                    line,
                    format!("`{text}`: a size below {SECTOR} B or a share above 100 %"),
                ));
            }
            whole += n[1];
            let reply = if reply > 0 { format!(", reply {reply} B") } else { String::new() };
            // Iometer's alignment of zero means "by sectors".
            let align = if align == 0 { SECTOR } else { align };
            let delay = if n[4] > 0 { format!(", delay {} ms", n[4]) } else { String::new() };
            let access = format!(
                "{} B, weight {} %, read {} %, random {} %, burst {}{delay}, align {align} \
                    B{reply}",
                n[0],
                n[1],
                n[2],
                n[3],
                // The plan's parameter has 30 bits.
                n[5].clamp(1, 1 << 30)
            );
            let Some(specification) = self.specifications.last_mut() else {
                return Err(Malformed::new(line, "an access line is under no specification"));
            };
            specification.lines.push((line, access));
            specification.raw.push(RawLine {
                size: n[0],
                read: n[2],
                delay: n[4],
                reply: n.get(7).copied().unwrap_or(0),
            });
        }
        if !entry.values.is_empty() && whole != 100 {
            return Err(Malformed::new(
                entry.line,
                format!("the lines' shares of size add up to {whole} %, not 100 %"),
            ));
        }
        let name = self.specifications.last().map_or(String::new(), |one| one.name.clone());
        let n = entry.values.len();
        let note = format!("{n} lines; weights are of bursts, drawn by another generator");
        self.imported.class(entry.line, format!("access specification {name}"), Exact, note);
        Ok(())
    }

    fn worker_type(&mut self, entry: &Entry<'_>) -> Result<(), Malformed> {
        let (_, text) = entry.value()?;
        let kind = match &text.to_ascii_lowercase()[..] {
            "disk" => Kind::Disk,
            "network,tcp" => Kind::Tcp,
            _ => Kind::Other,
        };
        self.worker(entry)?.kind = kind;
        if kind == Kind::Other {
            self.class(
                entry,
                Refused,
                "neither a disk nor TCP: the Virtual Interface Architecture is not supported",
            );
        }
        Ok(())
    }

    /// Depth, test connection rate, transactions per connection, and in newer files a fixed seed.
    fn outstanding(&mut self, entry: &Entry<'_>) -> Result<(), Malformed> {
        let (line, text) = entry.value()?;
        let depth = numbers(line, text, 1)?[0];
        let depth = u32::try_from(depth).ok().filter(|depth| *depth > 0);
        let depth = depth.ok_or_else(|| Malformed::new(line, format!("`{text}`: not a depth")))?;
        self.worker(entry)?.depth = depth;
        let on = |place: usize| {
            fields(text).get(place).is_some_and(|field| field.eq_ignore_ascii_case("enabled"))
        };
        if on(1) {
            let each =
                fields(text).get(2).and_then(|field| field.parse().ok()).filter(|each| *each > 0);
            let each = each.ok_or_else(|| {
                Malformed::new(line, format!("`{text}`: no transactions per connection"))
            })?;
            self.worker(entry)?.reopens = Some(each);
            let note = "depth; reopen_every for disks (opened again when none is under way), \
                tcp_crr for networks";
            self.class(entry, Approximate, note);
        } else if on(3) {
            self.class(
                entry,
                Approximate,
                "depth; the seed is the campaign's, so the sequence differs",
            );
        } else {
            self.class(entry, Exact, "depth, for each worker and target");
        }
        Ok(())
    }

    /// Disk maximum size, starting sector, and in newer files the data pattern.
    fn extent(&mut self, entry: &Entry<'_>) -> Result<(), Malformed> {
        let numbers = entry.numbers(2)?;
        let worker = self.worker(entry)?;
        worker.span = numbers[0].saturating_mul(SECTOR);
        worker.offset = numbers[1].saturating_mul(SECTOR);
        if numbers[0] > 0 || numbers[1] > 0 {
            let note = format!(
                "span and offset, in sectors of {SECTOR} B; Iometer's are those of the target"
            );
            self.class(entry, Approximate, note);
        } else {
            self.class(
                entry,
                Approximate,
                "all of the target; every block differs, whatever the pattern",
            );
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::fuzz::{driver, of_any};
    use super::super::plan::Job;
    use super::super::simulated::SimulatedHost;
    use super::*;

    const SAMPLE: &str = include_str!("../tests/fixtures/mixed.icf");

    /// Reads `text` with the targets of a user.
    fn with(text: &str, map: &[(&str, &str)]) -> Result<Imported, Malformed> {
        read(text, &SimulatedHost::default().targets(map))
    }

    /// A parameter as JSON.
    fn param(job: &Job, name: &str) -> Option<String> {
        job.params.get(name).map(ToString::to_string)
    }

    #[test]
    fn a_file_of_version_1_1_0_becomes_sweeps_by_specification() {
        let imported = with(SAMPLE, &[("sda", "/dev/sdx"), ("C: \"label\"", "/dev/sdy")])
            .expect("well formed");
        assert!(imported.keys.iter().all(|key| key.class != Refused), "{:#?}", imported.keys);
        let names: Vec<&str> = imported.sweeps.iter().map(|sweep| sweep.name.as_str()).collect();
        assert_eq!(names, ["4K 70/30", "Burst, unequal"]);
        let first = &imported.sweeps[0];
        assert_eq!(
            (first.seconds, first.warmup, &first.depths[..]),
            (90.0, 10.0, &[1, 2, 4, 8, 16, 32][..])
        );
        assert_eq!(
            first.jobs.len(),
            2,
            "two workers alike on one target, one on another: {:?}",
            first.jobs
        );
        assert_eq!(param(&first.jobs[0], "workers").as_deref(), Some("2"));
        let expected = "\"4096 B, weight 100 %, read 70 %, random 100 %, burst 1, align 4096 B\"";
        assert_eq!(param(&first.jobs[0], "access").as_deref(), Some(expected));
        let text = crate::plan::text("mixed", "mixed.icf", &imported);
        let (plan, problems) = linerate_model::plan::parse(&text);
        assert!(plan.is_some() && problems.is_empty(), "{problems:?}\n{text}");
        assert!(!text.contains("consent ="), "{text}");
        // The target `*` is for files without workers.
        let map = [("sda", "/dev/sdx"), ("C: \"label\"", "/dev/sdy"), (ANY, "/dev/sdz")];
        let again = with(SAMPLE, &map).expect("well formed");
        assert_eq!(crate::plan::text("mixed", "mixed.icf", &again), text);
    }

    #[test]
    fn a_target_without_a_name_here_is_refused_and_so_is_an_unsupported_key() {
        let refused = |text: &str| {
            let imported = with(text, &[("sda", "/dev/sdx")]).expect("well formed");
            imported
                .keys
                .into_iter()
                .filter(|key| key.class == Refused)
                .map(|key| key.note)
                .collect::<Vec<_>>()
        };
        assert_eq!(refused(SAMPLE), ["name it on this host: --map 'C: \"label\"=/dev/...'"]);
        for (from, to, why) in [
            ("CYCLE_OUTSTANDING_IOS", "CYCLE_TARGETS", "cycles of workers"),
            ("'Test Description", "'Test Foo", "this key is unknown"),
            ("\tDISK\n'Default", "\tNETWORK,TCP\n'Default", "cycle of depths"),
            ("\tDISK\n'Default", "\tNETWORK,VI\n'Default", "Virtual Interface"),
        ] {
            let text = SAMPLE.replacen(from, to, 1);
            assert_ne!(text, SAMPLE, "{from}");
            assert!(
                refused(&text).iter().any(|note| note.contains(why)),
                "{why}: {:?}",
                refused(&text)
            );
        }
    }

    #[test]
    fn a_starting_sector_is_an_offset_and_a_network_worker_a_stream() {
        let text = SAMPLE.replacen("\t0,0,0", "\t2048,8,0", 1).replacen(
            "CYCLE_OUTSTANDING_IOS",
            "NORMAL",
            1,
        );
        let map = [("sda", "/dev/sdx"), ("C: \"label\"", "/dev/sdy")];
        let imported = with(&text, &map).expect("well formed");
        assert!(imported.keys.iter().all(|key| key.class != Refused), "{:#?}", imported.keys);
        let first = &imported.sweeps[0].jobs[0];
        assert_eq!(param(first, "offset").as_deref(), Some("\"4096 B\""));
        assert_eq!(param(first, "span").as_deref(), Some("\"1048576 B\""));
        let network = text
            .replacen("\tDISK\n'Default", "\tNETWORK,TCP\n'Default", 1)
            .replace("4096,100,70,100", "4096,100,100,100");
        let imported = with(&network, &map).expect("well formed");
        let plan = crate::plan::text("mixed", "mixed.icf", &imported);
        assert!(
            plan.contains("workload = \"tcp_stream\"")
                && plan.contains("message_size = \"4096 B\""),
            "{plan}"
        );
        let (parsed, problems) = linerate_model::plan::parse(&plan);
        assert!(parsed.is_some() && problems.is_empty(), "{problems:?}\n{plan}");
    }

    #[test]
    fn a_test_of_the_connection_rate_opens_the_target_again_and_again() {
        let text = SAMPLE.replacen("16,DISABLED,1,DISABLED,0", "16,ENABLED,5,DISABLED,0", 1);
        assert_ne!(text, SAMPLE);
        let imported =
            with(&text, &[("sda", "/dev/sdx"), ("C: \"label\"", "/dev/sdy")]).expect("well formed");
        assert!(imported.keys.iter().all(|key| key.class != Refused), "{:#?}", imported.keys);
        let plan = crate::plan::text("mixed", "mixed.icf", &imported);
        assert!(plan.contains("reopen_every = 5"), "{plan}");
        let none = with(&text.replace("ENABLED,5", "ENABLED,0"), &[]).expect_err("no number");
        assert!(none.what.contains("no transactions per connection"), "{none:?}");
    }

    #[test]
    fn old_specifications_have_no_names_and_files_without_workers_a_target_of_the_readers() {
        let named = "'Access specification name,default assignment\n\tDefault,NONE\n'size,% of \
            size,% reads,% random,delay,burst,align,reply\n\t65536,100,100,0,0,1,0,0\n";
        let of = |specifications: &str| {
            format!(
                "Version 1.1.0\n'ACCESS SPECIFICATIONS ====\n{specifications}'END access \
                    specifications\n'MANAGER LIST ====\n'END manager list\nVersion 1.1.0\n"
            )
        };
        let bare = with(&of(named), &[]).expect("well formed");
        assert!(
            bare.sweeps.is_empty()
                && bare.keys.iter().any(|key| key.note.contains("--map '*=TARGET'")),
            "{bare:?}"
        );
        let mapped = with(&of(named), &[("*", "/dev/sdx")]).expect("well formed");
        assert!(mapped.keys.iter().all(|key| key.class != Refused), "{:?}", mapped.keys);
        assert_eq!((mapped.sweeps.len(), mapped.sweeps[0].jobs.len()), (1, 1));
        let old = of("'size, % of size, % reads, % random, delay, burst\n2048 100 67 100 0 1\n");
        let old = with(&old, &[("*", "/dev/sdx")]).expect("well formed");
        let access = param(&old.sweeps[0].jobs[0], "access").expect("set");
        assert!(access.starts_with("\"2048 B, weight 100 %, read 67 %"), "{access}");
    }

    #[test]
    fn a_file_that_is_cut_off_or_foreign_is_refused_with_its_place() {
        let lines: Vec<&str> = SAMPLE.lines().collect();
        for n in 0..lines.len() {
            let cut = lines[..n].join("\n");
            let wrong = with(&cut, &[]).expect_err("cut off");
            assert!(wrong.line <= n.max(1), "{n}: {wrong:?}");
        }
        let foreign = with("[global]\nrw=randread\n", &[]).expect_err("foreign");
        assert!(
            foreign.line == 1 && foreign.what.contains("not an Iometer configuration"),
            "{foreign:?}"
        );
        let shares = with(&SAMPLE.replacen("4096,100,", "4096,90,", 1), &[]).expect_err("90 %");
        assert!(shares.what.contains("add up to 90 %"), "{shares:?}");
    }

    proptest! {
        #[test]
        fn hostile_files_never_panic(text in "(Version 1\n)?(('[A-Za-z ,]{0,20}|[0-9A-Z, \
            \t=-]{0,20})\n){0,20}(Version 1)?", place in 0_usize..3_000, c: char) {
            let _any = with(&text, &[]);
            let mut changed: Vec<char> = SAMPLE.chars().collect();
            let place = place % changed.len();
            changed[place] = c;
            let _almost = with(&changed.into_iter().collect::<String>(), &[("sda", "/dev/sdx")]);
        }
    }

    #[test]
    fn fuzz_icf_files() {
        let words = [
            "'",
            "\n",
            ",",
            "'End",
            "'Worker",
            "'Target",
            "'Access specification",
            "\t",
            "-1",
            "DISK",
            "NETWORK,TCP",
            "100",
            "0",
            "'default assignment",
        ];
        driver::fuzz("icf_files", vec![SAMPLE.into()], &words, |bytes| of_any(read, bytes));
    }
}
