//! Agent of this host: it serves with the rights of its policy, and puts back what it changed.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use linerate_control::{Access, Agent, AgentOptions, Consent, KeyStore, Restored, Right, restore};
use linerate_disk::Writable;
use linerate_model::AGENT_PORT;
use linerate_model::failure::{Exit, Failure, Result};

use crate::addresses::resolve_listen;
use crate::keys;
use crate::policy::{Policy, Separation};
use crate::separation::Separated;

/// Agent, as a person asked for it.
#[derive(Clone, Debug, Default)]
pub struct AgentQuestion {
    /// Address to listen on.
    pub listen: Option<String>,
    /// True to serve one conductor on standard input and output.
    pub on_stdio: bool,
    /// True to end after one campaign.
    pub is_one_off: bool,
    /// Folder of the keys.
    pub keys: Option<PathBuf>,
    /// File of the policy.
    pub policy: Option<PathBuf>,
    /// Further devices that may be tuned.
    pub tune: Vec<String>,
    /// Serial numbers of further disks that may be written to.
    pub write: Vec<String>,
    /// Further folders whose files may be served.
    pub serve: Vec<PathBuf>,
    /// True if only errors are reported.
    pub is_quiet: bool,
}

impl AgentQuestion {
    /// Returns the policy with the consents of the options, which never remove a limit of it.
    fn policy(&self) -> Result<Policy> {
        let mut policy = Policy::chosen(self.policy.as_deref(), self.on_stdio)?;
        policy.tune.extend(self.tune.iter().cloned());
        policy.write.extend(self.write.iter().cloned());
        policy.serve.extend(self.serve.iter().cloned());
        Ok(policy)
    }

    /// Returns the address to listen on, of a host that is `paired` or not.
    ///
    /// # Errors
    /// If strangers could reach an agent without keys.
    fn address(&self, paired: bool) -> Result<SocketAddr> {
        let address = match &self.listen {
            Some(text) => resolve_listen(text, AGENT_PORT)?,
            None if paired => SocketAddr::from((Ipv6Addr::UNSPECIFIED, AGENT_PORT)),
            None => SocketAddr::from((Ipv4Addr::LOCALHOST, AGENT_PORT)),
        };
        if !paired && !address.ip().is_loopback() {
            return Err(Failure::missing(format!(
                "listen on {address}: no paired key, and without one an agent listens on loopback \
                    only (pair first: `linerate agent --pair`)"
            )));
        }
        Ok(address)
    }
}

/// Serves conductors until it is interrupted, or one of them on the standard streams until it
/// leaves. Each line for a person goes to `report`.
///
/// # Errors
/// If the policy, the keys or the address cannot be used.
pub fn serve(question: &AgentQuestion, report: fn(&str)) -> Result<()> {
    // Through ssh, the lines would appear on the conductor's terminal.
    let is_quiet = question.is_quiet || question.on_stdio;
    let policy = question.policy()?;
    let mut consent = Consent::to(&policy.tune);
    // A change that the policy keeps needs no putting back.
    consent.keeping = policy.keeping.clone();
    let program = std::env::current_exe()
        .map_err(|error| Failure::missing(format!("find this program: {error}")))?;
    // A child puts settings back even if this process is killed.
    consent.supervisor = Some(vec![program.into(), "restore".into()]);
    // An agent that was killed here may have left settings changed. This one serves even if they
    // cannot be put back.
    match restore(&consent.journals) {
        Ok(changes) => {
            changes.into_iter().filter_map(restored).for_each(|line| report(&line));
        }
        Err(why) => report(&why),
    }
    let changes = !policy.tune.is_empty();
    // ssh has authenticated already, so no keys are opened.
    let store = if question.on_stdio { None } else { Some(keys::open(question.keys.clone())?) };
    let mut options = AgentOptions {
        name: keys::own_name(),
        notify: Arc::new(move |line: &str| {
            if !is_quiet {
                report(line);
            }
        }),
        consent,
        writable: Writable::Listed(policy.write),
        served: policy.serve,
        permits: policy.permits,
        local_users: policy.local_users,
        files: policy.files,
        memory: policy.memory,
        ..AgentOptions::default()
    };
    // The broker starts first, while the process has one thread and all rights.
    let separated = match policy.separation {
        Separation::Separated(user) => {
            Some(Separated::begin(&mut options, store.as_ref(), user.as_deref(), report)?)
        }
        Separation::None => None,
    };
    let agent = Agent::new(options);
    let Some(store) = store else {
        // No socket is bound on standard streams, so nothing needs the rights any longer.
        separated.as_ref().map(Separated::confine).transpose()?;
        if changes {
            put_back_on_interrupt(&agent, report)?;
        }
        agent.serve_stdio();
        return Ok(());
    };
    let paired = is_paired(&store)?;
    let address = question.address(paired)?;
    // After the separation, only the broker can read the keys.
    let store = separated.iter().fold(store, |store, separated| store.read_by(separated.broker()));
    let access = if paired { Access::Paired(store) } else { Access::Loopback };
    // Binding a low port needs a privilege, so it happens before the rights are dropped.
    let serving = agent.listen(address, access)?;
    let rights = match &separated {
        Some(separated) => separated.confine()?,
        None => {
            "not separated: this process has all rights of its account (`separate` in the policy)"
                .to_owned()
        }
    };
    // The kernel ends the first process of a container by no signal that it does not handle
    // (pid_namespaces(7)).
    if changes || std::process::id() == 1 {
        put_back_on_interrupt(&agent, report)?;
    }
    if !is_quiet {
        let who = match paired {
            true => "paired hosts",
            false => "this user and root on this host only (no paired key)",
        };
        // Tests and scripts wait for this line before they connect.
        report(&format!("listening on {}, for {who}\n{rights}", serving.address()));
    }
    if question.is_one_off {
        serving.run_once();
    } else {
        serving.run();
    }
    Ok(())
}

/// Returns what was done about a change that an agent left behind; `None` if nothing was.
#[must_use]
pub fn restored(restored: Restored) -> Option<String> {
    match restored {
        Restored::PutBack(what) => Some(format!("put back: {what}")),
        Restored::Untouched => None,
        Restored::Left(why) | Restored::Failed(why) => Some(why),
    }
}

fn is_paired(store: &KeyStore) -> Result<bool> {
    Ok(store.peers()?.iter().any(|peer| peer.may(Right::Conduct)))
}

/// Puts back a conductor's changes on SIGINT and SIGTERM before the process ends.
fn put_back_on_interrupt(agent: &Agent, report: fn(&str)) -> Result<()> {
    /// Interval between two looks for an interrupt.
    const POLL: Duration = Duration::from_millis(20);
    linerate_sys::signal::note_interrupts().map_err(Failure::missing)?;
    let agent = agent.clone();
    // The main thread serves and cannot look.
    std::thread::spawn(move || {
        while !linerate_sys::signal::interrupted() {
            std::thread::sleep(POLL);
        }
        // A setting that could not be put back is printed, because nobody else will report it.
        agent.put_back().iter().for_each(|left| report(left));
        std::process::exit(Exit::Interrupted.code().into())
    });
    Ok(())
}

/// Supervises an agent: waits until the pipe to it ends, and puts back the settings that it left
/// changed. The kernel closes the pipe however the agent ends.
///
/// # Errors
/// If a setting cannot be put back.
pub fn restore_at_end() -> Result<()> {
    linerate_sys::signal::note_interrupts().map_err(Failure::missing)?;
    // No data comes: the end of the pipe is the message.
    let _end = std::io::copy(&mut std::io::stdin().lock(), &mut std::io::sink());
    restore(&Consent::default().journals).map_err(Failure::missing)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_without_a_paired_key_listens_on_loopback_only() {
        let address = |listen: Option<&str>, paired| {
            let listen = listen.map(str::to_owned);
            AgentQuestion { listen, ..AgentQuestion::default() }.address(paired).ok()
        };
        let at = |text: &str| text.parse::<SocketAddr>().ok();
        assert_eq!(address(None, false), at("127.0.0.1:4777"));
        assert_eq!(address(None, true), at("[::]:4777"));
        assert_eq!(address(Some("192.0.2.7:99"), true), at("192.0.2.7:99"));
        assert_eq!(address(Some("127.0.0.1:99"), false), at("127.0.0.1:99"));
        assert_eq!(address(Some("192.0.2.7:99"), false), None);
    }

    #[test]
    fn a_person_reads_what_was_done_about_a_change_that_was_left_behind() {
        let lines = [
            Restored::PutBack("tcp_rmem on a".into()),
            Restored::Untouched,
            Restored::Left("another program has changed it".into()),
            Restored::Failed("permission denied".into()),
        ]
        .map(restored);
        let expected = [
            Some("put back: tcp_rmem on a"),
            None,
            Some("another program has changed it"),
            Some("permission denied"),
        ];
        assert_eq!(lines.each_ref().map(Option::as_deref), expected);
    }
}
