//! The rules, alphabetically: each a claim about what limits a path, with its evidence (methodology 5.3).

mod fire_hose;
mod link_ceiling;
mod receive_window;
mod receiver_cpu;
mod send_buffer;
mod sender_cpu;
mod small_message;
mod unknown;

use linerate_model::{Direction, Evidence, Finding, Validity};

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

/// The rule that speaks where no other does.
pub(super) const NO_OTHER: &str = "unknown";

/// Every rule.
pub static RULES: &[&dyn Rule] = &[
    &fire_hose::FireHose,
    &link_ceiling::LinkCeiling,
    &receive_window::ReceiveWindow,
    &receiver_cpu::ReceiverCpu,
    &send_buffer::SendBuffer,
    &sender_cpu::SenderCpu,
    &small_message::SmallMessage,
    &unknown::Unknown,
];

/// Share of a core from which a thread counts as out of CPU.
const BUSY: f64 = 0.9;
/// Payload of a call from which its bytes cost more than the call itself: a page.
const LARGE: f64 = 4096.0;
/// Mode of an end that never sleeps.
const SPINNING: &str = "spin";

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

/// CPU of the busiest worker, `metric`, if it counts as out of CPU. Ends that spin are always busy and say nothing.
fn busy(job: &JobStudy, metric: &str, direction: Direction) -> Option<f64> {
    let spins = job.obtained.get("wait").is_some_and(|modes| modes.contains(SPINNING));
    value(job, metric, direction).filter(|cores| *cores > BUSY && !spins)
}

fn busy_evidence(end: &str, cores: f64) -> Evidence {
    Evidence {
        observed: format!("the busiest {end} thread used {:.0} % of a core", cores * 100.0),
        source: "getrusage of the thread (RUSAGE_THREAD)".into(),
    }
}

fn payload_evidence(job: &JobStudy, direction: Direction) -> Option<Evidence> {
    let bytes = value(job, "payload_per_send", direction)?;
    Some(Evidence { observed: format!("{bytes:.0} bytes a call"), source: "the sending worker's counters".into() })
}

/// `: linerate to HOST ...` with `options`, where the ad-hoc command can do what the job does.
fn advise_command(point: &PointStudy, job: &JobStudy, options: &str) -> String {
    let protocol = match job.workload.as_str() {
        "tcp_stream" => "",
        "udp_stream" => " -u",
        _ => return String::new(),
    };
    let alone = point.jobs.len() == 1;
    if alone { format!(": linerate to HOST{protocol} {options}") } else { String::new() }
}

/// `axis = value` of each axis.
pub(super) fn coordinate(point: &PointStudy) -> String {
    let plain = |value: &serde_json::Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let axes: Vec<String> = point.parameters.iter().map(|(axis, value)| format!("{axis} = {}", plain(value))).collect();
    axes.join(", ")
}

/// What a finding on `job` in `direction` is about.
fn subject(point: &PointStudy, job: &JobStudy, direction: Direction) -> String {
    let coordinate = coordinate(point);
    let place = if coordinate.is_empty() { String::new() } else { format!(" at {coordinate}") };
    let (sender, receiver) = if direction == Direction::Rx { (&job.to, &job.from) } else { (&job.from, &job.to) };
    format!("{}{place}: {} from {sender} to {receiver}", point.sweep, job.workload)
}

#[cfg(test)]
pub(super) mod cases {
    //! A point made by hand for the rules' tests.

    use linerate_model::{Ceiling, Direction, Estimate};

    use crate::{JobStudy, MetricStudy, PointStudy};

    /// One TCP job, tx, with these figures; a hard goodput ceiling of 1 Gbit/s.
    pub(in crate::diagnosis) fn point(figures: &[(&str, f64)]) -> PointStudy {
        let derivation = || vec!["by hand".to_owned()];
        let ceiling = Ceiling::new("link", "goodput", 1e9, Direction::Tx, derivation(), "declared");
        let metrics = figures.iter().map(|(name, value)| {
            let metric = linerate_model::metric(name).expect(name);
            let is_goodput = *name == "goodput";
            MetricStudy {
                name: (*name).to_owned(),
                unit: metric.unit,
                layer: metric.layer,
                // What a controller counts is of both ways.
                direction: if name.starts_with("controller") { Direction::Sum } else { Direction::Tx },
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
