//! One session at the agent's end: greets the conductor, takes a place for it, carries out its
//! trials and frees the place.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use linerate_disk::Disks;
use linerate_model::TrialId;

use super::links;
use super::parts::Part;
use super::place::{Holder, Patience, Seat};
use super::trial::{self, Command};
use super::{ForGood, Shared};
use crate::frames::{FrameReader, write};
use crate::link::{Channel, Heard, Link, Outbox};
use crate::strangers::Ticket;
use crate::wire::{
    Branches, Greeting, HelloRole, Message, ORDER_LIMIT, PROTOCOL_MAGIC, PROTOCOL_VERSION, Prepare,
    RELEASE, RouteDevice, Share, printable,
};

/// Serves the conductor at the other end of `channel` until the session ends.
pub(super) fn serve(shared: &Arc<Shared>, mut channel: Channel, ticket: Option<Ticket>) {
    let mut reader =
        // The channel keeps its writer and closer; only the reader moves.
        FrameReader::new(std::mem::replace(&mut channel.reader, Box::new(std::io::empty())));
    let peer = channel.peer.clone();
    let greeting = match greet(&mut reader) {
        Ok(greeting) => greeting,
        Err(refusal) => {
            shared.reject(&peer, &refusal.why);
            if let Some(answer) = refusal.answer {
                // The session ends here, whether the refusal arrives or not.
                let _ = write(&mut *channel.writer, &answer);
            }
            (channel.closer)();
            return;
        }
    };
    // The name goes to a log: it is a stranger's text.
    let called = printable(&greeting.name);
    let by = format!("{} ({peer})", if called.is_empty() { "a conductor" } else { &called });
    // Before any place is taken: a query must work while a campaign runs.
    if let Some(destinations) = &greeting.asks {
        drop(ticket);
        return answer(shared, channel, destinations, &by);
    }
    // A session that tunes has its own place, beside the one that measures.
    if greeting.tunes {
        drop(ticket);
        return tune(shared, reader, channel, &greeting, by);
    }
    let patience = Patience { present: Duration::ZERO, absent: shared.options.timeouts.handshake };
    let part = Part::of(greeting.share.as_ref(), channel.own);
    let newcomer = Holder::new(&channel, &greeting, &by, part);
    let seat = match shared.measuring.take(newcomer, patience, &*shared.options.notify) {
        Ok(seat) => seat,
        Err(busy) => {
            (shared.options.notify)(&format!("refused {by}: this agent is busy with {}", busy.by));
            let _ = write(&mut *channel.writer, &Message::from(busy));
            (channel.closer)();
            return;
        }
    };
    drop(ticket);
    (shared.options.notify)(&format!("serving {by}"));
    let mut answer = Greeting::new(HelloRole::Agent, &shared.options.name);
    answer.facts = shared.facts();
    let mut is_over = false;
    if write(&mut *channel.writer, &Message::Hello(Box::new(answer))).is_ok() {
        // Only now: a stranger may send no more than a greeting.
        reader.trust(ORDER_LIMIT);
        channel.deadline.lift();
        let mut running = None;
        // Claims last until the session ends, so that no other program takes a disk between trials.
        let disks = Arc::new(shared.disks());
        let session = Session { shared, disks, seat: &seat, own: channel.own };
        let why = converse(reader, channel, |heard, outbox| {
            seat.reached_by(outbox);
            session.follow(heard, outbox, &mut running)
        });
        if let Some(running) = running.take() {
            // A trial must not outlive its conductor: nobody would read its counts.
            running.abort(shared);
        }
        is_over = matches!(why, Left::Goodbye);
        (shared.options.notify)(&format!("done with {by}: {why}"));
    } else {
        (channel.closer)();
    }
    drop(seat);
    // A conductor whose connection broke comes back, and finds its campaign only here.
    let is_over = is_over && shared.measuring.state().holders().next().is_none();
    if let Some(service) = shared.once.get().filter(|_| is_over) {
        service.stop();
    }
}

/// How a session ended.
enum Left {
    /// The conductor said goodbye.
    Goodbye,
    /// The connection broke.
    Broken(String),
}

impl fmt::Display for Left {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Goodbye => f.write_str("it said goodbye"),
            Self::Broken(why) => f.write_str(why),
        }
    }
}

/// Sends a conductor this host's facts and the devices by which it reaches `destinations`. Needs
/// no place: the session of another conductor goes on.
fn answer(shared: &Shared, mut channel: Channel, destinations: &[IpAddr], by: &str) {
    /// More ends than any testbed has.
    const MOST: usize = 64;
    let mut answer = Greeting::new(HelloRole::Agent, &shared.options.name);
    answer.facts = shared.facts();
    for destination in destinations.iter().take(MOST).copied() {
        // A missing route is reported by the first trial that needs it.
        let Ok(way) = linerate_observe::towards(destination) else { continue };
        answer.routes.extend(way.device.map(|device| RouteDevice { destination, device }));
        if !way.branches.is_empty() {
            answer.branches.push(Branches { destination, devices: way.branches });
        }
    }
    // The conductor may have left already.
    let _ = write(&mut *channel.writer, &Message::Hello(Box::new(answer)));
    (channel.closer)();
    (shared.options.notify)(&format!("sent {by} the facts of this host"));
}

/// Serves a conductor that changes settings, beside the one that measures. Puts its changes back
/// when it leaves.
fn tune(
    shared: &Arc<Shared>,
    mut reader: FrameReader,
    mut channel: Channel,
    greeting: &Greeting,
    by: String,
) {
    let patience = Patience {
        // A conductor that has said goodbye may still be putting its settings back.
        present: Duration::from_secs(1),
        absent: shared.options.timeouts.handshake,
    };
    let newcomer = Holder::new(&channel, greeting, &by, Part::Whole);
    let tuning = match shared.tuning.take(newcomer, patience, &*shared.options.notify) {
        Ok(seat) => Tuning { shared, seat },
        Err(busy) => {
            let _ = write(&mut *channel.writer, &Message::from(busy));
            (channel.closer)();
            return;
        }
    };
    let answer = Greeting::new(HelloRole::Agent, &shared.options.name);
    if write(&mut *channel.writer, &Message::Hello(Box::new(answer))).is_err() {
        (channel.closer)();
        return;
    }
    (shared.options.notify)(&format!("{by} may request settings of this host"));
    reader.trust(ORDER_LIMIT);
    channel.deadline.lift();
    let why = converse(reader, channel, |heard, outbox| {
        tuning.seat.reached_by(outbox);
        follow_tuner(shared, heard, outbox)
    });
    drop(tuning);
    (shared.options.notify)(&format!("done with settings for {by}: {why}"));
}

/// Seat of the conductor that changes settings. Puts everything back when dropped, before another
/// conductor gets the seat.
struct Tuning<'a> {
    shared: &'a Shared,
    seat: Seat<'a>,
}

impl Drop for Tuning<'_> {
    fn drop(&mut self) {
        for left in self.shared.put_back(ForGood::No) {
            (self.shared.options.notify)(&left);
        }
    }
}

fn follow_tuner(shared: &Shared, heard: &Receiver<Heard>, outbox: &Outbox) -> Left {
    loop {
        match next(shared, heard) {
            Ok(Message::Goodbye) => return Left::Goodbye,
            Ok(Message::Tune { n, request }) => {
                let (states, failed) = match shared.tune(request) {
                    Ok(states) => (states, None),
                    Err(why) => (Vec::new(), Some(why)),
                };
                outbox.send(Message::Tuned { n, states, failed });
            }
            // The hearing thread has answered pings already.
            Ok(_) => {}
            Err(why) => return Left::Broken(why),
        }
    }
}

/// Returns the next message of the session, or the reason why it has ended.
fn next(shared: &Shared, heard: &Receiver<Heard>) -> Result<Message, String> {
    match heard.recv_timeout(shared.options.timeouts.silence) {
        Ok(Heard::Message(message, ..)) => Ok(*message),
        Ok(Heard::Ended(error)) => Err(error.to_string()),
        Err(RecvTimeoutError::Timeout) => {
            Err("nothing came from the conductor for too long".into())
        }
        Err(RecvTimeoutError::Disconnected) => Err("the connection was closed".into()),
    }
}

/// Reason to turn a peer away, and the message that it gets.
struct Refusal {
    why: String,
    answer: Option<Message>,
}

fn greet(reader: &mut FrameReader) -> Result<Greeting, Refusal> {
    fn refused(why: String) -> Refusal {
        // The refusal names both releases, so that a person knows what to install.
        let answer = Message::Refused {
            version: PROTOCOL_VERSION,
            release: RELEASE.into(),
            why: why.clone(),
        };
        Refusal { why, answer: Some(answer) }
    }
    match reader.next() {
        Ok(Message::Hello(greeting)) if greeting.magic != PROTOCOL_MAGIC => {
            Err(refused(format!("`{}` is not this protocol", printable(&greeting.magic))))
        }
        Ok(Message::Hello(greeting)) if greeting.version != PROTOCOL_VERSION => {
            Err(refused(format!(
                "the conductor uses control protocol {} (linerate {}), this agent uses \
                    {PROTOCOL_VERSION} (linerate {RELEASE}); install the same linerate release \
                    on both hosts",
                greeting.version,
                printable(&greeting.release)
            )))
        }
        Ok(Message::Hello(greeting)) if greeting.role != HelloRole::Conductor => Err(refused(
            "this is an agent, it serves conductors only; to pair, run `linerate pair offer` here"
                .into(),
        )),
        Ok(Message::Hello(greeting)) => Ok(*greeting),
        Ok(_) => Err(refused("the first message must be a greeting".into())),
        Err(error) => Err(Refusal { why: error.to_string(), answer: None }),
    }
}

/// Time that an aborted trial has to end.
const ABORT_PATIENCE: Duration = Duration::from_millis(500);
/// Interval between two looks at an aborted trial.
const ABORT_LOOK: Duration = Duration::from_millis(2);
/// Most orders that wait for a trial: connect, start and abort. Further orders are dropped: they
/// are out of turn, and each may be megabytes long.
const ORDERS: usize = 3;
/// Most abandoned trials that may still be ending while another one runs.
const LEFTOVERS: usize = 4;

/// Trial that runs on its own thread.
struct Running {
    trial: TrialId,
    commands: SyncSender<Command>,
    thread: JoinHandle<()>,
}

impl Running {
    fn start(
        session: &Session<'_>,
        mut prepare: Prepare,
        outbox: &Outbox,
    ) -> std::io::Result<Self> {
        let shared = session.shared;
        // Aborted trials keep threads and memory until they end, so their number is bounded.
        let left = shared.leftovers().iter().filter(|thread| !thread.is_finished()).count();
        if left >= LEFTOVERS {
            let why = format!("{left} aborted trials have not ended yet; try again in a minute");
            return Err(std::io::Error::other(why));
        }
        let trial = prepare.trial;
        // Bounded: a conductor must not queue orders without end.
        let (commands, orders) = sync_channel(ORDERS);
        let (shared, disks) = (Arc::clone(shared), Arc::clone(&session.disks));
        let (outbox, seat) = (outbox.clone(), session.seat.number());
        // Those that have left do not concern this trial.
        shared.measuring.company(seat);
        let thread = thread::Builder::new().name("linerate-trial".into()).spawn(move || {
            links::name_interfaces(&mut prepare.jobs);
            trial::run(&shared, (&disks, seat), &prepare, &orders, &outbox);
        })?;
        Ok(Self { trial, commands, thread })
    }

    /// Queues an order. Drops it if the trial has ended or [`ORDERS`] are waiting.
    fn order(&self, command: Command) {
        let _refused = self.commands.try_send(command);
    }

    /// Ends the trial. One that waits for its other end or fills a disk notices late: it ends by
    /// itself, and the agent goes on without it.
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

/// Receives and answers messages until the session ends. Returns the reason.
fn converse(
    reader: FrameReader,
    channel: Channel,
    mut follow: impl FnMut(&Receiver<Heard>, &Outbox) -> Left,
) -> Left {
    // Unbounded here, because the inbox of the link bounds the bytes that wait.
    let (inputs, heard) = std::sync::mpsc::channel();
    let link = Link::start(reader, channel.writer, channel.closer, move |heard, outbox| {
        if let Heard::Message(message, at, _) = &heard
            && let Message::Ping { n, sent_ns } = **message
        {
            // The answer leaves from this thread: every further hop would widen the uncertainty
            // of the clock offset.
            outbox.offer(Message::Pong { n, clock_ns: at.0, sent_ns, answered_ns: 0 });
        }
        inputs.send(heard).is_ok()
    });
    let link = match link {
        Ok(link) => link,
        Err(error) => {
            return Left::Broken(format!("cannot start a thread for the session: {error}"));
        }
    };
    let why = follow(&heard, &link.outbox);
    link.finish();
    why
}

/// Session of a conductor that measures.
struct Session<'a> {
    shared: &'a Arc<Shared>,
    disks: Arc<Disks>,
    seat: &'a Seat<'a>,
    /// Address of this host that its connection uses.
    own: Option<IpAddr>,
}

impl Session<'_> {
    /// Refuses a trial that uses more of this host than its conductor announced.
    fn is_within(&self, prepare: &Prepare) -> Result<(), String> {
        if *self.seat.part() == Part::Whole {
            return Ok(());
        }
        let ends = prepare.jobs.iter().map(|job| (&job.local, &*job.workload, &job.params));
        let part = Part::of(Share::of(ends, self.shared.options.workloads).as_ref(), self.own);
        if self.seat.part().contains(&part) {
            return Ok(());
        }
        Err("prepare the trial: it uses more of this host than its campaign announced, so it could \
            disturb another campaign that runs here at the same time"
            .to_owned())
    }

    fn follow(
        &self,
        heard: &Receiver<Heard>,
        outbox: &Outbox,
        running: &mut Option<Running>,
    ) -> Left {
        let shared = self.shared;
        loop {
            let message = match next(shared, heard) {
                Ok(message) => message,
                Err(why) => return Left::Broken(why),
            };
            let trial = running.as_ref().map(|running| running.trial);
            match (message, running.as_ref()) {
                (Message::Goodbye, _) => return Left::Goodbye,
                (Message::Prepare(prepare), _) => {
                    if let Some(earlier) = running.take() {
                        earlier.abort(shared);
                    }
                    let trial = prepare.trial;
                    let started = self.is_within(&prepare).and_then(|()| {
                        Running::start(self, *prepare, outbox)
                            .map_err(|error| format!("start a thread for the trial: {error}"))
                    });
                    match started {
                        Ok(started) => *running = Some(started),
                        Err(why) => {
                            let failed = Some(why);
                            outbox.send(Message::Done {
                                trial,
                                started_ns: Vec::new(),
                                ready_ns: None,
                                failed,
                            });
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
                // Orders for a trial that is not running, pings (the hearing thread has answered
                // them), and messages of newer conductors.
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_beyond_the_queue_of_a_trial_are_dropped() {
        let (commands, orders) = sync_channel(ORDERS);
        let running = Running { trial: TrialId(1), commands, thread: thread::spawn(|| ()) };
        for _ in 0..1_000 {
            running.order(Command::Connect(Vec::new()));
        }
        assert_eq!(orders.try_iter().count(), ORDERS);
        running.order(Command::Abort);
        assert!(matches!(orders.try_recv(), Ok(Command::Abort)), "there is room again");
    }
}
