//! The rules, alphabetically: each a claim about what limits a path, with its evidence (methodology 5.3).

mod link_ceiling;
mod receive_window;
mod send_buffer;
mod unknown;

use linerate_model::{Direction, Finding, Validity};

use crate::{JobStudy, PointStudy};

/// A diagnosis rule.
pub trait Rule: Sync {
    /// Its name.
    fn name(&self) -> &'static str;

    /// One sentence: when it fires.
    fn summary(&self) -> &'static str;

    /// What it says of a point, if anything.
    fn judge(&self, point: &PointStudy) -> Option<Finding>;
}

/// Every rule.
pub static RULES: &[&dyn Rule] =
    &[&link_ceiling::LinkCeiling, &receive_window::ReceiveWindow, &send_buffer::SendBuffer, &unknown::Unknown];

/// Whether figures of `point` may be reasoned from.
fn may_be_judged(point: &PointStudy) -> bool {
    point.validity <= Validity::Suspect
}

/// The measured jobs of `point` with the directions in which they carry data.
fn flows(point: &PointStudy) -> impl Iterator<Item = (&JobStudy, Direction)> {
    let jobs = point.jobs.iter().filter(|job| !job.background);
    let directed = jobs.flat_map(|job| [(job, Direction::Tx), (job, Direction::Rx)]);
    directed.filter(|(job, direction)| value(job, "goodput", *direction).is_some())
}

/// The estimate of a metric.
fn value(job: &JobStudy, metric: &str, direction: Direction) -> Option<f64> {
    Some(job.metric(metric, direction)?.estimate?.value)
}

/// What a finding on `job` in `direction` is about.
fn subject(point: &PointStudy, job: &JobStudy, direction: Direction) -> String {
    let coordinate: Vec<String> = point.parameters.iter().map(|(axis, value)| format!("{axis} = {value}")).collect();
    let place = if coordinate.is_empty() { String::new() } else { format!(" at {}", coordinate.join(", ")) };
    let (sender, receiver) = if direction == Direction::Rx { (&job.to, &job.from) } else { (&job.from, &job.to) };
    format!("{}{place}: {} from {sender} to {receiver}", point.sweep, job.workload)
}

#[cfg(test)]
mod cases {
    //! A point made by hand for the rules' tests.

    use linerate_model::{Ceiling, Direction, Estimate};

    use crate::{JobStudy, MetricStudy, PointStudy};

    /// One TCP job, tx, with these figures; a hard goodput ceiling of 1 Gbit/s.
    pub(super) fn point(figures: &[(&str, f64)]) -> PointStudy {
        let derivation = || vec!["by hand".to_owned()];
        let ceiling = Ceiling::new("link", "goodput", 1e9, Direction::Tx, derivation(), "declared");
        let metrics = figures.iter().map(|(name, value)| {
            let metric = linerate_model::metric(name).expect(name);
            let is_goodput = *name == "goodput";
            MetricStudy {
                name: (*name).to_owned(),
                unit: metric.unit,
                layer: metric.layer,
                direction: Direction::Tx,
                estimate: Some(Estimate { value: *value, low: None, high: None, confidence: None, n: 1 }),
                values: vec![Some(*value)],
                ceiling: is_goodput.then_some(0),
                share: is_goodput.then_some(*value / 1e9),
            }
        });
        let job = JobStudy {
            workload: "tcp_stream".into(),
            from: "a".into(),
            to: "b".into(),
            metrics: metrics.collect(),
            ..JobStudy::default()
        };
        PointStudy { sweep: "sweep".into(), jobs: vec![job], ceilings: vec![ceiling], ..PointStudy::default() }
    }

    #[test]
    fn rules_are_alphabetical_and_say_what_they_do() {
        let names: Vec<&str> = super::RULES.iter().map(|rule| rule.name()).collect();
        assert!(names.is_sorted(), "{names:?}");
        assert!(super::RULES.iter().all(|rule| !rule.summary().is_empty()));
    }
}
