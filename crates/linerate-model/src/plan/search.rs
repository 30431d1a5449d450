//! `[sweep.search]`: what is searched, by which goal, and how long its trials are.
//!
//! Every kind of goal has defaults of its standard; what is written changes them for every goal of
//! the search.

use std::ops::{Range, RangeInclusive};

use toml::Spanned;
use toml::de::DeValue;

use super::fields::{Fields, Problems, wrong_type, wrong_value};
use crate::{BitRate, Goal, LoadUnit, Method, Nanos, PacketRate, Ratio, nearest};

/// Goals by name, as a plan writes them: the name, and what it is.
pub(crate) const GOALS: &[(&str, &str)] = &[
    ("back-to-back", "RFC 9004: the longest burst without loss, and the buffer it implies"),
    ("frmol", "RFC 2285: the forwarding rate at the highest load"),
    ("latency", "RFC 2544 26.2, RFC 8219: latency at 1, 10, 50, 90 and 100 % of the throughput"),
    ("loss-curve", "RFC 2544 26.3: the loss ratio over the load"),
    (
        "mlr",
        "RFC 9971, both at once: no loss (NDR) and at most 0.5 % (PDR) in half of 21 trials of 1 s",
    ),
    ("mlr-ndr", "RFC 9971: no loss in half of 21 trials of 1 s"),
    ("mlr-pdr", "RFC 9971: at most 0.5 % loss in half of 21 trials of 1 s"),
    ("mlr-rfc2544", "RFC 9971 with the goal of RFC 2544: no loss in one trial of 60 s"),
    ("mlr-tst009", "RFC 9971 with the goal of TST009: no loss in one of two trials of 60 s"),
    ("recovery", "RFC 2544 26.5: how long losses go on after an overload of 110 % ends"),
    ("rfc2544", "RFC 2544 26.1: no loss, by halving, verified for 60 s"),
    ("tst009", "ETSI GS NFV-TST 009 12.3.3: the same, where one of two trials may lose"),
    ("y1564", "Y.1564: the committed rate in steps of 25, 50, 75 and 100 %, then for longer"),
];

/// Known keys.
const KEYS: &[&str] = &[
    "metric",
    "goal",
    "min",
    "max",
    "width",
    "trial",
    "search_trial",
    "duration_sum",
    "loss_ratio",
    "warmup",
    "self_test",
    "wire",
    "repeats",
    "max_trials",
    "max_duration",
    "step",
    "fine_step",
    "bursts",
    "longest_burst",
    "overload",
    "after",
    "overloads",
    "latency_trial",
    "latency_repeats",
    "performance",
];
/// Known keys of an explicit goal.
const GOAL_KEYS: &[&str] =
    &["name", "loss_ratio", "exceed_ratio", "width", "search_trial", "trial", "duration_sum"];

/// Searches per point: enough to see their spread (docs/methodology/searches.md#results).
const DEFAULT_REPEATS: u32 = 3;
/// Most trials of one search: MLRsearch of two goals takes 40 on a quiet device, three times that
/// on a restless one.
const DEFAULT_MAX_TRIALS: u32 = 300;
/// Most time in the trials of one search: two hours hold a strict search that has to retreat often.
const DEFAULT_MAX_DURATION: Nanos = Nanos::from_secs(2 * 3600);
/// The first trial, whose figures are not used (CSIT).
const DEFAULT_WARMUP: Nanos = Nanos::from_secs(1);
/// Length of the tester's own trial.
const DEFAULT_SELF_TEST: Nanos = Nanos::from_secs(1);
/// Length of a trial that times frames (RFC 2544 26.2: two minutes; RFC 8219 7.2: from the 60th
/// second on).
const DEFAULT_LATENCY_TRIAL: Nanos = Nanos::from_secs(120);
/// Trials at each load (RFC 8219 7.2).
const DEFAULT_LATENCY_REPEATS: u32 = 20;
/// Shares of the throughput at which frames are timed: next to idle, and those of CSIT.
const LATENCY_SHARES: [f64; 5] = [0.01, 0.1, 0.5, 0.9, 1.0];
/// Longest of any time here.
const LONGEST: Nanos = Nanos::from_secs(24 * 3600);
/// Shortest trial.
const SHORTEST: Nanos = Nanos::from_millis(10);

/// A load as a plan writes it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum LoadLimit {
    /// Of the path's ceiling.
    Share(f64),
    /// A rate.
    Load(f64, LoadUnit),
}

/// A search as a plan writes it.
#[derive(Clone, Debug, PartialEq)]
pub struct SearchPlan {
    /// The parameter that is the load.
    pub parameter: String,
    /// How.
    pub method: Method,
    /// Lowest load; a share is one of the highest load.
    pub min: LoadLimit,
    /// Highest load.
    pub max: LoadLimit,
    /// See [`crate::Search`].
    pub warmup: Nanos,
    /// See [`crate::Search`].
    pub self_test: Nanos,
    /// Endpoints, active and passive, that a wire joins: the device is replaced by it in the
    /// self-test.
    pub wire: Option<(String, String)>,
    /// Searches per point.
    pub repeats: u32,
    /// See [`crate::Search`].
    pub max_trials: u32,
    /// See [`crate::Search`].
    pub max_duration: Nanos,
    /// Where it stands in the text.
    pub span: Option<Range<usize>>,
    /// Where `metric` and `max` stand.
    pub spans: (Range<usize>, Range<usize>),
}

/// Reads `[sweep.search]`.
pub(super) fn search(value: &Spanned<DeValue<'_>>, problems: &Problems) -> Option<SearchPlan> {
    let fields = Fields::of(value, "`search`", KEYS, problems)?;
    let parameter = fields.text("metric", "the parameter that is the load, such as \"rate\"");
    let written = Written::read(&fields);
    let method = method(&fields, &written);
    let min = limit_or(&fields, "min", LoadLimit::Share(0.01));
    let max = limit_or(&fields, "max", LoadLimit::Share(1.0));
    if let (LoadLimit::Load(low, one), LoadLimit::Load(high, other)) = (min, max)
        && (one != other || low >= high)
    {
        fields.wrong("min", "`min` is not below `max`", "a lower load, in the same unit");
    }
    let read = SearchPlan {
        parameter: parameter.unwrap_or("rate").to_owned(),
        // What it would be does not matter where it could not be read: the plan is not run.
        method: method.clone().unwrap_or(Method::Frmol { trial: Nanos(0) }),
        min,
        max,
        warmup: fields.time("warmup", Nanos(0)..=LONGEST, DEFAULT_WARMUP),
        self_test: fields.time("self_test", Nanos(0)..=LONGEST, DEFAULT_SELF_TEST),
        wire: wire(&fields),
        repeats: fields.count_32("repeats", 1..=1000, DEFAULT_REPEATS),
        max_trials: fields.count_32("max_trials", 1..=10_000, DEFAULT_MAX_TRIALS),
        max_duration: fields.time(
            "max_duration",
            SHORTEST..=Nanos::from_secs(30 * 24 * 3600),
            DEFAULT_MAX_DURATION,
        ),
        span: Some(value.span()),
        spans: (fields.span_of("metric"), fields.span_of("max")),
    };
    method.is_some().then_some(read)
}

/// Values that every goal of the search shares.
#[derive(Clone, Copy, Debug, Default)]
struct Written {
    width: Option<f64>,
    loss_ratio: Option<f64>,
    trial: Option<Nanos>,
    search_trial: Option<Nanos>,
    duration_sum: Option<Nanos>,
}

impl Written {
    fn read(fields: &Fields<'_, '_>) -> Self {
        Self {
            width: ratio(fields, "width", 1e-6..=0.5),
            loss_ratio: ratio(fields, "loss_ratio", 0.0..=0.99),
            trial: trial_time(fields, "trial"),
            search_trial: trial_time(fields, "search_trial"),
            duration_sum: trial_time(fields, "duration_sum"),
        }
    }

    /// `goal` with what is written instead of its defaults. Times that are not written follow those
    /// that are.
    fn over(&self, goal: Goal) -> Goal {
        let final_trial = self.trial.unwrap_or(goal.final_trial);
        // A longer trial keeps the number of trials that decide, so their sum grows in proportion.
        let trials = goal.duration_sum.as_secs_f64() / goal.final_trial.as_secs_f64();
        let sum = Nanos::from_secs_f64(trials * final_trial.as_secs_f64());
        Goal {
            loss_ratio: self.loss_ratio.unwrap_or(goal.loss_ratio),
            width: self.width.unwrap_or(goal.width),
            // A first trial longer than the final one would make the search slower than no search.
            initial_trial: self.search_trial.unwrap_or(goal.initial_trial).min(final_trial),
            // A sum shorter than one trial could never be reached.
            duration_sum: self.duration_sum.unwrap_or(sum).max(final_trial),
            final_trial,
            ..goal
        }
    }
}

/// A goal of trials of `trial_s` seconds, that many of which decide.
fn goal(name: &str, loss_ratio: f64, exceed_ratio: f64, trial_s: u64, sum_s: u64) -> Goal {
    Goal {
        name: name.into(),
        loss_ratio,
        exceed_ratio,
        width: 0.005,
        initial_trial: Nanos::from_secs(1),
        final_trial: Nanos::from_secs(trial_s),
        duration_sum: Nanos::from_secs(sum_s),
    }
}

fn ndr() -> Goal {
    goal("NDR", 0.0, 0.5, 1, 21)
}

fn pdr() -> Goal {
    goal("PDR", 0.005, 0.5, 1, 21)
}

fn rfc2544() -> Goal {
    goal("RFC 2544", 0.0, 0.0, 60, 60)
}

fn tst009() -> Goal {
    goal("TST009", 0.0, 0.5, 60, 120)
}

fn method(fields: &Fields<'_, '_>, written: &Written) -> Option<Method> {
    let problems = fields.problems;
    let Some(value) = fields.get("goal") else {
        return Some(Method::Mlr { goals: vec![written.over(ndr()), written.over(pdr())] });
    };
    match value.get_ref() {
        DeValue::String(word) => named(word, value, fields, written),
        DeValue::Table(_) => Some(Method::Mlr { goals: vec![explicit(value, 0, problems)?] }),
        // An empty list asks for no goal, which is a mistake.
        DeValue::Array(values) if !values.is_empty() => {
            let goals =
                values.iter().enumerate().map(|(number, value)| explicit(value, number, problems));
            Some(Method::Mlr { goals: goals.collect::<Option<_>>()? })
        }
        _ => {
            let expected = "the name of a goal, a table of its values, or a list of such tables";
            problems.push(wrong_type(value, "`goal`", expected));
            None
        }
    }
}

fn named(
    word: &str,
    value: &Spanned<DeValue<'_>>,
    fields: &Fields<'_, '_>,
    written: &Written,
) -> Option<Method> {
    let trial = |default| written.trial.unwrap_or(default);
    let time = |key, default| fields.time(key, SHORTEST..=LONGEST, default);
    let mlr = |goal| Some(Method::Mlr { goals: vec![written.over(goal)] });
    match word {
        "mlr" => Some(Method::Mlr { goals: vec![written.over(ndr()), written.over(pdr())] }),
        "mlr-ndr" => mlr(ndr()),
        "mlr-pdr" => mlr(pdr()),
        "mlr-rfc2544" => mlr(rfc2544()),
        "mlr-tst009" => mlr(tst009()),
        // RFC 2544 accepts no lossy trial. TST009 repeats one before it rejects the load.
        "rfc2544" => Some(Method::Halving { goal: written.over(rfc2544()), repeats: 0 }),
        "tst009" => Some(Method::Halving { goal: written.over(tst009()), repeats: 1 }),
        "loss-curve" => Some(Method::LossCurve {
            trial: trial(Nanos::from_secs(10)),
            step: ratio(fields, "step", 0.01..=0.1).unwrap_or(0.1),
            fine_step: ratio(fields, "fine_step", 0.001..=0.1).unwrap_or(0.01),
        }),
        "back-to-back" => Some(Method::BackToBack {
            longest: fields.time(
                "longest_burst",
                Nanos::from_millis(1)..=LONGEST,
                Nanos::from_secs(2),
            ),
            goal: written.over(rfc2544()),
            repeats: fields.count_32("bursts", 1..=1000, 10),
        }),
        "recovery" => {
            let (overload, after) =
                (time("overload", Nanos::from_secs(60)), time("after", Nanos::from_secs(10)));
            let repeats = fields.count_32("overloads", 1..=1000, 3);
            Some(Method::Recovery { goal: written.over(rfc2544()), overload, after, repeats })
        }
        "latency" => {
            let trial = time("latency_trial", DEFAULT_LATENCY_TRIAL);
            let repeats = fields.count_32("latency_repeats", 1..=1000, DEFAULT_LATENCY_REPEATS);
            Some(Method::Latency {
                goal: written.over(rfc2544()),
                trial,
                shares: LATENCY_SHARES.to_vec(),
                repeats,
            })
        }
        "frmol" => Some(Method::Frmol { trial: trial(Nanos::from_secs(10)) }),
        "y1564" => Some(Method::Steps {
            performance: time("performance", Nanos::from_secs(15 * 60)),
            trial: trial(Nanos::from_secs(10)),
            steps: vec![0.25, 0.5, 0.75, 1.0],
            loss_ratio: written.loss_ratio.unwrap_or(0.0),
        }),
        _ => {
            let known = GOALS.iter().map(|(name, _)| *name);
            let problem = wrong_value(
                value,
                "`goal`",
                &format!("one of {}", known.clone().collect::<Vec<_>>().join(", ")),
            );
            fields.problems.push(problem.nearest(nearest(word, known)));
            None
        }
    }
}

/// A goal written out.
fn explicit(value: &Spanned<DeValue<'_>>, number: usize, problems: &Problems) -> Option<Goal> {
    let fields = Fields::of(value, "a goal", GOAL_KEYS, problems)?;
    let name = fields.text("name", "a name for the goal");
    let mut base = ndr();
    base.name = name.map_or_else(|| format!("goal {}", number + 1), str::to_owned);
    base.exceed_ratio = ratio(&fields, "exceed_ratio", 0.0..=0.99).unwrap_or(base.exceed_ratio);
    Some(Written::read(&fields).over(base))
}

fn ratio(fields: &Fields<'_, '_>, key: &str, bounds: RangeInclusive<f64>) -> Option<f64> {
    let (from, to) = (Ratio(*bounds.start()), Ratio(*bounds.end()));
    let expected = format!("a share from \"{from}\" to \"{to}\", such as \"0.5 %\"");
    fields.read(key, &expected, |value| {
        let Ratio(ratio) = value.as_str()?.parse().ok()?;
        bounds.contains(&ratio).then_some(ratio)
    })
}

/// Returns the duration at `key`, if it is written.
fn trial_time(fields: &Fields<'_, '_>, key: &'static str) -> Option<Nanos> {
    fields.get(key)?;
    // The default stands only for a time that cannot be read: the plan is then not run.
    Some(fields.time(key, SHORTEST..=LONGEST, Nanos::from_secs(1)))
}

/// Returns the limit at `key`. A limit that cannot be read is a problem, and `default` stands for
/// it.
fn limit_or(fields: &Fields<'_, '_>, key: &str, default: LoadLimit) -> LoadLimit {
    let of = if key == "min" { "`max`" } else { "the path's ceiling" };
    let expected = format!(
        "a rate such as \"10 kpps\" or \"100 Mbit/s\", or a share of {of} such as \"90 %\""
    );
    fields.read(key, &expected, |value| limit(value.as_str()?)).unwrap_or(default)
}

fn limit(text: &str) -> Option<LoadLimit> {
    let bits = text.parse().map(|BitRate(rate)| LoadLimit::Load(rate, LoadUnit::Bits));
    let frames = || text.parse().map(|PacketRate(rate)| LoadLimit::Load(rate, LoadUnit::Frames));
    // A share needs its percent sign, because a bare number could be a rate.
    let share = || text.trim().ends_with('%').then(|| text.parse::<Ratio>().ok()).flatten();
    let read = bits.or_else(|_| frames()).ok();
    let read = read.or_else(|| share().map(|Ratio(share)| LoadLimit::Share(share)));
    // A load of zero measures nothing.
    read.filter(
        |limit| matches!(limit, LoadLimit::Load(load, _) | LoadLimit::Share(load) if *load > 0.0),
    )
}

fn wire(fields: &Fields<'_, '_>) -> Option<(String, String)> {
    let expected = "two endpoints, \"FROM TO\", that a wire joins in place of the device";
    let text = fields.text("wire", expected)?;
    let mut names = text.split_whitespace();
    let pair = names.next().zip(names.next()).filter(|_| names.next().is_none());
    if pair.is_none() {
        fields.wrong("wire", format!("`wire` is \"{text}\""), expected);
    }
    pair.map(|(from, to)| (from.to_owned(), to.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Problem;
    use crate::plan::parse;

    const HEAD: &str = "[campaign]\nname = \"s\"\n[[sweep]]\nname \
        = \"zero\"\n[[sweep.job]]\nworkload = \"udp_stream\"\nfrom = \"a\"\nto \
        = \"b\"\n[sweep.search]\n";

    fn read(keys: &str) -> (SearchPlan, Vec<Problem>) {
        let (plan, problems) = parse(&format!("{HEAD}{keys}"));
        (plan.and_then(|plan| plan.sweeps[0].search.clone()).expect("a search"), problems)
    }

    #[test]
    fn the_default_is_mlrsearch_of_both_published_goals() {
        let (search, problems) = read("metric = \"rate\"\nmax = \"10 kpps\"\n");
        assert_eq!(problems, []);
        let Method::Mlr { goals } = &search.method else { panic!("{search:?}") };
        let told: Vec<(&str, f64, u64)> = goals
            .iter()
            .map(|goal| (goal.name.as_str(), goal.loss_ratio, goal.duration_sum.0))
            .collect();
        assert_eq!(told, [("NDR", 0.0, 21_000_000_000), ("PDR", 0.005, 21_000_000_000)]);
        assert_eq!(
            (search.max, search.min),
            (LoadLimit::Load(1e4, LoadUnit::Frames), LoadLimit::Share(0.01))
        );
    }

    #[test]
    fn every_goal_by_name_is_read() {
        for (name, _) in GOALS {
            let (_, problems) = read(&format!("goal = \"{name}\"\n"));
            assert_eq!(problems, [], "{name}");
        }
    }

    #[test]
    fn durations_that_are_written_scale_those_that_are_not() {
        let (search, problems) = read("goal = \"rfc2544\"\ntrial = \"2 s\"\nwidth = \"1 %\"\n");
        assert_eq!(problems, []);
        let Method::Halving { goal, repeats: 0 } = search.method else { panic!("{search:?}") };
        assert_eq!(
            (goal.final_trial, goal.duration_sum),
            (Nanos::from_secs(2), Nanos::from_secs(2))
        );
        assert_eq!((goal.initial_trial, goal.width), (Nanos::from_secs(1), 0.01));
        let (search, _) = read("goal = \"mlr-ndr\"\ntrial = \"100 ms\"\n");
        let Method::Mlr { goals } = search.method else { panic!("{search:?}") };
        assert_eq!(goals[0].duration_sum, Nanos::from_millis(2_100));
    }

    #[test]
    fn a_goal_may_be_written_out() {
        let keys = "goal = { name = \"mine\", loss_ratio = \"0.1 %\", exceed_ratio = \"20 %\", \
            trial = \"60 s\", duration_sum = \"60 s\" }\n";
        let (search, problems) = read(keys);
        assert_eq!(problems, []);
        let Method::Mlr { goals } = search.method else { panic!("{search:?}") };
        assert_eq!(
            (goals[0].name.as_str(), goals[0].loss_ratio, goals[0].exceed_ratio),
            ("mine", 0.001, 0.2)
        );
    }

    #[test]
    fn mistakes_stand_where_they_are_made_with_the_nearest_name() {
        let text = format!(
            "{HEAD}goal = \"rfc2455\"\nmax = \"90\"\nwidht = \"1 %\"\nwarmup = 3\nmin = \"1 %\"\n"
        );
        let (_, problems) = parse(&text);
        let told: Vec<String> = problems
            .iter()
            .map(|p| {
                format!(
                    "{} {} {}",
                    &text[p.span.clone().expect("a place")],
                    p.message,
                    p.nearest.as_deref().unwrap_or("")
                )
            })
            .collect();
        assert_eq!(told.len(), 4, "{told:?}");
        assert!(told[0].contains("\"rfc2455\"") && told[0].ends_with("rfc2544"), "{told:?}");
        assert!(told[1].starts_with("\"90\"") && told[3].starts_with('3'), "{told:?}");
        assert!(told[2].starts_with("widht") && told[2].ends_with("width"), "{told:?}");
        // A load of zero measures nothing.
        for wrong in ["max = \"90\"\nmin = 1\n", "max = \"0 kpps\"\nmin = \"0 %\"\n"] {
            let (_, problems) = parse(&format!("{HEAD}{wrong}"));
            let expected = problems.iter().filter_map(|problem| problem.expected.as_ref());
            assert_eq!(expected.filter(|text| text.contains("kpps")).count(), 2, "{problems:?}");
        }
    }

    #[test]
    fn the_load_is_searched_or_swept_but_not_both() {
        let text = format!("{HEAD}[sweep.axis]\n\"params.rate\" = [\"1 kpps\"]\n");
        let (_, problems) = parse(&text);
        assert!(
            problems.iter().any(|problem| problem.message.contains("searched and swept")),
            "{problems:?}"
        );
    }
}
