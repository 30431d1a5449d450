//! Changes of a host's settings, in a namespace of the test: refused without consent, and put back
//! however the session ends.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use linerate_control::{
    Access, Agent, AgentOptions, Consent, HostWide, Restored, Setting, Tuner, restore,
};
use linerate_model::HostAddress;
use linerate_sys::netns::within;

use crate::host::{Namespace, ran};

const PEER: &str = "198.18.7.2";

/// Namespace with one device `lr0` and a route by it, removed on drop.
struct Space(Namespace);

impl Space {
    fn build(instance: &str) -> Option<Self> {
        let name = format!("lr-{}-{instance}", std::process::id());
        let space = Self(Namespace::new(name)?);
        for command in [
            "ip link set lo up",
            "ip link add lr0 type veth peer name lr1",
            "ip address add 198.18.7.1/24 dev lr0",
            "ip link set lr0 up",
            "ip link set lr1 up",
        ] {
            space.0.ran(command);
        }
        eventually("a carrier", || !space.route().contains("linkdown"));
        Some(space)
    }

    fn route(&self) -> String {
        self.0.ran("ip route show 198.18.7.0/24").trim().to_owned()
    }

    fn rmem(&self) -> String {
        within(&self.0.name, || linerate_sys::sysctl::read("net.ipv4.tcp_rmem").unwrap()).unwrap()
    }

    /// Starts a listening agent inside it.
    fn agent(&self, consent: Consent) -> (Agent, linerate_control::Stopper, HostAddress) {
        let agent = Agent::new(AgentOptions { consent, ..AgentOptions::default() });
        let (tell, told) = channel();
        let (name, serving) = (self.0.name.clone(), agent.clone());
        std::thread::spawn(move || {
            within(&name, || {
                let serving =
                    serving.listen("127.0.0.1:0".parse().unwrap(), Access::Loopback).unwrap();
                tell.send((serving.stopper(), serving.address())).unwrap();
                serving.run();
            })
            .unwrap();
        });
        let (stopper, address) = told.recv().unwrap();
        (agent, stopper, HostAddress::Tcp(address.to_string()))
    }

    fn tuner(&self, address: &HostAddress) -> Tuner {
        within(&self.0.name, || Tuner::open("bmc", address, None, "test").unwrap()).unwrap()
    }
}

fn consent(folder: &Path) -> Consent {
    Consent {
        devices: vec!["lr0".into()],
        host_wide: HostWide::Allowed,
        journals: folder.into(),
        ..Consent::default()
    }
}

fn window(bytes: u32) -> Setting {
    let destination: IpAddr = PEER.parse().unwrap();
    Setting::RouteWindow { destination, device: "lr0".into(), window: bytes, initial: 5 }
}

fn rmem(value: &str) -> Setting {
    Setting::Sysctl { name: "net.ipv4.tcp_rmem".into(), value: value.into() }
}

fn eventually(what: &str, done: impl Fn() -> bool) {
    let until = Instant::now() + Duration::from_secs(60);
    while !done() {
        assert!(Instant::now() < until, "not within a minute: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn settings_are_read_applied_and_put_back_on_request_and_at_the_end_of_the_session() {
    let Some(space) = Space::build("apply") else { return };
    let folder = tempfile::tempdir().unwrap();
    let (_agent, stopper, address) = space.agent(consent(folder.path()));
    let (route, before) = (space.route(), space.rmem());
    let mut tuner = space.tuner(&address);

    let states = tuner.read(vec![window(0), rmem("")]).unwrap();
    assert_eq!(states[0].spelled, "198.18.7.0/24 dev lr0 proto kernel scope link src 198.18.7.1");
    assert_eq!(states[1].setting, rmem(&before));

    let states = tuner.apply(vec![window(7300), rmem("4096 12288 12288")]).unwrap();
    assert_eq!(
        states.iter().map(|state| state.setting.clone()).collect::<Vec<_>>(),
        [window(7300), rmem("4096 12288 12288")]
    );
    assert!(space.route().contains("window 7300 initrwnd 5"), "{}", space.route());
    assert_eq!(space.rmem(), "4096 12288 12288");
    tuner.revert().unwrap();
    assert_eq!((space.route(), space.rmem()), (route.clone(), before.clone()));
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "the journal is gone");

    tuner.apply(vec![window(7300)]).unwrap();
    tuner.apply(vec![window(9000)]).unwrap();
    drop(tuner);
    eventually("everything put back", || space.route() == route);

    let mut tuner = space.tuner(&address);
    tuner.apply(vec![window(7300)]).unwrap();
    tuner.keep().unwrap();
    drop(tuner);
    let mut tuner = space.tuner(&address);
    assert_eq!(
        tuner.read(vec![window(0)]).unwrap()[0].setting,
        window(7300),
        "a kept change stays"
    );
    tuner.apply(vec![window(0)]).unwrap();
    within(&space.0.name, || stopper.stop()).unwrap();
    eventually("put back to what was kept", || space.route().contains("window 7300"));
}

#[test]
fn connections_that_an_agent_accepts_have_the_buffers_of_the_present_settings() {
    let Some(space) = Space::build("buffers") else { return };
    let folder = tempfile::tempdir().unwrap();
    let (_agent, stopper, address) = space.agent(consent(folder.path()));
    let HostAddress::Tcp(at) = &address else { panic!("it listens on TCP") };
    // The agent waits for the first bytes of a connection: it stays open meanwhile.
    let accepted = || {
        let stream = within(&space.0.name, || std::net::TcpStream::connect(at).unwrap()).unwrap();
        let peer = format!("dport = :{}", stream.local_addr().unwrap().port());
        let found = || {
            let told = space.0.ran(&format!("ss -tnmH state established {peer}"));
            let (_, memory) = told.split_once(",rb")?;
            Some(memory.split_once(',')?.0.parse::<u32>().unwrap())
        };
        eventually("ss lists the connection", || found().is_some());
        found().unwrap()
    };
    let default = |rmem: String| rmem.split_whitespace().nth(1).unwrap().parse::<u32>().unwrap();
    let before = default(space.rmem());
    assert_eq!(accepted(), before);
    let mut tuner = space.tuner(&address);
    // Less than before, more than unprivileged sockets may ask for, and an odd number.
    for bytes in [12_288, 3_000_000, 87_381] {
        tuner.apply(vec![rmem(&format!("4096 {bytes} 6291456"))]).unwrap();
        assert_eq!(accepted(), bytes / 2 * 2);
    }
    tuner.revert().unwrap();
    assert_eq!(accepted(), before);
    tuner.apply(vec![rmem("4096 12288 12288")]).unwrap();
    drop(tuner);
    eventually("everything put back", || accepted() == before);
    within(&space.0.name, || stopper.stop()).unwrap();
}

#[test]
fn a_change_is_all_or_nothing_and_needs_consent() {
    let Some(space) = Space::build("refuse") else { return };
    let folder = tempfile::tempdir().unwrap();
    let narrow = Consent { host_wide: HostWide::Refused, ..consent(folder.path()) };
    let (agent, stopper, address) = space.agent(narrow);
    let (route, before) = (space.route(), space.rmem());
    let mut tuner = space.tuner(&address);
    let told = tuner.read(vec![window(0), rmem("")]).unwrap();
    let unless = told[1].refused.as_deref();
    assert!(
        told[0].refused.is_none() && unless.is_some_and(|why| why.contains("--allow-tune host")),
        "{told:?}"
    );
    let refused =
        tuner.apply(vec![window(7300), rmem("4096 12288 12288")]).unwrap_err().to_string();
    assert!(refused.contains("--allow-tune host"), "{refused}");
    assert_eq!(
        (space.route(), space.rmem()),
        (route.clone(), before),
        "the first change was undone"
    );
    let elsewhere = Setting::RouteWindow {
        destination: "127.0.0.1".parse().unwrap(),
        device: "lr0".into(),
        window: 1,
        initial: 0,
    };
    let refused = refusal(&mut tuner, [elsewhere]);
    assert!(refused.contains("it leads out of lo, not of lr0"), "{refused}");
    let second = within(&space.0.name, || {
        Tuner::open("bmc", &address, None, "second").unwrap_err().to_string()
    })
    .unwrap();
    assert!(second.contains("busy"), "{second}");
    tuner.apply(vec![window(7300)]).unwrap();
    assert_eq!(within(&space.0.name, || agent.put_back()).unwrap(), [""; 0]);
    assert_eq!(space.route(), route, "an agent puts everything back before it ends");
    let refused = tuner.apply(vec![window(7300)]).unwrap_err().to_string();
    assert!(refused.contains("ending"), "{refused}");
    within(&space.0.name, || stopper.stop()).unwrap();
}

#[test]
fn changes_of_a_killed_agent_are_put_back_from_the_journal_unless_another_program_set_them_since() {
    let Some(space) = Space::build("journal") else { return };
    let folder = tempfile::tempdir().unwrap();
    let (route, before) = (space.route(), space.rmem());
    let restored = || within(&space.0.name, || restore(folder.path()).unwrap()).unwrap();
    assert_eq!(restored(), []);
    {
        let (agent, _stopper, address) = space.agent(consent(folder.path()));
        let mut tuner = space.tuner(&address);
        tuner.apply(vec![window(7300), rmem("4096 12288 12288")]).unwrap();
        assert_eq!(restored(), [], "a journal whose agent lives is left alone");
        // Like after SIGKILL: only a copy of the journal is left.
        let journal = std::fs::read_dir(folder.path()).unwrap().next().unwrap().unwrap().path();
        let text = std::fs::read(&journal).unwrap();
        tuner.keep().unwrap();
        std::fs::write(&journal, text).unwrap();
        std::fs::set_permissions(&journal, std::os::unix::fs::PermissionsExt::from_mode(0o600))
            .unwrap();
        drop((tuner, agent));
    }
    let set = || linerate_sys::sysctl::write("net.ipv4.tcp_rmem", "4096 20000 20000");
    within(&space.0.name, set).unwrap().unwrap();
    let found = restored();
    assert!(
        matches!(&found[0], Restored::Left(why) if why.contains("another program")),
        "{found:?}"
    );
    assert!(
        matches!(&found[1], Restored::PutBack(what) if what.contains("198.18.7.0/24")),
        "{found:?}"
    );
    assert_eq!(space.route(), route);
    assert_eq!((space.rmem(), before != "4096 20000 20000"), ("4096 20000 20000".into(), true));
    assert_eq!(restored(), [], "the journal is gone");
}

/// Returns the command of an agent in another process that may change the settings in `allowed`.
fn example(folder: &Path, allowed: &str) -> [String; 3] {
    let test = std::env::current_exe().unwrap();
    let target =
        test.parent().and_then(Path::parent).expect("tests are built into target/PROFILE/deps");
    let agent = target.join("examples/agent");
    assert!(
        agent.exists(),
        "build the examples first, as `cargo test -p linerate-control` does: {}",
        agent.display()
    );
    [agent.to_str().unwrap(), folder.to_str().unwrap(), allowed].map(str::to_owned)
}

/// Returns the address of an agent in another process, inside a namespace with its own sysfs.
fn process(space: &Space, folder: &Path) -> HostAddress {
    let inside = ["ip", "netns", "exec", &space.0.name].map(str::to_owned);
    HostAddress::Command([&inside[..], &example(folder, "lr0")].concat())
}

/// Reads a file of `lr0` in the sysfs of the namespace.
fn steered(space: &Space, place: &str) -> String {
    linerate_sys::steering::plain(&space.0.ran(&format!("cat /sys/class/net/lr0/{place}")))
}

/// Kills the one agent that is `living`, once those of earlier sessions have ended.
fn kill(living: impl Fn() -> String) {
    eventually("one agent lives there", || living().split_whitespace().count() == 1);
    ran(&format!("kill -9 {}", living()));
    eventually("killed", || living().is_empty());
}

impl Space {
    /// Returns the ids of the processes inside.
    fn living(&self) -> String {
        ran(&format!("ip netns pids {}", self.0.name))
    }
}

fn steering(name: &str, value: &str) -> Setting {
    Setting::Steering { device: "lr0".into(), name: name.into(), value: value.into() }
}

/// Returns the present value of `setting`.
fn present(tuner: &mut Tuner, setting: Setting) -> Setting {
    tuner.read(vec![setting]).unwrap().remove(0).setting
}

/// Returns why `settings` are refused.
fn refusal<const N: usize>(tuner: &mut Tuner, settings: [Setting; N]) -> String {
    tuner.apply(settings.into()).unwrap_err().to_string()
}

#[test]
fn steering_of_an_interface_is_changed_with_consent_and_put_back_even_after_sigkill() {
    const RPS: &str = "queues/rx-0/rps_cpus";
    let Some(space) = Space::build("steering") else { return };
    let folder = tempfile::tempdir().unwrap();
    let address = process(&space, folder.path());
    let open = || Tuner::open("there", &address, None, "test").unwrap();
    let mut tuner = open();
    assert_eq!(present(&mut tuner, steering("rps_cpus", "")), steering("rps_cpus", "0"));
    // A veth uses NAPI, which a thread can poll, only while it merges segments. Before that,
    // `threaded` is refused, and so is the other change.
    let refused = refusal(&mut tuner, [steering("rps_cpus", "1"), steering("threaded", "1")]);
    assert!(refused.contains("set threaded of lr0"), "{refused}");
    assert_eq!(steered(&space, RPS), "0", "the first change was undone");
    space.0.ran("ethtool -K lr0 gro on");
    tuner.apply(vec![steering("rps_cpus", "1"), steering("threaded", "1")]).unwrap();
    assert_eq!((steered(&space, RPS), steered(&space, "threaded")), ("1".into(), "1".into()));
    let refused = refusal(&mut tuner, [steering("rps_cpus", "cpu1")]);
    assert!(refused.contains("not a hexadecimal mask"), "{refused}");
    let elsewhere =
        Setting::Steering { device: "lo".into(), name: "rps_cpus".into(), value: "1".into() };
    let refused = refusal(&mut tuner, [elsewhere]);
    assert!(refused.contains("--allow-tune lo"), "{refused}");
    drop(tuner);
    let is_back =
        || (steered(&space, RPS), steered(&space, "threaded")) == ("0".into(), "0".into());
    eventually("put back at the end of the session", is_back);

    let mut tuner = open();
    tuner.apply(vec![steering("rps_cpus", "1")]).unwrap();
    kill(|| space.living());
    assert_eq!(steered(&space, RPS), "1", "it has not been put back");
    drop(tuner);
    let next = present(&mut open(), steering("rps_cpus", ""));
    assert_eq!(next, steering("rps_cpus", "0"), "the next one has");
}

#[test]
fn coalescing_of_a_tap_is_changed_and_put_back_and_a_device_without_it_is_reported() {
    let Some(space) = Space::build("tap") else { return };
    let folder = tempfile::tempdir().unwrap();
    let address = process(&space, folder.path());
    let open = || Tuner::open("there", &address, None, "test").unwrap();
    for setting in ["rx_frames", "rx_usecs", "adaptive_rx", "rx_ring", "tx_ring", "irq_cpus"] {
        let why = open().read(vec![steering(setting, "")]).unwrap_err().to_string();
        assert!(why.contains("not offered by this device"), "a veth has no {setting}: {why}");
    }

    space.0.ran("ip link delete lr0");
    space.0.ran("ip tuntap add lr0 mode tap");
    let frames = || {
        let text = space.0.ran("ethtool -c lr0");
        text.lines().find_map(|line| line.strip_prefix("rx-frames:")).unwrap().trim().to_owned()
    };
    let mut tuner = open();
    assert_eq!(present(&mut tuner, steering("rx_frames", "")), steering("rx_frames", "0"));
    let set = tuner.apply(vec![steering("rx_frames", "16")]).unwrap();
    assert_eq!((&set[0].setting, frames().as_str()), (&steering("rx_frames", "16"), "16"));
    let refused = refusal(&mut tuner, [steering("rx_frames", "8"), steering("rx_frames", "f")]);
    assert!(refused.contains("the value is not a number"), "{refused}");
    assert_eq!(frames(), "16", "all or nothing");
    drop(tuner);
    eventually("put back at the end of the session", || frames() == "0");

    let mut tuner = open();
    tuner.apply(vec![steering("rx_frames", "32")]).unwrap();
    kill(|| space.living());
    assert_eq!(frames(), "32", "it has not been put back");
    drop(tuner);
    let next = present(&mut open(), steering("rx_frames", ""));
    assert_eq!(next, steering("rx_frames", "0"), "the next one has");
}

/// Control group with a fifth of a CPU, removed on drop.
struct Group {
    folder: PathBuf,
    quota: &'static str,
}

impl Group {
    fn build(instance: &str) -> Option<Self> {
        for (mount, quota) in
            [("/sys/fs/cgroup", "cpu.max"), ("/sys/fs/cgroup/cpu", "cpu.cfs_quota_us")]
        {
            let folder = Path::new(mount).join(format!("lr-{}-{instance}", std::process::id()));
            if std::fs::create_dir(&folder).is_err() {
                continue;
            }
            let group = Self { folder, quota };
            // The period is the kernel's usual 100 ms.
            if group.folder.join(quota).exists() && group.write("20000") {
                return Some(group);
            }
        }
        println!("skipped: {instance}: needs root and a cpu control group");
        None
    }

    fn write(&self, quota: &str) -> bool {
        std::fs::write(self.folder.join(self.quota), quota).is_ok()
    }

    fn quota(&self) -> String {
        let text = std::fs::read_to_string(self.folder.join(self.quota)).unwrap();
        text.split_whitespace().next().unwrap().to_owned()
    }

    fn living(&self) -> String {
        std::fs::read_to_string(self.folder.join("cgroup.procs")).unwrap()
    }

    fn agent(&self, folder: &Path, allowed: &str) -> HostAddress {
        let join = format!("echo $$ > {}/cgroup.procs && exec \"$@\"", self.folder.display());
        let inside = ["sh", "-c", &join, "sh"].map(str::to_owned);
        HostAddress::Command([&inside[..], &example(folder, allowed)].concat())
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        eventually("the group is left", || std::fs::remove_dir(&self.folder).is_ok());
    }
}

fn quota(value: &str) -> Setting {
    Setting::CpuQuota { value: value.into() }
}

#[test]
fn the_cpu_quota_of_an_agents_group_is_changed_with_consent_and_put_back_even_after_sigkill() {
    let Some(group) = Group::build("quota") else { return };
    let folder = tempfile::tempdir().unwrap();
    let open =
        |allowed| Tuner::open("there", &group.agent(folder.path(), allowed), None, "test").unwrap();
    let refused = refusal(&mut open("lr0"), [quota("x2")]);
    assert!(refused.contains("--allow-tune host"), "{refused}");

    let mut tuner = open("host");
    assert_eq!(present(&mut tuner, quota("")), quota("20 %"));
    assert_eq!(tuner.apply(vec![quota("x2")]).unwrap()[0].setting, quota("40 %"));
    assert_eq!(group.quota(), "40000");
    tuner.revert().unwrap();
    assert_eq!(group.quota(), "20000");
    // The kernel refuses so small a quota, so the other change is undone.
    let refused = refusal(&mut tuner, [quota("x2"), quota("0.1 %")]);
    assert!(refused.contains("set CPU quota"), "{refused}");
    assert_eq!(group.quota(), "20000", "the first change was undone");
    tuner.apply(vec![quota("none")]).unwrap();
    drop(tuner);
    eventually("put back at the end of the session", || group.quota() == "20000");

    let mut tuner = open("host");
    tuner.apply(vec![quota("50 %")]).unwrap();
    kill(|| group.living());
    assert_eq!(group.quota(), "50000", "it has not been put back");
    drop(tuner);
    assert_eq!(present(&mut open("host"), quota("")), quota("20 %"), "the next one has");

    let unlimited = if group.quota == "cpu.max" { "max" } else { "-1" };
    assert!(group.write(unlimited));
    let refused = refusal(&mut open("host"), [quota("x2")]);
    assert!(refused.contains("has no CPU quota: there is nothing to raise"), "{refused}");
}
