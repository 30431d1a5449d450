//! Memory: a conductor that sends large messages faster than an agent handles them. The bound on
//! waiting messages must keep the agent's memory small.
//!
//! The agent is a process of its own on loopback, without keys. The conductor prepares trials whose
//! other end never connects, and between them sends greetings with as many values as an order of
//! 4 MiB can have. Each value takes about ten times as much memory as bytes on the wire.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{ChildStderr, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use serde_json::{Value, json};

use super::Bench;
use crate::bench::scratch::{Killed, Scratch};

/// Frames of the present version, one of each kind.
const GOLDEN: &[u8] = include_bytes!("../../../crates/linerate-control/fixtures/wire-v4.bin");
/// Most memory that both processes of the agent may have together, bytes.
const MOST: u64 = 256 << 20;
/// Values in a large greeting: with the comma 3 bytes each, just below the limit of an order.
const VALUES: usize = 1_390_000;
/// Large messages between two trials.
const BETWEEN: usize = 4;

/// Floods an agent for a while; true if its memory stayed within [`MOST`].
pub(super) fn run(bench: &Bench) -> anyhow::Result<bool> {
    let agent = Agent::start(bench)?;
    flood(&agent, Duration::from_secs(bench.count(1, 20).into()))
}

fn flood(agent: &Agent, span: Duration) -> anyhow::Result<bool> {
    let mut socket = TcpStream::connect(&agent.address).context("connect to the agent")?;
    socket.set_write_timeout(Some(Duration::from_secs(60)))?;
    let mut hello = golden("hello")?;
    hello["hello"]["role"] = json!("conductor");
    hello["hello"]["tunes"] = json!(false);
    socket.write_all(&frame(&hello)?)?;
    ensure!(socket.read(&mut [0; 4096])? > 0, "the agent refused the conductor");
    // Empty lists cost most memory for each byte on the wire.
    hello["hello"]["facts"] = Value::Array(vec![json!([]); VALUES]);
    let large = frame(&hello)?;
    let before = agent.memory()?;
    let (began, mut most, mut sent) = (Instant::now(), 0, 0);
    let mut trial = 0;
    while began.elapsed() < span {
        trial += 1;
        socket.write_all(&frame(&prepare(trial)?)?)?;
        socket.write_all(&frame(&json!({ "connect": { "trial": trial, "offers": [] } }))?)?;
        for _ in 0..BETWEEN {
            socket.write_all(&large)?;
            // Sampled while the messages wait, when memory is highest.
            sent += large.len();
            most = most.max(agent.memory()?);
        }
    }
    const MIB: usize = 1 << 20;
    println!(
        "memory: {} MiB sent in {:.1} s, {trial} trials prepared: resident memory {} MiB before, \
            at most {} MiB (limit {} MiB)",
        sent / MIB,
        began.elapsed().as_secs_f64(),
        before / MIB as u64,
        most / MIB as u64,
        MOST / MIB as u64
    );
    Ok(most <= MOST)
}

/// Returns a trial whose passive end waits a minute for a connection.
fn prepare(trial: u32) -> anyhow::Result<Value> {
    let mut message = golden("prepare")?;
    let prepare = &mut message["prepare"];
    // A trial that waits keeps the agent busy while further messages arrive.
    prepare["trial"] = json!(trial);
    prepare["patience_ms"] = json!(60_000);
    let job = &mut prepare["jobs"][0];
    job["background"] = Value::Null;
    job["local"] = json!({ "name": "b", "host": "b", "address": "127.0.0.1", "device": null });
    Ok(message)
}

/// Returns the golden message called `name`.
fn golden(name: &str) -> anyhow::Result<Value> {
    let mut rest = GOLDEN;
    while let Some((length, tail)) = rest.split_first_chunk::<4>() {
        let (content, tail) = tail.split_at(u32::from_be_bytes(*length) as usize);
        let message: Value = serde_json::from_slice(content)?;
        if message.get(name).is_some() {
            return Ok(message);
        }
        rest = tail;
    }
    anyhow::bail!("the golden frames have no `{name}`")
}

fn frame(message: &Value) -> anyhow::Result<Vec<u8>> {
    // The length comes first, big-endian, as every message has it.
    let content = serde_json::to_vec(message)?;
    let length = u32::try_from(content.len()).context("a frame's length")?;
    Ok([&length.to_be_bytes()[..], &content].concat())
}

/// Agent in its own process, ended on drop.
struct Agent {
    process: Killed,
    address: String,
    /// Folder of its keys.
    _keys: Scratch,
    /// Kept open, because the agent writes to it.
    _log: BufReader<ChildStderr>,
}

impl Agent {
    fn start(bench: &Bench) -> anyhow::Result<Self> {
        let keys = Scratch::new("memory")?;
        let mut process = Command::new(&bench.linerate)
            .args(["agent", "--listen", "127.0.0.1:0"])
            .env("LINERATE_KEYS", keys.path())
            .stderr(Stdio::piped())
            .spawn()
            .context("start linerate agent")?;
        let mut line = String::new();
        // Its first line names the port that the kernel chose.
        let mut log = BufReader::new(process.stderr.take().context("its log")?);
        log.read_line(&mut line)?;
        let word = line.split_whitespace().find(|word| word.starts_with("127.0.0.1:"));
        let address = word.with_context(|| format!("no address in `{line}`"))?;
        let address = address.trim_end_matches(',').to_owned();
        Ok(Self { process: Killed(process), address, _keys: keys, _log: log })
    }

    /// Reads the resident memory of the agent and its broker, bytes.
    fn memory(&self) -> anyhow::Result<u64> {
        let own = self.process.0.id();
        let children = fs::read_to_string(format!("/proc/{own}/task/{own}/children"))?;
        // The broker is a child with memory of its own.
        let mut total = resident(&own.to_string())?;
        for child in children.split_whitespace() {
            total += resident(child)?;
        }
        Ok(total)
    }
}

/// Reads the resident memory of a process, bytes (proc_pid_status, `VmRSS` in KiB).
fn resident(process: &str) -> anyhow::Result<u64> {
    let status = fs::read_to_string(format!("/proc/{process}/status"))?;
    let kib = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = kib.and_then(|text| text.split_whitespace().next()).context("no VmRSS")?;
    Ok(kib.parse::<u64>()? << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_message_is_within_the_limit_of_an_order_and_trials_are_of_this_version() {
        let large = frame(&json!({ "hello": { "facts": vec![json!([]); VALUES] } }));
        assert!((4_100_000..4 << 20).contains(&large.expect("a frame").len()));
        let hello = golden("hello").expect("a golden message");
        let version = format!("PROTOCOL_VERSION: u32 = {};", hello["hello"]["version"]);
        let source = include_str!("../../../crates/linerate-control/src/wire/message.rs");
        assert!(source.contains(&version), "an agent refuses a conductor of another: {version}");
        let prepare = prepare(3).expect("a golden message");
        assert_eq!(prepare["prepare"]["jobs"][0]["workload"], "tcp_stream");
    }
}
