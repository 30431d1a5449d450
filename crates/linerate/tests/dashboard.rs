//! `linerate dashboard` in Chromium, with a campaign that runs meanwhile.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use linerate_model::TrialOutcome;
use rustix::process::{Pid, Signal, kill_process};

use crate::common::{eventually, linerate, load, run, start, turn};

/// Plan of a light load: the browser needs CPU time, too.
fn plan(seconds: u32) -> String {
    format!(
        "[campaign]\nname = \"pages\"\n[[sweep]]\nname = \"s\"\nduration = \"{seconds} s\"\n\
            [[sweep.job]]\nworkload = \"udp_stream\"\nfrom = \"a\"\nto = \"b\"\n\
            params = {{ direction = \"tx\", rate = \"20 Mbit/s\" }}\n"
    )
}

/// Process that is killed at the end of the test.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ended = self.0.kill();
        let _status = self.0.wait();
    }
}

#[test]
fn a_person_follows_a_campaign_opens_a_report_and_compares_two_in_a_browser() {
    let assets = Path::new(env!("CARGO_MANIFEST_DIR")).join("../linerate-dashboard/assets");
    let has_node = Command::new("node").arg("--version").output().is_ok();
    let browser = std::env::var("CHROMIUM").unwrap_or_else(|_| "/usr/bin/chromium".to_owned());
    if !has_node
        || !Path::new(&browser).exists()
        || !assets.join("node_modules/playwright-core").exists()
    {
        println!(
            "skipped: the dashboard in a browser: needs node, chromium, and `npm ci \
                --ignore-scripts` in crates/linerate-dashboard/assets"
        );
        return;
    }
    let _turn = turn();
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    for (name, seconds) in [("short.toml", 1), ("long.toml", 60)] {
        std::fs::write(folder.join(name), plan(seconds)).expect("written");
    }
    for ledger in ["ended-a.ledger", "ended-b.ledger"] {
        run(folder, &["run", "short.toml", "--ledger", ledger, "-q"]).ran();
    }
    let running = ["run", "long.toml", "--ledger", "running.ledger", "-q"];
    let running = Killed(start(folder, &running));
    let listen = ["dashboard", ".", "--listen", "127.0.0.1:0"];
    let mut dashboard = Killed(start(folder, &listen));
    let mut address = String::new();
    let printed = dashboard.0.stdout.take().expect("it is kept");
    BufReader::new(printed).read_line(&mut address).expect("it prints its address");
    let mut driver = Command::new("node");
    driver.current_dir(&assets).args(["browser.mjs", address.trim()]).stdout(Stdio::piped());
    let mut driver = Killed(driver.spawn().expect("node starts"));
    let (mut printed, mut n_pages) = (String::new(), 0);
    for line in BufReader::new(driver.0.stdout.take().expect("it is kept")).lines() {
        let line = line.expect("text");
        n_pages += usize::from(line.starts_with("looked at"));
        printed += &format!("{line}\n");
        // Every page was seen on every screen. What is left is the campaign's end.
        if n_pages == 24 {
            let interrupted = kill_process(Pid::from_child(&running.0), Signal::INT);
            interrupted.unwrap_or_else(|error| panic!("it ended early: {error}\n{printed}"));
            n_pages += 1;
        }
    }
    assert!(driver.0.wait().expect("it ended").success() && n_pages == 25, "{printed}");
}

#[test]
fn viewers_that_stand_still_or_are_killed_change_nothing_about_a_campaign() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let once = plan(6).replace("[[sweep]]", "repeats = 1\n[[sweep]]");
    std::fs::write(folder.join("plan.toml"), once).expect("written");
    let mut campaign =
        Killed(start(folder, &["run", "plan.toml", "--ledger", "watched.ledger", "-q"]));
    let listen = ["dashboard", ".", "--listen", "127.0.0.1:0"];
    let mut dashboard = Killed(start(folder, &listen));
    let mut address = String::new();
    let printed = dashboard.0.stdout.take().expect("it is kept");
    BufReader::new(printed).read_line(&mut address).expect("it prints its address");
    let address = address.trim().trim_start_matches("http://").trim_end_matches('/').to_owned();
    let socket = folder.join("watched.ledger.live");
    eventually("a campaign that runs", || UnixStream::connect(&socket).ok());
    // Readers of the socket that take nothing, more than it has places for.
    let stuck: Vec<_> = (0..20).filter_map(|_| UnixStream::connect(&socket).ok()).collect();
    // Browsers that take nothing, and one that goes away in the middle.
    let key = eventually("a campaign in the list", || {
        let list = page(&address, "/");
        let key = list.split("/live?campaign=").nth(1)?.split('"').next()?;
        Some(key.to_owned())
    });
    let follow = |_| asked(&address, &format!("/events?campaign={key}"));
    let browsers: Vec<_> = (0..20).map(follow).collect();
    let mut leaves = follow(0);
    let mut seen = [0; 4096];
    let n_bytes = leaves.read(&mut seen).expect("an answer");
    assert!(seen[..n_bytes].starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&seen));
    drop(leaves);
    drop(dashboard);
    assert!(campaign.0.try_wait().expect("a child").is_none(), "it still runs");
    assert!(campaign.0.wait().expect("it ends").success());
    drop((stuck, browsers));
    assert!(!socket.exists(), "the socket goes with the campaign");
    run(folder, &["ledger", "check", "watched.ledger"]).ran();
    let trials = load(&folder.join("watched.ledger")).trials;
    let outcomes: Vec<_> = trials.iter().map(|trial| trial.outcome).collect();
    assert_eq!(outcomes, [Some(TrialOutcome::Completed)]);
    // Every interval of both ends was recorded, to the end of the load.
    let (sent, received) = &trials[0].jobs[0];
    let loaded = trials[0].spec.phases.loaded();
    for end in [sent, received] {
        let until = end.intervals.iter().map(|one| one.end).max();
        assert!(until.is_some_and(|until| until >= loaded), "{until:?} of {loaded:?}");
    }
}

/// Sends a request for `path`, and returns the connection.
fn asked(address: &str, path: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).expect("it listens");
    let head = format!("GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
    stream.write_all(head.as_bytes()).expect("sent");
    stream
}

/// Returns the page at `path`.
fn page(address: &str, path: &str) -> String {
    let mut stream = asked(address, path);
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("an answer");
    text
}

#[test]
fn a_folder_that_is_not_there_and_an_address_of_others_end_with_the_cause() {
    let folder = tempfile::tempdir().expect("a folder");
    let missing = run(folder.path(), &["dashboard", "nowhere"]).expect(2);
    assert!(missing.stderr.contains("read folder nowhere"), "{}", missing.stderr);
    let other = ["dashboard", ".", "--listen", "192.0.2.1:4779"];
    let other = linerate(folder.path(), &other).output().expect("it starts");
    let cause = String::from_utf8_lossy(&other.stderr).into_owned();
    assert!(other.status.code() == Some(3) || other.status.code() == Some(4), "{cause}");
    assert!(cause.contains("listen on 192.0.2.1:4779"), "{cause}");
}
