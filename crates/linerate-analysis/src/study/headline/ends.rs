//! Stages at the ends of a path that carries packets: application, socket, queueing discipline,
//! interface and bus, and the disk that a file comes from or goes to.
//!
//! Rates are bits a second of the named layer. Devices count frames without their check sequence.
//! Bytes sent by a socket include retransmissions.

use linerate_model::series::{interface, qdisc};
use linerate_model::{
    BoundClass, Counter, Direction, Endpoint, JobRecord, Layer, Series, Unit, series,
};
use serde_json::Value;

use super::super::connections::Connections;
use super::super::leaving;
use super::super::samples::LOOPBACK;
use super::super::samples::{Hosts, NANOS, Samples};
use super::super::span::{Span, counted};
use super::super::transfers::mode;
use super::{PathEnd, Reading, ReadingKind, Seen, Stage, StageKind};

const BITS: f64 = 8.0;

impl<'a> Seen<'a> {
    /// Returns the record of an end and its endpoint; the record is empty where the end is foreign.
    pub(super) fn side(&self, end: PathEnd) -> (&'a JobRecord, &'a Endpoint) {
        let first = (self.direction == Direction::Rx) == (end == PathEnd::Receiver);
        if first {
            (self.job.active, &self.job.spec.from)
        } else {
            (self.job.passive, &self.job.spec.to)
        }
    }

    /// Returns the devices that packets pass at an end.
    fn passed(&self, end: PathEnd, hosts: &Hosts<'a>) -> Vec<&'a str> {
        leaving::device_chains(hosts, self.side(end).1, self.side(facing(end)).1).concat()
    }

    fn samples(&self, end: PathEnd) -> Samples<'a> {
        Samples::of(self.trial, &self.side(end).1.host)
    }

    /// Returns a counter of an end a second.
    pub(super) fn rate(&self, end: PathEnd, counter: Counter) -> Option<f64> {
        let (record, _) = self.side(end);
        let told = !record.intervals.is_empty();
        told.then(|| counted(record, counter, self.span) / self.span.seconds())
            // A rate of zero has no place in a picture of what moved.
            .filter(|rate| *rate > 0.0)
    }
}

/// From the application to the interface.
pub(super) fn sending<'a>(first: &Seen<'a>, hosts: &Hosts<'a>) -> Vec<Stage> {
    stack(first, PathEnd::Sender, hosts)
}

/// From the interface to the application.
pub(super) fn receiving<'a>(first: &Seen<'a>, hosts: &Hosts<'a>) -> Vec<Stage> {
    let mut stages = stack(first, PathEnd::Receiver, hosts);
    stages.reverse();
    stages
}

/// Application first.
fn stack<'a>(first: &Seen<'a>, end: PathEnd, hosts: &Hosts<'a>) -> Vec<Stage> {
    let (record, endpoint) = first.side(end);
    let host = &endpoint.host;
    let disk = mode(record, if end == PathEnd::Sender { "source_device" } else { "sink_device" });
    let mut stages: Vec<Stage> =
        disk.map(|disk| Stage::new(end, StageKind::Disk, host, disk)).into_iter().collect();
    stages.push(Stage::new(end, StageKind::Application, host, &first.job.spec.workload));
    let socket = Stage::new(end, StageKind::Socket, host, protocol(first));
    stages.push(if end == PathEnd::Receiver {
        socket.bounded_by(BoundClass::Window, &endpoint.name)
    } else {
        socket
    });
    let own = own_devices(endpoint);
    let device = &own.join(" + ");
    if own.is_empty() {
        return stages;
    }
    // The loopback has no queueing discipline that could limit it.
    if end == PathEnd::Sender && device != LOOPBACK {
        let queue =
            Stage::new(end, StageKind::Queue, host, discipline(first, &first.passed(end, hosts)));
        stages.push(queue.bounded_by(BoundClass::Queue, device));
    }
    let driver = hosts.interface_fact(host, device, "driver").and_then(Value::as_str);
    let driver = driver.map_or(String::new(), |driver| format!(" ({driver})"));
    let interface = Stage::new(end, StageKind::Interface, host, format!("{device}{driver}"));
    stages.push(interface.bounded_by(BoundClass::Interface, device));
    let branches = leaving::branches(hosts, endpoint, first.side(facing(end)).1);
    let carrier = match &branches[..] {
        // The bus belongs to the device at the wire, not to the VLAN or tunnel above it.
        [branch] => branch.layers.last().map_or(device.as_str(), |layer| layer.device),
        _ => device.as_str(),
    };
    let functions = hosts.fact(host, "pcie").and_then(|pcie| pcie.get(carrier)?.as_array());
    for function in functions.into_iter().flatten() {
        if let Some(address) = function.get("address").and_then(Value::as_str) {
            let name = format!("pcie {address}");
            stages.push(
                Stage::new(end, StageKind::Bus, host, &name).bounded_by(BoundClass::Bus, &name),
            );
        }
    }
    stages
}

/// Returns the end that `end` exchanges data with.
fn facing(end: PathEnd) -> PathEnd {
    if end == PathEnd::Receiver { PathEnd::Sender } else { PathEnd::Receiver }
}

/// Returns the device that sockets of `end` use, or those of its next hops.
fn own_devices(end: &Endpoint) -> Vec<&str> {
    match &end.device {
        Some(device) => vec![device.as_str()],
        None => end.branches.iter().map(String::as_str).collect(),
    }
}

/// Returns the protocol that carries the data.
fn protocol(first: &Seen<'_>) -> &'static str {
    match first.job.flow(first.direction) {
        Some(flow) if flow.is_tcp() => "TCP",
        Some(flow) if flow.is_datagrams() && first.job.spec.workload.starts_with("udp_") => "UDP",
        Some(_) => "packet socket",
        None => "socket",
    }
}

/// Returns the kinds of queueing discipline of `devices`, as far as they are read.
fn discipline(first: &Seen<'_>, devices: &[&str]) -> String {
    let samples = first.samples(PathEnd::Sender);
    let of_device = samples.instances(qdisc::SAMPLER).into_iter().filter_map(|instance| {
        let mut words = instance.split_whitespace();
        words.next().is_some_and(|device| devices.contains(&device)).then(|| words.next())?
    });
    let mut kinds: Vec<&str> = of_device.collect();
    // Several next hops usually have the same discipline.
    kinds.dedup();
    kinds.join(", ")
}

/// Returns the readings at `stage` during a trial.
pub(super) fn readings<'a>(stage: &Stage, one: &Seen<'a>, hosts: &Hosts<'a>) -> Vec<Reading> {
    match stage.place {
        StageKind::Application => application(stage.end, one),
        StageKind::Socket => socket(stage.end, one),
        StageKind::Queue => queue(one, hosts),
        StageKind::Interface => interface(stage.end, one),
        // No counter shows the traffic of a bus.
        StageKind::Bus | StageKind::Cache | StageKind::Disk | StageKind::Wire => Vec::new(),
    }
}

fn application(end: PathEnd, one: &Seen<'_>) -> Vec<Reading> {
    let (counter, what) = match end {
        PathEnd::Receiver => (Counter::PayloadReceived, ReadingKind::Received),
        PathEnd::Sender | PathEnd::Between => (Counter::PayloadSent, ReadingKind::HandedOver),
    };
    let rate = one
        .rate(end, counter)
        .map(|bytes| Reading::new(what, bytes * BITS, Unit::BitPerSecond, Some(Layer::L4)));
    rate.into_iter().collect()
}

fn socket(end: PathEnd, one: &Seen<'_>) -> Vec<Reading> {
    let (record, _) = one.side(end);
    let seconds = one.span.seconds();
    let bytes = match end {
        PathEnd::Receiver => {
            Connections::receiving(record).change(one.span, |state| state.bytes_received)
        }
        PathEnd::Sender | PathEnd::Between => {
            Connections::sending(record).change(one.span, |state| state.bytes_sent)
        }
    };
    let (datagrams, refused, word) = match end {
        PathEnd::Receiver => {
            (Counter::DatagramsReceived, Counter::SocketDrops, ReadingKind::Dropped)
        }
        PathEnd::Sender | PathEnd::Between => {
            (Counter::DatagramsSent, Counter::SendDrops, ReadingKind::Refused)
        }
    };
    let what = if end == PathEnd::Receiver { ReadingKind::Accepted } else { ReadingKind::Sent };
    let bits = bytes.filter(|bytes| *bytes > 0.0).map(|bytes| bytes * BITS / seconds);
    let bits = bits.map(|rate| Reading::new(what, rate, Unit::BitPerSecond, Some(Layer::L4)));
    let packets =
        one.rate(end, datagrams).map(|rate| Reading::new(what, rate, Unit::PacketPerSecond, None));
    let refused =
        one.rate(end, refused).map(|rate| Reading::new(word, rate * seconds, Unit::Count, None));
    // The rate comes first, because the picture shows the first reading alone where room is scarce.
    [bits, packets, refused].into_iter().flatten().collect()
}

/// Returns a discipline counts what its children count too: the largest is all of it. Packets pass
/// the disciplines of devices above one another, so that the largest is all of those too; they
/// share those of several next hops.
fn queue<'a>(one: &Seen<'a>, hosts: &Hosts<'a>) -> Vec<Reading> {
    let (end, other) = (one.side(PathEnd::Sender).1, one.side(PathEnd::Receiver).1);
    let samples = one.samples(PathEnd::Sender);
    let is_of = |instance: &str, devices: &[&str]| {
        instance.split_whitespace().next().is_some_and(|device| devices.contains(&device))
    };
    let devices = one.passed(PathEnd::Sender, hosts);
    let chains = leaving::device_chains(hosts, end, other);
    let of_chain = |span: Span, column: Series, chain: &[&str]| {
        samples.largest_change(span, |s| column.is(s) && is_of(&s.instance, chain))
    };
    // Chains of several next hops share the packets, so their counts add up.
    let of = |span: Span, column: Series| {
        chains.iter().filter_map(|chain| of_chain(span, column, chain)).reduce(|a, b| a + b)
    };
    let steady = samples.steady(one.span);
    let seconds = steady.seconds();
    let bits = of(steady, qdisc::BYTES).map(|b| {
        Reading::new(ReadingKind::Passed, b * BITS / seconds, Unit::BitPerSecond, Some(Layer::L2))
    });
    let drops = of(one.span, qdisc::DROPS).map(dropped);
    let waiting = samples
        .mean_of(one.span, qdisc::BACKLOG, |instance| is_of(instance, &devices))
        .map(|bytes| Reading::new(ReadingKind::Queued, bytes, Unit::Byte, None));
    [bits, waiting, drops].into_iter().flatten().collect()
}

/// Returns the packets dropped: a whole number, where the span ends between two samples too.
fn dropped(packets: f64) -> Reading {
    Reading::new(ReadingKind::Dropped, packets.round(), Unit::Count, None)
}

fn interface(end: PathEnd, one: &Seen<'_>) -> Vec<Reading> {
    let samples = one.samples(end);
    let devices = own_devices(one.side(end).1);
    let steady = samples.steady(one.span);
    let of_device = |column, device: &str| samples.of_instance(steady, column, device);
    let of = |column: Series| {
        devices.iter().filter_map(|device| of_device(column, device)).reduce(|a, b| a + b)
    };
    let is_own = |device: &str| devices.contains(&device);
    let change = |column: Series| samples.change(one.span, |s| column.is(s) && is_own(&s.instance));
    let (word, bytes, packets, lost): (_, _, _, &[Series]) = match end {
        PathEnd::Receiver => (
            ReadingKind::Received,
            interface::RX_BYTES,
            interface::RX_PACKETS,
            &[interface::RX_DROPPED, interface::RX_MISSED],
        ),
        PathEnd::Sender | PathEnd::Between => (
            ReadingKind::Sent,
            interface::TX_BYTES,
            interface::TX_PACKETS,
            &[interface::TX_DROPPED],
        ),
    };
    let bits = of(bytes)
        .map(|bytes| Reading::new(word, bytes * BITS, Unit::BitPerSecond, Some(Layer::L2)));
    let packets = of(packets)
        .map(|rate| Reading::new(ReadingKind::Packets, rate, Unit::PacketPerSecond, None));
    let lost = lost.iter().map(|column| change(*column)).sum::<Option<f64>>().map(dropped);
    [bits, packets, lost].into_iter().flatten().collect()
}

/// Busy share and bytes of a disk of `host` during a trial: reads, writes or both.
pub(super) fn disk(one: &Seen<'_>, end: PathEnd, device: &str, columns: &[Series]) -> Vec<Reading> {
    let samples = one.samples(end);
    let of = |column: Series| samples.of_instance(one.span, column, device);
    let bytes = columns.iter().map(|column| of(*column)).sum::<Option<f64>>();
    let what = match columns {
        [series::disk::BYTES_READ] => ReadingKind::Read,
        [series::disk::BYTES_WRITTEN] => ReadingKind::Written,
        _ => ReadingKind::ReadAndWritten,
    };
    let bytes = bytes.map(|rate| Reading::new(what, rate, Unit::BytePerSecond, None));
    let busy = of(series::disk::BUSY)
        // Busy time is counted in ticks and can exceed the interval by one.
        .map(|share| Reading::new(ReadingKind::Busy, share.min(1.0), Unit::Ratio, None));
    bytes.into_iter().chain(busy).collect()
}

/// Returns CPU time of all workers of an end over the span, cores.
pub(super) fn cores(one: &Seen<'_>, end: PathEnd) -> Option<f64> {
    let of = |counter| one.rate(end, counter).unwrap_or(0.0);
    let cores = (of(Counter::CpuUser) + of(Counter::CpuSystem)) / NANOS;
    (cores > 0.0).then_some(cores)
}
