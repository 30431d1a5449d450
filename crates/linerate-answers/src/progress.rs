//! Lines on searches and on repeated points while a campaign runs.

use linerate_analysis::search::Bounds;
use linerate_analysis::{Look, SearchTrial};
use linerate_model::{TrialSpec, Until, Validity};
use linerate_report::sentences;

use crate::plan::coordinate;

/// Returns the state of a point that is repeated until known, in one line.
#[must_use]
pub fn looked(trial: &TrialSpec, look: &Look, until: &Until, more: usize) -> String {
    let percent = |share: f64| format!("±{:.1} %", share * 100.0);
    let seen = look.half_width.map_or_else(|| "no interval".to_owned(), percent);
    let then = match more {
        0 if look.is_enough => "precise enough".to_owned(),
        0 if look.is_unstable => {
            let variation = look.variation.unwrap_or_default() * 100.0;
            format!("noisy: runs scatter by {variation:.0} %, and more do not help")
        }
        0 => "noisy: the most runs are done".to_owned(),
        more => format!("{more} more runs"),
    };
    format!(
        "{}: {seen} of {} after {} runs: {then}",
        coordinate(trial),
        percent(until.within.0),
        look.runs
    )
}

/// Returns the result of a search's trial, in one line.
#[must_use]
pub fn learnt(trial: &TrialSpec, result: &SearchTrial, found: &[(String, Bounds)]) -> String {
    let Some(searched) = &trial.search else { return String::new() };
    let rate = |load: Option<f64>| {
        load.map_or_else(|| "-".to_owned(), |load| searched.search.unit.told(load))
    };
    let standing = match result.validity {
        Validity::Valid => String::new(),
        Validity::Suspect => " (tainted)".to_owned(),
        Validity::Invalid | Validity::Impossible => {
            let why: Vec<String> = result.why.iter().map(sentences::reason).collect();
            format!(" (INVALID: {})", why.join("; "))
        }
    };
    let bounds: Vec<String> = found
        .iter()
        .map(|(goal, found)| format!("{goal} {} to {}", rate(found.lower), rate(found.upper)))
        .collect();
    format!(
        "  {} {} for {}: {} ({:.3} %){standing}  {}",
        result.purpose,
        searched.search.unit.told(result.load),
        result.duration,
        missing(result),
        result.loss_ratio * 100.0,
        bounds.join(", ")
    )
}

/// Returns the losses of a trial, and the frames not sent: these are not lost, though a search
/// counts them like a loss beyond the edges of the load.
fn missing(result: &SearchTrial) -> String {
    let lost = format!("{} of {} lost", result.sent.saturating_sub(result.received), result.sent);
    match result.intended.saturating_sub(result.sent) {
        0 => lost,
        unsent => format!("{lost}, {unsent} not sent"),
    }
}

#[cfg(test)]
mod tests {
    use linerate_model::Nanos;

    use super::*;

    #[test]
    fn a_frame_that_was_not_sent_is_not_counted_as_lost() {
        let of = |intended, sent, received| {
            missing(&SearchTrial {
                load: 1e3,
                duration: Nanos::from_secs(1),
                intended,
                sent,
                received,
                ..SearchTrial::default()
            })
        };
        assert_eq!(of(1_000, 1_000, 990), "10 of 1000 lost");
        assert_eq!(of(1_000, 999, 999), "0 of 999 lost, 1 not sent");
    }
}
