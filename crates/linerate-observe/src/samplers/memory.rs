//! Memory of the host: available, dirty and under write-back, from `/proc/meminfo`
//! (proc_meminfo(5)). Bytes.
//!
//! Not seen: NUMA nodes, cgroup limits, socket memory, and who holds it.

use linerate_model::series::memory;

use crate::labelled::Labelled;
use crate::{Probe, Sampler, Scope, Unavailable};

/// The file says kB and means KiB.
const BYTES_PER_KIBIBYTE: f64 = 1024.0;

/// `MemAvailable` came with Linux 3.14.
pub(super) static AMOUNTS: Labelled = Labelled {
    lines: &[
        ("MemAvailable:", memory::AVAILABLE),
        ("Dirty:", memory::DIRTY),
        ("Writeback:", memory::WRITEBACK),
    ],
    factor: BYTES_PER_KIBIBYTE,
};

/// Memory.
pub(super) const SAMPLER: Sampler = Sampler {
    name: memory::SAMPLER.text(),
    summary: "memory available, dirty and under write-back from /proc/meminfo, bytes; not who \
        holds it",
    open,
};

fn open(_scope: &Scope) -> Result<Box<dyn Probe>, Unavailable> {
    AMOUNTS.open("/proc/meminfo")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kibibytes_become_bytes() {
        let row = AMOUNTS.read_any(include_bytes!("../../fixtures/meminfo-6.18"));
        assert_eq!(row, [24_189_900.0 * 1024.0, 196_152.0 * 1024.0, 0.0].map(Some));
    }

    #[test]
    fn a_kernel_without_available_leaves_it_unknown() {
        let row = AMOUNTS.read_any(include_bytes!("../../fixtures/meminfo-3.10"));
        assert_eq!(row, [None, Some(2048.0), Some(0.0)]);
    }
}
