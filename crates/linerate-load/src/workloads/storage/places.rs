//! Places of transfers: uniform at random, by a Zipf law, each place once, or onwards in steps.

use std::ops::Range;

use linerate_model::{ParamError, Ratio};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::Rng;

use crate::parameter::{Words, wrong};

/// How random places are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pattern {
    /// Each as likely as every other, with replacement.
    Uniform,
    /// Few places often: the k-th most popular has a weight of k to the minus `skew`. Popular
    /// places are spread over the range.
    Zipf,
    /// Each once before any again.
    Permutation,
}

impl Pattern {
    /// Words of plans.
    pub(super) const WORDS: Words<Self> =
        &[("uniform", Self::Uniform), ("zipf", Self::Zipf), ("permutation", Self::Permutation)];
}

/// A part of the range and the share of random transfers that go there.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Zone {
    /// Share of the transfers.
    transfers: f64,
    /// Share of the range.
    range: f64,
}

/// Reads `50 % to 5 %, 30 % to 15 %, 20 % to 80 %`: shares of transfers and of the range, which
/// both add up to the whole.
///
/// # Errors
/// The first part that is none of these, or a sum that is not 100 %.
pub(super) fn zones(text: &str) -> Result<Vec<Zone>, ParamError> {
    let refuse = |why: String| wrong("zones", why);
    let malformed = |part: &str| refuse(format!("`{}` is not such as `50 % to 5 %`", part.trim()));
    let read = |part: &str| zone(part).ok_or_else(|| malformed(part));
    let zones = text.split(',').map(read).collect::<Result<Vec<Zone>, ParamError>>()?;
    for (what, sum) in [
        ("transfers", zones.iter().map(|zone| zone.transfers).sum::<f64>()),
        ("the range", zones.iter().map(|zone| zone.range).sum::<f64>()),
    ] {
        /// Shares are written in whole per cent, or a few decimals of them.
        const ROUNDING: f64 = 1e-6;
        if (sum - 1.0).abs() > ROUNDING {
            return Err(refuse(format!(
                "the shares of {what} add up to {} %, not 100 %",
                sum * 100.0
            )));
        }
    }
    if zones.iter().any(|zone| zone.transfers > 0.0 && zone.range <= 0.0) {
        return Err(refuse("transfers go to a zone without room".into()));
    }
    Ok(zones)
}

/// Reads `50 % to 5 %`.
fn zone(text: &str) -> Option<Zone> {
    let (transfers, range) = text.split_once(" to ")?;
    let share = |text: &str| text.trim().parse::<Ratio>().ok().map(|ratio| ratio.0);
    Some(Zone { transfers: share(transfers)?, range: share(range)? })
}

/// A zone prepared for draws: upper end of its share of a 64-bit number, and its part of the range,
/// as shares.
#[derive(Clone, Copy, Debug)]
struct Drawn {
    end: u64,
    part: (f64, f64),
}

/// Window that moves: all transfers go there until they have moved `bytes`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Window {
    /// Bytes of transfers before it moves.
    pub(super) bytes: u64,
    /// Length of the window.
    pub(super) range: u64,
    /// Bytes skipped behind it.
    pub(super) skip: u64,
}

/// Position of a [`Window`], and the bytes of the transfers that have gone there.
#[derive(Clone, Copy, Debug)]
struct Moving {
    window: Window,
    start: u64,
    moved: u64,
}

/// Source of places for one worker.
#[derive(Clone, Debug)]
pub(super) struct Places {
    pattern: Pattern,
    skew: f64,
    seed: u64,
    range: Range<u64>,
    /// Part of the range for this worker's sequence.
    own: Range<u64>,
    cursor: u64,
    /// From one start to the next in a sequence; `None`: the next transfer follows the last.
    stride: Option<u64>,
    /// This worker's draws without replacement: its number, how many workers draw, and how many
    /// places it has drawn.
    turn: (u64, u64, u64),
    zipf: Option<(u64, Zipf)>,
    zones: Vec<Drawn>,
    is_backward: bool,
    moving: Option<Moving>,
}

impl Places {
    /// Creates the places of worker `number` of `workers` in `range`. If `disjoint`, its sequences
    /// run in a part of the range that is its own.
    pub(super) fn new(
        pattern: (Pattern, f64),
        range: Range<u64>,
        stride: Option<u64>,
        (number, workers, disjoint): (u64, u64, bool),
        seed: u64,
    ) -> Self {
        let part = (range.end - range.start) / workers;
        let own = if disjoint {
            range.start + number * part..if number + 1 == workers {
                range.end
            } else {
                range.start + (number + 1) * part
            }
        } else {
            range.clone()
        };
        let cursor = own.start;
        let (pattern, skew) = pattern;
        Self {
            pattern,
            skew,
            seed,
            range,
            own,
            cursor,
            stride,
            turn: (number, workers, 0),
            zipf: None,
            zones: Vec::new(),
            is_backward: false,
            moving: None,
        }
    }

    /// Restricts places to `window`, which begins at this worker's own part and returns there from
    /// its end.
    pub(super) fn set_window(&mut self, window: Window) {
        self.moving = Some(Moving { window, start: self.own.start, moved: 0 });
    }

    /// Draws random places from `zones`, if there are any.
    pub(super) fn set_zones(&mut self, zones: &[Zone]) {
        let (mut transfers, mut range) = (0.0, 0.0);
        self.zones = zones
            .iter()
            .map(|zone| {
                let from = range;
                transfers += zone.transfers;
                range += zone.range;
                Drawn { end: (transfers * u64::MAX as f64) as u64, part: (from, range) }
            })
            .collect();
        // Rounding must leave no number without a zone.
        let last = zones.iter().rposition(|zone| zone.transfers > 0.0).unwrap_or(0);
        self.zones.iter_mut().skip(last).for_each(|zone| zone.end = u64::MAX);
    }

    /// Turns sequences towards the start of the range.
    pub(super) fn turn_around(&mut self) {
        self.is_backward = true;
        self.cursor = self.own.end;
    }

    /// Returns the bytes for which the smallest sequence has room.
    pub(super) fn room(&self) -> u64 {
        self.own.end - self.own.start
    }

    /// Returns the start of the next transfer of `size` bytes if it continues the sequence: a
    /// multiple of `align` from the range's start.
    #[inline]
    pub(super) fn onwards(&mut self, size: u64, align: u64) -> u64 {
        if let Some((from, until)) = self.window(size) {
            let at = self.range.start + (self.cursor - self.range.start).next_multiple_of(align);
            let at = if at < from || at + size > until { from } else { at };
            self.cursor = at + self.stride.unwrap_or(size);
            return at;
        }
        if self.is_backward {
            return self.backwards(size, align);
        }
        let aligned = |at: u64| self.range.start + (at - self.range.start).next_multiple_of(align);
        let mut at = aligned(self.cursor);
        if at + size > self.own.end {
            at = aligned(self.own.start);
            if at + size > self.own.end {
                // Rounding up left no room in this part, so use the whole range.
                at = self.range.start;
            }
        }
        self.cursor = at + self.stride.unwrap_or(size);
        at
    }

    /// Returns the window for the next transfer of `size` bytes, if there is one. The window moves
    /// after its share of bytes.
    #[inline]
    fn window(&mut self, size: u64) -> Option<(u64, u64)> {
        let Moving { window, start, moved } = self.moving.as_mut()?;
        if *moved >= window.bytes {
            *moved = 0;
            *start += window.range + window.skip;
            if *start + size > self.own.end {
                *start = self.own.start;
            }
            self.cursor = *start;
        }
        *moved += size;
        Some((*start, (*start + window.range).min(self.own.end)))
    }

    /// Does the same towards the start: `cursor` is the start of the last transfer.
    #[inline]
    fn backwards(&mut self, size: u64, align: u64) -> u64 {
        let aligned = |at: u64| self.range.start + (at - self.range.start) / align * align;
        let step = self.stride.unwrap_or(size);
        let is_own = |at: &u64| *at >= self.own.start && at + size <= self.own.end;
        let next = self.cursor.checked_sub(step).filter(is_own).map(aligned).filter(is_own);
        let at = next.unwrap_or_else(|| aligned(self.own.end - size)).max(self.range.start);
        self.cursor = at;
        at
    }

    /// Where the next transfer of `size` bytes starts if it goes to a random place, a multiple of
    /// `align` from the range's start.
    #[inline]
    pub(super) fn anywhere(
        &mut self,
        size: u64,
        align: u64,
        random: &mut Xoshiro256PlusPlus,
    ) -> u64 {
        if let Some((from, until)) = self.window(size) {
            let at = from + below((until - from - size) / align + 1, random) * align;
            self.cursor = at + self.stride.unwrap_or(size);
            return at;
        }
        let n = (self.range.end - self.range.start - size) / align + 1;
        let place = match self.pattern {
            Pattern::Uniform if !self.zones.is_empty() => {
                let drawn = random.next_u64();
                let zone = self.zones[self.zones.partition_point(|zone| zone.end < drawn)];
                let (from, to) = ((zone.part.0 * n as f64) as u64, (zone.part.1 * n as f64) as u64);
                // A zone smaller than a place uses the place around it.
                (from + below(to.saturating_sub(from).max(1), random)).min(n - 1)
            }
            Pattern::Uniform => below(n, random),
            Pattern::Permutation => {
                let (number, workers, drawn) = &mut self.turn;
                let index = (*number + *workers * *drawn) % n;
                *drawn += 1;
                permuted(index, n, self.seed)
            }
            Pattern::Zipf => {
                let zipf = match self.zipf {
                    Some((places, zipf)) if places == n => zipf,
                    _ => Zipf::new(n, self.skew),
                };
                self.zipf = Some((n, zipf));
                permuted(zipf.draw(random), n, self.seed)
            }
        };
        let at = self.range.start + place * align;
        // A sequence continues from here, if this is in its part.
        if self.own.contains(&at) {
            self.cursor = if self.is_backward { at } else { at + self.stride.unwrap_or(size) };
        }
        at
    }
}

/// Returns a number below `n`, each as likely as every other to within 2^-64 (Lemire's
/// multiplication).
#[inline]
pub(super) fn below(n: u64, random: &mut Xoshiro256PlusPlus) -> u64 {
    ((u128::from(random.next_u64()) * u128::from(n)) >> u64::BITS) as u64
}

/// Returns the place of `index` in a permutation of `0..n` that `seed` chooses: four Feistel rounds
/// on the least even number of bits, repeated until the result is below `n`. It needs no memory,
/// whatever the disk's size.
#[inline]
fn permuted(index: u64, n: u64, seed: u64) -> u64 {
    const ROUNDS: u64 = 4;
    let half = (u64::BITS - (n - 1).leading_zeros()).div_ceil(2).max(1);
    let mask = (1_u64 << half) - 1;
    let mut value = index;
    loop {
        let (mut left, mut right) = (value >> half, value & mask);
        for round in 0..ROUNDS {
            (left, right) = (
                right,
                left ^ (mixed(right ^ seed.rotate_left(round as u32 * 16)).wrapping_add(round)
                    & mask),
            );
        }
        value = left << half | right;
        if value < n {
            return value;
        }
    }
}

/// SplitMix64's finalizer (Steele, Lea, Flood 2014).
#[inline]
fn mixed(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    value ^ (value >> 31)
}

/// Draws ranks of a Zipf law by rejection-inversion (Hoermann, Derflinger 1996): constant time, no
/// table.
#[derive(Clone, Copy, Debug)]
struct Zipf {
    n: f64,
    skew: f64,
    first: f64,
    last: f64,
    squeeze: f64,
}

impl Zipf {
    fn new(n: u64, skew: f64) -> Self {
        let n = n as f64;
        let mut zipf = Self { n, skew, first: 0.0, last: 0.0, squeeze: 0.0 };
        zipf.first = zipf.integral(1.5) - 1.0;
        zipf.last = zipf.integral(n + 0.5);
        zipf.squeeze = 2.0 - zipf.inverse(zipf.integral(2.5) - zipf.weight(2.0));
        zipf
    }

    /// Returns a rank below `n`; 0 is the most popular.
    fn draw(&self, random: &mut Xoshiro256PlusPlus) -> u64 {
        /// Bits of the fraction of a double.
        const FRACTION_BITS: u32 = 53;
        loop {
            let unit = (random.next_u64() >> (u64::BITS - FRACTION_BITS)) as f64
                / (1_u64 << FRACTION_BITS) as f64;
            let u = self.last + unit * (self.first - self.last);
            let x = self.inverse(u);
            let rank = (x + 0.5).floor().clamp(1.0, self.n);
            if rank - x <= self.squeeze || u >= self.integral(rank + 0.5) - self.weight(rank) {
                return rank as u64 - 1;
            }
        }
    }

    fn weight(&self, x: f64) -> f64 {
        (-self.skew * x.ln()).exp()
    }

    /// Returns the integral of the weight from 1 to `x`.
    fn integral(&self, x: f64) -> f64 {
        let log = x.ln();
        exp_minus_one_over((1.0 - self.skew) * log) * log
    }

    fn inverse(&self, u: f64) -> f64 {
        let t = (u * (1.0 - self.skew)).max(-1.0);
        (log_one_plus_over(t) * u).exp()
    }
}

/// Returns `(e^x - 1) / x`, which is 1 at 0.
fn exp_minus_one_over(x: f64) -> f64 {
    if x.abs() > 1e-8 { x.exp_m1() / x } else { 1.0 + x / 2.0 }
}

/// Returns `ln(1 + x) / x`, which is 1 at 0.
fn log_one_plus_over(x: f64) -> f64 {
    if x.abs() > 1e-8 { x.ln_1p() / x } else { 1.0 - x / 2.0 }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rand_xoshiro::rand_core::SeedableRng;

    use super::*;

    fn random() -> Xoshiro256PlusPlus {
        Xoshiro256PlusPlus::seed_from_u64(42)
    }

    fn places(pattern: Pattern, range: Range<u64>, worker: (u64, u64, bool)) -> Places {
        Places::new((pattern, 1.0), range, None, worker, 5)
    }

    /// fio's `zonemode=strided` with `zonesize=8k`, `zonerange=8k` and `zoneskip=8k`, as its
    /// `write_iolog` has it for `size=40k`.
    #[test]
    fn a_window_is_left_when_enough_went_there_and_returns_from_the_end() {
        let mut places = places(Pattern::Uniform, 0..40_960, (0, 1, true));
        places.set_window(Window { bytes: 8_192, range: 8_192, skip: 8_192 });
        let found: Vec<u64> = (0..7).map(|_| places.onwards(4_096, 4_096)).collect();
        assert_eq!(found, [0, 4_096, 16_384, 20_480, 32_768, 36_864, 0]);
    }

    #[test]
    fn random_places_stay_within_the_window_for_its_bytes() {
        let mut places = places(Pattern::Uniform, 65_536..65_536 + (1 << 20), (0, 1, true));
        places.set_window(Window { bytes: 40_960, range: 16_384, skip: 1 << 19 });
        let mut random = random();
        let found: Vec<u64> =
            (0..30).map(|_| places.anywhere(4_096, 4_096, &mut random) - 65_536).collect();
        assert!(found[..10].iter().all(|at| *at < 16_384), "{found:?}");
        let second = 16_384 + (1 << 19);
        assert!(found[10..20].iter().all(|at| (second..second + 16_384).contains(at)), "{found:?}");
        assert!(
            found[20..].iter().all(|at| *at < 16_384),
            "the third window begins behind the end: {found:?}"
        );
        assert!(found[..10].iter().any(|at| *at != found[0]), "{found:?}");
    }

    #[test]
    fn sequences_of_workers_are_disjoint_and_wrap_in_their_own_part() {
        let mut starts = Vec::new();
        for number in 0..4 {
            let mut places =
                places(Pattern::Uniform, 1 << 20..(1 << 20) + 64 * 4096, (number, 4, true));
            let own: Vec<u64> = (0..16).map(|_| places.onwards(4096, 4096)).collect();
            assert!(own.windows(2).all(|pair| pair[1] == pair[0] + 4096));
            assert_eq!(places.onwards(4096, 4096), own[0]);
            starts.extend(own);
        }
        starts.sort_unstable();
        assert_eq!(starts, (0..64).map(|place| (1 << 20) + place * 4096).collect::<Vec<u64>>());
    }

    #[test]
    fn a_stride_leaves_gaps() {
        let mut places =
            Places::new((Pattern::Uniform, 0.0), 0..1 << 20, Some(65_536), (0, 1, true), 5);
        assert_eq!([(); 3].map(|()| places.onwards(4096, 4096)), [0, 65_536, 131_072]);
    }

    #[test]
    fn a_permutation_visits_every_place_once_over_all_workers() {
        for n in [1_u64, 2, 3, 7, 64, 1000] {
            let mut seen = Vec::new();
            for number in 0..3 {
                let mut places = places(Pattern::Permutation, 0..n * 512, (number, 3, true));
                let own = (n + 2 - number) / 3;
                seen.extend((0..own).map(|_| places.anywhere(512, 512, &mut random()) / 512));
            }
            seen.sort_unstable();
            assert_eq!(seen, (0..n).collect::<Vec<_>>());
        }
    }

    #[test]
    fn zipf_ranks_have_their_weights() {
        for skew in [0.5, 1.0, 1.2] {
            let zipf = Zipf::new(1000, skew);
            let mut random = random();
            let mut counts = vec![0_f64; 1000];
            const DRAWS: usize = 400_000;
            for _ in 0..DRAWS {
                counts[zipf.draw(&mut random) as usize] += 1.0;
            }
            let total: f64 = (1..=1000).map(|rank| f64::from(rank).powf(-skew)).sum();
            for rank in [1, 2, 3, 10, 100] {
                let expected = DRAWS as f64 * f64::from(rank).powf(-skew) / total;
                let seen = counts[rank as usize - 1];
                // Five standard deviations of a count.
                assert!(
                    (seen - expected).abs() < 5.0 * expected.sqrt(),
                    "skew {skew} rank {rank}: {seen}, not {expected}"
                );
            }
        }
    }

    proptest! {
        #[test]
        fn every_transfer_lies_in_the_range(
            start in 0_u64..1 << 21, blocks in 1_u64..3000, size in 1_u64..40, align in 1_u64..80,
            kind in 0_usize..3, workers in 1_u64..9,
        ) {
            let (size, align) = (size * 512, align * 512);
            let range = start..start + size.max(blocks * 512) ;
            let pattern = [Pattern::Uniform, Pattern::Zipf, Pattern::Permutation][kind];
            let mut random = random();
            let mut places = Places::new((pattern, 1.1), range.clone(), None,
                (workers - 1, workers, true), 3);
            if blocks % 2 == 1 && places.room() >= size {
                places.turn_around();
            }
            for turn in 0..50 {
                let at = if turn % 3 == 0 {
                    places.onwards(size, align)
                } else {
                    places.anywhere(size, align, &mut random)
                };
                prop_assert!(at >= range.start && at + size <= range.end);
                prop_assert_eq!((at - range.start) % align, 0);
            }
        }
    }

    #[test]
    fn zones_get_their_shares_of_transfers() {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(3);
        let mut places =
            Places::new((Pattern::Uniform, 1.0), 4096..4096 + 100 * 4096, None, (0, 1, true), 1);
        places.set_zones(&zones("50 % to 5 %, 30 % to 15 %, 20 % to 80 %").expect("zones"));
        let mut counts = [0_u32; 3];
        for _ in 0..100_000 {
            let place = (places.anywhere(4096, 4096, &mut random) - 4096) / 4096;
            assert!(place < 100);
            counts[usize::from(place >= 5) + usize::from(place >= 20)] += 1;
        }
        for (count, share) in counts.into_iter().zip([0.5, 0.3, 0.2]) {
            assert!((f64::from(count) / 100_000.0 - share).abs() < 0.01, "{counts:?}");
        }
        for (text, why) in [
            ("50 % to 5 %, 30 % to 95 %", "transfers add up to 80 %"),
            ("100 % to 50 %", "the range add up to 50 %"),
            ("100 % 50 %", "is not such as"),
            ("50 % to 0 %, 50 % to 100 %", "without room"),
        ] {
            assert!(zones(text).expect_err(text).cause.contains(why), "{text}: {:?}", zones(text));
        }
    }

    #[test]
    fn a_sequence_runs_backwards_and_starts_again_at_the_end() {
        let mut places =
            Places::new((Pattern::Uniform, 1.0), 4096..4096 * 5, None, (0, 1, true), 1);
        places.turn_around();
        let found: Vec<u64> = (0..6).map(|_| places.onwards(4096, 4096) / 4096).collect();
        assert_eq!(found, [4, 3, 2, 1, 4, 3]);
        let mut strided =
            Places::new((Pattern::Uniform, 1.0), 0..4096 * 5, Some(8192), (0, 1, true), 1);
        strided.turn_around();
        let found: Vec<u64> = (0..4).map(|_| strided.onwards(4096, 4096) / 4096).collect();
        assert_eq!(found, [3, 1, 4, 2]);
    }
}
