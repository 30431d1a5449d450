//! `cargo xtask bench compare [--rounds N] [--program FILE] [--keep FILE.json] [--out FILE.md]`: what `linerate compare` says of
//! campaigns whose difference is known.
//!
//! Each round runs short campaigns of one plan on a lab link of 100 Mbit/s, twice, and once at 95 Mbit/s. The first against the second is A/A:
//! nothing changed, and no claim should be made of any figure of it, in at least 95 of 100. The first against the third is a real change of 5 %, and should be found. What this
//! does not see: campaigns of many points, and changes of anything but the rate.

use std::cell::RefCell;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, bail, ensure};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::own;
use super::scan::Referee;

const USAGE: &str =
    "usage: cargo xtask bench compare [--rounds N] [--program LINERATE] [--keep FILE.json] [--out FILE.md]";
const ROUNDS: usize = 100;
/// Rates of the link, Mbit/s.
const RATE: f64 = 100.0;
const SLOWER: f64 = 95.0;
/// Of the comparisons of what did not change, as many may claim something at most; of what did, as many must find it at least.
const MOST_CLAIMS: f64 = 0.05;
const LEAST_FOUND: f64 = 0.95;

/// Six runs: the fewest whose interval reaches 95 %.
const PLAN: &str = "[campaign]\nname = \"short\"\nrepeats = 6\nseed = SEED\n[[sweep]]\nname = \"stream\"\nduration = \"200 ms\"\nwarmup = \"100 ms\"\n\
     interval = \"50 ms\"\ndrain = \"100 ms\"\nrest = \"0 s\"\n[[sweep.job]]\nworkload = \"tcp_stream\"\nfrom = \"a\"\nto = \"b\"\n\
     params = { direction = \"tx\", streams = 1, congestion = \"cubic\" }\n";

/// What is asked for.
#[derive(Debug, Default, PartialEq)]
struct Options {
    rounds: usize,
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
}

/// Both comparisons of every round.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Outcomes {
    same: Vec<Said>,
    slower: Vec<Said>,
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
    let bench = Bench { program: &program, folder: &folder, referee: &referee };
    let begun = outcomes.same.len();
    for round in begun..begun + options.rounds {
        bench.round(round, &mut outcomes).with_context(|| format!("round {round}"))?;
        if let Some(file) = &options.keep {
            let text = serde_json::to_string(&outcomes)?;
            std::fs::write(file, text).with_context(|| format!("write {}", file.display()))?;
        }
    }
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
}

impl Bench<'_> {
    fn round(&self, round: usize, outcomes: &mut Outcomes) -> anyhow::Result<()> {
        let begun = Instant::now();
        // Whoever comes first in a round finds the machine otherwise than who comes last: they take turns.
        let mut order = [("one", RATE), ("again", RATE), ("slower", SLOWER)];
        order.rotate_left(round % 3);
        for (number, (name, rate)) in order.into_iter().enumerate() {
            self.measure(name, rate, 3 * round + number)?;
        }
        let same = self.compare("one", "again")?;
        let slower = self.compare("one", "slower")?;
        eprintln!(
            "round {round}: same {} ({:.4}), slower {} ({:.4}), {:.0} s",
            same.goodput,
            same.ratio,
            slower.goodput,
            slower.ratio,
            begun.elapsed().as_secs_f64()
        );
        outcomes.same.push(same);
        outcomes.slower.push(slower);
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
        std::fs::write(self.folder.join("plan.toml"), PLAN.replace("SEED", &seed.to_string()))
            .context("write the plan")?;
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

/// What a comparison claims; `None` if it has no goodput.
fn said(told: &Value) -> Option<Said> {
    let point = &told["comparison"]["points"][0];
    let figures = point["figures"].as_array()?;
    let is_claim = |figure: &&Value| matches!(figure["effect"]["change"].as_str(), Some("better" | "worse"));
    let named = |figure: &Value| Some(format!("{} {}", figure["metric"].as_str()?, figure["direction"].as_str()?));
    let goodput = &figures.iter().find(|figure| figure["metric"] == "goodput")?["effect"];
    let ends = |interval: &Value| Some((interval[0].as_f64()?, interval[1].as_f64()?));
    Some(Said {
        figures: figures.len(),
        claimed: figures.iter().filter(is_claim).filter_map(named).collect(),
        goodput: goodput["change"].as_str()?.to_owned(),
        ratio: goodput["shift"].as_f64()?,
        interval: ends(&goodput["interval"]),
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
        "| link before and after | comparisons | goodput: worse | better | equivalent | unclear | goodput, ratio: smallest to largest | intervals that hold the truth | with any claim | figures compared |\n\
         |---|---|---|---|---|---|---|---|---|---|\n",
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
        let _infallible = writeln!(
            text,
            "| {RATE} and {after} Mbit/s | {n} | {} | {} | {} | {} | {least:.4} to {most:.4} | {} | {claims} | {figures} |",
            count("worse"),
            count("better"),
            // What `linerate compare` calls no change beyond the margin.
            count("none"),
            count("unclear"),
            said.iter().filter(holds).count()
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
    format!(
        "\nNothing was changed: no claim of any figure in {silent} of {same} comparisons (at least {} asked for); claimed: {told}.\n\
         The link was made 5 % slower: found in {found} of {slower} (at least {} asked for).\n",
        asked(1.0 - MOST_CLAIMS, same),
        asked(LEAST_FOUND, slower)
    )
}

fn options(arguments: &[String]) -> anyhow::Result<Options> {
    let mut options = Options { rounds: ROUNDS, ..Options::default() };
    let mut rest = arguments.iter();
    while let Some(flag) = rest.next() {
        let value = rest.next().context(USAGE)?;
        match flag.as_str() {
            "--rounds" => options.rounds = value.parse().context("--rounds takes a count")?,
            "--program" => options.program = Some(std::path::absolute(value)?),
            "--keep" => options.keep = Some(std::path::absolute(value)?),
            "--out" => options.out = Some(std::path::absolute(value)?),
            _ => bail!(USAGE),
        }
    }
    Ok(options)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn told(change: &str) -> Value {
        let figure = |metric: &str, change: &str| json!({"metric": metric, "direction": "tx", "effect": {"change": change, "shift": 0.95, "interval": [0.94, 0.96]}});
        json!({"comparison": {"points": [{"figures": [figure("goodput", change), figure("rtt", "unclear")]}]}})
    }

    #[test]
    fn claims_are_counted_and_goodput_is_read() {
        let worse = said(&told("worse")).expect("goodput");
        assert_eq!((worse.figures, worse.claimed.as_slice()), (2, &["goodput tx".to_owned()][..]));
        assert_eq!((worse.goodput.as_str(), worse.ratio, worse.interval), ("worse", 0.95, Some((0.94, 0.96))));
        assert_eq!(said(&json!({"comparison": {"points": []}})), None);
    }

    #[test]
    fn a_claim_of_nothing_changed_and_a_change_not_found_are_told() {
        let of = |change: &str| said(&told(change)).expect("goodput");
        let outcomes = |same: &str, slower: &str| Outcomes { same: vec![of(same)], slower: vec![of(slower)] };
        assert!(held(&outcomes("none", "worse")));
        assert!(!held(&outcomes("worse", "worse")) && !held(&outcomes("unclear", "unclear")));
        let text = document(&outcomes("none", "worse"));
        assert!(text.contains("| 100 and 100 Mbit/s | 1 | 0 | 0 | 1 | 0 |"), "{text}");
        assert!(text.contains("| 100 and 95 Mbit/s | 1 | 1 | 0 | 0 | 0 | 0.9500 to 0.9500 | 1 | 1 | 2 |"), "{text}");
        assert!(text.contains("in 1 of 1 comparisons (at least 1 asked for); claimed: nothing."), "{text}");
        let text = document(&outcomes("worse", "unclear"));
        assert!(text.contains("in 0 of 1 comparisons (at least 1 asked for); claimed: goodput tx 1 times."), "{text}");
        assert!(text.contains("found in 0 of 1 (at least 1 asked for)"), "{text}");
    }

    #[test]
    fn options_are_read_or_refused() {
        let read = |text: &str| options(&text.split_whitespace().map(str::to_owned).collect::<Vec<_>>());
        assert_eq!(read("--rounds 3").expect("known").rounds, 3);
        assert!(read("--rounds").is_err() && read("--loud yes").is_err());
    }
}
