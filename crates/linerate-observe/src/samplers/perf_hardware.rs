//! Cycles, instructions and last-level cache misses per CPU, one counter group per CPU so that
//! their ratios mean something (perf_event_open(2)). Counts; scaled where the group shared the PMU
//! with others, and unknown for a step in which it was never on it.
//!
//! Everything on the CPU is counted: load, kernel, and whatever else runs. Reading another CPU's
//! group interrupts that CPU for about a microsecond. Not seen: the hypervisor's work, and any of
//! it in a virtual machine without a PMU.

use linerate_model::series::perf_hardware;
use linerate_model::{Series, SeriesSpec};
use linerate_sys::perf::{Counter, PerfGroup, Target};

use crate::{Probe, Sampler, Scope, Unavailable};

const COUNTERS: [(Counter, Series); 3] = [
    (Counter::Cycles, perf_hardware::CYCLES),
    (Counter::Instructions, perf_hardware::INSTRUCTIONS),
    (Counter::CacheMisses, perf_hardware::CACHE_MISSES),
];

/// Hardware counters.
pub(super) const SAMPLER: Sampler = Sampler {
    name: perf_hardware::SAMPLER.text(),
    summary: "cycles, instructions and cache misses per CPU as one perf_event group, counts; not \
        in virtual machines without a PMU",
    open,
};

fn open(_scope: &Scope) -> Result<Box<dyn Probe>, Unavailable> {
    let groups = open_groups(&COUNTERS).map_err(|error| Unavailable(why(&error)))?;
    Ok(Box::new(Groups { counters: &COUNTERS, groups }))
}

/// One group per CPU; shared with `perf_software`.
pub(super) struct Groups {
    pub(super) counters: &'static [(Counter, Series)],
    pub(super) groups: Vec<(u32, PerfGroup)>,
}

impl Probe for Groups {
    fn series(&self) -> Vec<SeriesSpec> {
        let columns = || self.counters.iter().map(|(_, column)| column);
        let of_cpu = |instance: String| columns().map(move |column| column.of(&instance));
        self.groups.iter().flat_map(|(cpu, _)| of_cpu(format!("cpu{cpu}"))).collect()
    }

    fn read(&mut self, row: &mut [Option<f64>]) {
        let n_counters = self.counters.len();
        let mut values = [0.0; linerate_sys::perf::MAX_COUNTERS];
        for ((_, group), cells) in self.groups.iter_mut().zip(row.chunks_exact_mut(n_counters)) {
            // A share of zero means that the group was never on the PMU: its values would be those
            // of the last step.
            if group.read(&mut values).is_ok_and(|share| share > 0.0) {
                for (cell, value) in cells.iter_mut().zip(values) {
                    *cell = Some(value);
                }
            }
        }
    }
}

/// Opens `counters` as one group on each online CPU.
pub(super) fn open_groups(
    counters: &[(Counter, Series)],
) -> Result<Vec<(u32, PerfGroup)>, linerate_sys::SysError> {
    let stat = std::fs::read("/proc/stat");
    let stat = stat.map_err(|cause| linerate_sys::SysError::new("read", "/proc/stat", cause))?;
    let counters: Vec<Counter> = counters.iter().map(|(counter, ..)| *counter).collect();
    let open = |cpu| Ok((cpu, PerfGroup::open(Target::Cpu(cpu), &counters)?));
    super::cpu::cpus(&stat).into_iter().map(open).collect()
}

/// The kernel's answer, and what it means here.
pub(super) fn why(error: &linerate_sys::SysError) -> String {
    use std::io::ErrorKind::{NotFound, PermissionDenied, Unsupported};
    let remedy = match error.cause.kind() {
        PermissionDenied => {
            "needs CAP_PERFMON, or `sysctl kernel.perf_event_paranoid=0`, and a sandbox that \
                allows perf_event_open"
        }
        NotFound | Unsupported => {
            "this CPU offers no such counter: a virtual machine without PMU; software clocks only"
        }
        _ => "perf_event_open refused it",
    };
    format!("{error} ({remedy})")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_without_counters_says_so_plainly() {
        let error = linerate_sys::SysError::new(
            "open perf events",
            "x",
            std::io::Error::from_raw_os_error(2),
        );
        assert!(why(&error).contains("without PMU"), "{}", why(&error));
        let error = linerate_sys::SysError::new(
            "open perf events",
            "x",
            std::io::Error::from_raw_os_error(13),
        );
        assert!(why(&error).contains("perf_event_paranoid"), "{}", why(&error));
    }

    #[test]
    fn instructions_per_cycle_are_plausible_where_there_is_a_pmu() {
        let mut probe = match super::open(&Scope::default()) {
            Ok(probe) => probe,
            Err(why) => return println!("skipped: {why}"),
        };
        let mut row = vec![None; probe.series().len()];
        let mut x = 1_u64;
        for i in 0..3_000_000_u64 {
            x = std::hint::black_box(x.wrapping_mul(i | 1));
        }
        probe.read(&mut row);
        let sum = |at: usize| row.iter().skip(at).step_by(COUNTERS.len()).flatten().sum::<f64>();
        let per_cycle = sum(1) / sum(0);
        assert!((0.01..16.0).contains(&per_cycle), "{per_cycle} {row:?}");
    }
}
