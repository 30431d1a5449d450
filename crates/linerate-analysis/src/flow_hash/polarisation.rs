//! Test whether flows are spread over members as an even hash would spread them.
//!
//! Source: docs/methodology/ceilings.md#groups-of-links. Counts of flows per member are one draw of
//! a multinomial distribution if the hash is even and flows are independent. With few flows the
//! exact probability of a draw at most as likely as the observed one is used; with many, Pearson's
//! chi-squared. Both tails matter. A spread that is too uneven is a *polarised* hash (ports of one
//! parity, or a hash applied twice in a row). A spread that is too even shows dependence (ports in
//! sequence under an XOR): such a hash balances one pattern of ports, and other patterns remain
//! untested.
//!
//! Not covered: flows of unequal size, and a hash that is even over these ports and not over
//! others. Repeat the test with random and with sequential ports.

use serde::{Deserialize, Serialize};
use statrs::distribution::{ChiSquared, ContinuousCDF};

/// Classes of a spread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Like an even hash.
    Even,
    /// Less even than chance allows.
    Polarised,
    /// More even than chance allows: flows are distributed in turn, not hashed, or their ports fit
    /// the hash.
    TooEven,
    /// Too few flows for a decision.
    Inconclusive,
}

/// Result of the test.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// Flows by member, of all draws together.
    pub counts: Vec<u64>,
    /// Probability of a spread as uneven as this, or more so, under an even hash.
    pub uneven: f64,
    /// Probability of one as even as this, or more so.
    pub even: f64,
    /// The test of both probabilities.
    pub test: SpreadTest,
    /// The verdict.
    pub verdict: Verdict,
}

/// Test of a spread.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SpreadTest {
    /// Sums of squares of all spreads, multinomial.
    Exact,
    /// Chi-squared.
    ChiSquared {
        /// The statistic.
        statistic: f64,
        /// Degrees of freedom.
        degrees: usize,
    },
}

/// Probability below which chance is rejected.
const SIGNIFICANCE: f64 = 0.01;
/// Flows up to which all spreads are counted; beyond, chi-squared is close.
const EXACT_FLOWS: u64 = 32;

/// Judges `counts`, flows by member; `None` without members or flows, or with a single member.
#[must_use]
pub fn polarisation(counts: &[u64]) -> Option<Spread> {
    let (members, flows) = (counts.len(), counts.iter().sum::<u64>());
    // One member takes all flows under any hash.
    if members < 2 || flows == 0 {
        return None;
    }
    let (uneven, even, test) = if flows <= EXACT_FLOWS {
        let (uneven, even) = exact(counts, flows as usize);
        (uneven, even, SpreadTest::Exact)
    } else {
        let expected = flows as f64 / members as f64;
        let statistic =
            counts.iter().map(|count| (*count as f64 - expected).powi(2) / expected).sum::<f64>();
        let distribution = ChiSquared::new(members as f64 - 1.0).ok()?;
        let test = SpreadTest::ChiSquared { statistic, degrees: members - 1 };
        (distribution.sf(statistic), distribution.cdf(statistic), test)
    };
    // Even the most uneven spread must be able to be significant; otherwise no result can reject
    // the hash.
    let all_on_one = (members as f64).powf(1.0 - flows as f64);
    let verdict = if all_on_one >= SIGNIFICANCE {
        Verdict::Inconclusive
    // An uneven spread costs throughput, an even one only trust, so it is reported first.
    } else if uneven < SIGNIFICANCE {
        Verdict::Polarised
    } else if even < SIGNIFICANCE {
        Verdict::TooEven
    } else {
        Verdict::Even
    };
    Some(Spread { counts: counts.to_vec(), uneven, even, test, verdict })
}

/// Returns the probabilities of a sum of squares at least, and at most, as large as that of
/// `counts`: member after member takes its share of the flows that are left.
fn exact(counts: &[u64], flows: usize) -> (f64, f64) {
    // For a fixed number of flows, the sum of squares orders spreads as chi-squared does, and stays
    // an integer.
    let seen = counts.iter().map(|count| (count * count) as usize).sum::<usize>();
    let most = flows * flows;
    // `probability[rest][sum]`: `rest` flows are left, and those placed have this sum of squares.
    let mut probability = vec![vec![0.0; most + 1]; flows + 1];
    probability[flows][0] = 1.0;
    // The last member gets what is left, so it needs no share of its own.
    for members in (2..=counts.len()).rev() {
        let share = 1.0 / members as f64;
        let mut next = vec![vec![0.0; most + 1]; flows + 1];
        for rest in 0..=flows {
            let shares = binomial(rest, share);
            for sum in 0..=most {
                let here = probability[rest][sum];
                if here > 0.0 {
                    for (taken, share) in shares.iter().enumerate() {
                        next[rest - taken][sum + taken * taken] += here * share;
                    }
                }
            }
        }
        probability = next;
    }
    let (mut uneven, mut even) = (0.0, 0.0);
    for (rest, sums) in probability.iter().enumerate() {
        for (sum, probability) in sums.iter().enumerate() {
            // The last member takes what is left.
            let total = sum + rest * rest;
            uneven += if total >= seen { *probability } else { 0.0 };
            even += if total <= seen { *probability } else { 0.0 };
        }
    }
    (uneven, even)
}

/// Returns the probabilities of 0 to `flows` of them on a member that takes `share`, below one.
fn binomial(flows: usize, share: f64) -> Vec<f64> {
    // Each term follows from the one before, which avoids factorials that overflow.
    let mut terms = vec![(1.0 - share).powi(flows as i32)];
    for taken in 0..flows {
        let next =
            terms[taken] * (flows - taken) as f64 / (taken as f64 + 1.0) * share / (1.0 - share);
        terms.push(next);
    }
    terms
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow_hash::{Flow, bond};

    fn judged(counts: &[u64]) -> Spread {
        polarisation(counts).expect("members and flows")
    }

    #[test]
    fn small_spreads_have_the_probabilities_of_counting_by_hand() {
        // Four flows on two members: 2+2 in 6 of 16 ways, 3+1 in 8, 4+0 in 2.
        let even = judged(&[2, 2]);
        assert!((even.uneven - 1.0).abs() < 1e-12 && (even.even - 6.0 / 16.0).abs() < 1e-12);
        let one = judged(&[3, 1]);
        assert!((one.uneven - 10.0 / 16.0).abs() < 1e-12 && (one.even - 14.0 / 16.0).abs() < 1e-12);
        assert_eq!(judged(&[4, 0]).verdict, Verdict::Inconclusive);
        // Eight on four, all on one: 4 of 4^8 ways.
        let all = judged(&[8, 0, 0, 0]);
        assert!((all.uneven - 4.0_f64.powi(-7)).abs() < 1e-12);
        assert_eq!(all.verdict, Verdict::Polarised);
    }

    #[test]
    fn many_flows_are_judged_by_chi_squared() {
        // Table value: 7.815 is exceeded in 5 % with 3 degrees of freedom.
        let close = judged(&[60, 40, 50, 50]);
        let SpreadTest::ChiSquared { statistic, degrees } = close.test else {
            panic!("{:?}", close.test)
        };
        assert_eq!((format!("{statistic:.2}"), degrees), ("4.00".to_owned(), 3));
        assert_eq!(close.verdict, Verdict::Even);
        assert_eq!(judged(&[100, 100, 0, 0]).verdict, Verdict::Polarised);
        assert_eq!(judged(&[1000, 1000, 1000, 1000]).verdict, Verdict::TooEven);
        assert!(polarisation(&[5]).is_none() && polarisation(&[0, 0]).is_none());
    }

    #[test]
    fn even_ports_polarise_an_old_bond_and_ports_in_sequence_fit_it_too_well() {
        let spread = |ports: &[u16]| {
            let mut counts = vec![0; 4];
            for port in ports {
                let flow =
                    Flow { from: ([10, 0, 0, 1], *port).into(), to: ([10, 0, 0, 2], 5201).into() };
                counts[bond::member(&flow, bond::Form::Whole, 4) as usize] += 1;
            }
            judged(&counts).verdict
        };
        let even: Vec<u16> = (0..128).map(|port| 40_000 + 2 * port).collect();
        assert_eq!(spread(&even), Verdict::Polarised);
        let sequence: Vec<u16> = (40_000..40_256).collect();
        assert_eq!(spread(&sequence), Verdict::TooEven);
        let mut state = 1_u32;
        let random: Vec<u16> = (0..256)
            .map(|_| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                32_768 + (state >> 17) as u16
            })
            .collect();
        assert_eq!(spread(&random), Verdict::Even);
    }
}
