//! Course of a probe: what the sender sends next, from what was answered so far.
//!
//! Time is an argument, and the course owns no socket, so every decision runs in virtual time. The
//! phases, in their order:
//!
//! 1. Pings: small datagrams, far apart.
//! 2. Sizes: the largest datagram that passes.
//! 3. Trains: datagrams back to back.
//! 4. Ramp: a rate that doubles until datagrams are lost or wait in a queue.
//! 5. Settling: pings until the queue is empty again.
//! 6. Flood: twice the rate that arrived at the end of the ramp.
//!
//! A flood ends when more than [`LOSS`] was lost for [`LOSS_TIME`], unless its owner agreed to
//! more.

use linerate_model::{BitRate, Bytes, Nanos, ProbeEnd, ProbeKind, ProbePhase};

use super::sizes::SizeSearch;
pub(super) use answer::Answer;
use answer::Ways;

mod answer;
mod late;

/// Payload of a ping.
pub(super) const PING_BYTES: usize = 64;
/// Smallest payload of a size search: with headers of IPv4 it fills 512 B, which every path carries
/// (RFC 8899 clause 5.1.2 starts from a base size).
const LEAST_BYTES: usize = 484;
/// Most datagrams of one probe. Each is recorded, and 60,000 records are 1.4 MB.
pub(super) const MOST_DATAGRAMS: u64 = 60_000;
/// Most phases that are recorded.
pub(super) const MOST_PHASES: usize = 64;
/// Most answers of one phase that decisions use.
const MOST_ANSWERS: usize = 1024;
/// Most datagrams of one batch.
pub(super) const BATCH: usize = 16;

/// Pings before the load, and the time between two: 0.2 s.
const PINGS: u64 = 50;
const PING_GAP: Nanos = Nanos::from_millis(4);
/// Copies of each size. Three losses in a row mean that the size is too large (RFC 8899 clause
/// 5.1.3, MAX_PROBES).
const COPIES: u64 = 3;
/// Datagrams of a train, and most trains. 50 datagrams of 1500 B take 120 ms at 5 Mbit/s.
const TRAIN: u64 = 50;
const TRAINS: u32 = 8;
/// Gaps between the answers to all trains.
const MOST_GAPS: usize = (TRAIN.div_ceil(BATCH as u64) - 1) as usize * TRAINS as usize;
/// Time after which no further train starts, if two have been sent.
const TRAINS_TIME: Nanos = Nanos::from_millis(300);
const FEWEST_TRAINS: u32 = 2;
/// First rate of the ramp, which most paths carry.
const RAMP_FROM: BitRate = BitRate(2e6);
/// Length of a step of the ramp, and the fewest datagrams in it.
const STEP: Nanos = Nanos::from_millis(100);
const STEP_DATAGRAMS: u64 = 8;
/// Wait of datagrams that means a queue. A busy host delays a wake-up by less.
const QUEUE_DELAY: Nanos = Nanos::from_millis(4);
/// Loss above which a step or a flood exceeds the path.
pub const LOSS: f64 = 0.05;
/// Longest time of such loss. It ends a flood.
pub const LOSS_TIME: Nanos = Nanos::from_millis(200);
/// Spans over which the loss of a flood is computed. A shorter one holds too few datagrams at
/// 5 Mbit/s.
const LOSS_SPAN: Nanos = Nanos::from_millis(50);
/// Growth of the rate that arrives from one lossy step to the next, of twice the rate, above which
/// the loss does not come from the rate.
const GROWTH: f64 = 1.5;
/// Shortest and longest time for an empty queue after the ramp.
const SETTLE: [Nanos; 2] = [Nanos::from_millis(100), Nanos::from_millis(1_500)];
/// Rate of a flood in rates that arrived at the end of the ramp. The queue fills at once the
/// capacity.
const OVERLOAD: f64 = 2.0;
/// Longest flood. It fills a queue of 1.5 s.
const FLOOD: Nanos = Nanos::from_millis(1_500);
/// Shortest time between two datagrams that ask for an answer while a rate is sent.
const ASK_EVERY: Nanos = Nanos::from_millis(5);
/// Most steps that are repeated because their sender was held up.
const MOST_REPEATED: u32 = 3;
/// Longest wait for an answer.
const PATIENCE: Nanos = Nanos::from_millis(1_000);
/// Shortest wait for the next answer while a queue may grow: 16 datagrams at 1 Mbit/s.
const QUEUED_PATIENCE: Nanos = Nanos::from_millis(200);

/// Limits of a probe.
#[derive(Clone, Copy, Debug)]
pub(super) struct ProbeLimits {
    /// Highest rate, in bits of IP packets.
    pub(super) rate: BitRate,
    /// Most bytes of IP packets.
    pub(super) bytes: Bytes,
    /// True if a flood may go on above 5 % loss.
    pub(super) may_lose: bool,
}

/// Next action of the sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// Send `n` datagrams of `payload` bytes at once; the last one asks for an answer if `asks`.
    Send { n: usize, payload: usize, asks: bool },
    /// Wait until then, or for an answer.
    Wait(Nanos),
    /// The probe is over.
    Done,
}

/// Result of a step of the ramp, with the rate that arrived.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Step {
    Carried,
    /// Datagrams were lost and did not wait.
    Lossy(BitRate),
    /// Datagrams waited in a queue.
    Queued(BitRate),
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Stage {
    Pings,
    Sizes(SizeSearch),
    Trains { sent: u32 },
    Ramp,
    Settle,
    Flood,
    Over,
}

/// State of a probe at its sender.
#[derive(Debug)]
pub(super) struct Course {
    limits: ProbeLimits,
    header_bytes: u64,
    stage: Stage,
    stage_from: Nanos,
    /// Phases that have ended.
    phases: Vec<ProbePhase>,
    /// The present phase, once its first datagram was sent.
    phase: Option<ProbePhase>,
    /// True while the present phase only waits for answers.
    is_waiting: bool,
    next_number: u64,
    bytes: u64,
    payload: usize,
    rate: BitRate,
    /// Start from which the datagrams of the rate are counted, and those counted.
    paced_from: Nanos,
    paced: u64,
    asked_at: Nanos,
    /// Answers to datagrams of the present phase.
    answers: Vec<Answer>,
    base_rtt: Option<Nanos>,
    widest_rtt: Nanos,
    ways: Ways,
    /// Times by which an answer to a train came later over the way back than the one before, ns.
    gaps: Vec<i64>,
    last_answer: Option<Answer>,
    lossy_since: Option<Nanos>,
    lossy_step: Option<BitRate>,
    /// Steps that were repeated.
    n_repeated: u32,
    sizes: Option<SizeSearch>,
}

impl Course {
    /// Creates the course of a probe whose interface takes payloads of `routed` bytes.
    pub(super) fn new(limits: ProbeLimits, routed: usize, header_bytes: u64) -> Self {
        Self {
            limits,
            header_bytes,
            stage: Stage::Pings,
            stage_from: Nanos(0),
            phases: Vec::with_capacity(MOST_PHASES),
            phase: None,
            is_waiting: false,
            next_number: 0,
            bytes: 0,
            payload: routed,
            rate: BitRate(0.0),
            paced_from: Nanos(0),
            paced: 0,
            asked_at: Nanos(0),
            answers: Vec::with_capacity(MOST_ANSWERS),
            base_rtt: None,
            widest_rtt: Nanos(0),
            ways: Ways::default(),
            gaps: Vec::with_capacity(MOST_GAPS),
            last_answer: None,
            lossy_since: None,
            lossy_step: None,
            n_repeated: 0,
            sizes: None,
        }
    }

    /// Returns true if nothing but pings is sent. Only they are sent as ECN-capable: a queue must
    /// drop a flood and not mark it.
    pub(super) fn is_pinging(&self) -> bool {
        matches!(self.stage, Stage::Pings)
    }

    /// Returns the number of the next datagram.
    pub(super) fn next_number(&self) -> u64 {
        self.next_number
    }

    /// Returns the phases that were sent, and the largest payload that was answered.
    pub(super) fn results(&mut self) -> (Vec<ProbePhase>, Option<Bytes>) {
        self.end_phase(ProbeEnd::Time);
        let largest = self.sizes.and_then(|sizes| sizes.answered());
        (std::mem::take(&mut self.phases), largest.map(|bytes| Bytes(bytes as u64)))
    }

    /// Returns what to do at `now`.
    pub(super) fn next(&mut self, now: Nanos) -> Action {
        if self.stage_from == Nanos(0) {
            self.stage_from = now;
        }
        // Every pass either returns or moves to a later stage, size, train or step.
        loop {
            let action = match self.stage {
                Stage::Pings => self.ping(now),
                Stage::Sizes(search) => self.size(now, search),
                Stage::Trains { sent } => self.train(now, sent),
                Stage::Ramp => self.ramp(now),
                Stage::Settle => self.settle(now),
                Stage::Flood => self.flood(now),
                Stage::Over => Some(Action::Done),
            };
            if let Some(action) = action {
                return action;
            }
        }
    }

    /// Records that `n` datagrams of `payload` bytes left at `now`; none did if the socket's buffer
    /// was full.
    pub(super) fn sent(&mut self, n: usize, payload: usize, asked: bool, now: Nanos) {
        if n == 0 {
            return;
        }
        let (kind, rate) = match self.stage {
            Stage::Pings => (ProbeKind::Idle, None),
            Stage::Sizes(_) => (ProbeKind::Sizes, None),
            Stage::Trains { .. } => (ProbeKind::Train, None),
            Stage::Ramp => (ProbeKind::Ramp, Some(self.rate)),
            Stage::Settle => (ProbeKind::Settle, None),
            Stage::Flood | Stage::Over => (ProbeKind::Flood, Some(self.rate)),
        };
        let first = self.next_number;
        let phase = self.phase.get_or_insert(ProbePhase {
            kind,
            first,
            n: 0,
            payload: Bytes(payload as u64),
            rate,
            from: now,
            until: now,
            ended: ProbeEnd::Complete,
        });
        phase.n += n as u64;
        phase.until = now;
        self.next_number += n as u64;
        self.paced += n as u64;
        self.bytes += n as u64 * (payload as u64 + self.header_bytes);
        if asked {
            self.asked_at = now;
        }
    }

    /// Records that the interface refused a datagram of `payload` bytes as too large.
    pub(super) fn refused(&mut self, payload: usize) {
        if let Stage::Sizes(search) = &mut self.stage {
            search.record(payload, false);
            self.end_phase(ProbeEnd::Complete);
        }
    }

    /// Records an answer.
    pub(super) fn answered(&mut self, answer: Answer) {
        if self.last_answer.is_some_and(|last| last.number >= answer.number) {
            return;
        }
        self.last_answer = Some(answer);
        self.ways.observe(&answer);
        self.widest_rtt = self.widest_rtt.max(answer.rtt);
        self.base_rtt = Some(self.base_rtt.map_or(answer.rtt, |base| base.min(answer.rtt)));
        let Some(phase) = self.phase.filter(|phase| answer.number >= phase.first) else { return };
        if self.answers.len() < self.answers.capacity() {
            self.answers.push(answer);
        }
        if let (Stage::Sizes(search), size) = (&mut self.stage, phase.payload.0 as usize) {
            search.record(size, true);
            self.end_phase(ProbeEnd::Complete);
        }
    }

    /// Ends the present phase.
    fn end_phase(&mut self, ended: ProbeEnd) {
        if let Some(phase) = self.phase.take()
            && self.phases.len() < self.phases.capacity()
        {
            self.phases.push(ProbePhase { ended, ..phase });
        }
        self.answers.clear();
        self.is_waiting = false;
        self.paced = 0;
        self.lossy_since = None;
    }

    fn enter(&mut self, stage: Stage, now: Nanos) {
        self.stage = stage;
        self.stage_from = now;
        self.paced_from = now;
    }

    /// Returns the number of datagrams sent in the present phase.
    fn n(&self) -> u64 {
        self.phase.map_or(0, |phase| phase.n)
    }

    /// Returns the bytes of an IP packet with the present payload.
    fn packet_bytes(&self) -> u64 {
        self.payload as u64 + self.header_bytes
    }

    /// Returns the time between two datagrams of the present rate, ns.
    fn gap_ns(&self) -> f64 {
        self.packet_bytes() as f64 * 8.0 / self.rate.0 * 1e9
    }

    /// Returns true if `n` more datagrams would exceed one of `parts` parts of the bytes, or of the
    /// records.
    fn exceeds(&self, n: u64, parts: u64) -> bool {
        self.bytes + n * self.packet_bytes() > self.limits.bytes.0 / parts
            || self.next_number + n > self.most_datagrams() / parts
    }

    /// Returns the most datagrams of this probe, of which the way back carries the record in time.
    fn most_datagrams(&self) -> u64 {
        MOST_DATAGRAMS.min(answer::recorded_in_time(self.gaps.clone()))
    }

    /// Returns true if the last datagram of the phase was answered, or nothing came for `patience`
    /// since the last one was sent or answered.
    fn is_answered(&self, now: Nanos, patience: Nanos) -> bool {
        let Some(phase) = self.phase else { return true };
        let last = phase.first + phase.n - 1;
        let answered = self.last_answer.is_some_and(|answer| answer.number >= last);
        let heard = self.last_answer.map_or(Nanos(0), |answer| answer.at);
        answered || now.since(phase.until.max(heard)) >= patience
    }

    /// Returns how long an answer may take on a path without a queue.
    fn patience(&self) -> Nanos {
        /// Time for a host that is busy with other programs.
        const WAKE_UP: Nanos = Nanos::from_millis(20);
        match self.base_rtt {
            Some(_) => Nanos(2 * self.widest_rtt.0 + WAKE_UP.0).min(PATIENCE),
            None => PATIENCE,
        }
    }

    /// Returns how long an answer may take after the one before, while datagrams wait in a queue.
    fn queued_patience(&self) -> Nanos {
        self.patience().max(QUEUED_PATIENCE)
    }

    fn ping(&mut self, now: Nanos) -> Option<Action> {
        if self.n() < PINGS {
            let due = Nanos(self.stage_from.0 + self.n() * PING_GAP.0);
            let ping = Action::Send { n: 1, payload: PING_BYTES, asks: true };
            return Some(if now < due { Action::Wait(due) } else { ping });
        }
        if !self.is_answered(now, self.patience()) {
            return Some(Action::Wait(now + PING_GAP));
        }
        self.end_phase(ProbeEnd::Complete);
        // Without any answer there is nothing to decide by.
        let sizes = Stage::Sizes(SizeSearch::new(LEAST_BYTES, self.payload));
        self.enter(if self.base_rtt.is_some() { sizes } else { Stage::Over }, now);
        None
    }

    fn size(&mut self, now: Nanos, search: SizeSearch) -> Option<Action> {
        let Some(size) = search.size() else {
            self.sizes = Some(search);
            self.payload = search.largest();
            self.enter(Stage::Trains { sent: 0 }, now);
            return None;
        };
        let gap = Nanos(self.patience().0 / COPIES);
        let due = self.phase.map_or(now, |phase| phase.until + gap);
        if self.n() < COPIES {
            let copy = Action::Send { n: 1, payload: size, asks: true };
            return Some(if now < due { Action::Wait(due) } else { copy });
        }
        if !self.is_answered(now, self.patience()) {
            return Some(Action::Wait(now + gap));
        }
        let mut search = search;
        search.record(size, false);
        self.stage = Stage::Sizes(search);
        self.end_phase(ProbeEnd::Complete);
        None
    }

    fn train(&mut self, now: Nanos, sent: u32) -> Option<Action> {
        let n = self.n();
        if n < TRAIN {
            let n = (TRAIN - n).min(BATCH as u64);
            return Some(Action::Send { n: n as usize, payload: self.payload, asks: true });
        }
        if !self.is_answered(now, self.queued_patience()) {
            return Some(Action::Wait(now + PING_GAP));
        }
        let room = self.gaps.capacity() - self.gaps.len();
        let gaps = self.answers.windows(2).map(|pair| pair[1].back_later_than(&pair[0]));
        self.gaps.extend(gaps.take(room));
        self.end_phase(ProbeEnd::Complete);
        let sent = sent + 1;
        let late = now.since(self.stage_from) >= TRAINS_TIME && sent >= FEWEST_TRAINS;
        // The ramp and the flood need most of the bytes.
        let spent = self.exceeds(TRAIN, 4);
        if sent < TRAINS && !late && !spent {
            self.stage = Stage::Trains { sent };
            return None;
        }
        self.rate = BitRate(RAMP_FROM.0.min(self.limits.rate.0));
        self.enter(Stage::Ramp, now);
        None
    }

    /// Returns the datagrams that are due at the present rate, or the wait for the next one.
    fn paced(&mut self, now: Nanos) -> Action {
        let gap = self.gap_ns();
        let passed = now.since(self.paced_from).0 as f64;
        let due = (passed / gap) as u64 + 1;
        if due <= self.paced {
            return Action::Wait(Nanos(self.paced_from.0 + (self.paced as f64 * gap) as u64 + 1));
        }
        let late = due - self.paced;
        let most = late::most(self.stage == Stage::Ramp, gap);
        if late > most {
            // A sender that was held up for long does not make up for it with one large burst.
            self.paced_from = now;
            self.paced = 0;
        }
        let n = late.min(most).min(BATCH as u64);
        // Answers that wait are asked for less often, or they would fill a slow way back.
        let waited = self.last_answer.map_or(Nanos(0), |last| self.ways.waits(&last)[1]);
        let asks = now.since(self.asked_at) >= ASK_EVERY.max(waited);
        Action::Send { n: n as usize, payload: self.payload, asks }
    }

    fn ramp(&mut self, now: Nanos) -> Option<Action> {
        let enough = self.n() >= STEP_DATAGRAMS && now.since(self.stage_from) >= STEP;
        let spent = self.exceeds(BATCH as u64, 2);
        if !self.is_waiting && !enough && !spent {
            return Some(self.paced(now));
        }
        if !self.is_waiting {
            self.is_waiting = true;
            // The step needs an answer to its end.
            return Some(Action::Send { n: 1, payload: self.payload, asks: true });
        }
        if !self.is_answered(now, self.queued_patience()) {
            return Some(Action::Wait(now + PING_GAP));
        }
        let seen = self.evaluate();
        let is_repeated = matches!(seen, Step::Queued(_))
            && !spent
            && self.n_repeated < MOST_REPEATED
            && self.phase.is_some_and(|step| late::fell_behind(&step, self.gap_ns()));
        self.end_phase(if spent { ProbeEnd::Bytes } else { ProbeEnd::Complete });
        if is_repeated {
            self.n_repeated += 1;
            self.enter(Stage::Ramp, now);
            return None;
        }
        let may_double = self.rate.0 < self.limits.rate.0 && !spent;
        let arrived = match seen {
            Step::Carried => None,
            Step::Queued(arrived) => Some(arrived),
            Step::Lossy(arrived) => match self.lossy_step.replace(arrived) {
                // Loss at any rate shows in the first step; one step more confirms it. Loss that
                // begins at a higher rate comes from the rate.
                None if may_double && self.rate.0 <= RAMP_FROM.0 => None,
                Some(before) if arrived.0 > GROWTH * before.0 && !self.limits.may_lose => {
                    // More arrived at twice the rate, so the path loses datagrams at any rate. Two
                    // such steps are 200 ms.
                    self.enter(Stage::Over, now);
                    return None;
                }
                Some(before) if arrived.0 > GROWTH * before.0 && may_double => None,
                _ => Some(arrived),
            },
        };
        match arrived {
            Some(arrived) => self.rate = BitRate((arrived.0 * OVERLOAD).min(self.limits.rate.0)),
            None if may_double => {
                self.rate = BitRate((self.rate.0 * 2.0).min(self.limits.rate.0));
                self.enter(Stage::Ramp, now);
                return None;
            }
            None => {}
        }
        self.enter(Stage::Settle, now);
        None
    }

    /// Judges the step of the ramp that has ended.
    fn evaluate(&self) -> Step {
        let half = &self.answers[self.answers.len() / 2..];
        let (first, last) = (self.answers.first(), self.answers.last());
        let Some((first, last)) = first.zip(last).filter(|(a, b)| b.number > a.number) else {
            // Next to nothing came back.
            return Step::Queued(BitRate(self.rate.0 / 4.0));
        };
        let loss = last.loss_since(first);
        let base = self.base_rtt.unwrap_or_default();
        let waited = half.iter().map(|answer| self.ways.waits(answer)[0]).min().unwrap_or_default();
        let queues = waited > QUEUE_DELAY.max(Nanos(base.0 / 4));
        if loss <= LOSS && !queues {
            return Step::Carried;
        }
        let bits = (last.received - first.received) as f64 * self.packet_bytes() as f64 * 8.0;
        let seconds = last.arrived.since(first.arrived).as_secs_f64();
        let arrived = if seconds > 0.0 { bits / seconds } else { self.rate.0 };
        // A short step measures roughly: the flood stays within a factor of the step's rate.
        let arrived = BitRate(arrived.clamp(self.rate.0 / 8.0, self.rate.0));
        if queues { Step::Queued(arrived) } else { Step::Lossy(arrived) }
    }

    fn settle(&mut self, now: Nanos) -> Option<Action> {
        let [least, most] = SETTLE;
        let passed = now.since(self.stage_from);
        let base = self.base_rtt.unwrap_or_default();
        let is_empty = self.answers.last().is_some_and(|last| {
            self.ways.waits(last)[0] <= Nanos(QUEUE_DELAY.0 / 2).max(Nanos(base.0 / 4))
        });
        if passed < least || (passed < most && !is_empty) {
            let due = Nanos(self.stage_from.0 + self.n() * 2 * PING_GAP.0);
            let ping = Action::Send { n: 1, payload: PING_BYTES, asks: true };
            return Some(if now < due { Action::Wait(due) } else { ping });
        }
        self.end_phase(ProbeEnd::Complete);
        self.enter(Stage::Flood, now);
        None
    }

    fn flood(&mut self, now: Nanos) -> Option<Action> {
        if !self.is_waiting {
            let ended = self.end_of_flood(now);
            let Some(ended) = ended else { return Some(self.paced(now)) };
            self.is_waiting = true;
            if let Some(phase) = &mut self.phase {
                phase.ended = ended;
            }
        }
        if !self.is_answered(now, self.queued_patience()) {
            return Some(Action::Wait(now + PING_GAP));
        }
        let ended = self.phase.map_or(ProbeEnd::Complete, |phase| phase.ended);
        self.end_phase(ended);
        self.enter(Stage::Over, now);
        None
    }

    /// Returns the reason to end the flood, if there is one.
    fn end_of_flood(&mut self, now: Nanos) -> Option<ProbeEnd> {
        if now.since(self.stage_from) >= FLOOD {
            return Some(ProbeEnd::Complete);
        }
        if self.exceeds(BATCH as u64, 1) {
            return Some(ProbeEnd::Bytes);
        }
        if self.limits.may_lose {
            return None;
        }
        let heard = self.answers.last().map_or(self.stage_from, |last| last.at);
        // Everything is lost, or waits longer than any answer is awaited.
        if now.since(heard) >= PATIENCE {
            return Some(ProbeEnd::Loss);
        }
        if let Some(last) = self.answers.last() {
            let before = self.answers.iter().rev();
            let earlier = before.copied().find(|one| last.at.since(one.at) >= LOSS_SPAN);
            let is_lossy = earlier.is_some_and(|earlier| last.loss_since(&earlier) > LOSS);
            self.lossy_since = is_lossy.then(|| self.lossy_since.unwrap_or(last.at));
        }
        let lossy = self.lossy_since.is_some_and(|since| heard.since(since) >= LOSS_TIME);
        lossy.then_some(ProbeEnd::Loss)
    }
}

#[cfg(test)]
mod tests;
