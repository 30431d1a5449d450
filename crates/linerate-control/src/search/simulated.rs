//! Simulated device with a known capacity, in virtual time, for tests of the controllers.

use linerate_analysis::search::Observation;
use linerate_model::{Goal, Method, Nanos, Search, Step};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

use super::controller;

/// Device that forwards at a capacity and drops frames when its buffer is full.
#[derive(Debug)]
pub(super) struct Device {
    capacity: f64,
    /// Size of its buffer, frames.
    buffer: f64,
    stalls: Stalls,
    /// Interval in trials at which something else loses a frame; 0 for never.
    spoil: u64,
    n_trials: u64,
    now: Nanos,
}

#[derive(Debug)]
enum Stalls {
    None,
    /// At multiples of `every`, for `length`.
    Every {
        every: Nanos,
        length: Nanos,
    },
    /// Poisson, per second, for `length`.
    Random {
        rate: f64,
        length: Nanos,
        random: Box<Xoshiro256PlusPlus>,
    },
}

impl Device {
    pub(super) fn of(capacity: f64) -> Self {
        Self { capacity, buffer: 0.0, stalls: Stalls::None, spoil: 0, n_trials: 0, now: Nanos(0) }
    }

    pub(super) fn buffer(&mut self, frames: f64) {
        self.buffer = frames;
    }

    pub(super) fn stall_every(&mut self, every: Nanos, length: Nanos, buffer: f64) {
        self.buffer = buffer;
        self.stalls = Stalls::Every { every, length };
    }

    pub(super) fn stall_at_random(&mut self, per_second: f64, length: Nanos, seed: u64) {
        let random = Box::new(Xoshiro256PlusPlus::seed_from_u64(seed));
        self.stalls = Stalls::Random { rate: per_second, length, random };
    }

    pub(super) fn spoil_every(&mut self, trials: u64) {
        self.spoil = trials;
    }

    /// Returns the number and length of the stalls during the next `duration`.
    fn n_stalls(&mut self, duration: Nanos) -> (f64, Nanos) {
        match &mut self.stalls {
            Stalls::None => (0.0, Nanos(0)),
            Stalls::Every { every, length } => {
                let until = |at: Nanos| at.0 / every.0;
                ((until(self.now + duration) - until(self.now)) as f64, *length)
            }
            Stalls::Random { rate, length, random } => {
                let mut at = 0.0;
                let mut n = 0.0;
                loop {
                    let uniform = (random.next_u64() >> 11) as f64 / (1_u64 << 53) as f64;
                    at += -(1.0 - uniform).ln() / *rate;
                    if at > duration.as_secs_f64() {
                        return (n, *length);
                    }
                    n += 1.0;
                }
            }
        }
    }

    /// Runs a trial. Lost are the frames above capacity that do not fit the buffer, and those in
    /// each stall that do not fit.
    pub(super) fn trial(&mut self, step: &Step) -> Observation {
        let seconds = step.duration.as_secs_f64();
        let offered = (step.load * seconds).floor();
        let room =
            self.capacity * seconds + if step.load > self.capacity { self.buffer } else { 0.0 };
        let overload = (offered - room.floor()).max(0.0);
        let (n, length) = self.n_stalls(step.duration);
        let in_stalls =
            n * (step.load.min(self.capacity) * length.as_secs_f64() - self.buffer).max(0.0);
        self.n_trials += 1;
        let spoilt = self.spoil > 0 && self.n_trials.is_multiple_of(self.spoil);
        // Never more than was offered, however many stalls there are.
        let lost = (overload + in_stalls.floor() + f64::from(u8::from(spoilt))).min(offered);
        self.now = self.now + step.duration;
        let loss_ratio = if offered > 0.0 { lost / offered } else { 0.0 };
        Observation { load: step.load, duration: step.duration, loss_ratio }
    }
}

/// Returns the goal of RFC 2544 throughput to `width`, with final trials of `final_s` seconds.
pub(super) fn goal(width: f64, final_s: u64) -> Goal {
    Goal::strict("RFC 2544", width, Nanos::from_secs(final_s))
}

/// Returns a search by `method` without self-test, warm-up and limits.
pub(super) fn search(min: f64, max: f64, method: Method) -> Search {
    Search {
        max_trials: 10_000,
        max_duration: Nanos::from_secs(1_000_000),
        ..Search::of_rates([min, max], "the plan", method)
    }
}

/// Runs `search` on `device`. Returns the steps with their observations.
pub(super) fn run_steps(search: &Search, device: &mut Device) -> Vec<(Step, Observation)> {
    let mut controller = controller(search);
    let mut steps = Vec::new();
    while let Some(step) = controller.next() {
        let observation = device.trial(&step);
        controller.take(&observation);
        steps.push((step, observation));
        assert!(steps.len() < 5_000, "the search does not end: {:?}", &steps[steps.len() - 5..]);
    }
    steps
}

/// Runs `search` on `device`. Returns the observations.
pub(super) fn run(search: &Search, device: &mut Device) -> Vec<Observation> {
    run_steps(search, device).into_iter().map(|(_, observation)| observation).collect()
}
