//! A paper's tests, run again on an emulated testbed, and the comparison of their shapes.
//!
//! Absolute figures of an emulation do not predict those of the paper's machine and are not
//! compared. Shapes are: orders, ratios and bounds that follow from the paper's arithmetic
//! (docs/methodology/papers.md#shapes). A shape without enough measurements is *not judged*, never
//! passed.

mod catalogue;
mod cisco_vic;
#[cfg(test)]
mod fixtures;
mod hp_ftp;
mod idt_pcie;
mod idt_storage;
mod intel_ncsi;
mod sun_netframe;

pub use catalogue::{Definition, Evidence, SHAPES};
pub use cisco_vic::{CiscoStudies, cisco_settings, cisco_vic};
pub use hp_ftp::hp_ftp;
pub use idt_pcie::idt_pcie;
pub use idt_storage::with_storage;
pub use intel_ncsi::{IntelStudies, intel_ncsi};
pub use sun_netframe::{SunStudies, sun_netframe};

use linerate_model::{Direction, Estimate, Metric, Point, TestbedKind, Validity};
use serde::{Deserialize, Serialize};

use linerate_analysis::{JobStudy, PointStudy, Study};

/// A reproduction of one paper.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[must_use]
pub struct Reproduction {
    /// The paper.
    pub paper: String,
    /// Kind of the paths it was measured on.
    #[serde(default)]
    pub place: TestbedKind,
    /// Its tables beside ours.
    pub tables: Vec<Comparison>,
    /// Its figures with our points over the paper's.
    #[serde(default)]
    pub figures: Vec<Figure>,
    /// Its shapes.
    pub shapes: Vec<Shape>,
    /// Its campaigns: name, and the command that repeats one alone.
    #[serde(default)]
    pub campaigns: Vec<(String, String)>,
}

impl Reproduction {
    /// Returns whether no judged shape failed.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.shapes.iter().all(|shape| shape.holds != Some(false))
    }

    /// Marks the shapes as measured on real hosts: no lab set what they are compared with.
    pub(crate) fn mark_as_real(&mut self) {
        for shape in &mut self.shapes {
            if shape.evidence != Evidence::Computed {
                shape.evidence = Evidence::Measured;
            }
        }
    }

    /// Adds to each shape the trials behind it, from the studies of the campaigns.
    pub(crate) fn count_trials(&mut self, studies: &[(&str, &Study)], quick: bool) {
        for shape in &mut self.shapes {
            shape.trials = Trials::of(&shape.id, studies, quick);
        }
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
    /// The evidence behind it.
    #[serde(default)]
    pub evidence: Evidence,
    /// The trials behind it.
    #[serde(default)]
    pub trials: Trials,
    /// The campaigns that they belong to.
    #[serde(default)]
    pub campaigns: Vec<String>,
}

/// Trials behind a shape.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trials {
    /// Their number.
    pub all: usize,
    /// Those that something disturbed; their figures are in the shape.
    pub suspect: usize,
    /// Those without figures: invalid or impossible.
    pub refused: usize,
    /// True if `--quick` shortened them.
    pub quick: bool,
}

impl Trials {
    /// Returns the counts of the trials that the shape `id` is judged by, from `studies` by
    /// campaign.
    fn of(id: &str, studies: &[(&str, &Study)], quick: bool) -> Self {
        let sources = catalogue::definition(id).map_or(&[][..], |shape| shape.sources);
        let mut counts = Self { quick: quick && !sources.is_empty(), ..Self::default() };
        for (campaign, name) in sources {
            let study = studies.iter().filter(|(known, _)| known == campaign);
            let points = study.flat_map(|(_, study)| &study.points);
            for trial in points.filter(|p| p.sweep.starts_with(name)).flat_map(|p| &p.trials) {
                counts.all += 1;
                match trial.validity {
                    Validity::Valid => {}
                    Validity::Suspect => counts.suspect += 1,
                    Validity::Invalid | Validity::Impossible => counts.refused += 1,
                }
            }
        }
        counts
    }
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

/// A figure of the paper with ours over it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// Its subject, with the paper's number of it.
    pub title: String,
    /// The difference between the paper and us that a reader must know, and the shapes that are
    /// judged from it.
    pub note: String,
    /// Its form.
    pub form: FigureForm,
    /// Names of the horizontal and the vertical axis.
    pub axes: [String; 2],
    /// Places on the horizontal axis.
    pub places: Vec<String>,
    /// Curves or sets of bars: name, and one value for each place; `None` is a gap.
    pub series: Vec<(String, Vec<Option<f64>>)>,
}

/// Form of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FigureForm {
    /// Lines over places that are numbers.
    Lines,
    /// Bars side by side.
    Bars,
}

fn shape(
    id: &str,
    claim: impl Into<String>,
    measured: impl Into<String>,
    holds: Option<bool>,
) -> Shape {
    // A shape without an entry would have no kind of evidence and no test in which it misses.
    let known = catalogue::definition(id).unwrap_or_else(|| panic!("{id} is not in the catalogue"));
    Shape {
        id: id.into(),
        claim: claim.into(),
        measured: measured.into(),
        holds,
        evidence: known.evidence,
        trials: Trials::default(),
        campaigns: known.campaigns(),
    }
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
