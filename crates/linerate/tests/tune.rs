//! `linerate tune` and the agent that lets it: what is changed is put back, however it ends.

mod common;

use std::io::{BufRead, BufReader};
use std::process::{Child, Command};
use std::time::Duration;

use common::{Ended, Guard, Pair, alone, eventually, privileged, signal};
use linerate_control::{Setting, Tuner};
use linerate_model::HostAddress;
use linerate_sys::netns::within;

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
    let mut arguments = vec!["agent", "--listen", LISTEN];
    arguments.extend(allowed.iter().flat_map(|word| ["--allow-tune", word]));
    let mut child: Child = pair.linerate(1, folder, "b", &arguments).spawn().expect("starts");
    let mut lines = BufReader::new(child.stderr.take().expect("piped")).lines();
    assert!(lines.any(|line| line.is_ok_and(|line| line.starts_with("listening on "))));
    std::thread::spawn(move || lines.for_each(drop));
    Guard(child)
}

fn tuner(pair: &Pair) -> Tuner {
    let open = || Tuner::open("bmc", &HostAddress::Tcp(LISTEN.into()), None, "test");
    within(&pair.names[1], open).expect("the namespace is there").expect("the agent lets us in")
}

/// Route and `tcp_rmem` of the second host.
fn settings(pair: &Pair) -> (String, String) {
    let name = &pair.names[1];
    let route = Command::new("ip").args(["-n", name, "route", "show", "198.18.9.0/24"]).output().expect("ip runs");
    let rmem = within(name, || linerate_sys::sysctl::read("net.ipv4.tcp_rmem")).expect("there").expect("readable");
    (String::from_utf8_lossy(&route.stdout).trim().to_owned(), rmem)
}

#[test]
fn an_agent_that_is_ended_puts_everything_back_and_after_a_kill_the_next_one_or_restore_does() {
    let test = "an_agent_that_is_ended_puts_everything_back_and_after_a_kill_the_next_one_or_restore_does";
    if !privileged(test) {
        return;
    }
    let _turn = alone();
    let folder = tempfile::tempdir().expect("a folder");
    let (folder, pair) = (folder.path(), Pair::build("tune"));
    let before = settings(&pair);
    let restore = || Ended::from(pair.linerate(1, folder, "b", &["tune", "restore"]).output().expect("starts"));
    assert_eq!(restore().expect(0).stdout, "nothing was left changed here\n");

    for ending in ["TERM", "INT"] {
        let mut serving = agent(&pair, folder, &[DEVICE, "host"]);
        let mut tuner = tuner(&pair);
        tuner.apply(vec![window(7300), rmem()]).expect("it consents");
        assert!(settings(&pair).0.ends_with("window 7300") && settings(&pair).1 == "4096 12288 12288");
        assert_eq!(restore().expect(0).stdout, "nothing was left changed here\n", "the agent lives");
        signal(serving.0.id(), ending);
        assert_eq!(serving.0.wait().expect("our child").code(), Some(130));
        assert_eq!(settings(&pair), before, "{ending}");
    }

    for restart in [true, false] {
        // Killed at any moment of a series of changes.
        for delay_us in [0, 300, 1_000, 3_000, 10_000] {
            let serving = agent(&pair, folder, &[DEVICE, "host"]);
            let pid = serving.0.id();
            let killer = std::thread::spawn(move || {
                std::thread::sleep(Duration::from_micros(delay_us));
                signal(pid, "KILL");
            });
            let mut tuner = tuner(&pair);
            for bytes in 1.. {
                if tuner.apply(vec![window(7300 + bytes), rmem()]).is_err() {
                    break;
                }
            }
            killer.join().expect("kill runs");
            drop(serving);
            if restart {
                let _next = agent(&pair, folder, &[]);
                assert_eq!(settings(&pair), before, "{delay_us} us");
            } else {
                let told = restore().expect(0).stdout;
                assert_eq!(settings(&pair), before, "{delay_us} us: {told}");
            }
        }
    }
}

#[test]
fn a_conductor_that_is_cut_off_leaves_nothing_changed_and_an_untold_agent_changes_nothing() {
    let test = "a_conductor_that_is_cut_off_leaves_nothing_changed_and_an_untold_agent_changes_nothing";
    if !privileged(test) {
        return;
    }
    let _turn = alone();
    let folder = tempfile::tempdir().expect("a folder");
    let (folder, pair) = (folder.path(), Pair::build("tunf"));
    let before = settings(&pair);
    let serving = agent(&pair, folder, &[DEVICE]);
    let mut first = tuner(&pair);
    first.apply(vec![window(7300)]).expect("it consents to its device");
    let refused = first.apply(vec![rmem()]).expect_err("it was not told of the host").to_string();
    assert!(refused.contains("--allow-tune host"), "{refused}");
    assert!(settings(&pair).0.ends_with("window 7300"), "what was granted stays granted");
    drop(first);
    eventually("everything put back", || (settings(&pair) == before).then_some(()));
    drop(serving);

    let _untold = agent(&pair, folder, &[]);
    let refused = tuner(&pair).apply(vec![window(7300)]).expect_err("it was told of nothing").to_string();
    assert!(refused.contains("--allow-tune v0"), "{refused}");
    assert_eq!(settings(&pair), before);
}
