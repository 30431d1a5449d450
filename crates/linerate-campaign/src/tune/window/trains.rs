//! Search for the buffer's size: trains of datagrams, back to back, until one overruns it.

use linerate_analysis::fire_hose::{BufferSearch, Hose, Inferred};
use linerate_analysis::tune::trains;

use super::ends::Ends;
use super::readings::trial;
use crate::stages::Bench;
use crate::{Ended, Exit, Failure};

/// Lengths that the search asks for while it doubles. They are sent in one campaign.
const DOUBLINGS: [u32; 7] = [1, 2, 4, 8, 16, 32, 64];
/// Time between trains, ms: a sideband of 100 Mbit/s drains 125 kB in it.
const TRAIN_GAP_MS: u32 = 10;
/// Most lengths between two bounds that are sent in one campaign instead of halving the range.
const FEW_LENGTHS: u32 = 8;

/// Sends trains until it is known how many frames come through whole. Returns `None` if no train
/// overran a buffer.
pub(super) fn search(
    bench: &dyn Bench,
    ends: &Ends,
    hose: &Hose,
) -> Result<Option<Inferred>, Ended> {
    let mut search = BufferSearch::new();
    let mut lengths = DOUBLINGS.to_vec();
    while let Some(wanted) = search.next() {
        if !lengths.contains(&wanted) {
            lengths = vec![wanted];
        }
        // The next train must find the buffer empty: twice the time that this one takes to drain.
        let drained_ms = f64::from(wanted) * 2.0 * hose.frame.bits() / hose.drain.0 * 1e3;
        let gap_ms = TRAIN_GAP_MS.max(drained_ms.ceil() as u32);
        let name = format!("trains-{}", lengths.iter().max().unwrap_or(&wanted));
        let draft = ends.path.draft("tune-trains", 1, &ends.path.trains(&lengths, gap_ms));
        let (campaign, _) = bench.observe(&name, &draft)?;
        let seen: Vec<_> = lengths
            .iter()
            .filter_map(|&length| trains(trial(&campaign, &format!("train {length}"))?, length))
            .collect();
        let before = search.next();
        while let Some(next) = search.next() {
            let Some(sent) = seen.iter().find(|sent| sent.length == next) else { break };
            search.observe(sent.length, sent.sent, sent.lost);
        }
        // A stage that taught the search nothing would be repeated for ever.
        if search.next() == before {
            let message = format!("tune: trains of {wanted} datagrams could not be sent");
            return Err(Failure::new(Exit::Invalid, message).into());
        }
        let outcomes: Vec<(u32, bool)> =
            seen.iter().map(|sent| (sent.length, sent.lost == 0)).collect();
        lengths = next_lengths(&outcomes, search.next());
    }
    Ok(search.inferred(hose))
}

/// Returns the lengths of the next campaign: every length between the longest train that passed and
/// the shortest that did not, if those are few, else `next` alone.
fn next_lengths(seen: &[(u32, bool)], next: Option<u32>) -> Vec<u32> {
    let Some(next) = next else { return Vec::new() };
    let lengths = |whole: bool| {
        seen.iter().filter(move |(_, passed)| *passed == whole).map(|(length, _)| *length)
    };
    let passed = lengths(true).filter(|length| *length < next).max();
    let failed = lengths(false).filter(|length| *length > next).min();
    match (passed, failed) {
        (Some(passed), Some(failed)) if failed - passed <= FEW_LENGTHS => {
            (passed + 1..failed).collect()
        }
        _ => vec![next],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_lengths_are_sent_together_and_many_one_by_one() {
        let seen = [(1, true), (2, true), (4, true), (8, false), (16, false)];
        assert_eq!(next_lengths(&seen, Some(6)), [5, 6, 7]);
        let wide = [(16, true), (32, false)];
        assert_eq!(next_lengths(&wide, Some(24)), [24]);
        assert_eq!(next_lengths(&[(64, true)], Some(128)), [128]);
        assert_eq!(next_lengths(&seen, None), [0_u32; 0]);
    }
}
