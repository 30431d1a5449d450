//! Cost and ceiling on the first screen.

use linerate_analysis::{CpuUse, Headline};
use linerate_model::{ARM_AXIS, Unit, metric};

use super::verdict::{figure, is_alone};
use crate::document::Lead;
use crate::grid::words;
use crate::number::{Scale, percent, round_half_up};
use crate::sentences;

/// Returns the CPU cost of both ends: seconds per gigabyte, and the cores of each end.
pub(super) fn cost(headline: &Headline, cpu: &CpuUse) -> String {
    // The payload of a request is incidental, and so is a cost per byte of it.
    let moves_payload = headline
        .moved
        .as_ref()
        .is_some_and(|moved| matches!(moved.unit, Unit::BitPerSecond | Unit::BytePerSecond));
    let per_gigabyte = cpu.per_gigabyte.filter(|_| moves_payload).map(|estimate| {
        let scale = Scale::of(metric::CPU_SECONDS_PER_GIGABYTE, [estimate.value]);
        format!("{} CPU {}", scale.estimate(&estimate).0, scale.symbol)
    });
    let end = |name: &str, cores: f64| format!("{} cores on {name}", round_half_up(cores, 2));
    // A load on a disk has one end: the sender of writes, and the receiver of reads.
    let (sender, receiver) = match is_alone(headline) {
        true => (cpu.sender.or(cpu.receiver), None),
        false => (cpu.sender, cpu.receiver),
    };
    let sender = sender.map(|cores| end(&headline.from, cores));
    let receiver = receiver.map(|cores| end(&headline.to, cores));
    let parts: Vec<String> = [per_gigabyte, sender, receiver].into_iter().flatten().collect();
    if parts.is_empty() { "not measured".to_owned() } else { parts.join(", ") }
}

/// Returns `lead` with cost and ceiling of the changed arm of `headline`, and the cost of the other
/// where `lead` has no change of it. The arms must be those of `sweep`.
pub(super) fn of_arms(lead: Lead, headline: Option<&Headline>, sweep: &str) -> Lead {
    let of_sweep = headline.filter(|headline| headline.sweep == sweep);
    let Some((base, changed)) = of_sweep.and_then(|base| Some((base, base.against.as_deref()?)))
    else {
        return lead;
    };
    let named = |arm: &Headline, text: Option<String>| {
        Some(format!("{}: {}", words(arm.parameters.get(ARM_AXIS)?), text?))
    };
    let cost_of = |arm: &Headline| named(arm, arm.cpu.as_ref().map(|cpu| cost(arm, cpu)));
    let both = || [changed, base].into_iter().map(cost_of).collect::<Option<Vec<_>>>();
    let reached = changed.moved.as_ref().and_then(|moved| Some(moved.ceiling.as_ref()?.0));
    Lead {
        cost: lead.cost.or_else(|| Some(both()?.join("; "))),
        ceiling: named(changed, ceiling(changed)),
        reached,
        ..lead
    }
}

/// Returns the lowest ceiling of the figure, or why none is known; `None` where there is no figure.
pub(super) fn ceiling(headline: &Headline) -> Option<String> {
    let moved = headline.moved.as_ref()?;
    if let Some((share, ceiling)) = &moved.ceiling {
        let value = figure(ceiling.value, ceiling.unit, ceiling.layer);
        // A sum beside the ceiling of one direction needs the direction.
        let way = Some(ceiling.direction).filter(|way| *way != moved.direction);
        let way = way.map_or(String::new(), |way| format!(", {way}"));
        return Some(format!("{} % of {value}{way} ({})", percent(*share), ceiling.name()));
    }
    let why = headline.unbounded.first().map_or_else(
        || match is_alone(headline) {
            true => "the disk has no declared rate".to_owned(),
            false => "no part of the path has a declared or reported rate".to_owned(),
        },
        sentences::unbounded,
    );
    Some(format!("not known: {why}"))
}

#[cfg(test)]
mod tests {
    use linerate_model::Estimate;
    use serde_json::json;

    use super::*;

    fn headline(metric: &str, unit: &str) -> Headline {
        let estimate =
            json!({ "value": 1e9, "low": null, "high": null, "confidence": null, "n": 1 });
        serde_json::from_value(json!({
            "sweep": "s", "parameters": {}, "n_points": 1, "workload": "tcp_stream", "from": "red",
            "to": "blue", "n_jobs": 1, "stages": [],
            "moved": { "metric": metric, "unit": unit, "layer": "L4", "direction": "tx",
                "estimate": estimate, "goal": null, "share": null, "validity": "valid" },
            "limit": { "surety": "not_diagnosed", "rule": null, "claim": null, "evidence": [],
                "experiment": null, "test": null, "steps": [] },
        }))
        .expect("a headline")
    }

    #[test]
    fn arms_have_costs_of_both_and_the_ceiling_of_the_changed_one() {
        let arm = |name: &str, cores| {
            let mut arm = headline("goodput", "bit/s");
            arm.parameters.insert(ARM_AXIS.into(), json!(name));
            arm.cpu = Some(CpuUse { sender: Some(cores), ..CpuUse::default() });
            arm
        };
        let mut arms = arm("wire", 0.5);
        assert_eq!(of_arms(Lead::default(), Some(&arms), "s"), Lead::default(), "one arm");
        arms.against = Some(Box::new(arm("device", 0.75)));
        assert_eq!(of_arms(Lead::default(), Some(&arms), "other"), Lead::default());
        let of = |lead| of_arms(lead, Some(&arms), "s");
        let shown = of(Lead::default());
        let cost = "device: 0.75 cores on red; wire: 0.50 cores on red";
        assert_eq!(shown.cost.as_deref(), Some(cost));
        let why = "device: not known: no part of the path has a declared or reported rate";
        assert_eq!((shown.ceiling.as_deref(), shown.reached), (Some(why), None));
        let change = Some("+50 % CPU seconds per gigabyte".to_owned());
        assert_eq!(of(Lead { cost: change.clone(), ..Lead::default() }).cost, change);
    }

    #[test]
    fn the_cost_is_of_both_ends_and_per_gigabyte_of_payload_only() {
        let estimate =
            |value| Some(Estimate { value, low: None, high: None, confidence: None, n: 1 });
        let cpu = CpuUse { per_gigabyte: estimate(0.5), sender: Some(0.75), receiver: Some(1.25) };
        let stream = headline("goodput", "bit/s");
        assert_eq!(cost(&stream, &cpu), "0.5000 CPU s/GB, 0.75 cores on red, 1.25 cores on blue");
        let requests = headline("transaction_rate", "1/s");
        assert_eq!(cost(&requests, &cpu), "0.75 cores on red, 1.25 cores on blue");
        assert_eq!(cost(&stream, &CpuUse::default()), "not measured");
        let mut alone = headline("transfer_rate", "B/s");
        alone.to.clone_from(&alone.from);
        let reads = CpuUse { receiver: Some(0.25), ..CpuUse::default() };
        assert_eq!(cost(&alone, &reads), "0.25 cores on red");
        assert_eq!(ceiling(&alone).as_deref(), Some("not known: the disk has no declared rate"));
        let none = Some("not known: no part of the path has a declared or reported rate");
        assert_eq!(ceiling(&stream).as_deref(), none);
        let mut empty = stream;
        empty.moved = None;
        assert_eq!(ceiling(&empty), None, "nothing is compared with a ceiling");
    }
}
