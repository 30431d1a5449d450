//! One stage of tuning or diagnosis: a plan run as a campaign into a ledger of its own.

use std::path::Path;

use linerate_analysis::{Study, study};
use linerate_control::Progress;
use linerate_model::{Campaign, TrialSpec};

use crate::campaign::{self, Request};
use crate::catalog::Found;
use crate::cli::Global;
use crate::exit::{Exit, Failure, Outcome};
use crate::progress::Display;
use crate::testbeds::Ground;

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
    /// Runs the plan `text` as stage `name`; `before` is called when a trial begins, before anything is opened for it.
    pub(crate) fn run(&self, name: &str, text: String, before: BeforeTrial<'_>) -> Result<(Campaign, Study), Ended> {
        let found = Found { origin: format!("{} {name}", self.what), text };
        let (Some(plan), problems) = linerate_model::plan::parse(&found.text) else {
            return Err(crate::problems::failure(&found.origin, &found.text, &[]).into());
        };
        if !problems.is_empty() {
            return Err(crate::problems::failure(&found.origin, &found.text, &problems).into());
        }
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

    /// As [`Stages::run`], with nothing to do before a trial.
    pub(crate) fn observe(&self, name: &str, text: String) -> Result<(Campaign, Study), Ended> {
        self.run(name, text, &mut |_| Ok(()))
    }
}
