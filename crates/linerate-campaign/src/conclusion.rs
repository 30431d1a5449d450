//! Conclusion of a campaign: the exit that its study asks for, and the reason of an unsuccessful
//! end.

use std::collections::BTreeSet;

use linerate_analysis::{MetricStudy, PointStudy, Study};
use linerate_control::RunSummary;
use linerate_model::{Campaign, Metric, TrialOutcome, TrialRecord, Use, Validity, metric};
use linerate_report::sentences;

use crate::{Exit, Outcome, conduct};

/// Returns why a campaign ended with `exit`; `None` if it succeeded.
#[must_use]
pub fn reason(
    exit: Exit,
    campaign: &Campaign,
    study: &Study,
    summary: &RunSummary,
) -> Option<String> {
    // A set, because many trials usually fail for one reason.
    let listed = |reasons: BTreeSet<String>| reasons.into_iter().collect::<Vec<_>>().join("; ");
    match exit {
        Exit::Interrupted => Some("interrupted: the ledger has the results so far".to_owned()),
        Exit::Missed | Exit::Missing | Exit::Invalid if summary.failed > 0 => {
            let failed =
                campaign.trials.iter().filter(|trial| trial.outcome == Some(TrialOutcome::Failed));
            let reasons = failed
                .flat_map(|trial| &trial.incidents)
                .map(|incident| incident.message.clone())
                .collect();
            let tried = summary.completed + summary.failed;
            Some(format!("{} of {tried} trials failed: {}", summary.failed, listed(reasons)))
        }
        Exit::Done | Exit::Wrong | Exit::Missing => None,
        Exit::Missed => Some("the lowest load of a search misses its goal".to_owned()),
        Exit::Invalid => {
            let trials = study.points.iter().flat_map(|point| &point.trials);
            let runs = study.searches.iter().flat_map(|search| &search.runs);
            let steps = runs.filter(|run| run.tester_limited.is_some()).flat_map(|run| &run.trials);
            let left_out = steps.filter(|step| step.validity > Validity::Suspect);
            let reasons = trials.flat_map(|trial| &trial.why);
            let reasons: BTreeSet<_> =
                reasons.chain(left_out.flat_map(|step| &step.why)).map(sentences::reason).collect();
            let nothing = moved_nothing(study).then(|| "the load transferred nothing".to_owned());
            let causes: Vec<_> = nothing.into_iter().chain(reasons).collect();
            Some(format!("the measurement is invalid: {}", causes.join("; ")))
        }
    }
}

/// Returns the exit of a command that ran `campaign`: that of the run, or of the study.
///
/// # Errors
/// If an agent was lost, or events could not be recorded.
pub fn outcome(campaign: &Campaign, study: &Study, summary: &RunSummary) -> Outcome {
    Ok(match conduct::exit_of(summary)? {
        Exit::Done => exit_of(study),
        Exit::Missed => {
            let began = |trial: &TrialRecord| (trial.outcome, trial.skew.is_some());
            of_failures(&campaign.trials.iter().map(began).collect::<Vec<_>>())
        }
        other => other,
    })
}

/// Returns the exit of failed trials, each with its outcome and whether its load began. If none
/// ended well, nothing was measured: where no load began, an address, a port, a permission or a
/// kernel module was missing.
fn of_failures(trials: &[(Option<TrialOutcome>, bool)]) -> Exit {
    if trials.iter().any(|(outcome, _)| *outcome == Some(TrialOutcome::Completed)) {
        return Exit::Missed;
    }
    let any_began = trials.iter().any(|(_, began)| *began);
    if any_began { Exit::Invalid } else { Exit::Missing }
}

/// Returns the exit that a study asks for. A study without a usable point, or with a search that
/// the tester limited, is invalid. A search whose lowest load misses its goal has missed it.
#[must_use]
pub fn exit_of(study: &Study) -> Exit {
    let runs = || study.searches.iter().flat_map(|search| &search.runs);
    // The tester's limit says nothing about the device, even where other searches succeeded.
    if runs().any(|run| run.tester_limited.is_some()) {
        return Exit::Invalid;
    }
    let is_usable = |point: &PointStudy| is_kept(point) && has_figure(point);
    // A campaign of searches alone has no points.
    if !study.points.is_empty() && !study.points.iter().any(is_usable) {
        return Exit::Invalid;
    }
    let missed = runs().flat_map(|run| &run.found).any(|found| found.strict.lower.is_none());
    if missed { Exit::Missed } else { Exit::Done }
}

/// Returns whether all points of `study` are valid, and yet none has a figure: its load did
/// nothing.
#[must_use]
pub fn moved_nothing(study: &Study) -> bool {
    let did_nothing = |point: &PointStudy| is_kept(point) && !has_figure(point);
    !study.points.is_empty() && study.points.iter().all(did_nothing)
}

fn is_kept(point: &PointStudy) -> bool {
    point.validity <= Validity::Suspect
}

/// Returns whether the load of `point` did something: a rate, a time of an operation or a loss.
/// Costs and states of a host have values without any load.
fn has_figure(point: &PointStudy) -> bool {
    // A rate that never settles is a figure without a single number.
    let is_known = |figure: &MetricStudy| {
        figure.estimate.map_or(figure.settled.is_some(), |estimate| estimate.value > 0.0)
    };
    let figures = point.jobs.iter().flat_map(|job| &job.metrics);
    figures.filter(|figure| is_of_load(figure.metric)).any(is_known)
}

/// Returns whether a metric has values only if a load did something.
fn is_of_load(of: &Metric) -> bool {
    of.chief.is_some()
        || of.times.is_some()
        || of.is_for(Use::Family)
        || of == metric::NULL_STEP_COST
}

#[cfg(test)]
mod tests {
    use linerate_analysis::{JobStudy, Reason, SearchRun, SearchStudy, SearchTrial, TrialStudy};
    use linerate_model::{Direction, Method, Nanos, Point, Search};

    use super::*;

    fn point(validity: Validity, figures: &[(&'static Metric, f64)]) -> PointStudy {
        let figure = |(metric, value): &(&'static Metric, f64)| {
            MetricStudy::single(metric, Direction::Sum, *value)
        };
        let metrics = figures.iter().map(figure).collect();
        let jobs = vec![JobStudy { metrics, ..JobStudy::default() }];
        PointStudy { validity, jobs, ..PointStudy::default() }
    }

    fn study(validities: &[Validity]) -> Study {
        let moved = [(metric::GOODPUT, 1e9)];
        let points = validities.iter().map(|validity| point(*validity, &moved)).collect();
        Study { points, ..Study::default() }
    }

    fn searched(run: SearchRun) -> Study {
        let curve = Method::LossCurve { trial: Nanos(1), step: 0.1, fine_step: 0.01 };
        let search = SearchStudy {
            sweep: "s".into(),
            parameters: Point::default(),
            workload: "udp_stream".into(),
            from: "a".into(),
            to: "b".into(),
            search: Search::of_rates([1.0, 1e6], "the plan", curve),
            line: None,
            goals: Vec::new(),
            runs: vec![run],
        };
        Study { searches: vec![search], ..Study::default() }
    }

    #[test]
    fn a_load_that_did_nothing_is_invalid() {
        // Costs, states and the round-trip time of an idle connection are no figures of a load.
        let idle = [(metric::HOST_CPU, 0.5), (metric::RTT, 0.001), (metric::IOPS, 0.0)];
        for (figures, exit) in [
            (&idle[..], Exit::Invalid),
            (&[], Exit::Invalid),
            (&[(metric::IOPS, 0.5)], Exit::Done),
            // All datagrams were lost.
            (&[(metric::GOODPUT, 0.0), (metric::LOSS_RATIO, 1.0)], Exit::Done),
            (&[(metric::NULL_STEP_COST, 6.0)], Exit::Done),
            (&[(metric::TRIM_TIME_MEAN, 6.0)], Exit::Done),
        ] {
            let points = vec![point(Validity::Valid, figures)];
            let study = Study { points, ..Study::default() };
            assert_eq!((exit_of(&study), moved_nothing(&study)), (exit, exit != Exit::Done));
        }
        assert!(!moved_nothing(&study(&[Validity::Invalid])), "it has reasons of its own");
        let failed = TrialStudy { why: vec![Reason::NotRun], ..TrialStudy::default() };
        let mut study = study(&[Validity::Suspect]);
        study.points[0].jobs.clear();
        study.points[0].trials = vec![failed];
        let campaign = Campaign::default();
        let exit = linerate_control::Exit::Completed;
        let summary = RunSummary { completed: 1, failed: 0, interrupted: 0, remaining: 0, exit };
        let why = |study: &Study| reason(Exit::Invalid, &campaign, study, &summary);
        let own = sentences::reason(&Reason::NotRun);
        let both = format!("the measurement is invalid: the load transferred nothing; {own}");
        assert_eq!(why(&study), Some(both));
        study.points.push(point(Validity::Invalid, &idle));
        let one = Some(format!("the measurement is invalid: {own}"));
        assert_eq!(why(&study), one);
        // A search has trials of its own, and gives reasons only where the tester was its limit.
        let step = |validity, reason| SearchTrial {
            validity,
            why: vec![reason],
            ..SearchTrial::default()
        };
        let disturbed = step(Validity::Suspect, Reason::Interrupted);
        let trials = vec![disturbed, step(Validity::Invalid, Reason::NotRun)];
        let run = SearchRun { tester_limited: Some(1e4), trials, ..SearchRun::default() };
        assert_eq!(why(&searched(run)), one);
    }

    #[test]
    fn a_campaign_without_a_result_is_invalid_or_lacks_something() {
        let (failed, completed) = (Some(TrialOutcome::Failed), Some(TrialOutcome::Completed));
        for (trials, exit) in [
            (&[(failed, false)][..], Exit::Missing),
            (&[(failed, true)], Exit::Invalid),
            (&[(failed, false), (failed, true)], Exit::Invalid),
            (&[(completed, true), (failed, false)], Exit::Missed),
        ] {
            assert_eq!(of_failures(trials), exit, "{trials:?}");
        }
    }

    #[test]
    fn one_usable_point_is_enough_and_none_is_invalid() {
        assert_eq!(exit_of(&study(&[])), Exit::Done);
        assert_eq!(exit_of(&study(&[Validity::Invalid, Validity::Suspect])), Exit::Done);
        assert_eq!(exit_of(&study(&[Validity::Invalid, Validity::Impossible])), Exit::Invalid);
    }
}
