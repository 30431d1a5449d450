//! `linerate tune` and an agent with consent: changes are put back, however the session ends.

use std::io::BufReader;
use std::time::Duration;

use linerate_control::{Setting, Tuner};
use linerate_model::HostAddress;
use linerate_sys::netns::within;

use crate::common::{
    AGENT, Ended, Guard, Pair, eventually, exchange_keys, privileged_folder, punctual, signal,
    skip, turn,
};

/// The device of either end of a pair.
const DEVICE: &str = "v0";
const LISTEN: &str = "127.0.0.1:4777";

fn window(bytes: u32) -> Setting {
    let destination = "198.18.9.1".parse().expect("literal");
    Setting::RouteWindow { destination, device: DEVICE.into(), window: bytes, initial: 0 }
}

fn rmem() -> Setting {
    Setting::Sysctl { name: "net.ipv4.tcp_rmem".into(), value: "4096 12288 12288".into() }
}

/// The agent inside the second namespace, on its loopback, with `allowed`; listening.
fn agent(pair: &Pair, folder: &std::path::Path, allowed: &[&str]) -> Guard {
    agent_on(LISTEN, pair, folder, allowed)
}

fn agent_on(address: &str, pair: &Pair, folder: &std::path::Path, allowed: &[&str]) -> Guard {
    let allowed: Vec<&str> = allowed.iter().flat_map(|word| ["--allow-tune", word]).collect();
    pair.agent(folder, address, &allowed)
}

fn tuner(pair: &Pair) -> Tuner {
    let open = || Tuner::open("bmc", &HostAddress::Tcp(LISTEN.into()), None, "test");
    within(&pair.names[1], open).expect("the namespace is there").expect("the agent lets us in")
}

/// Route and `tcp_rmem` of the second host.
fn settings(pair: &Pair) -> (String, String) {
    let name = &pair.names[1];
    let route = pair.ran(1, "ip route show 198.18.9.0/24");
    let rmem = within(name, || linerate_sys::sysctl::read("net.ipv4.tcp_rmem"))
        .expect("there")
        .expect("readable");
    (route.trim().to_owned(), rmem)
}

#[test]
fn an_ended_agent_restores_all_settings_also_after_a_kill() {
    let Some(folder) = privileged_folder() else { return };
    let (folder, pair) = (folder.path(), Pair::build("tune"));
    let before = settings(&pair);
    let restore = || {
        Ended::from(pair.linerate(1, folder, "b", &["tune", "restore"]).output().expect("starts"))
    };
    assert_eq!(restore().expect(0).stdout, "nothing was left changed here\n");

    for ending in ["TERM", "INT"] {
        let mut serving = agent(&pair, folder, &[DEVICE, "host"]);
        let mut tuner = tuner(&pair);
        tuner.apply(vec![window(7300), rmem()]).expect("it consents");
        let (route, rmem) = settings(&pair);
        assert!(route.ends_with("window 7300") && rmem == "4096 12288 12288", "{route}, {rmem}");
        let restored = restore().expect(0).stdout;
        assert_eq!(restored, "nothing was left changed here\n", "the agent lives");
        signal(serving.0.id(), ending);
        assert_eq!(serving.0.wait().expect("our child").code(), Some(130));
        assert_eq!(settings(&pair), before, "{ending}");
    }

    for way in ["the supervisor alone", "the next agent", "restore"] {
        // Killed at any moment of a series of changes.
        for delay_us in [0, 1_000, 10_000] {
            let serving = agent(&pair, folder, &[DEVICE, "host"]);
            let mut tuner = tuner(&pair);
            let pid = serving.0.id();
            let killer = std::thread::spawn(move || {
                std::thread::sleep(Duration::from_micros(delay_us));
                signal(pid, "KILL");
            });
            for bytes in 1.. {
                if tuner.apply(vec![window(7300 + bytes), rmem()]).is_err() {
                    break;
                }
            }
            killer.join().expect("kill runs");
            drop(serving);
            // The supervisor and the program that was started both restore: the first one does it.
            match way {
                "the next agent" => drop(agent(&pair, folder, &[])),
                "restore" => drop(restore().expect(0)),
                _ => {}
            }
            eventually("everything put back", || (settings(&pair) == before).then_some(()));
        }
    }
}

#[test]
fn a_lost_conductor_leaves_no_change_and_an_agent_without_consent_makes_none() {
    let Some(folder) = privileged_folder() else { return };
    let (folder, pair) = (folder.path(), Pair::build("tunf"));
    let before = settings(&pair);
    let serving = agent(&pair, folder, &[DEVICE]);
    let mut first = tuner(&pair);
    first.apply(vec![window(7300)]).expect("it consents to its device");
    let refused =
        first.apply(vec![rmem()]).expect_err("it has no consent for the host").to_string();
    assert!(refused.contains("--allow-tune host"), "{refused}");
    assert!(settings(&pair).0.ends_with("window 7300"), "what was granted stays granted");
    drop(first);
    eventually("everything put back", || (settings(&pair) == before).then_some(()));
    drop(serving);

    let _untold = agent(&pair, folder, &[]);
    let refused =
        tuner(&pair).apply(vec![window(7300)]).expect_err("it has no consent at all").to_string();
    assert!(refused.contains("--allow-tune v0"), "{refused}");
    assert_eq!(settings(&pair), before);
}

/// A 100 Mbit/s link with room for five full frames behind the first end of the pair.
fn shape(pair: &Pair) {
    pair.ran(0, "tc qdisc add dev v0 root tbf rate 100mbit burst 1600 limit 8192");
    for end in 0..2 {
        pair.ran(end, &format!("ethtool -K {DEVICE} tso off gso off gro off"));
    }
}

/// A plan whose arms change the receive buffers of the host that is reached.
const ARMS: &str = r#"
[campaign]
name = "arms"
repeats = 1
[[sweep]]
name = "arms"
duration = "60 s"
warmup = "100 ms"
[sweep.compare]
pairs = 1
a = { name = "smaller", settings = [
    { at = "b", name = "net.ipv4.tcp_rmem", value = "4096 12288 12288" },
] }
b = { name = "larger", settings = [
    { at = "b", name = "net.ipv4.tcp_rmem", value = "4096 24576 24576" },
] }
[[sweep.job]]
workload = "tcp_rr"
from = "a"
to = "b"
params = { }
"#;

/// A plan with such a setting in every trial.
const ALWAYS: &str = r#"
[campaign]
name = "always"
settings = [{ at = "b", name = "net.ipv4.tcp_rmem", value = "4096 12288 12288" }]
[[sweep]]
name = "always"
duration = "60 s"
[[sweep.job]]
workload = "tcp_rr"
from = "a"
to = "b"
params = { }
"#;

/// Returns why a tuning ended without figures, as it may on a machine that others use.
fn nothing_measured(ended: &Ended) -> Option<String> {
    let lacks = |why: &String| why.contains("not be measured") || why.contains("no figures");
    (ended.code == Some(3))
        .then(|| ended.json()["error"].as_str().map(str::to_owned))?
        .filter(lacks)
}

#[test]
fn an_interrupted_or_killed_tuning_leaves_no_change() {
    let Some(folder) = privileged_folder() else { return };
    let (folder, pair) = (folder.path(), Pair::build("tunh"));
    shape(&pair);
    exchange_keys(&pair, folder);
    let before = settings(&pair);
    let tune = |more: &[&str]| {
        let mut arguments =
            vec!["tune", "window", "--to", AGENT, "--quick", "--seconds", "0.2", "--omit", "0.1"];
        arguments.extend(more);
        pair.linerate(0, folder, "a", &arguments)
    };
    let serving = agent_on(AGENT, &pair, folder, &[DEVICE, "host"]);

    for (more, parts) in [
        (&[][..], ["--yes", "--dry-run"]),
        (&["--yes", "--interface", "eth9"], ["tune eth9", "--interface v0"]),
    ] {
        let refused = Ended::from(tune(more).output().expect("starts")).expect(2);
        assert!(parts.iter().all(|part| refused.stderr.contains(part)), "{refused:?}");
    }

    // While a setting is in force, the conductor is interrupted, then killed.
    for (how, ledger, plan) in [("INT", "one.ledger", ALWAYS), ("KILL", "two.ledger", ARMS)] {
        std::fs::write(folder.join("plan.toml"), plan).expect("the folder is ours");
        let mut conductor =
            pair.linerate(0, folder, "a", &["run", "plan.toml", "--to", AGENT, "--ledger", ledger]);
        let mut running = conductor.stdout(std::process::Stdio::null()).spawn().expect("starts");
        let stderr = BufReader::new(running.stderr.take().expect("piped"));
        let said =
            std::thread::spawn(move || std::io::read_to_string(stderr).expect("it speaks UTF-8"));
        eventually("a setting in force", || {
            let ended = running.try_wait().expect("our child");
            assert!(ended.is_none(), "it ended before it changed anything");
            (settings(&pair) != before).then_some(())
        });
        let mut running = Guard(running);
        signal(running.0.id(), how);
        if how == "INT" {
            let code = running.0.wait().expect("our child").code();
            assert_eq!(code, Some(130), "{}", said.join().expect("it read to the end"));
        }
        eventually("everything put back", || (settings(&pair) == before).then_some(()));
    }
    drop(serving);

    let _untold = agent_on(AGENT, &pair, folder, &[]);
    let dry = Ended::from(tune(&["--dry-run", "--json"]).output().expect("starts"));
    if let Some(why) = nothing_measured(&dry) {
        return skip(format_args!("what a dry run would do: {why}"));
    }
    let dry = dry.expect(0).json();
    let commands: Vec<&str> =
        dry["commands"].as_array().expect("a list").iter().filter_map(|c| c.as_str()).collect();
    assert!(commands[0].starts_with("ip route change 198.18.9.0/24 dev v0 "), "{commands:?}");
    assert!(
        commands[0].contains(" window ") && commands[1].starts_with("sysctl -w net.ipv4.tcp_rmem="),
        "{commands:?}"
    );
    assert_eq!((settings(&pair), dry["tried"].as_array().map(Vec::len)), (before, Some(0)));
}

/// Virtual time tests the choice of a window and its proof. Here the parts connect:
/// trains, controller, windows, pairs.
#[test]
fn windows_are_tried_for_bbr_over_a_shallow_sideband() {
    let Some(folder) = privileged_folder() else { return };
    let _turn = turn();
    let line = "tune window --lab ncsi --to bmc --congestion bbr --quick --json --seconds 0.3 \
                --omit 0.2 --pairs 1";
    let ended = match punctual(folder.path(), &line.split(' ').collect::<Vec<_>>()) {
        Ok(ended) => ended,
        Err(why) => return skip(why),
    };
    // One pair carries no interval: an indication and no proof. Where other programs run, the
    // search for a window may end without one.
    assert!(
        matches!(ended.code, Some(1 | 3)),
        "{:?}: {}\n{}",
        ended.code,
        ended.stdout,
        ended.stderr
    );
    if let Some(why) = nothing_measured(&ended) {
        return skip(format_args!("{why}"));
    }
    let told = ended.json();
    println!(
        "bbr: {}, {}, {} -> {}",
        told["buffer"],
        told["choice"],
        told["proof"]["effect"]["before"],
        told["proof"]["effect"]["after"]
    );
    assert_eq!(told["attribution"]["certain"], true, "the controller was read: {told}");
    assert_eq!(told["kept"], false, "{told}");
    assert_ne!(told["proof"]["verdict"], "proven", "{told}");
    assert_eq!(told["reported_buffer"]["reported_bytes"], 8192, "{}", told["reported_buffer"]);
    if !told["proof"].is_object() {
        return skip(format_args!("no window was chosen: {}", told["choice"]));
    }
    assert!(told["side_effects"].as_array().is_some_and(|effects| effects.len() >= 4), "{told}");
    let tried = told["tried"].as_array().expect("a list");
    assert!(!tried.is_empty(), "{told}");
    assert!(tried.iter().all(|window| window["holds"].is_boolean()), "{tried:?}");
}

/// A lab whose receiver has buffers far below what its link of 10 ms holds: the known answer is a
/// larger receive buffer, at the receiver.
const SHORT_OF_BUFFER: &str = r#"
[lab]
name = "shortbuf"
summary = "a long link and a small receive buffer"
[[host]]
name = "a"
[[host]]
name = "b"
sysctl = { "net.ipv4.tcp_rmem" = "4096 32768 32768" }
[[link]]
ends = ["a", "b"]
rate = "100 Mbit/s"
buffer = "1 MiB"
delay = "5 ms"
"#;

#[test]
fn a_small_receive_buffer_is_tried_and_reported() {
    let Some(folder) = privileged_folder() else { return };
    let _turn = turn();
    let folder = folder.path();
    std::fs::write(folder.join("lab.toml"), SHORT_OF_BUFFER).expect("written");
    let arguments = [
        "tune",
        "host",
        "--lab",
        "./lab.toml",
        "--try",
        "rings,socket_buffers",
        "--pairs",
        "1",
        "--seconds",
        "0.2",
        "--omit",
        "0.2",
        "--json",
        "-q",
    ];
    let ended = match punctual(folder, &arguments) {
        Ok(ended) => ended,
        Err(why) => return skip(format_args!("{why}")),
    };
    let told = ended.json();
    let tried = &told["tried"][0];
    assert_eq!(
        (&tried["setting"], &tried["host"]),
        (&"net.ipv4.tcp_rmem".into(), &"b".into()),
        "{told}"
    );
    // Each setting that is not tried has a reason: a veth has no rings.
    let untried = told["untried"]
        .as_array()
        .expect("a list")
        .iter()
        .find(|untried| untried["setting"] == "rx_ring");
    let untried = untried.unwrap_or_else(|| panic!("rx_ring: {told}"));
    assert_eq!(
        (&untried["host"], &untried["reason"]),
        (&"b".into(), &"not_offered".into()),
        "{untried}"
    );
    assert!(
        untried["why"].as_str().is_some_and(|why| why.starts_with("not offered by this device")),
        "{untried}"
    );
    let text = std::fs::read_to_string(folder.join("tune-host/report.txt")).expect("written");
    assert!(
        text.contains("rx_ring of a0")
            && text.contains("not available")
            && text.contains("not offered by this device (driver veth"),
        "{text}"
    );
    // One pair proves nothing, so nothing is kept. Virtual time tests proofs and profiles.
    assert_eq!((ended.code, &tried["kept"]), (Some(1), &false.into()), "{told}");
    assert_ne!(tried["verdict"], "proven", "{told}");
    assert_eq!(told["profiles"], serde_json::json!([]), "{told}");
}

#[test]
fn a_profile_is_applied_and_reverted_only_on_a_host_in_the_expected_state() {
    let Some(folder) = privileged_folder() else { return };
    let (folder, pair) = (folder.path(), Pair::build("profile"));
    let before = settings(&pair).1;
    let text = format!(
        "host = \"b\"\ncampaign = \"c\"\n[[change]]\nsetting = \"net.ipv4.tcp_rmem\"\ndevice \
            = \"\"\nbefore = \"{before}\"\n\
         after = \"4096 12288 12288\"\nwhy = \"w\"\nproof = \"p\"\nside_effects = []\n\
         [[change]]\nsetting = \"gro\"\ndevice = \"{DEVICE}\"\nbefore = \"0\"\nafter = \"1\"\nwhy \
         = \"w\"\nproof = \"p\"\nside_effects = []\n"
    );
    std::fs::write(folder.join("p.toml"), text).expect("written");
    let turn = |verb: &str| {
        Ended::from(
            pair.linerate(1, folder, "b", &["tune", verb, "p.toml"]).output().expect("starts"),
        )
    };
    let told = || pair.ran(1, &format!("ethtool -k {DEVICE}"));
    let gro = || told().contains("generic-receive-offload: on");
    assert!(!gro(), "a veth begins without");
    assert!(turn("check").expect(1).stdout.contains("gro is 0, not 1: as it was before"));
    turn("apply").expect(0);
    turn("check").expect(0);
    assert_eq!((settings(&pair).1.as_str(), gro()), ("4096 12288 12288", true));
    assert!(turn("apply").expect(0).stdout.contains("already"));
    turn("revert").expect(0);
    assert_eq!((settings(&pair).1, gro()), (before, false));
    let set = || linerate_sys::sysctl::write("net.ipv4.tcp_rmem", "4096 20000 20000");
    within(&pair.names[1], set).expect("there").expect("set");
    assert!(turn("apply").expect(2).stderr.contains("somebody has set it since"));
    assert_eq!((settings(&pair).1.as_str(), gro()), ("4096 20000 20000", false), "all or nothing");
}
