//! `cargo xtask bench transfers`: the `ftp` and `http` workloads against curl, vsftpd and nginx, over loopback.
//!
//! Every round runs every pair of server and client once, in an order that rotates; ratios are taken within a round. All fetch the
//! same file of random bytes from memory (/dev/shm), the server pinned to one core and the client to another. curl fetches it
//! several times over one connection and writes it to /dev/null; linerate copies it to memory as curl does (`memory`), or never copies
//! it out (`discard`). CPU is user and system time of the client's process, set-up included. What this does not see: a NIC, uploads.

use std::fmt::Write as _;
use std::io::Write as _;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use serde_json::Value;

use super::own;
use super::processor::Usage;
use super::statistics::Median;
use crate::tools;

const USAGE: &str = "usage: cargo xtask bench transfers [--rounds N] [--seconds N] [--out FILE]";
const FILE_BYTES: u64 = 256 << 20;
/// Times that curl fetches it in a run of a second.
const FETCHES: u32 = 6;
const SERVER_CORE: &str = "0";
const CLIENT_CORE: &str = "1";
/// Rounds without `--rounds`: an interval of 95 % needs six.
const ROUNDS: usize = 6;
const FTP_PORT: u16 = 18_021;
const NGINX_PORT: u16 = 18_080;
const OWN_PORT: u16 = 18_081;
const OWN_FTP_PORT: u16 = 18_022;

#[derive(Clone, Copy, PartialEq)]
enum Server {
    Vsftpd,
    Nginx,
    OwnFtp,
    OwnHttp,
}

#[derive(Clone, Copy, PartialEq)]
enum Client {
    Curl,
    /// linerate with this sink.
    Linerate(&'static str),
}

/// Each group is compared with its first.
const GROUPS: &[&[(Server, Client)]] = &[
    &[
        (Server::Vsftpd, Client::Curl),
        (Server::Vsftpd, Client::Linerate("memory")),
        (Server::Vsftpd, Client::Linerate("discard")),
    ],
    &[
        (Server::Nginx, Client::Curl),
        (Server::Nginx, Client::Linerate("memory")),
        (Server::Nginx, Client::Linerate("discard")),
    ],
    &[(Server::Vsftpd, Client::Curl), (Server::OwnFtp, Client::Curl)],
    &[(Server::Nginx, Client::Curl), (Server::OwnHttp, Client::Curl)],
];

/// What one run came to.
#[derive(Clone, Copy, Debug)]
struct Reading {
    gigabits: f64,
    cpu_per_gigabyte: f64,
}

struct Options {
    rounds: usize,
    seconds: u32,
    out: Option<PathBuf>,
}

/// Measures and prints the table.
pub(super) fn run(root: &Path, arguments: &[String]) -> anyhow::Result<()> {
    let options = options(arguments)?;
    let missing = tools::provide(tools::FOR_BENCH)?;
    ensure!(missing.is_empty(), "missing here: {}", missing.join("; "));
    let end = own::build(root, "linerate-load", &["--example", "end"])?;
    let ground = Ground::make()?;
    let mut readings: Vec<Vec<Vec<Option<Reading>>>> =
        GROUPS.iter().map(|group| vec![Vec::new(); group.len()]).collect();
    let mut notes = Vec::new();
    for round in 0..options.rounds {
        for (group, readings) in GROUPS.iter().zip(&mut readings) {
            let n = group.len();
            for index in (0..n).map(|k| (k + round) % n) {
                let (server, client) = group[index];
                eprintln!("round {} of {}: {}", round + 1, options.rounds, name(server, client));
                let reading = measure(&end, &ground, server, client, options.seconds);
                if let Err(error) = &reading {
                    notes.push(format!("{}: {error:#}", name(server, client)));
                }
                readings[index].push(reading.ok());
            }
        }
        if let Some(file) = &options.out {
            let text = document(&readings, &options, &notes);
            std::fs::write(file, text).with_context(|| format!("write {}", file.display()))?;
        }
    }
    println!("{}", document(&readings, &options, &notes));
    Ok(())
}

fn options(arguments: &[String]) -> anyhow::Result<Options> {
    let mut options = Options { rounds: ROUNDS, seconds: 1, out: None };
    let mut arguments = arguments.iter().map(String::as_str);
    while let Some(argument) = arguments.next() {
        let value = arguments.next().with_context(|| format!("{argument} needs a value\n{USAGE}"))?;
        let count = || {
            let count = value.parse::<u32>().ok().filter(|count| *count > 0);
            count.with_context(|| format!("{argument} {value}: not a count\n{USAGE}"))
        };
        match argument {
            "--rounds" => options.rounds = count()? as usize,
            "--seconds" => options.seconds = count()?,
            "--out" => options.out = Some(value.into()),
            _ => bail!("{argument} {value}: unknown\n{USAGE}"),
        }
    }
    Ok(options)
}

/// The file, the servers' configurations, and the servers that are not ours; all gone when dropped.
struct Ground {
    folder: PathBuf,
    servers: Vec<Child>,
}

impl Ground {
    fn make() -> anyhow::Result<Self> {
        let folder = Path::new("/dev/shm").join(format!("linerate-bench-transfers-{}", std::process::id()));
        std::fs::create_dir(&folder).with_context(|| format!("make {}", folder.display()))?;
        let mut ground = Self { folder, servers: Vec::new() };
        let public = ground.folder.join("public");
        std::fs::create_dir(&public).context("make the servers' folder")?;
        let mut file = std::fs::File::create_new(public.join("file")).context("make the file")?;
        let (mut chunk, mut state) = (vec![0_u8; 1 << 20], 0x9E37_79B9_7F4A_7C15_u64);
        for _ in 0..FILE_BYTES >> 20 {
            for word in chunk.chunks_exact_mut(8) {
                // Any bytes will do (xorshift64).
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                word.copy_from_slice(&state.to_le_bytes());
            }
            file.write_all(&chunk).context("fill the file")?;
        }
        let vsftpd = ground.folder.join("vsftpd.conf");
        std::fs::write(&vsftpd, vsftpd_conf(&public)).context("write vsftpd.conf")?;
        let nginx = ground.folder.join("nginx.conf");
        std::fs::write(&nginx, nginx_conf(&ground.folder)).context("write nginx.conf")?;
        let nginx = ["nginx", "-c", &nginx.display().to_string(), "-p", &ground.folder.display().to_string()]
            .map(str::to_owned);
        let vsftpd = ["vsftpd".to_owned(), vsftpd.display().to_string()];
        for (command, port) in [(&vsftpd[..], FTP_PORT), (&nginx[..], NGINX_PORT)] {
            let mut pinned = Command::new("taskset");
            pinned.args(["-c", SERVER_CORE]).args(command).stdout(Stdio::null()).stderr(Stdio::null());
            ground.servers.push(pinned.spawn().with_context(|| format!("start {}", command[0]))?);
            await_port(port).with_context(|| format!("wait for {}", command[0]))?;
        }
        Ok(ground)
    }
}

fn vsftpd_conf(public: &Path) -> String {
    format!(
        "listen=YES\nlisten_address=127.0.0.1\nlisten_port={FTP_PORT}\nanonymous_enable=YES\nanon_root={}\nbackground=NO\n\
         seccomp_sandbox=NO\nsecure_chroot_dir={}\nno_anon_password=YES\n",
        public.display(),
        public.display()
    )
}

fn nginx_conf(folder: &Path) -> String {
    format!(
        "daemon off;\nworker_processes 1;\npid {0}/nginx.pid;\nerror_log /dev/null;\nuser root;\nevents {{}}\nhttp {{ access_log off; \
         sendfile on; tcp_nopush on; keepalive_requests 100000; server {{ listen 127.0.0.1:{NGINX_PORT}; root {0}/public; }} }}\n",
        folder.display()
    )
}

impl Drop for Ground {
    fn drop(&mut self) {
        for server in &mut self.servers {
            // SIGTERM, so that a master takes its workers with it.
            let _ = Command::new("kill").arg(server.id().to_string()).status();
            let _ = server.wait();
        }
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn await_port(port: u16) -> anyhow::Result<()> {
    let began = Instant::now();
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        ensure!(began.elapsed() < Duration::from_secs(10), "nobody listens at port {port}");
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

fn name(server: Server, client: Client) -> String {
    let server = match server {
        Server::Vsftpd => "vsftpd",
        Server::Nginx => "nginx",
        Server::OwnFtp => "linerate (ftp, sendfile)",
        Server::OwnHttp => "linerate (http, sendfile)",
    };
    match client {
        Client::Curl => format!("{server} to curl"),
        Client::Linerate(sink) => format!("{server} to linerate ({sink})"),
    }
}

fn measure(end: &Path, ground: &Ground, server: Server, client: Client, seconds: u32) -> anyhow::Result<Reading> {
    let (scheme, port) = match server {
        Server::Vsftpd => ("ftp", FTP_PORT),
        Server::Nginx => ("http", NGINX_PORT),
        Server::OwnFtp => ("ftp", OWN_FTP_PORT),
        Server::OwnHttp => ("http", OWN_PORT),
    };
    let url = format!("{scheme}://127.0.0.1:{port}/file");
    let mut own = matches!(server, Server::OwnFtp | Server::OwnHttp)
        .then(|| serve(end, ground, scheme, port, seconds))
        .transpose()?;
    let before = Usage::now()?;
    let reading = match client {
        Client::Curl => {
            let mut command = Command::new("taskset");
            command.args(["-c", CLIENT_CORE, "curl", "-s", "-w", "%{size_download} %{time_total}\n"]);
            for _ in 0..FETCHES * seconds {
                command.args(["-o", "/dev/null", &url]);
            }
            let output = command.output().context("start curl")?;
            ensure!(output.status.success(), "curl: {}", output.status);
            curls(&String::from_utf8_lossy(&output.stdout))?
        }
        Client::Linerate(sink) => {
            let mut command = Command::new(end);
            command.args([scheme, &format!("server={url}"), &format!("sink={sink}"), &format!("seconds={seconds}")]);
            command.arg(format!("cpus={CLIENT_CORE},{CLIENT_CORE}"));
            let output = command.output().context("start the example")?;
            ensure!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr).trim());
            ours(&String::from_utf8_lossy(&output.stdout))?
        }
    };
    let cpu = Usage::now()?.since(before).children;
    if let Some(own) = &mut own {
        let _ = own.kill();
        let _ = own.wait();
    }
    let (bytes, lasted) = reading;
    Ok(Reading { gigabits: bytes * 8.0 / lasted / 1e9, cpu_per_gigabyte: cpu / (bytes / 1e9) })
}

/// Our server for foreign clients, from the file's like in memory.
fn serve(end: &Path, ground: &Ground, scheme: &str, port: u16, seconds: u32) -> anyhow::Result<Child> {
    let mut command = Command::new(end);
    command.args([scheme, "clients=foreign", "send=sendfile", "source=warm", &format!("port={port}")]);
    command.args([format!("file_size={} MiB", FILE_BYTES >> 20), format!("folder={}", ground.folder.display())]);
    command.args([format!("seconds={}", 30 * seconds), format!("cpus={SERVER_CORE},{SERVER_CORE}")]);
    command.arg(format!("serve={}", ground.folder.join("offer").display()));
    let own = command.stdout(Stdio::null()).spawn().context("start the example")?;
    await_port(port)?;
    Ok(own)
}

/// Bytes and seconds of all of curl's fetches.
fn curls(text: &str) -> anyhow::Result<(f64, f64)> {
    let mut sum = (0.0, 0.0);
    for line in text.lines() {
        let (bytes, seconds) = line.split_once(' ').with_context(|| format!("read curl's `{line}`"))?;
        sum.0 += bytes.parse::<f64>().with_context(|| format!("read curl's `{line}`"))?;
        sum.1 += seconds.parse::<f64>().with_context(|| format!("read curl's `{line}`"))?;
    }
    ensure!(sum.0 > 0.0 && sum.1 > 0.0, "curl fetched nothing");
    Ok(sum)
}

fn ours(text: &str) -> anyhow::Result<(f64, f64)> {
    let line: Value =
        serde_json::from_str(text.lines().next().unwrap_or_default()).context("read the example's line")?;
    ensure!(line["incidents"].as_array().is_some_and(Vec::is_empty), "incidents: {}", line["incidents"]);
    let number = |name: &str| line[name].as_f64().with_context(|| format!("no {name} in {line}"));
    Ok((number("bytes_received")?, number("span_ns")? / 1e9))
}

fn document(readings: &[Vec<Vec<Option<Reading>>>], options: &Options, notes: &[String]) -> String {
    let mut text = String::from(
        "| from and to | Gbit/s | client CPU, s/GB | rate over the group's first | client CPU over the group's first |\n|---|---|---|---|---|\n",
    );
    for (group, readings) in GROUPS.iter().zip(readings) {
        for (index, ((server, client), own)) in group.iter().zip(readings).enumerate() {
            let median = |of: fn(&Reading) -> f64| {
                let values: Vec<f64> = own.iter().flatten().map(of).collect();
                Median::of(&values).map_or("-".to_owned(), |median| format!("{:.3}", median.value))
            };
            let ratio = |of: fn(&Reading) -> f64| {
                let pairs = readings[0].iter().zip(own).filter_map(|(first, own)| first.as_ref().zip(own.as_ref()));
                let ratios: Vec<f64> = pairs.map(|(first, own)| of(own) / of(first)).collect();
                Median::of(&ratios).filter(|_| index > 0).map_or("-".to_owned(), |ratio| {
                    format!("{:.3} [{:.3}, {:.3}] ({})", ratio.value, ratio.low, ratio.high, ratio.n)
                })
            };
            // Writing to a String cannot fail.
            let _ = writeln!(
                text,
                "| {} | {} | {} | {} | {} |",
                name(*server, *client),
                median(|reading| reading.gigabits),
                median(|reading| reading.cpu_per_gigabyte),
                ratio(|reading| reading.gigabits),
                ratio(|reading| reading.cpu_per_gigabyte)
            );
        }
    }
    let _ = writeln!(
        text,
        "\nMedians of {} rounds of about {} s; ratios within a round with order-statistic intervals. A file of {} MiB.",
        options.rounds,
        options.seconds,
        FILE_BYTES >> 20
    );
    for note in notes {
        let _ = writeln!(text, "- {note}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_clients_are_read() {
        assert_eq!(curls("100 0.5\n300 1.5\n").expect("legal"), (400.0, 2.0));
        assert!(curls("").is_err() && curls("0 0\n").is_err());
        assert_eq!(ours("{\"bytes_received\": 10, \"span_ns\": 5e8, \"incidents\": []}").expect("legal"), (10.0, 0.5));
        assert!(ours("{\"bytes_received\": 10, \"span_ns\": 5e8, \"incidents\": [\"x\"]}").is_err());
    }
}
