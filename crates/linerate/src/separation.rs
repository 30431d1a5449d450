//! An agent in two processes: the broker is split off first, then this one gives up its rights
//! ([`linerate_control::broker`]).

use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;

use linerate_control::{AgentOptions, Broker, Duties, KeyStore, broker};
use linerate_sys::sandbox::{self, Account, Confined, Confinement, Locking};
use linerate_sys::{privilege, signal};

use crate::exit::{Exit, Failure, code};
use crate::policy::USERS;

/// The broker's name among processes.
const BROKER: &str = "linerate-broker";
/// What loads and samplers read: what the kernel tells, how names are resolved, whom TLS trusts,
/// code that the C library loads to resolve names, and the names of network namespaces, by which a
/// lab is known. None of it holds a secret that others on this host may not read.
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
/// Devices that hold nothing.
const WRITABLE: [&str; 4] = ["/dev/null", "/dev/zero", "/dev/full", "/dev/urandom"];

/// This process, which is to give up its rights, and the way to its broker.
pub(crate) struct Separated {
    broker: Arc<Broker>,
    confinement: Confinement,
}

impl Separated {
    /// Splits off a broker with the duties that `options` describe, and has the agent ask it.
    /// Nothing is given up yet.
    pub(crate) fn begin(
        options: &mut AgentOptions,
        store: Option<&KeyStore>,
        user: Option<&str>,
    ) -> Result<Self, Failure> {
        let account = account(user)?;
        let (here, there) = UnixStream::pair()
            .map_err(|error| Failure::missing(format!("make a way to the broker: {error}")))?;
        let duties = Duties {
            permits: options.permits.clone(),
            files: options.files.clone(),
            writable: options.writable.clone(),
            consent: options.consent.clone(),
            memory: options.memory,
            keys: store.map(|store| store.directory().to_owned()),
            facts: options.facts,
        };
        sandbox::fork(BROKER, OwnedFd::from(there), |channel| keep(channel, duties))
            .map_err(Failure::missing)?;
        let broker = Arc::new(Broker::at(here));
        options.broker = Some(Arc::clone(&broker));
        Ok(Self { broker, confinement: confinement(account, &options.served) })
    }

    /// The way to the broker.
    pub(crate) fn broker(&self) -> Arc<Broker> {
        Arc::clone(&self.broker)
    }

    /// Gives up the rights of this process, and says what it has left.
    pub(crate) fn confine(&self) -> Result<String, Failure> {
        let confined = sandbox::confine(&self.confinement).map_err(Failure::missing)?;
        privilege::ask(self.broker());
        let broker = self.broker();
        let watch = std::thread::Builder::new().name("linerate-broker".into()).spawn(move || {
            broker.wait_for_end();
            // Half of an agent serves nobody well. Its service manager starts it again, and
            // settings come back.
            eprintln!("the broker of this agent has ended, and so does the agent");
            std::process::exit(code(Exit::Missing).into())
        });
        watch.map_err(|error| {
            Failure::missing(format!("start a thread that watches the broker: {error}"))
        })?;
        Ok(told(self.confinement.account.as_ref(), &confined))
    }
}

/// What the process that speaks with conductors keeps.
fn confinement(account: Option<Account>, served: &[PathBuf]) -> Confinement {
    Confinement {
        account,
        readable: READABLE.iter().map(PathBuf::from).chain(served.iter().cloned()).collect(),
        writable: WRITABLE.iter().map(PathBuf::from).collect(),
    }
}

/// What an agent started here would be.
pub(crate) struct Tried {
    /// Its rights, in a line.
    pub(crate) seen: String,
    /// What would separate it better, a sentence each; none if nothing is missing.
    pub(crate) remedies: Vec<String>,
}

/// Confines a process as an agent's, which then ends, and tells what it had left. This process must
/// have one thread.
///
/// # Errors
/// If an agent would not start: there is no user for it, or a right cannot be given up.
pub(crate) fn tried(user: Option<&str>) -> Result<Tried, Failure> {
    const TRIAL: &str = "linerate-trial";
    let confinement = confinement(account(user)?, &[]);
    let failed =
        |cause: &dyn std::fmt::Display| Failure::missing(format!("try to give up rights: {cause}"));
    let (mut here, there) = UnixStream::pair().map_err(|error| failed(&error))?;
    sandbox::fork(TRIAL, OwnedFd::from(there), move |channel| {
        let confined = sandbox::confine(&confinement).map_err(|error| error.to_string());
        let outcome = confined
            .map(|confined| (told(confinement.account.as_ref(), &confined), remedies(&confined)));
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

/// What this kernel lacks to confine a process wholly.
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

/// What the process that speaks with conductors is, in a line.
fn told(account: Option<&Account>, confined: &Confined) -> String {
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

/// The user to become: none if this process is not root's.
fn account(named: Option<&str>) -> Result<Option<Account>, Failure> {
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

/// The broker's life.
fn keep(channel: OwnedFd, duties: Duties) -> i32 {
    // It ends when the agent does, after the settings are back.
    let noted = signal::note_interrupts().map_err(|error| error.to_string());
    match noted.and_then(|()| broker::keep(channel, duties)) {
        Ok(()) => 0,
        Err(why) => {
            eprintln!("{BROKER}: {why}");
            code(Exit::Missing).into()
        }
    }
}
