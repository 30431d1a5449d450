//! Offered load of a job: the parameter that sets it, and the value for a share of the load that
//! the job reached.
//!
//! Not seen here: whether the path carries that load, which is measured.

use linerate_analysis::Reached;
use linerate_load::workload;
use linerate_model::{JobSpec, LoadUnit};

/// Parameter for operations per second.
const RATE: &str = "rate";
/// Parameter for the bits per second of a sending application, of one thread.
const SOURCE_RATE: &str = "source_rate";
/// Parameter for the number of connections: one, so that there is one thread.
const STREAMS: &str = "streams";
/// Parameter of workloads whose rate is that of each direction.
const DIRECTION: &str = "direction";

/// Parameter and unit of a job's offered load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offered {
    /// Name of the parameter.
    pub parameter: &'static str,
    unit: LoadUnit,
    each_way: bool,
}

impl Offered {
    /// Returns the parameter for the offered load of `job`.
    ///
    /// # Errors
    /// If no load can be set; the text is the reason.
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
                "`{name}` has no parameter for the offered load: it always runs at full speed"
            ));
        }
        if job.params.0.get(STREAMS).is_some_and(|streams| streams.as_u64() != Some(1)) {
            return Err(format!(
                "`{SOURCE_RATE}` of `{name}` is the rate of one thread: set {STREAMS} = 1"
            ));
        }
        Ok(Self { parameter: SOURCE_RATE, unit: LoadUnit::Bits, each_way })
    }

    /// Returns the figure among `reached` that has this parameter's unit.
    #[must_use]
    pub fn load(self, reached: &Reached) -> Option<f64> {
        match (self.unit, self.each_way) {
            (LoadUnit::Bits, _) => reached.bits_each_way,
            (LoadUnit::Frames, true) => reached.operations_each_way,
            (LoadUnit::Frames, false) => reached.operations,
        }
    }

    /// Formats `load` as a value of the parameter.
    #[must_use]
    pub fn written(self, load: f64) -> String {
        self.unit.written(load)
    }
}
