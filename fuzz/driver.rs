//! Fuzzing with a stable compiler: inputs are made from good ones, and nothing that is made of them
//! may panic, take long or fill memory.
//!
//! A subject is a function from bytes to a class of outcomes. An input with a new class is kept and
//! changed further, so that the search goes where the parser goes. Everything follows from a fixed
//! seed.
//!
//! As part of the tests a subject gets a few hundred inputs and nothing is said of time and memory,
//! as other tests run beside it. With `LINERATE_FUZZ_SECONDS` it runs for so long and is measured
//! too (`cargo xtask torture fuzz`). If an input ends the process itself,
//! `LINERATE_FUZZ_TRACE=FILE` leaves that input in FILE.

use std::collections::{BTreeMap, HashSet};
use std::fmt::{Debug, Write as _};
use std::hash::{DefaultHasher, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

/// Inputs of the short form.
const FEW: u64 = 500;
/// It ends after this, too, so that a slow parser does not make the tests long.
const SHORT: Duration = Duration::from_secs(2);
/// The longest input; measured, every [`SELDOM`]th may have [`MOST_MEASURED_BYTES`], so that what
/// grows faster than its input shows.
const MOST_BYTES: usize = 64 << 10;
const MOST_MEASURED_BYTES: usize = 1_000_000;
const SELDOM: usize = 16;
/// Inputs that are kept for new outcomes.
const MOST_KEPT: usize = 4_096;
/// What one input may take in a development build, of a CPU: beside other programs it may take
/// longer.
const MOST_TIME: Duration = Duration::from_secs(5);
const MOST_MEMORY_KIB: u64 = 256 << 10;
/// Inputs between two looks at the memory of the process.
const BATCH: usize = 256;
/// Findings that are told.
const MOST_FINDINGS: usize = 8;
/// Runs that make a found input smaller.
const SHRINKS: usize = 2_000;
/// Bytes of what an outcome says that tell it from others.
const CLASS_BYTES: usize = 400;

/// Numbers that parsers stumble over, as text.
const NUMBERS: [&str; 16] = [
    "0",
    "-1",
    "1",
    "00",
    "255",
    "256",
    "65535",
    "65536",
    "4294967295",
    "4294967296",
    "9223372036854775807",
    "9223372036854775808",
    "18446744073709551615",
    "18446744073709551616",
    "1e308",
    "99999999999999999999999999999999999999999",
];
/// The same in binary.
const VALUES: [u64; 12] = [
    0,
    1,
    0x7f,
    0x80,
    0xff,
    0x7fff,
    0x8000,
    0xffff,
    0x7fff_ffff,
    0xffff_ffff,
    0x7fff_ffff_ffff_ffff,
    0xffff_ffff_ffff_ffff,
];

/// Runs `subject` on inputs made from `corpus` and `words`, and prints what it came to.
///
/// # Panics
/// If an input panicked or took too much.
pub(crate) fn fuzz(
    name: &str,
    corpus: Vec<Vec<u8>>,
    words: &[&str],
    subject: impl Fn(&[u8]) -> u64,
) {
    assert!(!corpus.is_empty(), "nothing to begin with");
    let seconds: Option<u64> =
        std::env::var("LINERATE_FUZZ_SECONDS").ok().and_then(|text| text.parse().ok());
    let mut search = Search::new(0x6c69_6e65_7261_7465, corpus, words);
    search.is_long_tried = seconds.is_some();
    let mut findings = Findings::default();
    let trace = std::env::var_os("LINERATE_FUZZ_TRACE");
    let (began, mut n_inputs, mut longest) = (Instant::now(), 0_u64, Duration::ZERO);
    let mut memory = Memory::default();
    loop {
        let most = seconds.map_or(SHORT, Duration::from_secs);
        let is_over = began.elapsed() >= most || seconds.is_none() && n_inputs >= FEW;
        if is_over || findings.0.len() >= MOST_FINDINGS {
            break;
        }
        let input = search.next(n_inputs);
        n_inputs += 1;
        if let Some(path) = &trace {
            std::fs::write(path, &input).expect("the trace is written");
        }
        let started = Instant::now();
        let ended = attempt(&subject, &input);
        let took = started.elapsed();
        match ended {
            Ok(class) => {
                if seconds.is_some() {
                    longest = longest.max(took);
                    // Another program may have had the CPU meanwhile.
                    if took > MOST_TIME && is_slow(&subject, &input) {
                        findings.add(format!("takes {took:?}"), input.clone());
                    }
                    memory.after(&subject, &input, &mut findings);
                }
                search.keep(class, input);
            }
            Err(panic) => findings.add_panic(panic, input, &subject),
        }
    }
    let time = began.elapsed().as_secs_f64();
    print!(
        "fuzz {name}: {n_inputs} inputs in {time:.1} s, {} classes of outcomes",
        search.seen.len()
    );
    if seconds.is_some() {
        print!(", at most {:.1} ms and {} MiB", longest.as_secs_f64() * 1e3, memory.most_kib >> 10);
    }
    println!(", {} findings", findings.0.len());
    for (what, input) in &findings.0 {
        println!(
            "{name}: {what}: {} bytes b\"{}\"",
            input.len(),
            input[..input.len().min(600)].escape_ascii()
        );
    }
    assert!(findings.0.is_empty(), "{name}: {} findings", findings.0.len());
}

/// The class of an outcome: what it says but for digits, so that two that differ in a number are
/// one.
pub(crate) fn class(outcome: &impl Debug) -> u64 {
    struct Words(DefaultHasher, usize);
    impl std::fmt::Write for Words {
        fn write_str(&mut self, text: &str) -> std::fmt::Result {
            text.bytes()
                .filter(|byte| !byte.is_ascii_digit())
                .for_each(|byte| self.0.write_u8(byte));
            self.1 += text.len();
            if self.1 > CLASS_BYTES { Err(std::fmt::Error) } else { Ok(()) }
        }
    }
    let mut words = Words(DefaultHasher::new(), 0);
    // It stops when enough was said.
    let _ = write!(words, "{outcome:?}");
    words.0.finish()
}

fn attempt(subject: &impl Fn(&[u8]) -> u64, input: &[u8]) -> Result<u64, String> {
    catch_unwind(AssertUnwindSafe(|| subject(input))).map_err(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("panics");
        text.chars().take(300).collect()
    })
}

fn is_slow(subject: &impl Fn(&[u8]) -> u64, input: &[u8]) -> bool {
    let before = on_cpu();
    let _again = attempt(subject, input);
    on_cpu().saturating_sub(before) > MOST_TIME
}

/// How long this thread has had a CPU (the first field of `schedstat`, ns).
fn on_cpu() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    Duration::from_nanos(
        text.split_whitespace().next().and_then(|field| field.parse().ok()).unwrap_or(0),
    )
}

/// What went wrong, and an input that does it.
#[derive(Default)]
struct Findings(BTreeMap<String, Vec<u8>>);

impl Findings {
    fn add(&mut self, what: String, input: Vec<u8>) {
        self.0.entry(what).or_insert(input);
    }

    /// Keeps the smallest input found that panics in the same words, numbers aside.
    fn add_panic(&mut self, what: String, mut input: Vec<u8>, subject: &impl Fn(&[u8]) -> u64) {
        let plain = |text: &str| {
            text.chars().filter(|c| c.is_ascii_alphabetic()).take(60).collect::<String>()
        };
        if self.0.keys().any(|known| plain(known) == plain(&what)) {
            return;
        }
        let mut length = input.len() / 2;
        let mut runs = 0;
        while length > 0 && runs < SHRINKS {
            let mut at = 0;
            while at + length <= input.len() && runs < SHRINKS {
                let smaller = [&input[..at], &input[at + length..]].concat();
                runs += 1;
                if attempt(subject, &smaller).is_err_and(|found| plain(&found) == plain(&what)) {
                    input = smaller;
                } else {
                    at += length;
                }
            }
            length /= 2;
        }
        self.0.insert(what, input);
    }
}

/// The memory of the process, looked at after every few inputs (`VmHWM`, which
/// `/proc/self/clear_refs` sets back; proc(5)).
#[derive(Default)]
struct Memory {
    batch: Vec<Vec<u8>>,
    before_kib: u64,
    most_kib: u64,
}

impl Memory {
    fn after(&mut self, subject: &impl Fn(&[u8]) -> u64, input: &[u8], findings: &mut Findings) {
        if self.batch.is_empty() {
            self.before_kib = start_over();
        }
        self.batch.push(input.to_vec());
        if self.batch.len() < BATCH {
            return;
        }
        let batch = std::mem::take(&mut self.batch);
        let taken = kib("VmHWM:").saturating_sub(self.before_kib);
        self.most_kib = self.most_kib.max(taken);
        if taken <= MOST_MEMORY_KIB {
            return;
        }
        for input in batch {
            let before = start_over();
            let _again = attempt(subject, &input);
            let taken = kib("VmHWM:").saturating_sub(before);
            if taken > MOST_MEMORY_KIB {
                findings.add(format!("takes {} MiB", taken >> 10), input);
            }
        }
    }
}

/// Sets the peak back, and returns what is held now.
fn start_over() -> u64 {
    // Where it is not allowed the peak is that of the whole run: larger than true, never smaller.
    let _ = std::fs::write("/proc/self/clear_refs", "5");
    kib("VmRSS:")
}

fn kib(name: &str) -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    line.and_then(|rest| rest.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

/// Where inputs come from.
pub(crate) struct Search<'a> {
    random: u64,
    words: &'a [&'a str],
    corpus: Vec<Vec<u8>>,
    seen: HashSet<u64>,
    /// Whether some inputs have up to [`MOST_MEASURED_BYTES`].
    is_long_tried: bool,
    /// The longest that the input in the making may become.
    most_bytes: usize,
}

impl<'a> Search<'a> {
    pub(crate) fn new(seed: u64, corpus: Vec<Vec<u8>>, words: &'a [&'a str]) -> Self {
        let seen = HashSet::new();
        Self { random: seed, words, corpus, seen, is_long_tried: false, most_bytes: MOST_BYTES }
    }

    /// The first inputs are those of the corpus as they are.
    fn next(&mut self, number: u64) -> Vec<u8> {
        if let Some(good) = usize::try_from(number).ok().and_then(|at| self.corpus.get(at)) {
            return good.clone();
        }
        let at = self.below(self.corpus.len());
        let mut input = self.corpus[at].clone();
        let is_long = self.is_long_tried && self.below(SELDOM) == 0;
        self.most_bytes = if is_long { MOST_MEASURED_BYTES } else { MOST_BYTES };
        for _ in 0..=self.below(6) {
            self.change(&mut input);
        }
        if is_long {
            self.lengthen(&mut input);
        }
        input.truncate(self.most_bytes);
        input
    }

    /// Repeats a part of `input` until it is as long as one may be.
    fn lengthen(&mut self, input: &mut Vec<u8>) {
        let part = self.part(input);
        let n_times = self.most_bytes.saturating_sub(input.len()) / part.len().max(1);
        let piece = input[part.clone()].repeat(n_times);
        input.splice(part.end..part.end, piece);
    }

    fn keep(&mut self, class: u64, input: Vec<u8>) {
        // What is made of a long one would be long.
        let is_kept = input.len() <= MOST_BYTES && self.corpus.len() < MOST_KEPT;
        if self.seen.insert(class) && is_kept {
            self.corpus.push(input);
        }
    }

    /// Sebastiano Vigna's SplitMix64.
    pub(crate) fn number(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.random;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, n: usize) -> usize {
        (self.number() % n.max(1) as u64) as usize
    }

    /// A part of `input`, mostly a short one.
    fn part(&mut self, input: &[u8]) -> std::ops::Range<usize> {
        let start = self.below(input.len() + 1);
        let most =
            if self.below(4) == 0 { input.len() - start } else { (input.len() - start).min(16) };
        start..start + self.below(most + 1)
    }

    /// Makes one change.
    pub(crate) fn change(&mut self, input: &mut Vec<u8>) {
        let part = self.part(input);
        match self.below(12) {
            0 if !input.is_empty() => {
                let at = self.below(input.len());
                input[at] ^= 1 << self.below(8);
            }
            1 if !input.is_empty() => {
                let at = self.below(input.len());
                input[at] = self.number() as u8;
            }
            2 => {
                let bytes = self.number().to_le_bytes();
                let n = self.below(9);
                input.splice(part, bytes[..n].iter().copied());
            }
            3 => drop(input.drain(part)),
            4 => {
                // Nested and repeated things are where memory and stacks end.
                let n_times = [1, 2, 16, 256, 4_096][self.below(5)];
                let piece = input[part.clone()].to_vec();
                let n_times = n_times.min(self.most_bytes / piece.len().max(1));
                input.splice(part.end..part.end, piece.repeat(n_times));
            }
            5 => {
                let value = VALUES[self.below(VALUES.len())];
                let width = [1, 2, 4, 8][self.below(4)];
                let bytes =
                    if self.below(2) == 0 { value.to_le_bytes() } else { value.to_be_bytes() };
                let bytes = if self.below(2) == 0 { &bytes[..width] } else { &bytes[8 - width..] };
                let end = (part.start + width).min(input.len());
                input.splice(part.start..end, bytes.iter().copied());
            }
            6 | 7 => {
                // The number that stands there, if one does.
                let start = input[part.start..]
                    .iter()
                    .position(u8::is_ascii_digit)
                    .map_or(part.start, |at| part.start + at);
                let n_digits =
                    input[start..].iter().take_while(|byte| byte.is_ascii_digit()).count();
                let number = NUMBERS[self.below(NUMBERS.len())];
                input.splice(start..start + n_digits, number.bytes());
            }
            8 if !self.words.is_empty() => {
                let word = self.words[self.below(self.words.len())];
                let end = if self.below(2) == 0 { part.start } else { part.end };
                input.splice(part.start..end, word.bytes());
            }
            9 => {
                let other = self.below(self.corpus.len());
                let other = self.corpus[other].clone();
                let piece = self.part(&other);
                input.splice(part, other[piece].iter().copied());
            }
            10 => input.truncate(part.start),
            11 => {
                let piece: Vec<u8> = input.drain(part).collect();
                let at = self.below(input.len() + 1);
                input.splice(at..at, piece);
            }
            _ => input.push(self.number() as u8),
        }
    }
}
