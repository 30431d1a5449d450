//! `cargo xtask bench compare [--rounds N] [--again N] [--delay MICROSECONDS] [--beside PERCENT]
//! [--program FILE] [--keep FILE.json] [--out FILE.md]`: the claims of `linerate compare` on
//! campaigns with a known difference.
//!
//! Each round runs short campaigns of one plan on a lab link twice or more often (`--again`), and
//! once on the link with one thing changed: its rate (a stream, small and large requests at 100 and
//! 95 Mbit/s), or with `--delay` its round-trip time (small requests; that many microseconds, and a
//! tenth more). Campaigns of the same link, each against the one after it, are A/A: nothing
//! changed, and no claim should be made of any figure, in at least 95 of 100. The first against the
//! changed one is a real change, and should be found in the main figure (goodput, median response
//! time), or be withheld for a named reason. `--beside` runs stress-ng on every CPU for that share
//! of the time meanwhile. What this does not see: campaigns of many points, and paths that nothing
//! emulates.

use std::cell::RefCell;
use std::cmp::Ordering;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use anyhow::{Context, bail};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::markdown;
use super::options::{count, keep, kept, parsed, program, ran};
use super::scan::Referee;
use super::scratch::{Afterwards, Scratch};

/// Rates of the link, Mbit/s.
const RATE: f64 = 100.0;
const SLOWER: f64 = 95.0;
/// The changed round-trip time over the other one.
const LONGER: f64 = 1.1;
/// Of the comparisons of what did not change, as many may claim something at most; of what did, as
/// many must find it at least.
const MOST_CLAIMS: f64 = 0.05;
const LEAST_FOUND: f64 = 0.95;

/// Six runs: the fewest whose interval reaches 95 %.
const PLAN: &str = "[campaign]\nname = \"short\"\nrepeats = 6\nseed = SEED\n";
/// A sweep: its name, and what its job is.
type Sweep = (&'static str, &'static str, &'static str);
const STREAM: Sweep =
    ("stream", "tcp_stream", "direction = \"tx\", streams = 1, congestion = \"cubic\"");
/// Responses of 64 KiB pass on the link, those of 64 B in the CPUs and in the link's delay.
const LARGE: Sweep =
    ("large", "tcp_rr", "request_size = \"64 B\", response_size = \"64 KiB\", streams = 1");
const SMALL: Sweep =
    ("small", "tcp_rr", "request_size = \"64 B\", response_size = \"64 B\", streams = 1");
/// Round trips in a trial: a median needs ten beyond it.
const ROUND_TRIPS: u64 = 60;
const LEAST_MS: u64 = 200;

/// Change of the path, and where it should be found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Changed {
    /// The rate of the link, by 5 %.
    Rate,
    /// The round-trip time, in microseconds, by 10 %.
    Delay(u32),
}

/// A figure: its sweep, its metric, and what the table calls it.
type Figure = (&'static str, &'static str, &'static str);

impl Changed {
    /// Keys of the lab's link, before the change and after.
    fn links(self) -> [String; 2] {
        match self {
            Self::Rate => [RATE, SLOWER]
                .map(|rate| format!("rate = \"{rate} Mbit/s\"\nbuffer = \"64 KiB\"\n")),
            // Half of it each way, in nanoseconds.
            // The lab's delay is for one direction.
            Self::Delay(us) => [1.0, LONGER].map(|factor| {
                format!("delay = \"{:.0} ns\"\n", f64::from(us) * factor * 1000.0 / 2.0)
            }),
        }
    }

    fn named(self, is_changed: bool) -> String {
        match self {
            Self::Rate => format!("{RATE} and {} Mbit/s", if is_changed { SLOWER } else { RATE }),
            Self::Delay(us) => {
                let after = f64::from(us) * if is_changed { LONGER } else { 1.0 };
                format!("round trip of {us} and {after:.0} µs")
            }
        }
    }

    fn sweeps(self) -> &'static [Sweep] {
        match self {
            Self::Rate => &[STREAM, LARGE, SMALL],
            Self::Delay(_) => &[SMALL],
        }
    }

    /// The main figure, and another one that changes with it.
    fn figures(self) -> [Figure; 2] {
        match self {
            Self::Rate => [
                ("stream", "goodput", "goodput"),
                ("large", "response_time_p50", "median time of 64 KiB"),
            ],
            Self::Delay(_) => [
                ("small", "response_time_p50", "median time of 64 B"),
                ("small", "transaction_rate", "requests a second"),
            ],
        }
    }

    /// The ratio that the main figure should have where it was `before`: what is added to a time is
    /// known, not what it is added to.
    fn truth(self, before: f64) -> f64 {
        match self {
            Self::Rate => SLOWER / RATE,
            Self::Delay(us) => 1.0 + f64::from(us) * (LONGER - 1.0) / 1e6 / before,
        }
    }

    fn trial_ms(self) -> u64 {
        // Enough round trips for a median, also on a slow link.
        match self {
            Self::Rate => LEAST_MS,
            Self::Delay(us) => (u64::from(us) * ROUND_TRIPS / 1000).max(LEAST_MS),
        }
    }
}

/// Options of `bench compare`.
#[derive(Debug, clap::Parser)]
struct Options {
    /// Rounds
    #[arg(long, default_value = "100")]
    rounds: usize,
    /// Round-trip time in microseconds, which is changed instead of the rate
    // 0 would make a run that cannot fail, as would no second campaign.
    #[arg(long, value_parser = count::<u32>)]
    delay: Option<u32>,
    /// Campaigns of the same link after the first, in a round
    #[arg(long, value_parser = count::<usize>, default_value = "1")]
    again: usize,
    /// The share of the time for which a neighbour keeps every CPU busy, percent
    #[arg(long)]
    beside: Option<u32>,
    /// An already built linerate
    #[arg(long)]
    program: Option<PathBuf>,
    /// File of the comparisons of earlier runs, continued with the new ones
    #[arg(long)]
    keep: Option<PathBuf>,
    /// File of the table
    #[arg(long)]
    out: Option<PathBuf>,
}

impl Options {
    fn changed(&self) -> Changed {
        self.delay.map_or(Changed::Rate, Changed::Delay)
    }
}

/// Verdict of a comparison on one figure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Verdict {
    change: String,
    before: f64,
    ratio: f64,
    interval: Option<(f64, f64)>,
    /// Why nothing is claimed, as far as that has a name.
    doubt: Option<String>,
}

impl Verdict {
    fn of(effect: &Value) -> Option<Self> {
        let interval = &effect["interval"];
        Some(Self {
            change: effect["change"].as_str()?.to_owned(),
            before: effect["before"].as_f64()?,
            ratio: effect["shift"].as_f64()?,
            interval: interval[0].as_f64().zip(interval[1].as_f64()),
            doubt: effect["doubt"].as_str().map(str::to_owned),
        })
    }

    /// Why nothing is claimed: its doubt, or that its interval does not leave out no change.
    fn reason(&self) -> Option<&str> {
        // A claim of "no change" is a result as well; only "unclear" needs a reason.
        (self.change == "unclear").then(|| self.doubt.as_deref().unwrap_or("interval"))
    }
}

/// Result of one comparison.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Said {
    /// Figures compared, and of how many something was claimed.
    figures: usize,
    claimed: Vec<String>,
    /// The main figure, and the other one.
    main: Verdict,
    other: Option<Verdict>,
    /// Share of the CPUs' work that other programs had, before and after.
    others: Option<(f64, f64)>,
}

/// Both comparisons of every round.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Outcomes {
    same: Vec<Said>,
    changed: Vec<Said>,
}

/// A program beside the load that keeps every CPU busy for a share of the time; it ends when this
/// is dropped.
#[derive(Debug)]
struct Neighbour {
    /// Ends it, though this process be killed. It ends its own children on SIGTERM, not on SIGKILL.
    ender: Option<Afterwards>,
    child: Child,
}

impl Neighbour {
    fn start(percent: u32) -> anyhow::Result<Self> {
        // 0: one worker for each CPU.
        let load = percent.to_string();
        let mut command = Command::new("stress-ng");
        // It must not compete with the program under test for memory or disk, so it only computes.
        command.args(["--cpu", "0", "--cpu-load", &load, "--quiet"]);
        let child = command
            .stdin(Stdio::null())
            .spawn()
            .context("start stress-ng (apt-get install stress-ng)")?;
        let ender = Afterwards::run("kill \"$1\"", [child.id().to_string()])?;
        Ok(Self { ender: Some(ender), child })
    }

    /// Fails if it has ended: what was measured then was measured alone.
    fn is_there(&mut self) -> anyhow::Result<()> {
        let ended = self.child.try_wait().context("look after stress-ng")?;
        ended
            .map_or(Ok(()), |status| bail!("stress-ng ended before the measurement did ({status})"))
    }
}

impl Drop for Neighbour {
    fn drop(&mut self) {
        drop(self.ender.take());
        let _ = self.child.wait();
    }
}

/// Runs the rounds, prints the table, and says whether it is as it should be.
pub(super) fn run(root: &Path, arguments: &[String]) -> anyhow::Result<bool> {
    let options: Options = parsed("compare", arguments)?;
    let program = program(root, options.program.as_deref())?;
    let mut outcomes: Outcomes = kept(options.keep.as_deref())?;
    let scratch = Scratch::new("compare")?;
    let referee = RefCell::new(Referee::new(root, &program)?);
    let bench = Bench {
        program: &program,
        folder: scratch.path(),
        referee: &referee,
        changed: options.changed(),
        again: options.again,
    };
    let mut neighbour = options.beside.map(Neighbour::start).transpose()?;
    let begun = outcomes.changed.len();
    // Earlier rounds count on, so that every round has another seed and another order.
    for round in begun..begun + options.rounds {
        bench.round(round, &mut outcomes).with_context(|| format!("round {round}"))?;
        // A round that was measured without the neighbour must not be kept as one beside it.
        neighbour.as_mut().map_or(Ok(()), Neighbour::is_there)?;
        // Written after every round: a run that is cut off keeps what it has.
        keep(options.keep.as_deref(), serde_json::to_string(&outcomes)?)?;
    }
    drop(neighbour);
    let referee = referee.into_inner();
    let text = document(options.changed(), &outcomes) + "\n" + &referee.summary();
    print!("{text}");
    keep(options.out.as_deref(), &text)?;
    Ok(held(&outcomes, options.beside.is_some()) && referee.is_clean())
}

/// The program under test, and where it writes.
struct Bench<'a> {
    program: &'a Path,
    folder: &'a Path,
    referee: &'a RefCell<Referee>,
    changed: Changed,
    again: usize,
}

impl Bench<'_> {
    fn round(&self, round: usize, outcomes: &mut Outcomes) -> anyhow::Result<()> {
        let begun = Instant::now();
        let same: Vec<String> = (0..=self.again).map(|number| format!("same-{number}")).collect();
        let [link, changed_link] = self.changed.links();
        // Whoever comes first in a round finds the machine otherwise than who comes last: they take
        // turns.
        let turn = round % (same.len() + 1);
        for place in 0..=same.len() {
            // The seed decides the order of the trials, and must differ between campaigns.
            let seed = round * (same.len() + 1) + place;
            match place.cmp(&turn) {
                Ordering::Less => self.measure(&same[place], &link, seed)?,
                Ordering::Equal => self.measure("changed", &changed_link, seed)?,
                Ordering::Greater => self.measure(&same[place - 1], &link, seed)?,
            }
        }
        // Each campaign is compared with the next only: pairs that overlap more would not be
        // independent.
        for two in same.windows(2) {
            outcomes.same.push(self.compare(&two[0], &two[1])?);
        }
        outcomes.changed.push(self.compare(&same[0], "changed")?);
        fn told(said: &Said) -> String {
            let main = &said.main;
            let reason = main.reason().map_or_else(String::new, |reason| format!(", {reason}"));
            format!("{} ({:.4}{reason})", main.change, main.ratio)
        }
        let of_round = outcomes
            .same
            .iter()
            .rev()
            .take(self.again)
            .map(told)
            .collect::<Vec<String>>()
            .join(", ");
        let changed = outcomes.changed.last().map_or_else(String::new, told);
        eprintln!(
            "round {round}: same {of_round}, changed {changed}, {:.0} s",
            begun.elapsed().as_secs_f64()
        );
        Ok(())
    }

    /// One campaign over a link with these keys into the ledger `name`.
    fn measure(&self, name: &str, link: &str, seed: usize) -> anyhow::Result<()> {
        let lab = format!(
            "[lab]\nname = \"link\"\n[[host]]\nname = \"a\"\n[[host]]\nname \
                = \"b\"\n[[link]]\nends = [\"a\", \"b\"]\n{link}"
        );
        let ledger = format!("{name}.ledger");
        // A ledger that exists would refuse a new campaign.
        let _none_before = std::fs::remove_file(self.folder.join(&ledger));
        std::fs::write(self.folder.join("lab.toml"), lab).context("write the lab")?;
        std::fs::write(self.folder.join("plan.toml"), plan(self.changed, seed))
            .context("write the plan")?;
        let arguments = [
            "run",
            "plan.toml",
            "--lab",
            "./lab.toml",
            "--ledger",
            &ledger,
            "--out",
            "report",
            "-q",
        ];
        ran(Command::new(self.program).args(arguments).current_dir(self.folder))?;
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
        said(self.changed, &told).context("the comparison lacks its main figure")
    }
}

/// The plan of a campaign.
fn plan(changed: Changed, seed: usize) -> String {
    let mut plan = PLAN.replace("SEED", &seed.to_string());
    for (name, workload, params) in changed.sweeps() {
        let _infallible = write!(
            plan,
            "[[sweep]]\nname = \"{name}\"\nduration = \"{} ms\"\nwarmup = \"100 ms\"\ninterval \
                = \"50 ms\"\ndrain = \"100 ms\"\n\
             rest = \"0 s\"\n[[sweep.job]]\nworkload = \"{workload}\"\nfrom = \"a\"\nto \
             = \"b\"\nparams = {{ {params} }}\n",
            changed.trial_ms()
        );
    }
    plan
}

/// Returns the claims of a comparison, or `None` if it has no main figure.
fn said(changed: Changed, told: &Value) -> Option<Said> {
    let points = told["comparison"]["points"].as_array()?;
    // Overall figures and those of each point count: a false claim in any of them is false.
    let of_all = || figures(told, points);
    let is_claim = |(_, figure): &(&str, &Value)| {
        // "none" is a claim of equivalence, which is right where nothing changed.
        matches!(figure["effect"]["change"].as_str(), Some("better" | "worse"))
    };
    let named = |(sweep, figure): (&str, &Value)| {
        Some(format!("{sweep} {} {}", figure["metric"].as_str()?, figure["direction"].as_str()?))
    };
    let [main, other] = changed.figures().map(|(sweep, metric, _)| {
        let (_, figure) =
            of_all().find(|(of, figure)| *of == sweep && figure["metric"] == metric)?;
        Verdict::of(&figure["effect"])
    });
    let company = &told["comparison"]["company"];
    Some(Said {
        figures: of_all().count(),
        claimed: of_all().filter(is_claim).filter_map(named).collect(),
        main: main?,
        other,
        others: company[0]["others"].as_f64().zip(company[1]["others"].as_f64()),
    })
}

/// Returns each figure with its sweep; the overall figures have the sweep `all`.
fn figures<'a>(told: &'a Value, points: &'a [Value]) -> impl Iterator<Item = (&'a str, &'a Value)> {
    let overall = told["comparison"]["overall"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|one| ("all", &one["figure"]));
    let each = points.iter().flat_map(|point| {
        let sweep = point["sweep"].as_str().unwrap_or_default();
        point["figures"].as_array().into_iter().flatten().map(move |figure| (sweep, figure))
    });
    overall.chain(each)
}

/// Returns true if few claims were made without a change, and the change was found. Beside other
/// programs it may be withheld, but not denied.
fn held(outcomes: &Outcomes, is_beside: bool) -> bool {
    let share = |said: &[Said], of: &dyn Fn(&Said) -> bool| {
        // Without a comparison the share is zero, which fails the demand to find the change.
        said.iter().filter(|one| of(one)).count() as f64 / said.len().max(1) as f64
    };
    let is_found =
        |one: &Said| one.main.change == "worse" || (is_beside && one.main.change == "unclear");
    share(&outcomes.same, &|one| !one.claimed.is_empty()) <= MOST_CLAIMS
        && share(&outcomes.changed, &is_found) >= LEAST_FOUND
}

fn document(changed: Changed, outcomes: &Outcomes) -> String {
    let [(.., main), (.., other)] = changed.figures();
    let heads = [
        "link before and after".to_owned(),
        "comparisons".to_owned(),
        format!("{main}: worse"),
        "better".to_owned(),
        "equivalent".to_owned(),
        "unclear".to_owned(),
        "ratio: smallest to largest".to_owned(),
        "intervals that contain the truth".to_owned(),
        format!("{other}: worse"),
        "better".to_owned(),
        "equivalent".to_owned(),
        "unclear".to_owned(),
        "with any claim".to_owned(),
        "figures compared".to_owned(),
        "CPU share of other programs: smallest to largest".to_owned(),
    ];
    let mut cells = Vec::new();
    fn range(values: &mut dyn Iterator<Item = f64>, places: usize) -> String {
        let range = values.fold(None, |range: Option<(f64, f64)>, value| {
            let (low, high) = range.unwrap_or((value, value));
            Some((low.min(value), high.max(value)))
        });
        range.map_or_else(
            || "-".to_owned(),
            |(low, high)| format!("{low:.places$} to {high:.places$}"),
        )
    }
    // `none` is what `linerate compare` calls no change beyond the margin.
    const CHANGES: [&str; 4] = ["worse", "better", "none", "unclear"];
    let rows = [(&outcomes.same, false), (&outcomes.changed, true)];
    for (said, is_changed) in rows.into_iter().filter(|(said, _)| !said.is_empty()) {
        let counted = |of: &dyn Fn(&Said) -> Option<&Verdict>| {
            CHANGES.map(|change| n_of(said, of, change).to_string())
        };
        let truth = |one: &Said| if is_changed { changed.truth(one.main.before) } else { 1.0 };
        let holds = |one: &&Said| {
            one.main.interval.is_some_and(|(low, high)| low <= truth(one) && truth(one) <= high)
        };
        let shares =
            said.iter().filter_map(|one| one.others).flat_map(|(before, after)| [before, after]);
        // The order of the cells is that of the heads above.
        let mut row = vec![changed.named(is_changed).to_string(), said.len().to_string()];
        row.extend(counted(&|one| Some(&one.main)));
        row.push(range(&mut said.iter().map(|one| one.main.ratio), 4));
        row.push(said.iter().filter(holds).count().to_string());
        row.extend(counted(&|one| one.other.as_ref()));
        row.push(said.iter().filter(|one| !one.claimed.is_empty()).count().to_string());
        row.push(said.iter().map(|one| one.figures).sum::<usize>().to_string());
        row.push(range(&mut shares.into_iter(), 2));
        cells.push(row);
    }
    let mut text = markdown::table(&heads, &cells);
    text.push_str(&verdicts(changed, outcomes));
    text
}

/// `names` with how often each is there, or `none`.
fn tallied<'a>(names: impl Iterator<Item = &'a str>, none: &str) -> String {
    let mut named: Vec<&str> = names.collect();
    // `chunk_by` groups neighbours only, so equal names must be next to each other.
    named.sort_unstable();
    let each =
        named.chunk_by(|a, b| a == b).map(|same| format!("{} {} times", same[0], same.len()));
    let told = each.collect::<Vec<String>>().join(", ");
    if told.is_empty() { none.to_owned() } else { told }
}

/// The table in words: what was asked, what was claimed of nothing, and why what was not found was
/// not.
fn verdicts(changed: Changed, outcomes: &Outcomes) -> String {
    let (same, n_changed) = (outcomes.same.len(), outcomes.changed.len());
    let silent = outcomes.same.iter().filter(|one| one.claimed.is_empty()).count();
    let claimed = tallied(
        outcomes.same.iter().flat_map(|one| one.claimed.iter().map(String::as_str)),
        "nothing",
    );
    // Rounded up: a demand of 95 % of 10 is 10, not 9.
    let asked = |share: f64, n: usize| (share * n as f64).ceil();
    let found = |of: &dyn Fn(&Said) -> Option<&Verdict>, of_more: &str| {
        found_cell(&outcomes.changed, of, of_more)
    };
    let [(.., main), (.., other)] = changed.figures();
    format!(
        "\nNothing was changed: no claim of any figure in {silent} of {same} comparisons (at least \
            {} asked for); claimed: {claimed}.\n\
         Changed to {}: {main} {} (at least {} asked for where nothing else runs); {other} {}.\n",
        asked(1.0 - MOST_CLAIMS, same),
        changed.named(true),
        found(&|one| Some(&one.main), "worse"),
        asked(LEAST_FOUND, n_changed),
        found(&|one| one.other.as_ref(), "worse"),
    )
}

fn n_of(said: &[Said], of: &dyn Fn(&Said) -> Option<&Verdict>, change: &str) -> usize {
    said.iter().filter_map(of).filter(|verdict| verdict.change == change).count()
}

fn found_cell(changed: &[Said], of: &dyn Fn(&Said) -> Option<&Verdict>, of_more: &str) -> String {
    let (n, n_changed) = (n_of(changed, of, of_more), changed.len());
    let reasons = changed.iter().filter_map(of).filter_map(Verdict::reason);
    format!("found in {n} of {n_changed}, withheld for: {}", tallied(reasons, "none"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::options::words;
    use super::*;

    fn told(change: &str) -> Value {
        let figure = |metric: &str, change: &str| {
            let effect =
                json!({"change": change, "before": 0.001, "shift": 0.95, "interval": [0.94, 0.96]});
            json!({"metric": metric, "direction": "tx", "effect": effect})
        };
        json!({"comparison": {
            "points": [
                {"sweep": "stream", "figures": [figure("goodput", change), figure("rtt",
                    "unclear")]},
                {"sweep": "large", "figures": [figure("goodput", "none"),
                    figure("response_time_p50", "worse")]},
                {"sweep": "small", "figures": [figure("response_time_p50", change),
                    figure("transaction_rate", "none")]},
            ],
            "company": [{"others": 0.4}, {"others": 0.5}],
        }})
    }

    #[test]
    fn claims_are_counted_and_the_main_figure_is_read() {
        let worse = said(Changed::Rate, &told("worse")).expect("goodput");
        assert_eq!((worse.figures, worse.claimed.len()), (6, 3));
        assert_eq!(worse.claimed[..2], ["stream goodput tx", "large response_time_p50 tx"]);
        let verdict = Verdict {
            change: "worse".into(),
            before: 0.001,
            ratio: 0.95,
            interval: Some((0.94, 0.96)),
            doubt: None,
        };
        assert_eq!((worse.other, worse.others), (Some(verdict.clone()), Some((0.4, 0.5))));
        assert_eq!(worse.main, verdict);
        assert_eq!(said(Changed::Rate, &json!({"comparison": {"points": []}})), None);
        let delayed = said(Changed::Delay(1000), &told("unclear")).expect("a median time");
        let main = &delayed.main;
        assert_eq!((main.reason(), main.change.as_str()), (Some("interval"), "unclear"));
    }

    #[test]
    fn what_is_added_to_a_round_trip_is_known_and_not_what_it_is_added_to() {
        assert_eq!(Changed::Rate.links()[1], "rate = \"95 Mbit/s\"\nbuffer = \"64 KiB\"\n");
        let short = Changed::Delay(1000);
        assert_eq!(short.links(), ["delay = \"500000 ns\"\n", "delay = \"550000 ns\"\n"]);
        assert!((short.truth(1.25e-3) - 1.08).abs() < 1e-9);
        assert_eq!((short.trial_ms(), Changed::Delay(10_000).trial_ms()), (200, 600));
    }

    #[test]
    fn a_claim_of_nothing_changed_and_a_change_not_found_are_told() {
        let of = |change: &str| {
            let mut said = said(Changed::Rate, &told(change)).expect("goodput");
            said.claimed.retain(|figure| figure.starts_with("stream"));
            said
        };
        let outcomes = |same: &str, changed: &str| Outcomes {
            same: vec![of(same)],
            changed: vec![of(changed)],
        };
        for (same, changed, is_beside, expected) in [
            ("none", "worse", false, true),
            ("worse", "worse", false, false),
            ("unclear", "unclear", false, false),
            ("unclear", "unclear", true, true),
            ("unclear", "none", true, false),
        ] {
            let told = held(&outcomes(same, changed), is_beside);
            assert_eq!(told, expected, "{same}, {changed}, {is_beside}");
        }
        let found = [
            "| 100 and 100 Mbit/s | 1 | 0 | 0 | 1 | 0 |",
            "| 0.9500 to 0.9500 | 1 | 1 | 0 | 0 | 0 | 1 | 6 | 0.40 to 0.50 |",
            "in 1 of 1 comparisons (at least 1 asked for); claimed: nothing.",
        ];
        let missed = [
            "in 0 of 1 comparisons (at least 1 asked for); claimed: stream goodput tx 1 times.",
            "goodput found in 0 of 1, withheld for: interval 1 times",
        ];
        for (same, changed, parts) in [("none", "worse", &found[..]), ("worse", "unclear", &missed)]
        {
            let text = document(Changed::Rate, &outcomes(same, changed));
            assert!(parts.iter().all(|part| text.contains(part)), "{text}");
        }
    }

    #[test]
    fn options_are_read_or_refused() {
        let read = words::<Options>;
        assert_eq!(read("--rounds 3").expect("known").rounds, 3);
        let again = read("--again 4 --beside 45").expect("known");
        assert_eq!((again.again, again.beside), (4, Some(45)));
        assert_eq!(read("--delay 1000").expect("known").changed(), Changed::Delay(1000));
        assert!(read("--again 0").is_err() && read("--delay 0").is_err());
        assert!(read("--rounds").is_err() && read("--loud yes").is_err());
    }
}
