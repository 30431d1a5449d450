//! Rounds: sets of pairs in which no host appears twice, so that no measurement disturbs another at
//! its hosts.

use std::collections::{BTreeMap, HashSet};

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

/// Returns every pair of hosts once, in rounds that stay within groups or lead from one group to
/// another. So all pairs of a round share an uplink alike: in [`rounds`], two of a round may share
/// it and four of another. Hosts without a group are one together.
///
/// The number of rounds is that of [`rounds`] for an even number of groups of one even size, and
/// larger for others.
#[must_use]
pub fn rounds_of_groups(groups: &[Option<usize>]) -> Vec<Vec<Pairing>> {
    let mut members: BTreeMap<Option<usize>, Vec<usize>> = BTreeMap::new();
    for (host, group) in groups.iter().enumerate() {
        members.entry(*group).or_default().push(host);
    }
    let members: Vec<Vec<usize>> = members.into_values().collect();
    let within = at_once(members.iter().map(|own| within(own)));
    let across = rounds(members.len()).into_iter().flat_map(|round| {
        at_once(round.into_iter().map(|(a, b)| between(&members[a], &members[b])))
    });
    within.into_iter().chain(across).filter(|round| !round.is_empty()).collect()
}

/// Returns every pair of these hosts, in rounds.
fn within(hosts: &[usize]) -> Vec<Vec<Pairing>> {
    let named = |round: Vec<Pairing>| round.iter().map(|&(a, b)| (hosts[a], hosts[b])).collect();
    rounds(hosts.len()).into_iter().map(named).collect()
}

/// Returns every pair of one host of each group, in as many rounds as the larger group has hosts.
fn between(one: &[usize], other: &[usize]) -> Vec<Vec<Pairing>> {
    let (least, most) = (one.len().min(other.len()), one.len().max(other.len()));
    let of = |hosts: &[usize], place: usize, shift: usize| {
        hosts[if hosts.len() == most { (place + shift) % most } else { place }]
    };
    (0..most)
        .map(|shift| {
            // Of two groups of one size, only one turns.
            let turns = if one.len() == most { [shift, 0] } else { [0, shift] };
            (0..least).map(|place| (of(one, place, turns[0]), of(other, place, turns[1]))).collect()
        })
        .collect()
}

/// Returns the rounds of parts that share no host, side by side.
fn at_once(parts: impl Iterator<Item = Vec<Vec<Pairing>>>) -> Vec<Vec<Pairing>> {
    let mut rounds: Vec<Vec<Pairing>> = Vec::new();
    for part in parts {
        rounds.resize(rounds.len().max(part.len()), Vec::new());
        rounds.iter_mut().zip(part).for_each(|(round, more)| round.extend(more));
    }
    rounds
}

/// Returns `wanted` in rounds, each pair once, in the first that has neither of its hosts.
#[must_use]
pub fn matchings(wanted: &[Pairing]) -> Vec<Vec<Pairing>> {
    let mut rounds: Vec<Vec<Pairing>> = Vec::new();
    let mut seen = HashSet::new();
    for &(from, to) in wanted.iter().filter(|pair| seen.insert(**pair)) {
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
    fn the_pairs_of_a_round_are_all_within_groups_or_all_between_the_same_two() {
        let of = |sizes: &[usize]| -> Vec<Option<usize>> {
            let groups = sizes.iter().enumerate();
            groups.flat_map(|(group, size)| std::iter::repeat_n(Some(group), *size)).collect()
        };
        let one = vec![None; 8];
        for (groups, n_rounds) in [
            (of(&[4, 4]), 7),
            (of(&[4, 4, 4, 4]), 15),
            (of(&[2, 5, 3]), 5 + 5 + 5 + 3),
            (of(&[1, 1, 1, 1]), 3),
            (one, 7),
            (of(&[]), 0),
        ] {
            let n = groups.len();
            let rounds = rounds_of_groups(&groups);
            assert_eq!(rounds.len(), n_rounds, "{groups:?}");
            let pairs: Vec<Pairing> = rounds.iter().flatten().copied().collect();
            let met: HashSet<_> = pairs.iter().map(|&(a, b)| (a.min(b), a.max(b))).collect();
            assert_eq!([pairs.len(), met.len()], [n * n.saturating_sub(1) / 2; 2], "{groups:?}");
            for round in &rounds {
                assert!(is_conflict_free(round), "{round:?}");
                let ways: Vec<_> = round.iter().map(|&(a, b)| (groups[a], groups[b])).collect();
                let is_within = ways.iter().all(|(a, b)| a == b);
                let is_used = |group: &Option<usize>| {
                    let of_group = ways.iter().filter(|(a, b)| a == group || b == group);
                    of_group.collect::<HashSet<_>>().len()
                };
                assert!(is_within || groups.iter().all(|group| is_used(group) <= 1), "{ways:?}");
            }
        }
    }

    #[test]
    fn wanted_pairs_share_rounds_where_their_hosts_differ() {
        let rounds = matchings(&[(0, 1), (0, 2), (2, 3), (1, 3), (4, 5), (0, 1)]);
        assert_eq!(rounds, [vec![(0, 1), (2, 3), (4, 5)], vec![(0, 2), (1, 3)]]);
        assert!(rounds.iter().all(|round| is_conflict_free(round)));
    }
}
