//! The per-CPU receive path: packets processed, packets dropped because the backlog was full, and
//! times the softirq ran out of its budget with packets waiting (`squeezed`), from
//! `/proc/net/softnet_stat`. Counts, kept by the kernel in 32 bits and continued here.
//!
//! Not seen: packets that busy polling or XDP took first, and drops before the host (see
//! `interface`, `ethtool`).

use linerate_model::series::softnet;
use linerate_model::{Series, SeriesSpec};

use crate::kernel_text::{KernelText, hexadecimal, lines, words};
use crate::wrapping::Wrapping;
use crate::{Probe, Sampler, Scope, Unavailable};

const COUNTS: [Series; 3] = [softnet::PROCESSED, softnet::DROPPED, softnet::SQUEEZED];

/// Position of the CPU's number in a line, since Linux 5.10; before it, lines are the online CPUs
/// in order.
const CPU_FIELD: usize = 12;

/// The receive path.
pub(super) const SAMPLER: Sampler = Sampler {
    name: softnet::SAMPLER.text(),
    summary: "packets processed and dropped and softirq budgets exhausted per CPU from \
        /proc/net/softnet_stat, counts; not drops before the host",
    open,
};

fn open(_scope: &Scope) -> Result<Box<dyn Probe>, Unavailable> {
    // `/proc/net` is a link to the process; `thread-self` shows the namespace of this thread.
    let mut text = KernelText::open("/proc/thread-self/net/softnet_stat")?;
    let online = super::cpu::cpus(&std::fs::read("/proc/stat").unwrap_or_default());
    let cpus = text.read().map(|text| cpus(text, &online)).unwrap_or_default();
    if cpus.is_empty() {
        return Err(Unavailable("/proc/net/softnet_stat is empty".to_owned()));
    }
    let counts = vec![Wrapping::default(); cpus.len() * COUNTS.len()];
    Ok(Box::new(Reader { text, cpus, counts }))
}

struct Reader {
    text: KernelText,
    cpus: Vec<u32>,
    counts: Vec<Wrapping>,
}

impl Probe for Reader {
    fn series(&self) -> Vec<SeriesSpec> {
        let of_cpu = |cpu: &u32| COUNTS.map(|column| column.of(&format!("cpu{cpu}")));
        self.cpus.iter().flat_map(of_cpu).collect()
    }

    fn read(&mut self, row: &mut [Option<f64>]) {
        if let Some(text) = self.text.read() {
            parse(text, &self.cpus, &mut self.counts, row);
        }
    }
}

/// The CPU of each line.
fn cpus(text: &[u8], online: &[u32]) -> Vec<u32> {
    // Before Linux 5.10 the number is missing, and lines are the online CPUs in their order.
    let numbered = |(at, line)| cpu_of(line).or_else(|| online.get(at).copied());
    lines(text).enumerate().map_while(numbered).collect()
}

fn cpu_of(line: &[u8]) -> Option<u32> {
    hexadecimal(words(line).nth(CPU_FIELD)?)?.try_into().ok()
}

fn parse(text: &[u8], cpus: &[u32], counts: &mut [Wrapping], row: &mut [Option<f64>]) {
    for (at, line) in lines(text).enumerate() {
        let place = match cpu_of(line) {
            Some(cpu) => cpus.iter().position(|&wanted| wanted == cpu),
            None => (at < cpus.len()).then_some(at),
        };
        // A CPU that came online later has no columns.
        let Some(cpu_idx) = place else { continue };
        let cells =
            row.iter_mut().zip(counts.iter_mut()).skip(cpu_idx * COUNTS.len()).take(COUNTS.len());
        for ((cell, count), word) in cells.zip(words(line)) {
            *cell = hexadecimal(word).map(|reading| count.advance(reading as u32));
        }
    }
}

/// Reads `text`, which may be anything, after looking for this kernel's own layout in it.
pub(super) fn read_any(text: &[u8]) -> Vec<Option<f64>> {
    let cpus = cpus(text, &[0, 1]);
    let mut counts = vec![Wrapping::default(); cpus.len() * COUNTS.len()];
    let mut row = vec![None; counts.len()];
    parse(text, &cpus, &mut counts, &mut row);
    row
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_with_a_cpu_number_are_placed_by_it() {
        let text = include_bytes!("../../fixtures/softnet_stat-6.18");
        let cpus = cpus(text, &[]);
        assert_eq!(cpus, [0, 1]);
        let mut row = [None; 6];
        parse(text, &cpus, &mut [Wrapping::default(); 6], &mut row);
        assert_eq!(row, [15.0, 0.0, 0.0, 5911.0, 0.0, 0.0].map(Some));
        // CPU 0 went offline: the only line is CPU 1's.
        let second = text.split(|&byte| byte == b'\n').nth(1).unwrap();
        let mut row = [None; 6];
        parse(second, &cpus, &mut [Wrapping::default(); 6], &mut row);
        assert_eq!((row[0], row[3]), (None, Some(5911.0)));
    }

    #[test]
    fn older_lines_are_the_online_cpus_in_order() {
        let text = include_bytes!("../../fixtures/softnet_stat-4.19");
        let cpus = cpus(text, &[0, 2]);
        assert_eq!(cpus, [0, 2]);
        let mut row = [None; 6];
        parse(text, &cpus, &mut [Wrapping::default(); 6], &mut row);
        assert_eq!(
            row,
            [0x6d3f_1a2b_u32, 0x12, 0x3a, 0x5c00_0001, 0, 2].map(|n| Some(f64::from(n)))
        );
    }
}
