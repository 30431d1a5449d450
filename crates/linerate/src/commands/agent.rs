//! `linerate agent`: the agent of this host, which other hosts measure with.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use linerate_campaign::policy::{Policy, Separation};
use linerate_campaign::separation::Separated;
use linerate_campaign::{keys, testbeds};
use linerate_control::{Access, Agent, AgentOptions, Consent, Right, restore};
use linerate_disk::Writable;

use crate::args::{AgentArgs, Global};
use crate::exit::{Exit, Failure, Outcome};

/// Serves conductors until it is interrupted, or one of them on the standard streams until it
/// leaves.
pub(crate) fn run(args: &AgentArgs, global: Global) -> Outcome {
    if args.pair {
        pair_first(args)?;
    }
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    // Through ssh, the lines would appear on the conductor's terminal.
    let quiet = global.quiet || args.stdio;
    let notify = Arc::new(move |line: &str| {
        if !quiet {
            eprintln!("{line}");
        }
    });
    let mut policy = Policy::chosen(args.policy.as_deref(), args.stdio)?;
    // Options add consents and never remove a limit of the file.
    policy.tune.extend(args.allow_tune.iter().cloned());
    policy.write.extend(args.allow_write.iter().cloned());
    policy.serve.extend(args.allow_serve.iter().cloned());
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
        Ok(restored) => {
            restored.into_iter().filter_map(super::tune::line).for_each(|line| eprintln!("{line}"))
        }
        Err(why) => eprintln!("{why}"),
    }
    let changes = !policy.tune.is_empty();
    // ssh has authenticated already, so no keys are opened.
    let store = if args.stdio { None } else { Some(keys::open(args.keys.clone())?) };
    let Policy { permits, files, memory, write, serve: served, local_users, separation, .. } =
        policy;
    let mut options = AgentOptions {
        name,
        notify,
        consent,
        writable: Writable::Listed(write),
        served,
        permits,
        local_users,
        files,
        memory,
        ..AgentOptions::default()
    };
    // The broker starts first, while the process has one thread and all rights.
    let separated = match separation {
        Separation::Separated(user) => {
            let report = |line: &str| eprintln!("{line}");
            Some(Separated::begin(&mut options, store.as_ref(), user.as_deref(), report)?)
        }
        Separation::None => None,
    };
    let agent = Agent::new(options);
    if args.stdio {
        // No socket is bound on standard streams, so nothing needs the rights any longer.
        separated.as_ref().map(Separated::confine).transpose()?;
        return serve_stdio(&agent, changes);
    }
    let store = store.expect("it was opened unless the streams are served");
    let paired = store.peers()?.iter().any(|peer| peer.may(Right::Conduct));
    let address = match &args.listen {
        Some(text) => testbeds::resolve_listen(text, testbeds::AGENT_PORT)?,
        None if paired => SocketAddr::from((Ipv6Addr::UNSPECIFIED, testbeds::AGENT_PORT)),
        None => SocketAddr::from((Ipv4Addr::LOCALHOST, testbeds::AGENT_PORT)),
    };
    if !paired && !address.ip().is_loopback() {
        return Err(Failure::missing(format!(
            "listen on {address}: no paired key, and without one an agent listens on loopback \
                only (pair first: `linerate agent --pair`)"
        )));
    }
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
    if changes {
        put_back_on_interrupt(&agent)?;
    }
    if !global.quiet {
        let who = if paired {
            "paired hosts"
        } else {
            "this user and root on this host only (no paired key)"
        };
        // Tests and scripts wait for this line before they connect.
        eprintln!("listening on {}, for {who}\n{rights}", serving.address());
    }
    if args.one_off {
        serving.run_once();
    } else {
        serving.run();
    }
    Ok(Exit::Done)
}

/// Waits in a process of its own until a host has been paired at the agent's port. The agent itself
/// never accepts a key that it does not know.
fn pair_first(args: &AgentArgs) -> Result<(), Failure> {
    let failed = |cause: &dyn std::fmt::Display| {
        Failure::missing(format!("wait for a host to be paired: {cause}"))
    };
    let program = std::env::current_exe().map_err(|error| failed(&error))?;
    let everywhere = SocketAddr::from((Ipv6Addr::UNSPECIFIED, testbeds::AGENT_PORT)).to_string();
    let mut command = Command::new(program);
    command.args(["pair", "offer", "--for-agent", "--listen"]);
    command.arg(args.listen.as_ref().unwrap_or(&everywhere));
    if let Some(keys) = &args.keys {
        command.arg("--keys").arg(keys);
    }
    let ended = command.status().map_err(|error| failed(&error))?;
    // The other process has printed the reason.
    if ended.success() { Ok(()) } else { Err(failed(&"no host was paired")) }
}

fn serve_stdio(agent: &Agent, changes: bool) -> Outcome {
    if changes {
        put_back_on_interrupt(agent)?;
    }
    agent.serve_stdio();
    Ok(Exit::Done)
}

/// Puts back a conductor's changes on SIGINT and SIGTERM before the process ends.
fn put_back_on_interrupt(agent: &Agent) -> Result<(), Failure> {
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
        agent.put_back().iter().for_each(|left| eprintln!("{left}"));
        std::process::exit(Exit::Interrupted.code().into())
    });
    Ok(())
}

/// Supervises an agent: waits until the pipe to it ends, and puts back the settings that it left
/// changed. The kernel closes the pipe however the agent ends.
pub(crate) fn restore_at_end() -> Outcome {
    linerate_sys::signal::note_interrupts().map_err(Failure::missing)?;
    // No data comes: the end of the pipe is the message.
    let _end = std::io::copy(&mut std::io::stdin().lock(), &mut std::io::sink());
    restore(&Consent::default().journals).map_err(Failure::missing)?;
    Ok(Exit::Done)
}
