//! Courses over a simulated path, in virtual time.

use std::collections::BTreeMap;

use super::*;

const HEADERS: u64 = 28;
/// Distance of the receiver's clock.
const RECEIVER_AHEAD: Nanos = Nanos::from_millis(70_000);
const LIMITS: ProbeLimits =
    ProbeLimits { rate: BitRate(200e6), bytes: Bytes(32_000_000), may_lose: false };

/// Simulated path: a queue in front of a rate, a policer, an MTU and random loss.
#[derive(Default)]
struct Path {
    rate: f64,
    queue_bytes: f64,
    mtu: usize,
    /// Random loss: one of this number of datagrams is lost; 0 for none.
    loses: u64,
    one_way: Nanos,
    /// Bytes of a policer's bucket in place of the queue; 0 for none.
    bucket: f64,
    tokens: f64,
    at: Nanos,
    free: f64,
    received: u64,
    highest: u64,
    /// Rate of the way back, bit/s, and the bytes that it holds; 0 for an unlimited one.
    back: [f64; 2],
    back_free: f64,
    /// Time by which a busy host holds up the answer to a datagram of this number.
    held: Option<fn(u64) -> Nanos>,
    answers: BTreeMap<Nanos, Vec<Answer>>,
}

impl Path {
    fn new(rate: f64, queue_bytes: f64) -> Self {
        Self {
            rate,
            queue_bytes,
            mtu: 1500,
            one_way: Nanos::from_millis(5),
            tokens: f64::INFINITY,
            ..Self::default()
        }
    }

    /// Takes tokens for `bytes` from the policer's bucket, if there are enough.
    fn takes_tokens(&mut self, bytes: f64, now: Nanos) -> bool {
        let refilled = now.since(self.at).as_secs_f64() * self.rate / 8.0;
        self.tokens = (self.tokens + refilled).min(self.bucket);
        self.at = now;
        let has_enough = self.tokens >= bytes;
        if has_enough {
            self.tokens -= bytes;
        }
        has_enough
    }

    fn carry(&mut self, number: u64, payload: usize, asks: bool, now: Nanos) {
        let bytes = payload as f64 + HEADERS as f64;
        let start = (now.0 as f64).max(self.free);
        let waiting = (start - now.0 as f64) / 1e9 * self.rate / 8.0;
        let is_lost = self.loses > 0 && number.is_multiple_of(self.loses);
        let is_dropped = match self.bucket > 0.0 {
            true => !self.takes_tokens(bytes, now),
            false => waiting + bytes > self.queue_bytes,
        };
        if is_lost || payload + HEADERS as usize > self.mtu || is_dropped {
            return;
        }
        self.free = start + bytes * 8.0 / self.rate * 1e9;
        if self.bucket > 0.0 {
            self.free = now.0 as f64;
        }
        self.received += 1;
        self.highest = self.highest.max(number);
        if asks {
            let arrived = Nanos(self.free as u64) + self.one_way;
            let (received, highest) = (self.received, self.highest);
            let Some(at) = self.carry_back(arrived) else { return };
            let at = at + self.held.map_or(Nanos(0), |held| held(number));
            let rtt = at.since(now);
            let arrived = arrived + RECEIVER_AHEAD;
            let answer = Answer { number, received, highest, at, arrived, rtt };
            self.answers.entry(at).or_default().push(answer);
        }
    }

    /// Returns when the answer to a datagram that arrived at `now` arrives; `None` if the way back
    /// drops it.
    fn carry_back(&mut self, now: Nanos) -> Option<Nanos> {
        const ANSWER_BITS: f64 = (56.0 + HEADERS as f64) * 8.0;
        let [rate, bytes] = self.back;
        if rate == 0.0 {
            return Some(now + self.one_way);
        }
        let start = self.back_free.max(now.0 as f64);
        let waiting = start - now.0 as f64;
        if waiting / 1e9 * rate / 8.0 + ANSWER_BITS / 8.0 > bytes {
            return None;
        }
        self.back_free = start + ANSWER_BITS / rate * 1e9;
        Some(Nanos(self.back_free as u64) + self.one_way)
    }
}

/// Runs a probe over `path`; returns its course and its length.
fn run(mut path: Path, limits: ProbeLimits) -> (Course, Nanos) {
    const BEGIN: Nanos = Nanos::from_millis(1_000);
    let mut course = Course::new(limits, 1472, HEADERS);
    let mut now = BEGIN;
    while now.since(BEGIN) < Nanos::from_millis(20_000) {
        while let Some(entry) = path.answers.first_entry().filter(|entry| *entry.key() <= now) {
            entry.remove().into_iter().for_each(|answer| course.answered(answer));
        }
        match course.next(now) {
            Action::Send { n, payload, asks } => {
                let first = course.next_number();
                for idx in 0..n {
                    path.carry(first + idx as u64, payload, asks && idx + 1 == n, now);
                }
                course.sent(n, payload, asks, now);
                now.0 += 2_000 * n as u64;
            }
            Action::Wait(until) => {
                assert!(until > now, "a wait that does not end");
                let heard = path.answers.keys().next().copied().unwrap_or(until);
                now = until.min(heard.max(Nanos(now.0 + 1)));
            }
            Action::Done => return (course, now.since(BEGIN)),
        }
    }
    panic!("the probe did not end: {course:?}");
}

fn phases(course: &mut Course, kind: ProbeKind) -> Vec<ProbePhase> {
    let (phases, _) = course.results();
    let kept = phases.iter().copied().filter(|phase| phase.kind == kind).collect();
    course.phases = phases;
    kept
}

#[test]
fn the_flood_is_twice_the_rate_of_the_path_and_ends_after_200_ms_of_loss() {
    for rate in [1e6, 5e6, 20e6, 90e6] {
        let (mut course, length) = run(Path::new(rate, 60_000.0), LIMITS);
        let flood = phases(&mut course, ProbeKind::Flood);
        let offered = flood[0].rate.expect("a rate").0;
        assert!((1.5..2.6).contains(&(offered / rate)), "{rate}: {offered}");
        assert_eq!(flood[0].ended, ProbeEnd::Loss, "{rate}: {flood:?}");
        let longest = if rate < 5e6 { 6_500 } else { 5_000 };
        assert!(length <= Nanos::from_millis(longest), "{rate}: {length}");
    }
}

#[test]
fn a_path_that_carries_the_limit_is_flooded_at_the_limit_within_the_bytes() {
    let (mut course, length) = run(Path::new(1e9, 1e6), LIMITS);
    let ramp = phases(&mut course, ProbeKind::Ramp);
    assert_eq!(ramp.last().expect("steps").rate, Some(LIMITS.rate));
    let flood = phases(&mut course, ProbeKind::Flood);
    assert_eq!((flood[0].rate, flood[0].ended), (Some(LIMITS.rate), ProbeEnd::Bytes));
    assert!(course.bytes <= LIMITS.bytes.0 && course.next_number <= MOST_DATAGRAMS);
    assert!(length <= Nanos::from_millis(5_000), "{length}");
}

#[test]
fn a_slow_way_back_ends_neither_ramp_nor_flood_and_its_queue_stays_short() {
    for (back, least, records) in [(0.1e6, 64e6, 4_000), (1e6, 200e6, 30_000)] {
        let path = Path { back: [back, 31_000.0], ..Path::new(1e9, 1e6) };
        let (mut course, length) = run(path, LIMITS);
        let flood = phases(&mut course, ProbeKind::Flood);
        assert!(flood[0].rate.is_some_and(|rate| rate.0 >= least), "{back}: {flood:?}");
        assert_eq!(flood[0].ended, ProbeEnd::Bytes, "{back}");
        // A record has 14 B of text on the way back.
        assert!(course.next_number <= records, "{back}: {}", course.next_number);
        assert!(length <= Nanos::from_millis(5_000), "{back}: {length}");
        // Fifty pings in 0.2 s are 34 kbit.
        assert!(course.widest_rtt <= Nanos::from_millis(200), "{back}: {}", course.widest_rtt);
    }
}

#[test]
fn answers_that_a_busy_host_holds_up_are_no_slow_way_back() {
    // The first three answers of each train arrive 10 ms apart, and the last two together. The
    // first train begins behind fifty pings and one size.
    let held = |number: u64| match number {
        51..451 => Nanos::from_millis(10 * ((number - 51) % TRAIN / BATCH as u64 + 1).min(3)),
        _ => Nanos(0),
    };
    let path = Path { held: Some(held), ..Path::new(1e9, 1e6) };
    let (mut course, _) = run(path, LIMITS);
    assert!(phases(&mut course, ProbeKind::Train).len() > 3);
    assert!(course.bytes > LIMITS.bytes.0 * 9 / 10, "{}", course.bytes);
}

#[test]
fn the_rate_of_a_link_and_its_empty_queue_are_seen_through_a_slow_way_back() {
    for back in [0.03e6, 0.1e6] {
        let path = Path { back: [back, 31_000.0], ..Path::new(5e6, 60_000.0) };
        let (mut course, _) = run(path, LIMITS);
        let flood = phases(&mut course, ProbeKind::Flood)[0];
        let offered = flood.rate.expect("a rate").0;
        assert!((1.95..2.05).contains(&(offered / 5e6)), "{back}: {offered}");
        assert_eq!(flood.ended, ProbeEnd::Loss, "{flood:?}");
        let settled = phases(&mut course, ProbeKind::Settle)[0];
        assert!(settled.until.since(settled.from) < Nanos::from_millis(200), "{settled:?}");
    }
}

#[test]
fn consent_lets_a_flood_run_its_time() {
    let limits = ProbeLimits { may_lose: true, ..LIMITS };
    let (mut course, _) = run(Path::new(5e6, 20_000.0), limits);
    let flood = phases(&mut course, ProbeKind::Flood)[0];
    assert_eq!(flood.ended, ProbeEnd::Complete);
    assert!(flood.until.since(flood.from) >= Nanos::from_millis(1_450), "{flood:?}");
}

#[test]
fn random_loss_ends_the_ramp_without_a_flood() {
    let path = Path { loses: 8, ..Path::new(1e9, 1e6) };
    let (mut course, _) = run(path, LIMITS);
    assert_eq!(phases(&mut course, ProbeKind::Flood), []);
    assert_eq!(phases(&mut course, ProbeKind::Ramp).len(), 2, "two steps of 100 ms");
    let consent = ProbeLimits { may_lose: true, ..LIMITS };
    let (mut course, _) = run(Path { loses: 8, ..Path::new(1e9, 1e6) }, consent);
    assert_eq!(phases(&mut course, ProbeKind::Ramp).last().expect("steps").rate, Some(LIMITS.rate));
}

#[test]
fn a_policer_whose_bucket_refills_between_steps_is_no_random_loss() {
    // Trains empty most of the bucket; 125 kB come back while a step waits for its last answer.
    let path = Path { bucket: 675_000.0, ..Path::new(5e6, 0.0) };
    let (mut course, _) = run(path, LIMITS);
    let flood = phases(&mut course, ProbeKind::Flood);
    assert_eq!(flood.len(), 1, "{:?}", course.phases);
    assert!((7e6..130e6).contains(&flood[0].rate.expect("a rate").0), "{flood:?}");
}

#[test]
fn a_smaller_mtu_is_found_to_the_byte_and_used_for_the_load() {
    for mtu in [576, 1_001, 1_314, 1_492, 1_500] {
        let (mut course, _) = run(Path { mtu, ..Path::new(20e6, 60_000.0) }, LIMITS);
        let flood = phases(&mut course, ProbeKind::Flood);
        assert_eq!(flood[0].payload.0 + HEADERS, mtu as u64);
        assert_eq!(course.results().1, Some(Bytes(mtu as u64 - HEADERS)));
    }
}

#[test]
fn a_path_that_answers_nothing_ends_the_probe_after_the_pings() {
    let (mut course, length) = run(Path { mtu: 0, ..Path::new(20e6, 60_000.0) }, LIMITS);
    let (phases, largest) = course.results();
    assert_eq!((phases.len(), phases[0].kind, largest), (1, ProbeKind::Idle, None));
    assert!(length <= Nanos::from_millis(1_500), "{length}");
}

#[test]
fn a_sender_that_was_held_up_does_not_send_a_burst() {
    let mut course = Course::new(LIMITS, 1472, HEADERS);
    course.rate = BitRate(12e6);
    course.enter(Stage::Flood, Nanos::from_millis(1_000));
    let (mut now, mut sent) = (Nanos::from_millis(1_000), 0);
    // Held up for 500 ms, in which 500 datagrams would have been due.
    for _ in 0..100 {
        match course.next(now) {
            Action::Send { n, payload, asks } => {
                assert!(n <= BATCH);
                course.sent(n, payload, asks, now);
                sent += n;
                now.0 += 1_000 + if sent == 1 { 500_000_000 } else { 0 };
            }
            Action::Wait(until) => now = until,
            Action::Done => break,
        }
    }
    let passed_ms = now.since(Nanos::from_millis(1_000)).0 / 1_000_000;
    assert!(sent as u64 <= passed_ms - 500 + 2 * BATCH as u64, "{sent} in {passed_ms} ms");
}

/// Runs one step of the ramp at `rate`, with `n` datagrams and the last ones answered after these
/// waits, ms; returns the stage and the rate behind it.
fn step_of_ramp(rate: f64, repeated: u32, n: u64, waits_ms: [u64; 3]) -> (Stage, f64) {
    let mut course = Course::new(LIMITS, 1472, HEADERS);
    let begin = Nanos::from_millis(1_000);
    let answer = |number, sent: Nanos, wait: Nanos| {
        let arrived = sent + Nanos::from_millis(5) + wait;
        let (at, rtt) = (arrived + Nanos::from_millis(5), Nanos::from_millis(10) + wait);
        Answer { number, received: number, highest: number, at, arrived, rtt }
    };
    course.answered(answer(1, begin, Nanos(0)));
    (course.rate, course.n_repeated, course.next_number) = (BitRate(rate), repeated, 2);
    course.enter(Stage::Ramp, begin);
    let every = Nanos(100_000_000 / n);
    for idx in 0..n {
        course.sent(1, 1472, false, begin + Nanos(idx * every.0));
    }
    for (idx, wait) in (0..).zip(waits_ms) {
        let sent = begin + Nanos((n - 3 + idx) * every.0);
        course.answered(answer(2 + n - 3 + idx, sent, Nanos::from_millis(wait)));
    }
    course.is_waiting = true;
    course.ramp(Nanos::from_millis(1_200));
    (course.stage, course.rate.0)
}

#[test]
fn a_step_with_which_a_busy_sender_fell_behind_is_repeated_and_shows_no_queue() {
    // Recorded at load 20: 18 datagrams at 200 Mbit/s, 35 at 8 Mbit/s.
    assert_eq!(step_of_ramp(200e6, 0, 18, [9, 14, 28]), (Stage::Ramp, 200e6));
    assert_eq!(step_of_ramp(8e6, 2, 35, [9, 14, 28]), (Stage::Ramp, 8e6));
    // At its rate, or repeated often enough, the wait is a queue.
    let (stage, rate) = step_of_ramp(8e6, 0, 67, [9, 14, 28]);
    assert!(stage == Stage::Settle && rate < 16e6, "{stage:?} {rate}");
    assert_eq!(step_of_ramp(8e6, MOST_REPEATED, 35, [9, 14, 28]).0, Stage::Settle);
}

#[test]
fn a_late_sender_makes_up_for_little_on_the_ramp_and_overflows_no_small_buffer() {
    // Held up for 60 ms at 4 Mbit/s, in which 20 datagrams would have been due.
    let burst = |stage: Stage| {
        let mut course = Course::new(LIMITS, 1472, HEADERS);
        course.rate = BitRate(4e6);
        course.enter(stage, Nanos::from_millis(1_000));
        course.sent(1, 1472, false, Nanos::from_millis(1_000));
        let mut now = Nanos::from_millis(1_060);
        let mut n_sent = 0;
        while let Action::Send { n, payload, asks } = course.paced(now) {
            course.sent(n, payload, asks, now);
            n_sent += n as u64;
            now.0 += 1_000;
        }
        n_sent
    };
    assert_eq!(burst(Stage::Ramp), late::LEAST_OF_RAMP);
    assert!(burst(Stage::Flood) >= 16);
}
