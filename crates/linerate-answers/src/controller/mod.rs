//! Answers of `linerate ncsi`: what a network controller behind a sideband is, can do and has
//! counted.

mod fields;
mod notified;
mod rates;

use linerate_observe::ncsi::{Address, FoundChannel, Reply, Strays, Transport};
use linerate_packet::ncsi::{Capabilities, Command, Outcome};
use linerate_report::Document;
use linerate_report::document::{Block, Origin, Section, Table};
use serde_json::{Map, Value, json};

pub use notified::notified;
pub use rates::Rates;

use fields::{Lines, json_of_found, name_of, of_known, of_reply};

/// The interface that was asked, and how.
#[derive(Clone, Copy, Debug)]
pub struct Source<'a> {
    /// The interface.
    pub device: &'a str,
    /// How the controller was asked.
    pub transport: Transport,
}

impl Source<'_> {
    /// Returns `json` with the interface and the transport.
    fn named_in(&self, mut json: Value) -> Value {
        json["interface"] = json!(self.device);
        json["transport"] = json!(self.transport.name());
        json["transport_reason"] = json!(self.transport.reason());
        json
    }

    fn answer(&self, title: String, tables: Vec<Table>, json: Value) -> Document {
        let how = Block::Paragraph(format!("{}: {}", self.device, self.transport.reason()));
        let blocks = std::iter::once(how).chain(tables.into_iter().map(Block::Table)).collect();
        let section = Section { id: "answer", title: "Answers", blocks };
        let json = self.named_in(json);
        Document::answer(title, "as the controller answered", Origin::Read, vec![section], json)
    }
}

/// Returns the answers of a channel to commands; the error of one is why the kernel keeps it.
pub fn channel(
    source: Source<'_>,
    address: Address,
    answers: &[(Command, Result<Reply, String>)],
) -> Document {
    let (mut json, mut tables) = (Map::new(), Vec::new());
    for (command, answer) in answers {
        let (name, remarks, lines, value) = match answer {
            Ok(reply) => {
                let (name, lines, value) = of_reply(reply);
                let done = reply.outcome == Outcome::Completed;
                // A refusal has no fields that could name it, so the command does.
                (if done { name } else { name_of(command) }, remarks(reply), lines, value)
            }
            Err(why) => {
                // A withheld answer is shown with its reason, because a gap looks like a controller
                // that lacks the counter.
                let lines = vec![("withheld".to_owned(), why.clone())];
                (name_of(command), String::new(), lines, json!({ "withheld": why }))
            }
        };
        tables.push(table(name, &format!("{name}{remarks}"), lines));
        json.insert(name.replace([' ', '-'], "_"), value);
    }
    let Address { package, channel } = address;
    let title = format!("Package {package} channel {channel} on {}", source.device);
    let json = json!({ "package": package, "channel": channel, "answers": json });
    source.answer(title, tables, json)
}

/// Returns the channels that were found.
pub fn discovered(source: Source<'_>, found: &[FoundChannel]) -> Document {
    let json = json!({ "channels": found.iter().map(json_of_found).collect::<Vec<_>>() });
    let tables = found.iter().map(channel_table).collect();
    source.answer(format!("Controllers on {}", source.device), tables, json)
}

fn channel_table(one: &FoundChannel) -> Table {
    let mut lines = Lines::new();
    if one.initial_state {
        lines.push((
            "state".into(),
            "initial: refuses every command until it is initialised (--allow-set)".into(),
        ));
    }
    if one.reported().is_some_and(Capabilities::are_filler) {
        lines.push((
            "responder".into(),
            "answers with every flag set and no channel: it knows no channels, so no other \
                channel or package was asked"
                .into(),
        ));
    }
    lines.extend(one.known.iter().flat_map(|known| of_known(known, one)));
    let replies = [one.version.as_ref().ok(), one.capabilities.as_ref(), one.link.as_ref()];
    // Refused answers have no fields.
    let completed =
        replies.into_iter().flatten().filter(|reply| reply.outcome == Outcome::Completed);
    lines.extend(completed.flat_map(|reply| of_reply(reply).1));
    let Address { package, channel } = one.address;
    let caption = format!("package {package} channel {channel}");
    table(&format!("{package}-{channel}"), &caption, lines)
}

/// Returns `lines` as a table. Many counters that are zero share one row.
fn table(id: &str, caption: &str, lines: Lines) -> Table {
    /// Fewest zeros that share a row.
    const MANY: usize = 16;
    // A controller has up to 60 counters, most of them zero.
    let n_zeros = lines.iter().filter(|(_, text)| text == "0").count();
    let folded = n_zeros >= MANY;
    // A few zeros are information, dozens of them hide the others.
    let shown = lines.into_iter().filter(|(_, text)| !folded || text != "0");
    let mut rows: Vec<Vec<String>> = shown.map(|(name, text)| vec![name, text]).collect();
    if folded {
        rows.push(vec![format!("{n_zeros} other counters"), "0".to_owned()]);
    }
    let id = format!("ncsi-{}", id.replace(' ', "-"));
    Table::of_words(id, caption, &["property", "value"], &rows)
}

/// Returns the oddities of an answer in brackets: retries, and packets that were ignored.
#[must_use]
pub fn remarks(reply: &Reply) -> String {
    let Strays { foreign, malformed, checksum, .. } = reply.strays;
    let mut odd = Vec::new();
    if reply.tries > 1 {
        odd.push(format!("answered at try {}", reply.tries));
    }
    let ignored = [
        (foreign, "answers to others"),
        (malformed, "broken packets"),
        (checksum, "packets with a wrong checksum"),
    ];
    let ignored = ignored.into_iter().filter(|(n, _)| *n > 0);
    odd.extend(ignored.map(|(n, kind)| format!("{n} {kind} ignored")));
    if odd.is_empty() { String::new() } else { format!(" ({})", odd.join(", ")) }
}
