//! Counters the kernel keeps in 32 bits, continued beyond their wrap.

/// Follows a counter that wraps at 2^32; right as long as it is read at least once per wrap.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Wrapping {
    last: Option<u32>,
    total: u64,
}

impl Wrapping {
    /// Takes a reading of the low 32 bits; returns the count since the kernel's zero at the first
    /// reading.
    pub(crate) fn advance(&mut self, reading: u32) -> f64 {
        self.total = match self.last {
            // The first reading counts from the kernel's zero: it is the low half of what a wide
            // counter would show.
            None => u64::from(reading),
            // At most one wrap is assumed between two readings.
            Some(last) => self.total + u64::from(reading.wrapping_sub(last)),
        };
        self.last = Some(reading);
        self.total as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrap_continues_the_count() {
        let mut counter = Wrapping::default();
        assert_eq!(counter.advance(u32::MAX - 1), 4_294_967_294.0);
        assert_eq!(counter.advance(3), 4_294_967_299.0);
        assert_eq!(counter.advance(3), 4_294_967_299.0);
    }
}
