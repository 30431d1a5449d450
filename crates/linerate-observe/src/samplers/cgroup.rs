//! CPU quota of the control group this process is in: scheduling periods, and those in which the quota was used up
//! (`cpu.stat`, scheduler/sched-bwc and admin-guide/cgroup-v2). Counts.
//!
//! Version 2 first, then version 1. Not seen: a quota of a group above, whose own file counts it, and by how much the quota was
//! missed: the kernel adds that up over CPUs.

use std::fs;

use linerate_model::{SeriesSpec, Unit};
use linerate_sys::cgroup::candidates;

use crate::kernel_text::{KernelText, decimal, lines, words};
use crate::sampler::counter;
use crate::{Probe, Sampler, Scope, Unavailable};

const NAME: &str = "cgroup";
/// Series, and what the kernel calls them in either version.
const SERIES: [(&str, &str); 2] = [("periods", "nr_periods"), ("throttled", "nr_throttled")];

/// Quota of the control group.
#[derive(Debug)]
pub(super) struct ControlGroup;

impl Sampler for ControlGroup {
    fn name(&self) -> &'static str {
        NAME
    }

    fn summary(&self) -> &'static str {
        "scheduling periods of this control group and those in which its CPU quota was used up, from cpu.stat, counts; not groups above"
    }

    fn open(&self, _scope: &Scope) -> Result<Box<dyn Probe>, Unavailable> {
        let candidates = candidates("cpu.stat");
        let counts = |path: &&String| fs::read(path).is_ok_and(|text| read_any(&text).iter().all(Option::is_some));
        let path = candidates.iter().find(counts).ok_or_else(|| {
            Unavailable(format!("none of {} counts periods: no CPU controller for this process", candidates.join(", ")))
        })?;
        Ok(Box::new(Reader { text: KernelText::open(path)? }))
    }
}

struct Reader {
    text: KernelText,
}

impl Probe for Reader {
    fn series(&self) -> Vec<SeriesSpec> {
        SERIES.iter().map(|(name, _)| counter(NAME, name, "", Unit::Count)).collect()
    }

    fn read(&mut self, row: &mut [Option<f64>]) {
        if let Some(text) = self.text.read() {
            parse(text, row);
        }
    }
}

fn parse(text: &[u8], row: &mut [Option<f64>]) {
    for line in lines(text) {
        let mut words = words(line);
        let label = words.next().unwrap_or_default();
        let Some(at) = SERIES.iter().position(|(_, wanted)| wanted.as_bytes() == label) else { continue };
        row[at] = words.next().and_then(decimal).map(|count| count as f64);
    }
}

/// What is read of `text`, whatever it is.
pub(super) fn read_any(text: &[u8]) -> Vec<Option<f64>> {
    let mut row = vec![None; SERIES.len()];
    parse(text, &mut row);
    row
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_versions_count_periods_and_throttled_ones() {
        let version_1 = read_any(include_bytes!("../../fixtures/cpu_stat-v1-6.18"));
        assert_eq!(version_1, [4211.0, 1377.0].map(Some));
        let version_2 = read_any(include_bytes!("../../fixtures/cpu_stat-v2-5.4"));
        assert_eq!(version_2, [880.0, 52.0].map(Some));
        assert_eq!(read_any(b"usage_usec 5\n"), [None, None], "a root group has no quota");
    }
}
