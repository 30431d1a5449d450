//! Pages that the host brought in from swap and wrote out to it: `pswpin` and `pswpout` of `/proc/vmstat`. Counts of pages.
//!
//! Not seen: whose pages they were, and pages of files, which come and go without swap.

use linerate_model::{SeriesSpec, Unit};

use crate::kernel_text::{KernelText, labelled};
use crate::sampler::counter;
use crate::{Probe, Sampler, Scope, Unavailable};

const NAME: &str = "swap";

/// Line in `/proc/vmstat` and our name.
const LINES: [(&[u8], &str); 2] = [(b"pswpin", "pages_in"), (b"pswpout", "pages_out")];

/// Swapping.
#[derive(Debug)]
pub(super) struct Swap;

impl Sampler for Swap {
    fn name(&self) -> &'static str {
        NAME
    }

    fn summary(&self) -> &'static str {
        "pages brought in from swap and written out to it from /proc/vmstat, counts; not whose they were"
    }

    fn open(&self, _scope: &Scope) -> Result<Box<dyn Probe>, Unavailable> {
        let mut text = KernelText::open("/proc/vmstat")?;
        let found = text.read().map_or(0, |text| read_any(text).into_iter().flatten().count());
        let missing = || Unavailable("/proc/vmstat has no lines pswpin and pswpout: a kernel without swap".to_owned());
        if found == LINES.len() { Ok(Box::new(Reader { text })) } else { Err(missing()) }
    }
}

struct Reader {
    text: KernelText,
}

impl Probe for Reader {
    fn series(&self) -> Vec<SeriesSpec> {
        LINES.map(|(_, name)| counter(NAME, name, "", Unit::Count)).into()
    }

    fn read(&mut self, row: &mut [Option<f64>]) {
        if let Some(text) = self.text.read() {
            parse(text, row);
        }
    }
}

fn parse(text: &[u8], row: &mut [Option<f64>]) {
    labelled(text, &LINES, 1.0, row);
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
    fn both_counts_are_found_among_the_other_lines() {
        assert_eq!(read_any(include_bytes!("../../fixtures/vmstat-6.18")), [Some(1536.0), Some(20_480.0)]);
        assert_eq!(read_any(b"nr_free_pages 9\npswpin \npswpouts 4\n"), [None, None], "a kernel without swap");
    }

    proptest::proptest! {
        #[test]
        fn hostile_text_never_panics(text in "(pswp(in|out)? ?[0-9x -]{0,30}\n?){0,5}") {
            read_any(text.as_bytes());
        }
    }
}
