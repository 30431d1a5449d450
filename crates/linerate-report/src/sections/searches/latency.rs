//! Latency at shares of the throughput that the search found (RFC 2544 26.2, RFC 8219 7).

use linerate_analysis::{LatencyAtLoad, SearchRun, SearchStudy};
use linerate_model::Unit;

use super::{each_run, number_of, place, scale};
use crate::document::{Sheet, Table};
use crate::number::Scale;

/// Reason why a time is not known.
const FEW: &str = "too few frames, or too many lost";

/// Returns a row for each run and load; `None` if no search measured latency.
pub(super) fn table(searches: &[SearchStudy]) -> Option<Table> {
    measured(searches).next()?;
    let loads = scale(searches);
    let times =
        Scale::fit(Unit::Second, measured(searches).filter_map(|(_, _, at)| at.latency.typical));
    let mut sheet = Sheet::new(measured(searches));
    sheet.text("search", |(search, ..)| place(search));
    sheet.number("run", Scale::COUNT, |(_, run, _)| number_of(run));
    sheet.number("load", loads, |(.., at)| at.load);
    sheet.number("of the throughput", Scale::PERCENT, |(_, run, at)| {
        at.load / run.latencies.iter().map(|at| at.load).fold(0.0, f64::max)
    });
    sheet.number("trials", Scale::COUNT, |(.., at)| at.n_trials as f64);
    sheet.number("frames", Scale::COUNT, |(.., at)| at.latency.n as f64);
    sheet.number_or("TL", times, FEW, |(.., at)| at.latency.typical);
    sheet.number_or("WCL", times, FEW, |(.., at)| at.latency.worst_case);
    sheet.number_or("PDV", times, FEW, |(.., at)| at.latency.variation);
    sheet.number("least", times, |(.., at)| at.latency.least);
    let between = |at: &LatencyAtLoad| at.latency.inter_packet;
    sheet.number_or("IPDV, least", times, "-", |(.., at)| between(at).map(|(least, ..)| least));
    sheet
        .number_or("IPDV, median", times, "-", |(.., at)| between(at).map(|(_, median, _)| median));
    sheet.number_or("IPDV, most", times, "-", |(.., at)| between(at).map(|(.., most)| most));
    let note = "One way, from a frame's departure to its receipt by one clock, store-and-forward \
        delay included; a lost frame is infinitely slow. TL is the median, WCL the 99.9th \
        percentile (of 10 000 frames of a trial at least), PDV that less the smallest, IPDV the \
        difference between frames that follow each other; each the median over the trials.";
    let table = sheet.plain("searches-latency", "Latency at shares of the throughput");
    Some(Table { note: Some(note.into()), ..table })
}

/// Returns each latency that a run of a search measured.
fn measured(
    searches: &[SearchStudy],
) -> impl Iterator<Item = (&SearchStudy, &SearchRun, &LatencyAtLoad)> {
    each_run(searches)
        .flat_map(|(search, run)| run.latencies.iter().map(move |at| (search, run, at)))
}
