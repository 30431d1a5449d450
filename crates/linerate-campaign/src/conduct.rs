//! A campaign from plan to ledger, for every command that measures.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use linerate_analysis::{Study, study};
use linerate_control::conductor::RunOptions;
use linerate_control::{Agent, AgentOptions, CampaignRun, ControlError, Progress, RunSummary};
use linerate_disk::Writable;
use linerate_model::path::PathFacts;
use linerate_model::plan::{Draft, Plan};
use linerate_model::{
    Campaign, CampaignHeader, Event, HostRecord, Incident, IncidentKind, Lines, Nanos,
    OFFERED_AXIS, Recorder, RecorderError, TrialId, TrialOutcome, TrialRecord, TrialSpec,
    printable,
};
use linerate_store::{Ledger, StoreError, Which};
use sha2::{Digest, Sha256};

use crate::arms::Arms;
use crate::catalog::PlanText;
use crate::devices::Devices;
use crate::judged::judged;
use crate::live::{Live, LiveFold, LiveSocket};
use crate::observers::Observers;
use crate::testbeds::Ground;
use crate::{Exit, Failure, Result, checks};
use linerate_agent::keys::keys_for;

/// A plan, its place and its ledger.
pub struct Request<'a> {
    /// The plan's text.
    pub found: &'a PlanText,
    /// The plan.
    pub plan: &'a Plan,
    /// The place.
    pub ground: &'a Ground,
    /// Facts of the path from an earlier probe.
    pub path: &'a [PathFacts],
    /// The ledger's path.
    pub ledger: &'a Path,
    /// True to continue a campaign that is already in it.
    pub resume: bool,
    /// True if another campaign on this ground follows at once.
    pub returns: bool,
    /// Viewers of the campaign.
    pub live: &'a Live,
}

/// The workload whose scratch files are filled before the load, and the time for it: the most that
/// an agent grants.
const STORAGE: &str = "storage";
const FILLING: Duration = Duration::from_secs(60);

/// A campaign that was run.
#[derive(Debug)]
pub struct Measured {
    /// Its record. Of a campaign of a plan, trials have what a report reads, see [`judged`].
    pub campaign: Campaign,
    /// Its study.
    pub study: Study,
    /// How it went.
    pub summary: RunSummary,
}

/// Runs a campaign and judges it from its ledger, point by point.
///
/// # Errors
/// If the plan does not fit the place, the ledger cannot be written, or an agent cannot be reached.
pub fn conduct(request: &Request<'_>, progress: &mut dyn FnMut(Progress<'_>)) -> Result<Measured> {
    let (ledger, id, summary) = record(request, &[], progress)?;
    let (loaded, study) = judged(ledger.recording(Which::Id(&id))?)?;
    Ok(Measured { campaign: loaded.campaign, study, summary })
}

/// Runs a campaign and reads it back whole.
///
/// # Errors
/// Those of [`conduct`].
pub fn recorded(
    request: &Request<'_>,
    progress: &mut dyn FnMut(Progress<'_>),
) -> Result<(Campaign, RunSummary)> {
    let (ledger, id, summary) = record(request, &[], progress)?;
    Ok((ledger.load(Which::Id(&id))?, summary))
}

/// Runs a campaign, in which jobs may serve the files in the folders `served` to any client.
/// Returns its ledger, to be read, and its name there.
fn record(
    request: &Request<'_>,
    served: &[PathBuf],
    progress: &mut dyn FnMut(Progress<'_>),
) -> Result<(Ledger, String, RunSummary)> {
    let trials = checks::trials(request.found, request.plan, request.ground)?;
    let Ground { timeouts, away, .. } = *request.ground;
    let mut arms = trials.iter().filter_map(|trial| trial.arm.as_ref());
    let changes_settings = arms.any(|arm| !arm.settings.is_empty());
    let mut options = RunOptions {
        timeouts,
        away,
        returns: request.returns,
        alone: !request.plan.settings.is_empty() || changes_settings,
        ..RunOptions::default()
    };
    // Filling a scratch file takes longer than an agent waits by default.
    if trials.iter().flat_map(|trial| &trial.jobs).any(|job| job.workload == STORAGE) {
        options.patience = FILLING;
    }
    let observers = Observers::open(&request.ground.observers)?;
    let fresh = CampaignHeader { observed: observers.ports(), ..header(request) };
    let begun = [
        Event::CampaignStarted(Box::new(fresh.clone())),
        Event::Planned { trials: trials.clone() },
    ];
    // A campaign that was killed before its ledger existed is started by --resume, too.
    let (mut ledger, existed) = match Ledger::create_with(request.ledger, &begun) {
        // A ledger is created in one step, and only if there is none. Testing first would race with
        // another process.
        Err(StoreError::Exists { .. }) => (Ledger::open(request.ledger)?, true),
        made => (made?, false),
    };
    let Earlier { header, done, recorded, hosts } = if request.resume && existed {
        earlier(&ledger, &fresh, &trials)?
    } else {
        Earlier { header: fresh, done: HashSet::new(), recorded: Vec::new(), hosts: Vec::new() }
    };
    let id = header.id.clone();
    let keys = keys_for(&request.ground.testbed.hosts)?;
    // The conductor takes the first store with it.
    let tuning_keys = keys_for(&request.ground.testbed.hosts)?;
    let stop = stop_on_interrupt()?;
    let mut settled = Settled {
        arms: Arms::new(request.plan, &request.ground.testbed, tuning_keys.as_ref()),
        stop: Arc::clone(&stop),
        refused: None,
    };
    let _socket = LiveSocket::open(request.live, request.ledger);
    let mut fold = LiveFold::new(&header, monotonic());
    let show = |fold: &LiveFold| request.live.offer(&Arc::new(fold.snapshot(monotonic())));
    show(&fold);
    let campaign = CampaignRun {
        header,
        testbed: request.ground.testbed.clone(),
        trials,
        done,
        recorded,
        recorded_hosts: hosts,
        order: request.plan.order,
        keys,
        agent: Agent::new(AgentOptions {
            name: "here".into(),
            // The user of this program is the person who claims disks here.
            writable: Writable::Claimed,
            served: served.to_vec(),
            ..AgentOptions::default()
        }),
        stop,
        pause: request.live.pause(),
        options,
    };
    let losses = request.ground.emulation_losses();
    let mut watched = Watched {
        ledger: &mut ledger,
        ground: request.ground,
        losses,
        // The devices are noted anew when a trial begins.
        devices: Devices::note(&[]),
        observers,
        recorded: request.resume,
    };
    let outcome = linerate_control::run(campaign, &mut watched, &mut |event| {
        settled.before(&event);
        if fold.take(&event, monotonic()) {
            show(&fold);
        }
        progress(event);
    });
    fold.end();
    show(&fold);
    let recorded = watched.recorded;
    // The writer holds the lock that a reader needs.
    drop(ledger);
    if !recorded && !existed {
        // Nothing was recorded: an empty ledger would only be in the way of the next run.
        let _left = std::fs::remove_file(request.ledger);
    }
    let summary = outcome?;
    // The campaign reports an interruption; the refused setting is the cause.
    if let Some(error) = settled.refused {
        return Err(Failure::missing(error));
    }
    if !recorded {
        return Err(Failure::new(
            Exit::Interrupted,
            "interrupted before the campaign began: nothing was measured",
        ));
    }
    Ok((Ledger::open_read_only(request.ledger)?, id, summary))
}

/// Runs the plan `draft` of command `name` into `ledger`, or into one that goes with this process.
/// Files in the folders `served` may be sent to clients.
///
/// # Errors
/// Those of [`conduct`], and if there is no room for a ledger.
pub fn drafted(
    name: &str,
    draft: &Draft,
    ground: &Ground,
    (ledger, served, live): (Option<&Path>, &[PathBuf], &Live),
    watch: &mut dyn FnMut(Progress<'_>),
) -> Result<Measured> {
    let (found, plan) = PlanText::drafted(name, draft)?;
    // The folder goes with `scratch` at the end: until then the campaign is read back from it.
    let scratch = tempfile::tempdir()
        .map_err(|error| Failure::missing(format!("make a folder for the ledger: {error}")))?;
    let ledger =
        ledger.map_or_else(|| scratch.path().join(format!("{name}.ledger")), Path::to_owned);
    let request = Request {
        found: &found,
        plan: &plan,
        ground,
        path: &[],
        ledger: &ledger,
        resume: false,
        returns: false,
        live,
    };
    let (ledger, id, summary) = record(&request, served, watch)?;
    // It has one point, so nothing is gained by reading parts of it.
    let campaign = ledger.load(Which::Id(&id))?;
    let study = study(&campaign);
    Ok(Measured { campaign, study, summary })
}

/// Settings of hosts for each trial, made before its sockets and files are opened. If one cannot be
/// made, the trial is interrupted and the campaign stops.
struct Settled<'a> {
    arms: Arms<'a>,
    stop: Arc<AtomicBool>,
    refused: Option<ControlError>,
}

impl Settled<'_> {
    fn before(&mut self, event: &Progress<'_>) {
        if let Progress::TrialStarted { trial, .. } = event
            && self.refused.is_none()
            && let Err(error) = self.arms.settle(trial)
        {
            self.refused = Some(error);
            // The conductor looks at this flag before the load begins.
            self.stop.store(true, Ordering::Relaxed);
        }
    }
}

/// Recorder into a ledger that watches the emulation: counters of a lab's devices are recorded with
/// their trial, and frames that the lab lost by itself make that trial invalid.
struct Watched<'a> {
    ledger: &'a mut Ledger,
    ground: &'a Ground,
    losses: u64,
    /// Counters of its devices as the present trial began.
    devices: Devices,
    observers: Observers,
    /// True if the ledger has the campaign.
    recorded: bool,
}

impl Recorder for Watched<'_> {
    fn record(&mut self, event: &Event) -> Result<(), RecorderError> {
        self.recorded = true;
        if let Event::TrialStarted { .. } = event {
            // Their counters run on between trials, so each trial counts from its own start.
            self.devices = Devices::note(self.ground.devices());
        }
        self.observers.note(event);
        self.ledger.record(event)
    }

    fn flush(&mut self) -> Result<(), RecorderError> {
        self.ledger.flush()
    }

    fn addenda(&mut self, ended: TrialId) -> Vec<Event> {
        let mut addenda: Vec<Event> =
            self.devices.samples(ended, self.ground.devices()).into_iter().collect();
        addenda.extend(self.observers.addenda(ended));
        let losses = self.ground.emulation_losses();
        // The emulation counts since the lab was built.
        let new = losses - std::mem::replace(&mut self.losses, losses);
        if new > 0 {
            let message = format!(
                "emulate device or delayed link: {new} frames lost by the emulation itself (lower \
                    the lab's rates)"
            );
            let incident = Incident { host: String::new(), kind: IncidentKind::Tester, message };
            addenda.push(Event::Incident { trial: Some(ended), incident });
        }
        addenda
    }
}

/// Returns the exit of a campaign.
///
/// # Errors
/// If nothing was measured.
pub fn exit_of(summary: &RunSummary) -> Result<Exit> {
    match &summary.exit {
        linerate_control::Exit::Completed if summary.failed > 0 => Ok(Exit::Missed),
        linerate_control::Exit::Completed => Ok(Exit::Done),
        linerate_control::Exit::Interrupted => Ok(Exit::Interrupted),
        linerate_control::Exit::AgentLost(error)
        | linerate_control::Exit::RecorderFailed(error) => Err(Failure::missing(error)),
    }
}

fn header(request: &Request<'_>) -> CampaignHeader {
    let now = jiff::Timestamp::now();
    let started = Nanos(u64::try_from(now.as_nanosecond()).unwrap_or(0));
    let plan_sha256 = Sha256::digest(request.found.text.as_bytes())
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    CampaignHeader {
        // Two campaigns may begin in the same second on one host.
        id: format!("{}-{:04x}", now.strftime("%Y%m%dT%H%M%SZ"), std::process::id() & 0xffff),
        name: request.plan.name.clone(),
        started,
        plan: request.found.text.clone(),
        plan_sha256,
        lab: request.ground.lab_text.clone(),
        seed: request.plan.seed,
        testbed: request.ground.kind,
        capacities: request.ground.capacities.clone(),
        path: request.path.to_vec(),
        observed: Vec::new(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        argv: std::env::args().collect(),
    }
}

/// Campaign to continue.
struct Earlier {
    header: CampaignHeader,
    /// Its complete trials.
    done: HashSet<TrialId>,
    /// Recorded trials of its searches, and of points that are repeated until known.
    recorded: Vec<TrialRecord>,
    hosts: Vec<HostRecord>,
}

/// Returns the newest campaign of `ledger` with the same plan and lab, and its complete trials.
fn earlier(ledger: &Ledger, fresh: &CampaignHeader, trials: &[TrialSpec]) -> Result<Earlier> {
    // In the form that a ledger returns.
    let lab = fresh.lab.as_deref().map(|text| printable(text, Lines::Several));
    let n_planned = trials.iter().filter(|trial| is_planned(trial)).count();
    let found = ledger.newest(|campaign| {
        // Plans are compared by their hash: a plan that was edited is another campaign.
        campaign.header.plan_sha256 == fresh.plan_sha256
            && campaign.header.lab.as_deref() == lab.as_deref()
            && campaign.trials.iter().filter(|trial| is_planned(&trial.spec)).count() == n_planned
    })?;
    let Some(mut recording) = found else {
        let message = format!(
            "resume in {}: no campaign there has this plan and place (run it without --resume)",
            ledger.path().display()
        );
        return Err(Failure::wrong(message));
    };
    // A trial with a record that cannot be read is not complete: it runs again.
    recording.survey(decides)?;
    let Campaign { header, hosts, trials, .. } = recording.finish().campaign;
    let is_complete = |trial: &&TrialRecord| trial.outcome == Some(TrialOutcome::Completed);
    let done = trials.iter().filter(is_complete).map(|trial| trial.spec.id).collect();
    Ok(Earlier { header, done, recorded: trials.into_iter().filter(decides).collect(), hosts })
}

/// Returns whether later trials follow from the record of this one.
fn decides(trial: &TrialRecord) -> bool {
    let spec = &trial.spec;
    spec.search.is_some() || spec.until.is_some() || spec.point.contains_key(OFFERED_AXIS)
}

/// Returns whether the plan alone decides that the trial runs. The number of trials of searches, of
/// repeats until known, and of loads that follow from other trials is decided during the campaign.
fn is_planned(trial: &TrialSpec) -> bool {
    let follows = trial.arm.as_ref().is_some_and(|arm| arm.offered.is_some());
    trial.search.is_none()
        && !follows
        && trial.until.as_ref().is_none_or(|until| trial.repeat < until.first())
}

fn monotonic() -> Nanos {
    Nanos(linerate_sys::clock::monotonic())
}

/// Returns a flag for the conductor that Ctrl-C sets.
fn stop_on_interrupt() -> Result<Arc<AtomicBool>> {
    /// Interval between two looks for an interrupt.
    const POLL: Duration = Duration::from_millis(50);
    linerate_sys::signal::note_interrupts().map_err(Failure::missing)?;
    let stop = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&stop);
    // The thread ends with the program: it holds no resource.
    std::thread::spawn(move || {
        while !linerate_sys::signal::interrupted() {
            std::thread::sleep(POLL);
        }
        flag.store(true, Ordering::Relaxed);
    });
    Ok(stop)
}
