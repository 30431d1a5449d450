//! Session that changes settings of an agent's host, beside the campaigns that measure their
//! effect.
//!
//! The agent puts everything back when this session ends: by a goodbye, by a lost connection, or
//! because the conductor was killed. Only [`Tuner::keep`] makes a change permanent.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use linerate_model::HostAddress;

use super::runner::greet;
use crate::link::{Heard, Link, Outbox};
use crate::wire::{Greeting, HelloRole, Message, Setting, SettingState, TuneRequest, printable};
use crate::{Agent, AgentOptions, ControlError, KeyStore, Result, Timeouts};

/// Longest time for a change of a few settings.
const PATIENCE: Duration = Duration::from_secs(10);

/// Open session with the agent of one host.
pub struct Tuner {
    host: String,
    link: Option<Link>,
    heard: Receiver<Heard>,
    n: u64,
    /// The heartbeat ends when this is dropped.
    _alive: Sender<()>,
}

impl std::fmt::Debug for Tuner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Tuner({}, {} requests)", self.host, self.n)
    }
}

impl Tuner {
    /// Opens a session with the agent of `host`. `name` is this conductor's name in the agent's
    /// log.
    ///
    /// # Errors
    /// If the agent cannot be reached, refuses this host, or another conductor changes its
    /// settings.
    pub fn open(
        host: &str,
        address: &HostAddress,
        keys: Option<&KeyStore>,
        name: &str,
    ) -> Result<Self> {
        let timeouts = Timeouts::default();
        let mut ours = Greeting::new(HelloRole::Conductor, name);
        ours.tunes = true;
        // The owner of this process has consented to no changes.
        let in_process = Agent::new(AgentOptions::default());
        let greeted = greet(host, address, keys, &in_process, &timeouts, ours)?;
        let operation = "start threads for the session with";
        let broken = |cause| ControlError::Io { operation, host: host.into(), cause };
        let (hear, heard) = channel();
        let (writer, closer) = (greeted.channel.writer, greeted.channel.closer);
        let link =
            Link::start(greeted.reader, writer, closer, move |heard, _| hear.send(heard).is_ok());
        let link = link.map_err(broken)?;
        let (alive, ended) = channel();
        let outbox = link.outbox.clone();
        let heartbeat = move || beat(&outbox, &ended, timeouts.heartbeat);
        thread::Builder::new()
            .name("linerate-heartbeat".into())
            .spawn(heartbeat)
            .map_err(broken)?;
        Ok(Self { host: host.to_owned(), link: Some(link), heard, n: 0, _alive: alive })
    }

    /// Reads the present values of `settings`.
    ///
    /// # Errors
    /// If the session has ended, or the agent cannot read them.
    pub fn read(&mut self, settings: Vec<Setting>) -> Result<Vec<SettingState>> {
        self.ask(TuneRequest::Read(settings))
    }

    /// Applies `settings`, all or none. Returns their values afterwards.
    ///
    /// # Errors
    /// If the session has ended, or the agent may not or cannot apply them.
    pub fn apply(&mut self, settings: Vec<Setting>) -> Result<Vec<SettingState>> {
        self.ask(TuneRequest::Apply(settings))
    }

    /// Puts back every setting that was changed in this session.
    ///
    /// # Errors
    /// If the session has ended (the agent has then put everything back), or a setting could not be
    /// put back.
    pub fn revert(&mut self) -> Result<()> {
        self.ask(TuneRequest::Revert).map(drop)
    }

    /// Makes all changes permanent: they stay when the session ends.
    ///
    /// # Errors
    /// If the session has ended: the agent has then put everything back.
    pub fn keep(&mut self) -> Result<()> {
        self.ask(TuneRequest::Keep).map(drop)
    }

    fn ask(&mut self, request: TuneRequest) -> Result<Vec<SettingState>> {
        self.n += 1;
        let n = self.n;
        let lost = |why: String| ControlError::AgentLost { host: self.host.clone(), why };
        let sent =
            self.link.as_ref().is_some_and(|link| link.outbox.send(Message::Tune { n, request }));
        // The whole exchange is bounded: other messages may arrive in between.
        let until = Instant::now() + PATIENCE;
        if !sent {
            return Err(lost("its session about settings has ended".into()));
        }
        loop {
            match self.heard.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(Heard::Message(message, ..)) => match *message {
                    Message::Tuned { n: of, states, failed } if of == n => {
                        return failed.map_or(Ok(states), |why| {
                            let (host, why) = (self.host.clone(), printable(&why));
                            Err(ControlError::Setting { host, why })
                        });
                    }
                    _ => {}
                },
                Ok(Heard::Ended(error)) => return Err(lost(error.to_string())),
                Err(RecvTimeoutError::Timeout) => {
                    return Err(lost("it did not answer a request for settings".into()));
                }
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(lost("its session about settings has ended".into()));
                }
            }
        }
    }
}

impl Drop for Tuner {
    fn drop(&mut self) {
        if let Some(link) = self.link.take() {
            link.outbox.offer(Message::Goodbye);
            link.finish();
        }
    }
}

/// Sends heartbeats to the agent until the session is dropped.
fn beat(outbox: &Outbox, ended: &Receiver<()>, period: Duration) {
    let mut n = 0;
    while matches!(ended.recv_timeout(period), Err(RecvTimeoutError::Timeout)) {
        n += 1;
        if !outbox.offer(Message::Ping { n, sent_ns: 0 }) {
            break;
        }
    }
}
