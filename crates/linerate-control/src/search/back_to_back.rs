//! RFC 9004: the longest burst without loss at the highest load, several times, after the
//! throughput search.
//!
//! A burst of n frames is a trial whose duration is n divided by the highest load. If the
//! throughput reaches that load, no burst is sent. If the longest allowed burst has no loss, the
//! search ends: the result would be the limit, not the buffer.

use linerate_analysis::search::Observation;
use linerate_model::{Goal, Nanos, Purpose, Search, Step};

use super::Controller;
use super::halving::Halving;

/// Controller of this method. Bursts are counted in frames.
#[derive(Debug, Default)]
pub(super) struct BackToBack {
    throughput: Halving,
    /// Frames per second of a burst.
    rate: f64,
    /// Largest relative width of the result.
    width: f64,
    longest: f64,
    repeats: u32,
    bracket: Option<Bracket>,
    /// Last result, from which the next search starts.
    last: Option<f64>,
    asked: f64,
    n_done: u32,
}

/// Longest burst without loss, and shortest one with loss.
#[derive(Clone, Copy, Debug)]
struct Bracket {
    lower: f64,
    upper: Option<f64>,
    /// Burst that is tried before halving begins.
    first: f64,
}

impl BackToBack {
    pub(super) fn new(search: &Search, goal: &Goal, repeats: u32, longest: Nanos) -> Self {
        Self {
            throughput: Halving::new(search, goal, 0),
            rate: search.max,
            width: goal.width,
            longest: (longest.as_secs_f64() * search.max).floor(),
            repeats,
            ..Self::default()
        }
    }

    fn burst(&mut self, frames: f64) -> Option<Step> {
        self.asked = frames;
        let duration = Nanos::from_secs_f64(frames / self.rate);
        Some(Step { purpose: Purpose::Burst, load: self.rate, duration, then: None })
    }

    /// Returns the next burst of the present search. `None` if it has its result.
    fn next_burst(&mut self, bracket: Bracket) -> Option<f64> {
        let Some(upper) = bracket.upper else { return Some(bracket.first) };
        let apart = upper - bracket.lower;
        (apart > (self.width * bracket.lower).max(1.0))
            .then(|| ((bracket.lower + upper) / 2.0).round())
    }
}

impl Controller for BackToBack {
    fn next(&mut self) -> Option<Step> {
        if let Some(step) = self.throughput.next() {
            return Some(step);
        }
        let throughput = self.throughput.throughput()?;
        if throughput >= self.rate {
            return None;
        }
        loop {
            if self.n_done >= self.repeats {
                return None;
            }
            // A further search starts near the result of the one before.
            let first = self.last.map_or(self.longest, |last| (2.0 * last).min(self.longest));
            let bracket = *self.bracket.get_or_insert(Bracket { lower: 0.0, upper: None, first });
            match self.next_burst(bracket) {
                Some(frames) => return self.burst(frames),
                None => {
                    self.last = Some(bracket.lower);
                    self.bracket = None;
                    self.n_done += 1;
                }
            }
        }
    }

    fn take(&mut self, observation: &Observation) {
        let Some(bracket) = &mut self.bracket else { return self.throughput.take(observation) };
        if observation.loss_ratio > 0.0 {
            bracket.upper = Some(self.asked);
        } else {
            bracket.lower = self.asked;
            if bracket.upper.is_none() {
                if self.asked >= self.longest {
                    // The longest burst does not fill the buffer: no search can have a result.
                    self.n_done = self.repeats;
                }
                bracket.first = self.longest;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::simulated::{Device, goal, run_steps, search};
    use super::*;
    use linerate_analysis::search::back_to_back;
    use linerate_model::Method;

    fn method(longest_ms: u64) -> Method {
        Method::BackToBack {
            goal: goal(0.001, 10),
            repeats: 3,
            longest: Nanos::from_millis(longest_ms),
        }
    }

    /// docs/methodology/searches.md#bursts: a queue of 1000 frames served at 1 Mpps behind 1 Gbit/s
    /// of 64 B frames.
    #[test]
    fn the_buffer_of_an_ideal_queue_is_found_from_its_bursts() {
        let mut device = Device::of(1e6);
        device.buffer(1_000.0);
        let rate = 1_488_095.238;
        let steps = run_steps(&search(1_000.0, rate, method(100)), &mut device);
        let bursts: Vec<_> =
            steps.iter().filter(|(step, _)| step.purpose == Purpose::Burst).collect();
        assert!(bursts.len() > 20, "three searches: {}", bursts.len());
        let clean = bursts.iter().filter(|(_, o)| o.loss_ratio == 0.0);
        let longest = clean.map(|(step, _)| step.duration.as_secs_f64() * rate).fold(0.0, f64::max);
        assert!((longest - 3048.8).abs() < 4.0, "{longest}");
        let found = back_to_back(&[longest], rate, 1e6).expect("the queue fills");
        assert!((found.corrected_s * 1e3 - 0.672).abs() < 2e-3, "{found:?}");
    }

    #[test]
    fn no_burst_is_sent_to_a_path_that_carries_the_highest_load() {
        let steps = run_steps(&search(1_000.0, 1e6, method(100)), &mut Device::of(2e6));
        assert!(steps.iter().all(|(step, _)| step.purpose == Purpose::Load));
    }

    #[test]
    fn a_buffer_longer_than_the_longest_burst_ends_the_search_at_once() {
        let mut device = Device::of(1e6);
        device.buffer(1e6);
        let steps = run_steps(&search(1_000.0, 1_488_095.238, method(10)), &mut device);
        assert_eq!(steps.iter().filter(|(step, _)| step.purpose == Purpose::Burst).count(), 1);
    }
}
