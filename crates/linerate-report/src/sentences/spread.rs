//! Sentences on the spread of flows over the members of a group.

use linerate_analysis::flow_hash::polarisation::{Spread, SpreadTest, Verdict};

/// Returns the meaning of the verdict on a spread.
#[must_use]
pub fn spread(spread: &Spread) -> String {
    let members = spread.counts.len();
    match spread.verdict {
        Verdict::Inconclusive => {
            let flows = spread.counts.iter().sum::<u64>();
            format!("{flows} flows on {members} members are too few for a test: use more flows")
        }
        Verdict::Polarised => {
            let idle = spread.counts.iter().filter(|count| **count == 0).count();
            let idle = if idle > 0 {
                format!("{idle} of {members} members carry nothing; ")
            } else {
                String::new()
            };
            format!(
                "{idle}the hash ignores a field in which these flows differ, or two devices in a \
                 row use the same hash"
            )
        }
        Verdict::TooEven => {
            "a hash of independent flows is rarely this even: the flows were dealt \
            out in turn, or their ports were chosen to fit the hash"
                .to_owned()
        }
        Verdict::Even => "an even hash of independent flows gives such a spread".to_owned(),
    }
}

/// Returns the name of the test of a spread.
#[must_use]
pub fn spread_test(test: SpreadTest) -> String {
    match test {
        SpreadTest::Exact => "exact multinomial test on the sum of squares".to_owned(),
        SpreadTest::ChiSquared { statistic, degrees } => {
            format!("chi-squared test: {statistic:.2} with {degrees} degrees of freedom")
        }
    }
}

#[cfg(test)]
mod tests {
    use linerate_analysis::flow_hash::polarisation::polarisation;

    use super::*;

    #[test]
    fn a_polarised_spread_names_idle_members_and_its_test() {
        let all = polarisation(&[40, 0, 0, 0]).expect("four members");
        assert!(
            spread(&all).starts_with("3 of 4 members carry nothing; the hash ignores"),
            "{all:?}"
        );
        assert!(spread_test(all.test).starts_with("chi-squared test: 120.00 with 3"), "{all:?}");
    }
}
