//! A paper's tests, run again on an emulated testbed, and the comparison of their shapes.
//!
//! Absolute figures of an emulation do not predict those of the paper's machine and are not
//! compared. Shapes are: orders, ratios and bounds that follow from the paper's arithmetic
//! (docs/methodology/papers.md#shapes). A shape without enough measurements is *not judged*, never
//! passed.

mod cisco_vic;
mod hp_ftp;
mod idt_pcie;
mod idt_storage;
mod intel_ncsi;
mod sun_netframe;

pub use cisco_vic::{CiscoStudies, cisco_settings, cisco_vic};
pub use hp_ftp::hp_ftp;
pub use idt_pcie::idt_pcie;
pub use idt_storage::with_storage;
pub use intel_ncsi::{IntelStudies, intel_ncsi};
pub use sun_netframe::sun_netframe;

use linerate_model::{Direction, Estimate, Metric, Point};
use serde::{Deserialize, Serialize};

use linerate_analysis::{JobStudy, PointStudy, Study};

/// A reproduction of one paper.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Reproduction {
    /// The paper.
    pub paper: String,
    /// Its tables beside ours.
    pub tables: Vec<Comparison>,
    /// Its shapes.
    pub shapes: Vec<Shape>,
}

impl Reproduction {
    /// Returns whether no judged shape failed.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.shapes.iter().all(|shape| shape.holds != Some(false))
    }
}

/// One shape.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Shape {
    /// Its number in docs/methodology/papers.md#shapes.
    pub id: String,
    /// The claim.
    pub claim: String,
    /// The measurement, with figures.
    pub measured: String,
    /// True if the claim holds; `None` if it could not be judged.
    pub holds: Option<bool>,
}

/// A table of the paper with our figures beside it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// Name of the table.
    pub title: String,
    /// Column heads.
    pub head: Vec<String>,
    /// Rows of cells.
    pub rows: Vec<Vec<String>>,
}

impl Comparison {
    fn new<const N: usize>(
        title: impl Into<String>,
        head: [&str; N],
        rows: Vec<Vec<String>>,
    ) -> Self {
        Self { title: title.into(), head: head.map(str::to_owned).to_vec(), rows }
    }
}

fn shape(
    id: &str,
    claim: impl Into<String>,
    measured: impl Into<String>,
    holds: Option<bool>,
) -> Shape {
    Shape { id: id.into(), claim: claim.into(), measured: measured.into(), holds }
}

/// Returns the shape of what was `found`: the measurement and whether the claim holds. Without it,
/// the shape is not judged, for the reason `why`.
fn judged(id: &str, claim: impl Into<String>, found: Option<(String, bool)>, why: &str) -> Shape {
    let (measured, holds) = found.unzip();
    shape(id, claim, measured.unwrap_or_else(|| format!("not judged: {why}")), holds)
}

fn not_judged(id: &str, claim: &str, why: &str) -> Shape {
    shape(id, claim, format!("not judged: {why}"), None)
}

/// Returns the points of one sweep.
fn sweep<'a>(study: &'a Study, name: &'a str) -> impl Iterator<Item = &'a PointStudy> {
    study.points.iter().filter(move |point| point.sweep == name)
}

/// Returns the job that represents the point: all of them together, if there are several.
fn whole(point: &PointStudy) -> Option<&JobStudy> {
    let measured = || point.jobs.iter().filter(|job| !job.background);
    measured().find(|job| job.workload == "all").or_else(|| measured().next())
}

/// Returns the figure of `metric` at a point, in the widest direction.
fn figure(point: &PointStudy, metric: &'static Metric) -> Option<Estimate> {
    let job = whole(point)?;
    [Direction::Sum, Direction::Tx, Direction::Rx]
        .into_iter()
        .find_map(|direction| job.metric(metric, direction)?.estimate)
}

/// Returns the figure of `metric` in one direction.
fn one_way(point: &PointStudy, metric: &'static Metric) -> Option<Estimate> {
    whole(point)?.metric(metric, Direction::Tx)?.estimate
}

/// Returns the coordinate `axis` of `point` as text, without quotes.
fn coordinate(point: &Point, axis: &str) -> Option<String> {
    point.get(axis).map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned))
}

/// Returns `value` in Mbit/s with three digits.
fn mbit(value: f64) -> String {
    const MEGABIT: f64 = 1e6;
    let value = value / MEGABIT;
    let decimals = if value >= 100.0 {
        0
    } else if value >= 10.0 {
        1
    } else {
        2
    };
    format!("{value:.decimals$}")
}
