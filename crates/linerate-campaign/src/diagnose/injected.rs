//! Lab whose load has a limit on purpose, which a diagnosis finds: the second part of the demo.

use std::path::Path;

use linerate_model::Nanos;

use super::{Load, Question, Rung, climb};
use crate::ends::make_folder;
use crate::stages::{Audience, Bench, Ledgers};
use crate::testbeds::{self, Place};
use crate::{Ended, Result};

/// The lab.
pub const LONG_LAB: &str = "long-path";
/// The limit: a receive buffer that holds a small part of what is in flight when the long path is
/// full.
pub const INJECTED: &str = "receive_buffer=128 KiB";
/// Time for the diagnosis.
const BUDGET: Nanos = Nanos::from_secs(75);

/// Looks for the limit, with ledgers in `folder` and progress for `audience`. An interrupted
/// diagnosis has no limits.
///
/// # Errors
/// If the lab or the folder cannot be made, or nothing can be measured.
pub fn injected(folder: &Path, audience: &dyn Audience) -> Result<Vec<Rung>> {
    let place = Place { lab: Some(LONG_LAB.to_owned()), ..Place::default() };
    let mut ground = testbeds::prepare(&place)?;
    make_folder(folder)?;
    let rungs = found(&Ledgers::new("demo", &ground, folder, audience));
    ground.dismantle();
    rungs
}

/// Looks for the limit on `bench`.
fn found(bench: &dyn Bench) -> Result<Vec<Rung>> {
    let question = Question {
        workload: "tcp_stream".to_owned(),
        params: vec![INJECTED.to_owned()],
        pairs: 6,
        seconds: 0.7,
        omit: 0.5,
        seed: 1,
    };
    let load = Load::new(&question, "a".to_owned(), "b".to_owned())?;
    match climb(bench, load, 1, BUDGET) {
        Ok(rungs) => Ok(rungs),
        // What was measured until then is the answer.
        Err(Ended::With(_)) => Ok(Vec::new()),
        Err(Ended::Failed(failure)) => Err(failure),
    }
}

#[cfg(test)]
mod tests {
    use linerate_model::Verdict;

    use super::*;
    use crate::simulated::{SimulatedBench, SimulatedPath, Trouble};

    #[test]
    fn the_limit_is_proven_within_the_budget_on_the_load_that_has_it() {
        let bench = SimulatedBench::new(SimulatedPath::default());
        let rungs = found(&bench).expect("every stage ends");
        let [rung] = &rungs[..] else { panic!("one limit was asked for: {rungs:?}") };
        assert_eq!(rung.findings[0].verdict, Verdict::Proven, "{rung:?}");
        assert!(rung.lifted.is_some(), "the cure is shown: {rung:?}");
        let drafts = bench.drafts.borrow();
        let limits = drafts[0].sweeps.iter().flat_map(|sweep| &sweep.jobs);
        let limits: Vec<_> = limits.map(|job| job.params.get("receive_buffer")).collect();
        assert_eq!(limits, [Some(&"128 KiB".into())], "{:?}", drafts[0]);
        assert!(bench.now() <= BUDGET, "{:?}", bench.now());
    }

    #[test]
    fn an_interrupted_diagnosis_has_no_limit_and_a_refused_one_says_why() {
        let path = SimulatedPath::default;
        let stopped = SimulatedBench::new(path()).with("baseline", Trouble::Interrupted(0));
        assert!(found(&stopped).expect("it is no failure").is_empty());
        let refused = SimulatedBench::new(path()).with("baseline", Trouble::RefusedPlan);
        let failure = found(&refused).expect_err("its plan was refused").message();
        assert!(failure.contains("pacing_rate"), "{failure}");
    }
}
