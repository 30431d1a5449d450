//! The generators, and the options by which all do the same work: one process per end, both inside
//! the sandbox.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};

use super::outputs::{self, Reading, Unit};
use super::processor::Usage;
use super::sandbox::{Medium, Sandbox};
use super::scratch::Killed;
use Generator::{Iperf, Iperf3, Linerate, Netperf, Nuttcp, Sockperf};

/// Kind of work, for every generator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Work {
    /// TCP: bytes per call at the sender, and connections.
    Stream { message: u32, streams: u32 },
    /// UDP: bytes of payload per datagram.
    Datagrams { size: u32 },
    /// A byte and back (14 bytes with sockperf), one at a time.
    Requests { tcp: bool, spin: bool },
}

/// Who does it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Generator {
    /// With these parameters beyond those that describe the work.
    Linerate(String),
    Iperf3,
    Nuttcp,
    Iperf,
    Sockperf,
    /// With its usual size of a receiving call, or that of a message.
    Netperf {
        in_messages: bool,
    },
}

/// One run of one generator.
#[derive(Clone, Copy, Debug)]
pub(super) struct Outcome {
    pub(super) reading: Reading,
    /// User and system time of both ends, from their start to their end, s.
    pub(super) cpu: f64,
    /// Soft interrupts of the whole machine meanwhile, s.
    pub(super) soft_interrupts: f64,
}

/// Where and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RunPlace {
    pub(super) medium: Medium,
    /// The core both ends run on, if they are pinned.
    pub(super) core: Option<usize>,
    pub(super) seconds: u32,
}

/// Settings of a generator's run.
#[derive(Debug)]
pub(super) struct Bench {
    pub(super) sandbox: Sandbox,
    /// linerate's example `end`.
    pub(super) end: PathBuf,
    /// A folder for what is printed.
    pub(super) folder: PathBuf,
    /// Folder with peers that are used instead of those of the system.
    pub(super) peers: Option<PathBuf>,
    runs: u16,
}

/// Ports of the first run; each has its own ten, so that none waits for an old connection.
const FIRST_PORT: u16 = 10_000;
const PORTS_PER_RUN: u16 = 10;
const RUNS_BEFORE_PORTS_REPEAT: u16 = 2_000;
/// A listener that is not there by then will not come.
const START_PATIENCE: Duration = Duration::from_secs(5);
/// How long both may take beyond the time asked for.
const END_PATIENCE: Duration = Duration::from_secs(10);
/// Servers that end by themselves do so by then.
const SERVER_PATIENCE: Duration = Duration::from_secs(2);
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// sockperf's shortest message.
const SOCKPERF_BYTES: &str = "14";

impl Work {
    pub(super) fn unit(self) -> Unit {
        match self {
            Self::Stream { .. } => Unit::Bits,
            Self::Datagrams { size } => Unit::Datagrams(size),
            Self::Requests { .. } => Unit::Transactions,
        }
    }
}

impl Generator {
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Linerate(_) => "linerate",
            Self::Iperf3 => "iperf3",
            Self::Nuttcp => "nuttcp",
            Self::Iperf => "iperf",
            Self::Sockperf => "sockperf",
            Self::Netperf { .. } => "netperf",
        }
    }
}

impl Bench {
    pub(super) fn new(sandbox: Sandbox, end: PathBuf, folder: PathBuf) -> Self {
        Self { sandbox, end, folder, peers: None, runs: 0 }
    }

    /// Runs `generator` once.
    pub(super) fn run(
        &mut self,
        generator: &Generator,
        work: Work,
        place: RunPlace,
    ) -> anyhow::Result<Outcome> {
        // A port is not used again while a connection of it may linger.
        self.runs = (self.runs + 1) % RUNS_BEFORE_PORTS_REPEAT;
        let port = FIRST_PORT + self.runs * PORTS_PER_RUN;
        let before = Usage::now()?;
        let (passive, active) = self.both_ends(generator, work, place, port)?;
        let used = Usage::now()?.since(before);
        let unit = work.unit();
        let reading = match (generator, work) {
            (Linerate(_), _) => outputs::linerate(&passive, &active, unit),
            (Iperf3, _) => outputs::iperf3(&passive, &active, unit),
            (Nuttcp, _) => outputs::nuttcp(&active, unit),
            (Iperf, Work::Stream { streams, .. }) => outputs::iperf(&passive, streams),
            (Iperf, _) => bail!("iperf runs streams only"),
            (Sockperf, _) => outputs::sockperf(&active),
            (Netperf { .. }, _) => outputs::netperf(&active, unit),
        }?;
        Ok(Outcome { reading, cpu: used.children, soft_interrupts: used.soft_interrupts })
    }

    /// Returns the program of a generator.
    fn program(&self, name: &str) -> PathBuf {
        if name == "linerate" {
            return self.end.clone();
        }
        let own = self.peers.as_ref().map(|folder| folder.join(name));
        own.filter(|program| program.exists()).unwrap_or_else(|| PathBuf::from(name))
    }

    /// Starts the passive end, waits until it listens, runs the active end, and returns what both
    /// printed.
    fn both_ends(
        &self,
        generator: &Generator,
        work: Work,
        place: RunPlace,
        port: u16,
    ) -> anyhow::Result<(String, String)> {
        let name = generator.name();
        let offer = self.folder.join("offer");
        let program = self.program(name);
        let server = if name == "netperf" { self.program("netserver") } else { program.clone() };
        let (to_passive, to_active) = arguments(generator, work, place, port, &offer);
        let mut passive = self.sandbox.passive(place.medium, &server, place.core);
        let mut passive =
            Running::start(passive.args(to_passive), name, self.folder.join("passive"))?;
        // linerate's passive end writes the offer file, which its active end waits for.
        if name != "linerate" {
            // netperf's ends meet over TCP, whatever they send.
            let is_udp = matches!(work, Work::Requests { tcp: false, .. }) && name != "netperf";
            passive.await_port(port, is_udp)?;
        }
        let mut active = self.sandbox.active(&program, place.core);
        let mut active = Running::start(active.args(to_active), name, self.folder.join("active"))?;
        let patience = END_PATIENCE + Duration::from_secs(place.seconds.into());
        ensure!(
            active.ended_within(patience)?,
            "{name}: the active end did not end: {}",
            active.said()
        );
        // These servers never end by themselves.
        if matches!(generator, Iperf | Sockperf | Netperf { .. })
            || !passive.ended_within(SERVER_PATIENCE)?
        {
            // Asked to end, a server still prints its figures.
            passive.terminate()?;
        }
        Ok((passive.printed(), active.printed()))
    }
}

/// Returns the arguments of the passive and the active end.
fn arguments(
    generator: &Generator,
    work: Work,
    place: RunPlace,
    port: u16,
    offer: &Path,
) -> (Vec<String>, Vec<String>) {
    let address = Sandbox::address(place.medium);
    let seconds = place.seconds;
    let offer = offer.display();
    let (passive, active) = match (generator, work) {
        (Linerate(parameters), _) => {
            let described = match work {
                Work::Stream { message, streams } => {
                    format!("tcp_stream message_size={message}B streams={streams}")
                }
                Work::Datagrams { size } => format!("udp_stream datagram_size={size}B"),
                Work::Requests { tcp, spin } => format!(
                    "{} request_size=1B response_size=1B wait={}",
                    if tcp { "tcp_rr" } else { "udp_rr" },
                    if spin { "spin" } else { "block" }
                ),
            };
            let source = Sandbox::source(place.medium);
            (
                format!(
                    "{described} {parameters} seconds={seconds} address={address} serve={offer}"
                ),
                format!("{described} {parameters} seconds={seconds} address={source} to={offer}"),
            )
        }
        (Iperf3, _) => {
            let how = match work {
                Work::Stream { message, streams } => format!("-l {message} -P {streams} -C cubic"),
                Work::Datagrams { size } => format!("-u -b 0 -l {size}"),
                // iperf3 has no workload of requests.
                Work::Requests { .. } => String::new(),
            };
            // `-1`: the server ends after one test, and prints its figures then.
            (format!("-s -1 -J -p {port}"), format!("-c {address} -p {port} -t {seconds} -J {how}"))
        }
        (Nuttcp, _) => {
            let how = match work {
                Work::Stream { message, streams: 1 } => format!("-l{message}"),
                Work::Stream { message, streams } => format!("-l{message} -N{streams}"),
                Work::Datagrams { size } => format!("-u -Ru -l{size}"),
                Work::Requests { .. } => String::new(),
            };
            let ports = format!("-P {port} -p {}", port + 1);
            (
                format!("-S -1 --nofork {ports}"),
                format!("{ports} -T{seconds} {how} -fparse {address}"),
            )
        }
        (Iperf, Work::Stream { message, streams }) => (
            format!("-s -p {port} -y C"),
            format!("-c {address} -p {port} -t {seconds} -l {message} -P {streams} -Z cubic"),
        ),
        (Iperf, _) => Default::default(),
        (Sockperf, _) => {
            let (tcp, spin) = match work {
                Work::Requests { tcp, spin } => (tcp, spin),
                _ => (false, false),
            };
            let how =
                [if tcp { "--tcp" } else { "" }, if spin { "--nonblocked" } else { "" }].join(" ");
            let at = format!("{how} -i {address} -p {port}");
            (format!("sr {at}"), format!("pp {at} -t {seconds} --msg-size {SOCKPERF_BYTES}"))
        }
        (Netperf { in_messages }, _) => {
            let (test, how) = match work {
                Work::Stream { message, .. } => {
                    let pieces = if *in_messages { format!("-M {message}") } else { String::new() };
                    let prints = "-o THROUGHPUT,REMOTE_BYTES_RECVD";
                    ("TCP_STREAM", format!("-m {message} {pieces} -K cubic {prints}"))
                }
                // No row asks it for datagrams.
                Work::Datagrams { .. } => ("UDP_STREAM", String::new()),
                Work::Requests { tcp, .. } => {
                    (if tcp { "TCP_RR" } else { "UDP_RR" }, "-r 1,1 -o TRANSACTION_RATE".into())
                }
            };
            let at = format!("-4 -H {address} -p {port}");
            // In the foreground and by one process, so that its CPU time counts.
            (format!("-D -f -4 -p {port}"), format!("{at} -t {test} -l {seconds} -P 0 -- {how}"))
        }
    };
    // No argument contains a blank.
    let split = |text: String| text.split_whitespace().map(str::to_owned).collect();
    (split(passive), split(active))
}

/// A process and the files it prints into. It is killed when it is dropped.
#[derive(Debug)]
pub(super) struct Running {
    child: Killed,
    name: &'static str,
    output: PathBuf,
    /// File with its warnings; some generators print results there.
    warnings: PathBuf,
}

impl Running {
    pub(super) fn start(
        command: &mut Command,
        name: &'static str,
        output: PathBuf,
    ) -> anyhow::Result<Self> {
        let error = || format!("write to {}", output.display());
        let file = File::create(&output).with_context(error)?;
        // Some tools print their results among the warnings, so both are kept.
        let warnings = output.with_extension("warnings");
        let child = command
            .stdin(Stdio::null())
            .stderr(File::create(&warnings).with_context(error)?)
            .stdout(file)
            .spawn()
            .with_context(|| format!("start {name}"))?;
        Ok(Self { child: Killed(child), name, output, warnings })
    }

    /// Waits until it listens on `port`, which its namespace's socket tables show.
    fn await_port(&mut self, port: u16, udp: bool) -> anyhow::Result<()> {
        let tables = if udp { ["udp", "udp6"] } else { ["tcp", "tcp6"] };
        let deadline = Instant::now() + START_PATIENCE;
        loop {
            // The namespace of the child, not ours, has the socket.
            let folder = Path::new("/proc").join(self.child.0.id().to_string()).join("net");
            let read = |table: &str| std::fs::read_to_string(folder.join(table));
            let is_there = |text: String| is_bound(&text, port, udp);
            if tables.iter().any(|table| read(table).is_ok_and(is_there)) {
                return Ok(());
            }
            // A server that has ended will not listen any more.
            if self.child.0.try_wait().context("wait for a server")?.is_some()
                || Instant::now() > deadline
            {
                bail!("{}: its server does not listen on port {port}: {}", self.name, self.said());
            }
            std::thread::sleep(LOOK_EVERY);
        }
    }

    pub(super) fn ended_within(&mut self, patience: Duration) -> anyhow::Result<bool> {
        let deadline = Instant::now() + patience;
        while self.child.0.try_wait().with_context(|| format!("wait for {}", self.name))?.is_none()
        {
            if Instant::now() > deadline {
                return Ok(false);
            }
            std::thread::sleep(LOOK_EVERY);
        }
        Ok(true)
    }

    /// Asks it to end, so that it still prints what it has.
    fn terminate(&mut self) -> anyhow::Result<()> {
        Command::new("kill").arg(self.child.0.id().to_string()).status().context("start kill")?;
        if !self.ended_within(SERVER_PATIENCE)? {
            self.child.0.kill().with_context(|| format!("kill {}", self.name))?;
            self.child.0.wait().with_context(|| format!("wait for {}", self.name))?;
        }
        Ok(())
    }

    /// Returns its output for an error message.
    pub(super) fn said(&self) -> String {
        let warnings = std::fs::read_to_string(&self.warnings).unwrap_or_default();
        format!("{} {}", warnings.trim(), self.printed().trim())
    }

    pub(super) fn printed(&self) -> String {
        std::fs::read_to_string(&self.output).unwrap_or_default()
    }
}

/// Returns true if a table of /proc/net has a socket on `port`. A TCP socket must listen.
fn is_bound(table: &str, port: u16, udp: bool) -> bool {
    // `TCP_LISTEN` of net/tcp_states.h, as the table prints it.
    const LISTENS: &str = "0A";
    let port = format!(":{port:04X}");
    table.lines().any(|line| {
        // The first field is the number of the line.
        let mut fields = line.split_whitespace().skip(1);
        let local = fields.next().is_some_and(|local| local.ends_with(&port));
        local && (udp || fields.nth(1) == Some(LISTENS))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLACE: RunPlace = RunPlace { medium: Medium::Veth, core: None, seconds: 2 };

    #[test]
    fn every_generator_is_asked_for_the_same_work() {
        let ask = |generator: &Generator, work| {
            let (passive, active) =
                arguments(generator, work, PLACE, 10_010, Path::new("/tmp/offer"));
            [passive.join(" "), active.join(" ")]
        };
        let stream = Work::Stream { message: 1460, streams: 4 };
        assert_eq!(
            ask(&Linerate("send=batch".into()), stream)[1],
            "tcp_stream message_size=1460B streams=4 send=batch seconds=2 address=10.99.0.1 \
                to=/tmp/offer"
        );
        assert_eq!(
            ask(&Iperf3, stream),
            ["-s -1 -J -p 10010", "-c 10.99.0.2 -p 10010 -t 2 -J -l 1460 -P 4 -C cubic"]
        );
        assert_eq!(ask(&Nuttcp, stream)[1], "-P 10010 -p 10011 -T2 -l1460 -N4 -fparse 10.99.0.2");
        assert_eq!(
            ask(&Netperf { in_messages: true }, stream),
            [
                "-D -f -4 -p 10010",
                "-4 -H 10.99.0.2 -p 10010 -t TCP_STREAM -l 2 -P 0 -- -m 1460 -M 1460 -K cubic -o \
                    THROUGHPUT,REMOTE_BYTES_RECVD"
            ]
        );
        assert_eq!(ask(&Iperf, stream)[1], "-c 10.99.0.2 -p 10010 -t 2 -l 1460 -P 4 -Z cubic");
        let requests = Work::Requests { tcp: true, spin: true };
        assert_eq!(ask(&Sockperf, requests)[0], "sr --tcp --nonblocked -i 10.99.0.2 -p 10010");
    }

    #[test]
    fn a_listener_is_told_from_a_connection() {
        let table = "  sl  local_address rem_address   st\n\
                     0: 00000000:271A 00000000:0000 0A 00000000:00000000\n\
                     1: 0100007F:2724 0100007F:D000 01 00000000:00000000\n";
        assert!(is_bound(table, 10_010, false));
        assert!(!is_bound(table, 10_020, false), "connected, not listening");
        assert!(is_bound(table, 10_020, true));
        assert!(!is_bound(table, 10_011, true));
    }
}
