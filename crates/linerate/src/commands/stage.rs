//! One stage of tuning or diagnosis: a plan run as a campaign into a ledger of its own.

use std::path::Path;

use linerate_analysis::{PointStudy, Study, study};
use linerate_control::Progress;
use linerate_model::plan::Draft;
use linerate_model::{Campaign, TrialSpec};

use crate::campaign::{self, Request};
use crate::catalog::Found;
use crate::cli::Global;
use crate::exit::{Exit, Failure, Outcome};
use crate::progress::Display;
use crate::testbeds::Ground;

/// Share of a measurement that others may take from the load before it is no evidence of anything else.
const MOST_TAKEN: f64 = 0.05;
/// How often a stage is measured that others disturb.
const MOST_LOOKS: usize = 3;

/// Where the stages run, and where they are kept.
pub(crate) struct Stages<'a> {
    /// The command they belong to.
    pub(crate) what: &'static str,
    pub(crate) ground: &'a Ground,
    pub(crate) out: &'a Path,
    pub(crate) global: Global,
}

/// Why it ends before its time: with an exit code of its own, or in failure.
pub(crate) enum Ended {
    With(Exit),
    Failed(Failure),
}

impl Ended {
    /// How the command ends: an exit code of a stage's own is the command's.
    pub(crate) fn outcome(ended: Result<Exit, Self>) -> Outcome {
        match ended {
            Ok(exit) | Err(Self::With(exit)) => Ok(exit),
            Err(Self::Failed(failure)) => Err(failure),
        }
    }
}

impl From<Failure> for Ended {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

/// What is done before each trial, its settings for instance.
pub(crate) type BeforeTrial<'a> = &'a mut dyn FnMut(&TrialSpec) -> Result<(), Failure>;

impl Stages<'_> {
    /// Runs the plan `draft` as stage `name`; `before` is called when a trial begins, before anything is opened for it.
    pub(crate) fn run(&self, name: &str, draft: &Draft, before: BeforeTrial<'_>) -> Result<(Campaign, Study), Ended> {
        let (found, plan) = Found::drafted(format!("{} {name}", self.what), draft)?;
        let ledger = self.out.join(format!("{name}.ledger"));
        let request = Request { found: &found, plan: &plan, ground: self.ground, ledger: &ledger, resume: false };
        let mut display = Display::new(self.global);
        let mut broken = None;
        let (campaign, summary) = campaign::conduct(&request, &mut |event| {
            display.show(&event);
            if let Progress::TrialStarted { trial, .. } = &event
                && broken.is_none()
            {
                broken = before(trial).err();
            }
        })?;
        drop(display);
        if let Some(failure) = broken {
            return Err(failure.into());
        }
        match campaign::exit_of(&summary)? {
            Exit::Done | Exit::Missed => {
                let study = study(&campaign);
                Ok((campaign, study))
            }
            other => Err(Ended::With(other)),
        }
    }

    /// As [`Stages::observe`], but what others disturb is measured again, [`MOST_LOOKS`] times in all, and `told`. The last one counts, whatever it
    /// says: which one does must not depend on what came of it. Each is in the ledger.
    pub(crate) fn look(&self, name: &str, draft: &Draft, told: &mut Vec<String>) -> Result<(Campaign, Study), Ended> {
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
                    "{name}: the machine took {} of the time from it, above {:.0} %: measured {} times, the last one counts",
                    seen.join(", then "),
                    MOST_TAKEN * 100.0,
                    seen.len()
                ));
            }
            return Ok((campaign, study));
        }
    }

    /// As [`Stages::run`], with nothing to do before a trial.
    pub(crate) fn observe(&self, name: &str, draft: &Draft) -> Result<(Campaign, Study), Ended> {
        self.run(name, draft, &mut |_| Ok(()))
    }
}

/// How many trials of `study` others disturbed, if any were: that hides what a change does, and can only weaken a verdict.
pub(crate) fn disturbed(name: &str, study: &Study) -> Option<String> {
    let taken = study.points.iter().flat_map(|point| &point.trials).filter_map(|trial| trial.taken);
    let n_trials: usize = study.points.iter().map(|point| point.trials.len()).sum();
    let disturbed: Vec<f64> = taken.filter(|taken| *taken > MOST_TAKEN).collect();
    let most = disturbed.iter().copied().max_by(f64::total_cmp)?;
    Some(format!(
        "{name}: the machine took more than {:.0} % of the time from {} of {n_trials} runs, {:.0} % at the most: that hides what a change does",
        MOST_TAKEN * 100.0,
        disturbed.len(),
        most * 100.0
    ))
}
