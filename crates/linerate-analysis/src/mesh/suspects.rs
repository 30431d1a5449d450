//! The host, pair or uplink that explains figures far from the usual one.
//!
//! Culprits are found one after the other. Each candidate would shift all figures of its pairs by
//! the same factor, or each by another one, as a busy CPU does; the one that explains most is
//! taken, its shift is removed, and the rest is searched again, until what is left looks like
//! scatter. What a candidate explains is the decrease of the squared deviations, in units of the
//! scatter, of which no single pair counts more than a limit. A candidate must explain more than
//! chance gives the best of all candidates (twice the logarithm of their number, as in the risk
//! inflation criterion of Foster and George 1994, and a margin).

use std::collections::HashSet;

use super::FEWEST;
use super::cells::{Cells, Measure};

/// What a candidate must explain beyond the best of as many that explain nothing.
const MARGIN: f64 = 10.0;
/// What a single pair can contribute beyond the same.
const MOST_OF_ONE: f64 = 16.0;
/// Most culprits: a mesh with more has no usual figure.
const MOST: usize = 32;
/// Pairs further from the usual figure than this many times the scatter are candidates alone.
const FAR: f64 = 3.0;
/// A culprit with more than one pair in this many moves the median of the fleet, so it is compared
/// with the median of the other pairs.
const LARGE: usize = 10;

/// Fewest figures of a candidate that may have a scatter of their own.
const FEWEST_UNEVEN: usize = 5;
/// Standard deviation of a normal distribution over its median absolute deviation.
const NORMAL: f64 = 1.4826;

/// Figures of a fleet.
#[derive(Clone, Debug, Default)]
pub struct Mesh {
    /// The group (rack, switch) of each host, if it is known.
    pub groups: Vec<Option<usize>>,
    /// The figures of its pairs.
    pub figures: Vec<(Measure, Cells)>,
}

impl Mesh {
    /// Returns the figures of a measure.
    #[must_use]
    pub fn cells(&self, measure: Measure) -> Option<&Cells> {
        self.figures.iter().find(|(known, _)| *known == measure).map(|(_, cells)| cells)
    }

    /// Returns the figures of a measure behind a culprit with these places.
    fn sign(&self, measure: Measure, own: &[usize]) -> Option<Sign> {
        let cells = self.cells(measure)?;
        let is_own = |from: usize, to: usize| own.contains(&(from * cells.n() + to));
        let (own, others): (Vec<_>, Vec<_>) =
            cells.known().partition(|(from, to, _)| is_own(*from, *to));
        let median =
            |part: &[(usize, usize, f64)]| median_of(part.iter().map(|(.., value)| *value));
        Some(Sign { measure, seen: median(&own)?, usual: median(&others)?, n: own.len() })
    }

    /// Returns the figure in which `culprit` is worst beside the others; nothing without figures.
    #[must_use]
    pub fn signs(&self, culprit: Culprit) -> Vec<Sign> {
        let own = culprit.cells(&self.groups);
        let signs = Measure::ALL.iter().filter_map(|measure| self.sign(*measure, &own));
        let weight =
            |sign: &Sign| sign.measure.deviation(sign.seen, sign.usual) / sign.measure.relevant();
        signs.min_by(|a, b| weight(a).total_cmp(&weight(b))).into_iter().collect()
    }

    /// Returns the number of hosts that have a figure.
    #[must_use]
    pub fn n_measured(&self) -> usize {
        let known = self.figures.iter().flat_map(|(_, cells)| cells.known());
        known.flat_map(|(from, to, _)| [from, to]).collect::<HashSet<_>>().len()
    }
}

/// Part of a fleet that differs from the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Culprit {
    /// A host in both directions.
    Host(usize),
    /// The send side of a host.
    Sending(usize),
    /// The receive side of a host.
    Receiving(usize),
    /// A pair in both directions.
    Between(usize, usize),
    /// A pair in one direction: from, to.
    OneWay(usize, usize),
    /// The uplink of a group, in both directions.
    Uplink(usize),
    /// What two groups share, in both directions.
    Groups(usize, usize),
}

/// Culprit with its evidence.
#[derive(Clone, Debug, PartialEq)]
pub struct Suspect {
    /// The culprit.
    pub culprit: Culprit,
    /// The figures in which it shows, that with the strongest evidence first.
    pub signs: Vec<Sign>,
    /// Decrease of the squared deviations, in units of the scatter.
    pub explained: f64,
}

/// Figure in which a culprit shows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sign {
    /// The measure.
    pub measure: Measure,
    /// Median of the culprit's pairs.
    pub seen: f64,
    /// Median of the others.
    pub usual: f64,
    /// Number of directed pairs that the first is the median of.
    pub n: usize,
}

/// Returns the suspects of a mesh, that with the strongest evidence first; none for fewer than
/// [`FEWEST`] hosts.
#[must_use]
pub fn suspects(mesh: &Mesh) -> Vec<Suspect> {
    if mesh.n_measured() < FEWEST {
        return Vec::new();
    }
    let fields = mesh.figures.iter().filter_map(Field::of).collect();
    search(&mesh.groups, fields, &|measure, own| mesh.sign(measure, own))
}

/// Returns the culprits that explain `fields`, that with the strongest evidence first. `sign`
/// returns the figures of a measure behind a culprit with these places.
pub(super) fn search(
    groups: &[Option<usize>],
    mut fields: Vec<Field>,
    sign: &dyn Fn(Measure, &[usize]) -> Option<Sign>,
) -> Vec<Suspect> {
    let parts = parts(groups);
    let n = groups.len() as f64;
    // Of pairs, each direction and both together.
    let chance = 2.0 * (parts.len() as f64 + 1.5 * n * (n - 1.0)).ln();
    let mut found = Vec::new();
    while found.len() < MOST {
        for field in &mut fields {
            field.settle();
        }
        let far = fields.iter().flat_map(Field::far);
        let best = parts
            .iter()
            .copied()
            .chain(far)
            .map(|culprit| Explained::by(culprit, groups, &fields, chance + MOST_OF_ONE))
            .max_by(|a, b| a.gain.total_cmp(&b.gain));
        let Some(best) = best.filter(|best| best.gain > chance + MARGIN) else { break };
        let measures = best.shifts.iter().map(|shift| fields[shift.field].measure);
        let signs = measures.filter_map(|measure| sign(measure, &best.cells)).collect();
        for shift in &best.shifts {
            fields[shift.field].remove(shift, &best.cells);
        }
        found.push(Suspect { culprit: best.culprit, signs, explained: best.gain });
    }
    found.sort_by(|a, b| b.explained.total_cmp(&a.explained));
    found
}

/// Returns the candidates besides single pairs.
fn parts(groups: &[Option<usize>]) -> Vec<Culprit> {
    let n_groups = groups.iter().flatten().max().map_or(0, |last| last + 1);
    let sides = [Culprit::Host, Culprit::Sending, Culprit::Receiving];
    let hosts = (0..groups.len()).flat_map(|host| sides.map(|side| side(host)));
    // Two groups share one path, which is the uplink of both.
    let uplinks = (0..n_groups).filter(|_| n_groups > 2).map(Culprit::Uplink);
    let between = (0..n_groups)
        .flat_map(|one| (one + 1..n_groups).map(move |other| Culprit::Groups(one, other)));
    hosts.chain(uplinks).chain(between).collect()
}

impl Culprit {
    /// Returns whether the figure from one host to another is the culprit's.
    #[must_use]
    pub fn has(self, groups: &[Option<usize>], from: usize, to: usize) -> bool {
        let of = |host: usize| groups.get(host).copied().flatten();
        let ends = [from, to];
        match self {
            Self::Host(host) => ends.contains(&host),
            Self::Sending(host) => from == host,
            Self::Receiving(host) => to == host,
            Self::Between(a, b) => ends == [a, b] || ends == [b, a],
            Self::OneWay(a, b) => ends == [a, b],
            Self::Uplink(group) => {
                let within = ends.map(|end| of(end) == Some(group));
                within[0] != within[1] && ends.iter().all(|end| of(*end).is_some())
            }
            Self::Groups(a, b) => {
                let groups = ends.map(of);
                groups == [Some(a), Some(b)] || groups == [Some(b), Some(a)]
            }
        }
    }

    /// Returns whether a side of a host is the culprit, or part of it.
    #[must_use]
    pub fn includes(self, side: Self) -> bool {
        match (self, side) {
            (Self::Host(host), Self::Sending(one) | Self::Receiving(one)) => host == one,
            _ => self == side,
        }
    }

    /// Returns the places of its figures among those of `n` hosts.
    fn cells(self, groups: &[Option<usize>]) -> Vec<usize> {
        let n = groups.len();
        let row = |host: usize| (0..n).filter(move |to| *to != host).map(move |to| host * n + to);
        let column =
            |host: usize| (0..n).filter(move |from| *from != host).map(move |from| from * n + host);
        match self {
            Self::Host(host) => row(host).chain(column(host)).collect(),
            Self::Sending(host) => row(host).collect(),
            Self::Receiving(host) => column(host).collect(),
            Self::Between(a, b) => vec![a * n + b, b * n + a],
            Self::OneWay(a, b) => vec![a * n + b],
            Self::Uplink(_) | Self::Groups(..) => {
                (0..n * n).filter(|place| self.has(groups, place / n, place % n)).collect()
            }
        }
    }
}

/// Deviations of one measure. A figure that is missing is not a number.
pub(super) struct Field {
    n: usize,
    measure: Measure,
    deviations: Vec<f64>,
    scatter: f64,
    /// Median of the deviations.
    centre: f64,
}

impl Field {
    fn of((measure, cells): &(Measure, Cells)) -> Option<Self> {
        let usual = cells.usual()?;
        let known = cells.known();
        let deviations = known.map(|(from, to, value)| (from, to, measure.deviation(value, usual)));
        Some(Self::new(*measure, cells.n(), deviations))
    }

    /// Returns the field of `n` hosts with the deviations of pairs.
    pub(super) fn new(
        measure: Measure,
        n: usize,
        known: impl Iterator<Item = (usize, usize, f64)>,
    ) -> Self {
        let mut deviations = vec![f64::NAN; n * n];
        for (from, to, deviation) in known {
            deviations[from * n + to] = deviation;
        }
        let scatter = scatter(&deviations, n).max(measure.least_scatter());
        Self { n, measure, deviations, scatter, centre: 0.0 }
    }

    /// Finds the centre again, after a culprit was removed.
    fn settle(&mut self) {
        self.centre = median_of(self.deviations.iter().copied()).unwrap_or(0.0);
    }

    /// Removes a shift. Figures with a scatter of their own say nothing more, so they go.
    fn remove(&mut self, shift: &Shift, cells: &[usize]) {
        for cell in cells {
            self.deviations[*cell] -= if shift.is_uneven { f64::NAN } else { shift.by };
        }
    }

    /// Returns by how much the squared deviations of `values` decrease if their centre is `to` and
    /// their scatter `scatter`. A value counts `most` at most.
    fn gain(&self, values: &[f64], to: f64, scatter: f64, most: f64) -> f64 {
        let squared = |value: f64, from: f64, by: f64| ((value - from) / by).powi(2).min(most);
        let known = values.iter().copied().filter(|value| !value.is_nan());
        let gains = known
            .map(|value| squared(value, self.centre, self.scatter) - squared(value, to, scatter));
        gains.sum()
    }

    /// Returns single pairs that are candidates.
    fn far(&self) -> impl Iterator<Item = Culprit> {
        let least = (FAR * self.scatter).max(self.measure.relevant());
        let places = self.deviations.iter().enumerate();
        let far = places.filter(move |(_, value)| self.centre - **value > least);
        far.flat_map(|(place, _)| {
            let (from, to) = (place / self.n, place % self.n);
            [Culprit::OneWay(from, to), Culprit::Between(from.min(to), from.max(to))]
        })
    }
}

/// What a candidate explains.
struct Explained {
    culprit: Culprit,
    cells: Vec<usize>,
    shifts: Vec<Shift>,
    gain: f64,
}

/// Shift of all figures of a candidate in one measure.
struct Shift {
    field: usize,
    by: f64,
    /// Its figures scatter more than those of the fleet.
    is_uneven: bool,
    gain: f64,
}

impl Explained {
    /// Returns what `culprit` explains, where a pair counts `most` at most.
    fn by(culprit: Culprit, groups: &[Option<usize>], fields: &[Field], most: f64) -> Self {
        let cells = culprit.cells(groups);
        let mut explained = Self { culprit, cells, shifts: Vec::new(), gain: 0.0 };
        for (field, data) in fields.iter().enumerate() {
            if let Some(shift) = explained.shift(field, data, most) {
                explained.gain += shift.gain;
                explained.shifts.push(shift);
            }
        }
        explained.shifts.sort_by(|a, b| b.gain.total_cmp(&a.gain));
        explained
    }

    /// Returns the deviations of the other pairs.
    fn others(&self, field: &Field) -> Vec<f64> {
        let mut others = field.deviations.clone();
        self.cells.iter().for_each(|cell| others[*cell] = f64::NAN);
        others
    }

    /// Returns the shift in measure number `place`; `None` if it does not matter.
    fn shift(&self, place: usize, field: &Field, most: f64) -> Option<Shift> {
        let own = self.cells.iter().map(|cell| field.deviations[*cell]);
        let own: Vec<f64> = own.filter(|value| !value.is_nan()).collect();
        let here = median_of(own.iter().copied())?;
        let is_large = self.cells.len() * LARGE > field.deviations.len();
        // A culprit with many pairs moves the median of the fleet.
        let rest = if is_large { self.others(field) } else { Vec::new() };
        let centre = median_of(rest.iter().copied()).unwrap_or(field.centre);
        let by = here - centre;
        if -by < field.measure.relevant() {
            return None;
        }
        let even = field.gain(&own, here, field.scatter, most);
        let own_scatter = NORMAL * median_of(own.iter().map(|value| (value - here).abs()))?;
        // Twice the logarithm of the likelihood, in which a larger scatter has a price, as well as
        // one more parameter.
        let price = 2.0 * own.len() as f64 * (own_scatter / field.scatter).ln() + MARGIN;
        let uneven = Some(field.gain(&own, here, own_scatter, most) - price)
            .filter(|_| own.len() >= FEWEST_UNEVEN && own_scatter > field.scatter);
        let gain = uneven.map_or(even, |uneven| uneven.max(even));
        let gain_of_rest = field.gain(&rest, centre, field.scatter, most);
        Some(Shift { field: place, by, is_uneven: gain > even, gain: gain + gain_of_rest })
    }
}

/// Returns the median of the values that are numbers. A fleet has a million pairs, so they are not
/// sorted.
pub(super) fn median_of(values: impl Iterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.filter(|value| !value.is_nan()).collect();
    let middle = values.len() / 2;
    if values.is_empty() {
        return None;
    }
    let is_odd = values.len() % 2 == 1;
    let (below, upper, _) = values.select_nth_unstable_by(middle, f64::total_cmp);
    let lower = below.iter().copied().max_by(f64::total_cmp).filter(|_| !is_odd);
    Some(f64::midpoint(lower.unwrap_or(*upper), *upper))
}

/// Returns the scatter of single pairs, as a standard deviation: what is left after the medians of
/// senders and receivers are removed (median polish, Tukey 1977), by its median, on which single
/// pairs have no effect.
fn scatter(deviations: &[f64], n: usize) -> f64 {
    /// Sweeps over senders and receivers; later ones change little.
    const SWEEPS: usize = 2;
    let mut left = deviations.to_vec();
    for sweep in 0..2 * SWEEPS {
        for line in 0..n {
            let place = |k: usize| if sweep % 2 == 0 { line * n + k } else { k * n + line };
            let Some(usual) = median_of((0..n).map(|k| left[place(k)])) else { continue };
            (0..n).for_each(|k| left[place(k)] -= usual);
        }
    }
    let (n_pairs, n_medians) = (n * (n - 1), 2 * n - 1);
    // A median leaves one pair of each line without a rest, which says nothing about the others.
    let mut n_left_out = 0;
    let rests = left.into_iter().map(f64::abs).filter(|rest| {
        let is_left_out = *rest == 0.0 && n_left_out < n_medians;
        n_left_out += usize::from(is_left_out);
        !is_left_out
    });
    let freedom = n_pairs as f64 / n_pairs.saturating_sub(n_medians).max(1) as f64;
    NORMAL * freedom.sqrt() * median_of(rests).unwrap_or(0.0)
}
