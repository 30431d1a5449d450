//! Cycles, instructions, misses of the last-level cache and of the level-1 data cache per CPU, one
//! counter group per CPU so that their ratios mean something (perf_event_open(2)). Counts; scaled
//! where the group shared the PMU with others, and unknown for a step in which it was never on it.
//! A PMU that lacks one of them, or room for all at once, gives the others: some virtual machines
//! and small ARM cores count no cache misses.
//!
//! Everything on the CPU is counted: load, kernel, and whatever else runs. Reading another CPU's
//! group interrupts that CPU for about a microsecond. Not seen: the hypervisor's work, and any of
//! it in a virtual machine without a PMU.

use linerate_model::series::perf_hardware;
use linerate_model::{Series, SeriesSpec};
use linerate_sys::SysError;
use linerate_sys::perf::{Counter, PerfGroup, Target};

use crate::{Probe, Sampler, Scope, Unavailable};

const COUNTERS: [(Counter, Series); 4] = [
    (Counter::Cycles, perf_hardware::CYCLES),
    (Counter::Instructions, perf_hardware::INSTRUCTIONS),
    (Counter::CacheMisses, perf_hardware::CACHE_MISSES),
    // The last one: where four do not fit, the others are those that rules of the diagnosis read.
    (Counter::L1DataMisses, perf_hardware::L1_DATA_MISSES),
];

/// Hardware counters.
pub(super) const SAMPLER: Sampler = Sampler {
    name: perf_hardware::SAMPLER.text(),
    summary: "cycles, instructions, last-level and level-1 data cache misses per CPU as one \
        perf_event group, counts; not in virtual machines without a PMU",
    open,
};

fn open(_scope: &Scope) -> Result<Box<dyn Probe>, Unavailable> {
    open_groups(&COUNTERS)
}

/// One group per CPU.
struct Groups {
    counters: Vec<(Counter, Series)>,
    groups: Vec<(u32, PerfGroup)>,
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

/// Opens those of `counters` that the machine has as one group on each online CPU.
pub(super) fn open_groups(counters: &[(Counter, Series)]) -> Result<Box<dyn Probe>, Unavailable> {
    let stat = std::fs::read("/proc/stat");
    let stat = stat.map_err(|cause| Unavailable(format!("read /proc/stat: {cause}")))?;
    let cpus = super::cpu::cpus(&stat);
    let first = cpus.first().copied().unwrap_or(0);
    let refused = |error| Unavailable(why(&error));
    let counters = available(counters, |group| on(first, group).map(|_| ())).map_err(refused)?;
    let open = |cpu| Ok((cpu, on(cpu, &counters)?));
    let groups = cpus.into_iter().map(open).collect::<Result<_, _>>().map_err(refused)?;
    Ok(Box::new(Groups { counters, groups }))
}

fn on(cpu: u32, group: &[(Counter, Series)]) -> Result<PerfGroup, SysError> {
    let group: Vec<Counter> = group.iter().map(|(counter, _)| *counter).collect();
    PerfGroup::open(Target::Cpu(cpu), &group)
}

/// Returns the counters that can run together, in their order; the first refusal if there are none.
fn available(
    counters: &[(Counter, Series)],
    open: impl Fn(&[(Counter, Series)]) -> Result<(), SysError>,
) -> Result<Vec<(Counter, Series)>, SysError> {
    let (mut group, mut refusal) = (Vec::new(), None);
    for counter in counters {
        group.push(*counter);
        if let Err(error) = open(&group) {
            group.pop();
            refusal.get_or_insert(error);
        }
    }
    match refusal {
        Some(error) if group.is_empty() => Err(error),
        _ => Ok(group),
    }
}

/// The kernel's answer, and what it means here.
fn why(error: &SysError) -> String {
    use std::io::ErrorKind::{NotFound, PermissionDenied, Unsupported};
    let remedy = match error.cause.kind() {
        PermissionDenied => {
            "needs CAP_PERFMON, or `sysctl kernel.perf_event_paranoid=0`, and a sandbox that \
                allows perf_event_open"
        }
        NotFound | Unsupported => {
            "the machine has none of these counters, as a virtual machine without PMU; software \
                clocks only"
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
        let error = SysError::new("open perf events", "x", std::io::Error::from_raw_os_error(2));
        assert!(why(&error).contains("without PMU"), "{}", why(&error));
        let error = SysError::new("open perf events", "x", std::io::Error::from_raw_os_error(13));
        assert!(why(&error).contains("perf_event_paranoid"), "{}", why(&error));
    }

    #[test]
    fn a_missing_counter_leaves_the_others() {
        let names = |group: &[(Counter, Series)]| {
            group.iter().map(|(counter, _)| *counter).collect::<Vec<_>>()
        };
        let missing = |lacks: fn(&[Counter]) -> bool| {
            available(&COUNTERS, |group| match lacks(&names(group)) {
                true => Err(SysError::new(
                    "open perf events",
                    "x",
                    std::io::Error::from_raw_os_error(2),
                )),
                false => Ok(()),
            })
        };
        let [cycles, instructions, misses, l1] = COUNTERS.map(|(counter, _)| counter);
        let found = |lacks| names(&missing(lacks).expect("some counters"));
        assert_eq!(found(|_| false), [cycles, instructions, misses, l1]);
        let lacks_last = |group: &[Counter]| group.contains(&Counter::CacheMisses);
        assert_eq!(found(lacks_last), [cycles, instructions, l1]);
        let lacks_l1 = |group: &[Counter]| group.contains(&Counter::L1DataMisses);
        assert_eq!(found(lacks_l1), [cycles, instructions, misses]);
        assert_eq!(found(|group| group.len() > 3), [cycles, instructions, misses], "no room");
        let lacks_cycles = |group: &[Counter]| group.contains(&Counter::Cycles);
        assert_eq!(found(lacks_cycles), [instructions, misses, l1]);
        assert_eq!(found(|group| group.len() > 1), [cycles]);
        let none = missing(|_| true).expect_err("no counter");
        assert_eq!(none.errno(), Some(2));
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
        let series = probe.series();
        let sum = |wanted: &Series| -> Option<f64> {
            let cells = series.iter().zip(&row);
            cells.filter(|(series, _)| series.name() == wanted.name).map(|(_, cell)| *cell).sum()
        };
        let sums = [&perf_hardware::INSTRUCTIONS, &perf_hardware::CYCLES].map(sum);
        let [Some(instructions), Some(cycles)] = sums else {
            return println!("skipped: the PMU counts only one of cycles and instructions");
        };
        let per_cycle = instructions / cycles;
        assert!((0.01..16.0).contains(&per_cycle), "{per_cycle} {row:?}");
    }
}
