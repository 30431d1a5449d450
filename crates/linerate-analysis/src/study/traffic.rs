//! Figures of one job from what its two ends counted. Nothing is taken from the parameters.
//!
//! - `goodput`: receiving end, `payload_received` over the measured span, per direction; `sum`
//!   where both carry data. Where the receiving end is foreign: `payload_acknowledged` of the
//!   sending one; in ledgers of versions that did not count it what TCP acknowledged (`bytes_acked`
//!   of `TCP_INFO`), else `payload_sent`. Datagrams to a foreign end: `payload_sent`, times the
//!   share that it reports to have received in its whole load; absent without its report
//! - `foreign_goodput`, `foreign_retransmits`, `foreign_cpu`: report of a foreign end of its whole
//!   load (`foreign`)
//! - `message_rate`: receiving end, `messages_received`
//! - `packet_rate`: TCP: `segments_in` of the receiving end's `TCP_INFO` (the sender's
//!   `segments_out` where the receiver's is not known), segments counted after GSO; on a connection
//!   that carries data both ways acknowledgements are among them. UDP: datagrams received, given
//!   only if they were not fragmented as far as the path's MTU is known
//! - `transaction_rate`, `connection_rate`: active end (the passive one where the active counted
//!   none), direction `sum`
//! - `retransmits`, `retransmit_ratio`, `acknowledgements` (segments without payload that came
//!   back), `rtt`, `rtt_min`, `rwnd_limited`, `sndbuf_limited`, `sender_busy`: `TCP_INFO` of the
//!   sockets that sent payload in this direction; times over the span and the number of flows that
//!   sent
//! - `fairness`: Jain's index over `bytes_received` of each flow during the span, or over the
//!   flows' totals, per direction
//! - `lost`, `loss_ratio`: of what was due in the span: datagrams and frames sent in it that never
//!   came (`loss_series`), per direction and `sum`; requests, connections, files and transfers that
//!   were lost, direction `sum`
//! - `late`, `duplicates`, `reordered`: loss ledger, whole trial, per direction and `sum`
//! - `operations_*`, `unanswered_ratio`: the ledger of operations over the measured span
//!   (`operations`), at the end that starts them; direction `sum`, of disks and files also reads
//!   (rx) and writes (tx). Datagrams and frames, per direction: answered are those that came, open
//!   those of an open load that were never sent
//! - `clock_uncertainty`: exchanges of time stamps with both hosts, before, during and after the
//!   trial (`clocks`); one-way times no longer than that are no figures
//! - `response_time*`, `service_time_*`: distributions of the intervals whose middle lies in the
//!   span; a percentile needs ten operations beyond it; lost ones are infinite, those of datagrams
//!   timed one way in proportion to the span
//! - `delay_variation`: service times: 99.9th percentile less the smallest
//! - `delay_variation_*`: differences of consecutive frames, receiving end
//! - `pacing_error`: both ends' `started` over `intended` during the span, as distance from 1; open
//!   loads only
//! - `sender_cpu`, `receiver_cpu`: `cpu_user_ns` and `cpu_system_ns` of the busiest worker of that
//!   end, per direction
//! - `run_queue_wait`: `run_queue_wait_ns` of the worker of either end that waited most, over the
//!   span; direction `sum`; absent where the kernel does not account it
//! - `goodput_served`: the same bytes over `serving_ns`: the time in which a file of another
//!   program was under way at our server
//! - `goodput_peak`: receiving end, the highest `payload_received` of a second that the intervals
//!   of the span cover
//! - `connect_time_*`, `first_byte_time_*`, `transfer_time_*`, `close_time_*`: stages of files at
//!   the active end; intervals whose middle lies in the span
//! - `iops`, `transfer_rate`, ...: see `transfers`
//! - `payload_per_send`: sending end, `payload_sent` over `calls_sent`, per direction
//! - `calls_per_second`, `cpu_app`, `cpu_kernel`: both ends' counters, direction `sum`
//! - `null_step_cost`: `cpu_user_ns` over `steps`, workload `null` only

use std::collections::BTreeMap;

use linerate_model::{
    Counter, Direction, Distribution, Interval, JobRecord, JobSpec, OperationKind, Source, Stages,
    TrialRecord, Variation, metric,
};

use super::account::{loss_figures, operation_figures};
use super::clocks::Correction;
use super::figures::Figures;
use super::flow::{Flow, Path};
use super::foreign;
use super::loss::LossStudy;
use super::operations::{self, Operations};
use super::samples::{Hosts, NANOS};
use super::span::{Span, counted, total};
use super::stalls::{self, Stall};
use super::times::{stage_figures, time_figures, variation_figures};
use crate::statistics::jain;
use Direction::{Rx, Sum, Tx};

/// Microseconds in a second.
const MICROS: f64 = 1e6;
/// The workload that does nothing, whose cost is the engine's own.
const NULL_WORKLOAD: &str = "null";

/// One job of one trial, as recorded.
#[derive(Clone)]
pub(super) struct Job<'a> {
    pub(super) spec: &'a JobSpec,
    pub(super) active: &'a JobRecord,
    pub(super) passive: &'a JobRecord,
    /// Correction of one-way times at the active and at the passive end, where their clocks differ.
    pub(super) clocks: [Option<Correction>; 2],
    /// Periods in which its own workers did not run although they had work.
    pub(super) stalls: Vec<Stall>,
}

/// One trial with what its figures are made of.
#[derive(Clone, Copy)]
pub(super) struct Run<'a> {
    pub(super) trial: &'a TrialRecord,
    /// All its jobs, background included.
    pub(super) jobs: &'a [Job<'a>],
    pub(super) hosts: &'a Hosts<'a>,
    /// The part that the figures are of.
    pub(super) span: Span,
}

/// Distributions of one job during the span.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Distributions {
    pub(super) response: Distribution,
    pub(super) service: Distribution,
    /// Reads of disks and files, and writes; empty for other workloads.
    pub(super) reads: Distribution,
    pub(super) writes: Distribution,
    /// Flushes and discards, which are not among `service`.
    pub(super) flushes: Distribution,
    pub(super) trims: Distribution,
    pub(super) gap: Distribution,
    pub(super) variation: Variation,
    pub(super) stages: Stages,
}

impl Distributions {
    /// Adds `more`.
    pub(super) fn merge(&mut self, more: &Self) {
        self.response.merge(&more.response);
        self.service.merge(&more.service);
        self.reads.merge(&more.reads);
        self.writes.merge(&more.writes);
        self.flushes.merge(&more.flushes);
        self.trims.merge(&more.trims);
        self.gap.merge(&more.gap);
        self.variation.merge(&more.variation);
        self.stages.merge(&more.stages);
    }
}

impl<'a> Job<'a> {
    /// Returns the directions in which payload was sent or received, tx first.
    pub(super) fn flows(&self) -> Vec<Flow<'a>> {
        let ends = [(Tx, [self.active, self.passive]), (Rx, [self.passive, self.active])];
        let flow = |(direction, ends)| Flow::between(direction, ends, &self.spec.workload);
        ends.into_iter().filter_map(flow).collect()
    }

    /// Returns the flow in `direction`, if it carries data.
    pub(super) fn flow(&self, direction: Direction) -> Option<Flow<'a>> {
        self.flows().into_iter().find(|flow| flow.direction == direction)
    }

    /// Both ends.
    pub(super) fn ends(&self) -> [&'a JobRecord; 2] {
        [self.active, self.passive]
    }

    /// Returns whether nothing was due at a set time: the next request follows the answer.
    pub(super) fn is_closed(&self) -> bool {
        self.ends().into_iter().all(|end| total(end, Counter::Intended) == 0)
    }

    /// Returns whether it read, wrote or discarded data on a disk or file, or was due to.
    pub(super) fn is_of_disk(&self) -> bool {
        const OF_DISK: [Counter; 5] = [
            Counter::Reads,
            Counter::Writes,
            Counter::Trims,
            Counter::WritesDue,
            Counter::TrimsDue,
        ];
        OF_DISK.into_iter().any(|counter| total(self.active, counter) > 0)
    }

    /// Returns the seconds of `span` in which our server had a file of another program's client in
    /// flight; 0 where clients are ours. For several workers, which may have been busy at once, the
    /// sum, so that no rate over it is too high.
    pub(super) fn served_s(&self, span: Span) -> f64 {
        (counted(self.passive, Counter::Serving, span) / NANOS).min(span.seconds())
    }

    /// Returns the outcomes of the operations that were due in `span`, at the end that started
    /// them.
    pub(super) fn operations(&self, span: Span) -> Option<Operations> {
        self.ends()
            .into_iter()
            .find_map(|end| operations::of(end, span, |_| true))
            .filter(|operations| operations.due > 0)
    }

    /// Returns the possible error of the job's one-way times, seconds; `None` if its ends share a
    /// clock, or it was not timed.
    pub(super) fn clock_uncertainty(&self) -> Option<f64> {
        let timed =
            self.ends().into_iter().zip(&self.clocks).filter(|(end, _)| is_timed_one_way(end));
        timed
            .filter_map(|(_, clock)| clock.map(|clock| clock.uncertainty() / NANOS))
            .reduce(f64::max)
    }

    /// Distributions during `span`, both ends' merged, without the intervals that a stall of the
    /// tester disturbed, if it left any: a figure with a doubt says more than none. Datagrams that
    /// are timed one way and did not come are infinitely slow.
    pub(super) fn distributions(&self, span: Span) -> Distributions {
        let mut merged = Distributions::default();
        for (end, clock) in self.ends().into_iter().zip(&self.clocks) {
            // From a request to its response time passes on one clock.
            let clock = clock.filter(|_| is_timed_one_way(end));
            let of_span = || end.intervals.iter().filter(|one| span.holds_middle(one));
            let are_all = of_span().all(|interval| stalls::disturb(&self.stalls, interval));
            let undisturbed =
                |interval: &&Interval| are_all || !stalls::disturb(&self.stalls, interval);
            let operations =
                operations::of(end, span, |interval| undisturbed(&interval)).unwrap_or_default();
            let intervals = || of_span().filter(undisturbed);
            let [service, writes, flushes, trims] = OperationKind::ALL
                .map(|kind| service_times(kind, &operations, intervals(), clock.as_ref()));
            if total(end, Counter::Reads) > 0 || operations.of(OperationKind::Write).fates.due > 0 {
                merged.reads.merge(&service);
            }
            merged.service.merge(&service);
            merged.service.merge(&writes);
            merged.writes.merge(&writes);
            merged.flushes.merge(&flushes);
            merged.trims.merge(&trims);
            merged.response.merge(operations.response.as_ref().unwrap_or(&Distribution::NOTHING));
            for interval in intervals() {
                if operations.response.is_none() {
                    let right = clock.map(|clock| clock.apply(&interval.response, interval));
                    merged.response.merge(right.as_ref().unwrap_or(&interval.response));
                }
                merged.gap.merge(&interval.gap);
                merged.variation.merge(&interval.variation);
                merged.stages.merge(&interval.stages);
            }
        }
        // Requests that were lost are among their own times already.
        let requests = self.ends().into_iter().any(|end| {
            total(end, Counter::Transactions) + total(end, Counter::TransactionsLost) > 0
        });
        if !merged.service.is_empty() && !requests {
            let lost = self.flows().iter().map(|flow| flow.lost_during(span)).sum::<u64>();
            merged.service.lost += lost;
            merged.response.lost += lost;
        }
        merged
    }
}

/// Returns the response times of operations of `kind`, those that were never answered among them.
fn service_times<'a>(
    kind: OperationKind,
    operations: &Operations,
    intervals: impl Iterator<Item = &'a Interval>,
    clock: Option<&Correction>,
) -> Distribution {
    let of_kind = operations.of(kind);
    if let Some(by_start) = &of_kind.service {
        return by_start.clone();
    }
    // Times that only some operations have are those that ended in the span; what never ended is
    // among them as a bound.
    let mut times = Distribution::default();
    for interval in intervals {
        let recorded = interval.times_of(kind);
        let right = clock.map(|clock| clock.apply(recorded, interval));
        times.merge(right.as_ref().unwrap_or(recorded));
    }
    if of_kind.fates.due > 0 {
        // The account of these operations counts the lost ones below.
        times.lost = 0;
    }
    times.merge(&of_kind.unanswered);
    times
}

/// Returns the figures of `job` over `span`.
pub(super) fn figures(job: &Job<'_>, span: Span, path: Path, losses: &[LossStudy]) -> Figures {
    let mut figures = Figures::default();
    if span.seconds() <= 0.0 {
        return figures;
    }
    let each =
        |f: &dyn Fn(Flow<'_>) -> Option<f64>| (job.flow(Tx).and_then(f), job.flow(Rx).and_then(f));
    let (tx, rx) = each(&|flow| flow.goodput(span));
    figures.put_both(metric::GOODPUT, tx, rx);
    let served_s = job.served_s(span);
    for flow in job.flows().into_iter().filter(|_| served_s > 0.0) {
        let bits = flow.goodput(span).map(|rate| rate * span.seconds());
        let bits = bits.filter(|bits| *bits > 0.0);
        figures.put_some(metric::GOODPUT_SERVED, flow.direction, bits.map(|bits| bits / served_s));
    }
    let is_files = !job.distributions(span).stages.is_empty();
    for flow in job.flows().into_iter().filter(|_| is_files) {
        figures.put_some(metric::GOODPUT_PEAK, flow.direction, flow.peak(span));
    }
    let (tx, rx) = each(&|flow| {
        let counts = total(flow.receiver, Counter::MessagesReceived)
            + total(flow.sender, Counter::MessagesSent)
            > 0;
        counts.then(|| counted(flow.receiver, Counter::MessagesReceived, span) / span.seconds())
    });
    figures.put_both(metric::MESSAGE_RATE, tx, rx);
    let (tx, rx) = each(&|flow| flow.packet_rate(span, path));
    figures.put_both(metric::PACKET_RATE, tx, rx);
    for flow in job.flows() {
        connection_figures(&mut figures, flow, span);
        figures.put_some(
            metric::FAIRNESS,
            flow.direction,
            Some(flow.shares(span)).filter(|s| s.len() > 1).and_then(|s| jain(&s)),
        );
    }
    if let (Some(tx), Some(rx)) =
        (figures.get(metric::RETRANSMITS, Tx), figures.get(metric::RETRANSMITS, Rx))
    {
        figures.put(metric::RETRANSMITS, Sum, tx + rx);
    }
    for flow in job.flows() {
        let sent = (
            counted(flow.sender, Counter::PayloadSent, span),
            counted(flow.sender, Counter::CallsSent, span),
        );
        figures.put_some(
            metric::PAYLOAD_PER_SEND,
            flow.direction,
            (sent.1 > 0.0).then(|| sent.0 / sent.1),
        );
        figures.put_some(
            metric::RECEIVER_CPU,
            flow.direction,
            flow.own_receiver().and_then(|end| busiest(end, span)),
        );
        figures.put_some(
            metric::SENDER_CPU,
            flow.direction,
            flow.own_sender().and_then(|end| busiest(end, span)),
        );
    }
    foreign::report(&mut figures, job);
    loss_figures(&mut figures, job, span, losses);
    operation_figures(&mut figures, job, span);
    let distributions = job.distributions(span);
    time_figures(&mut figures, &distributions);
    stage_figures(&mut figures, &distributions.stages);
    variation_figures(&mut figures, &distributions);
    if let Some(doubt) = job.clock_uncertainty() {
        // The gate withholds what is no longer than this.
        figures.put(metric::CLOCK_UNCERTAINTY, Sum, doubt);
    }
    effort_figures(&mut figures, job, span);
    figures
}

/// Time for which one worker was ready to run and had no CPU.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Waited {
    /// The worker's number.
    pub(super) worker: u32,
    /// Nanoseconds waited.
    pub(super) ns: f64,
    /// Times it was switched to.
    pub(super) switches: f64,
}

/// Returns the waits of the workers of `end` during `span`; none where the kernel does not account
/// them.
pub(super) fn waits(end: &JobRecord, span: Span) -> Vec<Waited> {
    let mut workers: BTreeMap<u32, Waited> = BTreeMap::new();
    for interval in &end.intervals {
        let share = span.share(interval.start, interval.end);
        let counted = |counter| interval.counters[counter] as f64 * share;
        let waited = workers.entry(interval.worker).or_default();
        waited.worker = interval.worker;
        waited.ns += counted(Counter::RunQueueWait);
        waited.switches +=
            counted(Counter::VoluntarySwitches) + counted(Counter::InvoluntarySwitches);
    }
    workers.into_values().filter(|waited| waited.ns > 0.0).collect()
}

/// Returns CPU of the busiest worker of `end`, cores; `None` where none was counted.
fn busiest(end: &JobRecord, span: Span) -> Option<f64> {
    let busiest = most(end, span, &[Counter::CpuUser, Counter::CpuSystem])?;
    Some(busiest / NANOS / span.seconds())
}

/// Returns the time for which the busiest worker of `end` ran or waited for a CPU during `span`,
/// ns; `None` without counts.
pub(super) fn occupied(end: &JobRecord, span: Span) -> Option<f64> {
    most(end, span, &[Counter::CpuUser, Counter::CpuSystem, Counter::RunQueueWait])
}

/// Returns the sum of `counters` of the worker of `end` with the largest sum during `span`; `None`
/// without counts.
fn most(end: &JobRecord, span: Span, counters: &[Counter]) -> Option<f64> {
    let mut workers: BTreeMap<u32, f64> = BTreeMap::new();
    for interval in &end.intervals {
        let used: u64 = counters.iter().map(|counter| interval.counters[*counter]).sum();
        *workers.entry(interval.worker).or_default() +=
            used as f64 * span.share(interval.start, interval.end);
    }
    workers.into_values().max_by(f64::total_cmp).filter(|used| *used > 0.0)
}

fn connection_figures(figures: &mut Figures, flow: Flow<'_>, span: Span) {
    let connections = flow.sending();
    if connections.is_empty() || flow.is_datagrams() {
        return;
    }
    let direction = flow.direction;
    let change = |counter: fn(&linerate_model::TcpState) -> u64| connections.change(span, counter);
    figures.put_some(
        metric::RETRANSMITS,
        direction,
        connections.events(span, |state| u64::from(state.retransmits)),
    );
    let sent = change(|state| state.bytes_sent).filter(|sent| *sent > 0.0);
    let repeated = change(|state| state.bytes_retransmitted);
    figures.put_some(
        metric::RETRANSMIT_RATIO,
        direction,
        repeated.zip(sent).map(|(repeated, sent)| repeated / sent),
    );
    let bare = change(|state| u64::from(state.segments_in.saturating_sub(state.data_segments_in)));
    figures.put_some(
        metric::ACKNOWLEDGEMENTS,
        direction,
        bare.map(|segments| segments / span.seconds()),
    );
    figures.put_some(metric::RTT, direction, connections.rtt_seconds(span));
    figures.put_some(metric::RTT_MIN, direction, connections.smallest_rtt_seconds(span));
    let flow_time = span.seconds() * connections.n_sending(span) as f64 * MICROS;
    for (metric, source) in metric::sourced() {
        let Source::SendingTime(micros) = source else { continue };
        figures.put_some(metric, direction, change(micros).map(|micros| micros / flow_time));
    }
}

/// Returns whether this end timed the other end's frames: only such times have a variation from one
/// to the next.
fn is_timed_one_way(end: &JobRecord) -> bool {
    end.intervals.iter().any(|interval| !interval.variation.is_empty())
}

fn effort_figures(figures: &mut Figures, job: &Job<'_>, span: Span) {
    let both_ends =
        |counter| job.ends().into_iter().map(|end| counted(end, counter, span)).sum::<f64>();
    let user = both_ends(Counter::CpuUser);
    let system = both_ends(Counter::CpuSystem);
    if user + system > 0.0 {
        figures.put(metric::CPU_APP, Sum, user / NANOS / span.seconds());
        figures.put(metric::CPU_KERNEL, Sum, system / NANOS / span.seconds());
    }
    let waited = job
        .ends()
        .into_iter()
        .flat_map(|end| waits(end, span))
        .map(|waited| waited.ns)
        .reduce(f64::max);
    figures.put_some(metric::RUN_QUEUE_WAIT, Sum, waited.map(|ns| ns / NANOS / span.seconds()));
    let intended = both_ends(Counter::Intended);
    if intended > 0.0 {
        figures.put(
            metric::PACING_ERROR,
            Sum,
            (both_ends(Counter::Started) / intended - 1.0).abs(),
        );
    }
    let error = super::pacing::gap_errors(&job.ends(), span).percentile(0.99);
    figures.put_some(
        metric::DEPARTURE_GAP_ERROR_P99,
        Sum,
        error.flatten().map(|ns| ns as f64 / NANOS),
    );
    let calls = both_ends(Counter::CallsSent) + both_ends(Counter::CallsReceived);
    if calls > 0.0 {
        figures.put(metric::CALLS_PER_SECOND, Sum, calls / span.seconds());
    }
    let steps = both_ends(Counter::Steps);
    if job.spec.workload == NULL_WORKLOAD && steps > 0.0 && user > 0.0 {
        figures.put(metric::NULL_STEP_COST, Sum, user / steps);
    }
}
