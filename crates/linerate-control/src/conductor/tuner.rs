//! A session that changes settings of an agent's host, beside the campaigns that measure what comes
//! of it.
//!
//! The agent puts everything back when this session ends, however it ends: said goodbye to, cut
//! off, or silent because the conductor was killed. Only [`Tuner::keep`] makes a change stay.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use linerate_model::HostAddress;

use super::runner::greet;
use crate::link::{Heard, Link, Outbox};
use crate::wire::{Greeting, HelloRole, Message, Setting, SettingState, TuneRequest, printable};
use crate::{Agent, AgentOptions, ControlError, KeyStore, Timeouts};

/// How long a change of a few settings may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// An open session with the agent of one host.
pub struct Tuner {
    host: String,
    link: Option<Link>,
    heard: Receiver<Heard>,
    n: u64,
    /// Dropped to end the heartbeat.
    _alive: Sender<()>,
}

impl std::fmt::Debug for Tuner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Tuner({}, {} requests)", self.host, self.n)
    }
}

impl Tuner {
    /// Opens a session with the agent of `host`; `name` is what it is told of us.
    ///
    /// # Errors
    /// If it cannot be reached, does not let us in, or another conductor changes its settings.
    pub fn open(
        host: &str,
        address: &HostAddress,
        keys: Option<&KeyStore>,
        name: &str,
    ) -> Result<Self, ControlError> {
        let timeouts = Timeouts::default();
        let mut ours = Greeting::new(HelloRole::Conductor, name);
        ours.tunes = true;
        // An agent in this process has been asked nothing by its owner: it consents to nothing.
        let in_process = Agent::new(AgentOptions::default());
        let greeted = greet(host, address, keys, &in_process, &timeouts, ours)?;
        let broken = |cause| ControlError::Io {
            operation: "start threads for the session with",
            host: host.into(),
            cause,
        };
        let (tell, heard) = channel();
        let (writer, closer) = (greeted.channel.writer, greeted.channel.closer);
        let link =
            Link::start(greeted.reader, writer, closer, move |heard, _| tell.send(heard).is_ok());
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

    /// What the settings named are now.
    ///
    /// # Errors
    /// If the session has ended, or the agent cannot tell.
    pub fn read(&mut self, settings: Vec<Setting>) -> Result<Vec<SettingState>, ControlError> {
        self.ask(TuneRequest::Read(settings))
    }

    /// Makes the settings so, all or none.
    ///
    /// # Errors
    /// If the session has ended, or the agent was not told that it may, or cannot.
    pub fn apply(&mut self, settings: Vec<Setting>) -> Result<Vec<SettingState>, ControlError> {
        self.ask(TuneRequest::Apply(settings))
    }

    /// Puts back everything that was changed in this session.
    ///
    /// # Errors
    /// If the session has ended (then the agent has put it back by itself), or something could not
    /// be put back.
    pub fn revert(&mut self) -> Result<(), ControlError> {
        self.ask(TuneRequest::Revert).map(drop)
    }

    /// Lets what is changed stay as it is when the session ends.
    ///
    /// # Errors
    /// If the session has ended: then everything was put back.
    pub fn keep(&mut self) -> Result<(), ControlError> {
        self.ask(TuneRequest::Keep).map(drop)
    }

    fn ask(&mut self, request: TuneRequest) -> Result<Vec<SettingState>, ControlError> {
        self.n += 1;
        let n = self.n;
        let lost = |why: String| ControlError::AgentLost { host: self.host.clone(), why };
        let sent =
            self.link.as_ref().is_some_and(|link| link.outbox.send(Message::Tune { n, request }));
        let until = Instant::now() + PATIENCE;
        if !sent {
            return Err(lost("its session about settings has ended".into()));
        }
        loop {
            match self.heard.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(Heard::Message(message, ..)) => match *message {
                    Message::Tuned { n: of, states, failed } if of == n => {
                        let refused = |why: String| ControlError::Setting {
                            host: self.host.clone(),
                            why: printable(&why),
                        };
                        return failed.map_or(Ok(states), |why| Err(refused(why)));
                    }
                    _ => {}
                },
                Ok(Heard::Ended(error)) => return Err(lost(error.to_string())),
                Err(RecvTimeoutError::Timeout) => {
                    return Err(lost("it did not answer about its settings".into()));
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

/// Tells the agent that we are there, until the session is dropped.
fn beat(outbox: &Outbox, ended: &Receiver<()>, period: Duration) {
    let mut n = 0;
    while matches!(ended.recv_timeout(period), Err(RecvTimeoutError::Timeout)) {
        n += 1;
        if !outbox.offer(Message::Ping { n, sent_ns: 0 }) {
            break;
        }
    }
}
