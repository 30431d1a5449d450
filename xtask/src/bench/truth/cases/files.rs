//! Files: what linerate's clients fetched, beside the logs of nginx and vsftpd and beside curl on
//! the same path.

use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};

use super::super::capture::{Capture, Connection};
use super::super::claim::{Claim, Relation, Tolerance, Unit};
use super::super::ground::{AGENT_PORT, Between, End, Family, Ground, PLAIN};
use super::super::judge::{of_load, run_plan};
use super::super::plan::Trial;
use super::super::serving::{FILE_BYTES, PORT, Server, Serving};
use super::super::study::Study;
use super::{Special, special};
use Relation::{AtMost, Equal};
use Unit::{BitRate, Bytes, Count};

const RATE: u64 = 50_000_000;
const SHAPED: Between = Between { bits_per_second: RATE, ..PLAIN };
/// Payload rate of segments of 1448 B in frames of 1514 B.
const POSSIBLE: f64 = RATE as f64 * 1448.0 / 1514.0;
const SECONDS: f64 = 1.5;
/// A receive buffer as the kernel begins with it (net.ipv4.tcp_rmem).
const UNREAD_BYTES: f64 = 131_072.0;
const STARTING: Duration = Duration::from_secs(5);

pub(super) static SPECIAL: &[Special] = &[
    special("http from nginx through 50 Mbit/s", |ground| fetched(ground, Server::Nginx)),
    special("ftp from vsftpd through 50 Mbit/s", |ground| fetched(ground, Server::Vsftpd)),
    special("http from our server to curl through 50 Mbit/s", foreign_client),
    special("http from our server to curl through 50 Mbit/s, one file and then nothing", one_file),
    special("http, 4 streams, everything dropped after 0.8 s of 1.5 s", |ground| {
        cut_off(ground, "http")
    }),
    special("ftp, 4 streams, everything dropped after 0.8 s of 1.5 s", |ground| {
        cut_off(ground, "ftp")
    }),
];

fn plan(workload: &str, params: &str) -> String {
    Trial { workload, to: "b", duration_ms: 1500, warmup_ms: 0, params }.plan()
}

fn host() -> String {
    format!("{}:{AGENT_PORT}", Ground::address(Family::V4, End::B))
}

fn goodput(study: &Study) -> Option<f64> {
    study.metric("goodput").or_else(|| study.metric("goodput_rx"))
}

/// Our client, beside the server's log, the path's rate and curl.
fn fetched(ground: &mut Ground, server: Server) -> anyhow::Result<Vec<Claim>> {
    ground.lay(&SHAPED, false)?;
    let serving = Serving::start(ground, server)?;
    let workload = if server == Server::Nginx { "http" } else { "ftp" };
    let plan =
        plan(workload, &format!("server = \"{}\", congestion = \"cubic\"", serving.url("file")));
    let capture = Capture::start(ground)?;
    let study = run_plan(ground, &plan, Some(&host()))?;
    let connections = capture.connections()?;
    let n_complete = serving.completed()? as f64;
    let beside = curl(ground, &serving.url("large"))?;
    let why = "files of 100 KiB: one begun before the end, one logged after it";
    let two_files = Tolerance::absolute(2.0, why);
    let n_printed = study.metric("transaction_rate").map(|rate| rate * SECONDS);
    let files = Claim::new("files fetched", Count, n_printed, Equal(two_files));
    let two_files = Tolerance::absolute((2 * FILE_BYTES) as f64, why);
    let n_bytes = goodput(&study).map(|goodput| goodput * SECONDS / 8.0);
    let bytes = Claim::new("bytes fetched", Bytes, n_bytes, Equal(two_files));
    let burst = Tolerance::absolute(4e3 * 8.0 / SECONDS, "one burst of the shaper in 1.5 s");
    let possible = Claim::new("goodput", BitRate, goodput(&study), AtMost(burst));
    let whole = Tolerance::absolute(4e3 * 8.0, "one burst of the shaper in a second");
    let peak = Claim::new("goodput_peak", BitRate, study.metric("goodput_peak"), AtMost(whole));
    let why = "curl runs afterwards, and opens one connection for a file of 8 MiB";
    let same_path = Tolerance::relative(0.1, why);
    let beside_curl = Claim::new("goodput", BitRate, goodput(&study), Equal(same_path));
    let log = format!("{server:?}'s log");
    let captured = captured(&connections, server)?;
    let why = "what had come to the socket when the measurement ended and was not read";
    let unread = Tolerance::absolute(UNREAD_BYTES, why);
    let to_the_byte = Claim::new("bytes fetched", Bytes, n_bytes, Equal(unread));
    Ok(vec![
        files.beside(n_complete, log.clone()),
        bytes.beside(n_complete * FILE_BYTES as f64, log),
        to_the_byte.beside(captured, "tcpdump, payload by sequence numbers"),
        possible.expect(POSSIBLE, "50 Mbit/s x 1448 / 1514"),
        peak.expect(POSSIBLE, "50 Mbit/s x 1448 / 1514"),
        beside_curl.beside(beside, "curl, speed of its download"),
    ])
}

/// Bytes of files that came to `a`: of FTP what came on data connections, of HTTP what came less
/// the heads, which are equally long.
fn captured(connections: &[Connection], server: Server) -> anyhow::Result<f64> {
    let served = |connection: &&Connection| connection.served_at == PORT;
    if server == Server::Vsftpd {
        let data = connections.iter().filter(|connection| !served(connection));
        return Ok(data.map(Connection::come).sum::<u64>() as f64);
    }
    let second =
        |connection: &Connection| Some(connection.come_by(*connection.departures_s().get(1)?));
    let answer = connections
        .iter()
        .filter(served)
        .find_map(second)
        .context("no second file was asked for")?;
    let head = answer.checked_sub(FILE_BYTES).context("the first answer is no whole file")?;
    let files = |come: u64| come - (come / answer * head + (come % answer).min(head));
    Ok(connections.iter().filter(served).map(|connection| files(connection.come())).sum::<u64>()
        as f64)
}

/// Returns the rate of curl's download of `url` in `a`, bit/s.
fn curl(ground: &Ground, url: &str) -> anyhow::Result<f64> {
    let text =
        ground.at(End::A, &format!("curl -s -S -o /dev/null -w %{{speed_download}} {url}"))?;
    Ok(text.trim().parse::<f64>().with_context(|| format!("parse curl's {text:?}"))? * 8.0)
}

/// curl fetches from our server for the whole measurement: what the server prints is what curl got.
fn foreign_client(ground: &mut Ground) -> anyhow::Result<Vec<Claim>> {
    ground.lay(&SHAPED, false)?;
    let plan =
        plan("http", &format!("clients = \"foreign\", port = {PORT}, file_size = \"64 MiB\""));
    let capture = Capture::start(ground)?;
    let study = std::thread::scope(|scope| {
        let ground = &*ground;
        let measuring = scope.spawn(move || run_plan(ground, &plan, Some(&host())));
        let fetched = fetch_during(ground);
        let study = measuring.join().expect("a run does not panic");
        fetched.and(study)
    })?;
    let connections = capture.connections()?;
    let fetched = connections
        .iter()
        .filter(|connection| connection.served_at == PORT)
        .max_by_key(|one| one.come());
    let (bytes, seconds) =
        fetched.and_then(Connection::delivered).context("nothing came to curl")?;
    let why = "the segments that came in the measurement are some of all that came";
    let tolerance = Tolerance::relative(0.02, why);
    let claim = Claim::new("goodput", BitRate, goodput(&study), Equal(tolerance));
    let burst = Tolerance::absolute(4e3 * 8.0 / SECONDS, "one burst of the shaper in 1.5 s");
    let possible = Claim::new("goodput", BitRate, goodput(&study), AtMost(burst));
    let beside = claim.beside(
        bytes as f64 * 8.0 / seconds,
        "tcpdump at curl, bytes over the time in which they came",
    );
    Ok(vec![beside, possible.expect(POSSIBLE, "50 Mbit/s x 1448 / 1514")])
}

/// curl fetches one file of `linerate serve`, which idles before and after: what is printed first
/// is curl's own speed.
fn one_file(ground: &mut Ground) -> anyhow::Result<Vec<Claim>> {
    ground.lay(&SHAPED, false)?;
    let port = PORT.to_string();
    let mut serving = ground.linerate(End::B);
    serving.args(["serve", "http", "--json", "--quiet", "--size", "8M", "-t", "5", "-p", &port]);
    let study = std::thread::scope(|scope| {
        let ground = &*ground;
        let measuring = scope.spawn(move || serving.output());
        let speed = await_server(ground).and_then(|()| {
            // It listens before it measures, by as much as its first reading takes.
            std::thread::sleep(Duration::from_secs(1));
            curl(ground, &format!("http://{}:{PORT}/file", Ground::address(Family::V4, End::B)))
        });
        let output =
            measuring.join().expect("a command does not panic").context("start linerate serve")?;
        let study = Study::parse(&String::from_utf8_lossy(&output.stdout)).with_context(|| {
            format!("linerate serve: {}", String::from_utf8_lossy(&output.stderr).trim())
        })?;
        speed.map(|speed| (study, speed))
    });
    let (study, speed) = study?;
    let why = "curl counts connecting and asking, the server up to 5 ms until it sees the last \
        acknowledgement";
    let tolerance = Tolerance::relative(0.02, why);
    let served = || study.metric("goodput_served");
    let claim =
        Claim::new("goodput while files were under way", BitRate, served(), Equal(tolerance));
    let burst = Tolerance::absolute(4e3 * 8.0, "one burst of the shaper in 1.4 s");
    let possible =
        Claim::new("goodput while files were under way", BitRate, served(), AtMost(burst));
    Ok(vec![
        claim.beside(speed, "curl, speed of its download"),
        possible.expect(POSSIBLE, "50 Mbit/s x 1448 / 1514"),
    ])
}

fn await_server(ground: &Ground) -> anyhow::Result<()> {
    let began = Instant::now();
    while !ground.at(End::B, "ss -Hltn")?.contains(&format!(":{PORT} ")) {
        ensure!(began.elapsed() < STARTING, "our server does not listen at port {PORT}");
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}

/// curl fetches from a server that is about to start and will go.
fn fetch_during(ground: &Ground) -> anyhow::Result<()> {
    await_server(ground)?;
    let url = format!("http://{}:{PORT}/file", Ground::address(Family::V4, End::B));
    // It is cut off when the server goes, which is no failure here.
    let mut command = ground.command(End::A, "curl");
    command.args(["-s", "--max-time", "6", "-o", "/dev/null", &url]);
    command.status().context("start curl").map(drop)
}

/// Each stream has one transfer open when the path is cut: it is neither answered nor gone from the
/// count.
fn cut_off(ground: &mut Ground, workload: &str) -> anyhow::Result<Vec<Claim>> {
    const STREAMS: f64 = 4.0;
    ground.lay(&SHAPED, false)?;
    ground.nft(
        "table netdev truth {\n chain there { type filter hook ingress device lra priority 0; \
            policy accept; }\n chain back { type filter hook ingress device lrb priority 0; policy \
            accept;\n  counter name seen\n }\n counter seen { }\n}\n",
    )?;
    let plan = plan(workload, "streams = 4, file_size = \"100 KiB\", timeout = \"10 s\"");
    let study = std::thread::scope(|scope| {
        let ground = &*ground;
        let cut = scope.spawn(move || cut_later(ground));
        let study = run_plan(ground, &plan, Some(&host()));
        cut.join().expect("nft does not panic").and(study)
    })?;
    let open = Claim::count("transfers lost or open", study.unanswered())
        .expect(STREAMS, "one of each stream");
    let [due, answered] = ["operations_due", "operations_answered"].map(|name| study.metric(name));
    let all = Claim::count("transfers due", due)
        .expect(answered.unwrap_or_default() + STREAMS, "answered, and one of each stream");
    Ok(vec![open, all])
}

/// Drops TCP of the load, 0.8 s after data begins to flow.
fn cut_later(ground: &Ground) -> anyhow::Result<()> {
    const DATA_BYTES: u64 = 50_000;
    const AFTER: Duration = Duration::from_millis(800);
    let began = Instant::now();
    let seen =
        || super::super::instruments::nft_counters(ground).map(|counters| counters["seen"].bytes);
    while seen()? < DATA_BYTES {
        ensure!(began.elapsed() < STARTING, "no data of the load came");
        std::thread::sleep(Duration::from_millis(10));
    }
    std::thread::sleep(AFTER);
    let rule = |way: &str| format!("add rule netdev truth {way} {} drop\n", of_load());
    ground.nft(&(rule("there") + &rule("back")))
}
