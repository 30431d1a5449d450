//! `null`: steps that do nothing. It measures linerate itself: engine steps per second and worker,
//! with pacer, tally and interval accounting, without a system call. Unit: steps; no layer, no
//! standard.
//!
//! It does not see the cost of any system call, cache misses of real payload, or the
//! collector's work.

use linerate_model::{FlowReport, ParamError};

use super::parameters::{Parameters, Typed};
use super::placement::WORKERS;
use crate::parameter::Reader;
use crate::workloads::footprint;
use crate::{
    Due, Listener, Offer, Patience, Progress, Result, Setup, Tally, Times, Worker, Workers,
};

/// Parameters of `null`.
#[derive(Clone, Debug)]
pub(super) struct NullParams {
    workers: u32,
}

impl Parameters for NullParams {
    fn declare(reader: &mut Reader<'_>) -> Self {
        let meaning = "threads that step, all at the active end";
        Self { workers: reader.count("workers", WORKERS, 1, meaning) }
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
        "steps without work: the ceiling of linerate itself, in steps per second";

    const HAS_TWO_ENDS: bool = false;

    fn memory_of(params: &NullParams) -> u64 {
        footprint::of_counts((params.workers, Times::NONE, 0), (0, 0))
    }

    fn start_passive(_params: NullParams, _setup: &Setup<'_>) -> Result<Box<dyn Listener>> {
        Ok(Box::new(NullListener))
    }

    fn start_active(params: NullParams, _setup: &Setup<'_>, _offer: &Offer) -> Result<Workers> {
        Ok((0..params.workers).map(|_| Box::new(NullWorker) as Box<dyn Worker>).collect())
    }
}

/// Passive end without workers, which waits for nobody.
#[derive(Debug)]
pub(super) struct NullListener;

impl Listener for NullListener {
    fn offer(&self) -> Offer {
        Offer { addresses: Vec::new() }
    }

    fn accept(self: Box<Self>, _patience: Patience<'_>) -> Result<Workers> {
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

    fn stop_sending(&mut self) {}

    fn finish(&mut self) -> Vec<FlowReport> {
        Vec::new()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::workloads::parameters::assert_sound;

    #[test]
    fn every_default_is_used_and_every_mistake_is_named() {
        assert_sound::<NullParams>(&[
            ("workers", json!(0)),
            ("workers", json!(5000)),
            ("workers", json!("two")),
        ]);
    }
}
