//! The samplers, alphabetically.

use crate::Sampler;

/// Every sampler.
pub static SAMPLERS: &[&dyn Sampler] = &[];

/// The sampler called `name`.
#[must_use]
pub fn sampler(name: &str) -> Option<&'static dyn Sampler> {
    SAMPLERS.iter().copied().find(|sampler| sampler.name() == name)
}
