//! Three network namespaces of the referee's own: `a` measures, `b` is measured, and a bridge `r`
//! between them injects faults.
//!
//! Only Debian's `ip`, `tc`, `nft` and `ethtool` build it. Rules of `nft` in the `netdev` family
//! stand at the bridge's ports, so that neither end sees them, and count what they do. An agent of
//! linerate runs in `b`, paired once. Removal is left to the shell of `sandbox.rs`, which acts when
//! this value is dropped or the process is killed.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use serde_json::Value;

use super::super::relay::VXLAN_PORT;
use super::super::sandbox::{hold, inside, ip, reaper};
use super::super::scratch::{Afterwards, Killed, Scratch};
use super::relay::Faults;
use crate::tools::printed;

/// Addresses of `a`, `b` and `r` on the bridge, and inside a tunnel.
const UNDERLAY: [&str; 3] = ["10.98.0.1", "10.98.0.2", "10.98.0.3"];
const UNDERLAY_6: [&str; 2] = ["fd98::1", "fd98::2"];
const TUNNEL: [&str; 2] = ["10.97.0.1", "10.97.0.2"];
/// Interface of each end towards the bridge, and of its tunnel.
pub(in crate::bench) const DEVICE: &str = "lr0";
const TUNNEL_DEVICE: &str = "lrx";
/// Ports of the bridge, towards `a` and `b`.
pub(in crate::bench) const PORTS: [&str; 2] = ["lra", "lrb"];
/// Where agents listen. Rules that count TCP leave these ports alone.
pub(in crate::bench) const AGENT_PORT: u16 = 4777;
/// Where the agent of the other clock listens.
pub(in crate::bench) const OTHER_CLOCK_PORT: u16 = 4779;
/// How far the clock of the other agent is ahead, s.
pub(in crate::bench) const CLOCK_AHEAD_S: u32 = 86_400;
/// Policy of the agents.
const POLICY: &str = "lowest_port = 1\nforeign_servers = \
    [\"0.0.0.0/0\", \"::/0\"]\nforeign_clients = true\nraw_frames = true\n\
                      realtime = true\nread = [\"/\"]\n";
const STARTING: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(20);

/// How addresses of a case are made.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(in crate::bench) enum Family {
    #[default]
    V4,
    V6,
    /// IPv4 in VXLAN from end to end.
    Vxlan,
    /// IPv4 in VXLAN through the relay.
    Relay,
}

/// Path between the ends in one case.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::bench) struct Between {
    pub(in crate::bench) family: Family,
    /// Of the interfaces, B.
    pub(in crate::bench) mtu: u32,
    /// Shaped at the bridge in both directions, bit/s of Ethernet frames without FCS; 0: unshaped.
    pub(in crate::bench) bits_per_second: u64,
    /// True if the ends segment and coalesce packets.
    pub(in crate::bench) offloads: bool,
}

pub(in crate::bench) const PLAIN: Between =
    Between { family: Family::V4, mtu: 1500, bits_per_second: 0, offloads: false };

/// Bytes that a shaper sends at once, and how long its queue is.
const SHAPER: &str = "burst 4kb latency 40ms";
/// A rate at which a burst of 4 kB would hold the shaper back.
const FAST: u64 = 500_000_000;
const FAST_SHAPER: &str = "burst 64kb latency 10ms";

/// One of the two ends.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::bench) enum End {
    A,
    B,
}

/// The namespaces, and the agent in one of them.
pub(in crate::bench) struct Ground {
    names: [String; 3],
    program: PathBuf,
    pub(in crate::bench) folder: PathBuf,
    // Dropped in this order: agents, locks of the namespaces, namespaces, folder.
    agents: Vec<Killed>,
    /// They are no lab's, and frames may be sent there all the same.
    held: Vec<File>,
    _reaper: Afterwards,
    /// Whoever removes it.
    _scratch: Scratch,
    /// Ledgers so far.
    n_ledgers: AtomicU32,
}

impl Ground {
    /// Makes it, pairs the ends and starts the agents.
    pub(in crate::bench) fn make(program: &Path) -> anyhow::Result<Self> {
        // Several may exist at the same time in one process.
        static N_MADE: AtomicU32 = AtomicU32::new(0);
        let (id, number) = (std::process::id(), N_MADE.fetch_add(1, Ordering::Relaxed));
        let names = ["a", "b", "r"].map(|end| format!("lr-truth-{id}-{number}-{end}"));
        let scratch = Scratch::new(&format!("truth-{number}"))?;
        let reaper = reaper(&names)?;
        let mut ground = Self {
            names,
            program: program.to_owned(),
            folder: scratch.path().to_owned(),
            _scratch: scratch,
            agents: Vec::new(),
            _reaper: reaper,
            held: Vec::new(),
            n_ledgers: AtomicU32::new(0),
        };
        ground.link()?;
        ground.held = hold(&ground.names)?;
        ground.pair()?;
        ground.start_agent(&[], AGENT_PORT)?;
        Ok(ground)
    }

    fn link(&self) -> anyhow::Result<()> {
        let [a, b, r] = &self.names;
        for name in &self.names {
            ip(&format!("netns add {name}"))?;
            ip(&format!("-n {name} link set lo up"))?;
        }
        ip(&format!("-n {r} link add br0 type bridge"))?;
        for (index, end) in [a, b].into_iter().enumerate() {
            let port = PORTS[index];
            for command in [
                format!("-n {end} link add {DEVICE} type veth peer name {port} netns {r}"),
                format!("-n {end} address add {}/24 dev {DEVICE}", UNDERLAY[index]),
                format!("-n {end} address add {}/64 dev {DEVICE} nodad", UNDERLAY_6[index]),
                format!("-n {end} link set {DEVICE} up"),
                format!("-n {r} link set {port} master br0"),
                format!("-n {r} link set {port} up"),
            ] {
                ip(&command)?;
            }
        }
        ip(&format!("-n {r} address add {}/24 dev br0", UNDERLAY[2]))?;
        ip(&format!("-n {r} link set br0 up"))
    }

    /// Prepares `path` and removes what an earlier case left.
    pub(in crate::bench) fn lay(&self, path: &Between, relayed: bool) -> anyhow::Result<()> {
        let [a, b, r] = &self.names;
        self.nft("flush ruleset\n")?;
        for end in [a, b] {
            // There is none unless a case before had one.
            let _ = ip(&format!("-n {end} link delete {TUNNEL_DEVICE}"));
            ip(&format!("-n {end} link set {DEVICE} mtu {}", path.mtu))?;
            let state = if path.offloads { "on" } else { "off" };
            let features =
                ["tx", "tso", "gso", "gro"].map(|feature| format!("{feature} {state}")).join(" ");
            self.run(end, &format!("ethtool -K {DEVICE} {features}"))?;
            // There is none unless a round before had one.
            let _ = Command::new("tc")
                .args(["-n", end, "qdisc", "delete", "dev", DEVICE, "root"])
                .output();
        }
        for port in PORTS {
            ip(&format!("-n {r} link set {port} mtu {}", path.mtu))?;
            // With GRO the port is polled, and takes frames that XDP sends.
            self.run(
                r,
                &format!("ethtool -K {port} gro {}", if path.offloads { "on" } else { "off" }),
            )?;
            // There is none unless a case before had one.
            let _ =
                Command::new("tc").args(["-n", r, "qdisc", "delete", "dev", port, "root"]).output();
            if path.bits_per_second > 0 {
                let shaper = if path.bits_per_second >= FAST { FAST_SHAPER } else { SHAPER };
                let rate = path.bits_per_second;
                // A burst must hold a frame at least.
                let shaper = if path.mtu > 4000 { FAST_SHAPER } else { shaper };
                self.run(r, &format!("tc qdisc add dev {port} root tbf rate {rate}bit {shaper}"))?;
            }
        }
        if matches!(path.family, Family::Vxlan | Family::Relay) {
            for (index, end) in [a, b].into_iter().enumerate() {
                let remote = if relayed { UNDERLAY[2] } else { UNDERLAY[1 - index] };
                for command in [
                    format!(
                        "-n {end} link add {TUNNEL_DEVICE} type vxlan id 7 remote {remote} local \
                            {} dstport {VXLAN_PORT} dev {DEVICE}",
                        UNDERLAY[index]
                    ),
                    format!("-n {end} address add {}/24 dev {TUNNEL_DEVICE}", TUNNEL[index]),
                    format!("-n {end} link set {TUNNEL_DEVICE} up"),
                ] {
                    ip(&command)?;
                }
                self.run(
                    end,
                    &format!("ethtool -K {TUNNEL_DEVICE} tx off tso off gso off gro off"),
                )?;
            }
        }
        Ok(())
    }

    /// The relay between the tunnels' ends.
    pub(in crate::bench::truth) fn relay(&self, faults: &Faults) -> anyhow::Result<Relay> {
        self.start_relay(&["truth", "relay"], &faults.arguments())
    }

    /// Starts the relay that `cargo xtask bench` runs as `words` between the ends.
    pub(in crate::bench) fn start_relay(
        &self,
        words: &[&str],
        arguments: &[String],
    ) -> anyhow::Result<Relay> {
        let addresses = [UNDERLAY[2], UNDERLAY[0], UNDERLAY[1]];
        Relay::start(&self.names[2], addresses, words, arguments)
    }

    /// The address of `end` in a case of `family`.
    pub(in crate::bench) fn address(family: Family, end: End) -> &'static str {
        let index = usize::from(end == End::B);
        match family {
            Family::V4 => UNDERLAY[index],
            Family::V6 => UNDERLAY_6[index],
            Family::Vxlan | Family::Relay => TUNNEL[index],
        }
    }

    /// Loads rules at the bridge.
    ///
    /// # Errors
    /// If this kernel lacks what they need.
    pub(in crate::bench) fn nft(&self, rules: &str) -> anyhow::Result<()> {
        let mut child = inside(&self.names[2], Path::new("nft"), None)
            .args(["-f", "-"])
            .stdin(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .context("start nft")?;
        child
            .stdin
            .take()
            .context("nft's input")?
            .write_all(rules.as_bytes())
            .context("write nft's rules")?;
        let output = child.wait_with_output().context("wait for nft")?;
        ensure!(
            output.status.success(),
            "nft: {}\n{rules}",
            String::from_utf8_lossy(&output.stderr).trim()
        );
        Ok(())
    }

    /// Returns the output of `command` at the bridge.
    pub(in crate::bench) fn at_bridge(&self, command: &str) -> anyhow::Result<String> {
        self.run(&self.names[2], command)
    }

    /// Returns the output of `command` at `end`.
    pub(in crate::bench) fn at(&self, end: End, command: &str) -> anyhow::Result<String> {
        self.run(&self.names[usize::from(end == End::B)], command)
    }

    /// `program` at `end`, to be started.
    pub(in crate::bench) fn command(&self, end: End, program: &str) -> Command {
        inside(&self.names[usize::from(end == End::B)], Path::new(program), None)
    }

    /// linerate at `end`, with its keys.
    pub(in crate::bench) fn linerate(&self, end: End) -> Command {
        let mut command = inside(&self.names[usize::from(end == End::B)], &self.program, None);
        command.env("LINERATE_KEYS", self.keys(end));
        command
    }

    /// linerate at `end`, started by the command `before` it, which may be none.
    pub(in crate::bench) fn linerate_by(&self, end: End, before: &[&str]) -> Command {
        let [first, rest @ ..] = before else { return self.linerate(end) };
        let mut command = self.command(end, first);
        command.env("LINERATE_KEYS", self.keys(end)).args(rest).arg(&self.program);
        command
    }

    /// The processes at `end`, by number.
    pub(in crate::bench) fn processes(&self, end: End) -> anyhow::Result<Vec<String>> {
        let name = &self.names[usize::from(end == End::B)];
        let output = Command::new("ip").args(["netns", "pids", name]).output();
        let text = output.context("start ip")?.stdout;
        Ok(String::from_utf8_lossy(&text).split_whitespace().map(str::to_owned).collect())
    }

    /// A name for a ledger that none had before.
    pub(in crate::bench) fn new_ledger(&self) -> PathBuf {
        let number = self.n_ledgers.fetch_add(1, Ordering::Relaxed);
        self.folder.join(format!("{number}.ledger"))
    }

    fn keys(&self, end: End) -> PathBuf {
        self.folder.join(if end == End::A { "keys-a" } else { "keys-b" })
    }

    fn run(&self, namespace: &str, command: &str) -> anyhow::Result<String> {
        let mut words = command.split_whitespace();
        let program = words.next().context("an empty command")?;
        printed(inside(namespace, Path::new(program), None).args(words))
    }

    fn pair(&self) -> anyhow::Result<()> {
        let mut offering = self
            .linerate(End::B)
            .args(["pair", "offer"])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .context("start linerate pair offer")?;
        let mut token = String::new();
        let output = offering.stdout.take().context("the output of linerate pair offer")?;
        BufReader::new(output).read_line(&mut token).context("read the token")?;
        let began = Instant::now();
        let mut last = String::new();
        while began.elapsed() < STARTING {
            let mut accepting = self.linerate(End::A);
            let output = accepting.args(["pair", "accept", UNDERLAY[1], token.trim()]).output();
            let output = output.context("start linerate pair accept")?;
            if output.status.success() {
                offering.wait().context("wait for linerate pair offer")?;
                return self.bind();
            }
            last = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            std::thread::sleep(POLL);
        }
        // It would wait for ten minutes.
        let _ = offering.kill();
        let _ = offering.wait();
        bail!("the ends cannot be paired: {last}")
    }

    /// Gives `a` the other addresses of `b`: a key is good for those it is bound to.
    fn bind(&self) -> anyhow::Result<()> {
        for address in [UNDERLAY_6[1], TUNNEL[1]] {
            printed(self.linerate(End::A).args(["pair", "bind", UNDERLAY[1], address]))?;
        }
        Ok(())
    }

    /// The file with what the agent permits: everything that a case asks for.
    fn policy(&self) -> anyhow::Result<String> {
        let file = self.folder.join("agent.toml");
        std::fs::write(&file, POLICY).with_context(|| format!("write {}", file.display()))?;
        file.into_os_string()
            .into_string()
            .map_err(|file| anyhow::anyhow!("{} is no text", file.display()))
    }

    /// Starts an agent in `b` by the command `before` it, which may be none.
    fn start_agent(&mut self, before: &[&str], port: u16) -> anyhow::Result<()> {
        let mut command = self.linerate_by(End::B, before);
        command.args([
            "agent",
            "--quiet",
            "--policy",
            &self.policy()?,
            "--listen",
            &format!("[::]:{port}"),
        ]);
        let agent = command
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .context("start linerate agent")?;
        self.agents.push(Killed(agent));
        let began = Instant::now();
        while !self.at(End::B, "ss -Hltn")?.contains(&format!(":{port} ")) {
            ensure!(began.elapsed() < STARTING, "linerate agent does not listen at port {port}");
            std::thread::sleep(POLL);
        }
        Ok(())
    }

    /// Starts, once, an agent whose monotonic clock is [`CLOCK_AHEAD_S`] ahead, in a time
    /// namespace.
    pub(in crate::bench) fn other_clock(&mut self) -> anyhow::Result<()> {
        if self.agents.len() > 1 {
            return Ok(());
        }
        let ahead = CLOCK_AHEAD_S.to_string();
        let before = [
            "unshare",
            "--time",
            "--fork",
            "--kill-child",
            "--monotonic",
            &ahead,
            "--boottime",
            &ahead,
        ];
        self.start_agent(&before, OTHER_CLOCK_PORT)
    }

    /// The process of the agent.
    pub(in crate::bench) fn agent(&self) -> u32 {
        self.agents[0].0.id()
    }
}

/// A running relay.
pub(in crate::bench) struct Relay {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Relay {
    /// Starts the relay that `cargo xtask bench` runs as `words` in a namespace, with the
    /// `addresses` of itself and of both ends, and with `arguments`. It goes before other programs:
    /// its lateness would be a property of the path.
    pub(in crate::bench) fn start(
        namespace: &str,
        addresses: [&str; 3],
        words: &[&str],
        arguments: &[String],
    ) -> anyhow::Result<Self> {
        let own = std::env::current_exe().context("find this program")?;
        let mut command = inside(namespace, Path::new("nice"), None);
        command.args(["-n", "-10"]).arg(own).arg("bench");
        command.args(words).args(addresses).args(arguments);
        let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = child.context("start the relay")?;
        let input = child.stdin.take();
        let mut output = BufReader::new(child.stdout.take().context("the relay's output")?);
        let mut line = String::new();
        output.read_line(&mut line).context("wait for the relay")?;
        ensure!(line.trim() == "ready", "the relay did not start");
        Ok(Self { child, input, output })
    }

    /// Ends it and returns what it counted.
    pub(in crate::bench) fn counts(mut self) -> anyhow::Result<Value> {
        drop(self.input.take());
        let mut text = String::new();
        self.output.read_to_string(&mut text).context("read the relay's counts")?;
        serde_json::from_str(&text).with_context(|| format!("parse the relay's counts {text:?}"))
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        drop(self.input.take());
        let _ = self.child.wait();
    }
}
