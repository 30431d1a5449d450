//! Section `placement`: CPUs that received the packets of each point, and the CPU settings of each
//! interface.
//!
//! Packets are those that the kernel's receive path processed on each CPU (sampler `softnet`) over
//! whole trials with their warm-up. Several hosts on one machine share a row. Interrupts, queues
//! and polling of an interface are as the agents read them at the start. Settings of an arm are
//! beside its points. Not observed: packets that XDP took before the receive path.

use std::collections::BTreeMap;

use linerate_analysis::PointStudy;
use linerate_model::{Campaign, HostRecord, metric};
use serde_json::Value;

use super::{Section, Subject};
use crate::document::{Block, Sheet, Table};
use crate::number::Scale;
use crate::words::obtained_text;

/// Most CPUs with a column; larger machines show the CPUs with the most packets.
const MOST_CPUS: usize = 8;

/// Section `placement`.
pub(super) const SECTION: Section = Section {
    name: "placement",
    title: "Placement",
    summary: "CPUs that received packets and ran workers, and the CPUs of interrupts, queues and \
        polling of each interface",
    order: 65,
    blocks,
};

fn blocks(subject: &Subject<'_>) -> Vec<Block> {
    let packets = packets(subject).map(Block::Table);
    packets.into_iter().chain(interfaces(&subject.campaign.hosts).map(Block::Table)).collect()
}

fn packets(subject: &Subject<'_>) -> Option<Table> {
    let mut rows: Vec<(String, &str, &PointStudy, &BTreeMap<u32, f64>)> = Vec::new();
    for (grid, point) in subject.points() {
        let received = point.received.iter();
        rows.extend(received.map(|one| (grid.full_place_of(point), &*one.host, point, &one.rates)));
    }
    let mut totals = BTreeMap::<u32, f64>::new();
    for (cpu, rate) in rows.iter().flat_map(|row| row.3) {
        *totals.entry(*cpu).or_default() += rate;
    }
    let mut shown: Vec<u32> = totals.keys().copied().collect();
    shown.sort_by(|a, b| totals[b].total_cmp(&totals[a]));
    shown.truncate(MOST_CPUS);
    shown.sort_unstable();
    let scale = Scale::of(metric::PACKET_RATE, totals.values().copied());
    let set = |point: &PointStudy| settings(subject.campaign, point);
    // Without settings of an arm, few readers need the table.
    let folded = rows.iter().all(|(_, _, point, _)| set(point).is_none());
    let mut sheet = Sheet::new(rows);
    sheet.text("point", |(place, ..)| place.clone());
    sheet.text("machine", |(_, host, ..)| (*host).to_owned());
    for cpu in &shown {
        sheet.number_or(&format!("CPU {cpu}"), scale, "–", |row| row.3.get(cpu).copied());
    }
    sheet.text_or("workers on", "not reported", |(_, _, point, _)| {
        point.jobs.iter().find_map(|job| job.obtained.get("worker_cpu")).map(obtained_text)
    });
    sheet.text_or("set for this arm", "–", |row| set(row.2));
    let caption = "Packets received by each CPU";
    let mut table = sheet.judged("placement-packets", caption, |row| row.2.validity);
    table.folded = folded;
    table.note = Some(
        "Packets that the kernel's receive path processed on each CPU, per second of whole trials: \
            mean over the trials of a point. A packet that several hosts of one machine receive \
            counts at each of them. Other traffic of the machine counts too."
            .into(),
    );
    (!table.rows.is_empty() && !shown.is_empty()).then_some(table)
}

/// Returns the host settings of the arm of `point`.
fn settings(campaign: &Campaign, point: &PointStudy) -> Option<String> {
    let id = point.trials.first()?.id;
    let arm = campaign.trials.iter().find(|trial| trial.spec.id == id)?.spec.arm.as_ref()?;
    let told = |setting: &linerate_model::HostSetting| {
        format!("{} of {} = {}", setting.name, setting.at, setting.value)
    };
    let all: Vec<String> = arm.settings.iter().map(told).collect();
    (!all.is_empty()).then(|| all.join(", "))
}

fn interfaces(hosts: &[HostRecord]) -> Option<Table> {
    let interfaces = hosts.iter().flat_map(|host| {
        let all = host.facts["interfaces"].as_object().into_iter().flatten();
        all.filter(|(name, _)| *name != "lo").map(move |(name, facts)| (host, name, facts))
    });
    let mut sheet = Sheet::new(interfaces);
    sheet.text("host", |(host, ..)| host.host.clone());
    sheet.text("interface", |(_, name, _)| (*name).clone());
    sheet.text("interrupts on CPUs", |(.., facts)| irqs(&facts["irqs"]));
    sheet.text("receive queues to CPUs (RPS)", |(.., facts)| masks(facts, "rps_cpus"));
    sheet.text("transmit queues (XPS)", |(.., facts)| masks(facts, "xps_cpus"));
    sheet.text("polled by", |(.., facts)| polled(facts));
    let mut table = sheet.plain("placement-interfaces", "CPU settings of interfaces");
    table.folded = true;
    table.note =
        Some("Read when the host joined, before any arm of a comparison changed it.".into());
    (!table.rows.is_empty()).then_some(table)
}

fn irqs(facts: &Value) -> String {
    fn vector(vector: &Value) -> Option<String> {
        let cpus =
            vector["effective"].as_str().or_else(|| vector["affinity"].as_str()).unwrap_or("?");
        Some(format!("{}: {cpus}", vector["vector"].as_str()?))
    }
    match facts.as_array() {
        Some(vectors) if vectors.is_empty() => "none (the interface has no interrupts)".to_owned(),
        Some(vectors) => vectors.iter().filter_map(vector).collect::<Vec<_>>().join(", "),
        None => why(facts),
    }
}

fn masks(facts: &Value, name: &str) -> String {
    let steering = &facts["steering"];
    let Some(set) = steering.as_object().filter(|set| !set.contains_key("unavailable")) else {
        return why(steering);
    };
    let told = |(place, mask): (&String, &Value)| {
        Some(format!("{}: {}", place.strip_suffix(name)?.trim_end_matches('.'), mask.as_str()?))
    };
    let all: Vec<String> = set.iter().filter_map(told).collect();
    if all.is_empty() { "not set".to_owned() } else { all.join(", ") }
}

fn polled(facts: &Value) -> String {
    match &facts["napi_threaded"] {
        Value::Bool(true) => "threads of its own".to_owned(),
        Value::Bool(false) => "softirqs".to_owned(),
        other => why(other),
    }
}

fn why(fact: &Value) -> String {
    fact["unavailable"]
        .as_str()
        .map_or_else(|| "not reported".to_owned(), |why| format!("unavailable: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_interface_is_told_with_its_vectors_masks_and_polling_or_why_not() {
        let facts = json!({
            "irqs": [{ "irq": 70, "vector": "70:eth1-rx-0", "affinity": "0-1", "effective": "1" }],
            "steering": { "rx-0.rps_cpus": "2" },
            "napi_threaded": false,
        });
        assert_eq!(irqs(&facts["irqs"]), "70:eth1-rx-0: 1");
        assert_eq!(
            (masks(&facts, "rps_cpus"), masks(&facts, "xps_cpus")),
            ("rx-0: 2".into(), "not set".into())
        );
        assert_eq!(polled(&facts), "softirqs");
        assert_eq!(
            polled(&json!({ "napi_threaded": { "unavailable": "no sysfs" } })),
            "unavailable: no sysfs"
        );
    }
}
