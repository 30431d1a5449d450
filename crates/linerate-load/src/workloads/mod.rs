//! The workloads, alphabetically.

mod null;

use crate::Workload;

/// Every workload.
pub static WORKLOADS: &[&dyn Workload] = &[&null::Null];

/// The workload called `name`.
#[must_use]
pub fn workload(name: &str) -> Option<&'static dyn Workload> {
    WORKLOADS.iter().copied().find(|workload| workload.name() == name)
}
