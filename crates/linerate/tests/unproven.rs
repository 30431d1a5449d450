//! An honest agent in one namespace, a malicious conductor at its standard input, and a third host
//! in another namespace: whatever the conductor says, the third host is sent nothing but a hello,
//! and the agent does only what its policy permits.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{ChildStdin, ChildStdout, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use linerate_control::wire::{
    Greeting, HelloRole, JobOffer, Message, Prepare, PreparedJob, Setting, TuneRequest, decode,
    encode, name,
};
use linerate_load::{Offer, Secret};
use linerate_model::{Nanos, Params, Phases, Side, TrialId, Warmup};
use serde_json::{Value, json};

use crate::common::{Guard, Pair, file, privileged_folder};

/// The third host's address, behind the attacker's link.
const VICTIM: &str = "198.18.9.66";
/// Bytes of a hello, which every listener may be sent.
const HELLO_BYTES: u64 = 44;

/// A conductor that says what a test wants, to `linerate agent --stdio`.
struct Conductor {
    agent: Guard,
    input: ChildStdin,
    output: ChildStdout,
    pending: Vec<u8>,
    trial: u32,
}

impl Conductor {
    fn greet(pair: &Pair, folder: &Path, arguments: &[&str], tunes: bool) -> Self {
        let arguments = [&["agent", "--stdio"], arguments].concat();
        let mut agent = pair.linerate(0, folder, "a", &arguments);
        let mut agent = agent.stdin(Stdio::piped()).stderr(Stdio::null()).spawn().expect("starts");
        let (input, output) =
            (agent.stdin.take().expect("piped"), agent.stdout.take().expect("piped"));
        let mut conductor =
            Self { agent: Guard(agent), input, output, pending: Vec::new(), trial: 0 };
        let mut greeting = Greeting::new(HelloRole::Conductor, "malicious");
        greeting.tunes = tunes;
        conductor.say(&Message::Hello(Box::new(greeting)));
        conductor.await_message(|message| matches!(message, Message::Hello(_)));
        conductor
    }

    fn say(&mut self, message: &Message) {
        self.input.write_all(&encode(message).expect("it is short")).expect("the agent listens");
        self.input.flush().expect("the agent listens");
    }

    /// Returns the next message for which `wanted` is true.
    fn await_message(&mut self, wanted: impl Fn(&Message) -> bool) -> Message {
        loop {
            while let Some((message, taken)) =
                decode(&self.pending).expect("the agent answers in the protocol")
            {
                self.pending.drain(..taken);
                if wanted(&message) {
                    return message;
                }
            }
            let mut bytes = [0; 1 << 16];
            let read = self.output.read(&mut bytes).expect("the agent is there");
            assert_ne!(read, 0, "the agent ended: {:?}", self.agent.0.try_wait());
            self.pending.extend(&bytes[..read]);
        }
    }

    /// Has the agent start one end of `workload`, the active one towards `offered`; why the trial
    /// failed, if it did.
    fn trial(
        &mut self,
        workload: &str,
        params: Value,
        side: Side,
        offered: &[&str],
    ) -> Option<String> {
        self.trial += 1;
        let trial = TrialId(self.trial);
        let Value::Object(params) = params else { panic!("parameters are a table") };
        let local = json!({ "name": "a", "host": "a", "address": null, "device": "v0" });
        let job = PreparedJob {
            job: 0,
            side,
            workload: workload.into(),
            params: Params(params),
            local: serde_json::from_value(local).expect("an endpoint"),
            background: None,
            seed: 1,
            secret: Secret([7; 16]),
            peer_clock: None,
        };
        let phases = Phases {
            warmup: Warmup::Fixed(Nanos(0)),
            measure: Nanos::from_millis(100),
            drain: Nanos(0),
            rest: Nanos(0),
            interval: Nanos::from_millis(100),
        };
        let (patience_ms, sample_period_ms) = (400, 100);
        let prepare = Prepare {
            trial,
            phases,
            jobs: vec![job],
            patience_ms,
            sample_period_ms,
            legs: Vec::new(),
            counts_often: false,
        };
        self.say(&Message::Prepare(Box::new(prepare)));
        let answer = self.await_message(|message| {
            matches!(message, Message::Offers { .. } | Message::Done { .. })
        });
        if let Message::Done { failed, .. } = answer {
            return failed;
        }
        let addresses =
            offered.iter().map(|address| address.parse().expect("an address")).collect();
        let offers = vec![JobOffer { job: 0, offer: Offer { addresses } }];
        self.say(&Message::Connect { trial, offers });
        match self.await_message(|message| {
            matches!(message, Message::Ready { .. } | Message::Done { .. })
        }) {
            Message::Done { failed, .. } => failed,
            _ => {
                self.say(&Message::Abort { trial });
                self.await_message(|message| matches!(message, Message::Done { .. }));
                None
            }
        }
    }

    fn tune(&mut self, request: TuneRequest) -> Option<String> {
        self.say(&Message::Tune { n: 1, request });
        match self.await_message(|message| matches!(message, Message::Tuned { .. })) {
            Message::Tuned { failed, .. } => failed,
            other => panic!("{}", name(&other)),
        }
    }
}

/// A listener at the third host: it takes every connection and answers as earlier versions did, or
/// with what it was sent.
fn rendezvous(pair: &Pair) -> (SocketAddr, Arc<AtomicU64>) {
    let bind = || TcpListener::bind((VICTIM, 5_000)).expect("its own namespace");
    let listener = linerate_sys::netns::within(&pair.names[1], bind).expect("entered");
    let address = listener.local_addr().expect("bound");
    let most = Arc::new(AtomicU64::new(0));
    let seen = Arc::clone(&most);
    std::thread::spawn(move || {
        for (number, stream) in listener.incoming().enumerate() {
            let Ok(mut stream) = stream else { return };
            let seen = Arc::clone(&seen);
            std::thread::spawn(move || {
                seen.fetch_max(serve(&mut stream, number), Ordering::Relaxed)
            });
        }
    });
    (address, most)
}

/// Serves one connection; the bytes that came.
fn serve(stream: &mut TcpStream, number: usize) -> u64 {
    let mut bytes = vec![0; 1 << 16];
    let mut come = 0;
    stream.set_read_timeout(Some(Duration::from_secs(30))).expect("a timeout");
    while let Ok(n @ 1..) = stream.read(&mut bytes) {
        come += n as u64;
        let answer = if number.is_multiple_of(2) { vec![6; 64] } else { bytes[..n].to_vec() };
        // It may have been left.
        let _ = stream.write_all(&answer);
    }
    come
}

/// Packets of each protocol that nft counted on their way to the third host.
fn counted(pair: &Pair) -> BTreeMap<String, u64> {
    let text = pair.ran(1, "nft -j list counters");
    let listed: Value = serde_json::from_str(&text).expect("nft prints JSON");
    let counters = listed["nftables"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|entry| entry.get("counter"));
    counters
        .map(|counter| {
            let name = counter["name"].as_str().expect("a name").to_owned();
            (name, counter["packets"].as_u64().expect("a count"))
        })
        .collect()
}

fn with_victim(instance: &str) -> Pair {
    let pair = Pair::build(instance);
    let rule = |matched: &str, counter: &str| {
        format!("ip daddr {VICTIM} meta l4proto {matched} counter name {counter};")
    };
    let rules = format!(
        "table inet seen {{ counter seen_udp {{ }}; counter seen_tcp {{ }}; counter seen_others {{ \
            }}; \
         chain input {{ type filter hook input priority 0; {} {} {} }}; }}",
        rule("udp", "seen_udp"),
        rule("tcp", "seen_tcp"),
        rule("!= { tcp, udp }", "seen_others"),
    );
    pair.ran(1, "ip address add 198.18.9.66/24 dev v0");
    pair.ran(1, &format!("nft {rules}"));
    pair
}

#[test]
fn no_conductor_makes_an_agent_load_a_host_that_does_not_prove_the_secret() {
    let Some(folder) = privileged_folder() else { return };
    let pair = with_victim("unproven");
    let (address, most) = rendezvous(&pair);
    let (companions, other) = (address.to_string(), format!("{VICTIM}:53"));
    let mut conductor = Conductor::greet(&pair, folder.path(), &[], false);
    let unlimited = json!({ "streams": 1 });
    for (workload, params) in [
        ("udp_stream", unlimited.clone()),
        ("udp_rr", unlimited.clone()),
        ("frames", json!({ "mode": "udp" })),
        ("frames", json!({ "mode": "live" })),
        ("tcp_stream", unlimited.clone()),
        ("tcp_rr", unlimited.clone()),
        ("tcp_crr", unlimited),
        ("http", json!({})),
        ("ftp", json!({})),
    ] {
        // Twice: the listener answers every other connection in another way.
        for _ in 0..2 {
            let failed =
                conductor.trial(workload, params.clone(), Side::Active, &[&companions, &other]);
            assert!(failed.is_some(), "{workload} {params}: the agent believed it");
        }
        // As the attack did: the attacker's own address for the companions, the third host's for
        // the load.
        let failed =
            conductor.trial(workload, params.clone(), Side::Active, &["198.18.9.2:5000", &other]);
        assert!(failed.is_some(), "{workload} {params}");
    }
    let counted = counted(&pair);
    println!(
        "seen at {VICTIM}: {counted:?}, at most {} bytes of one connection",
        most.load(Ordering::Relaxed)
    );
    assert!(counted["seen_tcp"] > 0, "the rules count: {counted:?}");
    assert_eq!((counted["seen_udp"], counted["seen_others"]), (0, 0), "{counted:?}");
    assert!(most.load(Ordering::Relaxed) <= HELLO_BYTES, "{most:?}");
}

#[test]
fn a_request_outside_the_policy_is_refused_with_the_missing_line() {
    let Some(folder) = privileged_folder() else { return };
    let pair = Pair::build("policy");
    let policy = file(folder.path(), "agent.toml", "tune = [\"host\"]\nrate = \"1 Gbit/s\"\n");
    std::fs::set_permissions(&policy, std::os::unix::fs::PermissionsExt::from_mode(0o600))
        .expect("its owner");
    let with_policy = ["--policy", policy.to_str().expect("text")];
    let mut conductor = Conductor::greet(&pair, folder.path(), &with_policy, false);
    let (active, passive) = (Side::Active, Side::Passive);
    for (workload, params, side, offered, line) in [
        (
            "http",
            json!({ "server": "http://127.0.0.1:8080/" }),
            active,
            "127.0.0.1:1",
            "foreign_servers = [\"127.0.0.1\"]",
        ),
        (
            "ftp",
            json!({ "server": "ftp://127.0.0.1/a" }),
            active,
            "127.0.0.1:1",
            "foreign_servers = [\"127.0.0.1\"]",
        ),
        ("tcp_stream", json!({}), active, "198.18.9.2:22", "lowest_port = 22"),
        ("udp_stream", json!({}), active, "198.18.9.2:53", "lowest_port = 53"),
        ("http", json!({ "port": 80 }), passive, "198.18.9.2:1", "lowest_port = 80"),
        (
            "http",
            json!({ "clients": "foreign" }),
            passive,
            "198.18.9.2:1",
            "foreign_clients = true",
        ),
        (
            "udp_stream",
            json!({ "rate": "2 Gbit/s" }),
            active,
            "198.18.9.2:5000",
            "rate = \"2 Gbit/s\"",
        ),
        ("frames", json!({ "realtime": true }), active, "198.18.9.2:5000", "realtime = true"),
        (
            "storage",
            json!({ "target": "/etc/shadow" }),
            active,
            "198.18.9.2:1",
            "read = [\"/etc/shadow\"]",
        ),
        (
            "storage",
            json!({ "target": "/etc/nothing" }),
            active,
            "198.18.9.2:1",
            "read = [\"/etc/nothing\"]",
        ),
        (
            "storage",
            json!({ "target": "/root", "size": "1 MiB" }),
            active,
            "198.18.9.2:1",
            "folders = [\"/root\"]",
        ),
    ] {
        let failed = conductor.trial(workload, params, side, &[offered]).unwrap_or_default();
        assert!(failed.contains(line) && failed.contains("agent.toml"), "{workload}: {failed}");
    }
    drop(conductor);

    let mut tuner = Conductor::greet(&pair, folder.path(), &with_policy, true);
    let (name, value) = ("net.ipv4.tcp_rmem".to_owned(), "4096 4096 4096".to_owned());
    assert_eq!(
        tuner.tune(TuneRequest::Apply(vec![Setting::Sysctl { name, value }])),
        None,
        "it may tune"
    );
    let failed = tuner.tune(TuneRequest::Keep).unwrap_or_default();
    assert!(failed.contains("`keep = true`"), "{failed}");
}
