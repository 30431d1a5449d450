//! Reading, changing and expanding plans: known answers, every problem at once, and no panic on any
//! text.

use std::collections::{BTreeSet, HashSet};

use linerate_model::plan::{Order, Plan, apply_set, expand, left_out, parse, without_sweeps};
use linerate_model::{Background, Endpoint, Nanos, Problem, Testbed, TrialId, Warmup};
use serde_json::json;

pub(crate) const SMALL: &str = r#"
[campaign]
name = "small"
repeats = 3
seed = 42

[[sweep]]
name = "buffers x messages"
duration = "2 s"
warmup = "500 ms"
[[sweep.job]]
workload = "tcp_stream"
from = "a"
to = "b"
params = { direction = "both", streams = 1, no_delay = true }
[[sweep.job]]
workload = "tcp_rr"
from = "a"
to = "b"
start = "-3 s"
duration = "600 s"
[sweep.axis]
"params.socket_buffer" = ["24 KiB", "64 KiB"]
"params.message_size" = { from = "4 B", to = "100 B", factor = 4 }
"job.1.params.depth" = [1]
"#;

pub(crate) fn good(text: &str) -> Plan {
    let (plan, problems) = parse(text);
    assert_eq!(problems, []);
    plan.expect("a text without problems is a plan")
}

fn problems(text: &str) -> Vec<Problem> {
    parse(text).1
}

/// A plan whose only sweep has the given axis lines.
fn with_axis(axis: &str) -> String {
    format!(
        "campaign.name = 'x'\n[[sweep]]\nname = 's'\njob = [{{ workload = 'null', from = 'a', to = \
            'b' }}]\n[sweep.axis]\n{axis}\n"
    )
}

fn axis_values(axis: &str) -> Vec<serde_json::Value> {
    good(&with_axis(axis)).sweeps[0].axes[0].values.clone()
}

pub(crate) fn testbed(names: &[(&str, usize)]) -> Testbed {
    let endpoint = |&(name, n_cpus): &(&str, usize)| Endpoint {
        cpus: (0..n_cpus).collect(),
        ..Endpoint::named(name, "host")
    };
    Testbed { hosts: Vec::new(), endpoints: names.iter().map(endpoint).collect(), emulated: false }
}

#[test]
fn a_plan_is_read_with_its_defaults() {
    let plan = good(SMALL);
    assert_eq!(
        (plan.name.as_str(), plan.repeats, plan.order, plan.seed),
        ("small", 3, Order::Interleaved, 42)
    );
    let sweep = &plan.sweeps[0];
    assert_eq!(sweep.duration, Nanos::from_secs(2));
    assert_eq!(sweep.warmup, Warmup::Fixed(Nanos::from_millis(500)));
    assert_eq!((sweep.drain, sweep.rest), (Nanos::from_millis(500), Nanos::from_millis(200)));
    assert_eq!(sweep.interval, Nanos::from_millis(100));
    assert_eq!(sweep.jobs[0].params.get("no_delay"), Some(&json!(true)));
    assert_eq!(sweep.jobs[0].background, None);
    let background = Background { start_ns: -3_000_000_000, duration: Nanos::from_secs(600) };
    assert_eq!(sweep.jobs[1].background, Some(background));
    let paths: Vec<_> = sweep.axes.iter().map(|axis| axis.path.as_str()).collect();
    assert_eq!(paths, ["params.socket_buffer", "params.message_size", "job.1.params.depth"]);
    let defaults = good(&with_axis(""));
    assert_eq!((defaults.repeats, defaults.seed), (6, 1));
    let sweep = &defaults.sweeps[0];
    assert_eq!((sweep.duration, sweep.warmup), (Nanos::from_secs(5), Warmup::Auto));
}

#[test]
fn a_short_sweep_has_an_interval_that_fits_it() {
    for (duration, interval) in [
        ("1 s", "100 ms"),
        ("60 s", "100 ms"),
        ("500 ms", "50 ms"),
        ("50 ms", "10 ms"),
        ("3 ms", "3 ms"),
    ] {
        let plan = good(
            &with_axis("").replace("name = 's'", &format!("name = 's'\nduration = '{duration}'")),
        );
        assert_eq!(plan.sweeps[0].interval, interval.parse().expect("a time"), "{duration}");
    }
    let text =
        with_axis("").replace("name = 's'", "name = 's'\nduration = '50 ms'\ninterval = '100 ms'");
    let found = problems(&text);
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].span.clone().map(|span| &text[span]), Some("'100 ms'"));
    assert_eq!(found[0].expected.as_deref(), Some("at most the duration of the sweep, 50 ms"));
}

#[test]
fn an_unknown_endpoint_is_told_where_it_stands_with_what_there_is() {
    let text = with_axis("").replace("to = 'b'", "to = 'bb'");
    let errors = expand(&good(&text), &testbed(&[("a", 0), ("b", 0), ("other", 0)]))
        .expect_err("there is no bb");
    let problem = errors[0].problem();
    assert_eq!(errors.len(), 1);
    assert_eq!(problem.message, "the testbed has no endpoint `bb`");
    assert_eq!(problem.span.map(|span| &text[span]), Some("'bb'"));
    assert_eq!(problem.expected.as_deref(), Some("one of a, b, other"));
    assert_eq!(problem.nearest.as_deref(), Some("b"));
    let text = with_axis("pairs = [['a b'], ['a b', 'a c']]");
    let errors = expand(&good(&text), &testbed(&[("a", 0), ("b", 0)])).expect_err("there is no c");
    let place = errors[0].problem().span.map(|span| &text[span]);
    assert_eq!((errors.len(), place), (1, Some("pairs = [['a b'], ['a b', 'a c']]")));
}

#[test]
fn a_campaign_has_settings_of_hosts_at_endpoints_that_there_are() {
    let with = |at: &str, name: &str| {
        let setting = format!("settings = [{{ at = '{at}', name = '{name}', value = '1 2 3' }}]");
        SMALL.replace("seed = 42", &setting)
    };
    let plan = good(&with("b", "net.ipv4.tcp_rmem"));
    let [(setting, _)] = &plan.settings[..] else { panic!("{:?}", plan.settings) };
    assert_eq!((&*setting.at, &*setting.value), ("b", "1 2 3"));
    let hosts = testbed(&[("a", 1), ("b", 1)]);
    assert!(expand(&plan, &hosts).is_ok());
    let text = with("bmc", "net.ipv4.tcp_rmem");
    let errors = expand(&good(&text), &hosts).expect_err("there is no such endpoint");
    let problem = errors[0].problem();
    assert!(problem.message.contains("no endpoint `bmc`"), "{problem:?}");
    assert!(text[problem.span.expect("a place")].contains("'bmc'"));
    let unknown = problems(&with("b", "net.ipv4.tcp_rmen"));
    assert_eq!(unknown[0].nearest.as_deref(), Some("net.ipv4.tcp_rmem"), "{unknown:?}");
}

#[test]
fn spans_point_at_parameters_and_axes() {
    let plan = good(SMALL);
    let sweep = &plan.sweeps[0];
    let (_, span) =
        sweep.jobs[0].spans.iter().find(|(key, _)| key == "streams").expect("it is in the plan");
    assert_eq!(&SMALL[span.clone()], "streams = 1");
    let span = sweep.axes[0].span.clone().expect("it was read from text");
    assert_eq!(&SMALL[span], r#""params.socket_buffer" = ["24 KiB", "64 KiB"]"#);
}

#[test]
fn ranges_include_their_end_and_keep_their_unit() {
    let sizes = axis_values(r#""params.x" = { from = "4 B", to = "1 MiB", factor = 4 }"#);
    assert_eq!((sizes.len(), &sizes[9]), (10, &json!("1 MiB")));
    for (range, values) in [
        (r#"from = "4 B", to = "100 B", factor = 4"#, json!(["4 B", "16 B", "64 B", "100 B"])),
        ("from = 1, to = 20, factor = 2", json!([1, 2, 4, 8, 16, 20])),
        ("from = 1, to = 4, factor = 1.5", json!([1, 2, 3, 4])),
        ("from = 2, to = 9, step = 3", json!([2, 5, 8, 9])),
        ("from = 0.5, to = 1, step = 0.25", json!([0.5, 0.75, 1.0])),
        (
            r#"from = "100 Mbit/s", to = "1 Gbit/s", step = "450 Mbit/s""#,
            json!(["100 Mbit/s", "550 Mbit/s", "1 Gbit/s"]),
        ),
        (r#"from = "1 ms", to = "4 ms", factor = 2"#, json!(["1 ms", "2 ms", "4 ms"])),
        (r#"from = "10 %", to = "30 %", step = "10 %""#, json!(["10 %", "20 %", "30 %"])),
        (r#"from = "7 B", to = "7 B", factor = 2"#, json!(["7 B"])),
    ] {
        assert_eq!(json!(axis_values(&format!("params.x = {{ {range} }}"))), values, "{range}");
    }
}

#[test]
fn a_dotted_axis_key_is_the_quoted_one() {
    let plan = good(&with_axis(
        "params.x = [1]\njob.0.params.y = { from = 1, to = 2, step = 1 }\ncpus = [2]",
    ));
    let paths: Vec<_> = plan.sweeps[0].axes.iter().map(|axis| axis.path.as_str()).collect();
    assert_eq!(paths, ["params.x", "job.0.params.y", "cpus"]);
}

#[test]
fn every_problem_is_reported_at_once_with_its_place_and_the_nearest_name() {
    let text = r#"
[campaign]
name = "x"
repeets = 3
repeats = 0
order = "interleavd"

[[sweep]]
name = "s"
duration = 5
warmup = "soon"
[[sweep.job]]
workload = "tcp_stream"
from = "a"
params = { when = 2026-11-21 }
[sweep.axis]
cpuss = [1]
"params.x" = { from = "4 B", to = "1 s", factor = 2 }
"params.y" = [1, 1]
"params.z" = { from = 2, to = 1, factor = 2 }

[[sweep]]
name = "s"
[sweep.search]
goal = "rfc2545"
"#;
    let found = problems(text);
    let at = |needle: &str| {
        found
            .iter()
            .find(|problem| problem.span.as_ref().is_some_and(|span| text[span.clone()] == *needle))
            .unwrap_or_else(|| panic!("no problem at {needle}: {found:#?}"))
    };
    assert_eq!(at("repeets").nearest.as_deref(), Some("repeats"));
    assert_eq!(at("0").message, "`repeats` is 0");
    assert_eq!(at("0").expected.as_deref(), Some("a whole number from 1 to 1000"));
    assert_eq!(at("\"interleavd\"").nearest.as_deref(), Some("interleaved"));
    assert_eq!(at("5").message, "`duration` is 5");
    assert_eq!(at("\"soon\"").message, "`warmup` is \"soon\"");
    assert_eq!(at("2026-11-21").message, "`2026-11-21` is a date");
    assert_eq!(at("cpuss").nearest.as_deref(), Some("cpus"));
    assert_eq!(at("\"1 s\"").message, "the range starts at \"4 B\", and its end is \"1 s\"");
    assert_eq!(at("1").message, "axis `params.y` has the value 1 twice");
    assert_eq!(
        at("{ from = 2, to = 1, factor = 2 }").message,
        "the range of axis `params.z` is empty or too long"
    );
    let messages: BTreeSet<&str> = found.iter().map(|problem| problem.message.as_str()).collect();
    for expected in [
        "a job has no `to`",
        "two sweeps are called `s`",
        "`goal` is \"rfc2545\"",
        "a sweep has no `job`",
    ] {
        assert!(messages.contains(expected), "{expected}: {messages:#?}");
    }
    assert_eq!(found.len(), 14, "{found:#?}");
}

#[test]
fn a_campaigns_name_cannot_leave_the_folder() {
    let named = |name: &str| SMALL.replace("name = \"small\"", &format!("name = \"{name}\""));
    for (name, part) in [
        ("../evil", "has a `/` in it"),
        ("/etc/evil", "has a `/` in it"),
        (".hidden", "begins with a dot"),
        ("..", "begins with a dot"),
        ("a\\u0000b", "has a control character in it"),
        ("a\\u001b[31m", "has a control character in it"),
        (&"x".repeat(201), "is longer than 200 bytes"),
    ] {
        let found = problems(&named(name));
        assert!(found.iter().any(|problem| problem.message.contains(part)), "{name}: {found:?}");
    }
    assert_eq!(good(&named("4 KiB, x.y: \u{e4}")).name, "4 KiB, x.y: \u{e4}");
}

#[test]
fn every_syntax_error_is_reported_with_its_place() {
    let (plan, found) = parse("[campaign]\nname = \nseed = [1, \n[[sweep]]\nname = \"x\n");
    assert!(plan.is_none());
    assert!(found.len() >= 2 && found.iter().all(|problem| problem.span.is_some()), "{found:#?}");
}

#[test]
fn a_plan_cannot_grow_beyond_its_bounds() {
    for (axis, part) in [
        (r#""params.x" = { from = 1, to = 20000, step = 1 }"#, "empty or too long"),
        (r#""params.x" = { from = "1 B", to = "1 TiB", factor = 1.000001 }"#, "empty or too long"),
        (
            "\"params.x\" = { from = 1, to = 1000, step = 1 }\n\"params.y\" = \
                { from = 1, to = 1000, step = 1 }",
            "6000000 trials",
        ),
        ("\"params.x\" = []", "has 0 values"),
        ("\"job.1.params.x\" = [1]", "names job 1, but the sweep has 1"),
        ("cpus = [0]", "has the value 0"),
        ("pairs = [[\"a\"]]", "has the value [\"a\"]"),
        ("message_size = [1]", "not something that can vary"),
    ] {
        let found = problems(&with_axis(axis));
        assert!(found.len() == 1 && found[0].message.contains(part), "{axis}: {found:#?}");
    }
    let unprefixed = problems(&with_axis("message_size = [1]"));
    assert_eq!(unprefixed[0].nearest.as_deref(), Some("params.message_size"));
}

#[test]
fn trials_are_numbered_by_point_and_run_interleaved() {
    let trials = expand(&good(SMALL), &testbed(&[("a", 0), ("b", 0)])).expect("it fits");
    assert_eq!(trials.len(), 2 * 4 * 3);
    for (round, repeat) in trials.chunks(8).zip(0..) {
        assert!(
            round.iter().all(|trial| trial.repeat == repeat),
            "each round is one repeat of every point"
        );
    }
    let ids: BTreeSet<_> = trials.iter().map(|trial| trial.id).collect();
    assert_eq!(ids, (0..24).map(TrialId).collect());
    let fifth = trials.iter().find(|trial| trial.id == TrialId(4)).expect("it is there");
    assert_eq!(
        json!(fifth.point),
        json!({"socket_buffer": "24 KiB", "message_size": "16 B", "job.1.params.depth": 1})
    );
    assert_eq!(fifth.repeat, 1);
    assert_eq!(fifth.jobs[0].params.get("message_size"), Some(&json!("16 B")));
    assert_eq!(fifth.jobs[1].params.get("message_size"), None, "a background job is not swept");
    assert_eq!(fifth.jobs[1].params.get("depth"), Some(&json!(1)));
}

/// The run order and the seeds of a plan are part of its meaning: these figures may never change.
#[test]
fn order_and_seeds_stay_the_same_for_ever() {
    let trials = expand(&good(SMALL), &testbed(&[("a", 0), ("b", 0)])).expect("it fits");
    let ids: Vec<u32> = trials.iter().map(|trial| trial.id.0).collect();
    assert_eq!(
        ids,
        [18, 12, 6, 15, 3, 9, 0, 21, 22, 7, 10, 1, 13, 16, 19, 4, 14, 2, 20, 17, 23, 8, 5, 11]
    );
    assert_eq!(trials[0].seed, 10_603_004_692_054_827_046);
}

#[test]
fn a_trial_keeps_its_seed_when_the_rest_of_the_plan_changes() {
    let bed = testbed(&[("a", 0), ("b", 0)]);
    let before = expand(&good(SMALL), &bed).expect("it fits");
    let longer = SMALL.replace("\"24 KiB\", ", "\"8 KiB\", \"24 KiB\", ")
        + "\n[[sweep]]\nname = 'more'\njob = [{ workload = 'null', from = 'a', to = 'b' }]\n";
    let after = expand(&good(&longer), &bed).expect("it fits");
    for trial in &before {
        let same = after
            .iter()
            .find(|t| (&t.sweep, &t.point, t.repeat) == (&trial.sweep, &trial.point, trial.repeat));
        assert_eq!(same.map(|t| t.seed), Some(trial.seed));
    }
    let seeds: HashSet<u64> = after.iter().map(|trial| trial.seed).collect();
    assert_eq!(seeds.len(), after.len(), "no two trials share a seed");
}

#[test]
fn sequential_order_keeps_the_repeats_of_a_point_together() {
    let plan = good(&SMALL.replace("seed = 42", "order = 'sequential'"));
    let trials = expand(&plan, &testbed(&[("a", 0), ("b", 0)])).expect("it fits");
    assert!(trials.iter().map(|trial| trial.id.0).eq(0..24));
}

#[test]
fn a_pairs_axis_runs_the_measured_jobs_on_every_pair_at_once() {
    let plan = good(
        &with_axis("pairs = [['a1 b1'], ['a1 b1', 'a2 b2']]").replace("'}]", "'}]\nrepeats = 1"),
    );
    let trials =
        expand(&plan, &testbed(&[("a1", 0), ("b1", 0), ("a2", 0), ("b2", 0)])).expect("it fits");
    let two =
        trials.iter().find(|trial| trial.jobs.len() == 2).expect("the second point has two pairs");
    let ends: Vec<_> =
        two.jobs.iter().map(|job| (job.from.name.as_str(), job.to.name.as_str())).collect();
    assert_eq!(ends, [("a1", "b1"), ("a2", "b2")]);
    assert_eq!(two.point["pairs"], json!(["a1 b1", "a2 b2"]));
    let errors =
        expand(&plan, &testbed(&[("a1", 0), ("b1", 0)])).expect_err("two endpoints are not there");
    assert_eq!(
        errors.iter().map(ToString::to_string).collect::<Vec<_>>(),
        ["a2", "b2"].map(|name| format!(
            "the plan names endpoint `{name}`, which the testbed does not have (it has a1, b1)"
        ))
    );
}

#[test]
fn a_cpus_axis_limits_both_ends_and_leaves_out_what_the_testbed_lacks() {
    let plan = good(&with_axis("cpus = [1, 2, 8]"));
    let bed = testbed(&[("a", 4), ("b", 2)]);
    let trials = expand(&plan, &bed).expect("two values fit");
    assert_eq!(trials.len(), 2 * 6);
    for trial in &trials {
        let k = trial.point["cpus"].as_u64().expect("a count") as usize;
        assert_eq!((trial.jobs[0].from.cpus.len(), trial.jobs[0].to.cpus.len()), (k, k));
    }
    assert_eq!(left_out(&plan, &bed), [r#"s, {"cpus":8}: endpoint `a` lists 4 CPUs"#]);
    let unlisted = expand(&plan, &testbed(&[("a", 4), ("b", 0)])).expect_err("b lists none");
    assert!(unlisted[0].to_string().contains("endpoint `b` lists no CPUs"));
    let plan = good(&with_axis("cpus = [8]"));
    assert!(expand(&plan, &bed).is_err(), "a sweep of which nothing is left is an error");
}

#[test]
fn a_parameter_called_like_an_axis_keeps_its_prefix_in_the_point() {
    let plan = good(&with_axis("cpus = [1]\n'params.cpus' = [7]"));
    let trials = expand(&plan, &testbed(&[("a", 1), ("b", 1)])).expect("it fits");
    assert_eq!(json!(trials[0].point), json!({"cpus": 1, "params.cpus": 7}));
}

#[test]
fn settings_from_the_command_line_change_the_plan() {
    let set = |assignment: &str| {
        good(&apply_set(SMALL, assignment).unwrap_or_else(|p| panic!("{assignment}: {p:?}")))
    };
    assert_eq!(set("campaign.repeats=2").repeats, 2);
    assert_eq!(set("repeats = 2").repeats, 2);
    assert_eq!(set("order=sequential").order, Order::Sequential);
    assert_eq!(set("duration=7 s").sweeps[0].duration, Nanos::from_secs(7));
    assert_eq!(set("buffers x messages.duration=\"7 s\"").sweeps[0].duration, Nanos::from_secs(7));
    let jobs = set("params.streams=4").sweeps[0].jobs.clone();
    let streams = [0, 1].map(|job: usize| jobs[job].params.get("streams"));
    assert_eq!(streams, [Some(&json!(4)), None]);
    let second = &set("job.1.params.streams=4").sweeps[0].jobs[1];
    assert_eq!(second.params.get("streams"), Some(&json!(4)));
    assert_eq!(set("job.0.to=c").sweeps[0].jobs[0].to, "c");
    assert_eq!(set("axis.params.socket_buffer=['8 KiB']").sweeps[0].axes[0].values, ["8 KiB"]);
    let axis = apply_set(&with_axis("params.x = [1]"), "axis.params.x=[2, 3]");
    let axes = &good(&axis.expect("it is an axis")).sweeps[0].axes;
    assert_eq!((axes.len(), axes[0].values.len()), (1, 2));
    let searched = format!(
        "{}[sweep.search]\nmetric='rate'\nmax='9 \
            kpps'\n[sweep.compare]\npairs=9\na={{name='A'}}\nb={{name='B',to='c'}}\n",
        with_axis("params.x = [1]")
    );
    let set_there = |assignment: &str| {
        good(&apply_set(&searched, assignment).expect("it is there")).sweeps[0].clone()
    };
    assert_eq!(set_there("compare.pairs=1").compare.map(|compare| compare.pairs), Some(1));
    let warmup = set_there("search.warmup=7 s").search.map(|search| search.warmup);
    assert_eq!(warmup, Some(Nanos::from_secs(7)));
    assert_eq!(set("repeats=3"), set("seed=42"), "the order of keys and axes is kept");
}

#[test]
fn a_plan_without_some_of_its_sweeps_is_otherwise_the_same() {
    let more = "[[sweep]]\nname = 'more'\njob = [{ workload = 'null', from = 'a', to = 'b' }]\n";
    let text = format!("{SMALL}\n{more}");
    let left = without_sweeps(&text, &["more".into()]).expect("TOML");
    let (left, whole) = (good(&left), good(SMALL));
    assert_eq!((left.repeats, left.seed, left.sweeps.len()), (whole.repeats, whole.seed, 1));
    assert_eq!(left.sweeps[0].axes.len(), whole.sweeps[0].axes.len());
    assert_eq!(good(&text).sweeps.len(), 2);
}

#[test]
fn a_setting_that_names_nothing_is_refused() {
    let refused = |assignment: &str| apply_set(SMALL, assignment).expect_err(assignment);
    for (assignment, nearest) in [
        ("duratoin=2 s", "duration"),
        ("campaign.sede=2", "seed"),
        ("params.socket_buffer=1", "axis.params.socket_buffer"),
    ] {
        assert_eq!(refused(assignment).nearest.as_deref(), Some(nearest), "{assignment}");
    }
    assert!(refused("repeats").message.contains("there is no `=`"));
    assert!(refused("search.max=1 kpps").message.contains("no sweep has"));
    assert!(refused("job.7.to=b").message.contains("no sweep has a job it fits"));
    assert!(apply_set("[", "repeats=1").expect_err("broken").message.contains("not TOML"));
}

#[test]
fn every_plan_of_the_repository_is_without_problems() {
    let directory = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../plans");
    let mut n_plans = 0;
    for entry in std::fs::read_dir(&directory).expect("the repository has plans") {
        let path = entry.expect("it can be listed").path();
        if path.extension().is_some_and(|extension| extension == "toml") {
            let text = std::fs::read_to_string(&path).expect("it can be read");
            let (plan, problems) = parse(&text);
            assert_eq!(problems, [], "{}", path.display());
            assert!(plan.is_some_and(|plan| !plan.sweeps.is_empty()), "{}", path.display());
            n_plans += 1;
        }
    }
    assert!(n_plans >= 10, "found {n_plans} plans");
}

/// The time a plan of the repository takes on hosts with many CPUs, with a generous preparation for
/// each trial.
fn planned_span(name: &str) -> Nanos {
    const PREPARATION: Nanos = Nanos::from_millis(300);
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../plans").join(name);
    let plan = good(&std::fs::read_to_string(path).expect("the repository has it"));
    let trials = expand(&plan, &testbed(&[("a", 64), ("b", 64)])).expect("it names a and b only");
    trials.iter().fold(Nanos(0), |sum, trial| sum + trial.phases.total() + PREPARATION)
}

#[test]
fn the_demo_and_the_quick_characterization_keep_their_time() {
    let most = [("demo.toml", 90), ("netframe-quick.toml", 300), ("netframe.toml", 45 * 60)];
    for (name, seconds) in most {
        let span = planned_span(name);
        assert!(span < Nanos::from_secs(seconds), "{name}: {span}");
    }
}
