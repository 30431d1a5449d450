//! The receive window that a shallow buffer survives: found, applied, proven, and put back.
//!
//! The stages, each a campaign in a ledger of its own:
//!
//! 1. `look`: the path's rates and round-trip time.
//! 2. `trains`: the buffer's size.
//! 3. `sweep`: goodput and loss over the window, per socket; one window is chosen.
//! 4. `settle`: the narrowest setting that gives this window (not in a dry run).
//! 5. `proof`: runs with and without the setting, beside a placebo.
//!
//! Not seen: other traffic on the path during the measurement.

mod ends;
mod findings;
mod look;
mod proof;
mod readings;
mod settle;
mod sweep;
#[cfg(test)]
mod tests;
mod trains;

use linerate_analysis::tune::Change;
use linerate_model::{Capacity, Endpoint, Verdict};

pub use findings::{BufferLaw, SideEffect, WORTH, WindowFindings, WindowRow};

use super::plans::Path;
use super::settings::{Present, WindowScope, questions};
use super::{Sessions, Settings};
use crate::stages::Bench;
use crate::{Ended, Exit, Failure, Result};
use ends::Ends;
use settle::Wanted;

/// Returns the number of pairs of the proof where none is chosen.
#[must_use]
pub const fn usual_pairs(is_quick: bool) -> u32 {
    /// Six pairs are the fewest that carry an interval at 95 %.
    const PAIRS: u32 = 6;
    const FEW_PAIRS: u32 = 3;
    if is_quick { FEW_PAIRS } else { PAIRS }
}

/// Options of `tune window`.
#[derive(Clone, Debug, PartialEq)]
pub struct WindowTuning {
    /// The interface that may be touched; `None` for the one that the route back leads out of.
    pub interface: Option<String>,
    /// Congestion control of the streams.
    pub congestion: String,
    /// True to measure only, and change nothing.
    pub dry_run: bool,
    /// True to keep the setting if it is proven to help.
    pub keep: bool,
    /// True to try fewer windows.
    pub quick: bool,
    /// Pairs of the proof.
    pub pairs: u32,
    /// Length of each run of a stream, s.
    pub seconds: Option<f64>,
    /// Warm-up of each run, s.
    pub omit: f64,
}

/// Sender and receiver, the session that changes the receiver's settings, and their present values.
pub struct Asked {
    ends: Ends,
    tuner: Box<dyn Settings>,
    /// The settings as they are.
    pub present: Present,
}

/// Opens the session that changes settings of the receiver's host, and reads their present values.
///
/// # Errors
/// If the host cannot be reached or does not report its settings, or if its route leads out of
/// another interface than the one that may be touched.
pub fn ask(
    sessions: &(impl Sessions + ?Sized),
    endpoints: &[Endpoint],
    (from, to): (&Endpoint, &Endpoint),
    tuning: &WindowTuning,
) -> Result<Asked> {
    let ends = ends_of(endpoints, (from, to), tuning);
    let host = &to.host;
    let console = from
        .address
        .ok_or_else(|| Failure::wrong(format!("tune: endpoint {} has no address", from.name)))?;
    let mut tuner = sessions.open(host)?;
    let present = Present::of(tuner.read(questions(console))?).ok_or_else(|| {
        Failure::missing(format!("read settings of {host}: its agent left some out"))
    })?;
    match &tuning.interface {
        Some(wanted) if wanted != present.device() => Err(Failure::wrong(format!(
            "tune {wanted} of {host}: its route to {console} leads out of {0}, which may not be \
                touched (allow it with --interface {0})",
            present.device()
        ))),
        _ => Ok(Asked { ends, tuner, present }),
    }
}

/// Finds the window, applies the setting that gives it, proves its effect, and puts it back.
/// Returns the findings and the exit of the command. `capacities` are the declared ones of the
/// path.
///
/// # Errors
/// If a stage could not be run to its end, the path could not be measured, or a setting could not
/// be put back.
pub fn tune(
    bench: &dyn Bench,
    asked: Asked,
    capacities: &[Capacity],
    emulated: bool,
    tuning: &WindowTuning,
) -> Result<(WindowFindings, Exit), Ended> {
    let Asked { ends, mut tuner, present } = asked;
    let tuner = tuner.as_mut();
    let mut findings = WindowFindings {
        from: ends.path.from.clone(),
        to: ends.path.to.clone(),
        interface: present.device().to_owned(),
        emulated,
        congestion: ends.path.congestion.clone(),
        ..WindowFindings::default()
    };
    let found = look::find(bench, &ends, capacities, tuning.quick, &mut findings)?;
    let Some(choice) = found.choice else {
        return Ok((findings, Exit::Done));
    };
    let wanted = Wanted { window: choice.point.window.0, mss: found.hose.mss.0 };
    findings.set_choice(&choice, found.hose.goodput(choice.point.window));
    if tuning.dry_run {
        for way in [WindowScope::Route, WindowScope::Host] {
            // Until the kernel has learned better, half of a receive buffer is window
            // (tcp_adv_win_scale 1).
            let setting = present.setting(way, wanted.window, wanted.mss, 2 * wanted.window);
            findings.commands.push(present.command(&setting));
        }
        findings.dry_run = true;
        return Ok((findings, Exit::Done));
    }
    let settled = settle::settle(bench, &ends, tuner, &present, wanted, &mut findings)?;
    let Some((way, setting)) = settled else {
        findings.verdict = Some(Verdict::Inconclusive);
        let exit = if findings.refused { Exit::Missing } else { Exit::Missed };
        return Ok((findings, exit));
    };
    findings.commands.push(present.command(&setting));
    findings.before = present.before(way);
    let change = (&present, way, &setting);
    let proof = proof::compare(bench, &ends, tuning.pairs, tuner, change, &mut findings)?;
    let helped = proof.verdict == Verdict::Proven && proof.effect.change == Change::Better;
    findings.verdict = Some(proof.verdict);
    findings.proof = Some(proof);
    tuner.revert()?;
    if tuning.keep && helped {
        tuner.apply(vec![setting])?;
        tuner.keep()?;
        findings.kept = true;
    }
    let exit = if helped { Exit::Done } else { Exit::Missed };
    Ok((findings, exit))
}

fn ends_of(
    endpoints: &[Endpoint],
    (from, to): (&Endpoint, &Endpoint),
    tuning: &WindowTuning,
) -> Ends {
    let is_third = |endpoint: &&Endpoint| endpoint.host != to.host && endpoint.host != from.host;
    let path = Path {
        from: from.name.clone(),
        to: to.name.clone(),
        other: endpoints.iter().find(is_third).map(|endpoint| endpoint.name.clone()),
        congestion: Some(tuning.congestion.clone()),
        milliseconds: tuning.seconds.map(|seconds| (seconds * 1e3).ceil() as u32),
        omit_ms: (tuning.omit * 1e3).round() as u32,
    };
    Ends { from: from.clone(), to: to.clone(), path }
}
