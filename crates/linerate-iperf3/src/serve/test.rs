//! One test of a server, on its own thread.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use socket2::Socket;

use super::{Served, Shared, Slot, StreamRecord, TestRecord, Wants, adapt};
use crate::session::{Ending, Order, Session};
use crate::sockets::{AsFdObject, receive, send_all, wait};
use crate::streams::{Stream, TCP_BLOCK, UDP_BLOCK, cpu_percent, drain_all, thread_cpu};
use crate::wire::{Parameters, Protocol, Results, stream_id};

/// Longest time that a message of ours may wait in the socket.
const SEND_PATIENCE: Duration = Duration::from_secs(1);
/// Longest time for datagrams that are still under way, and the quiet after which none is.
const DRAIN: [Duration; 2] = [Duration::from_millis(300), Duration::from_millis(60)];
/// The same for an amount of data, with the client's retransmissions.
const AMOUNT_DRAIN: [Duration; 2] = [Duration::from_secs(3), Duration::from_millis(500)];
/// Longest wait for a socket: the request to stop has to be seen.
const LOOK: Duration = Duration::from_millis(100);
/// Share of one CPU from which on the thread of a test was the limit, percent.
const BUSY: f64 = 90.0;

/// A test and its connections.
pub(super) struct Test<'a> {
    shared: &'a Arc<Shared>,
    slot: &'a Arc<Slot>,
    control: &'a Socket,
    from: SocketAddr,
    arrived: &'a Receiver<Socket>,
    begun: Instant,
    parameters: Option<Box<Parameters>>,
    streams: Vec<Stream>,
    /// True while the client waits for its turn to open UDP streams.
    is_queued: bool,
    load: Option<Load>,
    seconds: f64,
    cpu: [f64; 3],
    /// Datagrams that the client has sent, by stream.
    sent_there: Vec<(i64, u64)>,
    ending: Ending,
}

/// The load, from its start to its end.
struct Load {
    started: Instant,
    cpu: [u64; 2],
    /// End of the warm-up, until it has been seen.
    omit_until: Option<Duration>,
    is_running: bool,
}

impl<'a> Test<'a> {
    pub(super) fn new(
        shared: &'a Arc<Shared>,
        slot: &'a Arc<Slot>,
        control: &'a Socket,
        from: SocketAddr,
        arrived: &'a Receiver<Socket>,
    ) -> Self {
        Self {
            shared,
            slot,
            control,
            from,
            arrived,
            begun: Instant::now(),
            parameters: None,
            streams: Vec::new(),
            is_queued: false,
            load: None,
            seconds: 0.0,
            cpu: [0.0; 3],
            sent_there: Vec::new(),
            ending: Ending::Gone,
        }
    }

    /// Runs the test to its end.
    pub(super) fn run(mut self) -> TestRecord {
        let (mut session, orders) =
            Session::begin(self.shared.options.limits.clone(), self.begun.elapsed());
        self.carry_out(&mut session, orders);
        let mut buffer = vec![0; 16 << 10];
        while !session.is_over() {
            self.wait(session.deadline());
            let now = self.begun.elapsed();
            let orders = match receive(self.control, &mut buffer) {
                Ok(None) => session.tick(now),
                Ok(Some(0)) | Err(_) => session.closed(),
                Ok(Some(n)) => session.received(&buffer[..n], now),
            };
            self.carry_out(&mut session, orders);
            self.accept(&mut session);
            if self.is_queued && self.shared.has_turn(self.slot) {
                self.is_queued = false;
                let orders = session.ready(self.begun.elapsed());
                self.carry_out(&mut session, orders);
            }
            self.work();
            if (self.shared.stop)() {
                let orders = session.terminate();
                self.carry_out(&mut session, orders);
            }
        }
        self.record()
    }

    /// Waits until there is something to do, at the longest until `deadline`.
    fn wait(&mut self, deadline: Duration) {
        let now = self.begun.elapsed();
        let mut until = deadline.min(now + LOOK);
        let running = self.load.as_ref().filter(|load| load.is_running);
        let (mut waiting, mut is_due) = (Vec::new(), false);
        if let Some(load) = running {
            let since = load.started.elapsed();
            let base = now.saturating_sub(since);
            until = load.omit_until.map_or(until, |omit| until.min(base + omit));
            for (at, stream) in self.streams.iter_mut().enumerate() {
                match stream.waits(since) {
                    (true, _) => waiting.push((at, !stream.sends)),
                    (false, Some(when)) => until = until.min(base + when),
                    (false, None) => {}
                }
            }
            is_due = until <= now;
        }
        let mut sockets: Vec<(&dyn AsFdObject, bool)> =
            vec![(self.control, true), (&self.slot.wake, true)];
        sockets.extend(waiting.iter().map(|(at, reads)| {
            let socket: &dyn AsFdObject = &self.streams[*at].socket;
            (socket, *reads)
        }));
        let patience = if is_due { Duration::ZERO } else { until.saturating_sub(now) };
        let ready = wait(&sockets, patience);
        if ready[1] {
            // The counter is read so that it does not wake again.
            let _ = rustix::io::read(&self.slot.wake, &mut [0; 8]);
        }
        for ((at, _), _) in waiting.iter().zip(&ready[2..]).filter(|(_, ready)| **ready) {
            self.streams[*at].is_ready();
        }
    }

    /// Takes data streams that have arrived.
    fn accept(&mut self, session: &mut Session) {
        while let Ok(socket) = self.arrived.try_recv() {
            let Some(parameters) = self.parameters.as_deref() else { continue };
            let place = self.streams.len();
            // The server receives from the first ones: those from the client come first.
            let sends = place >= parameters.streams()[0] as usize;
            let is_udp = parameters.protocol == Protocol::Udp;
            let length = parameters.length.unwrap_or(if is_udp { UDP_BLOCK } else { TCP_BLOCK });
            // An option that is refused here costs the measurement more than it explains.
            let refused = adapt(&socket, parameters).is_err();
            let stream = (stream_id(place), socket, sends);
            let stream = Stream::new(stream, parameters, length, parameters.pacing_timer());
            match stream {
                Ok(stream) if !refused => self.streams.push(stream),
                _ => {
                    /// iperf3's `IESTREAMACCEPT`.
                    const STREAM: u32 = 204;
                    let why = "a socket option was refused".to_owned();
                    let orders = session.refuse(STREAM, why);
                    return self.carry_out(session, orders);
                }
            }
            let now = self.begun.elapsed();
            let orders = session.opened(now);
            self.carry_out(session, orders);
        }
    }

    /// Moves data while the load runs.
    fn work(&mut self) {
        let Some(load) = self.load.as_mut().filter(|load| load.is_running) else { return };
        let now = load.started.elapsed();
        for stream in self.streams.iter_mut().filter(|stream| !stream.has_ended) {
            stream.turn(now, u64::MAX);
        }
        if load.omit_until.is_some_and(|until| now >= until) {
            load.omit_until = None;
            // The CPU time is that of the results.
            load.cpu = thread_cpu();
            self.streams.iter_mut().for_each(Stream::omit);
        }
    }

    fn carry_out(&mut self, session: &mut Session, orders: Vec<Order>) {
        let mut orders = VecDeque::from(orders);
        while let Some(order) = orders.pop_front() {
            match order {
                Order::Send(bytes) => {
                    if send_all(self.control, &bytes, SEND_PATIENCE).is_err() {
                        orders.extend(session.closed());
                    }
                }
                Order::Open(parameters) => orders.extend(self.open(session, parameters)),
                Order::Start => self.start(),
                Order::Stop => self.stop(),
                Order::Results(theirs) => {
                    let ours = self.results(&theirs);
                    orders.extend(session.answer(&ours, self.begun.elapsed()));
                }
                Order::Close(ending) => self.ending = ending,
            }
        }
    }

    fn open(&mut self, session: &mut Session, parameters: Box<Parameters>) -> Vec<Order> {
        if let Some(admits) = &self.shared.options.admits
            && let Err(why) = admits(parameters.token.as_deref())
        {
            /// iperf3's `IEAUTHTEST`. The reason is for the server's owner only.
            const AUTHENTICATION: u32 = 142;
            return session.refuse(AUTHENTICATION, why);
        }
        let n: u32 = parameters.streams().iter().sum();
        let is_udp = parameters.protocol == Protocol::Udp;
        *self.slot.wants() =
            if is_udp { Wants { tcp: 0, udp: n } } else { Wants { tcp: n, udp: 0 } };
        let told = Served::Began(self.slot.number, self.from, parameters.clone());
        (self.shared.tell)(told);
        self.parameters = Some(parameters);
        self.is_queued = is_udp && !self.shared.has_turn(self.slot);
        if self.is_queued { Vec::new() } else { session.ready(self.begun.elapsed()) }
    }

    fn start(&mut self) {
        self.shared.leave_queue(self.slot);
        let omit = self.parameters.as_ref().map_or(0, |parameters| parameters.omit);
        let omit_until = (omit > 0).then(|| Duration::from_secs(omit.into()));
        let (started, cpu) = (Instant::now(), thread_cpu());
        self.load = Some(Load { started, cpu, omit_until, is_running: true });
    }

    fn stop(&mut self) {
        let Some(load) = self.load.as_mut().filter(|load| load.is_running) else { return };
        load.is_running = false;
        let cpu = load.cpu;
        self.seconds = self.since_warm_up();
        self.cpu = cpu_percent(cpu, self.seconds);
        for stream in &mut self.streams {
            stream.drain();
            if stream.sends {
                // A client that still reads must not wait for more.
                let _ = stream.socket.shutdown(std::net::Shutdown::Write);
            }
        }
    }

    /// Returns the seconds since the end of the warm-up.
    fn since_warm_up(&self) -> f64 {
        let Some(load) = &self.load else { return 0.0 };
        let omit = self.parameters.as_ref().map_or(0, |parameters| parameters.omit);
        // The client's clock ended the warm-up at about the same time.
        let omitted = if load.omit_until.is_none() { f64::from(omit) } else { 0.0 };
        (load.started.elapsed().as_secs_f64() - omitted).max(0.0)
    }

    /// Takes what is still under way of `theirs`, and returns the results of this end.
    fn results(&mut self, theirs: &Results) -> Results {
        let asked = self.parameters.as_deref();
        let has_amount = asked.is_some_and(|asked| {
            asked.protocol == Protocol::Tcp && (asked.bytes > 0 || asked.blocks > 0)
        });
        let (begun, mut quiet) = (Instant::now(), Instant::now());
        let [longest, silence] = if has_amount { AMOUNT_DRAIN } else { DRAIN };
        while begun.elapsed() < longest
            && quiet.elapsed() < silence
            && self.streams.iter().any(|stream| lacks(stream, theirs, has_amount))
        {
            std::thread::sleep(Duration::from_millis(2));
            if drain_all(&mut self.streams) {
                quiet = Instant::now();
                if has_amount {
                    self.seconds = self.since_warm_up();
                }
            }
        }
        let has_omitted = theirs.streams.iter().any(|stream| stream.omitted_packets.is_some());
        let mut streams = Vec::new();
        for stream in &self.streams {
            let sent = theirs.of_stream(stream.id).and_then(|one| u64::try_from(one.packets).ok());
            if let Some(sent) = sent.filter(|_| !stream.sends) {
                self.sent_there.push((stream.id, sent));
            }
            let sent = sent.filter(|_| !stream.sends);
            streams.push(stream.results(self.seconds, sent, has_omitted));
        }
        let sends_tcp = streams.iter().any(|stream| stream.retransmits.is_some());
        let wants_output = self.parameters.as_ref().is_some_and(|one| one.wants_output);
        Results {
            cpu: self.cpu,
            has_retransmits: self.streams.iter().any(|stream| stream.sends).then_some(sends_tcp),
            congestion: self.streams.first().and_then(Stream::congestion),
            output: wants_output.then(|| self.verdict()),
            streams,
        }
    }

    fn record_of(&self, stream: &Stream) -> StreamRecord {
        let sent = self.sent_there.iter().find(|(id, _)| *id == stream.id).map(|(_, sent)| *sent);
        let results = stream.results(self.seconds, sent, false);
        let account = stream.account();
        StreamRecord {
            id: stream.id,
            sends: stream.sends,
            bytes: results.bytes,
            retransmits: results.retransmits,
            datagrams: u64::try_from(results.packets).unwrap_or(0),
            lost: account.map(|_| u64::try_from(results.errors).unwrap_or(0)),
            duplicates: account.map_or(0, |account| account.duplicates),
            reordered: account.map_or(0, |account| account.reordered),
            jitter: results.jitter,
        }
    }

    fn record(self) -> TestRecord {
        let streams = self.streams.iter().map(|stream| self.record_of(stream)).collect();
        TestRecord {
            number: self.slot.number,
            client: self.from,
            parameters: self.parameters,
            ending: self.ending,
            seconds: self.seconds,
            cpu: self.cpu[0],
            streams,
        }
    }

    /// Returns what this end found, for the client to print.
    fn verdict(&self) -> String {
        let mut text = String::from("linerate (server):\n");
        for stream in &self.streams {
            let record = self.record_of(stream);
            let verb = if record.sends { "sent" } else { "received" };
            let rate = record.bytes as f64 * 8.0 / self.seconds.max(1e-9) / 1e6;
            let _ = write!(text, "[{}] {verb} {} bytes, {rate:.2} Mbit/s", record.id, record.bytes);
            if let Some(lost) = record.lost {
                let percent = 100.0 * lost as f64 / record.datagrams.max(1) as f64;
                let _ = write!(
                    text,
                    "; {lost} of {} datagrams lost ({percent:.2} %), {} repeated, {} reordered",
                    record.datagrams, record.duplicates, record.reordered
                );
            }
            if let Some(again) = record.retransmits {
                let _ = write!(text, "; {again} segments sent again");
            }
            text.push('\n');
        }
        let cpu = self.cpu[0];
        let _ = match cpu >= BUSY {
            true => writeln!(
                text,
                "bottleneck: suspected: the CPU of this server ({cpu:.0} % of one CPU)"
            ),
            false => writeln!(text, "bottleneck: not this server's CPU ({cpu:.0} % of one CPU)"),
        };
        if let Some(mss) = self.parameters.as_ref().and_then(|one| one.mss) {
            let _ = writeln!(
                text,
                "-M {mss}: only the client's end has this limit; this server's port is shared"
            );
        }
        text
    }
}

/// Returns whether something that the client sent with `stream` has not arrived.
fn lacks(stream: &Stream, theirs: &Results, has_amount: bool) -> bool {
    let Some(theirs) = theirs.of_stream(stream.id).filter(|_| !stream.sends) else {
        return false;
    };
    match stream.account() {
        Some(account) => account.lost_of(u64::try_from(theirs.packets).unwrap_or(0)) > 0,
        // An amount has arrived when all of it has. A time ends with its rate.
        None => has_amount && stream.results(0.0, None, false).bytes < theirs.bytes,
    }
}
