//! The flow of a point that is nearest to its ceiling.

use linerate_model::{BoundClass, Ceiling, Direction, metric};

use super::{flows, may_be_judged};
use crate::diagnosis::Evidence;
use crate::{JobStudy, PointStudy};

/// Flow at its ceiling, with the evidence and the ceiling.
pub(super) type AtCeiling<'a> = (&'a JobStudy, Direction, Evidence, &'a Ceiling);

/// Returns the flow of `point` whose goodput is nearest to its lowest ceiling and at least `share`
/// of it, if a wanted class sets that ceiling; of equals the first.
pub(super) fn at_ceiling(
    point: &PointStudy,
    share: f64,
    wanted: impl Fn(BoundClass) -> bool,
) -> Option<AtCeiling<'_>> {
    nearest(point, share, |_, _| true).filter(|(.., ceiling)| wanted(ceiling.class()))
}

/// Returns the flow whose goodput is nearest to its lowest ceiling, of those that are `asked`.
pub(super) fn nearest(
    point: &PointStudy,
    share: f64,
    asked: impl Fn(&JobStudy, Direction) -> bool,
) -> Option<AtCeiling<'_>> {
    let asked = flows(point).filter(|(job, direction)| asked(job, *direction));
    let limited = asked.filter_map(|(job, direction)| {
        let metric = job.metric(metric::GOODPUT, direction)?;
        let reached = metric.share.filter(|reached| *reached >= share)?;
        let ceiling = point.ceilings.get(metric.ceiling?)?;
        Some((job, direction, metric.estimate?.value, reached, ceiling))
    });
    // A job can come near to the ceiling of its own link while a part that all jobs share is full
    // and limits it. Then the sum of all is nearer to its ceiling.
    let nearest = limited.reduce(|best, other| if other.3 > best.3 { other } else { best });
    let (job, direction, goodput, share, ceiling) = nearest.filter(|_| may_be_judged(point))?;
    let evidence = Evidence::OfCeiling { goodput, share, ceiling: Box::new(ceiling.clone()) };
    Some((job, direction, evidence, ceiling))
}
