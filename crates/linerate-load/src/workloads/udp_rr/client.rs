//! Active end: sends requests in numbered places, times their responses, and gives up after the
//! timeout.

use std::collections::BTreeMap;

use linerate_model::{Counter, FlowReport, Load, Nanos};
use linerate_sys::clock;

use super::UdpRrParams;
use super::flow::{DatagramFlow, label_mode, shares};
use crate::workloads::arrivals::{late_starts, mean_gap};
use crate::workloads::byte_flow::modes;
use crate::workloads::companion::Companion;
use crate::workloads::datagram::{Purpose, write_label};
use crate::workloads::pairing::Paired;
use crate::workloads::rest::Rest;
use crate::workloads::socket_options;
use crate::{Due, Progress, Result, Secret, Start, Tally, Times, Worker, Workers};

/// Largest possible response.
const BUFFER_BYTES: usize = 1 << 16;
/// Interval between searches for requests past their timeout.
const LOOK_EVERY: Nanos = Nanos::from_millis(1);

/// State of the latest request in a place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Unused,
    Outstanding,
    Answered,
    GivenUp,
}

/// Place for one outstanding request. The `g`-th request in place `p` has the number `g * stride +
/// p`, where the stride is a power of two: so even a shortened number identifies its place.
#[derive(Clone, Copy, Debug, Default)]
struct RequestPlace {
    state: State,
    number: u64,
    start: Start,
}

/// Kind of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    /// To an outstanding request, which started at this time.
    InTime(Start),
    /// A second response to one request.
    Duplicate,
    /// To a request past its timeout.
    Late,
}

/// Requests of one flow.
#[derive(Debug)]
struct Window {
    places: Box<[RequestPlace]>,
    free: Vec<u32>,
    stride: u64,
    /// Bits of a number that come back.
    mask: u64,
}

impl Window {
    fn new(depth: u32, number_bits: u32) -> Self {
        Self {
            places: (0..u64::from(depth))
                .map(|number| RequestPlace { number, ..RequestPlace::default() })
                .collect(),
            free: (0..depth).rev().collect(),
            stride: u64::from(depth).next_power_of_two(),
            mask: u64::MAX >> (u64::BITS - number_bits),
        }
    }

    fn outstanding(&self) -> usize {
        self.places.len() - self.free.len()
    }

    /// Takes a free place and returns the number of the request in it.
    #[inline]
    fn start(&mut self, start: Start) -> Option<u64> {
        let idx = self.free.pop()?;
        let place = &mut self.places[idx as usize];
        if place.state != State::Unused {
            place.number = place.number.wrapping_add(self.stride);
        }
        (place.state, place.start) = (State::Outstanding, start);
        Some(place.number)
    }

    /// Frees the place of a request that could not be sent.
    fn cancel(&mut self, number: u64) {
        let idx = number % self.stride;
        self.places[idx as usize].state = State::Answered;
        self.free.push(idx as u32);
    }

    /// Matches the low bits of a number that came back.
    #[inline]
    fn answer(&mut self, bits: u64) -> Answer {
        let idx = (bits % self.stride) as usize;
        let Some(place) = self.places.get_mut(idx).filter(|place| place.number & self.mask == bits)
        else {
            return Answer::Late;
        };
        match place.state {
            State::Outstanding => {
                place.state = State::Answered;
                self.free.push(idx as u32);
                Answer::InTime(place.start)
            }
            State::Answered => Answer::Duplicate,
            State::GivenUp | State::Unused => Answer::Late,
        }
    }

    /// Gives up requests that were started before `instant`: calls `lost` for each, and returns
    /// their number.
    fn give_up(&mut self, instant: Nanos, mut lost: impl FnMut(Start)) -> u64 {
        let mut n = 0;
        for (idx, place) in (0_u32..).zip(&mut self.places) {
            if place.state == State::Outstanding && place.start.at < instant {
                place.state = State::GivenUp;
                self.free.push(idx);
                lost(place.start);
                n += 1;
            }
        }
        n
    }

    /// Returns the start of each outstanding request.
    fn open(&self) -> impl Iterator<Item = Start> + '_ {
        self.places
            .iter()
            .filter(|place| place.state == State::Outstanding)
            .map(|place| place.start)
    }
}

struct UdpRrClient {
    number: u32,
    flows: Vec<(DatagramFlow, Window)>,
    turn: usize,
    request: Box<[u8]>,
    buffer: Box<[u8]>,
    load: Load,
    mean_gap: Option<Nanos>,
    timeout: Nanos,
    look_at: Nanos,
    alone: bool,
    rest: Rest,
    companion: Companion,
    stopped: bool,
    modes: BTreeMap<String, String>,
}

/// Deals the flows to workers.
pub(super) fn deal(params: &UdpRrParams, secret: Secret, mut paired: Paired) -> Result<Workers> {
    let UdpRrParams { depth, timeout, exchange, arrivals, placement, .. } = params;
    let open = arrivals.is_open();
    let shares = shares(params, secret, &mut paired, (Purpose::Request, Purpose::Response), open)?;
    let mut workers = Workers::new();
    for ((number, own), stream) in (0_u32..).zip(shares).zip(paired.companions) {
        let alone = placement.is_alone(own.len(), open);
        let load = arrivals.requests(*depth, own.len(), placement.streams());
        let mut modes = modes(placement.wait, alone, open);
        modes.insert("label".to_owned(), label_mode(params));
        let rest =
            Rest::new(placement.wait, own.iter().map(DatagramFlow::socket).filter(|_| !alone))?;
        let window = || Window::new(*depth, params.number_bits());
        workers.push(Box::new(UdpRrClient {
            number,
            flows: own.into_iter().map(|flow| (flow, window())).collect(),
            turn: 0,
            request: vec![b'q'; exchange.request_bytes()].into_boxed_slice(),
            buffer: vec![0; BUFFER_BYTES].into_boxed_slice(),
            load,
            mean_gap: mean_gap(load),
            timeout: *timeout,
            look_at: Nanos(0),
            alone,
            rest,
            companion: Companion::new(stream)?,
            stopped: false,
            modes,
        }));
    }
    Ok(workers)
}

impl UdpRrClient {
    /// Starts due requests: on each flow in turn, as many as its depth has room for.
    #[inline]
    fn start(&mut self, due: Due, tally: &mut Tally) {
        let mut now = Nanos(clock::monotonic());
        let mut started = 0;
        let first = now;
        'flows: for _ in 0..self.flows.len() {
            self.turn = if self.turn + 1 < self.flows.len() { self.turn + 1 } else { 0 };
            let (flow, window) = &mut self.flows[self.turn];
            while started < due.operations {
                let intended = match self.mean_gap {
                    Some(_) => Nanos(due.intended.0 + u64::from(started) * due.gap.0),
                    None => now,
                };
                let Some(number) = window.start(Start { at: now, intended }) else { break };
                write_label(&mut self.request, flow.outward, number);
                if !flow.send(&self.request, tally) {
                    window.cancel(number);
                    break 'flows;
                }
                started += 1;
                tally.started(intended);
                if window.free.is_empty() {
                    break;
                }
                // The next request follows at once and has its own start.
                now = Nanos(clock::monotonic());
            }
            // The next flow has its turn at the next step.
            if started == due.operations {
                break;
            }
        }
        if let Some(gap) = self.mean_gap {
            tally.defer(due.operations - started);
            tally.add(Counter::LateStarts, late_starts(first, due.intended, gap, started.into()));
        }
    }

    /// Receives on every flow with outstanding requests until its socket is empty (once, if the
    /// call waits).
    #[inline]
    fn receive(&mut self, tally: &mut Tally) -> bool {
        let mut moved = false;
        for (flow, window) in &mut self.flows {
            while window.outstanding() > 0 || self.stopped {
                let (label, came) = flow.receive(&mut self.buffer, tally);
                moved |= came;
                if let Some(bits) = label {
                    match window.answer(bits) {
                        Answer::InTime(start) => {
                            tally.answered(start, Nanos(clock::monotonic()));
                            flow.count(tally, Counter::Transactions, 1);
                        }
                        Answer::Duplicate => flow.count(tally, Counter::Duplicates, 1),
                        Answer::Late => flow.count(tally, Counter::Late, 1),
                    }
                }
                if !came || self.alone {
                    break;
                }
            }
        }
        moved
    }

    /// Gives up requests past their timeout: they are lost, with an infinite time.
    fn give_up(&mut self, now: Nanos, tally: &mut Tally) {
        self.look_at = now + LOOK_EVERY;
        let before = now.since(self.timeout);
        for (flow, window) in &mut self.flows {
            let lost = window.give_up(before, |start| tally.lost(start, now));
            flow.count(tally, Counter::TransactionsLost, lost);
        }
    }
}

impl Worker for UdpRrClient {
    fn load(&self) -> Load {
        self.load
    }

    fn times(&self) -> Times {
        Times::REQUESTS
    }

    fn step(&mut self, due: Due, tally: &mut Tally) -> Progress {
        if due.operations > 0 && !self.stopped {
            self.start(due, tally);
        }
        let moved = self.receive(tally);
        // For a closed load the engine's last clock reading is recent enough.
        let now = if self.mean_gap.is_some() { Nanos(clock::monotonic()) } else { due.intended };
        if now >= self.look_at {
            self.give_up(now, tally);
            self.companion.look(now, |_, _| {});
        }
        if moved {
            return Progress::Moved;
        }
        let outstanding = self.flows.iter().any(|(_, window)| window.outstanding() > 0);
        if self.companion.is_gone() || (self.stopped && !outstanding) {
            return Progress::Ended;
        }
        if !self.alone {
            self.rest.until(due);
        }
        Progress::Idle
    }

    fn held_bytes(&self) -> Option<u64> {
        socket_options::held(self.flows.iter().map(|(flow, _)| flow.socket()))
    }

    fn stop_sending(&mut self) {
        self.stopped = true;
    }

    fn leave_open(&mut self, now: Nanos, tally: &mut Tally) {
        self.flows
            .iter()
            .flat_map(|(_, window)| window.open())
            .for_each(|start| tally.left_open(start, now));
    }

    fn finish(&mut self) -> Vec<FlowReport> {
        let (worker, modes) = (self.number, &self.modes);
        self.flows.drain(..).map(|(flow, _)| flow.report(worker, modes)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_late_response_is_not_taken_for_that_of_the_next_request() {
        let start = |at, intended| Start { at: Nanos(at), intended: Nanos(intended) };
        for number_bits in [8, 64] {
            let mut window = Window::new(1, number_bits);
            let first = window.start(start(10, 5)).expect("room");
            assert_eq!(window.start(start(11, 6)), None, "one outstanding");
            assert_eq!(window.open().collect::<Vec<_>>(), [start(10, 5)]);
            let mut lost = Vec::new();
            assert_eq!(window.give_up(Nanos(10), |start| lost.push(start)), 0);
            assert_eq!(window.give_up(Nanos(11), |start| lost.push(start)), 1);
            assert_eq!((lost, window.open().count()), (vec![start(10, 5)], 0));
            let second = window.start(start(20, 15)).expect("room again");
            assert_eq!(window.answer(first), Answer::Late);
            assert_eq!(window.answer(second), Answer::InTime(start(20, 15)));
            assert_eq!(window.answer(second), Answer::Duplicate);
        }
    }

    #[test]
    fn short_numbers_wrap_without_confusing_places() {
        let mut window = Window::new(100, 8);
        let mut open = std::collections::VecDeque::new();
        for k in 0..10_000_u64 {
            let start = Start { at: Nanos(k), intended: Nanos(k) };
            open.push_back((window.start(start).expect("room"), start));
            if open.len() == 100 {
                // Answered out of order: the newest but one first.
                let (number, start) = open.remove(98).expect("a hundred are open");
                assert_eq!(window.answer(number & 0xff), Answer::InTime(start));
            }
        }
    }
}
