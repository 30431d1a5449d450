//! Section with the command, seed, version and plan that repeat the campaign.

use super::{Section, Subject};
use crate::commands::quoted;
use crate::document::{Block, Sheet};
use crate::words::rfc3339;

/// Section `repeat`.
pub(super) const SECTION: Section = Section {
    name: "repeat",
    title: "How to repeat it",
    summary: "command, seed, version, plan and lab as run",
    order: 150,
    blocks,
};

fn blocks(subject: &Subject<'_>) -> Vec<Block> {
    let header = &subject.campaign.header;
    let ended =
        subject.campaign.ended.map_or_else(|| "the campaign did not finish".to_owned(), rfc3339);
    let rows = [
        ("campaign", header.id.clone()),
        ("command", header.argv.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ")),
        ("linerate", header.version.clone()),
        ("seed", header.seed.to_string()),
        ("started", rfc3339(header.started)),
        ("ended", ended),
        ("plan, SHA-256", header.plan_sha256.clone()),
    ];
    let mut sheet = Sheet::new(rows);
    sheet.text("what", |(what, _)| (*what).to_owned());
    sheet.text("value", |(_, value)| value.clone());
    let table = sheet.plain("repeat-identity", "Identity of the campaign");
    let mut blocks = vec![
        Block::Table(table),
        Block::Listing { caption: "The plan as run".into(), text: header.plan.trim_end().into() },
    ];
    blocks.extend(
        header
            .lab
            .as_ref()
            .map(|lab| Block::Listing { caption: "The lab".into(), text: lab.trim_end().into() }),
    );
    blocks
}
