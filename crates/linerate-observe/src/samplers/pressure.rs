//! Pressure stall information: time tasks waited for CPU, memory or I/O, `total` of
//! `/proc/pressure/*` (accounting/psi). Nanoseconds; `some` is at least one task waiting, `full` is
//! all of them.
//!
//! Not seen: which task waited, and hosts whose kernel has PSI off (`psi=1` on its command line
//! turns it on).

use linerate_model::series::pressure;
use linerate_model::{Series, SeriesSpec};

use crate::kernel_text::{KernelText, decimal, lines, words};
use crate::{Probe, Sampler, Scope, Unavailable};

const RESOURCES: [&str; 3] = ["cpu", "io", "memory"];
const SHARES: [Series; 2] = [pressure::FULL, pressure::SOME];

/// The kernel counts microseconds.
const NANOS_PER_MICRO: f64 = 1e3;

/// Pressure stalls.
pub(super) const SAMPLER: Sampler = Sampler {
    name: pressure::SAMPLER.text(),
    summary: "time tasks stalled for cpu, io and memory from /proc/pressure, ns; not which task",
    open,
};

fn open(_scope: &Scope) -> Result<Box<dyn Probe>, Unavailable> {
    // All three files exist or none does, so the first that is missing explains all.
    Ok(Box::new(Reader {
        texts: [open_file(RESOURCES[0])?, open_file(RESOURCES[1])?, open_file(RESOURCES[2])?],
    }))
}

fn open_file(resource: &str) -> Result<KernelText, Unavailable> {
    KernelText::open(&format!("/proc/pressure/{resource}")).map_err(|Unavailable(why)| {
        Unavailable(format!(
            "{why} (the kernel needs CONFIG_PSI, and `psi=1` where it is off by default)"
        ))
    })
}

struct Reader {
    texts: [KernelText; RESOURCES.len()],
}

impl Probe for Reader {
    fn series(&self) -> Vec<SeriesSpec> {
        let of_resource = |resource| SHARES.map(|share| share.of(resource));
        RESOURCES.iter().flat_map(|resource| of_resource(resource)).collect()
    }

    fn read(&mut self, row: &mut [Option<f64>]) {
        for (text, cells) in self.texts.iter_mut().zip(row.chunks_exact_mut(SHARES.len())) {
            if let Some(text) = text.read() {
                parse(text, cells);
            }
        }
    }
}

fn parse(text: &[u8], row: &mut [Option<f64>]) {
    for line in lines(text) {
        let share = words(line).next().unwrap_or_default();
        let Some(at) = SHARES.iter().position(|wanted| wanted.name.as_bytes() == share) else {
            continue;
        };
        // Averages come first in the line; only the total can be differenced.
        let total = words(line).find_map(|word| word.strip_prefix(b"total="));
        row[at] = total.and_then(decimal).map(|micros| micros as f64 * NANOS_PER_MICRO);
    }
}

/// Reads `text`, which may be anything, after looking for this kernel's own layout in it.
pub(super) fn read_any(text: &[u8]) -> Vec<Option<f64>> {
    let mut row = vec![None; SHARES.len()];
    parse(text, &mut row);
    row
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_are_read_whatever_stands_before_them() {
        let mut row = [None; 2];
        parse(include_bytes!("../../fixtures/pressure_io-6.18"), &mut row);
        assert_eq!(row, [13_857_233_000.0, 16_673_924_000.0].map(Some));
    }

    #[test]
    fn cpu_pressure_before_5_13_has_no_full() {
        let mut row = [None; 2];
        parse(include_bytes!("../../fixtures/pressure_cpu-5.4"), &mut row);
        assert_eq!(row, [None, Some(1_234_567_000.0)]);
    }
}
