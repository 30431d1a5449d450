//! Sequence numbers of received datagrams: new, repeated, out of order, or too late to decide.
//!
//! Numbers are 64-bit and never wrap. A bitmap remembers the last 65 536 numbers exactly. An older
//! number is *late*: it counted as lost when the window passed it. Reordering is counted as in RFC
//! 4737 clause 3: a new datagram is reordered if one with a higher number came before it. The
//! numbers do not show *where* a datagram was lost.

/// Numbers the window remembers; a power of two. At ten million datagrams a second it spans 6 ms.
const WINDOW: u64 = 1 << 16;
const WORD_BITS: u64 = u64::BITS as u64;

/// Kind of an arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// The first of its number, and no higher one came before.
    InOrder,
    /// The first of its number, after a higher one.
    Reordered,
    /// Its number had been seen.
    Duplicate,
    /// Its number had counted as lost.
    Late,
}

/// The numbers seen of one flow.
#[derive(Debug)]
pub struct Sequence {
    /// Bit `n % WINDOW` is set if `n` was seen, for the `WINDOW` numbers below `next`.
    seen: Box<[u64]>,
    next: u64,
    /// Numbers that left the window unseen and have not arrived since.
    given_up: u64,
}

impl Default for Sequence {
    fn default() -> Self {
        Self {
            seen: vec![0; (WINDOW / WORD_BITS) as usize].into_boxed_slice(),
            next: 0,
            given_up: 0,
        }
    }
}

impl Sequence {
    /// The highest number seen, plus one; 0 if none was.
    #[must_use]
    pub fn next(&self) -> u64 {
        self.next
    }

    /// Records `number`. O(1), except that a jump ahead costs its length, at most the window's.
    #[inline]
    pub fn observe(&mut self, number: u64) -> Arrival {
        if number >= self.next {
            self.skip_to(number);
            self.leave_window(number);
            self.mark(number);
            self.next = number.saturating_add(1);
            Arrival::InOrder
        } else if self.next - number > WINDOW {
            // A repetition of such an old number looks like a late arrival. There are never more
            // late arrivals than numbers counted as lost, so the ledger balances.
            if self.given_up == 0 {
                return Arrival::Duplicate;
            }
            self.given_up -= 1;
            Arrival::Late
        } else if self.is_marked(number) {
            Arrival::Duplicate
        } else {
            self.mark(number);
            Arrival::Reordered
        }
    }

    /// Moves the window so that it ends below `number`, with nothing seen in between.
    #[inline]
    fn skip_to(&mut self, number: u64) {
        let jump = number - self.next;
        if jump >= WINDOW {
            let remembered = self.next.min(WINDOW);
            let seen: u64 = self.seen.iter().map(|word| u64::from(word.count_ones())).sum();
            // Numbers that were never in the window are lost at once, without visiting each.
            self.given_up += remembered - seen + (jump - WINDOW);
            self.seen.fill(0);
        } else {
            for skipped in self.next..number {
                self.leave_window(skipped);
                self.seen[word(skipped)] &= !bit(skipped);
            }
        }
        self.next = number;
    }

    /// The number whose place `number` takes leaves the window.
    #[inline]
    fn leave_window(&mut self, number: u64) {
        self.given_up += u64::from(number >= WINDOW && !self.is_marked(number));
    }

    #[inline]
    fn is_marked(&self, number: u64) -> bool {
        self.seen[word(number)] & bit(number) != 0
    }

    #[inline]
    fn mark(&mut self, number: u64) {
        self.seen[word(number)] |= bit(number);
    }
}

#[inline]
fn word(number: u64) -> usize {
    (number % WINDOW / WORD_BITS) as usize
}

#[inline]
fn bit(number: u64) -> u64 {
    1 << (number % WORD_BITS)
}

#[cfg(test)]
mod tests {
    use super::Arrival::{Duplicate, InOrder, Late, Reordered};
    use super::*;

    fn arrivals(numbers: impl IntoIterator<Item = u64>) -> (Vec<Arrival>, Sequence) {
        let mut sequence = Sequence::default();
        (numbers.into_iter().map(|number| sequence.observe(number)).collect(), sequence)
    }

    #[test]
    fn each_arrival_is_named() {
        let (seen, sequence) = arrivals([0, 1, 3, 2, 2, 1, 4]);
        assert_eq!(seen, [InOrder, InOrder, InOrder, Reordered, Duplicate, Duplicate, InOrder]);
        assert_eq!(sequence.next(), 5);
    }

    #[test]
    fn the_window_is_exact_to_its_last_number() {
        let (seen, mut sequence) = arrivals([0, WINDOW]);
        assert_eq!(seen, [InOrder, InOrder]);
        assert_eq!(sequence.observe(1), Reordered);
        assert_eq!(
            sequence.observe(0),
            Duplicate,
            "0 was seen, so it did not count as lost and cannot be late"
        );
        assert_eq!(sequence.observe(WINDOW + 3), InOrder);
        // 1 was seen; 2 and 3 left the window unseen.
        assert_eq!(
            [sequence.observe(2), sequence.observe(3), sequence.observe(2)],
            [Late, Late, Duplicate]
        );
    }

    #[test]
    fn numbers_given_up_in_a_long_jump_are_late_when_they_come() {
        let (_, mut sequence) = arrivals([5, 10 * WINDOW]);
        // Of 0..=9*WINDOW all but 5 counted as lost.
        assert_eq!(sequence.given_up, 9 * WINDOW);
        assert_eq!(sequence.observe(0), Late);
        assert_eq!(sequence.observe(9 * WINDOW + 1), Reordered);
        assert_eq!(sequence.observe(10 * WINDOW), Duplicate);
    }

    #[test]
    fn the_counts_balance_whatever_arrives() {
        // A congruential generator with jumps, repeats and strays (Knuth's MMIX constants).
        let mut state = 1_u64;
        let mut sequence = Sequence::default();
        let (mut unique, mut late, mut base) = (0, 0, 0_u64);
        for _ in 0..200_000 {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            base += u64::from(state >> 62 != 0)
                + u64::from((state >> 40).is_multiple_of(5_000)) * 100_000;
            let number =
                base.saturating_sub((state >> 33) % 16 * ((state >> 20) % 4_000 / 3_990) * 9_000);
            match sequence.observe(number) {
                InOrder | Reordered => unique += 1,
                Late => late += 1,
                Duplicate => {}
            }
        }
        let in_window: u64 = sequence.seen.iter().map(|word| u64::from(word.count_ones())).sum();
        let holes = WINDOW - in_window;
        assert_eq!(sequence.next(), unique + late + sequence.given_up + holes);
        assert!(late > 0);
    }
}
