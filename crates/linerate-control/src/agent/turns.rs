//! Order in which conductors get a place that others have.
//!
//! A conductor that was refused may wait: it asks again about once a second, under the same number,
//! and the agent remembers it between two attempts. Of those that wait, the one with the lowest
//! number comes first; those that need different parts of the host do not wait for each other.
//! Numbers are times at which commands began, so every agent has the same
//! order. With an order of its own at each host, two conductors that need the same hosts could
//! wait for each other for ever. For the same reason nothing is held meanwhile, not even a
//! connection.
//!
//! A command that runs one campaign after another also keeps the place between them. All decisions
//! are made in virtual time.

use std::time::{Duration, Instant};

use super::parts::Part;
use crate::Fingerprint;

/// Time after which a conductor that has not asked again has stopped waiting.
const STALE: Duration = Duration::from_secs(5);
/// Longest time between two campaigns of one command: it judges the one, prepares the other, and
/// asks twice a second if the place is taken.
const BETWEEN: Duration = Duration::from_secs(2);
/// Most conductors whose turns are remembered. Others find the place by chance.
const MOST: usize = 64;

/// Conductor that takes turns: the number that it chose, and its key. Zero stands for one of a
/// release that chooses none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Who {
    pub(super) number: u64,
    pub(super) key: Option<Fingerprint>,
}

#[derive(Debug)]
struct Waiting {
    who: Who,
    by: String,
    part: Part,
    asked: Instant,
    /// True once it has asked again. One that does not, does not wait: it has no turn.
    waits: bool,
}

/// Claim to a part of a place that nobody has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Claim {
    /// Nobody comes first.
    Free,
    /// This conductor waits and comes first.
    Behind(String),
    /// A command that has just left is expected back within this time.
    Kept(Duration),
}

/// Conductors that wait for one place, the lowest number first.
#[derive(Debug, Default)]
pub(super) struct Turns {
    waiting: Vec<Waiting>,
    kept: Option<(Who, Instant)>,
}

impl Turns {
    /// Returns the claim of `who` to `part` of the place, which nobody has.
    pub(super) fn claim(&mut self, who: Who, part: &Part, now: Instant) -> Claim {
        self.forget(now);
        match self.kept {
            Some((command, until)) if command != who => {
                return Claim::Kept(until.saturating_duration_since(now));
            }
            // It comes before those that wait: they did so for all of its campaigns.
            Some(_) => return Claim::Free,
            None => {}
        }
        let concerns = |other: &&Waiting| other.who == who || other.part.overlaps(part);
        match self.waiting.iter().filter(|other| other.waits).find(concerns) {
            Some(first) if first.who != who => Claim::Behind(first.by.clone()),
            _ => Claim::Free,
        }
    }

    /// Notes that `who`, called `by`, was refused `part`. Returns how many that wait come first.
    pub(super) fn refused(&mut self, who: Who, by: &str, part: &Part, now: Instant) -> u64 {
        self.forget(now);
        let has_room = self.waiting.len() < MOST;
        match self.waiting.binary_search_by_key(&who, |other| other.who) {
            Ok(at) => {
                let known = &mut self.waiting[at];
                (known.asked, known.waits, known.part) = (now, true, part.clone());
            }
            Err(at) if who.number != 0 && has_room => {
                let (by, part) = (by.to_owned(), part.clone());
                let newcomer = Waiting { who, by, part, asked: now, waits: false };
                self.waiting.insert(at, newcomer);
            }
            Err(_) => {}
        }
        let is_first = |other: &&Waiting| {
            other.waits && (other.who < who || who.number == 0) && other.part.overlaps(part)
        };
        self.waiting.iter().filter(is_first).count() as u64
    }

    /// Notes that `who` has the place.
    pub(super) fn seated(&mut self, who: Who) {
        self.waiting.retain(|other| other.who != who);
        self.kept = None;
    }

    /// Notes that `who` has left, and is expected back.
    pub(super) fn returns(&mut self, who: Who, now: Instant) {
        self.kept = Some((who, now + BETWEEN));
    }

    fn forget(&mut self, now: Instant) {
        self.waiting.retain(|other| now.saturating_duration_since(other.asked) < STALE);
        self.kept = self.kept.filter(|(_, until)| now < *until);
    }
}

#[cfg(test)]
mod tests {
    use super::super::parts::tests::part;
    use super::*;

    /// One that needs the whole host.
    impl Turns {
        fn claim_all(&mut self, who: Who, now: Instant) -> Claim {
            self.claim(who, &Part::Whole, now)
        }

        fn refused_all(&mut self, who: Who, by: &str, now: Instant) -> u64 {
            self.refused(who, by, &Part::Whole, now)
        }
    }

    fn who(number: u64) -> Who {
        Who { number, key: None }
    }

    fn after(began: Instant, ms: u64) -> Instant {
        began + Duration::from_millis(ms)
    }

    #[test]
    fn those_who_ask_again_get_turns_in_the_order_of_their_numbers_at_every_host() {
        let (mut turns, began) = (Turns::default(), Instant::now());
        let ahead = [2, 3, 1].map(|number| turns.refused_all(who(number), "x", began));
        assert_eq!(ahead, [0, 0, 0], "nobody is known to wait yet");
        let ahead =
            [3, 2, 1].map(|number| turns.refused_all(who(number), "x", after(began, 1_000)));
        assert_eq!(ahead, [0, 0, 0]);
        let ahead =
            [3, 2, 1].map(|number| turns.refused_all(who(number), "x", after(began, 1_500)));
        assert_eq!(ahead, [2, 1, 0]);
        assert_eq!(turns.refused_all(who(2), "x", after(began, 2_000)), 1);
        let claims = [1, 2, 4].map(|number| turns.claim_all(who(number), after(began, 2_000)));
        let behind = Claim::Behind("x".into());
        assert_eq!(claims, [Claim::Free, behind.clone(), behind]);
        turns.seated(who(1));
        assert_eq!(turns.claim_all(who(2), after(began, 2_000)), Claim::Free);
        assert_eq!(turns.refused_all(who(2), "x", after(began, 2_000)), 0);
    }

    #[test]
    fn of_two_conductors_that_need_the_same_hosts_one_gets_all() {
        let (mut hosts, now) = ([Turns::default(), Turns::default()], Instant::now());
        for _ in 0..2 {
            for (turns, order) in hosts.iter_mut().zip([[1, 2], [2, 1]]) {
                for number in order {
                    turns.refused_all(who(number), "x", now);
                }
            }
        }
        for turns in &mut hosts {
            assert_eq!(turns.claim_all(who(1), now), Claim::Free);
            assert_eq!(turns.claim_all(who(2), now), Claim::Behind("x".into()));
        }
    }

    #[test]
    fn one_that_does_not_ask_again_keeps_nobody_out() {
        let (mut turns, began) = (Turns::default(), Instant::now());
        turns.refused_all(who(1), "once", began);
        assert_eq!(turns.claim_all(who(2), began), Claim::Free);
        turns.refused_all(who(1), "again", after(began, 1_000));
        assert_eq!(turns.claim_all(who(2), after(began, 5_999)), Claim::Behind("once".into()));
        assert_eq!(
            turns.claim_all(who(2), after(began, 6_000)),
            Claim::Free,
            "it has stopped asking"
        );
    }

    #[test]
    fn a_command_of_several_campaigns_keeps_its_place_for_a_moment() {
        let (mut turns, began) = (Turns::default(), Instant::now());
        for ms in [0, 1_000] {
            turns.refused_all(who(2), "waits", after(began, ms));
        }
        turns.returns(who(1), after(began, 1_000));
        let left = Claim::Kept(Duration::from_millis(500));
        assert_eq!(turns.claim_all(who(2), after(began, 2_500)), left);
        assert_eq!(turns.claim_all(who(3), after(began, 2_500)), left);
        assert_eq!(turns.claim_all(who(1), after(began, 2_500)), Claim::Free);
        assert_eq!(turns.claim_all(who(2), after(began, 3_000)), Claim::Free);
    }

    #[test]
    fn conductors_without_a_number_and_those_of_other_keys_are_not_mistaken_for_one_that_waits() {
        let (mut turns, began) = (Turns::default(), Instant::now());
        for _ in 0..2 {
            turns.refused_all(who(0), "old", began);
            turns.refused_all(who(1), "new", began);
        }
        assert_eq!(turns.refused_all(who(0), "old", began), 1);
        let thief = Who { key: Some(Fingerprint([7; 32])), ..who(1) };
        assert_eq!(turns.claim_all(thief, began), Claim::Behind("new".into()));
    }

    #[test]
    fn those_who_need_other_parts_do_not_wait_for_each_other_but_for_one_who_needs_all() {
        let (mut turns, now) = (Turns::default(), Instant::now());
        let (one, other) = (part(&[0], &[], &[]), part(&[1], &[], &[]));
        let behind = |by: &str| Claim::Behind(by.into());
        for _ in 0..2 {
            turns.refused(who(1), "x", &one, now);
        }
        assert_eq!(turns.claim(who(2), &one, now), behind("x"));
        assert_eq!(turns.claim(who(2), &other, now), Claim::Free);
        assert_eq!(turns.refused(who(2), "y", &other, now), 0);
        let ahead = [(); 2].map(|()| turns.refused(who(3), "z", &Part::Whole, now));
        assert_eq!(ahead, [1, 1]);
        assert_eq!(turns.claim(who(4), &other, now), behind("z"));
        assert_eq!(turns.claim(who(3), &Part::Whole, now), behind("x"));
        assert_eq!(turns.claim(who(1), &one, now), Claim::Free);
        turns.seated(who(1));
        assert_eq!(turns.claim(who(3), &Part::Whole, now), Claim::Free);
    }

    #[test]
    fn the_number_of_turns_is_bounded() {
        let (mut turns, now) = (Turns::default(), Instant::now());
        for number in 1..1_000 {
            turns.refused_all(who(number), "x", now);
        }
        assert_eq!(turns.waiting.len(), MOST);
    }
}
