//! `cargo xtask bench compare [--rounds N] [--again N] [--beside PERCENT] [--program FILE] [--keep FILE.json] [--out FILE.md]`: what
//! `linerate compare` says of campaigns whose difference is known.
//!
//! Each round runs short campaigns of one plan (a stream, small and large requests) on a lab link of 100 Mbit/s, twice or more often
//! (`--again`), and once at 95 Mbit/s. Those of the same link, each against the one after it, are A/A: nothing changed, and no claim should be
//! made of any figure, in at least 95 of 100. The first against the slower one is a real change of 5 %, and should be found in goodput.
//! `--beside` runs stress-ng on every CPU for that share of the time meanwhile. What this does not see: campaigns of many points, and changes of
//! anything but the rate.

use std::cell::RefCell;
use std::cmp::Ordering;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use anyhow::{Context, bail, ensure};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::own;
use super::scan::Referee;

const USAGE: &str = "usage: cargo xtask bench compare [--rounds N] [--again N] [--beside PERCENT] [--program LINERATE] [--keep FILE.json] [--out FILE.md]";
const ROUNDS: usize = 100;
/// Rates of the link, Mbit/s.
const RATE: f64 = 100.0;
const SLOWER: f64 = 95.0;
/// Of the comparisons of what did not change, as many may claim something at most; of what did, as many must find it at least.
const MOST_CLAIMS: f64 = 0.05;
const LEAST_FOUND: f64 = 0.95;

/// Six runs: the fewest whose interval reaches 95 %.
const PLAN: &str = "[campaign]\nname = \"short\"\nrepeats = 6\nseed = SEED\n";
/// The sweeps, with what their job is: responses of 64 KiB pass on the link, those of 64 B in the CPUs.
const SWEEPS: [(&str, &str, &str); 3] = [
    ("stream", "tcp_stream", "direction = \"tx\", streams = 1, congestion = \"cubic\""),
    ("large", "tcp_rr", "request_size = \"64 B\", response_size = \"64 KiB\", streams = 1"),
    ("small", "tcp_rr", "request_size = \"64 B\", response_size = \"64 B\", streams = 1"),
];

/// What is asked for.
#[derive(Debug, Default, PartialEq)]
struct Options {
    rounds: usize,
    /// Campaigns of the same link after the first, in a round.
    again: usize,
    /// The share of the time for which a neighbour keeps every CPU busy, percent.
    beside: Option<u32>,
    program: Option<PathBuf>,
    /// Comparisons of earlier runs are read from here, and kept there with the new ones.
    keep: Option<PathBuf>,
    out: Option<PathBuf>,
}

/// What one comparison said.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Said {
    /// Figures compared, and of how many something was claimed.
    figures: usize,
    claimed: Vec<String>,
    /// Goodput: the verdict, the ratio and its interval.
    goodput: String,
    ratio: f64,
    interval: Option<(f64, f64)>,
    /// Why the goodput is unclear, as far as that has a name.
    #[serde(default)]
    doubt: Option<String>,
    /// The median time of large requests: the verdict, its doubt and the ratio.
    #[serde(default)]
    time: Option<(String, Option<String>, f64)>,
    /// Share of the CPUs' work that other programs had, before and after.
    #[serde(default)]
    others: Option<(f64, f64)>,
}

/// Both comparisons of every round.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Outcomes {
    same: Vec<Said>,
    slower: Vec<Said>,
}

/// A program beside the load that keeps every CPU busy for a share of the time; it ends when this is dropped.
struct Neighbour(Child);

impl Neighbour {
    fn start(percent: u32) -> anyhow::Result<Self> {
        // 0: one worker for each CPU.
        let load = percent.to_string();
        let mut command = Command::new("stress-ng");
        command.args(["--cpu", "0", "--cpu-load", &load, "--quiet"]);
        let child = command.stdin(Stdio::null()).spawn().context("start stress-ng (apt-get install stress-ng)")?;
        Ok(Self(child))
    }

    /// Fails if it has ended: what was measured then was measured alone.
    fn is_there(&mut self) -> anyhow::Result<()> {
        let ended = self.0.try_wait().context("look after stress-ng")?;
        ended.map_or(Ok(()), |status| bail!("stress-ng ended before the measurement did ({status})"))
    }
}

impl Drop for Neighbour {
    fn drop(&mut self) {
        // It ends its own children on SIGTERM, not on SIGKILL.
        let _ = Command::new("kill").arg(self.0.id().to_string()).status();
        let _ = self.0.wait();
    }
}

/// Runs the rounds, prints the table, and says whether it is as it should be.
pub(super) fn run(root: &Path, arguments: &[String]) -> anyhow::Result<bool> {
    let options = options(arguments)?;
    let program = match &options.program {
        Some(program) => program.clone(),
        None => own::build(root, "linerate", &["--bin", "linerate"])?,
    };
    let mut outcomes = match &options.keep {
        Some(file) if file.exists() => {
            let text = std::fs::read_to_string(file).with_context(|| format!("read {}", file.display()))?;
            serde_json::from_str(&text).with_context(|| format!("read {}: not kept by this bench", file.display()))?
        }
        _ => Outcomes::default(),
    };
    let folder = std::env::temp_dir().join(format!("linerate-compare-{}", std::process::id()));
    std::fs::create_dir(&folder).with_context(|| format!("make {}", folder.display()))?;
    let referee = RefCell::new(Referee::new(root, &program)?);
    let bench = Bench { program: &program, folder: &folder, referee: &referee, again: options.again };
    let mut neighbour = options.beside.map(Neighbour::start).transpose()?;
    let begun = outcomes.slower.len();
    for round in begun..begun + options.rounds {
        bench.round(round, &mut outcomes).with_context(|| format!("round {round}"))?;
        neighbour.as_mut().map_or(Ok(()), Neighbour::is_there)?;
        if let Some(file) = &options.keep {
            let text = serde_json::to_string(&outcomes)?;
            std::fs::write(file, text).with_context(|| format!("write {}", file.display()))?;
        }
    }
    drop(neighbour);
    // Nothing in it is of use to anybody.
    let _ = std::fs::remove_dir_all(&folder);
    let referee = referee.into_inner();
    let text = document(&outcomes) + "\n" + &referee.summary();
    print!("{text}");
    if let Some(file) = &options.out {
        std::fs::write(file, &text).with_context(|| format!("write {}", file.display()))?;
    }
    Ok(held(&outcomes) && referee.is_clean())
}

/// The program under test, and where it writes.
struct Bench<'a> {
    program: &'a Path,
    folder: &'a Path,
    referee: &'a RefCell<Referee>,
    again: usize,
}

impl Bench<'_> {
    fn round(&self, round: usize, outcomes: &mut Outcomes) -> anyhow::Result<()> {
        let begun = Instant::now();
        let same: Vec<String> = (0..=self.again).map(|number| format!("same-{number}")).collect();
        // Whoever comes first in a round finds the machine otherwise than who comes last: they take turns.
        let slower = round % (same.len() + 1);
        for place in 0..=same.len() {
            let seed = round * (same.len() + 1) + place;
            match place.cmp(&slower) {
                Ordering::Less => self.measure(&same[place], RATE, seed)?,
                Ordering::Equal => self.measure("slower", SLOWER, seed)?,
                Ordering::Greater => self.measure(&same[place - 1], RATE, seed)?,
            }
        }
        for two in same.windows(2) {
            outcomes.same.push(self.compare(&two[0], &two[1])?);
        }
        outcomes.slower.push(self.compare(&same[0], "slower")?);
        let told = |said: &Said| format!("{} ({:.4})", said.goodput, said.ratio);
        let of_round = outcomes.same.iter().rev().take(self.again).map(told).collect::<Vec<String>>().join(", ");
        let slower = outcomes.slower.last().map_or_else(String::new, told);
        eprintln!("round {round}: same {of_round}, slower {slower}, {:.0} s", begun.elapsed().as_secs_f64());
        Ok(())
    }

    /// One campaign over a link of `rate` Mbit/s into the ledger `name`.
    fn measure(&self, name: &str, rate: f64, seed: usize) -> anyhow::Result<()> {
        let lab = format!(
            "[lab]\nname = \"link\"\n[[host]]\nname = \"a\"\n[[host]]\nname = \"b\"\n[[link]]\nends = [\"a\", \"b\"]\nrate = \"{rate} Mbit/s\"\n\
             buffer = \"64 KiB\"\n"
        );
        let ledger = format!("{name}.ledger");
        let _none_before = std::fs::remove_file(self.folder.join(&ledger));
        std::fs::write(self.folder.join("lab.toml"), lab).context("write the lab")?;
        std::fs::write(self.folder.join("plan.toml"), plan(seed)).context("write the plan")?;
        let arguments = ["run", "plan.toml", "--lab", "./lab.toml", "--ledger", &ledger, "--out", "report", "-q"];
        let output = Command::new(self.program).args(arguments).current_dir(self.folder).output();
        let output = output.context("start linerate run")?;
        /// Some trial carries no figure: the comparison goes on with the others.
        const SPOILT: i32 = 3;
        let ended = output.status.success() || output.status.code() == Some(SPOILT);
        ensure!(ended, "linerate run: {}", String::from_utf8_lossy(&output.stderr));
        self.referee.borrow_mut().read(&self.folder.join(&ledger)).map(drop)
    }

    fn compare(&self, before: &str, after: &str) -> anyhow::Result<Said> {
        let [before, after] = [before, after].map(|name| format!("{name}.ledger"));
        let arguments = ["compare", &before, &after, "--json", "--out", "compared"];
        let output = Command::new(self.program).args(arguments).current_dir(self.folder).output();
        let output = output.context("start linerate compare")?;
        let told: Value = serde_json::from_slice(&output.stdout).with_context(|| {
            format!("linerate compare printed no JSON: {}", String::from_utf8_lossy(&output.stderr))
        })?;
        said(&told).context("the comparison has no goodput")
    }
}

/// The plan of a campaign.
fn plan(seed: usize) -> String {
    let mut plan = PLAN.replace("SEED", &seed.to_string());
    for (name, workload, params) in SWEEPS {
        let _infallible = write!(
            plan,
            "[[sweep]]\nname = \"{name}\"\nduration = \"200 ms\"\nwarmup = \"100 ms\"\ninterval = \"50 ms\"\ndrain = \"100 ms\"\n\
             rest = \"0 s\"\n[[sweep.job]]\nworkload = \"{workload}\"\nfrom = \"a\"\nto = \"b\"\nparams = {{ {params} }}\n"
        );
    }
    plan
}

/// What a comparison claims; `None` if it has no goodput.
fn said(told: &Value) -> Option<Said> {
    let points = told["comparison"]["points"].as_array()?;
    let of_all = || {
        let overall = told["comparison"]["overall"].as_array().into_iter().flatten().map(|one| ("all", &one["figure"]));
        let each = points.iter().flat_map(|point| {
            let sweep = point["sweep"].as_str().unwrap_or_default();
            point["figures"].as_array().into_iter().flatten().map(move |figure| (sweep, figure))
        });
        overall.chain(each)
    };
    let is_claim =
        |(_, figure): &(&str, &Value)| matches!(figure["effect"]["change"].as_str(), Some("better" | "worse"));
    let named = |(sweep, figure): (&str, &Value)| {
        Some(format!("{sweep} {} {}", figure["metric"].as_str()?, figure["direction"].as_str()?))
    };
    let effect = |sweep: &str, metric: &str| {
        let (_, figure) = of_all().find(|(of, figure)| *of == sweep && figure["metric"] == metric)?;
        Some(&figure["effect"])
    };
    let [stream, large, _] = SWEEPS.map(|(name, ..)| name);
    let goodput = effect(stream, "goodput")?;
    let ends = |interval: &Value| Some((interval[0].as_f64()?, interval[1].as_f64()?));
    let doubt = |effect: &Value| effect["doubt"].as_str().map(str::to_owned);
    let time = |effect: &Value| Some((effect["change"].as_str()?.to_owned(), doubt(effect), effect["shift"].as_f64()?));
    let company = &told["comparison"]["company"];
    Some(Said {
        figures: of_all().count(),
        claimed: of_all().filter(is_claim).filter_map(named).collect(),
        goodput: goodput["change"].as_str()?.to_owned(),
        ratio: goodput["shift"].as_f64()?,
        interval: ends(&goodput["interval"]),
        doubt: doubt(goodput),
        time: effect(large, "service_time_p50").and_then(time),
        others: company[0]["others"].as_f64().zip(company[1]["others"].as_f64()),
    })
}

fn held(outcomes: &Outcomes) -> bool {
    let share = |said: &[Said], of: fn(&Said) -> bool| {
        said.iter().filter(|one| of(one)).count() as f64 / said.len().max(1) as f64
    };
    share(&outcomes.same, |one| !one.claimed.is_empty()) <= MOST_CLAIMS
        && share(&outcomes.slower, |one| one.goodput == "worse") >= LEAST_FOUND
}

fn document(outcomes: &Outcomes) -> String {
    let mut text = String::from(
        "| link before and after | comparisons | goodput: worse | better | equivalent | unclear | goodput, ratio: smallest to largest | intervals that hold the truth | median time of 64 KiB: worse | better | equivalent | unclear | with any claim | figures compared | others' share of the CPUs' work: smallest to largest |\n\
         |---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|\n",
    );
    let rows = [(&outcomes.same, RATE), (&outcomes.slower, SLOWER)];
    for (said, after) in rows.into_iter().filter(|(said, _)| !said.is_empty()) {
        let n = said.len();
        let count = |word: &str| said.iter().filter(|one| one.goodput == word).count();
        let (least, most) =
            said.iter().fold((f64::INFINITY, 0.0_f64), |(a, b), one| (a.min(one.ratio), b.max(one.ratio)));
        let truth = after / RATE;
        let holds = |one: &&Said| one.interval.is_some_and(|(low, high)| low <= truth && truth <= high);
        let claims = said.iter().filter(|one| !one.claimed.is_empty()).count();
        let figures: usize = said.iter().map(|one| one.figures).sum();
        let timed =
            |word: &str| said.iter().filter(|one| one.time.as_ref().is_some_and(|(change, ..)| change == word)).count();
        let shares = said.iter().filter_map(|one| one.others).flat_map(|(before, after)| [before, after]);
        let others = shares.fold(None, |range: Option<(f64, f64)>, share| {
            let (low, high) = range.unwrap_or((share, share));
            Some((low.min(share), high.max(share)))
        });
        let others = others.map_or_else(|| "-".to_owned(), |(low, high)| format!("{low:.2} to {high:.2}"));
        let _infallible = writeln!(
            text,
            "| {RATE} and {after} Mbit/s | {n} | {} | {} | {} | {} | {least:.4} to {most:.4} | {} | {} | {} | {} | {} | {claims} | {figures} | {others} |",
            count("worse"),
            count("better"),
            // What `linerate compare` calls no change beyond the margin.
            count("none"),
            count("unclear"),
            said.iter().filter(holds).count(),
            timed("worse"),
            timed("better"),
            timed("none"),
            timed("unclear"),
        );
    }
    text.push_str(&verdicts(outcomes));
    text
}

/// The table in words: what was asked, and what was claimed of nothing.
fn verdicts(outcomes: &Outcomes) -> String {
    let (same, slower) = (outcomes.same.len(), outcomes.slower.len());
    let silent = outcomes.same.iter().filter(|one| one.claimed.is_empty()).count();
    let found = outcomes.slower.iter().filter(|one| one.goodput == "worse").count();
    let mut claimed: Vec<(&str, usize)> = Vec::new();
    for figure in outcomes.same.iter().flat_map(|one| &one.claimed) {
        match claimed.iter_mut().find(|(known, _)| known == figure) {
            Some((_, times)) => *times += 1,
            None => claimed.push((figure, 1)),
        }
    }
    let told: Vec<String> = claimed.iter().map(|(figure, times)| format!("{figure} {times} times")).collect();
    let told = if told.is_empty() { "nothing".to_owned() } else { told.join(", ") };
    let asked = |share: f64, n: usize| (share * n as f64).ceil();
    let doubts = |of: &dyn Fn(&Said) -> Option<String>| {
        let mut named: Vec<String> = outcomes.slower.iter().filter_map(of).collect();
        named.sort_unstable();
        let each = named.chunk_by(|a, b| a == b).map(|same| format!("{} {} times", same[0], same.len()));
        let told = each.collect::<Vec<String>>().join(", ");
        if told.is_empty() { "none".to_owned() } else { told }
    };
    let of_time = |one: &Said| one.time.as_ref().and_then(|(_, doubt, _)| doubt.clone());
    let slower_times = outcomes.slower.iter().filter(|one| one.time.as_ref().is_some_and(|(c, ..)| c == "worse"));
    format!(
        "\nNothing was changed: no claim of any figure in {silent} of {same} comparisons (at least {} asked for); claimed: {told}.\n\
         The link was made 5 % slower: found in {found} of {slower} (at least {} asked for), doubts: {}. Longer median time of large requests: \
         found in {} of {slower}, doubts: {}.\n",
        asked(1.0 - MOST_CLAIMS, same),
        asked(LEAST_FOUND, slower),
        doubts(&|one| one.doubt.clone()),
        slower_times.count(),
        doubts(&of_time),
    )
}

fn options(arguments: &[String]) -> anyhow::Result<Options> {
    let mut options = Options { rounds: ROUNDS, again: 1, ..Options::default() };
    let mut rest = arguments.iter();
    while let Some(flag) = rest.next() {
        let value = rest.next().context(USAGE)?;
        match flag.as_str() {
            "--rounds" => options.rounds = value.parse().context("--rounds takes a count")?,
            "--again" => options.again = value.parse().context("--again takes a count")?,
            "--beside" => options.beside = Some(value.parse().context("--beside takes a percentage")?),
            "--program" => options.program = Some(std::path::absolute(value)?),
            "--keep" => options.keep = Some(std::path::absolute(value)?),
            "--out" => options.out = Some(std::path::absolute(value)?),
            _ => bail!(USAGE),
        }
    }
    ensure!(options.again > 0, "--again 0 would compare nothing with itself: give 1 or more");
    Ok(options)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn told(change: &str) -> Value {
        let figure = |metric: &str, change: &str| json!({"metric": metric, "direction": "tx", "effect": {"change": change, "shift": 0.95, "interval": [0.94, 0.96]}});
        json!({"comparison": {
            "points": [
                {"sweep": "stream", "figures": [figure("goodput", change), figure("rtt", "unclear")]},
                {"sweep": "large", "figures": [figure("goodput", "none"), figure("service_time_p50", "worse")]},
            ],
            "company": [{"others": 0.4}, {"others": 0.5}],
        }})
    }

    #[test]
    fn claims_are_counted_and_goodput_is_read() {
        let worse = said(&told("worse")).expect("goodput");
        assert_eq!((worse.figures, worse.claimed.len()), (4, 2));
        assert_eq!(worse.claimed, ["stream goodput tx", "large service_time_p50 tx"]);
        assert_eq!((worse.time, worse.others), (Some(("worse".to_owned(), None, 0.95)), Some((0.4, 0.5))));
        assert_eq!((worse.goodput.as_str(), worse.ratio, worse.interval), ("worse", 0.95, Some((0.94, 0.96))));
        assert_eq!(said(&json!({"comparison": {"points": []}})), None);
    }

    #[test]
    fn a_claim_of_nothing_changed_and_a_change_not_found_are_told() {
        let of = |change: &str| {
            let mut said = said(&told(change)).expect("goodput");
            said.claimed.retain(|figure| figure.starts_with("stream"));
            said
        };
        let outcomes = |same: &str, slower: &str| Outcomes { same: vec![of(same)], slower: vec![of(slower)] };
        assert!(held(&outcomes("none", "worse")));
        assert!(!held(&outcomes("worse", "worse")) && !held(&outcomes("unclear", "unclear")));
        let text = document(&outcomes("none", "worse"));
        assert!(text.contains("| 100 and 100 Mbit/s | 1 | 0 | 0 | 1 | 0 |"), "{text}");
        assert!(text.contains("| 0.9500 to 0.9500 | 1 | 1 | 0 | 0 | 0 | 1 | 4 | 0.40 to 0.50 |"), "{text}");
        assert!(text.contains("in 1 of 1 comparisons (at least 1 asked for); claimed: nothing."), "{text}");
        let text = document(&outcomes("worse", "unclear"));
        assert!(
            text.contains("in 0 of 1 comparisons (at least 1 asked for); claimed: stream goodput tx 1 times."),
            "{text}"
        );
        assert!(text.contains("found in 0 of 1 (at least 1 asked for)"), "{text}");
    }

    #[test]
    fn options_are_read_or_refused() {
        let read = |text: &str| options(&text.split_whitespace().map(str::to_owned).collect::<Vec<_>>());
        assert_eq!(read("--rounds 3").expect("known").rounds, 3);
        assert_eq!(read("--again 4 --beside 45").map(|o| (o.again, o.beside)).expect("known"), (4, Some(45)));
        assert!(read("--again 0").is_err());
        assert!(read("--rounds").is_err() && read("--loud yes").is_err());
    }
}
