//! The program itself, copied through a launcher to a host that has none, and removed at the end.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use linerate_model::HostAddress;
use rustix::process::{Pid, Signal, kill_process_group};

use crate::launcher::Launcher;
use crate::{Failure, Result};

/// Architectures as `uname -m` prints them, each with its number in an ELF header (`e_machine`,
/// System V ABI).
const MACHINES: [(&str, u16); 7] = [
    ("aarch64", 183),
    ("armv7l", 40),
    ("i686", 3),
    ("ppc64le", 21),
    ("riscv64", 243),
    ("s390x", 22),
    ("x86_64", 62),
];

/// Script that runs on the host. It answers with the architecture and the release of a linerate
/// that is there, waits for the length of a program, keeps that in a folder of its own, and removes
/// it when this end closes the connection, however it ends.
const SCRIPT: &str = r#"
umask 077
echo "$(uname -m) $(linerate --version 2>/dev/null)"
read -r length || exit 0
folder=
for parent in "${TMPDIR:-/tmp}" "$HOME" /dev/shm; do
    folder=$(mktemp -d "$parent/linerate.XXXXXXXX" 2>/dev/null) || continue
    printf '#!/bin/sh\n' > "$folder/linerate" && chmod 700 "$folder/linerate" &&
        "$folder/linerate" 2>/dev/null && break
    rm -rf "$folder"
    folder=
done
echo "$folder"
[ -n "$folder" ] || exit 1
trap 'rm -rf "$folder"' EXIT HUP INT TERM
head -c "$length" > "$folder/linerate"
"$folder/linerate" --version 2>&1 || echo "the host cannot run it"
cat > /dev/null
"#;

/// Program to copy to a host that has none of this release.
#[derive(Clone, Copy, Debug)]
pub struct Push<'a> {
    /// Its file; `None` for the program that runs here.
    pub file: Option<&'a Path>,
}

/// Program on the host. It is removed when this is dropped, or this process ends.
#[derive(Debug)]
pub(crate) struct Pushed {
    session: Arc<Mutex<Child>>,
    input: Option<ChildStdin>,
}

/// Time that the host has to remove the program.
const REMOVED_WITHIN: Duration = Duration::from_secs(5);

impl Drop for Pushed {
    fn drop(&mut self) {
        const LOOK_EVERY: Duration = Duration::from_millis(10);
        // The end of its input is the order to remove the program.
        self.input = None;
        let begun = Instant::now();
        let mut session = locked(&self.session);
        while matches!(session.try_wait(), Ok(None)) && begun.elapsed() < REMOVED_WITHIN {
            std::thread::sleep(LOOK_EVERY);
        }
        // Else the host removes the program when it notices that the connection is gone.
        end(&mut session);
    }
}

fn locked(session: &Mutex<Child>) -> MutexGuard<'_, Child> {
    session.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Kills `session` and everything that it has started, and reaps it.
fn end(session: &mut Child) {
    // A process that was reaped has no group any more, and its number may be another's.
    if matches!(session.try_wait(), Ok(None)) {
        // It has a group of its own. It fails if the session has just ended.
        let _ = kill_process_group(Pid::from_child(session), Signal::KILL);
        let _ = session.wait();
    }
}

/// Watch over a session: it is killed if nothing moves for too long.
struct Watch {
    moved: Sender<()>,
    stalled: Arc<AtomicBool>,
}

impl Watch {
    /// Watches `session`, which may take `patience` for each of its steps.
    fn over(session: &Arc<Mutex<Child>>, patience: Duration) -> Self {
        let (moved, steps) = channel();
        let stalled = Arc::new(AtomicBool::new(false));
        let (session, noted) = (Arc::clone(session), Arc::clone(&stalled));
        std::thread::spawn(move || {
            let ended = loop {
                if let Err(ended) = steps.recv_timeout(patience) {
                    break ended;
                }
            };
            if ended == RecvTimeoutError::Timeout {
                noted.store(true, Ordering::Relaxed);
                // Its output ends, and with it the step that waits.
                end(&mut locked(&session));
            }
        });
        Self { moved, stalled }
    }

    /// Notes that something moved.
    fn moved(&self) {
        // The thread has ended if nothing moved before.
        let _ = self.moved.send(());
    }

    /// Returns the cause of a step that failed with `cause`.
    fn cause(&self, cause: String) -> String {
        if self.stalled.load(Ordering::Relaxed) { "it took too long".into() } else { cause }
    }
}

/// Copies the program to `target` through `launcher`, unless the host has this release, and returns
/// how its agent is started.
///
/// # Errors
/// If the launcher fails, a step takes longer than `patience`, there is no program for the host's
/// architecture, or the host cannot run it.
pub(crate) fn push(
    target: &str,
    launcher: &Launcher,
    push: Push<'_>,
    patience: Duration,
) -> Result<(HostAddress, Option<Pushed>)> {
    /// Bytes of the program between two looks at the time.
    const PART: u64 = 64 << 10;
    let words = launcher.script(SCRIPT);
    let mut session = Command::new(&words[0])
        .args(&words[1..])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        // Ctrl-C must not reach it: the program is in use until the measurement has ended.
        .process_group(0)
        .spawn()
        .map_err(|error| failure(target, &format!("start {}", words[0]), &error.to_string()))?;
    let (input, output) = (session.stdin.take(), session.stdout.take());
    let mut pushed = Pushed { session: Arc::new(Mutex::new(session)), input };
    let watch = Watch::over(&pushed.session, patience);
    let failed = |what: &str, cause: String| failure(target, what, &watch.cause(cause));
    let mut answers = BufReader::new(output.expect("it is piped"));
    let greeting =
        answer(&mut answers, launcher).map_err(|why| failed("ask for its architecture", why))?;
    let (machine, release) = greeting.split_once(' ').unwrap_or((&greeting, ""));
    if release == OURS {
        return Ok((launcher.agent("linerate"), None));
    }
    watch.moved();
    let path = program_for(target, machine, push.file)?;
    let unread = |error: std::io::Error| failed(&path.display().to_string(), error.to_string());
    let mut file = File::open(&path).map_err(unread)?;
    let length = file.metadata().map_err(unread)?.len();
    let input = pushed.input.as_mut().expect("it is open");
    let sent = writeln!(input, "{length}").and_then(|()| input.flush());
    sent.map_err(|error| failed("send its length", error.to_string()))?;
    let folder = answer(&mut answers, launcher).map_err(|why| failed("make a folder", why))?;
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-".contains(c);
    if !folder.starts_with('/') || !folder.chars().all(is_plain) {
        let cause = "no folder there in which a program may be run (/tmp, home, /dev/shm)";
        return Err(failed("make a folder", cause.into()));
    }
    watch.moved();
    while std::io::copy(&mut Read::by_ref(&mut file).take(PART), input)
        .map_err(|error| failed("send it", error.to_string()))?
        > 0
    {
        watch.moved();
    }
    input.flush().map_err(|error| failed("send it", error.to_string()))?;
    let release = answer(&mut answers, launcher).map_err(|why| failed("run it", why))?;
    if release != OURS {
        let cause = format!("{} is `{release}`, and this is `{OURS}`", path.display());
        return Err(failed("run it", cause));
    }
    Ok((launcher.agent(&format!("{folder}/linerate")), Some(pushed)))
}

/// Returns the failure of a step of the copy to `target`.
fn failure(target: &str, step: &str, cause: &str) -> Failure {
    Failure::missing(format!("copy linerate to {target}: {step}: {cause}"))
}

/// Returns the next line that the host answers.
///
/// # Errors
/// Why there is none.
fn answer(answers: &mut impl BufRead, launcher: &Launcher) -> Result<String, String> {
    let mut line = String::new();
    match answers.read_line(&mut line) {
        Ok(0) => Err(format!("the connection ended ({} has printed why)", launcher.program())),
        Ok(_) => Ok(line.trim().to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

/// Answer of this release to `--version`.
const OURS: &str = concat!("linerate ", env!("CARGO_PKG_VERSION"));

/// Returns the file of the program for a host of the architecture `machine`.
fn program_for(target: &str, machine: &str, given: Option<&Path>) -> Result<PathBuf> {
    let path = given.map_or_else(std::env::current_exe, |path| Ok(path.to_owned()));
    let path = path.map_err(|error| Failure::missing(format!("find this program: {error}")))?;
    let unread = |error| Failure::missing(format!("read {}: {error}", path.display()));
    let mut header = [0; 20];
    File::open(&path).and_then(|mut file| file.read_exact(&mut header)).map_err(unread)?;
    let number = machine_of(&header);
    let wanted = MACHINES.iter().find(|(name, _)| *name == machine);
    // Of an architecture that is not in the table, the host itself finds out.
    if number.is_some_and(|number| wanted.is_none_or(|(_, wanted)| *wanted == number)) {
        return Ok(path);
    }
    let known = MACHINES.iter().find(|(_, known)| Some(*known) == number);
    let is = match (number, known) {
        (None, _) => "no program".to_owned(),
        (_, Some((name, _))) => format!("for {name}"),
        (Some(number), None) => format!("for machine {number}"),
    };
    let advice = match given {
        Some(_) => "",
        None => ": name a linerate for it with --push=FILE",
    };
    Err(Failure::missing(format!(
        "copy linerate to {target}: the host is {machine}, and {} is {is}{advice}",
        path.display()
    )))
}

/// Returns the machine of an ELF header; `None` for another kind of file.
fn machine_of(header: &[u8; 20]) -> Option<u16> {
    const BIG: u8 = 2;
    let bytes = [header[18], header[19]];
    let number =
        if header[5] == BIG { u16::from_be_bytes(bytes) } else { u16::from_le_bytes(bytes) };
    header.starts_with(b"\x7fELF").then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(machine: &str, given: Option<&Path>) -> Option<String> {
        program_for("host", machine, given).err().map(|failure| failure.message())
    }

    #[test]
    fn only_a_program_for_the_hosts_architecture_is_copied() {
        let here = std::env::consts::ARCH;
        assert_eq!(message(here, None), None);
        assert_eq!(message("vax", None), None, "the host finds out");
        let other = if here == "s390x" { "x86_64" } else { "s390x" };
        let refused = message(other, None).expect("it is for this host");
        assert!(refused.contains(&format!("the host is {other}, and ")), "{refused}");
        assert!(refused.contains(&format!(" is for {here}: name")), "{refused}");
        assert!(refused.contains("--push=FILE"), "{refused}");

        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("program");
        let mut header = *b"\x7fELF\x02\x02\x01\0\0\0\0\0\0\0\0\0\0\x02\0\x16";
        std::fs::write(&path, header).expect("it is ours");
        assert_eq!(message("s390x", Some(&path)), None, "big-endian");
        let refused = message("aarch64", Some(&path)).expect("it is for another");
        assert!(refused.ends_with("program is for s390x"), "{refused}");
        header[0] = b'#';
        std::fs::write(&path, header).expect("it is ours");
        let refused = message("s390x", Some(&path)).expect("a script");
        assert!(refused.ends_with("is no program"), "{refused}");
        assert!(message("s390x", Some(&folder.path().join("none"))).is_some());
    }
}
