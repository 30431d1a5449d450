//! Malicious peers with valid keys: whatever they say, an honest host sends nothing to a third one
//! but the hello of a connection, and no terminal obeys their texts.
//!
//! Four network namespaces: an honest host, an attacker and a victim, each at a bridge in the
//! fourth. The attacker is `linerate-control/examples/peers`; the honest end is the linerate that
//! people use. nftables counts at the victim's interface, below everything that a load could bypass
//! (hook ingress), and at the attacker's, which shows for each workload that it counts.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use serde_json::Value;

use super::Bench;
use crate::bench::sandbox::{ip, reaper};
use crate::bench::scratch::{Afterwards, Killed, Scratch};
use crate::tools::{is_root, printed};

/// The switch, the honest host, the attacker and the victim.
const HOSTS: [&str; 4] = ["s", "h", "a", "v"];
const HONEST: &str = "198.18.60.1";
const ATTACKER: &str = "198.18.60.2";
const VICTIM: &str = "198.18.60.66";
/// Bytes of a hello, which every listener may be sent.
const HELLO_BYTES: u64 = 44;
/// Limit for waits that take a moment on an idle machine.
const PATIENCE: Duration = Duration::from_secs(60);
/// Datagrams that show that the victim's counters count.
const PROBES: u64 = 10;
/// Everything that a paired conductor may be permitted, so that nothing but the proof of the secret
/// is in the way.
const POLICY: &str = "lowest_port = 1\nraw_frames = true\nforeign_clients = true\nforeign_servers \
    = [\"0.0.0.0/0\"]\n";

/// Attacks of a conductor; the first shows that load is counted where it may go.
const BY_CONDUCTOR: [&str; 5] = ["proven", "victim", "split", "first", "spoof"];
/// Attacks of an agent.
const BY_AGENT: [&str; 4] = ["victim", "split", "first", "texts"];

/// Those of the quick form.
const QUICK: [&str; 2] = ["split", "texts"];

/// Runs every attack; true if nothing reached the victim and no text was obeyed.
pub(super) fn run(bench: &Bench) -> anyhow::Result<bool> {
    if !is_root() {
        println!("skipped: torture peers: needs root to make network namespaces");
        return Ok(true);
    }
    let ground = Ground::build(bench, bench.example("peers"))?;
    // A counter that does not count would find nothing at the victim, so it is tested first.
    let mut held = ground.counts_what_is_sent()?;
    if bench.wants("conductor") {
        held &= by_conductor(bench, &ground)?;
    }
    if bench.wants("agent") {
        held &= by_agent(bench, &ground)?;
    }
    Ok(held)
}

/// A malicious conductor at an honest agent.
fn by_conductor(bench: &Bench, ground: &Ground) -> anyhow::Result<bool> {
    ground.pair("h", "a")?;
    let policy = ground.folder.join("agent.toml");
    // Frames that the kernel makes, and AF_XDP, need more than a separated agent has. The quick
    // form has the rights that agents have by default.
    fs::write(
        &policy,
        if bench.quick { POLICY.to_owned() } else { format!("{POLICY}separate = false\n") },
    )?;
    // The agent refuses a policy that others can write.
    fs::set_permissions(&policy, fs::Permissions::from_mode(0o600))?;
    let policy = policy.to_str().context("a path in text")?;
    let _agent = ground.agent("h", &["agent", "--listen", HONEST, "--policy", policy])?;
    ground.wait_for_listener("h")?;
    let mut held = true;
    let few = if bench.quick { "few" } else { "all" };
    for attack in BY_CONDUCTOR {
        // A new listener for each attack counts that attack alone.
        let victim = ground.victim()?;
        ground.reset()?;
        if attack == "spoof" {
            // Somebody else makes the attacker's datagrams look like the victim's.
            let rule = format!(
                "table ip spoof {{ chain leaving {{ type filter hook output priority 0; meta \
                    l4proto udp ip saddr set {VICTIM}; }}; }}"
            );
            ground.nft("a", &rule)?;
        }
        let keys = ground.folder.join("a");
        let address = format!("{HONEST}:4777");
        let arguments =
            ["conductor", keys.to_str().context("text")?, &address, ATTACKER, VICTIM, attack, few];
        let said = printed(&mut ground.within("a", &ground.peers.to_string_lossy(), &arguments));
        if attack == "spoof" {
            ground.nft("a", "delete table ip spoof")?;
        }
        let said = said?;
        let (seen, at_attacker) = (ground.counted("v")?, ground.counted("a")?);
        let (connections, most) = victim.ends()?;
        let carried_out =
            said.lines().filter(|line| line.ends_with(": it was carried out")).count();
        println!(
            "conductor, {attack}: {} trials, {carried_out} carried out; at the victim {seen}; \
                {connections} connections, at most {most} bytes; at the attacker {at_attacker}",
            said.lines().count()
        );
        // The hello of a connection is allowed; nothing behind it is.
        held &= seen.is_nothing() && most <= HELLO_BYTES;
        match attack {
            "proven" => {
                said.lines()
                    .filter(|line| !line.ends_with(": it was carried out"))
                    .for_each(|line| println!("  {line}"));
                // This case shows that load is counted where it is permitted.
                held &= carried_out > 0 && at_attacker.udp > 0;
            }
            "spoof" => {}
            _ => {
                said.lines()
                    .filter(|line| line.ends_with(": it was carried out"))
                    .for_each(|line| println!("  {line}"));
                held &= carried_out == 0;
            }
        }
    }
    Ok(held)
}

/// A malicious agent at an honest conductor.
fn by_agent(bench: &Bench, ground: &Ground) -> anyhow::Result<bool> {
    ground.pair("a", "h")?;
    let mut held = true;
    for attack in BY_AGENT.into_iter().filter(|attack| !bench.quick || QUICK.contains(attack)) {
        let victim = ground.victim()?;
        ground.reset()?;
        let listen = format!("{ATTACKER}:4777");
        let keys = ground.folder.join("a");
        let arguments = ["agent", keys.to_str().context("text")?, &listen, VICTIM, attack];
        let mut agent =
            Waiting::start(ground.within("a", &ground.peers.to_string_lossy(), &arguments))?;
        let (plan, ledger) =
            (ground.folder.join("plan.toml"), ground.folder.join(format!("{attack}.ledger")));
        fs::write(&plan, plan_of(bench.quick, attack))?;
        let (plan, ledger) =
            (plan.to_string_lossy().into_owned(), ledger.to_string_lossy().into_owned());
        let report = ground.folder.join(attack).to_string_lossy().into_owned();
        let mut run = ground.linerate("h", &["run", &plan, "--to", ATTACKER, "--ledger", &ledger]);
        run.args(["--out", &report, "--format", "md,html,json,csv"]);
        let ran = run.output().context("run linerate")?;
        let reported = ground
            .linerate("h", &["report", &ledger, "--out", &report, "--format", "md"])
            .output()?;
        agent.end()?;
        let (seen, (connections, most)) = (ground.counted("v")?, victim.ends()?);
        let mut printed = vec![ran.stdout, ran.stderr, reported.stdout, reported.stderr];
        // Every text that a person could see is searched: terminal and files.
        for entry in fs::read_dir(&report).into_iter().flatten().flatten() {
            printed.push(fs::read(entry.path())?);
        }
        let written: Vec<String> =
            printed.iter().map(|bytes| String::from_utf8_lossy(bytes).into_owned()).collect();
        let raw = written.iter().flat_map(|text| text.chars()).filter(|&c| is_obeyed(c)).count();
        let shown = written.iter().map(|text| text.matches("\\u001b").count()).sum::<usize>();
        println!(
            "agent, {attack}: exit {}; at the victim {seen}; {connections} connections, at most \
                {most} bytes; in {} texts of \
             {} bytes {raw} raw control characters, {shown} written out",
            ran.status.code().unwrap_or(-1),
            written.len(),
            written.iter().map(String::len).sum::<usize>(),
        );
        // The texts must be shown, but escaped.
        if attack == "texts" {
            let told = written[..2]
                .iter()
                .flat_map(|text| text.lines())
                .find(|line| line.contains("\\u001b"));
            println!("  {}", told.unwrap_or("nothing of it was printed"));
            held &= shown > 0;
        } else {
            let why = written[1].lines().find(|line| line.contains(VICTIM));
            println!("  {}", why.unwrap_or("no line names the victim"));
        }
        held &= seen.is_nothing() && most <= HELLO_BYTES && raw == 0;
    }
    Ok(held)
}

/// Every workload towards the agent, once.
fn plan_of(is_quick: bool, attack: &str) -> String {
    let mut text = "[campaign]\nname = \"peers\"\nrepeats = 1\n".to_owned();
    let mut jobs = vec![
        ("udp_stream", ""),
        ("tcp_stream", ""),
        ("frames", "mode = \"udp\", allow_outside_lab = true"),
        // Modes that need more rights are only in the long form.
    ];
    if !is_quick {
        jobs.extend([
            ("udp_rr", ""),
            ("tcp_rr", ""),
            ("tcp_crr", ""),
            ("http", "direction = \"tx\""),
            ("ftp", "direction = \"tx\""),
        ]);
        jobs.push(("frames", "mode = \"live\", allow_outside_lab = true"));
        jobs.push(("frames", "mode = \"packet\", allow_outside_lab = true"));
    }
    if attack == "texts" {
        // The reason of a trial that fails.
        jobs.push(("tcp_stream", "streams = 7"));
    }
    for (number, (workload, params)) in jobs.iter().enumerate() {
        text += &format!(
            "[[sweep]]\nname = \"{number} {workload}\"\nduration = \"100 ms\"\nwarmup = \"0 \
                s\"\ndrain = \"50 ms\"\nrest = \"0 s\"\n\
             [[sweep.job]]\nworkload = \"{workload}\"\nfrom = \"a\"\nto = \"b\"\nparams = {{ \
             {params} }}\n"
        );
    }
    text
}

/// Returns true if a terminal obeys `c`. Line feeds and tabs are harmless.
fn is_obeyed(c: char) -> bool {
    (c.is_control() && !matches!(c, '\n' | '\t'))
        || matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Packets to one host's Ethernet or IP address, without those that find neighbours.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    udp: u64,
    tcp: u64,
    icmp: u64,
    others: u64,
}

impl Seen {
    /// Returns true if no load is among them. A connection attempt is allowed, and a kernel answers
    /// forged packets.
    fn is_nothing(self) -> bool {
        // A refused connection attempt and an answer of the kernel are no load.
        self.udp == 0 && self.others == 0
    }
}

impl std::fmt::Display for Seen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "udp {}, tcp {}, icmp {}, others {}", self.udp, self.tcp, self.icmp, self.others)
    }
}

/// A process that works until its standard input ends.
struct Waiting {
    child: Killed,
    input: Option<ChildStdin>,
    output: BufReader<std::process::ChildStdout>,
}

impl Waiting {
    /// Starts it, and waits until it says that it is ready.
    fn start(mut command: Command) -> anyhow::Result<Self> {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .context("start peers")?;
        let input = child.stdin.take();
        let mut output = BufReader::new(child.stdout.take().context("its output")?);
        let mut line = String::new();
        output.read_line(&mut line)?;
        ensure!(line == "ready\n", "peers says `{line}`");
        Ok(Self { child: Killed(child), input, output })
    }

    /// Ends it; what else it said.
    fn end(&mut self) -> anyhow::Result<String> {
        drop(self.input.take());
        let mut said = String::new();
        self.output.read_to_string(&mut said)?;
        self.child.0.wait()?;
        Ok(said)
    }

    /// Ends a victim: connections, and the most bytes of one.
    fn ends(mut self) -> anyhow::Result<(u64, u64)> {
        let said = self.end()?;
        let mut numbers =
            said.split(|c: char| !c.is_ascii_digit()).filter_map(|digits| digits.parse().ok());
        numbers.next().zip(numbers.next()).with_context(|| format!("read `{}`", said.trim()))
    }
}

/// Hosts at a bridge; they go when this goes.
struct Ground {
    prefix: String,
    folder: PathBuf,
    linerate: PathBuf,
    peers: PathBuf,
    _reaper: Afterwards,
    _scratch: Scratch,
}

impl Ground {
    fn build(bench: &Bench, peers: PathBuf) -> anyhow::Result<Self> {
        let prefix = format!("lrp-{}", std::process::id());
        let reaper = reaper(&HOSTS.map(|host| format!("{prefix}-{host}")))?;
        // In one folder, so that everything goes with it.
        let scratch = Scratch::new("peers")?;
        let ground = Self {
            prefix,
            folder: scratch.path().to_owned(),
            linerate: bench.linerate.clone(),
            peers,
            _reaper: reaper,
            _scratch: scratch,
        };
        let name = |host: &str| ground.name(host);
        for host in HOSTS {
            ip(&format!("netns add {}", name(host)))?;
            ip(&format!("-n {} link set lo up", name(host)))?;
        }
        ip(&format!("-n {} link add br0 up type bridge", name("s")))?;
        for (host, address) in [("h", HONEST), ("a", ATTACKER), ("v", VICTIM)] {
            let (host, port) = (name(host), format!("to-{host}"));
            let switch = name("s");
            ip(&format!("link add v0 netns {host} type veth peer name {port} netns {switch}"))?;
            ip(&format!("-n {switch} link set {port} master br0 up"))?;
            ip(&format!("-n {host} address add {address}/24 dev v0"))?;
            ip(&format!("-n {host} link set v0 up"))?;
            // A veth takes frames that the kernel makes if its peer coalesces.
            printed(&mut ground.within("s", "ethtool", &["-K", &port, "gro", "on"]))?;
        }
        for (host, address) in [("a", ATTACKER), ("v", VICTIM)] {
            // The address is read, because the kernel chooses it at random.
            let mac = hardware_address(&name(host))?;
            // The first rule that fits counts; what is for others is only flooded by the bridge.
            let rules = format!(
                "table netdev seen {{ counter seen_udp {{ }}; counter seen_tcp {{ }}; counter \
                    seen_icmp {{ }}; counter seen_others {{ }}; chain sorted {{ ether type arp \
                    return; meta l4proto udp counter name seen_udp return; meta l4proto tcp \
                    counter name seen_tcp return; meta l4proto icmp counter name seen_icmp return; \
                    counter name seen_others; }}; chain arriving {{ type filter hook ingress \
                    device v0 priority 0; ether daddr {mac} jump sorted; ether daddr != {mac} ip \
                    daddr {address} jump sorted; }}; }}"
            );
            ground.nft(host, &rules)?;
        }
        Ok(ground)
    }

    fn name(&self, host: &str) -> String {
        format!("{}-{host}", self.prefix)
    }

    /// `program` inside the namespace of `host`.
    fn within(&self, host: &str, program: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.name(host), program]).args(arguments);
        // Colours would split the words that the texts are searched for.
        command.current_dir(&self.folder).env("NO_COLOR", "1").stdin(Stdio::null());
        command
    }

    /// linerate at `host`, with its keys.
    fn linerate(&self, host: &str, arguments: &[&str]) -> Command {
        let mut command = self.within(host, &self.linerate.to_string_lossy(), arguments);
        // Each host has keys of its own, as separate machines would.
        command.env("LINERATE_KEYS", self.folder.join(host));
        command
    }

    fn agent(&self, host: &str, arguments: &[&str]) -> anyhow::Result<Waiting> {
        let mut command = self.linerate(host, arguments);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().context("start the agent")?;
        let output = BufReader::new(child.stdout.take().context("its output")?);
        Ok(Waiting { child: Killed(child), input: None, output })
    }

    /// The third host takes connections.
    fn victim(&self) -> anyhow::Result<Waiting> {
        Waiting::start(self.within("v", &self.peers.to_string_lossy(), &["victim", VICTIM]))
    }

    /// `measured` offers, `conductor` accepts: it may conduct there.
    fn pair(&self, measured: &str, conductor: &str) -> anyhow::Result<()> {
        let address = if measured == "h" { HONEST } else { ATTACKER };
        let mut offer = self.linerate(measured, &["pair", "offer", "--listen", address]);
        let mut offer =
            offer.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().context("offer")?;
        let mut output = BufReader::new(offer.stdout.take().context("its output")?);
        let mut token = String::new();
        output.read_line(&mut token)?;
        let accepted =
            self.linerate(conductor, &["pair", "accept", address, token.trim()]).output()?;
        // A process that waits for nobody ends here, too.
        if !accepted.status.success() {
            offer.kill()?;
        }
        offer.wait()?;
        ensure!(accepted.status.success(), "pair: {}", String::from_utf8_lossy(&accepted.stderr));
        Ok(())
    }

    fn wait_for_listener(&self, host: &str) -> anyhow::Result<()> {
        let until = Instant::now() + PATIENCE;
        // The agent opens its port only after its helpers have started.
        while Instant::now() < until {
            let listed =
                self.within(host, "ss", &["-Hltn", "sport = :4777"]).output().context("run ss")?;
            if !listed.stdout.is_empty() {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        bail!("the agent did not listen within {} s", PATIENCE.as_secs())
    }

    fn nft(&self, host: &str, rules: &str) -> anyhow::Result<()> {
        printed(&mut self.within(host, "nft", &[rules])).map(drop)
    }

    fn reset(&self) -> anyhow::Result<()> {
        // Reset before each attack, so that every count belongs to one.
        ["a", "v"].into_iter().try_for_each(|host| self.nft(host, "reset counters"))
    }

    fn counted(&self, host: &str) -> anyhow::Result<Seen> {
        let output =
            self.within(host, "nft", &["-j", "list", "counters"]).output().context("run nft")?;
        let listed: Value = serde_json::from_slice(&output.stdout).context("nft prints JSON")?;
        let entries = listed["nftables"].as_array().context("nft prints a list")?;
        Ok(Seen {
            udp: packets(entries, "udp")?,
            tcp: packets(entries, "tcp")?,
            icmp: packets(entries, "icmp")?,
            others: packets(entries, "others")?,
        })
    }

    /// Returns true if the victim's counters see datagrams that another program sends to it.
    fn counts_what_is_sent(&self) -> anyhow::Result<bool> {
        self.reset()?;
        // Bash opens the socket itself: no program of ours is in the way.
        let send = format!("for i in $(seq {PROBES}); do echo x > /dev/udp/{VICTIM}/9; done");
        let status = self.within("h", "bash", &["-c", &send]).status().context("run bash")?;
        let seen = self.counted("v")?;
        println!("positive control: {PROBES} datagrams sent by bash, at the victim {seen}");
        // Exactly as many: one more would mean that something else reaches the victim.
        Ok(status.success() && seen.udp == PROBES)
    }
}

fn packets(entries: &[Value], kind: &str) -> anyhow::Result<u64> {
    let name = format!("seen_{kind}");
    // The list also has tables and chains.
    let named = entries
        .iter()
        .filter_map(|entry| entry.get("counter"))
        .find(|counter| counter["name"] == name.as_str());
    named
        .and_then(|counter| counter["packets"].as_u64())
        .with_context(|| format!("no counter {name}"))
}

/// The Ethernet address of `v0` in namespace `name`.
fn hardware_address(name: &str) -> anyhow::Result<String> {
    let listed = printed(Command::new("ip").args(["-n", name, "-j", "link", "show", "v0"]))?;
    let listed: Value = serde_json::from_str(&listed).context("ip prints JSON")?;
    Ok(listed[0]["address"].as_str().context("v0 has an address")?.to_owned())
}
