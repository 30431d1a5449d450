//! Plans of a mesh: one sweep for each round and direction.

use linerate_analysis::mesh::Pairing;
use linerate_load::workloads::HOST_DEFAULT;
use linerate_model::plan::{Draft, DraftJob, DraftSweep};
use linerate_model::{Nanos, Ratio};

use super::Fleet;
use super::patterns::{self, Load, Pattern};

/// Workload of every pair.
pub(super) const WORKLOAD: &str = "tcp_stream";
/// Time in which the last acknowledgements arrive.
const DRAIN: Nanos = Nanos::from_millis(50);

/// Load of a mesh.
#[derive(Clone, Debug)]
pub struct MeshLoad {
    /// Length of the measurement of a pair in one direction.
    pub measured: Nanos,
    /// Warm-up before it.
    pub omitted: Nanos,
    /// Runs of each pair of the second look; 0 for none.
    pub again: u32,
    /// Seed of the random order.
    pub seed: u64,
    /// Share of the time in which a host may send or receive, above 0 to 1: a pause after each run
    /// keeps it.
    pub budget: Ratio,
    /// Most pairs of a stage of the first look, [`MOST_OF_STAGE`] as a rule.
    pub most_of_stage: usize,
    /// Loads of many pairs at once, after the pairs.
    pub at_once: Vec<Pattern>,
}

/// Pairs of a stage: its plan and its study are in memory at once, about 200 MB.
pub const MOST_OF_STAGE: usize = 20_000;

impl MeshLoad {
    /// Returns the plan of `rounds`, in both directions.
    pub(super) fn rounds(&self, fleet: &Fleet, rounds: &[Vec<Pairing>]) -> Draft {
        let sweeps = rounds.iter().enumerate().flat_map(|(number, round)| {
            let back: Vec<Pairing> = round.iter().map(|&(from, to)| (to, from)).collect();
            let number = number + 1;
            [
                self.sweep(format!("round-{number}-there"), fleet, round),
                self.sweep(format!("round-{number}-back"), fleet, &back),
            ]
        });
        self.draft("mesh", 1, sweeps.collect())
    }

    /// Returns the plan of the second look, which measures directed pairs several times.
    pub(super) fn again(&self, fleet: &Fleet, rounds: &[Vec<Pairing>]) -> Draft {
        let sweeps = rounds.iter().enumerate();
        let sweeps =
            sweeps.map(|(number, round)| self.sweep(format!("again-{}", number + 1), fleet, round));
        self.draft("mesh-again", self.again, sweeps.collect())
    }

    /// Returns the plan of loads of many pairs at once, a sweep for each.
    pub(super) fn at_once(&self, fleet: &Fleet, loads: &[Load]) -> Draft {
        let sweeps = loads.iter().enumerate();
        let sweeps = sweeps
            .map(|(number, load)| self.sweep(Self::at_once_sweep(number), fleet, &load.pairs));
        self.draft("mesh-at-once", 1, sweeps.collect())
    }

    /// Returns the name of the sweep of load `number` among those at once.
    pub(super) fn at_once_sweep(number: usize) -> String {
        format!("at-once-{}", number + 1)
    }

    fn draft(&self, name: &str, repeats: u32, sweeps: Vec<DraftSweep>) -> Draft {
        let mut draft = Draft::new(name, repeats, sweeps);
        draft.campaign.seed = Some(self.seed);
        draft
    }

    fn sweep(&self, name: String, fleet: &Fleet, pairs: &[Pairing]) -> DraftSweep {
        let jobs = pairs.iter().map(|&(from, to)| {
            let congestion = [("congestion", HOST_DEFAULT.into())];
            DraftJob::new(WORKLOAD, &fleet.hosts[from], &fleet.hosts[to]).with(congestion)
        });
        DraftSweep {
            name,
            duration: self.measured,
            warmup: self.omitted,
            drain: Some(DRAIN),
            rest: Some(self.rest()),
            jobs: jobs.collect(),
            ..DraftSweep::default()
        }
    }

    /// Returns the time that `n_rounds` rounds of `fleet` and the loads at once take without a
    /// second look.
    pub fn expected(&self, fleet: &Fleet, n_rounds: usize) -> Nanos {
        /// Opening of connections, lead of the barrier and comparison of clocks.
        const OVERHEAD: Nanos = Nanos::from_millis(300);
        let run = self.measured + self.omitted + DRAIN + OVERHEAD + self.rest();
        let n_runs = 2 * n_rounds + patterns::loads(fleet, &self.at_once, &[]).len();
        Nanos(run.0 * n_runs as u64)
    }

    /// Returns the pause after a run in which hosts send or receive all the time.
    fn rest(&self) -> Nanos {
        let busy = (self.omitted + self.measured).as_secs_f64();
        Nanos::from_secs_f64(busy / self.budget.0 - busy)
    }
}
