//! `linerate disk list`.

use linerate_disk::Inspection;
use linerate_model::Bytes;
use serde_json::json;

/// Prints every disk.
pub(super) fn run(as_json: bool) {
    let disks = linerate_disk::list();
    if as_json {
        println!("{}", json!({ "disks": disks.iter().map(document).collect::<Vec<_>>() }));
        return;
    }
    if disks.is_empty() {
        println!("no disks: the kernel shows none under /sys/block");
    }
    disks.iter().for_each(print);
}

/// As JSON: what is known, and the verdict in words.
pub(super) fn document(disk: &Inspection) -> serde_json::Value {
    let mut document = serde_json::to_value(disk).unwrap_or_default();
    if let Some(fields) = document.as_object_mut() {
        fields.insert("verdict".into(), json!(verdict(disk)));
        let reasons: Vec<String> = disk.refusals.iter().map(ToString::to_string).collect();
        fields.insert("why".into(), json!(reasons));
    }
    document
}

/// For people: the disk in a line, then the verdict and its reasons.
pub(super) fn print(disk: &Inspection) {
    let known = &disk.topology;
    let unknown = || "unknown".to_owned();
    let kind = match known.rotational {
        Some(true) => "turns",
        Some(false) => "solid state",
        None => "unknown kind",
    };
    println!(
        "/dev/{}  {}, {kind}, model {}, serial number {}",
        known.name,
        Bytes(known.size_bytes),
        known.model.clone().unwrap_or_else(unknown),
        known.serial.clone().unwrap_or_else(unknown)
    );
    println!("  {}", verdict(disk));
    disk.refusals.iter().for_each(|refusal| println!("  - {refusal}"));
}

fn verdict(disk: &Inspection) -> &'static str {
    let unknown_data = disk.content.as_ref().is_some_and(|content| content.inner_data.is_some());
    match (disk.refusals.is_empty(), disk.is_claimed()) {
        (true, true) => "claimed: jobs that name its serial number may overwrite it",
        (true, false) if unknown_data => "read only: it holds data of no known kind (if that may go: blkdiscard -z)",
        (true, false) => "read only, blank: it can be claimed (linerate disk claim)",
        (false, _) => "read only: it must not be written to",
    }
}
