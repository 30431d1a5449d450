//! Quantum detection: test whether interval counts come in steps
//! (docs/methodology/repeats.md#quanta).
//!
//! A tool that counts `write()` calls instead of delivered bytes shows multiples of its buffer:
//! Intel's 2013 figures are multiples of 128 KiB/s and 8 KiB/s throughout. The quantum bounds the
//! resolution of one interval. Zeros and values whose print rounding hides the step are left out;
//! they are counted, so that two values are never mistaken for a proof. Not covered: a quantum
//! larger than every value.

/// Share of the telling values that must be multiples.
const SHARE: f64 = 0.95;
/// Telling values needed for a claim.
const ENOUGH: usize = 5;
/// A value is informative only if its rounding would match a random value at most this often.
const CHANCE: f64 = 0.2;
/// Counts from which candidate steps are formed: enough to find any step that 95 % of them share.
const PROBED: usize = 64;

/// A step found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Quantum {
    /// The step, in the unit of the values.
    pub step: f64,
    /// Informative values: not zero, and printed finely enough.
    pub telling: usize,
    /// Those that are multiples of the step.
    pub multiples: usize,
}

/// Returns the largest of `candidates` of which at least 95 % of the informative `values` are
/// multiples, each value known to within half a unit of its last printed digit (`half_widths`).
/// `None` if there is none or fewer than five values are informative.
///
/// # Panics
///
/// If the slices differ in length.
///
/// # Examples
/// ```
/// use linerate_analysis::statistics::quantum_among;
///
/// // Goodput of six intervals, byte/s. All are multiples of 128 KiB: the tool counts calls.
/// let values = [7.0, 3.0, 11.0, 5.0, 13.0, 2.0].map(|n| n * 131_072.0);
/// let exact = [0.5; 6];
/// let found = quantum_among(&values, &exact, &[8_192.0, 131_072.0]).expect("a step");
/// assert_eq!((found.step, found.multiples), (131_072.0, 6));
/// ```
#[must_use]
pub fn quantum_among(values: &[f64], half_widths: &[f64], candidates: &[f64]) -> Option<Quantum> {
    assert_eq!(values.len(), half_widths.len(), "each value has its rounding");
    candidates
        .iter()
        .filter_map(|&step| {
            // A value printed too coarsely is a multiple of everything.
            let tells = |(v, w): &(&f64, &f64)| **v != 0.0 && 2.0 * **w <= CHANCE * step;
            let telling: Vec<_> = values.iter().zip(half_widths).filter(tells).collect();
            let multiples = telling
                .iter()
                .filter(|(value, width)| distance_to_multiple(**value, step) <= **width)
                .count();
            let found = Quantum { step, telling: telling.len(), multiples };
            (found.telling >= ENOUGH && multiples as f64 >= SHARE * found.telling as f64)
                .then_some(found)
        })
        // Every divisor of a step is a step too, so the largest is the one that says most.
        .max_by(|a, b| a.step.total_cmp(&b.step))
}

/// Returns the largest step greater than one of which at least 95 % of the non-zero `counts` are
/// multiples, for counts known exactly. `None` if they are all equal (a step cannot be
/// distinguished from a constant) or fewer than five are not zero.
#[must_use]
pub(crate) fn quantum_of_counts(counts: &[u64]) -> Option<u64> {
    let counts: Vec<u64> = counts.iter().copied().filter(|&count| count > 0).collect();
    // Equal counts are multiples of themselves.
    if counts.len() < ENOUGH || counts.iter().all(|&count| count == counts[0]) {
        return None;
    }
    let probes = &counts[..counts.len().min(PROBED)];
    let mut candidates: Vec<u64> = probes
        .iter()
        .enumerate()
        // A step that most counts share divides most pairs, so the divisors of some pairs are
        // enough as candidates.
        .flat_map(|(i, &a)| {
            probes[i + 1..]
                .iter()
                .filter(move |&&b| a != b)
                .map(move |&b| greatest_common_divisor(a, b))
        })
        .filter(|&step| step > 1)
        .collect();
    candidates.sort_unstable();
    candidates.dedup();
    candidates.into_iter().rev().find(|step| {
        let multiples = counts.iter().filter(|&&count| count % step == 0).count();
        multiples as f64 >= SHARE * counts.len() as f64
    })
}

/// Returns the distance of `value` from the nearest multiple of `step` other than zero.
fn distance_to_multiple(value: f64, step: f64) -> f64 {
    // Zero is a multiple of every step and proves none.
    (value - (value / step).round().max(1.0) * step).abs() - f64::EPSILON * value.abs()
}

fn greatest_common_divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Printed to 0.1, which is fine enough for a step of 1.048576 (131 072 B a second, in Mbit/s)
    /// and too coarse for 0.065536.
    #[test]
    fn the_largest_step_that_the_rounding_can_tell_is_found() {
        let (coarse, fine) = (1.048_576, 0.065_536);
        let round = |value: f64| (value * 10.0).round() / 10.0;
        let values: Vec<f64> = (40..70).map(|n| round(f64::from(n) * coarse)).collect();
        let widths = vec![0.050_001; values.len()];
        let found = quantum_among(&values, &widths, &[fine, coarse, 2.0 * coarse]).expect("a step");
        assert_eq!(found, Quantum { step: coarse, telling: 30, multiples: 30 });
        assert_eq!(quantum_among(&values, &widths, &[fine]), None);
    }

    #[test]
    fn exact_counts_show_their_step_despite_an_outlier() {
        let mut counts: Vec<u64> = (1..=40).map(|n| (n % 7 + 3) * 131_072).collect();
        counts.push(777);
        assert_eq!(quantum_of_counts(&counts), Some(131_072));
        assert_eq!(quantum_of_counts(&[1001, 1013, 1019, 1021, 1031, 1033]), None);
        assert_eq!(quantum_of_counts(&[500; 10]), None);
    }
}
