//! A worker: frames sent a batch at a time when they are due, received as they come, and the
//! companion that tells the totals.

use std::collections::BTreeMap;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;

use linerate_model::{Counter, Counters, FlowReport, Load, Nanos};
use linerate_sys::clock;
use linerate_sys::cpu::Awake;
use linerate_sys::readiness::{Interest, Readiness};

use super::FramesParams;
use super::backend::{Halves, Order};
use super::ledger::{Clocks, Ledger, Received};
use super::queues::{Board, ByOthers};
use crate::workloads::arrivals::{late_starts, mean_gap, share, very_late_starts};
use crate::workloads::companion::{Companion, START};
use crate::workloads::placement::Waiting;
use crate::{Due, LoadError, Progress, Tally, Times, Worker};

/// A paced sender sleeps until this long before the next departure and spins from there: a wake-up
/// is later than that one time in a thousand.
const DEPARTURE_SPIN: Nanos = Nanos(100_000);
/// A receiver sleeps until this long before the end of its wait: it looks at the clock again about
/// when its interval ends, and takes no CPU from a sender beside it meanwhile. Spun for the last
/// millisecond, it kept the sender from a shared CPU for as long.
const WAKE_EARLY: Nanos = Nanos(50_000);
/// A sender whose frames were refused tries again after this long: a queue of a slow link has let
/// some frames go by then.
const REFUSED_PAUSE: Nanos = Nanos(20_000);
/// How often the receiver's drops are asked for while frames come.
const ASK_EVERY: Nanos = Nanos::from_millis(10);

/// What a worker is made of.
pub(super) struct Parts {
    pub(super) number: u32,
    /// Number and both addresses of each flow, this end's first.
    pub(super) flows: Vec<(u32, [SocketAddr; 2])>,
    /// They hold the flows' ports.
    pub(super) sockets: Vec<UdpSocket>,
    pub(super) halves: Halves,
    pub(super) ledger: Ledger,
    pub(super) companion: Companion,
    pub(super) clocks: Clocks,
    /// Strangers met while pairing.
    pub(super) foreign: u64,
}

pub(super) struct FramesWorker {
    parts: Parts,
    frame_size: String,
    readiness: Readiness,
    wait: Waiting,
    load: Load,
    /// Mean gap between frames of an open load.
    mean_gap: Option<Nanos>,
    last_departure: Option<Nanos>,
    stopped: bool,
    /// What the other end says it sent on each flow.
    peer_sent: Vec<Option<u64>>,
    n_workers: u32,
    /// Drops at this receiver, and when they are asked for next.
    drops: u64,
    ask_at: Nanos,
    /// Where workers tell each other of frames that came in at another one's queue, if they may.
    board: Option<Arc<Board>>,
    /// Whether it was said there that this one's own flows are complete.
    is_complete: bool,
    /// Keeps the CPUs awake as long as there is a worker.
    awake: Option<Arc<Awake>>,
    realtime: bool,
    /// Whether the other end was told when this one's first interval began.
    start_told: bool,
}

impl FramesWorker {
    pub(super) fn new(params: &FramesParams, parts: Parts) -> Result<Self, LoadError> {
        let rate = params.frames_per_second().filter(|_| parts.halves.transmit().is_some());
        let load = share(rate, params.arrival(), 1, parts.flows.len(), params.placement.streams());
        let readiness = Readiness::new()?;
        if params.placement.wait == Waiting::Block {
            for (token, fd) in
                (0..).zip(parts.halves.receive().iter().flat_map(|receive| receive.watched()))
            {
                readiness.add(&fd, token, Interest::Readable)?;
            }
        }
        Ok(Self {
            frame_size: params.frame_size.name().to_owned(),
            readiness,
            wait: params.placement.wait,
            load,
            mean_gap: mean_gap(load),
            last_departure: None,
            stopped: parts.halves.transmit().is_none(),
            peer_sent: vec![None; parts.flows.len()],
            n_workers: params.placement.workers(),
            drops: 0,
            ask_at: Nanos(0),
            board: parts.halves.receive().and_then(super::backend::Receive::board),
            is_complete: false,
            awake: params.awake.then(Awake::keep),
            realtime: params.realtime,
            start_told: false,
            parts,
        })
    }

    /// Sends what is due, a batch at most; returns whether anything was taken.
    #[inline]
    fn send(&mut self, due: Due, tally: &mut Tally) -> bool {
        let Some(transmit) =
            self.parts.halves.transmit_mut().filter(|_| due.operations > 0 && !self.stopped)
        else {
            return false;
        };
        let n = due.operations.min(transmit.batch());
        let now = Nanos(clock::monotonic());
        let intended = if self.mean_gap.is_some() { due.intended } else { now };
        let mut change = Counters::default();
        let taken = transmit.send(Order { n, intended, gap: due.gap, now }, &mut change);
        if self.mean_gap.is_some() || !transmit.stamps_itself() {
            tally.departures.count_run(intended, due.gap, taken.into());
        }
        if let Some(gap) = self.mean_gap {
            tally.defer(due.operations - taken);
            change[Counter::LateStarts] = late_starts(now, due.intended, gap, u64::from(taken));
            change[Counter::VeryLateStarts] =
                very_late_starts(now, due.intended, due.gap, u64::from(taken));
        }
        tally.counters.add(&change);
        if taken > 0 {
            if let Some(last) = self.last_departure.replace(now) {
                tally.gap.record(now.since(last).0);
            }
            // The others of a batch leave right behind the first.
            tally.gap.record_many(0, u64::from(taken - 1));
        } else {
            clock::sleep_until((now + REFUSED_PAUSE).min(due.until).0, REFUSED_PAUSE.0);
        }
        taken > 0
    }

    #[inline]
    fn receive(&mut self, now: Nanos, tally: &mut Tally) -> bool {
        let Some(receive) = self.parts.halves.receive_mut() else { return false };
        tally.add(Counter::CallsReceived, 1);
        let moved = receive.receive(&mut self.parts.ledger, tally);
        if now >= self.ask_at {
            self.ask_at = now + ASK_EVERY;
            let drops = receive.drops();
            self.drops += drops;
            tally.add(Counter::SocketDrops, drops);
            self.tell_others();
        }
        moved
    }

    /// Nothing moved: waits for what comes next, in the way asked for.
    fn rest(&mut self, due: Due) {
        let left = due.until.since(Nanos(clock::monotonic()));
        match (self.parts.halves.receive(), self.wait) {
            (_, Waiting::Spin) => {}
            // What comes meanwhile waits in the ring, with its own time on it.
            (_, Waiting::Block) if due.operations == 0 && !self.stopped => {
                clock::sleep_until(due.until.0, DEPARTURE_SPIN.0);
            }
            (Some(_), Waiting::Block) if left > WAKE_EARLY && self.stopped => {
                self.readiness.is_ready_within(left.since(WAKE_EARLY).into());
            }
            _ => {}
        }
    }

    fn tell_others(&self) {
        if let Some(board) = &self.board {
            board.tell(self.parts.number, &self.parts.ledger);
        }
    }

    /// What other workers' queues had of a flow.
    fn by_others(&self, number: u32) -> ByOthers {
        self.board.as_ref().map_or_else(ByOthers::default, |board| board.by_others(number))
    }

    fn has_ended(&mut self) -> bool {
        let receives = self.parts.halves.receive().is_some();
        let known = |(idx, (number, _)): (usize, &(u32, [SocketAddr; 2]))| {
            let received = self.parts.ledger.flow(*number).map_or(0, Received::known)
                + self.by_others(*number).known();
            self.peer_sent[idx].is_some_and(|sent| received >= sent)
        };
        let mut received_all = !receives || self.parts.flows.iter().enumerate().all(known);
        if let Some(board) = &self.board {
            if received_all && !std::mem::replace(&mut self.is_complete, true) {
                board.complete();
            }
            // Until then this one's queues may still hold frames of others' flows.
            received_all = board.all_complete();
        }
        let forsaken = self.parts.companion.is_gone()
            && (!receives || self.peer_sent.iter().any(Option::is_none));
        (self.stopped && received_all) || forsaken
    }

    /// How many of each flow's last numbers did not come, as far as its sender told.
    fn missing(&self) -> Vec<u64> {
        let of = |(idx, (number, _)): (usize, &(u32, [SocketAddr; 2]))| {
            let next = self.parts.ledger.flow(*number).map_or(0, Received::next_sequence);
            let next = next.max(self.by_others(*number).next_sequence);
            self.peer_sent[idx].map_or(0, |sent| sent.saturating_sub(next))
        };
        self.parts.flows.iter().enumerate().map(of).collect()
    }

    fn modes(&self) -> BTreeMap<String, String> {
        let mut modes = BTreeMap::from([("frame_size".to_owned(), self.frame_size.clone())]);
        modes.extend(self.awake.iter().map(|awake| ("awake".to_owned(), awake.how().to_owned())));
        if let Some(transmit) = self.parts.halves.transmit() {
            modes.insert("send".to_owned(), transmit.mode());
        }
        if let Some(receive) = self.parts.halves.receive() {
            modes.insert("receive".to_owned(), format!("{}, {}", receive.mode(), self.wait.name()));
            modes.insert("clock".to_owned(), self.parts.clocks.name().to_owned());
        }
        modes
    }
}

impl Worker for FramesWorker {
    fn load(&self) -> Load {
        self.load
    }

    fn times(&self) -> Times {
        let received = self.parts.halves.receive().is_some() && self.parts.clocks.tell_times();
        Times {
            service: received,
            response: received,
            gap: self.parts.halves.transmit().is_some(),
            variation: received,
            ..Times::NONE
        }
    }

    fn runs_first(&self) -> bool {
        self.realtime
    }

    fn step(&mut self, due: Due, tally: &mut Tally) -> Progress {
        let now = Nanos(clock::monotonic());
        if self.parts.foreign > 0 {
            tally.add(Counter::Foreign, std::mem::take(&mut self.parts.foreign));
        }
        if !self.start_told
            && let Some(start) =
                tally.departures.origin().filter(|_| self.parts.halves.transmit().is_some())
        {
            self.start_told = true;
            self.parts.companion.tell(START, start.0);
        }
        if self.parts.halves.receive().is_some() && tally.arrivals.awaits_origin() {
            self.parts.companion.look_at_once();
        }
        let (peer_sent, n_workers, arrivals) =
            (&mut self.peer_sent, self.n_workers, &mut tally.arrivals);
        self.parts.companion.look(now, |number, sent| {
            if number == START {
                return arrivals.begin(Nanos(sent));
            }
            // The other end deals flows likewise, so that only this worker's are told here.
            if let Some(told) = peer_sent.get_mut((number / n_workers) as usize) {
                *told = Some(sent);
            }
        });
        let sent = self.send(due, tally);
        let received = self.receive(now, tally);
        if sent || received {
            return Progress::Moved;
        }
        if self.has_ended() {
            return Progress::Ended;
        }
        self.rest(due);
        Progress::Idle
    }

    fn n_flows(&self) -> usize {
        0
    }

    fn stop_sending(&mut self) {
        if std::mem::replace(&mut self.stopped, true) {
            return;
        }
        let Some(transmit) = self.parts.halves.transmit() else { return };
        for (idx, (number, _)) in self.parts.flows.iter().enumerate() {
            self.parts.companion.tell(*number, transmit.sent(idx).0);
        }
    }

    fn finish(&mut self) -> Vec<FlowReport> {
        self.stop_sending();
        let modes = self.modes();
        self.tell_others();
        let missing = self.missing();
        let more =
            self.parts.halves.receive_mut().map_or(0, |receive| receive.last_drops(&missing));
        let mut drops = self.drops + more;
        let mut reports = Vec::new();
        for (idx, (number, [local, remote])) in self.parts.flows.iter().enumerate() {
            let (own, others) = (self.parts.ledger.flow(*number), self.by_others(*number));
            let mut counters = own.map(|flow| flow.counters).unwrap_or_default();
            counters.add(&others.counters);
            let mut next_sequence =
                own.map_or(0, Received::next_sequence).max(others.next_sequence);
            // The gaps of a flow that came in at several queues are only those of one.
            let last_gap = own.and_then(|flow| flow.last_gap).filter(|_| others.next_sequence == 0);
            if let Some(transmit) = self.parts.halves.transmit() {
                let (frames, payload) = transmit.sent(idx);
                counters[Counter::DatagramsSent] = frames;
                counters[Counter::PayloadSent] = payload;
                if self.parts.halves.receive().is_none() {
                    next_sequence = frames;
                }
            }
            // The ring does not tell whose frames it dropped: the worker's first flow carries them
            // all.
            counters[Counter::SocketDrops] = std::mem::take(&mut drops);
            reports.push(FlowReport {
                flow: *number,
                worker: self.parts.number,
                local: local.to_string(),
                remote: remote.to_string(),
                counters,
                next_sequence,
                socket: BTreeMap::new(),
                modes: modes.clone(),
                last_gap,
                bursts: if idx == 0 { self.parts.ledger.bursts().to_vec() } else { Vec::new() },
                tcp: None,
            });
        }
        self.parts.sockets.clear();
        reports
    }
}
