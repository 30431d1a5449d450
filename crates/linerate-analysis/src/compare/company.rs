//! Other programs beside the load of two campaigns, and which figures they can have changed.
//!
//! Campaigns that were not run in turn ran at different times, so other programs may load the CPUs
//! in one and not in the other. A figure that they can have changed is not claimed if they explain
//! the shift, or if they used much of the CPUs. They cannot affect two kinds of figures, however
//! much CPU they used:
//!
//! - **The rate of a stream that its path limits.** Its senders always had data in flight and
//!   waited neither for the peer's window nor for their send buffer, and the busiest worker of
//!   either end was idle for much of the time, so that it caught up after each delay.
//! - **Times of operations that pass on the path.** Other programs change only the time that an
//!   operation spends running or waiting for a CPU, at both ends and in soft interrupts. If that is
//!   a share s of the time, at most a share s / d of the operations is slower by d (Markov's
//!   inequality), and a share q of operations, those beyond a percentile, must be slower to move
//!   it. Rates of closed loops are means: q = 1.
//!
//! Neither applies where a process of a host carries the path, as in a lab with a device or a
//! delay, because other programs delay the path itself.
//!
//! Not covered: a congestion control that estimates the path from times of single acknowledgements
//! that other programs delayed.

use linerate_model::{Direction, Metric, Statistic, Use, metric};
use serde::{Deserialize, Serialize};

use super::environment::{Touch, touched};
use super::{Change, Doubt, Effect, Scale};
use crate::statistics::median;
use crate::study::{Compared, ComparedFigure, JobStudy, PointStudy};

/// Fraction of a shift (as a logarithm) that another explanation must cover for the shift not to be
/// claimed.
const EXPLAINED: f64 = 0.5;
/// Share of the CPUs' work from which on other programs change every CPU cost.
const CROWDED: f64 = 0.2;
/// Least difference of CPU shares; they are read in ticks.
const LEAST_MET: f64 = 0.02;
/// A worker that runs or waits for a CPU for less of the time than this has time to catch up.
const MOST_OCCUPIED: f64 = 0.7;
/// A stream is limited by its path if its senders wait for nothing else for this share of the time.
const LEAST_ON_PATH: f64 = 0.9;

/// Other programs beside a campaign, and the parts of its load they can affect: medians over its
/// trials, `None` without readings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Company {
    /// Their share of the CPUs' work.
    pub others: Option<f64>,
    /// The share of the measurement for which they, or the hypervisor, kept a worker from its CPU.
    pub taken: Option<f64>,
    /// The share for which the busiest worker of either end ran or waited for a CPU.
    pub occupied: Option<f64>,
    /// The share of an operation's time in which it may have run or waited for a CPU: the busiest
    /// workers of both ends, and the CPU with the most soft interrupts.
    pub on_cpu: Option<f64>,
    /// The share for which TCP senders had data under way and waited neither for the peer's window
    /// nor for their send buffer.
    pub on_path: Option<f64>,
}

impl Company {
    /// Returns the summary of other programs for a campaign with `points`: the typical CPU share
    /// and the worst case of what they can affect.
    pub(super) fn of<'a>(points: impl Iterator<Item = &'a PointStudy> + Clone) -> Self {
        let usual = |of: &dyn Fn(&PointStudy) -> Option<f64>| {
            median(&points.clone().filter_map(of).collect::<Vec<f64>>())
        };
        let worst = |of: &dyn Fn(&PointStudy) -> Option<f64>, worse: fn(f64, f64) -> f64| {
            // One point without a reading makes the worst case unknown, which is not the same as
            // small.
            points.clone().map(of).collect::<Option<Vec<f64>>>()?.into_iter().reduce(worse)
        };
        Self {
            others: usual(&|point| of_hosts(point, metric::CPU_OF_OTHERS)),
            taken: usual(&PointStudy::taken),
            occupied: worst(
                &|point| point.occupied().map(|[active, passive]| active.max(passive)),
                f64::max,
            ),
            on_cpu: worst(&on_cpu, f64::max),
            on_path: worst(&on_path, f64::min),
        }
    }

    /// Returns the same for a path that a process carries, as in a lab with a device or a delay.
    /// Other programs delay that process as they delay the load, so they can affect every figure.
    pub(super) fn on_a_carried_path(self) -> Self {
        // Without these two, no figure is exempt from doubt.
        Self { on_cpu: None, on_path: None, ..self }
    }

    /// Returns the larger share: operations that may have met another program, as a share of all.
    fn met(self) -> Option<f64> {
        self.others.into_iter().chain(self.taken).reduce(f64::max)
    }

    /// Returns whether the path limits the stream of this campaign.
    fn is_limited_by_path(self) -> bool {
        self.occupied.is_some_and(|share| share <= MOST_OCCUPIED)
            && self.on_path.is_some_and(|share| share >= LEAST_ON_PATH)
    }
}

/// Returns the median of a figure of the hosts.
fn of_hosts(point: &PointStudy, metric: &'static Metric) -> Option<f64> {
    let metric = point.jobs.iter().find_map(|job| job.metric(metric, Direction::Sum))?;
    typical(&metric.values)
}

fn typical(values: &[Option<f64>]) -> Option<f64> {
    median(&values.iter().flatten().copied().collect::<Vec<f64>>())
}

fn on_cpu(point: &PointStudy) -> Option<f64> {
    let [active, passive] = point.occupied()?;
    // An operation passes both ends and the interrupt CPU one after the other, so the shares add
    // up.
    Some(active + passive + of_hosts(point, metric::SOFTIRQ_CORE)?)
}

fn on_path(point: &PointStudy) -> Option<f64> {
    let measured = point.jobs.iter().filter(|job| !job.background);
    let shares =
        measured.flat_map(|job| [Direction::Tx, Direction::Rx].map(|direction| (job, direction)));
    fn share((job, direction): (&JobStudy, Direction)) -> Option<f64> {
        let of = |metric: &'static Metric| {
            job.metric(metric, direction).and_then(|metric| typical(&metric.values))
        };
        // The kernel counts time limited by the peer's window or by the send buffer as busy time
        // too.
        Some(of(metric::SENDER_BUSY)? - of(metric::RWND_LIMITED)? - of(metric::SNDBUF_LIMITED)?)
    }
    // The stream that was limited least by its path decides.
    shares.filter_map(share).reduce(f64::min)
}

/// Returns the kind of figure that `metric` of `job` moves with. Every rate of a closed load moves
/// with its times.
pub(super) fn moved_as(metric: &Metric, job: &JobStudy) -> Touch {
    let asks = || job.metrics.iter().any(|known| known.metric.is_for(Use::Asked));
    match touched(metric.group) {
        Touch::Rate if asks() => Touch::Time,
        touch => touch,
    }
}

/// Returns `effect`, marked as doubtful as far as other programs before and after can explain it.
/// Runs in turn share the same conditions.
pub(super) fn beside(
    mut figure: Compared,
    touch: Touch,
    company: [Company; 2],
    paired: bool,
) -> Compared {
    let both = |of: fn(Company) -> Option<f64>| -> Option<[f64; 2]> {
        Some([of(company[0])?, of(company[1])?])
    };
    let (others, taken, met) = (both(|one| one.others), both(|one| one.taken), both(Company::met));
    let effect = figure.effect.clone();
    let judged = match touch {
        // Runs in turn had the same programs beside them, so these cancel in each pair.
        _ if paired => None,
        Touch::Cost => others.map(|others| effect.beside_others(others)),
        Touch::Time
            if both(|one| one.on_cpu)
                .is_some_and(|on_cpu| effect.is_beyond(on_cpu, percentile(&figure.metric))) =>
        {
            None
        }
        Touch::Time => met.map(|met| effect.times_beside_others(met, beyond(&figure.metric))),
        // A worker that was kept from its CPU does not empty its socket buffer. CPU use of others
        // elsewhere drops no packet.
        Touch::Loss => taken.map(|taken| effect.times_beside_others(taken, beyond(&figure.metric))),
        Touch::Rate if company.iter().all(|one| one.is_limited_by_path()) => None,
        Touch::Rate => taken.map(|taken| effect.rates_beside_others(taken)),
    };
    figure.effect = judged.unwrap_or(figure.effect);
    figure
}

/// Returns the share of operations that exceed the percentile `metric`; `None` of other figures.
fn percentile(figure: &ComparedFigure) -> Option<f64> {
    match figure.metric()?.statistic? {
        Statistic::Quantile(quantile) => Some(1.0 - quantile),
        // One slow operation is enough to move a maximum.
        Statistic::Largest => Some(0.0),
        Statistic::Mean | Statistic::Smallest => None,
    }
}

/// Returns the share of operations that exceed the figure `metric`: of a percentile what lies
/// beyond it. Few operations move a maximum, some a mean.
fn beyond(figure: &ComparedFigure) -> f64 {
    const OF_A_MEAN: f64 = 0.05;
    percentile(figure).unwrap_or(OF_A_MEAN)
}

impl Effect {
    /// Returns whether CPU time cannot explain half of the shift of the time or mean rate `metric`,
    /// given the fractions of time that operations ran or waited for a CPU, before and after.
    fn is_beyond(&self, on_cpu: [f64; 2], percentile: Option<f64>) -> bool {
        // Markov's inequality: a share s of the time can delay at most a share s / d of the
        // operations by d.
        let reach = on_cpu[0].max(on_cpu[1]) / percentile.unwrap_or(1.0);
        self.scale == Scale::Ratio && reach <= EXPLAINED * self.shift.ln().abs()
    }

    /// Returns the effect on a CPU cost where other programs used these fractions of all CPU work
    /// before and after. Their part alone multiplies a cost by (1 - before) / (1 - after). A shift
    /// in the same direction of which that explains half is not claimed. Neither is any shift where
    /// other programs used much on either side: caches and context switches are shared too, and no
    /// counter shows that cost.
    fn beside_others(self, [before, after]: [f64; 2]) -> Self {
        let theirs = ((1.0 - before) / (1.0 - after)).ln();
        let explained = self.scale == Scale::Ratio && theirs / self.shift.ln() >= EXPLAINED;
        if explained || before.max(after) > CROWDED { self.doubted(Doubt::Others) } else { self }
    }

    /// Returns the effect on a time that a fraction `beyond` of operations exceeds, where other
    /// programs used these fractions of the CPUs' work or of the load's own time. An operation that
    /// competes with another program waits for it. If more operations may have competed than are
    /// beyond the percentile, a shift in the same direction is not claimed. Neither is any shift
    /// where other programs used much.
    fn times_beside_others(self, [before, after]: [f64; 2], beyond: f64) -> Self {
        let more = after - before;
        // Other programs only slow operations down. Less of them before than after cannot explain
        // an improvement.
        let same_way = (more > 0.0) == (self.change == Change::Worse);
        let explained = same_way && more.abs() > beyond.max(LEAST_MET);
        if explained || before.max(after) > CROWDED { self.doubted(Doubt::Others) } else { self }
    }

    /// Returns the effect on a rate where workers waited for other programs for these fractions of
    /// the measurement. A load limited by the CPUs does that much less work. A shift in the same
    /// direction of which that explains half is not claimed. Neither is any shift where workers
    /// waited long.
    fn rates_beside_others(self, [before, after]: [f64; 2]) -> Self {
        let theirs = ((1.0 - after) / (1.0 - before)).ln();
        let explained = self.scale == Scale::Ratio && theirs / self.shift.ln() >= EXPLAINED;
        if explained || before.max(after) > CROWDED { self.doubted(Doubt::Others) } else { self }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Better, Margin, effect_of_runs};
    use super::*;
    use crate::study::{MetricStudy, TrialStudy};

    const METRIC: MetricStudy = MetricStudy::new(metric::GOODPUT, Direction::Sum);

    fn metric(name: &str, direction: Direction, value: f64) -> MetricStudy {
        MetricStudy {
            metric: linerate_model::Metric::named(name).expect(name),
            direction,
            values: vec![Some(value); 6],
            ..METRIC
        }
    }

    /// Returns the effect on six runs of `metric`, 20 % higher after than before, beside `company`.
    fn judged(metric: &'static Metric, better: Better, company: [Company; 2]) -> Change {
        let values =
            |factor: f64| [1.0, 1.01, 0.99, 1.005, 0.995, 1.002].map(|value| Some(value * factor));
        let effect =
            effect_of_runs(metric.name, &values(1.0), &values(1.2), better, Margin::default())
                .expect("runs");
        let figure = Compared::of(metric, Direction::Sum, effect);
        let job = JobStudy {
            metrics: vec![self::metric(metric.name, Direction::Sum, 1.0)],
            ..JobStudy::default()
        };
        beside(figure, moved_as(metric, &job), company, false).effect.change
    }

    /// Other programs with these shares of the CPUs' work, and of the measurement for which workers
    /// waited for them.
    fn sharing(others: f64, taken: f64) -> Company {
        Company { others: Some(others), taken: Some(taken), ..Company::default() }
    }

    #[test]
    fn what_other_programs_can_do_to_a_figure_is_not_claimed_of_it() {
        let quiet = sharing(0.01, 0.0);
        for (metric, better, of) in [
            (metric::SERVICE_TIME_P99, Better::Less, Change::Worse),
            (metric::TRANSACTION_RATE, Better::More, Change::Better),
            (metric::GOODPUT, Better::More, Change::Better),
        ] {
            assert_eq!(judged(metric, better, [quiet, quiet]), of, "{metric}");
            assert_eq!(judged(metric, better, [sharing(0.5, 0.3); 2]), Change::Unclear, "{metric}");
        }
        let p99 = |company| judged(metric::SERVICE_TIME_P99, Better::Less, company);
        assert_eq!(p99([quiet, sharing(0.06, 0.0)]), Change::Unclear);
        assert_eq!(p99([sharing(0.06, 0.0), quiet]), Change::Worse, "the other way");
        let p50 = judged(metric::SERVICE_TIME_P50, Better::Less, [quiet, sharing(0.06, 0.0)]);
        assert_eq!(p50, Change::Worse, "half of them met none");
        let goodput = |company| judged(metric::GOODPUT, Better::More, company);
        assert_eq!(
            goodput([sharing(0.5, 0.0), sharing(0.4, 0.0)]),
            Change::Better,
            "no worker waited"
        );
        assert_eq!(goodput([sharing(0.1, 0.15), sharing(0.1, 0.0)]), Change::Unclear);
    }

    #[test]
    fn the_rate_of_a_stream_that_its_path_limits_is_out_of_their_reach() {
        let crowded = |occupied, on_path| {
            let company =
                Company { occupied: Some(occupied), on_path: Some(on_path), ..sharing(0.6, 0.3) };
            [company; 2]
        };
        let goodput = |company| judged(metric::GOODPUT, Better::More, company);
        assert_eq!(goodput(crowded(0.35, 0.97)), Change::Better);
        assert_eq!(
            goodput(crowded(0.85, 0.97)),
            Change::Unclear,
            "a worker had hardly time to catch up"
        );
        assert_eq!(
            goodput(crowded(0.35, 0.6)),
            Change::Unclear,
            "a window or a buffer, so that delays count"
        );
        assert_eq!(
            goodput([crowded(0.35, 0.97)[0], crowded(0.85, 0.97)[0]]),
            Change::Unclear,
            "on one side"
        );
        let rate = judged(metric::TRANSACTION_RATE, Better::More, crowded(0.35, 0.97));
        assert_eq!(rate, Change::Unclear, "a load that asks again");
    }

    /// A ratio of 1.2 is 0.182 as a logarithm, and half of that 0.091.
    #[test]
    fn times_that_pass_on_the_path_are_out_of_their_reach_as_far_as_their_percentile_allows() {
        let crowded = |on_cpu| [Company { on_cpu: Some(on_cpu), ..sharing(0.6, 0.3) }; 2];
        let time = |metric, on_cpu| judged(metric, Better::Less, crowded(on_cpu));
        assert_eq!(time(metric::SERVICE_TIME_P50, 0.045), Change::Worse);
        assert_eq!(time(metric::SERVICE_TIME_P50, 0.047), Change::Unclear);
        assert_eq!(
            time(metric::SERVICE_TIME_P99, 0.001),
            Change::Unclear,
            "0.1 % can be a tenth of the slowest 1 %"
        );
        assert_eq!(time(metric::SERVICE_TIME_P99, 0.0009), Change::Worse);
        assert_eq!(time(metric::SERVICE_TIME_MAX, 0.0001), Change::Unclear);
        assert_eq!(judged(metric::TRANSACTION_RATE, Better::More, crowded(0.09)), Change::Better);
        assert_eq!(judged(metric::TRANSACTION_RATE, Better::More, crowded(0.093)), Change::Unclear);
        let carried = crowded(0.045).map(Company::on_a_carried_path);
        assert_eq!(
            judged(metric::SERVICE_TIME_P50, Better::Less, carried),
            Change::Unclear,
            "a process is the path"
        );
    }

    #[test]
    fn the_company_of_points_is_typical_and_its_reach_the_worst() {
        let point = |others: f64, occupied: [f64; 2], rwnd_limited: f64| {
            let metrics = vec![
                metric("cpu_of_others", Direction::Sum, others),
                metric("softirq_core", Direction::Sum, 0.05),
                metric("sender_busy", Direction::Tx, 0.98),
                metric("rwnd_limited", Direction::Tx, rwnd_limited),
                metric("sndbuf_limited", Direction::Tx, 0.01),
            ];
            let trial = TrialStudy {
                taken: [Some(0.2); 2],
                occupied: Some(occupied),
                ..TrialStudy::default()
            };
            PointStudy {
                jobs: vec![JobStudy { metrics, ..JobStudy::default() }],
                trials: vec![trial; 6],
                ..PointStudy::default()
            }
        };
        let points =
            [point(0.3, [0.1, 0.2], 0.0), point(0.5, [0.4, 0.3], 0.2), point(0.4, [0.2, 0.2], 0.1)];
        let company = Company::of(points.iter());
        assert_eq!(
            (company.others, company.taken, company.occupied),
            (Some(0.4), Some(0.2), Some(0.4))
        );
        let near = |found: Option<f64>, expected: f64| {
            found.is_some_and(|found| (found - expected).abs() < 1e-9)
        };
        assert!(near(company.on_cpu, 0.75) && near(company.on_path, 0.77), "{company:?}");
        let mut foreign = points;
        foreign[1].trials.iter_mut().for_each(|trial| trial.occupied = None);
        let company = Company::of(foreign.iter());
        assert_eq!(
            (company.occupied, company.on_cpu),
            (None, None),
            "an end without a worker of ours"
        );
    }
}
