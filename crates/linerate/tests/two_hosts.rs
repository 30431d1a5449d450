//! Two hosts: an agent in one namespace, the conductor in another, paired as two people would pair
//! them.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Child;

use linerate_model::{Counter, IncidentKind, JobRecord, TrialOutcome};

use crate::common::{
    AGENT, Ended, Pair, exchange_keys, file, heard, load, plan, privileged_folder, signal, skip,
    wait,
};

/// Plan of `repeats` trials of a stream, `milliseconds` each.
fn stream(repeats: u32, milliseconds: u32) -> String {
    format!(
        "[campaign]\nname = \"two\"\nrepeats = {repeats}\n[[sweep]]\nname = \"two\"\nduration \
            = \"{milliseconds} ms\"\n\
         warmup = \"100 ms\"\ndrain = \"100 ms\"\nrest = \"0 s\"\n[[sweep.job]]\nworkload \
         = \"tcp_stream\"\nfrom = \"a\"\n\
         to = \"b\"\nparams = {{ congestion = \"cubic\", pacing_rate = \"100 Mbit/s\" }}\n"
    )
}

/// Starts a campaign and waits until the `after`-th trial has ended, or with 0 until it has begun
/// to run.
fn campaign(pair: &Pair, folder: &Path, arguments: &[&str], after: usize) -> Child {
    let mut child = pair.linerate(0, folder, "a", arguments).spawn().expect("starts");
    if after > 0 {
        heard(&mut child, &format!("{after}/"));
    }
    child
}

#[test]
fn two_paired_hosts_measure_and_strangers_are_refused() {
    let Some(folder) = privileged_folder() else { return };
    let (folder, pair) = (folder.path(), Pair::build("two"));

    let unpaired =
        pair.linerate(1, folder, "b", &["agent", "--listen", AGENT]).output().expect("starts");
    let unpaired = Ended::from(unpaired).expect(4);
    let port = linerate_model::AGENT_PORT;
    assert_eq!(
        unpaired.stderr,
        format!(
            "linerate: listen on {AGENT}:{port}: no paired key, and without one an agent listens \
                on loopback only \
             (pair first: `linerate agent --pair`)\n"
        )
    );

    exchange_keys(&pair, folder);
    let agent = pair.agent(folder, AGENT, &[]);
    let preset = [
        "run",
        "tcp_stream",
        "--to",
        AGENT,
        "--set",
        "campaign.repeats=1",
        "--set",
        "duration=\"200 ms\"",
        "--set",
        "warmup=\"100 ms\"",
        "--set",
        "rest=\"0 s\"",
        "--ledger",
        "two.ledger",
        "--json",
        "--out",
        "report",
    ];
    let json =
        Ended::from(pair.linerate(0, folder, "a", &preset).output().expect("starts")).ran().json();
    assert_eq!(
        (&json["campaign"]["testbed"], &json["campaign"]["emulated"]),
        (&"hosts".into(), &false.into())
    );
    for point in json["points"].as_array().expect("a list") {
        let goodput = point["jobs"][0]["metrics"]["goodput"]["estimate"].as_f64();
        println!("tcp_stream to {AGENT}, {}: {goodput:?} bit/s", point["parameters"]);
        let says_why = point["why"].as_array().is_some_and(|why| !why.is_empty());
        assert!(goodput.map_or(says_why, |goodput| goodput > 0.0), "{point}");
    }
    let hosts: Vec<String> =
        load(&folder.join("two.ledger")).hosts.into_iter().map(|host| host.host).collect();
    assert_eq!(hosts, ["here", AGENT]);

    let stranger = pair.linerate(0, folder, "stranger", &preset[..4]).output().expect("starts");
    let stranger = Ended::from(stranger).expect(4);
    assert!(
        stranger.stderr.contains("authenticate with") && stranger.stderr.contains("linerate pair"),
        "{stranger:?}"
    );

    file(folder, "long.toml", &stream(1, 4_000));
    let long =
        ["run", "long.toml", "--to", AGENT, "--ledger", "long.ledger", "--out", "report", "-v"];
    let mut first = campaign(&pair, folder, &long, 0);
    let mut lines = BufReader::new(first.stderr.take().expect("piped")).lines();
    assert!(lines.any(|line| line.is_ok_and(|line| line.contains("198.18.9.2 joined"))));
    std::thread::spawn(move || lines.for_each(drop));
    let second = Ended::from(pair.linerate(0, folder, "a", &preset[..4]).output().expect("starts"))
        .expect(4);
    assert!(second.stderr.contains("it is busy with campaign"), "{second:?}");
    assert!(second.stderr.contains(" s more. Wait (`--wait`)"), "{second:?}");
    let patient = [
        "to 198.18.9.2 -t 0.2",
        "probe --to 198.18.9.2 --max-bytes 1M",
        "tune host --to 198.18.9.2 --try coalescing --seconds 0.1 --omit 0",
    ];
    let waiting = patient.map(|words| {
        let words: Vec<&str> = words.split(' ').chain(["--wait"]).collect();
        campaign(&pair, folder, &words, 0)
    });
    for waited in waiting.map(wait) {
        assert!(waited.stderr.contains("waiting: greet agent on"), "{waited:?}");
        assert!(!waited.stderr.contains("(`--wait`)"), "it waits already: {waited:?}");
        // 1: the agent permits no change of its settings, so nothing is proven.
        assert!(matches!(waited.code, Some(0 | 1 | 3)), "{waited:?}");
    }
    wait(first).ran();
    drop(agent);

    let gone = Ended::from(pair.linerate(0, folder, "a", &preset[..4]).output().expect("starts"))
        .expect(4);
    assert!(
        gone.stderr.contains("connect to agent on 198.18.9.2")
            && gone.stderr.contains("linerate agent"),
        "{gone:?}"
    );
}

/// Returns whether this machine has two cores, with a skip if not.
fn has_two_cores() -> bool {
    let list = "/sys/devices/system/cpu/cpu0/topology/thread_siblings_list";
    let siblings = std::fs::read_to_string(list).unwrap_or_default();
    let has = std::thread::available_parallelism().is_ok_and(|cpus| cpus.get() > 1)
        && !linerate_model::cpu_list(&siblings).unwrap_or_default().contains(&1);
    if !has {
        skip("CPUs 0 and 1 are not two cores");
    }
    has
}

#[test]
fn campaigns_with_other_cpus_and_interfaces_run_at_one_host_at_the_same_time() {
    let Some(folder) = privileged_folder().filter(|_| has_two_cores()) else { return };
    let (folder, pair) = (folder.path(), Pair::build("both"));
    let [a, b] = &pair.names;
    pair.ran(0, &format!("ip link add v1 netns {a} type veth peer name v1 netns {b}"));
    for (end, address) in ["198.18.10.1/24", "198.18.10.2/24"].into_iter().enumerate() {
        pair.ran(end, &format!("ip address add {address} dev v1"));
        pair.ran(end, "ip link set v1 up");
    }
    exchange_keys(&pair, folder);
    let _agent = pair.agent(folder, AGENT, &[]);
    for (name, net, cpu) in [("one", 9, 0), ("other", 10, 1), ("third", 9, 1)] {
        let testbed = format!(
            "[[host]]\nname = \"here\"\nreach = \"local\"\n\
             [[host]]\nname = \"there\"\nreach = \"{AGENT}\"\n\
             [[endpoint]]\nname = \"a\"\nhost = \"here\"\naddress = \"198.18.{net}.1\"\n\
             [[endpoint]]\nname = \"b\"\nhost = \"there\"\naddress = \"198.18.{net}.2\"\n\
             cpus = [{cpu}]\n"
        );
        file(folder, &format!("{name}.toml"), &testbed);
    }
    file(folder, "long.plan", &stream(1, 60_000));
    file(folder, "short.plan", &stream(1, 300));
    let words = |plan: &'static str, testbed: &'static str, ledger: &'static str| {
        ["run", plan, "--testbed", testbed, "--ledger", ledger, "-v"]
    };
    let mut one = campaign(&pair, folder, &words("long.plan", "one.toml", "one.ledger"), 0);
    heard(&mut one, "there joined");
    let other = pair.linerate(0, folder, "a", &words("short.plan", "other.toml", "other.ledger"));
    let third = pair.linerate(0, folder, "a", &words("short.plan", "third.toml", "third.ledger"));
    let [other, third] = [other, third].map(|mut command| command.output().expect("starts"));
    let other = Ended::from(other);
    assert!(matches!(other.code, Some(0 | 1)), "{other:?}");
    let third = Ended::from(third).expect(4);
    assert!(third.stderr.contains(", which also uses interface v0"), "{third:?}");
    signal(one.id(), "INT");
    wait(one);
    let trial = &load(&folder.join("other.ledger")).trials[0];
    assert_eq!(trial.outcome, Some(TrialOutcome::Completed), "{:?}", trial.incidents);
    let is_named = |of: &linerate_model::Incident| of.kind == IncidentKind::Neighbour;
    assert!(trial.incidents.iter().any(is_named), "{:?}", trial.incidents);
}

#[test]
fn an_agent_killed_in_a_trial_costs_that_trial_only() {
    let Some(folder) = privileged_folder() else { return };
    let (folder, pair) = (folder.path(), Pair::build("kill"));
    exchange_keys(&pair, folder);
    let victim = pair.agent(folder, AGENT, &[]);
    file(folder, "plan.toml", &stream(3, 1_500));
    let arguments =
        ["run", "plan.toml", "--to", AGENT, "--ledger", "kill.ledger", "--out", "report"];
    let running = campaign(&pair, folder, &arguments, 1);
    // The second trial is under way for at least its 1.6 s of load.
    std::thread::sleep(std::time::Duration::from_millis(700));
    signal(victim.0.id(), "KILL");
    drop(victim);
    let _second_life = pair.agent(folder, AGENT, &[]);
    let ended = wait(running);
    assert_eq!(ended.code, Some(1), "one trial was missed: {ended:?}");
    let campaign = load(&folder.join("kill.ledger"));
    let outcomes: Vec<_> = campaign.trials.iter().filter_map(|trial| trial.outcome).collect();
    let failed = outcomes.iter().filter(|outcome| **outcome == TrialOutcome::Failed).count();
    assert_eq!((outcomes.len(), failed), (3, 1), "{outcomes:?}");
    let hurt = campaign
        .trials
        .iter()
        .find(|trial| trial.outcome == Some(TrialOutcome::Failed))
        .expect("one");
    assert!(
        hurt.incidents.iter().any(|incident| incident.kind == IncidentKind::AgentLost),
        "{:?}",
        hurt.incidents
    );
}

#[test]
fn a_separated_agent_sends_live_frames_that_its_broker_has_made() {
    let Some(folder) = privileged_folder() else { return };
    let (folder, pair) = (folder.path(), Pair::build("live"));
    exchange_keys(&pair, folder);
    let agent = pair.agent(folder, AGENT, &[]);
    let status =
        std::fs::read_to_string(format!("/proc/{}/status", agent.0.id())).expect("it runs");
    let has = |name: &str, value: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(":"));
        assert_eq!(line.map(str::trim), Some(value), "{name}");
    };
    has("NoNewPrivs", "1");
    has("Seccomp", "2");
    let text = plan("frames", 0.3, "mode = \"live\", rate = \"2 kpps\"");
    file(
        folder,
        "live.toml",
        &text.replace("from = \"a\"\nto = \"b\"", "from = \"b\"\nto = \"a\""),
    );
    let arguments =
        ["run", "live.toml", "--to", AGENT, "--ledger", "live.ledger", "--out", "report", "--json"];
    let _whatever_it_found = pair.linerate(0, folder, "a", &arguments).output().expect("starts");
    let campaign = load(&folder.join("live.ledger"));
    let trial = campaign.trials.first().expect("one was begun");
    let incidents: Vec<&str> = trial.incidents.iter().map(|incident| &*incident.message).collect();
    if incidents.iter().any(|why| why.contains("Linux 5.18") || why.contains("CONFIG_BPF_EVENTS")) {
        return skip(format_args!("{incidents:?}"));
    }
    let (agents, ours) = trial.jobs.first().unwrap_or_else(|| panic!("no load: {incidents:?}"));
    let sum = |end: &JobRecord, counter| {
        end.intervals.iter().map(|one| one.counters[counter]).sum::<u64>()
    };
    let modes = &agents.flows.first().unwrap_or_else(|| panic!("no flow: {incidents:?}")).modes;
    assert!(modes["send"].starts_with("live: made by the kernel"), "{modes:?}");
    // Each frame that its driver took arrived, and was identified by its number.
    let (sent, received) =
        (sum(agents, Counter::DatagramsSent), sum(ours, Counter::DatagramsReceived));
    assert!(sent > 0 && sent == received, "{sent} sent, {received} received: {incidents:?}");
}
