//! Answers of `linerate disk list`, `claim` and `release`: every disk, its state, each reason against
//! writing to it, and what consent has written.

use std::path::Path;

use linerate_disk::{CLAIM_BYTES, Claim, Inspection, RESERVED_BYTES};
use linerate_model::Bytes;
use linerate_report::Document;
use linerate_report::document::{Block, Origin, Section, Table};
use serde_json::json;

/// Returns the disks in a table, then the reasons against writing to each.
pub fn document(disks: &[Inspection]) -> Document {
    let values = json!({ "disks": disks.iter().map(json_of).collect::<Vec<_>>() });
    let heads = ["disk", "size", "kind", "model", "serial number", "state"];
    let rows: Vec<Vec<String>> = disks.iter().map(row).collect();
    let mut blocks = match disks {
        [] => vec![Block::Paragraph("No disks: the kernel shows none under /sys/block.".into())],
        _ => vec![Block::Table(Table::of_words("disks", "Disks", &heads, &rows))],
    };
    for disk in disks.iter().filter(|disk| !disk.refusals.is_empty()) {
        blocks
            .push(Block::Paragraph(format!("/dev/{} must not be written to:", disk.topology.name)));
        blocks.push(Block::List(disk.refusals.iter().map(ToString::to_string).collect()));
    }
    let section = Section { id: "answer", title: "Disks", blocks };
    Document::answer(
        "Disks of this host",
        "as the kernel shows them",
        Origin::Read,
        vec![section],
        values,
    )
}

/// Returns everything known of a disk, with the verdict and its reasons in words.
fn json_of(disk: &Inspection) -> serde_json::Value {
    let mut json = serde_json::to_value(disk).unwrap_or_default();
    // The verdict is added as words, so that a program need not repeat the rules.
    if let Some(fields) = json.as_object_mut() {
        fields.insert("verdict".into(), json!(verdict(disk)));
        let reasons: Vec<String> = disk.refusals.iter().map(ToString::to_string).collect();
        fields.insert("why".into(), json!(reasons));
    }
    json
}

fn row(disk: &Inspection) -> Vec<String> {
    let known = &disk.topology;
    let unknown = || "unknown".to_owned();
    let kind = match known.rotational {
        Some(true) => "rotating",
        Some(false) => "solid state",
        None => "unknown",
    };
    let (model, serial) = (known.model.clone(), known.serial.clone());
    vec![
        format!("/dev/{}", known.name),
        Bytes(known.size_bytes).to_string(),
        kind.to_owned(),
        model.unwrap_or_else(unknown),
        serial.unwrap_or_else(unknown),
        verdict(disk).to_owned(),
    ]
}

fn verdict(disk: &Inspection) -> &'static str {
    let unknown_data = disk.content.as_ref().is_some_and(|content| content.inner_data.is_some());
    // Refusals come first: a claim does not permit writing to a disk in use.
    match (disk.refusals.is_empty(), disk.is_claimed()) {
        (true, true) => "claimed: jobs that name its serial number may overwrite it",
        (true, false) if unknown_data => {
            "read only: it holds unknown data (to erase it: blkdiscard -z)"
        }
        (true, false) => "read only, blank: it can be claimed (linerate disk claim)",
        (false, _) => "read only: it must not be written to",
    }
}

/// Returns what was done with the `claim` on `device`, such as `claimed`, in one line.
#[must_use]
pub fn claim_line(what: &str, device: &Path, claim: &Claim) -> String {
    let Claim { serial, uuid, .. } = claim;
    format!("{what} {}, serial number {serial}, claim {uuid}", device.display())
}

/// Returns what a new claim has written, and what it permits.
#[must_use]
pub fn after_claim(claim: &Claim) -> String {
    // The last MiB is left alone as well as the first: it holds tables of partitions.
    let end = claim.size_bytes - RESERVED_BYTES;
    format!(
        "wrote {CLAIM_BYTES} bytes at its start; loads may write between bytes {RESERVED_BYTES} \
            and {end}; jobs must name the serial number (consent = \"{}\")",
        claim.serial
    )
}

/// Returns what the end of a claim has written. Overwriting whole disks could destroy data without
/// a second question.
#[must_use]
pub fn after_release() -> String {
    format!(
        "wrote {CLAIM_BYTES} zeros at its start; data of loads is still there (`blkdiscard -z` \
            makes the disk blank)"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_says_what_was_written_and_where_loads_may_write() {
        let claim =
            Claim { serial: "S1".into(), size_bytes: 1 << 30, uuid: "u".into(), claimed_s: 0 };
        let line = claim_line("claimed", Path::new("/dev/sdx"), &claim);
        assert_eq!(line, "claimed /dev/sdx, serial number S1, claim u");
        let expected = "wrote 4096 bytes at its start; loads may write between bytes 1048576 and \
            1072693248; jobs must name the serial number (consent = \"S1\")";
        assert_eq!(after_claim(&claim), expected);
        assert!(after_release().starts_with("wrote 4096 zeros at its start"));
    }
}
