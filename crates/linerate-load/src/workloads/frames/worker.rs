//! Worker: sends due frames in batches, receives frames, and exchanges the totals over its
//! companion.

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
use crate::{Due, Progress, Result, Tally, Times, Worker};

/// A paced sender sleeps until this long before the next departure and then spins. One wake-up in a
/// thousand is later than that.
const DEPARTURE_SPIN: Nanos = Nanos(100_000);
/// A receiver sleeps until this long before the end of its wait. It checks the clock about when its
/// interval ends, and meanwhile leaves the CPU to a sender beside it. With a spin over the last
/// millisecond, it kept the sender off a shared CPU for that long.
const WAKE_EARLY: Nanos = Nanos(50_000);
/// Pause of a sender after a refusal: by then the queue of a slow link has passed some frames.
const REFUSED_PAUSE: Nanos = Nanos(20_000);
/// Interval between reads of the receiver's drops while frames arrive.
const ASK_EVERY: Nanos = Nanos::from_millis(10);

/// Parts of a worker.
pub(super) struct Parts {
    pub(super) number: u32,
    /// Number and both addresses of each flow, this end's first.
    pub(super) flows: Vec<(u32, [SocketAddr; 2])>,
    /// Sockets that reserve the flows' ports.
    pub(super) sockets: Vec<UdpSocket>,
    pub(super) halves: Halves,
    pub(super) ledger: Ledger,
    pub(super) companion: Companion,
    pub(super) clocks: Clocks,
    /// Strangers seen during pairing.
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
    /// Frames that the other end reports as sent on each flow.
    peer_sent: Vec<Option<u64>>,
    n_workers: u32,
    /// Drops at this receiver, and the time of their next read.
    drops: u64,
    ask_at: Nanos,
    /// Board for frames that arrive at another worker's queue, if that can happen.
    board: Option<Arc<Board>>,
    /// True once the board counts this worker's flows as complete.
    is_complete: bool,
    /// Keeps the CPUs awake as long as the worker exists.
    awake: Option<Arc<Awake>>,
    realtime: bool,
    /// True once the other end knows the start of this one's first interval.
    start_told: bool,
}

impl FramesWorker {
    pub(super) fn new(params: &FramesParams, parts: Parts) -> Result<Self> {
        let rate = params.frames_per_second().filter(|_| parts.halves.transmit().is_some());
        let load = share(rate, params.arrival(), 1, parts.flows.len(), params.placement.streams());
        let readiness = Readiness::new()?;
        if params.placement.wait == Waiting::Block {
            // A spinning worker does not watch: each arrival at a watched socket costs a callback.
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

    /// Sends due frames, at most a batch; returns true if any were taken.
    #[inline]
    fn send(&mut self, due: Due, tally: &mut Tally) -> bool {
        let Some(transmit) =
            self.parts.halves.transmit_mut().filter(|_| due.operations > 0 && !self.stopped)
        else {
            return false;
        };
        let n = due.operations.min(transmit.batch());
        let now = Nanos(clock::monotonic());
        // Without a rate there is no schedule: a frame is due when it is sent.
        let intended = if self.mean_gap.is_some() { due.intended } else { now };
        let mut change = Counters::default();
        let taken = transmit.send(Order { n, intended, gap: due.gap, now }, &mut change);
        // Frames that the kernel stamps depart at other times than those given here.
        if self.mean_gap.is_some() || !transmit.stamps_itself() {
            tally.departures.count_run(intended, due.gap, taken.into());
        }
        if let Some(gap) = self.mean_gap {
            // What the backend did not take is due again at its old time.
            tally.defer(due.operations - taken);
            change[Counter::LateStarts] = late_starts(now, due.intended, gap, u64::from(taken));
            change[Counter::VeryLateStarts] =
                very_late_starts(now, due.intended, due.gap, u64::from(taken));
        }
        tally.counters.add(&change);
        if taken > 0 {
            if let Some(last) = self.last_departure.replace(now) {
                tally.times.gap.record(now.since(last).0);
            }
            // The others of a batch leave right behind the first.
            tally.times.gap.record_many(0, u64::from(taken - 1));
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
        // Reading the counter costs a system call, so it is read at intervals.
        if now >= self.ask_at {
            self.ask_at = now + ASK_EVERY;
            let drops = receive.drops();
            self.drops += drops;
            tally.add(Counter::SocketDrops, drops);
            self.tell_others();
        }
        moved
    }

    /// Waits for the next event, in the requested mode, after a step that moved nothing.
    fn rest(&mut self, due: Due) {
        let left = due.until.since(Nanos(clock::monotonic()));
        match (self.parts.halves.receive(), self.wait) {
            (_, Waiting::Spin) => {}
            // Frames that arrive meanwhile wait in the ring with their own times.
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

    /// Returns the counts of other workers' queues for a flow.
    fn by_others(&self, number: u32) -> ByOthers {
        self.board.as_ref().map_or_else(ByOthers::default, |board| board.by_others(number))
    }

    /// Returns how many frames of a flow are known to all workers' queues together.
    fn known(&self, number: u32) -> u64 {
        self.parts.ledger.flow(number).map_or(0, Received::known) + self.by_others(number).known()
    }

    fn has_ended(&mut self) -> bool {
        let receives = self.parts.halves.receive().is_some();
        let mut flows = self.parts.flows.iter().zip(&self.peer_sent);
        let mut received_all = !receives
            || flows
                .all(|((number, _), sent)| sent.is_some_and(|sent| self.known(*number) >= sent));
        if let Some(board) = &self.board {
            if received_all && !std::mem::replace(&mut self.is_complete, true) {
                board.complete();
            }
            // Until then this worker's queues may still hold frames of other workers' flows.
            received_all = board.all_complete();
        }
        // Without the sender's total the end of a flow cannot be known, so the worker gives up.
        let forsaken = self.parts.companion.is_gone()
            && (!receives || self.peer_sent.iter().any(Option::is_none));
        (self.stopped && received_all) || forsaken
    }

    /// Returns how many of each flow's last numbers are missing, by its sender's count.
    fn missing(&self) -> Vec<u64> {
        let mut missing = Vec::new();
        for ((number, _), sent) in self.parts.flows.iter().zip(&self.peer_sent) {
            let next = self.parts.ledger.flow(*number).map_or(0, Received::next_sequence);
            let next = next.max(self.by_others(*number).next_sequence);
            missing.push(sent.map_or(0, |sent| sent.saturating_sub(next)));
        }
        missing
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
        // The other end counts arrivals by this end's intervals, and learns their start once.
        if !self.start_told
            && let Some(start) =
                tally.departures.origin().filter(|_| self.parts.halves.transmit().is_some())
        {
            self.start_told = true;
            self.parts.companion.tell(START, start.0);
        }
        // Until the origin is known, arrivals cannot be assigned, so the companion is read at each
        // step.
        if self.parts.halves.receive().is_some() && tally.arrivals.awaits_origin() {
            self.parts.companion.look_at_once();
        }
        let (peer_sent, n_workers, arrivals) =
            (&mut self.peer_sent, self.n_workers, &mut tally.arrivals);
        self.parts.companion.look(now, |number, sent| {
            if number == START {
                return arrivals.begin(Nanos(sent));
            }
            // The other end deals flows in the same way, so only this worker's flows have counts
            // here.
            if let Some(total) = peer_sent.get_mut((number / n_workers) as usize) {
                *total = Some(sent);
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

    fn stop_sending(&mut self) {
        if std::mem::replace(&mut self.stopped, true) {
            return;
        }
        // A receiver has nothing to report.
        let Some(transmit) = self.parts.halves.transmit() else { return };
        for (idx, (number, _)) in self.parts.flows.iter().enumerate() {
            self.parts.companion.tell(*number, transmit.sent(idx).0);
        }
    }

    fn finish(&mut self) -> Vec<FlowReport> {
        // An engine that ends early may call this without `stop_sending`.
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
            // With a flow at several queues, each ledger knows only the gaps of its own.
            let alone = own.filter(|_| others.next_sequence == 0);
            let last_gap = alone.and_then(|flow| flow.last_gap);
            // A sender receives nothing, and has no gaps.
            let receives = self.parts.halves.receive().is_some();
            let longest_gap = alone.filter(|_| receives).map(|flow| flow.longest_gap);
            if let Some(transmit) = self.parts.halves.transmit() {
                let (frames, payload) = transmit.sent(idx);
                counters[Counter::DatagramsSent] = frames;
                counters[Counter::PayloadSent] = payload;
                if self.parts.halves.receive().is_none() {
                    next_sequence = frames;
                }
            }
            // The ring does not report the flows of dropped frames: the worker's first flow carries
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
                longest_gap,
                bursts: if idx == 0 { self.parts.ledger.bursts().to_vec() } else { Vec::new() },
                tcp: None,
                probe: None,
                foreign: None,
            });
        }
        // The ports are free again for the next trial.
        self.parts.sockets.clear();
        reports
    }
}
