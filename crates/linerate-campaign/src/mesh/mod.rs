//! The mesh of a fleet: all pairs are measured in rounds, suspects are measured again, and hosts
//! that go away cost only their own pairs.

mod at_once;
mod earlier;
mod figures;
mod patterns;
mod plans;
#[cfg(test)]
mod tests;

use std::collections::HashSet;

use linerate_analysis::Study;
use linerate_analysis::mesh::{
    Confirmation, Culprit, Measure, Mesh, Neighbours, Pairing, Status, Suspect, confirm, matchings,
    neighbours, rounds_of_groups, second_look, suspects, wider,
};
use linerate_model::Nanos;

use crate::fleet::{Absent, FleetHost};
use crate::stages::Bench;
use crate::{Ended, Exit, Failure, Result};

pub use at_once::Together;
pub use earlier::Earlier;
pub use patterns::{Load, Pattern};
pub use plans::{MOST_OF_STAGE, MeshLoad};

/// Returns the name of a stage of the first look, from 1.
fn stage_name(stage: usize) -> String {
    format!("rounds-{stage}")
}

/// Returns how many rounds or loads with these numbers of pairs are a stage of at most `most`
/// pairs; at least one.
fn of_one_stage(sizes: impl ExactSizeIterator<Item = usize>, most: usize) -> usize {
    let (n, mut n_pairs) = (sizes.len(), 0);
    let fit = sizes.take_while(|size| {
        n_pairs += size;
        n_pairs <= most
    });
    fit.count().max(1).min(n)
}

/// Most suspects that are measured again: the strongest ones.
const MOST_AGAIN: usize = 8;

/// Most confirmed pairs whose neighbours are measured.
const MOST_PAIRS: usize = 3;

/// Hosts of a mesh.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fleet {
    /// Their endpoints.
    pub hosts: Vec<String>,
    /// The group of each, as a place in `group_names`.
    pub groups: Vec<Option<usize>>,
    /// Names of the groups.
    pub group_names: Vec<String>,
}

impl Fleet {
    /// Returns the fleet of `hosts`, with the groups of their list and those that a person asked
    /// for, as `NAME=HOST,HOST`.
    ///
    /// # Errors
    /// If a group has another form, or an unknown host.
    pub fn of(hosts: Vec<String>, listed: &[FleetHost], asked: &[String]) -> Result<Self> {
        let mut fleet = Self { groups: vec![None; hosts.len()], hosts, group_names: Vec::new() };
        for host in listed {
            if let Some(group) = &host.group {
                fleet.join(group, &host.name)?;
            }
        }
        for text in asked {
            let (group, members) = text.split_once('=').ok_or_else(|| {
                Failure::wrong(format!("mesh --group {text}: expected NAME=HOST,HOST"))
            })?;
            members.split(',').try_for_each(|host| fleet.join(group, host))?;
        }
        Ok(fleet)
    }

    /// Puts a host into a group.
    fn join(&mut self, group: &str, host: &str) -> Result<()> {
        let known = self.group_names.iter().position(|known| known == group);
        let place = known.unwrap_or_else(|| {
            self.group_names.push(group.to_owned());
            self.group_names.len() - 1
        });
        let found = self.hosts.iter().position(|known| known == host).ok_or_else(|| {
            Failure::wrong(format!("mesh: group {group}: there is no host `{host}`"))
        })?;
        self.groups[found] = Some(place);
        Ok(())
    }
}

/// Suspect with the second looks at it.
#[derive(Clone, Debug)]
pub struct Judged {
    /// The suspect.
    pub suspect: Suspect,
    /// One for each sign that was measured again, or for each side of a host.
    pub looks: Vec<Confirmation>,
    /// Hosts, or sides of them, that a look at the neighbours of this pair found to be slow.
    explained_by: Vec<Culprit>,
}

impl Judged {
    /// Returns a suspect that was not measured again.
    #[must_use]
    pub fn of(suspect: Suspect) -> Self {
        Self { suspect, looks: Vec::new(), explained_by: Vec::new() }
    }

    /// Returns what the second looks say: confirmed by any sign, else what the strongest sign says.
    #[must_use]
    pub fn status(&self) -> Status {
        let is_confirmed = self.looks.iter().any(|one| one.status == Status::Confirmed);
        let first = self.looks.first().map_or(Status::Open, |one| one.status);
        if is_confirmed { Status::Confirmed } else { first }
    }
}

/// Result of a mesh.
#[derive(Clone, Debug, Default)]
pub struct Survey {
    /// The hosts.
    pub fleet: Fleet,
    /// The figures of all pairs.
    pub mesh: Mesh,
    /// Suspects: confirmed ones first, then by evidence.
    pub judged: Vec<Judged>,
    /// Hosts that did not answer, or went away.
    pub absent: Vec<Absent>,
    /// Pairs without figures, though both hosts answered.
    pub failed: Vec<Pairing>,
    /// Rounds in which all pairs meet.
    pub n_rounds: usize,
    /// Why the suspects could not be measured again.
    pub second_failed: Option<String>,
    /// Loads of many pairs at once, in the order of the patterns.
    pub at_once: Vec<Together>,
    /// Why they could not be measured.
    pub at_once_failed: Option<String>,
    /// Exit of a person's interrupt; the figures are those until then.
    pub interrupted: Option<Exit>,
    /// Time that it took.
    pub took: Nanos,
}

impl Survey {
    /// Returns the exit of the command that asked: a confirmed suspect is a missed goal.
    #[must_use]
    pub fn exit(&self) -> Exit {
        let is_confirmed = self.judged.first().is_some_and(|one| one.status() == Status::Confirmed);
        let judged = if is_confirmed { Exit::Missed } else { Exit::Done };
        self.interrupted.unwrap_or(judged)
    }
}

/// Measures all pairs of `fleet` without hosts that are `absent` and pairs that `earlier` has, and
/// its suspects again.
///
/// # Errors
/// If nothing could be measured, or a stage of the first look fails for another reason than a host
/// that went away.
pub fn survey(
    bench: &dyn Bench,
    fleet: &Fleet,
    load: &MeshLoad,
    absent: Vec<Absent>,
    earlier: Earlier,
) -> Result<Survey, Ended> {
    let begun = bench.now();
    let n_rounds = rounds_of_groups(&fleet.groups).len();
    let left = earlier.left(fleet);
    let mut mesh = earlier.mesh;
    let mut walk = Walk { bench, fleet, load, absent, interrupted: None };
    let failed = walk.first(left, earlier.n_stages, &mut mesh)?;
    let found = suspects(&mesh);
    let mut judged: Vec<Judged> = found.into_iter().map(Judged::of).collect();
    let mut second_failed = None;
    if walk.interrupted.is_none() && load.again > 0 && !judged.is_empty() {
        // The first look is an answer without it.
        second_failed = walk.second(&mesh, &mut judged);
        if second_failed.is_none() && walk.interrupted.is_none() {
            second_failed = walk.third(&mesh, &mut judged);
        }
    }
    let (at_once, at_once_failed) = walk.at_once(&mesh);
    // What a confirmed host explains is no suspect of its own.
    judged.retain(|one| one.explained_by.is_empty());
    judged.sort_by_key(|one| match one.status() {
        Status::Confirmed => 0,
        Status::Open => 1,
        Status::Cleared => 2,
    });
    let Walk { absent, interrupted, .. } = walk;
    let took = bench.now().since(begun);
    let fleet = fleet.clone();
    Ok(Survey {
        fleet,
        mesh,
        judged,
        absent,
        failed,
        n_rounds,
        second_failed,
        at_once,
        at_once_failed,
        interrupted,
        took,
    })
}

/// Takes pairs out of rounds, in either order.
fn leave_out(rounds: &mut Vec<Vec<Pairing>>, measured: &HashSet<Pairing>) {
    for round in rounds.iter_mut() {
        round.retain(|pair| !measured.contains(pair));
    }
    rounds.retain(|round| !round.is_empty());
}

struct Walk<'a> {
    bench: &'a dyn Bench,
    fleet: &'a Fleet,
    load: &'a MeshLoad,
    absent: Vec<Absent>,
    interrupted: Option<Exit>,
}

impl Walk<'_> {
    /// Measures `left` until every pair has figures, cannot have any, or has failed alone; returns
    /// those that failed.
    fn first(
        &mut self,
        mut left: Vec<Vec<Pairing>>,
        n_earlier: usize,
        mesh: &mut Mesh,
    ) -> Result<Vec<Pairing>, Ended> {
        let (mut failed, mut is_alone) = (Vec::new(), false);
        for stage in n_earlier + 1.. {
            self.leave_out_absent(&mut left);
            if left.is_empty() && !is_alone {
                // A pair that fails ends the trial of its round, so the others had no chance.
                left = std::mem::take(&mut failed).into_iter().map(|pair| vec![pair]).collect();
                self.leave_out_absent(&mut left);
                is_alone = true;
            }
            if left.is_empty() {
                break;
            }
            let sizes = left.iter().map(Vec::len);
            let later = left.split_off(of_one_stage(sizes, self.load.most_of_stage));
            let draft = self.load.rounds(self.fleet, &left);
            let (study, ended) = self.bench.attempt_when_free(&stage_name(stage), &draft);
            if let Some(study) = study {
                leave_out(&mut left, &figures::add(&study, self.fleet, mesh));
            }
            let is_shorter = self.goes_on_after(ended)?;
            if self.interrupted.is_some() {
                // The others had no chance, so they did not fail.
                return Ok(Vec::new());
            }
            // After a host went away, the rest is as it was.
            if !is_shorter {
                failed.extend(std::mem::take(&mut left).into_iter().flatten());
            }
            left.extend(later);
        }
        Ok(failed)
    }

    /// Measures the suspects again, beside pairs that none of them touches. Returns why that
    /// failed, if it did.
    fn second(&mut self, mesh: &Mesh, judged: &mut [Judged]) -> Option<String> {
        let n = judged.len().min(MOST_AGAIN);
        let again = &mut judged[..n];
        let suspects: Vec<Suspect> = again.iter().map(|one| one.suspect.clone()).collect();
        let second = second_look(mesh, &suspects);
        let mut rounds = second.rounds.clone();
        self.leave_out_absent(&mut rounds);
        if rounds.is_empty() || second.controls.is_empty() {
            return None;
        }
        let draft = self.load.again(self.fleet, &rounds);
        let (study, ended) = self.bench.attempt_when_free("again", &draft);
        let failed = self.failed(ended);
        let Some(study) = study else { return failed };
        let values = |measure: Measure, pairs: &[Pairing]| self.values(&study, measure, pairs);
        for (one, own) in again.iter_mut().zip(&second.suspected) {
            let measures = one.suspect.signs.iter().map(|sign| sign.measure);
            one.looks = measures
                .filter_map(|measure| {
                    let controls = values(measure, &second.controls);
                    confirm(measure, &values(measure, own), &controls, n)
                })
                .collect();
        }
        failed
    }

    /// Measures other pairs of the hosts of confirmed pairs, beside the control: if they are slow,
    /// too, the host is the culprit. Returns why that failed, if it did.
    fn third(&mut self, mesh: &Mesh, judged: &mut Vec<Judged>) -> Option<String> {
        let suspects: Vec<Suspect> = judged.iter().map(|one| one.suspect.clone()).collect();
        let pairs: Vec<(usize, Vec<Neighbours>)> = judged
            .iter()
            .enumerate()
            .filter(|(_, one)| one.status() == Status::Confirmed)
            .map(|(place, one)| (place, neighbours(mesh, &suspects, one.suspect.culprit)))
            .filter(|(_, sides)| !sides.is_empty())
            .take(MOST_PAIRS)
            .collect();
        let sides = || pairs.iter().flat_map(|(_, sides)| sides);
        let controls = second_look(mesh, &suspects).controls;
        let wanted: Vec<Pairing> =
            sides().flat_map(|one| &one.pairs).chain(&controls).copied().collect();
        let mut rounds = matchings(&wanted);
        self.leave_out_absent(&mut rounds);
        if pairs.is_empty() || rounds.is_empty() || controls.is_empty() {
            return None;
        }
        let draft = self.load.again(self.fleet, &rounds);
        let (study, ended) = self.bench.attempt_when_free("neighbours", &draft);
        let failed = self.failed(ended);
        let Some(study) = study else { return failed };
        let n_sides = sides().count();
        for (place, sides) in pairs {
            let Suspect { culprit, signs, .. } = judged[place].suspect.clone();
            let Some(measure) = signs.first().map(|sign| sign.measure) else { continue };
            let controls = self.values(&study, measure, &controls);
            let looks = sides.iter().filter_map(|one| {
                let own = self.values(&study, measure, &one.pairs);
                Some((one.side, confirm(measure, &own, &controls, n_sides)?))
            });
            let slow: Vec<(Culprit, Confirmation)> =
                looks.filter(|(_, look)| look.status == Status::Confirmed).collect();
            let found = wider(culprit, &slow.iter().map(|(side, _)| *side).collect::<Vec<_>>());
            judged[place].explained_by.clone_from(&found);
            for culprit in found {
                let is_known = |one: &Judged| {
                    one.suspect.culprit == culprit && one.status() == Status::Confirmed
                };
                if judged.iter().any(is_known) {
                    continue;
                }
                let signs = mesh.signs(culprit);
                let own = slow.iter().filter(|(side, _)| culprit.includes(*side));
                let looks = own.map(|(_, look)| *look).collect();
                let explained = judged[place].suspect.explained;
                let suspect = Suspect { culprit, signs, explained };
                judged.push(Judged { suspect, looks, explained_by: Vec::new() });
            }
        }
        failed
    }

    /// Loads many pairs at once, and goes on with the hosts that are left if one goes away. Returns
    /// the figures, and why loads have none, if that failed.
    fn at_once(&mut self, mesh: &Mesh) -> (Vec<Together>, Option<String>) {
        let mut found = Vec::new();
        let mut left = patterns::loads(self.fleet, &self.load.at_once, &self.gone());
        for stage in 1.. {
            let gone = self.gone();
            left.iter_mut().for_each(|load| load.leave_out(&gone));
            left.retain(|load| !load.pairs.is_empty());
            if left.is_empty() || self.interrupted.is_some() {
                break;
            }
            let sizes = left.iter().map(|load| load.pairs.len());
            let later = left.split_off(of_one_stage(sizes, self.load.most_of_stage));
            let draft = self.load.at_once(self.fleet, &left);
            let (study, ended) = self.bench.attempt_when_free(&format!("at-once-{stage}"), &draft);
            let (study, is_shorter) = (study.unwrap_or_default(), self.goes_on_after(ended));
            for (number, load) in std::mem::take(&mut left).into_iter().enumerate() {
                let sweep = MeshLoad::at_once_sweep(number);
                let one = Together::of(load, (&study, &sweep), self.fleet, mesh);
                // The rest of a stage that lost a host is repeated without it.
                match is_shorter {
                    Ok(true) if one.total().is_none() => left.push(one.load),
                    _ => found.push(one),
                }
            }
            if let Err(Ended::Failed(failure)) = is_shorter {
                return (found, Some(failure.message().to_owned()));
            }
            left.extend(later);
        }
        (found, None)
    }

    /// Returns the figures of `pairs`, run by run.
    fn values(&self, study: &Study, measure: Measure, pairs: &[Pairing]) -> Vec<f64> {
        pairs.iter().flat_map(|pair| figures::of(study, self.fleet, measure, *pair)).collect()
    }

    /// Notes how a stage after the first look ended; returns why it failed, if it did.
    fn failed(&mut self, ended: Option<Ended>) -> Option<String> {
        match self.goes_on_after(ended) {
            Err(Ended::Failed(failure)) => Some(failure.message().to_owned()),
            Ok(_) | Err(Ended::With(_)) => None,
        }
    }

    fn leave_out_absent(&self, rounds: &mut Vec<Vec<Pairing>>) {
        let gone = self.gone();
        for round in rounds.iter_mut() {
            round.retain(|(from, to)| !gone.contains(from) && !gone.contains(to));
        }
        rounds.retain(|round| !round.is_empty());
    }

    /// Returns the hosts that are absent.
    fn gone(&self) -> Vec<usize> {
        let names: HashSet<&str> = self.absent.iter().map(|one| one.host.as_str()).collect();
        let hosts = self.fleet.hosts.iter().enumerate();
        hosts.filter(|(_, name)| names.contains(name.as_str())).map(|(host, _)| host).collect()
    }

    /// Returns whether a stage ended because hosts went away, which are then known as absent.
    fn goes_on_after(&mut self, ended: Option<Ended>) -> Result<bool, Ended> {
        match ended {
            None => Ok(false),
            Some(Ended::With(exit)) => {
                self.interrupted = Some(exit);
                Ok(false)
            }
            Some(Ended::Failed(failure)) => {
                let absent = self.bench.absent();
                let is_new = |one: &Absent| self.absent.iter().all(|known| known.host != one.host);
                let new: Vec<Absent> = absent.into_iter().filter(is_new).collect();
                if new.is_empty() {
                    return Err(failure.into());
                }
                self.absent.extend(new);
                Ok(true)
            }
        }
    }
}
