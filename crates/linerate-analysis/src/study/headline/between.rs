//! What lies between the ends: the capacities the path is known to cross, a lab's devices under test, ports that an observer counts.

use linerate_model::{Campaign, SeriesSpec, Unit};

use super::super::PointStudy;
use super::super::loss::{DEVICE_SAMPLER, OF_DEVICES};
use super::super::samples::Samples;
use super::{End, Place, Reading, Seen, Stage};

/// What stands where nothing is known.
const UNKNOWN: &str = "network";

/// In the order in which they were declared.
pub(super) fn stages(campaign: &Campaign, first: &Seen<'_>, point: Option<&PointStudy>) -> Vec<Stage> {
    let (from, to) = (&first.side(End::Sender).1.name, &first.side(End::Receiver).1.name);
    let crossed = campaign.header.capacities.iter().filter(|c| c.pairs.iter().any(|(a, b)| a == from && b == to));
    let mut stages: Vec<Stage> =
        crossed.map(|capacity| Stage::new(End::Between, Place::Wire, "", &capacity.name)).collect();
    for device in devices(first) {
        let known = |stage: &Stage| stage.name == device || stage.name.starts_with(&format!("{device}, "));
        if !stages.iter().any(known) {
            stages.push(Stage::new(End::Between, Place::Wire, "", device));
        }
    }
    for port in point.into_iter().flat_map(|point| &point.observed) {
        let name = format!("{} {}", port.observer, port.port);
        if stages.iter().all(|stage| stage.name != name) {
            let mut stage = Stage::new(End::Between, Place::Wire, "", name);
            stage.lost = port.dropped.map(|dropped| dropped.round() as u64);
            stages.push(stage);
        }
    }
    if stages.is_empty() {
        stages.push(Stage::new(End::Between, Place::Wire, "", UNKNOWN));
    }
    stages
}

/// Name and direction of each of a lab's devices on the way: `NAME FROM>TO`.
fn on_the_way<'a>(one: &Seen<'a>) -> Vec<(&'a str, &'a str)> {
    let (from, to) = (&one.side(End::Sender).1.name, &one.side(End::Receiver).1.name);
    let split = |instance: &'a str| {
        let (name, way) = instance.rsplit_once(' ')?;
        let (near, far) = way.split_once('>')?;
        (near == from || far == to).then_some((instance, name))
    };
    Samples::of(one.trial, OF_DEVICES).instances(DEVICE_SAMPLER).into_iter().filter_map(split).collect()
}

fn devices<'a>(first: &Seen<'a>) -> Vec<&'a str> {
    on_the_way(first).into_iter().map(|(_, name)| name).collect()
}

/// What a lab's device forwarded and dropped during a trial.
pub(super) fn readings(stage: &Stage, one: &Seen<'_>) -> Vec<Reading> {
    let samples = Samples::of(one.trial, OF_DEVICES);
    let Some(span) = samples.extent() else { return Vec::new() };
    let here = |name: &str| stage.name == name || stage.name.starts_with(&format!("{name}, "));
    let Some((instance, _)) = on_the_way(one).into_iter().find(|(_, name)| here(name)) else { return Vec::new() };
    let of = |suffix: &str| samples.change(span, |s: &SeriesSpec| s.instance == instance && s.name.ends_with(suffix));
    // The devices are read before and after the whole trial, of which the load is a part.
    let loaded = one.trial.spec.phases.loaded().as_secs_f64();
    let forwarded = of("_forwarded").filter(|_| loaded > 0.0);
    let forwarded = forwarded.map(|n| Reading::new("forwarded", n / loaded, Unit::PacketPerSecond, None));
    let dropped: Vec<f64> =
        ["_dropped_full", "_dropped_by_order", "_dropped_at_random"].into_iter().filter_map(of).collect();
    let dropped = (!dropped.is_empty()).then(|| Reading::new("dropped", dropped.iter().sum(), Unit::Count, None));
    forwarded.into_iter().chain(dropped).collect()
}
