//! One worker: keeps its slots full or starts transfers when they are due, and counts completions.

use std::time::Duration;

use linerate_model::{Counter, Counters, FlowReport, Load, Nanos, OperationKind};
use linerate_sys::clock;
use linerate_sys::storage::{Completion, Operation, Priority, Request, Transfers};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::Rng;

use super::access::{Choice, Line};
use super::backlog::Turn;
use super::contents;
use super::facts::WorkerFacts;
use super::flight::{Fault, Flight, Reply, kind};
use super::latency::DepthSearch;
use super::pace::{Budget, Pace, Upkeep};
use super::places::Places;
use super::stamp::Stamper;
use crate::workloads::arrivals::{late_starts, mean_gap};
use crate::{Due, Progress, Tally, Times, Worker};

/// Longest delay of a sleeping thread's wake-up.
const WAKE_UP: Nanos = Nanos(60_000);
/// Longest wait of a worker without room for a completion before it returns to the engine: short
/// compared with an interval.
const FULL_PATIENCE: Nanos = Nanos::from_millis(1);
/// Pause of a worker that is ahead of its ratio.
const AHEAD_PAUSE: Nanos = Nanos(50_000);
/// Scale of a share against a random 32-bit number.
const WHOLE: f64 = 4_294_967_296.0;

/// Worker of one thread.
#[derive(Debug)]
pub(super) struct StorageWorker {
    number: u32,
    transfers: Transfers,
    flights: Vec<Flight>,
    free: Vec<u32>,
    /// Slots whose buffers hold read data, and the payload that is written instead.
    was_read: Vec<bool>,
    payload: Vec<u8>,
    done: Vec<Completion>,
    choice: Choice,
    places: Places,
    random: Xoshiro256PlusPlus,
    stamper: Stamper,
    sequence: u32,
    budget: Budget,
    upkeep: Upkeep,
    pace: Pace,
    /// Delay of its load after that of the trial.
    start_after: Nanos,
    /// Writes that have ended since the last flush.
    unflushed: u32,
    load: Load,
    times: Times,
    gap: Option<Nanos>,
    /// True if transfers have replies, so that transactions have times of their own.
    has_replies: bool,
    /// Nothing starts before this: a pause between bursts.
    resume_at: Nanos,
    /// End of the time that `OutstandingTime` includes.
    counted_until: Nanos,
    is_stopping: bool,
    fault: Option<Fault>,
    facts: WorkerFacts,
    total: Counters,
}

impl StorageWorker {
    // `prepare` makes each part; a structure to carry them would repeat this one.
    #[allow(clippy::too_many_arguments)]
    pub(super) fn new(
        number: u32,
        depth: u32,
        (transfers, payload): (Transfers, Vec<u8>),
        choice: Choice,
        places: Places,
        random: Xoshiro256PlusPlus,
        stamper: Stamper,
        budget: Budget,
        (upkeep, pace, start_after): (Upkeep, Pace, Nanos),
        (load, times): (Load, Times),
        facts: WorkerFacts,
    ) -> Self {
        let has_replies = choice.has_replies();
        let nothing = Flight {
            started: Nanos(0),
            kind: OperationKind::Request,
            intended: Nanos(0),
            operation: Operation::Read,
            offset: 0,
            bytes: 0,
            priority: Priority::NONE,
            reply: None,
            is_read_back: false,
        };
        Self {
            number,
            transfers,
            flights: vec![nothing; depth as usize],
            free: (0..depth).rev().collect(),
            was_read: vec![false; depth as usize],
            payload,
            done: Vec::with_capacity(depth as usize),
            choice,
            places,
            random,
            stamper,
            sequence: 0,
            budget,
            upkeep,
            pace,
            start_after,
            unflushed: 0,
            load,
            times,
            gap: mean_gap(load),
            has_replies,
            resume_at: Nanos(0),
            counted_until: Nanos(0),
            is_stopping: false,
            fault: None,
            facts,
            total: Counters::default(),
        }
    }

    /// Starts as many transfers as are due and have room; returns their number.
    #[inline]
    fn start(&mut self, due: Due, mut now: Nanos, tally: &mut Tally) -> u32 {
        // Reading back and reopening come first, so that a load cannot outrun either.
        if self.read_back(now, tally) || self.is_to_be_reopened() {
            return 0;
        }
        let room = due.operations.min(self.free.len() as u32);
        let wanted = self.pace.allowed(room, self.transfers.in_flight(), now);
        // The worker is ahead of its ratio; others must catch up before it looks again.
        if wanted == 0 && room > 0 && self.pace.member.is_some() {
            self.resume_at = self.resume_at.max(now + AHEAD_PAUSE);
        }
        let hands_over_early = self.transfers.hands_over_early();
        let mut started = 0;
        while started < wanted && now >= self.resume_at && self.fault.is_none() {
            if hands_over_early && started > 0 {
                // Earlier transfers have been handed over already: one stamp for all would add the
                // time of their calls to this one.
                now = Nanos(clock::monotonic());
                self.account(now, self.transfers.in_flight(), tally);
            }
            // A closed load has no intended time of its own.
            let intended = if self.gap.is_some() {
                Nanos(due.intended.0 + u64::from(started) * due.gap.0)
            } else {
                now
            };
            if !self.start_one(now, intended, tally) {
                break;
            }
            started += 1;
        }
        self.pace.started(started);
        started
    }

    /// Reopens the target if it is time to and nothing is in flight. Returns true if the load has
    /// to wait for that.
    #[inline]
    fn is_to_be_reopened(&mut self) -> bool {
        let Some(reopening) = self.pace.reopening.as_mut().filter(|one| one.since >= one.every)
        else {
            return false;
        };
        // The old descriptor must not have transfers in flight when it is closed.
        if self.transfers.in_flight() > 0 {
            return true;
        }
        reopening.since = 0;
        if let Err(error) = reopening.opener.open().and_then(|file| self.transfers.reopen(file)) {
            self.fault.get_or_insert(Fault::Engine { code: error.raw_os_error().unwrap_or(0) });
            return true;
        }
        false
    }

    /// Reads back written blocks if it is time to. Returns true if the load has to wait for that.
    #[inline]
    fn read_back(&mut self, now: Nanos, tally: &mut Tally) -> bool {
        let Some(backlog) = &mut self.pace.backlog else { return false };
        // Reads back until the backlog is empty or no slot is free.
        loop {
            if self.free.is_empty() {
                return true;
            }
            let (offset, bytes) = match backlog.turn(self.transfers.in_flight()) {
                Turn::Load => return false,
                Turn::Wait => return true,
                Turn::ReadBack { offset, bytes } => (offset, bytes),
            };
            let Some(slot) = self.free.pop() else { return true };
            self.was_read[slot as usize] = true;
            let (priority, kind) = (Priority::NONE, OperationKind::Request);
            tally.started_of(kind, now);
            self.flights[slot as usize] = Flight {
                started: now,
                kind,
                intended: now,
                operation: Operation::Read,
                offset,
                bytes,
                priority,
                reply: None,
                is_read_back: true,
            };
            self.transfers.queue(Request {
                slot,
                operation: Operation::Read,
                offset,
                bytes,
                priority,
            });
        }
    }

    /// Starts one transfer; returns `false` if the budget does not allow it.
    #[inline]
    fn start_one(&mut self, now: Nanos, intended: Nanos, tally: &mut Tally) -> bool {
        let Some(slot) = self.free.pop() else { return false };
        let (line, _) = self.choice.next(&mut self.random);
        // Both random decisions use one draw: its halves are independent.
        let drawn = self.random.next_u64();
        let (first, second) = (f64::from((drawn >> 32) as u32), f64::from(drawn as u32));
        let offset = if second < line.random * WHOLE {
            self.places.anywhere(line.size, line.align, &mut self.random)
        } else {
            self.places.onwards(line.size, line.align)
        };
        let operation = match () {
            // Drawn only if the load has discards, so that the sequence of all other loads stays
            // the same.
            () if self.upkeep.trim > 0.0
                && f64::from(self.random.next_u64() as u32) < self.upkeep.trim * WHOLE =>
            {
                Operation::Trim
            }
            () if first < line.read * WHOLE => Operation::Read,
            () => Operation::Write,
        };
        let reply = (line.reply > 0).then_some(Reply { line, since: now, is_under_way: false });
        let kind = kind(operation);
        let bytes = line.size as u32;
        let priority = line.priority.unwrap_or_default();
        let flight = Flight {
            started: now,
            kind,
            intended,
            operation,
            offset,
            bytes,
            priority,
            reply,
            is_read_back: false,
        };
        if !self.launch(slot, flight) {
            self.free.push(slot);
            return false;
        }
        tally.started_of(kind, intended);
        let pause = self.choice.pause();
        if pause > Nanos(0) {
            self.resume_at = now + pause;
        }
        true
    }

    /// Hands `flight` over in `slot`; returns `false` if the budget does not allow it.
    #[inline]
    fn launch(&mut self, slot: u32, flight: Flight) -> bool {
        let Flight { operation, offset, bytes, priority, .. } = flight;
        if operation == Operation::Write {
            if !self.budget.take(u64::from(bytes)) {
                self.fault.get_or_insert(Fault::Budget);
                return false;
            }
            let buffer = &mut self.transfers.buffer(slot)[..bytes as usize];
            if std::mem::take(&mut self.was_read[slot as usize]) {
                // Read data may be zeros, which some disks do not store.
                buffer.copy_from_slice(&self.payload[..bytes as usize]);
            }
            match self.upkeep.copies.and_then(|copies| copies.draw(&mut self.random)) {
                Some(original) => {
                    contents::repeat(buffer, &self.payload, original, &self.stamper);
                }
                None => self.stamper.stamp(buffer, offset, &mut self.sequence),
            }
        }
        self.was_read[slot as usize] |= operation == Operation::Read;
        self.flights[slot as usize] = flight;
        self.transfers.queue(Request { slot, operation, offset, bytes, priority });
        true
    }

    /// Answers `flight`, which has ended in `slot`, by a transfer in the other direction; returns
    /// `false` if the budget does not allow it.
    #[inline]
    fn answer(&mut self, slot: u32, flight: Flight, reply: Reply, now: Nanos) -> bool {
        let Line { reply: bytes, align, random, .. } = reply.line;
        let goes_anywhere = f64::from(self.random.next_u64() as u32) < random * WHOLE;
        let offset = if goes_anywhere {
            self.places.anywhere(bytes, align, &mut self.random)
        } else {
            self.places.onwards(bytes, align)
        };
        let operation =
            if flight.operation == Operation::Read { Operation::Write } else { Operation::Read };
        let reply = Some(Reply { is_under_way: true, ..reply });
        self.launch(
            slot,
            Flight { started: now, operation, offset, bytes: bytes as u32, reply, ..flight },
        )
    }

    /// Adds the time since the last call, multiplied by the transfers in flight.
    #[inline]
    fn account(&mut self, now: Nanos, under_way: u32, tally: &mut Tally) {
        let passed = now.since(self.counted_until).0;
        if self.counted_until > Nanos(0) {
            tally.add(Counter::OutstandingTime, passed * u64::from(under_way));
        }
        self.counted_until = now;
    }

    #[inline]
    fn finish_one(&mut self, done: Completion, now: Nanos, tally: &mut Tally) {
        let flight = self.flights[done.slot as usize];
        if done.result != flight.operation.expected(flight.bytes) {
            self.free.push(done.slot);
            tally.add(Counter::TransferErrors, 1);
            let error = if flight.operation == Operation::Read {
                Counter::ReadErrors
            } else {
                Counter::WriteErrors
            };
            tally.add(error, 1);
            tally.lost_of(flight.kind, flight.start(), now);
            let Flight { operation, offset, bytes, .. } = flight;
            self.fault.get_or_insert(Fault::Transfer {
                operation,
                offset,
                bytes,
                result: done.result,
            });
            return;
        }
        let took = now.since(flight.started).0;
        if let Some(search) = self.pace.search.as_mut().filter(|_| flight.operation.moves()) {
            search.ended(flight.started, Nanos(took));
        }
        if let Some(backlog) =
            self.pace.backlog.as_mut().filter(|_| flight.operation == Operation::Write)
        {
            backlog.wrote(flight.offset, flight.bytes);
        }
        let (count, bytes, times) = match flight.operation {
            Operation::Read => (Counter::Reads, Some(Counter::BytesRead), &mut tally.times.service),
            Operation::Write => {
                (Counter::Writes, Some(Counter::BytesWritten), &mut tally.times.writes)
            }
            Operation::Trim => {
                (Counter::Trims, Some(Counter::BytesTrimmed), &mut tally.times.trims)
            }
            Operation::Fsync | Operation::Fdatasync => {
                (Counter::Flushes, None, &mut tally.times.flushes)
            }
        };
        times.record(took);
        for (counter, n) in [Some((count, 1)), bytes.map(|bytes| (bytes, u64::from(flight.bytes)))]
            .into_iter()
            .flatten()
        {
            tally.add(counter, n);
            self.total[counter] += n;
        }
        if bytes.is_none() {
            // The response time of its write was counted when that ended.
            tally.ended(flight.kind, flight.start(), now);
            self.free.push(done.slot);
            return;
        }
        if self.stamper.verified && flight.operation == Operation::Read {
            let buffer = &mut self.transfers.buffer(done.slot)[..flight.bytes as usize];
            if let Some((at, flaw)) = self.stamper.check(buffer, flight.offset) {
                tally.add(Counter::Flaws, 1);
                self.fault.get_or_insert(Fault::Block { at, flaw });
            }
        }
        if flight.is_read_back {
            tally.ended(flight.kind, flight.start(), now);
            self.free.push(done.slot);
            return;
        }
        let since = match flight.reply {
            Some(reply) if !reply.is_under_way => {
                if self.fault.is_some() || !self.answer(done.slot, flight, reply, now) {
                    tally.lost_of(flight.kind, flight.start(), now);
                    self.free.push(done.slot);
                }
                return;
            }
            Some(reply) => {
                tally.add(Counter::Exchanges, 1);
                reply.since
            }
            None => flight.started,
        };
        tally.ended(flight.kind, flight.start(), now);
        if !self.flush_after(flight, done.slot, now, tally) {
            self.free.push(done.slot);
        }
        if self.gap.is_some() {
            tally.times.response.record(now.since(flight.intended).0);
        } else if self.has_replies {
            tally.times.response.record(now.since(since).0);
        }
    }

    /// Starts a flush in the slot of `flight`, a write that has ended, if one is due after it.
    #[inline]
    fn flush_after(&mut self, flight: Flight, slot: u32, now: Nanos, tally: &mut Tally) -> bool {
        let Some(operation) = self.upkeep.flush.filter(|_| flight.operation == Operation::Write)
        else {
            return false;
        };
        self.unflushed += 1;
        if self.unflushed < self.upkeep.every || self.fault.is_some() {
            return false;
        }
        self.unflushed = 0;
        let (started, kind, priority) = (now, OperationKind::Flush, Priority::NONE);
        tally.started_of(kind, started);
        let intended = started;
        let flush = Flight {
            started,
            kind,
            intended,
            operation,
            offset: 0,
            bytes: 0,
            priority,
            reply: None,
            is_read_back: false,
        };
        self.launch(slot, flush)
    }

    /// Starts due transfers, waits for the first completion, and counts all completions. Returns
    /// the progress and the number of transfers started.
    #[inline]
    fn round(&mut self, due: Due, tally: &mut Tally) -> (Progress, u32) {
        let now = Nanos(clock::monotonic());
        let before = self.transfers.in_flight();
        self.account(now, before, tally);
        if self.budget.target.is_revoked() {
            self.fault.get_or_insert(Fault::Revoked);
        }
        let mut started = 0;
        if self.fault.is_none() && !self.is_stopping {
            started = self.start(due, now, tally);
        }
        if let Some(gap) = self.gap {
            tally.add(Counter::LateStarts, late_starts(now, due.intended, gap, u64::from(started)));
        }
        let under_way = self.transfers.in_flight();
        if under_way == 0 {
            if self.fault.is_some() || self.is_stopping {
                return (Progress::Ended, started);
            }
            // A pause, or nothing is due yet.
            let until =
                if self.resume_at > now { due.until.min(self.resume_at) } else { due.until };
            clock::sleep_until(until.0, WAKE_UP.0);
            return (Progress::Idle, started);
        }
        let patience = self.patience(due, now);
        let done = &mut self.done;
        if let Err(error) = self.transfers.reap(patience, |completion| done.push(completion)) {
            self.fault.get_or_insert(Fault::Engine { code: error.raw_os_error().unwrap_or(0) });
            return (Progress::Ended, started);
        }
        let now = Nanos(clock::monotonic());
        self.account(now, under_way, tally);
        let any = !self.done.is_empty();
        while let Some(done) = self.done.pop() {
            self.finish_one(done, now, tally);
        }
        (if any { Progress::Moved } else { Progress::Idle }, started)
    }

    /// Returns the longest wait for a completion.
    #[inline]
    fn patience(&self, due: Due, now: Nanos) -> Duration {
        if self.gap.is_some() && self.free.is_empty() {
            // The next transfer cannot start before another ends, overdue or not: an overloaded
            // open loop waits as a closed one does.
            return FULL_PATIENCE.max(due.until.since(now)).into();
        }
        let until = if self.resume_at > now { due.until.min(self.resume_at) } else { due.until };
        // Waits end late, so an intended time is met by polling for the last part.
        let early = if self.gap.is_some() { WAKE_UP } else { Nanos(0) };
        until.since(now).since(early).into()
    }
}

impl Worker for StorageWorker {
    fn load(&self) -> Load {
        self.load
    }

    fn starts_after(&self) -> Nanos {
        self.start_after
    }

    fn times(&self) -> Times {
        self.times
    }

    fn may_wait_for_disk(&self) -> bool {
        true
    }

    fn step(&mut self, mut due: Due, tally: &mut Tally) -> Progress {
        // An overdue operation is due in the past: return to the engine a little later.
        let look_up =
            if self.gap.is_some() { Nanos(clock::monotonic()) + FULL_PATIENCE } else { due.until };
        loop {
            let (progress, started) = self.round(due, tally);
            if self.gap.is_some() {
                due.operations -= started;
                due.intended = due.intended + Nanos(u64::from(started) * due.gap.0);
                tally.defer(due.operations);
            }
            // The load continues here until the engine is due: each round saves one clock reading
            // and one turn of the engine's loop.
            let goes_on = due.operations > 0 && progress == Progress::Moved;
            if !goes_on || self.fault.is_some() || self.counted_until >= look_up {
                return progress;
            }
        }
    }

    fn stop_sending(&mut self) {
        self.is_stopping = true;
    }

    fn leave_open(&mut self, now: Nanos, tally: &mut Tally) {
        let mut is_under_way = vec![true; self.flights.len()];
        self.free.iter().for_each(|slot| is_under_way[*slot as usize] = false);
        for (flight, _) in
            self.flights.iter().zip(is_under_way).filter(|(_, is_under_way)| *is_under_way)
        {
            tally.left_open_of(flight.kind, flight.start(), now);
        }
    }

    fn complaint(&self) -> Option<String> {
        let message = self.fault?.message(&self.facts.target, self.budget.most);
        Some(match self.budget.target.revocation().filter(|_| self.fault == Some(Fault::Revoked)) {
            Some(why) => format!("{message}: {why}"),
            None => message,
        })
    }

    fn finish(&mut self) -> Vec<FlowReport> {
        let search = self.pace.search.as_ref().map(DepthSearch::outcome);
        vec![FlowReport {
            flow: self.number,
            worker: self.number,
            remote: self.facts.target.clone(),
            counters: self.total,
            modes: self.facts.modes(search),
            ..FlowReport::default()
        }]
    }
}
