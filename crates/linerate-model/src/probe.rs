//! Record of a path probe: the datagrams that one end sent or received, one by one.
//!
//! Columns are kept as differences between neighbours on the wire and in the ledger, where most of
//! them have one to five digits. Sizes are UDP payload bytes. Times are nanoseconds of the
//! monotonic clock of the end that took them.

use serde::{Deserialize, Serialize};

use crate::{BitRate, Bytes, Nanos};

/// Record of one end of a path probe.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ProbeRecord {
    /// Phases in the order in which they were sent. Empty at the receiver.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub phases: Vec<ProbePhase>,
    /// At the receiver: datagrams in the order of their arrival. At the sender: answers to
    /// datagrams that asked for one, with the time that the receiver spent subtracted, so that
    /// `received - sent` is the round-trip time.
    #[serde(default)]
    pub series: ProbeSeries,
    /// Payload of the largest datagram that was answered. `None` at the receiver, or if no size was
    /// answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub largest: Option<Bytes>,
    /// Payload that the routed MTU of the sender's interface allows. `None` at the receiver.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub routed: Option<Bytes>,
    /// Bytes of the IP and UDP headers of each datagram.
    #[serde(default)]
    pub header_bytes: u64,
    /// At the receiver: datagrams that were sent as ECN-capable, by the code point that arrived.
    #[serde(default, skip_serializing_if = "EcnCounts::is_empty")]
    pub ecn: EcnCounts,
}

/// Datagrams that were sent with the ECN field ECT(0), by the field that arrived (RFC 3168 clause
/// 5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct EcnCounts {
    /// ECT(0), or ECT(1), which is ECN-capable as well.
    pub kept: u64,
    /// CE: a queue marked them.
    pub marked: u64,
    /// Not-ECT: the path does not carry ECN.
    pub cleared: u64,
}

impl EcnCounts {
    /// Returns the number of datagrams.
    #[must_use]
    pub const fn total(&self) -> u64 {
        self.kept + self.marked + self.cleared
    }

    const fn is_empty(&self) -> bool {
        self.total() == 0
    }
}

/// Datagrams by number, with the time at which each was sent and received.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProbeSeries {
    /// Sequence number.
    #[serde(with = "differences")]
    pub number: Vec<u64>,
    /// Time of the system call that sent it, by the sender's clock, ns.
    #[serde(with = "differences")]
    pub sent_ns: Vec<u64>,
    /// Time of arrival in the receiving kernel, by the receiver's clock, ns.
    #[serde(with = "differences")]
    pub received_ns: Vec<u64>,
}

impl ProbeSeries {
    /// Returns an empty series with room for `n` datagrams.
    #[must_use]
    pub fn with_capacity(n: usize) -> Self {
        let column = || Vec::with_capacity(n);
        Self { number: column(), sent_ns: column(), received_ns: column() }
    }

    /// Adds a datagram if there is room for it without an allocation; returns whether there was.
    #[inline]
    pub fn add(&mut self, number: u64, sent_ns: u64, received_ns: u64) -> bool {
        let has_room = self.number.len() < self.number.capacity()
            && self.sent_ns.len() < self.sent_ns.capacity()
            && self.received_ns.len() < self.received_ns.capacity();
        if has_room {
            self.number.push(number);
            self.sent_ns.push(sent_ns);
            self.received_ns.push(received_ns);
        }
        has_room
    }

    /// Returns number, time of sending and time of arrival of each datagram.
    pub fn rows(&self) -> impl Iterator<Item = (u64, u64, u64)> + '_ {
        let columns = self.number.iter().zip(&self.sent_ns).zip(&self.received_ns);
        columns.map(|((number, sent), received)| (*number, *sent, *received))
    }
}

/// Purpose of a phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProbeKind {
    /// Small datagrams, far apart: round-trip time and loss without load.
    Idle,
    /// Datagrams of different sizes: the path MTU (RFC 8899).
    Sizes,
    /// Trains of datagrams back to back: the rate at which a burst leaves the path.
    Train,
    /// One step of a rate that doubles until the path cannot carry it.
    Ramp,
    /// Small datagrams until the queue of the ramp is empty.
    Settle,
    /// A constant rate above the rate that the path can carry, or at the limit of the probe.
    Flood,
}

/// Datagrams that were sent for one purpose, at one size and rate.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProbePhase {
    /// Purpose.
    pub kind: ProbeKind,
    /// Number of its first datagram.
    pub first: u64,
    /// Datagrams sent.
    pub n: u64,
    /// Payload of each. In a phase of sizes, that of the largest.
    pub payload: Bytes,
    /// Rate at which IP packets were to be sent; `None` if back to back or far apart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<BitRate>,
    /// Time of the first datagram by the sender's clock.
    pub from: Nanos,
    /// Time of the last datagram.
    pub until: Nanos,
    /// Reason of its end.
    pub ended: ProbeEnd,
}

/// Reason of the end of a phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProbeEnd {
    /// It was complete.
    Complete,
    /// More than 5 % was lost for 200 ms.
    Loss,
    /// The limit of bytes or of recorded datagrams was reached.
    Bytes,
    /// Its time was over.
    Time,
}

/// Columns as their first value and the differences between neighbours.
mod differences {
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(values: &[u64], to: S) -> Result<S::Ok, S::Error> {
        let before = std::iter::once(0).chain(values.iter().copied());
        to.collect_seq(
            values
                .iter()
                .zip(before)
                .map(|(value, before)| value.wrapping_sub(before).cast_signed()),
        )
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<u64>, D::Error> {
        let steps = Vec::<i64>::deserialize(from)?;
        let mut value = 0_u64;
        Ok(steps.into_iter().map(|step| sum(&mut value, step)).collect())
    }

    /// Adds `step` to `value`, and returns it.
    fn sum(value: &mut u64, step: i64) -> u64 {
        *value = value.wrapping_add_signed(step);
        *value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_travel_as_differences_and_come_back_whole() {
        let mut series = ProbeSeries::with_capacity(3);
        for (number, sent, received) in [(7, 1_000, u64::MAX), (9, 1_010, 5), (8, 1_005, 3)] {
            assert!(series.add(number, sent, received));
        }
        assert!(!series.add(1, 1, 1), "no room, no allocation");
        let text = serde_json::to_string(&series).expect("numbers");
        assert_eq!(text, r#"{"number":[7,2,-1],"sent_ns":[1000,10,-5],"received_ns":[-1,6,-2]}"#);
        assert_eq!(serde_json::from_str::<ProbeSeries>(&text).expect("its own text"), series);
    }
}
