//! How to repeat it: the command, the seed, the version and the plan as run.

use super::{Section, Subject};
use crate::document::{Block, Cell, Column, Row, Table};
use crate::words::rfc3339;

/// See the file.
pub(super) struct Repeat;

impl Section for Repeat {
    fn name(&self) -> &'static str {
        "repeat"
    }

    fn title(&self) -> &'static str {
        "How to repeat it"
    }

    fn summary(&self) -> &'static str {
        "command, seed, version, plan and lab as run"
    }

    fn order(&self) -> u32 {
        150
    }

    fn blocks(&self, subject: &Subject<'_>) -> Vec<Block> {
        let header = &subject.campaign.header;
        let ended =
            subject.campaign.ended.map_or_else(|| "it did not come to its end".to_owned(), rfc3339);
        let rows = [
            ("campaign", header.id.clone()),
            ("command", header.argv.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ")),
            ("linerate", header.version.clone()),
            ("seed", header.seed.to_string()),
            ("started", rfc3339(header.started)),
            ("ended", ended),
            ("plan, SHA-256", header.plan_sha256.clone()),
        ];
        let mut table = Table::new(
            "repeat-identity",
            "Identity of the campaign",
            vec![Column::text("what"), Column::text("value")],
        );
        table.rows = rows
            .into_iter()
            .map(|(what, value)| Row::plain(vec![Cell::text(what), Cell::Text(value)]))
            .collect();
        let mut blocks = vec![
            Block::Table(table),
            Block::Listing {
                caption: "The plan as run".into(),
                text: header.plan.trim_end().into(),
            },
        ];
        blocks.extend(
            header.lab.as_ref().map(|lab| Block::Listing {
                caption: "The lab".into(),
                text: lab.trim_end().into(),
            }),
        );
        blocks
    }
}

/// `word` as a POSIX shell reads it back.
fn quoted(word: &str) -> String {
    let safe = |c: char| c.is_ascii_alphanumeric() || "-_./=:,@%+".contains(c);
    if !word.is_empty() && word.chars().all(safe) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::quoted;

    #[test]
    fn a_command_can_be_pasted_into_a_shell() {
        assert_eq!(quoted("--set"), "--set");
        assert_eq!(quoted("a b"), "'a b'");
        assert_eq!(quoted("it's"), r"'it'\''s'");
        assert_eq!(quoted(""), "''");
    }
}
