//! CPU time of the load itself: the time of its workers, and their part of the interrupts.
//!
//! On each kernel: CPU time of the workers, at most that of all programs, plus irq and softirq time
//! in proportion to the packets of the devices that the jobs use over those of all devices. On a
//! kernel that does not account interrupts separately (`CONFIG_IRQ_TIME_ACCOUNTING`), the time of a
//! worker contains the softirqs that interrupted it. Without other programs that is not counted
//! twice, because all CPU time is the load's own. Beside other programs ([`QUIET`]) the cost is
//! withheld. The interrupts cannot be assigned, and the load itself costs a different time: its
//! threads wake up less often and find other cache contents. Measured with datagrams at 500 Mbit/s
//! on two CPUs: 16.3 s/GB where other programs had 29 % of the CPUs' work, 12.0 at 48 %, 8.2 at 64
//! %, and beside two busy loops 0.57 to 0.84 of that (n = 5 pairs).
//!
//! Not covered: kernel threads and the samplers. Where the other end is a program of somebody else
//! on a measured host, all work of its host counts, because its part is unknown. A server without
//! an agent is on no measured host, so the cost is that of this end alone.

use linerate_model::series::{cpu, interface};
use linerate_model::{Series, SeriesSpec, series};

use super::gate::Refusal;
use super::host::{has_foreign_end, is_busy, kernels, taken_by_others, used_by_workers};
use super::samples::{LOOPBACK, NANOS, Samples};
use super::span::Span;
use super::traffic::Run;
use linerate_model::TrialRecord;

/// Largest share of the CPUs' work of other programs at which the cost of a load is reported.
const QUIET: f64 = 0.1;
/// Times on one kernel or several, cores.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Times {
    workers: f64,
    interrupts: f64,
    others: f64,
    busy: f64,
}

/// Returns the cores that the load of `run` itself used, or why that is unknown; `None` if the CPUs
/// were not read.
pub(super) fn own(run: Run<'_>) -> Option<Result<f64, Refusal>> {
    let Run { jobs, hosts, span, .. } = run;
    let hosts_read: Vec<&str> = kernels(jobs, hosts).into_values().collect();
    let mut sum = Times::default();
    for host in hosts_read.iter().filter(|_| span.seconds() > 0.0) {
        let times = times(run, host)?;
        sum.workers += times.workers;
        sum.interrupts += times.interrupts;
        sum.others += times.others;
        sum.busy += times.busy;
    }
    (sum.busy > 0.0).then(|| if has_foreign_end(jobs) { Ok(sum.busy) } else { sum.own() })
}

impl Times {
    fn own(self) -> Result<f64, Refusal> {
        let all = self.workers + self.interrupts;
        let others = self.others / self.busy;
        if others <= QUIET {
            return Ok(all);
        }
        // They change the cost of the load, and the kernel does not attribute interrupts to
        // programs.
        Err(Refusal::SharedCpus { share: others, limit: QUIET })
    }
}

/// Returns the times on the kernel of `host`.
fn times(run: Run<'_>, host: &str) -> Option<Times> {
    let (samples, span) = (Samples::of(run.trial, host), run.span);
    let cores =
        |uses: &[Series]| samples.rate(span, |read| series::any(uses, read)).map(|ns| ns / NANOS);
    let programs = cores(&[cpu::USER, cpu::NICE, cpu::SYSTEM])?;
    let interrupts = cores(&[cpu::IRQ, cpu::SOFTIRQ]).unwrap_or(0.0);
    Some(Times {
        workers: (used_by_workers(run, host) / NANOS / span.seconds()).min(programs),
        interrupts: interrupts * packet_share(run, host),
        others: taken_by_others(run, host)? / NANOS / span.seconds(),
        busy: samples.rate(span, is_busy)? / NANOS,
    })
}

/// Returns the packets of the devices that `jobs` use over those of all devices on the kernel of
/// `host`; 1 where that is not known.
fn packet_share(run: Run<'_>, host: &str) -> f64 {
    let Run { trial, jobs, hosts, span } = run;
    let kernel = hosts.kernel(host);
    let ends = jobs.iter().flat_map(|job| [&job.spec.from, &job.spec.to]);
    let mut names: Vec<&str> = Vec::new();
    let mut used = Vec::new();
    for end in ends.filter(|end| hosts.kernel(&end.host) == kernel) {
        let is_loopback = end.address.is_some_and(|address| address.is_loopback());
        let Some(device) = end.device.as_deref().or(is_loopback.then_some(LOOPBACK)) else {
            return 1.0;
        };
        used.push((end.host.as_str(), device));
        names.push(&end.host);
    }
    names.sort_unstable();
    names.dedup();
    let (mut all, mut of_used) = (0.0, 0.0);
    for host in names {
        all += packet_rate(trial, host, span, |_| true);
        of_used += packet_rate(trial, host, span, |device| used.contains(&(host, device)));
    }
    if all > 0.0 { of_used / all } else { 1.0 }
}

/// Returns the packets per second that the wanted devices of `host` carried both ways.
fn packet_rate(
    trial: &TrialRecord,
    host: &str,
    span: Span,
    is_wanted: impl Fn(&str) -> bool,
) -> f64 {
    let columns = [interface::RX_PACKETS, interface::TX_PACKETS];
    let picked = |s: &SeriesSpec| series::any(&columns, s) && is_wanted(&s.instance);
    Samples::of(trial, host).rate(span, picked).unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alone_everything_counts_and_beside_others_the_cost_is_not_told() {
        let quiet = Times { workers: 0.8, interrupts: 0.4, others: 0.05, busy: 1.25 };
        assert!((quiet.own().expect("alone") - 1.2).abs() < 1e-9);
        // Two busy loops on two CPUs; the workers' own time is known exactly, and is not what it is
        // without the loops.
        let crowded = Times { workers: 0.5, interrupts: 0.01, others: 1.4, busy: 2.0 };
        let why = crowded.own().expect_err("another load than alone");
        let Refusal::SharedCpus { share, limit } = why else { panic!("{why:?}") };
        assert!((share - 0.7).abs() < 1e-9 && limit == QUIET, "{share}");
    }
}
