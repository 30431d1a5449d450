//! Loads of many pairs at once, beside their pairs alone.

use linerate_analysis::mesh::Measure;
use linerate_campaign::mesh::{Pattern, Survey, Together};
use linerate_model::{Direction, Unit};
use linerate_report::document::{Block, Cell, Column, Row, Table};
use linerate_report::number::Scale;

const NOTE: &str = "Alone: the sum over the receivers of their median goodput from one of these \
    senders at a time. Below 100 %, the hosts, links or switches do not carry all pairs at once. \
    An incast can exceed 100 % where one sender does not fill the receiver's port.";

/// Returns the table of all loads; none if nothing was loaded at once.
pub(super) fn blocks(survey: &Survey) -> Vec<Block> {
    let failed = survey.at_once_failed.as_ref();
    let failed =
        failed.map(|why| Block::Paragraph(format!("Pairs could not be loaded at once: {why}")));
    let table = (!survey.at_once.is_empty()).then(|| Block::Table(table(survey)));
    table.into_iter().chain(failed).collect()
}

fn table(survey: &Survey) -> Table {
    let rate = Measure::Goodput.metric();
    let ranges = survey.at_once.iter().filter_map(Together::range);
    let values = survey.at_once.iter().filter_map(Together::total);
    let values = values.chain(ranges.flat_map(|(low, high)| [low, high]));
    let scale = Scale::of(rate, values);
    let share = |head: &str| Column::number(head, Scale::fit(Unit::Ratio, [1.0]));
    let columns = vec![
        Column::text("load"),
        Column::number("pairs", Scale::fit(Unit::Count, [1.0])),
        received("together", scale),
        share("of alone"),
        received("slowest pair", scale),
        received("fastest pair", scale),
        share("most retransmitted"),
    ];
    let mut table = Table::new("at-once", "Pairs at the same time", columns);
    table.note = Some(NOTE.to_owned());
    for one in &survey.at_once {
        let number = |value: Option<f64>| {
            value.map_or_else(|| Cell::Missing("not measured".to_owned()), Cell::Number)
        };
        let [slowest, fastest] = match one.range() {
            Some((low, high)) => [Some(low), Some(high)],
            None => [None; 2],
        };
        let cells = vec![
            Cell::text(name(survey, one)),
            Cell::Number(one.load.pairs.len() as f64),
            number(one.total()),
            number(one.total().zip(one.alone).map(|(total, alone)| total / alone)),
            number(slowest),
            number(fastest),
            number(one.retransmitted),
        ];
        table.rows.push(Row::plain(cells));
    }
    table
}

/// Returns a column of goodput at receivers.
fn received(head: &str, scale: Scale) -> Column {
    let column = Column::number(head, scale);
    Column { layer: Measure::Goodput.metric().layer, direction: Some(Direction::Rx), ..column }
}

/// Returns the name of a load for a person.
fn name(survey: &Survey, one: &Together) -> String {
    match (one.load.pattern, one.load.pairs.first()) {
        (Pattern::Incast, Some((_, receiver))) => {
            format!("all to {}", survey.fleet.hosts[*receiver])
        }
        (Pattern::Bisection, _) => "half to half, both ways".to_owned(),
        _ => "all to all".to_owned(),
    }
}
