//! Stages between the ends: declared capacities on the path, devices under test of a lab, and ports
//! that an observer counts.

use linerate_model::series::device;
use linerate_model::{BoundClass, BoundPart, Campaign, PartDetail, Series, Unit, series};

use super::super::PointStudy;
use super::super::loss::{OF_DEVICES, device_on_the_way};
use super::super::samples::Samples;
use super::super::warmup;
use super::{PathEnd, Reading, ReadingKind, Seen, Stage, StageKind};

/// Name of the stage where nothing is known.
const UNKNOWN: &str = "network";

/// Frames that a device of a lab dropped.
const DROPPED: [Series; 6] = [
    device::DATAGRAMS_DROPPED_FULL,
    device::DATAGRAMS_DROPPED_BY_ORDER,
    device::DATAGRAMS_DROPPED_AT_RANDOM,
    device::OTHERS_DROPPED_FULL,
    device::OTHERS_DROPPED_BY_ORDER,
    device::OTHERS_DROPPED_AT_RANDOM,
];

/// In the order in which they were declared.
pub(super) fn stages(
    campaign: &Campaign,
    first: &Seen<'_>,
    point: Option<&PointStudy>,
) -> Vec<Stage> {
    let (from, to) = (&first.side(PathEnd::Sender).1.name, &first.side(PathEnd::Receiver).1.name);
    let crossed = campaign
        .header
        .capacities
        .iter()
        .filter(|c| c.pairs.iter().any(|(a, b)| a == from && b == to));
    let mut stages: Vec<Stage> =
        crossed.map(|capacity| wire(&capacity.name).being(capacity.part())).collect();
    for device in devices(first) {
        // A lab declares its links as capacities, so most devices already have a stage.
        if !stages.iter().any(|stage| is_of(stage, device)) {
            let part = BoundPart::new(BoundClass::Device, "", device)
                .with(PartDetail::Edge(device.to_owned()));
            stages.push(wire(device).being(part));
        }
    }
    for port in point.into_iter().flat_map(|point| &point.observed) {
        let name = format!("{} {}", port.observer, port.port);
        if stages.iter().all(|stage| stage.name != name) {
            let mut stage = wire(&name);
            stage.lost = port.dropped.map(|dropped| dropped.round() as u64);
            stages.push(stage);
        }
    }
    if stages.is_empty() {
        // A path always has something between its ends; an empty gap would look like a direct
        // cable.
        stages.push(wire(UNKNOWN));
    }
    stages
}

fn wire(name: &str) -> Stage {
    Stage::new(PathEnd::Between, StageKind::Wire, "", name)
}

/// Returns whether `stage` is the lab's device or link called `device`.
pub(super) fn is_of(stage: &Stage, device: &str) -> bool {
    stage.part.as_ref().and_then(BoundPart::edge) == Some(device)
}

/// Instance and name of each of a lab's devices on the way.
fn on_the_way<'a>(one: &Seen<'a>) -> Vec<(&'a str, &'a str)> {
    let (from, to) = (&one.side(PathEnd::Sender).1.name, &one.side(PathEnd::Receiver).1.name);
    let on_it = |instance: &'a str| Some((instance, device_on_the_way(instance, from, to)?));
    Samples::of(one.trial, OF_DEVICES)
        .instances(device::SAMPLER)
        .into_iter()
        .filter_map(on_it)
        .collect()
}

fn devices<'a>(first: &Seen<'a>) -> Vec<&'a str> {
    on_the_way(first).into_iter().map(|(_, name)| name).collect()
}

/// Returns the counts of a lab's device during a trial: forwarded and dropped.
pub(super) fn readings(stage: &Stage, one: &Seen<'_>) -> Vec<Reading> {
    let samples = Samples::of(one.trial, OF_DEVICES);
    let Some(span) = samples.extent() else { return Vec::new() };
    let Some((instance, _)) = on_the_way(one).into_iter().find(|(_, name)| is_of(stage, name))
    else {
        return Vec::new();
    };
    let of = |columns: &[Series]| {
        samples.change(span, |read| read.instance == instance && series::any(columns, read))
    };
    // The devices are read before and after the whole trial, of which the load is a part.
    let loaded = warmup::load_end(one.trial).as_secs_f64();
    let forwarded =
        of(&[device::DATAGRAMS_FORWARDED, device::OTHERS_FORWARDED]).filter(|_| loaded > 0.0);
    let forwarded = forwarded
        .map(|n| Reading::new(ReadingKind::Forwarded, n / loaded, Unit::PacketPerSecond, None));
    let dropped = of(&DROPPED)
        .map(|n_frames| Reading::new(ReadingKind::Dropped, n_frames, Unit::Count, None));
    forwarded.into_iter().chain(dropped).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_is_one_stage_whatever_its_capacity_is_called() {
        let part = |edge: &str| {
            BoundPart::new(BoundClass::Device, "", "its capacity")
                .with(PartDetail::Edge(edge.to_owned()))
        };
        assert!(is_of(&wire("a capacity").being(part("dut")), "dut"));
        assert!(!is_of(&wire("dut").being(part("dut2")), "dut") && !is_of(&wire("dut"), "dut"));
    }
}
