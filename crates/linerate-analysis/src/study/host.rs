//! Figures of whole hosts during a trial: CPU, interrupts, softnet, devices.
//!
//! They cannot be divided among jobs that run side by side, so they belong to the only measured
//! job, or to `all`. Costs per byte and per packet are divided by the traffic of *all* jobs of the
//! trial, background included.
//!
//! - `cpu_from`, `cpu_to`: sampler `cpu`: user, nice, system, irq and softirq of the hosts; where
//!   both ends run on one kernel (equal boot id) the workers' own CPU time, and interrupts are
//!   apart in `cpu_softirq`
//! - `cpu_of_others`: sampler `cpu`, user and nice of each kernel once, less the workers' own: over
//!   all busy time; absent where an end of a flow has no worker of ours
//! - `cpu_softirq`, `cpu_steal`: sampler `cpu`, each kernel once
//! - `cpu_seconds_per_gigabyte`: CPU time of the load itself (`own_cost`) over payload delivered,
//!   10^9 bytes
//! - `cpu_ns_per_packet`: CPU time of the load itself over IP packets, counted as in the next row
//! - `instructions_per_packet`, `cache_misses_per_packet`, `l1_misses_per_packet`: over IP packets
//!   that crossed in either direction, acknowledgements included (TCP: `TCP_INFO` of the sender;
//!   UDP: datagrams sent); sampler `perf_hardware`, absent where there is no counter
//! - `interrupts`, `context_switches`, `softnet_dropped`, `softnet_squeezed`: samplers `interrupts`
//!   (`total`), `context_switches`, `softnet`, each kernel once
//! - `packets_per_interrupt`: packets received at the receiving device over interrupts of vectors
//!   that name it, or of all device vectors where the host has no other device
//! - `throughput_l2`: sampler `interface`: received bytes plus 4 per packet for the check sequence,
//!   at the receiving device, unless it is the loopback. A virtual device that takes GSO packets
//!   whole counts their headers once
//! - `controller_received`, `controller_dropped`: sampler `ncsi` of every host behind a sideband
//!   that takes part
//! - `start_skew`: barrier skew plus clock uncertainty

use std::collections::{BTreeMap, BTreeSet};

use linerate_model::series::{cpu, interface};
use linerate_model::{
    Counter, Direction, Endpoint, JobRecord, Series, SeriesSpec, Source, TrialRecord, metric,
    series,
};

use super::figures::Figures;
use super::own_cost;
use super::samples::{Hosts, LOOPBACK, NANOS, Samples};
use super::span::{Span, counted};
use super::traffic::{Job, Run};
use Direction::{Rx, Sum, Tx};

/// Series of sampler `cpu` in which a CPU works.
pub(super) const BUSY: [Series; 5] = [cpu::USER, cpu::NICE, cpu::SYSTEM, cpu::IRQ, cpu::SOFTIRQ];
/// Frame check sequence, which Linux does not count in `rx_bytes`, IEEE 802.3 clause 3.1.
const CHECK_SEQUENCE: f64 = 4.0;
/// Unit of `/proc/stat`, ns: USER_HZ is 100 in every Linux ABI (`include/asm-generic/param.h`).
pub(super) const TICK: f64 = 1e7;
/// Bits in a byte.
const BITS: f64 = 8.0;
/// Bytes in the gigabyte of CPU costs.
const GIGABYTE: f64 = 1e9;

/// Returns the figures of the hosts of `run`.
pub(super) fn figures(run: Run<'_>) -> Figures {
    let Run { trial, jobs, hosts, span } = run;
    let mut figures = Figures::default();
    if let Some((skew, uncertainty)) = trial.skew {
        figures.put(metric::START_SKEW, Sum, (skew + uncertainty) as f64 / NANOS);
    }
    // Without a span no rate can be formed; the skew at the start is known anyway.
    if span.seconds() <= 0.0 {
        return figures;
    }
    let kernels = kernels(jobs, hosts);
    let samples = samples_of(trial, kernels.values());
    let each = |wanted: &dyn Fn(&SeriesSpec) -> bool| rate_of_all(&samples, span, wanted);
    let named = |series: Series| each(&move |read| series.is(read));
    let cores = |rate: Option<f64>| rate.map(|ns| ns / NANOS);
    let busy = cores(each(&is_busy));
    figures.put_some(
        metric::CPU_SOFTIRQ,
        Sum,
        cores(each(&|read| series::any(&[cpu::IRQ, cpu::SOFTIRQ], read))),
    );
    figures.put_some(metric::CPU_STEAL, Sum, cores(named(cpu::STEAL)));
    figures.put_some(metric::CPU_OF_OTHERS, Sum, share_of_others(run, busy));
    ends(&mut figures, run);
    let flows = || jobs.iter().flat_map(Job::flows);
    let payload: f64 = flows().filter_map(|flow| flow.goodput(span)).map(|bits| bits / BITS).sum();
    let own = own_cost::own(run).and_then(Result::ok);
    // A cost per byte of nothing is infinite.
    if let Some(own) = own.filter(|_| payload > 0.0) {
        figures.put(metric::CPU_SECONDS_PER_GIGABYTE, Sum, own * GIGABYTE / payload);
    }
    let packets =
        packets(jobs, span).map(|packets| packets / span.seconds()).filter(|rate| *rate > 0.0);
    let per_packet = |rate: Option<f64>| Some(rate? / packets?);
    figures.put_some(metric::CPU_NS_PER_PACKET, Sum, per_packet(own.map(|cores| cores * NANOS)));
    for (metric, source) in metric::sourced() {
        let figure = match source {
            Source::HostCount(column) => named(column).map(|rate| rate * span.seconds()),
            Source::HostRate(column) => named(column),
            Source::PerPacket(column) => per_packet(named(column)),
            _ => None,
        };
        figures.put_some(metric, Sum, figure);
    }
    devices(&mut figures, trial, jobs, span);
    controllers(&mut figures, trial, jobs, span);
    let readers: Vec<&str> = kernels.values().copied().collect();
    super::evidence::of_hosts(&mut figures, run, &readers);
    figures
}

fn samples_of<'a>(
    trial: &'a TrialRecord,
    hosts: impl Iterator<Item = impl AsRef<str>>,
) -> Vec<Samples<'a>> {
    hosts.map(|host| Samples::of(trial, host.as_ref())).collect()
}

/// Returns the sum of the rates of all hosts; `None` if one of them was not read.
fn rate_of_all(
    hosts: &[Samples<'_>],
    span: Span,
    wanted: impl Fn(&SeriesSpec) -> bool,
) -> Option<f64> {
    let rates = hosts.iter().map(|samples| samples.rate(span, &wanted));
    // The sum of no hosts is zero, which nobody measured.
    rates.sum::<Option<f64>>().filter(|_| !hosts.is_empty())
}

/// Adds the counts of network controllers at the hosts behind them; nothing where no sideband was
/// read.
fn controllers(figures: &mut Figures, trial: &TrialRecord, jobs: &[Job<'_>], span: Span) {
    let hosts: BTreeSet<&str> = jobs
        .iter()
        .flat_map(|job| [job.spec.from.host.as_str(), job.spec.to.host.as_str()])
        .collect();
    for (metric, source) in metric::sourced() {
        let Source::ControllerCount(column) = source else { continue };
        // Both ends may be on one host, whose controller is counted once.
        let counts = hosts
            .iter()
            .filter_map(|host| Samples::of(trial, host).change(span, |read| column.is(read)));
        figures.put_some(metric, Sum, counts.reduce(|a, b| a + b));
    }
}

/// CPUs' steal over all their time during `span`, the worst kernel's, less what the reading is
/// coarse by; `None` if not read. A difference of two readings in ticks is off by up to a tick, on
/// each CPU.
pub(super) fn steal_share(run: Run<'_>) -> Option<f64> {
    let Run { trial, jobs, hosts, span } = run;
    let shares = kernels(jobs, hosts).into_values().filter_map(|host| {
        let samples = Samples::of(trial, host);
        let all = samples.rate(span, |read| read.is_of(cpu::SAMPLER)).filter(|all| *all > 0.0)?;
        let is_steal = |read: &SeriesSpec| cpu::STEAL.is(read);
        let coarse = samples.n_series(is_steal) as f64 * TICK / span.seconds();
        // The smallest possible steal is used, because a trial is blamed for it.
        Some(((samples.rate(span, is_steal)? - coarse) / all).max(0.0))
    });
    // The worst kernel, because the slower end sets the rate.
    shares.max_by(f64::total_cmp)
}

/// Returns the steal of the CPU that lost most over `span` at the active (0) or passive (1) ends,
/// less the tick by which a reading is coarse; `None` if not read. A load that
/// crosses several CPUs one after the other waits for each of them.
pub(super) fn most_stolen(run: Run<'_>, end: usize) -> Option<f64> {
    let Run { trial, jobs, hosts, span } = run;
    let is_steal = |read: &SeriesSpec| cpu::STEAL.is(read);
    let ends = jobs.iter().map(|job| [&job.spec.from, &job.spec.to][end]);
    let at_end: BTreeSet<String> = ends.map(|end| hosts.kernel(&end.host)).collect();
    let changes = kernels(jobs, hosts)
        .into_iter()
        .filter(|(kernel, _)| at_end.contains(kernel))
        .filter_map(|(_, host)| Samples::of(trial, host).largest_change(span, is_steal));
    let most = changes.max_by(f64::total_cmp).filter(|_| span.seconds() > 0.0)?;
    Some(((most - TICK) / NANOS / span.seconds()).max(0.0))
}

/// Returns the CPU time during `span` of programs other than the workers of `jobs` on the kernel of
/// `host`, ns, less the resolution of the reading; `None` if not read. Soft interrupts may belong
/// to the load and are left out.
pub(super) fn taken_by_others(run: Run<'_>, host: &str) -> Option<f64> {
    let counters = [Counter::CpuUser, Counter::CpuSystem];
    used_by_others(run, host, (&[cpu::USER, cpu::NICE, cpu::SYSTEM], &counters))
}

/// Returns [`taken_by_others`] for these uses of CPUs and the workers' counters of the same.
pub(super) fn used_by_others(
    run: Run<'_>,
    host: &str,
    (uses, counters): (&[Series], &[Counter]),
) -> Option<f64> {
    let Run { trial, jobs, hosts, span } = run;
    let kernel = hosts.kernel(host);
    // Of several hosts on one kernel, one reads for all.
    let reader = *kernels(jobs, hosts).get(&kernel)?;
    let samples = Samples::of(trial, reader);
    let used = samples.change(span, |read| series::any(uses, read))?;
    let ends = jobs
        .iter()
        .flat_map(|job| [(&job.spec.from.host, job.active), (&job.spec.to.host, job.passive)]);
    let own: f64 = ends
        .filter(|(host, _)| hosts.kernel(host) == kernel)
        .flat_map(|(_, end)| counters.iter().map(move |counter| counted(end, *counter, span)))
        .sum();
    let coarse = samples.n_series(|read| cpu::USER.is(read)) as f64 * TICK;
    // Workers and kernel are read at slightly different times, so the difference may be negative.
    Some((used - own - coarse).max(0.0))
}

/// Returns CPU time of the workers of `jobs` on the kernel of `host` during the span, ns.
pub(super) fn used_by_workers(run: Run<'_>, host: &str) -> f64 {
    let Run { jobs, hosts, span, .. } = run;
    let kernel = hosts.kernel(host);
    let ends = jobs
        .iter()
        .flat_map(|job| [(&job.spec.from.host, job.active), (&job.spec.to.host, job.passive)]);
    ends.filter(|(host, _)| hosts.kernel(host) == kernel)
        .map(|(_, end)| {
            counted(end, Counter::CpuUser, span) + counted(end, Counter::CpuSystem, span)
        })
        .sum()
}

/// Returns the fraction of all CPU work of all kernels, `busy` cores, that other programs used in
/// user space. Kernel threads have no user time, and their work may belong to the load. `None`
/// where data goes to or comes from a measured host without a worker of ours: a foreign server
/// there cannot be distinguished from other programs.
fn share_of_others(run: Run<'_>, busy: Option<f64>) -> Option<f64> {
    let Run { jobs, hosts, span, .. } = run;
    // The CPU time of a foreign server belongs to the load, but only its host counts it.
    if has_foreign_end(jobs) {
        return None;
    }
    let in_user_space = (&[cpu::USER, cpu::NICE][..], &[Counter::CpuUser][..]);
    let theirs = kernels(jobs, hosts).into_values();
    let theirs: Option<f64> = theirs.map(|host| used_by_others(run, host, in_user_space)).sum();
    Some(theirs? / NANOS / span.seconds() / busy.filter(|busy| *busy > 0.0)?)
}

/// Returns whether data goes to or comes from a measured host without a worker of ours.
pub(super) fn has_foreign_end(jobs: &[Job<'_>]) -> bool {
    let between_ends = jobs.iter().filter(|job| !job.flows().is_empty());
    let ends =
        between_ends.flat_map(|job| [(&job.spec.from, job.active), (&job.spec.to, job.passive)]);
    ends.filter(|(endpoint, _)| endpoint.has_agent()).any(|(_, end)| end.intervals.is_empty())
}

pub(super) fn is_busy(read: &SeriesSpec) -> bool {
    series::any(&BUSY, read)
}

/// One host for each measured kernel that takes part, by kernel.
pub(super) fn kernels<'a>(jobs: &[Job<'a>], hosts: &Hosts<'_>) -> BTreeMap<String, &'a str> {
    let ends = jobs.iter().flat_map(|job| [&job.spec.from, &job.spec.to]);
    let mut kernels = BTreeMap::new();
    for end in ends.filter(|end| end.has_agent()) {
        kernels.entry(hosts.kernel(&end.host)).or_insert(end.host.as_str());
    }
    kernels
}

/// CPU of the two ends' hosts, or of the workers where the ends share a kernel.
fn ends(figures: &mut Figures, Run { trial, jobs, hosts, span }: Run<'_>) {
    let of = |end: fn(&Job<'_>) -> String| jobs.iter().map(end).collect::<BTreeSet<String>>();
    let (from, to) = (of(|job| job.spec.from.host.clone()), of(|job| job.spec.to.host.clone()));
    let kernel = |hosts_of_end: &BTreeSet<String>| {
        hosts_of_end.iter().map(|h| hosts.kernel(h)).collect::<BTreeSet<_>>()
    };
    // The counters of one kernel cannot be divided between its two ends. The workers' own time can.
    let shared = !kernel(&from).is_disjoint(&kernel(&to));
    if shared {
        let active = cpus_of_workers(jobs.iter().map(|job| job.active), span);
        let passive = cpus_of_workers(jobs.iter().map(|job| job.passive), span);
        figures.put_some(metric::CPU_FROM, Sum, active);
        figures.put_some(metric::CPU_TO, Sum, passive);
        return;
    }
    let busy = |hosts: &BTreeSet<String>| {
        rate_of_all(&samples_of(trial, hosts.iter()), span, is_busy).map(|ns| ns / NANOS)
    };
    figures.put_some(metric::CPU_FROM, Sum, busy(&from));
    figures.put_some(metric::CPU_TO, Sum, busy(&to));
}

/// Returns the CPUs that the workers of these ends used, as they counted themselves.
fn cpus_of_workers<'a>(ends: impl Iterator<Item = &'a JobRecord>, span: Span) -> Option<f64> {
    let used = |end| counted(end, Counter::CpuUser, span) + counted(end, Counter::CpuSystem, span);
    let ns: f64 = ends.map(used).sum();
    (ns > 0.0).then(|| ns / NANOS / span.seconds())
}

/// IP packets that crossed during `span`; `None` where one job's are not known. A connection that
/// carries data both ways is counted once.
fn packets(jobs: &[Job<'_>], span: Span) -> Option<f64> {
    jobs.iter()
        .map(|job| {
            let flows = job.flows();
            match flows.as_slice() {
                [] => Some(0.0),
                // A TCP connection carries both directions, and its states count both.
                [flow, ..] if !flow.is_datagrams() => flow.packets_both_ways(span),
                flows => flows.iter().map(|flow| flow.packets_both_ways(span)).sum(),
            }
        })
        .sum()
}

/// Adds the counts of the receiving devices, per direction; devices that several jobs share are
/// counted once.
fn devices(figures: &mut Figures, trial: &TrialRecord, jobs: &[Job<'_>], span: Span) {
    let read = |direction, column| {
        rate_of_devices(trial, &receiving_devices(jobs, direction), column, span)
    };
    let counts = |direction| {
        read(direction, interface::RX_BYTES).zip(read(direction, interface::RX_PACKETS))
    };
    let frame_bits = |direction| {
        counts(direction).map(|(bytes, packets)| (bytes + CHECK_SEQUENCE * packets) * BITS)
    };
    figures.put_both(metric::THROUGHPUT_L2, frame_bits(Tx), frame_bits(Rx));
    for direction in [Tx, Rx] {
        let devices = receiving_devices(jobs, direction);
        let interrupts = devices.iter().map(|(host, device)| {
            let samples = Samples::of(trial, host);
            // With a single device, all device vectors are its own. Drivers do not always put the
            // device into the name.
            let alone = samples.n_devices() == 1;
            let of_device = |s: &SeriesSpec| {
                series::interrupts::COUNT.is(s) && (alone || s.instance.contains(device.as_str()))
            };
            samples.rate(span, of_device)
        });
        let interrupts = interrupts.sum::<Option<f64>>().filter(|rate| *rate > 0.0);
        let ratio = read(direction, interface::RX_PACKETS)
            .zip(interrupts)
            .map(|(packets, interrupts)| packets / interrupts);
        figures.put_some(metric::PACKETS_PER_INTERRUPT, direction, ratio);
    }
}

/// Returns the hosts and devices at which flows of `direction` arrive.
fn receiving_devices(jobs: &[Job<'_>], direction: Direction) -> BTreeSet<(String, String)> {
    let carrying = jobs.iter().filter(|job| job.flow(direction).is_some());
    let ends = carrying.map(|job| receiving_end(job, direction));
    ends.filter_map(|end| Some((end.host.clone(), end.device.clone()?)))
        // Loopback frames are segments of up to 64 KiB that no wire would carry.
        .filter(|(_, dev)| dev != LOOPBACK)
        .collect()
}

/// Returns the sum of the rates of `column` at `devices`; `None` if one of them was not read.
fn rate_of_devices(
    trial: &TrialRecord,
    devices: &BTreeSet<(String, String)>,
    column: Series,
    span: Span,
) -> Option<f64> {
    let rates =
        devices.iter().map(|(host, dev)| Samples::of(trial, host).of_instance(span, column, dev));
    rates.sum::<Option<f64>>().filter(|_| !devices.is_empty())
}

fn receiving_end<'a>(job: &Job<'a>, direction: Direction) -> &'a Endpoint {
    if direction == Rx { &job.spec.from } else { &job.spec.to }
}
