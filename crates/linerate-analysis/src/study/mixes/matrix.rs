//! The direction matrix: pairs of directions that interfere (storage reference 5.7).
//!
//! Links between memory and devices carry each direction by itself. If jobs in the same direction
//! lose and those in opposite directions do not, they share such a link. If all lose alike, the
//! shared resource has no direction: CPU, memory, a half-duplex bus.

use linerate_model::{Point, Verdict};
use serde::{Deserialize, Serialize};

use super::{Joint, MemoryDirection, Mix};
use MatrixVerdict::{EachWay, Nothing, Unclear, Undirected};

/// Joint efficiencies of two jobs over the ways their data goes at one host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DirectionMatrix {
    /// The sweep.
    pub sweep: String,
    /// Coordinates that its cells share.
    pub parameters: Point,
    /// The host whose memory is used.
    pub host: String,
    /// The two workloads.
    pub workloads: [String; 2],
    /// Its cells.
    pub cells: Vec<MatrixCell>,
    /// Its result.
    pub says: MatrixVerdict,
    /// How well that is established.
    pub verdict: Verdict,
}

/// One pair of ways.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MatrixCell {
    /// The ways of the two jobs.
    pub ways: [MemoryDirection; 2],
    /// The joint efficiency.
    pub joint: Option<Joint>,
    /// Fraction of its rate that each job kept.
    pub kept: [f64; 2],
    /// True if a job lost; `None` if undecided.
    pub lost: Option<bool>,
}

/// Conclusions from a direction matrix about the shared resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MatrixVerdict {
    /// No shared resource is saturated.
    Nothing,
    /// A link that carries each direction by itself, such as PCI Express.
    EachWay,
    /// A resource without a direction.
    Undirected,
    /// Neither pattern, or undecided cells.
    Unclear,
}

/// Returns the matrices that `mixes` of two jobs each form, sweep by sweep.
pub(super) fn matrices(mixes: &[Mix]) -> Vec<DirectionMatrix> {
    let placed: Vec<Placed<'_>> = mixes.iter().filter_map(placed).collect();
    let mut matrices: Vec<DirectionMatrix> = Vec::new();
    for one in &placed {
        let directional = axes_of_direction(&placed, one);
        let mut parameters = one.mix.parameters.clone();
        parameters.retain(|axis, _| !directional.contains(axis));
        let cell = MatrixCell {
            ways: one.ways,
            joint: one.mix.joint.clone(),
            kept: [0, 1].map(|job| one.mix.jobs[job].main.effect.shift),
            lost: lost(one.mix),
        };
        let mut of_host = matrices
            .iter_mut()
            .filter(|matrix| matrix.sweep == one.mix.sweep && matrix.host == one.host);
        match of_host.find(|matrix| matrix.parameters == parameters) {
            Some(matrix) => matrix.cells.push(cell),
            None => matrices.push(DirectionMatrix {
                sweep: one.mix.sweep.clone(),
                parameters,
                host: one.host.to_owned(),
                workloads: [0, 1].map(|job| one.mix.jobs[job].workload.clone()),
                cells: vec![cell],
                says: Unclear,
                verdict: Verdict::Inconclusive,
            }),
        }
    }
    // One cell is no matrix.
    matrices.retain(|matrix| matrix.cells.len() > 1);
    for matrix in &mut matrices {
        matrix.cells.sort_by_key(|cell| cell.ways);
        matrix.says = says(&matrix.cells);
        matrix.verdict =
            if matrix.says == Unclear { Verdict::Inconclusive } else { Verdict::Suspected };
    }
    matrices
}

/// A mix of two jobs and their ways at a host that both have.
struct Placed<'a> {
    mix: &'a Mix,
    host: &'a str,
    ways: [MemoryDirection; 2],
}

fn placed(mix: &Mix) -> Option<Placed<'_>> {
    let [first, second] = &mix.jobs[..] else { return None };
    first.ways.iter().find_map(|(host, way)| {
        let (_, other) = second.ways.iter().find(|(other, _)| other == host)?;
        let single = *way != MemoryDirection::Both && *other != MemoryDirection::Both;
        single.then_some(Placed { mix, host, ways: [*way, *other] })
    })
}

/// Axes that change nothing but a way.
fn axes_of_direction(placed: &[Placed<'_>], one: &Placed<'_>) -> Vec<String> {
    let own = placed.iter().filter(|other| other.mix.sweep == one.mix.sweep);
    let differing = own.filter(|other| other.ways != one.ways).filter_map(|other| {
        let mut axes = one
            .mix
            .parameters
            .iter()
            .filter(|(axis, value)| other.mix.parameters.get(*axis) != Some(value));
        let (axis, _) = axes.next()?;
        axes.next().is_none().then(|| axis.clone())
    });
    differing.collect()
}

fn lost(mix: &Mix) -> Option<bool> {
    if mix.jobs.iter().any(super::MixedJob::lost) {
        return Some(true);
    }
    mix.jobs.iter().all(super::MixedJob::kept).then_some(false)
}

fn says(cells: &[MatrixCell]) -> MatrixVerdict {
    let of = |same: bool| cells.iter().filter(move |cell| (cell.ways[0] == cell.ways[1]) == same);
    let all = |same: bool, lost: bool| {
        of(same).count() > 0 && of(same).all(|cell| cell.lost == Some(lost))
    };
    match () {
        () if all(true, false) && all(false, false) => Nothing,
        () if all(true, true) && all(false, false) => EachWay,
        () if all(true, true) && all(false, true) && alike(cells) => Undirected,
        () => Unclear,
    }
}

/// Returns whether the joint efficiencies of equal and of opposite directions overlap.
fn alike(cells: &[MatrixCell]) -> bool {
    let (same, opposite): (Vec<&MatrixCell>, Vec<&MatrixCell>) =
        cells.iter().partition(|cell| cell.ways[0] == cell.ways[1]);
    let both = range(&same).zip(range(&opposite));
    both.is_some_and(|((low, high), (other_low, other_high))| {
        low <= other_high && other_low <= high
    })
}

/// Returns the range that the intervals of the joint figures of `cells` cover together.
fn range(cells: &[&MatrixCell]) -> Option<(f64, f64)> {
    let ends = cells.iter().filter_map(|cell| cell.joint.as_ref()?.interval);
    ends.reduce(|(least, most), (low, high)| (least.min(low), most.max(high)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(ways: [MemoryDirection; 2], lost: Option<bool>, joint: f64) -> MatrixCell {
        let joint = Joint {
            value: joint,
            interval: Some((joint - 0.02, joint + 0.02)),
            n: 6,
            values: Vec::new(),
        };
        MatrixCell { ways, kept: [joint.value / 2.0; 2], joint: Some(joint), lost }
    }

    #[test]
    fn the_same_way_only_is_a_link_all_ways_alike_is_none_and_anything_else_says_nothing() {
        use MemoryDirection::{Down, Up};
        let of = |same: (Option<bool>, f64), across: (Option<bool>, f64)| {
            says(&[
                cell([Up, Up], same.0, same.1),
                cell([Up, Down], across.0, across.1),
                cell([Down, Up], across.0, across.1),
                cell([Down, Down], same.0, same.1),
            ])
        };
        assert_eq!(of((Some(true), 1.0), (Some(false), 2.0)), EachWay);
        assert_eq!(of((Some(true), 1.0), (Some(true), 1.01)), Undirected);
        assert_eq!(of((Some(true), 1.0), (Some(true), 1.5)), Unclear, "both lose, not alike");
        assert_eq!(of((Some(false), 2.0), (Some(false), 2.0)), Nothing);
        assert_eq!(of((Some(false), 2.0), (Some(true), 1.0)), Unclear);
        assert_eq!(of((None, 2.0), (Some(false), 2.0)), Unclear);
        assert_eq!(
            says(&[cell([Up, Up], Some(true), 1.0)]),
            Unclear,
            "no opposite ways were measured"
        );
    }
}
