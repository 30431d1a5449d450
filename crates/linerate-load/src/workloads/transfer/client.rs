//! Worker of the active end: each stream fetches or sends one file after the other.

use std::net::SocketAddr;
use std::time::Duration;

use linerate_model::{Counter, FlowReport, FlowTcp, Nanos, OperationKind};
use linerate_sys::clock;
use linerate_sys::memory::Region;
use linerate_sys::readiness::Readiness;
use socket2::Socket;

use super::course::{Account, Course};
use super::failure::Failure;
use super::{Bench, Turn};
use crate::workloads::companion::Companion;
use crate::workloads::placement::Waiting;
use crate::workloads::rendezvous::hint_at_firewall;
use crate::workloads::socket_options;
use crate::{Due, Progress, Result, Start, Tally, Times, Worker};

/// Bytes per read of copying transfers.
const BUFFER_BYTES: usize = 128 << 10;
/// Sockets served in a step.
const READY: usize = 64;
/// Turns of one stream in a step.
const TURNS: u32 = 4;
/// Rest after a transfer that failed.
const RETRY_REST: Nanos = Nanos::from_millis(10);
/// Failures in a row that end the load, because no further transfer can be expected to succeed.
const HOPELESS: u32 = 10;
/// Interval between searches for streams in which nothing moves.
const LOOK_EVERY: Nanos = Nanos::from_millis(5);

/// Protocol of one stream.
pub(crate) trait Session: Send {
    /// Starts the next file. The worker's readiness knows its sockets as `token` and `token + 1`.
    fn begin(&mut self, token: u64, bench: &mut Bench<'_>) -> Result<(), Failure>;

    /// Continues as far as it can without waiting.
    fn go_on(&mut self, bench: &mut Bench<'_>) -> Result<Turn, Failure>;

    /// Returns the bytes and messages moved so far: the number changes with every progress.
    fn progress(&self) -> u64;

    /// Returns the stage of the abandoned transfer.
    fn overdue(&self) -> Failure;

    /// Returns the address to which a connection is being opened; `None` if none is.
    fn called(&self) -> Option<SocketAddr>;

    /// Gives the transfer up and closes its connections.
    fn abort(&mut self);

    /// Returns the times of the completed transfer.
    fn course(&self) -> &Course;

    /// Returns the stream's counters.
    fn account(&self) -> &Account;

    /// Returns the connection that carries files now.
    fn carrier(&self) -> Option<&Socket>;

    /// Returns the stream's report.
    fn report(&mut self) -> FlowReport;
}

struct Stream<S> {
    session: S,
    number: u32,
    is_busy: bool,
    is_ready: bool,
    resume_at: Nanos,
    /// Start of the transfer in progress.
    begun: Nanos,
    /// Time at which the end of the load interrupted it, if it did.
    cut_off_at: Option<Nanos>,
    /// Time and position of the last progress.
    moved: (Nanos, u64),
    failures: u32,
}

impl<S> Stream<S> {
    fn new((number, session): (u32, S)) -> Self {
        Self {
            session,
            number,
            is_busy: false,
            is_ready: true,
            resume_at: Nanos(0),
            begun: Nanos(0),
            cut_off_at: None,
            moved: (Nanos(0), 0),
            failures: 0,
        }
    }
}

impl<S: Session> Stream<S> {
    /// Returns the stream's report, with the text of its `worker`'s failures.
    fn report(&mut self, worker: u32, failures: Option<&String>) -> FlowReport {
        // Read before the report, which may close the connection.
        let state = self.session.account().state(self.number, self.session.carrier());
        let mut report = self.session.report();
        (report.flow, report.worker) = (self.number, worker);
        report.counters = self.session.account().counters;
        report.tcp = state.map(|flow| flow.tcp);
        report.modes.extend(failures.map(|text| ("failures".to_owned(), text.clone())));
        report
    }
}

/// Streams of one thread.
pub(crate) struct ClientWorker<S> {
    number: u32,
    streams: Vec<Stream<S>>,
    readiness: Readiness,
    wait: Waiting,
    buffer: Region,
    companion: Option<Companion>,
    timeout: Nanos,
    look_at: Nanos,
    stopped: bool,
    done: u64,
    lost: u64,
    last_failure: Option<Failure>,
    fault: Option<Failure>,
    /// Address to which the last connection that did not open was to lead.
    unreached: Option<SocketAddr>,
}

impl<S: Session> ClientWorker<S> {
    /// Creates worker `number` with these streams. `companion` shows that the other end is alive,
    /// if it is ours.
    pub(crate) fn new(
        number: u32,
        sessions: Vec<(u32, S)>,
        companion: Option<Companion>,
        wait: Waiting,
        timeout: Nanos,
    ) -> Result<Self> {
        Ok(Self {
            number,
            streams: sessions.into_iter().map(Stream::new).collect(),
            readiness: Readiness::new()?,
            wait,
            buffer: Region::new(BUFFER_BYTES)?,
            companion,
            timeout,
            look_at: Nanos(0),
            stopped: false,
            done: 0,
            lost: 0,
            last_failure: None,
            fault: None,
            unreached: None,
        })
    }

    /// Continues one stream; returns true if anything moved.
    fn serve(&mut self, place: usize, now: Nanos, tally: &mut Tally) -> bool {
        let Self { streams, readiness, buffer, .. } = self;
        let stream = &mut streams[place];
        let mut bench = Bench { now, buffer, readiness, tally };
        let mut moved = false;
        for _ in 0..TURNS {
            if !stream.is_busy {
                if self.stopped {
                    break;
                }
                stream.moved = (now, 0);
                // Earlier turns of this step took time, so `now` would be too early.
                stream.begun = Nanos(clock::monotonic());
                bench.tally.started(stream.begun);
                if let Err(failure) = stream.session.begin(token(place), &mut bench) {
                    self.fail(place, failure, tally);
                    return moved;
                }
                stream.is_busy = true;
            }
            match stream.session.go_on(&mut bench) {
                Ok(Turn::Moved) => moved = true,
                Ok(Turn::Network) => {
                    stream.is_ready = false;
                    break;
                }
                Ok(Turn::Until(time)) => {
                    stream.resume_at = time;
                    break;
                }
                Ok(Turn::Done) => {
                    stream.session.course().record(bench.tally);
                    bench.tally.add(Counter::Transactions, 1);
                    bench.tally.ended(
                        OperationKind::Request,
                        Start::closed(stream.begun),
                        Nanos(clock::monotonic()),
                    );
                    (stream.is_busy, stream.failures, moved) = (false, 0, true);
                    self.done += 1;
                }
                Err(failure) => {
                    self.fail(place, failure, tally);
                    return true;
                }
            }
        }
        moved
    }

    fn fail(&mut self, place: usize, failure: Failure, tally: &mut Tally) {
        let stream = &mut self.streams[place];
        self.unreached = stream.session.called();
        stream.session.abort();
        (stream.is_busy, stream.is_ready) = (false, true);
        let now = Nanos(clock::monotonic());
        stream.resume_at = now + RETRY_REST;
        stream.failures += 1;
        self.last_failure = Some(failure);
        if self.stopped {
            // A transfer that the end of the load interrupts is not lost.
            tally.left_open(Start::closed(stream.begun), now);
            return;
        }
        tally.lost(Start::closed(stream.begun), now);
        tally.add(Counter::TransactionsLost, 1);
        self.lost += 1;
        if failure.is_final() || stream.failures >= HOPELESS {
            self.fault.get_or_insert(failure);
        }
    }

    /// Gives up transfers in which nothing moves.
    fn give_up(&mut self, now: Nanos, tally: &mut Tally) {
        self.look_at = now + LOOK_EVERY;
        for place in 0..self.streams.len() {
            let stream = &mut self.streams[place];
            let progress = stream.session.progress();
            if !stream.is_busy || progress != stream.moved.1 {
                stream.moved = (now, progress);
            } else if now.since(stream.moved.0) > self.timeout {
                let failure = stream.session.overdue();
                self.fail(place, failure, tally);
            }
        }
    }

    /// Returns the time at which the next resting stream continues.
    fn next_resumption(&self, now: Nanos) -> Option<Nanos> {
        let resting = self.streams.iter().filter(|stream| stream.resume_at > now);
        resting.map(|stream| stream.resume_at).min()
    }

    fn wait_for_sockets(&mut self, until: Nanos) {
        let now = Nanos(clock::monotonic());
        let patience = if self.wait == Waiting::Spin { Nanos(0) } else { until.since(now) };
        let mut ready = [0; READY];
        let tokens = self.readiness.wait(Duration::from(patience));
        let n = tokens.len();
        ready[..n].copy_from_slice(tokens);
        for token in &ready[..n] {
            self.streams[(token / TOKENS) as usize].is_ready = true;
        }
    }
}

/// Returns the tokens of a stream's two sockets.
pub(super) const TOKENS: u64 = 2;

fn token(place: usize) -> u64 {
    place as u64 * TOKENS
}

impl<S: Session> Worker for ClientWorker<S> {
    fn times(&self) -> Times {
        Times::FILES
    }

    fn may_wait_for_disk(&self) -> bool {
        true
    }

    fn step(&mut self, due: Due, tally: &mut Tally) -> Progress {
        if let Some(companion) = &mut self.companion {
            companion.look(due.intended, |_, _| {});
            self.stopped |= companion.is_gone();
        }
        if self.fault.is_some()
            || (self.stopped && self.streams.iter().all(|stream| !stream.is_busy))
        {
            return Progress::Ended;
        }
        let now = Nanos(clock::monotonic());
        let mut moved = false;
        for place in 0..self.streams.len() {
            let stream = &self.streams[place];
            if stream.is_ready && stream.resume_at <= now {
                moved |= self.serve(place, now, tally);
            }
        }
        if now >= self.look_at {
            self.give_up(now, tally);
        }
        if !moved {
            let until = self.next_resumption(now).map_or(due.until, |resume| due.until.min(resume));
            self.wait_for_sockets(until);
        // One busy stream must not keep the others from noticing that their sockets are ready.
        } else if self.streams.iter().any(|stream| !stream.is_ready) {
            self.wait_for_sockets(Nanos(0));
        }
        if moved { Progress::Moved } else { Progress::Idle }
    }

    fn observe(&mut self, flows: &mut Vec<FlowTcp>) {
        for Stream { session, number, .. } in &self.streams {
            flows.extend(session.account().state(*number, session.carrier()));
        }
    }

    fn held_bytes(&self) -> Option<u64> {
        socket_options::held(self.streams.iter().filter_map(|stream| stream.session.carrier()))
    }

    fn n_flows(&self) -> usize {
        self.streams.len()
    }

    fn stop_sending(&mut self) {
        self.stopped = true;
        // A file may take longer than the drain, so transfers in progress end here.
        for stream in &mut self.streams {
            if std::mem::take(&mut stream.is_busy) {
                self.unreached = stream.session.called().or(self.unreached);
                stream.session.abort();
                stream.cut_off_at = Some(Nanos(clock::monotonic()));
            }
        }
    }

    fn leave_open(&mut self, _now: Nanos, tally: &mut Tally) {
        for stream in &self.streams {
            if let Some(at) = stream.cut_off_at {
                tally.left_open(Start::closed(stream.begun), at);
            }
        }
    }

    fn complaint(&self) -> Option<String> {
        let counts = format!("({} came through, {} failed)", self.done, self.lost);
        match (self.fault, self.unreached) {
            (Some(failure), Some(remote)) => {
                let hint = match failure {
                    Failure::TimedOut(_) => format!(": {}", hint_at_firewall(remote.port())),
                    _ => String::new(),
                };
                Some(format!("connect to {remote}: {failure} {counts}{hint}"))
            }
            (Some(failure), None) => Some(format!("transfer files: {failure} {counts}")),
            // The load was shorter than the time allowed, so nothing failed.
            (None, Some(remote)) if self.done == 0 => Some(format!(
                "connect to {remote}: no answer until the end of the load: {}",
                hint_at_firewall(remote.port())
            )),
            (None, _) => None,
        }
    }

    fn finish(&mut self) -> Vec<FlowReport> {
        let (done, lost) = (self.done, self.lost);
        let failures = self.last_failure.filter(|_| lost > 0);
        let summary = failures
            .map(|last| format!("{lost} of {} transfers failed, the last: {last}", done + lost));
        let reports = self.streams.iter_mut();
        reports.map(|stream| stream.report(self.number, summary.as_ref())).collect()
    }
}
