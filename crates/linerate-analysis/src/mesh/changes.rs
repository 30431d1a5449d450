//! What differs between two meshes of the same hosts.
//!
//! Each directed pair is compared with itself, so unequal hosts do not disturb. The changes are
//! searched like the suspects of one mesh: the host, side, pair or uplink that explains most of
//! them is taken first. A change of the whole fleet is no host's.

use super::FEWEST;
use super::cells::Measure;
use super::suspects::{Field, Mesh, Sign, Suspect, median_of, search};

/// Changes from one mesh to a later one. A sign has the later figure as seen and the earlier one as
/// usual, medians of the same pairs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Changes {
    /// Changes of the whole fleet that matter.
    pub of_all: Vec<Sign>,
    /// Parts that became worse, that with the strongest evidence first.
    pub worse: Vec<Suspect>,
    /// Parts that became better.
    pub better: Vec<Suspect>,
}

/// Returns the changes from `before` to `after`, which have the same hosts in the same order. The
/// groups are those of `after`. Fewer than [`FEWEST`] hosts have none.
#[must_use]
pub fn changes(before: &Mesh, after: &Mesh) -> Changes {
    if before.n_measured().min(after.n_measured()) < FEWEST {
        return Changes::default();
    }
    let measures = Measure::ALL.iter().copied();
    let of_all = measures.filter_map(|measure| of_all(before, after, measure)).collect();
    let times = [before, after];
    Changes { of_all, worse: worse(times, times), better: worse([after, before], times) }
}

/// Returns the parts that are worse in the second of `two` meshes than in the first, with the
/// figures of both `times`.
fn worse(two: [&Mesh; 2], times: [&Mesh; 2]) -> Vec<Suspect> {
    let fields = Measure::ALL.iter().filter_map(|measure| field(two, *measure));
    search(&times[1].groups, fields.collect(), &|measure, own| sign(times, measure, own))
}

/// Returns the figures of both meshes at these places, of pairs that both have.
fn sign(times: [&Mesh; 2], measure: Measure, own: &[usize]) -> Option<Sign> {
    let n = times[1].groups.len();
    let mut both = both(times, measure)?;
    both.retain(|(from, to, _)| own.contains(&(from * n + to)));
    sign_of(measure, &both)
}

/// Returns the medians of pairs in both meshes.
fn sign_of(measure: Measure, own: &[Both]) -> Option<Sign> {
    let median = |of: usize| median_of(own.iter().map(|(.., values)| values[of]));
    Some(Sign { measure, usual: median(0)?, seen: median(1)?, n: own.len() })
}

/// Figures of a directed pair in both meshes.
type Both = (usize, usize, [f64; 2]);

fn both([before, after]: [&Mesh; 2], measure: Measure) -> Option<Vec<Both>> {
    let (before, after) = (before.cells(measure)?, after.cells(measure)?);
    let pairs = after
        .known()
        .filter_map(|(from, to, value)| Some((from, to, [before.get(from, to)?, value])));
    Some(pairs.collect())
}

/// Returns how far each pair of the second mesh is from itself in the first.
fn field(two: [&Mesh; 2], measure: Measure) -> Option<Field> {
    let both = both(two, measure)?;
    let usual = two[0].cells(measure)?.usual()?;
    let deviations = both.into_iter().map(|(one, other, [before, after])| {
        let of = |value: f64| measure.deviation(value, usual);
        (one, other, of(after) - of(before))
    });
    Some(Field::new(measure, two[1].groups.len(), deviations))
}

/// Returns the change of all pairs, if it matters.
fn of_all(before: &Mesh, after: &Mesh, measure: Measure) -> Option<Sign> {
    let usual = before.cells(measure)?.usual()?;
    let both = both([before, after], measure)?;
    let deviation = |value: f64| measure.deviation(value, usual);
    let changes = both.iter().map(|(.., [before, after])| deviation(*after) - deviation(*before));
    let change = median_of(changes)?;
    sign_of(measure, &both).filter(|_| change.abs() >= measure.relevant())
}
