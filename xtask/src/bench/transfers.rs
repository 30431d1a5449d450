//! `cargo xtask bench transfers`: the `ftp` and `http` workloads against curl, vsftpd and nginx,
//! over loopback.
//!
//! Every round runs every pair of server and client once, in an order that rotates; ratios are
//! taken within a round. All move the same file of random bytes in memory (/dev/shm), the server
//! pinned to one core and the client to another. curl moves it several times over one connection
//! and writes what it fetches to /dev/null; linerate copies it to memory as curl does (`memory`),
//! or never copies it out (`discard`). Every server has served the file once before it is measured,
//! and all senders have the host's congestion control: neither start-up nor that choice is a
//! server's rate. CPU is user and system time of the processes. What this does not see: a NIC, many
//! clients, the CPU time of vsftpd.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, bail, ensure};

mod ground;

use ground::{FILE_BYTES, Ground, SERVER_CORE, Server, await_port};

use super::options::{RunOptions, chosen, keep, parsed, provide};
use super::processor::{Usage, of_tree};
use super::statistics::Median;
use super::{markdown, outputs, own};
use crate::tools;
use TransferDirection::{Down, Up};

/// Times that curl moves it in a run of a second.
const FILES: u32 = 6;
const CLIENT_CORE: &str = "1";
/// File with the congestion control of foreign servers.
const CONGESTION: &str = "/proc/sys/net/ipv4/tcp_congestion_control";
/// A server's session has ended, and its time is its parent's, this long after the client.
const SETTLED: Duration = Duration::from_millis(50);

#[derive(Clone, Copy, Debug, PartialEq)]
enum Client {
    Curl,
    /// linerate with this sink, or for uploads with this way to send.
    Linerate(&'static str),
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum TransferDirection {
    Down,
    Up,
}

type Row = (Server, Client, TransferDirection);

/// Each group is compared with its first.
const GROUPS: &[&[Row]] = &[
    &[
        (Server::Vsftpd, Client::Curl, Down),
        (Server::Vsftpd, Client::Linerate("memory"), Down),
        (Server::Vsftpd, Client::Linerate("discard"), Down),
    ],
    &[
        (Server::Nginx, Client::Curl, Down),
        (Server::Nginx, Client::Linerate("memory"), Down),
        (Server::Nginx, Client::Linerate("discard"), Down),
    ],
    &[(Server::Vsftpd, Client::Curl, Down), (Server::OwnFtp, Client::Curl, Down)],
    &[(Server::Nginx, Client::Curl, Down), (Server::OwnHttp, Client::Curl, Down)],
    &[
        (Server::Vsftpd, Client::Curl, Up),
        (Server::Vsftpd, Client::Linerate("copy"), Up),
        (Server::Vsftpd, Client::Linerate("sendfile"), Up),
    ],
    &[
        (Server::Nginx, Client::Curl, Up),
        (Server::Nginx, Client::Linerate("copy"), Up),
        (Server::Nginx, Client::Linerate("sendfile"), Up),
    ],
    &[
        (Server::VsftpdTls, Client::Curl, Down),
        (Server::VsftpdTls, Client::Linerate("memory"), Down),
    ],
    &[(Server::NginxTls, Client::Curl, Down), (Server::NginxTls, Client::Linerate("memory"), Down)],
    &[(Server::NginxTls, Client::Curl, Down), (Server::OwnHttpTls, Client::Curl, Down)],
];

/// Result of one run.
#[derive(Clone, Copy, Debug)]
struct Reading {
    gigabits: f64,
    client_per_gigabyte: f64,
    server_per_gigabyte: f64,
}

/// By group, row and round.
type Readings = Vec<Vec<Vec<Option<Reading>>>>;

/// Options of `bench transfers`.
#[derive(clap::Parser)]
struct Options {
    #[command(flatten)]
    runs: RunOptions,
    /// Part of a row's name; all rows if there is none
    #[arg(long)]
    only: Vec<String>,
}

/// Measures and prints the table.
pub(super) fn run(root: &Path, arguments: &[String]) -> anyhow::Result<bool> {
    let options: Options = parsed("transfers", arguments)?;
    provide(tools::FOR_BENCH)?;
    let end = own::build(root, "linerate-load", &["--example", "end"])?;
    let congestion =
        std::fs::read_to_string(CONGESTION).with_context(|| format!("read {CONGESTION}"))?;
    let bench = Bench {
        end,
        ground: Ground::make()?,
        congestion: congestion.trim().into(),
        seconds: options.runs.seconds,
    };
    let groups = groups(&options.only)?;
    let options = options.runs;
    let mut readings: Readings = groups.iter().map(|group| vec![Vec::new(); group.len()]).collect();
    let mut notes = Vec::new();
    for round in 0..options.rounds {
        for (group, readings) in groups.iter().zip(&mut readings) {
            let n = group.len();
            for index in (0..n).map(|k| (k + round) % n) {
                let row = group[index];
                eprintln!("round {} of {}: {}", round + 1, options.rounds, name(row));
                let reading = bench.measure(row);
                if let Err(error) = &reading {
                    notes.push(format!("{}: {error:#}", name(row)));
                }
                readings[index].push(reading.ok());
            }
        }
        keep(options.out.as_deref(), document(&groups, &readings, &options, &notes))?;
    }
    println!("{}", document(&groups, &readings, &options, &notes));
    Ok(true)
}

/// The groups of which a row but the first, which others have too, has one of `parts` in its name;
/// all without any.
fn groups(parts: &[String]) -> anyhow::Result<Vec<&'static [Row]>> {
    chosen(GROUPS.iter().copied(), parts, |group| {
        group[1..].iter().map(|row| name(*row)).collect::<Vec<_>>().join("\n  ")
    })
}

fn name((server, client, way): Row) -> String {
    let client = match client {
        Client::Curl => "curl".to_owned(),
        Client::Linerate(how) => format!("linerate ({how})"),
    };
    match way {
        Down => format!("{} to {client}", server.name()),
        Up => format!("{client} to {}", server.name()),
    }
}

/// Settings of all runs.
struct Bench {
    end: PathBuf,
    ground: Ground,
    congestion: String,
    seconds: u32,
}

impl Bench {
    fn measure(&self, row: Row) -> anyhow::Result<Reading> {
        let (server, client, way) = row;
        let mut own = server.is_own().then(|| self.serve(server)).transpose()?;
        let process = own.as_ref().map(Child::id).or_else(|| self.ground.process(server));
        let process = process.with_context(|| format!("{}: not started", server.name()))?;
        let (before, server_before) = (Usage::now()?, of_tree(process)?);
        let moved = match client {
            Client::Curl => self.curl(server, way),
            Client::Linerate(how) => self.linerate(server, how, way),
        };
        let cpu = Usage::now()?.since(before).children;
        std::thread::sleep(SETTLED);
        // vsftpd's sessions are processes that nobody waits for: their time is lost, and not
        // nought.
        let is_seen = server.is_own() || server.workload() == "http";
        let server_cpu = if is_seen { of_tree(process)? - server_before } else { f64::NAN };
        if let Some(own) = &mut own {
            let _ = own.kill();
            let _ = own.wait();
        }
        let (bytes, lasted) = moved?;
        let gigabytes = bytes / 1e9;
        Ok(Reading {
            gigabits: gigabytes * 8.0 / lasted,
            client_per_gigabyte: cpu / gigabytes,
            server_per_gigabyte: server_cpu / gigabytes,
        })
    }

    fn curl(&self, server: Server, way: TransferDirection) -> anyhow::Result<(f64, f64)> {
        let file = self.ground.folder.join("public/file").display().to_string();
        let mut command = Command::new("taskset");
        command.args(["-c", CLIENT_CORE, "curl", "-s", "-S", "-f", "-k"]);
        command.args(["-w", "%{size_download} %{size_upload} %{time_total}\n"]);
        if server == Server::VsftpdTls {
            command.arg("--ssl-reqd");
        }
        for _ in 0..FILES * self.seconds {
            match way {
                Down => command.args(["-o", "/dev/null", &server.url("file")]),
                Up => command.args(["-T", &file, &server.url("in/curl")]),
            };
        }
        curls(&tools::printed(&mut command)?)
    }

    fn linerate(
        &self,
        server: Server,
        how: &str,
        way: TransferDirection,
    ) -> anyhow::Result<(f64, f64)> {
        let mut command = Command::new(&self.end);
        command.args([server.workload(), &format!("seconds={}", self.seconds), "verify=false"]);
        command.args([
            format!("tls={}", server.is_secure()),
            format!("congestion={}", self.congestion),
        ]);
        command.arg(format!("cpus={CLIENT_CORE},{CLIENT_CORE}"));
        match way {
            Down => command.args([format!("server={}", server.url("file")), format!("sink={how}")]),
            Up => command.args([
                format!("server={}", server.url("in/linerate")),
                format!("send={how}"),
                "direction=tx".to_owned(),
                file_size(),
            ]),
        };
        ours(&tools::printed(&mut command)?, way)
    }

    /// Our server for foreign clients, from the file's like in memory.
    fn serve(&self, server: Server) -> anyhow::Result<Child> {
        let folder = &self.ground.folder;
        let mut command = Command::new(&self.end);
        command.args([
            server.workload(),
            "clients=foreign",
            "send=sendfile",
            "source=warm",
            &file_size(),
        ]);
        command.args([format!("port={}", server.port()), format!("tls={}", server.is_secure())]);
        command.args([
            format!("folder={}", folder.display()),
            format!("congestion={}", self.congestion),
        ]);
        command.args([
            format!("seconds={}", 30 * self.seconds),
            format!("cpus={SERVER_CORE},{SERVER_CORE}"),
        ]);
        command.arg(format!("serve={}", folder.join("offer").display()));
        let own = command.stdout(Stdio::null()).spawn().context("start the example")?;
        await_port(server.port())?;
        self.ground.warm_up(&server.url("file"))?;
        Ok(own)
    }
}

fn file_size() -> String {
    format!("file_size={} MiB", FILE_BYTES >> 20)
}

/// Bytes and seconds of all of curl's files: what each line says was fetched and sent, and in what
/// time.
fn curls(text: &str) -> anyhow::Result<(f64, f64)> {
    let mut sum = (0.0, 0.0);
    for line in text.lines() {
        let numbers: Vec<f64> = line.split(' ').filter_map(|word| word.parse().ok()).collect();
        let [down, up, seconds] = numbers[..] else { bail!("read curl's `{line}`") };
        sum.0 += down + up;
        sum.1 += seconds;
    }
    ensure!(sum.0 > 0.0 && sum.1 > 0.0, "curl moved nothing");
    Ok(sum)
}

fn ours(text: &str, way: TransferDirection) -> anyhow::Result<(f64, f64)> {
    let line = outputs::example(text)?;
    let bytes = if way == Down { "bytes_received" } else { "bytes_sent" };
    Ok((outputs::number(&line, bytes)?, outputs::number(&line, "span_ns")? / 1e9))
}

fn document(
    groups: &[&[Row]],
    readings: &Readings,
    options: &RunOptions,
    notes: &[String],
) -> String {
    const MEASURES: [fn(&Reading) -> f64; 3] = [
        |reading| reading.gigabits,
        |reading| reading.client_per_gigabyte,
        |reading| reading.server_per_gigabyte,
    ];
    const HEADS: [&str; 7] = [
        "from and to",
        "Gbit/s",
        "client CPU, s/GB",
        "server CPU, s/GB",
        "rate over the group's first",
        "client CPU over it",
        "server CPU over it",
    ];
    let mut rows = Vec::new();
    for (group, readings) in groups.iter().zip(readings) {
        for (index, (row, own)) in group.iter().zip(readings).enumerate() {
            let values = |of: fn(&Reading) -> f64| own.iter().flatten().map(of).collect::<Vec<_>>();
            let median = |of: fn(&Reading) -> f64| {
                Median::of(&values(of)).map_or("-".to_owned(), |one| format!("{:.3}", one.value))
            };
            // The first row of a group is what the others are compared with.
            let ratio = |of: fn(&Reading) -> f64| {
                if index > 0 { ratio_cell(&readings[0], own, of) } else { "-".to_owned() }
            };
            let cells = MEASURES.map(median).into_iter().chain(MEASURES.map(ratio));
            rows.push(std::iter::once(name(*row)).chain(cells).collect());
        }
    }
    let mut text = markdown::table(&HEADS, &rows);
    // Writing to a String cannot fail.
    let _ = writeln!(
        text,
        "\nMedians of {} rounds of about {} s; ratios within a round with order-statistic \
            intervals. A file of {} MiB.",
        options.rounds,
        options.seconds,
        FILE_BYTES >> 20
    );
    for note in notes {
        let _ = writeln!(text, "- {note}");
    }
    text
}

/// Returns the ratio of `own` to `first` within a round, as text.
fn ratio_cell(
    first: &[Option<Reading>],
    own: &[Option<Reading>],
    of: fn(&Reading) -> f64,
) -> String {
    // Slow changes of the machine cancel in a ratio within a round.
    let pairs = first.iter().zip(own);
    let pairs = pairs.filter_map(|(first, own)| first.as_ref().zip(own.as_ref()));
    Median::shown(Median::of(&pairs.map(|(first, own)| of(own) / of(first)).collect::<Vec<_>>()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_clients_are_read() {
        assert_eq!(curls("100 0 0.5\n0 300 1.5\n").expect("legal"), (400.0, 2.0));
        assert!(curls("").is_err() && curls("0 0 0\n").is_err() && curls("1 2\n").is_err());
        let line =
            "{\"bytes_received\": 10, \"bytes_sent\": 20, \"span_ns\": 5e8, \"incidents\": []}";
        assert_eq!(ours(line, Down).expect("legal"), (10.0, 0.5));
        assert_eq!(ours(line, Up).expect("legal"), (20.0, 0.5));
        assert!(
            ours("{\"bytes_received\": 10, \"span_ns\": 5e8, \"incidents\": [\"x\"]}", Down)
                .is_err()
        );
    }

    #[test]
    fn rows_are_chosen_by_name_and_keep_what_they_are_compared_with() {
        let all = groups(&[]).expect("all");
        assert_eq!(all.len(), GROUPS.len());
        let http = groups(&["linerate (http, sendfile)".to_owned()]).expect("one");
        assert_eq!(http.len(), 1);
        assert_eq!(name(http[0][0]), "nginx to curl");
        assert!(groups(&["telnet".to_owned()]).is_err());
    }
}
