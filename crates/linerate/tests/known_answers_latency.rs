//! Known answers of latency: devices whose delay is known to the nanosecond, found by `frames` end
//! to end.
//!
//! The emulated device decides in the kernel's time of arrival and lets a frame go when its thread
//! wakes, never before: what is measured is the known delay and what waking adds: no time is
//! shorter than the known one. How much longer it is depends on what else runs, and is printed.

use linerate_analysis::PointStudy;
use linerate_model::{Direction, Estimate, Metric, Validity, metric};

use crate::common::{Measured, file, measure_in, privileged_folder, skip, turn};

/// Bytes of a full frame on the wire: with preamble, start of frame and gap (IEEE 802.3 clause 4).
const ON_THE_WIRE: f64 = 1518.0 + 20.0;
/// Rate of the devices' ports, bit/s.
const PORT: f64 = 10e6;
/// How long a full frame takes at it, s.
const SERIALISED: f64 = ON_THE_WIRE * 8.0 / PORT;

fn estimate(point: &PointStudy, metric: &'static Metric) -> Estimate {
    let found = point.jobs[0].metric(metric, Direction::Sum).and_then(|metric| metric.estimate);
    found.unwrap_or_else(|| panic!("{} has no {metric}: {:?}", point.sweep, point.why))
}

fn point<'a>(measured: &'a Measured, sweep: &str) -> &'a PointStudy {
    measured.study.points.iter().find(|point| point.sweep == sweep).expect("it was planned")
}

/// RFC 1242 3.8: a device that stores and forwards has a frame whole before it sends the first bit;
/// one that cuts through does not wait. Nothing else differs, so that their latencies differ by one
/// serialisation.
#[test]
fn storing_and_forwarding_costs_one_serialisation_at_least() {
    let Some(folder) = privileged_folder() else { return };
    const DELAY: f64 = 0.5e-3;
    let _turn = turn();
    let element = |name: &str, forwarding: &str| {
        format!(
            "[[element]]\nname = '{name}'\nends = ['a.a{name}', 'b.b{name}']\nport_rate = '10 \
                Mbit/s'\n\
             forwarding = '{forwarding}'\ndelay = '500 us'\n"
        )
    };
    let lab = format!(
        "[lab]\nname = 'forwarding'\n[[host]]\nname = 'a'\n[[host]]\nname = 'b'\n{}{}",
        element("store", "store-and-forward"),
        element("cut", "cut-through")
    );
    file(folder.path(), "forwarding.toml", &lab);
    let sweep = |name: &str| {
        format!(
            "[[sweep]]\nname = '{name}'\nduration = '500 ms'\nwarmup = '100 ms'\ndrain = '200 \
                ms'\nrest = '0 s'\n[[sweep.job]]\n\
             workload = 'frames'\nfrom = 'a{name}'\nto = 'b{name}'\nparams = {{ frame_size = '1518 \
             B', rate = '200 pps' }}\n"
        )
    };
    let plan =
        format!("[campaign]\nname = 'forwarding'\nrepeats = 3\n{}{}", sweep("store"), sweep("cut"));
    let Some(measured) = measure_in(folder.path(), &plan, &["--lab", "forwarding.toml"]) else {
        return;
    };
    if measured.refused() {
        return;
    }
    let (store, cut) = (point(&measured, "store"), point(&measured, "cut"));
    for (point, known) in [(store, DELAY + 2.0 * SERIALISED), (cut, DELAY + SERIALISED)] {
        let (least, typical) =
            (estimate(point, metric::SERVICE_TIME_MIN), estimate(point, metric::SERVICE_TIME_P50));
        println!(
            "{}: known {:.1} us, least {:.1}, median {:.1} [{:?}, {:?}] of {} runs, PDV {:?}, IPDV \
                {:.1} {:.1} {:.1} us",
            point.sweep,
            known * 1e6,
            least.value * 1e6,
            typical.value * 1e6,
            typical.low.map(|low| low * 1e6),
            typical.high.map(|high| high * 1e6),
            typical.n,
            point.jobs[0]
                .metric(metric::DELAY_VARIATION, Direction::Sum)
                .and_then(|metric| metric.estimate),
            estimate(point, metric::DELAY_VARIATION_MIN).value * 1e6,
            estimate(point, metric::DELAY_VARIATION_P50).value * 1e6,
            estimate(point, metric::DELAY_VARIATION_MAX).value * 1e6,
        );
        assert!(least.value >= known * 0.999, "{least:?} of {known}");
        assert!(typical.value >= known * 0.999, "{typical:?} of {known}");
        // 120 frames a run: enough for a median, too few for a 99.9th percentile, which is not
        // given.
        assert!(point.jobs[0].metric(metric::SERVICE_TIME_P999, Direction::Sum).is_none());
        assert!(estimate(point, metric::DELAY_VARIATION_MIN).value <= 0.0);
        assert!(estimate(point, metric::DELAY_VARIATION_MAX).value >= 0.0);
    }
    let difference = |metric| estimate(store, metric).value - estimate(cut, metric).value;
    println!(
        "store-and-forward less cut-through: least {:.1}, medians {:.1} us; one serialisation is \
            {:.1} us",
        difference(metric::SERVICE_TIME_MIN) * 1e6,
        difference(metric::SERVICE_TIME_P50) * 1e6,
        SERIALISED * 1e6
    );
}

/// Frames that come at m ports at once leave one after the other at the one they all go to: the
/// last has waited for m - 1.
#[test]
fn the_last_frame_of_a_synchronised_burst_has_waited_for_all_others() {
    let Some(folder) = privileged_folder() else { return };
    const PORTS: usize = 3;
    let _turn = turn();
    let folder = folder.path();
    let run = |senders: usize| {
        let jobs: String = (1..=senders)
            .map(|n| {
                format!(
                    "[[sweep.job]]\nworkload = 'frames'\nfrom = 'a{n}'\nto = 'z'\n\
                     params = {{ frame_size = '1518 B', rate = '50 pps', awake = true, snapshot = \
                     1000 }}\n"
                )
            })
            .collect();
        let plan = format!(
            "[campaign]\nname = 'last'\nrepeats = 1\n[[sweep]]\nname = 'last'\nduration = '700 \
                ms'\nwarmup = '100 ms'\n\
             drain = '300 ms'\nrest = '0 s'\n{jobs}"
        );
        measure_in(folder, &plan, &["--lab", "fan-in"])
    };
    let Some(alone) = run(1) else { return };
    let Some(together) = run(PORTS) else { return };
    if alone.refused() || together.refused() {
        return;
    }
    let point = &together.study.points[0];
    let times = &point.jobs.last().expect("the sum of all jobs").service;
    if times.percentile(1.0 - 0.5 / PORTS as f64).flatten().is_none() {
        assert!(point.validity >= Validity::Suspect, "{} times", times.count());
        return skip(format_args!("stalls left {} times", times.count()));
    }
    let quantile = |quantile: f64| {
        times.percentile(quantile).flatten().expect("enough frames, none lost") as f64 / 1e9
    };
    // Of every burst one frame waits for none, one for one and one for two: the slowest third are
    // the last ones.
    let (first, last) = (times.buckets[0].0 as f64 / 1e9, quantile(1.0 - 0.5 / PORTS as f64));
    let one = estimate(&alone.study.points[0], metric::SERVICE_TIME_P50).value;
    let known = PORTS as f64 * SERIALISED;
    println!(
        "of {PORTS} ports: first {:.0} us, middle {:.0}, last {:.0}; known {:.0} us; one port \
            alone {:.0} us; {} frames",
        first * 1e6,
        quantile(0.5) * 1e6,
        last * 1e6,
        known * 1e6,
        one * 1e6,
        times.count()
    );
    assert!(first >= SERIALISED * 0.999, "{first}");
    // Burst by burst, from its instant: whoever was late, the last of m frames is never sooner than
    // m serialisations.
    let bursts = together.study.points[0].bursts.as_ref().expect("receivers kept them");
    println!(
        "burst by burst: {:?}",
        linerate_analysis::BurstStudy { snapshot: Vec::new(), ..bursts.clone() }
    );
    assert_eq!(bursts.ports, PORTS);
    assert!(bursts.n > 0 && bursts.least > known * 0.999, "{bursts:?}");
}
