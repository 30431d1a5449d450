//! Loads of a search. A trial without loss does not yet prove that the path carries its rate: while
//! the trial lasts, a buffer holds the excess.
//!
//! A load above the line rate by no more than the trial's tolerance (`path`) counts as the line
//! rate. Above that, a trial without loss proves nothing and is left out; the calculated line rate
//! is then the upper bound. A trial with loss counts at any load.

use linerate_model::{Ceiling, LoadUnit, Nanos, metric};

use super::super::ceilings::{Bound, Scope};
use super::Doubt;
use super::path::{self, Edges};
use crate::search::{Bounds, Observation};
use crate::study::reason::Reason;
use crate::study::span::Span;

/// Line rate of the path of a search in each direction, in the unit of its loads.
#[derive(Clone, Debug)]
pub(in crate::study) struct Line {
    bound: Bound,
    doubt: Doubt,
    per_byte: f64,
}

/// Observations that prove something, and how many do not.
#[derive(Debug, PartialEq)]
pub(in crate::study) struct Proofs {
    pub(in crate::study) kept: Vec<Observation>,
    pub(in crate::study) n_left_out: usize,
}

impl Line {
    /// Returns the lowest hard bound of the first job's loads counted in `unit`; `payload` is that
    /// of its datagrams, bytes.
    pub(in crate::study) fn of(
        bounds: &[Bound],
        unit: LoadUnit,
        payload: Option<f64>,
        doubt: Doubt,
    ) -> Option<Self> {
        let (metric, per_byte) = match unit {
            LoadUnit::Bits => (metric::GOODPUT, path::BITS),
            LoadUnit::Frames => {
                (metric::PACKET_RATE, 1.0 / payload.filter(|payload| *payload > 0.0)?)
            }
        };
        // Loads are per direction, so a bound of both directions together is twice too high.
        let is_one_way = |bound: &&Bound| bound.ceiling.direction != linerate_model::Direction::Sum;
        let of_loads = bounds
            .iter()
            .filter(|bound| bound.ceiling.is_hard() && bound.ceiling.metric == metric)
            .filter(is_one_way);
        let bound = of_loads
            .filter(|bound| bound.holds_for(Scope::Job(0)))
            .min_by(|a, b| a.ceiling.value.total_cmp(&b.ceiling.value))?;
        Some(Self { bound: bound.clone(), doubt, per_byte })
    }

    /// Returns the line.
    pub(in crate::study) const fn ceiling(&self) -> &Ceiling {
        &self.bound.ceiling
    }

    fn value(&self) -> f64 {
        self.ceiling().value
    }

    /// Returns those of `observations` that are proof.
    pub(in crate::study) fn proofs(&self, observations: Vec<Observation>) -> Proofs {
        let n_before = observations.len();
        let kept: Vec<Observation> =
            observations.into_iter().filter_map(|observation| self.admit(observation)).collect();
        Proofs { n_left_out: n_before - kept.len(), kept }
    }

    /// Returns `observation` as what it proves; `None` if its load is more than the line carries.
    fn admit(&self, observation: Observation) -> Option<Observation> {
        // A trial with loss proves at any load that the path carries less.
        if observation.load <= self.value() || observation.loss_ratio > 0.0 {
            return Some(observation);
        }
        let span = Span { from: Nanos(0), to: observation.duration };
        let allowed = path::tolerance(&self.bound, Edges::none(self.per_byte), span, self.doubt);
        let is_line = observation.load <= self.value() * (1.0 + allowed);
        // A load slightly above the line cannot have passed the line, so it counts as the line
        // rate.
        is_line.then_some(Observation { load: self.value(), ..observation })
    }

    /// Returns `found` with every value limited to the line rate; `left_out` states that loads
    /// above it were tried.
    pub(in crate::study) fn cut(&self, found: Bounds, left_out: bool) -> Bounds {
        let line = self.value();
        let cut = |load: Option<f64>| load.map(|load| load.min(line));
        let upper = if left_out {
            // The line rate is an upper bound by calculation where no trial above it could fail.
            Some(found.upper.map_or(line, |upper| upper.min(line)))
        } else {
            found.upper
        };
        Bounds {
            lower: cut(found.lower),
            upper,
            conditional_throughput: cut(found.conditional_throughput),
        }
    }

    /// Returns the reason why `n` trials prove nothing.
    pub(in crate::study) fn why(&self, n: usize) -> Reason {
        let Ceiling { unit, .. } = self.bound.ceiling;
        Reason::AboveLine { n, line: self.value(), unit, ceiling: self.bound.ceiling.name() }
    }
}

#[cfg(test)]
mod tests {
    use linerate_model::{CeilingScope, Direction, Metric, Unit};

    use super::*;

    const FIRST: CeilingScope = CeilingScope::Job { job: 0, pair: None };

    /// Returns a line of 812.7 datagrams of 1472 B a second, shaped by a bucket of 5 kB.
    fn line(shaped: bool) -> Line {
        let ceiling = Ceiling::new(
            "link",
            metric::PACKET_RATE,
            812.7,
            Direction::Tx,
            vec!["a line".into()],
            "declared",
        );
        let bound = Bound { ceiling: ceiling.holding_for(FIRST), burst: 5_000.0 };
        let doubt = Doubt { clock: Nanos(0), shaped };
        Line::of(&[bound], LoadUnit::Frames, Some(1472.0), doubt).expect("a bound on packets")
    }

    fn trial(load: f64, millis: u64, loss_ratio: f64) -> Observation {
        Observation { load, duration: Nanos::from_millis(millis), loss_ratio }
    }

    #[test]
    fn no_loss_above_the_line_is_no_proof_but_loss_is() {
        let trials =
            vec![trial(800.0, 1000, 0.0), trial(844.4, 1000, 0.0), trial(844.4, 1000, 0.01)];
        let proofs = line(false).proofs(trials.clone());
        assert_eq!(proofs, Proofs { kept: vec![trials[0], trials[2]], n_left_out: 1 });
        assert_eq!(
            line(false).why(1),
            Reason::AboveLine {
                n: 1,
                line: 812.7,
                unit: Unit::PacketPerSecond,
                ceiling: "link".into()
            }
        );
    }

    #[test]
    fn an_excess_that_a_known_bucket_holds_is_the_line() {
        // 5 kB are 3.4 datagrams: 0.4 % of a trial of one second, 65,536 B of any shaper 5.5 %.
        let of = |shaped, load| {
            line(shaped).proofs(vec![trial(load, 1000, 0.0)]).kept.first().map(|one| one.load)
        };
        assert_eq!((of(false, 815.0), of(false, 817.0)), (Some(812.7), None));
        assert_eq!((of(true, 844.4), of(true, 860.0)), (Some(812.7), None));
    }

    #[test]
    fn the_line_is_the_upper_bound_where_loads_above_it_were_left_out() {
        let found = Bounds { lower: Some(800.0), upper: None, conditional_throughput: Some(800.0) };
        assert_eq!(line(false).cut(found, true).upper, Some(812.7));
        assert_eq!(line(false).cut(found, false).upper, None);
        let above =
            Bounds { lower: Some(820.0), upper: Some(830.0), conditional_throughput: Some(819.0) };
        let cut = line(false).cut(above, false);
        assert_eq!(
            (cut.lower, cut.upper, cut.conditional_throughput),
            (Some(812.7), Some(830.0), Some(812.7))
        );
    }

    #[test]
    fn loads_in_bits_are_judged_by_goodput_of_one_way() {
        let bound = |metric: &'static Metric, value: f64, direction| Bound {
            ceiling: Ceiling::new(
                "link",
                metric,
                value,
                direction,
                vec!["a line".into()],
                "declared",
            )
            .holding_for(FIRST),
            burst: 0.0,
        };
        let bounds = [
            bound(metric::GOODPUT, 18e6, Direction::Sum),
            bound(metric::GOODPUT, 9.5e6, Direction::Tx),
            bound(metric::PACKET_RATE, 800.0, Direction::Tx),
        ];
        let of = |unit, payload| {
            Line::of(&bounds, unit, payload, Doubt::default()).map(|line| line.value())
        };
        assert_eq!(of(LoadUnit::Bits, None), Some(9.5e6));
        assert_eq!(
            (of(LoadUnit::Frames, Some(1472.0)), of(LoadUnit::Frames, None)),
            (Some(800.0), None)
        );
    }
}
