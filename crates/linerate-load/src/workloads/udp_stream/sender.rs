//! Sending half of a worker: patches headers into pre-filled messages, one system call per batch.

use std::cell::OnceCell;
use std::io;

use linerate_model::{Counter, Counters, Nanos};
use linerate_sys::udp::{self, SendBatch, Wait};

use super::flow::Flow;
use super::{Segments, UdpStreamParams};
use crate::workloads::amount::Pool;
use crate::workloads::arrivals::{late_starts, mean_gap, share, very_late_starts};
use crate::workloads::datagram::write_header;
use crate::workloads::rendezvous::would_wait;
use crate::{Due, LoadError, Result, Tally};

/// Payload bytes beyond the header, without meaning.
const FILLING: u8 = 0x6c;

/// Amount that all workers of an end share, once one of them knows the size of a datagram.
#[derive(Debug, Default)]
pub(super) struct Pools(OnceCell<Option<Pool>>);

impl Pools {
    fn of(&self, params: &UdpStreamParams, datagram_bytes: usize) -> Option<Pool> {
        self.0.get_or_init(|| params.amount.datagrams(datagram_bytes as u64).map(Pool::new)).clone()
    }
}

/// Sender of one worker.
#[derive(Debug)]
pub(super) struct Sender {
    batch: SendBatch,
    pub(super) datagram_bytes: usize,
    /// Datagrams per full message.
    pub(super) segments: usize,
    messages: usize,
    /// Mean gap between datagrams of an open load, ns.
    mean_gap: Option<Nanos>,
    last_departure: Option<Nanos>,
    /// Datagrams that may still be sent; `None` for a load that ends with the trial.
    pool: Option<Pool>,
    wait: Wait,
}

impl Sender {
    /// Creates a sender for `flows`. Their sockets segment if a message has several datagrams.
    pub(super) fn new(
        params: &UdpStreamParams,
        flows: &[Flow],
        (wait, pools): (Wait, &Pools),
    ) -> Result<Self> {
        let fits = flows
            .iter()
            .map(|flow| udp::path_payload_bytes(&flow.socket))
            .try_fold(udp::MAX_PAYLOAD_BYTES, |least, bytes| bytes.map(|bytes| least.min(bytes)))?;
        let datagram_bytes = params.datagram_size.map_or(fits, |bytes| bytes.0 as usize);
        let most = if datagram_bytes > fits {
            1
        } else {
            udp::most_segments().min(udp::MAX_PAYLOAD_BYTES / datagram_bytes)
        };
        let segments = match params.gso {
            Segments::Auto if params.arrivals.is_open() => 1,
            Segments::Auto | Segments::Most => most,
            Segments::Number(number) if number as usize <= most => (number as usize).max(1),
            Segments::Number(number) => {
                return Err(LoadError::Unsupported {
                    what: format!("gso of {number} segments of {datagram_bytes} B"),
                    why: format!(
                        "at most {most} fit here: 64 KiB a message, the kernel's limit, and no \
                            segment above the path's {fits} B"
                    ),
                });
            }
        };
        if segments > 1 {
            // `datagram_bytes` is at most `MAX_PAYLOAD_BYTES`, which fits 16 bits.
            flows
                .iter()
                .try_for_each(|flow| udp::set_segment_size(&flow.socket, datagram_bytes as u16))?;
        }
        // A burst leaves in one call.
        let messages = params.batch.max(params.burst) as usize;
        let mut batch = SendBatch::new(messages, segments * datagram_bytes);
        (0..messages).for_each(|message| batch.message_mut(message).fill(FILLING));
        let rate = params.arrivals.rate.map(|rate| rate.per_second(datagram_bytes));
        let mean_gap =
            mean_gap(share(rate, params.arrival(), 1, flows.len(), params.placement.streams()));
        let pool = pools.of(params, datagram_bytes);
        let last_departure = None;
        Ok(Self { batch, datagram_bytes, segments, messages, mean_gap, last_departure, pool, wait })
    }

    /// Returns true once there is nothing left to send.
    pub(super) fn is_done(&self) -> bool {
        self.pool.as_ref().is_some_and(Pool::is_empty)
    }

    /// Returns the name of the mode in reports.
    pub(super) fn mode(&self) -> String {
        let wait = if self.wait == Wait::Block { "block" } else { "spin" };
        match (self.segments, self.messages) {
            (1, 1) => format!("one datagram a call, {wait}"),
            (1, n) => format!("{n} datagrams a call (sendmmsg), {wait}"),
            (segments, n) => format!("gso {segments} x {n} messages a call (sendmmsg), {wait}"),
        }
    }

    /// Sends one batch on `flow`; returns true if anything was sent. The datagrams carry the time
    /// `now` at which they depart, not the intended one: how late a worker wakes up is no jitter of
    /// the path.
    #[inline]
    pub(super) fn send(
        &mut self,
        flow: &mut Flow,
        due: Due,
        now: Nanos,
        tally: &mut Tally,
    ) -> bool {
        let open = self.mean_gap.is_some();
        let most = (due.operations as usize).min(self.messages * self.segments);
        let n = self.pool.as_ref().map_or(most, |pool| pool.take(most as u64) as usize);
        if n == 0 {
            if open {
                tally.defer(due.operations);
            }
            return false;
        }
        let n_messages = n.div_ceil(self.segments);
        let mut filled = 0;
        for message in 0..n_messages {
            let in_message = self.segments.min(n - filled);
            let datagrams = self.batch.message_mut(message).chunks_exact_mut(self.datagram_bytes);
            for (datagram, k) in datagrams.take(in_message).zip(filled as u64..) {
                write_header(datagram, flow.outward, flow.next_number + k, now);
            }
            self.batch.set_length(message, in_message * self.datagram_bytes);
            filled += in_message;
        }
        let answer = self.batch.send(&flow.socket, n_messages, self.wait);
        let mut change = Counters::default();
        change[Counter::CallsSent] = 1;
        let sent = self.settle(answer, n, &mut change);
        if let Some(pool) = &self.pool {
            pool.give_back((n - sent) as u64);
        }
        if open {
            tally.defer(due.operations - sent as u32);
        }
        if sent > 0 {
            flow.next_number += sent as u64;
            tally.departures.count_run(now, Nanos(0), sent as u64);
            self.note_departure(due, now, sent, &mut change, tally);
        }
        flow.counters.add(&change);
        tally.counters.add(&change);
        sent > 0
    }

    /// Counts the datagrams that the kernel took, of `n`.
    fn settle(&self, answer: io::Result<usize>, n: usize, change: &mut Counters) -> usize {
        match answer {
            Ok(messages) => {
                let sent = (messages * self.segments).min(n);
                change[Counter::MessagesSent] = messages as u64;
                change[Counter::DatagramsSent] = sent as u64;
                change[Counter::PayloadSent] = (sent * self.datagram_bytes) as u64;
                sent
            }
            Err(error) => {
                let kind =
                    if would_wait(&error) { Counter::WouldBlock } else { Counter::SendErrors };
                change[kind] = 1;
                0
            }
        }
    }

    #[inline]
    fn note_departure(
        &mut self,
        due: Due,
        now: Nanos,
        sent: usize,
        change: &mut Counters,
        tally: &mut Tally,
    ) {
        if let Some(last) = self.last_departure.replace(now) {
            tally.times.gap.record(now.since(last).0);
        }
        if let Some(gap) = self.mean_gap {
            change[Counter::LateStarts] = late_starts(now, due.intended, gap, sent as u64);
            change[Counter::VeryLateStarts] =
                very_late_starts(now, due.intended, due.gap, sent as u64);
        }
    }
}
