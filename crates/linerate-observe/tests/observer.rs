//! Observers against a real SNMP agent (Net-SNMP's snmpd) and against a scripted one that does what
//! agents are known to do.

use std::io::Write as _;
use std::net::UdpSocket;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use linerate_model::{Nanos, ObservedPort, SampleBlock, Series, series};
use linerate_observe::{
    Digest, Observed, Observer, ObserverSource, ObserverSpec, SnmpAccess, SnmpAgent,
};
use linerate_packet::snmp::{Community, Oid, PduKind, Value};

fn spec(interface: &str, period_ms: u64, source: ObserverSource) -> ObserverSpec {
    ObserverSpec {
        name: "switch".into(),
        faces: "a".into(),
        interface: interface.into(),
        counts_fcs: None,
        namespace: None,
        period: Nanos(period_ms * 1_000_000),
        source,
    }
}

fn agent(address: &str, access: SnmpAccess) -> ObserverSource {
    ObserverSource::Snmp(SnmpAgent { address: address.into(), access, timeout: TIMEOUT })
}

fn community(address: &str) -> ObserverSource {
    agent(address, SnmpAccess::Community("a community".into()))
}

fn column(block: &SampleBlock, wanted: Series) -> Vec<Option<f64>> {
    let place = block.series.iter().position(|series| wanted.is(series)).expect("it is a series");
    block.columns[place].iter().collect()
}

/// Begins, waits, ends.
/// How long an answer is waited for.
const TIMEOUT: Duration = Duration::from_secs(1);

fn observe(observer: &Observer, during: impl FnOnce()) -> Observed {
    observer.begin();
    during();
    observer.end().observed(Nanos(0))
}

/// Returns the observations once `is_enough` is true: a busy machine takes longer.
fn observe_until(observer: &Observer, is_enough: impl Fn(&Observed) -> bool) -> Observed {
    let mut tries = [100, 600, 4_000, 20_000].into_iter().map(|ms| observe(observer, || sleep(ms)));
    tries.find(is_enough).expect("it happened in twenty seconds")
}

/// Not that of SNMP, which takes a privilege.
const PORT: u16 = 1161;

struct Snmpd {
    child: Child,
    address: String,
    folder: tempfile::TempDir,
}

impl Drop for Snmpd {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _dead = self.child.kill();
        let _gone = self.child.wait();
    }
}

/// Starts snmpd at a loopback address of its own (RFC 1122 clause 3.2.1.3), where nobody else can
/// have taken its port; `None`, said aloud, if it is not installed.
fn snmpd(test: &str) -> Option<Snmpd> {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path();
    let [.., high, low] = std::process::id().to_be_bytes();
    let address = format!("127.64.{high}.{low}:{PORT}");
    let text = "rocommunity a-community\ncreateUser plain\ncreateUser proven SHA-256 \"a \
        password\"\ncreateUser hidden SHA \"a password\" AES \"another one\"\n\
                createUser strong SHA-512 \"a password\" AES \"another one\"\n\
                rouser plain noauth\nrouser proven auth\nrouser hidden priv\nrouser strong priv\n";
    let configuration = path.join("snmpd.conf");
    std::fs::File::create(&configuration)
        .and_then(|mut file| file.write_all(text.as_bytes()))
        .expect("it is writable");
    let log = std::fs::File::create(path.join("log")).expect("it is writable");
    let child = Command::new("snmpd")
        .args(["-f", "-Le", "-C", "-c"])
        .arg(&configuration)
        .arg(&address)
        .env("SNMP_PERSISTENT_DIR", path)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log)
        .spawn();
    let refused = |error| println!("skipped: {test}: start snmpd: {error}");
    let child = child.map_err(refused).ok()?;
    let snmpd = Snmpd { child, address, folder };
    await_it(&snmpd.address, snmpd.folder.path());
    Some(snmpd)
}

fn await_it(address: &str, folder: &Path) {
    let deadline = Instant::now() + Duration::from_secs(20);
    let specification =
        spec("lo", 100, agent(address, SnmpAccess::Community("a-community".into())));
    while let Err(why) = Observer::open(&specification) {
        let log = std::fs::read_to_string(folder.join("log")).unwrap_or_default();
        assert!(Instant::now() < deadline, "{why}\n{log}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn user(name: &str, digest: Option<Digest>, privacy: Option<&str>) -> SnmpAccess {
    let authentication = digest.map(|digest| (digest, "a password".to_owned()));
    SnmpAccess::User { name: name.into(), authentication, privacy: privacy.map(str::to_owned) }
}

#[test]
fn snmpd_lets_every_kind_of_user_in_and_tells_why_not() {
    let Some(snmpd) = snmpd("snmpd_lets_every_kind_of_user_in_and_tells_why_not") else { return };
    for access in [
        SnmpAccess::Community("a-community".into()),
        user("plain", None, None),
        user("proven", Some(Digest::Sha256), None),
        user("hidden", Some(Digest::Sha1), Some("another one")),
        user("strong", Some(Digest::Sha512), Some("another one")),
    ] {
        let told = format!("{access:?}");
        assert!(!told.contains("password") && !told.contains("community\""), "{told}");
        let observer =
            Observer::open(&spec("lo", 100, agent(&snmpd.address, access))).expect(&told);
        let ObservedPort { port, counts_fcs, source, .. } = observer.port();
        assert_eq!((port.as_str(), counts_fcs), ("lo", &false), "{source}");
        assert!(source.contains("Linux") && source.contains("64-bit counters"), "{source}");
        let octets = |observed: &Observed| column(&observed.block, series::observer::IN_OCTETS);
        let observed =
            observe_until(&observer, |observed| octets(observed).iter().flatten().count() >= 3);
        let octets = octets(&observed);
        println!("{told}: {} polls, {} ns of CPU", octets.len(), observed.block.cost_ns);
        assert!(observed.block.cost_ns > 0 && observed.disturbances.is_empty());
    }
    for (access, why) in [
        (user("nobody", None, None), "does not know the user"),
        (user("hidden", Some(Digest::Sha256), Some("another one")), "password or digest"),
        (user("proven", Some(Digest::Sha1), None), "password or digest"),
        (user("hidden", Some(Digest::Sha1), Some("a wrong one")), "no answer within"),
        (user("hidden", None, None), "not without more security"),
        (SnmpAccess::Community("another".into()), "is the community or user right?"),
    ] {
        let refused =
            Observer::open(&spec("lo", 100, agent(&snmpd.address, access))).expect_err(why);
        println!("{refused}");
        assert!(
            refused.0.contains(why)
                || (why.starts_with("no answer") && refused.0.contains("privacy")),
            "{refused}"
        );
    }
    let missing =
        Observer::open(&spec("no-such", 100, agent(&snmpd.address, user("plain", None, None))))
            .expect_err("it");
    assert!(
        missing.0.contains("find interface no-such") && missing.0.contains("it has lo"),
        "{missing}"
    );
}

/// Answers of a scripted agent.
#[derive(Clone, Default)]
struct Script {
    /// 64-bit counters, or 32-bit ones only.
    wide: bool,
    octets: u64,
    uptime: u32,
    discontinuity: u32,
    /// Polls of the counters so far.
    polls: u64,
    /// It says nothing.
    silent: bool,
    /// It answers after this long.
    late: Duration,
    /// It answers with these bytes.
    garbage: Option<Vec<u8>>,
}

/// An agent that follows a script.
struct Scripted {
    address: String,
    script: Arc<Mutex<Script>>,
    asked: Arc<AtomicU64>,
    thread: Option<JoinHandle<()>>,
}

impl Scripted {
    /// `before` changes the script as each poll of the counters comes.
    fn start(script: Script, before: impl Fn(&mut Script) + Send + 'static) -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
        let address = socket.local_addr().expect("it is bound").to_string();
        let script = Arc::new(Mutex::new(script));
        let asked = Arc::new(AtomicU64::new(0));
        let (mine, counted) = (Arc::clone(&script), Arc::clone(&asked));
        let thread = std::thread::spawn(move || serve(&socket, &mine, &counted, &before));
        Self { address, script, asked, thread: Some(thread) }
    }

    /// Returns when the counters have been asked for so often in all.
    fn await_polls(&self, polls: u64) {
        let began = std::time::Instant::now();
        while self.script.lock().expect("nobody panicked").polls < polls {
            assert!(
                began.elapsed() < Duration::from_secs(60),
                "not asked {polls} times in a minute"
            );
            sleep(5);
        }
    }

    fn change(&self, change: impl FnOnce(&mut Script)) {
        change(&mut self.script.lock().expect("nobody panicked"));
    }
}

impl Drop for Scripted {
    fn drop(&mut self) {
        let goodbye =
            UdpSocket::bind("127.0.0.1:0").and_then(|socket| socket.send_to(&[], &self.address));
        goodbye.expect("the agent's port is open");
        let _ended = self.thread.take().map(JoinHandle::join);
    }
}

fn serve(
    socket: &UdpSocket,
    script: &Mutex<Script>,
    asked: &AtomicU64,
    before: &dyn Fn(&mut Script),
) {
    let mut buffer = [0; 2000];
    loop {
        let (length, from) = socket.recv_from(&mut buffer).expect("it is open");
        let Ok(mut message) = Community::parse(&buffer[..length]) else { return };
        asked.fetch_add(1, Ordering::Relaxed);
        let script = {
            let mut script = script.lock().expect("nobody panicked");
            // The last question of opening names fewer objects than a poll.
            if message.pdu.bindings.len() > 6 {
                script.polls += 1;
                before(&mut script);
            }
            script.clone()
        };
        if script.silent {
            continue;
        }
        message.pdu.kind = PduKind::Response;
        for (object, value) in &mut message.pdu.bindings {
            *value = answer(&script, object);
        }
        std::thread::sleep(script.late);
        let bytes = script.garbage.clone().unwrap_or_else(|| message.emit());
        socket.send_to(&bytes, from).expect("loopback takes it");
    }
}

fn answer(script: &Script, object: &Oid) -> Value {
    let last = object.0.len() - 1;
    match (&object.0[..last], object.0[last]) {
        ([1, 3, 6, 1, 2, 1, 1, 1], 0) => Value::Octets(b"A switch of tests".to_vec()),
        ([1, 3, 6, 1, 2, 1, 1, 3], 0) => Value::TimeTicks(script.uptime),
        ([1, 3, 6, 1, 2, 1, 31, 1, 1, 1, 1], 7) => Value::Octets(b"port7".to_vec()),
        ([1, 3, 6, 1, 2, 1, 31, 1, 1, 1, 6], 7) if script.wide => Value::Counter64(script.octets),
        ([1, 3, 6, 1, 2, 1, 2, 2, 1, 10], 7) => Value::Counter32(script.octets as u32),
        ([1, 3, 6, 1, 2, 1, 31, 1, 1, 1, 19], 7) => Value::TimeTicks(script.discontinuity),
        _ => Value::Absent,
    }
}

fn sleep(ms: u64) {
    std::thread::sleep(Duration::from_millis(ms));
}

#[test]
fn counters_of_32_bits_go_on_beyond_their_wrap() {
    let script = Script { octets: u64::from(u32::MAX) - 1_500, ..Script::default() };
    let scripted = Scripted::start(script, |script| script.octets += 1_000);
    let observer =
        Observer::open(&spec("7", 50, community(&scripted.address))).expect("it answers");
    assert!(observer.port().source.contains("32-bit counters"), "{:?}", observer.port());
    assert!(observer.port().counts_fcs, "RFC 3635 says so, and this is no Linux");
    let observed = observe(&observer, || scripted.await_polls(5));
    let octets: Vec<f64> =
        column(&observed.block, series::observer::IN_OCTETS).into_iter().flatten().collect();
    let expected: Vec<f64> = (0..octets.len()).map(|poll| poll as f64 * 1_000.0).collect();
    assert_eq!(octets, expected);
    assert!(octets.len() >= 4 && observed.disturbances.is_empty(), "{:?}", observed.disturbances);
}

#[test]
fn counters_that_begin_anew_are_told_of() {
    let script = Script { wide: true, octets: 1_000_000, uptime: 90_000, ..Script::default() };
    let scripted = Scripted::start(script, |script| {
        script.uptime += 5;
        if script.polls == 3 {
            (script.octets, script.discontinuity) = (10, script.uptime);
        }
    });
    let observer =
        Observer::open(&spec("7", 30, community(&scripted.address))).expect("it answers");
    let observed = observe(&observer, || scripted.await_polls(5));
    assert_eq!(column(&observed.block, series::observer::RESETS).last(), Some(&Some(1.0)));
    assert!(observed.disturbances[0].contains("port7 began anew"), "{:?}", observed.disturbances);
}

#[test]
fn silence_is_a_gap_and_a_late_answer_is_none_to_the_next_question() {
    let script = Script { wide: true, octets: 100, ..Script::default() };
    let scripted = Scripted::start(script, |script| {
        script.octets += 1;
        // The second poll is answered after its time, when the third has been asked.
        script.late = if script.polls == 2 { TIMEOUT.mul_f64(1.3) } else { Duration::ZERO };
    });
    let observer =
        Observer::open(&spec("7", 50, community(&scripted.address))).expect("it answers");
    let observed = observe(&observer, || scripted.await_polls(7));
    let octets = column(&observed.block, series::observer::IN_OCTETS);
    assert_eq!((octets[0], octets[1]), (Some(0.0), None), "{octets:?}");
    // Poll n adds one: none is taken for another.
    for (poll, value) in octets.iter().enumerate() {
        assert!(value.is_none_or(|value| value == poll as f64), "{octets:?}");
    }
    assert!(octets.iter().skip(2).flatten().count() >= 2, "it goes on: {octets:?}");
    let why = &observed.block.unavailable[0].1;
    assert!(
        why.contains("polls of observer switch failed") && why.contains("no answer within 1s"),
        "{why}"
    );
}

#[test]
fn an_agent_that_is_gone_or_talks_nonsense_holds_nothing_up() {
    let scripted = Scripted::start(Script { wide: true, ..Script::default() }, |_| {});
    let observer =
        Observer::open(&spec("7", 50, community(&scripted.address))).expect("it answers");
    let asked = scripted.asked.load(Ordering::Relaxed);
    sleep(200);
    assert_eq!(scripted.asked.load(Ordering::Relaxed), asked, "nobody is asked between trials");
    for script in [
        Script { silent: true, ..Script::default() },
        Script { garbage: Some(vec![0x30, 0x84, 0xff, 0xff, 0xff, 0xff]), ..Script::default() },
        Script { garbage: Some(vec![0xa2; 1_400]), ..Script::default() },
        Script { garbage: Some(Vec::new()), ..Script::default() },
    ] {
        scripted.change(|now| *now = script);
        let began = Instant::now();
        let observed = observe(&observer, || sleep(100));
        assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
        assert!(column(&observed.block, series::observer::IN_OCTETS).iter().all(Option::is_none));
        assert!(!observed.block.unavailable.is_empty());
    }
    scripted.change(|now| *now = Script { wide: true, ..Script::default() });
    let is_back = |observed: &Observed| {
        column(&observed.block, series::observer::IN_OCTETS).iter().any(Option::is_some)
    };
    observe_until(&observer, is_back);
    drop(scripted);
    let observed = observe(&observer, || sleep(100));
    assert!(
        observed.block.unavailable[0].1.contains("nobody listens there"),
        "{:?}",
        observed.block.unavailable
    );
    let refused =
        Observer::open(&spec("7", 50, community("127.0.0.1:1"))).expect_err("nobody is there");
    assert!(refused.0.contains("ask SNMP agent 127.0.0.1:1"), "{refused}");
}

#[test]
fn a_port_of_this_machine_is_read_from_its_kernel() {
    let observer =
        Observer::open(&spec("lo", 20, ObserverSource::Kernel)).expect("every machine has one");
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
    let own = socket.local_addr().expect("it is bound");
    // It is asked at once, by a thread of its own, which may have to wait for a CPU.
    let grown = |ms: u64| {
        let observed = observe(&observer, || {
            sleep(ms);
            for _ in 0..100 {
                socket.send_to(&[0; 1_000], own).expect("loopback takes it");
            }
            sleep(ms);
        });
        column(&observed.block, series::observer::IN_OCTETS).last().copied().flatten()
    };
    // The loopback counts from the IP header on, and may carry others' too.
    let is_read = [60, 600, 6_000]
        .into_iter()
        .any(|ms| grown(ms).is_some_and(|grown| grown >= 100.0 * 1_028.0));
    assert!(is_read, "what was sent is not in the counters");
    let missing =
        Observer::open(&spec("no-such", 20, ObserverSource::Kernel)).expect_err("there is none");
    assert!(missing.0.contains("there is no such interface here (there are lo"), "{missing}");
    let nowhere = ObserverSpec {
        namespace: Some("lr-no-such".into()),
        ..spec("lo", 20, ObserverSource::Kernel)
    };
    let nowhere = Observer::open(&nowhere).expect_err("there is none");
    assert!(nowhere.0.contains("open network namespace lr-no-such"), "{nowhere}");
}
