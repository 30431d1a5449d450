//! `linerate serve http` and `serve ftp`: files for programs that are not linerate, and what those
//! programs took.
//!
//! It is a campaign of one trial, as `to` is: the passive end of the workload with `clients =
//! "foreign"`, an active end that does nothing, and a ledger that any report can be made of.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use linerate_analysis::{Study, study};
use linerate_campaign::catalog::PlanText;
use linerate_campaign::conduct::{self, Request};
use linerate_campaign::testbeds;
use linerate_control::Progress;
use linerate_model::plan::{Draft, DraftJob, DraftSweep};
use linerate_model::{Counter, Direction, Interval, Nanos, Side, Unit, Use, metric};
use linerate_report::study_json;
use serde_json::Value;

use super::to::binary;
use crate::args::Global;
use crate::exit::{Exit, Failure, Outcome};
use crate::show;

/// Bits of a byte.
const BITS: f64 = 8.0;

/// Which files to serve where.
#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    /// The protocol
    #[arg(value_enum)]
    protocol: Protocol,
    /// Serve the files of this folder [default: one file of random bytes, under any name]
    #[arg(long, value_name = "FOLDER", conflicts_with_all = ["size", "upload"])]
    root: Option<PathBuf>,
    /// Size of that one file; K, M, G are 1024, 1024^2, 1024^3
    #[arg(long, default_value = "64M")]
    size: String,
    /// Take files in, and keep none of them
    #[arg(long)]
    upload: bool,
    /// Address to serve at [default: every IPv4 address]
    #[arg(short = 'B', long = "bind")]
    bind: Option<IpAddr>,
    /// Port to serve at [default: 8080 for http, 2121 for ftp]
    #[arg(short = 'p', long)]
    port: Option<u16>,
    /// Seconds to serve
    #[arg(short = 't', long = "time", default_value_t = 60.0)]
    seconds: f64,
    /// Connections served at once; others wait
    #[arg(short = 'P', long = "parallel", default_value_t = 16)]
    parallel: u32,
    /// Over TLS, with a certificate of this run (curl -k)
    #[arg(long)]
    tls: bool,
    /// Send bodies in chunks [http]
    #[arg(long)]
    chunked: bool,
    /// Print the SHA-256 of what is taken in
    #[arg(long, requires = "upload")]
    checksum: bool,
    /// Keep what was measured in this ledger
    #[arg(long)]
    ledger: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Protocol {
    /// HTTP/1.1
    Http,
    /// FTP
    Ftp,
}

impl Protocol {
    fn name(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Ftp => "ftp",
        }
    }

    /// A port that needs no privilege.
    fn port(self) -> u16 {
        match self {
            Self::Http => 8080,
            Self::Ftp => 2121,
        }
    }
}

impl ServeArgs {
    fn address(&self) -> SocketAddr {
        let any = Ipv4Addr::UNSPECIFIED.into();
        SocketAddr::new(self.bind.unwrap_or(any), self.port.unwrap_or(self.protocol.port()))
    }

    /// What a client is given: an example of a URL.
    fn url(&self) -> String {
        let scheme = match self.protocol {
            Protocol::Http if self.tls => "https",
            protocol => protocol.name(),
        };
        let at = self.address();
        let at = if at.ip().is_unspecified() {
            format!("THIS-HOST:{}", at.port())
        } else {
            at.to_string()
        };
        let path = if self.root.is_some() { "" } else { "file" };
        format!("{scheme}://{at}/{path}")
    }

    /// The plan these options amount to: it is recorded.
    fn draft(&self) -> Result<Draft, Failure> {
        let direction = if self.upload { "tx" } else { "rx" };
        let mut params: Vec<(&str, Value)> = vec![
            ("clients", "foreign".into()),
            ("direction", direction.into()),
            ("port", self.address().port().into()),
            ("streams", self.parallel.into()),
            ("tls", self.tls.into()),
        ];
        match &self.root {
            Some(root) => params.push(("root", folder(root)?.display().to_string().into())),
            None => {
                params.push(("file_size", format!("{} B", binary("--size", &self.size)?).into()))
            }
        }
        match (self.chunked, self.protocol) {
            (true, Protocol::Http) => params.push(("chunked", true.into())),
            (true, Protocol::Ftp) => {
                return Err(Failure::wrong("serve: --chunked is for http: FTP has no chunks"));
            }
            (false, _) => {}
        }
        if self.checksum {
            params.extend([("sink", "memory".into()), ("checksum", true.into())]);
        }
        let job = DraftJob::new(self.protocol.name(), "a", "b").with(params);
        let duration = Nanos::from_secs_f64(self.seconds);
        Ok(Draft::new("serve", 1, vec![DraftSweep::one("serve", duration, Nanos(0), job)]))
    }
}

fn folder(root: &std::path::Path) -> Result<PathBuf, Failure> {
    std::fs::canonicalize(root)
        .map_err(|error| Failure::wrong(format!("serve --root {}: {error}", root.display())))
}

/// Serves, with a line a second in which something moved, and prints what was taken.
pub(crate) fn run(args: &ServeArgs, global: Global) -> Outcome {
    let ground = testbeds::serving(args.address().ip());
    let (found, plan) = PlanText::drafted("serve", &args.draft()?)?;
    let scratch = tempfile::tempdir()
        .map_err(|error| Failure::missing(format!("make a folder for the ledger: {error}")))?;
    let ledger = args.ledger.clone().unwrap_or_else(|| scratch.path().join("serve.ledger"));
    let request =
        Request { found: &found, plan: &plan, ground: &ground, ledger: &ledger, resume: false };
    let served: Vec<PathBuf> = args.root.as_deref().map(folder).transpose()?.into_iter().collect();
    let show = !global.quiet && !global.json;
    let (mut lines, mut announced) = (Lines::default(), false);
    let (campaign, summary) =
        conduct::conduct_serving(&request, &served, &mut |event| match event {
            Progress::Intervals { side: Side::Passive, intervals, .. } => {
                // The first intervals say that the server listens: a client that was called before
                // would be refused.
                if show && !std::mem::replace(&mut announced, true) {
                    announce(args);
                }
                lines.take(intervals, show);
            }
            Progress::Incident { incident, .. } if !global.quiet => {
                eprintln!("{}", incident.message)
            }
            _ => {}
        })?;
    let study = study(&campaign);
    if global.json {
        println!("{}", study_json(&campaign, &study));
    } else {
        match conduct::exit_of(&summary) {
            Ok(Exit::Done) => result(&study, args.seconds),
            // A trial that was interrupted has no figures, and clients were served all the same.
            _ => println!("\nended before its time: {}", lines.total()),
        }
        if lines.moved_until(Nanos((args.seconds * 1e9) as u64)) {
            println!(
                "the time was over while clients were served, and cut them off. Serve for longer: \
                    -t SECONDS"
            );
        }
        let flows = campaign
            .trials
            .iter()
            .flat_map(|trial| &trial.jobs)
            .flat_map(|(_, passive)| &passive.flows);
        for flow in flows.filter(|flow| flow.modes.contains_key("sha256_last")) {
            println!("place {}: SHA-256 of the last file {}", flow.flow, flow.modes["sha256_last"]);
        }
    }
    crate::reports::end(&campaign, &study, &summary, global)
}

fn announce(args: &ServeArgs) {
    let example = match (args.upload, args.protocol) {
        (true, _) => format!("curl -T FILE {}", args.url()),
        (false, _) if args.root.is_some() => format!("wget -r {}", args.url()),
        (false, _) => format!("curl -o /dev/null {}", args.url()),
    };
    let insecure = if args.tls { " (with -k or --no-check-certificate)" } else { "" };
    println!("serving {} for {} s; for example: {example}{insecure}", args.url(), args.seconds);
}

/// A line for each second in which something moved.
#[derive(Default)]
struct Lines {
    /// By second: bytes acknowledged and taken in, files, and nanoseconds in which files were under
    /// way.
    sums: std::collections::BTreeMap<u64, [u64; 4]>,
    printed: u64,
}

impl Lines {
    const SECOND: Nanos = Nanos::from_secs(1);

    fn take(&mut self, intervals: &[Interval], show: bool) {
        let mut reached = 0;
        for interval in intervals {
            let second = interval.start.0.midpoint(interval.end.0) / Self::SECOND.0;
            let sums = self.sums.entry(second).or_default();
            sums[0] += interval.counters[Counter::PayloadAcknowledged];
            sums[1] += interval.counters[Counter::PayloadReceived];
            sums[2] += interval.counters[Counter::Transactions];
            sums[3] += interval.counters[Counter::Serving];
            reached = reached.max(interval.end.0 / Self::SECOND.0);
        }
        // Workers report one after the other: a second is printed once the next has ended, too.
        for second in (self.printed..reached.saturating_sub(1)).filter(|_| show) {
            self.print(second);
        }
        self.printed = self.printed.max(reached.saturating_sub(1));
    }

    /// What has been served.
    fn total(&self) -> String {
        let [acknowledged, received, files, served_ns] = self
            .sums
            .values()
            .fold([0; 4], |sum: [u64; 4], one| std::array::from_fn(|k| sum[k] + one[k]));
        let bytes = format!(
            "{files} files, {acknowledged} B acknowledged by clients, {received} B taken in"
        );
        if served_ns == 0 {
            return bytes;
        }
        let rate = (acknowledged + received) as f64 * BITS / Nanos(served_ns).as_secs_f64();
        let rate = show::quantity(metric::GOODPUT_SERVED, rate, Unit::BitPerSecond);
        format!("{bytes}; {rate} goodput while files were under way")
    }

    /// Whether something moved in the last second before `end`.
    fn moved_until(&self, end: Nanos) -> bool {
        let last = (end.0.saturating_sub(1)) / Self::SECOND.0;
        self.sums.get(&last).is_some_and(|sums| sums[0] + sums[1] > 0)
    }

    fn print(&self, second: u64) {
        let [acknowledged, received, files, _] =
            self.sums.get(&second).copied().unwrap_or_default();
        if acknowledged + received + files > 0 {
            let rate = (acknowledged + received) as f64 * BITS;
            let rate = show::quantity(metric::GOODPUT, rate, Unit::BitPerSecond);
            println!("{second:>5} - {:<5}  {rate:>14}  {files} files", second + 1);
        }
    }
}

/// What was taken: goodput first.
fn result(study: &Study, seconds: f64) {
    let Some(point) = study.points.first() else { return };
    println!();
    for job in &point.jobs {
        let mut told = 0;
        for name in Use::Served.metrics().map(|metric| metric.name) {
            for metric in job.metrics.iter().filter(|metric| metric.name == name) {
                let Some(estimate) = metric.estimate else { continue };
                let layer = metric.layer.map(|layer| format!(" {layer}")).unwrap_or_default();
                let direction = if metric.direction == Direction::Sum {
                    String::new()
                } else {
                    format!(" {}", metric.direction)
                };
                println!(
                    "{name}{layer}{direction}: {}",
                    show::quantity(name, estimate.value, metric.unit)
                );
                told += 1;
            }
        }
        if told == 0 {
            println!("nobody took a file in {seconds} s");
        }
    }
    println!(
        "goodput_served: what clients' TCP acknowledged (uploads: what came), over the time in \
            which a file was under way"
    );
    println!("goodput: the same over all {seconds} s, idle time included");
    point.why.iter().for_each(|why| println!("{}: {why}", point.validity.word()));
}
