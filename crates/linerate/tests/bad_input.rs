//! Wrong plans, missing hosts, paths that break: what is wrong, where, what was expected, and the
//! exit code.

use std::path::Path;
use std::process::Stdio;

use linerate_model::TrialOutcome;

use crate::common::{
    self, Pair, file, heard, linerate, load, plan, privileged_folder, run, skip, wait,
};

/// Runs `arguments` in an empty folder with `text` as `plan.toml`; asserts code and standard error,
/// and that nothing was run.
fn refused(text: &str, arguments: &[&str], code: i32, message: &str) {
    let folder = tempfile::tempdir().expect("a folder");
    file(folder.path(), "plan.toml", text);
    let ended = run(folder.path(), arguments).expect(code);
    assert_eq!(ended.stderr, message);
    assert_eq!(ended.stdout, "");
    let left = std::fs::read_dir(folder.path()).expect("readable").flatten();
    let left: Vec<_> = left.map(|entry| entry.file_name()).collect();
    assert!(left.iter().all(|name| name == "plan.toml" || name == "keys"), "{left:?}");
}

/// Frames of 512 B at shares of what a link carries.
fn shares(frame_size: &str) -> String {
    format!(
        "[campaign]\nname = \"shares\"\n[[sweep]]\nname = \"s\"\nduration = \"1 \
            s\"\n[[sweep.job]]\nworkload = \"frames\"\nfrom = \"a\"\n\
         to = \"b\"\nparams = {{ frame_size = \"{frame_size}\" }}\n[sweep.axis]\n\"params.rate\" = \
         [\"50 %\", \"90 %\"]\n"
    )
}

#[test]
fn a_share_of_a_ceiling_is_a_rate_or_refused_for_an_unknown_ceiling() {
    let folder = tempfile::tempdir().expect("a folder");
    file(folder.path(), "plan.toml", &shares("512 B"));
    let told = run(folder.path(), &["plan", "plan.toml", "--lab", "pair-100m", "--json"]).expect(0);
    let told: serde_json::Value = serde_json::from_str(&told.stdout).expect("JSON");
    for trial in told["trials"].as_array().expect("trials") {
        // 508 B without the check sequence cross the lab's shaper, which counts them so.
        let full = 100e6 / (508.0 * 8.0);
        let share = if trial["point"]["rate"] == "50 %" { 0.5 } else { 0.9 };
        let rate = trial["jobs"][0]["params"]["rate"].as_str().expect("a rate");
        let rate = rate.strip_suffix(" packet/s").expect("frames a second");
        let rate: f64 = rate.parse().expect("a number");
        assert!((rate / (share * full) - 1.0).abs() < 1e-9, "{rate}");
    }
    let message = "error: `rate` of `frames` is a share of a ceiling that is not known
  --> plan.toml:12:1
   |
12 | \"params.rate\" = [\"50 %\", \"90 %\"]
   | ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
   |
   = help: expected a rate such as \"10 kpps\" or \"100 Mbit/s\"; or frames of one size, and a lab \
   or testbed that says what its links carry
plan.toml: 1 problem; nothing was run
";
    refused(&shares("512 B"), &["plan", "plan.toml", "--lab", "pair"], 2, message);
    refused(&shares("imix"), &["run", "plan.toml", "--lab", "pair-100m"], 2, message);
}

#[test]
fn frames_without_room_for_the_headers_of_their_addresses_are_refused_before_a_lab_is_built() {
    let folder = tempfile::tempdir().expect("a folder");
    file(
        folder.path(),
        "six.toml",
        "[lab]\nname = \"six\"\nfamily = \"ipv6\"\n[[host]]\nname = \"a\"\n[[host]]\nname \
            = \"b\"\n[[link]]\nends = [\"a\", \"b\"]\n",
    );
    let small = shares("64 B").replace("[\"50 %\", \"90 %\"]", "[\"1 kpps\"]");
    file(folder.path(), "plan.toml", &small);
    let told = run(folder.path(), &["run", "plan.toml", "--lab", "six.toml"]).expect(2);
    let message = "frame_size of `frames`: 64 B: a UDP header, 0 VLAN tags and the signature need \
        84 B over IPv6, and 64 B are too few";
    let start = format!("error: {message}\n  --> plan.toml:10:12\n");
    assert!(told.stderr.starts_with(&start), "{}", told.stderr);
    assert!(told.stderr.ends_with("plan.toml: 1 problem; nothing was run\n"), "{}", told.stderr);
    run(folder.path(), &["plan", "plan.toml", "--lab", "pair"]).expect(0);
}

#[test]
fn every_problem_of_a_plan_is_shown_at_once_where_it_stands() {
    let text = r#"[campaign]
name = "bad"
repeat = 3

[[sweep]]
name = "s"
duration = 5
[[sweep.job]]
workload = "tcp_steam"
from = "a"
to = "b"
[[sweep.job]]
workload = "udp_stream"
from = "a"
to = "b"
params = { datagram_sizes = "64 B" }
[sweep.axis]
"params.streems" = [1, 2]
"#;
    let message = r#"error: unknown key `repeat` in `campaign`
 --> plan.toml:3:1
  |
3 | repeat = 3
  | ^^^^^^
  |
  = help: expected one of name, repeats, order, seed, settings
  = help: did you mean `repeats`?

error: `duration` is 5
 --> plan.toml:7:12
  |
7 | duration = 5
  |            ^
  |
  = help: expected a time with its unit from "1 ms" to "2592000 s", such as "5 s"

error: there is no workload `tcp_steam`
 --> plan.toml:9:12
  |
9 | workload = "tcp_steam"
  |            ^^^^^^^^^^^
  |
  = help: expected one of `linerate list workloads`
  = help: did you mean `tcp_stream`?

error: datagram_sizes of `udp_stream`: unknown parameter
  --> plan.toml:16:12
   |
16 | params = { datagram_sizes = "64 B" }
   |            ^^^^^^^^^^^^^^^^^^^^^^^
   |
   = help: did you mean `datagram_size`?

error: axis `params.streems`: `udp_stream` has no such parameter
  --> plan.toml:18:1
   |
18 | "params.streems" = [1, 2]
   | ^^^^^^^^^^^^^^^^^^^^^^^^^
   |
   = help: did you mean `streams`?
plan.toml: 5 problems; nothing was run
"#;
    for command in ["plan", "run"] {
        refused(text, &[command, "plan.toml"], 2, message);
    }
}

#[test]
fn an_unsupported_value_is_shown_with_the_allowed_ones() {
    let text = r#"[campaign]
name = "bad"
[[sweep]]
name = "s"
[[sweep.job]]
workload = "udp_stream"
from = "a"
to = "b"
params = { rate = 25, streams = "two", receive = "discrad" }
[sweep.axis]
"params.datagram_size" = [64, "1400 B"]
"#;
    let message = r#"error: rate of `udp_stream`: 25 has no unit
 --> plan.toml:9:12
  |
9 | params = { rate = 25, streams = "two", receive = "discrad" }
  |            ^^^^^^^^^
  |
  = help: expected a rate with its unit, such as "25 Mbit/s" or "10 kpps"

error: streams of `udp_stream`: "two" does not fit
 --> plan.toml:9:23
  |
9 | params = { rate = 25, streams = "two", receive = "discrad" }
  |                       ^^^^^^^^^^^^^^^
  |
  = help: expected a whole number from 1 to 16384

error: receive of `udp_stream`: "discrad" does not fit
 --> plan.toml:9:40
  |
9 | params = { rate = 25, streams = "two", receive = "discrad" }
  |                                        ^^^^^^^^^^^^^^^^^^^
  |
  = help: expected one of "copy", "discard"
  = help: did you mean `discard`?

error: axis `params.datagram_size`: 64 has no unit
  --> plan.toml:11:1
   |
11 | "params.datagram_size" = [64, "1400 B"]
   | ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
   |
   = help: expected a size with its unit from "24 B" to "65507 B"
plan.toml: 4 problems; nothing was run
"#;
    refused(text, &["run", "plan.toml"], 2, message);
}

#[test]
fn conflicting_parameters_are_shown_at_the_axis_that_varies_one() {
    let text =
        plan("udp_stream", 1.0, "streams = 2") + "[sweep.axis]\n\"params.workers\" = [1, 4]\n";
    let message = r#"error: workers of `udp_stream`: 4 workers cannot share 2 streams: some would have none
  --> plan.toml:16:1
   |
16 | "params.workers" = [1, 4]
   | ^^^^^^^^^^^^^^^^^^^^^^^^^
plan.toml: 1 problem; nothing was run
"#;
    refused(&text, &["plan", "plan.toml"], 2, message);
}

#[test]
fn a_missing_endpoint_is_shown_with_the_existing_ones() {
    let text = plan("tcp_stream", 1.0, "").replace("to = \"b\"", "to = \"bb\"");
    let message = r#"error: the testbed has no endpoint `bb`
  --> plan.toml:13:6
   |
13 | to = "bb"
   |      ^^^^
   |
   = help: expected one of a, b
   = help: did you mean `b`?
plan.toml: 1 problem; nothing was run
"#;
    refused(&text, &["run", "plan.toml"], 2, message);
}

#[test]
fn intervals_are_shortened_to_fit_a_short_sweep() {
    let folder = tempfile::tempdir().expect("a folder");
    let warmup = format!("warmup = \"{} ms\"", common::WARM_UP * 1e3);
    let text = plan("null", 0.05, "").replace(&warmup, "warmup = \"0 s\"");
    file(folder.path(), "plan.toml", &text);
    let arguments = ["run", "plan.toml", "--ledger", "short.ledger", "--out", "report"];
    let ended = run(folder.path(), &arguments);
    let campaign = load(&folder.path().join("short.ledger"));
    let intervals = &campaign.trials[0].jobs[0].0.intervals;
    assert_eq!(campaign.trials[0].spec.phases.interval, linerate_model::Nanos::from_millis(10));
    assert!((1..=7).contains(&intervals.len()), "{}: {}", intervals.len(), ended.stdout);
    // A moment without a CPU takes an interval from so short a trial.
    if intervals.len() < 5 {
        return skip(format_args!("{} intervals of a trial of 50 ms", intervals.len()));
    }
    // With one interval less at one end than at the other it has no figure.
    assert!(matches!(ended.code, Some(0 | 3)), "{ended:?}");
}

#[test]
fn a_mistake_in_a_lab_is_shown_with_what_is_known() {
    let folder = tempfile::tempdir().expect("a folder");
    let lab = "[lab]\nname = \"x\"\n[[host]]\nname = \"a\"\n[[host]]\nname \
        = \"bmc\"\n[[controller]]\nname = \"nc\"\n\
               network = { to = \"a\", rate = \"1 Gbit/s\" }\nsideband = \
               { to = \"bmc\", rate = \"1 Gbit/s\" }\n\
               faults = { lose_reply = 10 }\n";
    file(folder.path(), "lab.toml", lab);
    let ended = run(folder.path(), &["plan", "null", "--lab", "lab.toml"]).expect(2);
    let message = "error: unknown key `lose_reply`
  --> lab.toml:11:12
   |
11 | faults = { lose_reply = 10 }
   |            ^^^^^^^^^^
   |
   = help: expected one of clear_on_read, legacy_statistics, all_ones, silent, reply_delay, \
        deaf_after_reset, lose_reply_one_in, duplicate_reply_one_in, mistake_reply_one_in, \
        truncate_reply_one_in, checksum
lab.toml: 1 problem; nothing was run
";
    assert_eq!(ended.stderr, message);
    file(folder.path(), "lab.toml", &lab.replace("lose_reply = 10", "silnet = true"));
    let ended = run(folder.path(), &["plan", "null", "--lab", "lab.toml"]).expect(2);
    assert!(ended.stderr.contains("= help: did you mean `silent`?"), "{}", ended.stderr);
}

#[test]
fn an_unknown_preset_is_answered_with_the_nearest() {
    let folder = tempfile::tempdir().expect("a folder");
    let ended = run(folder.path(), &["run", "tcp_steam"]).expect(2);
    let start = "linerate: read plan tcp_steam: No such file or directory (os error 2); did you \
        mean the preset \
                 `tcp_stream`? (`linerate list plans` prints the presets)";
    assert!(ended.stderr.starts_with(start), "{}", ended.stderr);
    let ended = run(folder.path(), &["run", "null", "--lab", "pear"]).expect(2);
    assert!(ended.stderr.contains("did you mean the preset `pair`?"), "{}", ended.stderr);
}

#[test]
fn a_missing_host_is_named_with_what_to_check() {
    let text = plan("tcp_stream", 1.0, "");
    let message = "linerate: connect to agent on 127.0.0.1: 127.0.0.1:9: Connection refused (os \
        error 111) (is `linerate agent` running there, and does a firewall let its port through? \
        Without a paired key it listens on loopback only: run `linerate agent --pair` there, and \
        `linerate to HOST --token -` here)\n";
    refused(&text, &["run", "plan.toml", "--to", "127.0.0.1:9"], 4, message);
    let folder = tempfile::tempdir().expect("a folder");
    let ended = run(folder.path(), &["run", "null", "--to", "no-such-host.invalid"]).expect(4);
    let stderr = &ended.stderr;
    assert!(stderr.starts_with("linerate: look up host no-such-host.invalid: "), "{stderr}");
    assert!(stderr.ends_with("(check the name, or give the address)\n"), "{stderr}");
}

#[test]
fn a_calculator_says_which_option_is_wrong_and_what_it_expects() {
    for (arguments, message) in [
        (
            ["limit", "tcp", "--rate", "25", "--mtu", "1500"],
            "linerate: limit tcp --rate: 25 has no unit, expected a bit rate with its unit, such \
                as \"25 Gbit/s\"\n",
        ),
        (
            ["limit", "tcp", "--rate", "1 Gbit/s", "--mtu", "jumbo"],
            "linerate: limit tcp --mtu: `jumbo`: expected an MTU in bytes, such as 1500 or \"9000 \
                B\"\n",
        ),
    ] {
        refused("", &arguments, 2, message);
    }
    let folder = tempfile::tempdir().expect("a folder");
    for arguments in [["limit", "tcpp", "--mtu", "1500"], ["limit", "tcp", "--rat", "1 Gbit/s"]] {
        let ended = run(folder.path(), &arguments).expect(2);
        assert!(ended.stderr.contains("tip: a similar"), "{}", ended.stderr);
    }
}

#[test]
fn an_interface_that_disappears_marks_its_trial_and_the_campaign_ends_by_itself() {
    let Some(folder) = privileged_folder() else { return };
    let text =
        plan("tcp_stream", 1.5, "congestion = \"cubic\"").replace("repeats = 1", "repeats = 3");
    file(folder.path(), "plan.toml", &text);
    let arguments =
        ["run", "plan.toml", "--lab", "pair", "--ledger", "gone.ledger", "--out", "report"];
    let mut child = linerate(folder.path(), &arguments)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("starts");
    heard(&mut child, "1/3 done");
    // The second trial loads the link for 2 s; it began when the first was done.
    std::thread::sleep(std::time::Duration::from_millis(800));
    let namespaces = common::private_namespaces(child.id());
    let namespace =
        namespaces.iter().find(|name| name.ends_with("-a")).expect("a host of the lab").as_str();
    assert!(
        common::within_mounts(child.id(), &["-n", namespace, "link", "delete", "b0"])
            .status
            .success()
    );
    let ended = wait(child);
    assert_eq!(ended.code, Some(1), "{ended:?}");
    let campaign = load(&folder.path().join("gone.ledger"));
    let outcomes: Vec<_> = campaign.trials.iter().map(|trial| trial.outcome).collect();
    println!("{outcomes:?}");
    assert_eq!(outcomes.iter().flatten().count(), 3, "every trial was tried: {outcomes:?}");
    let hurt: Vec<_> = campaign.trials.iter().filter(|trial| !trial.incidents.is_empty()).collect();
    assert_eq!(hurt.len(), 2, "the trial under way and the one after it are marked");
    for incident in hurt.iter().flat_map(|trial| &trial.incidents) {
        println!("{incident:?}");
    }
    assert!(
        hurt[0]
            .incidents
            .iter()
            .any(|incident| incident.message == "interface b0 disappeared during the trial")
    );
    assert_eq!(hurt[1].outcome, Some(TrialOutcome::Failed));
    assert!(campaign.ended.is_some());
}

#[test]
fn an_address_family_the_host_lacks_fails_the_trial_and_says_so() {
    let Some(folder) = privileged_folder() else { return };
    let pair = Pair::build("four");
    pair.ran(0, "sysctl -qw net.ipv6.conf.all.disable_ipv6=1");
    let testbed = "[[host]]\nname = \"here\"\nreach = \"local\"\n\
                   [[endpoint]]\nname = \"a\"\nhost = \"here\"\naddress = \"::1\"\n\
                   [[endpoint]]\nname = \"b\"\nhost = \"here\"\naddress = \"::1\"\n";
    file(folder.path(), "testbed.toml", testbed);
    file(folder.path(), "plan.toml", &plan("tcp_stream", 0.5, ""));
    let arguments = [
        "run",
        "plan.toml",
        "--testbed",
        "testbed.toml",
        "--ledger",
        "four.ledger",
        "--out",
        "report",
    ];
    let output = pair.linerate(0, folder.path(), "keys", &arguments).output().expect("starts");
    let ended = common::Ended::from(output).expect(4);
    assert!(
        ended.stderr.contains("::1") && ended.stderr.contains("1/1 FAILED"),
        "{}",
        ended.stderr
    );
    let campaign = load(&folder.path().join("four.ledger"));
    assert_eq!(campaign.trials[0].outcome, Some(TrialOutcome::Failed));
    println!("{:?}", campaign.trials[0].incidents);
    assert!(!campaign.trials[0].incidents.is_empty());
}

#[test]
fn a_file_that_is_no_ledger_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    file(folder.path(), "text.ledger", "no ledger");
    for name in ["text.ledger", "absent.ledger"] {
        let ended = run(folder.path(), &["report", name]).expect(4);
        assert!(ended.stderr.contains(name), "{}", ended.stderr);
        assert!(!Path::new("absent.ledger").exists());
    }
}

#[test]
fn the_cpus_of_a_host_that_does_not_answer_are_not_those_of_this_one() {
    let folder = tempfile::tempdir().expect("a folder");
    let ended = run(folder.path(), &["plan", "sun-host", "--to", "127.0.0.1:1"]).expect(2);
    assert!(ended.stderr.contains("endpoint `b` lists no CPUs"), "{}", ended.stderr);
}
