//! Pages that the host brought in from swap and wrote out to it: `pswpin` and `pswpout` of
//! `/proc/vmstat`. Counts of pages.
//!
//! Not seen: whose pages they were, and pages of files, which come and go without swap.

use std::fs;

use linerate_model::series::swap;

use crate::labelled::Labelled;
use crate::{Probe, Sampler, Scope, Unavailable};

const FILE: &str = "/proc/vmstat";

pub(super) static PAGES: Labelled =
    Labelled { lines: &[("pswpin", swap::PAGES_IN), ("pswpout", swap::PAGES_OUT)], factor: 1.0 };

/// Swapping.
pub(super) const SAMPLER: Sampler = Sampler {
    name: swap::SAMPLER.text(),
    summary: "pages brought in from swap and written out to it from /proc/vmstat, counts; not \
        whose they were",
    open,
};

fn open(_scope: &Scope) -> Result<Box<dyn Probe>, Unavailable> {
    // Kernels without swap have the file but not the lines.
    let counted = fs::read(FILE).is_ok_and(|text| PAGES.all_in(&text));
    let missing =
        || Unavailable(format!("{FILE} has no lines pswpin and pswpout: a kernel without swap"));
    if counted { PAGES.open(FILE) } else { Err(missing()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_counts_are_found_among_the_other_lines() {
        assert_eq!(
            PAGES.read_any(include_bytes!("../../fixtures/vmstat-6.18")),
            [Some(1536.0), Some(20_480.0)]
        );
        assert_eq!(
            PAGES.read_any(b"nr_free_pages 9\npswpin \npswpouts 4\n"),
            [None, None],
            "a kernel without swap"
        );
    }
}
