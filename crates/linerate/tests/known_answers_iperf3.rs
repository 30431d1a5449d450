//! Known answers of plans with an iperf3 server as the other end: what the server counted itself is
//! what the ledger has of it.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use linerate_model::{Counter, FlowReport, TrialOutcome, TrialRecord};
use serde_json::Value;

use crate::common::{PATIENCE, file, free_port, linerate, load, run};

/// Address of the servers of this file.
const HERE: &str = "127.78.0.41";

/// A server, which ends with the test.
struct Server {
    child: Child,
    port: u16,
}

impl Server {
    fn start(mut command: Command, port: u16) -> Self {
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        let server = Self { child: command.spawn().expect("a server"), port };
        // A connection would be a test. The table of sockets has the port in network order of hex.
        let listens = format!(":{port:04X} 00000000:0000 0A");
        let begun = Instant::now();
        while !std::fs::read_to_string("/proc/net/tcp").is_ok_and(|text| text.contains(&listens)) {
            assert!(begun.elapsed() < PATIENCE, "it does not listen");
            std::thread::sleep(Duration::from_millis(10));
        }
        server
    }

    /// Starts `linerate serve iperf3`.
    fn ours(folder: &Path) -> Self {
        let port = free_port();
        let number = port.to_string();
        let serve = ["serve", "iperf3", "-B", HERE, "-p", &number, "--json"];
        Self::start(linerate(folder, &serve), port)
    }

    /// Starts an unmodified iperf3.
    fn unmodified() -> Self {
        let port = free_port();
        let mut command = Command::new("iperf3");
        command.args(["-s", "-B", HERE, "-p", &port.to_string(), "-J", "--forceflush"]);
        Self::start(command, port)
    }

    fn name(&self) -> String {
        format!("iperf3://{HERE}:{}", self.port)
    }

    /// Returns the JSON texts of `n` tests, and ends the server.
    fn end(mut self, n: usize) -> Vec<Value> {
        let output = BufReader::new(self.child.stdout.take().expect("piped"));
        let mut text = String::new();
        let mut n_ended = 0;
        for line in output.lines().map(|line| line.expect("text")) {
            // Ours prints a line for each test; iperf3 prints lines that end with this one.
            n_ended += usize::from(line.starts_with("{\"") || line == "}");
            text += &(line + "\n");
            if n_ended == n {
                break;
            }
        }
        let documents = serde_json::Deserializer::from_str(&text).into_iter::<Value>();
        documents.map(|found| found.expect("JSON")).collect()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Plan with a sweep for each transport: three values of a parameter, each in all directions.
fn plan(server: &str, tcp: &str, udp: &str) -> String {
    let sweep = |name: &str, params: &str, axis: &str| {
        format!(
            "[[sweep]]\nname = \"{name}\"\nduration = \"400 ms\"\nwarmup = \"100 ms\"\n\
            rest = \"0 s\"\n[[sweep.job]]\nworkload = \"iperf3\"\nfrom = \"a\"\n\
            to = \"{server}\"\nparams = {{ streams = 2, {params} }}\n[sweep.axis]\n{axis}\n"
        )
    };
    let campaign = "[campaign]\nname = \"known\"\nrepeats = 1\norder = \"sequential\"\n";
    let udp_params = "protocol = \"udp\", datagram_size = \"1000 B\"";
    let tcp_params = "rate = \"16 Mbit/s\"";
    [campaign.to_owned(), sweep("tcp", tcp_params, tcp), sweep("udp", udp_params, udp)].concat()
}

/// Sweep of sizes, and of rates, in each direction.
const SIZES: &str = "\"params.message_size\" = [\"1 KiB\", \"16 KiB\", \"128 KiB\"]\n\
    \"params.direction\" = [\"tx\", \"rx\"]";
const RATES: &str = "\"params.rate\" = [\"4 Mbit/s\", \"8 Mbit/s\", \"16 Mbit/s\"]\n\
    \"params.direction\" = [\"tx\", \"rx\", \"both\"]";

fn flows(trial: &TrialRecord) -> &[FlowReport] {
    let (active, passive) = &trial.jobs[0];
    assert_eq!((passive.intervals.len(), passive.flows.len()), (0, 0), "the server is not ours");
    &active.flows
}

/// Returns what the server reported over its protocol: payload received and sent, datagrams
/// received and sent.
fn reported(trial: &TrialRecord) -> [u64; 4] {
    const COUNTERS: [Counter; 4] = [
        Counter::PayloadReceived,
        Counter::PayloadSent,
        Counter::DatagramsReceived,
        Counter::DatagramsSent,
    ];
    let reports = flows(trial).iter().map(|flow| flow.foreign.as_ref().expect("it reports"));
    let reports: Vec<_> = reports.collect();
    COUNTERS.map(|counter| reports.iter().map(|one| one.counters[counter]).sum())
}

/// Checks every trial of the ledger against what the server printed of it: payload it received and
/// sent.
fn check(trials: &[TrialRecord], printed: &[[u64; 2]]) {
    assert_eq!((trials.len(), printed.len()), (15, 15), "3 x 2 of TCP and 3 x 3 of UDP");
    for (trial, printed) in trials.iter().zip(printed) {
        let what = format!("{} {:?}", trial.spec.sweep, trial.spec.point);
        assert_eq!(trial.outcome, Some(TrialOutcome::Completed), "{what}: {:?}", trial.incidents);
        let [received, sent, datagrams_received, datagrams_sent] = reported(trial);
        println!("{what}: the server reported {received} and {sent} B, and printed {printed:?}");
        assert_eq!([received, sent], *printed, "{what}");
        let ours = |counter| flows(trial).iter().map(|flow| flow.counters[counter]).sum::<u64>();
        if trial.spec.sweep == "udp" {
            // A machine that others use may drop datagrams of a full buffer, and never adds any.
            assert!(datagrams_received <= ours(Counter::DatagramsSent), "{what}");
            assert!(datagrams_sent >= ours(Counter::DatagramsReceived), "{what}");
            assert_eq!(datagrams_received * 1000, received, "{what}");
        } else {
            assert!(received <= ours(Counter::PayloadSent), "{what}");
            assert!(sent >= ours(Counter::PayloadReceived), "{what}");
        }
    }
}

/// Runs the plan with `server`, and checks plan, ledger and report.
fn measured(folder: &Path, server: &str) -> Vec<TrialRecord> {
    file(folder, "plan.toml", &plan(server, SIZES, RATES));
    let planned = run(folder, &["plan", "plan.toml"]).expect(0).stdout;
    assert!(planned.contains("15 trials"), "{planned}");
    run(folder, &["run", "plan.toml", "--ledger", "known.ledger", "--out", "first"]).ran();
    run(folder, &["report", "known.ledger", "--format", "md", "--out", "again"]).ran();
    let report = std::fs::read_to_string(folder.join("again/report.md")).expect("a report");
    for part in [&format!("a to {server}")[..], "direction both, rate 16 Mbit/s", "Foreign goodput"]
    {
        assert!(report.contains(part), "{part}: {report}");
    }
    load(&folder.join("known.ledger")).trials
}

/// Returns the sum of `key` over the streams that the server `sends` or does not.
fn sum_of(streams: &Value, sends: bool, key: &str) -> u64 {
    let streams = streams.as_array().expect("a list").iter();
    let of_way = streams.filter(|stream| stream["sends"] == sends);
    of_way.map(|stream| stream[key].as_u64().expect("bytes")).sum()
}

#[test]
fn a_plan_with_our_own_server_has_its_counts_in_the_ledger() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = Server::ours(folder.path());
    let trials = measured(folder.path(), &server.name());
    let printed = server.end(trials.len());
    let printed = printed.iter().filter(|test| test["complete"] == true);
    let printed: Vec<[u64; 2]> = printed
        .map(|test| [false, true].map(|sends| sum_of(&test["streams"], sends, "bytes")))
        .collect();
    check(&trials, &printed);
}

#[test]
fn a_plan_with_an_unmodified_server_has_its_counts_in_the_ledger() {
    let test = "a_plan_with_an_unmodified_server_has_its_counts_in_the_ledger";
    if Command::new("iperf3").arg("--version").output().is_err() {
        println!("skipped: {test}: needs iperf3");
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let server = Server::unmodified();
    let trials = measured(folder.path(), &server.name());
    let printed = server.end(trials.len());
    let payload = |test: &Value| {
        let end = &test["end"];
        // With both directions, that of the server has a sum of its own.
        let sent = end.get("sum_sent_bidir_reverse").unwrap_or(&end["sum_sent"]);
        [&end["sum_received"], sent].map(|sum| sum["bytes"].as_u64().expect("bytes"))
    };
    let printed: Vec<[u64; 2]> = printed.iter().map(payload).collect();
    check(&trials, &printed);
}

#[test]
fn a_server_that_fails_costs_its_trial_and_no_other() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let server = Server::ours(folder);
    let nobody = format!("iperf3://{HERE}:{}", free_port());
    let pairs = format!("pairs = [[\"a {nobody}\"], [\"a {}\"]]", server.name());
    let text = plan("iperf3://unused", &pairs, &pairs);
    file(
        folder,
        "plan.toml",
        &text.replace("streams = 2, protocol", "rate = \"1 Mbit/s\", protocol"),
    );
    // 1: a trial has failed.
    run(folder, &["run", "plan.toml", "--ledger", "known.ledger"]).expect(1);
    let trials = load(&folder.join("known.ledger")).trials;
    let outcomes: Vec<_> = trials.iter().map(|trial| trial.outcome).collect();
    assert_eq!(outcomes.len(), 4);
    for (trial, is_good) in trials.iter().zip([false, true, false, true]) {
        assert_eq!(trial.outcome == Some(TrialOutcome::Completed), is_good, "{outcomes:?}");
        let why = trial.incidents.iter().map(|incident| incident.message.as_str());
        let why: String = why.collect();
        assert_eq!(why.contains("connect to iperf3 server"), !is_good, "{why}");
    }
}

#[test]
fn a_server_is_refused_where_no_workload_can_use_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let good = plan("iperf3://192.0.2.7", SIZES, RATES);
    let other = "[campaign]\nname = \"p\"\n[[sweep]]\nname = \"s\"\n[[sweep.job]]\n\
        workload = \"tcp_stream\"\nfrom = \"a\"\nto = \"iperf3://192.0.2.7\"\n";
    for (text, part) in [
        (other.to_owned(), "only the workload"),
        (good.replace("\"a\"", "\"iperf3://192.0.2.8\""), "is the `to` of a job"),
        (good.replace("iperf3://192.0.2.7", "b"), "to = \"iperf3://HOST[:PORT]\""),
        (good.replace("192.0.2.7", "192.0.2.7:x"), "is no port"),
    ] {
        file(folder, "plan.toml", &text);
        let refused = run(folder, &["plan", "plan.toml"]).expect(2).stderr;
        assert!(refused.contains(part), "{part}: {refused}");
    }
    file(folder, "plan.toml", &good);
    assert!(run(folder, &["plan", "plan.toml"]).expect(0).stdout.contains("15 trials"));
}
