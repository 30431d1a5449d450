//! The last frame of each burst that comes at several ports at once (S5.5); seconds from the
//! instant of the burst to its receipt.
//!
//! Jobs whose receivers keep the slowest frame of each burst, and that end at one endpoint, start
//! at one barrier: their bursts of one number are one burst over all of their ports, and the
//! slowest of their slowest frames is its last. It counts from when the burst was to leave, not
//! from when a frame did, so that a sender that woke late makes it longer and never shorter. A
//! burst of which a port's frames all got lost has no last frame; single lost ones are not seen
//! here. Trials are put together; the snapshot is the first's.

use serde::{Deserialize, Serialize};

use super::percentiles::of_bursts;
use super::traffic::Job;
use crate::statistics::Percentile;

/// Nanoseconds in a second.
const NANOS: f64 = 1e9;
/// Bursts beyond a percentile that it needs at least (docs/methodology/latency.md#percentiles).
const BEYOND: f64 = 10.0;

/// Latency of last frames, seconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct BurstStudy {
    /// Jobs that sent at once.
    pub ports: usize,
    /// Bursts that have a last frame, over all trials.
    pub n: usize,
    /// Bursts of which a port's frames all got lost.
    pub n_broken: usize,
    /// The fastest last frame.
    pub least: f64,
    /// The median.
    pub median: f64,
    /// 90th percentile, of 100 bursts at least.
    pub p90: Option<f64>,
    /// 99th percentile, of 1000 bursts at least.
    pub p99: Option<f64>,
    /// The slowest.
    pub most: f64,
    /// Its percentiles with their intervals, as far as there are enough bursts for them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub percentiles: Vec<Percentile>,
    /// Values of the bursts of the first trial, in order; `None` for a burst without one.
    pub snapshot: Vec<Option<f64>>,
}

/// Returns the study of bursts in `trials`, each a list of jobs. `None` if no receiver kept bursts,
/// or jobs end at several endpoints.
pub(super) fn study<'a>(trials: impl Iterator<Item = &'a [Job<'a>]>) -> Option<BurstStudy> {
    let mut of_trials: Vec<Vec<Option<u64>>> = Vec::new();
    let mut ports = 0;
    for jobs in trials {
        let measured: Vec<&Job<'_>> =
            jobs.iter().filter(|job| job.spec.background.is_none()).collect();
        let first = measured.first()?;
        // Bursts of jobs that end at different hosts meet nowhere, so they have no common last
        // frame.
        let is_one =
            |job: &&Job<'_>| job.spec.to.name == first.spec.to.name && !kept(job).is_empty();
        if !measured.iter().all(is_one) {
            return None;
        }
        ports = measured.len();
        let kept: Vec<Vec<u64>> = measured.iter().flat_map(|job| kept(job)).collect();
        // Trials are not joined before this step, because burst numbers start anew in each.
        of_trials.push(last_frames(&kept));
    }
    let mut times: Vec<u64> = of_trials.iter().flatten().flatten().copied().collect();
    times.sort_unstable();
    let n = times.len();
    // Nearest rank.
    let at = |share: f64| seconds(times[((share * n as f64).ceil() as usize).clamp(1, n) - 1]);
    // A tolerance: the product of a share and a whole number is not exact in binary.
    let with_enough = |share: f64| ((1.0 - share) * n as f64 >= BEYOND - 1e-9).then(|| at(share));
    (n > 0).then(|| BurstStudy {
        ports,
        n,
        n_broken: of_trials.iter().flatten().count() - n,
        least: seconds(times[0]),
        median: at(0.5),
        p90: with_enough(0.9),
        p99: with_enough(0.99),
        most: seconds(times[n - 1]),
        percentiles: of_bursts(
            &of_trials
                .iter()
                .map(|run| run.iter().flatten().copied().collect())
                .collect::<Vec<_>>(),
        ),
        snapshot: of_trials
            .first()
            .map(|first| first.iter().map(|last| last.map(seconds)).collect())
            .unwrap_or_default(),
    })
}

/// Returns the bursts of each flow of `job` that kept any.
fn kept(job: &Job<'_>) -> Vec<Vec<u64>> {
    let flows = job.flows().into_iter().flat_map(|flow| &flow.receiver.flows);
    flows.map(|flow| flow.bursts.clone()).filter(|bursts| !bursts.is_empty()).collect()
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / NANOS
}

/// Returns the slowest frame of each burst over all of `kept`, ns, as many bursts as all of them
/// have.
fn last_frames(kept: &[Vec<u64>]) -> Vec<Option<u64>> {
    // A port whose sender stopped early has fewer bursts; later ones are incomplete.
    let n = kept.iter().map(Vec::len).min().unwrap_or(0);
    let mut times = Vec::with_capacity(n);
    for number in 0..n {
        // A time of zero marks a burst that never arrived.
        let whole = kept.iter().all(|port| port[number] > 0);
        times.push(kept.iter().map(|port| port[number]).max().filter(|_| whole));
    }
    times
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statistics::Basis;

    #[test]
    fn the_last_frame_of_a_burst_is_the_slowest_over_its_ports() {
        let kept =
            [vec![1_000, 5_000, 0, 2_000], vec![3_000, 4_000, 7_000], vec![2_000, 1_000, 1_000]];
        assert_eq!(last_frames(&kept), [Some(3_000), Some(5_000), None]);
        assert_eq!(last_frames(&[]), []);
    }

    #[test]
    fn the_median_of_last_frames_has_an_interval_of_runs() {
        let run = |by: u64| (1..=100).map(|us| (us + by) * 1_000).collect::<Vec<u64>>();
        let few = of_bursts(&[run(0), run(2)]);
        assert_eq!((few[0].basis, few[0].value_ns), (Basis::Range, Some(51_000)));
        assert_eq!((few[0].low_ns, few[0].high_ns), (Some(50_000), Some(52_000)));
        assert_eq!(of_bursts(&[run(0)])[0].basis, Basis::Operations);
        let many = of_bursts(&(0..6).map(|by| run(by * 20)).collect::<Vec<_>>());
        assert_eq!((many[0].basis, many[0].runs), (Basis::Runs, 6));
        assert!(
            many[0].high_ns.zip(many[0].low_ns).is_some_and(|(high, low)| high - low > 20_000),
            "{many:?}"
        );
    }
}
