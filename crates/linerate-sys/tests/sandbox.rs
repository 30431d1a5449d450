//! A confined process has no privileges: it is forked as an agent is, confined, and then tries
//! forbidden operations. The test has no harness, because confinement requires a process with one
//! thread. Runs as root; as another user it skips the change of users with a message.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::Command;

use linerate_sys::packet::PacketSocket;
use linerate_sys::sandbox::{Account, Confinement, confine, fork};

/// Paths that a confined process may read here.
const READABLE: [&str; 2] = ["/proc", "/etc/hosts"];

/// Attempt: its name and its result.
type Attempt = (&'static str, Result<(), String>);

fn main() {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        println!("skipped: becoming another user needs root");
    }
    let (mut here, there) = UnixStream::pair().expect("a pair");
    fork("lr-confined", OwnedFd::from(there), move |channel| {
        let mut channel = UnixStream::from(channel);
        let text = report(is_root);
        channel.write_all(text.as_bytes()).expect("the test listens");
        0
    })
    .expect("a process");
    let mut text = String::new();
    here.read_to_string(&mut text).expect("a report");
    let lines: Vec<&str> = text.lines().collect();
    let said = |what: &str| {
        let line = lines.iter().find_map(|line| line.strip_prefix(what)?.strip_prefix(": "));
        line.unwrap_or_else(|| panic!("{what} is not in the report:\n{text}"))
    };
    println!("running 1 test");
    for done in ["confine", "read /proc", "read what is allowed", "start a thread", "listen"] {
        assert_eq!(said(done), "done", "{text}");
    }
    // Landlock alone refuses a file that anybody may read; root's files are also refused by their
    // mode.
    for refused in [
        "read /etc/passwd",
        "write to /tmp",
        "run a program",
        "change the root folder",
        "open a raw socket",
        "make a user namespace",
    ] {
        assert!(said(refused).starts_with("refused"), "{refused}:\n{text}");
    }
    if is_root {
        assert!(said("read /etc/shadow").starts_with("refused"), "{text}");
        assert!(said("become root again").starts_with("refused"), "{text}");
        assert_eq!(said("Uid"), "65534 65534 65534 65534", "{text}");
    }
    // CAP_IPC_LOCK is capability 14.
    let capabilities =
        if said("locking") == "Limit" { "0000000000000000" } else { "0000000000004000" };
    for (name, value) in
        [("CapEff", capabilities), ("CapPrm", capabilities), ("NoNewPrivs", "1"), ("Seccomp", "2")]
    {
        assert_eq!(said(name), value, "{text}");
    }
    println!("test a_confined_process_has_no_rights ... ok\n");
    println!(
        "test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in \
            0.00s"
    );
}

/// Confines this process and reports what it can still do.
fn report(is_root: bool) -> String {
    let account = is_root.then(|| Account { name: "nobody".into(), user: 65_534, group: 65_534 });
    let readable = READABLE.iter().map(Into::into).collect();
    let confined = confine(&Confinement { account, readable, ..Confinement::default() });
    let locking = confined
        .as_ref()
        .map(|confined| format!("locking: {:?}", confined.locking))
        .unwrap_or_default();
    let confined = confined.map_err(|error| error.to_string());
    let confined = confined.and_then(|confined| confined.landlock.and(confined.filter));
    let io = |result: std::io::Result<()>| result.map_err(|error| error.to_string());
    let listen = || {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        listener.local_addr().map(drop)
    };
    let thread = || {
        std::thread::Builder::new()
            .spawn(|| ())?
            .join()
            .map_err(|_| std::io::Error::other("a panic"))
    };
    // Safe here: this process has one thread, and then ends.
    #[allow(deprecated)]
    let namespace = || Ok(rustix::thread::unshare(rustix::thread::UnshareFlags::NEWUSER)?);
    let attempts: Vec<Attempt> = vec![
        ("confine", confined),
        ("read /proc", io(fs::read("/proc/self/stat").map(drop))),
        ("read what is allowed", io(File::open("/etc/hosts").map(drop))),
        ("read /etc/passwd", io(File::open("/etc/passwd").map(drop))),
        ("read /etc/shadow", io(File::open("/etc/shadow").map(drop))),
        (
            "write to /tmp",
            io(OpenOptions::new().append(true).create(true).open("/tmp/lr-sandbox-test").map(drop)),
        ),
        ("run a program", io(Command::new("/bin/true").status().map(drop))),
        ("change the root folder", io(rustix::process::chroot("/").map_err(Into::into))),
        (
            "open a raw socket",
            PacketSocket::open("lo").map(drop).map_err(|error| error.to_string()),
        ),
        ("make a user namespace", io(namespace())),
        (
            "become root again",
            io(rustix::thread::set_thread_uid(rustix::process::Uid::ROOT).map_err(Into::into)),
        ),
        ("start a thread", io(thread())),
        ("listen", io(listen())),
    ];
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let shown = ["Uid", "CapEff", "CapPrm", "NoNewPrivs", "Seccomp"];
    let status = status
        .lines()
        .filter_map(|line| line.split_once(':'))
        .filter(|(name, _)| shown.contains(name));
    let status = status.map(|(name, value)| {
        format!("{name}: {}", value.split_whitespace().collect::<Vec<_>>().join(" "))
    });
    let attempts = attempts.into_iter().map(|(what, result)| match result {
        Ok(()) => format!("{what}: done"),
        Err(why) => format!("{what}: refused, {why}"),
    });
    attempts.chain(status).chain([locking]).collect::<Vec<_>>().join("\n")
}
