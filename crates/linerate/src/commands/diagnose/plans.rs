//! The plans of `diagnose`, as text: they are recorded, and can be run again by hand.

use std::fmt::Write as _;

use linerate_analysis::diagnosis::experiment::{Change, Experiment};
use linerate_analysis::diagnosis::longer::Attempt;
use linerate_model::plan::parse;
use linerate_model::{HostSetting, Params};

use super::DiagnoseArgs;
use crate::exit::Failure;

/// What the arm that changes nothing is called.
pub(super) const BASE: &str = "as it is";
/// Runs of a baseline: enough to tell an accident from a limit, few enough to be quick.
const BASELINE_RUNS: u32 = 2;
/// How long a run waits for what is still under way.
const LONGEST_DRAIN_MS: u64 = 200;
/// The placebo: a code point that no standard gives a meaning, which is forwarded as if unmarked (RFC 2474 clause 3).
const PLACEBO: &str = "{ name = \"marked with an unknown code point\", params = { dscp = 4 } }";

/// The placebo of a load on a disk or file: the window of a search for the depth. No rule judges a load that searches, so that nothing uses it.
const PLACEBO_OF_DISKS: &str = "{ name = \"another window that nothing uses\", params = { latency_window = \"2 s\" } }";
/// The workload of disks and files.
pub(super) const STORAGE: &str = "storage";

/// A plan up to the value of its only parameter: the syntax of values is the plan's own.
const ONE_PARAMETER: &str = "[campaign]\nname = \"parameter\"\n[[sweep]]\nname = \"parameter\"\n[[sweep.job]]\nworkload = \"null\"\n\
                             from = \"a\"\nto = \"b\"\nparams = ";

/// The load whose limit is looked for, and how long its runs are.
#[derive(Clone, Debug)]
pub(super) struct Load {
    workload: String,
    from: String,
    to: String,
    params: Params,
    pairs: u32,
    measured_ms: u64,
    omitted_ms: u64,
    seed: u64,
}

impl Load {
    pub(super) fn new(args: &DiagnoseArgs, from: String, to: String) -> Result<Self, Failure> {
        let milliseconds = |seconds: f64| (seconds * 1e3).round() as u64;
        let mut load = Self {
            workload: args.workload.clone(),
            from,
            to,
            params: Params::default(),
            pairs: args.pairs,
            measured_ms: milliseconds(args.seconds).max(1),
            omitted_ms: milliseconds(args.omit),
            seed: args.seed,
        };
        for assignment in &args.params {
            load.set(assignment)?;
        }
        Ok(load)
    }

    /// Sets a parameter as a person gives it: `KEY=VALUE`, where a word without quotes is taken for a text.
    fn set(&mut self, assignment: &str) -> Result<(), Failure> {
        let wrong =
            || Failure::wrong(format!("diagnose --param {assignment}: not KEY=VALUE (such as message_size=\"64 B\")"));
        let (key, value) = assignment.split_once('=').ok_or_else(wrong)?;
        let read = |written: String| {
            let (plan, problems) = parse(&format!("{ONE_PARAMETER}{{ {key} = {written} }}\n"));
            let params = plan?.sweeps.first()?.jobs.first()?.params.clone();
            problems.is_empty().then_some(params)
        };
        let params = read(value.to_owned()).or_else(|| read(format!("{value:?}"))).ok_or_else(wrong)?;
        self.params.0.extend(params.0);
        Ok(())
    }

    /// The parameters as the inside of an inline table.
    fn listed(&self) -> String {
        let params = self.params.0.iter().map(|(name, value)| format!("{name} = {value}"));
        params.collect::<Vec<_>>().join(", ")
    }

    /// The same with `change` made.
    pub(super) fn changed(&self, change: &Change) -> Self {
        let mut load = self.clone();
        for (key, value) in change {
            load.params.set(key, value.clone());
        }
        load
    }

    /// The same with runs so many times as long.
    pub(super) fn longer(&self, times: f64) -> Self {
        Self { measured_ms: (self.measured_ms as f64 * times).ceil() as u64, ..self.clone() }
    }

    /// Pairs of an experiment.
    pub(super) const fn n_pairs(&self) -> u32 {
        self.pairs
    }

    /// How long each run is.
    pub(super) fn seconds(&self) -> f64 {
        self.measured_ms as f64 / 1e3
    }

    fn head(&self, name: &str, repeats: u32) -> String {
        format!(
            "[campaign]\nname = \"diagnose-{name}\"\nrepeats = {repeats}\norder = \"interleaved\"\nseed = {}\n",
            self.seed
        )
    }

    /// A sweep of one point. What is still under way when it ends has a quarter of the run to arrive, [`LONGEST_DRAIN_MS`] at the most.
    fn sweep(&self, name: &str) -> String {
        let drain = (self.measured_ms / 4).clamp(1, LONGEST_DRAIN_MS);
        let rest = drain / 2;
        format!(
            "\n[[sweep]]\nname = {name:?}\nduration = \"{} ms\"\nwarmup = \"{} ms\"\ndrain = \"{drain} ms\"\nrest = \"{rest} ms\"\n\
             interval = \"100 ms\"\n[[sweep.job]]\nfrom = {:?}\nto = {:?}\nworkload = \"{}\"\n",
            self.measured_ms, self.omitted_ms, self.from, self.to, self.workload
        )
    }

    fn params(&self) -> String {
        format!("params = {{ {} }}\n", self.listed())
    }

    /// The load as it is.
    pub(super) fn baseline(&self) -> String {
        format!("{}{}{}", self.head("baseline", BASELINE_RUNS), self.sweep(BASE), self.params())
    }

    /// One run of each candidate, and one of the load as it is where `beside` it is wanted.
    pub(super) fn scouts(&self, name: &str, candidates: &[Change], beside: Beside) -> String {
        let sweep = |(number, change): (usize, &Change)| {
            let load = self.changed(change);
            format!("{}{}", load.sweep(&scout(number)), load.params())
        };
        let base = || format!("{}{}", self.sweep(BASE), self.params());
        let base = if beside == Beside::Base { base() } else { String::new() };
        let sweeps: String = candidates.iter().enumerate().map(sweep).collect();
        format!("{}{base}{sweeps}", self.head(name, 1))
    }

    /// Pairs with and without each change. A placebo stands beside those of the first: it is the same for all, and run in the same time.
    pub(super) fn pairs(&self, name: &str, rule: &str, tested: &[(Experiment, Change)], attempt: Attempt) -> String {
        let mut text = self.head(name, 1);
        for (number, (Experiment { name, ratio: [least, most], settings, failing, .. }, change)) in
            tested.iter().enumerate()
        {
            let changes: Vec<String> = change.iter().map(|(key, value)| format!("{key} = {value}")).collect();
            let placebo = if self.workload == STORAGE { PLACEBO_OF_DISKS } else { PLACEBO };
            let placebo = if number == 0 { format!("placebo = {placebo}\n") } else { String::new() };
            let percent = |ratio: f64| format!("\"{:.1} %\"", ratio * 100.0);
            text += &self.sweep(name);
            text += &self.params();
            let _infallible = write!(
                text,
                "[sweep.compare]\npairs = {}\n{placebo}tests = {{ rule = \"{rule}\", ratio = [{}, {}], failing = \"{}\", error = \"{}\" }}\n\
                 a = {{ name = \"{BASE}\" }}\nb = {{ name = {name:?}, params = {{ {} }}{} }}\n",
                attempt.pairs,
                percent(*least),
                percent(*most),
                failing.name(),
                attempt.error,
                changes.join(", "),
                set_at_hosts(settings)
            );
        }
        text
    }
}

/// `, settings = [...]` of an arm; nothing where nothing is set.
fn set_at_hosts(settings: &[HostSetting]) -> String {
    let told = settings
        .iter()
        .map(|HostSetting { at, name, value }| format!("{{ at = {at:?}, name = {name:?}, value = {value:?} }}"));
    let told: Vec<String> = told.collect();
    if told.is_empty() { String::new() } else { format!(", settings = [{}]", told.join(", ")) }
}

/// What is run beside candidates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Beside {
    /// Nothing: the baseline is known.
    Nothing,
    /// The load as it is once more, as the path may have drifted.
    Base,
}

/// What the run of the candidate `number` is called.
pub(super) fn scout(number: usize) -> String {
    format!("candidate {}", number + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use linerate_analysis::diagnosis::longer::attempts;
    use linerate_analysis::diagnosis::rules::RULES;

    fn load() -> Load {
        Load {
            workload: "tcp_stream".into(),
            from: "a".into(),
            to: "b".into(),
            params: Params::default(),
            pairs: 6,
            measured_ms: 500,
            omitted_ms: 300,
            seed: 7,
        }
    }

    #[test]
    fn parameters_are_taken_as_a_plan_takes_them_and_words_without_quotes() {
        let mut load = load();
        for assignment in ["streams=4", "message_size=\"64 B\"", "congestion=bbr", "streams=2"] {
            load.set(assignment).unwrap_or_else(|_| panic!("{assignment} is one"));
        }
        assert_eq!(load.params.0["streams"], 2);
        assert_eq!((&load.params.0["message_size"], &load.params.0["congestion"]), (&"64 B".into(), &"bbr".into()));
        assert!(load.set("streams").is_err());
        assert_eq!(parse(&load.baseline()).1, []);
    }

    #[test]
    fn the_placebo_of_a_disk_changes_no_place_of_the_load() {
        let mut load = Load { workload: STORAGE.into(), params: Params::default(), ..load() };
        for assignment in ["target=/dev/shm", "pattern=zipf", "skew=110 %"] {
            load.set(assignment).expect(assignment);
        }
        let tested = [(Experiment::lift("twice the depth", vec![], [1.2, 2.5]), vec![("depth".to_owned(), 64.into())])];
        let (plan, problems) = parse(&load.pairs("pairs", "disk_depth", &tested, attempts(6)[1]));
        assert_eq!(problems, []);
        let comparison = plan.expect("no problem").sweeps.remove(0).compare.expect("pairs");
        let changed = comparison.placebo.expect("one").params;
        assert_eq!(changed.0.keys().collect::<Vec<_>>(), ["latency_window"]);
        assert!(load.params.0.keys().all(|key| !changed.0.contains_key(key)));
    }

    #[test]
    fn every_plan_is_one_that_can_be_read_back() {
        let change = |key: &str, value: &str| vec![(key.to_owned(), value.into())];
        let candidates = vec![change("window_clamp", "4344 B"), change("window_clamp", "7240 B")];
        let experiment =
            Experiment::lift_by_one("a window that a shallow buffer survives", candidates.clone(), [1.1, 100.0]);
        let rule = RULES[0].name();
        let polled = HostSetting { at: "b".into(), name: "threaded".into(), value: "1".into() };
        let elsewhere = Experiment::at_host("polled elsewhere", polled, [1.1, 2.5]).refuting_nothing();
        let tested = [(experiment, candidates[1].clone()), (elsewhere, Change::new())];
        let scouts = |beside| load().scouts("scout", &candidates, beside);
        let pairs = load().pairs("pairs", rule, &tested, attempts(6)[1]);
        assert_eq!(pairs.matches("placebo = ").count(), 1, "{pairs}");
        for text in [load().baseline(), scouts(Beside::Nothing), scouts(Beside::Base), pairs] {
            let (plan, problems) = parse(&text);
            assert_eq!(problems, [], "{text}");
            for job in plan.expect("no problem").sweeps.iter().flat_map(|sweep| &sweep.jobs) {
                assert_eq!(linerate_load::workload(&job.workload).expect("known").check(&job.params), [], "{text}");
            }
        }
    }
}
