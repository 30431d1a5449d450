//! Software counters of the kernel per CPU: its clock, context switches, migrations and page
//! faults, as one group (perf_event_open(2)). `cpu_clock` is the time in ns for which the counter
//! was enabled, idle included: rates of the others are taken over exactly this time. The others are
//! counts.
//!
//! It works without a PMU. Not seen: cycles and instructions, for which no clock is a substitute.

use linerate_model::Series;
use linerate_model::series::perf_software;
use linerate_sys::perf::Counter;

use super::perf_hardware::open_groups;
use crate::{Probe, Sampler, Scope, Unavailable};

const COUNTERS: [(Counter, Series); 4] = [
    (Counter::CpuClock, perf_software::CPU_CLOCK),
    (Counter::ContextSwitches, perf_software::CONTEXT_SWITCHES),
    (Counter::Migrations, perf_software::MIGRATIONS),
    (Counter::PageFaults, perf_software::PAGE_FAULTS),
];

/// Software counters.
pub(super) const SAMPLER: Sampler = Sampler {
    name: perf_software::SAMPLER.text(),
    summary: "clock (ns), context switches, migrations and page faults per CPU as one perf_event \
        group; not cycles or instructions",
    open,
};

fn open(_scope: &Scope) -> Result<Box<dyn Probe>, Unavailable> {
    open_groups(&COUNTERS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_of_every_cpu_advances() {
        let mut probe = match super::open(&Scope::default()) {
            Ok(probe) => probe,
            Err(why) => return println!("skipped: {why}"),
        };
        let mut rows = [vec![None; probe.series().len()], vec![None; probe.series().len()]];
        for row in &mut rows {
            probe.read(row);
        }
        for (before, after) in rows[0].iter().zip(&rows[1]).step_by(COUNTERS.len()) {
            assert!(before.unwrap() < after.unwrap());
        }
    }
}
