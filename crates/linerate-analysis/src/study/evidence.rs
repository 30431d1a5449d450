//! Inputs of diagnosis beside the headline figures: how the ends held each other back, and
//! resources their hosts were short of (docs/methodology/diagnosis.md#evidence).
//!
//! - `congestion_window`, `unsent`: `TCP_INFO` of the sender, mean over its readings during the
//!   span, flows added
//! - `pacing_rate`: `TCP_INFO` of the sender, median of each flow's readings during the span, flows
//!   added
//! - `peer_window`, `window_swing`: `tcpi_snd_wnd` of the sender: the largest, flows added; the
//!   flow whose window moved most
//! - `source_wait`: `source_wait_ns` of the sending workers over the span and their number; 0 where
//!   they never waited, absent where it is not counted
//! - `ecn_marks`: `tcpi_delivered_ce` of the sender
//! - `receive_queue`: `held_bytes` of the receiving workers over the receive buffers of their flows
//! - `sender_throttled`, `receiver_throttled`: sampler `cgroup` of the end's host: periods
//!   throttled over periods
//! - `io_stalled`: sampler `pressure`, `some` of `io`, of the receiving host
//! - `softirq_core`, `idle_core`: sampler `cpu`, CPU by CPU, each kernel once
//! - `cycles_per_instruction`: sampler `perf_hardware`, each kernel once
//! - `remote_cpus`: facts `memory.numa` and `interfaces.<device>.numa_node`, and the CPUs that
//!   workers are pinned to
//!
//! Not covered: the time within the span at which each of these occurred, and the flow among
//! several that was held back.

use std::collections::{BTreeMap, BTreeSet};

use linerate_model::series::{cpu, perf_hardware};
use linerate_model::{
    Counter, Direction, Endpoint, FlowReport, JobRecord, Series, SeriesSpec, TcpState, TrialRecord,
    cpu_list, metric, series,
};
use serde_json::Value;

use super::connections::Connections;
use super::figures::Figures;
use super::flow::Flow;
use super::samples::{Hosts, NANOS, Samples};
use super::span::{Span, counted};
use super::traffic::{Job, Run};

/// Bits in a byte.
const BITS: f64 = 8.0;
/// Pacing rate that the kernel reports for a connection without pacing (`include/net/sock.h`,
/// `~0UL`).
const UNPACED: u64 = u64::MAX;
/// The workload that counts how long its source had nothing.
const TCP_STREAM: &str = "tcp_stream";
/// Time a CPU spends on interrupts, in sampler `cpu`.
const INTERRUPTS: [Series; 2] = [cpu::IRQ, cpu::SOFTIRQ];

/// The figures of one job's connections.
pub(super) fn of_job(figures: &mut Figures, trial: &TrialRecord, job: &Job<'_>, span: Span) {
    for flow in job.flows() {
        let (sending, receiving) = match flow.direction {
            Direction::Rx => (&job.spec.to, &job.spec.from),
            _ => (&job.spec.from, &job.spec.to),
        };
        for (metric, end) in
            [(metric::SENDER_THROTTLED, sending), (metric::RECEIVER_THROTTLED, receiving)]
        {
            figures.put_some(
                metric,
                flow.direction,
                throttled(&Samples::of(trial, &end.host), span),
            );
        }
        let stalled = Samples::of(trial, &receiving.host)
            // The sampler has one series for each resource.
            .rate(span, |s| series::pressure::SOME.is(s) && s.instance == "io");
        figures.put_some(metric::IO_STALLED, flow.direction, stalled.map(|ns| ns / NANOS));
        figures.put_some(
            metric::RECEIVE_QUEUE,
            flow.direction,
            flow.own_receiver().and_then(|end| receive_queue(end, span)),
        );
        let counts_waits = job.spec.workload == TCP_STREAM;
        let waited =
            flow.own_sender().filter(|_| counts_waits).and_then(|end| source_wait(end, span));
        figures.put_some(metric::SOURCE_WAIT, flow.direction, waited);
        if flow.is_tcp() {
            of_connections(figures, flow, span);
        }
    }
}

fn of_connections(figures: &mut Figures, flow: Flow<'_>, span: Span) {
    let connections = flow.sending();
    let direction = flow.direction;
    let sum = |value| sum_of_means(&connections, span, value);
    fn window(state: &TcpState) -> Option<f64> {
        (state.congestion_window > 0)
            .then(|| f64::from(state.congestion_window) * f64::from(state.send_mss))
    }
    figures.put_some(metric::CONGESTION_WINDOW, direction, sum(window));
    fn paced(state: &TcpState) -> Option<f64> {
        // Zero comes from kernels that do not report the rate.
        (![0, UNPACED].contains(&state.pacing_rate)).then_some(state.pacing_rate as f64 * BITS)
    }
    // BBR paces at 20 times the rate of the path and more for ten round trips now and then,
    // probably after a compressed run of acknowledgements: the mean of a few seconds depends on how
    // many of these it met (48 Mbit/s typically, 98 and more in the mean of 4 s).
    figures.put_some(metric::PACING_RATE, direction, connections.medians(span, paced));
    figures.put_some(metric::UNSENT, direction, sum(|state| Some(f64::from(state.not_sent))));
    figures.put_some(
        metric::ECN_MARKS,
        direction,
        connections.change(span, |state| u64::from(state.delivered_ce)),
    );
    figures.put_some(
        metric::PEER_WINDOW,
        direction,
        connections.peer_window(span).map(|bytes| bytes as f64),
    );
    let mut windows: BTreeMap<u32, (f64, f64)> = BTreeMap::new();
    for (number, _, bytes) in
        // Windows before the span belong to slow start.
        connections.peer_windows().filter(|(_, at, _)| span.from < *at && *at <= span.to)
    {
        let (least, most) = windows.entry(number).or_insert((bytes, bytes));
        (*least, *most) = (least.min(bytes), most.max(bytes));
    }
    let swing =
        // One flow whose window closed explains the job, whatever the others did.
        windows.into_values().map(|(least, most)| 1.0 - least / most).max_by(f64::total_cmp);
    figures.put_some(metric::WINDOW_SWING, direction, swing);
}

/// Returns the sum over the sending flows of the mean of `value` in `span`.
fn sum_of_means(
    connections: &Connections<'_>,
    span: Span,
    value: fn(&TcpState) -> Option<f64>,
) -> Option<f64> {
    let seen: Vec<f64> = connections.states(span).filter_map(value).collect();
    // States are read flow by flow; the mean of a reading times the flows is their sum.
    crate::statistics::mean(&seen).map(|mean| mean * connections.n_sending(span) as f64)
}

/// Returns the share of the time the workers of a sending end that sent had nothing to send, mean
/// over them.
fn source_wait(sender: &JobRecord, span: Span) -> Option<f64> {
    let sending =
        // Workers of the receiving direction never wait for a source.
        sender.intervals.iter().filter(|interval| interval.counters[Counter::PayloadSent] > 0);
    let workers: BTreeSet<u32> = sending.map(|interval| interval.worker).collect();
    let waited = counted(sender, Counter::SourceWait, span) / NANOS;
    (!workers.is_empty()).then(|| waited / span.seconds() / workers.len() as f64)
}

/// Periods throttled over periods; `None` where the host has no quota.
fn throttled(samples: &Samples<'_>, span: Span) -> Option<f64> {
    let of = |column: Series| samples.change(span, |read| column.is(read));
    let (periods, throttled) = (of(series::cgroup::PERIODS)?, of(series::cgroup::THROTTLED)?);
    (periods > 0.0).then(|| throttled / periods)
}

/// Returns the bytes held for a receiving end over the size of its flows' receive buffers, mean
/// over readings. `None` without readings.
fn receive_queue(receiver: &JobRecord, span: Span) -> Option<f64> {
    // Sockets that only send have a receive buffer too, which nothing fills.
    let receives = receiver.flows.iter().filter(|flow| flow.counters[Counter::PayloadReceived] > 0);
    let buffers: f64 = receives.map(receive_buffer).sum::<Option<f64>>()?;
    let mut held: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
    for interval in receiver.intervals.iter().filter(|interval| span.holds_middle(interval)) {
        if let Some(bytes) = interval.held_bytes {
            held.entry(interval.worker).or_default().push(bytes as f64);
        }
    }
    let looked = !held.is_empty() && buffers > 0.0;
    let held: f64 = held.values().filter_map(|bytes| crate::statistics::mean(bytes)).sum();
    looked.then(|| held / buffers)
}

/// Returns the receive buffer of `flow`, bytes. A buffer with the default size grows as data
/// arrives, so the size granted at first is not used.
fn receive_buffer(flow: &FlowReport) -> Option<f64> {
    let value = flow.socket.get("receive_buffer")?;
    let fixed = value.granted.as_ref().filter(|_| value.requested.is_some());
    value.at_end.as_ref().or(fixed)?.as_f64()
}

/// The figures of the hosts of `run`; `readers` has one host for each kernel.
pub(super) fn of_hosts(figures: &mut Figures, run: Run<'_>, readers: &[&str]) {
    let Run { trial, jobs, hosts, span } = run;
    let mut busiest: Option<f64> = None;
    let mut idlest: Option<f64> = None;
    let (mut cycles, mut instructions) = (None, None);
    for host in readers {
        let samples = Samples::of(trial, host);
        let of_cpu = |cpu: &str, uses: &[Series]| cpus_used(&samples, span, cpu, uses);
        for cpu in samples.instances(cpu::SAMPLER) {
            // The busiest and the idlest CPU count: a mean hides one saturated core among many idle
            // ones.
            busiest = [busiest, of_cpu(cpu, &INTERRUPTS)].into_iter().flatten().reduce(f64::max);
            idlest = [idlest, of_cpu(cpu, &[cpu::IDLE])].into_iter().flatten().reduce(f64::max);
        }
        let counted = |column: Series| samples.change(span, |read| column.is(read));
        cycles =
            // Sums before the ratio, so that a busy host weighs more than an idle one.
            [cycles, counted(perf_hardware::CYCLES)].into_iter().flatten().reduce(|a, b| a + b);
        instructions = [instructions, counted(perf_hardware::INSTRUCTIONS)]
            .into_iter()
            .flatten()
            .reduce(|a, b| a + b);
    }
    figures.put_some(metric::SOFTIRQ_CORE, Direction::Sum, busiest);
    figures.put_some(metric::IDLE_CORE, Direction::Sum, idlest);
    let ratio = cycles.zip(instructions).filter(|(_, n)| *n > 0.0).map(|(cycles, n)| cycles / n);
    figures.put_some(metric::CYCLES_PER_INSTRUCTION, Direction::Sum, ratio);
    let ends: Vec<&Endpoint> = jobs.iter().flat_map(|job| [&job.spec.from, &job.spec.to]).collect();
    let remote = ends.into_iter().filter_map(|end| remote_cpus(end, hosts)).max_by(f64::total_cmp);
    figures.put_some(metric::REMOTE_CPUS, Direction::Sum, remote);
}

/// Returns the share of `cpu` that `uses` took in `span`.
fn cpus_used(samples: &Samples<'_>, span: Span, cpu: &str, uses: &[Series]) -> Option<f64> {
    let wanted = |s: &SeriesSpec| s.instance == cpu && series::any(uses, s);
    samples.rate(span, wanted).map(|ns| ns / NANOS)
}

/// Returns the share of the CPUs that `end` is pinned to which lie in another node than its device;
/// `None` where either is not known.
fn remote_cpus(end: &Endpoint, hosts: &Hosts<'_>) -> Option<f64> {
    // An unpinned worker may run anywhere, so its node is not known.
    if !end.pin || end.cpus.is_empty() {
        return None;
    }
    let node = hosts
        .interface_fact(&end.host, end.device.as_deref()?, "numa_node")
        .and_then(Value::as_u64)?;
    let nodes =
        // With one node nothing is remote.
        hosts.fact(&end.host, "memory.numa")?.as_object().filter(|nodes| nodes.len() > 1)?;
    let local = cpu_list(nodes.get(&node.to_string())?.get("cpus")?.as_str()?)?;
    let remote = end.cpus.iter().filter(|cpu| !local.contains(cpu)).count();
    Some(remote as f64 / end.cpus.len() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_that_grows_by_itself_is_known_only_at_the_end() {
        let flow = |requested: Option<u64>, at_end: Option<u64>| {
            let value = linerate_model::SocketValue {
                requested: requested.map(Value::from),
                granted: Some(131_072.into()),
                at_end: at_end.map(Value::from),
            };
            FlowReport {
                socket: [("receive_buffer".to_owned(), value)].into(),
                ..FlowReport::default()
            }
        };
        assert_eq!(receive_buffer(&flow(None, None)), None);
        assert_eq!(receive_buffer(&flow(None, Some(6_291_456))), Some(6_291_456.0));
        assert_eq!(receive_buffer(&flow(Some(65_536), None)), Some(131_072.0));
        assert_eq!(receive_buffer(&FlowReport::default()), None);
    }
}
