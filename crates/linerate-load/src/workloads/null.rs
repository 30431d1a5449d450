//! `null`: steps that do nothing. What it measures is linerate itself: engine steps per second and worker, with pacer,
//! tally and interval accounting, no system call. Unit: steps; no layer, no standard.
//!
//! What it does not see: the cost of any system call, cache misses of real payload, or the collector's work.

use std::time::Duration;

use linerate_model::{FlowReport, ParamError, Params};
use serde::Deserialize;

use super::quantities::WORKERS;
use crate::parameter::{self, ParamDoc};
use crate::{Due, Listener, LoadError, Offer, Progress, Setup, Tally, Times, Worker, Workload};

/// Parameters of `null`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct NullParams {
    /// Threads that step, all at the active end.
    workers: u32,
}

impl Default for NullParams {
    fn default() -> Self {
        Self { workers: 1 }
    }
}

const PARAMETERS: &[ParamDoc] =
    &[ParamDoc { name: "workers", takes: WORKERS, default: "1", meaning: "threads that step, all at the active end" }];

/// The `null` workload.
#[derive(Debug)]
pub(super) struct Null;

impl Workload for Null {
    fn name(&self) -> &'static str {
        "null"
    }

    fn summary(&self) -> &'static str {
        "steps that do nothing: the ceiling of linerate itself, in steps per second"
    }

    fn parameters(&self) -> &'static [ParamDoc] {
        PARAMETERS
    }

    fn check(&self, params: &Params) -> Vec<ParamError> {
        params_of(params).err().unwrap_or_default()
    }

    fn listen(&self, setup: &Setup<'_>) -> Result<Box<dyn Listener>, LoadError> {
        params_of(setup.params)?;
        Ok(Box::new(NullListener))
    }

    fn connect(&self, setup: &Setup<'_>, _offer: &Offer) -> Result<Vec<Box<dyn Worker>>, LoadError> {
        let params = params_of(setup.params)?;
        Ok((0..params.workers).map(|_| Box::new(NullWorker) as Box<dyn Worker>).collect())
    }
}

fn params_of(params: &Params) -> Result<NullParams, Vec<ParamError>> {
    parameter::read(params, PARAMETERS, |_| Ok(()))
}

/// The passive end has no part in it: nobody is waited for, and it has no workers.
#[derive(Debug)]
struct NullListener;

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
    use serde_json::json;

    use super::*;

    #[test]
    fn a_worker_count_out_of_range_is_a_problem() {
        let mut params = Params::default();
        assert!(Null.check(&params).is_empty());
        for wrong in [json!(0), json!(5000), json!("two")] {
            params.set("workers", wrong);
            assert_eq!(Null.check(&params)[0].key, "workers");
        }
    }
}
