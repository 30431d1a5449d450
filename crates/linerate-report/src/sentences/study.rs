//! Sentences on figures that are withheld, on counts of observers, and on numbers of runs.

use linerate_analysis::{Looks, LooksEnded, PortNote, Refusal, Steady, SteadyOf};

use super::{share, time};
use crate::number::round_half_up;

/// Returns the reason why a number is no figure.
#[must_use]
pub fn refusal(refusal: &Refusal) -> String {
    match refusal {
        Refusal::BelowRange { value, least } => {
            format!("{value} is below {least}, the lowest possible value")
        }
        Refusal::AboveRange { value, most, tolerance } => format!(
            "{value:.4} is above its possible maximum of {most}, beyond the tolerance of \
             {tolerance:.4} for its clocks"
        ),
        Refusal::BelowPayload { frames, payload } => format!(
            "{frames:.4e} bit/s of frames is less than their payload of {payload:.4e} bit/s: the \
             device counts segments merged by GSO or GRO as one frame, or was read at other times \
             than the load"
        ),
        Refusal::MedianBelowPayload { frames, payload } => format!(
            "the median of {frames:.4e} bit/s of frames (of runs that count them) is less than \
             the median payload of {payload:.4e} bit/s"
        ),
        Refusal::WithinClocks { seconds, uncertainty } => {
            let measured = if seconds.is_finite() { time(*seconds) } else { "nothing".to_owned() };
            let known = time(*uncertainty);
            format!(
                "{measured} was measured, but the median of these times is within the uncertainty \
                 of the clocks ({known})"
            )
        }
        Refusal::SharedCpus { share: used, limit } => format!(
            "other programs used {} of the CPU time (limit {}). They change the cost of the load, \
             and the kernel does not attribute interrupts to programs. Stop them and repeat",
            share(*used),
            share(*limit)
        ),
        Refusal::Impossible(reason) => super::reason(reason),
    }
}

/// Returns a note on an observer's count.
#[must_use]
pub fn port_note(note: &PortNote) -> String {
    let text = match note {
        PortNote::FramesNotCounted { workload } => {
            return format!("the number of frames that {workload} sent is not counted");
        }
        PortNote::Unavailable { error } => error.as_str(),
        PortNote::TooWide { share: differ, limit } => {
            return format!(
                "inconclusive: both may differ by {} of the load this way, more than {}",
                share(*differ),
                share(*limit)
            );
        }
        PortNote::AskedAgain { interval } => {
            return format!(
                "its counters change every {interval:.1} s: it was asked until it had read them \
                 after the load"
            );
        }
        PortNote::TooSlow { interval } => {
            return format!(
                "its counters change every {interval:.1} s only: the trial is too short to compare"
            );
        }
        PortNote::Part { seconds, interval } => {
            return format!(
                "compared over {seconds:.1} s: its counters change every {interval:.1} s"
            );
        }
        PortNote::NoReadings => "the observer has no readings of the trial",
        PortNote::Reset => "its counters were reset during the trial",
        PortNote::TooFewReadings => "it was read fewer than two times",
        PortNote::EndsNotRead => "its octets were not read at both ends of the load",
        PortNote::SuperPackets => "the port counts super-packets: one set of headers for each",
        PortNote::Unchanged => "its counters did not change while there was load",
    };
    text.to_owned()
}

/// Returns whether a load was steady: `attained in 1 of 2 trials: range 20.5 %, trend 8.2 %`.
pub(crate) fn steady(steady: &Steady) -> String {
    let attained = match steady.of {
        SteadyOf::Trials { attained: 0, .. } => "not attained".to_owned(),
        SteadyOf::Trials { attained, of } if attained == of => "attained".to_owned(),
        SteadyOf::Trials { attained, of } => format!("attained in {attained} of {of} trials"),
        SteadyOf::Rounds { attained, first, last, of } => {
            let not = if attained { "" } else { "not " };
            format!("{not}attained in rounds {first} to {last} of {of}")
        }
    };
    let (range, trend) = (steady.range * 100.0, steady.excursion * 100.0);
    format!("{attained}: range {range:.1} %, trend {trend:.1} %")
}

/// Returns why a point is not repeated any more:
/// `narrow enough at look 1 of 5: ±0.8 % of ±2 % after 6 runs`.
pub(crate) fn looks(looks: &Looks) -> String {
    let percent = |share: f64| format!("±{} %", round_half_up(share * 100.0, 1));
    let asked = percent(looks.until.within.0);
    let last = looks.taken.last();
    let seen =
        last.and_then(|look| look.half_width).map_or_else(|| "no interval".to_owned(), percent);
    let (look, of) = (looks.taken.len(), looks.until.looks.len());
    match looks.ended {
        LooksEnded::Narrow => {
            format!(
                "narrow enough at look {look} of {of}: {seen} of {asked} after {} runs",
                looks.runs
            )
        }
        LooksEnded::Most => {
            format!("noise: {seen} after all {} runs, {asked} wanted", looks.runs)
        }
        LooksEnded::Noisy => {
            let variation = last.and_then(|look| look.variation).unwrap_or_default();
            format!(
                "noisy, stopped at look {look} of {of}: {} runs scatter by {} % (above {} % \
                    more runs do not help), {seen} of {asked}; find what disturbs them first: \
                    see incidents, drift and steal, or `linerate diagnose`",
                looks.runs,
                round_half_up(variation * 100.0, 0),
                round_half_up(Looks::UNSTABLE * 100.0, 0)
            )
        }
        LooksEnded::Short => {
            format!("cut short after {} runs: {seen}, {asked} wanted", looks.runs)
        }
    }
}

#[cfg(test)]
mod tests {
    use linerate_analysis::Look;
    use linerate_model::{Ratio, Until};

    use super::*;

    #[test]
    fn a_steady_state_names_its_trials_or_rounds() {
        let text = |of| steady(&Steady { of, range: 0.205, excursion: 0.082 });
        let trials = |attained, of| text(SteadyOf::Trials { attained, of });
        assert_eq!(trials(0, 2), "not attained: range 20.5 %, trend 8.2 %");
        assert_eq!(trials(1, 2), "attained in 1 of 2 trials: range 20.5 %, trend 8.2 %");
        assert_eq!(trials(2, 2), "attained: range 20.5 %, trend 8.2 %");
        let rounds = |attained| text(SteadyOf::Rounds { attained, first: 2, last: 6, of: 6 });
        assert!(rounds(false).starts_with("not attained in rounds 2 to 6 of 6: "));
        assert!(rounds(true).starts_with("attained in rounds 2 to 6 of 6: "));
    }

    #[test]
    fn a_point_whose_runs_scatter_names_their_scatter() {
        let until = Until { within: Ratio(0.02), of: None, looks: vec![6, 10, 15] };
        let noisy = Look {
            runs: 10,
            half_width: Some(0.31),
            variation: Some(0.53),
            is_enough: false,
            is_unstable: true,
        };
        let text = looks(&Looks {
            until,
            metric: None,
            taken: vec![noisy],
            runs: 10,
            ended: LooksEnded::Noisy,
        });
        assert!(text.starts_with("noisy, stopped at look 1 of 3: "), "{text}");
        assert!(text.contains(": 10 runs scatter by 53 % (above 30 %"), "{text}");
    }
}
