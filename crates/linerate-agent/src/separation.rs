//! Privilege separation of an agent: the broker starts first, then this process gives up its rights
//! ([`linerate_control::broker`]).

use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;

use linerate_control::{AgentOptions, Broker, Duties, KeyStore, broker};
use linerate_sys::sandbox::{self, Account, Confined, Confinement, Locking};
use linerate_sys::{privilege, signal};

use crate::policy::USERS;
use linerate_model::failure::{Exit, Failure, Result};

/// Process name of the broker.
const BROKER: &str = "linerate-broker";
/// Paths that loads and samplers read: kernel facts, name resolution with the code that the C
/// library loads for it, TLS trust anchors, and the names of network namespaces, which identify
/// labs. None holds a secret that other users of this host may not read.
const READABLE: [&str; 21] = [
    "/proc",
    "/sys",
    "/etc/resolv.conf",
    "/etc/hosts",
    "/etc/host.conf",
    "/etc/nsswitch.conf",
    "/etc/gai.conf",
    "/etc/services",
    "/etc/protocols",
    "/etc/localtime",
    "/etc/ld.so.cache",
    "/etc/ssl/certs",
    "/etc/pki",
    "/usr/share/ca-certificates",
    "/usr/local/share/ca-certificates",
    "/usr/share/zoneinfo",
    "/usr/lib",
    "/lib",
    "/lib64",
    "/run/systemd/resolve",
    "/run/netns",
];
/// Devices without content.
const WRITABLE: [&str; 4] = ["/dev/null", "/dev/zero", "/dev/full", "/dev/urandom"];

/// This process before it gives up its rights, and the channel to its broker.
pub struct Separated {
    broker: Arc<Broker>,
    confinement: Confinement,
    report: fn(&str),
}

impl Separated {
    /// Starts a broker with the duties in `options`, and makes the agent ask it. This process keeps
    /// its rights until [`Self::confine`]. `report` prints why the broker or the agent ended.
    ///
    /// # Errors
    /// If there is no user for the agent, or the broker cannot be started.
    pub fn begin(
        options: &mut AgentOptions,
        store: Option<&KeyStore>,
        user: Option<&str>,
        report: fn(&str),
    ) -> Result<Self> {
        let account = account(user)?;
        let (here, there) = UnixStream::pair()
            .map_err(|error| Failure::missing(format!("make a channel to the broker: {error}")))?;
        let duties = Duties {
            permits: options.permits.clone(),
            files: options.files.clone(),
            writable: options.writable.clone(),
            consent: options.consent.clone(),
            memory: options.memory,
            keys: store.map(|store| store.directory().to_owned()),
            facts: options.facts,
        };
        sandbox::fork(BROKER, OwnedFd::from(there), move |channel| keep(channel, duties, report))
            .map_err(Failure::missing)?;
        let broker = Arc::new(Broker::at(here));
        options.broker = Some(Arc::clone(&broker));
        Ok(Self { broker, confinement: confinement(account, &options.served), report })
    }

    /// Returns the channel to the broker.
    pub fn broker(&self) -> Arc<Broker> {
        Arc::clone(&self.broker)
    }

    /// Gives up the rights of this process. Returns the rights left, in one line.
    ///
    /// # Errors
    /// If a right cannot be dropped.
    pub fn confine(&self) -> Result<String> {
        let confined = sandbox::confine(&self.confinement).map_err(Failure::missing)?;
        privilege::ask(self.broker());
        let (broker, report) = (self.broker(), self.report);
        let watch = std::thread::Builder::new().name("linerate-broker".into()).spawn(move || {
            broker.wait_for_end();
            // An agent without its broker cannot restore settings. Its service manager starts both
            // again.
            report("the broker of this agent has ended: the agent ends, too");
            std::process::exit(Exit::Missing.code().into())
        });
        watch.map_err(|error| {
            Failure::missing(format!("start a thread that watches the broker: {error}"))
        })?;
        Ok(rights_line(self.confinement.account.as_ref(), &confined))
    }
}

/// Returns the rights that the process that serves conductors keeps.
fn confinement(account: Option<Account>, served: &[PathBuf]) -> Confinement {
    Confinement {
        account,
        readable: READABLE.iter().map(PathBuf::from).chain(served.iter().cloned()).collect(),
        writable: WRITABLE.iter().map(PathBuf::from).collect(),
    }
}

/// Rights of an agent that would be started here.
pub struct Tried {
    /// Its rights, in one line.
    pub seen: String,
    /// Remedies for a weaker separation, one sentence each.
    pub remedies: Vec<String>,
}

/// Confines a process as an agent would, ends it, and returns the rights that it had left. This
/// process must have one thread.
///
/// # Errors
/// If an agent would not start: there is no user for it, or a right cannot be dropped.
pub fn tried(user: Option<&str>) -> Result<Tried> {
    const TRIAL: &str = "linerate-trial";
    let confinement = confinement(account(user)?, &[]);
    let failed =
        |cause: &dyn std::fmt::Display| Failure::missing(format!("try to give up rights: {cause}"));
    let (mut here, there) = UnixStream::pair().map_err(|error| failed(&error))?;
    sandbox::fork(TRIAL, OwnedFd::from(there), move |channel| {
        let confined = sandbox::confine(&confinement).map_err(|error| error.to_string());
        let outcome = confined.map(|confined| {
            (rights_line(confinement.account.as_ref(), &confined), remedies(&confined))
        });
        let text = serde_json::to_vec(&outcome).expect("text and lists of it");
        i32::from(UnixStream::from(channel).write_all(&text).is_err())
    })
    .map_err(|error| failed(&error))?;
    let mut text = Vec::new();
    here.read_to_end(&mut text).map_err(|error| failed(&error))?;
    let outcome: Result<(String, Vec<String>), String> =
        serde_json::from_slice(&text).map_err(|error| failed(&error))?;
    let (seen, remedies) = outcome.map_err(|error| failed(&error))?;
    Ok(Tried { seen, remedies })
}

/// Returns the remedies where this kernel cannot confine a process fully.
fn remedies(confined: &Confined) -> Vec<String> {
    let landlock = confined.landlock.is_err().then(|| {
        "Landlock: a kernel from 5.13 on with CONFIG_SECURITY_LANDLOCK, and `landlock` in the list \
            `lsm=` of its command line"
            .to_owned()
    });
    let filter = confined.filter.is_err().then(|| {
        "a filter of system calls: a kernel with CONFIG_SECCOMP_FILTER, on a processor \
            that linerate has a filter for"
            .to_owned()
    });
    landlock.into_iter().chain(filter).collect()
}

/// Returns user and rights of the process that serves conductors, in one line.
fn rights_line(account: Option<&Account>, confined: &Confined) -> String {
    let user = account.map_or_else(
        || format!("user {}", rustix::process::geteuid().as_raw()),
        |account| format!("{} (user {})", account.name, account.user),
    );
    let landlock = match &confined.landlock {
        Ok(version) => format!("Landlock {version}"),
        Err(why) => format!("no Landlock ({why}): it may open what {user} may"),
    };
    let filter = match &confined.filter {
        Ok(()) => "a filter of system calls".to_owned(),
        Err(why) => format!("no filter of system calls ({why})"),
    };
    let capabilities = match confined.locking {
        Locking::Limit => "no capabilities",
        Locking::Capability => {
            "no capability but CAP_IPC_LOCK (without CAP_SYS_RESOURCE its limit cannot be raised)"
        }
    };
    format!("serving as {user}: {capabilities}, {landlock}, {filter}")
}

/// Returns the user to become; `None` if this process is not root's.
fn account(named: Option<&str>) -> Result<Option<Account>> {
    if !rustix::process::geteuid().is_root() {
        return Ok(None);
    }
    let names = named.map_or_else(|| USERS.to_vec(), |name| vec![name]);
    for name in &names {
        let found = Account::named(name).map_err(Failure::missing)?;
        match found {
            Some(account) if account.user == 0 => {
                return Err(Failure::wrong(format!(
                    "serve as {name}: that is root (name another `user` in the policy)"
                )));
            }
            Some(account) => return Ok(Some(account)),
            None => {}
        }
    }
    Err(Failure::missing(format!(
        "serve without the rights of root: there is no user {} (run `useradd --system linerate`, \
            or name a `user` in the policy)",
        names.join(" or ")
    )))
}

/// Runs the broker until the agent ends, and returns its exit code.
fn keep(channel: OwnedFd, duties: Duties, report: fn(&str)) -> i32 {
    // An interrupt is only noted: the broker ends after the agent, when the settings are back.
    let noted = signal::note_interrupts().map_err(|error| error.to_string());
    match noted.and_then(|()| broker::keep(channel, duties)) {
        Ok(()) => 0,
        Err(why) => {
            report(&format!("{BROKER}: {why}"));
            Exit::Missing.code().into()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_part_that_the_kernel_lacks_is_in_the_line_and_has_a_remedy() {
        let account = Account { name: "load".to_owned(), user: 7, group: 7 };
        let missing = || "an old kernel".to_owned();
        for (landlock, filter) in [(true, true), (true, false), (false, true), (false, false)] {
            let confined = Confined {
                landlock: landlock.then_some(4).ok_or_else(missing),
                filter: filter.then_some(()).ok_or_else(missing),
                locking: Locking::Limit,
            };
            let (line, remedies) = (rights_line(Some(&account), &confined), remedies(&confined));
            assert!(line.starts_with("serving as load (user 7): no capabilities, "), "{line}");
            assert_eq!(line.contains("Landlock 4"), landlock, "{line}");
            assert_eq!(line.contains("no filter of system calls (an old kernel)"), !filter);
            let named = |part: &str| remedies.iter().any(|remedy| remedy.contains(part));
            assert_eq!([named("LANDLOCK"), named("SECCOMP")], [!landlock, !filter]);
            assert_eq!(remedies.len(), 2 - usize::from(landlock) - usize::from(filter));
        }
    }
}
