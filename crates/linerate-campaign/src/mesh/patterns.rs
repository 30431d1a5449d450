//! Pairs of hosts that are loaded at the same time.

use linerate_analysis::mesh::Pairing;

use super::Fleet;
use crate::{Failure, Result};

/// Most senders to one host: an agent takes part in at most 256 jobs of a trial.
const MOST_SENDERS: usize = 256;
/// Most hosts of which every pair is loaded at once: a host has a connection to each other.
const MOST_OF_ALL: usize = 64;

/// Pairs that are loaded at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// All other hosts send to one, and each host is that one in turn.
    Incast,
    /// Each host of one half sends to one of the other half, and receives from it.
    Bisection,
    /// Every host sends to every other.
    All,
}

impl Pattern {
    /// Every pattern with its name on the command line.
    pub const NAMES: [(&'static str, Self); 3] =
        [("incast", Self::Incast), ("bisection", Self::Bisection), ("all", Self::All)];

    /// Returns its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(_, pattern)| *pattern == self).map_or("", |(name, _)| name)
    }

    /// Returns the most hosts of a fleet that it can load.
    fn most(self) -> usize {
        match self {
            Self::Incast => MOST_SENDERS + 1,
            Self::Bisection => usize::MAX,
            Self::All => MOST_OF_ALL,
        }
    }

    /// Refuses a fleet that is too large for it.
    ///
    /// # Errors
    /// If a host would have too many connections at once.
    pub fn check(self, fleet: &Fleet) -> Result<()> {
        let (n, most, name) = (fleet.hosts.len(), self.most(), self.name());
        if n <= most {
            return Ok(());
        }
        Err(Failure::wrong(format!(
            "mesh --at-once {name}: {n} hosts, at most {most} (use `bisection`, or measure fewer \
                hosts)"
        )))
    }

    /// Returns the loads of this pattern among `hosts`, each with all its pairs. Hosts of one group
    /// are in one half as far as possible, so that a bisection crosses the uplinks.
    fn loads(self, fleet: &Fleet, hosts: &[usize]) -> Vec<Vec<Pairing>> {
        match self {
            Self::Incast => hosts.iter().map(|receiver| incast(hosts, *receiver)).collect(),
            Self::All => vec![hosts.iter().flat_map(|receiver| incast(hosts, *receiver)).collect()],
            Self::Bisection => {
                let mut sorted = hosts.to_vec();
                sorted.sort_by_key(|host| fleet.groups[*host]);
                let (near, far) = sorted.split_at(sorted.len() / 2);
                let pairs = near.iter().zip(far);
                vec![pairs.flat_map(|(a, b)| [(*a, *b), (*b, *a)]).collect()]
            }
        }
    }
}

/// Returns the pairs from all other `hosts` to one.
fn incast(hosts: &[usize], receiver: usize) -> Vec<Pairing> {
    let senders = hosts.iter().filter(|sender| **sender != receiver);
    senders.map(|sender| (*sender, receiver)).collect()
}

/// Load of several pairs at once.
#[derive(Clone, Debug, PartialEq)]
pub struct Load {
    /// Its pattern.
    pub pattern: Pattern,
    /// Pairs from sender to receiver.
    pub pairs: Vec<Pairing>,
}

impl Load {
    /// Takes pairs of hosts that are `gone` out of it.
    pub(super) fn leave_out(&mut self, gone: &[usize]) {
        self.pairs.retain(|(from, to)| !gone.contains(from) && !gone.contains(to));
    }
}

/// Returns the loads of `patterns` among the hosts of `fleet` that are not `gone`.
pub(super) fn loads(fleet: &Fleet, patterns: &[Pattern], gone: &[usize]) -> Vec<Load> {
    let hosts: Vec<usize> = (0..fleet.hosts.len()).filter(|host| !gone.contains(host)).collect();
    let of_each = patterns.iter().flat_map(|pattern| {
        let of_one = pattern.loads(fleet, &hosts).into_iter();
        of_one.map(|pairs| Load { pattern: *pattern, pairs })
    });
    of_each.filter(|load| !load.pairs.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fleet(groups: &[usize]) -> Fleet {
        Fleet {
            hosts: (0..groups.len()).map(|host| format!("n{host}")).collect(),
            groups: groups.iter().map(|group| Some(*group)).collect(),
            group_names: vec!["a".into(), "b".into()],
        }
    }

    #[test]
    fn a_pattern_has_the_pairs_of_its_hosts_and_none_of_a_host_that_is_gone() {
        let fleet = fleet(&[1, 0, 1, 0, 0]);
        let of = |pattern| loads(&fleet, &[pattern], &[4]);
        let incast = of(Pattern::Incast);
        assert_eq!(incast.len(), 4);
        assert_eq!(incast[1].pairs, [(0, 1), (2, 1), (3, 1)]);
        let [all] = &of(Pattern::All)[..] else { panic!("one load") };
        assert_eq!(all.pairs.len(), 4 * 3);
        let [halves] = &of(Pattern::Bisection)[..] else { panic!("one load") };
        assert_eq!(halves.pairs, [(1, 0), (0, 1), (3, 2), (2, 3)], "from group to group");
        assert_eq!(loads(&fleet, &[Pattern::All], &[0, 1, 2, 3]), [], "nobody to send to");
    }

    #[test]
    fn every_pair_of_a_large_fleet_at_once_is_refused() {
        let large = fleet(&[0; MOST_OF_ALL + 1]);
        let refused = Pattern::All.check(&large).expect_err("too many").message();
        assert!(refused.contains("65 hosts, at most 64"), "{refused}");
        assert!(Pattern::Incast.check(&large).is_ok());
        let larger = fleet(&[0; MOST_SENDERS + 2]);
        assert!(
            Pattern::Incast.check(&larger).is_err() && Pattern::Bisection.check(&larger).is_ok()
        );
        assert!(Pattern::All.check(&fleet(&[0; MOST_OF_ALL])).is_ok());
    }
}
