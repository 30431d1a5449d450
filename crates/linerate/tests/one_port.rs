//! A host behind a firewall that lets only the agent's port through, in both directions and without
//! connection tracking.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use linerate_model::TrialOutcome;
use serde_json::Value;

use crate::common::{AGENT, Ended, Guard, Pair, file, load, one_line, privileged_folder, wait};

/// Rules of both hosts: TCP and UDP pass with the agent's port at one end. Packets to and from
/// other ports are counted and dropped.
const RULES: &str = "table inet one {
    counter other { }
    chain arriving {
        type filter hook input priority 0; policy drop;
        iif lo accept
        meta l4proto ipv6-icmp accept
        meta l4proto { tcp, udp } th dport 4777 accept
        meta l4proto { tcp, udp } th sport 4777 accept
        meta l4proto { tcp, udp } counter name other
    }
    chain leaving {
        type filter hook output priority 0; policy drop;
        oif lo accept
        meta l4proto ipv6-icmp accept
        meta l4proto { tcp, udp } th dport 4777 accept
        meta l4proto { tcp, udp } th sport 4777 accept
        meta l4proto { tcp, udp } counter name other
    }
}";

/// Modes of `to` with their options.
const MODES: [&str; 10] = [
    "tcp",
    "tcp -R",
    "tcp --bidir",
    "tcp -P 4",
    "tcp -w 256K",
    "rr",
    "udp",
    "udp -R",
    "udp --bidir -P 4 -b 1M",
    "udp-rr",
];

/// Job of a plan: workload, ends, parameters.
type Job = (&'static str, [&'static str; 2], &'static str);

/// Several jobs at once.
const JOBS: [Job; 6] = [
    ("tcp_stream", ["a", "b"], r#"streams = 2, pacing_rate = "20 Mbit/s""#),
    ("tcp_rr", ["a", "b"], ""),
    ("udp_stream", ["a", "b"], r#"rate = "1 kpps", streams = 3"#),
    ("udp_stream", ["a", "b"], r#"rate = "1 kpps", direction = "rx""#),
    ("tcp_rr", ["b", "a"], ""),
    ("udp_rr", ["b", "a"], ""),
];

/// Jobs whose passive ends listen at ports of their own.
const OWN_PORTS: [Job; 5] = [
    ("tcp_crr", ["a", "b"], ""),
    ("http", ["a", "b"], ""),
    ("ftp", ["a", "b"], ""),
    ("tcp_stream", ["a", "b"], r#"window_clamp = "64 KiB""#),
    (
        "udp_stream",
        ["a", "b"],
        r#"rate = "1 kpps", source_ports = "5000", destination_port = 5001"#,
    ),
];

/// Returns a plan of `jobs` at once.
fn plan(name: &str, jobs: &[Job]) -> String {
    let head = format!(
        r#"
[campaign]
name = "{name}"
repeats = 1
[[sweep]]
name = "{name}"
duration = "300 ms"
warmup = "100 ms"
drain = "300 ms"
rest = "0 s"
"#
    );
    let jobs = jobs.iter().map(|(workload, [from, to], params)| {
        let ends = format!("from = \"{from}\"\nto = \"{to}\"");
        format!("[[sweep.job]]\nworkload = \"{workload}\"\n{ends}\nparams = {{ {params} }}\n")
    });
    head + &jobs.collect::<String>()
}

/// Loads [`RULES`], whose lines must stay lines.
fn load_rules(pair: &Pair, end: usize) {
    let mut nft = Command::new("ip");
    let output = nft.args(["netns", "exec", &pair.names[end], "nft", RULES]).output();
    let output = output.expect("nft runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Packets to and from other ports so far, at both hosts.
fn others(pair: &Pair) -> u64 {
    let counted = |end| {
        let text = pair.ran(end, "nft -j list counter inet one other");
        let listed: Value = serde_json::from_str(&text).expect("nft prints JSON");
        let list = listed["nftables"].as_array().expect("a list");
        let packets = list.iter().find_map(|one| one["counter"]["packets"].as_u64());
        packets.expect("the counter is there")
    };
    counted(0) + counted(1)
}

/// Asserts that every trial of the ledger was completed.
fn completed(ledger: &Path, n_trials: usize) {
    let campaign = load(ledger);
    assert_eq!(campaign.trials.len(), n_trials, "{}", ledger.display());
    for trial in &campaign.trials {
        assert_eq!(trial.outcome, Some(TrialOutcome::Completed), "{:?}", trial.incidents);
    }
}

/// Returns the agent's address of the link, with its zone at the other end.
fn of_link(pair: &Pair) -> String {
    let text = pair.ran(1, "ip -o -6 address show dev v0 scope link");
    let words = text.split_whitespace().skip_while(|word| *word != "inet6");
    let address = words.skip(1).find_map(|word| word.split('/').next()).expect("an address");
    format!("{address}%v0")
}

/// Starts an agent that offers to be paired, and measures with its token.
fn paired_by_two_commands(pair: &Pair, folder: &Path) -> Guard {
    let mut agent = pair.linerate(1, folder, "b", &["agent", "--pair"]).spawn().expect("starts");
    let mut token = String::new();
    let mut printed = BufReader::new(agent.stdout.take().expect("piped"));
    printed.read_line(&mut token).expect("the token is printed first");
    let mut said = BufReader::new(agent.stderr.take().expect("piped")).lines();
    let command = format!("  linerate to {AGENT} --token -");
    assert!(said.any(|line| line.expect("text") == command), "it says what to type");
    // Captured by the harness, which prints it if the test fails.
    std::thread::spawn(move || said.for_each(|line| println!("agent: {}", line.expect("text"))));
    let ledger = ["--ledger", "pair.ledger"];
    let to = [&["to", AGENT, "--token", "-", "-t", "0.5"][..], &ledger].concat();
    let mut to = pair.linerate(0, folder, "a", &to).stdin(Stdio::piped()).spawn().expect("starts");
    to.stdin.take().expect("piped").write_all(token.as_bytes()).expect("it reads");
    wait(to).ran();
    completed(&folder.join("pair.ledger"), 1);
    assert_eq!(others(pair), 0, "pairing and its first measurement");
    Guard(agent)
}

#[test]
fn behind_a_firewall_with_one_open_port_every_measurement_of_a_host_works() {
    let Some(folder) = privileged_folder() else { return };
    let (folder, pair) = (folder.path(), Pair::build("port"));
    (0..2).for_each(|end| load_rules(&pair, end));
    let _agent = paired_by_two_commands(&pair, folder);
    let here = |arguments: &[&str]| {
        Ended::from(pair.linerate(0, folder, "a", arguments).output().expect("starts"))
    };
    for (number, mode) in MODES.iter().enumerate() {
        let ledger = format!("to-{number}.ledger");
        let mut arguments = vec!["to", AGENT];
        arguments.extend(mode.split(' '));
        arguments.extend(["-t", "0.5", "--ledger", &ledger]);
        here(&arguments).ran();
        completed(&folder.join(&ledger), 1);
        assert_eq!(others(&pair), 0, "{mode}");
    }
    let zoned = of_link(&pair);
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").expect("Linux has it");
    here(&["pair", "bind", name.trim(), &zoned]).expect(0);
    for mode in ["tcp", "udp"] {
        let ledger = format!("zone-{mode}.ledger");
        here(&["to", &zoned, mode, "-t", "0.5", "--ledger", &ledger]).ran();
        completed(&folder.join(&ledger), 1);
        assert_eq!(others(&pair), 0, "{zoned} {mode}");
    }
    // The other end, which waits for its flows, ends with this one and blames no firewall.
    let refused = here(&["to", AGENT, "-C", "nosuch", "-t", "0.5"]).expect(4);
    let why = one_line(&refused.stderr);
    assert!(why.contains("nosuch") && !why.contains("firewall"), "{refused:?}");
    file(folder, "jobs.toml", &plan("jobs", &JOBS));
    here(&["run", "jobs.toml", "--to", AGENT, "--ledger", "jobs.ledger", "--out", "report"]).ran();
    completed(&folder.join("jobs.ledger"), 1);
    let diagnosed =
        here(&["diagnose", "--to", AGENT, "--seconds", "0.2", "--omit", "0.1", "--limits", "1"]);
    // 1: it has found something; 3: a machine that others use makes it worthless.
    assert!(matches!(diagnosed.code, Some(0 | 1 | 3)), "{diagnosed:?}");
    assert_eq!(others(&pair), 0, "jobs and diagnose");
    // A workload that has ports of its own fails here, and names what a firewall must let through.
    let refused = here(&["to", AGENT, "crr", "-t", "0.5"]);
    assert!(others(&pair) > 0, "the counter counts");
    let why = one_line(&refused.stderr);
    assert!(why.contains("does a firewall drop TCP to port"), "{refused:?}");
    (0..2).for_each(|end| drop(pair.ran(end, "nft delete table inet one")));
    here(&["to", &zoned, "crr", "-t", "0.5", "--ledger", "crr.ledger"]).ran();
    file(folder, "own.toml", &plan("own", &OWN_PORTS));
    here(&["run", "own.toml", "--to", &zoned, "--ledger", "own.ledger", "--out", "own"]).ran();
    for ledger in ["crr.ledger", "own.ledger"] {
        completed(&folder.join(ledger), 1);
    }
}
