//! A policer drops what exceeds its token rate (docs/methodology/diagnosis.md#rules, D24). TCP
//! only.
//!
//! Evidence: the probe of the path found a burst that passed at full rate, then loss without a
//! queue, and nothing at the ends limits the sender. Either the sender retransmits, and goodput may
//! be far below the token rate, because TCP shrinks its window for each burst of drops. Or goodput
//! is near the token rate: a run of seconds may lie between two bursts of drops. The rules for
//! shallow buffers, random loss and congestion control see the same figures and are silent on such
//! a path. Not observed: the hop.

use linerate_model::path::Limiter;
use linerate_model::{Direction, metric};

use super::{
    LEAST_EFFECT, Rule, TCP_STREAM, changed, facts::is_policed, fire_hose::paced, flows,
    may_be_judged, only_the_path, score, seen, suspected, value,
};
use crate::diagnosis::experiment::Experiment;
use crate::diagnosis::{Claim, Evidence, Finding, Step};
use crate::{JobStudy, PointStudy};

/// Share of retransmitted bytes that counts as loss, and at which the evidence is complete.
const LOSS: f64 = 1e-3;
const MUCH: f64 = 1e-2;
/// Ratio of goodput to the token rate from which the policer is the limit without retransmissions:
/// CUBIC (RFC 9438) continues with 0.7 of its window after a drop. At `FULL` the evidence is
/// complete.
const NEAR: f64 = 0.6;
const FULL: f64 = 0.96;
/// Largest ratio of goodput to the token rate, beside what a full bucket adds. A higher goodput
/// shows that the data took another path than the probe.
const ABOVE: f64 = 1.2;
/// Pacing of the experiment, as a share of the token rate: headers take 0.04 of it.
const BELOW: f64 = 0.9;
const MOST_GAINED: f64 = 1000.0;
const BITS_PER_BYTE: f64 = 8.0;

/// Rule: the probe found a policer, and the sender retransmits or is near its rate.
pub(super) const RULE: Rule = Rule {
    number: 24,
    name: "policer",
    summary: "the probe found loss without a queue above a token rate, and the sender retransmits \
        or is near that rate",
    judge,
    score,
    experiments,
    ..Rule::PLAIN
};

/// Returns the token rate in bit/s of the policer that drops segments of `job`.
fn tokens(point: &PointStudy, job: &JobStudy, direction: Direction) -> Option<f64> {
    let facts = point.data_path(job, direction)?;
    let rate = facts.capacity?.value.0;
    let goodput = value(job, metric::GOODPUT, direction)?;
    let bucket = facts.token_bucket.map_or(0.0, |tokens| tokens.bucket.high.0 as f64);
    // The bucket of `limit` in nftables holds a second of the rate and more.
    let at_once = shortest_span(point).map_or(0.0, |seconds| bucket * BITS_PER_BYTE / seconds);
    let is_limit = is_policed(point, job, direction)
        && only_the_path(job, direction)
        && goodput < rate * ABOVE + at_once;
    is_limit.then_some(rate)
}

/// Returns the length of the shortest measurement of `point`, s.
fn shortest_span(point: &PointStudy) -> Option<f64> {
    let spans =
        point.trials.iter().filter_map(|trial| Some(trial.seconds.last()? - trial.measured_from));
    spans.filter(|seconds| *seconds > 0.0).min_by(f64::total_cmp)
}

/// Returns the score of the policer, and its token rate in bit/s.
fn policing(point: &PointStudy, job: &JobStudy, direction: Direction) -> Option<(f64, f64)> {
    let rate = tokens(point, job, direction)?;
    let share = value(job, metric::GOODPUT, direction)? / rate;
    let loss = value(job, metric::RETRANSMIT_RATIO, direction)?;
    Some((score::reached(loss, LOSS, MUCH).max(score::reached(share, NEAR, FULL)), rate))
}

fn judge(point: &PointStudy) -> Option<Finding> {
    let dropped = |(job, direction): &(&JobStudy, Direction)| {
        policing(point, job, *direction).is_some_and(|(score, _)| score::is_suspected(score))
    };
    let (job, direction) = flows(point).find(dropped).filter(|_| may_be_judged(point))?;
    let (_, rate) = policing(point, job, direction)?;
    let goodput = value(job, metric::GOODPUT, direction)?;
    let of_path = Evidence::OfPath { limiter: Limiter::Policer, capacity: rate, goodput };
    let evidence = vec![of_path, seen(job, metric::RETRANSMIT_RATIO, direction)?];
    let claim = Claim::Policer { rate };
    let finding = suspected(RULE.name, (point, job, direction), claim, evidence);
    let change: Vec<_> = paced(rate * BELOW).into_iter().collect();
    Some(finding.advise(Step::PaceBelow.by(changed(point, &change))))
}

fn score(point: &PointStudy) -> Option<f64> {
    score::best(point, |job, direction| policing(point, job, direction).map(|(score, _)| score))
}

/// Returns pacing below the token rate, where that raises goodput. Elsewhere TCP already uses
/// the tokens, and only the drops would end.
fn experiments(point: &PointStudy) -> Vec<Experiment> {
    flows(point)
        .find_map(|(job, direction)| below_tokens(point, job, direction))
        .into_iter()
        .collect()
}

fn below_tokens(point: &PointStudy, job: &JobStudy, direction: Direction) -> Option<Experiment> {
    let rate = tokens(point, job, direction).filter(|_| job.workload == TCP_STREAM)?;
    let gain = rate * BELOW / value(job, metric::GOODPUT, direction)?;
    let ratio = [LEAST_EFFECT, MOST_GAINED];
    let change = paced(rate * BELOW).into_iter().collect();
    let paced = Experiment::show("paced below the token rate", change, ratio)
        .ending(metric::RETRANSMIT_RATIO)
        .refuting_nothing();
    (gain > LEAST_EFFECT * LEAST_EFFECT).then_some(paced)
}

#[cfg(test)]
mod tests {
    use linerate_model::path::{Fact, Method, TokenBucket};
    use linerate_model::{BitRate, Bytes, Verdict};

    use super::super::cases::on_path;
    use super::*;
    use crate::study::TrialStudy;

    fn policed(more: &[(&str, f64)]) -> PointStudy {
        let usual = [
            ("goodput", 12e6),
            ("rtt", 0.0212),
            ("rtt_min", 0.0208),
            ("sender_busy", 1.0),
            ("retransmit_ratio", 0.02),
        ];
        let figures: Vec<_> = more.iter().copied().chain(usual).collect();
        on_path(&figures, Some(Limiter::Policer), 2e7)
    }

    #[test]
    fn it_fires_on_drops_that_are_neither_a_shallow_buffer_nor_random_loss() {
        let point = policed(&[]);
        let suspects = crate::diagnosis::suspects(&point);
        let names: Vec<&str> = suspects.iter().map(|(rule, _)| rule.name).collect();
        assert_eq!(names, ["policer"]);
        let (_, finding) = &suspects[0];
        assert_eq!(finding.verdict, Verdict::Suspected);
        assert_eq!(finding.claim, Claim::Policer { rate: 2e7 });
        assert!(RULE.score(&point).is_some_and(|score| score > 0.5));
    }

    #[test]
    fn a_bucket_that_is_large_beside_the_run_explains_a_goodput_above_the_token_rate() {
        // Recorded behind `limit rate over` of nftables: 34.6 Mbit/s, a bucket of 4,548,140 B, and
        // a measurement of 1 s.
        let mut point = policed(&[("goodput", 50.8e6), ("retransmit_ratio", 0.47)]);
        let rate = Fact::exact(BitRate(34.6e6), Method::Flood);
        let bucket = Fact::exact(Bytes(4_548_140), Method::Envelope);
        point.path[0].capacity = Some(rate);
        assert_eq!(RULE.judge(&point), None, "goodput is 1.47 of the token rate");
        point.path[0].token_bucket = Some(TokenBucket { rate, bucket });
        let measured = |seconds| TrialStudy { seconds: vec![seconds], ..TrialStudy::default() };
        point.trials = vec![measured(1.0)];
        let finding = RULE.judge(&point).expect("the bucket adds up to 36.4 Mbit/s");
        assert_eq!(finding.claim, Claim::Policer { rate: 34.6e6 });
        point.trials = vec![measured(10.0), measured(9.0)];
        assert_eq!(RULE.judge(&point), None, "it adds 4 Mbit/s at most");
    }

    #[test]
    fn pacing_is_tried_only_where_it_raises_goodput() {
        let tried = RULE.experiments(&policed(&[]));
        assert_eq!(tried[0].candidates, [vec![paced(18e6).expect("a rate")]]);
        assert_eq!(RULE.experiments(&policed(&[("goodput", 1.7e7)])), []);
    }

    #[test]
    fn it_is_silent_without_loss_without_a_policer_and_where_an_end_is_the_limit() {
        let clean = |goodput| policed(&[("retransmit_ratio", 0.0), ("goodput", goodput)]);
        assert_eq!(RULE.judge(&clean(8e6)), None);
        assert!(RULE.judge(&clean(15e6)).is_some(), "between two bursts of drops");
        assert_eq!(RULE.judge(&policed(&[("sender_busy", 0.3)])), None);
        assert_eq!(RULE.judge(&policed(&[("goodput", 9e7)])), None);
        let mut link = policed(&[]);
        link.path[0].limiter = Some(Limiter::Link);
        assert_eq!(RULE.judge(&link), None);
    }
}
