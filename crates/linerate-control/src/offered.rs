//! Which parameter of a job is the load that is offered to it, and what a share of what it reached
//! is as its value.
//!
//! What it does not see: whether the path carries that load; what came of it is measured.

use linerate_analysis::Reached;
use linerate_load::workload;
use linerate_model::{JobSpec, LoadUnit};

/// Operations per second, or bits where a workload takes no other.
const RATE: &str = "rate";
/// Bits per second that a sending application makes, one thread.
const SOURCE_RATE: &str = "source_rate";
/// Connections, of which there must be one for one thread.
const STREAMS: &str = "streams";
/// A workload that has it takes its rate for each direction.
const DIRECTION: &str = "direction";

/// How a load is offered to a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offered {
    /// The parameter that takes it.
    pub parameter: &'static str,
    unit: LoadUnit,
    each_way: bool,
}

impl Offered {
    /// How a load is offered to `job`.
    ///
    /// # Errors
    /// Why it cannot be.
    pub fn of(job: &JobSpec) -> Result<Self, String> {
        let name = &job.workload;
        let parameters = workload(name).map(|workload| workload.parameters()).unwrap_or_default();
        let has = |key: &str| parameters.iter().any(|parameter| parameter.name == key);
        let each_way = has(DIRECTION);
        if has(RATE) {
            return Ok(Self { parameter: RATE, unit: LoadUnit::Frames, each_way });
        }
        if !has(SOURCE_RATE) {
            return Err(format!(
                "`{name}` has no load that could be offered, only as fast as it goes"
            ));
        }
        if job.params.0.get(STREAMS).is_some_and(|streams| streams.as_u64() != Some(1)) {
            return Err(format!(
                "`{SOURCE_RATE}` of `{name}` is that of one thread: set {STREAMS} = 1"
            ));
        }
        Ok(Self { parameter: SOURCE_RATE, unit: LoadUnit::Bits, each_way })
    }

    /// What of `reached` its load is compared with.
    #[must_use]
    pub fn load(self, reached: &Reached) -> Option<f64> {
        match (self.unit, self.each_way) {
            (LoadUnit::Bits, _) => reached.bits_each_way,
            (LoadUnit::Frames, true) => reached.operations_each_way,
            (LoadUnit::Frames, false) => reached.operations,
        }
    }

    /// `load` as the parameter takes it.
    #[must_use]
    pub fn written(self, load: f64) -> String {
        self.unit.written(load)
    }
}
