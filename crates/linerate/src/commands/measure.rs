//! Measurements of one plan: the steps that `demo`, `disk`, `reproduce`, `run`, `serve` and `to`
//! share.

use std::cell::Cell;
use std::path::Path;
use std::time::Duration;

use clap::Args;
use linerate_campaign::catalog::PlanText;
use linerate_campaign::conduct::{self, Measured, Request};
use linerate_campaign::live::Live;
use linerate_campaign::stages::{Audience, Watcher};
use linerate_campaign::testbeds::{self, Place};
use linerate_model::plan::Plan;
use linerate_sys::signal::interrupted;
use linerate_view::{Display, View};

use crate::args::Global;
use crate::exit::Failure;

/// Option of the commands that can wait for an agent.
#[derive(Debug, Args)]
pub(crate) struct WaitArgs {
    /// Wait while the agent is busy with another campaign
    #[arg(long)]
    wait: bool,
    /// Place in the queue that was printed last.
    #[arg(skip)]
    announced: Cell<Option<u64>>,
}

impl WaitArgs {
    /// Returns whether the option was given.
    pub(crate) fn is_asked(&self) -> bool {
        self.wait
    }
}

/// Person who follows the stages of a command on the terminal.
pub(crate) struct Person<'a> {
    view: View,
    wait: Option<&'a WaitArgs>,
}

impl<'a> Person<'a> {
    pub(crate) fn new(what: &'static str, global: Global, wait: Option<&'a WaitArgs>) -> Self {
        Self { view: View::new(what, global.console()), wait }
    }
}

impl Audience for Person<'_> {
    fn live(&self) -> &Live {
        self.view.live()
    }

    fn watcher(&self) -> Watcher<'_> {
        let mut display = Display::new(&self.view);
        Box::new(move |event| display.show(event))
    }

    fn again(&self, busy: &Failure) -> bool {
        self.wait.is_some_and(|wait| wait.again(busy))
    }
}

impl WaitArgs {
    /// Returns whether the work that met a `busy` agent is to be tried again, after a pause.
    pub(crate) fn again(&self, busy: &Failure) -> bool {
        /// Interval between two attempts.
        const PAUSE: Duration = Duration::from_secs(1);
        if !self.wait || interrupted() {
            return false;
        }
        let Some((turn, fact)) = busy.queue() else { return false };
        if self.announced.replace(Some(turn)) != Some(turn) {
            eprintln!("waiting: {fact}");
        }
        std::thread::sleep(PAUSE);
        true
    }

    /// Measures, again and again while an agent is busy if the option was given.
    pub(crate) fn when_free(
        &self,
        mut measure: impl FnMut() -> Result<Measured, Failure>,
    ) -> Result<Measured, Failure> {
        loop {
            match measure() {
                Err(busy) if busy.is_busy() && self.again(&busy) => {}
                ended => return ended,
            }
        }
    }
}

/// Runs a plan of `command` at `place` into `ledger`, with progress for a person.
pub(crate) fn at(
    command: &'static str,
    place: &Place,
    (found, plan): (&PlanText, &Plan),
    (ledger, resume): (&Path, bool),
    global: Global,
) -> Result<Measured, Failure> {
    let mut ground = testbeds::prepare(place)?;
    let view = View::new(command, global.console());
    let live = view.live();
    let (path, returns) = (&[], false);
    let request = Request { found, plan, ground: &ground, path, ledger, resume, returns, live };
    let mut display = Display::new(&view);
    let measured = conduct::conduct(&request, &mut |event| display.show(&event))?;
    // The bar and the view must be gone before the answer is printed, and the lab before the report
    // is written: both take time in which nothing needs them.
    drop((display, view));
    ground.dismantle();
    Ok(measured)
}
