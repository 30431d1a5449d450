//! CPU time by use, per CPU: `cpuN` lines of `/proc/stat` (proc_stat(5)). Nanoseconds, in steps of
//! one tick of USER_HZ (10 ms), so a figure over less than a second is coarse.
//!
//! `user` includes time given to guests. `softirq` is where packets are received; time in ksoftirqd
//! counts as `system`. Not seen: which thread, and interrupt time on kernels built without fine
//! accounting, which lands on whatever ran. `iowait` may decrease.

use linerate_model::series::cpu;
use linerate_model::{Series, SeriesSpec};

use crate::kernel_text::{KernelText, decimal, lines, suffix_number, words};
use crate::{Probe, Sampler, Scope, Unavailable};

/// The columns of a `cpuN` line, in their order; kernels before 2.6.11 end before `steal`.
const USES: &[Series] = cpu::ALL;

/// CPU time by use.
pub(super) const SAMPLER: Sampler = Sampler {
    name: cpu::SAMPLER.text(),
    summary: "user, nice, system, idle, iowait, irq, softirq and steal time per CPU from \
        /proc/stat, ns in steps of 10 ms; not which thread",
    open,
};

fn open(_scope: &Scope) -> Result<Box<dyn Probe>, Unavailable> {
    let mut text = KernelText::open("/proc/stat")?;
    let cpus = text.read().map(cpus).unwrap_or_default();
    if cpus.is_empty() {
        return Err(Unavailable("/proc/stat has no line `cpu0`".to_owned()));
    }
    let tick_ns = 1e9 / rustix::param::clock_ticks_per_second() as f64;
    Ok(Box::new(Reader { text, cpus, tick_ns }))
}

struct Reader {
    text: KernelText,
    cpus: Vec<u32>,
    tick_ns: f64,
}

impl Probe for Reader {
    fn series(&self) -> Vec<SeriesSpec> {
        let of_cpu = |instance: String| USES.iter().map(move |column| column.of(&instance));
        self.cpus.iter().flat_map(|cpu| of_cpu(format!("cpu{cpu}"))).collect()
    }

    fn read(&mut self, row: &mut [Option<f64>]) {
        if let Some(text) = self.text.read() {
            parse(text, &self.cpus, self.tick_ns, row);
        }
    }
}

/// The CPUs listed, ascending: those online.
pub(super) fn cpus(text: &[u8]) -> Vec<u32> {
    lines(text).filter_map(|line| suffix_number(words(line).next()?, b"cpu")).collect()
}

fn parse(text: &[u8], cpus: &[u32], tick_ns: f64, row: &mut [Option<f64>]) {
    // The first line is the sum; the CPUs follow, and nothing after them is of interest.
    for line in lines(text).skip(1) {
        let mut words = words(line);
        let Some(cpu) = words.next().and_then(|word| suffix_number(word, b"cpu")) else { break };
        // A CPU that came online later has no columns.
        let Ok(cpu_idx) = cpus.binary_search(&cpu) else { continue };
        for (cell, word) in row.iter_mut().skip(cpu_idx * USES.len()).take(USES.len()).zip(words) {
            *cell = decimal(word).map(|ticks| ticks as f64 * tick_ns);
        }
    }
}

/// Reads `text`, which may be anything, after looking for this kernel's own layout in it.
pub(super) fn read_any(text: &[u8]) -> Vec<Option<f64>> {
    /// USER_HZ of every Linux that matters here: 100.
    const TICK_NS: f64 = 1e7;
    let cpus = cpus(text);
    let mut row = vec![None; cpus.len() * USES.len()];
    parse(text, &cpus, TICK_NS, &mut row);
    row
}

#[cfg(test)]
mod tests {
    use super::*;

    const TICK_NS: f64 = 1e7;

    #[test]
    fn each_cpu_has_its_eight_uses() {
        let text = include_bytes!("../../fixtures/stat-6.18");
        let cpus = cpus(text);
        assert_eq!(cpus, [0, 1]);
        let mut row = [None; 16];
        parse(text, &cpus, TICK_NS, &mut row);
        let expected = [54226, 0, 5736, 136_074, 930, 0, 99, 6828]
            .map(|ticks: u32| Some(f64::from(ticks) * TICK_NS));
        assert_eq!(row[..8], expected);
        assert_eq!(row[15], Some(6968.0 * TICK_NS));
    }

    #[test]
    fn an_old_kernel_without_steal_leaves_it_unknown() {
        let text = b"cpu 4 0 2 9 1 0 0\ncpu0 4 0 2 9 1 0 0\nintr 5\n";
        let mut row = [None; 8];
        parse(text, &[0], TICK_NS, &mut row);
        assert_eq!((row[6], row[7]), (Some(0.0), None));
    }

    #[test]
    fn a_cpu_gone_offline_is_unknown_and_its_neighbours_stay_in_place() {
        let text = b"cpu 1 1 1 1 1 1 1 1\ncpu0 1 1 1 1 1 1 1 1\ncpu2 7 7 7 7 7 7 7 7\n";
        let mut row = [None; 24];
        parse(text, &[0, 1, 2], 1.0, &mut row);
        assert_eq!((row[0], row[8], row[16]), (Some(1.0), None, Some(7.0)));
    }

    proptest::proptest! {
        #[test]
        fn hostile_text_never_panics(text in "(cpu[0-9]{0,12}( [0-9a-z]{0,22}){0,12}\n?){0,6}") {
            let mut row = [None; 16];
            parse(text.as_bytes(), &[0, 1], TICK_NS, &mut row);
            let _ = cpus(text.as_bytes());
        }
    }
}
