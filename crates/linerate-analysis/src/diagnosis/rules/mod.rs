//! The rules, alphabetically: each a claim about what limits a path, with its evidence
//! (docs/methodology/diagnosis.md#rules).

mod bus_ceiling;
mod command;
mod congestion_control;
mod disk;
mod disk_depth;
mod disk_flush;
mod fire_hose;
mod hash_polarised;
mod link_ceiling;
mod memory_bandwidth;
mod not_valid;
mod numa_placement;
mod path_loss;
mod path_mtu;
mod receive_window;
mod receiver_cpu;
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
    About, BoundClass, Direction, Evidence, Finding, HostSetting, JobFlow, Validity, metric,
};

use super::experiment::{Experiment, bytes, set};
use crate::statistics::measured_rate;
use crate::{Given, JobStudy, Obtained, PointStudy};
use command::advise_command;
pub(super) use command::command;

/// A diagnosis rule.
pub trait Rule: Sync {
    /// Its name.
    fn name(&self) -> &'static str;

    /// One sentence: when it fires.
    fn summary(&self) -> &'static str;

    /// Its number in docs/methodology/diagnosis.md#rules (D0 to D21), which is the order in which
    /// rules are asked.
    fn number(&self) -> u8;

    /// What it says of a point, if anything.
    fn judge(&self, point: &PointStudy) -> Option<Finding>;

    /// How well its evidence is met, 0 to 1; from 0.5 on it speaks. `None` where what it must know
    /// was not recorded.
    fn score(&self, point: &PointStudy) -> Option<f64>;

    /// What would prove what it says of `point`: all of these, where there are several; none where
    /// only the owner of the path could change what it says is the limit.
    fn experiments(&self, point: &PointStudy) -> Vec<Experiment> {
        let _nothing_to_change = point;
        Vec::new()
    }
}

/// The rule that speaks where no other does.
pub const UNKNOWN: &str = "unknown";

/// Every rule.
pub static RULES: &[&dyn Rule] = &[
    &bus_ceiling::BusCeiling,
    &congestion_control::CongestionControl,
    &disk_depth::DiskDepth,
    &disk_flush::DiskFlush,
    &fire_hose::FireHose,
    &hash_polarised::HashPolarised,
    &link_ceiling::LinkCeiling,
    &memory_bandwidth::MemoryBandwidth,
    &not_valid::NotValid,
    &numa_placement::NumaPlacement,
    &path_loss::PathLoss,
    &path_mtu::PathMtu,
    &receive_window::ReceiveWindow,
    &receiver_cpu::ReceiverCpu,
    &send_buffer::SendBuffer,
    &sender_cpu::SenderCpu,
    &single_flow::SingleFlow,
    &slow_receiver::SlowReceiver,
    &slow_source::SlowSource,
    &small_message::SmallMessage,
    &softirq_core::SoftirqCore,
    &unknown::Unknown,
];

/// Share of a core from which a thread counts as out of CPU.
const BUSY: f64 = 0.9;
/// Payload of a call from which its bytes cost more than the call itself: a page.
const LARGE: f64 = 4096.0;
/// Share of scheduling periods without quota from which a host counts as out of CPU.
const THROTTLED: f64 = 0.5;
/// Share of the time from which something held the sender back
/// (docs/methodology/diagnosis.md#rules).
const HELD_BACK: f64 = 0.3;
/// The least effect that proves anything (docs/methodology/diagnosis.md#rules).
const LEAST_EFFECT: f64 = 1.1;
/// The setting of a host that is the quota of its control group.
const CPU_QUOTA: &str = "cpu_quota";
/// The workload whose parameters experiments change.
const TCP_STREAM: &str = "tcp_stream";
/// Mode of an end that never sleeps.
const SPINNING: &str = "spin";

/// Whether figures of `point` may be reasoned from.
fn may_be_judged(point: &PointStudy) -> bool {
    point.validity <= Validity::Suspect
}

/// The measured jobs of `point` with the directions in which data arrived: of one in which nothing
/// did there is no rate to explain.
fn flows(point: &PointStudy) -> impl Iterator<Item = (&JobStudy, Direction)> {
    directions(point).filter(|(job, direction)| {
        value(job, metric::GOODPUT, *direction).is_some_and(|rate| rate > 0.0)
    })
}

/// The measured jobs of `point` with the directions in which data was sent and nothing arrived.
fn silent_flows(point: &PointStudy) -> impl Iterator<Item = (&JobStudy, Direction)> {
    directions(point).filter(|(job, direction)| {
        value(job, metric::GOODPUT, *direction).is_some_and(|rate| rate <= 0.0)
    })
}

fn directions(point: &PointStudy) -> impl Iterator<Item = (&JobStudy, Direction)> {
    let jobs = point.jobs.iter().filter(|job| !job.background);
    jobs.flat_map(|job| [(job, Direction::Tx), (job, Direction::Rx)])
}

/// The estimate of a metric.
fn value(job: &JobStudy, metric: &str, direction: Direction) -> Option<f64> {
    Some(job.metric(metric, direction)?.estimate?.value)
}

/// An end of a flow.
#[derive(Clone, Copy)]
enum FlowEnd {
    Sending,
    Receiving,
}

impl FlowEnd {
    fn word(self) -> &'static str {
        match self {
            Self::Sending => "sending",
            Self::Receiving => "receiving",
        }
    }

    /// Cores of the busiest worker. Workers that spin are always busy and say nothing.
    fn cores(self, job: &JobStudy, direction: Direction) -> Option<f64> {
        let metric = match self {
            Self::Sending => metric::SENDER_CPU,
            Self::Receiving => metric::RECEIVER_CPU,
        };
        let spins = job.obtained.get("wait").is_some_and(|modes| modes.has_word(SPINNING));
        value(job, metric, direction).filter(|cores| *cores <= BUSY || !spins)
    }

    /// Share of the scheduling periods in which its control group had used up its CPU quota.
    fn throttled(self, job: &JobStudy, direction: Direction) -> Option<f64> {
        let metric = match self {
            Self::Sending => metric::SENDER_THROTTLED,
            Self::Receiving => metric::RECEIVER_THROTTLED,
        };
        value(job, metric, direction)
    }

    /// Its endpoint.
    fn endpoint(self, job: &JobStudy, direction: Direction) -> &str {
        let is_active = matches!(self, Self::Sending) != (direction == Direction::Rx);
        if is_active { &job.from } else { &job.to }
    }
}

/// What shows that `end` is out of CPU: its busiest thread fills a core, or its control group has
/// used up its quota in more than [`THROTTLED`] of the periods. Nothing if neither is so.
fn out_of_cpu(job: &JobStudy, end: FlowEnd, direction: Direction) -> Option<Vec<Evidence>> {
    let used = end.cores(job, direction).filter(|cores| *cores > BUSY).map(|cores| Evidence {
        observed: format!(
            "the busiest {} thread used {:.0} % of a core",
            end.word(),
            cores * 100.0
        ),
        source: "getrusage of the thread (RUSAGE_THREAD)".into(),
    });
    let throttled =
        end.throttled(job, direction).filter(|share| *share > THROTTLED).map(|share| Evidence {
            observed: format!(
                "the {} host had used up its CPU quota in {:.0} % of the scheduling periods",
                end.word(),
                share * 100.0
            ),
            source: "cpu.stat of its control group: nr_throttled of nr_periods".into(),
        });
    let evidence: Vec<Evidence> = used.into_iter().chain(throttled).collect();
    (!evidence.is_empty()).then_some(evidence)
}

/// The experiments on an `end` that is out of CPU: twice its quota where one is used up, and one of
/// the `ways` to copy less. A copy is not all that moving bytes costs, nor is all of it spared;
/// what is scarce may go to something else, so that copying less refutes nothing.
fn more_cpu<const N: usize>(
    point: &PointStudy,
    end: FlowEnd,
    name: &str,
    (key, ways): (&str, [&str; N]),
) -> Vec<Experiment> {
    const MOST_SPARED: f64 = 10.0;
    let copies = flows(point).any(|(job, _)| job.workload == TCP_STREAM);
    let changes = ways.map(|way| vec![set(key, way)]);
    let copied_less =
        || Experiment::lift_by_one(name, changes, [LEAST_EFFECT, MOST_SPARED]).refuting_nothing();
    twice_the_quota(point, end).into_iter().chain(copies.then(copied_less)).collect()
}

/// The experiment on a CPU quota that `end` has used up: goodput follows it.
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

/// How many times as much the lowest ceiling known lets pass; infinite where none is known.
fn room(job: &JobStudy, direction: Direction) -> f64 {
    let share = job.metric(metric::GOODPUT, direction).and_then(|metric| metric.share);
    share.map_or(f64::INFINITY, |share| 1.0 / share)
}

/// What goodput is multiplied by where what limits it grows by `factor` and a ceiling has `room`:
/// half of the growth at the least, or as good as all the room
/// (docs/methodology/diagnosis.md#rules: a doubled buffer gives 1.5 times as much, until the
/// ceiling).
fn grown(factor: f64, room: f64) -> [f64; 2] {
    /// As good as all of it.
    const NEARLY: f64 = 0.9;
    /// Estimates scatter, and the kernel grants buffers in coarse grains: twice the buffer gives
    /// 2.3 times the window.
    const SCATTER: f64 = 1.25;
    [(1.0 + (factor - 1.0) / 2.0).min(NEARLY * room).max(LEAST_EFFECT), factor * SCATTER]
}

/// Goodput with segments of `small` payload over that with `large`, if bytes on the wire are the
/// limit: between what the least and the most of headers leave (IPv4, TCP with timestamps and
/// Ethernet without preamble: 66 B; IPv6 and the whole wire: 110 B).
fn shrunk(large: f64, small: f64) -> [f64; 2] {
    const LEAST_HEADERS: f64 = 66.0;
    const MOST_HEADERS: f64 = 110.0;
    let share = |payload: f64, headers: f64| payload / (payload + headers);
    let ratio = |headers: f64| share(small, headers) / share(large, headers);
    [ratio(MOST_HEADERS), ratio(LEAST_HEADERS)]
}

/// The experiment with small segments: `ratio` says what goodput is multiplied by, of their payload
/// before and then. On a ceiling that counts bytes ([`shrunk`]) they waste so much of it on
/// headers, no more and no less. Fewer packets a second, a CPU or a window would answer otherwise.
fn smaller_segments(job: &JobStudy, ratio: impl Fn(f64, f64) -> [f64; 2]) -> Option<Experiment> {
    /// Small enough to cost a fifth, large enough not to drown the ends in packets.
    const SMALL: f64 = 250.0;
    /// What the kernel takes off a segment for its timestamps (RFC 7323 clause 3.2).
    const TIMESTAMPS: f64 = 12.0;
    if job.workload != TCP_STREAM {
        return None;
    }
    let usual = segment_size(job)?;
    let ratio = ratio(usual, SMALL - TIMESTAMPS);
    let change = || vec![set("mss", bytes(SMALL))];
    (usual > 4.0 * SMALL)
        .then(|| Experiment::show(format!("segments of {SMALL:.0} B"), change(), ratio))
}

/// Payload of a full segment, as the connections said it.
fn segment_size(job: &JobStudy) -> Option<f64> {
    job.obtained.get("mss").and_then(Obtained::number)
}

/// What an option was at the end of the run at the end of the flow that sends; the largest of
/// several flows.
fn option_of_sender(job: &JobStudy, name: &str, direction: Direction) -> Option<f64> {
    let given = job.obtained.get(name)?.of_sender(direction);
    given.iter().filter_map(Given::number_at_end).max_by(f64::total_cmp)
}

/// A parameter as the plan gave it.
fn param<'a>(job: &'a JobStudy, name: &str) -> Option<&'a serde_json::Value> {
    job.params.0.get(name)
}

/// Whether what sets a ceiling is a bus of a host and not a cable.
fn is_bus(class: BoundClass) -> bool {
    class == BoundClass::Bus
}

/// The first flow of `point` whose goodput is at least `share` of its lowest ceiling, and that
/// ceiling.
fn at_ceiling<'a>(
    point: &'a PointStudy,
    share: f64,
    wanted: impl Fn(BoundClass) -> bool,
) -> Option<(&'a JobStudy, Direction, Evidence, String)> {
    let reached = |(job, direction): (&'a JobStudy, Direction)| {
        let metric = job.metric(metric::GOODPUT, direction)?;
        let reached = metric.share.filter(|reached| *reached >= share)?;
        let ceiling =
            point.ceilings.get(metric.ceiling?).filter(|ceiling| wanted(ceiling.class()))?;
        let evidence = Evidence {
            observed: format!(
                "goodput {} is {:.1} % of {}",
                measured_rate(metric.estimate?.value),
                reached * 100.0,
                measured_rate(ceiling.value)
            ),
            source: format!("{}: {}", ceiling.name(), ceiling.source),
        };
        Some((job, direction, evidence, ceiling.name()))
    };
    flows(point).filter_map(reached).next().filter(|_| may_be_judged(point))
}

/// Flows of `job`, as its parameters say.
fn n_flows(job: &JobStudy) -> f64 {
    param(job, "streams").and_then(serde_json::Value::as_f64).unwrap_or(1.0)
}

/// Member links of the group that flows in `direction` cross, and how many carried some; `None` if
/// they cross none.
fn members(job: &JobStudy, direction: Direction) -> Option<(f64, f64)> {
    let available = value(job, metric::LINKS_AVAILABLE, direction).filter(|links| *links >= 2.0)?;
    Some((available, value(job, metric::LINKS_USED, direction)?))
}

/// Bytes that stand in a queue where none does: paced segments leave in bursts of two, and their
/// acknowledgements wait for the second.
const A_BURST: f64 = 4.0 * 1448.0;

/// Share of its least by which the round trip of a flow is longer; nothing where that is no more
/// than bursts on their way.
fn standing_queue(job: &JobStudy, direction: Direction) -> Option<f64> {
    const BITS_PER_BYTE: f64 = 8.0;
    let read = |metric| value(job, metric, direction);
    let (goodput, rtt, least) = (
        read(metric::GOODPUT)?,
        read(metric::RTT)?,
        read(metric::RTT_MIN).filter(|least| *least > 0.0)?,
    );
    let standing = (rtt - least) * goodput / BITS_PER_BYTE;
    Some(if standing < A_BURST { 0.0 } else { rtt / least - 1.0 })
}

/// How much speaks for the peer's window not being what holds the sender back: 1 where it never
/// waited for it. A sender that waits for the window probes it, and what it sends again then is no
/// loss.
fn window_open(job: &JobStudy, direction: Direction) -> f64 {
    value(job, metric::RWND_LIMITED, direction).map_or(1.0, |share| score::below(share, HELD_BACK))
}

/// Whether the sender waited for the peer's window so long that loss is no explanation.
fn waits_for_window(job: &JobStudy, direction: Direction) -> bool {
    value(job, metric::RWND_LIMITED, direction).is_some_and(|share| share >= HELD_BACK)
}

/// Whether nothing but the path held the sender back: neither window nor buffer, neither end's CPU
/// nor the application.
fn only_the_path(job: &JobStudy, direction: Direction) -> bool {
    let below = |metric: &str| value(job, metric, direction).is_none_or(|share| share < HELD_BACK);
    let busy =
        value(job, metric::SENDER_BUSY, direction).is_some_and(|share| share > 1.0 - HELD_BACK);
    let cpu = [FlowEnd::Sending, FlowEnd::Receiving]
        .iter()
        .any(|end| out_of_cpu(job, *end, direction).is_some());
    busy && below(metric::RWND_LIMITED) && below(metric::SNDBUF_LIMITED) && !cpu
}

/// See [`super::unknown`].
pub(super) fn nothing_known(point: &PointStudy) -> Finding {
    unknown::of(point)
}

/// What any flow in any direction of a measured job is about, for findings without a flow of their
/// own.
pub(super) fn subject_of(point: &PointStudy) -> About {
    match flows(point).next() {
        // Of no flow of its own.
        Some((job, direction)) => About { flow: None, ..subject(point, job, direction) },
        None => About::from(point.sweep.as_str()),
    }
}

fn payload_evidence(job: &JobStudy, direction: Direction) -> Option<Evidence> {
    let bytes = value(job, metric::PAYLOAD_PER_SEND, direction)?;
    Some(Evidence {
        observed: format!("{bytes:.0} bytes a call"),
        source: "the sending worker's counters".into(),
    })
}

/// `axis = value` of each axis.
pub(super) fn coordinate(point: &PointStudy) -> String {
    let plain =
        |value: &serde_json::Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let axes: Vec<String> =
        point.parameters.iter().map(|(axis, value)| format!("{axis} = {}", plain(value))).collect();
    axes.join(", ")
}

/// What a finding on `job` in `direction` is about.
fn subject(point: &PointStudy, job: &JobStudy, direction: Direction) -> About {
    let coordinate = coordinate(point);
    let place = if coordinate.is_empty() { String::new() } else { format!(" at {coordinate}") };
    let (sender, receiver) =
        if direction == Direction::Rx { (&job.to, &job.from) } else { (&job.from, &job.to) };
    let number = point
        .jobs
        .iter()
        .position(|other| std::ptr::eq(other, job))
        .and_then(|at| u32::try_from(at).ok());
    About {
        text: format!("{}{place}: {} from {sender} to {receiver}", point.sweep, job.workload),
        flow: number.map(|job| JobFlow { job, direction }),
    }
}

#[cfg(test)]
pub(super) mod cases {
    //! A point made by hand for the rules' tests.

    use linerate_model::{Ceiling, Direction, Estimate, SocketValue, metric};

    use crate::{Given, JobStudy, MetricStudy, Obtained, PointStudy};

    /// What is of whole hosts, and of both ways.
    const OF_HOSTS: [&str; 6] =
        ["controller", "cycles", metric::IDLE_CORE, "remote", metric::SOFTIRQ_CORE, "softnet"];

    /// One TCP job, tx, with these figures; a hard goodput ceiling of 1 Gbit/s.
    pub(in crate::diagnosis) fn point(figures: &[(&str, f64)]) -> PointStudy {
        let derivation = || vec!["by hand".to_owned()];
        let ceiling =
            Ceiling::new("link", metric::GOODPUT, 1e9, Direction::Tx, derivation(), "declared");
        let metrics = figures.iter().map(|(name, value)| {
            let metric = linerate_model::metric(name).expect(name);
            let is_goodput = *name == metric::GOODPUT;
            MetricStudy {
                at_least: None,
                name: (*name).to_owned(),
                unit: metric.unit,
                layer: metric.layer,
                // What a controller counts is of both ways.
                direction: if OF_HOSTS.iter().any(|host| name.starts_with(host)) {
                    Direction::Sum
                } else {
                    Direction::Tx
                },
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

    #[test]
    fn every_number_of_the_methodology_has_one_rule() {
        let mut numbers: Vec<u8> = super::RULES.iter().map(|rule| rule.number()).collect();
        numbers.sort_unstable();
        assert_eq!(numbers, (0..=21).collect::<Vec<u8>>());
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
        let mut point = point(&[(metric::GOODPUT, 1e6)]);
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
        let names: Vec<&str> = super::RULES.iter().map(|rule| rule.name()).collect();
        assert!(names.is_sorted(), "{names:?}");
        assert!(super::RULES.iter().all(|rule| !rule.summary().is_empty()));
    }
}
