//! The client's side of one test, as a state machine.

use std::time::Duration;

use crate::endings::error_text;
use crate::wire::{
    Parameters, RESULTS_LIMIT, Results, State, WireError, framed, take_json, take_state,
};

/// Order of the machine to its owner.
#[derive(Clone, Debug, PartialEq)]
pub enum Order {
    /// Send these bytes to the server.
    Send(Vec<u8>),
    /// Open the data streams, one after another.
    Open,
    /// Start the load: data may flow.
    Start,
    /// Stop the data streams and pass the results of this end to [`Client::answer`].
    Results,
    /// Take the results of the server. The test is complete.
    Done(Box<Results>),
    /// The test has failed.
    Failed(Failure),
}

/// Why a test failed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Failure {
    /// The server serves somebody else.
    #[error("it is busy with another test (an iperf3 server has one at a time)")]
    Busy,
    /// The server gave the test up.
    #[error("it ended the test")]
    Terminated,
    /// The server reported an error.
    #[error("it reported error {0}: {text}", text = error_text(*.0))]
    Reported(u32),
    /// The server closed the connection.
    #[error("it closed the connection while this end {0}")]
    Closed(&'static str),
    /// The server did not answer in time.
    #[error("no answer within the time limit while this end {0}")]
    Silent(&'static str),
    /// The bytes are not iperf3's protocol.
    #[error("it does not use the protocol of iperf3: {0}")]
    Broken(#[from] WireError),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Accepted,
    Parameters,
    Opening,
    Opened,
    Starting,
    Running,
    Ending,
    OurResults,
    TheirResults,
    Display,
    Over,
}

/// One test.
#[derive(Debug)]
pub struct Client {
    phase: Phase,
    unread: Vec<u8>,
    parameters: Parameters,
    patience: Duration,
    deadline: Option<Duration>,
    /// Results of the server, until it says that they are complete.
    theirs: Option<Box<Results>>,
}

impl Client {
    /// Begins a test at `now`. The owner has sent the cookie. The server has `patience` for each
    /// answer.
    #[must_use]
    pub fn begin(parameters: Parameters, patience: Duration, now: Duration) -> Self {
        let deadline = Some(now + patience);
        let (phase, unread, theirs) = (Phase::Accepted, Vec::new(), None);
        Self { phase, unread, parameters, patience, deadline, theirs }
    }

    /// Returns the time by which the server must have answered, if it must.
    #[must_use]
    pub fn deadline(&self) -> Option<Duration> {
        self.deadline
    }

    /// Takes bytes of the control connection.
    pub fn received(&mut self, bytes: &[u8], now: Duration) -> Vec<Order> {
        self.unread.extend_from_slice(bytes);
        let mut orders = Vec::new();
        loop {
            match self.step(now, &mut orders) {
                Ok(true) => {}
                Ok(false) => return orders,
                Err(failure) => {
                    self.fail(failure, &mut orders);
                    return orders;
                }
            }
        }
    }

    fn step(&mut self, now: Duration, orders: &mut Vec<Order>) -> Result<bool, Failure> {
        if matches!(self.phase, Phase::Over | Phase::OurResults | Phase::Opening) {
            return Ok(false);
        }
        if self.phase == Phase::TheirResults {
            let Some(object) = take_json(&mut self.unread, RESULTS_LIMIT)? else {
                return Ok(false);
            };
            self.theirs = Some(Box::new(Results::read(&object)?));
            self.wait(Phase::Display, now);
            return Ok(true);
        }
        // An error has eight more bytes.
        const ERROR_BYTES: usize = 9;
        let is_error = self.unread.first() == Some(&State::ServerError.byte());
        if is_error && self.unread.len() < ERROR_BYTES {
            return Ok(false);
        }
        let Some(state) = take_state(&mut self.unread)? else { return Ok(false) };
        match (self.phase, state) {
            (Phase::Accepted, State::ParamExchange) => {
                orders.push(Order::Send(framed(&self.parameters.json())));
                self.wait(Phase::Parameters, now);
            }
            (Phase::Parameters, State::CreateStreams) => {
                // The owner has time limits of its own for these connections.
                (self.phase, self.deadline) = (Phase::Opening, None);
                orders.push(Order::Open);
            }
            (Phase::Opened, State::TestStart) => self.wait(Phase::Starting, now),
            (Phase::Starting, State::TestRunning) => {
                (self.phase, self.deadline) = (Phase::Running, None);
                orders.push(Order::Start);
            }
            (Phase::Ending, State::ExchangeResults) => {
                (self.phase, self.deadline) = (Phase::OurResults, None);
                orders.push(Order::Results);
            }
            (Phase::Display, State::DisplayResults) => {
                let theirs = self.theirs.take().unwrap_or_default();
                (self.phase, self.deadline) = (Phase::Over, None);
                orders.extend([Order::Send(vec![State::IperfDone.byte()]), Order::Done(theirs)]);
            }
            (_, State::AccessDenied) => return Err(Failure::Busy),
            (_, State::ServerTerminate) => return Err(Failure::Terminated),
            (_, State::ServerError) => {
                let number: Vec<u8> = self.unread.drain(..ERROR_BYTES - 1).take(4).collect();
                let number = number.first_chunk().map_or(0, |bytes| u32::from_be_bytes(*bytes));
                return Err(Failure::Reported(number));
            }
            (_, other) => return Err(WireError::State(other as i8).into()),
        }
        Ok(true)
    }

    /// Notes that all data streams are open.
    pub fn opened(&mut self, now: Duration) -> Vec<Order> {
        if self.phase != Phase::Opening {
            return Vec::new();
        }
        self.wait(Phase::Opened, now);
        self.received(&[], now)
    }

    /// Ends the load.
    pub fn end(&mut self, now: Duration) -> Vec<Order> {
        if self.phase != Phase::Running {
            return Vec::new();
        }
        self.wait(Phase::Ending, now);
        vec![Order::Send(vec![State::TestEnd.byte()])]
    }

    /// Sends the results of this end.
    pub fn answer(&mut self, results: &Results, now: Duration) -> Vec<Order> {
        if self.phase != Phase::OurResults {
            return Vec::new();
        }
        self.wait(Phase::TheirResults, now);
        let mut orders = vec![Order::Send(framed(&results.json()))];
        orders.extend(self.received(&[], now));
        orders
    }

    /// Gives the test up. Returns the bytes that say so to the server.
    pub fn give_up(&mut self) -> Vec<u8> {
        (self.phase, self.deadline) = (Phase::Over, None);
        vec![State::ClientTerminate.byte()]
    }

    /// Returns true once the test is complete, has failed or was ended early.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.phase == Phase::Over
    }

    /// Notes the end of the control connection.
    pub fn closed(&mut self) -> Vec<Order> {
        let mut orders = Vec::new();
        self.fail(Failure::Closed(self.doing()), &mut orders);
        orders
    }

    /// Fails the test if the server has missed its deadline.
    pub fn tick(&mut self, now: Duration) -> Vec<Order> {
        let mut orders = Vec::new();
        if self.deadline.is_some_and(|deadline| now >= deadline) {
            self.fail(Failure::Silent(self.doing()), &mut orders);
        }
        orders
    }

    fn wait(&mut self, phase: Phase, now: Duration) {
        (self.phase, self.deadline) = (phase, Some(now + self.patience));
    }

    fn fail(&mut self, failure: Failure, orders: &mut Vec<Order>) {
        if self.phase != Phase::Over {
            (self.phase, self.deadline) = (Phase::Over, None);
            orders.push(Order::Failed(failure));
        }
    }

    /// Returns what this end does in the present phase.
    fn doing(&self) -> &'static str {
        match self.phase {
            Phase::Accepted => "waited for its first message",
            Phase::Parameters => {
                "waited for the answer to its parameters, with which it may want a user and a \
                password"
            }
            Phase::Opening => "opened data streams",
            Phase::Opened | Phase::Starting => "waited for the start of the load",
            Phase::Running => "sent or received data",
            Phase::Ending => "waited for the end of the load",
            Phase::OurResults | Phase::TheirResults | Phase::Display => "waited for its results",
            Phase::Over => "had finished",
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const S: fn(u64) -> Duration = Duration::from_secs;

    fn begun() -> Client {
        let parameters = Parameters { parallel: 1, ..Parameters::default() };
        Client::begin(parameters, S(5), S(0))
    }

    fn running() -> Client {
        let mut client = begun();
        assert!(matches!(&client.received(&[9], S(1))[..], [Order::Send(_)]));
        assert_eq!(client.received(&[10], S(1)), [Order::Open]);
        assert_eq!(client.received(&[1], S(1)), [], "the streams are not open yet");
        assert_eq!(client.opened(S(2)), []);
        assert_eq!(client.received(&[2], S(2)), [Order::Start]);
        client
    }

    #[test]
    fn a_whole_test_has_its_orders_in_order() {
        let mut client = running();
        assert_eq!(client.deadline(), None, "the client has the clock");
        assert_eq!(client.end(S(10)), [Order::Send(vec![4])]);
        assert_eq!(client.received(&[13], S(10)), [Order::Results]);
        let ours = Results { cpu: [3.0, 1.0, 2.0], ..Results::default() };
        assert_eq!(client.answer(&ours, S(10)), [Order::Send(framed(&ours.json()))]);
        let theirs = Results { cpu: [5.0, 2.0, 3.0], ..Results::default() };
        let rest = [&framed(&theirs.json())[..], &[14]].concat();
        let done = [Order::Send(vec![16]), Order::Done(Box::new(theirs))];
        assert_eq!(client.received(&rest, S(10)), done);
        assert_eq!(client.closed(), [], "it is over");
    }

    #[test]
    fn each_failure_says_what_the_server_did() {
        let failed = |orders: Vec<Order>| match &orders[..] {
            [Order::Failed(failure)] => failure.to_string(),
            other => panic!("{other:?}"),
        };
        assert!(failed(begun().received(&[255], S(1))).contains("busy"));
        assert!(failed(running().received(&[11], S(3))).contains("ended the test"));
        let error = [254, 0, 0, 0, 37, 0, 0, 0, 0];
        let mut client = begun();
        assert_eq!(client.received(&error[..8], S(1)), []);
        let text = failed(client.received(&error[8..], S(1)));
        assert!(text.contains("error 37") && text.contains("server"), "{text}");
        assert!(failed(begun().received(b"SSH-2.0", S(1))).contains("protocol of iperf3"));
        assert!(failed(running().closed()).contains("sent or received data"));
        let mut silent = begun();
        assert_eq!(silent.tick(S(4)), []);
        assert!(failed(silent.tick(S(5))).contains("first message"));
        assert_eq!(silent.give_up(), [12]);
    }

    proptest! {
        #[test]
        fn any_bytes_fail_at_most_once_and_never_panic(
            pieces in proptest::collection::vec(
                proptest::collection::vec(any::<u8>(), 0..12), 0..20),
        ) {
            let mut client = running();
            let mut orders = client.end(S(3));
            for bytes in pieces {
                orders.extend(client.received(&bytes, S(4)));
            }
            orders.extend(client.closed());
            let n = orders.iter().filter(|order| matches!(order, Order::Failed(_))).count();
            prop_assert_eq!(n, 1);
        }
    }
}
