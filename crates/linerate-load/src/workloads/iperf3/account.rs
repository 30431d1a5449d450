//! Counts of a session's streams, as counters of the trial.

use linerate_iperf3::drive::{Session, StreamNow};
use linerate_model::{Counter, Counters, ForeignEnd, Nanos};

use crate::Tally;

/// Counts of one stream, which is one flow.
#[derive(Clone, Debug, Default)]
pub(super) struct StreamAccount {
    /// Totals that the tally has.
    pub(super) counters: Counters,
    /// Highest number of a datagram, plus one.
    pub(super) next_sequence: u64,
}

impl StreamAccount {
    /// Adds to `tally` by how much the stream `now` and what is `acknowledged` of it have risen.
    /// Returns true if there was payload.
    pub(super) fn count(
        &mut self,
        now: &StreamNow<'_>,
        acknowledged: Option<u64>,
        tally: &mut Tally,
    ) -> bool {
        let before = self.counters;
        let totals = &mut self.counters;
        let (bytes, datagrams, calls) = if now.sends {
            (Counter::PayloadSent, Counter::DatagramsSent, Counter::CallsSent)
        } else {
            (Counter::PayloadReceived, Counter::DatagramsReceived, Counter::CallsReceived)
        };
        totals[bytes] = now.bytes;
        totals[datagrams] = now.datagrams;
        totals[calls] = now.calls;
        totals[Counter::Duplicates] = now.duplicates;
        totals[Counter::Reordered] = now.reordered;
        totals[Counter::DelayChange] = (now.changes.0 * 1e9) as u64;
        totals[Counter::DelayChanges] = now.changes.1;
        if !now.sends {
            totals[Counter::SequenceAdvance] = now.highest;
        }
        if let Some(acknowledged) = acknowledged {
            // The end of a connection is acknowledged too, and is no payload.
            totals[Counter::PayloadAcknowledged] = acknowledged.min(now.bytes);
        }
        self.next_sequence = now.highest;
        tally.counters.add(&totals.since(&before));
        totals[bytes] > before[bytes]
    }
}

/// Returns what the server reports of the stream at `place`; `None` if it reports nothing.
pub(super) fn of_server(session: &Session, place: usize, is_udp: bool) -> Option<ForeignEnd> {
    let sends = session.streams().nth(place)?.sends;
    let (all, theirs) = (session.server_results()?, session.server_stream(place)?);
    let packets = u64::try_from(theirs.packets).unwrap_or(0);
    let mut counters = Counters::default();
    if sends {
        counters[Counter::PayloadReceived] = theirs.bytes;
        if is_udp {
            // Its own loss lacks the datagrams after the last one that arrived.
            counters[Counter::DatagramsReceived] = theirs.bytes / session.length().max(1) as u64;
        }
    } else {
        counters[Counter::PayloadSent] = theirs.bytes;
        counters[Counter::DatagramsSent] = if is_udp { packets } else { 0 };
    }
    Some(ForeignEnd {
        counters,
        next_sequence: if is_udp { packets } else { 0 },
        time: Nanos::from_secs_f64(theirs.seconds),
        retransmits: theirs.retransmits.filter(|_| !sends && !is_udp),
        cpu: Some(all.cpu[0] / 100.0),
    })
}
