//! Answers of `linerate ledger`: the state of a ledger, and what was saved of a damaged one.

use std::path::Path;

use linerate_report::Document;
use linerate_report::document::{Block, Origin, Section};
use linerate_store::{CampaignSummary, Health, Salvaged};
use serde_json::{Value, json};

/// The first version of the schema whose records have digests.
const WITH_DIGESTS: i64 = 3;

/// Returns the state of the ledger at `path`.
pub fn checked(path: &Path, health: &Health) -> Document {
    let mut lines = vec![if health.version < WITH_DIGESTS {
        "records: written by an earlier linerate, without digests; damage may not be found".into()
    } else {
        format!("records: {} match their digests", health.n_records)
    }];
    lines.push(
        match health.sealed {
            Some(true) => "file: unchanged since it was closed",
            Some(false) => "file: changed after it was closed",
            None => "file: not closed by its writer, so only its records are checked",
        }
        .to_owned(),
    );
    lines.extend(
        health
            .held_by
            .iter()
            .map(|holder| format!("recorded by: {holder}, unless that process was killed")),
    );
    lines.extend(health.campaigns.iter().map(|campaign| {
        format!(
            "campaign {}: {}, {} of {} trials complete",
            campaign.id, campaign.name, campaign.n_completed, campaign.n_trials
        )
    }));
    lines.extend(health.damage.iter().map(|damage| format!("damaged: {damage}")));
    let mut blocks = vec![Block::List(lines)];
    // A damaged trial is left out when the ledger is read, and only a repetition brings it back.
    if !health.damage.is_empty() {
        blocks.push(Block::Paragraph(format!(
            "Next: repeat the trials that are left out with `linerate run PLAN --ledger {} \
                --resume`.",
            path.display()
        )));
    }
    answer(format!("{}: schema {}", path.display(), health.version), blocks, health_json(health))
}

fn health_json(health: &Health) -> Value {
    json!({
        "schema": health.version,
        "records": health.n_records,
        "sealed": health.sealed,
        "held_by": health.held_by,
        "campaigns": health.campaigns.iter().map(campaign_json).collect::<Vec<_>>(),
        "damage": health.damage,
    })
}

fn campaign_json(campaign: &CampaignSummary) -> Value {
    json!({
        "id": campaign.id,
        "name": campaign.name,
        "trials": campaign.n_trials,
        "completed": campaign.n_completed,
    })
}

/// Returns what was saved into the ledger at `path`.
pub fn salvaged(path: &Path, saved: &Salvaged) -> Document {
    let title = format!(
        "{}: {} campaigns, {} complete trials",
        path.display(),
        saved.n_campaigns,
        saved.n_trials
    );
    let lost: Vec<String> = saved.damage.iter().map(|damage| format!("lost: {damage}")).collect();
    let blocks = if lost.is_empty() { Vec::new() } else { vec![Block::List(lost)] };
    let json = json!({
        "campaigns": saved.n_campaigns, "completed": saved.n_trials, "lost": saved.damage,
    });
    answer(title, blocks, json)
}

fn answer(title: String, blocks: Vec<Block>, json: Value) -> Document {
    let section = Section { id: "answer", title: "Ledger", blocks };
    Document::answer(title, "as found in the file", Origin::Read, vec![section], json)
}
