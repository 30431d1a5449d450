//! Other programs take the CPU that an end needs (docs/methodology/diagnosis.md#rules, D23).
//!
//! Evidence: the busiest worker of an end, or of both, ran or waited for a CPU most of the time,
//! and waited more than [`super::HELD_BACK`] of it while other programs or the hypervisor used the
//! CPU. A worker that waits for windows or data sleeps, which is no wait for a CPU, so a slow path
//! on a busy host does not fire the rule. Neither does the wait of a worker whose control group has
//! no quota left. No experiment: linerate does not stop other programs. Not observed: which
//! programs they are, and softirq work that delays the worker.

use linerate_model::{Direction, metric};

use super::{
    BUSY, FlowEnd, HELD_BACK, Rule, changed, facts::reaches_path, flows, may_be_judged, score,
    seen, spins, suspected, value, waits_for_window,
};
use crate::diagnosis::{Claim, Evidence, Finding, Step};
use crate::{JobStudy, PointStudy};

/// Share of the time in which a worker runs or waits for a CPU, from which the CPU limits it.
const OCCUPIED: f64 = 0.6;

/// Rule: a worker waits for a CPU that others use.
pub(super) const RULE: Rule = Rule {
    number: 23,
    name: "cpu_taken",
    summary: "a worker ran or waited for a CPU more than 60 % of the time, and other programs used \
        the CPU for more than 30 %",
    judge,
    score,
    ..Rule::PLAIN
};

/// End that waits for a CPU.
struct Waiting {
    end: FlowEnd,
    /// Shares of the time in which its busiest worker waited, in which it ran, and in which it did
    /// either or had no quota.
    waited: f64,
    ran: f64,
    occupied: f64,
    /// Share of the time that others took from the worst worker of this end.
    taken: f64,
}

impl Waiting {
    /// Returns the ends of which the figures are known, the one that waits longest first.
    fn of(point: &PointStudy, job: &JobStudy, direction: Direction) -> Vec<Self> {
        let Some((occupied, _)) = point.occupied().zip(point.taken()) else { return Vec::new() };
        let taken = point.taken_by_end();
        // Nothing was taken from an end at which nothing was seen.
        let [active, passive] = [0, 1].map(|end| (occupied[end], taken[end].unwrap_or(0.0)));
        let ends = match direction {
            Direction::Rx => [(FlowEnd::Receiving, active), (FlowEnd::Sending, passive)],
            _ => [(FlowEnd::Sending, active), (FlowEnd::Receiving, passive)],
        };
        let waits = ends.into_iter().filter_map(|(end, (occupied, taken))| {
            // Without quota a worker is ready and has no CPU, which no other program took. A period
            // counts as exhausted from the moment in which its quota is, so this is the most.
            let throttled = end.throttled(job, direction).unwrap_or(0.0);
            let ran = end.cores(job, direction)?;
            let waited = (occupied - ran - throttled).max(0.0);
            Some(Self { end, waited, ran, occupied, taken })
        });
        let mut waits: Vec<Self> = waits.collect();
        waits.sort_by(|a, b| b.waited.total_cmp(&a.waited));
        waits
    }

    fn score(&self, job: &JobStudy, direction: Direction) -> f64 {
        score::all([
            score::reached(self.waited.min(self.taken), HELD_BACK, 1.0),
            score::reached(self.occupied, OCCUPIED, 1.0),
            if self.end.receives() { 1.0 } else { super::window_open(job, direction) },
        ])
    }

    fn evidence(&self) -> Evidence {
        Evidence::CpuWait { end: self.end, waited: self.waited, ran: self.ran }
    }

    fn speaks(&self) -> bool {
        self.waited.min(self.taken) > HELD_BACK && self.occupied > OCCUPIED
    }
}

/// Returns the ends that wait for a CPU that others use. A sender that waits for a window or buffer
/// is left out, because a busy CPU of its own does not explain that. A receiver that waits for a
/// CPU reads late, so its closed window and the sender's full buffer are effects. Goodput at the
/// measured rate of the path is limited by the path.
fn starved(point: &PointStudy, job: &JobStudy, direction: Direction) -> Vec<Waiting> {
    let waits_for_buffer =
        value(job, metric::SNDBUF_LIMITED, direction).is_some_and(|share| share >= HELD_BACK);
    let waits_for_peer = waits_for_window(job, direction) || waits_for_buffer;
    let mut ends = Waiting::of(point, job, direction);
    if reaches_path(point, job, direction) {
        ends.clear();
    }
    ends.retain(|waiting| waiting.speaks() && (waiting.end.receives() || !waits_for_peer));
    ends
}

/// Returns true if the receiver waits for a CPU that others use, which closes its window.
pub(super) fn starves_receiver(point: &PointStudy, job: &JobStudy, direction: Direction) -> bool {
    starved(point, job, direction).iter().any(|waiting| waiting.end.receives())
}

/// Returns the evidence that the busiest sending worker never sleeps: it runs or waits for a CPU
/// more than [`BUSY`] of the time. What it does costs all of the CPU time that others leave to it.
pub(super) fn sender_never_sleeps(
    point: &PointStudy,
    job: &JobStudy,
    direction: Direction,
) -> Option<Evidence> {
    let ends = Waiting::of(point, job, direction).into_iter();
    let mut busy =
        ends.filter(|waiting| !waiting.end.receives() && waiting.ran + waiting.waited > BUSY);
    busy.next().filter(|_| !spins(job)).map(|waiting| waiting.evidence())
}

fn judge(point: &PointStudy) -> Option<Finding> {
    let of = |(job, direction)| (job, direction, starved(point, job, direction));
    let mut found = flows(point).map(of).filter(|(.., ends)| !ends.is_empty());
    let (job, direction, ends) = found.next().filter(|_| may_be_judged(point))?;
    let mut evidence: Vec<_> = ends.iter().map(Waiting::evidence).collect();
    // The closed window is an effect of the wait, and shows that it limits the flow.
    let closed = seen(job, metric::RWND_LIMITED, direction);
    evidence.extend(closed.filter(|_| waits_for_window(job, direction)));
    let claim = match ends[..] {
        [Waiting { end, .. }] => Claim::CpuTaken(end),
        _ => Claim::CpuTakenOfBoth,
    };
    let finding = suspected(RULE.name, (point, job, direction), claim, evidence);
    Some(finding.advise(Step::FreeCpus.by(changed(point, &[]))))
}

fn score(point: &PointStudy) -> Option<f64> {
    score::best(point, |job, direction| {
        if reaches_path(point, job, direction) {
            return Some(0.0);
        }
        let ends = Waiting::of(point, job, direction).into_iter();
        ends.map(|waiting| waiting.score(job, direction)).reduce(f64::max)
    })
}

#[cfg(test)]
mod tests {
    use linerate_model::Verdict;

    use super::*;
    use crate::TrialStudy;
    use crate::diagnosis::rules::cases::{on_path, point};
    use linerate_model::path::Limiter;

    fn busy(figures: &[(&str, f64)], occupied: [f64; 2], taken: f64) -> PointStudy {
        busy_ends(figures, occupied, [taken; 2])
    }

    fn busy_ends(figures: &[(&str, f64)], occupied: [f64; 2], taken: [f64; 2]) -> PointStudy {
        let usual = [("goodput", 1.9e8), ("sender_cpu", 0.064), ("receiver_cpu", 0.037)];
        let all: Vec<_> = usual.iter().chain(figures).copied().collect();
        let (taken, occupied) = (taken.map(Some), Some(occupied));
        let trial = TrialStudy { taken, occupied, ..TrialStudy::default() };
        PointStudy { trials: vec![trial], ..point(&all) }
    }

    #[test]
    fn it_fires_where_a_worker_waits_for_a_cpu_and_names_its_end() {
        let finding = RULE.judge(&busy(&[], [0.72, 0.1], 0.66)).expect("66 % were taken");
        assert_eq!(finding.verdict, Verdict::Suspected);
        assert_eq!(finding.claim, Claim::CpuTaken(FlowEnd::Sending));
        let finding = RULE.judge(&busy(&[], [0.1, 0.7], 0.6)).expect("60 % were taken");
        assert_eq!(finding.claim, Claim::CpuTaken(FlowEnd::Receiving));
        assert!(RULE.score(&busy(&[], [0.72, 0.1], 0.66)).is_some_and(|score| score > 0.5));
    }

    #[test]
    fn both_ends_are_named_and_a_starved_sender_hides_no_starved_receiver() {
        let finding = RULE.judge(&busy(&[], [0.9, 0.7], 0.6)).expect("60 % were taken");
        assert_eq!(finding.claim, Claim::CpuTakenOfBoth);
        let ends = finding.evidence.iter().map(|seen| match seen {
            Evidence::CpuWait { end, .. } => *end,
            other => panic!("{other:?}"),
        });
        assert_eq!(ends.collect::<Vec<_>>(), [FlowEnd::Sending, FlowEnd::Receiving]);
        // The sender waits longer for its CPU, and for the window that the receiver closes.
        let closed = busy(&[("rwnd_limited", 0.8)], [0.9, 0.7], 0.6);
        let finding = RULE.judge(&closed).expect("the receiver");
        assert_eq!(finding.claim, Claim::CpuTaken(FlowEnd::Receiving));
        assert!(RULE.score(&closed).is_some_and(|score| score > 0.5));
    }

    #[test]
    fn an_end_is_named_only_if_others_took_its_own_cpu() {
        // Both workers wait for more than half of the time, one of them for soft interrupts.
        for (taken, end) in [([0.6, 0.05], FlowEnd::Sending), ([0.05, 0.6], FlowEnd::Receiving)] {
            let finding = RULE.judge(&busy_ends(&[], [0.9, 0.7], taken)).expect("one end");
            assert_eq!(finding.claim, Claim::CpuTaken(end));
        }
    }

    #[test]
    fn time_without_quota_is_no_time_in_which_a_worker_ran() {
        let point = busy(&[("sender_throttled", 0.2)], [0.72, 0.1], 0.66);
        let finding = RULE.judge(&point).expect("66 % were taken");
        let Evidence::CpuWait { waited, ran, .. } = finding.evidence[0] else { panic!("a wait") };
        assert!((ran - 0.064).abs() < 1e-9, "CPU time: {ran}");
        assert!((waited - 0.456).abs() < 1e-9, "{waited}");
    }

    #[test]
    fn it_is_silent_on_a_slow_path_of_a_busy_host_and_where_its_own_work_fills_the_cpu() {
        let silent = |figures: &[(&str, f64)], occupied, taken| {
            RULE.judge(&busy(figures, occupied, taken)).is_none()
        };
        assert!(silent(&[], [0.42, 0.1], 0.4), "the worker mostly sleeps");
        assert!(silent(&[], [0.95, 0.1], 0.05), "nobody took the CPU");
        assert!(silent(&[("rwnd_limited", 0.8)], [0.72, 0.1], 0.66), "the window is closed");
        assert!(silent(&[("sender_throttled", 0.5)], [0.72, 0.1], 0.66), "the quota is exhausted");
        assert!(silent(&[("sndbuf_limited", 0.8)], [0.72, 0.1], 0.66), "the buffer is full");
    }

    #[test]
    fn it_is_silent_where_goodput_is_the_measured_rate_of_the_path() {
        // Recorded behind a policer, at 94 % of its rate: a receiver that waited 73 % of the time.
        let behind = |share: f64| {
            let path = on_path(&[], Some(Limiter::Policer), 1.9e8 / share).path;
            PointStudy { path, ..busy_ends(&[], [0.1, 0.77], [0.1, 0.733]) }
        };
        let full = behind(0.94);
        assert_eq!((RULE.judge(&full), RULE.score(&full)), (None, Some(0.0)));
        assert!(RULE.judge(&behind(0.5)).is_some(), "half of the rate");
    }

    #[test]
    fn a_window_that_a_starved_receiver_closes_is_an_effect() {
        let closed = [("rwnd_limited", 0.8), ("sndbuf_limited", 0.4)];
        let finding = RULE.judge(&busy(&closed, [0.1, 0.7], 0.6)).expect("60 % were taken");
        assert_eq!(finding.claim, Claim::CpuTaken(FlowEnd::Receiving));
        assert_eq!(finding.evidence[1], Evidence::figure(metric::RWND_LIMITED, 0.8));
        assert!(RULE.score(&busy(&closed, [0.1, 0.7], 0.6)).is_some_and(|score| score > 0.5));
    }
}
