//! Queueing disciplines of each device, over netlink: bytes and packets sent, drops, requeues,
//! overlimits, and what waits now. Bytes are L2 without FCS (plus what `tc stab` adds); packets
//! count GSO segments singly.
//!
//! Not seen: `noqueue` devices, which have no queue to look at, disciplines made after the trial
//! began, and drops inside the driver or the device.

use linerate_model::SeriesSpec;
use linerate_model::series::qdisc;
use linerate_sys::netlink::{Qdisc, RouteSocket};

use crate::wrapping::Wrapping;
use crate::{Probe, Sampler, Scope, Unavailable, devices};

const N_COLUMNS: usize = 7;

/// Queueing disciplines.
pub(super) const SAMPLER: Sampler = Sampler {
    name: qdisc::SAMPLER.text(),
    summary: "bytes, packets, drops, requeues, overlimits and backlog of each queueing discipline \
        over netlink; not queues inside the device",
    open,
};

fn open(scope: &Scope) -> Result<Box<dyn Probe>, Unavailable> {
    let unavailable = |error: linerate_sys::SysError| Unavailable(error.to_string());
    let links = devices::in_scope(scope)?;
    let mut socket = RouteSocket::open().map_err(unavailable)?;
    let mut queues = Vec::new();
    socket
        .qdiscs(|qdisc: &Qdisc<'_>| {
            // A `noqueue` device passes packets straight on: all its counters stay zero.
            let link = links.iter().find(|link| link.index == qdisc.index);
            if let Some(link) = link.filter(|_| qdisc.kind != "noqueue") {
                queues.push(Queue::new(&link.name, qdisc));
            }
        })
        .map_err(unavailable)?;
    if queues.is_empty() {
        return Err(Unavailable(
            "no device in scope has a queueing discipline with a queue".to_owned(),
        ));
    }
    Ok(Box::new(Reader { socket, queues }))
}

struct Queue {
    /// Device, kind and handle, or the parent where the handle is 0: `eth0 fq 8001:`, `eth0
    /// fq_codel of :1`.
    label: String,
    identity: (u32, u32, u32),
    drops: Wrapping,
    requeues: Wrapping,
    overlimits: Wrapping,
}

impl Queue {
    fn new(device: &str, qdisc: &Qdisc<'_>) -> Self {
        let place = if qdisc.handle == 0 {
            format!("of {}", handle(qdisc.parent))
        } else {
            handle(qdisc.handle)
        };
        Self {
            label: format!("{device} {} {place}", qdisc.kind),
            identity: identity(qdisc),
            drops: Wrapping::default(),
            requeues: Wrapping::default(),
            overlimits: Wrapping::default(),
        }
    }

    fn write(&mut self, qdisc: &Qdisc<'_>, row: &mut [Option<f64>]) {
        let values = [
            qdisc.bytes as f64,
            qdisc.packets as f64,
            self.drops.advance(qdisc.drops),
            self.requeues.advance(qdisc.requeues),
            self.overlimits.advance(qdisc.overlimits),
            f64::from(qdisc.backlog_bytes),
            f64::from(qdisc.queue_length),
        ];
        for (cell, value) in row.iter_mut().zip(values) {
            *cell = Some(value);
        }
    }
}

struct Reader {
    socket: RouteSocket,
    queues: Vec<Queue>,
}

impl Probe for Reader {
    fn series(&self) -> Vec<SeriesSpec> {
        self.queues.iter().flat_map(series_of).collect()
    }

    fn read(&mut self, row: &mut [Option<f64>]) {
        let queues = &mut self.queues;
        // What was visited before an error stands; the rest stays unknown.
        let _ = self.socket.qdiscs(|qdisc: &Qdisc<'_>| {
            // A discipline that was replaced has another handle and loses its columns.
            if let Some(at) = queues.iter().position(|queue| queue.identity == identity(qdisc)) {
                queues[at].write(qdisc, &mut row[at * N_COLUMNS..][..N_COLUMNS]);
            }
        });
    }
}

fn series_of(queue: &Queue) -> [SeriesSpec; N_COLUMNS] {
    let label = &queue.label;
    [
        qdisc::BYTES.of(label),
        qdisc::PACKETS.of(label),
        qdisc::DROPS.of(label),
        qdisc::REQUEUES.of(label),
        qdisc::OVERLIMITS.of(label),
        qdisc::BACKLOG.of(label),
        qdisc::QUEUE_LENGTH.of(label),
    ]
}

fn identity(qdisc: &Qdisc<'_>) -> (u32, u32, u32) {
    (qdisc.index, qdisc.handle, qdisc.parent)
}

/// `major:minor` in hexadecimal as tc(8) prints it: `8001:`, `1:10`, `:2`, `0:`, `root`.
pub(crate) fn handle(handle: u32) -> String {
    // `TC_H_ROOT` is all ones.
    const ROOT: u32 = u32::MAX;
    match (handle >> 16, handle & 0xffff) {
        _ if handle == ROOT => "root".to_owned(),
        (major, 0) => format!("{major:x}:"),
        (0, minor) => format!(":{minor:x}"),
        (major, minor) => format!("{major:x}:{minor:x}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handles_print_as_tc_prints_them() {
        assert_eq!(
            [0x8001_0000, 0x0001_0010, 0x0000_0002, 0, u32::MAX].map(handle),
            ["8001:", "1:10", ":2", "0:", "root"]
        );
    }

    #[test]
    fn a_queue_is_named_by_device_kind_and_place() {
        let fq = Qdisc { kind: "fq_codel", parent: 2, ..Qdisc::default() };
        assert_eq!(Queue::new("eth0", &fq).label, "eth0 fq_codel of :2");
        let tbf = Qdisc { kind: "tbf", handle: 0x8001_0000, ..fq };
        assert_eq!(Queue::new("eth0", &tbf).label, "eth0 tbf 8001:");
    }

    #[test]
    fn drops_continue_beyond_32_bits() {
        let mut queue = Queue::new("eth0", &Qdisc::default());
        let mut row = [None; N_COLUMNS];
        queue.write(&Qdisc { drops: u32::MAX, ..Qdisc::default() }, &mut row);
        queue.write(
            &Qdisc { drops: 1, backlog_bytes: 1514, queue_length: 1, ..Qdisc::default() },
            &mut row,
        );
        assert_eq!((row[2], row[5], row[6]), (Some(4_294_967_297.0), Some(1514.0), Some(1.0)));
    }
}
