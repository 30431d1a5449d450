//! A disk's figures from counts made by hand: each direction by itself, Iometer's host figures,
//! Little's law, the device's own counts, and whether the state was steady.

use linerate_analysis::{Given, Reason, Steady, SteadyOf, study};
use linerate_model::Direction::{Rx, Sum, Tx};
use linerate_model::{
    Counter, Distribution, FlowReport, Interval, Nanos, TrialRecord, Validity, metric,
};

use crate::fixture::{has, job, judged, near, only, samples, steady, trial, two_hosts, value};

const BLOCK: u64 = 4096;
/// 3000 reads of 1 ms and 1000 writes of 2 ms a second: by Little's law 3 + 2 are under way.
const READS: u64 = 3_000;
const WRITES: u64 = 1_000;
const UNDER_WAY_NS: u64 = 5_000_000_000;

fn disk() -> TrialRecord {
    let mut disk = trial(0, vec![job("storage", "a", "b")]);
    let mut active = steady(&[
        (Counter::Steps, READS + WRITES),
        (Counter::Reads, READS),
        (Counter::BytesRead, READS * BLOCK),
        (Counter::Writes, WRITES),
        (Counter::BytesWritten, WRITES * BLOCK),
        (Counter::OutstandingTime, UNDER_WAY_NS),
    ]);
    for interval in &mut active.intervals {
        interval.service = Distribution::of(vec![(1_000_000, READS)]).into();
        interval.writes = Distribution::of(vec![(2_000_000, WRITES)]).into();
    }
    let modes = [("device", "vda"), ("cache", "direct")]
        .map(|(name, mode)| (name.to_owned(), mode.to_owned()));
    active.flows = vec![FlowReport { modes: modes.into(), ..FlowReport::default() }];
    disk.jobs[0] = (active, steady(&[]));
    disk.samples = vec![(
        "left".into(),
        samples(&[
            ("disk", "bytes_read", "vda", (READS * BLOCK) as f64),
            ("disk", "bytes_written", "vda", (WRITES * BLOCK) as f64),
            ("cpu", "user", "cpu0", 0.1e9),
            ("cpu", "system", "cpu0", 0.2e9),
            ("cpu", "softirq", "cpu0", 0.1e9),
            ("cpu", "idle", "cpu0", 0.6e9),
            ("interface", "rx_packets", "eth0", 70.0),
            ("interface", "tx_packets", "eth0", 30.0),
            ("interface", "rx_packets", "lo", 1e6),
            ("tcp_extension", "retrans_segs", "", 3.0),
        ]),
    )];
    disk
}

#[test]
fn each_direction_has_its_own_rates_and_times_and_both_add_up() {
    let point = &judged(disk());
    let figure = |name, direction| value(point, 0, name, direction);
    for (direction, rate) in [(Rx, 3_000.0), (Tx, 1_000.0), (Sum, 4_000.0)] {
        near(figure(metric::IOPS, direction), rate);
        near(figure(metric::TRANSFER_RATE, direction), rate * 4096.0);
        near(figure(metric::TRANSFER_RATE_BINARY, direction), rate * 4096.0);
    }
    for (direction, mean, largest) in [(Rx, 1e-3, 1e-3), (Tx, 2e-3, 2e-3), (Sum, 1.25e-3, 2e-3)] {
        near(figure(metric::SERVICE_TIME_MEAN, direction), mean);
        near(figure(metric::SERVICE_TIME_MAX, direction), largest);
    }
    near(figure(metric::ACHIEVED_DEPTH, Sum), 5.0);
    near(figure(metric::DEPTH_ERROR, Sum), 0.0);
    assert_eq!(
        (figure(metric::TRANSFER_ERRORS, Rx), figure(metric::TRANSFER_ERRORS, Tx)),
        (Some(0.0), Some(0.0))
    );
    assert_eq!((point.validity, &point.why), (Validity::Valid, &Vec::new()));
    assert_eq!(
        (point.jobs[0].reads.count(), point.jobs[0].writes.count()),
        (4 * READS, 4 * WRITES)
    );
}

#[test]
fn the_host_is_told_as_iometer_told_it() {
    let point = judged(disk());
    let figure = |name| value(&point, 0, name, Sum);
    for (name, share) in [
        ("host_cpu", 0.4),
        ("host_cpu_user", 0.1),
        ("host_cpu_privileged", 0.3),
        ("host_cpu_softirq", 0.1),
    ] {
        near(figure(linerate_model::Metric::named(name).expect(name)), share);
    }
    near(figure(metric::CPU_EFFECTIVENESS), 4_000.0 / 40.0);
    // Without the loopback.
    near(figure(metric::HOST_PACKETS), 100.0);
    near(figure(metric::HOST_RETRANSMITS), 3.0);
}

#[test]
fn what_the_device_counted_otherwise_is_marked() {
    for (read, is_less) in [(0.5, true), (1.5, false)] {
        let mut disk = disk();
        disk.samples = vec![(
            "left".into(),
            samples(&[
                ("disk", "bytes_read", "vda", (READS * BLOCK) as f64 * read),
                ("disk", "bytes_written", "vda", (WRITES * BLOCK) as f64),
            ]),
        )];
        let point = &judged(disk);
        assert_eq!(point.validity, Validity::Suspect);
        assert!(has(&point.why, |why| reads_differ(why, is_less)), "{:?}", point.why);
    }
}

#[test]
fn a_depth_that_rate_and_time_do_not_make_is_marked() {
    let mut disk = disk();
    for interval in &mut disk.jobs[0].0.intervals {
        interval.counters[Counter::OutstandingTime] = 2 * UNDER_WAY_NS;
    }
    let point = &judged(disk);
    near(value(point, 0, metric::DEPTH_ERROR, Sum), 0.5);
    assert_eq!(point.validity, Validity::Suspect);
    assert!(
        has(&point.why, |why| matches!(why, Reason::DepthError { depth, error, .. }
            if (depth - 10.0).abs() < 5e-3 && (error - 0.5).abs() < 5e-4)),
        "{:?}",
        point.why
    );
}

#[test]
fn every_row_says_whether_the_state_was_steady() {
    let still = study(&two_hosts(vec![disk()]));
    near(value(only(&still), 0, metric::STEADY_TREND, Sum), 0.0);
    let attained = |study: &linerate_analysis::Study| {
        match only(study).jobs[0].obtained["steady_state"].from[..] {
            [Given::Steady(Steady { of: SteadyOf::Trials { attained, of: 1 }, .. })] => attained,
            _ => panic!("one trial is judged"),
        }
    };
    assert_eq!(attained(&still), 1);

    let mut falling = disk();
    for (second, interval) in falling.jobs[0].0.intervals.iter_mut().enumerate() {
        interval.counters[Counter::Reads] = READS - 500 * second as u64;
    }
    let falling = study(&two_hosts(vec![falling]));
    assert!(value(only(&falling), 0, metric::STEADY_TREND, Sum).expect("a trend") > 0.10);
    assert_eq!(attained(&falling), 0);
}

#[test]
fn a_transfer_that_outlasts_the_measurement_is_marked_if_none_that_is_counted_took_as_long() {
    let with_last = |longest_ms: u64, counted_ms: u64| {
        let mut disk = disk();
        let active = &mut disk.jobs[0].0;
        active.intervals[0].service.buckets.push((counted_ms * 1_000_000, 1));
        let end = active.intervals.last().expect("some").end;
        let service = Distribution::of(vec![(longest_ms * 1_000_000, 1)]).into();
        active.intervals.push(Interval {
            start: end,
            end: end + Nanos::from_secs(2),
            service,
            ..Interval::default()
        });
        let point = judged(disk);
        point.why.clone()
    };
    assert!(
        has(&with_last(2_400, 900), |why| is_of_seconds(why, 2.4)),
        "{:?}",
        with_last(2_400, 900)
    );
    // Begun after the end; and no longer than an interval.
    let is_long = |why: &Reason| matches!(why, Reason::LongTransfer { .. });
    assert!(!has(&with_last(1_900, 900), is_long));
    assert!(!has(&with_last(900, 2), is_long));
}

#[test]
fn transfers_are_counted_whole_worker_by_worker() {
    let mut two = disk();
    let mut second = two.jobs[0].0.intervals.clone();
    for interval in &mut second {
        interval.worker = 1;
        interval.counters[Counter::ReadErrors] = 1;
    }
    two.jobs[0].0.intervals.extend(second);
    let point = judged(two);
    let counts = &point.jobs[0].transfers;
    assert_eq!(counts.iter().map(|one| one.worker).collect::<Vec<_>>(), [0, 1]);
    for (one, errors) in counts.iter().zip([0, 4]) {
        assert_eq!(
            (one.reads, one.writes, one.timed),
            (4 * READS, 4 * WRITES, 4 * (READS + WRITES))
        );
        assert_eq!((one.bytes_read, one.bytes_written), (4 * READS * BLOCK, 4 * WRITES * BLOCK));
        assert_eq!(
            (one.read_errors, one.read_max_ns, one.write_max_ns),
            (errors, 1_000_000, 2_000_000)
        );
        near(Some(one.seconds), 4.0);
    }
}

#[test]
fn flushes_and_discards_have_rates_and_times_of_their_own_and_are_no_transfers() {
    let mut durable = disk();
    for interval in &mut durable.jobs[0].0.intervals {
        interval.counters[Counter::Flushes] = 100;
        interval.counters[Counter::Trims] = 50;
        interval.counters[Counter::BytesTrimmed] = 50 * BLOCK;
        // A tenth of a second of flushes and as much of discards in each second.
        interval.counters[Counter::OutstandingTime] += 200_000_000;
        interval.flushes = Distribution::of(vec![(500_000, 50), (1_500_000, 50)]).into();
        interval.trims = Distribution::of(vec![(2_000_000, 50)]).into();
    }
    let point = &judged(durable);
    let figure = |name| value(point, 0, name, Sum);
    for (name, expected) in [
        ("iops", 4_000.0),
        ("flush_rate", 100.0),
        ("flush_time_mean", 1e-3),
        ("flush_time_p50", 0.5e-3),
        ("flush_time_max", 1.5e-3),
        ("trim_rate", 50.0),
        ("trim_bytes", 50.0 * 4096.0),
        ("trim_time_p50", 2e-3),
        ("achieved_depth", 5.2),
    ] {
        near(figure(linerate_model::Metric::named(name).expect(name)), expected);
    }
    // Little's law holds with them: without them it would be 4 % off.
    assert!(figure(metric::DEPTH_ERROR).expect("known") < 1e-9);
    assert_eq!(
        (point.jobs[0].flushes.count(), point.jobs[0].service.count()),
        (400, 4 * (READS + WRITES))
    );
}

/// Returns true if `why` is a disk that read half of the load's bytes, or half as many more.
fn reads_differ(why: &Reason, is_less: bool) -> bool {
    match why {
        Reason::DiskLess { direction: Rx, share, .. } => is_less && (share - 0.5).abs() < 1e-3,
        Reason::DiskMore { direction: Rx, share, .. } => !is_less && (share - 0.5).abs() < 1e-3,
        _ => false,
    }
}

/// Returns true if `why` is a transfer at the end that took `expected` seconds.
fn is_of_seconds(why: &Reason, expected: f64) -> bool {
    matches!(why, Reason::LongTransfer { seconds, .. } if (seconds - expected).abs() < 0.005)
}
