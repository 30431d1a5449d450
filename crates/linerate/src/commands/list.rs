//! `linerate list`: the registries.

use clap::{Args, ValueEnum};
use linerate_analysis::diagnosis::rules::RULES;
use linerate_analysis::limits::LIMITS;
use linerate_campaign::catalog::{self, LABS, PLANS};
use linerate_load::WORKLOADS;
use linerate_model::{METRICS, Metric};
use linerate_observe::SAMPLERS;
use linerate_report::sections::SECTIONS;
use serde_json::{Value, json};

use crate::exit::{Exit, Outcome};

#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    /// Which
    #[arg(value_enum)]
    pub(crate) what: Registry,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Registry {
    /// Kinds of stimulus and their parameters
    Workloads,
    /// Readings taken during a trial
    Samplers,
    /// Calculators of ceilings
    Limits,
    /// Diagnosis rules
    Rules,
    /// Sections of a report
    Sections,
    /// Plans that come with linerate
    Plans,
    /// Labs that come with linerate
    Labs,
    /// Measurables
    Metrics,
}

/// Prints one registry.
pub(crate) fn run(what: Registry, as_json: bool) -> Outcome {
    let entries = entries(what);
    if as_json {
        println!("{}", Value::Array(entries));
        return Ok(Exit::Done);
    }
    let name = |entry: &Value| entry["name"].as_str().unwrap_or_default().to_owned();
    let width = entries.iter().map(|entry| name(entry).len()).max().unwrap_or(0);
    for entry in &entries {
        let detail = ["unit", "layer"]
            .iter()
            .filter_map(|key| entry[*key].as_str())
            .collect::<Vec<_>>()
            .join(" ");
        let summary = entry["summary"].as_str().unwrap_or_default();
        let detail = if detail.is_empty() { String::new() } else { format!("[{detail}] ") };
        println!("{:width$}  {detail}{summary}", name(entry));
        for parameter in entry["parameters"].as_array().into_iter().flatten() {
            let text = |key: &str| parameter[key].as_str().unwrap_or_default().to_owned();
            let takes =
                parameter["takes"].as_str().map(|takes| format!("; {takes}")).unwrap_or_default();
            println!(
                "{:width$}    {} = {}: {}{takes}",
                "",
                text("name"),
                text("default"),
                text("meaning")
            );
        }
    }
    Ok(Exit::Done)
}

/// What is registered: `name`, `summary` and what else there is to say of its kind.
pub(crate) fn entries(what: Registry) -> Vec<Value> {
    let entry = |name: &str, summary: &str| json!({ "name": name, "summary": summary });
    let presets = |presets: &'static [catalog::Preset]| {
        presets.iter().map(|p| entry(p.name, &catalog::summary(p))).collect()
    };
    match what {
        Registry::Workloads => WORKLOADS
            .iter()
            .map(|workload| {
                let parameters: Vec<Value> = workload
                    .parameters()
                    .iter()
                    .map(|p| json!({ "name": p.name, "takes": p.takes.to_string(), "default": p.default, "meaning": p.meaning }))
                    .collect();
                json!({ "name": workload.name(), "summary": workload.summary(), "parameters": parameters })
            })
            .collect(),
        Registry::Samplers => SAMPLERS.iter().map(|sampler| entry(sampler.name(), sampler.summary())).collect(),
        Registry::Limits => LIMITS
            .iter()
            .map(|limit| {
                let parameters: Vec<Value> = limit
                    .options()
                    .iter()
                    .map(|o| json!({ "name": o.name, "default": o.default, "meaning": o.meaning }))
                    .collect();
                json!({ "name": limit.name(), "summary": limit.summary(), "parameters": parameters })
            })
            .collect(),
        Registry::Rules => RULES.iter().map(|rule| entry(rule.name(), rule.summary())).collect(),
        Registry::Sections => SECTIONS.iter().map(|section| entry(section.name(), section.summary())).collect(),
        Registry::Plans => presets(PLANS),
        Registry::Labs => presets(LABS),
        Registry::Metrics => {
            let mut metrics: Vec<&Metric> = METRICS.iter().collect();
            metrics.sort_unstable();
            let entry = |m: &Metric| {
                let layer = m.layer.map(|layer| layer.to_string());
                json!({ "name": m.name, "unit": m.unit.symbol(), "layer": layer, "summary": m.meaning })
            };
            metrics.into_iter().map(entry).collect()
        }
    }
}
