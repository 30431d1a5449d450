//! Processes that carry a lab of `linerate lab up`, found by the lab's name.
//!
//! A lab with delays, faults, controllers or CPU shares lives as long as its `linerate lab up`. The
//! names of its namespaces are private to that process, so that the kernel frees them however the
//! process ends: by SIGKILL, or with its whole PID namespace. Other commands find it by an abstract
//! Unix socket (unix(7)) that it listens on, which ends with it too. The socket is also the claim
//! to the name: of two processes that build a lab of one name, one is refused. A command of root
//! may write an order there, one line, and reads the answer: nothing if it was carried out, or why
//! not.

use std::collections::BTreeSet;
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use linerate_sys::socket::peer;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::{Failure, Result};

/// Prefix of the sockets' names.
const SOCKETS: &str = "linerate-lab-";
/// Sockets of this network namespace, a line each; the name of an abstract one begins with `@`
/// (proc_net_unix(5)).
const LISTED: &str = "/proc/net/unix";
/// Commands that may look for a lab at the same moment.
const BACKLOG: i32 = 128;
/// Longest order or answer, bytes.
const LONGEST: usize = 512;
/// Longest time that a process takes for an order.
const ANSWERED_WITHIN: Timespec = Timespec { tv_sec: 5, tv_nsec: 0 };
/// A process that was killed has let go of its sockets within this.
const FREED_WITHIN: Duration = Duration::from_secs(2);

/// Claim of this process to the name of a lab.
pub struct Claim {
    socket: OwnedFd,
    /// Connections of commands that look for the lab: an open one shows that this process lives.
    seekers: Vec<OwnedFd>,
}

impl Claim {
    /// Claims the name `lab`. A killed process keeps the name until its last thread has ended, so a
    /// name that is taken is tried again for a while.
    ///
    /// # Errors
    /// If another process has the name.
    pub fn new(lab: &str) -> Result<Self> {
        let asked = Instant::now();
        loop {
            let claimed = open().and_then(|socket| {
                rustix::net::bind(&socket, &address(lab)?)?;
                rustix::net::listen(&socket, BACKLOG)?;
                Ok(socket)
            });
            match claimed {
                Ok(socket) => return Ok(Self { socket, seekers: Vec::new() }),
                Err(Errno::ADDRINUSE) if asked.elapsed() < FREED_WITHIN => {
                    std::thread::sleep(Duration::from_millis(20));
                }
                Err(Errno::ADDRINUSE) => {
                    return Err(Failure::missing(format!(
                        "lab up {lab}: another process builds or carries a lab of this name (see \
                            `linerate lab list`; end it with `linerate lab down {lab}`)"
                    )));
                }
                Err(cause) => {
                    let cause = io::Error::from(cause);
                    return Err(Failure::missing(format!("lab up {lab}: claim the name: {cause}")));
                }
            }
        }
    }

    /// Accepts commands that look for the lab, forgets those that have ended, and answers orders
    /// with what `carry_out` returns.
    pub fn answer(&mut self, mut carry_out: impl FnMut(&str) -> Result<(), String>) {
        while let Ok(seeker) = rustix::net::accept(&self.socket) {
            self.seekers.push(seeker);
        }
        self.seekers.retain(|seeker| {
            let mut order = [0; LONGEST];
            let length = match rustix::net::recv(seeker, &mut order, RecvFlags::DONTWAIT) {
                Err(Errno::AGAIN) => return true,
                Ok((_, length @ 1..)) => length,
                _ => return false,
            };
            let carried_out = match peer(seeker) {
                Ok(peer) if peer.user == 0 => {
                    carry_out(String::from_utf8_lossy(&order[..length]).trim_end())
                }
                _ => Err("labs are root's".to_owned()),
            };
            let answer = format!("{}\n", carried_out.err().unwrap_or_default());
            // A command that has gone needs no answer.
            let _gone = rustix::net::send(seeker, answer.as_bytes(), SendFlags::NOSIGNAL);
            true
        });
    }
}

/// Process that carries a lab.
pub struct Maker {
    /// Its number.
    pub pid: u32,
    /// It ends when the process does.
    connection: OwnedFd,
}

impl Maker {
    /// Returns the process that carries `lab`, or `None` if there is none.
    ///
    /// # Errors
    /// If it is not to be trusted or cannot be reached from here.
    pub fn of(lab: &str) -> Result<Option<Self>> {
        let failed = |cause: &str| Failure::missing(format!("find lab {lab}: {cause}"));
        let connection = match open().and_then(|socket| {
            rustix::net::connect(&socket, &address(lab)?)?;
            Ok(socket)
        }) {
            Ok(connection) => connection,
            Err(Errno::CONNREFUSED) => return Ok(None),
            Err(cause) => return Err(failed(&io::Error::from(cause).to_string())),
        };
        let found = peer(&connection).map_err(Failure::missing)?;
        // Anybody may listen under any name; labs are root's.
        if found.user != 0 {
            return Err(failed(&format!(
                "user {} listens in its place, which is not root",
                found.user
            )));
        }
        let pid = found.pid.ok_or_else(|| {
            failed("its process runs in a PID namespace that is not seen from here")
        })?;
        let maker = Self { pid, connection };
        if maker.is_alive() { Ok(Some(maker)) } else { Ok(None) }
    }

    /// Returns whether the process still runs. After its end the number may be another process's.
    pub fn is_alive(&self) -> bool {
        is_open(&self.connection)
    }

    /// Asks the process to end as an interrupt does.
    ///
    /// # Errors
    /// If it has ended.
    pub fn interrupt(&self) -> io::Result<()> {
        let pid = i32::try_from(self.pid).ok().and_then(Pid::from_raw).ok_or(Errno::SRCH)?;
        let process = pidfd_open(pid, PidfdFlags::empty())?;
        // It lives now, so that the descriptor is its own.
        if !self.is_alive() {
            return Err(Errno::SRCH.into());
        }
        Ok(pidfd_send_signal(&process, Signal::TERM)?)
    }

    /// Gives the process an order and waits until it has been carried out.
    ///
    /// # Errors
    /// Why it was not.
    pub fn order(&self, order: &str) -> Result<(), String> {
        let sent = format!("{order}\n");
        let mut answer = [0; LONGEST];
        let read = rustix::net::send(&self.connection, sent.as_bytes(), SendFlags::NOSIGNAL)
            .and_then(|_| {
                let mut readable = [PollFd::new(&self.connection, PollFlags::IN)];
                poll(&mut readable, Some(&ANSWERED_WITHIN))?;
                rustix::net::recv(&self.connection, &mut answer, RecvFlags::DONTWAIT)
            });
        match read {
            Ok((_, length @ 1..)) => {
                let why = String::from_utf8_lossy(&answer[..length]).trim_end().to_owned();
                if why.is_empty() { Ok(()) } else { Err(why) }
            }
            Ok(_) => Err("its process has ended".to_owned()),
            Err(Errno::AGAIN) => Err("its process does not answer".to_owned()),
            Err(cause) => Err(io::Error::from(cause).to_string()),
        }
    }

    /// Returns the folder with the names of its namespaces, as the process sees it.
    pub fn names(&self) -> PathBuf {
        PathBuf::from(format!("/proc/{}/root/run/netns", self.pid))
    }
}

/// Returns the names of the labs that a process carries.
pub fn carried() -> Vec<String> {
    let text = std::fs::read(LISTED).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    labs_in(&text).into_iter().map(str::to_owned).collect()
}

/// Returns the labs among the sockets in `text`.
fn labs_in(text: &str) -> BTreeSet<&str> {
    let names = text.lines().filter_map(|line| {
        line.split_whitespace().nth(7)?.strip_prefix('@')?.strip_prefix(SOCKETS)
    });
    names
        .filter(|name| !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric()))
        .collect()
}

/// Returns whether the other end of `connection` is there, of which no answer is awaited.
fn is_open(connection: &OwnedFd) -> bool {
    matches!(rustix::net::recv(connection, &mut [0; 1], RecvFlags::DONTWAIT), Err(Errno::AGAIN))
}

fn open() -> Result<OwnedFd, Errno> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)
}

fn address(lab: &str) -> Result<SocketAddrUnix, Errno> {
    SocketAddrUnix::new_abstract_name(format!("{SOCKETS}{lab}").as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labs_are_found_among_the_sockets_of_a_host() {
        let text = "Num       RefCount Protocol Flags    Type St Inode Path\n\
            0000000000000000: 00000002 00000000 00010000 0001 01 18923 \
            /run/dbus/system_bus_socket\n\
            0000000000000000: 00000002 00000000 00010000 0001 01 41 @linerate-lab-ncsi\n\
            0000000000000000: 00000003 00000000 00000000 0001 03 42 @linerate-lab-ncsi\n\
            0000000000000000: 00000002 00000000 00010000 0001 01 43 @linerate-lab-../x\n\
            0000000000000000: 00000003 00000000 00000000 0001 03 44\n";
        assert_eq!(labs_in(text), BTreeSet::from(["ncsi"]));
    }

    #[test]
    fn a_name_is_claimed_once_and_is_free_when_its_claim_goes() {
        let lab = format!("t{}", std::process::id());
        assert!(Maker::of(&lab).is_ok_and(|maker| maker.is_none()));
        let mut claim = Claim::new(&lab).expect("nobody has it");
        assert!(Claim::new(&lab).is_err());
        assert!(carried().contains(&lab));
        if rustix::process::geteuid().is_root() {
            let maker = Maker::of(&lab).ok().flatten().expect("it listens");
            claim.answer(|order| panic!("{order}: nobody gave one"));
            assert_eq!((maker.pid, maker.is_alive()), (std::process::id(), true));
            let answers = std::thread::spawn(move || {
                let asked = Instant::now();
                let mut orders = Vec::new();
                while orders.len() < 2 {
                    assert!(asked.elapsed() < Duration::from_secs(5), "{orders:?}");
                    claim.answer(|order| {
                        orders.push(order.to_owned());
                        if order == "one" { Ok(()) } else { Err("no".to_owned()) }
                    });
                }
                (claim, orders)
            });
            assert_eq!([maker.order("one"), maker.order("two")], [Ok(()), Err("no".to_owned())]);
            let (claim, orders) = answers.join().expect("both arrived");
            assert_eq!((orders, maker.is_alive()), (vec!["one".into(), "two".into()], true));
            drop(claim);
            assert!(!maker.is_alive());
        } else {
            assert!(Maker::of(&lab).is_err(), "it is not root's");
            drop(claim);
        }
        assert!(Claim::new(&lab).is_ok());
    }
}
