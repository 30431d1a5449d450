//! Choice of the stranger to disconnect when there are too many, and the budget of each source.
//! Pure: time is an argument.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

/// Mean interval between two meetings of one source.
const PERIOD: Duration = Duration::from_millis(20);
/// Meetings that one source may begin at once after a pause.
const BURST: u32 = 100;
/// Number of sources with their own budget. All others share one.
const SOURCES: usize = 4096;
/// Number of members among whom the one to disconnect is chosen.
const CANDIDATES: usize = 4;

/// Source of connections: an IPv4 address, or the /64 that an IPv6 host is given (RFC 6177 clause
/// 2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Source {
    V4(u32),
    V6(u64),
    /// Every source that came after the table was full.
    Others,
}

impl From<IpAddr> for Source {
    fn from(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V4(address) => Self::V4(address.to_bits()),
            // A host gets a whole /64 and could use another address for each connection.
            IpAddr::V6(address) => Self::V6((address.to_bits() >> 64) as u64),
        }
    }
}

/// Budget of meetings for each source: a token bucket, stored as the time at which it is full again
/// (the generic cell rate algorithm, ITU-T I.371).
#[derive(Debug, Default)]
pub(super) struct Budgets(HashMap<Source, Instant>);

impl Budgets {
    /// Takes one meeting from the budget of `source`. Returns `false` if the budget is exhausted.
    pub(super) fn take(&mut self, source: Source, now: Instant) -> bool {
        let mut source = source;
        if self.0.len() >= SOURCES && !self.0.contains_key(&source) {
            // Full buckets need no entry.
            self.0.retain(|_, full_at| *full_at > now);
            if self.0.len() >= SOURCES {
                source = Source::Others;
            }
        }
        // A bucket that was full in the past is full now.
        let full_at = self.0.get(&source).copied().unwrap_or(now).max(now);
        // The time at which it would be full may be ahead by one burst at most.
        let has_budget = full_at + PERIOD <= now + PERIOD * BURST;
        if has_budget {
            self.0.insert(source, full_at + PERIOD);
        }
        has_budget
    }
}

/// Bounded set of strangers. When it is full, one of them is disconnected for the next.
#[derive(Debug)]
pub(super) struct Crowd {
    most: usize,
    members: Vec<(u64, Source)>,
    of_source: HashMap<Source, usize>,
    random: SplitMix64,
}

impl Crowd {
    /// Creates an empty set of at most `most` members. `seed` decides whom it disconnects.
    pub(super) fn new(most: usize, seed: u64) -> Self {
        Self {
            most,
            members: Vec::new(),
            of_source: HashMap::new(),
            random: SplitMix64::seed_from_u64(seed),
        }
    }

    /// Adds member `number`. If the set was full, removes and returns another member: among a few
    /// chosen at random, the one whose source has the most members. So a flood displaces itself,
    /// and no stranger can predict the choice.
    pub(super) fn join(&mut self, number: u64, source: Source) -> Option<u64> {
        // The victim leaves first, so the set never exceeds its limit.
        let victim = (self.members.len() >= self.most).then(|| self.victim()).flatten();
        if let Some(victim) = victim {
            self.leave(victim);
        }
        self.members.push((number, source));
        *self.of_source.entry(source).or_default() += 1;
        victim
    }

    /// Removes member `number`, if it is in the set.
    pub(super) fn leave(&mut self, number: u64) {
        let Some(at) = self.members.iter().position(|(member, _)| *member == number) else {
            return;
        };
        let (_, source) = self.members.swap_remove(at);
        if let Some(count) = self.of_source.get_mut(&source) {
            *count -= 1;
            if *count == 0 {
                self.of_source.remove(&source);
            }
        }
    }

    fn victim(&mut self) -> Option<u64> {
        let mut candidates = Vec::with_capacity(CANDIDATES);
        for _ in 0..CANDIDATES {
            let at = self.random.next_u64() % self.members.len().max(1) as u64;
            candidates.extend(self.members.get(at as usize).copied());
        }
        candidates
            .into_iter()
            // The source with the most members is most likely the flood.
            .max_by_key(|(_, source)| self.of_source.get(source).copied())
            .map(|(number, _)| number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(address: &str) -> Source {
        address.parse::<IpAddr>().expect("an address").into()
    }

    #[test]
    fn a_source_is_an_ipv4_address_or_an_ipv6_network() {
        assert_eq!(source("::ffff:192.0.2.1"), source("192.0.2.1"));
        assert_ne!(source("192.0.2.1"), source("192.0.2.2"));
        assert_eq!(source("2001:db8:0:1::1"), source("2001:db8:0:1:ffff::2"));
        assert_ne!(source("2001:db8:0:1::1"), source("2001:db8:0:2::1"));
    }

    #[test]
    fn a_source_gets_its_burst_then_its_rate_and_others_are_not_charged() {
        let (mut budgets, start) = (Budgets::default(), Instant::now());
        let (flood, quiet) = (source("192.0.2.1"), source("192.0.2.2"));
        // Ten seconds of 5,000 connections a second.
        let taken = (0..50_000)
            .filter(|n| budgets.take(flood, start + Duration::from_micros(200) * *n))
            .count();
        assert_eq!(taken, BURST as usize + 10_000 / PERIOD.as_millis() as usize - 1);
        assert!(budgets.take(quiet, start + Duration::from_secs(10)));
    }

    #[test]
    fn sources_beyond_the_table_share_one_budget_and_idle_ones_make_room() {
        let (mut budgets, start) = (Budgets::default(), Instant::now());
        for n in 0..SOURCES as u32 {
            assert!(budgets.take(Source::V4(n), start));
        }
        let more = (0..10_000).filter(|n| budgets.take(Source::V6(*n), start)).count();
        // The first of them made the table one larger.
        assert_eq!((more, budgets.0.len()), (BURST as usize, SOURCES + 1));
        assert!(budgets.take(Source::V6(1), start + PERIOD * BURST));
        assert!(budgets.0.len() < 3, "{}", budgets.0.len());
    }

    #[test]
    fn a_flood_displaces_itself() {
        let mut crowd = Crowd::new(64, 1);
        assert_eq!(crowd.join(0, source("192.0.2.1")), None);
        let flood = source("192.0.2.2");
        let victims: Vec<u64> =
            (1..50_000).filter_map(|number| crowd.join(number, flood)).collect();
        assert_eq!(victims.len(), 50_000 - 64);
        assert!(!victims.contains(&0));
        assert_eq!((crowd.members.len(), crowd.of_source.len()), (64, 2));
        (0..50_000).for_each(|number| crowd.leave(number));
        assert!(
            crowd.members.is_empty() && crowd.of_source.is_empty(),
            "nothing is kept of those that left"
        );
    }

    #[test]
    fn of_one_source_a_member_outlasts_as_many_arrivals_as_chance_allows() {
        // One of 64 gives way at each arrival: after 8 arrivals 1 - (63 / 64)^8 = 11.8 % are gone.
        let same = source("192.0.2.1");
        let gone = (0..2000).filter(|seed| {
            let mut crowd = Crowd::new(64, *seed);
            (0..64).for_each(|number| assert_eq!(crowd.join(number, same), None));
            (64..72).any(|number| crowd.join(number, same) == Some(0))
        });
        let share = gone.count() as f64 / 2000.0;
        assert!((0.09..0.15).contains(&share), "{share}");
    }
}
