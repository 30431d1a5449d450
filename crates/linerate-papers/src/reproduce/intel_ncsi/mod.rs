//! Intel, NC-SI Overview and Performance (2013), items S1.1 to S1.14, shapes V1.1 to V1.14 of
//! docs/methodology/papers.md#shapes.
//!
//! Console a is a sender of today, console b one of the paper's time. *Default* is a management
//! controller with the windows of its kernel, *tuned* one with the paper's `tcp_rmem` and
//! `tcp_wmem`. Figures are Mbit/s of L4 payload, counted where they are delivered; "net2bmc" is
//! from a console to a management controller. Not reproduced: Windows itself.

mod causes;
mod shapes;
mod tables;

#[cfg(test)]
pub(super) use shapes::replayed;

use linerate_model::{Direction, Metric, TestbedKind, metric};

use super::{Comparison, Reproduction, sweep, whole};
use linerate_analysis::{PointStudy, Study};

/// Campaigns of the reproduction.
#[derive(Clone, Copy, Debug)]
pub struct IntelStudies<'a> {
    /// `intel-tables` with default windows.
    pub default: &'a Study,
    /// The same with the paper's.
    pub tuned: &'a Study,
    /// `intel-causes` with default windows.
    pub causes: &'a Study,
    /// The same with the paper's.
    pub causes_tuned: &'a Study,
    /// `intel-link-speed` with a port as fast as the sideband.
    pub slow_port: &'a Study,
    /// The same with one ten times as fast.
    pub fast_port: &'a Study,
    /// The same with one a hundred times as fast.
    pub faster_port: &'a Study,
    /// `intel-cpu`.
    pub cpu: &'a Study,
    /// `fire-hose`.
    pub hose: &'a Study,
}

/// Rate of the sideband, bit/s.
const SIDEBAND: f64 = 1e8;
/// Difference of two figures of few runs that counts as none: the paper's own noise, 5 of 70
/// Mbit/s.
const NOISE: f64 = 0.07;

/// Judges the shapes of the Intel paper.
pub fn intel_ncsi(studies: &IntelStudies<'_>) -> Reproduction {
    let mut tables = tables::raw(studies.default, studies.tuned);
    tables.push(tables::before_and_after(studies.default, studies.tuned));
    tables.push(causes::rows(studies.causes, studies.causes_tuned));
    tables.push(causes::both_ways(studies.default, studies.tuned));
    tables.extend(worse(studies));
    Reproduction {
        place: TestbedKind::Lab,
        campaigns: Vec::new(),
        paper: "Intel, NC-SI overview and performance (2013)".into(),
        tables,
        figures: tables::figures(studies.default, studies.tuned),
        shapes: shapes::all(studies),
    }
}

/// Returns the only point of sweep `name`.
fn only<'a>(study: &'a Study, name: &'a str) -> Option<&'a PointStudy> {
    sweep(study, name).next()
}

/// Returns the figure of `metric` of the measured job of sweep `name`.
fn value(study: &Study, name: &str, metric: &'static Metric, direction: Direction) -> Option<f64> {
    Some(whole(only(study, name)?)?.metric(metric, direction)?.estimate?.value)
}

/// Returns the goodput in one direction of one cell of the tables, bit/s.
fn cell(study: &Study, console: &str, bmc: &str, mode: &str, way: DataDirection) -> Option<f64> {
    value(
        study,
        &format!("{console} {bmc} {mode} {}", way.word()),
        metric::GOODPUT,
        way.direction(),
    )
}

/// Returns the course of goodput in one direction of sweep `name`, if it has no single number.
fn unsettled(study: &Study, name: &str, way: DataDirection) -> Option<String> {
    let settled =
        whole(only(study, name)?)?.metric(metric::GOODPUT, way.direction())?.settled.as_ref()?;
    // A series without a steady rate has no average to compare with the paper.
    (!settled.has_single_number).then(|| settled.word.clone())
}

/// Direction of data.
#[derive(Clone, Copy, PartialEq, Eq)]
enum DataDirection {
    ToBmc,
    ToNetwork,
}

impl DataDirection {
    const BOTH: [Self; 2] = [Self::ToBmc, Self::ToNetwork];

    const fn word(self) -> &'static str {
        match self {
            Self::ToBmc => "net2bmc",
            Self::ToNetwork => "bmc2net",
        }
    }

    /// Returns the direction seen from the console, which is the active end.
    const fn direction(self) -> Direction {
        match self {
            Self::ToBmc => Direction::Tx,
            Self::ToNetwork => Direction::Rx,
        }
    }
}

/// Returns everything that the small windows made worse by more than the noise.
fn worse(studies: &IntelStudies<'_>) -> Option<Comparison> {
    let mut rows = tables::worse(studies.default, studies.tuned);
    rows.extend(causes::worse(studies.causes, studies.causes_tuned));
    let title = "What the small windows made worse (the paper does not say that its cure cost up \
        to 50 % of BMC to network)";
    (!rows.is_empty()).then(|| Comparison::new(title, ["what", "default", "tuned", "change"], rows))
}

/// Returns a row of a table of changes.
fn change(what: String, before: f64, after: f64) -> Vec<String> {
    vec![
        what,
        super::mbit(before),
        super::mbit(after),
        format!("{:+.1} %", (after / before - 1.0) * 100.0),
    ]
}

/// Returns whether `after` is worse than `before` by more than the noise.
fn is_worse(before: f64, after: f64) -> bool {
    // Changes within the paper's own noise are not reported as losses.
    after < before * (1.0 - NOISE)
}
