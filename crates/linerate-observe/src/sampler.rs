//! The contract of a sampler.

use linerate_model::SeriesSpec;

/// Parts of the host that matter to the trial.
#[derive(Clone, Debug, Default)]
pub struct Scope {
    /// Interfaces the endpoints use; empty: all that are up.
    pub devices: Vec<String>,
    /// Interfaces behind whose NC-SI controller an endpoint sits; empty: none is asked.
    pub controllers: Vec<String>,
}

/// Why a sampler cannot be opened here. The report shows the gap, never a zero.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unavailable(pub String);

/// A kind of reading.
#[derive(Clone, Copy, Debug)]
pub struct Sampler {
    /// Its name.
    pub name: &'static str,
    /// One sentence: what it reads, from where, units, and what it does not see.
    pub summary: &'static str,
    /// Opens what it reads, in the network namespace of the calling thread. Fails if the kernel
    /// does not offer it here, or permission is missing.
    pub open: fn(&Scope) -> Result<Box<dyn Probe>, Unavailable>,
}

/// An opened sampler.
pub trait Probe: Send {
    /// Its columns, fixed from now on.
    fn series(&self) -> Vec<SeriesSpec>;

    /// Reads one value per column into `row` (as long as `series`, all `None` beforehand); leaves
    /// `None` where one could not be read. Never allocates.
    fn read(&mut self, row: &mut [Option<f64>]);
}
