//! Events as the bodies of records: JSON, and blobs for what comes many times a second.

use linerate_model::{Event, Interval, Lines, Side, TrialId, printable, printable_json};
use serde::Serialize;
use serde_json::Value;

use crate::blob::{self, BlobError, KnownSeries};
use crate::budget::Budget;

/// Intervals of one job's end.
pub(crate) const INTERVALS: &str = "intervals";
/// Flows of one job's end.
pub(crate) const FLOWS: &str = "flows_ended";
/// Readings of one host.
pub(crate) const SAMPLES: &str = "samples";
/// A campaign begins or is resumed.
pub(crate) const CAMPAIGN: &str = "campaign_started";
/// Kind of the record of planned trials.
pub(crate) const PLAN: &str = "planned";
/// A trial begins, anew if it was begun before.
pub(crate) const TRIAL: &str = "trial_started";

/// Longer JSON is compressed.
const MOST_PLAIN_BYTES: usize = 1024;
/// First byte of a body of plain JSON, and of compressed JSON.
const PLAIN: u8 = 0;
const PACKED: u8 = 1;
/// Memory that JSON takes for each of its bytes once it is a tree: `[[],[],...]` is the worst.
const TREE_BYTES_A_BYTE: usize = 16;

/// True for what comes many times a second: it is most of a ledger.
pub(crate) fn is_bulk(kind: &str) -> bool {
    matches!(kind, INTERVALS | FLOWS | SAMPLES)
}

/// Body of an event other than intervals.
pub(crate) fn encode(event: &Event) -> Vec<u8> {
    match event {
        // Intervals, flows and readings come many times a second; JSON would make a ledger many
        // times larger.
        Event::Intervals { job, side, intervals, .. } => {
            encode_intervals(*job, *side, &intervals.iter().collect::<Vec<_>>())
        }
        Event::FlowsEnded { job, side, flows, .. } => {
            of_end(*job, *side, &blob::encode_flows(flows))
        }
        Event::Samples { host, block, .. } => {
            let n_bytes = u32::try_from(host.len()).unwrap_or(u32::MAX).to_le_bytes();
            // The host's name is outside of the compressed part, in front of it.
            [&n_bytes[..], host.as_bytes(), &blob::encode_samples(block)].concat()
        }
        other => {
            let text = json(other).into_bytes();
            if text.len() > MOST_PLAIN_BYTES {
                [&[PACKED][..], &blob::pack(&text)].concat()
            } else {
                [&[PLAIN][..], &text].concat()
            }
        }
    }
}

/// Body of intervals of one job's end, at most [`blob::MAX_INTERVALS`].
pub(crate) fn encode_intervals(job: u32, side: Side, intervals: &[&Interval]) -> Vec<u8> {
    of_end(job, side, &blob::encode_intervals(intervals))
}

/// The event that the body of a record of this kind and trial is.
pub(crate) fn decode(
    kind: &str,
    trial: Option<TrialId>,
    body: &[u8],
    budget: &Budget,
    known: &mut KnownSeries,
) -> Result<Event, BlobError> {
    let of_trial = || trial.ok_or_else(|| BlobError::Content("an event of no trial".to_owned()));
    match kind {
        INTERVALS => {
            let (job, side, blob) = end_of(body)?;
            let intervals = blob::decode_intervals(blob, budget)?;
            Ok(Event::Intervals { trial: of_trial()?, job, side, intervals })
        }
        FLOWS => {
            let (job, side, blob) = end_of(body)?;
            Ok(Event::FlowsEnded {
                trial: of_trial()?,
                job,
                side,
                flows: blob::decode_flows(blob, budget)?,
            })
        }
        SAMPLES => {
            let (n_bytes, rest) = body.split_first_chunk().ok_or(BlobError::Truncated)?;
            let (host, blob) = rest
                .split_at_checked(u32::from_le_bytes(*n_bytes) as usize)
                .ok_or(BlobError::Truncated)?;
            let host = String::from_utf8(host.to_vec());
            let host =
                host.map_err(|_| BlobError::Content("a host's name that is not UTF-8".to_owned()))?;
            let host = printable(&host, Lines::One).into_owned();
            Ok(Event::Samples {
                trial: of_trial()?,
                host,
                block: blob::decode_samples(blob, budget, known)?,
            })
        }
        _ => {
            let event: Event = match body.split_first().ok_or(BlobError::Truncated)? {
                (&PLAIN, text) => parse(text, budget)?,
                (&PACKED, blob) => parse(&blob::unpack(blob, budget)?, budget)?,
                _ => return Err(BlobError::Content("neither text nor compressed text".to_owned())),
            };
            // The label is in the clear and has a check of its own. A body that contradicts it
            // belongs to another record.
            if (kind_of(&event), event.trial()) == (kind, trial) {
                Ok(event)
            } else {
                Err(BlobError::Content("another event than its label says".to_owned()))
            }
        }
    }
}

fn parse(text: &[u8], budget: &Budget) -> Result<Event, BlobError> {
    let mut event: Event = parse_lines(text, Lines::One, budget)?;
    // A plan may have several lines, and everything else in the header one. The event is parsed
    // both ways, and only the plan is taken from the second.
    if let Event::CampaignStarted(header) = &mut event
        && let Event::CampaignStarted(whole) = parse_lines(text, Lines::Several, budget)?
    {
        header.keep_lines_of(*whole);
    }
    Ok(event)
}

/// Whoever wrote the file: no terminal and no report obeys what is in it.
fn parse_lines(text: &[u8], lines: Lines, budget: &Budget) -> Result<Event, BlobError> {
    let text = &*printable_json(text, lines);
    budget.take(text.len(), TREE_BYTES_A_BYTE)?;
    let event = serde_json::from_slice(text)
        .map_err(|error| BlobError::Content(format!("no event: {error}")));
    // The text becomes a tree and is dropped; about its own length stays as the event.
    budget.give(text.len(), TREE_BYTES_A_BYTE - 1);
    event
}

fn of_end(job: u32, side: Side, blob: &[u8]) -> Vec<u8> {
    let side = match side {
        Side::Active => 0,
        Side::Passive => 1,
    };
    [&job.to_le_bytes()[..], &[side], blob].concat()
}

fn end_of(body: &[u8]) -> Result<(u32, Side, &[u8]), BlobError> {
    let (job, rest) = body.split_first_chunk().ok_or(BlobError::Truncated)?;
    let (side, blob) = rest.split_first().ok_or(BlobError::Truncated)?;
    let side = match side {
        0 => Side::Active,
        1 => Side::Passive,
        _ => return Err(BlobError::Content("no such side".to_owned())),
    };
    Ok((u32::from_le_bytes(*job), side, blob))
}

/// The word for what an event is, as it is on the wire.
pub(crate) fn kind_of(event: &Event) -> &'static str {
    match event {
        Event::CampaignStarted(_) => CAMPAIGN,
        Event::HostJoined(_) => "host_joined",
        Event::Planned { .. } => PLAN,
        Event::TrialChosen { .. } => "trial_chosen",
        Event::TrialStarted { .. } => TRIAL,
        Event::BarrierPassed { .. } => "barrier_passed",
        Event::ClocksCompared { .. } => "clocks_compared",
        Event::Intervals { .. } => INTERVALS,
        Event::FlowsEnded { .. } => FLOWS,
        Event::Samples { .. } => SAMPLES,
        Event::Incident { .. } => "incident",
        Event::TrialEnded { .. } => "trial_ended",
        Event::CampaignEnded { .. } => "campaign_ended",
    }
}

/// `value` as JSON, without the passwords of addresses in it.
pub(crate) fn json(value: &impl Serialize) -> String {
    const SURE: &str = "the model's types have string keys and finite numbers";
    let text = serde_json::to_string(value).expect(SURE);
    // Only addresses can hold passwords, and building a tree costs as much as writing. Most events
    // have none.
    if !text.contains("://") {
        return text;
    }
    let mut tree: Value = serde_json::to_value(value).expect(SURE);
    linerate_model::redact(&mut tree);
    tree.to_string()
}
