//! The server's side of one test, as a state machine: bytes of the control connection and events of
//! the data streams in, bytes and orders out, the time as an argument.

use std::time::Duration;

use crate::wire::{
    MAX_BLOCK, MAX_STREAMS, PARAMETERS_LIMIT, Parameters, Protocol, RESULTS_LIMIT, Results, State,
    WireError, framed, take_json, take_state,
};

/// Time limits and bounds of a test.
#[derive(Clone, Debug, PartialEq)]
pub struct Limits {
    /// Longest time until the next message of a client that has to send one.
    pub answer: Duration,
    /// Longest time that a client waits for its turn to open UDP streams.
    pub queue: Duration,
    /// Longest time until all data streams are there.
    pub streams: Duration,
    /// Longest time after the announced length of a load until the client must have ended it.
    pub grace: Duration,
    /// Longest load, and length of one without an announced length.
    pub load: Duration,
    /// Highest rate that a client may offer, all streams together, bit/s.
    pub rate: Option<u64>,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            answer: Duration::from_secs(10),
            queue: Duration::from_secs(25),
            streams: Duration::from_secs(10),
            grace: Duration::from_secs(10),
            load: Duration::from_secs(24 * 3600),
            rate: None,
        }
    }
}

/// Order of the machine to its owner.
#[derive(Clone, Debug, PartialEq)]
pub enum Order {
    /// Send these bytes to the client.
    Send(Vec<u8>),
    /// Prepare for the data streams of these parameters, then call [`Session::ready`].
    Open(Box<Parameters>),
    /// Start the load: data may flow.
    Start,
    /// End the load, and close the data streams.
    Stop,
    /// Take the results of the client, and answer with [`Session::answer`].
    Results(Box<Results>),
    /// Close the control connection: the test is over.
    Close(Ending),
}

/// How a test ended.
#[derive(Clone, Debug, PartialEq)]
pub enum Ending {
    /// Results were exchanged.
    Complete,
    /// The client ended the test before its end.
    Interrupted,
    /// The client closed the connection, or vanished.
    Gone,
    /// The client missed a deadline while it had to do this.
    Late(&'static str),
    /// The client asked for something that the server does not do; iperf3's number of the error.
    Refused(u32, String),
    /// The client sent something else than the protocol has.
    Broken(WireError),
    /// The owner of the server ended it.
    Terminated,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Parameters,
    Preparing { left: u32 },
    Streams { left: u32 },
    Running,
    TheirResults,
    OurResults,
    Done,
    Over,
}

/// iperf3's numbers of errors (`iperf_api.h`).
mod errors {
    pub(super) const DURATION: u32 = 5;
    pub(super) const STREAMS: u32 = 6;
    pub(super) const BLOCK: u32 = 7;
    pub(super) const UDP_BLOCK: u32 = 20;
    pub(super) const RATE: u32 = 27;
    pub(super) const UNKNOWN: u32 = 110;
    pub(super) const PARAMETERS: u32 = 114;
    pub(super) const RESULTS: u32 = 117;
    pub(super) const EXPIRED: u32 = 160;
}

/// One test.
#[derive(Debug)]
pub struct Session {
    phase: Phase,
    unread: Vec<u8>,
    limits: Limits,
    deadline: Duration,
    /// Length of the load, with the warm-up; `None` before the parameters.
    load: Option<Duration>,
}

impl Session {
    /// Begins a test whose cookie has been read, at `now`.
    #[must_use]
    pub fn begin(limits: Limits, now: Duration) -> (Self, Vec<Order>) {
        let deadline = now + limits.answer;
        let unread = Vec::new();
        let session = Self { phase: Phase::Parameters, unread, limits, deadline, load: None };
        (session, vec![state(State::ParamExchange)])
    }

    /// Returns the time by which the client must have done something.
    #[must_use]
    pub fn deadline(&self) -> Duration {
        self.deadline
    }

    /// Returns whether the test is over.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.phase == Phase::Over
    }

    /// Takes bytes of the control connection.
    pub fn received(&mut self, bytes: &[u8], now: Duration) -> Vec<Order> {
        self.unread.extend_from_slice(bytes);
        let mut orders = Vec::new();
        loop {
            match self.step(now, &mut orders) {
                Ok(true) => {}
                Ok(false) => return orders,
                Err(cause) => {
                    let number = match self.phase {
                        Phase::Parameters => errors::PARAMETERS,
                        Phase::TheirResults => errors::RESULTS,
                        _ => errors::UNKNOWN,
                    };
                    self.fail(number, Ending::Broken(cause), &mut orders);
                    return orders;
                }
            }
        }
    }

    /// Takes the next message from the unread bytes; `false` if there is none.
    fn step(&mut self, now: Duration, orders: &mut Vec<Order>) -> Result<bool, WireError> {
        match self.phase {
            Phase::Over | Phase::OurResults => return Ok(false),
            Phase::Parameters => {
                let Some(object) = take_json(&mut self.unread, PARAMETERS_LIMIT)? else {
                    return Ok(false);
                };
                self.parameters(Parameters::read(&object), now, orders);
            }
            Phase::TheirResults => {
                let Some(object) = take_json(&mut self.unread, RESULTS_LIMIT)? else {
                    return Ok(false);
                };
                let results = Results::read(&object)?;
                self.phase = Phase::OurResults;
                orders.push(Order::Results(Box::new(results)));
            }
            // States may only come in these.
            Phase::Preparing { .. } | Phase::Streams { .. } | Phase::Running | Phase::Done => {
                let Some(message) = take_state(&mut self.unread)? else { return Ok(false) };
                match (self.phase, message) {
                    (Phase::Running, State::TestEnd) => {
                        self.phase = Phase::TheirResults;
                        self.deadline = now + self.limits.answer;
                        orders.extend([Order::Stop, state(State::ExchangeResults)]);
                    }
                    (Phase::Done, State::IperfDone) => self.end(Ending::Complete, orders),
                    (_, State::ClientTerminate) => self.end(Ending::Interrupted, orders),
                    (_, other) => return Err(WireError::State(other as i8)),
                }
            }
        }
        Ok(true)
    }

    fn parameters(&mut self, asked: Parameters, now: Duration, orders: &mut Vec<Order>) {
        if let Some((number, why)) = self.refusal(&asked) {
            return self.fail(number, Ending::Refused(number, why), orders);
        }
        let omit = Duration::from_secs(asked.omit.into());
        let load = match asked.time {
            0 => self.limits.load,
            time => Duration::from_secs(time.into()) + omit,
        };
        self.load = Some(load);
        let left = asked.streams().iter().sum();
        self.phase = Phase::Preparing { left };
        self.deadline = now + self.limits.queue;
        orders.push(Order::Open(Box::new(asked)));
    }

    /// Lets the client open its data streams.
    pub fn ready(&mut self, now: Duration) -> Vec<Order> {
        let Phase::Preparing { left } = self.phase else { return Vec::new() };
        self.phase = Phase::Streams { left };
        self.deadline = now + self.limits.streams;
        vec![state(State::CreateStreams)]
    }

    /// Returns iperf3's number of the error, and why these parameters are refused.
    fn refusal(&self, asked: &Parameters) -> Option<(u32, String)> {
        let n = asked.parallel;
        let length = asked.length.unwrap_or(0);
        let is_udp = asked.protocol == Protocol::Udp;
        let total = asked.bandwidth.map(|rate| rate.saturating_mul(n.into()));
        let seconds = u64::from(asked.time) + u64::from(asked.omit);
        if let Some(name) = asked.unknown.iter().find(|name| ["sctp", "mptcp"].contains(name)) {
            return Some((errors::UNKNOWN, format!("{name} is not served")));
        }
        if n > MAX_STREAMS {
            return Some((errors::STREAMS, format!("{n} streams, at most {MAX_STREAMS}")));
        }
        if is_udp && length != 0 && !(16..=65_507).contains(&length) {
            return Some((errors::UDP_BLOCK, format!("datagrams of {length} bytes")));
        }
        if !is_udp && length > MAX_BLOCK {
            return Some((errors::BLOCK, format!("blocks of {length} bytes, at most {MAX_BLOCK}")));
        }
        if Duration::from_secs(seconds) > self.limits.load {
            let most = self.limits.load.as_secs();
            return Some((errors::DURATION, format!("{seconds} s, at most {most} s")));
        }
        let most = self.limits.rate?;
        let is_too_fast = total.is_none_or(|total| total > most);
        is_too_fast.then(|| (errors::RATE, format!("more than {most} bit/s offered")))
    }

    /// Notes that a data stream is there.
    pub fn opened(&mut self, now: Duration) -> Vec<Order> {
        let Phase::Streams { left } = self.phase else { return Vec::new() };
        if left > 1 {
            self.phase = Phase::Streams { left: left - 1 };
            return Vec::new();
        }
        self.phase = Phase::Running;
        self.deadline = now + self.load.unwrap_or_default() + self.limits.grace;
        vec![state(State::TestStart), state(State::TestRunning), Order::Start]
    }

    /// Answers with the results of this end, when those of the client have been taken.
    pub fn answer(&mut self, results: &Results, now: Duration) -> Vec<Order> {
        if self.phase != Phase::OurResults {
            return Vec::new();
        }
        self.phase = Phase::Done;
        self.deadline = now + self.limits.answer;
        let mut orders = vec![Order::Send(framed(&results.json())), state(State::DisplayResults)];
        orders.extend(self.received(&[], now));
        orders
    }

    /// Notes the end of the control connection.
    pub fn closed(&mut self) -> Vec<Order> {
        let mut orders = Vec::new();
        // Some clients close without a word once they have the results.
        let ending = if self.phase == Phase::Done { Ending::Complete } else { Ending::Gone };
        self.end(ending, &mut orders);
        orders
    }

    /// Ends the test if its deadline has passed.
    pub fn tick(&mut self, now: Duration) -> Vec<Order> {
        let mut orders = Vec::new();
        if now >= self.deadline && !self.is_over() {
            let missed = match self.phase {
                Phase::Parameters => "send parameters",
                Phase::Preparing { .. } => "wait for its turn",
                Phase::Streams { .. } => "open data streams",
                Phase::Running => "end the load",
                Phase::TheirResults | Phase::OurResults => "send results",
                Phase::Done | Phase::Over => "close the test",
            };
            self.fail(errors::EXPIRED, Ending::Late(missed), &mut orders);
        }
        orders
    }

    /// Ends the test with iperf3's error `number`, which the client prints.
    pub fn refuse(&mut self, number: u32, why: String) -> Vec<Order> {
        let mut orders = Vec::new();
        if !self.is_over() {
            self.fail(number, Ending::Refused(number, why), &mut orders);
        }
        orders
    }

    /// Ends the test for the owner of the server.
    pub fn terminate(&mut self) -> Vec<Order> {
        let mut orders = Vec::new();
        if !self.is_over() {
            orders.push(state(State::ServerTerminate));
            self.end(Ending::Terminated, &mut orders);
        }
        orders
    }

    /// Ends the test with an error that the client prints.
    fn fail(&mut self, number: u32, ending: Ending, orders: &mut Vec<Order>) {
        let mut message = vec![State::ServerError.byte()];
        message.extend_from_slice(&number.to_be_bytes());
        // There is no error of the kernel.
        message.extend_from_slice(&0_u32.to_be_bytes());
        orders.push(Order::Send(message));
        self.end(ending, orders);
    }

    fn end(&mut self, ending: Ending, orders: &mut Vec<Order>) {
        if self.is_over() {
            return;
        }
        if self.phase == Phase::Running {
            orders.push(Order::Stop);
        }
        self.phase = Phase::Over;
        orders.push(Order::Close(ending));
    }
}

fn state(state: State) -> Order {
    Order::Send(vec![state.byte()])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    const S: fn(u64) -> Duration = Duration::from_secs;

    fn begun() -> Session {
        let (session, orders) = Session::begin(Limits::default(), S(0));
        assert_eq!(orders, [Order::Send(vec![9])]);
        session
    }

    fn parameters(more: Value) -> Vec<u8> {
        let mut object = json!({"tcp": true, "omit": 1, "time": 2, "parallel": 2});
        for (key, value) in more.as_object().expect("an object") {
            object[key] = value.clone();
        }
        framed(&object)
    }

    fn results() -> Results {
        Results { cpu: [1.0, 1.0, 0.0], ..Results::default() }
    }

    /// A session with its load running since `S(3)`.
    fn running() -> Session {
        let mut session = begun();
        let orders = session.received(&parameters(json!({})), S(1));
        assert!(matches!(&orders[..], [Order::Open(_)]));
        assert_eq!(session.opened(S(1)), [], "it is not ready");
        assert_eq!(session.ready(S(1)), [Order::Send(vec![10])]);
        assert_eq!(session.opened(S(2)), []);
        let started = [Order::Send(vec![1]), Order::Send(vec![2]), Order::Start];
        assert_eq!(session.opened(S(3)), started);
        session
    }

    #[test]
    fn a_whole_test_in_single_bytes_is_the_same_as_in_one_piece() {
        let mut session = running();
        assert_eq!(session.deadline(), S(3 + 1 + 2 + 10));
        let ended = session.received(&[4], S(6));
        assert_eq!(ended, [Order::Stop, Order::Send(vec![13])]);
        let mut orders = Vec::new();
        for byte in framed(&results().json()) {
            orders.extend(session.received(&[byte], S(6)));
        }
        assert_eq!(orders, [Order::Results(Box::new(results()))]);
        let answered = session.answer(&results(), S(6));
        let expected = [Order::Send(framed(&results().json())), Order::Send(vec![14])];
        assert_eq!(answered, expected);
        assert_eq!(session.received(&[16], S(6)), [Order::Close(Ending::Complete)]);
        assert!(session.is_over());
        assert_eq!(session.received(&[16], S(6)), []);
    }

    #[test]
    fn a_client_that_vanishes_or_interrupts_ends_its_load() {
        let mut session = running();
        assert_eq!(session.received(&[12], S(4)), [Order::Stop, Order::Close(Ending::Interrupted)]);
        assert_eq!(running().closed(), [Order::Stop, Order::Close(Ending::Gone)]);
        assert_eq!(begun().closed(), [Order::Close(Ending::Gone)]);
        let terminated = [Order::Send(vec![11]), Order::Stop, Order::Close(Ending::Terminated)];
        assert_eq!(running().terminate(), terminated);
    }

    #[test]
    fn every_phase_has_a_deadline_and_the_client_reads_why() {
        let late = |mut session: Session, missed: &'static str| {
            let deadline = session.deadline();
            assert_eq!(session.tick(deadline - Duration::from_nanos(1)), []);
            let orders = session.tick(deadline);
            assert_eq!(orders[0], Order::Send(vec![254, 0, 0, 0, 160, 0, 0, 0, 0]));
            assert_eq!(orders.last(), Some(&Order::Close(Ending::Late(missed))));
        };
        late(begun(), "send parameters");
        let mut waiting = begun();
        waiting.received(&parameters(json!({})), S(1));
        late(waiting, "wait for its turn");
        let mut waiting = begun();
        waiting.received(&parameters(json!({})), S(1));
        waiting.ready(S(3));
        late(waiting, "open data streams");
        late(running(), "end the load");
        let mut session = running();
        session.received(&[4], S(6));
        late(session, "send results");
        // A load without a length has the longest.
        let mut endless = begun();
        endless.received(&parameters(json!({"time": 0, "parallel": 1})), S(1));
        endless.ready(S(1));
        endless.opened(S(2));
        assert_eq!(endless.deadline(), S(2 + 24 * 3600 + 10));
    }

    #[test]
    fn what_is_out_of_range_is_refused_with_the_number_of_iperf3() {
        for (more, number) in [
            (json!({"parallel": 129}), 6),
            (json!({"len": 1_048_577}), 7),
            (json!({"udp": true, "len": 15}), 20),
            (json!({"udp": true, "len": 65_508}), 20),
            (json!({"time": 86_400}), 5),
            (json!({"sctp": true}), 110),
        ] {
            let orders = begun().received(&parameters(more.clone()), S(1));
            let sent = [&[254, 0, 0, 0, number][..], &[0; 4]].concat();
            assert_eq!(orders[0], Order::Send(sent), "{more}");
            let Some(Order::Close(Ending::Refused(of, _))) = orders.last() else {
                panic!("{more}: {orders:?}");
            };
            assert_eq!(*of, u32::from(number), "{more}");
        }
        let limits = Limits { rate: Some(1_000), ..Limits::default() };
        for (more, is_refused) in [
            (json!({"bandwidth": 500}), false),
            (json!({"bandwidth": 501}), true),
            (json!({}), true),
        ] {
            let (mut session, _) = Session::begin(limits.clone(), S(0));
            let orders = session.received(&parameters(more), S(1));
            assert_eq!(matches!(orders[0], Order::Send(_)), is_refused);
        }
        for (bytes, number) in [(&[0, 0, 32, 1][..], 114), (b"\0\0\0\x02xx", 114)] {
            let orders = begun().received(bytes, S(1));
            assert_eq!(orders[0], Order::Send(vec![254, 0, 0, 0, number, 0, 0, 0, 0]));
        }
        let orders = running().received(&[10], S(4));
        assert_eq!(orders.last(), Some(&Order::Close(Ending::Broken(WireError::State(10)))));
    }

    proptest! {
        #[test]
        fn any_bytes_at_any_time_end_a_test_once_and_never_panic(
            events in proptest::collection::vec(
                (0_u8..7, proptest::collection::vec(any::<u8>(), 0..12)), 0..30),
        ) {
            let mut session = begun();
            let mut orders = session.received(&parameters(json!({})), S(0));
            for (time, (kind, bytes)) in (0..).zip(events) {
                let now = S(time);
                orders.extend(match kind {
                    0 => session.opened(now),
                    5 => session.ready(now),
                    1 => session.answer(&results(), now),
                    2 => session.tick(now),
                    3 => session.received(&[4], now),
                    4 => session.received(&framed(&results().json()), now),
                    _ => session.received(&bytes, now),
                });
            }
            orders.extend(session.closed());
            let n_closed = orders.iter().filter(|order| matches!(order, Order::Close(_))).count();
            prop_assert_eq!(n_closed, 1);
            let is = |wanted: Order| orders.iter().filter(|order| **order == wanted).count();
            prop_assert!(is(Order::Stop) <= is(Order::Start));
            prop_assert!(session.is_over());
        }
    }
}
