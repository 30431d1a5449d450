//! The contract of a sampler, and the thread that runs them.

use linerate_model::{Nanos, SampleBlock, SeriesSpec};

/// What of the host matters to the trial.
#[derive(Clone, Debug, Default)]
pub struct Scope {
    /// Interfaces the endpoints use; empty: all that are up.
    pub devices: Vec<String>,
}

/// Why a sampler cannot be opened here. The report shows the gap, never a zero.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unavailable(pub String);

/// A kind of reading.
pub trait Sampler: Sync {
    /// Its name.
    fn name(&self) -> &'static str;

    /// One sentence: what it reads, from where, units, and what it does not see.
    fn summary(&self) -> &'static str;

    /// Opens what it reads.
    ///
    /// # Errors
    /// If the kernel does not offer it here, or permission is missing.
    fn open(&self, scope: &Scope) -> Result<Box<dyn Probe>, Unavailable>;
}

/// An opened sampler.
pub trait Probe: Send {
    /// Its columns, fixed from now on.
    fn series(&self) -> Vec<SeriesSpec>;

    /// Reads one value per column into `row` (as long as `series`); `None` where one could not be read. Never allocates.
    fn read(&mut self, row: &mut [Option<f64>]);
}

/// Every sampler, running on a thread of its own from now until it is stopped.
#[derive(Debug)]
pub struct Sampling {}

impl Sampling {
    /// Opens every sampler within `scope` and reads every `period` from now on.
    #[must_use]
    pub fn start(scope: &Scope, period: Nanos) -> Self {
        let _ = (scope, period);
        Self {}
    }

    /// Takes one last reading, stops, and returns everything read, with times counted from `origin` on this host's
    /// monotonic clock.
    #[must_use]
    pub fn stop(self, origin: Nanos) -> SampleBlock {
        let _ = origin;
        SampleBlock::default()
    }
}
