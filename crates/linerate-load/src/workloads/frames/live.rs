//! Mode `live`: the kernel makes the frames (`BPF_PROG_RUN` with live frames) and redirects them to
//! the driver; the receiver uses AF_XDP. It is the fastest mode where the driver takes such frames.
//! A veth takes them if its peer has an XDP program, which the receiving end installs.
//!
//! Frames that the driver took count as sent, by the kernel's counter. The others are send drops,
//! although their numbers are used up. The kernel does not report their flows, so they are divided
//! evenly: with refused frames, the account of single flows is approximate, while that of the job
//! stays exact. This mode bypasses the queueing discipline. A batch leaves back to back at any
//! pace, and the lateness in each frame shows it.

use linerate_model::{Counter, Counters};
use linerate_packet::frame::{FCS_BYTES, Headers, Ports, SIGNATURE_BYTES, Template};
use linerate_sys::live::{Counts, LiveFrames, MOST_BATCH, Row, Shape};

use super::PortChoice;
use super::backend::{FlowPlan, Opening, Order, Transmit};
use super::filler::unfit;
use super::numbering::Numbering;
use crate::Result;

/// Frames of one call: two milliseconds of them. A call costs what about fifty frames cost.
const CALL: u32 = 8192;
/// Positions of number and times in a signature.
const STAMP_AT: usize = 6;

/// Sender of live frames.
#[derive(Debug)]
pub(super) struct LiveTransmit {
    live: LiveFrames,
    n_flows: usize,
    numbering: Numbering,
    overhead: u64,
    batch: u32,
    counts: Counts,
}

impl LiveTransmit {
    pub(super) fn open(opening: &Opening<'_>) -> Result<Self> {
        let params = opening.params;
        let random = params.ports == PortChoice::Random;
        // The checksum includes the drawn ports, so it cannot be made beforehand.
        let without_ports: Vec<FlowPlan> =
            if random { opening.flows.iter().map(portless).collect() } else { Vec::new() };
        let opening =
            &Opening { flows: if random { &without_ports } else { opening.flows }, ..*opening };
        let templates = opening.templates().map_err(unfit)?;
        let first = templates.first().expect("a worker has a flow, and a flow a size");
        let (checksum_at, _) = first.checksum_base();
        let shape = Shape {
            header_bytes: first.signature_at() + SIGNATURE_BYTES,
            checksum_at,
            stamp_at: first.signature_at() + STAMP_AT,
            random_ports_at: random.then(|| first.ports_at()),
        };
        let overhead = (first.signature_at() + FCS_BYTES) as u64;
        let batch = params.batch.min(MOST_BATCH);
        let n_flows = opening.flows.len();
        let live =
            LiveFrames::open(&opening.interface.name, &rows(opening, &templates), shape, batch);
        let mut live = live?;
        live.seed(opening.seed);
        let numbering = Numbering::new(n_flows, opening.sizes().clone());
        Ok(Self { live, n_flows, numbering, overhead, batch, counts: Counts::default() })
    }

    /// Returns the driver's refusals that count for the `flow_idx`-th flow.
    fn refused(&self, flow_idx: usize) -> u64 {
        // The kernel does not say which flows were refused: they are divided evenly.
        let (n_flows, dropped) = (self.n_flows as u64, self.counts.made - self.counts.sent);
        dropped / n_flows + u64::from((flow_idx as u64) < dropped % n_flows)
    }

    /// Returns the transport payload of all frames that the driver took; refused frames count with
    /// the mean size.
    fn payload(&self) -> u64 {
        (0..self.n_flows).map(|flow_idx| self.sent(flow_idx).1).sum()
    }
}

fn portless(flow: &FlowPlan) -> FlowPlan {
    let headers = Headers { ports: Ports { source: 0, destination: 0 }, ..flow.headers.clone() };
    FlowPlan { headers, ..flow.clone() }
}

/// Returns one round in which each flow sends each size of the genome, in the order of
/// [`Numbering`].
fn rows(opening: &Opening<'_>, templates: &[Template]) -> Vec<Row> {
    let distinct = opening.sizes().distinct();
    let mut rows = Vec::new();
    for size in opening.sizes().all() {
        let size_idx = distinct.iter().position(|one| *one == usize::from(*size));
        let size_idx = size_idx.expect("every size has a template");
        for flow_idx in 0..opening.flows.len() {
            let template = &templates[flow_idx * distinct.len() + size_idx];
            rows.push(Row {
                frame: template.bytes().to_vec(),
                sum: template.checksum_base().1,
                flow: flow_idx as u32,
            });
        }
    }
    rows
}

impl Transmit for LiveTransmit {
    fn mode(&self) -> String {
        let calls = if self.live.is_swift() { "" } else { " (each 20 ms late: no CAP_SYS_ADMIN)" };
        format!(
            "live: made by the kernel (BPF_PROG_RUN), past the queueing discipline, up to {CALL} \
                frames a call{calls}, {} at a time to the driver",
            self.batch
        )
    }

    fn batch(&self) -> u32 {
        CALL
    }

    fn stamps_itself(&self) -> bool {
        true
    }

    #[inline]
    fn send(&mut self, order: Order, change: &mut Counters) -> u32 {
        // As fast as possible there is no schedule: each frame carries the time at which it was
        // made.
        let start = if order.intended == order.now { 0 } else { order.intended.0 };
        self.live.schedule(start, order.gap.0);
        let (before, payload) = (self.counts, self.payload());
        change[Counter::CallsSent] += 1;
        let made = self.live.send(order.n);
        change[Counter::SendErrors] += u64::from(made.is_err());
        let Ok(counts) = self.live.counts() else {
            change[Counter::SendErrors] += 1;
            return 0;
        };
        // Frames that were made have used up their numbers, whether or not the driver took them.
        self.numbering.advance(counts.made - before.made);
        self.counts = counts;
        let sent = counts.sent - before.sent;
        // Counters of the kernel may be read between its two updates.
        change[Counter::SendDrops] += (counts.made - before.made).saturating_sub(sent);
        change[Counter::DatagramsSent] += sent;
        change[Counter::MessagesSent] += sent;
        change[Counter::PayloadSent] =
            // The estimate may fall when refusals are divided anew, so the change wraps.
            change[Counter::PayloadSent].wrapping_add(self.payload().wrapping_sub(payload));
        sent as u32
    }

    fn sent(&self, flow_idx: usize) -> (u64, u64) {
        let (frames, bytes) = self.numbering.sent(flow_idx);
        let payload = bytes - self.overhead * frames;
        let sent = frames - self.refused(flow_idx).min(frames);
        // The sizes of refused frames are not known either, so they count with the mean.
        let kept = if frames == 0 {
            0
        } else {
            u128::from(payload) * u128::from(sent) / u128::from(frames)
        };
        (sent, kept as u64)
    }
}
