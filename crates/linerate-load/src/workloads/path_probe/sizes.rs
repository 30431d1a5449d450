//! Search for the largest datagram that passes: bisection over payload sizes (RFC 8899 clause 5.3).

/// Bisection between a size that passes and one that does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SizeSearch {
    /// Largest size that is known or assumed to pass.
    passes: usize,
    /// Smallest size that is known or assumed not to pass.
    fails: usize,
    /// True once a size was tried: the largest is tried first, as it usually passes.
    has_tried: bool,
    /// True once a size was answered.
    has_passed: bool,
}

impl SizeSearch {
    /// Creates a search from `least`, which is assumed to pass, to `most`.
    pub(super) fn new(least: usize, most: usize) -> Self {
        let least = least.min(most);
        Self { passes: least, fails: most + 1, has_tried: false, has_passed: false }
    }

    /// Returns the size to try next; `None` when the boundary is found.
    pub(super) fn size(&self) -> Option<usize> {
        match (self.has_tried, self.fails - self.passes) {
            (false, _) => Some(self.fails - 1),
            (true, 1) => None,
            (true, gap) => Some(self.passes + gap / 2),
        }
    }

    /// Records whether `size` passed.
    pub(super) fn record(&mut self, size: usize, passed: bool) {
        self.has_tried = true;
        self.has_passed |= passed;
        if passed {
            self.passes = self.passes.max(size);
        } else {
            self.fails = self.fails.min(size).max(self.passes + 1);
        }
    }

    /// Returns the largest size that passes, or is assumed to.
    pub(super) fn largest(&self) -> usize {
        self.passes
    }

    /// Returns the largest size that was answered.
    pub(super) fn answered(&self) -> Option<usize> {
        self.has_passed.then_some(self.passes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Searches a path that passes `mtu` bytes; returns the result and the sizes tried.
    fn search(least: usize, most: usize, mtu: usize) -> (Option<usize>, usize) {
        let mut search = SizeSearch::new(least, most);
        let mut tried = 0;
        while let Some(size) = search.size() {
            search.record(size, size <= mtu);
            tried += 1;
            assert!(tried < 20, "{search:?}");
        }
        (search.answered(), tried)
    }

    #[test]
    fn every_size_is_found_to_the_byte_in_few_tries() {
        for mtu in 484..=1472 {
            let (found, tried) = search(484, 1472, mtu);
            // The least size is assumed and not tried.
            assert_eq!(found, (mtu > 484).then_some(mtu), "{mtu}");
            assert!(tried <= 12, "{mtu}: {tried}");
        }
        assert_eq!(search(484, 8972, 1392), (Some(1392), 14));
        assert_eq!(search(484, 1472, 1472), (Some(1472), 1));
        assert_eq!(search(484, 1472, 0).0, None);
    }
}
