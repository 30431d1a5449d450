//! Stages: the plans that a ladder runs one after the other, and their records.
//!
//! A ladder knows no host and no ledger, only a [`Bench`] that runs a plan and returns its record.
//! [`Ledgers`] runs plans on hosts. Tests run them on simulated hosts, in virtual time.

use std::cell::Cell;
use std::path::Path;
use std::time::Duration;

use linerate_analysis::path::PathFacts;
use linerate_analysis::{Study, study};
use linerate_control::{Progress, RunSummary};
use linerate_model::plan::Draft;
use linerate_model::{Campaign, Nanos, TrialSpec};

use crate::catalog::PlanText;
use crate::conduct::{self, Request};
use crate::fleet::{self, Absent};
use crate::live::Live;
use crate::testbeds::Ground;
use crate::{Ended, Exit, Failure, Result};

/// Pause before a busy agent is asked again, and most such pauses of a stage: 10 s. An agent leaves
/// the campaign of an earlier stage or command within about a second, on a busy host within a few.
const PAUSE: Duration = Duration::from_millis(500);
const MOST_PAUSES: usize = 20;

/// Work before each trial, such as its settings.
pub type BeforeTrial<'a> = &'a mut dyn FnMut(&TrialSpec) -> Result<()>;

/// Runner of plans.
pub trait Bench {
    /// Runs the plan `draft` as stage `name`, and returns the record. `before` is called when a
    /// trial begins, before its sockets and files are opened.
    ///
    /// # Errors
    /// If the campaign was interrupted, could not be run, or `before` failed.
    fn run(&self, name: &str, draft: &Draft, before: BeforeTrial<'_>) -> Result<Campaign, Ended>;

    /// Runs the plan `draft` as far as it goes: returns its study, if there is a record, and why it
    /// ended early.
    fn attempt(&self, name: &str, draft: &Draft) -> (Option<Study>, Option<Ended>) {
        match self.run(name, draft, &mut |_| Ok(())) {
            Ok(campaign) => (Some(study(&campaign)), None),
            Err(ended) => (None, Some(ended)),
        }
    }

    /// Returns the hosts that do not answer now.
    fn absent(&self) -> Vec<Absent> {
        Vec::new()
    }

    /// Waits before a busy agent is asked again.
    fn pause(&self, pause: Duration);

    /// Returns the time on a clock that only goes forward.
    fn now(&self) -> Nanos;
}

impl dyn Bench + '_ {
    /// Runs the plan `draft` as stage `name` and studies it, with nothing to do before a trial.
    pub(crate) fn observe(&self, name: &str, draft: &Draft) -> Result<(Campaign, Study), Ended> {
        let campaign = self.run_when_free(name, draft, &mut |_| Ok(()))?;
        let study = study(&campaign);
        Ok((campaign, study))
    }

    /// Runs a plan as [`Bench::run`] does, and waits while an agent is busy: it may not have left
    /// the campaign of the stage before.
    pub(crate) fn run_when_free(
        &self,
        name: &str,
        draft: &Draft,
        before: BeforeTrial<'_>,
    ) -> Result<Campaign, Ended> {
        for _ in 0..MOST_PAUSES {
            match self.run(name, draft, before) {
                Err(Ended::Failed(failure)) if failure.is_busy() => self.pause(PAUSE),
                ended => return ended,
            }
        }
        self.run(name, draft, before)
    }

    /// Runs a plan as [`Bench::attempt`] does, and waits in the same way.
    pub(crate) fn attempt_when_free(
        &self,
        name: &str,
        draft: &Draft,
    ) -> (Option<Study>, Option<Ended>) {
        for _ in 0..MOST_PAUSES {
            match self.attempt(name, draft) {
                (None, Some(Ended::Failed(failure))) if failure.is_busy() => self.pause(PAUSE),
                ended => return ended,
            }
        }
        self.attempt(name, draft)
    }
}

/// Observer of the progress of one stage.
pub type Watcher<'a> = Box<dyn FnMut(&Progress<'_>) + 'a>;

/// Bench whose stages are campaigns on a testbed, each in a ledger of its own.
pub struct Ledgers<'a> {
    /// The command they belong to.
    pub what: &'static str,
    /// Where they run.
    pub ground: &'a Ground,
    /// Facts of the path from a probe, recorded with each stage; empty without a probe.
    pub path: Vec<PathFacts>,
    /// The folder of the ledgers.
    pub out: &'a Path,
    /// Those who follow the stages.
    pub audience: &'a dyn Audience,
    /// Time spent waiting for busy agents.
    waited: Cell<Nanos>,
}

/// Those who follow the stages of a command.
pub trait Audience {
    /// Returns the viewers of the campaigns.
    fn live(&self) -> &Live;

    /// Returns an observer for one stage.
    fn watcher(&self) -> Watcher<'_>;

    /// Returns whether a stage that met a `busy` agent is to be started again, after a pause.
    fn again(&self, busy: &Failure) -> bool;
}

impl<'a> Ledgers<'a> {
    /// Returns the stages of `what` on `ground`, with ledgers in `out` and no facts of the path.
    #[must_use]
    pub fn new(
        what: &'static str,
        ground: &'a Ground,
        out: &'a Path,
        audience: &'a dyn Audience,
    ) -> Self {
        Self { what, ground, path: Vec::new(), out, audience, waited: Cell::default() }
    }
}

impl Bench for Ledgers<'_> {
    fn attempt(&self, name: &str, draft: &Draft) -> (Option<Study>, Option<Ended>) {
        loop {
            let begun = self.now();
            let judged = self.stage(name, draft, &mut |_| Ok(()), |request, progress| {
                conduct::conduct(request, progress).map(|made| (made.study, made.summary))
            });
            match judged {
                Ok((study, ended)) => return (Some(study), ended),
                Err(Ended::Failed(busy)) if busy.is_busy() && self.audience.again(&busy) => {
                    self.leave_out(begun);
                }
                Err(ended) => return (None, Some(ended)),
            }
        }
    }

    fn absent(&self) -> Vec<Absent> {
        fleet::absent(self.ground)
    }

    fn pause(&self, pause: Duration) {
        let begun = self.now();
        std::thread::sleep(pause);
        self.leave_out(begun);
    }

    fn now(&self) -> Nanos {
        // Neither a pause nor a busy agent takes anything from a budget.
        let passed = Nanos(linerate_sys::clock::monotonic());
        passed.since(self.audience.live().paused_for()).since(self.waited.get())
    }

    fn run(&self, name: &str, draft: &Draft, before: BeforeTrial<'_>) -> Result<Campaign, Ended> {
        loop {
            let begun = self.now();
            match self.run_once(name, draft, before) {
                Err(Ended::Failed(busy)) if busy.is_busy() && self.audience.again(&busy) => {
                    self.leave_out(begun);
                }
                ended => return ended,
            }
        }
    }
}

impl Ledgers<'_> {
    /// Leaves the time since `begun`, spent waiting for a busy agent, out of the clock of the
    /// stages.
    fn leave_out(&self, begun: Nanos) {
        self.waited.set(self.waited.get() + self.now().since(begun));
    }

    fn run_once(
        &self,
        name: &str,
        draft: &Draft,
        before: BeforeTrial<'_>,
    ) -> Result<Campaign, Ended> {
        let (campaign, ended) = self.stage(name, draft, before, conduct::recorded)?;
        ended.map_or(Ok(campaign), Err)
    }

    /// Returns what `conduct` makes of a stage, and why the stage ended early.
    fn stage<T>(
        &self,
        name: &str,
        draft: &Draft,
        before: BeforeTrial<'_>,
        conduct: impl FnOnce(&Request<'_>, &mut dyn FnMut(Progress<'_>)) -> Result<(T, RunSummary)>,
    ) -> Result<(T, Option<Ended>), Ended> {
        let (found, plan) = PlanText::drafted(format!("{} {name}", self.what), draft)?;
        let ledger = self.out.join(format!("{name}.ledger"));
        let request = Request {
            found: &found,
            plan: &plan,
            ground: self.ground,
            path: &self.path,
            ledger: &ledger,
            // Every stage is a campaign of its own. An older ledger of the same name would mix two
            // ladders.
            resume: false,
            returns: true,
            live: self.audience.live(),
        };
        let mut watcher = self.audience.watcher();
        let mut broken = None;
        let (made, summary) = conduct(&request, &mut |event| {
            watcher(&event);
            // The conductor reports before it opens sockets, so settings are in force in time.
            if let Progress::TrialStarted { trial, .. } = &event
                && broken.is_none()
            {
                broken = before(trial).err();
            }
        })?;
        if let Some(failure) = broken {
            return Err(failure.into());
        }
        let ended = match conduct::exit_of(&summary) {
            // Failed trials make points invalid, which the rules handle; the ladder goes on.
            Ok(Exit::Done | Exit::Missed) => None,
            Ok(other) => Some(Ended::With(other)),
            Err(failure) => Some(failure.into()),
        };
        Ok((made, ended))
    }
}

#[cfg(test)]
mod tests {
    use linerate_model::path::{Fact, Limiter, Method};
    use linerate_model::plan::{DraftJob, DraftSweep};
    use linerate_model::{BitRate, Nanos};

    use super::*;
    use crate::testbeds;

    struct Nobody(Live);

    impl Audience for Nobody {
        fn live(&self) -> &Live {
            &self.0
        }

        fn watcher(&self) -> Watcher<'_> {
            Box::new(|_| ())
        }

        fn again(&self, _busy: &Failure) -> bool {
            false
        }
    }

    #[test]
    fn waiting_for_a_busy_agent_takes_nothing_from_a_budget() {
        const PAUSE: Duration = Duration::from_millis(200);
        let folder = tempfile::tempdir().expect("a folder");
        let (ground, nobody) = (testbeds::loopback(false), Nobody(Live::default()));
        let ledgers = Ledgers::new("test", &ground, folder.path(), &nobody);
        // A busy machine may take time between two readings of the clock, but seldom as
        // long as the pause.
        let passed = (0..3).map(|_| {
            let begun = ledgers.now();
            ledgers.pause(PAUSE);
            ledgers.now().since(begun)
        });
        let shortest = passed.min().expect("three");
        assert!(Duration::from(shortest) < PAUSE, "{shortest}");
    }

    #[test]
    fn facts_of_the_path_are_recorded_in_the_ledger_of_each_stage() {
        let folder = tempfile::tempdir().expect("a folder");
        let rate = |megabits: f64| BitRate(megabits * 1e6);
        let (value, low, high) = (rate(19.876_543), rate(19.8), rate(19.9));
        let facts = PathFacts {
            from: "a".into(),
            to: "b".into(),
            limiter: Some(Limiter::Policer),
            capacity: Some(Fact { value, low, high, n: 20, method: Method::Flood }),
            ..PathFacts::default()
        };
        let (ground, nobody) = (testbeds::loopback(false), Nobody(Live::default()));
        let ledgers = Ledgers {
            path: vec![facts.clone()],
            ..Ledgers::new("test", &ground, folder.path(), &nobody)
        };
        let job = DraftJob::new("tcp_stream", "a", "b");
        let sweep = DraftSweep::one("one", Nanos::from_millis(50), Nanos(0), job);
        let draft = Draft::new("facts", 1, vec![sweep]);
        let bench: &dyn Bench = &ledgers;
        // The campaign is read back from its ledger.
        let Ok((campaign, study)) = bench.observe("baseline", &draft) else {
            panic!("the stage could not be run")
        };
        assert_eq!(campaign.header.path, std::slice::from_ref(&facts));
        assert_eq!(study.points[0].path, [facts]);
    }
}
