//! One session at the agent's end: greet, take the conductor's place, carry out its trials, give
//! the place up.

use std::net::IpAddr;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use linerate_disk::Disks;
use linerate_model::TrialId;

use super::presence::{PAUSE, Presence, Question};
use super::trial::{self, Command};
use super::{Current, ForGood, Shared};
use crate::frames::{FrameReader, write};
use crate::link::{Channel, Heard, Link, Outbox};
use crate::strangers::Ticket;
use crate::wire::{
    Branches, Greeting, HelloRole, Message, ORDER_LIMIT, PROTOCOL_MAGIC, PROTOCOL_VERSION, Prepare,
    RELEASE, RouteDevice, printable,
};

/// Serves the conductor at the other end of `channel` until it says goodbye, is lost, or is sent
/// away.
pub(super) fn serve(shared: &Arc<Shared>, mut channel: Channel, ticket: Option<Ticket>) {
    let mut reader =
        FrameReader::new(std::mem::replace(&mut channel.reader, Box::new(std::io::empty())));
    let peer = channel.peer.clone();
    let greeting = match greet(&mut reader) {
        Ok(greeting) => greeting,
        Err(refusal) => {
            shared.reject(&peer, &refusal.why);
            if let Some(answer) = refusal.answer {
                // It is being turned away; whether it hears why is up to it.
                let _ = write(&mut *channel.writer, &answer);
            }
            (channel.closer)();
            return;
        }
    };
    let called = printable(&greeting.name);
    let by = format!("{} ({peer})", if called.is_empty() { "a conductor" } else { &called });
    if let Some(destinations) = &greeting.asks {
        drop(ticket);
        return tell(shared, channel, destinations, &by);
    }
    if greeting.tunes {
        drop(ticket);
        return tune(shared, reader, channel, &greeting, by);
    }
    let Some(place) = SessionPlace::take(shared, &channel, &greeting, &by) else {
        let busy = shared
            .current()
            .as_ref()
            .map(|current| (current.by.clone(), current.since.elapsed().as_secs()));
        let (other, since_s) = busy.unwrap_or_default();
        (shared.options.notify)(&format!("told {by} that this agent is busy with {other}"));
        let _ = write(&mut *channel.writer, &Message::Busy { by: other, since_s });
        (channel.closer)();
        return;
    };
    drop(ticket);
    (shared.options.notify)(&format!("serving {by}"));
    let mut answer = Greeting::new(HelloRole::Agent, &shared.options.name);
    answer.facts = shared.facts();
    if write(&mut *channel.writer, &Message::Hello(Box::new(answer))).is_ok() {
        reader.trust(ORDER_LIMIT);
        channel.deadline.lift();
        let mut running = None;
        // Held from the first trial that writes to them to the end of the session.
        let disks = Arc::new(shared.disks());
        let why = converse(reader, channel, |heard, outbox| {
            place.reached_by(outbox);
            follow(shared, &disks, heard, outbox, &mut running)
        });
        if let Some(running) = running.take() {
            running.abort(shared);
        }
        (shared.options.notify)(&format!("done with {by}: {why}"));
    } else {
        (channel.closer)();
    }
    drop(place);
}

/// Tells a conductor what this host is and by which devices it reaches `destinations`, beside
/// whoever is served.
fn tell(shared: &Shared, mut channel: Channel, destinations: &[IpAddr], by: &str) {
    /// A testbed has no more ends.
    const MOST: usize = 64;
    let mut answer = Greeting::new(HelloRole::Agent, &shared.options.name);
    answer.facts = shared.facts();
    for destination in destinations.iter().take(MOST).copied() {
        // Without a route there is nothing to tell; the first trial says what that means.
        let Ok(way) = linerate_observe::towards(destination) else { continue };
        answer.routes.extend(way.device.map(|device| RouteDevice { destination, device }));
        if !way.branches.is_empty() {
            answer.branches.push(Branches { destination, devices: way.branches });
        }
    }
    // Whoever asked may have left.
    let _ = write(&mut *channel.writer, &Message::Hello(Box::new(answer)));
    (channel.closer)();
    (shared.options.notify)(&format!("told {by} what this host is"));
}

/// Serves a conductor that changes settings, beside the one that measures; what it has changed is
/// put back when it leaves.
fn tune(
    shared: &Arc<Shared>,
    mut reader: FrameReader,
    mut channel: Channel,
    greeting: &Greeting,
    by: String,
) {
    let Some(place) = TunerPlace::take(shared, &channel, greeting, &by) else {
        let busy = shared
            .tuner()
            .as_ref()
            .map(|current| (current.by.clone(), current.since.elapsed().as_secs()));
        let (other, since_s) = busy.unwrap_or_default();
        let _ = write(&mut *channel.writer, &Message::Busy { by: other, since_s });
        (channel.closer)();
        return;
    };
    let answer = Greeting::new(HelloRole::Agent, &shared.options.name);
    if write(&mut *channel.writer, &Message::Hello(Box::new(answer))).is_err() {
        (channel.closer)();
        return;
    }
    (shared.options.notify)(&format!("{by} may ask for settings of this host"));
    reader.trust(ORDER_LIMIT);
    channel.deadline.lift();
    let why = converse(reader, channel, |heard, outbox| follow_tuner(shared, heard, outbox));
    drop(place);
    (shared.options.notify)(&format!("done with settings for {by}: {why}"));
}

/// The place of the one conductor that changes settings; given up, and everything put back, when
/// dropped.
struct TunerPlace<'a>(&'a Shared);

impl<'a> TunerPlace<'a> {
    fn take(shared: &'a Shared, channel: &Channel, greeting: &Greeting, by: &str) -> Option<Self> {
        /// One who has said goodbye may still be putting back.
        const PATIENCE: Duration = Duration::from_secs(1);
        let taken = |tuner: &mut Option<Current>| tuner.is_some();
        let waited = shared.tuner_released.wait_timeout_while(shared.tuner(), PATIENCE, taken);
        let (mut tuner, waited) = waited.unwrap_or_else(PoisonError::into_inner);
        if waited.timed_out() {
            return None;
        }
        *tuner = Some(Current::new(channel, greeting, by));
        Some(Self(shared))
    }
}

impl Drop for TunerPlace<'_> {
    fn drop(&mut self) {
        for left in self.0.put_back(ForGood::No) {
            (self.0.options.notify)(&left);
        }
        *self.0.tuner() = None;
        self.0.tuner_released.notify_all();
    }
}

fn follow_tuner(shared: &Shared, heard: &Receiver<Heard>, outbox: &Outbox) -> String {
    loop {
        match next(shared, heard) {
            Ok(Message::Goodbye) => return "it said goodbye".into(),
            Ok(Message::Tune { n, request }) => {
                let (states, failed) = match shared.tune(request) {
                    Ok(states) => (states, None),
                    Err(why) => (Vec::new(), Some(why)),
                };
                outbox.send(Message::Tuned { n, states, failed });
            }
            // Pings were answered where they were heard.
            Ok(_) => {}
            Err(why) => return why,
        }
    }
}

/// The next message of the session; why there is none if it has ended.
fn next(shared: &Shared, heard: &Receiver<Heard>) -> Result<Message, String> {
    match heard.recv_timeout(shared.options.timeouts.silence) {
        Ok(Heard::Message(message, ..)) => Ok(*message),
        Ok(Heard::Ended(error)) => Err(error.to_string()),
        Err(RecvTimeoutError::Timeout) => Err("the conductor was silent for too long".into()),
        Err(RecvTimeoutError::Disconnected) => Err("the connection was closed".into()),
    }
}

/// Why a peer is turned away, and what it is told.
struct Refusal {
    why: String,
    answer: Option<Message>,
}

fn greet(reader: &mut FrameReader) -> Result<Greeting, Refusal> {
    let refused = |why: String| {
        let answer = Message::Refused {
            version: PROTOCOL_VERSION,
            release: RELEASE.into(),
            why: why.clone(),
        };
        Refusal { why, answer: Some(answer) }
    };
    match reader.next() {
        Ok(Message::Hello(greeting)) if greeting.magic != PROTOCOL_MAGIC => {
            Err(refused(format!("`{}` is not this protocol", printable(&greeting.magic))))
        }
        Ok(Message::Hello(greeting)) if greeting.version != PROTOCOL_VERSION => {
            Err(refused(format!(
                "the conductor speaks control protocol {} (linerate {}), this agent speaks \
                    {PROTOCOL_VERSION} (linerate \
             {RELEASE}); install the same linerate release on both hosts",
                greeting.version,
                printable(&greeting.release)
            )))
        }
        Ok(Message::Hello(greeting)) if greeting.role != HelloRole::Conductor => Err(refused(
            "this is an agent, it serves conductors (nobody offers to be paired here)".into(),
        )),
        Ok(Message::Hello(greeting)) => Ok(*greeting),
        Ok(_) => Err(refused("the first message must be a greeting".into())),
        Err(error) => Err(Refusal { why: error.to_string(), answer: None }),
    }
}

/// The conductor's place at this agent; given up when dropped.
struct SessionPlace<'a>(&'a Shared);

impl<'a> SessionPlace<'a> {
    /// Takes it if it is free. A session of the same campaign and key that is still there is a
    /// stale one of this very conductor, which lost its connection before we noticed: it is cut off
    /// and waited for. So is one whose host is gone.
    fn take(shared: &'a Shared, channel: &Channel, greeting: &Greeting, by: &str) -> Option<Self> {
        let until = Instant::now() + shared.options.timeouts.handshake;
        let is_same = |other: &Current| {
            !greeting.campaign.is_empty()
                && other.campaign == greeting.campaign
                && other.key == channel.key
        };
        let mut current = shared.current();
        let mut asked: Option<(Instant, Question)> = None;
        while let Some(other) = current.as_ref() {
            let now = Instant::now();
            let left = until.saturating_duration_since(now);
            if left.is_zero() {
                return None;
            }
            let mut pause = left;
            if is_same(other) {
                (other.closer)();
            } else {
                let beat = other.pulse.as_ref().and_then(|pulse| pulse());
                let (of, question) =
                    *asked.get_or_insert_with(|| (other.since, Question::new(beat, now)));
                if of != other.since {
                    // Somebody else was faster, and has just been here.
                    return None;
                }
                match (question.answer(beat, now), &other.outbox) {
                    (Presence::Here, _) | (_, None) => return None,
                    (Presence::Gone, _) => {
                        (shared.options.notify)(&format!(
                            "the host of {} is gone: {by} takes its place",
                            other.by
                        ));
                        (other.closer)();
                    }
                    (Presence::Asked, Some(outbox)) => {
                        outbox.try_send(NUDGE);
                        pause = PAUSE.min(left);
                    }
                }
            }
            current = shared
                .released
                .wait_timeout(current, pause)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
        *current = Some(Current::new(channel, greeting, by));
        Some(Self(shared))
    }

    /// The session has begun: from now on its conductor can be asked whether it is there.
    fn reached_by(&self, outbox: &Outbox) {
        if let Some(current) = self.0.current().as_mut() {
            current.outbox = Some(outbox.clone());
        }
    }
}

/// What is said to a conductor to learn whether its host acknowledges it: an answer to a ping that
/// nobody sent.
const NUDGE: Message = Message::Pong { n: u64::MAX, clock_ns: 0, sent_ns: 0, answered_ns: 0 };

impl Drop for SessionPlace<'_> {
    fn drop(&mut self) {
        *self.0.current() = None;
        self.0.released.notify_all();
    }
}

/// How long a session waits for a trial that was told to end.
const ABORT_PATIENCE: Duration = Duration::from_millis(500);
/// How often it looks.
const ABORT_LOOK: Duration = Duration::from_millis(2);
/// Orders that wait for a trial at most: connect, start and abort. Of a conductor that says more
/// meanwhile, nothing is kept: its orders come out of turn anyway, and each may be megabytes long.
const ORDERS: usize = 3;
/// Trials that may be ending by themselves while others are carried out.
const LEFTOVERS: usize = 4;

/// A trial under way on its own thread.
struct Running {
    trial: TrialId,
    commands: SyncSender<Command>,
    thread: JoinHandle<()>,
}

impl Running {
    fn start(
        shared: &Arc<Shared>,
        disks: &Arc<Disks>,
        prepare: Prepare,
        outbox: &Outbox,
    ) -> std::io::Result<Self> {
        let left = shared.leftovers().iter().filter(|thread| !thread.is_finished()).count();
        if left >= LEFTOVERS {
            let why =
                format!("{left} earlier trials were given up and still end; try again in a minute");
            return Err(std::io::Error::other(why));
        }
        let trial = prepare.trial;
        let (commands, orders) = sync_channel(ORDERS);
        let (shared, disks, outbox) = (Arc::clone(shared), Arc::clone(disks), outbox.clone());
        let thread = thread::Builder::new()
            .name("linerate-trial".into())
            .spawn(move || trial::run(&shared, &disks, &prepare, &orders, &outbox))?;
        Ok(Self { trial, commands, thread })
    }

    /// Gives an order; a trial that has ended already takes none, nor does one for which [`ORDERS`]
    /// wait.
    fn order(&self, command: Command) {
        let _refused = self.commands.try_send(command);
    }

    /// Ends it. A trial that waits for its other end or fills a disk hears that late: it is left to
    /// end by itself, and the agent goes on without it.
    fn abort(self, shared: &Shared) {
        self.order(Command::Abort);
        let until = Instant::now() + ABORT_PATIENCE;
        while !self.thread.is_finished() && Instant::now() < until {
            thread::sleep(ABORT_LOOK);
        }
        let mut leftovers = shared.leftovers();
        leftovers.retain(|thread| !thread.is_finished());
        if !self.thread.is_finished() {
            leftovers.push(self.thread);
        }
    }
}

/// Hears and answers until the session ends; says why it did.
fn converse(
    reader: FrameReader,
    channel: Channel,
    mut follow: impl FnMut(&Receiver<Heard>, &Outbox) -> String,
) -> String {
    let (inputs, heard) = std::sync::mpsc::channel();
    let link = Link::start(reader, channel.writer, channel.closer, move |heard, outbox| {
        if let Heard::Message(message, at, _) = &heard
            && let Message::Ping { n, sent_ns } = **message
        {
            // Answered here: every further hop would widen the uncertainty of the clock offset.
            outbox.offer(Message::Pong { n, clock_ns: at.0, sent_ns, answered_ns: 0 });
        }
        inputs.send(heard).is_ok()
    });
    let link = match link {
        Ok(link) => link,
        Err(error) => return format!("no thread for the session: {error}"),
    };
    let why = follow(&heard, &link.outbox);
    link.finish();
    why
}

fn follow(
    shared: &Arc<Shared>,
    disks: &Arc<Disks>,
    heard: &Receiver<Heard>,
    outbox: &Outbox,
    running: &mut Option<Running>,
) -> String {
    loop {
        let message = match next(shared, heard) {
            Ok(message) => message,
            Err(why) => return why,
        };
        let trial = running.as_ref().map(|running| running.trial);
        match (message, running.as_ref()) {
            (Message::Goodbye, _) => return "it said goodbye".into(),
            (Message::Prepare(prepare), _) => {
                if let Some(earlier) = running.take() {
                    earlier.abort(shared);
                }
                let trial = prepare.trial;
                match Running::start(shared, disks, *prepare, outbox) {
                    Ok(started) => *running = Some(started),
                    Err(error) => {
                        let failed = Some(format!("start a thread for the trial: {error}"));
                        outbox.send(Message::Done { trial, started_ns: Vec::new(), failed });
                    }
                }
            }
            (Message::Connect { trial: of, offers }, Some(running)) if Some(of) == trial => {
                running.order(Command::Connect(offers));
            }
            (Message::StartAt { trial: of, clock_ns }, Some(running)) if Some(of) == trial => {
                running.order(Command::StartAt(clock_ns));
            }
            (Message::Abort { trial: of }, Some(_)) if Some(of) == trial => {
                if let Some(running) = running.as_ref() {
                    running.order(Command::Abort);
                }
            }
            // Orders for a trial that is not under way, pings (answered where they were heard), and
            // what newer conductors may say.
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_that_a_trial_has_no_time_for_are_not_kept() {
        let (commands, orders) = sync_channel(ORDERS);
        let running = Running { trial: TrialId(1), commands, thread: thread::spawn(|| ()) };
        for _ in 0..1_000 {
            running.order(Command::Connect(Vec::new()));
        }
        assert_eq!(orders.try_iter().count(), ORDERS);
        running.order(Command::Abort);
        assert!(matches!(orders.try_recv(), Ok(Command::Abort)), "one that has time again is told");
    }
}
