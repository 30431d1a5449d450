//! Sentences on figures that are withheld, and on counts of observers.

use linerate_analysis::{PortNote, Refusal};

use super::{share, time};

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
        Refusal::Impossible(reason) => reason.to_string(),
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
