//! `linerate dashboard` in Chromium, with a campaign that runs meanwhile.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use crate::common::{alone, linerate, run, start};

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
    let _turn = alone();
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
    let (mut told, mut n_pages) = (String::new(), 0);
    for line in BufReader::new(driver.0.stdout.take().expect("it is kept")).lines() {
        let line = line.expect("text");
        n_pages += usize::from(line.starts_with("looked at"));
        told += &format!("{line}\n");
        // Every page was seen on every screen. What is left is the campaign's end.
        if n_pages == 20 {
            let interrupted = kill_process(Pid::from_child(&running.0), Signal::INT);
            interrupted.unwrap_or_else(|error| panic!("it ended early: {error}\n{told}"));
            n_pages += 1;
        }
    }
    assert!(driver.0.wait().expect("it ended").success() && n_pages == 21, "{told}");
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
