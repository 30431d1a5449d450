//! Fold from the progress of a campaign to its snapshot. Pure: time is an argument.

use std::collections::VecDeque;

use linerate_analysis::live::LiveLines;
use linerate_analysis::{interface_speed, planned_ceiling};
use linerate_control::Progress;
use linerate_model::{
    CampaignHeader, Direction, Endpoint, HostRecord, JobSpec, Nanos, TrialOutcome, TrialSpec,
};

use super::{LiveEnd, LiveIncident, LivePoint, LiveStage, LiveTrial, Snapshot};

/// Span of a point before points are joined.
const SPAN: Nanos = Nanos::from_millis(100);
/// Points of the latest second.
const RECENT: usize = 10;
/// Points of a job that wait for another job: three seconds. After that the other job has ended.
const PATIENCE: usize = 30;

/// Fold of one campaign.
#[derive(Debug)]
pub struct LiveFold {
    header: CampaignHeader,
    hosts: Vec<HostRecord>,
    /// Measured jobs of the present trial.
    jobs: Vec<FoldedJob>,
    recent: VecDeque<LivePoint>,
    /// Shortest points in one point of the chart.
    joined: u32,
    /// Shortest points in the last point of the chart.
    in_last: u32,
    /// Time at which `left` was estimated.
    estimated: Nanos,
    left: Nanos,
    shown: Snapshot,
}

/// Measured job of a trial.
#[derive(Debug)]
struct FoldedJob {
    job: u32,
    /// True if its active end is on the host of the first job's passive end.
    is_reversed: bool,
    lines: LiveLines,
    points: VecDeque<LivePoint>,
}

impl LiveFold {
    /// Most points of a trial. When there are more, each two are joined.
    pub const MOST_POINTS: usize = 300;
    /// Most incidents in a snapshot.
    pub const MOST_INCIDENTS: usize = 8;

    /// Returns the fold of a campaign that has not begun.
    #[must_use]
    pub fn new(header: &CampaignHeader, now: Nanos) -> Self {
        let (campaign, name) = (header.id.clone(), header.name.clone());
        Self {
            header: header.clone(),
            hosts: Vec::new(),
            jobs: Vec::new(),
            recent: VecDeque::new(),
            joined: 1,
            in_last: 1,
            estimated: now,
            left: Nanos(0),
            shown: Snapshot { campaign, name, at: now, ..Snapshot::default() },
        }
    }

    /// Returns the state `now`.
    #[must_use]
    pub fn snapshot(&self, now: Nanos) -> Snapshot {
        let left = self.left.since(now.since(self.estimated));
        Snapshot { at: now, left, ..self.shown.clone() }
    }

    /// Takes an event. Returns whether a viewer would see a difference.
    pub fn take(&mut self, event: &Progress<'_>, now: Nanos) -> bool {
        match event {
            Progress::HostJoined { record } => {
                self.hosts.retain(|known| known.host != record.host);
                self.hosts.push((*record).clone());
                false
            }
            Progress::TrialStarted { trial, number, of, eta } => {
                self.begin(trial, *number);
                self.estimate(*of, *eta, now);
                true
            }
            Progress::TrialEnded { outcome, of, eta, .. } => {
                let rest: Vec<_> =
                    self.jobs.iter_mut().map(|job| job.lines.rest(*outcome)).collect();
                for (job, lines) in self.jobs.iter_mut().zip(rest) {
                    job.add(lines.iter().filter(|line| !line.is_drain).map(LivePoint::of));
                }
                while self.jobs.iter().any(|job| !job.points.is_empty()) {
                    self.give();
                }
                self.jobs.clear();
                self.shown.stage = LiveStage::Resting;
                self.shown.n_ended += 1;
                self.shown.n_failed += usize::from(*outcome == TrialOutcome::Failed);
                self.estimate(*of, *eta, now);
                true
            }
            Progress::Intervals { job, side, intervals, .. } => {
                let Some(of) = self.jobs.iter_mut().find(|known| known.job == *job) else {
                    return false;
                };
                let lines = of.lines.take(*side, intervals);
                of.add(lines.iter().map(LivePoint::of));
                self.give_complete()
            }
            Progress::Incident { trial, incident } => {
                let incidents = &mut self.shown.incidents;
                incidents.push(LiveIncident { trial: *trial, incident: (*incident).clone() });
                let surplus = incidents.len().saturating_sub(Self::MOST_INCIDENTS);
                incidents.drain(..surplus);
                self.shown.n_incidents += 1;
                true
            }
            Progress::Searched { .. }
            | Progress::Looked { .. }
            | Progress::SearchEnded { .. }
            | Progress::OwnPorts { .. }
            | Progress::Reconnecting { .. } => false,
        }
    }

    /// Ends the campaign.
    pub fn end(&mut self) {
        self.shown.stage = LiveStage::Ended;
        self.left = Nanos(0);
    }

    fn estimate(&mut self, of: usize, left: Nanos, now: Nanos) {
        self.shown.n_trials = of;
        (self.left, self.estimated) = (left, now);
    }

    fn begin(&mut self, trial: &TrialSpec, number: usize) {
        let measured =
            || (0..).zip(&trial.jobs).filter(|(_, job): &(u32, _)| job.background.is_none());
        let first = measured().next().map(|(_, job)| job);
        let loaded = trial.phases.loaded();
        self.jobs = measured()
            .map(|(number, job)| FoldedJob {
                job: number,
                is_reversed: first.is_some_and(|first| is_opposite(job, first)),
                lines: LiveLines::new(SPAN, loaded),
                points: VecDeque::new(),
            })
            .collect();
        (self.joined, self.in_last) = (1, 1);
        self.recent.clear();
        self.shown.points.clear();
        self.shown.recent = None;
        self.shown.stage = LiveStage::Trial;
        let ways = [Direction::Tx, Direction::Rx];
        // The ceiling is that of the first job's path, and the goodput that of all jobs.
        let is_shared =
            measured().all(|(_, job)| first.is_some_and(|first| is_between(job, first)));
        let ceiling = |way| {
            is_shared.then(|| planned_ceiling(&self.header, &self.hosts, trial, way)).flatten()
        };
        self.shown.trial = Some(LiveTrial {
            id: trial.id,
            number,
            sweep: trial.sweep.clone(),
            point: trial.point.clone(),
            repeat: trial.repeat,
            workloads: measured().map(|(_, job)| job.workload.clone()).collect(),
            ends: first.map_or_else(Default::default, |job| {
                [&job.from, &job.to].map(|end| self.end_of(end))
            }),
            warmup: trial.phases.warmup_span(),
            loaded,
            ceilings: ways.map(|way| Some(ceiling(way)?.value)),
        });
    }

    fn end_of(&self, end: &Endpoint) -> LiveEnd {
        LiveEnd {
            name: end.name.clone(),
            host: end.host.clone(),
            address: end.address,
            device: end.device.clone(),
            speed: self.speed(end),
        }
    }

    fn speed(&self, end: &Endpoint) -> Option<f64> {
        let host = self.hosts.iter().find(|one| one.host == end.host)?;
        let interface = format!("/interfaces/{}", end.device.as_deref()?);
        Some(interface_speed(host.facts.pointer(&interface)?)?.0)
    }

    /// Gives the points that all jobs have reached.
    fn give_complete(&mut self) -> bool {
        let mut has_given = false;
        while self.jobs.iter().all(|job| !job.points.is_empty())
            || self.jobs.iter().any(|job| job.points.len() > PATIENCE)
        {
            self.give();
            has_given = true;
        }
        has_given
    }

    /// Gives the point of the earliest span that a job waits with, of the jobs that have it.
    fn give(&mut self) {
        let first = |job: &FoldedJob| job.points.front().map(|point| point.from);
        let Some(from) = self.jobs.iter().filter_map(first).min() else { return };
        let jobs = self.jobs.iter_mut();
        let points: Vec<_> = jobs
            .filter(|job| job.points.front().is_some_and(|point| point.from == from))
            .filter_map(|job| job.points.pop_front())
            .collect();
        let Some(point) = LivePoint::together(&points) else { return };
        // The span has been shown without this job, which was silent for longer than the patience.
        if self.shown.points.last().is_some_and(|last| point.from < last.until) {
            return;
        }
        self.recent.push_back(point);
        if self.recent.len() > RECENT {
            self.recent.pop_front();
        }
        self.shown.recent = self.recent.iter().copied().reduce(|sum, point| sum.joined(&point));
        let points = &mut self.shown.points;
        match points.last_mut() {
            Some(last) if self.in_last < self.joined => {
                *last = last.joined(&point);
                self.in_last += 1;
            }
            _ => {
                if points.len() >= Self::MOST_POINTS {
                    // Points of twice the length leave half of the room for what is to come.
                    *points = points
                        .chunks(2)
                        .filter_map(|pair| pair.iter().copied().reduce(|a, b| a.joined(&b)))
                        .collect();
                    self.joined *= 2;
                }
                points.push(point);
                self.in_last = 1;
            }
        }
    }
}

/// Returns whether `job` is between the two endpoints of `first`, in either direction.
fn is_between(job: &JobSpec, first: &JobSpec) -> bool {
    let (ends, firsts) = ([&job.from.name, &job.to.name], [&first.from.name, &first.to.name]);
    ends == firsts || ends == [firsts[1], firsts[0]]
}

/// Returns whether `job` leads from the host of `first`'s passive end to that of its active end.
fn is_opposite(job: &JobSpec, first: &JobSpec) -> bool {
    let hosts = |job: &JobSpec| (job.from.host.clone(), job.to.host.clone());
    let ((from, to), there) = (hosts(job), hosts(first));
    from != to && (to, from) == there
}

impl FoldedJob {
    fn add(&mut self, points: impl Iterator<Item = LivePoint>) {
        let is_reversed = self.is_reversed;
        self.points.extend(points.map(|point| if is_reversed { point.reversed() } else { point }));
    }
}

#[cfg(test)]
mod tests {
    use linerate_model::{
        BitRate, BoundClass, Bytes, Capacity, Counter, Incident, IncidentKind, Interval, Params,
        Phases, Side, TrialId, Warmup,
    };
    use serde_json::json;

    use super::*;

    const MB: f64 = 1e6;

    fn job(from: &str, to: &str) -> JobSpec {
        JobSpec {
            workload: "tcp_stream".into(),
            from: Endpoint { device: Some("eth0".into()), ..Endpoint::named(from, from) },
            to: Endpoint::named(to, to),
            params: Params::default(),
            background: None,
        }
    }

    fn trial(seconds: u64, jobs: Vec<JobSpec>) -> TrialSpec {
        TrialSpec {
            id: TrialId(3),
            sweep: "s".into(),
            point: Default::default(),
            repeat: 1,
            seed: 1,
            phases: Phases {
                warmup: Warmup::Fixed(Nanos(0)),
                measure: Nanos::from_secs(seconds),
                drain: Nanos(0),
                rest: Nanos(0),
                interval: Nanos::from_millis(100),
            },
            jobs,
            arm: None,
            until: None,
            search: None,
        }
    }

    fn started(trial: &TrialSpec) -> Progress<'_> {
        Progress::TrialStarted { trial, number: 2, of: 9, eta: Nanos::from_secs(90) }
    }

    /// Adds `n_ms` of load in intervals of 100 ms, in which the passive end receives 100 kB each.
    fn load(fold: &mut LiveFold, trial: &TrialSpec, job: u32, ms: core::ops::Range<u64>) -> bool {
        let mut has_changed = false;
        for at in ms.step_by(100) {
            let (start, end) = (Nanos::from_millis(at), Nanos::from_millis(at + 100));
            let mut interval = Interval { start, end, ..Interval::default() };
            for side in [Side::Active, Side::Passive] {
                interval.counters[Counter::CpuUser] = 25_000_000;
                interval.counters[Counter::PayloadReceived] =
                    if side == Side::Passive { 100_000 } else { 0 };
                let intervals = std::slice::from_ref(&interval);
                let event = Progress::Intervals { trial, job, side, intervals };
                has_changed |= fold.take(&event, Nanos(0));
            }
        }
        has_changed
    }

    fn fold() -> LiveFold {
        let (id, name) = ("c".to_owned(), "plan".to_owned());
        let header = CampaignHeader { id, name, ..CampaignHeader::default() };
        LiveFold::new(&header, Nanos::from_secs(5))
    }

    #[test]
    fn a_snapshot_has_the_path_the_figures_of_the_last_second_and_the_time_left() {
        let mut fold = fold();
        let record = HostRecord {
            host: "a".into(),
            facts: json!({ "interfaces": { "eth0": { "driver": "e1000e", "speed_bps": 1e9 } } }),
            clock_offset_ns: 0,
            clock_uncertainty_ns: 0,
        };
        assert!(!fold.take(&Progress::HostJoined { record: &record }, Nanos(0)));
        let trial = trial(10, vec![job("a", "b")]);
        assert!(fold.take(&started(&trial), Nanos::from_secs(10)));
        assert!(load(&mut fold, &trial, 0, 0..2000));
        let shown = fold.snapshot(Nanos::from_secs(40));
        assert_eq!((shown.campaign.as_str(), shown.name.as_str()), ("c", "plan"));
        assert_eq!((shown.stage, shown.n_ended, shown.n_trials), (LiveStage::Trial, 0, 9));
        assert_eq!((shown.at, shown.left), (Nanos::from_secs(40), Nanos::from_secs(60)));
        let [a, b] = &shown.trial.as_ref().expect("one runs").ends;
        assert_eq!((a.speed, b.speed), (Some(1e9), None));
        let recent = shown.recent.expect("two seconds were counted");
        assert_eq!(recent.until.since(recent.from), Nanos::from_secs(1));
        assert!((recent.goodput[0] - 8.0 * MB).abs() < 1.0, "{recent:?}");
        assert!((recent.cpu[1] - 0.25).abs() < 1e-9, "{recent:?}");
        assert_eq!(shown.points.len(), 20);
        let text = serde_json::to_string(&shown).expect("it is plain data");
        assert_eq!(serde_json::from_str::<Snapshot>(&text).expect("its own text"), shown);
    }

    #[test]
    fn jobs_of_other_endpoints_do_not_count_against_the_first_ones_ceiling() {
        let ceiling = |jobs: Vec<JobSpec>| {
            let link = Capacity {
                name: "link".into(),
                edge: "link".into(),
                class: BoundClass::Link,
                rate: BitRate(1e9),
                frame_overhead: Bytes(38),
                mtu: Bytes(1500),
                pairs: vec![("a".into(), "b".into())],
                source: "declared".into(),
                members: Vec::new(),
            };
            let capacities = vec![link];
            let header = CampaignHeader { capacities, ..CampaignHeader::default() };
            let mut fold = LiveFold::new(&header, Nanos(0));
            let trial = trial(10, jobs);
            fold.take(&started(&trial), Nanos(0));
            fold.snapshot(Nanos(0)).trial.expect("one runs").ceilings[0]
        };
        let alone = ceiling(vec![job("a", "b")]);
        assert!(alone.is_some_and(|rate| rate > 9e8), "{alone:?}");
        assert_eq!(ceiling(vec![job("a", "b"), job("a", "b"), job("b", "a")]), alone);
        assert_eq!(ceiling(vec![job("a", "b"), job("c", "b")]), None);
    }

    #[test]
    fn a_long_trial_has_fewer_points_than_the_limit_and_no_byte_is_lost() {
        let mut fold = fold();
        let trial = trial(1000, vec![job("a", "b")]);
        fold.take(&started(&trial), Nanos(0));
        load(&mut fold, &trial, 0, 0..400_000);
        let points = fold.snapshot(Nanos(0)).points;
        assert!((100..=LiveFold::MOST_POINTS).contains(&points.len()), "{}", points.len());
        assert!(points.windows(2).all(|pair| pair[0].until == pair[1].from));
        let until = points.last().expect("many").until;
        assert_eq!(until, Nanos::from_secs(400));
        let bits =
            |point: &LivePoint| point.goodput[0] * point.until.since(point.from).as_secs_f64();
        let total: f64 = points.iter().map(bits).sum();
        assert!((total / (400.0 * 8.0 * MB) - 1.0).abs() < 1e-9, "{total}");
    }

    #[test]
    fn jobs_are_added_in_the_direction_of_the_first_and_a_silent_one_is_not_waited_for() {
        let mut fold = fold();
        let trial = trial(10, vec![job("a", "b"), job("b", "a")]);
        fold.take(&started(&trial), Nanos(0));
        load(&mut fold, &trial, 0, 0..1000);
        assert_eq!(fold.snapshot(Nanos(0)).points, [], "the other job has not been heard of");
        load(&mut fold, &trial, 1, 0..1000);
        let recent = fold.snapshot(Nanos(0)).recent.expect("both have been");
        assert!((recent.goodput[0] - 8.0 * MB).abs() < 1.0, "{recent:?}");
        assert!((recent.goodput[1] - 8.0 * MB).abs() < 1.0, "{recent:?}");
        load(&mut fold, &trial, 0, 1000..8000);
        let until = fold.snapshot(Nanos(0)).points.last().expect("there are some").until;
        assert_eq!(until, Nanos::from_secs(5), "three seconds behind the first job");
        // Counts of spans that were shown without them are not added to later spans.
        load(&mut fold, &trial, 1, 1000..6000);
        let points = fold.snapshot(Nanos(0)).points;
        assert!(points.windows(2).all(|pair| pair[0].until == pair[1].from), "{points:?}");
        let back = |at: usize| points[at].goodput[1] / MB;
        assert_eq!((back(49), points[50].from), (0.0, Nanos::from_secs(5)));
        assert!(points[50..].iter().all(|point| (point.goodput[1] - 8.0 * MB).abs() < 1.0));
        assert!(points[50..].iter().all(|point| (point.goodput[0] - 8.0 * MB).abs() < 1.0));
        let ended = Progress::TrialEnded {
            trial: &trial,
            outcome: TrialOutcome::Failed,
            number: 2,
            of: 9,
            eta: Nanos(0),
        };
        fold.take(&ended, Nanos(0));
        let shown = fold.snapshot(Nanos(0));
        assert_eq!(shown.points.last().expect("all are given").until, Nanos::from_secs(8));
        assert_eq!((shown.stage, shown.n_ended, shown.n_failed), (LiveStage::Resting, 1, 1));
    }

    #[test]
    fn the_newest_incidents_are_kept_and_all_are_counted() {
        let mut fold = fold();
        for n in 0..20 {
            let (host, kind) = (String::new(), IncidentKind::Clock);
            let incident = Incident { host, kind, message: format!("{n}") };
            assert!(fold.take(&Progress::Incident { trial: None, incident: &incident }, Nanos(0)));
        }
        let shown = fold.snapshot(Nanos(0));
        assert_eq!((shown.n_incidents, shown.incidents.len()), (20, LiveFold::MOST_INCIDENTS));
        assert_eq!(shown.incidents.last().expect("eight").incident.message, "19");
    }
}
