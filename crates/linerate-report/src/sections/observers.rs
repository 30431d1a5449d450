//! Section `observers`: octets that independent observers counted at their ports, beside those of
//! the load.
//!
//! Octets are at L2, as the observer counts them, summed over whole trials. Not observed: the
//! sender of other traffic.

use linerate_analysis::{Agreement, PointStudy, PortStudy};
use linerate_model::{Direction, Lines, printable};

use super::{Section, Subject};
use crate::document::{Block, Cell, Column, Row, Table, Tone};
use crate::grid::Grid;
use crate::number::Scale;
use crate::sentences;

/// Section `observers`.
pub(super) const SECTION: Section = Section {
    name: "observers",
    title: "Independent observers",
    summary: "octets that a switch or another observer counted beside those of the load by the \
        layer algebra, and the background's share",
    order: 93,
    blocks,
};

fn blocks(subject: &Subject<'_>) -> Vec<Block> {
    let ports: Vec<(&Grid<'_>, &PointStudy, &PortStudy)> = subject
        .points()
        .flat_map(|(grid, point)| point.observed.iter().map(move |port| (grid, point, port)))
        .collect();
    if ports.is_empty() {
        return Vec::new();
    }
    let mut blocks = vec![Block::Paragraph(answer(&ports))];
    blocks.push(Block::Table(table(&ports)));
    let who = subject.campaign.header.observed.iter();
    let who: Vec<String> = who
        .map(|port| {
            let fcs = if port.counts_fcs { "with" } else { "without" };
            let told = format!(
                "{}: {}, octets {fcs} frame check sequence, facing {}",
                port.observer, port.source, port.faces
            );
            // One line each, whatever is in it.
            printable(&told, Lines::One).into_owned()
        })
        .collect();
    blocks.push(Block::Listing { caption: "Observers".into(), text: who.join("\n") });
    blocks
}

/// Returns the agreement of all observers in a few sentences.
fn answer(ports: &[(&Grid<'_>, &PointStudy, &PortStudy)]) -> String {
    let n = |wanted| ports.iter().filter(|(_, _, port)| port.agreement == wanted).count();
    let agree = n(Agreement::Agrees);
    let mut text = format!(
        "{agree} of {} observer counts agree with the load's bytes within their bounds.",
        ports.len()
    );
    if n(Agreement::Background) > 0 {
        let most = ports.iter().filter(|(_, _, port)| port.agreement == Agreement::Background);
        let most = most.filter_map(|(_, _, port)| port.background()).fold(0.0, f64::max);
        text.push_str(&format!(
            " In {} there was other traffic: up to {:.1} % of the port's octets.",
            n(Agreement::Background),
            most * 100.0
        ));
    }
    if n(Agreement::Missing) > 0 {
        text.push_str(&format!(
            " In {} the observer missed some of the load.",
            n(Agreement::Missing)
        ));
    }
    if n(Agreement::Unknown) > 0 {
        text.push_str(&format!(" {} could not be compared.", n(Agreement::Unknown)));
    }
    text
}

fn table(ports: &[(&Grid<'_>, &PointStudy, &PortStudy)]) -> Table {
    let columns = vec![
        Column::text("where"),
        Column::text("observer"),
        Column::text("what"),
        Column::number("trials", Scale::COUNT),
        Column::number("payload of the load, bytes", Scale::COUNT),
        Column::number("its octets at L2", Scale::COUNT),
        Column::number("octets counted", Scale::COUNT),
        Column::number("counted / payload", Scale::COUNT),
        Column::number("other traffic", Scale::PERCENT),
        Column::number("bound", Scale::PERCENT),
        Column::text("verdict"),
    ];
    let mut table = Table::new(
        "observers-ports",
        "Octets counted by observers, and those of the load",
        columns,
    );
    for (grid, point, port) in ports {
        let what = match port.direction {
            Direction::Rx => format!("to {}", port.faces),
            _ => format!("from {}", port.faces),
        };
        let number =
            |value: Option<f64>| Cell::number_or(value.filter(|value| value.is_finite()), "–");
        let known = |value: f64| number((port.n > 0).then_some(value));
        let verdict = match port.agreement {
            Agreement::Agrees => "agrees",
            Agreement::Background => "background traffic",
            Agreement::Missing => "octets are missing",
            Agreement::Unknown => "not compared",
        };
        let notes = port.why.iter().map(sentences::port_note);
        let verdict = [verdict.to_owned()].into_iter().chain(notes).collect::<Vec<_>>().join("; ");
        let cells = vec![
            Cell::Text(grid.full_place_of(point)),
            Cell::Text(format!("{} {}", port.observer, port.port)),
            Cell::Text(what),
            Cell::Number(port.n as f64),
            known(port.payload),
            known(port.expected),
            known(port.octets),
            number((port.payload > 0.0).then(|| port.octets / port.payload)),
            number(port.background()),
            number((port.octets > 0.0).then(|| port.bound / port.octets)),
            Cell::Text(verdict),
        ];
        let tone = if port.agreement == Agreement::Agrees { Tone::Plain } else { Tone::Marked };
        table.rows.push(Row { cells, tone });
    }
    table.note = Some(
        "The load's octets are its payload with retransmissions, and the headers of all its frames \
            with acknowledgements. Octets beyond the bound are other traffic. A negative \
            difference means that some of the load did not pass the port while it was counted."
            .into(),
    );
    table
}
