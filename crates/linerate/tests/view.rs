//! The live view in a real terminal of 80 columns and 24 rows: tmux.

use std::io::Read;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::common::{PATIENCE, file, linerate, skip};

/// Interval between two looks at the terminal.
const LOOK: Duration = Duration::from_millis(50);
/// Row of the live view that nothing else prints.
const KEYS: &str = "q end";

/// A terminal with a shell command in it, ended with this value.
struct Screen {
    socket: String,
}

impl Screen {
    /// Starts `command` in a terminal of its own in `folder`; `None`, with a message, if there is
    /// no tmux. `{linerate}` stands for the program. The exit code is printed at the end.
    fn start(folder: &Path, command: &str) -> Option<Self> {
        if Command::new("tmux").arg("-V").output().is_err() {
            skip("needs tmux");
            return None;
        }
        // A socket of its own: the last server of the folder may still be ending, and would take
        // the new session with it.
        static STARTED: AtomicU32 = AtomicU32::new(0);
        let number = STARTED.fetch_add(1, Ordering::Relaxed);
        let socket = folder.join(format!("tmux{number}")).display().to_string();
        let program = env!("CARGO_BIN_EXE_linerate");
        let line = format!(
            "cd {}; export LINERATE_KEYS=keys; unset NO_COLOR; {}; echo EXIT $?; exec sleep 600",
            folder.display(),
            command.replace("{linerate}", program)
        );
        let screen = Self { socket };
        screen.tmux(&["-f", "/dev/null", "new-session", "-d", "-x", "80", "-y", "24", &line]);
        Some(screen)
    }

    fn tmux(&self, arguments: &[&str]) -> String {
        let mut command = Command::new("tmux");
        // The variable of a terminal around this test would refuse another one in it.
        command.env_remove("TMUX").arg("-S").arg(&self.socket).args(arguments);
        let output = command.output().expect("tmux starts");
        String::from_utf8(output.stdout).expect("tmux prints UTF-8")
    }

    fn press(&self, key: &str) {
        self.tmux(&["send-keys", key]);
    }

    /// Returns the visible rows.
    fn rows(&self) -> String {
        self.tmux(&["capture-pane", "-p"])
    }

    /// Returns the visible rows and all above them.
    fn everything(&self) -> String {
        self.tmux(&["capture-pane", "-p", "-S", "-"])
    }

    /// Waits until the visible rows have all of `parts`, and returns them.
    fn wait_for(&self, parts: &[&str]) -> String {
        let begun = Instant::now();
        loop {
            let rows = self.rows();
            if parts.iter().all(|part| rows.contains(part)) {
                return rows;
            }
            assert!(begun.elapsed() < PATIENCE, "no {parts:?} in\n{}", self.everything());
            std::thread::sleep(LOOK);
        }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        self.tmux(&["kill-server"]);
    }
}

/// Plan with two trials of a second.
const TWO: &str = r#"
[campaign]
name = "two"
repeats = 2
[[sweep]]
name = "two"
duration = "1 s"
warmup = "0 s"
drain = "0 s"
rest = "0 s"
[[sweep.job]]
workload = "tcp_stream"
from = "a"
to = "b"
params = { pacing_rate = "20 Mbit/s" }
"#;

#[test]
fn a_terminal_shows_the_view_and_then_the_lines_and_the_result() {
    let folder = tempfile::tempdir().expect("a folder");
    let command = "{linerate} to loopback -t 4 --fq-rate 20M";
    let Some(screen) = Screen::start(folder.path(), command) else { return };
    let rows =
        screen.wait_for(&[KEYS, "goodput", "of ceiling", "cpu a | b", "trial 1 of 1", "\u{25b6}"]);
    assert_eq!(rows.lines().count(), 24, "{rows}");
    assert!(!rows.contains('\u{2026}'), "something is cut:\n{rows}");
    screen.wait_for(&["EXIT"]);
    let left = screen.everything();
    assert!(!left.contains(KEYS) && !left.contains('\u{2514}'), "{left}");
    let at = |part: &str| left.find(part).unwrap_or_else(|| panic!("no {part:?} in\n{left}"));
    // In the order in which they would have been printed.
    assert!(at("seconds") < at("0.0 - 1.0") && at("3.0 - 4.0") < at("EXIT"), "{left}");
}

#[test]
fn q_ends_the_measurement_and_keeps_what_was_measured() {
    let folder = tempfile::tempdir().expect("a folder");
    let command = "{linerate} to loopback -t 600 --fq-rate 20M --ledger kept.ledger";
    let Some(screen) = Screen::start(folder.path(), command) else { return };
    screen.wait_for(&[KEYS, "2 s of 10 min"]);
    screen.press("q");
    screen.wait_for(&["EXIT 130"]);
    let left = screen.everything();
    assert!(left.contains("0.0 - 1.0") && left.contains("interrupted"), "{left}");
    assert!(folder.path().join("kept.ledger").exists());
    assert!(!folder.path().join("kept.ledger.live").exists(), "the socket goes with the campaign");
}

#[test]
fn q_after_an_interrupt_from_elsewhere_ends_at_once_and_leaves_a_usable_terminal() {
    let folder = tempfile::tempdir().expect("a folder");
    let agent = format!("echo $$ > agent; exec {} agent --stdio", env!("CARGO_BIN_EXE_linerate"));
    file(folder.path(), "agent.sh", &agent);
    let command = "sh -c 'echo $$ > pid; exec {linerate} to 127.0.0.1 -t 600 --fq-rate 20M \
        --reach \"sh agent.sh\"'; echo ENDED $?; stty -a";
    let Some(screen) = Screen::start(folder.path(), command) else { return };
    screen.wait_for(&[KEYS, "2 s of 10 min"]);
    let [agent, program] = ["agent", "pid"].map(|name| {
        let pid = std::fs::read_to_string(folder.path().join(name)).expect("it was written");
        pid.trim().parse().ok().and_then(Pid::from_raw).expect("a process")
    });
    let send = |process, signal| kill_process(process, signal).expect("it runs");
    // The first interrupt ends the trial in order, for which it would wait for the agent's answer.
    send(agent, Signal::STOP);
    // It finds both when it goes on: the interrupt first, then the key.
    send(program, Signal::STOP);
    screen.press("q");
    send(program, Signal::INT);
    send(program, Signal::CONT);
    screen.wait_for(&["EXIT"]);
    let left = screen.everything();
    assert!(left.contains("ENDED 130") && left.contains("icanon"), "{left}");
    for off in ["-icanon", "-echo ", "-isig"] {
        assert!(!left.contains(off), "{off}: {left}");
    }
    assert!(!left.contains("interrupted"), "the second one ends it at once: {left}");
    // It finds that nobody waits for its answer any more, and ends.
    send(agent, Signal::CONT);
}

#[test]
fn a_terminal_that_goes_away_ends_the_measurement_and_its_results_are_kept() {
    let folder = tempfile::tempdir().expect("a folder");
    let command = "sh -c 'echo $$ > pid; exec {linerate} to loopback -t 600 --fq-rate 20M \
        --ledger kept.ledger'";
    let Some(screen) = Screen::start(folder.path(), command) else { return };
    screen.wait_for(&[KEYS, "2 s of 10 min"]);
    let pid = std::fs::read_to_string(folder.path().join("pid")).expect("it was written");
    drop(screen);
    let begun = Instant::now();
    // The executable of a process that has ended cannot be read, whether or not it was waited for.
    let executable = Path::new("/proc").join(pid.trim()).join("exe");
    while executable.read_link().is_ok() {
        assert!(begun.elapsed() < PATIENCE, "process {pid} goes on without a terminal");
        std::thread::sleep(LOOK);
    }
    assert!(!folder.path().join("kept.ledger.live").exists(), "the campaign was not ended");
    let checked = linerate(folder.path(), &["ledger", "check", "kept.ledger"]).output();
    assert!(checked.expect("linerate starts").status.success());
}

#[test]
fn p_holds_the_next_trial_and_lets_it_go_on() {
    let folder = tempfile::tempdir().expect("a folder");
    file(folder.path(), "two.toml", TWO);
    let command = "{linerate} run two.toml";
    let Some(screen) = Screen::start(folder.path(), command) else { return };
    screen.wait_for(&[KEYS, "trial 1 of 2"]);
    screen.press("p");
    screen.wait_for(&["paused", "p go on"]);
    // Longer than the second trial would take.
    std::thread::sleep(Duration::from_secs(3));
    screen.wait_for(&["trial 1 of 2", "paused", "p go on"]);
    screen.press("p");
    screen.wait_for(&["trial 2 of 2"]);
    screen.wait_for(&["EXIT"]);
}

#[test]
fn a_person_who_wants_lines_has_no_view_and_no_colour_is_no_colour() {
    let folder = tempfile::tempdir().expect("a folder");
    for command in [
        "TERM=dumb {linerate} to loopback -t 1 --fq-rate 20M",
        "{linerate} to loopback -t 1 --fq-rate 20M --plain",
        "{linerate} to loopback -t 1 --fq-rate 20M | cat",
        "{linerate} to loopback -t 1 --fq-rate 20M < /dev/null",
    ] {
        let Some(screen) = Screen::start(folder.path(), command) else { return };
        let begun = Instant::now();
        while !screen.rows().contains("EXIT") {
            assert!(!screen.rows().contains(KEYS), "{command}: {}", screen.rows());
            assert!(begun.elapsed() < PATIENCE, "{command}: {}", screen.rows());
            std::thread::sleep(LOOK);
        }
        assert!(screen.everything().contains("0.0 - 1.0"), "{command}: {}", screen.everything());
    }
    if let Some(is_coloured) = colours(folder.path(), "") {
        assert_eq!((is_coloured, colours(folder.path(), "NO_COLOR=1")), (true, Some(false)));
    }
}

/// Returns whether the view has a foreground colour, with these variables.
fn colours(folder: &Path, variables: &str) -> Option<bool> {
    let command = format!("{variables} {{linerate}} to loopback -t 4 --fq-rate 20M");
    let screen = Screen::start(folder, &command)?;
    screen.wait_for(&[KEYS, "\u{25b6}"]);
    let styled = screen.tmux(&["capture-pane", "-p", "-e"]);
    // Colours are `ESC [ 3 digit m` or `ESC [ 38 ; ...`, also behind other styles; 39 is none.
    let parts = ["\u{1b}[3", ";3"].into_iter().flat_map(|start| styled.split(start).skip(1));
    Some(
        parts
            .map(str::as_bytes)
            .any(|rest| matches!(rest, [b'8', b';', ..] | [b'0'..=b'7', b'm', ..])),
    )
}

#[test]
fn a_pipe_that_nobody_reads_delays_no_measurement_and_loses_no_line() {
    let folder = tempfile::tempdir().expect("a folder");
    let arguments = "to loopback -t 8 -i 0.1 --fq-rate 20M --ledger kept.ledger";
    let arguments: Vec<&str> = arguments.split(' ').collect();
    let mut command = linerate(folder.path(), &arguments);
    let (mut reader, writer) = std::io::pipe().expect("a pipe");
    // The smallest pipe: a page, which 8 s of lines fill.
    rustix::pipe::fcntl_setpipe_size(&writer, 4096).expect("it shrinks");
    let mut child = command.stdout(writer).spawn().expect("linerate starts");
    drop(command);
    let live = folder.path().join("kept.ledger.live");
    let begun = Instant::now();
    let mut has_begun = false;
    // The socket exists while the campaign runs.
    while !has_begun || live.exists() {
        has_begun |= live.exists();
        assert!(begun.elapsed() < PATIENCE, "the campaign waits for the reader");
        std::thread::sleep(LOOK);
    }
    let mut text = String::new();
    reader.read_to_string(&mut text).expect("it prints text");
    assert!(child.wait().expect("it ends").success(), "{text}");
    let lines = text.lines().filter(|line| line.contains("bit/s") && line.contains(" - "));
    assert!(lines.count() >= 79, "{text}");
    assert!(text.len() > 4096, "the pipe was never full: {} bytes", text.len());
}
