//! The proof: runs with and without the setting, in pairs, beside a placebo, and the figures that
//! may get worse.

use linerate_analysis::statistics::median;
use linerate_analysis::tune::{Better, Effect, Proof, effect, prove};
use linerate_analysis::{Study, study};
use linerate_control::Setting;
use linerate_model::{Direction, Metric, metric};

use super::ends::Ends;
use super::findings::{SideEffect, WindowFindings};
use super::readings::values;
use crate::stages::Bench;
use crate::tune::Settings;
use crate::tune::plans::{Figure, Stint};
use crate::tune::settings::{Present, WindowScope};
use crate::{Ended, Exit, Failure};

/// An arm of the comparison; its name begins the names of its sweeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Arm {
    Before,
    Tuned,
    Placebo,
}

impl Arm {
    const ALL: [Self; 3] = [Self::Before, Self::Tuned, Self::Placebo];

    const fn name(self) -> &'static str {
        match self {
            Self::Before => "before",
            Self::Tuned => "tuned",
            Self::Placebo => "placebo",
        }
    }

    fn sweep(self, figure: &str) -> String {
        format!("{}: {figure}", self.name())
    }

    /// Returns the arm that a sweep of this name belongs to.
    fn of_sweep(sweep: &str) -> Self {
        let named = |arm: &Self| sweep.starts_with(arm.name());
        Self::ALL.into_iter().find(named).unwrap_or(Self::Before)
    }
}

/// Compares `setting` with none and with a placebo, in `pairs` pairs of runs. The placebo is run
/// for the main figure only.
pub(super) fn compare(
    bench: &dyn Bench,
    ends: &Ends,
    pairs: u32,
    tuner: &mut dyn Settings,
    (present, way, setting): (&Present, WindowScope, &Setting),
    findings: &mut WindowFindings,
) -> Result<Proof, Ended> {
    let figures = ends.path.figures();
    let placebo = present.placebo(way);
    findings.placebo = present.command(&placebo);
    let mut now = Arm::Before;
    let draft = ends.path.draft("tune-proof", pairs, &stints(ends, &figures));
    let campaign = bench.run_when_free("proof", &draft, &mut |trial| {
        let wanted = Arm::of_sweep(&trial.sweep);
        if wanted != std::mem::replace(&mut now, wanted) {
            tuner.revert()?;
            match wanted {
                Arm::Before => {}
                Arm::Tuned => drop(tuner.apply(vec![setting.clone()])?),
                Arm::Placebo => drop(tuner.apply(vec![placebo.clone()])?),
            }
        }
        Ok(())
    })?;
    let study = study(&campaign);
    let main = figures[0].name;
    let made = pair(&study, main, Arm::Tuned, metric::GOODPUT, None).ok_or_else(|| {
        Failure::new(Exit::Invalid, "tune: no pair of the proof gave two figures")
    })?;
    let proof = prove(made, pair(&study, main, Arm::Placebo, metric::GOODPUT, None));
    findings.side_effects = figures[1..].iter().flat_map(|one| beside(&study, one)).collect();
    let runs = |arm: Arm| values(&study, &arm.sweep(main), metric::RETRANSMIT_RATIO, None);
    let loss = |arm: Arm| median(&runs(arm).into_iter().flatten().collect::<Vec<_>>());
    findings.loss = loss(Arm::Before).zip(loss(Arm::Tuned));
    Ok(proof)
}

/// Returns the runs of each figure: before and tuned, and of the main figure the placebo.
fn stints(ends: &Ends, figures: &[Figure]) -> Vec<Stint> {
    let mut stints = Vec::new();
    for (index, figure) in figures.iter().enumerate() {
        for arm in Arm::ALL.into_iter().filter(|arm| index == 0 || *arm != Arm::Placebo) {
            stints.push(Stint {
                name: arm.sweep(figure.name),
                milliseconds: ends.path.length(1_000),
                jobs: figure.jobs.clone(),
            });
        }
    }
    stints
}

/// Returns the effects of the setting on a figure beside the main one.
fn beside(study: &Study, figure: &Figure) -> Vec<SideEffect> {
    let directions: &[Option<Direction>] = match figure.both_ways {
        true => &[Some(Direction::Tx), Some(Direction::Rx)],
        false => &[None],
    };
    directions
        .iter()
        .filter_map(|direction| {
            let effect = pair(study, figure.name, Arm::Tuned, figure.metric, *direction)?;
            Some(SideEffect { metric: figure.metric, effect })
        })
        .collect()
}

/// Returns the effect of `arm` on `metric` of `figure`, pair by pair.
fn pair(
    study: &Study,
    figure: &str,
    arm: Arm,
    metric: &Metric,
    direction: Option<Direction>,
) -> Option<Effect> {
    let better = if metric == metric::RESPONSE_TIME_P50 { Better::Less } else { Better::More };
    let of = |arm: Arm| values(study, &arm.sweep(figure), metric, direction);
    let suffix = direction.map_or(String::new(), |direction| format!(" {direction}"));
    effect(&format!("{metric} {figure}{suffix}"), &of(Arm::Before), &of(arm), better)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_arm_of_a_sweep_is_the_one_that_its_name_begins_with() {
        for arm in Arm::ALL {
            assert_eq!(Arm::of_sweep(&arm.sweep("to the host")), arm);
        }
    }
}
