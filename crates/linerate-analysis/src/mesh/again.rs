//! The second look: pairs of each suspect are measured again, beside pairs that no suspect touches.
//!
//! The first look chooses the worst of many candidates, so its figures are worse than the truth
//! even without a fault. Only figures measured after the choice can confirm it.

use super::cells::Measure;
use super::rounds::{Pairing, matchings};
use super::suspects::{Culprit, Mesh, Suspect};
use crate::statistics::{median, unpaired_shift};

/// Most pairs that are measured again for a suspect, and most that are compared with them.
const MOST_OWN: usize = 3;
const MOST_CONTROLS: usize = 4;
/// Pairs of each side of a host beside a confirmed pair.
const MOST_NEIGHBOURS: usize = 2;
/// Highest probability that chance alone confirms one of all suspects.
const ALPHA: f64 = 0.05;

/// Pairs of a second look.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecondLook {
    /// Directed pairs of each suspect, in their order.
    pub suspected: Vec<Vec<Pairing>>,
    /// Directed pairs that no suspect touches.
    pub controls: Vec<Pairing>,
    /// All of them, in rounds.
    pub rounds: Vec<Vec<Pairing>>,
}

/// Outcome of the second look at a suspect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// The difference was seen again.
    Confirmed,
    /// A difference that matters is excluded.
    Cleared,
    /// Neither.
    Open,
}

/// Second look at a suspect in one measure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Confirmation {
    /// The measure.
    pub measure: Measure,
    /// What follows.
    pub status: Status,
    /// Median of the suspect's figures.
    pub seen: f64,
    /// Median of the control's.
    pub usual: f64,
    /// Probability of such a difference by chance (rank sum); `None` for too few figures.
    pub p: Option<f64>,
    /// Number of figures of both.
    pub n: [usize; 2],
}

/// Returns what to measure again for `suspects`. Hosts without figures are left out, because they
/// may be down.
#[must_use]
pub fn second_look(mesh: &Mesh, suspects: &[Suspect]) -> SecondLook {
    let known: Vec<Pairing> = mesh
        .figures
        .first()
        .map(|(_, cells)| cells.known().map(|(from, to, _)| (from, to)).collect())
        .unwrap_or_default();
    let is_of =
        |suspect: &Suspect, &(from, to): &Pairing| suspect.culprit.has(&mesh.groups, from, to);
    // A pair that two suspects share says nothing about either, so others are taken first.
    let n_claims = |pair: &Pairing| suspects.iter().filter(|one| is_of(one, pair)).count();
    let suspected: Vec<Vec<Pairing>> = suspects
        .iter()
        .map(|suspect| {
            let mut own: Vec<Pairing> =
                known.iter().filter(|pair| is_of(suspect, pair)).copied().collect();
            own.sort_by_key(n_claims);
            match suspect.culprit {
                // A shared link is full only while as many use it as in the first look.
                Culprit::Uplink(_) | Culprit::Groups(..) => {
                    matchings(&own).into_iter().next().unwrap_or_default()
                }
                _ => spread(&own, MOST_OWN),
            }
        })
        .collect();
    let untouched: Vec<Pairing> =
        known.iter().filter(|pair| n_claims(pair) == 0).copied().collect();
    let controls = spread(&untouched, MOST_CONTROLS);
    let wanted: Vec<Pairing> = suspected.iter().flatten().chain(&controls).copied().collect();
    SecondLook { rounds: matchings(&wanted), suspected, controls }
}

/// Side of a host of a confirmed pair, with other pairs of it: they show whether the pair is slow,
/// or the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Neighbours {
    /// The side: [`Culprit::Sending`] or [`Culprit::Receiving`].
    pub side: Culprit,
    /// Its other pairs.
    pub pairs: Vec<Pairing>,
}

/// Returns the sides of both hosts of a pair, with pairs that no other of
/// the suspects touches where there are any; none for a culprit that is no pair.
#[must_use]
pub fn neighbours(mesh: &Mesh, suspects: &[Suspect], culprit: Culprit) -> Vec<Neighbours> {
    let (Culprit::OneWay(a, b) | Culprit::Between(a, b)) = culprit else { return Vec::new() };
    let n_claims = |&(from, to): &Pairing| {
        suspects.iter().filter(|one| one.culprit.has(&mesh.groups, from, to)).count()
    };
    [a, b]
        .into_iter()
        .flat_map(|host| [Culprit::Sending(host), Culprit::Receiving(host)])
        .map(|side| {
            let goodput = mesh.figures.first().map(|(_, cells)| cells.known());
            let pairs = goodput.into_iter().flatten().map(|(from, to, _)| (from, to));
            let is_other = |&(from, to): &Pairing| {
                side.has(&mesh.groups, from, to) && ![(a, b), (b, a)].contains(&(from, to))
            };
            let mut pairs: Vec<Pairing> = pairs.filter(is_other).collect();
            pairs.sort_by_key(n_claims);
            pairs.truncate(MOST_NEIGHBOURS);
            Neighbours { side, pairs }
        })
        .collect()
}

/// Returns the hosts, or sides of them, that explain why a pair is slow, from the sides that are
/// `slow` beside the control; none if only the pair itself is.
#[must_use]
pub fn wider(culprit: Culprit, slow: &[Culprit]) -> Vec<Culprit> {
    let found = match culprit {
        Culprit::OneWay(a, b) => {
            [slow_part(a, [true, false], slow), slow_part(b, [false, true], slow)]
        }
        Culprit::Between(a, b) => [a, b].map(|host| slow_part(host, [true, true], slow)),
        _ => [None, None],
    };
    found.into_iter().flatten().collect()
}

/// Returns the host, or its side, that is `slow`, if the pair `uses` a slow side to send or to
/// receive: another one explains nothing about it.
fn slow_part(host: usize, uses: [bool; 2], slow: &[Culprit]) -> Option<Culprit> {
    let sides = [Culprit::Sending(host), Culprit::Receiving(host)];
    let is_slow = sides.map(|side| slow.contains(&side));
    let found = match is_slow {
        [true, true] => Culprit::Host(host),
        [true, false] => sides[0],
        [false, true] => sides[1],
        [false, false] => return None,
    };
    (0..2).any(|side| is_slow[side] && uses[side]).then_some(found)
}

/// Returns the first `most` of `pairs` whose hosts were used least.
fn spread(pairs: &[Pairing], most: usize) -> Vec<Pairing> {
    let mut chosen: Vec<Pairing> = Vec::new();
    while chosen.len() < most {
        let uses =
            |host: usize| chosen.iter().filter(|(from, to)| [*from, *to].contains(&host)).count();
        let left = pairs.iter().filter(|pair| !chosen.contains(pair));
        let Some(next) = left.min_by_key(|(from, to)| uses(*from) + uses(*to)) else { break };
        chosen.push(*next);
    }
    chosen
}

/// Judges figures of a suspect, one of `n_suspects`, beside those of the controls; `None` without
/// either.
#[must_use]
pub fn confirm(
    measure: Measure,
    own: &[f64],
    controls: &[f64],
    n_suspects: usize,
) -> Option<Confirmation> {
    let (seen, usual) = (median(own)?, median(controls)?);
    let deviations = |values: &[f64]| -> Vec<f64> {
        values.iter().map(|value| measure.deviation(*value, usual)).collect()
    };
    let shift = unpaired_shift(&deviations(controls), &deviations(own))?;
    let relevant = measure.relevant();
    let is_certain = shift.p.is_some_and(|p| p * n_suspects as f64 <= ALPHA);
    let status = if is_certain && -shift.value >= relevant {
        Status::Confirmed
    } else if shift.interval.is_some_and(|(low, _)| -low < relevant) {
        Status::Cleared
    } else {
        Status::Open
    };
    Some(Confirmation { measure, status, seen, usual, p: shift.p, n: [own.len(), controls.len()] })
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::super::cells::Cells;
    use super::super::suspects::{Culprit, Sign};
    use super::*;

    fn suspect(culprit: Culprit) -> Suspect {
        let sign = Sign { measure: Measure::Goodput, seen: 90e6, usual: 100e6, n: 14 };
        Suspect { culprit, signs: vec![sign], explained: 100.0 }
    }

    fn mesh(n: usize) -> Mesh {
        let mut cells = Cells::new(n);
        for (from, to) in (0..n).flat_map(|from| (0..n).map(move |to| (from, to))) {
            if from != to {
                cells.set(from, to, 1e8);
            }
        }
        Mesh { groups: vec![None; n], figures: vec![(Measure::Goodput, cells)] }
    }

    #[test]
    fn a_suspect_meets_several_others_and_controls_meet_no_suspect() {
        let culprits = [Culprit::Host(2), Culprit::OneWay(4, 5)];
        let second = second_look(&mesh(8), &culprits.map(suspect));
        let partners: HashSet<usize> = second.suspected[0].iter().map(|(a, b)| a + b - 2).collect();
        assert_eq!(partners.len(), 3, "{second:?}");
        assert_eq!(second.suspected[1], [(4, 5)]);
        assert_eq!(second.controls.len(), 4);
        assert!(second.controls.iter().all(|pair| ![pair.0, pair.1].contains(&2)), "{second:?}");
        let n_wanted = second.rounds.iter().map(Vec::len).sum::<usize>();
        assert_eq!(n_wanted, 3 + 1 + 4, "each once: {second:?}");
    }

    #[test]
    fn a_path_between_groups_is_used_by_all_hosts_in_one_direction_at_once() {
        let mut mesh = mesh(8);
        mesh.groups = (0..8).map(|host| Some(host / 4)).collect();
        let second = second_look(&mesh, &[suspect(Culprit::Groups(0, 1))]);
        assert_eq!(second.suspected[0], [(0, 4), (1, 5), (2, 6), (3, 7)]);
        assert!(second.rounds.contains(&second.suspected[0]), "{second:?}");
        assert!(second.controls.iter().all(|(from, to)| from / 4 == to / 4), "{second:?}");
    }

    #[test]
    fn a_pair_of_two_suspects_is_taken_only_where_there_is_no_other() {
        let culprits = [Culprit::Host(0), Culprit::Host(1)];
        let second = second_look(&mesh(8), &culprits.map(suspect));
        assert!(second.suspected.iter().flatten().all(|pair| *pair != (0, 1) && *pair != (1, 0)));
        let second = second_look(&mesh(4), &[0, 1, 2].map(Culprit::Host).map(suspect));
        assert!(second.controls.is_empty(), "every pair of four hosts has one of three");
    }

    #[test]
    fn a_pair_has_other_pairs_of_both_hosts_beside_it() {
        let culprits = [Culprit::OneWay(4, 5), Culprit::Host(0)].map(suspect);
        let found = neighbours(&mesh(8), &culprits, Culprit::OneWay(4, 5));
        let [sends, receives, ..] = &found[..] else { panic!("{found:?}") };
        assert_eq!((sends.side, &sends.pairs[..]), (Culprit::Sending(4), &[(4, 1), (4, 2)][..]));
        assert_eq!(receives.pairs, [(1, 4), (2, 4)], "host 0 is a suspect");
        assert_eq!(found.len(), 4);
        assert!(found.iter().flat_map(|one| &one.pairs).all(|pair| *pair != (4, 5)));
        assert!(neighbours(&mesh(8), &culprits, Culprit::Host(0)).is_empty());
    }

    #[test]
    fn a_pair_is_the_culprit_only_if_other_pairs_of_its_hosts_are_not_slow() {
        let sides = |host: usize| [Culprit::Sending(host), Culprit::Receiving(host)];
        let pair = Culprit::OneWay(4, 5);
        assert_eq!(wider(pair, &[]), []);
        assert_eq!(wider(pair, &[Culprit::Sending(4)]), [Culprit::Sending(4)]);
        assert_eq!(wider(pair, &sides(4)), [Culprit::Host(4)]);
        assert_eq!(wider(pair, &[Culprit::Receiving(4)]), [], "the pair does not use that side");
        let both = [Culprit::Sending(4), Culprit::Receiving(5)];
        assert_eq!(wider(pair, &both), both);
        assert_eq!(
            wider(Culprit::Between(4, 5), &[Culprit::Receiving(4)]),
            [Culprit::Receiving(4)]
        );
        assert_eq!(wider(Culprit::Host(4), &sides(4)), []);
    }

    #[test]
    fn a_difference_is_confirmed_cleared_or_left_open() {
        let usual = [100.0, 99.5, 100.2, 100.4, 99.9, 100.1, 99.8, 100.3];
        let times = |factor: f64| usual.map(|value| value * factor);
        let look = |own: &[f64]| confirm(Measure::Goodput, own, &usual, 1).expect("figures").status;
        assert_eq!(look(&times(0.9)), Status::Confirmed);
        assert_eq!(look(&times(1.0)), Status::Cleared);
        assert_eq!(look(&times(0.98)), Status::Cleared, "2 % do not matter");
        assert_eq!(look(&[90.0, 101.0]), Status::Open);
        assert_eq!(look(&times(0.9)[..3]), Status::Confirmed);
        let of_many = confirm(Measure::Goodput, &times(0.9)[..3], &usual, 10).expect("figures");
        assert_eq!(of_many.status, Status::Open, "of ten suspects one looks like this by chance");
        assert_eq!(confirm(Measure::Goodput, &[], &usual, 1), None);
    }
}
