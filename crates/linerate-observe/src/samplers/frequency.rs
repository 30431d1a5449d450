//! Clock frequency per CPU: `scaling_cur_freq` of cpufreq (admin-guide/pm/cpufreq). Hertz, as the
//! governor's driver estimates it since its own last look.
//!
//! Not seen: virtual machines (no cpufreq), idle states, and what happens between two looks.

use linerate_model::SeriesSpec;
use linerate_model::series::frequency;

use crate::kernel_text::{KernelText, decimal, words};
use crate::{Probe, Sampler, Scope, Unavailable};

/// The kernel prints kHz.
const HERTZ_PER_KILOHERTZ: f64 = 1e3;

/// Clock frequency.
pub(super) const SAMPLER: Sampler = Sampler {
    name: frequency::SAMPLER.text(),
    summary: "clock frequency per CPU from cpufreq in sysfs, Hz as the driver estimates it; not in \
        most virtual machines",
    open,
};

fn open(_scope: &Scope) -> Result<Box<dyn Probe>, Unavailable> {
    // Read again on every tick, so the files of all CPUs stay open.
    let cpus = super::cpu::cpus(&std::fs::read("/proc/stat").unwrap_or_default());
    let path = |cpu: u32| format!("/sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_cur_freq");
    let texts: Vec<_> =
        cpus.iter().filter_map(|&cpu| Some((cpu, KernelText::open(&path(cpu)).ok()?))).collect();
    if texts.is_empty() {
        let why = "no CPU has cpufreq in /sys/devices/system/cpu (a virtual machine, or no \
            cpufreq driver)";
        return Err(Unavailable(why.to_owned()));
    }
    Ok(Box::new(Reader { texts }))
}

struct Reader {
    texts: Vec<(u32, KernelText)>,
}

impl Probe for Reader {
    fn series(&self) -> Vec<SeriesSpec> {
        self.texts.iter().map(|(cpu, _)| frequency::FREQUENCY.of(&format!("cpu{cpu}"))).collect()
    }

    fn read(&mut self, row: &mut [Option<f64>]) {
        for ((_, text), cell) in self.texts.iter_mut().zip(row) {
            *cell = text.read().and_then(parse);
        }
    }
}

fn parse(text: &[u8]) -> Option<f64> {
    Some(decimal(words(text).next()?)? as f64 * HERTZ_PER_KILOHERTZ)
}

/// Reads `text`, which may be anything, after looking for this kernel's own layout in it.
pub(super) fn read_any(text: &[u8]) -> Vec<Option<f64>> {
    vec![parse(text)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kilohertz_become_hertz_and_unknown_stays_unknown() {
        assert_eq!(parse(include_bytes!("../../fixtures/scaling_cur_freq")), Some(2.4e9));
        assert_eq!(parse(b"<unknown>\n"), None);
        assert_eq!(parse(b""), None);
    }
}
