//! Sentences of the outcomes of experiments and of their controls.

use linerate_analysis::ComparedFigure;
use linerate_analysis::compare::Effect;
use linerate_analysis::diagnosis::{Contradiction, Objection, Outcome, Seen};

use super::{amount, rate};
use crate::number::Scale;
use crate::words::count;

/// Consequence of an experiment without effect that refutes nothing: a saved resource may be used
/// elsewhere, or a probe has measured the limit.
const UNREFUTED: &str = "this alone does not refute the claim";

/// Returns outcomes in one line; `None` if there are none.
#[must_use]
pub fn outcomes(outcomes: &[Outcome]) -> Option<String> {
    let texts: Vec<String> = outcomes.iter().map(outcome).collect();
    (!texts.is_empty()).then(|| texts.join("; "))
}

fn outcome(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Pairs { arm, figure, effect, ratio: predicted, doubt } => {
            let value = |value: f64| {
                figure.metric().map_or_else(|| rate(value), |metric| amount(metric, value))
            };
            let doubt =
                doubt.as_ref().map_or_else(String::new, |doubt| format!(" ({})", objection(doubt)));
            format!(
                "{arm}: {figure} {} -> {}, {}, n = {}; {}{doubt}",
                value(effect.before),
                value(effect.after),
                ratio(effect),
                count(effect.n, "pair"),
                prediction(*predicted)
            )
        }
        Outcome::Sign { arm, metric, without, with, runs: [n_without, n_with], seen } => {
            let scale = Scale::fit(metric.unit, without.iter().chain(with).copied());
            let range = |[least, most]: &[f64; 2]| {
                format!("{} to {}", scale.plain(*least), scale.shown(*most))
            };
            let seen = match seen {
                Seen::Shown => "the runs differ as the claim predicts",
                Seen::Unclear => "runs with and without it overlap, or differ too much",
                Seen::Missing => "it did not change as the claim predicts",
            };
            format!(
                "{arm}: {metric} {} in {n_without} runs without it, {} in {n_with} with it \
                    ({seen})",
                range(without),
                range(with)
            )
        }
        Outcome::Control { arm, figure, effect } => control(arm, figure, effect),
        Outcome::NoPair { arm } => format!("{arm}: no pair of runs has two valid figures"),
        Outcome::SingleRuns { arm, metric, before, after, ratio, ends, refutes } => {
            let after: Vec<String> = after.iter().map(|value| amount(metric, *value)).collect();
            let ends = ends.map_or_else(String::new, |metric| format!(", and an end of {metric}"));
            let why = if *refutes {
                "ruled out by single runs; no pairs were run".to_owned()
            } else {
                format!("no such effect in single runs; {UNREFUTED}")
            };
            format!(
                "{arm}: {metric} {} -> {} in single runs; {}{ends} ({why})",
                amount(metric, *before),
                after.join(", "),
                prediction(*ratio)
            )
        }
        Outcome::NotRun { arm, error } => format!("{arm}: not run: {error}"),
        Outcome::NotBegun { arm, seconds, needed, left } => format!(
            "{arm}, runs of {seconds} s: not begun: it needs about {needed:.0} s, and {left:.0} s \
             of the time budget are left (`--budget`)"
        ),
        Outcome::Repeated { seconds: [short, long], first, second } => {
            let [first, second] = [first, second].map(|one| outcomes(one).unwrap_or_default());
            format!(
                "with runs of {short} s, inconclusive: {first}; with runs of {long} s: {second}"
            )
        }
    }
}

fn control(arm: &str, figure: &ComparedFigure, effect: &Effect) -> String {
    let widest = (effect.widest - 1.0) * 100.0;
    format!(
        "{arm} (control): {figure} {}, single pairs differ by up to {widest:.1} %",
        ratio(effect)
    )
}

fn prediction([least, most]: [f64; 2]) -> String {
    format!("predicted x{least:.2} to x{most:.2}")
}

fn ratio(effect: &Effect) -> String {
    let interval = effect.interval.map_or_else(
        || "no interval: fewer than six pairs".to_owned(),
        |(low, high)| format!("{low:.3} to {high:.3} at 95 %"),
    );
    format!("x{:.3} [{interval}]", effect.shift)
}

fn objection(objection: &Objection) -> String {
    match objection {
        Objection::OutsidePrediction => "the effect is outside the prediction".to_owned(),
        Objection::NoSign => {
            "the rate changed as predicted, but the mechanism of the claim did not".to_owned()
        }
        Objection::NoEvidence => "the evidence was not there in these runs".to_owned(),
        Objection::Refuted(why) => format!("ruled out: {}", contradiction(*why)),
        Objection::Unmoved(why) => format!("{}; {UNREFUTED}", contradiction(*why)),
        Objection::Unproven(why) => super::unproven(why),
    }
}

const fn contradiction(contradiction: Contradiction) -> &'static str {
    match contradiction {
        Contradiction::NoEffect => "the change had no effect",
        Contradiction::IntervalOutside => "the interval is outside the prediction",
    }
}

#[cfg(test)]
mod tests {
    use linerate_analysis::compare::{Better, effect};
    use linerate_model::metric;

    use super::*;

    #[test]
    fn pairs_are_shown_with_effect_prediction_and_objection() {
        let runs = |rate: f64| (1..=6).map(|k| Some(rate + f64::from(k))).collect::<Vec<_>>();
        let effect = effect("goodput tx", &runs(50e6), &runs(100e6), Better::More).expect("pairs");
        let pairs = |doubt| Outcome::Pairs {
            arm: "twice the send buffer".to_owned(),
            figure: metric::GOODPUT.into(),
            effect: effect.clone(),
            ratio: [1.5, 2.5],
            doubt,
        };
        let text = outcomes(&[pairs(None)]).expect("one");
        assert!(
            text.starts_with("twice the send buffer: goodput 50 Mbit/s -> 100 Mbit/s, x2.000")
                && text.ends_with("n = 6 pairs; predicted x1.50 to x2.50"),
            "{text}"
        );
        assert!(text.contains(" at 95 %], n = 6"), "{text}");
        let refuted = Objection::Refuted(Contradiction::NoEffect);
        let text = outcomes(&[pairs(Some(refuted))]).expect("one");
        assert!(text.ends_with("(ruled out: the change had no effect)"), "{text}");
        let unmoved = Objection::Unmoved(Contradiction::IntervalOutside);
        let text = outcomes(&[pairs(Some(unmoved))]).expect("one");
        let reason = format!("(the interval is outside the prediction; {UNREFUTED})");
        assert!(text.ends_with(&reason), "{text}");
        let control = Outcome::Control {
            arm: "marked".to_owned(),
            figure: metric::GOODPUT.into(),
            effect: Effect { widest: 1.25, ..effect.clone() },
        };
        let text = outcomes(&[control]).expect("one");
        assert!(text.starts_with("marked (control): goodput x2.000 ["), "{text}");
        assert!(text.ends_with("single pairs differ by up to 25.0 %"), "{text}");
    }

    #[test]
    fn a_sign_is_shown_with_both_ranges_in_the_unit_of_its_metric() {
        let sign = |metric, with, seen| Outcome::Sign {
            arm: "change".to_owned(),
            metric,
            without: [0.0888, 0.0944],
            with,
            runs: [12, 6],
            seen,
        };
        let text = outcomes(&[sign(metric::SENDER_CPU, [0.174, 0.192], Seen::Shown)]);
        assert_eq!(
            text.as_deref(),
            Some(
                "change: sender_cpu 0.08880 to 0.09440 core in 12 runs without it, 0.1740 to \
                0.1920 core in 6 with it (the runs differ as the claim predicts)"
            )
        );
        let text = outcomes(&[sign(metric::RETRANSMIT_RATIO, [0.0, 0.07], Seen::Unclear)]);
        let text = text.expect("one");
        assert!(text.ends_with("(runs with and without it overlap, or differ too much)"), "{text}");
    }

    #[test]
    fn single_runs_show_each_value_and_both_looks_are_listed() {
        let single = |refutes| Outcome::SingleRuns {
            arm: "change".to_owned(),
            metric: metric::GOODPUT,
            before: 20e6,
            after: vec![20.1e6, 19.9e6],
            ratio: [1.5, 2.5],
            ends: None,
            refutes,
        };
        assert_eq!(
            outcomes(&[single(true)]).as_deref(),
            Some(
                "change: goodput 20 Mbit/s -> 20.1 Mbit/s, 19.9 Mbit/s in single runs; predicted \
                 x1.50 to x2.50 (ruled out by single runs; no pairs were run)"
            )
        );
        let text = outcomes(&[single(false)]).expect("one");
        assert!(text.contains("does not refute the claim"), "{text}");
        let ended = Outcome::SingleRuns {
            arm: "change".to_owned(),
            metric: metric::GOODPUT,
            before: 20e6,
            after: vec![20e6],
            ratio: [1.5, 2.5],
            ends: Some(metric::RTT),
            refutes: true,
        };
        let text = outcomes(&[ended]).expect("one");
        assert!(text.contains("x2.50, and an end of rtt (ruled out"), "{text}");
        let no_pair = |arm: &str| vec![Outcome::NoPair { arm: arm.to_owned() }];
        let both =
            Outcome::Repeated { seconds: [0.35, 1.4], first: no_pair("x"), second: no_pair("y") };
        assert_eq!(
            outcomes(&[both]).as_deref(),
            Some(
                "with runs of 0.35 s, inconclusive: x: no pair of runs has two valid figures; with \
                 runs of 1.4 s: y: no pair of runs has two valid figures"
            )
        );
        assert_eq!(outcomes(&[]), None);
    }
}
