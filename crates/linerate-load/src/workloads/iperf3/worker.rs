//! The worker: one session with a server.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use linerate_iperf3::drive::{DriveError, Session};
use linerate_iperf3::wire::Protocol;
use linerate_model::{FlowReport, FlowTcp, Nanos, SocketValue};
use linerate_sys::clock;
use socket2::Socket;

use super::account::{StreamAccount, of_server};
use super::{Iperf3Params, SendMode};
use crate::workloads::socket_options::{self, name_of};
use crate::workloads::{tcp_options, tcp_state};
use crate::{Due, Progress, Tally, Times, Worker};

/// Longest time for the server's results after the drain; an agent waits for longer.
const RESULTS: Duration = Duration::from_secs(3);
/// Time between two readings of what is acknowledged, which ask the kernel, for each stream; and
/// the shortest.
const READING: [Nanos; 2] = [Nanos(50_000), Nanos::from_millis(1)];

/// Worker of all data streams.
#[derive(Debug)]
pub(super) struct ServerWorker {
    session: Session,
    params: Iperf3Params,
    server: SocketAddr,
    accounts: Vec<StreamAccount>,
    /// Time of the last reading of what is acknowledged.
    read_at: Nanos,
    state: State,
    failure: Option<DriveError>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The load has not begun.
    Held,
    Loading,
    /// The load is over, and results are on their way.
    Ending,
    /// The server's results have come, or the session has failed.
    Over,
}

impl ServerWorker {
    pub(super) fn new(session: Session, params: Iperf3Params, server: SocketAddr) -> Self {
        let [forward, backward] = params.wire().streams();
        let accounts = vec![StreamAccount::default(); (forward + backward) as usize];
        let (read_at, state, failure) = (Nanos(0), State::Held, None);
        Self { session, params, server, accounts, read_at, state, failure }
    }

    fn is_udp(&self) -> bool {
        self.params.protocol == Protocol::Udp
    }

    /// Lets the session work for at most `most`.
    fn work(&mut self, most: Duration) {
        let done = match self.state {
            State::Held => self.session.release().map(|()| false),
            State::Loading | State::Ending => self.session.step(most),
            State::Over => return,
        };
        self.state = match (done, self.state) {
            (Ok(false), State::Held) => State::Loading,
            (Ok(false), state) => state,
            (Ok(true), _) => State::Over,
            (Err(error), _) => {
                self.failure = Some(error);
                State::Over
            }
        };
    }

    /// Returns true if payload moved.
    fn count(&mut self, until: Nanos, tally: &mut Tally) -> bool {
        let now = Nanos(clock::monotonic());
        let [each, least] = READING;
        let period = Nanos(each.0 * self.accounts.len() as u64).max(least);
        // Near the end of an interval in any case: the interval gets what belongs to it.
        let reads = now.since(self.read_at) >= period || until.since(now) < least;
        if reads {
            self.read_at = now;
        }
        let mut moved = false;
        let streams = self.session.streams().zip(&mut self.accounts).enumerate();
        for (place, (stream, account)) in streams {
            let acknowledged = if reads { self.session.acknowledged(place) } else { None };
            moved |= account.count(&stream, acknowledged, tally);
        }
        moved
    }

    fn report(&self, place: usize, socket: &Socket, sends: bool) -> FlowReport {
        let account = &self.accounts[place];
        let mut modes =
            BTreeMap::from([("other_end".to_owned(), format!("iperf3 server {}", self.server))]);
        if !self.is_udp() {
            let sendfile = self.params.send == SendMode::Sendfile;
            let (way, how) = match (sends, sendfile) {
                (true, true) => ("send", "sendfile"),
                (true, false) => ("send", "copy"),
                (false, _) => ("receive", "discard"),
            };
            modes.insert(way.to_owned(), how.to_owned());
        }
        FlowReport {
            flow: u32::try_from(place).unwrap_or(u32::MAX),
            local: name_of(socket.local_addr().map(|a| a.as_socket().unwrap_or(self.server))),
            remote: self.server.to_string(),
            counters: account.counters,
            next_sequence: if self.is_udp() { account.next_sequence } else { 0 },
            socket: self.options(socket),
            modes,
            tcp: if self.is_udp() { None } else { tcp_state::of(socket) },
            foreign: of_server(&self.session, place, self.is_udp()).map(Box::new),
            ..FlowReport::default()
        }
    }

    /// Returns the options of a stream, as requested and as they are now.
    fn options(&self, socket: &Socket) -> BTreeMap<String, SocketValue> {
        let options = &self.params.options;
        if self.is_udp() {
            let mut values = options.socket.granted(socket);
            socket_options::at_end(&mut values, socket);
            return values;
        }
        // A connection that the server has reset refuses its options.
        let mut values = options.granted(socket).unwrap_or_default();
        tcp_options::at_end(&mut values, socket);
        values
    }
}

impl Worker for ServerWorker {
    fn times(&self) -> Times {
        Times::NONE
    }

    fn step(&mut self, due: Due, tally: &mut Tally) -> Progress {
        self.work(due.until.since(Nanos(clock::monotonic())).into());
        let moved = self.count(due.until, tally);
        match self.state {
            State::Over => Progress::Ended,
            _ if moved => Progress::Moved,
            _ => Progress::Idle,
        }
    }

    fn observe(&mut self, flows: &mut Vec<FlowTcp>) {
        if self.is_udp() {
            return;
        }
        let states = (0..).zip(self.session.streams());
        let states = states.filter_map(|(flow, stream)| {
            Some(FlowTcp { flow, tcp: tcp_state::of(stream.socket)? })
        });
        flows.extend(states);
    }

    fn held_bytes(&self) -> Option<u64> {
        let receiving = self.session.streams().filter(|stream| !stream.sends);
        socket_options::held(receiving.map(|stream| stream.socket))
    }

    fn n_flows(&self) -> usize {
        self.accounts.len()
    }

    fn stop_sending(&mut self) {
        if self.state == State::Loading {
            self.session.end();
            self.state = State::Ending;
        }
    }

    fn complaint(&self) -> Option<String> {
        self.failure.as_ref().map(ToString::to_string)
    }

    fn finish(&mut self) -> Vec<FlowReport> {
        /// Longest wait of one step.
        const STEP: Duration = Duration::from_millis(20);
        let until = Instant::now() + RESULTS;
        while self.state == State::Ending && Instant::now() < until {
            self.work(STEP);
        }
        if self.state == State::Ending {
            let (server, failure) =
                (self.server, linerate_iperf3::client::Failure::Silent("waited for its results"));
            self.failure = Some(DriveError::Server { server, failure });
        }
        let streams = self.session.streams().enumerate();
        streams.map(|(place, stream)| self.report(place, stream.socket, stream.sends)).collect()
    }
}
