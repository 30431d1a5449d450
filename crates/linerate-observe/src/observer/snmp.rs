//! A switch's port by its SNMP agent: `ifXTable` and `ifTable` of IF-MIB (RFC 2863), 64-bit
//! counters where it has them. Octets are as RFC 3635 3.2.1 says, from the destination address to
//! the frame check sequence; Linux leaves the latter out.
//!
//! Not seen: how old the values are that an agent answers with. Many read their hardware every few
//! seconds only.

use linerate_model::{ObservedPort, ObserverKind};
use linerate_packet::snmp::{Oid, Value};

use super::port::{Counts, N_COUNTERS, Width};
use super::session::Session;
use super::{Counting, ObserverSpec, SnmpAgent};
use crate::Unavailable;

/// `sysDescr.0` and `sysUpTime.0` (RFC 3418).
const SYS_DESCR: &[u32] = &[1, 3, 6, 1, 2, 1, 1, 1, 0];
const SYS_UP_TIME: &[u32] = &[1, 3, 6, 1, 2, 1, 1, 3, 0];
/// `ifEntry` and `ifXEntry` (RFC 2863 6).
const IF_ENTRY: &[u32] = &[1, 3, 6, 1, 2, 1, 2, 2, 1];
const IF_X_ENTRY: &[u32] = &[1, 3, 6, 1, 2, 1, 31, 1, 1, 1];
/// Columns of `ifEntry`.
const IF_DESCR: u32 = 2;
/// Columns of `ifXEntry`.
const IF_NAME: u32 = 1;
const IF_HIGH_SPEED: u32 = 15;
const IF_ALIAS: u32 = 18;
const IF_DISCONTINUITY: u32 = 19;

/// For each counter: the 64-bit columns of `ifXEntry` that add up to it, and those of `ifEntry`
/// where it has none.
const COLUMNS: [(&[u32], &[u32]); N_COUNTERS] = [
    // Octets.
    (&[6], &[10]),
    // Unicast, multicast and broadcast; the latter two of `ifEntry` are one, and deprecated.
    (&[7, 8, 9], &[11, 12]),
    // Discards and errors have no 64-bit columns.
    (&[], &[13]),
    (&[], &[14]),
    (&[10], &[16]),
    (&[11, 12, 13], &[17, 18]),
    (&[], &[19]),
    (&[], &[20]),
];

/// Interfaces looked through at most, and asked for at once.
const MOST_INTERFACES: usize = 20_000;
const AT_ONCE: i32 = 25;
/// Octets of an agent's own description that are printed.
const LONGEST_DESCRIPTION: usize = 80;

struct Agent {
    session: Session,
    objects: Vec<Oid>,
    /// For each object: which counter it adds to, and its width.
    parts: Vec<(usize, Width)>,
}

pub(super) fn open(
    spec: &ObserverSpec,
    agent: &SnmpAgent,
) -> Result<(Box<dyn Counting>, ObservedPort), Unavailable> {
    let mut session = Session::open(agent)?;
    let described = session.get(&[Oid::new(SYS_DESCR)])?;
    let described = text(&described[0]);
    let index = index_of(&mut session, &spec.interface)?;
    let of_x = |column| Oid::new(IF_X_ENTRY).with(&[column, index]);
    let of = |column| Oid::new(IF_ENTRY).with(&[column, index]);
    // One request finds out which columns exist, so that polls later ask for no others.
    let told = session.get(&[of_x(IF_NAME), of(IF_DESCR), of_x(IF_HIGH_SPEED), of_x(6), of(10)])?;
    let (wide, narrow) = (told[3].number().is_some(), told[4].number().is_some());
    if !wide && !narrow {
        let why = format!(
            "observe interface {} (ifIndex {index}) of SNMP agent {}: it counts no octets",
            spec.interface, agent.address
        );
        return Err(Unavailable(why));
    }
    let mut objects = Vec::new();
    let mut parts = Vec::new();
    for (counter, (wide_columns, narrow_columns)) in COLUMNS.iter().enumerate() {
        let is_wide = wide && !wide_columns.is_empty();
        let columns = if is_wide { wide_columns } else { narrow_columns };
        for column in *columns {
            objects.push(if is_wide { of_x(*column) } else { of(*column) });
            parts.push((counter, if is_wide { Width::Wide } else { Width::Narrow }));
        }
    }
    objects.extend([Oid::new(SYS_UP_TIME), of_x(IF_DISCONTINUITY)]);
    let name = [text(&told[0]), text(&told[1])]
        .into_iter()
        .find(|name| !name.is_empty())
        .unwrap_or_default();
    let speed = told[2]
        .number()
        .filter(|speed| *speed > 0)
        .map_or(String::new(), |speed| format!(", {speed} Mbit/s"));
    let width = if wide { "64-bit" } else { "32-bit" };
    let linux = described.starts_with("Linux");
    let short: String = described.chars().take(LONGEST_DESCRIPTION).collect();
    let source = format!(
        "SNMP agent {} ({short}), interface {index} {name}{speed}, {width} counters",
        agent.address
    );
    let port = ObservedPort {
        observer: spec.name.clone(),
        port: if name.is_empty() { index.to_string() } else { name },
        faces: spec.faces.clone(),
        // Linux agents pass on the kernel's counters, which lack the check sequence. Real switches
        // count it.
        counts_fcs: spec.counts_fcs.unwrap_or(!linux),
        source,
        kind: Some(ObserverKind::Snmp),
    };
    Ok((Box::new(Agent { session, objects, parts }), port))
}

impl Counting for Agent {
    fn read(&mut self) -> Result<Counts, Unavailable> {
        let values = self.session.get(&self.objects)?;
        let mut counts = Counts::default();
        for ((counter, width), value) in self.parts.iter().zip(&values) {
            if let Some(number) = value.number() {
                // Packets are the sum of three columns on most agents.
                let sum = counts.values[*counter].map_or(0, |(sum, _)| sum);
                counts.values[*counter] = Some((sum.wrapping_add(number), *width));
            }
        }
        let time = |value: Option<&Value>| {
            value.and_then(Value::number).and_then(|ticks| u32::try_from(ticks).ok())
        };
        counts.uptime = time(values.get(self.parts.len()));
        counts.discontinuity = time(values.get(self.parts.len() + 1));
        // Without octets there is nothing to compare, even if other columns answer.
        if counts.values[0].is_none() {
            return Err(Unavailable("the agent has no such interface any more".into()));
        }
        Ok(counts)
    }
}

/// The `ifIndex` of the interface called `name`, by its name, description or alias; a number is one
/// itself.
fn index_of(session: &mut Session, name: &str) -> Result<u32, Unavailable> {
    if let Ok(index) = name.parse() {
        return Ok(index);
    }
    let mut seen = Vec::new();
    for column in [
        Oid::new(IF_X_ENTRY).with(&[IF_NAME]),
        Oid::new(IF_ENTRY).with(&[IF_DESCR]),
        Oid::new(IF_X_ENTRY).with(&[IF_ALIAS]),
    ] {
        let rows = column_of(session, &column)?;
        if let Some((index, _)) = rows.iter().find(|(_, text)| text == name) {
            return Ok(*index);
        }
        // The first column is kept for the message: it has the short names.
        seen = if seen.is_empty() { rows } else { seen };
    }
    const SHOWN: usize = 12;
    let names: Vec<&str> = seen.iter().map(|(_, text)| text.as_str()).take(SHOWN).collect();
    let more = if seen.len() > SHOWN {
        format!(" and {} more", seen.len() - SHOWN)
    } else {
        String::new()
    };
    Err(Unavailable(format!(
        "find interface {name} at the SNMP agent: it has {}{more}",
        names.join(", ")
    )))
}

/// A column of text by `ifIndex`. An agent that goes backwards, or on for ever, is left.
fn column_of(session: &mut Session, column: &Oid) -> Result<Vec<(u32, String)>, Unavailable> {
    let mut rows = Vec::new();
    let mut at = column.clone();
    while rows.len() < MOST_INTERFACES {
        let found = session.following(&at, AT_ONCE)?;
        let before = rows.len();
        for (object, value) in found {
            // An agent that answers out of order would make the walk endless.
            let Some([index]) = object.below(column).filter(|_| object > at) else {
                return Ok(rows);
            };
            rows.push((*index, text(&value)));
            at = object;
        }
        // An empty answer ends the table, even without an error.
        if rows.len() == before {
            break;
        }
    }
    Ok(rows)
}

/// Text as agents write it, on one line.
fn text(value: &Value) -> String {
    match value {
        Value::Octets(octets) => {
            let text = String::from_utf8_lossy(octets);
            text.split(|c: char| c.is_whitespace() || c.is_control())
                .filter(|word| !word.is_empty())
                .collect::<Vec<_>>()
                .join(" ")
        }
        _ => String::new(),
    }
}
