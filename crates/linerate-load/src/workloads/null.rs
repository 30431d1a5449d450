//! `null`: steps that do nothing. What it measures is linerate itself: engine steps per second and
//! worker, with pacer, tally and interval accounting, no system call. Unit: steps; no layer, no
//! standard.
//!
//! What it does not see: the cost of any system call, cache misses of real payload, or the
//! collector's work.

use std::time::Duration;

use linerate_model::{FlowReport, ParamError};
use serde::Deserialize;

use super::parameters::{Parameters, Typed};
use super::placement::WORKERS;
use crate::parameter::ParamDoc;
use crate::workloads::footprint;
use crate::{Due, Listener, LoadError, Offer, Progress, Setup, Tally, Times, Worker};

/// Parameters of `null`.
#[derive(Clone, Debug, Deserialize)]
#[serde(default)]
pub(super) struct NullParams {
    /// Threads that step, all at the active end.
    workers: u32,
}

impl Default for NullParams {
    fn default() -> Self {
        Self { workers: 1 }
    }
}

impl Parameters for NullParams {
    fn docs() -> Vec<ParamDoc> {
        let meaning = "threads that step, all at the active end";
        vec![ParamDoc { name: "workers", takes: WORKERS, default: "1", meaning }]
    }

    fn settle(&mut self) -> Result<(), ParamError> {
        Ok(())
    }
}

/// The `null` workload.
#[derive(Debug)]
pub(super) struct Null;

impl Typed for Null {
    type Params = NullParams;
    const NAME: &'static str = "null";
    const SUMMARY: &'static str =
        "steps that do nothing: the ceiling of linerate itself, in steps per second";

    const HAS_TWO_ENDS: bool = false;

    fn memory_of(params: &NullParams) -> u64 {
        footprint::of_counts((params.workers, Times::NONE, 0), (0, 0))
    }

    fn start_passive(
        _params: NullParams,
        _setup: &Setup<'_>,
    ) -> Result<Box<dyn Listener>, LoadError> {
        Ok(Box::new(NullListener))
    }

    fn start_active(
        params: NullParams,
        _setup: &Setup<'_>,
        _offer: &Offer,
    ) -> Result<Vec<Box<dyn Worker>>, LoadError> {
        Ok((0..params.workers).map(|_| Box::new(NullWorker) as Box<dyn Worker>).collect())
    }
}

/// The passive end has no part in it: nobody is waited for, and it has no workers.
#[derive(Debug)]
pub(super) struct NullListener;

impl Listener for NullListener {
    fn offer(&self) -> Offer {
        Offer { addresses: Vec::new() }
    }

    fn accept(self: Box<Self>, _patience: Duration) -> Result<Vec<Box<dyn Worker>>, LoadError> {
        Ok(Vec::new())
    }
}

#[derive(Debug)]
struct NullWorker;

impl Worker for NullWorker {
    fn times(&self) -> Times {
        Times::NONE
    }

    #[inline]
    fn step(&mut self, due: Due, _tally: &mut Tally) -> Progress {
        if due.operations == 0 { Progress::Ended } else { Progress::Moved }
    }

    fn n_flows(&self) -> usize {
        0
    }

    fn stop_sending(&mut self) {}

    fn finish(&mut self) -> Vec<FlowReport> {
        Vec::new()
    }
}

#[cfg(test)]
mod tests {
    use linerate_model::Params;
    use serde_json::json;

    use super::*;
    use crate::workloads::parameters::read;

    #[test]
    fn a_worker_count_out_of_range_is_a_problem() {
        let mut params = Params::default();
        assert!(read::<NullParams>(&params).is_ok());
        for wrong in [json!(0), json!(5000), json!("two")] {
            params.set("workers", wrong);
            assert_eq!(read::<NullParams>(&params).expect_err("refused")[0].key, "workers");
        }
    }
}
