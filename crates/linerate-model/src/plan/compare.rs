//! Comparisons: `[sweep.compare]`, two arms that each override fields of the sweep's measured jobs.
//!
//! ```toml
//! [sweep.compare]
//! pairs = 10                     # takes the place of the campaign's repeats
//! # The first arm once more, under another name: what differs is noise. Or an arm of its own whose
//! # change should make no difference, such as { name = "marked", params = { dscp = 4 } }.
//! placebo = true
//! # A claim, and what it says goodput is multiplied by. With failing = "says_nothing" the claim
//! # may be true though that does not come, and error = "1.9 %" is the share of 5 % that this look
//! # at it has, of several.
//! tests = { rule = "receive_window", ratio = ["150 %", "220 %"] }
//! margin = "2 %"                 # a smaller difference is none
//! a = { name = "wire" }
//! b = { name = "bridge", from = "adev", to = "bdev" }
//! ```
//!
//! An arm takes `from`, `to`, `params`, `from_cpus` and `to_cpus` (workers are pinned to them), and
//! `settings`, a list of `{ at, name, value }` that the agent is asked to make so before each trial
//! of it and to put back afterwards.

use std::ops::Range;

use serde_json::Value;
use toml::Spanned;
use toml::de::DeValue;

use super::axis::AxisPath;
use super::fields::{Fields, Problems, wrong_type};
use super::value::{json, whole};
use super::{JobPlan, Sweep};
use crate::{
    Failing, HOST_SETTINGS, HostSetting, Hypothesis, Metric, Params, Problem, Ratio, Role, nearest,
};

/// Pairs, unless it is said: the fewest from which a noise floor is taken
/// (docs/methodology/with-and-without.md#the-placebo).
pub(crate) const DEFAULT_PAIRS: u32 = 10;
/// The least difference that counts, unless it is said
/// (docs/methodology/with-and-without.md#the-figure).
pub const DEFAULT_MARGIN: Ratio = Ratio(0.02);

/// Total error probability of all looks at one claim.
const MOST_ERROR: Ratio = Ratio(0.05);

const COMPARE_KEYS: &[&str] = &["pairs", "placebo", "margin", "tests", "a", "b"];
const ARM_KEYS: &[&str] = &["name", "from", "to", "params", "from_cpus", "to_cpus", "settings"];
const SETTING_KEYS: &[&str] = &["at", "name", "value"];
const TESTS_KEYS: &[&str] = &["rule", "ratio", "metric", "failing", "error"];

/// A comparison as read.
#[derive(Clone, Debug, PartialEq)]
pub struct Compare {
    /// Pairs of trials at each point.
    pub pairs: u32,
    /// The first arm once more, under another name, or a change that should make no difference.
    pub placebo: Option<ArmPlan>,
    /// The claim that is put to the test.
    pub tests: Option<Hypothesis>,
    /// The least relative difference that counts.
    pub margin: Ratio,
    /// Without and with.
    pub arms: [ArmPlan; 2],
}

/// Overrides of the measured jobs in one arm.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ArmPlan {
    /// Its name.
    pub name: String,
    /// Endpoint name of the active end.
    pub from: Option<String>,
    /// Endpoint name of the passive end.
    pub to: Option<String>,
    /// Parameters; those named here are replaced or added.
    pub params: Params,
    /// CPUs the workers of the active end are pinned to; empty: as the testbed says.
    pub from_cpus: Vec<usize>,
    /// CPUs the workers of the passive end are pinned to.
    pub to_cpus: Vec<usize>,
    /// Settings made at hosts.
    pub settings: Vec<HostSetting>,
    /// Where fields and parameters stand in the text, by name; `at` for each setting in order.
    pub spans: Vec<(String, Range<usize>)>,
}

impl ArmPlan {
    /// Where `key` stands in the text.
    #[must_use]
    pub fn span_of(&self, key: &str) -> Option<Range<usize>> {
        self.spans.iter().find(|(name, _)| name == key).map(|(_, span)| span.clone())
    }

    /// `job` as this arm has it; background jobs stay as they are.
    #[must_use]
    pub fn applied(&self, job: &JobPlan) -> JobPlan {
        let mut job = job.clone();
        if job.background.is_none() {
            job.from = self.from.clone().unwrap_or(job.from);
            job.to = self.to.clone().unwrap_or(job.to);
            for (key, value) in &self.params.0 {
                job.params.set(key, value.clone());
            }
        }
        job
    }
}

impl Compare {
    /// The arms as they are measured: which, as what, under which name.
    pub(super) fn measured(&self) -> Vec<(&ArmPlan, Role, String)> {
        let [a, b] = &self.arms;
        let mut arms = vec![(a, Role::Base, a.name.clone()), (b, Role::Changed, b.name.clone())];
        arms.extend(
            self.placebo.iter().map(|placebo| (placebo, Role::Placebo, placebo.name.clone())),
        );
        arms
    }
}

/// Reads the comparison of `sweep`, whose jobs and axes are known.
pub(super) fn read(
    value: &Spanned<DeValue<'_>>,
    sweep: &Sweep,
    problems: &Problems,
) -> Option<Compare> {
    let fields = Fields::of(value, "`compare`", COMPARE_KEYS, problems)?;
    let arms = ["a", "b"].map(|key| match fields.get(key) {
        Some(arm) => read_arm(arm, problems),
        None => {
            fields
                .missing(key, "two arms, `a` and `b`, each a table such as { name = \"without\" }");
            None
        }
    });
    let [Some(a), Some(b)] = arms else { return None };
    // The name is the coordinate of an arm, so equal names would merge both arms into one point.
    if a.name == b.name {
        let message = format!("both arms are called `{}`", a.name);
        problems.push(Problem::new(b.span_of("name"), message).expected("names that differ"));
    }
    let same_jobs = sweep.jobs.iter().all(|job| a.applied(job) == b.applied(job));
    let same_cpus = a.from_cpus == b.from_cpus && a.to_cpus == b.to_cpus;
    // Equal arms measure noise. That is the purpose of a placebo, which is reported as such.
    if same_jobs && same_cpus && a.settings == b.settings {
        problems.at(
            fields.span(),
            "the two arms do not differ",
            "`from`, `to`, `params`, CPUs or `settings` in one of them; `placebo = true` for noise",
        );
    }
    let placebo = read_placebo(&fields, &a);
    if let Some(placebo) =
        placebo.as_ref().filter(|placebo| [&a.name, &b.name].contains(&&placebo.name))
    {
        let message = format!("the placebo is called `{}`, as an arm is", placebo.name);
        problems.push(Problem::new(placebo.span_of("name"), message).expected("names that differ"));
    }
    for arm in [&a, &b].into_iter().chain(&placebo) {
        check_axes(arm, sweep, problems);
    }
    Some(Compare {
        pairs: fields.count_32("pairs", 1..=1000, DEFAULT_PAIRS),
        placebo,
        tests: fields.get("tests").and_then(|tests| read_tests(tests, problems)),
        margin: read_margin(&fields, DEFAULT_MARGIN),
        arms: [a, b],
    })
}

/// The least relative difference that counts.
pub(super) fn read_margin(fields: &Fields<'_, '_>, default: Ratio) -> Ratio {
    let expected = "a part of the figure below 100 %, such as \"2 %\"";
    let read = fields.read("margin", expected, |value| {
        value.as_str()?.parse().ok().filter(|ratio: &Ratio| (0.0..1.0).contains(&ratio.0))
    });
    read.unwrap_or(default)
}

/// The placebo beside `first`: nothing, that arm once more, or an arm of its own.
fn read_placebo(fields: &Fields<'_, '_>, first: &ArmPlan) -> Option<ArmPlan> {
    let value = fields.get("placebo")?;
    if value.get_ref().as_table().is_some() {
        return read_arm(value, fields.problems);
    }
    let again = || ArmPlan { name: format!("{} again", first.name), ..first.clone() };
    value.get_ref().as_bool().map(|wanted| wanted.then(again)).unwrap_or_else(|| {
        let expected =
            "true, false, or an arm such as { name = \"marked\", params = { dscp = 4 } }";
        fields.problems.push(wrong_type(value, "`placebo`", expected));
        None
    })
}

/// Which rule knows the claim is for the study to say: the plan's words know no rules.
fn read_tests(value: &Spanned<DeValue<'_>>, problems: &Problems) -> Option<Hypothesis> {
    let fields = Fields::of(value, "`tests`", TESTS_KEYS, problems)?;
    let rule = fields.name("rule", "a rule of linerate list rules")?.to_owned();
    let failing = match fields.get("failing") {
        None => Failing::Refutes,
        Some(_) => {
            let [refutes, nothing] = [Failing::Refutes, Failing::SaysNothing].map(Failing::name);
            let expected = format!("\"{refutes}\" or \"{nothing}\"");
            fields.read("failing", &expected, |value| Failing::of(value.as_str()?))?
        }
    };
    let Some(value) = fields.get("ratio") else {
        fields.missing("ratio", "the least and the most that goodput is multiplied by");
        return None;
    };
    let ratio = |value: &DeValue<'_>| value.as_str()?.parse::<Ratio>().ok();
    let expected = "what this look at the claim may be wrong by, \"5 %\" at the most";
    let is_error = |error: &Ratio| error.0 > 0.0 && error.0 <= MOST_ERROR.0;
    let error = fields.read("error", expected, |value| ratio(value).filter(is_error));
    let expected = "a metric of linerate list metrics";
    let metric = fields.read("metric", expected, |value| Metric::named(value.as_str()?));
    let read = |entry: &Spanned<DeValue<'_>>| ratio(entry.get_ref());
    let ends = value
        .get_ref()
        .as_array()
        .and_then(|list| list.iter().map(read).collect::<Option<Vec<Ratio>>>());
    match ends.as_deref() {
        Some([least, most]) if least.0 >= 0.0 && least.0 < most.0 => {
            Some(Hypothesis { rule, ratio: [*least, *most], metric, failing, error })
        }
        _ => {
            problems.push(wrong_type(
                value,
                "`ratio`",
                "the least and the most, such as [\"150 %\", \"220 %\"]",
            ));
            None
        }
    }
}

fn read_arm(value: &Spanned<DeValue<'_>>, problems: &Problems) -> Option<ArmPlan> {
    let fields = Fields::of(value, "an arm", ARM_KEYS, problems)?;
    let mut arm = ArmPlan {
        name: fields
            .name("name", "a name for the arm, such as \"without\"")
            .unwrap_or_default()
            .to_owned(),
        ..ArmPlan::default()
    };
    arm.spans.push(("name".into(), fields.span_of("name")));
    for (key, slot) in [("from", &mut arm.from), ("to", &mut arm.to)] {
        if let Some(text) = fields.text(key, "the name of an endpoint") {
            *slot = Some(text.to_owned());
            arm.spans.push((key.into(), fields.span_of(key)));
        }
    }
    for (key, slot) in [("from_cpus", &mut arm.from_cpus), ("to_cpus", &mut arm.to_cpus)] {
        if let Some(value) = fields.get(key) {
            *slot = read_cpus(key, value, problems);
            arm.spans.push((key.into(), value.span()));
        }
    }
    if let Some(value) = fields.get("params") {
        match value.get_ref().as_table() {
            None => {
                problems.push(wrong_type(value, "`params`", "a table, such as { streams = 4 }"))
            }
            Some(table) => {
                for (key, value) in table {
                    let span = key.span().start..value.span().end.max(key.span().end);
                    arm.spans.push((format!("params.{}", key.get_ref()), span));
                    arm.params.set(key.get_ref(), json(value, problems));
                }
            }
        }
    }
    for value in fields.tables("settings") {
        if let Some(setting) = read_setting(value, problems) {
            arm.spans.push(("at".into(), value.span()));
            arm.settings.push(setting);
        }
    }
    Some(arm)
}

fn read_cpus(key: &str, value: &Spanned<DeValue<'_>>, problems: &Problems) -> Vec<usize> {
    let number = |entry: &Spanned<DeValue<'_>>| {
        whole(entry.get_ref()).and_then(|cpu| usize::try_from(cpu).ok())
    };
    let cpus = value
        .get_ref()
        .as_array()
        .and_then(|list| list.iter().map(number).collect::<Option<Vec<usize>>>());
    // An empty list would stand for the CPUs of the testbed, which an arm has if it names none.
    cpus.filter(|cpus| !cpus.is_empty()).unwrap_or_else(|| {
        problems.push(wrong_type(
            value,
            &format!("`{key}`"),
            "a list of CPU numbers, such as [0, 1]",
        ));
        Vec::new()
    })
}

pub(super) fn read_setting(
    value: &Spanned<DeValue<'_>>,
    problems: &Problems,
) -> Option<HostSetting> {
    let fields = Fields::of(value, "a setting", SETTING_KEYS, problems)?;
    let at = fields.name("at", "the endpoint whose host is meant");
    let name = fields.name("name", "what is set");
    if fields.get("value").is_none() {
        fields.missing("value", "what it is set to, a string");
    }
    let to = fields.text("value", "a string");
    let (at, name, to) = (at?, name?, to?);
    if !HOST_SETTINGS.iter().any(|(known, _)| *known == name) {
        let known: Vec<&str> = HOST_SETTINGS.iter().map(|(known, _)| *known).collect();
        let problem =
            Problem::new(Some(fields.span_of("name")), format!("`{name}` is no setting of a host"));
        let near = nearest(name, known.iter().copied());
        problems.push(problem.expected(format!("one of {}", known.join(", "))).nearest(near));
    }
    Some(HostSetting { at: at.to_owned(), name: name.to_owned(), value: to.to_owned() })
}

/// An arm and an axis cannot both say what a parameter is: the arm would win, silently.
fn check_axes(arm: &ArmPlan, sweep: &Sweep, problems: &Problems) {
    for axis in &sweep.axes {
        let key = match AxisPath::read(&axis.path) {
            Some(AxisPath::Params(name) | AxisPath::Job(_, name)) => format!("params.{name}"),
            Some(AxisPath::Pairs) if arm.from.is_some() => "from".to_owned(),
            Some(AxisPath::Pairs) if arm.to.is_some() => "to".to_owned(),
            Some(AxisPath::Cpus) if !arm.from_cpus.is_empty() => "from_cpus".to_owned(),
            Some(AxisPath::Cpus) if !arm.to_cpus.is_empty() => "to_cpus".to_owned(),
            _ => continue,
        };
        if let Some(span) = arm.span_of(&key) {
            let message = format!("arm `{}` sets what axis `{}` varies", arm.name, axis.path);
            problems.at(span, message, "one of the two");
        }
    }
}

/// `value` of the arm coordinate.
pub(super) fn coordinate(name: &str) -> Value {
    Value::String(name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::super::{expand, parse};
    use super::*;
    use crate::{Endpoint, HostAddress, Testbed, TrialSpec};

    const HEAD: &str = "[campaign]\nname='x'\nseed=3\nrepeats=2\n[[sweep]]\nname='s'\n\
        [[sweep.job]]\nworkload='tcp_stream'\nfrom='a'\nto='b'\nparams={streams=1}\n";

    fn trials(more: &str) -> Vec<TrialSpec> {
        let (plan, problems) = parse(&format!("{HEAD}{more}"));
        assert_eq!(problems, []);
        let endpoint = |name: &str| Endpoint::named(name, name);
        let testbed = Testbed {
            hosts: ["a", "b", "c"].map(|name| (name.to_owned(), HostAddress::InProcess)).to_vec(),
            endpoints: ["a", "b", "c"].map(endpoint).to_vec(),
            emulated: true,
        };
        expand(&plan.expect("no problem"), &testbed).expect("every endpoint is there")
    }

    fn names(trials: &[TrialSpec]) -> Vec<&str> {
        trials.iter().map(|trial| trial.point["arm"].as_str().expect("a name")).collect()
    }

    #[test]
    fn pairs_run_in_turn_and_in_reverse_and_share_a_seed() {
        let trials = trials(
            "[sweep.compare]\npairs=6\na={name='A'}\nb={name='B',to='c',params={streams=2}}\n",
        );
        assert_eq!(trials.len(), 12);
        for block in names(&trials).chunks(4) {
            assert!(matches!(block, ["A", "B", "B", "A"] | ["B", "A", "A", "B"]), "{block:?}");
        }
        for pair in trials.chunks(2) {
            assert_eq!((pair[0].seed, pair[0].repeat), (pair[1].seed, pair[1].repeat));
        }
        let changed = trials.iter().find(|trial| trial.point["arm"] == "B").expect("measured");
        assert_eq!(
            (changed.jobs[0].to.name.as_str(), &changed.jobs[0].params.0["streams"]),
            ("c", &Value::from(2))
        );
        let mut ids: Vec<u32> = trials.iter().map(|trial| trial.id.0).collect();
        ids.sort_unstable();
        assert_eq!(ids, (0..12).collect::<Vec<u32>>());
    }

    #[test]
    fn a_placebo_is_the_first_arm_under_another_name_at_every_point() {
        let trials = trials(
            "[sweep.axis]\n'params.message_size'=['1 KiB','64 \
                KiB']\n[sweep.compare]\npairs=2\nplacebo=true\nmargin='1 \
                %'\na={name='A'}\nb={name='B',to='c'}\n",
        );
        assert_eq!(trials.len(), 2 * 2 * 3);
        for round in trials.chunks(3) {
            let mut together = names(round);
            together.sort_unstable();
            assert_eq!(
                together,
                ["A", "A again", "B"],
                "arms of one point and pair follow one another"
            );
        }
        let placebo =
            trials.iter().find(|trial| trial.point["arm"] == "A again").expect("measured");
        let arm = placebo.arm.as_ref().expect("an arm");
        assert_eq!(
            (arm.role, arm.margin, placebo.jobs[0].to.name.as_str()),
            (Role::Placebo, Ratio(0.01), "b")
        );
    }

    #[test]
    fn a_placebo_may_be_a_change_of_its_own_and_a_claim_travels_with_every_trial() {
        let trials = trials(
            "[sweep.compare]\npairs=2\nplacebo={name='marked',params={dscp=4}}\n\
                tests={rule='receive_window',ratio=['150 %','220 %'],metric='service_time_mean',\
                failing='says_nothing',error='1.9 %'}\n\
             a={name='A'}\nb={name='B',params={streams=2}}\n",
        );
        let marked = trials.iter().find(|trial| trial.point["arm"] == "marked").expect("measured");
        assert_eq!(marked.jobs[0].params.0["dscp"], Value::from(4));
        assert!(trials.iter().all(|trial| {
            let tests = trial.arm.as_ref().and_then(|arm| arm.tests.as_ref()).expect("a claim");
            (tests.rule.as_str(), tests.ratio, tests.metric, tests.failing, tests.error)
                == (
                    "receive_window",
                    [Ratio(1.5), Ratio(2.2)],
                    Some(crate::metric::SERVICE_TIME_MEAN),
                    Failing::SaysNothing,
                    Some(Ratio(0.019)),
                )
        }));
        let (_, problems) = parse(&format!(
            "{HEAD}[sweep.compare]\nplacebo={{name='A'}}\n\
                tests={{rule='x',ratio=['2','1'],metric='speed',error='6 %'}}\na={{name='A'}}\n\
                b={{name='B',to='c'}}\n"
        ));
        let told: Vec<&str> = problems.iter().map(|problem| problem.message.as_str()).collect();
        assert_eq!(
            told,
            [
                "the placebo is called `A`, as an arm is",
                "`ratio` is a list",
                "`metric` is \"speed\"",
                "`error` is \"6 %\""
            ]
        );
        let unknown = "[sweep.compare]\ntests={rule='x',ratio=['1','2'],failing='maybe'}\n\
            a={name='A'}\nb={name='B',to='c'}\n";
        assert_eq!(parse(&format!("{HEAD}{unknown}")).1.len(), 1);
    }

    #[test]
    fn arms_pin_workers_and_set_hosts() {
        let trials = trials(
            "[sweep.compare]\npairs=1\na={name='A',to_cpus=[0]}\n\
                b={name='B',to_cpus=[1],settings=[{at='b',name='net.ipv4.tcp_rmem',\
                value='4096 8192 8192'}]}\n",
        );
        let of =
            |name: &str| trials.iter().find(|trial| trial.point["arm"] == name).expect("measured");
        assert_eq!(
            (of("A").jobs[0].to.cpus.as_slice(), of("B").jobs[0].to.cpus.as_slice()),
            (&[0][..], &[1][..])
        );
        assert!(of("B").jobs[0].to.pin && !of("B").jobs[0].from.pin);
        assert_eq!(of("B").arm.as_ref().map(|arm| arm.settings.len()), Some(1));
    }

    #[test]
    fn every_problem_of_a_comparison_is_told_at_its_place() {
        let text = format!(
            "{HEAD}[sweep.axis]\n'params.streams'=[1,2]\n[sweep.compare]\npairs=0\nmargin='200 \
                %'\nplacebo=1\n\
             a={{name='A',params={{streams=4}}}}\n\
             b={{name='A',form='c',to_cpus=[],settings=[{{at='b',name='net.ipv4.tcp_rmen',\
             value='1'}}]}}\n"
        );
        let (_, problems) = parse(&text);
        let told: Vec<(&str, &str)> = problems
            .iter()
            .map(|p| (&text[p.span.clone().expect("a place")], p.message.as_str()))
            .collect();
        assert_eq!(
            told,
            [
                ("0", "`pairs` is 0"),
                ("'200 %'", "`margin` is \"200 %\""),
                ("1", "`placebo` is a whole number"),
                ("streams=4", "arm `A` sets what axis `params.streams` varies"),
                ("'A'", "both arms are called `A`"),
                ("form", "unknown key `form` in an arm"),
                ("[]", "`to_cpus` is a list"),
                ("'net.ipv4.tcp_rmen'", "`net.ipv4.tcp_rmen` is no setting of a host"),
            ]
        );
        let (_, problems) =
            parse(&format!("{HEAD}[sweep.compare]\na={{name='A'}}\nb={{name='B'}}\n"));
        assert_eq!(problems[0].message, "the two arms do not differ");
        let both = "[sweep.compare]\npairs=7\na={name='A'}\nb={name='B',to='c'}\n[sweep.search]\n\
            metric='rate'\nmax='10 kpps'\n";
        let (plan, problems) = parse(&format!("{HEAD}{both}"));
        assert_eq!(
            (plan.expect("a plan").sweeps[0].repeats(3), problems),
            (7, Vec::new()),
            "a pair is a search of each arm"
        );
        let (_, problems) = parse(&format!("{HEAD}{both}repeats=2\n"));
        assert_eq!(problems[0].message, "`repeats` of a search whose arms are compared");
        let (_, problems) = parse(&format!("{HEAD}[sweep.compare]\na={{name='A'}}\n"));
        assert_eq!(problems[0].message, "`compare` has no `b`");
    }
}
