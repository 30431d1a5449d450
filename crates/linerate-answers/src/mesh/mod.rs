//! Answer of `linerate mesh`: suspects with their evidence, hosts, and a matrix of all pairs.

mod at_once;
mod compare;
mod matrices;
mod metrics;
mod names;
mod record;

use linerate_analysis::mesh::{
    Below, Confirmation, Culprit, FEWEST, Measure, Sign, Status, USUAL_SHARE, rounds_of_groups,
};
use linerate_analysis::statistics::median;
use linerate_campaign::fleet::Absent;
use linerate_campaign::mesh::{Earlier, Fleet, Judged, MeshLoad, Survey};
use linerate_model::{Direction, Estimate, TestbedKind};
use linerate_report::Document;
use linerate_report::document::{
    Block, Cell, Column, Lead, NextStep, Origin, Row, Section, Table, Tone,
};
use linerate_report::number::Scale;

use crate::figures::{percent, quantity};
use crate::plan::span;
use record::{cells, names, operators_rule, side, suspect_of};

pub use compare::Compared;
pub use metrics::text as metrics;
pub use record::MeshRecord;

/// Place of a mesh, which commands in the answer repeat.
#[derive(Clone, Copy, Debug)]
pub struct MeshPlace<'a> {
    /// Kind of the path.
    pub kind: TestbedKind,
    /// Options that lead other commands to the hosts, such as `--testbed FILE`.
    pub options: &'a str,
    /// True for nodes of Slurm.
    pub is_slurm: bool,
}

/// Returns the plan of a mesh and its expected time.
#[must_use]
pub fn agenda(fleet: &Fleet, load: &MeshLoad, absent: &[Absent], earlier: &Earlier) -> String {
    let n = fleet.hosts.len();
    let n_rounds = rounds_of_groups(&fleet.groups).len();
    let expected = span(load.expected(fleet, earlier.left(fleet).len()).as_secs_f64());
    let mut text = format!(
        "Plan: {} pairs of {n} hosts in {n_rounds} rounds, both directions, each host in one pair \
            at a time; then the suspects again.\nExpected time: {expected}, and as much again or \
            less for a second look.",
        n * n.saturating_sub(1) / 2
    );
    if earlier.n_stages > 0 {
        text += &format!(
            "\nResumed: {} pairs were measured in both directions before.",
            earlier.n_pairs()
        );
    }
    if n < FEWEST {
        text += &format!("\nNobody is suspected among fewer than {FEWEST} hosts.");
    }
    if !load.at_once.is_empty() {
        let names: Vec<&str> = load.at_once.iter().map(|pattern| pattern.name()).collect();
        text += &format!("\nThen many pairs at once: {}.", names.join(", "));
    }
    for one in absent {
        text += &format!("\nLeft out: {}: {}", one.host, one.why);
    }
    text
}

/// Returns the answer; `record` is its JSON.
pub fn document(survey: &Survey, record: &MeshRecord, place: MeshPlace<'_>) -> Document {
    let sections = [
        Section { id: "answer", title: "Result", blocks: answer(survey, place) },
        Section { id: "suspects", title: "Suspects", blocks: suspects(survey) },
        Section { id: "at-once", title: "At once", blocks: at_once::blocks(survey) },
        Section { id: "hosts", title: "Hosts", blocks: hosts(survey) },
        Section { id: "pairs", title: "Pairs", blocks: matrices::matrices(survey) },
    ];
    let n = survey.fleet.hosts.len();
    Document::answer(
        format!("Mesh of {n} hosts"),
        format!("all pairs in {} rounds, both directions", survey.n_rounds),
        Origin::Measured(place.kind),
        sections.into_iter().filter(|section| !section.blocks.is_empty()).collect(),
        serde_json::to_value(record).expect("it has only names and numbers"),
    )
}

/// Returns a figure beside the usual one.
fn beside(measure: Measure, seen: f64, usual: f64) -> String {
    let metric = measure.metric();
    let figures = format!("{} instead of {}", quantity(metric, seen), quantity(metric, usual));
    match measure {
        Measure::Goodput => format!("{figures} ({})", percent(seen / usual)),
        _ => figures,
    }
}

fn sign(sign: &Sign) -> String {
    let title = sign.measure.metric().title;
    let figures = beside(sign.measure, sign.seen, sign.usual);
    match sign.n {
        1 => format!("{title} {figures}"),
        n => format!("{title} {figures}, median of {n} directed pairs"),
    }
}

fn again(one: &Confirmation) -> String {
    let figures = beside(one.measure, one.seen, one.usual);
    let p = one.p.map_or("no p".to_owned(), |p| format!("p = {}", Short(p)));
    let [own, controls] = one.n;
    format!("again {figures}, {p}, n = {own} beside {controls} of the control")
}

/// Probability with two digits.
struct Short(f64);

impl std::fmt::Display for Short {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.0 < 1e-3 { write!(f, "{:.1e}", self.0) } else { write!(f, "{:.3}", self.0) }
    }
}

const fn word(status: Status) -> &'static str {
    match status {
        Status::Confirmed => "confirmed",
        Status::Open => "suspected",
        Status::Cleared => "not seen again",
    }
}

/// Returns the hosts that alone explain what a second look confirmed, each with the reason in a
/// line: the nodes to take out of service.
#[must_use]
pub fn bad_hosts(survey: &Survey) -> Vec<(String, String)> {
    let confirmed = survey.judged.iter().filter(|one| one.status() == Status::Confirmed);
    let hosts = confirmed.filter_map(|one| match one.suspect.culprit {
        Culprit::Host(host) | Culprit::Sending(host) | Culprit::Receiving(host) => {
            let reason = one.suspect.signs.first().map(sign).unwrap_or_default();
            Some((survey.fleet.hosts[host].clone(), format!("linerate mesh: {reason}")))
        }
        _ => None,
    });
    hosts.collect()
}

/// Returns the first screen.
fn answer(survey: &Survey, place: MeshPlace<'_>) -> Vec<Block> {
    let goodput = cells(survey, Measure::Goodput);
    let values: Vec<f64> = goodput.known().map(|(.., value)| value).collect();
    let metric = Measure::Goodput.metric();
    let n = survey.fleet.hosts.len();
    let range =
        values.iter().copied().reduce(f64::min).zip(values.iter().copied().reduce(f64::max));
    let mut basis = vec![format!("median of {} directed pairs of {n} hosts", values.len())];
    basis.extend(range.map(|(low, high)| {
        format!("from {} to {}", quantity(metric, low), quantity(metric, high))
    }));
    let (status, surety) = match survey.judged.first().map(Judged::status) {
        Some(Status::Confirmed) => ("confirmed", "located"),
        Some(Status::Open) => ("suspected", "suspected"),
        Some(Status::Cleared) => ("none: what stood out was not seen again", "equivalent"),
        None if survey.mesh.n_measured() < FEWEST => ("not judged", "not diagnosed"),
        None => ("none", "equivalent"),
    };
    let first = survey.judged.first().filter(|one| one.status() != Status::Cleared);
    let claim = match first {
        Some(one) => {
            Some(format!("{} differs from the rest", names(survey).of(one.suspect.culprit)))
        }
        None if survey.mesh.n_measured() < FEWEST => {
            Some(format!("a mesh needs {FEWEST} hosts to suspect one"))
        }
        None => None,
    };
    let evidence = first.map_or_else(Vec::new, |one| {
        one.suspect.signs.iter().map(sign).chain(one.looks.iter().map(again)).collect()
    });
    let lead = Lead {
        surety,
        figure: median(&values).map_or("no figure".to_owned(), |value| quantity(metric, value)),
        context: "TCP goodput of a pair".to_owned(),
        basis,
        label: "Suspect",
        status,
        claim,
        evidence,
        next: first.map_or_else(Vec::new, |one| next(survey, one.suspect.culprit, place)),
        ..Lead::default()
    };
    let mut blocks = vec![Block::Lead(lead)];
    if let Some(why) = &survey.second_failed {
        let text = format!("The suspects could not be measured again: {why}");
        blocks.push(Block::Paragraph(text));
    }
    if survey.interrupted.is_some() {
        blocks.push(Block::Paragraph("Interrupted: the figures are those until then.".to_owned()));
    }
    let absent: Vec<String> = survey
        .absent
        .iter()
        .map(|one| format!("{} did not answer: {}", one.host, one.why))
        .collect();
    let failed = survey.failed.iter().map(|&(from, to)| {
        let host = |host: usize| &survey.fleet.hosts[host];
        format!("no figure between {} and {}, also alone", host(from), host(to))
    });
    let missing: Vec<String> = absent.into_iter().chain(failed).collect();
    if !missing.is_empty() {
        blocks.push(Block::List(missing));
    }
    blocks
}

/// Returns the diagnosis of a pair of the culprit, and for Slurm how to drain bad nodes.
fn next(survey: &Survey, culprit: Culprit, place: MeshPlace<'_>) -> Vec<NextStep> {
    let groups = &survey.fleet.groups;
    let goodput = cells(survey, Measure::Goodput);
    let own = goodput.known().filter(|(from, to, _)| culprit.has(groups, *from, *to));
    let worst = own.min_by(|a, b| a.2.total_cmp(&b.2));
    let command = worst.map(|(from, to, _)| {
        let host = |host: usize| &survey.fleet.hosts[host];
        format!("linerate diagnose {} --from {} --to {}", place.options, host(from), host(to))
    });
    let diagnose = NextStep { text: "find what limits its slowest pair".to_owned(), command };
    let nodes = if place.is_slurm { bad_hosts(survey) } else { Vec::new() };
    let drains = nodes.into_iter().map(|(node, reason)| NextStep {
        text: format!("give {node} no further jobs (`--drain` does it)"),
        command: Some(format!("scontrol update nodename={node} state=drain reason='{reason}'")),
    });
    [diagnose].into_iter().chain(drains).collect()
}

/// Returns what the rule of many operators says, as a sentence.
fn operators_sentence(survey: &Survey) -> String {
    let Below { hosts, n_pairs } = operators_rule(survey);
    let n = cells(survey, Measure::Goodput).known().count();
    let share = USUAL_SHARE * 100.0;
    let names: Vec<&str> = hosts.iter().map(|host| survey.fleet.hosts[*host].as_str()).collect();
    let named = match names.as_slice() {
        [] => "no host is bad".to_owned(),
        [one] => format!("host {one} is bad"),
        several => format!("{} hosts are bad ({})", several.len(), name_list(several)),
    };
    format!(
        "By the rule of thumb (goodput below {share:.0} % of the median), {named}: {n_pairs} of \
            {n} directed pairs are below it."
    )
}

/// Returns the first names of a list, and how many others there are.
fn name_list(names: &[impl AsRef<str>]) -> String {
    const MOST: usize = 16;
    let first: Vec<&str> = names.iter().take(MOST).map(AsRef::as_ref).collect();
    let others = names.len() - first.len();
    let rest = if others == 0 { String::new() } else { format!(" and {others} others") };
    first.join(", ") + &rest
}

fn suspects(survey: &Survey) -> Vec<Block> {
    if survey.mesh.n_measured() < FEWEST {
        return Vec::new();
    }
    let rule = Block::Paragraph(operators_sentence(survey));
    if survey.judged.is_empty() {
        return vec![rule];
    }
    let heads = ["suspect", "status", "evidence", "second look"];
    let rows: Vec<Vec<String>> = survey
        .judged
        .iter()
        .map(|one| {
            let signs: Vec<String> = one.suspect.signs.iter().map(sign).collect();
            let looks: Vec<String> = one.looks.iter().map(again).collect();
            let looks = if looks.is_empty() { "none".to_owned() } else { looks.join("; ") };
            let status = word(one.status()).to_owned();
            vec![names(survey).of(one.suspect.culprit), status, signs.join("; "), looks]
        })
        .collect();
    let table = Table::of_words("suspects", "Suspects, the strongest first", &heads, &rows);
    vec![Block::Table(Table { note: Some(NOTE.to_owned()), ..table }), rule]
}

const NOTE: &str = "Confirmed: measured again beside pairs that no suspect touches, the difference \
    was there again (rank sum test, 5 % for all suspects together). A confirmed pair whose hosts \
    are slow to others, too, is named as the host. docs/mesh.md describes the search.";

/// Returns the column of the medians of hosts over their pairs.
fn side_column(survey: &Survey, head: &str, measure: Measure, is_sender: bool) -> Column {
    let metric = measure.metric();
    let hosts = 0..survey.fleet.hosts.len();
    let values = hosts.filter_map(|host| side(survey, measure, host, is_sender));
    let direction = if is_sender { Direction::Tx } else { Direction::Rx };
    let column = Column::number(head, Scale::of(metric, values));
    Column { layer: metric.layer, direction: Some(direction), ..column }
}

/// Returns the medians of each host.
fn hosts(survey: &Survey) -> Vec<Block> {
    let columns = [
        ("goodput sent", Measure::Goodput, true),
        ("goodput received", Measure::Goodput, false),
        ("RTT min", Measure::RoundTrip, true),
        ("retransmitted", Measure::Retransmitted, true),
    ];
    let heads =
        columns.map(|(head, measure, is_sender)| side_column(survey, head, measure, is_sender));
    let heads = [Column::text("host"), Column::text("group")].into_iter().chain(heads);
    let mut table = Table::new("hosts", "Medians of each host over its pairs", heads.collect());
    for (host, name) in survey.fleet.hosts.iter().enumerate() {
        let group = survey.fleet.groups[host].map(|group| survey.fleet.group_names[group].as_str());
        let words = [name.as_str(), group.unwrap_or("–")].map(Cell::text);
        let figures = columns.map(|(_, measure, is_sender)| {
            let none = || Cell::Missing("no pair was measured".to_owned());
            let value = side(survey, measure, host, is_sender);
            value.map(|value| rounded(measure, value)).map_or_else(none, Cell::Number)
        });
        let is_suspect =
            suspect_of(survey, host).is_some_and(|one| one.status() != Status::Cleared);
        let tone = if is_suspect { Tone::Marked } else { Tone::Plain };
        table.rows.push(Row { cells: words.into_iter().chain(figures).collect(), tone });
    }
    // A long table shows its first rows.
    table.rows.sort_by_key(|row| row.tone != Tone::Marked);
    vec![Block::Table(table)]
}

/// Returns the estimate of one run.
const fn once(value: f64) -> Estimate {
    Estimate { value, low: None, high: None, confidence: None, n: 1 }
}

/// Returns a share in tenths of a percent: more digits of rare events would say nothing.
fn rounded(measure: Measure, value: f64) -> f64 {
    const TENTHS_OF_PERCENT: f64 = 1e3;
    match measure {
        Measure::Retransmitted => (value * TENTHS_OF_PERCENT).round() / TENTHS_OF_PERCENT,
        _ => value,
    }
}

#[cfg(test)]
mod tests {
    use linerate_campaign::mesh::MOST_OF_STAGE;
    use linerate_model::{Nanos, Ratio};

    use super::*;

    #[test]
    fn the_plan_of_a_small_mesh_says_that_nobody_is_suspected_and_who_is_left_out() {
        let hosts: Vec<String> = ["a", "b"].map(str::to_owned).into();
        let fleet = Fleet::of(hosts, &[], &[]).expect("no groups");
        let load = MeshLoad {
            measured: Nanos::from_secs(1),
            omitted: Nanos(0),
            again: 6,
            seed: 1,
            budget: Ratio(1.0),
            most_of_stage: MOST_OF_STAGE,
            at_once: Vec::new(),
        };
        let absent = [Absent { host: "c".into(), why: "no answer".into() }];
        let text = agenda(&fleet, &load, &absent, &Earlier::none(&fleet));
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].starts_with("Plan: 1 pairs of 2 hosts in 1 rounds"), "{text}");
        assert!(lines[1].starts_with("Expected time: "), "{text}");
        let few = format!("Nobody is suspected among fewer than {FEWEST} hosts.");
        assert_eq!(lines[2..], [few.as_str(), "Left out: c: no answer"]);
    }
}
