//! Worker of the passive end: accepts connections and serves each by a guest of the protocol.

use std::net::{SocketAddr, TcpListener};
use std::time::Duration;

use linerate_model::{Counter, FlowReport, FlowTcp, Nanos};
use linerate_sys::clock;
use linerate_sys::memory::Region;
use linerate_sys::readiness::{Interest, Readiness};
use socket2::Socket;

use super::client::TOKENS;
use super::course::Account;
use super::failure::Failure;
use super::{Bench, Turn};
use crate::workloads::companion::Companion;
use crate::workloads::placement::Waiting;
use crate::workloads::socket_options;
use crate::{Due, Progress, Result, Tally, Times, Worker};

/// The listener's token; guests have two each, by place.
const LISTENER: u64 = u64::MAX;
/// Sockets served in a step.
const READY: usize = 64;
/// Turns of one guest in a step.
const TURNS: u32 = 4;
const BUFFER_BYTES: usize = 128 << 10;
/// Interval between searches for guests in which nothing moves.
const LOOK_EVERY: Nanos = Nanos::from_millis(5);

/// Protocol of one connection at the serving end. Places are created beforehand and serve one
/// connection after the other.
pub(crate) trait Guest: Send {
    /// Takes a new connection; its sockets are `token` and `token + 1`.
    fn admit(
        &mut self,
        socket: Socket,
        peer: SocketAddr,
        token: u64,
        bench: &mut Bench<'_>,
    ) -> Result<(), Failure>;

    /// Continues as far as it can without waiting; returns [`Turn::Done`] when the guest has gone.
    fn go_on(&mut self, bench: &mut Bench<'_>) -> Result<Turn, Failure>;

    /// Returns the bytes and messages moved so far.
    fn progress(&self) -> u64;

    /// Returns true while a file is in progress: requested, and not yet stored or completely
    /// acknowledged.
    fn is_under_way(&self) -> bool;

    /// Counts the bytes acknowledged since, if only this end can; called every few milliseconds.
    fn settle(&mut self, bench: &mut Bench<'_>);

    /// Closes all connections.
    fn dismiss(&mut self);

    /// Returns the counters of this place.
    fn account(&self) -> &Account;

    /// Returns the connection that carries files now.
    fn carrier(&self) -> Option<&Socket>;

    /// Returns the report of this place.
    fn report(&mut self) -> FlowReport;
}

struct GuestPlace<G> {
    guest: G,
    is_taken: bool,
    is_ready: bool,
    resume_at: Nanos,
    moved: (Nanos, u64),
}

/// Common part of a server's workers.
pub(crate) struct Service {
    /// Non-blocking listener that all workers share.
    pub(crate) listener: TcpListener,
    pub(crate) wait: Waiting,
    pub(crate) timeout: Nanos,
    /// True if other programs are the clients.
    pub(crate) is_foreign: bool,
}

/// Guests of one thread.
pub(crate) struct ServerWorker<G> {
    number: u32,
    service: Service,
    places: Vec<GuestPlace<G>>,
    readiness: Readiness,
    is_listening: bool,
    buffer: Region,
    companion: Option<Companion>,
    look_at: Nanos,
    /// True if a foreign file was in progress when the last step began to wait; and that time.
    is_serving: bool,
    waits_since: Nanos,
    stopped: bool,
    foreign: u64,
    last_failure: Option<Failure>,
}

impl<G> GuestPlace<G> {
    fn new(guest: G) -> Self {
        Self { guest, is_taken: false, is_ready: true, resume_at: Nanos(0), moved: (Nanos(0), 0) }
    }
}

impl<G: Guest> GuestPlace<G> {
    /// Returns the report of flow `flow`, whose connection this place serves.
    fn report(&mut self, flow: u32) -> FlowReport {
        // Read before the report, which may close the connection.
        let state = self.guest.account().state(flow, self.guest.carrier());
        let mut report = self.guest.report();
        report.flow = flow;
        report.counters = self.guest.account().counters;
        report.tcp = state.map(|flow| flow.tcp);
        report
    }
}

impl<G: Guest> ServerWorker<G> {
    /// Creates worker `number` with these places; `foreign` strangers were refused before.
    pub(crate) fn new(
        number: u32,
        service: Service,
        guests: Vec<G>,
        companion: Option<Companion>,
        foreign: u64,
    ) -> Result<Self> {
        let readiness = Readiness::new()?;
        readiness.add(&service.listener, LISTENER, Interest::Readable)?;
        Ok(Self {
            number,
            service,
            places: guests.into_iter().map(GuestPlace::new).collect(),
            readiness,
            is_listening: true,
            buffer: Region::new(BUFFER_BYTES)?,
            companion,
            look_at: Nanos(0),
            is_serving: false,
            waits_since: Nanos(0),
            stopped: false,
            foreign,
            last_failure: None,
        })
    }

    /// Accepts connections while there is room; the others wait in the kernel.
    fn accept(&mut self, now: Nanos, tally: &mut Tally) {
        while let Some(place) = self.places.iter().position(|place| !place.is_taken) {
            let Ok((stream, peer)) = self.service.listener.accept() else { return };
            let socket = Socket::from(stream);
            if socket.set_nonblocking(true).is_err() {
                continue;
            }
            let Self { places, readiness, buffer, .. } = self;
            let mut bench = Bench { now, buffer, readiness, tally };
            let taken = &mut places[place];
            (taken.is_taken, taken.is_ready, taken.resume_at, taken.moved) =
                (true, true, Nanos(0), (now, 0));
            if let Err(failure) = taken.guest.admit(socket, peer, place as u64 * TOKENS, &mut bench)
            {
                self.dismiss(place, Some(failure), tally);
            }
        }
        // A new client waits until a guest has gone.
        let _ = self.readiness.remove(&self.service.listener);
        self.is_listening = false;
    }

    fn dismiss(&mut self, place: usize, failure: Option<Failure>, tally: &mut Tally) {
        let taken = &mut self.places[place];
        taken.guest.dismiss();
        taken.is_taken = false;
        let cut_off = failure.is_some() && !self.stopped;
        tally.add(Counter::ConnectionsFailed, u64::from(cut_off));
        tally.add(Counter::Connections, u64::from(failure.is_none()));
        self.last_failure = failure.or(self.last_failure);
        if !self.is_listening {
            self.is_listening =
                self.readiness.add(&self.service.listener, LISTENER, Interest::Readable).is_ok();
        }
    }

    fn serve(&mut self, place: usize, now: Nanos, tally: &mut Tally) -> bool {
        let mut moved = false;
        for _ in 0..TURNS {
            let Self { places, readiness, buffer, .. } = self;
            let mut bench = Bench { now, buffer, readiness, tally };
            match places[place].guest.go_on(&mut bench) {
                Ok(Turn::Moved) => moved = true,
                Ok(Turn::Network) => {
                    places[place].is_ready = false;
                    break;
                }
                Ok(Turn::Until(time)) => {
                    places[place].resume_at = time;
                    break;
                }
                Ok(Turn::Done) => {
                    self.dismiss(place, None, tally);
                    return true;
                }
                Err(failure) => {
                    self.dismiss(place, Some(failure), tally);
                    return true;
                }
            }
        }
        moved
    }

    /// Closes guests in which nothing moves, so that no client holds a place for ever.
    fn give_up(&mut self, now: Nanos, tally: &mut Tally) {
        self.look_at = now + LOOK_EVERY;
        for place in 0..self.places.len() {
            let Self { places, readiness, buffer, .. } = self;
            let taken = &mut places[place];
            if taken.is_taken {
                taken.guest.settle(&mut Bench { now, buffer, readiness, tally });
            }
            let progress = taken.guest.progress();
            if !taken.is_taken || progress != taken.moved.1 {
                taken.moved = (now, progress);
            } else if now.since(taken.moved.0) > self.service.timeout {
                self.dismiss(place, Some(Failure::TimedOut(super::TransferStage::Transfer)), tally);
            }
        }
    }
}

impl<G: Guest> Worker for ServerWorker<G> {
    fn times(&self) -> Times {
        // Our own clients time their files themselves.
        if self.service.is_foreign {
            Times { service: true, stages: true, ..Times::NONE }
        } else {
            Times::NONE
        }
    }

    fn may_wait_for_disk(&self) -> bool {
        true
    }

    fn step(&mut self, due: Due, tally: &mut Tally) -> Progress {
        let now = due.intended;
        tally.add(Counter::Foreign, std::mem::take(&mut self.foreign));
        if self.is_serving {
            tally.add(Counter::Serving, now.since(self.waits_since).0);
        }
        let mut moved = false;
        for place in 0..self.places.len() {
            let GuestPlace { is_taken, is_ready, resume_at, .. } = self.places[place];
            if is_taken && is_ready && resume_at <= now {
                moved |= self.serve(place, now, tally);
            }
        }
        if now >= self.look_at {
            self.give_up(now, tally);
        }
        let is_under_way = |place: &GuestPlace<G>| place.is_taken && place.guest.is_under_way();
        self.is_serving = self.service.is_foreign && self.places.iter().any(is_under_way);
        self.waits_since = now;
        // A small file is requested and complete within the step.
        if self.service.is_foreign && (moved || self.is_serving) {
            self.waits_since = Nanos(clock::monotonic()).max(now);
            tally.add(Counter::Serving, self.waits_since.since(now).0);
        }
        let resting = self.places.iter().filter(|place| place.is_taken && place.resume_at > now);
        // The acknowledgement of the last bytes wakes no worker.
        let looked = self.is_serving.then_some(self.look_at);
        let until = resting.map(|place| place.resume_at).chain(looked).fold(due.until, Nanos::min);
        let patience =
            if moved || self.service.wait == Waiting::Spin { Nanos(0) } else { until.since(now) };
        let mut ready = [0; READY];
        let tokens = self.readiness.wait(Duration::from(patience));
        let n = tokens.len();
        ready[..n].copy_from_slice(tokens);
        for &token in &ready[..n] {
            match self.places.get_mut((token / TOKENS) as usize) {
                Some(place) => place.is_ready = true,
                None => self.accept(now, tally),
            }
        }
        if let Some(companion) = &mut self.companion {
            companion.look(now, |_, _| {});
            self.stopped |= companion.is_gone();
        }
        if self.stopped && self.places.iter().all(|place| !place.is_taken) {
            return Progress::Ended;
        }
        if moved || n > 0 { Progress::Moved } else { Progress::Idle }
    }

    fn observe(&mut self, flows: &mut Vec<FlowTcp>) {
        let first = self.number * self.places.len() as u32;
        for (number, place) in (first..).zip(&self.places) {
            flows.extend(place.guest.account().state(number, place.guest.carrier()));
        }
    }

    fn held_bytes(&self) -> Option<u64> {
        socket_options::held(self.places.iter().filter_map(|place| place.guest.carrier()))
    }

    fn n_flows(&self) -> usize {
        self.places.len()
    }

    fn stop_sending(&mut self) {
        self.stopped = true;
    }

    fn finish(&mut self) -> Vec<FlowReport> {
        let first = self.number * self.places.len() as u32;
        let local = socket_options::name_of(self.service.listener.local_addr());
        let failure =
            self.last_failure.map(|failure| ("last_failure".to_owned(), failure.to_string()));
        // Places without a connection have no report.
        let used = (first..)
            .zip(&mut self.places)
            .filter(|(_, place)| place.guest.account().counters != Default::default());
        let mut reports: Vec<FlowReport> = used.map(|(flow, place)| place.report(flow)).collect();
        for report in &mut reports {
            (report.worker, report.local) = (self.number, local.clone());
            report.modes.extend(failure.clone());
        }
        reports
    }
}
