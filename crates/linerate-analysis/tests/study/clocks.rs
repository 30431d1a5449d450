//! One-way times between hosts whose clocks differ: exact answers from clocks that are known here.

use linerate_analysis::{Refusal, clock_course};
use linerate_model::{
    ClockExchange, Counter, Direction::Sum, Distribution, HostClock, Nanos, PeerClock, Rare, Side,
    ToldClock, TrialClocks, TrialRecord, Variation, metric,
};

use super::fixture::{SECONDS, job, judged, steady, trial, two_hosts, value};

/// Time of the barrier on the conductor's clock, ns.
const BARRIER: u64 = 1_000_000_000_000;
/// One way of the control path, ns.
const WAY: u64 = 20_000;
/// Gain of the receiver's clock, parts per million; the sender has the conductor's clock.
const PPM: i64 = 30;
/// Delay of every frame, ns.
const DELAY: u64 = 150_000;
/// Offset that the receiver adds, ns.
const ADDED: u64 = 1_000_000;

/// The receiver's clock by the conductor's: a day ahead at the barrier, and gaining.
fn theirs(ours: u64) -> u64 {
    let since = ours as i64 - BARRIER as i64;
    (ours as i64 + 86_400_000_000_000 + since * PPM / 1_000_000) as u64
}

fn exchanged(at: u64, there: u64, back: u64) -> ClockExchange {
    let arrived = theirs(at + there);
    ClockExchange { sent: at, arrived, answered: arrived + 5_000, heard: at + there + 5_000 + back }
}

/// A run of frames of [`DELAY`] from the conductor's host to one whose clock is a day ahead and
/// gains. The receiver knows the offset at the barrier and nothing of the gain.
fn frames(delay: u64, exchanges: Vec<ClockExchange>) -> TrialRecord {
    let mut run = trial(0, vec![job("frames", "a", "b")]);
    let told_ahead = BARRIER as i64 - theirs(BARRIER) as i64;
    let mut receiver =
        steady(&[(Counter::PayloadReceived, 100_000), (Counter::DatagramsReceived, 1_000)]);
    for interval in &mut receiver.intervals {
        // At its middle, by the receiver's clock.
        let at = BARRIER + (interval.start.0 + interval.end.0) / 2;
        let recorded = theirs(at) as i64 + told_ahead - (at - delay) as i64 + ADDED as i64;
        interval.service = Distribution::of(vec![(recorded as u64, 1_000)]).into();
        interval.response = interval.service.clone();
        interval.variation =
            Variation { rises: Distribution::of(vec![(0, 999)]), ..Variation::default() }.into();
    }
    run.jobs[0] =
        (steady(&[(Counter::PayloadSent, 100_000), (Counter::DatagramsSent, 1_000)]), receiver);
    let peer =
        PeerClock { ahead_ns: told_ahead, at_ns: theirs(BARRIER), gains_ppb: 0, added_ns: ADDED };
    run.clocks = TrialClocks {
        barrier_ns: BARRIER,
        hosts: vec![HostClock { host: "right".into(), exchanges }],
        told: vec![ToldClock { job: 0, side: Side::Passive, barrier_ns: theirs(BARRIER), peer }],
    };
    run
}

/// Before, within and after the trial; the one within is bad, as under load.
fn three() -> Vec<ClockExchange> {
    let after = BARRIER + Nanos::from_secs(SECONDS + 1).0;
    vec![
        exchanged(BARRIER - 300_000_000, WAY, WAY),
        exchanged(BARRIER + 2_000_000_000, 900_000, 10_000),
        exchanged(after, WAY, WAY),
    ]
}

#[test]
fn a_clock_that_is_ahead_and_gains_is_taken_out_of_every_interval() {
    let found = judged(frames(DELAY, three()));
    let figure = |name| value(&found, 0, name, Sum);
    let median = figure(metric::SERVICE_TIME_P50).expect("longer than its uncertainty");
    assert!((median - DELAY as f64 * 1e-9).abs() < 200e-9, "{median}");
    let most = figure(metric::RESPONSE_TIME_MAX).expect("longer than its uncertainty");
    assert!(
        (most - DELAY as f64 * 1e-9).abs() < 200e-9,
        "30 us a second would show as 150: {most}"
    );
    // Half of the round trips, the drift before the first exchange (0), and half an interval of a
    // gain of 30 ppm that the receiver does not know.
    let doubt = figure(metric::CLOCK_UNCERTAINTY).expect("two clocks");
    assert!((20e-6..40e-6).contains(&doubt), "{doubt}");
    let course = clock_course(&two_hosts(vec![frames(DELAY, three())]).trials, "right")
        .expect("it was read");
    assert_eq!((course.n, course.bound), (1, 20_000.0));
}

#[test]
fn a_delay_shorter_than_the_clocks_are_known_is_withheld_and_its_variation_is_not() {
    let found = judged(frames(30_000, three()));
    let figure = |name| value(&found, 0, name, Sum);
    assert_eq!((figure(metric::SERVICE_TIME_P50), figure(metric::RESPONSE_TIME_MAX)), (None, None));
    assert!(
        figure(metric::CLOCK_UNCERTAINTY).is_some()
            && figure(metric::DELAY_VARIATION_P50) == Some(0.0)
    );
}

#[test]
fn a_clock_not_read_after_the_trial_is_known_less_well_and_one_never_read_not_at_all() {
    let early = judged(frames(DELAY, three()[..1].to_vec()));
    let doubt = value(&early, 0, metric::CLOCK_UNCERTAINTY, Sum).expect("two clocks");
    assert!(doubt > 200e-6, "50 ppm over the trial: {doubt}");
    assert_eq!(value(&early, 0, metric::SERVICE_TIME_P50, Sum), None);
    let never = judged(frames(DELAY, Vec::new()));
    assert_eq!(value(&never, 0, metric::CLOCK_UNCERTAINTY, Sum), Some(f64::INFINITY));
    assert_eq!(value(&never, 0, metric::SERVICE_TIME_P50, Sum), None);
}

#[test]
fn the_time_from_a_request_to_its_response_passes_on_one_clock_and_is_left_alone() {
    let mut run = frames(DELAY, three());
    let (active, passive) = &mut run.jobs[0];
    for interval in active.intervals.iter_mut().chain(&mut passive.intervals) {
        interval.counters[Counter::Transactions] = 1_000;
        interval.variation = Rare::default();
    }
    let recorded = run.jobs[0].1.intervals[2].service.buckets[0].0;
    let found = judged(run);
    assert_eq!(value(&found, 0, metric::CLOCK_UNCERTAINTY, Sum), None);
    let median = value(&found, 0, metric::SERVICE_TIME_P50, Sum).expect("as recorded");
    assert!((median - recorded as f64 * 1e-9).abs() < 100e-6, "{median} of {recorded}");
}

/// Clocks known to 12 ms, a shorter delay: neither metric, percentile nor distribution is printed,
/// and each has a reason.
#[test]
fn what_the_clocks_cannot_tell_escapes_in_no_form() {
    let found = judged(frames(30_000, three()));
    let job = &found.jobs[0];
    let printed = job.metrics.iter().filter(|metric| {
        metric.metric.name.starts_with("service_time") && metric.estimate.is_some()
    });
    assert_eq!(printed.count(), 0);
    assert!(
        !job.percentiles.contains_key("service") && !job.percentiles.contains_key("response"),
        "{:?}",
        job.percentiles
    );
    assert!(job.service.is_empty() && job.response.is_empty() && job.corrected.is_none());
    let why = job.withheld.iter().find(|one| one.name == "service_time_p50").expect("withheld");
    assert!(matches!(why.why, Refusal::WithinClocks { .. }), "{why:?}");
}

#[test]
fn percentiles_that_are_known_are_as_wide_as_the_clocks_are_unknown() {
    let found = judged(frames(DELAY, three()));
    let job = &found.jobs[0];
    let doubt = value(&found, 0, metric::CLOCK_UNCERTAINTY, Sum).expect("two clocks") * 1e9;
    let median =
        job.percentiles["service"].iter().find(|one| one.quantile == 0.5).expect("a median");
    let (low, high) = (median.low_ns.expect("an end"), median.high_ns.expect("an end"));
    assert!((high - low) as f64 >= 2.0 * doubt, "{low} to {high}, clocks known to {doubt} ns");
}
