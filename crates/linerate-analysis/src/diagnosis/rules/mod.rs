//! The diagnosis rules in alphabetical order: each makes one claim about the limit of a path, with
//! its evidence (docs/methodology/diagnosis.md#rules).

mod bus_ceiling;
pub mod command;
mod congestion_control;
mod cpu_taken;
mod cross_traffic;
mod disk;
mod disk_cache;
mod disk_cpu;
mod disk_depth;
mod disk_flush;
mod disk_full;
mod disk_group_limit;
mod disk_queue;
mod disk_shared;
mod facts;
mod fire_hose;
mod hash_polarised;
mod link_ceiling;
mod memory_bandwidth;
mod nearest;
mod not_valid;
mod numa_placement;
mod path_loss;
mod path_mtu;
mod path_rate;
mod policer;
mod receive_window;
mod receiver_cpu;
mod reverse_path;
mod score;
mod send_buffer;
mod sender_cpu;
mod single_flow;
mod slow_receiver;
mod slow_source;
mod small_message;
mod softirq_core;
mod unknown;

use linerate_model::{
    Arm, BitRate, BoundClass, Direction, HostSetting, Metric, Validity, Verdict, metric,
};

use super::advice::{Advice, Step};
use super::evidence::{Claim, Evidence, FlowEnd};
use super::experiment::{Experiment, bytes, set};
use super::finding::{Finding, JobFlow, Subject, SubjectLoad};
use super::sign::Sign;
use crate::study::ALL;
use crate::{Given, JobStudy, Obtained, PointStudy};
pub(super) use command::{changed, command, consent};
use nearest::{at_ceiling, nearest};

/// Names of rules that judge one metric and have its name.
pub(crate) const RECEIVER_CPU: &str = metric::RECEIVER_CPU.name;
pub(crate) const SENDER_CPU: &str = metric::SENDER_CPU.name;
pub(crate) const SOFTIRQ_CORE: &str = metric::SOFTIRQ_CORE.name;

/// Diagnosis rule.
#[derive(Debug)]
pub struct Rule {
    /// Number in docs/methodology/diagnosis.md#rules (D0 to D32). Rules are evaluated in this
    /// order.
    pub number: u8,
    /// Name of the rule, in snake case.
    pub name: &'static str,
    /// Condition under which it applies, as one clause.
    pub summary: &'static str,
    judge: fn(&PointStudy) -> Option<Finding>,
    score: fn(&PointStudy) -> Option<f64>,
    turn: Option<fn(&PointStudy) -> u8>,
    experiments: fn(&PointStudy) -> Vec<Experiment>,
    sign: fn(&PointStudy, &Arm) -> Option<Sign>,
    rests_on_prediction: fn(&PointStudy) -> bool,
}

impl Rule {
    /// Rule without experiments, signs and a turn of its own.
    const PLAIN: Self = Self {
        number: 0,
        name: UNKNOWN,
        summary: "",
        judge: |_| None,
        score: |_| None,
        turn: None,
        experiments: |_| Vec::new(),
        sign: |_, _| None,
        rests_on_prediction: |_| false,
    };

    /// Returns its claim about a point, if its evidence is there.
    #[must_use]
    pub fn judge(&self, point: &PointStudy) -> Option<Finding> {
        (self.judge)(point)
    }

    /// Returns how well the evidence fits, 0 to 1; the rule applies from 0.5 on. `None` where a
    /// figure that it needs was not recorded.
    #[must_use]
    pub fn score(&self, point: &PointStudy) -> Option<f64> {
        (self.score)(point)
    }

    /// Returns its place in the order in which the suspicions about `point` are tested.
    #[must_use]
    pub fn turn(&self, point: &PointStudy) -> u8 {
        self.turn.map_or(self.number, |turn| turn(point))
    }

    /// Returns the experiments that would prove its claim about `point`, all of which must agree.
    /// Empty where only the owner of the path could change the limit.
    #[must_use]
    pub fn experiments(&self, point: &PointStudy) -> Vec<Experiment> {
        (self.experiments)(point)
    }

    /// Returns the metric that shows in the compared runs whether the mechanism of the claim about
    /// `base` is there, if the arm `changed` has one.
    #[must_use]
    pub fn sign(&self, base: &PointStudy, changed: &Arm) -> Option<Sign> {
        (self.sign)(base, changed)
    }

    /// Returns true if other causes have the same evidence, and only the predicted size of the
    /// effect excludes them at `point`. An effect outside the prediction then refutes the claim.
    #[must_use]
    pub(crate) fn rests_on_prediction(&self, point: &PointStudy) -> bool {
        (self.rests_on_prediction)(point)
    }
}

/// Name of the rule that applies where no other does.
pub const UNKNOWN: &str = "unknown";

/// Every rule.
pub static RULES: &[&Rule] = &[
    &bus_ceiling::RULE,
    &congestion_control::RULE,
    &cpu_taken::RULE,
    &cross_traffic::RULE,
    &disk_cache::RULE,
    &disk_cpu::RULE,
    &disk_depth::RULE,
    &disk_flush::RULE,
    &disk_full::RULE,
    &disk_group_limit::RULE,
    &disk_queue::RULE,
    &disk_shared::RULE,
    &fire_hose::RULE,
    &hash_polarised::RULE,
    &link_ceiling::RULE,
    &memory_bandwidth::RULE,
    &not_valid::RULE,
    &numa_placement::RULE,
    &path_loss::RULE,
    &path_mtu::RULE,
    &path_rate::RULE,
    &policer::RULE,
    &receive_window::RULE,
    &receiver_cpu::RULE,
    &reverse_path::RULE,
    &send_buffer::RULE,
    &sender_cpu::RULE,
    &single_flow::RULE,
    &slow_receiver::RULE,
    &slow_source::RULE,
    &small_message::RULE,
    &softirq_core::RULE,
    &unknown::RULE,
];

/// Share of a core above which a thread counts as using all of its CPU.
const BUSY: f64 = 0.9;
/// Payload of a call from which its bytes cost more than the call itself: a page.
const LARGE: f64 = 4096.0;
/// Share of scheduling periods with an exhausted quota above which a host counts as using all of
/// its CPU.
const THROTTLED: f64 = 0.5;
/// Share of the time above which something limited the sender
/// (docs/methodology/diagnosis.md#rules).
const HELD_BACK: f64 = 0.3;
/// Smallest effect that proves a claim (docs/methodology/diagnosis.md#rules).
const LEAST_EFFECT: f64 = 1.1;
/// Host setting: CPU quota of its control group.
const CPU_QUOTA: &str = "cpu_quota";
/// The workload whose parameters experiments change.
const TCP_STREAM: &str = "tcp_stream";
/// Wait mode of an end that polls and never sleeps.
const SPINNING: &str = "spin";

/// Returns true if the figures of `point` may support a claim.
fn may_be_judged(point: &PointStudy) -> bool {
    point.validity <= Validity::Suspect
}

/// Returns the measured jobs of `point` with the directions in which data arrived. Without data
/// there is no rate to explain.
fn flows(point: &PointStudy) -> impl Iterator<Item = (&JobStudy, Direction)> {
    directions(point).filter(|(job, direction)| {
        value(job, metric::GOODPUT, *direction).is_some_and(|rate| rate > 0.0)
    })
}

/// Returns the measured jobs of `point` with the directions in which data was sent but none
/// arrived.
fn silent_flows(point: &PointStudy) -> impl Iterator<Item = (&JobStudy, Direction)> {
    directions(point).filter(|(job, direction)| {
        value(job, metric::GOODPUT, *direction).is_some_and(|rate| rate <= 0.0)
    })
}

fn directions(point: &PointStudy) -> impl Iterator<Item = (&JobStudy, Direction)> {
    let jobs = point.jobs.iter().filter(|job| !job.background);
    jobs.flat_map(|job| [(job, Direction::Tx), (job, Direction::Rx)])
}

/// Returns the estimate of a metric.
fn value(job: &JobStudy, metric: &Metric, direction: Direction) -> Option<f64> {
    Some(job.metric(metric, direction)?.estimate?.value)
}

/// Returns the estimate of a metric as evidence.
fn seen(job: &JobStudy, metric: &'static Metric, direction: Direction) -> Option<Evidence> {
    Some(Evidence::figure(metric, value(job, metric, direction)?))
}

/// Returns true if a worker asks again and again instead of sleeping.
fn spins(job: &JobStudy) -> bool {
    job.obtained.get("wait").is_some_and(|modes| modes.has_word(SPINNING))
}

impl FlowEnd {
    /// Returns the metrics of its busiest thread and of its exhausted CPU quota.
    const fn cpu(self) -> [&'static Metric; 2] {
        match self {
            Self::Sending => [metric::SENDER_CPU, metric::SENDER_THROTTLED],
            Self::Receiving => [metric::RECEIVER_CPU, metric::RECEIVER_THROTTLED],
        }
    }

    /// Returns the cores of the busiest worker. Spinning workers are always busy, so their CPU time
    /// is not evidence.
    fn cores(self, job: &JobStudy, direction: Direction) -> Option<f64> {
        // A spinning worker below the threshold lost its CPU to others, so its CPU time is evidence
        // again.
        value(job, self.cpu()[0], direction).filter(|cores| *cores <= BUSY || !spins(job))
    }

    /// Returns the share of the scheduling periods in which its control group had no quota left.
    fn throttled(self, job: &JobStudy, direction: Direction) -> Option<f64> {
        value(job, self.cpu()[1], direction)
    }

    /// Returns true for the receiving end.
    const fn receives(self) -> bool {
        matches!(self, Self::Receiving)
    }

    /// Returns its endpoint.
    fn endpoint(self, job: &JobStudy, direction: Direction) -> &str {
        // The active end receives only in the direction Rx.
        let is_active = matches!(self, Self::Sending) != (direction == Direction::Rx);
        if is_active { &job.from } else { &job.to }
    }
}

/// Returns the evidence that `end` uses all of its CPU: its busiest thread fills a core, or its
/// control group had no quota left in more than [`THROTTLED`] of the periods. `None` if neither is
/// true.
fn out_of_cpu(job: &JobStudy, end: FlowEnd, direction: Direction) -> Option<Vec<Evidence>> {
    let [cpu, quota] = end.cpu();
    let used = end.cores(job, direction).filter(|cores| *cores > BUSY);
    // A thread in a throttled group never reaches a whole core, so its own CPU time cannot show
    // the limit.
    let throttled = end.throttled(job, direction).filter(|share| *share > THROTTLED);
    let seen = [(cpu, used), (quota, throttled)];
    let evidence: Vec<Evidence> = seen
        .iter()
        .filter_map(|(metric, value)| Some(Evidence::figure(metric, (*value)?)))
        .collect();
    (!evidence.is_empty()).then_some(evidence)
}

/// Returns the first flow of `point` that is `wanted` and has one of `ends` out of CPU, with the
/// evidence.
fn first_out_of_cpu<'a>(
    point: &'a PointStudy,
    ends: &[FlowEnd],
    wanted: impl Fn(&JobStudy, Direction) -> bool,
) -> Option<(&'a JobStudy, Direction, Vec<Evidence>)> {
    let mut busy =
        flows(point).filter(|(job, way)| wanted(job, *way)).filter_map(|(job, direction)| {
            let evidence = ends.iter().find_map(|end| out_of_cpu(job, *end, direction))?;
            Some((job, direction, evidence))
        });
    busy.next().filter(|_| may_be_judged(point))
}

/// Returns true if the calls of the sender carry at least [`LARGE`] on average.
fn sends_large(job: &JobStudy, direction: Direction) -> bool {
    value(job, metric::PAYLOAD_PER_SEND, direction).is_some_and(|bytes| bytes >= LARGE)
}

/// Returns the experiments on an `end` that uses all of its CPU: twice its quota where one is
/// exhausted, and one of the `ways` to copy less. Copies are only a part of the cost, and the saved
/// CPU time may go elsewhere, so an experiment without effect does not refute the claim.
fn more_cpu<const N: usize>(
    point: &PointStudy,
    end: FlowEnd,
    (key, ways): (&str, [&str; N]),
) -> Vec<Experiment> {
    const MOST_SPARED: f64 = 10.0;
    let copies = flows(point).any(|(job, _)| job.workload == TCP_STREAM);
    let changes = ways.map(|way| vec![set(key, way)]);
    let name = format!("{key} {}", ways.join(" or "));
    let copied_less =
        // The kernel may spend the time saved on more packets of the same flow, with no gain in
        // goodput.
        || Experiment::lift_by_one(name, changes, [LEAST_EFFECT, MOST_SPARED]).refuting_nothing();
    twice_the_quota(point, end).into_iter().chain(copies.then(copied_less)).collect()
}

/// Returns the experiment on an exhausted CPU quota of `end`: goodput follows the quota.
fn twice_the_quota(point: &PointStudy, end: FlowEnd) -> Option<Experiment> {
    const LARGER: f64 = 2.0;
    flows(point).find_map(|(job, direction)| {
        end.throttled(job, direction).filter(|share| *share > THROTTLED)?;
        let at = end.endpoint(job, direction).to_owned();
        let setting = HostSetting { at, name: CPU_QUOTA.into(), value: format!("x{LARGER}") };
        Some(Experiment::at_host(
            "twice the CPU quota",
            setting,
            grown(LARGER, room(job, direction)),
        ))
    })
}

/// Returns the sign of an exhausted CPU quota of `end`: the CPU time of its busiest worker follows
/// a changed quota. `None` for other changes, and for spinning workers, which use any CPU time.
fn follows_quota(base: &PointStudy, changed: &Arm, end: FlowEnd) -> Option<Sign> {
    let is_quota = changed.settings.iter().any(|setting| setting.name == CPU_QUOTA);
    (is_quota && !flows(base).any(|(job, _)| spins(job))).then(|| Sign::grows(end.cpu()[0]))
}

/// Returns the ratio of the lowest known ceiling to goodput; infinite where none is known.
fn room(job: &JobStudy, direction: Direction) -> f64 {
    let share = job.metric(metric::GOODPUT, direction).and_then(|metric| metric.share);
    // Without a ceiling there is no bound on what a change may gain.
    share.map_or(f64::INFINITY, |share| 1.0 / share)
}

/// Returns the predicted range of the goodput ratio if its limit grows by `factor` and the ceiling
/// is `room` times goodput: at least half of the growth, or nearly all of the room
/// (docs/methodology/diagnosis.md#rules: a doubled buffer gives 1.5 times the goodput, up to the
/// ceiling).
fn grown(factor: f64, room: f64) -> [f64; 2] {
    /// Share of the room that counts as all of it.
    const NEARLY: f64 = 0.9;
    /// Margin for scatter and for the kernel's coarse buffer sizes: twice the buffer gives 2.3
    /// times the window.
    const SCATTER: f64 = 1.25;
    // A change cannot raise goodput above the ceiling, but a prediction below the least effect
    // could not be tested.
    [(1.0 + (factor - 1.0) / 2.0).min(NEARLY * room).max(LEAST_EFFECT), factor * SCATTER]
}

/// Returns the predicted ratio of goodput with segments of `small` payload to goodput with `large`,
/// if bytes on the wire are the limit. The range covers the smallest headers (IPv4, TCP with
/// timestamps and Ethernet without preamble: 66 B) and the largest (IPv6 and the whole wire: 110
/// B).
fn shrunk(large: f64, small: f64) -> [f64; 2] {
    const LEAST_HEADERS: f64 = 66.0;
    const MOST_HEADERS: f64 = 110.0;
    let share = |payload: f64, headers: f64| payload / (payload + headers);
    let ratio = |headers: f64| share(small, headers) / share(large, headers);
    // Larger headers make small segments lose more, so they give the lower end.
    [ratio(MOST_HEADERS), ratio(LEAST_HEADERS)]
}

/// Returns the experiment with small segments; `ratio` predicts the goodput ratio from the payload
/// before and after. A ceiling in bytes loses exactly the additional headers ([`shrunk`]). A limit
/// of packets per second, of a CPU or of a window responds differently.
fn smaller_segments(job: &JobStudy, ratio: impl Fn(f64, f64) -> [f64; 2]) -> Option<Experiment> {
    /// Segment size in bytes: small enough to cost a fifth, large enough for the ends' packet rate.
    /// The name of the arm contains it.
    const SMALL: f64 = 250.0;
    /// Bytes that the kernel subtracts from a segment for timestamps (RFC 7323 clause 3.2).
    const TIMESTAMPS: f64 = 12.0;
    // Only streams have a parameter for the segment size.
    if job.workload != TCP_STREAM {
        return None;
    }
    let usual = segment_size(job)?;
    // The `mss` of a connection includes the timestamps option, its payload does not.
    let ratio = ratio(usual, SMALL - TIMESTAMPS);
    let change = || vec![set("mss", bytes(SMALL))];
    // With segments already small, the change would be too little to measure.
    (usual > 4.0 * SMALL).then(|| Experiment::show("segments of 250 B", change(), ratio))
}

/// Returns `job`, or of the sum of all jobs the first stream: all get the same parameters.
fn stream_of<'a>(point: &'a PointStudy, job: &'a JobStudy) -> &'a JobStudy {
    let mut streams = point.jobs.iter().filter(|one| one.workload == TCP_STREAM && !one.background);
    let first = streams.next().filter(|_| job.workload == ALL);
    first.unwrap_or(job)
}

/// Returns the payload of a full segment, as the connections report it.
fn segment_size(job: &JobStudy) -> Option<f64> {
    job.obtained.get("mss").and_then(Obtained::number)
}

/// Returns the value of a socket option of the sender at the end of the run; the largest of several
/// flows.
fn option_of_sender(job: &JobStudy, name: &str, direction: Direction) -> Option<f64> {
    let given = job.obtained.get(name)?.of_sender(direction);
    // One flow with enough room shows that the setting is not the limit for all of them.
    given.iter().filter_map(Given::number_at_end).max_by(f64::total_cmp)
}

/// Returns the value of a socket option of the receiver at the end of the run; the largest of
/// several flows.
fn option_of_receiver(job: &JobStudy, name: &str, direction: Direction) -> Option<f64> {
    let other = if direction == Direction::Rx { Direction::Tx } else { Direction::Rx };
    option_of_sender(job, name, other)
}

/// Returns a parameter as the plan gives it.
fn param<'a>(job: &'a JobStudy, name: &str) -> Option<&'a serde_json::Value> {
    job.params.0.get(name)
}

/// Returns true if a host's bus sets the ceiling.
fn is_bus(class: BoundClass) -> bool {
    class == BoundClass::Bus
}

/// Returns the advice to use twice as many flows, which several CPUs of `end` share.
fn more_flows(point: &PointStudy, job: &JobStudy, end: FlowEnd) -> Advice {
    let streams = 2 * n_flows(job) as u64;
    Step::MoreFlows { end, streams }.by(changed(point, &[set("streams", streams)]))
}

/// Returns the number of flows of `job`, from its parameters.
fn n_flows(job: &JobStudy) -> f64 {
    param(job, "streams").and_then(serde_json::Value::as_f64).unwrap_or(1.0)
}

/// Returns the member links of the group that flows in `direction` cross, and the number that
/// carried traffic; `None` if they cross no group.
fn members(job: &JobStudy, direction: Direction) -> Option<(f64, f64)> {
    let available = value(job, metric::LINKS_AVAILABLE, direction).filter(|links| *links >= 2.0)?;
    Some((available, value(job, metric::LINKS_USED, direction)?))
}

/// Apparent queue in bytes without a real one: paced segments leave in bursts of two, and their
/// acknowledgements wait for the second.
const A_BURST: f64 = 4.0 * 1448.0;

/// Returns the relative increase of a flow's round-trip time over its minimum; 0 where bursts in
/// flight explain it.
fn standing_queue(job: &JobStudy, direction: Direction) -> Option<f64> {
    const BITS_PER_BYTE: f64 = 8.0;
    let read = |metric| value(job, metric, direction);
    let (goodput, rtt, least) = (
        read(metric::GOODPUT)?,
        read(metric::RTT)?,
        read(metric::RTT_MIN).filter(|least| *least > 0.0)?,
    );
    // The excess of the round-trip time alone misleads on short paths, where a burst of two
    // segments doubles it.
    let standing = (rtt - least) * goodput / BITS_PER_BYTE;
    Some(if standing < A_BURST { 0.0 } else { rtt / least - 1.0 })
}

/// Returns how well the evidence excludes the peer's window as the limit: 1 where the sender never
/// waited for it. A sender that waits for the window probes it, and its retransmissions are then no
/// loss.
fn window_open(job: &JobStudy, direction: Direction) -> f64 {
    // Other systems do not report the figure. Missing evidence must not rule out the claim of a
    // loss.
    value(job, metric::RWND_LIMITED, direction).map_or(1.0, |share| score::below(share, HELD_BACK))
}

/// Returns true if the sender waited for the peer's window so long that loss is no explanation.
fn waits_for_window(job: &JobStudy, direction: Direction) -> bool {
    value(job, metric::RWND_LIMITED, direction).is_some_and(|share| share >= HELD_BACK)
}

/// Returns true if a worker of either end was ready and had no CPU for so long that its wait
/// explains what looks like a queue or a slow application.
fn waits_for_cpu(job: &JobStudy) -> bool {
    value(job, metric::RUN_QUEUE_WAIT, Direction::Sum).is_some_and(|share| share >= HELD_BACK)
}

/// Returns true if only the path limited the sender: neither window nor buffer, neither end's CPU
/// nor the application.
fn only_the_path(job: &JobStudy, direction: Direction) -> bool {
    let below = |metric: &'static Metric| {
        // What was not recorded is taken as no limit here; the CPU figures below are checked
        // separately.
        value(job, metric, direction).is_none_or(|share| share < HELD_BACK)
    };
    let busy =
        // A sender with idle time waits for its application.
        value(job, metric::SENDER_BUSY, direction).is_some_and(|share| share > 1.0 - HELD_BACK);
    let cpu = [FlowEnd::Sending, FlowEnd::Receiving]
        .iter()
        .any(|end| out_of_cpu(job, *end, direction).is_some());
    busy && below(metric::RWND_LIMITED)
        && below(metric::SNDBUF_LIMITED)
        && !cpu
        && !is_as_planned(job, direction)
}

/// Returns true if goodput is the rate of the plan, but for late timers: nothing limits it.
fn is_as_planned(job: &JobStudy, direction: Direction) -> bool {
    let rate = param(job, "rate").and_then(|rate| rate.as_str()?.parse::<BitRate>().ok());
    let goodput = value(job, metric::GOODPUT, direction);
    rate.zip(goodput).is_some_and(|(rate, goodput)| goodput >= rate.0 * 0.97)
}

/// Returns true if a queue stands in the path of a sender that nothing else limits. Such a queue
/// keeps its link busy, so its losses do not reduce goodput.
fn fills_path(job: &JobStudy, direction: Direction) -> bool {
    only_the_path(job, direction)
        && standing_queue(job, direction).is_some_and(|queue| queue >= path_rate::STANDS)
}

/// See [`super::unknown`].
pub(super) fn nothing_known(point: &PointStudy) -> Finding {
    unknown::of(point)
}

/// Returns the subject of a finding that concerns no single flow: the first flow's job.
pub(super) fn subject_of(point: &PointStudy) -> Subject {
    match flows(point).next() {
        Some((job, direction)) => Subject { flow: None, ..subject(point, job, direction) },
        None => Subject::of_sweep(&point.sweep),
    }
}

/// Returns a finding of `rule` that its evidence supports and no experiment has tested yet.
fn suspected(
    rule: &'static str,
    (point, job, direction): (&PointStudy, &JobStudy, Direction),
    claim: Claim,
    evidence: Vec<Evidence>,
) -> Finding {
    Finding::new(rule, Verdict::Suspected, subject(point, job, direction), claim, evidence)
}

/// Returns the subject of a finding on `job` in `direction`.
fn subject(point: &PointStudy, job: &JobStudy, direction: Direction) -> Subject {
    let (sender, receiver) =
        if direction == Direction::Rx { (&job.to, &job.from) } else { (&job.from, &job.to) };
    // Reports highlight the flow by the number of its job, not by its name, because jobs may
    // share a name.
    let index = point.jobs.iter().position(|other| std::ptr::eq(other, job));
    Subject {
        sweep: point.sweep.clone(),
        parameters: point.parameters.clone(),
        load: Some(SubjectLoad::Flow {
            workload: job.workload.clone(),
            sender: sender.clone(),
            receiver: receiver.clone(),
        }),
        flow: index.and_then(|at| u32::try_from(at).ok()).map(|job| JobFlow { job, direction }),
        merged: None,
    }
}

#[cfg(test)]
pub(super) mod cases {
    //! Hand-made point for the rules' tests.

    use linerate_model::path::{Fact, Limiter, Method, PathFacts};
    use linerate_model::{BitRate, Ceiling, Direction, Estimate, Metric, SocketValue, metric};

    use crate::{Given, JobStudy, MetricStudy, Obtained, PointStudy};

    /// Prefixes of metrics that belong to whole hosts and to both directions.
    const OF_HOSTS: [&Metric; 8] = [
        metric::CONTROLLER_RECEIVED,
        metric::CONTROLLER_DROPPED,
        metric::CYCLES_PER_INSTRUCTION,
        metric::IDLE_CORE,
        metric::REMOTE_CPUS,
        metric::SOFTIRQ_CORE,
        metric::SOFTNET_DROPPED,
        metric::SOFTNET_SQUEEZED,
    ];

    /// One TCP job, tx, with these figures; a hard goodput ceiling of 1 Gbit/s.
    pub(in crate::diagnosis) fn point(figures: &[(&str, f64)]) -> PointStudy {
        let derivation = || vec!["by hand".into()];
        let ceiling =
            Ceiling::new("link", metric::GOODPUT, 1e9, Direction::Tx, derivation(), "declared");
        let metrics = figures.iter().map(|(name, value)| {
            let metric = Metric::named(name).expect(name);
            let is_goodput = metric == metric::GOODPUT;
            MetricStudy {
                at_least: None,
                metric,
                unit: metric.unit,
                layer: metric.layer,
                // A controller counts both directions together.
                direction: if OF_HOSTS.contains(&metric) { Direction::Sum } else { Direction::Tx },
                estimate: Some(Estimate {
                    value: *value,
                    low: None,
                    high: None,
                    confidence: None,
                    n: 1,
                }),
                values: vec![Some(*value)],
                ceiling: is_goodput.then_some(0),
                share: is_goodput.then_some(*value / 1e9),
                mean: None,
                settled: None,
            }
        });
        let job = JobStudy {
            workload: "tcp_stream".into(),
            from: "a".into(),
            to: "b".into(),
            metrics: metrics.collect(),
            ..JobStudy::default()
        };
        PointStudy {
            sweep: "sweep".into(),
            jobs: vec![job],
            ceilings: vec![ceiling],
            ..PointStudy::default()
        }
    }

    /// The same on a path of which a probe measured the capacity; `limiter` is at its rate.
    pub(in crate::diagnosis) fn on_path(
        figures: &[(&str, f64)],
        limiter: Option<Limiter>,
        capacity: f64,
    ) -> PointStudy {
        let facts = PathFacts {
            from: "a".into(),
            to: "b".into(),
            limiter,
            capacity: Some(Fact::exact(BitRate(capacity), Method::Flood)),
            ..PathFacts::default()
        };
        PointStudy { path: vec![facts], ..point(figures) }
    }

    #[test]
    fn every_number_of_the_methodology_has_one_rule() {
        let mut numbers: Vec<u8> = super::RULES.iter().map(|rule| rule.number).collect();
        numbers.sort_unstable();
        assert_eq!(numbers, (0..=32).collect::<Vec<u8>>());
    }

    #[test]
    fn predictions_follow_from_what_is_changed() {
        assert_eq!(super::grown(2.0, f64::INFINITY), [1.5, 2.5]);
        let [least, _] = super::grown(2.0, 1.4);
        assert!((least - 1.26).abs() < 1e-9);
        let [least, most] = super::shrunk(1448.0, 238.0);
        assert!((0.73..0.74).contains(&least) && (0.81..0.83).contains(&most), "{least} {most}");
    }

    #[test]
    fn the_largest_buffer_of_several_flows_counts() {
        let option = |granted: u64, at_end: u64| {
            let (granted, at_end) = (Some(granted.into()), Some(at_end.into()));
            Given::Option(SocketValue { requested: None, granted, at_end })
        };
        let mut point = point(&[(metric::GOODPUT.name, 1e6)]);
        let buffers = Obtained {
            from: vec![option(16_384, 87_040), option(16_384, 2_626_560)],
            to: vec![option(9, 9)],
        };
        point.jobs[0].obtained.insert("send_buffer".into(), buffers);
        assert_eq!(
            super::option_of_sender(&point.jobs[0], "send_buffer", Direction::Tx),
            Some(2_626_560.0)
        );
        assert_eq!(
            super::option_of_sender(&point.jobs[0], "send_buffer", Direction::Rx),
            Some(9.0)
        );
    }

    #[test]
    fn rules_are_alphabetical_and_say_what_they_do() {
        let names: Vec<&str> = super::RULES.iter().map(|rule| rule.name).collect();
        assert!(names.is_sorted(), "{names:?}");
        assert!(super::RULES.iter().all(|rule| !rule.summary.is_empty()));
    }
}
