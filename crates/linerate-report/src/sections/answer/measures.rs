//! Cost and ceiling on the first screen.

use linerate_analysis::{CpuUse, Headline};
use linerate_model::{Unit, metric};

use super::verdict::{figure, is_alone};
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
    let sender = cpu.sender.map(|cores| end(&headline.from, cores));
    // A load on a disk has one end, which is both.
    let receiver = cpu.receiver.filter(|_| !is_alone(headline));
    let receiver = receiver.map(|cores| end(&headline.to, cores));
    let parts: Vec<String> = [per_gigabyte, sender, receiver].into_iter().flatten().collect();
    if parts.is_empty() { "not measured".to_owned() } else { parts.join(", ") }
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
    // The load that a search found is bounded by its goal.
    moved.metric?;
    let why = headline.unbounded.first().map_or_else(
        || "no part of the path has a declared or reported rate".to_owned(),
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
    fn the_cost_is_of_both_ends_and_per_gigabyte_of_payload_only() {
        let estimate =
            |value| Some(Estimate { value, low: None, high: None, confidence: None, n: 1 });
        let cpu = CpuUse { per_gigabyte: estimate(0.5), sender: Some(0.75), receiver: Some(1.25) };
        let stream = headline("goodput", "bit/s");
        assert_eq!(cost(&stream, &cpu), "0.5000 CPU s/GB, 0.75 cores on red, 1.25 cores on blue");
        let requests = headline("transaction_rate", "1/s");
        assert_eq!(cost(&requests, &cpu), "0.75 cores on red, 1.25 cores on blue");
        assert_eq!(cost(&stream, &CpuUse::default()), "not measured");
        let none = Some("not known: no part of the path has a declared or reported rate");
        assert_eq!(ceiling(&stream).as_deref(), none);
        // The load of a search has no ceiling to be compared with.
        assert_eq!(ceiling(&headline("load", "bit/s")), None);
    }
}
