//! Memory of the host: available, dirty and under write-back, from `/proc/meminfo` (proc_meminfo(5)). Bytes.
//!
//! Not seen: NUMA nodes, cgroup limits, socket memory, and who holds it.

use linerate_model::{SeriesSpec, Unit};

use crate::kernel_text::{KernelText, labelled};
use crate::sampler::gauge;
use crate::{Probe, Sampler, Scope, Unavailable};

const NAME: &str = "memory";

/// Line in `/proc/meminfo` and our name. `MemAvailable` came with Linux 3.14.
const LINES: [(&[u8], &str); 3] = [(b"MemAvailable:", "available"), (b"Dirty:", "dirty"), (b"Writeback:", "writeback")];

/// The file says kB and means KiB.
const BYTES_PER_KIBIBYTE: f64 = 1024.0;

/// Memory.
#[derive(Debug)]
pub(super) struct Memory;

impl Sampler for Memory {
    fn name(&self) -> &'static str {
        NAME
    }

    fn summary(&self) -> &'static str {
        "memory available, dirty and under write-back from /proc/meminfo, bytes; not who holds it"
    }

    fn open(&self, _scope: &Scope) -> Result<Box<dyn Probe>, Unavailable> {
        Ok(Box::new(Reader { text: KernelText::open("/proc/meminfo")? }))
    }
}

struct Reader {
    text: KernelText,
}

impl Probe for Reader {
    fn series(&self) -> Vec<SeriesSpec> {
        LINES.map(|(_, name)| gauge(NAME, name, "", Unit::Byte)).into()
    }

    fn read(&mut self, row: &mut [Option<f64>]) {
        if let Some(text) = self.text.read() {
            parse(text, row);
        }
    }
}

fn parse(text: &[u8], row: &mut [Option<f64>]) {
    labelled(text, &LINES, BYTES_PER_KIBIBYTE, row);
}

/// What is read of `text`, whatever it is: this kernel's own layout is looked for in it first.
pub(super) fn read_any(text: &[u8]) -> Vec<Option<f64>> {
    let mut row = vec![None; LINES.len()];
    parse(text, &mut row);
    row
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kibibytes_become_bytes() {
        let mut row = [None; 3];
        parse(include_bytes!("../../fixtures/meminfo-6.18"), &mut row);
        assert_eq!(row, [24_189_900.0 * 1024.0, 196_152.0 * 1024.0, 0.0].map(Some));
    }

    #[test]
    fn a_kernel_without_available_leaves_it_unknown() {
        let mut row = [None; 3];
        parse(include_bytes!("../../fixtures/meminfo-3.10"), &mut row);
        assert_eq!(row, [None, Some(2048.0), Some(0.0)]);
    }

    proptest::proptest! {
        #[test]
        fn hostile_text_never_panics(text in "((MemAvailable|Dirty)?:? ?[0-9a-z]{0,25} kB\n?){0,5}") {
            parse(text.as_bytes(), &mut [None; 3]);
        }
    }
}
