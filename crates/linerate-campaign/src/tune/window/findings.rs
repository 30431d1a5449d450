//! Findings about a window, as data. The field names are those of `linerate tune window --json`.

use linerate_analysis::fire_hose::{Attribution, Culprit, DropEvidence, Hose, Inferred, Onset};
use linerate_analysis::tune::{Choice, Effect, Proof, Report};
use linerate_model::{BitRate, Bytes, Metric, Verdict};
use linerate_report::sentences;
use serde::Serialize;

/// Least gain for which a window is worth setting, as a ratio of goodputs
/// (docs/methodology/diagnosis.md#verdict).
pub const WORTH: f64 = 1.1;

/// A stream with one window.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct WindowRow {
    /// Window, bytes; absent for the host's own.
    pub window: Option<u64>,
    /// Goodput, bit/s.
    pub goodput: f64,
    /// Segments sent again per segment.
    pub loss: f64,
    /// Largest window that the sender saw, bytes.
    pub seen: Option<u64>,
}

/// A setting that was tried.
#[derive(Clone, Debug, Serialize)]
pub struct TriedSetting {
    /// The command that makes it by hand.
    pub command: String,
    /// Largest window that the sender saw, bytes.
    pub seen: Option<u64>,
    /// True if it gives the window.
    pub holds: bool,
    /// Reason why it could not be set; empty if it was set.
    pub why: String,
}

/// The path.
#[derive(Clone, Debug, Serialize)]
pub struct MeasuredPath {
    /// Round-trip time on the idle path, s.
    pub round_trip_s: f64,
    /// Rate into the buffer, bit/s.
    pub feed_bit_per_s: f64,
    /// Rate out of the buffer, bit/s.
    pub drain_bit_per_s: f64,
    /// A full frame, bytes.
    pub frame_bytes: u64,
    /// Payload of a segment, bytes.
    pub mss_bytes: u64,
}

/// The buffer's size, bounded by trains.
#[derive(Clone, Debug, Serialize)]
pub struct MeasuredBuffer {
    /// Longest train that came through whole, frames.
    pub longest_train: u32,
    /// Lower bound, bytes.
    pub at_least_bytes: u64,
    /// Upper bound, bytes.
    pub less_than_bytes: u64,
    /// Losses that no buffer explains.
    pub stray_losses: u64,
}

/// The size that the controller reports, beside the trains.
#[derive(Clone, Debug, Serialize)]
pub struct ReportedBuffer {
    /// Size as reported, bytes.
    pub reported_bytes: u64,
    /// Agreement with the trains; absent where no train overran a buffer.
    pub trains: Option<Report>,
}

/// Windows that the buffer allows by calculation, beside the sweep.
#[derive(Clone, Debug, Serialize)]
pub struct BufferLaw {
    /// Largest window that is surely without loss, bytes.
    pub safe_window_bytes: u64,
    /// Smallest window at which loss may begin, bytes.
    pub onset_from_bytes: u64,
    /// Smallest window at which loss must have begun, bytes.
    pub onset_to_bytes: u64,
    /// True if a window without loss exists.
    pub loss_free_window_exists: bool,
    /// True if the path can be filled without loss.
    pub full_rate_without_loss: bool,
    /// Largest window without loss in the sweep, bytes.
    pub last_clean_bytes: Option<u64>,
    /// Smallest window with loss in the sweep, bytes.
    pub first_lossy_bytes: Option<u64>,
    /// True if the sweep agrees with the calculation.
    pub onset_within_bracket: Option<bool>,
}

/// The place that drops frames.
#[derive(Clone, Debug, Serialize)]
pub struct DropPlace {
    /// The place in words.
    pub culprit: &'static str,
    /// The counters that show it.
    pub evidence: String,
    /// The same as data.
    pub counters: DropEvidence,
    /// True if the counters leave no other place.
    pub certain: bool,
}

/// The window to try.
#[derive(Clone, Debug, Serialize)]
pub struct ChosenWindow {
    /// Window, bytes.
    pub window_bytes: u64,
    /// Calculated goodput without loss, bit/s.
    pub predicted_bit_per_s: f64,
    /// Goodput in the sweep over that with the host's own window.
    pub gain_in_sweep: f64,
    /// True if it had no loss in the sweep.
    pub clean: bool,
}

/// The effect of the setting on a figure other than the main one.
#[derive(Clone, Debug, Serialize)]
pub struct SideEffect {
    /// The metric.
    pub metric: &'static Metric,
    /// The effect, pair by pair.
    #[serde(flatten)]
    pub effect: Effect,
}

/// Findings of all stages.
#[derive(Debug, Default, Serialize)]
pub struct WindowFindings {
    /// Endpoint that sends.
    pub from: String,
    /// Endpoint that receives.
    pub to: String,
    /// Interface that is touched.
    pub interface: String,
    /// True if the path is emulated.
    pub emulated: bool,
    /// Congestion control of the streams.
    pub congestion: Option<String>,
    /// The path.
    pub path: Option<MeasuredPath>,
    /// The buffer; absent if no train overran one.
    pub buffer: Option<MeasuredBuffer>,
    /// The size that the controller reports.
    pub reported_buffer: Option<ReportedBuffer>,
    /// Windows that the buffer allows by calculation.
    pub law: Option<BufferLaw>,
    /// The place that drops frames.
    pub attribution: Option<DropPlace>,
    /// A stream with the host's own window.
    pub own_window: Option<WindowRow>,
    /// Streams with each window.
    pub windows: Vec<WindowRow>,
    /// The window to try.
    pub choice: Option<ChosenWindow>,
    /// Settings that were tried.
    pub tried: Vec<TriedSetting>,
    /// The proof.
    pub proof: Option<Proof>,
    /// Ratio of segments sent again, before and after.
    pub loss: Option<(f64, f64)>,
    /// Command of the placebo.
    pub placebo: String,
    /// Effects on other figures.
    pub side_effects: Vec<SideEffect>,
    /// The verdict.
    pub verdict: Option<Verdict>,
    /// True if no setting was to be changed.
    pub dry_run: bool,
    /// True if the setting stays.
    pub kept: bool,
    /// Commands that make the setting, for an init script.
    pub commands: Vec<String>,
    /// Command that puts the setting back.
    pub before: String,
    /// True if the agent refused the settings.
    #[serde(skip)]
    pub refused: bool,
}

impl WindowFindings {
    pub(super) fn set_path(&mut self, hose: &Hose) {
        self.path = Some(MeasuredPath {
            round_trip_s: hose.rtt.as_secs_f64(),
            feed_bit_per_s: hose.feed.0,
            drain_bit_per_s: hose.drain.0,
            frame_bytes: hose.frame.0,
            mss_bytes: hose.mss.0,
        });
    }

    pub(super) fn set_buffer(&mut self, found: Option<&Inferred>) {
        self.buffer = found.map(|found| MeasuredBuffer {
            longest_train: found.longest_train,
            at_least_bytes: found.buffer.start.0,
            less_than_bytes: found.buffer.end.0,
            stray_losses: found.stray_losses,
        });
    }

    pub(super) fn set_reported(&mut self, reported_bytes: u64, trains: Option<Report>) {
        self.reported_buffer = Some(ReportedBuffer { reported_bytes, trains });
    }

    pub(super) fn set_sweep(
        &mut self,
        hose: &Hose,
        own: &WindowRow,
        rows: Vec<WindowRow>,
        onset: &Onset,
        attribution: Option<Attribution>,
    ) {
        let bracket = hose.bracket();
        let [from, to] = bracket.onset();
        let bytes = |window: Option<Bytes>| window.map(|window| window.0);
        self.law = Some(BufferLaw {
            safe_window_bytes: bracket.safe.0,
            onset_from_bytes: from.0,
            onset_to_bytes: to.0,
            loss_free_window_exists: bracket.loss_free_exists(),
            full_rate_without_loss: bracket.full_rate_possible(),
            last_clean_bytes: bytes(onset.last_clean),
            first_lossy_bytes: bytes(onset.first_lossy),
            onset_within_bracket: onset.within(&bracket, hose),
        });
        self.own_window = Some(own.clone());
        self.windows = rows;
        self.attribution = attribution.map(|found| DropPlace {
            culprit: culprit(found.culprit),
            evidence: sentences::drops(&found.evidence),
            counters: found.evidence,
            certain: found.certain,
        });
    }

    pub(super) fn set_choice(&mut self, choice: &Choice, predicted: BitRate) {
        self.choice = Some(ChosenWindow {
            window_bytes: choice.point.window.0,
            predicted_bit_per_s: predicted.0,
            gain_in_sweep: choice.gain,
            clean: choice.clean,
        });
    }

    /// Returns whether the window helped much in too few pairs for a proof.
    #[must_use]
    pub fn indicates(&self) -> bool {
        let enough = |proof: &Proof| proof.effect.interval.is_none() && proof.effect.shift >= WORTH;
        self.proof
            .as_ref()
            .is_some_and(|proof| proof.verdict == Verdict::Suspected && enough(proof))
    }
}

const fn culprit(culprit: Culprit) -> &'static str {
    match culprit {
        Culprit::ControllerWindow => "the window overruns the controller's buffer",
        Culprit::ControllerOther => "the controller drops for another reason than the window",
        Culprit::Ring => "the host's receive ring or CPU",
        Culprit::Socket => "a socket of the host",
        Culprit::Elsewhere => "a place before the controller",
        Culprit::Pause => "pause frames",
        Culprit::NotLoss => {
            "nothing is lost: the window, the round trip or a CPU limits the stream"
        }
        Culprit::Nothing => "nothing is lost",
        Culprit::Unknown => "not known: the counters needed are missing",
    }
}
