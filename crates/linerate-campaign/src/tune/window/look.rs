//! First stage: round-trip time, rates into and out of the buffer, and a stream with the host's own
//! window.

use linerate_analysis::fire_hose::Hose;
use linerate_analysis::tune::{Choice, rates, reading_of, report};
use linerate_model::{BitRate, Bytes, Capacity, Nanos, metric, series};

use super::ends::Ends;
use super::findings::{WORTH, WindowFindings};
use super::readings::{trial, typical};
use super::{sweep, trains};
use crate::stages::Bench;
use crate::{Ended, Exit, Failure};

/// An Ethernet header: what a frame holds beyond its packet in a buffer (IEEE 802.3 clause 3.2).
const ETHERNET_HEADER: u64 = 14;

/// The path before any change.
pub(super) struct Found {
    pub(super) hose: Hose,
    /// The window to try; `None` if the path has no shallow buffer.
    pub(super) choice: Option<Choice>,
}

/// Looks at the path, finds its buffer and sweeps the window.
pub(super) fn find(
    bench: &dyn Bench,
    ends: &Ends,
    capacities: &[Capacity],
    quick: bool,
    findings: &mut WindowFindings,
) -> Result<Found, Ended> {
    let (campaign, study) =
        bench.observe("look", &ends.path.draft("tune-look", 1, &ends.path.look()))?;
    let incident = campaign.trials.iter().flat_map(|trial| &trial.incidents).next();
    let why = incident.map_or("no figure came of it", |incident| &incident.message);
    let missing = |what: &str| {
        Failure::new(Exit::Invalid, format!("tune: {what} could not be measured: {why}"))
    };
    let rtt = typical(&study, "round trip", metric::RESPONSE_TIME_P50)
        .ok_or_else(|| missing("the round-trip time"))?;
    let flood =
        trial(&campaign, "flood").and_then(rates).ok_or_else(|| missing("the rate of the path"))?;
    let stream = trial(&campaign, "as it is")
        .ok_or_else(|| missing("a stream with the host's own window"))?;
    let flows = stream.jobs.first().map(|(active, _)| &active.flows[..]).unwrap_or_default();
    let mss = flows
        .iter()
        .filter_map(|flow| flow.tcp)
        .map(|tcp| tcp.send_mss)
        .max()
        .filter(|mss| *mss > 0)
        .ok_or_else(|| missing("a stream with the host's own window"))?;
    // A flood is counted where it is sent, and datagrams that the sender's own queue drops never
    // see the link: a declared capacity of the link is the better bound.
    let leaves = |pairs: &[(String, String)]| pairs.iter().any(|(from, _)| *from == ends.path.from);
    let fastest = capacities
        .iter()
        .filter(|capacity| leaves(&capacity.pairs))
        .map(|capacity| capacity.rate.0)
        .reduce(f64::max);
    let fastest = fastest.filter(|rate| *rate > flood.drain.0 * WORTH).unwrap_or(flood.feed.0);
    let mut hose = Hose {
        buffer: Bytes(0),
        burst: Bytes(0),
        feed: BitRate(fastest.max(flood.drain.0)),
        drain: flood.drain,
        frame: flood.packet + Bytes(ETHERNET_HEADER),
        mss: Bytes(mss.into()),
        rtt: Nanos::from_secs_f64(rtt),
        flows: 1,
    };
    findings.set_path(&hose);
    let buffer = trains::search(bench, ends, &hose)?;
    findings.set_buffer(buffer.as_ref());
    if let Some(reported) = reading_of(stream, &ends.to.host, series::ncsi::RECEIVE_BUFFER) {
        let agreement = buffer.as_ref().map(|found| report(reported as u64, found));
        findings.set_reported(reported as u64, agreement);
    }
    let Some(buffer) = buffer else {
        return Ok(Found { hose, choice: None });
    };
    hose.buffer = Bytes(buffer.buffer.start.0.midpoint(buffer.buffer.end.0));
    let frames = u64::from(buffer.longest_train);
    let choice = sweep::sweep(bench, ends, quick, &hose, frames, findings)?;
    Ok(Found { hose, choice: Some(choice) })
}
