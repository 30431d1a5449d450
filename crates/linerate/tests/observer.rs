//! Observers end to end. Two hosts are joined by a switch: a bridge in a namespace of its own with
//! SNMP agents. Its counters of known loads are reconciled with the tool's bytes, with and without
//! traffic of others.

use std::path::Path;
use std::process::{Command, Stdio};

use linerate_analysis::{Agreement, PortNote, PortStudy, Reason, study};
use linerate_model::{Direction, Validity};

use crate::common::{
    self, AGENT, Ended, Guard, Pair, eventually, exchange_keys, file, load, privileged_folder,
};
use crate::host::{Namespace, ran, tried};

/// Octets of L2 for each of payload on a loss-free run (V4.4): MTU 1500 and Ethernet's header over
/// the payload of a segment with timestamps.
const FULL_FRAMES: f64 = (1500.0 + 14.0) / 1448.0;

/// `Pair` with a bridge between its ends.
struct Switched {
    // Dropped in this order: a namespace stays as long as a process is in it.
    agents: Vec<Guard>,
    switch: Namespace,
    pair: Pair,
}

impl Switched {
    fn build(instance: &str) -> Self {
        let pair = Pair::build(instance);
        let name = format!("{}-sw", pair.names[0].trim_end_matches("-a"));
        pair.ran(0, "ip link delete v0");
        let switch = Namespace::new(name).expect("the test may make namespaces");
        for command in ["ip link set lo up", "ip link add br0 type bridge", "ip link set br0 up"] {
            switch.ran(command);
        }
        for (end, port, address) in [(0, "pa", "198.18.9.1"), (1, "pb", "198.18.9.2")] {
            let (own, other) = (&pair.names[end], &switch.name);
            ran(&format!("ip link add v0 netns {own} type veth peer name {port} netns {other}"));
            switch.ran(&format!("ip link set {port} master br0 up"));
            pair.ran(end, &format!("ip address add {address}/24 dev v0"));
            pair.ran(end, "ip link set v0 up");
        }
        Self { agents: Vec::new(), switch, pair }
    }

    /// True if the ends send super-packets.
    fn offloads(&self, state: &str) {
        for end in 0..2 {
            self.pair.ran(end, &format!("ethtool -K v0 gso {state} tso {state} gro {state}"));
        }
    }

    /// An SNMP agent of the switch on `port`, which reads the interfaces' counters every `cache`
    /// seconds.
    fn agent(&mut self, folder: &Path, port: u16, cache: u32) {
        let own = folder.join(format!("snmpd-{port}"));
        std::fs::create_dir_all(&own).expect("the folder is writable");
        file(
            &own,
            "snmpd.conf",
            "rwcommunity secret-community\ncreateUser watcher SHA-256 \"a password\" AES \"another \
                one\"\nrouser watcher priv\n",
        );
        let (switch, address) = (&self.switch.name, format!("127.0.0.1:{port}"));
        let child = Command::new("ip")
            .args(["netns", "exec", switch, "snmpd", "-f", "-Le", "-C", "-c", "snmpd.conf"])
            .arg(&address)
            .current_dir(&own)
            .env("SNMP_PERSISTENT_DIR", &own)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        self.agents.push(Guard(child.expect("ip runs")));
        // NET-SNMP-AGENT-MIB::nsCacheTimeout of ifTable.
        let object = "1.3.6.1.4.1.8072.1.5.3.1.2.1.3.6.1.2.1.2.2";
        let set =
            format!("snmpset -v2c -c secret-community -t 0.5 -r 0 {address} {object} i {cache}");
        eventually("the SNMP agent", || {
            tried(&format!("ip netns exec {switch} {set}")).ok().map(drop)
        });
    }

    fn testbed(&self) -> String {
        let switch = &self.switch.name;
        let observer = |name: &str, rest: &str| {
            format!("[[observer]]\nname = \"{name}\"\nnamespace = \"{switch}\"\n{rest}\n")
        };
        [
            "[[host]]\nname = \"here\"\nreach = \"local\"\n[[host]]\nname = \"there\"\nreach \
                = \"198.18.9.2\"\n"
                .to_owned(),
            "[[endpoint]]\nname = \"a\"\nhost = \"here\"\naddress = \"198.18.9.1\"\ndevice \
                = \"v0\"\n"
                .to_owned(),
            "[[endpoint]]\nname = \"b\"\nhost = \"there\"\naddress = \"198.18.9.2\"\ndevice \
                = \"v0\"\n"
                .to_owned(),
            observer(
                "live",
                "kind = \"snmp\"\naddress = \"127.0.0.1\"\ncommunity = \
                    { env = \"SWITCH_COMMUNITY\" }\ninterface = \"pa\"\nfaces = \"a\"",
            ),
            observer(
                "late",
                "kind = \"snmp\"\naddress = \"127.0.0.1:1161\"\nuser = \"watcher\"\nauthentication \
                    = \"sha256\"\npassword = \"a password\"\n\
                 privacy_password = \"another one\"\ninterface = \"pb\"\nfaces = \"b\"",
            ),
            observer(
                "bridge",
                "kind = \"interface\"\ninterface = \"pb\"\nfaces = \"b\"\nperiod = \"200 ms\"",
            ),
        ]
        .concat()
    }
}

fn plan(seconds: u32) -> String {
    format!(
        "[campaign]\nname = \"observed\"\nrepeats = 1\n[[sweep]]\nname = \"observed\"\nduration \
            = \"{seconds} s\"\nwarmup = \"200 ms\"\n\
         drain = \"300 ms\"\nrest = \"0 s\"\n[[sweep.job]]\nworkload = \"tcp_stream\"\nfrom \
         = \"a\"\nto = \"b\"\n\
         params = {{ congestion = \"cubic\", pacing_rate = \"80 Mbit/s\" }}\n"
    )
}

/// Runs the plan and returns what became of the only point, and all that was written.
fn campaign(
    switched: &Switched,
    folder: &Path,
    name: &str,
    seconds: u32,
) -> (Vec<PortStudy>, Validity, Vec<Reason>) {
    file(folder, "testbed.toml", &switched.testbed());
    file(folder, "plan.toml", &plan(seconds));
    let ledger = format!("{name}.ledger");
    let arguments = [
        "run",
        "plan.toml",
        "--testbed",
        "testbed.toml",
        "--ledger",
        &ledger,
        "--out",
        name,
        "--json",
    ];
    let mut run = switched.pair.linerate(0, folder, "a", &arguments);
    let ended =
        Ended::from(run.env("SWITCH_COMMUNITY", "secret-community").output().expect("starts"))
            .expect(0);
    let bytes = std::fs::read(folder.join(&ledger)).expect("the ledger is there");
    for secret in ["secret-community", "a password", "another one"] {
        assert!(
            !bytes.windows(secret.len()).any(|part| part == secret.as_bytes()),
            "{secret} is in the ledger"
        );
        assert!(!ended.stdout.contains(secret), "{secret} is in the report");
    }
    let study = study(&load(&folder.join(&ledger)));
    let point = &study.points[0];
    for port in &point.observed {
        println!("{name}: {port:?}");
    }
    assert_eq!(ended.json()["points"][0]["observed"].as_array().map(Vec::len), Some(6));
    (point.observed.clone(), point.validity, point.why.clone())
}

fn of<'a>(ports: &'a [PortStudy], observer: &str, direction: Direction) -> &'a PortStudy {
    ports
        .iter()
        .find(|port| port.observer == observer && port.direction == direction)
        .expect("it was observed")
}

#[test]
fn switch_counters_agree_with_a_known_load_and_show_other_traffic() {
    let Some(folder) = privileged_folder() else { return };
    let folder = folder.path();
    let mut switched = Switched::build("obs");
    if Command::new("snmpd").arg("-v").output().is_err() {
        println!("skipped: snmpd is not installed");
        return;
    }
    exchange_keys(&switched.pair, folder);
    let _agent = switched.pair.agent(folder, AGENT, &[]);
    switched.agent(folder, 161, 0);
    switched.agent(folder, 1161, 3);

    switched.offloads("off");
    let (ports, _, why) = campaign(&switched, folder, "alone", 6);
    for (observer, direction) in [("live", Direction::Rx), ("bridge", Direction::Tx)] {
        // This direction carries acknowledgements only: the background traffic is too large a part
        // of them for a verdict.
        let port = of(&ports, observer, direction);
        assert!(port.agreement <= Agreement::Agrees, "{port:?} {why:?}");
    }
    for (observer, direction) in [("live", Direction::Tx), ("bridge", Direction::Rx)] {
        let port = of(&ports, observer, direction);
        assert_eq!(port.agreement, Agreement::Agrees, "{port:?} {why:?}");
        let ratio = port.octets / port.payload;
        println!(
            "{observer}: {ratio:.5} octets per byte of payload, {FULL_FRAMES:.5} by the algebra"
        );
        assert!((ratio / FULL_FRAMES - 1.0).abs() < 0.005, "{ratio} against {FULL_FRAMES}");
        assert!(port.octets > 0.0, "{port:?}");
    }
    // An agent that reads its counters every three seconds is asked until it has read them after
    // the load, so that the bound stays narrow.
    let late = of(&ports, "late", Direction::Rx);
    assert_eq!(late.agreement, Agreement::Agrees, "{late:?}");
    match late.why.first() {
        Some(PortNote::AskedAgain { .. } | PortNote::TooSlow { .. } | PortNote::Part { .. }) => {}
        // On a busy machine the load may end so late that the agent has just read its counters.
        None => println!("skipped: asking an agent again: its counters were fresh by chance"),
        Some(_) => panic!("{late:?}"),
    }
    assert!(late.bound < 0.02 * late.expected, "{late:?}");
    let page =
        std::fs::read_to_string(folder.join("alone/report.html")).expect("the report is there");
    assert!(page.contains("Octets counted by observers"), "{page}");

    // Super-packets, and a stranger's datagrams through the same ports.
    switched.offloads("on");
    let (a, seconds) = (&switched.pair.names[0], "3");
    let stranger = Command::new("ip")
        .args(["netns", "exec", a, "bash", "-c"])
        .arg(
            "end=$((SECONDS + $0 + 4)); while [ $SECONDS -lt $end ]; do for n in 1 2 3 4 5; do \
            head -c 1400 /dev/zero > /dev/udp/198.18.9.2/9; done; sleep 0.002; done",
        )
        .arg(seconds)
        .spawn();
    let stranger = Guard(stranger.expect("ip runs"));
    let (ports, validity, why) = campaign(&switched, folder, "disturbed", 3);
    drop(stranger);
    for (observer, direction) in [("live", Direction::Tx), ("bridge", Direction::Rx)] {
        let port = of(&ports, observer, direction);
        let share = port.background().expect("octets were counted");
        println!("{observer}: {:.1} % were others'", share * 100.0);
        if port.agreement == Agreement::Agrees && share < 0.02 {
            return println!(
                "skipped: what others sent: a busy machine let the stranger send {:.1} %",
                share * 100.0
            );
        }
        assert_eq!(port.agreement, Agreement::Background, "{port:?}");
        assert!(share > 0.0, "{port:?}");
    }
    let is_of_others = |why: &Reason| match why {
        Reason::OfTrials { reason, .. } => matches!(**reason, Reason::OthersSent { .. }),
        _ => false,
    };
    assert!(validity >= Validity::Suspect && why.iter().any(is_of_others), "{why:?}");
}

#[test]
fn a_missing_observer_is_reported_before_the_first_trial() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let ends = "[[host]]\nname = \"h\"\nreach = \"local\"\n[[endpoint]]\nname = \"a\"\nhost \
        = \"h\"\naddress = \"127.0.0.1\"\n\
                [[endpoint]]\nname = \"b\"\nhost = \"h\"\naddress = \"127.0.0.1\"\n";
    let run = |observer: &str| {
        file(folder, "testbed.toml", &format!("{ends}[[observer]]\nname = \"sw\"\n{observer}"));
        file(folder, "plan.toml", &plan(1));
        common::run(
            folder,
            &["run", "plan.toml", "--testbed", "testbed.toml", "--ledger", "x.ledger"],
        )
    };
    let snmp = "kind = \"snmp\"\naddress = \"127.0.0.1:1\"\n";
    let gone =
        run(&format!("{snmp}community = \"c\"\ninterface = \"1\"\nfaces = \"a\"\n")).expect(4);
    assert!(gone.stderr.contains("ask SNMP agent 127.0.0.1:1"), "{gone:?}");
    assert!(!folder.join("x.ledger").exists());
    for (observer, told) in [
        (
            format!("{snmp}community = \"c\"\ninterface = \"1\"\nfaces = \"c\"\n"),
            "there is no endpoint `c`",
        ),
        (
            format!("{snmp}interface = \"1\"\nfaces = \"a\"\n"),
            "needs a `community` (SNMPv2c) or a `user` (SNMPv3)",
        ),
        (
            format!(
                "{snmp}user = \"u\"\npassword = \"12345678\"\ninterface = \"1\"\nfaces = \"a\"\n"
            ),
            "go together",
        ),
        (
            format!(
                "{snmp}user = \"u\"\nauthentication = \"sha256\"\npassword = \"short\"\ninterface \
                    = \"1\"\nfaces = \"a\"\n"
            ),
            "shorter than 8 characters",
        ),
        (
            format!(
                "{snmp}community = {{ env = \"NO_SUCH_VARIABLE\" }}\ninterface = \"1\"\nfaces \
                    = \"a\"\n"
            ),
            "is not set",
        ),
        (
            "kind = \"interface\"\naddress = \"x\"\ninterface = \"lo\"\nfaces = \"a\"\n".to_owned(),
            "neither address nor secrets",
        ),
        (
            "kind = \"interface\"\nperiod = \"0 s\"\ninterface = \"lo\"\nfaces = \"a\"\n"
                .to_owned(),
            "is not above 0",
        ),
        ("kind = \"telnet\"\ninterface = \"lo\"\nfaces = \"a\"\n".to_owned(), "telnet"),
    ] {
        let wrong = run(&observer).expect(2);
        assert!(
            wrong.stderr.contains(told) && wrong.stderr.contains("nothing was run"),
            "{told}: {wrong:?}"
        );
    }
}
