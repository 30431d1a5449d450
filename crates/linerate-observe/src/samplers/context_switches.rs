//! Context switches of the whole host: `ctxt` of `/proc/stat` (proc_stat(5)). A count.
//!
//! Not seen: who switched, why, or on which CPU.

use linerate_model::SeriesSpec;
use linerate_model::series::context_switches;

use crate::kernel_text::{KernelText, decimal, lines, words};
use crate::{Probe, Sampler, Scope, Unavailable};

/// Context switches.
pub(super) const SAMPLER: Sampler = Sampler {
    name: context_switches::SAMPLER.text(),
    summary: "context switches of the host from /proc/stat, a count; not who switched or why",
    open,
};

fn open(_scope: &Scope) -> Result<Box<dyn Probe>, Unavailable> {
    let mut text = KernelText::open("/proc/stat")?;
    let found = text.read().and_then(parse).is_some();
    let missing = || Unavailable("/proc/stat has no line `ctxt`".to_owned());
    if found { Ok(Box::new(Reader { text })) } else { Err(missing()) }
}

struct Reader {
    text: KernelText,
}

impl Probe for Reader {
    fn series(&self) -> Vec<SeriesSpec> {
        vec![context_switches::SWITCHES.of("")]
    }

    fn read(&mut self, row: &mut [Option<f64>]) {
        row[0] = self.text.read().and_then(parse).map(|switches| switches as f64);
    }
}

fn parse(text: &[u8]) -> Option<u64> {
    // A prefix with a blank: other lines could begin with the same letters.
    let line = lines(text).find_map(|line| line.strip_prefix(b"ctxt "))?;
    decimal(words(line).next()?)
}

/// Reads `text`, which may be anything, after looking for this kernel's own layout in it.
pub(super) fn read_any(text: &[u8]) -> Vec<Option<f64>> {
    vec![parse(text).map(|count| count as f64)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_count_is_found_among_the_other_lines() {
        assert_eq!(parse(include_bytes!("../../fixtures/stat-6.18")), Some(924_966));
        assert_eq!(parse(include_bytes!("../../fixtures/stat-2.6.32")), Some(115_315));
        assert_eq!(parse(b"cpu 1 2\n"), None);
    }
}
