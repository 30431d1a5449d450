//! A host that has no linerate: it is copied through the ssh and sshd of OpenSSH, and removed.

use std::io::{BufRead, BufReader};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use linerate_model::TrialOutcome;

use crate::common::{
    Ended, Guard, PATIENCE, file, free_port, linerate, load, privileged, skip, wait,
};

/// Server of ssh; its absence is a reason to skip.
const SSHD: &str = "/usr/sbin/sshd";
/// Time that a command takes with the default limit, or without one.
const UNLIMITED: Duration = Duration::from_secs(25);
/// A mount namespace of its own has the folder that sshd wants.
const SERVE: &str = "mount -t tmpfs none /run && mkdir -m 755 /run/sshd &&
    exec \"$0\" -D -e -f \"$1\"";

/// Starts a server on loopback whose users make temporary folders in `folder/there`, and an `ssh`
/// in `folder/bin` that knows it as `box`.
fn serve(folder: &Path) -> Guard {
    let port = free_port();
    for key in ["host", "user"] {
        let made = Command::new("ssh-keygen")
            .args(["-q", "-t", "ed25519", "-N", "", "-f"])
            .arg(folder.join(key))
            .status();
        assert!(made.expect("it comes with ssh").success());
    }
    std::fs::create_dir(folder.join("there")).expect("a folder");
    std::fs::create_dir(folder.join("bin")).expect("a folder");
    let at = folder.display();
    let config = file(
        folder,
        "sshd_config",
        &format!(
            "Port {port}\nListenAddress 127.0.0.1\nHostKey {at}/host\nAuthorizedKeysFile \
                {at}/user.pub\nStrictModes no\nUsePAM no\nPidFile none\nPermitRootLogin yes\n\
             SetEnv TMPDIR={at}/there PATH=/usr/bin:/bin\n"
        ),
    );
    file(
        folder,
        "ssh_config",
        &format!(
            "Host box\nHostName 127.0.0.1\nPort {port}\nUser root\nIdentityFile {at}/user\n\
             UserKnownHostsFile {at}/known\nStrictHostKeyChecking accept-new\nLogLevel ERROR\n"
        ),
    );
    knows_the_box(folder);
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", SERVE, SSHD]).arg(config).stderr(Stdio::null());
    let server = Guard(command.spawn().expect("unshare starts"));
    let begun = Instant::now();
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        assert!(begun.elapsed() < PATIENCE, "sshd does not listen");
        std::thread::sleep(Duration::from_millis(20));
    }
    server
}

/// Makes the `ssh` in `folder/bin` the one that knows the server.
fn knows_the_box(folder: &Path) {
    let text = format!("#!/bin/sh\nexec /usr/bin/ssh -F {}/ssh_config \"$@\"\n", folder.display());
    executable(&file(folder, "bin/ssh", &text));
}

fn executable(path: &Path) {
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o700);
    std::fs::set_permissions(path, mode).expect("it is ours");
}

/// The program with `arguments`, with the `ssh` of `folder`.
fn here(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = linerate(folder, arguments);
    command.env("PATH", format!("{}:/usr/sbin:/usr/bin:/sbin:/bin", folder.join("bin").display()));
    command
}

fn n_left(folder: &Path) -> usize {
    std::fs::read_dir(folder.join("there")).expect("it is ours").count()
}

#[test]
fn a_host_without_linerate_gets_it_through_ssh_and_keeps_nothing() {
    let Some(()) = privileged() else { return };
    if !Path::new(SSHD).exists() {
        return skip(format_args!("needs {SSHD} (openssh-server)"));
    }
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let _server = serve(folder);
    let ended = |arguments: &[&str]| -> Ended {
        here(folder, arguments).output().expect("linerate starts").into()
    };

    let missing = ended(&["to", "ssh:box", "-t", "0.2"]).expect(4);
    assert!(missing.stderr.contains("--push"), "it says what helps: {missing:?}");

    ended(&["to", "ssh:box", "-t", "0.5", "--push", "--ledger", "push.ledger"]).ran();
    let campaign = load(&folder.join("push.ledger"));
    assert_eq!(campaign.trials[0].outcome, Some(TrialOutcome::Completed));
    assert_eq!(n_left(folder), 0, "the copy is removed");
    // The same server by a command line of one's own.
    let typed = ["to", "127.0.0.1", "-t", "0.2", "--reach", "ssh -o LogLevel=ERROR box", "--push"];
    ended(&[&typed[..], &["--ledger", "typed.ledger"]].concat()).ran();
    let campaign = load(&folder.join("typed.ledger"));
    assert_eq!(campaign.trials[0].outcome, Some(TrialOutcome::Completed));
    assert_eq!(n_left(folder), 0, "the copy is removed");

    let mut foreign = *b"\x7fELF\x02\x02\x01\0\0\0\0\0\0\0\0\0\0\x02\0\x16";
    std::fs::write(folder.join("foreign"), foreign).expect("it is ours");
    let refused = ended(&["to", "ssh:box", "--push=foreign"]).expect(4);
    assert!(refused.stderr.contains("foreign is for s390x"), "{refused:?}");
    // It looks right and cannot be run.
    let own = std::fs::read(env!("CARGO_BIN_EXE_linerate")).expect("it runs here");
    foreign[5] = own[5];
    foreign[18..].copy_from_slice(&own[18..20]);
    std::fs::write(folder.join("foreign"), foreign).expect("it is ours");
    let refused = ended(&["to", "ssh:box", "--push=foreign"]).expect(4);
    assert!(refused.stderr.contains("run it: "), "{refused:?}");
    assert_eq!(n_left(folder), 0, "nothing is left of what was refused");
    // A host that accepts the session and never answers, and one that never starts the agent.
    for push in [&["--push"][..], &[]] {
        let silent = file(folder, "bin/ssh", "#!/bin/sh\n[ \"$1\" = -G ] || exec sleep 60\n");
        executable(&silent);
        let begun = Instant::now();
        let to = [&["to", "ssh:127.0.0.1", "--connect-timeout", "1500"], push].concat();
        ended(&to).expect(4);
        let taken = begun.elapsed();
        assert!(Duration::from_millis(1500) < taken && taken < UNLIMITED, "{push:?}: {taken:?}");
    }
    knows_the_box(folder);

    let nowhere = ended(&["to", "127.0.0.1", "--push"]).expect(2);
    assert!(nowhere.stderr.contains("`ssh:127.0.0.1`"), "{nowhere:?}");

    // A killed conductor leaves nothing either: the end of its connection is the order.
    let mut killed = here(folder, &["to", "ssh:box", "-t", "60", "-i", "0.2", "--push"]);
    let mut killed = killed.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("starts");
    let mut lines = BufReader::new(killed.stdout.take().expect("piped")).lines();
    assert!(lines.by_ref().take(4).all(|line| line.is_ok()) && n_left(folder) == 1);
    killed.kill().expect("it runs");
    drop(lines);
    wait(killed);
    let begun = Instant::now();
    while n_left(folder) > 0 {
        assert!(begun.elapsed() < PATIENCE, "it stays");
        std::thread::sleep(Duration::from_millis(50));
    }
}
