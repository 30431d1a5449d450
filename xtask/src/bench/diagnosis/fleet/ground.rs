//! Namespaces of a fleet: hosts, a switch of two racks, and a relay before a late host.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::Context;

use super::super::super::relay::VXLAN_PORT;
use super::super::super::sandbox::{inside, ip, reaper};
use super::super::super::scratch::{Afterwards, Killed, Scratch};
use super::super::super::truth::ground::Relay;
use super::super::undeclared;
use super::faults::{Fault, N_HOSTS, N_OF_RACK, name};
use crate::tools::printed;

/// Rate of a port, bit/s of Ethernet frames, and that of a slow one.
const RATE: u64 = 100_000_000;
const SLOW: u64 = RATE / 10 * 9;
const SHAPER: &str = "burst 16kb latency 20ms";
/// Interface of a host.
const DEVICE: &str = "lr0";
/// Device below it on the way through the relay, and its MTU: packets of 1,500 B fit into it.
const UNDERLAY: &str = "lru";
const UNDERLAY_MTU: u32 = 1550;
/// Delay of a late host in each direction, s.
const LATE: f64 = 1e-3;
/// One in this many frames of a lossy pair is lost.
const LOST: u32 = 200;
/// Loops on a busy host, one for each CPU of this machine.
const N_LOOPS: usize = 2;
/// CPU time after which such a loop ends by itself, s.
const LOOPING: &str = "150";

/// The fleet. Fields are dropped in this order.
pub(super) struct Ground {
    folder: PathBuf,
    _loops: Vec<Killed>,
    _relays: Vec<Relay>,
    _reaper: Afterwards,
    _scratch: Scratch,
}

impl Ground {
    /// Makes a fleet with `faults`.
    pub(super) fn make(program: &Path, faults: &[Fault], seed: u32) -> anyhow::Result<Self> {
        // Several exist at the same time in one process.
        static N_MADE: AtomicU32 = AtomicU32::new(0);
        let (id, number) = (std::process::id(), N_MADE.fetch_add(1, Ordering::Relaxed));
        let scratch = Scratch::new(&format!("fleet-{number}"))?;
        let net = Net { prefix: format!("lr-fleet-{id}-{number}-") };
        let hosts = (1..=N_HOSTS).map(|host| net.of(&name(host)));
        let names: Vec<String> = hosts.chain([net.switch(), net.of("relay")]).collect();
        let mut ground = Self {
            folder: scratch.path().to_owned(),
            _loops: Vec::new(),
            _relays: Vec::new(),
            _reaper: reaper(&names)?,
            _scratch: scratch,
        };
        for namespace in &names {
            ip(&format!("netns add {namespace}"))?;
            ip(&format!("-n {namespace} link set lo up"))?;
        }
        let shared = faults.iter().find_map(|fault| match fault {
            Fault::Shared(rate) => Some(*rate),
            _ => None,
        });
        net.connect_racks(shared)?;
        for host in 1..=N_HOSTS {
            let is = |fault: Fault| faults.contains(&fault);
            if is(Fault::Late(host)) {
                let arguments = undeclared::delaying(seed, LATE);
                ground._relays.push(net.connect_late(host, &arguments)?);
            } else {
                net.connect(host)?;
            }
            let rate = |is_slow: bool| if is_slow { SLOW } else { RATE };
            let sends = rate(is(Fault::Slow(host)) || is(Fault::SlowToSend(host)));
            let receives = rate(is(Fault::Slow(host)) || is(Fault::SlowToReceive(host)));
            net.shape(&net.of(&name(host)), DEVICE, sends)?;
            net.shape(&net.switch(), &port(host), receives)?;
        }
        let mut busy = None;
        for fault in faults {
            match *fault {
                Fault::Lossy(from, to) => net.lose(from, to, &ground.folder)?,
                Fault::BusyCpu(host) => {
                    busy = Some(host);
                    for _ in 0..N_LOOPS {
                        ground._loops.push(Killed(net.busy_loop(host)?));
                    }
                }
                _ => {}
            }
        }
        ground.write(program, &net, busy)?;
        Ok(ground)
    }

    /// Writes the inventory, and the command that starts a program on a host.
    fn write(&self, program: &Path, net: &Net, busy: Option<usize>) -> anyhow::Result<()> {
        let mut hosts = String::new();
        for host in 1..=N_HOSTS {
            if (host - 1) % N_OF_RACK == 0 {
                hosts += &format!("[rack{}]\n", 1 + (host - 1) / N_OF_RACK);
            }
            hosts += &format!("{} ansible_host={}\n", name(host), address(host));
        }
        let prefix = &net.prefix;
        let busy = busy.map(name).unwrap_or_default();
        let reach = format!(
            "host=$1; shift\n[ \"$host\" = '{busy}' ] && set -- chrt --idle 0 \"$@\"\n\
             exec ip netns exec '{prefix}'\"$host\" \"$@\"\n"
        );
        let folder = &self.folder;
        for (file, text) in [("hosts.ini", hosts), ("reach.sh", reach)] {
            std::fs::write(folder.join(file), text).with_context(|| format!("write {file}"))?;
        }
        std::fs::create_dir(folder.join("bin")).context("make bin")?;
        let program = program.canonicalize().context("find linerate")?;
        std::os::unix::fs::symlink(program, folder.join("bin/linerate")).context("link linerate")
    }

    /// Returns linerate in the folder of the fleet, started by the command `before` it.
    pub(super) fn linerate(&self, before: &[&str]) -> Command {
        let path = std::env::var("PATH").unwrap_or_default();
        let mut command = Command::new(before[0]);
        command.args(&before[1..]).arg("linerate").current_dir(&self.folder);
        command.env("PATH", format!("{}:{path}", self.folder.join("bin").display()));
        command
    }
}

fn address(host: usize) -> String {
    format!("10.96.0.{host}")
}

/// Returns the port of the switch that a host is connected to.
fn port(host: usize) -> String {
    format!("port{host}")
}

/// Returns the bridge of a host's rack.
fn rack(host: usize) -> &'static str {
    if host <= N_OF_RACK { "rack1" } else { "rack2" }
}

/// Namespaces with names of their own.
struct Net {
    prefix: String,
}

impl Net {
    fn of(&self, part: &str) -> String {
        format!("{}{part}", self.prefix)
    }

    fn switch(&self) -> String {
        self.of("switch")
    }

    fn run(&self, namespace: &str, command: &str) -> anyhow::Result<()> {
        let mut words = command.split_whitespace();
        let program = words.next().context("an empty command")?;
        printed(inside(namespace, Path::new(program), None).args(words)).map(drop)
    }

    /// Makes the bridges of both racks, between which `shared` bit/s pass, or any rate.
    fn connect_racks(&self, shared: Option<u64>) -> anyhow::Result<()> {
        let switch = self.switch();
        for bridge in ["rack1", "rack2"] {
            ip(&format!("-n {switch} link add {bridge} type bridge"))?;
            ip(&format!("-n {switch} link set {bridge} up"))?;
        }
        ip(&format!("-n {switch} link add up1 type veth peer name up2"))?;
        for (uplink, bridge) in [("up1", "rack1"), ("up2", "rack2")] {
            ip(&format!("-n {switch} link set {uplink} master {bridge} up"))?;
            if let Some(rate) = shared {
                self.shape(&switch, uplink, rate)?;
            }
        }
        Ok(())
    }

    /// Connects a host with its rack.
    fn connect(&self, host: usize) -> anyhow::Result<()> {
        let (own, switch, port) = (self.of(&name(host)), self.switch(), port(host));
        ip(&format!("-n {own} link add {DEVICE} type veth peer name {port} netns {switch}"))?;
        self.bring_up(host)
    }

    /// Connects a host with its rack through a relay, in a tunnel.
    fn connect_late(&self, host: usize, arguments: &[String]) -> anyhow::Result<Relay> {
        let (own, switch, relay) = (self.of(&name(host)), self.switch(), self.of("relay"));
        // Of the relay, the host and the switch.
        let ends = ["10.95.1.1", "10.95.1.2", "10.95.2.2"];
        let (towards, address) = (["to-host", "to-switch"], [ends[0], "10.95.2.1"]);
        for (index, end) in [&own, &switch].into_iter().enumerate() {
            let near = towards[index];
            ip(&format!("-n {end} link add {UNDERLAY} type veth peer name {near} netns {relay}"))?;
            for (namespace, device, address) in
                [(end, UNDERLAY, ends[1 + index]), (&relay, near, address[index])]
            {
                ip(&format!("-n {namespace} link set {device} mtu {UNDERLAY_MTU} up"))?;
                ip(&format!("-n {namespace} address add {address}/24 dev {device}"))?;
                self.without_offloads(namespace, device)?;
            }
        }
        // The switch answers the address that the relay has towards the host.
        ip(&format!("-n {switch} route add {}/32 via {}", ends[0], address[1]))?;
        for (namespace, device, local) in
            [(&own, DEVICE.to_owned(), ends[1]), (&switch, port(host), ends[2])]
        {
            ip(&format!(
                "-n {namespace} link add {device} type vxlan id 7 remote {} local {local} dstport \
                    {VXLAN_PORT} dev {UNDERLAY}",
                ends[0]
            ))?;
            self.without_offloads(namespace, &device)?;
        }
        self.bring_up(host)?;
        Relay::start(&relay, ends, &["diagnosis", undeclared::RELAY], arguments)
    }

    fn bring_up(&self, host: usize) -> anyhow::Result<()> {
        let (own, switch, port) = (self.of(&name(host)), self.switch(), port(host));
        ip(&format!("-n {own} address add {}/24 dev {DEVICE}", address(host)))?;
        ip(&format!("-n {own} link set {DEVICE} up"))?;
        ip(&format!("-n {switch} link set {port} master {} up", rack(host)))
    }

    /// Frames that were coalesced would be lost, or delayed, as one.
    fn without_offloads(&self, namespace: &str, device: &str) -> anyhow::Result<()> {
        self.run(namespace, &format!("ethtool -K {device} tx off tso off gso off gro off"))
    }

    fn shape(&self, namespace: &str, device: &str, rate: u64) -> anyhow::Result<()> {
        let qdisc = format!("tc qdisc add dev {device} root tbf rate {rate}bit {SHAPER}");
        self.run(namespace, &qdisc)
    }

    /// Drops one in [`LOST`] frames of IPv4 from one host to another, where they enter the switch.
    fn lose(&self, from: usize, to: usize, folder: &Path) -> anyhow::Result<()> {
        let rules = format!(
            "table netdev fault {{ chain lose {{ type filter hook ingress device {} priority 0; \
                ip saddr {} ip daddr {} numgen random mod {LOST} 0 drop; }}; }};\n",
            port(from),
            address(from),
            address(to)
        );
        let file = folder.join("rules.nft");
        std::fs::write(&file, rules).with_context(|| format!("write {}", file.display()))?;
        self.without_offloads(&self.of(&name(from)), DEVICE)?;
        self.run(&self.switch(), &format!("nft -f {}", file.display()))
    }

    fn busy_loop(&self, host: usize) -> anyhow::Result<Child> {
        let mut command = inside(&self.of(&name(host)), Path::new("nice"), None);
        // One process, which a kill ends. Those without a busy host have priority over it.
        command.args(["-n", "10", "sh", "-c", "ulimit -t \"$0\"; while :; do :; done", LOOPING]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.spawn().context("start a loop")
    }
}
