//! Conditions that make a trial suspect or invalid.

use linerate_analysis::statistics::Class;
use linerate_analysis::{IntervalSeries, Reason, Stopped, Study, study};
use linerate_model::Direction::{Sum, Tx};
use linerate_model::{
    Counter, Direction, Incident, IncidentKind, Interval, Nanos, Phases, StepGap, TestbedKind,
    TrialRecord, Validity, metric,
};

use crate::fixture::{
    campaign, costly, delivered, has, job, judged, near, only, samples, steady, stream, trial,
    two_hosts, value,
};
use Validity::{Invalid, Suspect, Valid};

/// Returns true if `why` is a goodput of class `is`.
fn not_steady(why: &Reason, is: Class) -> bool {
    matches!(why, Reason::NotSteady { metric, direction: Tx, settling }
        if *metric == metric::GOODPUT && settling.class == is)
}

#[test]
fn a_killed_campaign_keeps_what_was_measured_and_counts_the_rest() {
    let mut trials: Vec<TrialRecord> = (0..6).map(|number| stream(number, 1_000_000)).collect();
    trials[3].outcome = None;
    trials[3].jobs[0].1.intervals.truncate(2);
    for unreached in &mut trials[4..] {
        *unreached = TrialRecord::new(unreached.spec.clone());
    }
    let mut campaign = two_hosts(trials);
    campaign.ended = None;
    let study = study(&campaign);
    let point = only(&study);
    assert_eq!(
        point.jobs[0].metric(metric::GOODPUT, Tx).and_then(|m| m.estimate).expect("three runs").n,
        3
    );
    let of_six = |n, reason| Reason::OfTrials { n, of: 6, alike: true, reason: Box::new(reason) };
    assert!(point.why.contains(&of_six(2, Reason::NotRun)), "{:?}", point.why);
    assert!(point.why.contains(&of_six(1, Reason::CampaignEnded)), "{:?}", point.why);

    let nothing = TrialRecord::new(trial(0, vec![job("tcp_stream", "a", "b")]).spec);
    assert_eq!(judged(nothing).validity, Invalid);
}

#[test]
fn a_receiver_that_stopped_counting_invalidates_the_trial() {
    let mut cut = stream(0, 1_000_000);
    cut.jobs[0].1.intervals.truncate(3);
    let point = judged(cut);
    assert_eq!(point.validity, Invalid);
    assert!(
        has(&point.why[1..], |why| matches!(why, Reason::Covered { share, .. }
            if (share - 0.5).abs() < 0.005)),
        "{:?}",
        point.why
    );
    assert_eq!(
        point.trials[0].series[&IntervalSeries::Directed(metric::GOODPUT, Direction::Tx)],
        [Some(8e6), Some(8e6), Some(8e6), None, None]
    );
}

#[test]
fn steal_makes_a_trial_suspect_and_a_tester_limit_makes_it_invalid() {
    let mut stolen = costly();
    stolen.samples[0].1 =
        samples(&[("cpu", "idle", "cpu0", 0.98e9), ("cpu", "steal", "cpu0", 0.02e9)]);
    let found = judged(stolen);
    assert_eq!(found.validity, Suspect, "{:?}", found.why);
    assert!(value(&found, 0, metric::GOODPUT, Tx).is_some());

    let mut limited = stream(0, 1_000_000);
    let incident = |kind| Incident { host: "left".into(), kind, message: "generator late".into() };
    limited.incidents.push(incident(IncidentKind::Rejected));
    assert_eq!(judged(limited.clone()).validity, Valid);
    limited.incidents.push(incident(IncidentKind::Tester));
    let found = judged(limited);
    assert_eq!(found.validity, Invalid);
    assert_eq!(found.trials[0].why, [Reason::Incident(incident(IncidentKind::Tester))]);
}

#[test]
fn an_automatic_warm_up_cuts_the_slow_start_and_no_more() {
    let mut trial = trial(0, vec![job("tcp_stream", "a", "b")]);
    trial.spec.phases = Phases {
        measure: Nanos::from_secs(10),
        interval: Nanos::from_millis(100),
        ..Phases::default()
    };
    let delivered = |bin: u64| if bin < 15 { 10_000 * bin } else { 1_000_000 + 100 * (bin % 3) };
    let interval = |bin: u64| {
        let (start, end) = (Nanos::from_millis(bin * 100), Nanos::from_millis((bin + 1) * 100));
        let mut interval = Interval { start, end, ..Interval::default() };
        interval.counters[Counter::PayloadReceived] = delivered(bin);
        interval
    };
    trial.jobs[0].1.intervals = (0..110).map(interval).collect();
    let point = &judged(trial);
    assert_eq!(point.trials[0].measured_from, 1.5);
    let goodput = value(point, 0, metric::GOODPUT, Tx).expect("goodput");
    assert!((goodput / 80e6 - 1.0).abs() < 0.001, "{goodput}");
    assert_eq!(point.validity, Valid);
}

#[test]
fn a_short_trial_that_scatters_is_not_called_unsteady_and_a_long_one_that_falls_is() {
    let scatter = [3, 8, 4, 9, 5, 2, 9, 9, 9, 9, 9, 9].map(|megabytes| megabytes * 1_000_000);
    let found = judged(delivered(&scatter));
    assert_eq!((found.validity, found.trials[0].measured_from), (Valid, 0.2));

    let falling: Vec<u64> = (0..110).map(|bin| 2_000_000 - bin * 10_000).collect();
    let found = judged(delivered(&falling));
    assert_eq!(found.validity, Suspect);
    assert!(has(&found.why[..1], |why| not_steady(why, Class::Drifts)), "{:?}", found.why);
    assert_eq!(
        value(&found, 0, metric::GOODPUT, Tx),
        None,
        "one number would depend on when it was stopped"
    );
}

/// Twelve seconds in intervals of 100 ms: two at `first`, the rest at `then` megabytes an interval,
/// and a little scatter.
fn stairs(number: u32, first: u64, then: u64) -> linerate_model::TrialRecord {
    let scatter = |bin: u64| bin * 7919 % 13 * 1_000;
    let level = |bin: u64| if bin < 70 { first } else { then } * 1_000_000;
    let mut trial = delivered(&(0..120).map(|bin| level(bin) + scatter(bin)).collect::<Vec<u64>>());
    (trial.spec.id.0, trial.spec.repeat) = (number, number);
    trial
}

#[test]
fn a_rate_that_mostly_slows_down_is_told_in_levels_and_has_no_single_number() {
    let campaign = two_hosts(vec![stairs(0, 2, 1), stairs(1, 2, 1), stairs(2, 2, 2)]);
    let found = study(&campaign);
    let told = linerate_analysis::headline(&campaign, &found).expect("something was measured");
    assert_eq!(
        (told.moved, told.unsettled.as_deref()),
        (None, Some("inconsistent: 1 steady, 2 slows down"))
    );
    let point = only(&found);
    let goodput = point.jobs[0].metric(metric::GOODPUT, Tx).expect("it was measured");
    let settled = goodput.settled.as_ref().expect("the trials are long enough");
    assert_eq!((goodput.estimate, settled.has_single_number), (None, false));
    assert_eq!(settled.word, "inconsistent: 1 steady, 2 slows down");
    let levels = &settled.trials[0].as_ref().expect("it was asked").levels;
    assert_eq!(levels.len(), 2);
    assert!(
        (levels[0].value / 160e6 - 1.0).abs() < 0.01 && (levels[1].value / 80e6 - 1.0).abs() < 0.01,
        "{levels:?}"
    );
    assert_eq!((levels[0].to, levels[1].to), (levels[1].from, 12.0));
    assert!((levels[0].to - 7.0).abs() <= 0.5, "to the batch of five: {levels:?}");
    assert!(
        goodput.values.iter().all(Option::is_some),
        "what got through in the same time can still be compared"
    );
    assert_eq!(point.validity, Suspect);
    assert!(
        has(&point.why, |why| not_steady(why, Class::SlowsDown)
            && matches!(why, Reason::NotSteady { settling, .. }
                if (settling.levels[0].value - 160e6).abs() < 0.5e6)),
        "{:?}",
        point.why
    );

    let found = study(&two_hosts(vec![stairs(0, 2, 1), stairs(1, 2, 2), stairs(2, 2, 2)]));
    assert!(
        value(only(&found), 0, metric::GOODPUT, Tx).is_some(),
        "one of three does not settle: the figure is kept and marked"
    );
    assert_eq!(only(&found).validity, Suspect);
}

#[test]
fn a_long_warm_up_is_cut_where_it_ends() {
    let point = &judged(stairs(0, 1, 2));
    assert_eq!((point.validity, point.trials[0].measured_from), (Valid, 7.0), "{:?}", point.why);
    let goodput = value(point, 0, metric::GOODPUT, Tx).expect("a figure");
    assert!((goodput / 160e6 - 1.0).abs() < 0.01, "{goodput}");
}

#[test]
fn steal_within_the_coarseness_of_its_reading_is_no_doubt() {
    // One tick of 10 ms in four seconds of one CPU is 0.25 %: three ticks are 0.75 %, two of them
    // beyond doubt are 0.5 %.
    let with_steal = |per_second: f64| {
        let mut trial = costly();
        trial.samples[0].1 = samples(&[
            ("cpu", "idle", "cpu0", 1e9 - per_second),
            ("cpu", "steal", "cpu0", per_second),
        ]);
        judged(trial).validity
    };
    assert_eq!((with_steal(7.4e6), with_steal(7.6e6)), (Valid, Suspect));
}

#[test]
fn what_others_took_is_of_the_cpu_that_lost_most_or_of_the_worker_that_waited_most() {
    let of = |[first, second]: [f64; 2]| {
        let mut trial = stream(0, 1_000_000);
        let lost = [
            ("cpu", "steal", "cpu0", first),
            ("cpu", "steal", "cpu1", second),
            ("cpu", "idle", "cpu0", 5e8),
        ];
        trial.samples.push(("right".into(), samples(&lost)));
        let point = judged(trial);
        assert_eq!(point.taken_by_end()[0], None, "nothing was read at the active end");
        point.taken()
    };
    // Less the tick of 10 ms in four seconds by which a reading is coarse.
    near(of([0.1e9, 0.3e9]), 0.2975);
    near(of([0.0, 0.0]), 0.0);
    let mut waits = stream(0, 1_000_000);
    waits.jobs[0]
        .1
        .intervals
        .iter_mut()
        .for_each(|interval| interval.counters[Counter::RunQueueWait] = 200_000_000);
    let waited = judged(waits);
    near(waited.taken(), 0.2);
    assert_eq!(waited.taken_by_end(), [None, waited.taken()]);
    assert_eq!(judged(stream(0, 1_000_000)).taken(), None, "not read is not nothing");
}

/// Requests on one kernel or on two, in whose third second these ends did not run for 500 ms.
fn stopped(kernels: [&str; 2], ends: [bool; 2], steal_ns: f64) -> Study {
    let mut trial = trial(0, vec![job("tcp_rr", "a", "b")]);
    let end = |stood: bool| {
        let mut end = steady(&[(Counter::Transactions, 100), (Counter::PayloadReceived, 6400)]);
        for interval in &mut end.intervals {
            interval.longest_step = Some(StepGap {
                start: interval.start,
                length: Nanos::from_millis(10),
                ran: Nanos(0),
            });
        }
        if stood {
            let start = Nanos::from_millis(2300);
            end.intervals[2].longest_step =
                Some(StepGap { start, length: Nanos::from_millis(500), ran: Nanos(0) });
        }
        end
    };
    trial.jobs[0] = (end(ends[0]), end(ends[1]));
    let mut block = samples(&[("cpu", "steal", "cpu0", 0.0)]);
    let stolen = |(place, value): (usize, Option<f64>)| {
        value.map(|value| if place < 3 { value } else { value + steal_ns })
    };
    block.columns[0] = block.columns[0].iter().enumerate().map(stolen).collect();
    trial.samples.push(("right".into(), block));
    let facts = kernels.map(|kernel| serde_json::json!({"kernel": {"boot_id": kernel}}));
    study(&campaign(TestbedKind::Hosts, facts, vec![trial]))
}

#[test]
fn a_machine_that_stood_still_is_told_apart_from_a_tester_that_was_stopped() {
    let of = |study: &Study| {
        let trial = &only(study).trials[0];
        let whats: Vec<Stopped> = trial.stalls.iter().map(|stall| stall.what).collect();
        let stood = trial.why.iter().find_map(|why| match why {
            Reason::Stood(stall) => Some(stall.clone()),
            _ => None,
        });
        let stood = stood.expect("a stall");
        let times = (Nanos::from_millis(2300), Nanos::from_millis(500));
        assert_eq!((stood.start, stood.length), times);
        (whats, stood)
    };
    let (what, why) = of(&stopped(["one", "one"], [true, true], 0.0));
    assert_eq!(what, [Stopped::Machine; 2]);
    assert_eq!((why.what, why.stolen), (Stopped::Machine, Nanos(0)), "{why:?}");
    let (what, why) = of(&stopped(["one", "one"], [true, false], 0.0));
    assert_eq!((what, why.what), (vec![Stopped::Tester], Stopped::Tester));
    assert_eq!((why.worker, &*why.workload, &*why.host), (0, "tcp_rr", "left"));
    let (what, why) = of(&stopped(["one", "two"], [true, true], 0.0));
    assert_eq!(what, [Stopped::Tester; 2], "two agents on two machines");
    assert_eq!(why.what, Stopped::Tester);
    let (what, why) = of(&stopped(["one", "two"], [false, true], 0.4e9));
    assert_eq!(what, [Stopped::Machine]);
    assert_eq!((why.what, why.stolen), (Stopped::Machine, Nanos::from_millis(390)), "{why:?}");
}

#[test]
fn an_open_load_that_was_not_offered_or_late_makes_a_trial_suspect() {
    let open = |intended, started, late, transactions| {
        let mut trial = trial(0, vec![job("udp_rr", "a", "b")]);
        let counts = [
            (Counter::Intended, intended),
            (Counter::Started, started),
            (Counter::LateStarts, late),
            (Counter::Transactions, transactions),
            (Counter::PayloadReceived, 64_000),
        ];
        trial.jobs[0] = (steady(&counts), steady(&[(Counter::PayloadReceived, 64_000)]));
        study(&two_hosts(vec![trial]))
    };
    let short = open(1000, 900, 0, 900);
    near(value(only(&short), 0, metric::PACING_ERROR, Sum), 0.1);
    assert_eq!(only(&short).validity, Suspect);
    assert!(
        has(&only(&short).why[..1], |why| matches!(why, Reason::Offered { share, .. }
            if (share - 0.9).abs() < 5e-4)),
        "{:?}",
        only(&short).why
    );
    assert_eq!(only(&open(1000, 995, 5, 995)).validity, Valid);
    assert_eq!(only(&open(1000, 1000, 50, 1000)).validity, Suspect);
    assert_eq!(only(&open(1000, 1000, 500, 0)).validity, Valid, "batches of datagrams");
    assert_eq!(
        only(&open(50, 49, 0, 49)).validity,
        Valid,
        "four of two hundred, two of them at the edges"
    );
    assert_eq!(only(&open(10, 9, 0, 9)).validity, Suspect, "four of forty");
}

#[test]
fn a_worker_kept_waiting_for_its_cpu_makes_a_trial_suspect_and_wake_ups_do_not() {
    let of = |waited_ns: u64, switches: u64| {
        let mut trial = stream(0, 1_000_000);
        for interval in &mut trial.jobs[0].1.intervals {
            interval.counters[Counter::RunQueueWait] = waited_ns;
            interval.counters[Counter::VoluntarySwitches] = switches;
        }
        study(&two_hosts(vec![trial]))
    };
    // 1 % of each second and 12 us for each switch.
    let quiet = of(45_000_000, 8_000);
    assert_eq!(only(&quiet).validity, Valid, "{:?}", only(&quiet).why);
    near(value(only(&quiet), 0, metric::RUN_QUEUE_WAIT, Sum), 0.045);
    assert_eq!(only(&of(9_000_000, 0)).validity, Valid);
    let disturbed = of(34_000_000, 1_000);
    assert_eq!(only(&disturbed).validity, Suspect);
    let why = &only(&disturbed).trials[0].why[0];
    assert!(
        matches!(why, Reason::Waited { host, worker: 0, share, .. }
            if host == "right" && (share - 0.022).abs() < 5e-4),
        "{why:?}"
    );
    assert!(
        value(only(&disturbed), 0, metric::GOODPUT, Tx).is_some(),
        "the figure is kept and marked"
    );
    assert_eq!(
        value(only(&of(0, 10)), 0, metric::RUN_QUEUE_WAIT, Sum),
        None,
        "not accounted is not zero"
    );
}

#[test]
fn workers_that_wait_for_each_other_are_not_disturbed_by_others() {
    let of = |used_by_all: f64| {
        let mut trial = stream(0, 1_000_000);
        for interval in &mut trial.jobs[0].1.intervals {
            interval.counters[Counter::RunQueueWait] = 400_000_000;
            interval.counters[Counter::CpuUser] = 900_000_000;
        }
        let used = [
            ("cpu", "user", "cpu0", used_by_all),
            ("cpu", "softirq", "cpu0", 5e7),
            ("cpu", "idle", "cpu0", 1e8),
        ];
        trial.samples.push(("right".into(), samples(&used)));
        study(&two_hosts(vec![trial])).points[0].clone()
    };
    // One tick of 10 ms in four seconds, and 1 %, may have any cause.
    assert_eq!(of(0.91e9).validity, Valid, "{:?}", of(0.91e9).why);
    let disturbed = of(1.0e9);
    assert_eq!(disturbed.validity, Suspect);
    assert!(
        has(&disturbed.why[..1], |why| matches!(why, Reason::Waited { share, .. }
            if (share - 0.0975).abs() < 1e-9)),
        "{:?}",
        disturbed.why
    );
}

#[test]
fn a_drift_over_the_order_run_is_told() {
    let trials =
        (0..8).map(|number| stream(number, 1_000_000 + u64::from(number) * 50_000)).collect();
    let study = study(&two_hosts(trials));
    assert_eq!(only(&study).validity, Suspect);
    assert!(
        has(&only(&study).why, |why| matches!(why, Reason::Drifts { .. })),
        "{:?}",
        only(&study).why
    );
}
