//! A bench of two simulated hosts, in virtual time: the response of a path or disk to a load is a
//! formula, and the conductor is the real one.

mod disk;
mod hose;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::time::Duration;

use linerate_control::ControlError;
use linerate_control::conductor::simulated::{Leaving, Simulation, simulate};
use linerate_model::plan::{Draft, expand, read};
use linerate_model::{
    Bytes, Campaign, CampaignHeader, Counter, Endpoint, FlowReport, FlowTcp, HostAddress, Interval,
    JobRecord, JobSpec, Nanos, Phases, Role, SampleBlock, Side, SocketValue, TcpState, Testbed,
    TestbedKind, TrialSpec, Warmup,
};
use serde_json::{Value, json};

use crate::conduct::exit_of;
use crate::stages::{BeforeTrial, Bench};
use crate::{Ended, Exit, Failure};

pub(crate) use disk::{FREE, SeenDisk, SimulatedDisk};
pub(crate) use hose::{HoseSettings, SimulatedHose};

/// Payload of a segment, bytes.
const MSS: u64 = 1448;

/// A simulated path or disk.
pub(crate) trait SimulatedLoad {
    /// Returns the record of one end of `job`.
    fn carry(&self, trial: &TrialSpec, job: &JobSpec, side: Side) -> JobRecord;

    /// Returns what the samplers of host `here` read during `trial`.
    fn sampled(&self, _trial: &TrialSpec) -> Option<SampleBlock> {
        None
    }
}

/// Returns the ends of the intervals of a trial, with a warm-up that its plan fixes.
fn intervals(trial: &TrialSpec) -> Vec<(Nanos, Nanos)> {
    let Phases { warmup, measure, interval, .. } = trial.phases;
    // An automatic warm-up would depend on the simulated noise.
    let Warmup::Fixed(warmup) = warmup else { panic!("drafts have a warm-up of their own") };
    let loaded = warmup + measure;
    let ends = |number: u64| {
        // The last interval ends with the load.
        (Nanos(number * interval.0), Nanos(((number + 1) * interval.0).min(loaded.0)))
    };
    (0..loaded.0.div_ceil(interval.0)).map(ends).collect()
}

/// Returns the factor by which a run differs: at most `noise` from one, by trial, sweep and `seed`.
fn noise_of(trial: &TrialSpec, noise: f64, seed: u64) -> f64 {
    // Sweeps of equal length have equal noise, which is enough for independent pairs.
    let number = (seed * 7_919 + u64::from(trial.id.0)) * 31 + trial.sweep.len() as u64;
    1.0 + noise * scatter(number)
}

/// A path between endpoint `a` on host `here` and `b` on host `far`.
#[derive(Clone, Debug)]
pub(crate) struct SimulatedPath {
    /// Rate of the link, bit/s.
    pub(crate) link: f64,
    /// Round-trip time, s.
    pub(crate) rtt: f64,
    /// Default send buffer, bytes in flight.
    pub(crate) send_buffer: f64,
    /// True if goodput follows the send buffer. Otherwise it is `held`, whatever is changed.
    pub(crate) follows: bool,
    /// Limit of all loads for a reason that no counter shows, bit/s.
    pub(crate) held: f64,
    /// Share of the time in which the sender waits for its buffer, where the buffer limits it.
    pub(crate) waits: f64,
    /// Most deviation of a run, as a ratio.
    pub(crate) noise: f64,
    /// Factor of the goodput of placebo runs: 1 unless the placebo has an effect.
    pub(crate) placebo: f64,
    /// Factor of the goodput with a changed setting of a host.
    pub(crate) settings: f64,
    /// Orders the noise.
    pub(crate) seed: u64,
}

impl Default for SimulatedPath {
    /// A sender's buffer of 64 KiB on a path of 10 ms and 100 Mbit/s.
    fn default() -> Self {
        Self {
            link: 1e8,
            rtt: 0.01,
            send_buffer: 65_536.0,
            follows: true,
            held: f64::INFINITY,
            waits: 0.8,
            noise: 0.002,
            placebo: 1.0,
            settings: 1.0,
            seed: 0,
        }
    }
}

/// Fault of a stage.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Trouble {
    /// A person interrupts it as this trial begins, from 0.
    Interrupted(u32),
    /// A host goes away.
    Leaves(Leaving),
    /// An agent refuses to begin, this many times.
    Busy(usize),
    /// A setting is refused.
    Refused,
    /// The reader of plans refuses the plan.
    RefusedPlan,
}

/// The bench.
pub(crate) struct SimulatedBench {
    load: Box<dyn SimulatedLoad>,
    troubles: Vec<(String, Trouble)>,
    /// Stages that were run, with the number of their complete trials.
    pub(crate) stages: RefCell<Vec<(String, usize)>>,
    /// Their plans.
    pub(crate) drafts: RefCell<Vec<Draft>>,
    /// Pauses so far.
    pub(crate) n_pauses: Cell<usize>,
    /// The virtual time, and its factor beside the length of the runs.
    now: Cell<Nanos>,
    slower: f64,
    opening: Nanos,
}

impl SimulatedBench {
    pub(crate) fn new(load: impl SimulatedLoad + 'static) -> Self {
        Self {
            load: Box::new(load),
            troubles: Vec::new(),
            stages: RefCell::default(),
            drafts: RefCell::default(),
            n_pauses: Cell::default(),
            now: Cell::default(),
            slower: 1.0,
            opening: Nanos(0),
        }
    }

    /// Returns the bench with stages that take `slower` times as long.
    pub(crate) fn slowed(self, slower: f64) -> Self {
        Self { slower, ..self }
    }

    /// Returns the bench with stages whose first run begins after `opening`.
    pub(crate) fn opened_in(self, opening: Nanos) -> Self {
        Self { opening, ..self }
    }

    /// Returns the bench with `trouble` in the stage called `stage`.
    pub(crate) fn with(mut self, stage: &str, trouble: Trouble) -> Self {
        self.troubles.push((stage.to_owned(), trouble));
        self
    }

    /// Returns the names of the stages that were run.
    pub(crate) fn names(&self) -> Vec<String> {
        self.stages.borrow().iter().map(|(name, _)| name.clone()).collect()
    }

    /// Returns the number of complete trials of the stage called `name`; `None` if it was not run.
    pub(crate) fn n_completed(&self, name: &str) -> Option<usize> {
        self.stages
            .borrow()
            .iter()
            .find(|(stage, _)| stage == name)
            .map(|(_, completed)| *completed)
    }

    fn trouble(&self, stage: &str) -> Option<Trouble> {
        self.troubles.iter().find(|(name, _)| stage == name).map(|(_, trouble)| *trouble)
    }
}

/// Returns the two hosts and their endpoints.
pub(crate) fn testbed() -> Testbed {
    let endpoint = |name: &str, host: &str| -> Endpoint {
        let text = json!({ "name": name, "host": host, "address": null, "device": "eth0" });
        serde_json::from_value(text).expect("what is left out has a default")
    };
    Testbed {
        hosts: ["here", "far"].map(|host| (host.to_owned(), HostAddress::InProcess)).to_vec(),
        endpoints: vec![endpoint("a", "here"), endpoint("b", "far")],
        emulated: false,
    }
}

fn header(stage: &str) -> CampaignHeader {
    CampaignHeader {
        id: stage.to_owned(),
        name: stage.to_owned(),
        seed: 1,
        testbed: TestbedKind::Hosts,
        version: "0".into(),
        ..CampaignHeader::default()
    }
}

impl Bench for SimulatedBench {
    fn pause(&self, _pause: Duration) {
        self.n_pauses.set(self.n_pauses.get() + 1);
    }

    fn now(&self) -> Nanos {
        self.now.get()
    }

    fn run(&self, name: &str, draft: &Draft, before: BeforeTrial<'_>) -> Result<Campaign, Ended> {
        let text = draft.text();
        let plan = read(&text).map_err(|problems| Failure::in_text(name, &text, &problems))?;
        let trials = expand(&plan, &testbed()).expect("endpoints a and b");
        let by_number: BTreeMap<u32, TrialSpec> =
            trials.iter().map(|trial| (trial.id.0, trial.clone())).collect();
        let length = |trial: &TrialSpec| {
            let Phases { measure, drain, rest, .. } = trial.phases;
            trial.phases.warmup_span().0 + measure.0 + drain.0 + rest.0
        };
        let seconds = trials.iter().map(length).sum::<u64>() as f64 / 1e9 * self.slower;
        self.now.set(self.now.get() + self.opening + Nanos::from_secs_f64(seconds));
        let trouble = self.trouble(name);
        if matches!(trouble, Some(Trouble::RefusedPlan)) {
            return Err(Failure::wrong("sweep 1: pacing_rate: a rate is above 0").into());
        }
        self.drafts.borrow_mut().push(draft.clone());
        let (mut begun, mut broken): (u32, Option<Failure>) = (0, None);
        let simulation = Simulation {
            header: header(name),
            hosts: ["here".to_owned(), "far".to_owned()],
            load: Box::new(|trial, job, side| {
                let trial = &by_number[&trial.0];
                self.load.carry(trial, &trial.jobs[job as usize], side)
            }),
            starting: Box::new(|trial| {
                if broken.is_none() {
                    // The callback may change settings, as the real conductor's does.
                    broken = before(trial).err();
                }
                let has_setting = trial.arm.as_ref().is_some_and(|arm| !arm.settings.is_empty());
                if has_setting && matches!(trouble, Some(Trouble::Refused)) {
                    broken = Some(Failure::missing("settings of far: not consented"));
                }
                let stops =
                    matches!(trouble, Some(Trouble::Interrupted(number)) if begun == number);
                begun += 1;
                broken.is_none() && !stops
            }),
            leaving: match trouble {
                Some(Trouble::Leaves(leaving)) => Some(leaving),
                _ => None,
            },
            refuses: matches!(trouble, Some(Trouble::Busy(times)) if self.n_pauses.get() < times)
                .then(|| {
                    (
                        1,
                        ControlError::Busy {
                            host: "far".into(),
                            by: "another".into(),
                            since_s: 3,
                            left_s: 0,
                            ahead: 0,
                        },
                    )
                }),
        };
        let ran = simulate(simulation, trials);
        let completed = ran.as_ref().map_or(0, |(_, summary)| summary.completed);
        self.stages.borrow_mut().push((name.to_owned(), completed));
        let (mut campaign, summary) = ran?;
        let first = campaign.trials.iter().filter_map(|trial| trial.started).min();
        campaign.header.started = Nanos(first.unwrap_or(self.opening).0 - self.opening.0);
        for trial in &mut campaign.trials {
            let sampled = self.load.sampled(&trial.spec);
            trial.samples.extend(sampled.map(|block| ("here".to_owned(), block)));
        }
        if let Some(failure) = broken {
            return Err(failure.into());
        }
        match exit_of(&summary)? {
            Exit::Done | Exit::Missed => Ok(campaign),
            other => Err(Ended::With(other)),
        }
    }
}

/// Returns a number in [-1, 1] that follows from `seed` (the finalizer of SplitMix64).
fn scatter(seed: u64) -> f64 {
    let mut mixed = seed.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((mixed ^ mixed >> 31) >> 11) as f64 / (1_u64 << 52) as f64 - 1.0
}

impl SimulatedPath {
    /// Returns the bytes that the sender may have in flight: the kernel grants twice the send
    /// buffer that was requested.
    fn window(&self, job: &JobSpec) -> f64 {
        let asked = job
            .params
            .get("send_buffer")
            .and_then(Value::as_str)
            .and_then(|text| text.parse::<Bytes>().ok());
        // Linux doubles the requested size to have room for its own records.
        asked.map_or(self.send_buffer, |asked| 2.0 * asked.0 as f64)
    }

    /// Returns the goodput of a trial, bit/s, and whether the buffer limits it.
    fn goodput(&self, trial: &TrialSpec, job: &JobSpec) -> (f64, bool) {
        let of_window = self.window(job) * 8.0 / self.rtt;
        let limit = self.link.min(self.held);
        let free = if self.follows { of_window.min(limit) } else { limit };
        let role = trial.arm.as_ref().map(|arm| arm.role);
        let settings = trial.arm.as_ref().is_some_and(|arm| !arm.settings.is_empty());
        let factor = match role {
            Some(Role::Placebo) => self.placebo,
            Some(Role::Changed) if settings => self.settings,
            _ => 1.0,
        };
        let noise = noise_of(trial, self.noise, self.seed);
        // The sender waits for its buffer exactly where the buffer is the smaller limit.
        (free * factor * noise, !self.follows || of_window < limit)
    }
}

impl SimulatedLoad for SimulatedPath {
    fn carry(&self, trial: &TrialSpec, job: &JobSpec, side: Side) -> JobRecord {
        // The ladders on this path judge streams in the forward direction only.
        if job.workload != "tcp_stream" || job.params.get("direction").is_some() {
            return JobRecord::default();
        }
        let intervals = intervals(trial);
        let loaded = intervals.last().map_or(Nanos(0), |(_, end)| *end);
        let (goodput, is_held) = self.goodput(trial, job);
        let state = |end: Nanos| {
            let bytes = (goodput / 8.0 * end.as_secs_f64()) as u64;
            let micros = end.0 / 1_000;
            TcpState {
                known_bytes: 248,
                bytes_acked: bytes,
                bytes_sent: bytes,
                segments_out: (bytes / MSS) as u32,
                rtt_us: (self.rtt * 1e6) as u32,
                min_rtt_us: (self.rtt * 1e6) as u32,
                congestion_window: 1_000,
                send_mss: MSS as u32,
                path_mtu: 1_500,
                // Large enough never to limit.
                send_window: 16 << 20,
                pacing_rate: u64::MAX,
                // The sender always has data in flight.
                busy_us: micros,
                send_buffer_limited_us: if is_held {
                    (micros as f64 * self.waits) as u64
                } else {
                    0
                },
                ..TcpState::default()
            }
        };
        let counted = |(start, end): (Nanos, Nanos)| {
            let bytes = (goodput / 8.0 * end.since(start).as_secs_f64()) as u64;
            let mut counted = Interval { start, end, ..Interval::default() };
            match side {
                Side::Active => {
                    counted.counters[Counter::PayloadSent] = bytes;
                    counted.counters[Counter::CallsSent] = bytes / 65_536 + 1;
                    counted.flows.push(FlowTcp { flow: 0, tcp: state(end) });
                }
                Side::Passive => counted.counters[Counter::PayloadReceived] = bytes,
            }
            counted
        };
        let granted =
            SocketValue { granted: Some(json!(self.window(job) as u64)), ..SocketValue::default() };
        let mut flow = FlowReport::default();
        if side == Side::Active {
            flow.tcp = Some(state(loaded));
            flow.socket.insert("send_buffer".into(), granted);
        }
        JobRecord { intervals: intervals.into_iter().map(counted).collect(), flows: vec![flow] }
    }
}
