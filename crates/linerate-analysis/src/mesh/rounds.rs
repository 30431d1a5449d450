//! Rounds: sets of pairs in which no host appears twice, so that no measurement disturbs another at
//! its hosts.

/// Two hosts, of which the first sends.
pub type Pairing = (usize, usize);

/// Returns every pair of `n` hosts once, in the fewest rounds: `n - 1` for an even number, `n` for
/// an odd one, in each of which one host rests.
///
/// The rounds are the 1-factorization of the complete graph by the circle method (Kirkman 1847):
/// one host stays, and the others turn around it.
///
/// # Examples
/// ```
/// use linerate_analysis::mesh::rounds;
///
/// assert_eq!(rounds(4), [[(3, 0), (1, 2)], [(3, 1), (2, 0)], [(3, 2), (0, 1)]]);
/// ```
#[must_use]
pub fn rounds(n: usize) -> Vec<Vec<Pairing>> {
    // With an odd number, the host that stays is nobody.
    let n_turning = if n.is_multiple_of(2) { n.saturating_sub(1) } else { n };
    (0..n_turning)
        .map(|round| {
            let met = (n_turning < n).then_some((n_turning, round));
            let others = (1..=(n_turning - 1) / 2).map(|distance| {
                ((round + distance) % n_turning, (round + n_turning - distance) % n_turning)
            });
            met.into_iter().chain(others).collect()
        })
        .collect()
}

/// Returns `wanted` in rounds, each pair in the first that has neither of its hosts.
#[must_use]
pub fn matchings(wanted: &[Pairing]) -> Vec<Vec<Pairing>> {
    let mut rounds: Vec<Vec<Pairing>> = Vec::new();
    for &(from, to) in wanted {
        let is_free = |round: &&mut Vec<Pairing>| {
            round.iter().all(|&(a, b)| ![a, b].contains(&from) && ![a, b].contains(&to))
        };
        match rounds.iter_mut().find(is_free) {
            Some(round) => round.push((from, to)),
            None => rounds.push(vec![(from, to)]),
        }
    }
    rounds
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn is_conflict_free(round: &[Pairing]) -> bool {
        let hosts: HashSet<usize> = round.iter().flat_map(|&(a, b)| [a, b]).collect();
        hosts.len() == 2 * round.len()
    }

    #[test]
    fn every_pair_meets_once_and_no_host_is_in_two_pairs_of_a_round() {
        for n in (0..40).chain([1024]) {
            let rounds = rounds(n);
            let fewest = if n < 2 { n } else { n - 1 + n % 2 };
            assert_eq!(rounds.len(), fewest, "{n} hosts");
            assert!(rounds.iter().all(|round| is_conflict_free(round)), "{n} hosts");
            let pairs: Vec<Pairing> = rounds.into_iter().flatten().collect();
            let met: HashSet<_> = pairs.iter().map(|&(a, b)| (a.min(b), a.max(b))).collect();
            assert_eq!([pairs.len(), met.len()], [n * n.saturating_sub(1) / 2; 2], "{n} hosts");
            assert!(pairs.iter().all(|&(a, b)| a < n && b < n && a != b), "{n} hosts");
        }
    }

    #[test]
    fn wanted_pairs_share_rounds_where_their_hosts_differ() {
        let rounds = matchings(&[(0, 1), (0, 2), (2, 3), (1, 3), (4, 5)]);
        assert_eq!(rounds, [vec![(0, 1), (2, 3), (4, 5)], vec![(0, 2), (1, 3)]]);
        assert!(rounds.iter().all(|round| is_conflict_free(round)));
    }
}
