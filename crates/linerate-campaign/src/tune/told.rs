//! What came of tuning a window, as data.

use linerate_analysis::fire_hose::{Attribution, Culprit, Hose, Inferred, Onset};
use linerate_analysis::tune::{Choice, Effect, Proof, Report};
use linerate_model::{BitRate, Bytes, Verdict};
use serde::Serialize;

use super::plans::Path;

/// The least ratio at which a window is worth setting (docs/methodology/diagnosis.md#verdict).
pub const WORTH: f64 = 1.1;

/// A stream with one window.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct WindowRow {
    /// Bytes; absent for the host's own.
    pub window: Option<u64>,
    /// Bit/s.
    pub goodput: f64,
    /// Segments retransmitted per segment.
    pub loss: f64,
    /// Largest window that the sender saw, bytes.
    pub seen: Option<u64>,
}

/// A setting that was tried.
#[derive(Clone, Debug, Serialize)]
pub struct Tried {
    /// The command.
    pub command: String,
    /// The largest window that the sender saw, bytes.
    pub seen: Option<u64>,
    /// Whether it gives the window.
    pub holds: bool,
    /// Why it was not to be had.
    pub why: String,
}

/// The path.
#[derive(Clone, Debug, Serialize)]
pub struct PathTold {
    /// Round trip with nothing waiting, s.
    pub round_trip_s: f64,
    /// What goes in, bit/s.
    pub feed_bit_per_s: f64,
    /// What comes out, bit/s.
    pub drain_bit_per_s: f64,
    /// A full frame, bytes.
    pub frame_bytes: u64,
    /// Payload of a segment, bytes.
    pub mss_bytes: u64,
}

/// The buffer, as trains found it.
#[derive(Clone, Debug, Serialize)]
pub struct BufferTold {
    /// The longest train that came through whole.
    pub longest_train: u32,
    /// It holds so much, bytes.
    pub at_least_bytes: u64,
    /// It holds less than this, bytes.
    pub less_than_bytes: u64,
    /// Losses that no buffer explains.
    pub stray_losses: u64,
}

/// What the controller says of its buffer, and whether the trains agree.
#[derive(Clone, Debug, Serialize)]
pub struct ReportTold {
    /// What the controller says, bytes.
    pub reported_bytes: u64,
    /// Absent where no train overran a buffer.
    pub trains: Option<Report>,
}

/// What the law of the buffer says, and whether the sweep agrees.
#[derive(Clone, Debug, Serialize)]
pub struct LawTold {
    /// The largest window that is surely without loss, bytes.
    pub safe_window_bytes: u64,
    /// Loss begins here at the earliest, bytes.
    pub onset_from_bytes: u64,
    /// Loss begins here at the latest, bytes.
    pub onset_to_bytes: u64,
    /// Whether a window without loss exists.
    pub loss_free_window_exists: bool,
    /// Whether the path can be filled without loss.
    pub full_rate_without_loss: bool,
    /// The largest window without loss in the sweep, bytes.
    pub last_clean_bytes: Option<u64>,
    /// The smallest with loss, bytes.
    pub first_lossy_bytes: Option<u64>,
    /// Whether the sweep agrees with the law.
    pub onset_within_bracket: Option<bool>,
}

/// Who drops.
#[derive(Clone, Debug, Serialize)]
pub struct AttributionTold {
    /// Who.
    pub culprit: &'static str,
    /// By which counters.
    pub evidence: String,
    /// Whether that is certain.
    pub certain: bool,
}

/// The window that is chosen.
#[derive(Clone, Debug, Serialize)]
pub struct ChoiceTold {
    /// The window, bytes.
    pub window_bytes: u64,
    /// What the law allows without loss, bit/s.
    pub predicted_bit_per_s: f64,
    /// Goodput over that of the host's own window.
    pub gain_in_sweep: f64,
    /// Whether it had no loss.
    pub clean: bool,
}

/// Everything that is told.
#[derive(Debug, Serialize)]
pub struct Told {
    /// Who sends.
    pub from: String,
    /// Who receives.
    pub to: String,
    /// The interface that is touched.
    pub interface: String,
    /// Whether the path is emulated.
    pub emulated: bool,
    /// Congestion control of the streams.
    pub congestion: Option<String>,
    /// The path.
    pub path: Option<PathTold>,
    /// The buffer.
    pub buffer: Option<BufferTold>,
    /// What the controller says of it.
    pub reported_buffer: Option<ReportTold>,
    /// The law.
    pub law: Option<LawTold>,
    /// Who drops.
    pub attribution: Option<AttributionTold>,
    /// A stream with the host's own window.
    pub own_window: Option<WindowRow>,
    /// Streams with each window.
    pub windows: Vec<WindowRow>,
    /// The window chosen.
    pub choice: Option<ChoiceTold>,
    /// Settings that were tried.
    pub tried: Vec<Tried>,
    /// The proof.
    pub proof: Option<Proof>,
    /// Retransmitted share before and after.
    pub loss: Option<(f64, f64)>,
    /// The placebo.
    pub placebo: String,
    /// What else changed.
    pub side_effects: Vec<Effect>,
    /// The verdict.
    pub verdict: Option<Verdict>,
    /// Whether nothing was to be changed.
    pub dry_run: bool,
    /// Whether the setting stays.
    pub kept: bool,
    /// Commands that set it, for an init script.
    pub commands: Vec<String>,
    /// The command that puts it back.
    pub before: String,
    /// Whether the agent refused the settings.
    #[serde(skip)]
    pub refused: bool,
}

impl Told {
    pub(super) fn new(path: &Path, device: &str, emulated: bool) -> Self {
        Self {
            from: path.from.clone(),
            to: path.to.clone(),
            interface: device.to_owned(),
            emulated,
            congestion: path.congestion.clone(),
            path: None,
            buffer: None,
            reported_buffer: None,
            law: None,
            attribution: None,
            own_window: None,
            windows: Vec::new(),
            choice: None,
            tried: Vec::new(),
            proof: None,
            loss: None,
            placebo: String::new(),
            side_effects: Vec::new(),
            verdict: None,
            dry_run: false,
            kept: false,
            commands: Vec::new(),
            before: String::new(),
            refused: false,
        }
    }

    pub(super) fn path(&mut self, hose: &Hose) {
        self.path = Some(PathTold {
            round_trip_s: hose.rtt.as_secs_f64(),
            feed_bit_per_s: hose.feed.0,
            drain_bit_per_s: hose.drain.0,
            frame_bytes: hose.frame.0,
            mss_bytes: hose.mss.0,
        });
    }

    pub(super) fn buffer(&mut self, found: Option<&Inferred>) {
        self.buffer = found.map(|found| BufferTold {
            longest_train: found.longest_train,
            at_least_bytes: found.buffer.start.0,
            less_than_bytes: found.buffer.end.0,
            stray_losses: found.stray_losses,
        });
    }

    pub(super) fn reported(&mut self, reported_bytes: u64, trains: Option<Report>) {
        self.reported_buffer = Some(ReportTold { reported_bytes, trains });
    }

    pub(super) fn sweep(
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
        self.law = Some(LawTold {
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
        self.attribution = attribution.map(|said| AttributionTold {
            culprit: culprit(said.culprit),
            evidence: said.evidence,
            certain: said.certain,
        });
    }

    /// Whether the window did much good in too few pairs to be sure.
    #[must_use]
    pub fn indicates(&self) -> bool {
        let enough = |proof: &Proof| proof.effect.interval.is_none() && proof.effect.shift >= WORTH;
        self.proof
            .as_ref()
            .is_some_and(|proof| proof.verdict == Verdict::Suspected && enough(proof))
    }

    pub(super) fn choose(&mut self, choice: &Choice, predicted: BitRate) {
        self.choice = Some(ChoiceTold {
            window_bytes: choice.point.window.0,
            predicted_bit_per_s: predicted.0,
            gain_in_sweep: choice.gain,
            clean: choice.clean,
        });
    }
}

fn culprit(culprit: Culprit) -> &'static str {
    match culprit {
        Culprit::ControllerWindow => "the window overruns the controller's buffer",
        Culprit::ControllerOther => "the controller drops for another reason than the window",
        Culprit::Ring => "the host's receive ring or CPU",
        Culprit::Socket => "a socket of the host",
        Culprit::Elsewhere => "somewhere before the controller",
        Culprit::Pause => "pause frames",
        Culprit::NotLoss => "nothing is lost: window, round trip or CPU",
        Culprit::Nothing => "nothing is lost",
        Culprit::Unknown => "not known: the counters needed are missing",
    }
}
