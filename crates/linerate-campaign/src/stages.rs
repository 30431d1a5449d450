//! Stages: the plans that a ladder has run, one after the other, and what it is given of them.
//!
//! A ladder knows no host and no ledger, only a [`Bench`]: "run this plan, give me what was
//! recorded". [`Ledgers`] runs plans on hosts; tests run them on simulated ones, in virtual time.

use std::path::Path;

use linerate_analysis::{PointStudy, Study, study};
use linerate_control::Progress;
use linerate_model::plan::Draft;
use linerate_model::{Campaign, TrialSpec};

use crate::catalog::PlanText;
use crate::conduct::{self, Request};
use crate::testbeds::Ground;
use crate::{Ended, Exit, Failure};

/// Share of a measurement that others may take from the load before it is no evidence of anything
/// else.
const MOST_TAKEN: f64 = 0.05;
/// How often a stage is measured that others disturb.
const MOST_LOOKS: usize = 3;

/// What is done before each trial, its settings for instance.
pub type BeforeTrial<'a> = &'a mut dyn FnMut(&TrialSpec) -> Result<(), Failure>;

/// What runs plans.
pub trait Bench {
    /// Runs the plan `draft` as stage `name`, and returns what was recorded; `before` is called
    /// when a trial begins, before anything is opened for it.
    ///
    /// # Errors
    /// If the campaign was interrupted, could not be run, or `before` failed.
    fn run(&self, name: &str, draft: &Draft, before: BeforeTrial<'_>) -> Result<Campaign, Ended>;
}

impl dyn Bench + '_ {
    /// Runs the plan `draft` as stage `name` and studies it, with nothing to do before a trial.
    pub(crate) fn observe(&self, name: &str, draft: &Draft) -> Result<(Campaign, Study), Ended> {
        let campaign = self.run(name, draft, &mut |_| Ok(()))?;
        let study = study(&campaign);
        Ok((campaign, study))
    }

    /// The same, but what others disturb is measured again, [`MOST_LOOKS`] times in all, and
    /// `told`. The last one counts, whatever it says: which one does must not depend on what came
    /// of it.
    pub(crate) fn look(
        &self,
        name: &str,
        draft: &Draft,
        told: &mut Vec<String>,
    ) -> Result<(Campaign, Study), Ended> {
        let mut seen = Vec::new();
        loop {
            let (campaign, study) = self.observe(name, draft)?;
            let taken = study.points.iter().filter_map(PointStudy::taken).fold(0.0, f64::max);
            seen.push(format!("{:.0} %", taken * 100.0));
            let disturbed = taken > MOST_TAKEN;
            if disturbed && seen.len() < MOST_LOOKS {
                continue;
            }
            if disturbed || seen.len() > 1 {
                told.push(format!(
                    "{name}: the machine took {} of the time from it, above {:.0} %: measured {} \
                        times, the last one counts",
                    seen.join(", then "),
                    MOST_TAKEN * 100.0,
                    seen.len()
                ));
            }
            return Ok((campaign, study));
        }
    }
}

/// How many trials of `study` others disturbed, if any were: that hides what a change does, and can
/// only weaken a verdict.
pub(crate) fn disturbed(name: &str, study: &Study) -> Option<String> {
    let taken = study.points.iter().flat_map(|point| &point.trials).filter_map(|trial| trial.taken);
    let n_trials: usize = study.points.iter().map(|point| point.trials.len()).sum();
    let disturbed: Vec<f64> = taken.filter(|taken| *taken > MOST_TAKEN).collect();
    let most = disturbed.iter().copied().max_by(f64::total_cmp)?;
    Some(format!(
        "{name}: the machine took more than {:.0} % of the time from {} of {n_trials} runs, {:.0} \
            % at the most: that hides what a change does",
        MOST_TAKEN * 100.0,
        disturbed.len(),
        most * 100.0
    ))
}

/// Somebody who watches one stage.
pub type Watcher<'a> = Box<dyn FnMut(&Progress<'_>) + 'a>;

/// A bench whose stages are campaigns on a testbed, each in a ledger of its own.
pub struct Ledgers<'a> {
    /// The command they belong to.
    pub what: &'static str,
    /// Where they run.
    pub ground: &'a Ground,
    /// The folder of the ledgers.
    pub out: &'a Path,
    /// Whoever watches: one for each stage.
    pub watch: &'a dyn Fn() -> Watcher<'a>,
}

impl Bench for Ledgers<'_> {
    fn run(&self, name: &str, draft: &Draft, before: BeforeTrial<'_>) -> Result<Campaign, Ended> {
        let (found, plan) = PlanText::drafted(format!("{} {name}", self.what), draft)?;
        let ledger = self.out.join(format!("{name}.ledger"));
        let request = Request {
            found: &found,
            plan: &plan,
            ground: self.ground,
            ledger: &ledger,
            resume: false,
        };
        let mut watcher = (self.watch)();
        let mut broken = None;
        let (campaign, summary) = conduct::conduct(&request, &mut |event| {
            watcher(&event);
            if let Progress::TrialStarted { trial, .. } = &event
                && broken.is_none()
            {
                broken = before(trial).err();
            }
        })?;
        if let Some(failure) = broken {
            return Err(failure.into());
        }
        match conduct::exit_of(&summary)? {
            Exit::Done | Exit::Missed => Ok(campaign),
            other => Err(Ended::With(other)),
        }
    }
}
