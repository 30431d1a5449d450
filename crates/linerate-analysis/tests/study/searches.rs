//! Searches judged from what was recorded of their trials: bursts, whose limit it was, recovery,
//! and arms of a comparison.

use linerate_analysis::compare::Change;
use linerate_analysis::{Reason, SearchRun, SearchTrial, searched, study};
use linerate_model::{
    Arm, Counter, FlowReport, Goal, Interval, JobRecord, LastGap, Method, Nanos, Purpose, Ratio,
    Role, Search, Searched, Step, TrialId, TrialRecord, Validity,
};
use serde_json::json;

use crate::fixture::{job, trial, two_hosts};
use Counter::{
    DatagramsReceived, DatagramsSent, Intended, PayloadReceived, PayloadSent, Started,
    VeryLateStarts,
};

fn goal(seconds: u64) -> Goal {
    let length = Nanos::from_secs(seconds);
    Goal { initial_trial: length, ..Goal::strict("RFC 2544", 0.01, length) }
}

fn search(max: f64, method: Method) -> Search {
    Search::of_rates([1.0, max], "the plan", method)
}

fn halving(max: f64) -> Search {
    search(max, Method::Halving { goal: goal(1), repeats: 0 })
}

fn recovery() -> Search {
    let (overload, after) = (Nanos(0), Nanos(0));
    search(1e4, Method::Recovery { goal: goal(1), overload, after, repeats: 1 })
}

fn at(purpose: Purpose, load: f64, duration: Nanos) -> Step {
    Step { purpose, load, duration, then: None }
}

fn load(load: f64) -> Step {
    at(Purpose::Load, load, Nanos::from_secs(1))
}

/// One end: an interval for each of `counts`, all of one length.
fn end(length: Nanos, counts: &[&[(Counter, u64)]]) -> JobRecord {
    let mut record = JobRecord::default();
    let mut flow = FlowReport::default();
    for (number, counted) in (0_u64..).zip(counts) {
        let (start, end) = (Nanos(number * length.0), Nanos((number + 1) * length.0));
        let mut interval = Interval { start, end, ..Interval::default() };
        for (counter, n) in *counted {
            interval.counters[*counter] = *n;
            flow.counters[*counter] += *n;
        }
        record.intervals.push(interval);
    }
    flow.next_sequence = flow.counters[DatagramsSent].max(flow.counters[DatagramsReceived]);
    record.flows.push(flow);
    record
}

fn recorded(number: u32, search: &Search, step: Step, ends: (JobRecord, JobRecord)) -> TrialRecord {
    let mut record = trial(number, vec![job("frames", "a", "b")]);
    record.spec.repeat = 0;
    record.spec.phases.measure = step.duration + step.then.map_or(Nanos(0), |(_, length)| length);
    record.spec.phases.warmup = linerate_model::Warmup::Fixed(Nanos(0));
    record.spec.search =
        Some(Box::new(Searched { search: search.clone(), step: Some(step), number }));
    record.jobs = vec![ends];
    record
}

/// A trial of `step` that carried `received` of `sent` frames of those intended, of which `late`
/// were sent more than 1 ms late.
fn carried(
    number: u32,
    search: &Search,
    step: Step,
    sent: u64,
    received: u64,
    late: u64,
) -> TrialRecord {
    let intended = (step.load * step.duration.as_secs_f64()).round() as u64;
    let own = [
        (Intended, intended),
        (Started, sent),
        (DatagramsSent, sent),
        (PayloadSent, sent * 64),
        (VeryLateStarts, late),
    ];
    let other = [(DatagramsReceived, received), (PayloadReceived, received * 64)];
    recorded(number, search, step, (end(step.duration, &[&own]), end(step.duration, &[&other])))
}

/// The bounds that `run` found for its first goal.
fn bounds(run: &SearchRun) -> (Option<f64>, Option<f64>) {
    (run.found[0].strict.lower, run.found[0].strict.upper)
}

fn judged(record: TrialRecord) -> SearchTrial {
    let campaign = two_hosts(vec![record]);
    searched(&campaign, &campaign.trials[0]).expect("it is one of a search")
}

fn only(trials: Vec<TrialRecord>) -> SearchRun {
    study(&two_hosts(trials)).searches.remove(0).runs.remove(0)
}

/// RFC 9004 from a record: a queue of 1000 frames served at 1 Mpps behind 1 Gbit/s of 64 B frames
/// (docs/methodology/searches.md#bursts).
#[test]
fn the_buffer_of_a_queue_is_read_from_recorded_bursts_each_search_for_itself() {
    let rate = 1_488_095.238;
    let method = Method::BackToBack { goal: goal(1), repeats: 2, longest: Nanos::from_millis(100) };
    let search = search(rate, method);
    let burst = |frames: u64| at(Purpose::Burst, rate, Nanos::from_secs_f64(frames as f64 / rate));
    let mut trials = vec![
        carried(0, &search, load(1e6), 1_000_000, 1_000_000, 0),
        carried(1, &search, load(1.005e6), 1_005_000, 1_004_000, 0),
    ];
    // Two searches, each from its longest burst; one burst that the tester did not send completely
    // counts for nothing.
    let asked = [
        (6_000, 2_000),
        (3_000, 0),
        (4_500, 500),
        (3_049, 0),
        (3_050, 1),
        (6_098, 2_050),
        (3_049, 0),
        (3_050, 1),
    ];
    for (number, (frames, lost)) in (2..).zip(asked) {
        trials.push(carried(number, &search, burst(frames), frames, frames - lost, 0));
    }
    trials.push(carried(10, &search, burst(3_060), 2_000, 2_000, 0));
    let run = only(trials);
    let bursts = run.bursts.as_ref().expect("the queue filled");
    assert_eq!(bursts.bursts, [3_049.0, 3_049.0], "{run:?}");
    assert!((bursts.corrected_s * 1e3 - 0.672).abs() < 5e-4, "{bursts:?}");
    assert_eq!(run.trials[10].validity, Validity::Invalid);
    let why = &run.trials[10].why;
    assert!(why.contains(&Reason::BurstCut { unsent: 1060, of: 3060 }), "{why:?}");
}

#[test]
fn a_tester_that_sends_more_than_a_hundredth_of_its_frames_a_millisecond_late_spoils_the_trial() {
    let of = |purpose, late| {
        let step = at(purpose, 1e4, Nanos::from_secs(1));
        judged(carried(0, &halving(1e4), step, 10_000, 9_850, late))
    };
    assert_eq!(of(Purpose::Load, 100).validity, Validity::Valid);
    let spoilt = of(Purpose::Load, 200);
    assert_eq!(spoilt.validity, Validity::Invalid);
    assert!(
        matches!(spoilt.why[0], Reason::SentVeryLate { share, .. } if (share - 0.02).abs() < 5e-4),
        "{:?}",
        spoilt.why
    );
    // What the tester can do is not spoilt by the tester.
    assert!(of(Purpose::SelfTest, 200).validity <= Validity::Suspect);
}

/// At the capacity a delay of 5 ms fills a buffer of 16 frames: one is lost, and some twenty left
/// late.
#[test]
fn a_loss_no_larger_than_what_left_late_counts_only_if_three_repeats_did_not_clear_it() {
    let search = halving(8e3);
    let doubtful = |number| carried(number, &search, load(4e3), 4_000, 3_999, 17);
    let cleared = only(vec![doubtful(0), carried(1, &search, load(4e3), 4_000, 4_000, 0)]);
    assert_eq!(cleared.trials[0].validity, Validity::Invalid);
    assert_eq!(bounds(&cleared), (Some(4e3), None));
    let believed = only((0..4).map(doubtful).collect());
    assert_eq!(bounds(&believed), (None, Some(4e3)));
    let overloaded = only(vec![carried(0, &search, load(4e3), 4_000, 3_900, 17)]);
    assert_eq!(overloaded.found[0].strict.upper, Some(4e3), "more was lost than left late");
}

/// At twice the capacity half is lost, whatever the tester does: that a tenth left late may explain
/// a tenth of the losses.
#[test]
fn a_loss_far_above_what_left_late_is_the_devices_and_the_load_is_not_offered_again() {
    let search = halving(8e3);
    let of = |received| only(vec![carried(0, &search, load(8e3), 8_000, received, 800)]);
    let lossy = of(4_000);
    let trial = &lossy.trials[0];
    assert_eq!((trial.validity, bounds(&lossy).1), (Validity::Suspect, Some(8e3)), "{lossy:?}");
    let unexplained = |why| matches!(why, &Reason::SentVeryLate { unexplained: Some(3200), .. });
    assert!(unexplained(&trial.why[0]), "{:?}", trial.why);
    for received in [7_200, 8_000] {
        let validity = of(received).trials[0].validity;
        assert_eq!(validity, Validity::Invalid, "{received}: it may all be the tester's");
    }
    // Losses beyond the late frames may be as few as the goal allows.
    let allowing = Goal { loss_ratio: 0.5, ..goal(1) };
    let search = self::search(8e3, Method::Halving { goal: allowing, repeats: 0 });
    let allowed = only(vec![carried(0, &search, load(8e3), 8_000, 4_000, 800)]);
    assert_eq!(allowed.trials[0].validity, Validity::Invalid);
}

#[test]
fn what_the_generator_did_not_send_pushes_the_search_down_and_the_answer_is_at_least() {
    let search = halving(2e4);
    let trials = |sent| {
        vec![
            carried(0, &search, load(1e4), 10_000, 10_000, 0),
            carried(1, &search, load(1.005e4), sent, sent.min(10_000), 0),
        ]
    };
    let run = only(trials(9_000));
    assert_eq!((bounds(&run), run.found[0].at_least), ((Some(1e4), Some(1.005e4)), true));
    let run = only(trials(10_050));
    let found = (bounds(&run).1, run.found[0].at_least);
    assert_eq!(found, (Some(1.005e4), false), "the device lost those");
}

#[test]
fn a_search_that_the_self_test_bounded_finds_at_least_that() {
    let search = halving(2e4);
    let own = at(Purpose::SelfTest, 1e4, Nanos::from_secs(1));
    let found = |capacity: u64| {
        let tested = carried(0, &search, own, 10_000, 10_000, 0);
        only(vec![tested, carried(1, &search, load(1e4), 10_000, capacity, 0)]).found.remove(0)
    };
    assert!(found(10_000).at_least);
    assert!(!found(9_000).at_least);
}

/// 100 frames an interval; the receiver falls behind for two intervals without a loss, long after
/// the last one.
#[test]
fn recovery_ends_with_the_last_loss_and_not_with_a_receiver_that_is_behind() {
    let search = recovery();
    let (length, low) = (Nanos::from_millis(100), Nanos::from_millis(800));
    let step = Step {
        purpose: Purpose::Overload,
        load: 1_000.0,
        duration: Nanos::from_millis(200),
        then: Some((1_000.0, low)),
    };
    let received = [80, 80, 90, 95, 100, 100, 40, 30, 230, 100];
    let each = [Intended, Started, DatagramsSent, PayloadSent].map(|counter| (counter, 100));
    let sent = received.map(|_| &each[..]);
    let came = received.map(|n| [(DatagramsReceived, n), (PayloadReceived, n)]);
    let came = came.each_ref().map(|counts| &counts[..]);
    let trial = judged(recorded(0, &search, step, (end(length, &sent), end(length, &came))));
    assert_eq!(trial.recovery_s, Some(0.2), "{trial:?}");
}

/// An overload of 200 ms and 800 ms of half; the low load's own flow and the overload's, of which
/// each lost some.
fn overloaded(low: &[Option<LastGap>; 2], received: u64) -> SearchTrial {
    let search = recovery();
    let then = Some((1_000.0, Nanos::from_millis(800)));
    let step =
        Step { purpose: Purpose::Overload, load: 2_200.0, duration: Nanos::from_millis(200), then };
    let length = Nanos::from_secs(1);
    let sent = |n| end(length, &[&[(Intended, n), (DatagramsSent, n), (PayloadSent, n)]]);
    let came = |n, next, gap| {
        let mut end = end(length, &[&[(DatagramsReceived, n), (PayloadReceived, n)]]);
        (end.flows[0].next_sequence, end.flows[0].last_gap) = (next, gap);
        end
    };
    let mut record =
        recorded(0, &search, step, (sent(1_000), came(received, received + 20, low[0])));
    let mut over = job("frames", "a", "b");
    over.background = Some(linerate_model::Background { start_ns: 0, duration: step.duration });
    record.spec.jobs.push(over);
    // The overload's last frames have nothing behind them.
    record.jobs.push((sent(240), came(200, 230, low[1])));
    judged(record)
}

/// Known: a queue of 200 frames served at 2000 a second. It takes frames again at once; the last
/// gap is 100 ms behind it.
#[test]
fn recovery_is_told_to_a_frame_at_both_ends_where_receivers_keep_the_last_gap() {
    let gap = |scheduled, seen| {
        Some(LastGap {
            behind: 1,
            seen: Nanos::from_millis(seen),
            scheduled: Some(Nanos::from_millis(scheduled)),
        })
    };
    let found = overloaded(&[gap(201, 301), gap(198, 299)], 980);
    assert_eq!((found.recovery_s, found.cleared_s), (Some(0.001), Some(0.101)), "{found:?}");
    // All was over before the load fell.
    let before = overloaded(&[gap(150, 199), None], 980);
    assert_eq!((before.recovery_s, before.cleared_s), (Some(0.0), Some(0.0)));
    // The last ten never came: it had not recovered.
    let never = overloaded(&[gap(900, 990), gap(198, 299)], 970);
    assert_eq!((never.recovery_s, never.cleared_s), (None, None));
}

/// A campaign of six pairs whose arms find these rates, their bounds a hundredth apart.
fn compared(rates: [f64; 2]) -> linerate_analysis::Comparison {
    let search = halving(2e4);
    let arms = [("without", Role::Base), ("with", Role::Changed)];
    let mut trials = Vec::new();
    for repeat in 0..6_u32 {
        for ((name, role), rate) in arms.iter().zip(rates) {
            // Noise of a frame or two.
            let rate = rate + f64::from(repeat % 3);
            for (lost, rate) in [(0, rate), (10, rate * 1.01)] {
                let number = trials.len() as u32;
                let sent = rate.round() as u64;
                let mut record = carried(number, &search, load(rate), sent, sent - lost, 0);
                record.spec.id = TrialId(number);
                record.spec.repeat = repeat;
                record.spec.arm = Some(Arm::new(*name, *role, Ratio(0.001)));
                record.spec.point.insert("arm".into(), json!(name));
                trials.push(record);
            }
        }
    }
    let mut study = study(&two_hosts(trials));
    assert_eq!((study.searches.len(), study.comparisons.len()), (2, 1));
    study.comparisons.remove(0)
}

#[test]
fn arms_of_a_search_are_compared_and_the_searchs_step_is_the_resolution() {
    let worse = compared([1e4, 9e3]);
    let figure = &worse.figures[0];
    assert_eq!(figure.metric.to_string(), "rate_of_RFC 2544");
    assert_eq!((figure.effect.n, figure.pairs, &*figure.found[1].0), (6, 6, "with"));
    assert_eq!(figure.effect.change, Change::Worse, "{figure:?}");
    let apart = figure.effect.margin - 1.0;
    assert!((apart - 0.01).abs() < 2e-3, "the bounds are a hundredth apart: {figure:?}");
    let same = &compared([1e4, 9_950.0]).figures[0];
    assert_eq!(same.effect.change, Change::None, "half a step is no difference: {same:?}");
}
