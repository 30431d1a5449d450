//! CPU quota of the control group this process is in: scheduling periods, and those in which the
//! quota was used up (`cpu.stat`, scheduler/sched-bwc and admin-guide/cgroup-v2). Counts.
//!
//! Version 2 first, then version 1. Not seen: a quota of a group above, whose own file counts it,
//! and by how much the quota was missed: the kernel adds that up over CPUs.

use std::fs;

use linerate_model::series::cgroup;
use linerate_sys::cgroup::candidates;

use crate::labelled::Labelled;
use crate::{Probe, Sampler, Scope, Unavailable};

/// Both versions of the file call them alike.
pub(super) static PERIODS: Labelled = Labelled {
    lines: &[("nr_periods", cgroup::PERIODS), ("nr_throttled", cgroup::THROTTLED)],
    factor: 1.0,
};

/// Quota of the control group.
pub(super) const SAMPLER: Sampler = Sampler {
    name: cgroup::SAMPLER.text(),
    summary: "scheduling periods of this control group and those in which its CPU quota was used \
        up, from cpu.stat, counts; not groups above",
    open,
};

fn open(_scope: &Scope) -> Result<Box<dyn Probe>, Unavailable> {
    // The file of either version may exist without counts, so the content decides.
    let candidates = candidates("cpu.stat");
    let counts = |path: &&String| fs::read(path).is_ok_and(|text| PERIODS.all_in(&text));
    let path = candidates.iter().find(counts).ok_or_else(|| {
        Unavailable(if candidates.is_empty() {
            "no control groups are mounted".to_owned()
        } else {
            let files = candidates.join(", ");
            format!("none of {files} counts periods: no CPU controller for this process")
        })
    })?;
    PERIODS.open(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_versions_count_periods_and_throttled_ones() {
        let version_1 = PERIODS.read_any(include_bytes!("../../fixtures/cpu_stat-v1-6.18"));
        assert_eq!(version_1, [4211.0, 1377.0].map(Some));
        let version_2 = PERIODS.read_any(include_bytes!("../../fixtures/cpu_stat-v2-5.4"));
        assert_eq!(version_2, [880.0, 52.0].map(Some));
        assert_eq!(PERIODS.read_any(b"usage_usec 5\n"), [None, None], "a root group has no quota");
    }
}
