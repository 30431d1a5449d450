//! One stage of tuning: a plan run as a campaign into a ledger of its own.

use std::path::Path;

use linerate_analysis::{Study, study};
use linerate_control::Progress;
use linerate_model::{Campaign, TrialSpec};

use crate::campaign::{self, Request};
use crate::catalog::Found;
use crate::cli::Global;
use crate::exit::{Exit, Failure};
use crate::progress::Display;
use crate::testbeds::Ground;

/// Where the stages run, and where they are kept.
pub(super) struct Stages<'a> {
    pub(super) ground: &'a Ground,
    pub(super) out: &'a Path,
    pub(super) global: Global,
}

/// Why tuning ends before its time: with an exit code of its own, or in failure.
pub(super) enum Ended {
    With(Exit),
    Failed(Failure),
}

impl From<Failure> for Ended {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

/// What is done before each trial, its settings for instance.
pub(super) type BeforeTrial<'a> = &'a mut dyn FnMut(&TrialSpec) -> Result<(), Failure>;

impl Stages<'_> {
    /// Runs the plan `text` as stage `name`; `before` is called when a trial begins, before anything is opened for it.
    pub(super) fn run(&self, name: &str, text: String, before: BeforeTrial<'_>) -> Result<(Campaign, Study), Ended> {
        let found = Found { origin: format!("tune {name}"), text };
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
    pub(super) fn observe(&self, name: &str, text: String) -> Result<(Campaign, Study), Ended> {
        self.run(name, text, &mut |_| Ok(()))
    }
}
