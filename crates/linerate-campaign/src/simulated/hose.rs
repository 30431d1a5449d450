//! A simulated path with a shallow buffer between a fast and a slow link, and the settings that
//! bound the receiver's window.

use std::cell::RefCell;
use std::rc::Rc;

use linerate_analysis::fire_hose::Hose;
use linerate_model::{
    BitRate, Bytes, Counter, Distribution, FlowReport, FlowTcp, Interval, JobRecord, JobSpec,
    Nanos, Side, TcpState, TrialSpec,
};
use serde_json::Value;

use super::{SimulatedLoad, intervals, noise_of};

/// Payload of a full datagram, bytes.
const DATAGRAM: u64 = 1_472;
/// A full frame with preamble, FCS and gap, bits on the wire.
const WIRE_BITS: f64 = 1_538.0 * 8.0;
/// Share of segments lost by a window that overruns the buffer.
const LOSS: f64 = 0.02;

/// Settings of the receiver that are in force.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct HoseSettings {
    /// Window of the route, bytes.
    pub(crate) route: Option<u64>,
    /// Receive buffer of the host, bytes.
    pub(crate) receive: Option<u64>,
}

/// The path.
#[derive(Clone, Debug)]
pub(crate) struct SimulatedHose {
    /// Rates, buffer and round-trip time.
    pub(crate) hose: Hose,
    /// Window that the receiver advertises by itself, bytes.
    pub(crate) own_window: u64,
    /// Goodput of a stream that overruns the buffer, as a share of the full rate.
    pub(crate) collapsed: f64,
    /// True if the kernel obeys a route's window.
    pub(crate) obeys_route: bool,
    /// Factor of the response time while a setting is in force.
    pub(crate) slower_requests: f64,
    /// Most deviation of a run, as a ratio.
    pub(crate) noise: f64,
    /// Settings in force.
    pub(crate) settings: Rc<RefCell<HoseSettings>>,
}

impl Default for SimulatedHose {
    /// The sideband of a BMC: 8 KiB between 1 Gbit/s and 100 Mbit/s.
    fn default() -> Self {
        let hose = Hose {
            buffer: Bytes(8192),
            burst: Bytes(0),
            feed: BitRate(1e9),
            drain: BitRate(1e8),
            frame: Bytes(1514),
            mss: Bytes(1460),
            rtt: Nanos(500_000),
            flows: 1,
        };
        Self {
            hose,
            own_window: 65_535,
            collapsed: 0.4,
            obeys_route: true,
            slower_requests: 1.0,
            noise: 0.002,
            settings: Rc::default(),
        }
    }
}

impl SimulatedHose {
    /// Returns the window of a stream, bytes.
    fn window(&self, job: &JobSpec) -> u64 {
        let settings = *self.settings.borrow();
        let clamp = job.params.get("window_clamp").and_then(Value::as_str);
        let clamp = clamp.and_then(|text| text.parse::<Bytes>().ok()).map(|bytes| bytes.0);
        let route = settings.route.filter(|_| self.obeys_route);
        // The kernel uses half of a receive buffer for the window, with the default
        // tcp_adv_win_scale.
        let buffer = settings.receive.map(|buffer| buffer / 2);
        // The smallest of all bounds is the window.
        [clamp, route, buffer].into_iter().flatten().fold(self.own_window, u64::min)
    }

    /// Returns whether a stream with this window overruns the buffer.
    fn overruns(&self, window: u64) -> bool {
        // A drain as fast as the feed has no bound, and nothing overruns.
        self.hose.longest_burst().is_some() && window > self.hose.bracket().ack_clocked.0
    }

    fn stream(&self, trial: &TrialSpec, job: &JobSpec, side: Side) -> JobRecord {
        let (forward, backward) = match job.params.get("direction").and_then(Value::as_str) {
            Some("rx") => (false, true),
            Some("both") => (true, true),
            _ => (true, false),
        };
        let window = self.window(job);
        let lossy = self.overruns(window);
        let full = self.hose.full_rate().0;
        // The goodput of a stream with losses is given, because no formula of this simulation needs
        // its cause.
        let sent = if lossy { self.collapsed * full } else { self.hose.goodput(Bytes(window)).0 };
        let noise = noise_of(trial, self.noise, 0);
        // The receiver's window does not bound data that it sends.
        let rate = |present: bool, rate: f64| if present { rate * noise } else { 0.0 };
        let (forward, backward) = (rate(forward, sent), rate(backward, full));
        let (out, inward) = match side {
            Side::Active => (forward, backward),
            Side::Passive => (backward, forward),
        };
        let loss = if lossy && side == Side::Active { LOSS } else { 0.0 };
        let state = |end: Nanos| {
            let bytes = (out / 8.0 * end.as_secs_f64()) as u64;
            let mss = self.hose.mss.0;
            TcpState {
                known_bytes: 248,
                bytes_acked: bytes,
                bytes_sent: bytes,
                bytes_retransmitted: (bytes as f64 * loss) as u64,
                retransmits: (bytes as f64 * loss / mss as f64) as u32,
                segments_out: (bytes / mss) as u32,
                rtt_us: (self.hose.rtt.0 / 1_000) as u32,
                min_rtt_us: (self.hose.rtt.0 / 1_000) as u32,
                congestion_window: 1_000,
                send_mss: mss as u32,
                path_mtu: 1_500,
                send_window: window as u32,
                pacing_rate: u64::MAX,
                busy_us: end.0 / 1_000,
                ..TcpState::default()
            }
        };
        let counted = |(start, end): (Nanos, Nanos)| {
            let bytes = |rate: f64| (rate / 8.0 * end.since(start).as_secs_f64()) as u64;
            let mut counted = Interval { start, end, ..Interval::default() };
            counted.counters[Counter::PayloadSent] = bytes(out);
            counted.counters[Counter::CallsSent] = bytes(out) / 65_536;
            counted.counters[Counter::PayloadReceived] = bytes(inward);
            counted.flows.push(FlowTcp { flow: 0, tcp: state(end) });
            counted
        };
        let intervals = intervals(trial);
        let end = intervals.last().map_or(Nanos(0), |(_, end)| *end);
        let flow = FlowReport { tcp: Some(state(end)), ..FlowReport::default() };
        JobRecord { intervals: intervals.into_iter().map(counted).collect(), flows: vec![flow] }
    }

    fn requests(&self, trial: &TrialSpec, side: Side) -> JobRecord {
        let in_force = *self.settings.borrow() != HoseSettings::default();
        let factor = if in_force { self.slower_requests } else { 1.0 };
        let response_ns = (self.hose.rtt.0 as f64 * factor * noise_of(trial, self.noise, 0)) as u64;
        let counted = |(start, end): (Nanos, Nanos)| {
            let n = end.since(start).0 / response_ns;
            let mut counted = Interval { start, end, ..Interval::default() };
            if side == Side::Active {
                counted.counters[Counter::Transactions] = n;
                counted.response = Distribution::of(vec![(response_ns, n)]).into();
            }
            counted
        };
        JobRecord {
            intervals: intervals(trial).into_iter().map(counted).collect(),
            flows: vec![FlowReport::default()],
        }
    }

    /// Datagrams: trains of `burst` at `rate`, or a flood where no rate is given.
    fn datagrams(&self, trial: &TrialSpec, job: &JobSpec, side: Side) -> JobRecord {
        let text = |key: &str| job.params.get(key).and_then(Value::as_str);
        let rate = text("rate").and_then(|rate| rate.split(' ').next()?.parse::<f64>().ok());
        let burst = job.params.get("burst").and_then(Value::as_u64).unwrap_or(1);
        let fits = self.hose.longest_burst().map_or(u64::MAX, u64::from);
        // Of a flood the slow link passes its rate; of a train the buffer passes what fits.
        let (sent, received) = match rate {
            Some(rate) => (rate, rate * burst.min(fits) as f64 / burst as f64),
            None => (self.hose.feed.0 / WIRE_BITS, self.hose.drain.0 / WIRE_BITS),
        };
        let (own, counter, bytes) = match side {
            Side::Active => (sent, Counter::DatagramsSent, Counter::PayloadSent),
            Side::Passive => (received, Counter::DatagramsReceived, Counter::PayloadReceived),
        };
        let mut flow = FlowReport::default();
        let counted = |(start, end): (Nanos, Nanos)| {
            let n = (own * end.since(start).as_secs_f64()).round() as u64;
            let mut counted = Interval { start, end, ..Interval::default() };
            counted.counters[counter] = n;
            counted.counters[bytes] = n * DATAGRAM;
            counted
        };
        let intervals: Vec<Interval> = intervals(trial).into_iter().map(counted).collect();
        for kind in [counter, bytes] {
            flow.counters[kind] = intervals.iter().map(|one| one.counters[kind]).sum();
        }
        JobRecord { intervals, flows: vec![flow] }
    }
}

impl SimulatedLoad for SimulatedHose {
    fn carry(&self, trial: &TrialSpec, job: &JobSpec, side: Side) -> JobRecord {
        match job.workload.as_str() {
            "tcp_stream" => self.stream(trial, job, side),
            "tcp_rr" => self.requests(trial, side),
            _ => self.datagrams(trial, job, side),
        }
    }
}
