//! Figures of a campaign by their places in its plan. A figure has the same place in every campaign
//! of a plan, so that its course over campaigns can be followed (`statistics::levels`).

use linerate_model::{Direction, Estimate, Metric, Point, Validity};

use crate::study::{PointStudy, Study};

/// Place of a figure in a plan.
#[derive(Clone, Debug, PartialEq)]
pub struct FigurePlace {
    /// Sweep.
    pub sweep: String,
    /// Coordinate in the sweep.
    pub parameters: Point,
    /// Number of the job.
    pub job: usize,
    /// Workload of the job.
    pub workload: String,
    /// Active and passive end of the job; empty for a sum of jobs.
    pub ends: [String; 2],
    /// Metric.
    pub metric: &'static Metric,
    /// Direction.
    pub direction: Direction,
}

/// Figure of one campaign.
#[derive(Clone, Debug, PartialEq)]
pub struct PlacedFigure {
    /// Place in the plan.
    pub place: FigurePlace,
    /// Median over the runs, with its interval.
    pub estimate: Estimate,
    /// Validity of the point.
    pub validity: Validity,
}

/// Returns the figures of a campaign of which more or less is better, in the order of its plan.
#[must_use]
pub fn figures(study: &Study) -> Vec<PlacedFigure> {
    study.points.iter().flat_map(of_point).collect()
}

fn of_point(point: &PointStudy) -> impl Iterator<Item = PlacedFigure> + '_ {
    // Background jobs are conditions of the measurement, not results.
    let jobs = point.jobs.iter().enumerate().filter(|(_, job)| !job.background);
    jobs.flat_map(move |(number, job)| {
        let judged = job.metrics.iter().filter(|one| one.metric.higher_is_better.is_some());
        judged.filter_map(move |one| {
            Some(PlacedFigure {
                place: FigurePlace {
                    sweep: point.sweep.clone(),
                    parameters: point.parameters.clone(),
                    job: number,
                    workload: job.workload.clone(),
                    ends: [job.from.clone(), job.to.clone()],
                    metric: one.metric,
                    direction: one.direction,
                },
                estimate: one.estimate?,
                validity: point.validity,
            })
        })
    })
}
