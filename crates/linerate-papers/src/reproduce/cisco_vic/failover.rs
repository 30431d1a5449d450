//! The shapes V3.7: failover from one fabric to the other, which the paper configures (S3.6) and
//! does not test.
//!
//! Frames depart evenly, so the frames lost in a row give the length of an outage, and so do the
//! departures of the frames before and after them. The first needs the rate, the second the clock
//! of the sender.

use linerate_analysis::{PointStudy, Study};
use linerate_model::{Direction, Metric, PacketRate, metric};

use super::{coordinate, one_way, sweep, whole};
use crate::reproduce::{Shape, judged};

/// Pairs of the lab `cisco-failover`.
const NOTICED: &str = "a1 b1";
const UNNOTICED: &str = "a2 b2";
const WITHOUT: &str = "a3 b3";
/// Time until the failure of the second pair is noticed, s.
const DETECTION: f64 = 0.05;
/// Resolution of an outage, s.
const RESOLUTION: f64 = 0.001;

/// Returns all shapes.
pub(super) fn all(study: &Study) -> Vec<Shape> {
    vec![noticed(study), unnoticed(study), two_ways(study)]
}

/// Returns the point of a pair.
fn point<'a>(study: &'a Study, pair: &str) -> Option<&'a PointStudy> {
    let pairs = |point: &&PointStudy| {
        coordinate(&point.parameters, "pairs").is_some_and(|pairs| pairs.contains(pair))
    };
    sweep(study, "failover").find(pairs)
}

/// Returns the median outage of a pair, s, and the frames that it cost.
fn outage(study: &Study, pair: &str) -> Option<(f64, f64)> {
    let point = point(study, pair)?;
    Some((one_way(point, metric::OUTAGE)?.value, one_way(point, metric::OUTAGE_LOST)?.value))
}

fn noticed(study: &Study) -> Shape {
    /// Share of the outage without failover that is left. A tester without a CPU for some
    /// milliseconds must not count as one.
    const LEFT: f64 = 0.01;
    let claim = "V3.7: failover of a fabric whose carrier goes: the outage is at most a hundredth \
        of that without failover (the paper configures it and does not test it)";
    let found = outage(study, NOTICED).zip(outage(study, WITHOUT));
    let found = found.map(|((with, lost), (without, all))| {
        let measured = format!(
            "{:.1} ms and {lost:.0} frames; without failover {:.1} ms and {all:.0} frames",
            with * 1e3,
            without * 1e3
        );
        (measured, without > 0.0 && with <= LEFT * without)
    });
    judged("V3.7a", claim, found, "a pair has no outage")
}

fn unnoticed(study: &Study) -> Shape {
    let claim = "V3.7: failover of a fabric that loses frames for 50 ms before its carrier goes: \
        the outage lasts at least as long, and at most half as long as without failover";
    let found = outage(study, UNNOTICED).zip(outage(study, WITHOUT));
    let found = found.map(|((with, lost), (without, _))| {
        let measured = format!("{:.1} ms and {lost:.0} frames", with * 1e3);
        (measured, with >= DETECTION - RESOLUTION && with <= without / 2.0)
    });
    judged("V3.7b", claim, found, "a pair has no outage")
}

/// Compares the length of each outage by the departures around it with that by the frames lost.
fn two_ways(study: &Study) -> Shape {
    let claim = "V3.7 (hard): in every trial the frames lost in a row, over their rate, are the \
        time between the departures around them, within 1 ms";
    let offs: Option<Vec<f64>> =
        [NOTICED, UNNOTICED, WITHOUT].into_iter().map(|pair| worst(point(study, pair)?)).collect();
    let found = offs.map(|offs| {
        let worst = offs.into_iter().fold(0.0, f64::max);
        (format!("worst trial {:.2} ms off", worst * 1e3), worst <= RESOLUTION)
    });
    judged("V3.7c", claim, found, "a pair has no outage")
}

/// Returns the largest difference of the two lengths over the trials of `point`, s; `None` if no
/// trial has both.
fn worst(point: &PointStudy) -> Option<f64> {
    let job = whole(point)?;
    let rate: PacketRate = job.params.0.get("rate")?.as_str()?.parse().ok()?;
    let values = |metric: &Metric| Some(&job.metric(metric, Direction::Tx)?.values);
    let both = values(metric::OUTAGE)?.iter().zip(values(metric::OUTAGE_LOST)?);
    let offs = both.filter_map(|(length, lost)| Some(((*length)? - (*lost)? / rate.0).abs()));
    offs.reduce(f64::max)
}
