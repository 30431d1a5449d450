//! What tuning tells: what was found, what was changed, what it did, what got worse, and how to keep it.

use linerate_analysis::fire_hose::{Attribution, Culprit, Hose, Inferred, Onset};
use linerate_analysis::tune::{Change, Choice, Effect, Proof, Report};
use linerate_model::{BitRate, Bytes, Unit, Verdict, metric};
use serde::Serialize;
use serde_json::json;

use super::plans::Path;
use crate::cli::Global;
use crate::show::{quantity, table};

/// The least ratio at which a window is worth setting (methodology 5.3).
pub(super) const WORTH: f64 = 1.1;

/// A stream with one window.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct WindowRow {
    /// Bytes; absent for the host's own.
    pub(super) window: Option<u64>,
    /// Bit/s.
    pub(super) goodput: f64,
    /// Segments retransmitted per segment.
    pub(super) loss: f64,
    /// Largest window that the sender saw, bytes.
    pub(super) seen: Option<u64>,
}

/// A setting that was tried.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Tried {
    pub(super) command: String,
    pub(super) seen: Option<u64>,
    pub(super) holds: bool,
    pub(super) why: String,
}

#[derive(Clone, Debug, Serialize)]
struct PathTold {
    round_trip_s: f64,
    feed_bit_per_s: f64,
    drain_bit_per_s: f64,
    frame_bytes: u64,
    mss_bytes: u64,
}

#[derive(Clone, Debug, Serialize)]
struct BufferTold {
    longest_train: u32,
    at_least_bytes: u64,
    less_than_bytes: u64,
    stray_losses: u64,
}

/// What the controller says of its buffer, and whether the trains agree.
#[derive(Clone, Debug, Serialize)]
struct ReportTold {
    reported_bytes: u64,
    /// Absent where no train overran a buffer.
    trains: Option<Report>,
}

#[derive(Clone, Debug, Serialize)]
struct LawTold {
    safe_window_bytes: u64,
    onset_from_bytes: u64,
    onset_to_bytes: u64,
    loss_free_window_exists: bool,
    full_rate_without_loss: bool,
    last_clean_bytes: Option<u64>,
    first_lossy_bytes: Option<u64>,
    onset_within_bracket: Option<bool>,
}

#[derive(Clone, Debug, Serialize)]
struct AttributionTold {
    culprit: &'static str,
    evidence: String,
    certain: bool,
}

#[derive(Clone, Debug, Serialize)]
struct ChoiceTold {
    window_bytes: u64,
    predicted_bit_per_s: f64,
    gain_in_sweep: f64,
    clean: bool,
}

/// Everything that is told.
#[derive(Debug, Serialize)]
pub(super) struct Told {
    from: String,
    to: String,
    interface: String,
    emulated: bool,
    congestion: Option<String>,
    path: Option<PathTold>,
    buffer: Option<BufferTold>,
    reported_buffer: Option<ReportTold>,
    law: Option<LawTold>,
    attribution: Option<AttributionTold>,
    own_window: Option<WindowRow>,
    pub(super) windows: Vec<WindowRow>,
    choice: Option<ChoiceTold>,
    pub(super) tried: Vec<Tried>,
    pub(super) proof: Option<Proof>,
    pub(super) loss: Option<(f64, f64)>,
    pub(super) placebo: String,
    pub(super) side_effects: Vec<Effect>,
    pub(super) verdict: Option<Verdict>,
    pub(super) dry_run: bool,
    pub(super) kept: bool,
    /// Commands that set it, for an init script.
    pub(super) commands: Vec<String>,
    /// The command that puts it back.
    pub(super) before: String,
    #[serde(skip)]
    pub(super) refused: bool,
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
    fn indicates(&self) -> bool {
        let enough = |proof: &Proof| proof.effect.interval.is_none() && proof.effect.shift >= WORTH;
        self.proof.as_ref().is_some_and(|proof| proof.verdict == Verdict::Suspected && enough(proof))
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

/// Prints it, for people or programs.
pub(super) fn tell(told: &Told, global: Global) {
    if global.json {
        println!("{}", json!(told));
        return;
    }
    found(told);
    changed(told);
    did(told);
    keep(told);
}

fn rate(bits: f64) -> String {
    quantity(metric::GOODPUT, bits, Unit::BitPerSecond)
}

fn percent(ratio: f64) -> String {
    format!("{:+.1} %", (ratio - 1.0) * 100.0)
}

fn found(told: &Told) {
    let congestion = told.congestion.as_ref().map_or(String::new(), |name| format!(", {name}"));
    let emulated = if told.emulated { " (emulated)" } else { "" };
    println!("{} to {}{congestion}{emulated}\n\nFOUND", told.from, told.to);
    if let Some(path) = &told.path {
        println!(
            "  path      {} in, {} out, round trip {}",
            rate(path.feed_bit_per_s),
            rate(path.drain_bit_per_s),
            quantity(metric::RTT, path.round_trip_s, Unit::Second)
        );
    }
    match &told.buffer {
        Some(buffer) => println!(
            "  buffer    takes {} full frame{} back to back: at least {} B, less than {} B",
            buffer.longest_train,
            if buffer.longest_train == 1 { "" } else { "s" },
            buffer.at_least_bytes,
            buffer.less_than_bytes
        ),
        None => println!("  buffer    none that is shallow: no train overran it, and no window needs to be bounded"),
    }
    if let Some(report) = &told.reported_buffer {
        let worth = match report.trains {
            Some(Report::Agrees) => "the trains agree",
            Some(Report::Contradicted) => "the trains contradict it, and are believed",
            Some(Report::Silent) => "which means that it does not say",
            None => "no train overran it",
        };
        println!("  reported  {} B by the controller (Get Capabilities): {worth}", report.reported_bytes);
    }
    if let Some(law) = &told.law {
        law_told(law);
    }
    if let Some(said) = &told.attribution {
        let sure = if said.certain { "" } else { " (not certain)" };
        println!("  drops     {}{sure}: {}", said.culprit, said.evidence);
    }
    if let Some(own) = &told.own_window {
        println!("\n{}", windows(own, &told.windows));
    }
    if let Some(choice) = &told.choice {
        let clean = if choice.clean { "no loss" } else { "still some loss" };
        println!(
            "  window    {} B: {} for a stream in the sweep, {clean}; without loss the law allows {}",
            choice.window_bytes,
            percent(choice.gain_in_sweep),
            rate(choice.predicted_bit_per_s)
        );
        if choice.gain_in_sweep < 1.0 {
            println!("            no window does better than the host's own: this one costs more than it gives");
        } else if choice.gain_in_sweep < WORTH {
            println!("            no window does better than the host's own by a tenth");
        }
    }
}

fn law_told(law: &LawTold) {
    println!(
        "  law       safe up to {} B; loss begins between {} B and {} B",
        law.safe_window_bytes, law.onset_from_bytes, law.onset_to_bytes
    );
    if !law.loss_free_window_exists {
        println!("            no loss-free window exists: the buffer holds less than two segments");
        println!("            pace the sender at the slow link's rate, or slow the fast link: a window cannot cure it");
    } else if !law.full_rate_without_loss {
        println!(
            "            the path cannot be filled without loss: the safe window is less than it holds in a round trip"
        );
    }
    let bytes = |window: Option<u64>| window.map_or("none".to_owned(), |bytes| format!("{bytes} B"));
    let agrees = match law.onset_within_bracket {
        Some(true) => ", as predicted",
        Some(false) => ", not as predicted",
        None => "",
    };
    println!(
        "  onset     largest clean window {}, smallest lossy one {}{agrees}",
        bytes(law.last_clean_bytes),
        bytes(law.first_lossy_bytes)
    );
}

fn windows(own: &WindowRow, rows: &[WindowRow]) -> String {
    let head = ["window", "seen by the sender", "goodput", "retransmitted"].map(str::to_owned);
    let bytes = |window: Option<u64>, none: &str| window.map_or(none.to_owned(), |bytes| format!("{bytes} B"));
    let row = |row: &WindowRow| {
        let loss = format!("{:.2} %", row.loss * 100.0);
        vec![bytes(row.window, "its own"), bytes(row.seen, "-"), rate(row.goodput), loss]
    };
    table("Windows, per socket", &head, &[own].into_iter().chain(rows).map(row).collect::<Vec<_>>())
}

fn changed(told: &Told) {
    if told.tried.is_empty() {
        return;
    }
    println!("\nCHANGED on {}, interface {}", told.to, told.interface);
    for tried in &told.tried {
        let result = match (tried.holds, tried.seen) {
            (true, Some(seen)) => format!("holds: the sender saw {seen} B"),
            (false, Some(seen)) => format!("does not hold: the sender saw {seen} B"),
            (_, None) if tried.why.is_empty() => "could not be checked: the sender's kernel does not tell".to_owned(),
            (_, None) => tried.why.clone(),
        };
        println!("  {}\n    {result}", tried.command);
    }
}

fn effect_line(effect: &Effect, unit: Unit) -> String {
    let name = effect.figure.split(' ').next().unwrap_or_default();
    let interval = match effect.interval {
        Some((low, high)) => format!("[{}, {}]", percent(low), percent(high)),
        None => "no interval".to_owned(),
    };
    let value = |value| quantity(name, value, unit);
    // The medians of all runs and the typical change of a pair are two figures: of noisy runs they may point to different sides.
    let is_clear = effect.interval.is_some_and(|(low, high)| low > 1.0 || high < 1.0);
    let change = if is_clear { "typical pair" } else { "no clear change: typical pair" };
    format!(
        "{:<42} medians {} -> {}; {change} {} {interval}, n = {}",
        effect.figure,
        value(effect.before),
        value(effect.after),
        percent(effect.shift),
        effect.n
    )
}

fn unit_of(effect: &Effect) -> Unit {
    if effect.figure.starts_with("response") { Unit::Second } else { Unit::BitPerSecond }
}

fn did(told: &Told) {
    let Some(proof) = &told.proof else { return };
    println!("\nDID");
    println!("  {}", effect_line(&proof.effect, unit_of(&proof.effect)));
    if let Some(placebo) = &proof.placebo {
        println!("  {}", effect_line(&Effect { figure: "  placebo".into(), ..placebo.clone() }, Unit::BitPerSecond));
        println!("    ({})", told.placebo);
    }
    if let Some((before, after)) = told.loss {
        println!("  {:<42} {:.2} % -> {:.2} %", "retransmitted", before * 100.0, after * 100.0);
    }
    let word = match proof.verdict {
        Verdict::Proven => "proven",
        Verdict::Suspected => "suspected",
        Verdict::Inconclusive => "inconclusive",
    };
    let what = match proof.effect.change {
        Change::Better => "the setting helps",
        Change::Worse => "the setting costs more than it gives",
        Change::None => "the setting changes nothing",
        Change::Unclear => "what the setting does is not clear",
    };
    let why = if proof.why.is_empty() { String::new() } else { format!(": {}", proof.why) };
    println!("  {word}: {what}{why}");
    for (title, wanted) in [
        ("WORSE", Change::Worse),
        ("BETTER", Change::Better),
        ("NO CHANGE", Change::None),
        ("NOT CLEAR", Change::Unclear),
    ] {
        let mut these = told.side_effects.iter().filter(|effect| effect.change == wanted).peekable();
        if these.peek().is_some() {
            println!("\n{title}");
        } else if wanted == Change::Worse {
            println!("\nWORSE: nothing else that was measured");
        }
        these.for_each(|effect| println!("  {}", effect_line(effect, unit_of(effect))));
    }
}

fn keep(told: &Told) {
    if told.commands.is_empty() {
        if !told.tried.is_empty() {
            println!(
                "\nNo setting gave the window; nothing is changed. An application can bound it itself (TCP_WINDOW_CLAMP)."
            );
        }
        return;
    }
    let helps = told.proof.as_ref().is_some_and(|proof| proof.effect.change == Change::Better);
    if told.kept {
        println!("\nKEPT until the next boot. For an init script of {}:", told.to);
    } else if told.dry_run && told.choice.as_ref().is_some_and(|choice| choice.gain_in_sweep < WORTH) {
        println!(
            "\nNothing was changed, and nothing is advised. What would give {} that window, narrowest first:",
            told.to
        );
    } else if told.dry_run {
        println!(
            "\nNothing was changed. For an init script of {}, narrowest first (kernels since 6.6 lift a route's window):",
            told.to
        );
    } else if helps {
        println!("\nPUT BACK. To keep it, run with --keep, or in an init script of {}:", told.to);
    } else if told.indicates() {
        println!(
            "\nPUT BACK: an indication, no proof. For the proof leave out --quick. What was tried on {}:",
            told.to
        );
    } else {
        println!("\nPUT BACK, and not advised. What was tried on {}:", told.to);
    }
    told.commands.iter().for_each(|command| println!("  {command}"));
    if told.kept {
        println!("and to undo it:\n  {}", told.before);
    }
}
