//! What a job was really given: socket options as granted, and modes.
//!
//! `name -> value`; where ends or flows differ all values are listed with their end. A value that differs from the one asked
//! for, or that changed until the end, says so.

use std::collections::{BTreeMap, BTreeSet};

use linerate_model::{FlowReport, SocketValue};
use serde_json::Value;

use super::traffic::Job;

/// Options and modes over all `jobs`, the repeats of one.
pub(super) fn obtained<'a>(jobs: impl Iterator<Item = &'a Job<'a>>) -> BTreeMap<String, String> {
    let mut seen: BTreeMap<String, BTreeMap<&str, BTreeSet<String>>> = BTreeMap::new();
    for job in jobs {
        for (end, record) in [("from", job.active), ("to", job.passive)] {
            for (name, value) in record.flows.iter().flat_map(values) {
                seen.entry(name).or_default().entry(end).or_default().insert(value);
            }
        }
    }
    seen.into_iter().map(|(name, ends)| (name, told(&ends))).collect()
}

fn values(flow: &FlowReport) -> impl Iterator<Item = (String, String)> + '_ {
    let options = flow.socket.iter().filter_map(|(name, value)| Some((name.clone(), option(value)?)));
    options.chain(flow.modes.iter().map(|(name, mode)| (name.clone(), mode.clone())))
}

fn option(value: &SocketValue) -> Option<String> {
    let granted = value.granted.as_ref().or(value.at_end.as_ref())?;
    let mut told = plain(granted);
    if let Some(requested) = value.requested.as_ref().filter(|requested| *requested != granted) {
        told = format!("{told} (asked for {})", plain(requested));
    }
    if let Some(at_end) = value.at_end.as_ref().filter(|at_end| *at_end != granted) {
        told = format!("{told}, {} at the end", plain(at_end));
    }
    Some(told)
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn told(ends: &BTreeMap<&str, BTreeSet<String>>) -> String {
    let all: BTreeSet<&String> = ends.values().flatten().collect();
    let list = |values: &BTreeSet<String>| values.iter().map(String::as_str).collect::<Vec<_>>().join(" | ");
    match all.iter().next() {
        Some(only) if all.len() == 1 => (*only).clone(),
        _ => ends.iter().map(|(end, values)| format!("{end}: {}", list(values))).collect::<Vec<_>>().join("; "),
    }
}
