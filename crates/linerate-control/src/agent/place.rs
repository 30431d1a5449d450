//! Places at an agent: conductors measure, and one changes settings.
//!
//! Those that share no part of the host measure at the same time. A newcomer gets a place that is
//! free or becomes free in time. A place is taken away only from a conductor that cannot use it any
//! more: an earlier connection of the newcomer itself, or one whose host no longer answers
//! ([`presence`](super::presence)). Conductors that wait take [`turns`](super::turns).

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::parts::Part;
use super::presence::{PAUSE, Presence, Question};
use super::turns::{Claim, Turns, Who};
use crate::Fingerprint;
use crate::link::{Beat, Channel, Closer, Outbox, Pulse};
use crate::wire::{Greeting, Message};

/// Message to a conductor that shows whether its host acknowledges anything: an answer to a ping
/// that nobody sent.
const NUDGE: Message = Message::Pong { n: u64::MAX, clock_ns: 0, sent_ns: 0, answered_ns: 0 };

/// Most conductors that measure at the same time: each has threads of its own.
const MOST: usize = 64;

/// Conductor that has a place.
pub(super) struct Holder {
    pub(super) by: String,
    campaign: String,
    pub(super) key: Option<Fingerprint>,
    since: Instant,
    /// Time that its campaign is expected to take, seconds; 0 if unknown.
    lasts_s: u64,
    pub(super) closer: Closer,
    pulse: Option<Pulse>,
    /// True if its command runs another campaign afterwards.
    returns: bool,
    turn: u64,
    /// Part of the host that it uses.
    part: Part,
    /// Address of this host that its control connection uses.
    own: Option<IpAddr>,
    /// Others that had a place since [`Place::company`] was last called, by name.
    company: BTreeSet<String>,
    /// Queue of messages to it, once its session has begun.
    outbox: Option<Outbox>,
}

impl Holder {
    pub(super) fn new(channel: &Channel, greeting: &Greeting, by: &str, part: Part) -> Self {
        Self {
            by: by.to_owned(),
            campaign: greeting.campaign.clone(),
            key: channel.key,
            since: Instant::now(),
            lasts_s: greeting.lasts_s,
            returns: greeting.returns,
            turn: greeting.turn,
            part,
            own: channel.own,
            company: BTreeSet::new(),
            closer: Arc::clone(&channel.closer),
            pulse: channel.pulse.clone(),
            outbox: None,
        }
    }

    /// Returns whether both are connections of one conductor, which lost the earlier one.
    fn is_same(&self, newcomer: &Self) -> bool {
        // Sessions without a campaign, such as those that tune, never replace each other.
        !newcomer.campaign.is_empty()
            && newcomer.campaign == self.campaign
            && newcomer.key == self.key
    }

    fn seen_by(&self, newcomer: &Self) -> Seen {
        Seen {
            since: self.since,
            is_same: self.is_same(newcomer),
            // A session that has not begun cannot be asked anything.
            beat: self.outbox.as_ref().and(self.pulse.as_ref()).and_then(|pulse| pulse()),
        }
    }

    fn who(&self) -> Who {
        Who { number: self.turn, key: self.key }
    }

    fn busy(&self, newcomer: &Self) -> Busy {
        let by = format!("{}{}", self.by, self.part.clash(&newcomer.part));
        Busy::after(&by, self.since.elapsed().as_secs(), self.lasts_s)
    }
}

impl std::fmt::Debug for Holder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Holder({})", self.by)
    }
}

/// How long a newcomer waits for a place.
#[derive(Clone, Copy, Debug)]
pub(super) struct Patience {
    /// For a holder that answers.
    pub(super) present: Duration,
    /// In all, if the holder does not answer or is being disconnected.
    pub(super) absent: Duration,
}

/// The conductor that kept a newcomer from a place.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Busy {
    pub(super) by: String,
    pub(super) since_s: u64,
    /// 0 if unknown.
    left_s: u64,
    /// Number of conductors that wait and come first.
    ahead: u64,
}

impl Busy {
    /// Returns the state of a conductor that is served for `since_s` and expected to take
    /// `lasts_s`. One that takes longer leaves within a second, as far as is known.
    fn after(by: &str, since_s: u64, lasts_s: u64) -> Self {
        let left_s = if lasts_s == 0 { 0 } else { lasts_s.saturating_sub(since_s).max(1) };
        Self { by: by.to_owned(), since_s, left_s, ahead: 0 }
    }
}

impl From<Busy> for Message {
    fn from(Busy { by, since_s, left_s, ahead }: Busy) -> Self {
        Self::Busy { by, since_s, left_s, ahead }
    }
}

/// State of a place's holder at one moment.
#[derive(Clone, Copy, Debug)]
struct Seen {
    since: Instant,
    is_same: bool,
    /// `None` if the kernel knows nothing of the other host.
    beat: Option<Beat>,
}

/// Next step of a newcomer at a place that is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// The place stays taken.
    Leave,
    /// Wait this long for the holder to leave by itself.
    Wait(Duration),
    /// Send the holder a message that its kernel acknowledges, then wait.
    Ask(Duration),
    /// Disconnect the holder, then wait until it has put everything back.
    Disconnect(Duration),
}

/// Newcomer's attempt to get a place. Decides in virtual time; the caller looks, sends and waits.
#[derive(Debug)]
struct Attempt {
    began: Instant,
    patience: Patience,
    /// The holder that was asked, by its start, and the question.
    asked: Option<(Instant, Question)>,
}

impl Attempt {
    fn new(patience: Patience, now: Instant) -> Self {
        Self { began: now, patience, asked: None }
    }

    fn step(&mut self, holder: Seen, now: Instant) -> Step {
        let waited = now.saturating_duration_since(self.began);
        // The whole attempt is bounded: a holder may need long to put its changes back.
        let left = self.patience.absent.saturating_sub(waited);
        if left.is_zero() {
            return Step::Leave;
        }
        if holder.is_same {
            return Step::Disconnect(left);
        }
        let (since, question) =
            *self.asked.get_or_insert_with(|| (holder.since, Question::new(holder.beat, now)));
        if since != holder.since {
            // Another newcomer got the place first, and has just been here.
            return Step::Leave;
        }
        match question.answer(holder.beat, now) {
            Presence::Here => match self.patience.present.saturating_sub(waited) {
                Duration::ZERO => Step::Leave,
                left => Step::Wait(left),
            },
            Presence::Asked => Step::Ask(PAUSE.min(left)),
            Presence::Gone => Step::Disconnect(left),
        }
    }
}

impl Attempt {
    /// Takes the next step at the place of `other`. Returns how long to wait, unless `newcomer` is
    /// to leave.
    fn at(
        &mut self,
        other: &Holder,
        newcomer: &Holder,
        now: Instant,
        notify: &dyn Fn(&str),
    ) -> Result<Duration, Busy> {
        let seen = other.seen_by(newcomer);
        match self.step(seen, now) {
            Step::Leave => Err(other.busy(newcomer)),
            Step::Wait(pause) => Ok(pause),
            Step::Ask(pause) => {
                other.outbox.iter().for_each(|outbox| outbox.try_send(NUDGE));
                Ok(pause)
            }
            Step::Disconnect(pause) => {
                if !seen.is_same {
                    let (gone, by) = (&other.by, &newcomer.by);
                    notify(&format!("{gone} no longer answers: {by} takes its place"));
                }
                (other.closer)();
                Ok(pause)
            }
        }
    }
}

/// Place that one conductor has at a time, or several of which each uses a part of the host.
#[derive(Debug, Default)]
pub(super) struct Place {
    state: Mutex<State>,
    released: Condvar,
}

#[derive(Debug, Default)]
pub(super) struct State {
    holders: Vec<(u64, Holder)>,
    /// Number of the last holder.
    last: u64,
    turns: Turns,
}

impl State {
    /// Returns those that have the place.
    pub(super) fn holders(&self) -> impl Iterator<Item = &Holder> {
        self.holders.iter().map(|(_, holder)| holder)
    }

    /// Returns the addresses of this host that their control connections use.
    pub(super) fn control(&self) -> impl Iterator<Item = IpAddr> {
        self.holders().filter_map(|holder| holder.own)
    }

    fn seat(&mut self, mut newcomer: Holder) -> u64 {
        for (_, other) in &mut self.holders {
            other.company.insert(newcomer.by.clone());
            newcomer.company.insert(other.by.clone());
        }
        self.turns.seated(newcomer.who());
        self.last += 1;
        self.holders.push((self.last, newcomer));
        self.last
    }
}

impl Place {
    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the names of the others that had a place since the last call, beside the conductor
    /// whose seat has this `number`.
    pub(super) fn company(&self, number: u64) -> BTreeSet<String> {
        let mut state = self.state();
        let others = state.holders.iter().filter(|(other, _)| *other != number);
        let present = others.map(|(_, other)| other.by.clone()).collect();
        let own = state.holders.iter_mut().find(|(other, _)| *other == number);
        own.map(|(_, own)| std::mem::replace(&mut own.company, present)).unwrap_or_default()
    }

    /// Takes the place for `newcomer`, within its `patience`. Calls `notify` if it takes the place
    /// from a host that does not answer.
    pub(super) fn take(
        &self,
        newcomer: Holder,
        patience: Patience,
        notify: &dyn Fn(&str),
    ) -> Result<Seat<'_>, Busy> {
        let who = newcomer.who();
        let mut attempt = Attempt::new(patience, Instant::now());
        // The lock is released only while waiting, so that two newcomers cannot both take it.
        let mut state = self.state();
        loop {
            let now = Instant::now();
            let State { holders, turns, .. } = &mut *state;
            let is_full = holders.len() >= MOST;
            let in_the_way = |other: &Holder| is_full || other.part.overlaps(&newcomer.part);
            let in_the_way = holders.iter().find(|(_, other)| in_the_way(other));
            let found = match in_the_way {
                Some((_, other)) => attempt.at(other, &newcomer, now, notify),
                None => match turns.claim(who, &newcomer.part, now) {
                    Claim::Free => break,
                    Claim::Behind(by) => Err(Busy { by, ..Busy::default() }),
                    Claim::Kept(pause) => Ok(pause),
                },
            };
            let pause = found.map_err(|busy| {
                let ahead = turns.refused(who, &newcomer.by, &newcomer.part, now);
                Busy { ahead, ..busy }
            })?;
            let waited = self.released.wait_timeout(state, pause);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        let part = newcomer.part.clone();
        Ok(Seat { place: self, number: state.seat(newcomer), part })
    }
}

/// Proof of having a place; the place is free again when this is dropped.
#[derive(Debug)]
pub(super) struct Seat<'a> {
    place: &'a Place,
    number: u64,
    part: Part,
}

impl Seat<'_> {
    /// Returns the part of the host that goes with it.
    pub(super) fn part(&self) -> &Part {
        &self.part
    }

    /// Returns the number by which [`Place::company`] knows it.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// Begins the session: from now on its conductor can be asked whether it is there.
    pub(super) fn reached_by(&self, outbox: &Outbox) {
        let mut state = self.place.state();
        if let Some((_, holder)) = state.holders.iter_mut().find(|(at, _)| *at == self.number) {
            holder.outbox = Some(outbox.clone());
        }
    }
}

impl Drop for Seat<'_> {
    fn drop(&mut self) {
        let mut state = self.place.state();
        let left = state.holders.iter().position(|(number, _)| *number == self.number);
        let left = left.map(|at| state.holders.swap_remove(at).1);
        if let Some(left) = left.filter(|left| left.returns) {
            state.turns.returns(left.who(), Instant::now());
        }
        drop(state);
        self.place.released.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As the agent waits for the place of a conductor that measures.
    const MEASURING: Patience =
        Patience { present: Duration::ZERO, absent: Duration::from_secs(5) };
    /// As it waits for the place of one that changes settings.
    const TUNING: Patience =
        Patience { present: Duration::from_secs(1), absent: Duration::from_secs(5) };

    /// Outcome of an attempt, and the milliseconds it took.
    #[derive(Debug, PartialEq, Eq)]
    enum Outcome {
        Busy(u64),
        /// The holder left by itself.
        Free(u64),
        /// The holder was disconnected.
        Replaced(u64),
    }

    /// Plays an attempt in virtual time against a holder whose kernel sends a segment every
    /// `every_ms` once it is asked, and which leaves by itself after `stays_ms`.
    fn play(patience: Patience, every_ms: u64, stays_ms: u64, is_same: bool) -> Outcome {
        let began = Instant::now();
        let mut attempt = Attempt::new(patience, began);
        let mut ms = 0;
        while ms < stays_ms {
            let segments = (ms / every_ms) as u32;
            let beat = Some(Beat { segments, round_trip: Duration::from_millis(20) });
            let seen = Seen { since: began, is_same, beat };
            ms += match attempt.step(seen, began + Duration::from_millis(ms)) {
                Step::Leave => return Outcome::Busy(ms),
                Step::Disconnect(_) => return Outcome::Replaced(ms),
                Step::Wait(pause) | Step::Ask(pause) => pause.as_millis() as u64,
            };
        }
        Outcome::Free(stays_ms)
    }

    const NEVER: u64 = u64::MAX;

    #[test]
    fn a_vanished_conductor_frees_its_place_within_a_second_also_one_that_changes_settings() {
        for patience in [MEASURING, TUNING] {
            // 400 ms and a round trip, in steps of 40 ms.
            assert_eq!(play(patience, NEVER, NEVER, false), Outcome::Replaced(440));
            assert_eq!(play(patience, NEVER, NEVER, true), Outcome::Replaced(0));
        }
    }

    #[test]
    fn the_time_that_is_left_is_the_expected_one_and_unknown_without_it() {
        let left = |since_s, lasts_s| Busy::after("a", since_s, lasts_s).left_s;
        assert_eq!([left(10, 70), left(80, 70), left(10, 0)], [60, 1, 0]);
    }

    #[test]
    fn a_conductor_whose_kernel_answers_keeps_its_place() {
        assert_eq!(play(MEASURING, 100, NEVER, false), Outcome::Busy(120));
        assert_eq!(play(TUNING, 100, NEVER, false), Outcome::Busy(1_000));
    }

    #[test]
    fn a_conductor_that_still_puts_settings_back_is_waited_for() {
        assert_eq!(play(TUNING, 100, 600, false), Outcome::Free(600));
    }

    #[test]
    fn a_place_that_another_newcomer_got_first_stays_its_own() {
        let now = Instant::now();
        let mut attempt = Attempt::new(TUNING, now);
        let beat = Some(Beat { segments: 1, round_trip: Duration::ZERO });
        let first = Seen { since: now, is_same: false, beat };
        assert!(matches!(attempt.step(first, now), Step::Ask(_)));
        let second = Seen { since: now + Duration::from_millis(5), ..first };
        assert_eq!(attempt.step(second, now + Duration::from_secs(2)), Step::Leave);
    }
}
