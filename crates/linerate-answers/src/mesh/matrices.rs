//! Matrices of all pairs: of each pair where a person can read them, else of blocks of hosts, with
//! the blocks of the strongest suspects in full.

use std::ops::Range;

use linerate_analysis::mesh::{Cells, Culprit, Measure, Status};
use linerate_campaign::mesh::{Judged, Survey};
use linerate_report::document::{
    Block, Cell, Chart, Column, ColumnKind, Mark, Plot, Role, Row, Table,
};
use linerate_report::number::Scale;

use super::{once, rounded};

/// Most rows and columns of a matrix that a person can read.
const MOST: usize = 64;
/// Most rows and columns of a matrix of blocks, which have longer names.
const MOST_BLOCKS: usize = 32;
/// Most suspects whose block is drawn in full, for each measure.
const MOST_IN_FULL: usize = 4;

/// Row or column of a matrix: hosts of the fleet in its order.
struct Line {
    label: String,
    /// The same for the head of a column.
    short: String,
    hosts: Vec<usize>,
}

/// Returns the matrices of each measure.
pub(super) fn matrices(survey: &Survey) -> Vec<Block> {
    let with_figures = survey.mesh.figures.iter().filter(|(_, cells)| cells.usual().is_some());
    let blocks = with_figures.flat_map(|(measure, cells)| {
        if cells.known().all(|(.., value)| rounded(*measure, value) == 0.0) {
            let text = format!("{}: 0 from every host.", measure.metric().title);
            return vec![Block::Paragraph(text)];
        }
        of_measure(survey, *measure, cells).into_iter().map(Block::Chart).collect()
    });
    blocks.collect()
}

fn of_measure(survey: &Survey, measure: Measure, cells: &Cells) -> Vec<Chart> {
    let metric = measure.metric();
    let hosts = &survey.fleet.hosts;
    let id = format!("pairs-{}", metric.name.replace('_', "-"));
    let single = |hosts_of: &[usize]| -> Vec<Line> {
        hosts_of.iter().map(|host| line(hosts, &[*host], None)).collect()
    };
    if hosts.len() <= MOST {
        let lines = single(&(0..hosts.len()).collect::<Vec<_>>());
        let caption = format!("{} from each host to each other", metric.title);
        let summary =
            format!("{} of every pair as a matrix; stronger colour is more.", metric.title);
        return vec![matrix((id, caption, summary), measure, cells, [&lines, &lines])];
    }
    let lines = blocks(survey);
    let caption = format!(
        "Worst {} of the pairs from each block of hosts to each other",
        lower(metric.title)
    );
    let summary =
        format!("{} of the worst pair of each block; stronger colour is more.", metric.title);
    let overview = matrix((id.clone(), caption, summary), measure, cells, [&lines, &lines]);
    let mut shown = Vec::new();
    for one in survey.judged.iter().filter(|one| one.status() != Status::Cleared) {
        let block = of_suspect(survey, one, (measure, cells), &lines);
        shown.extend(block.filter(|block| !shown.contains(block)));
    }
    let in_full = shown.into_iter().take(MOST_IN_FULL).enumerate().map(|(number, [from, to])| {
        let caption = format!("{} from {} to {}", metric.title, lines[from].short, lines[to].short);
        let summary = format!("{} of each pair of the block with a suspect.", metric.title);
        let sides = [single(&lines[from].hosts), single(&lines[to].hosts)];
        let id = format!("{id}-{}", number + 1);
        matrix((id, caption, summary), measure, cells, [&sides[0], &sides[1]])
    });
    [overview].into_iter().chain(in_full).collect()
}

/// Returns the text with a small first letter, unless it is an abbreviation.
fn lower(title: &str) -> String {
    let mut letters = title.chars();
    match (letters.next(), letters.next()) {
        (Some(first), Some(second)) if second.is_lowercase() => {
            first.to_lowercase().chain([second]).chain(letters).collect()
        }
        _ => title.to_owned(),
    }
}

/// Returns the fleet in at most [`MOST_BLOCKS`] blocks: each is of one group and nearly as large as
/// the others.
fn blocks(survey: &Survey) -> Vec<Line> {
    let fleet = &survey.fleet;
    let mut of_groups = vec![Vec::new(); fleet.group_names.len() + 1];
    for (host, group) in fleet.groups.iter().enumerate() {
        of_groups[group.unwrap_or(fleet.group_names.len())].push(host);
    }
    of_groups.retain(|hosts| !hosts.is_empty());
    // Groups are not mixed, unless there are too many of them.
    let is_mixed = of_groups.len() > MOST_BLOCKS;
    if is_mixed {
        of_groups = vec![of_groups.concat()];
    }
    let n_blocks = |size: usize| -> usize {
        of_groups.iter().map(|hosts: &Vec<usize>| hosts.len().div_ceil(size)).sum()
    };
    let size = (1..).find(|size| n_blocks(*size) <= MOST_BLOCKS).unwrap_or(1);
    let parts = of_groups.iter().flat_map(|hosts| {
        let n = hosts.len().div_ceil(size);
        (0..n).map(move |part| &hosts[share(part, n, hosts.len())])
    });
    parts
        .map(|hosts| {
            let group = fleet.groups[hosts[0]].filter(|_| !is_mixed);
            let is_whole = |group: &usize| {
                fleet.groups.iter().filter(|of| **of == Some(*group)).count() == hosts.len()
            };
            let group = group.filter(is_whole).map(|group| fleet.group_names[group].as_str());
            line(&fleet.hosts, hosts, group)
        })
        .collect()
}

/// Returns the places of part `part` of `n` nearly equal ones of `all`.
fn share(part: usize, n: usize, all: usize) -> Range<usize> {
    part * all / n..(part + 1) * all / n
}

/// Returns the line of `hosts`, which may be a whole group.
fn line(names: &[String], hosts: &[usize], group: Option<&str>) -> Line {
    let first = hosts.first().map_or("", |host| names[*host].as_str());
    let last = hosts.last().map_or("", |host| names[*host].as_str());
    let [label, short] = match group {
        Some(group) => [format!("{group}: {first}..{last}"), group.to_owned()],
        None if hosts.len() == 1 => [first.to_owned(), first.to_owned()],
        None => [format!("{first}..{last}"), format!("{first}...")],
    };
    Line { label, short, hosts: hosts.to_vec() }
}

/// Returns the block with the worst pair of a suspect; `None` for uplinks, which the matrix of
/// blocks shows.
fn of_suspect(
    survey: &Survey,
    one: &Judged,
    (measure, cells): (Measure, &Cells),
    lines: &[Line],
) -> Option<[usize; 2]> {
    let culprit = one.suspect.culprit;
    if matches!(culprit, Culprit::Uplink(_) | Culprit::Groups(..)) {
        return None;
    }
    let groups = &survey.fleet.groups;
    let own = cells.known().filter(|(from, to, _)| culprit.has(groups, *from, *to));
    let (from, to, _) = own.reduce(|a, b| if measure.is_worse(b.2, a.2) { b } else { a })?;
    let block = |host: usize| lines.iter().position(|line| line.hosts.contains(&host));
    Some([block(from)?, block(to)?])
}

/// Returns the worst figure of the pairs from the hosts of one line to those of another.
fn worst(measure: Measure, cells: &Cells, [from, to]: [&Line; 2]) -> Option<f64> {
    let pairs = from.hosts.iter().flat_map(|from| to.hosts.iter().map(move |to| (*from, *to)));
    let values = pairs.filter_map(|(from, to)| cells.get(from, to));
    values.reduce(|a, b| if measure.is_worse(b, a) { b } else { a })
}

fn matrix(
    (id, caption, summary): (String, String, String),
    measure: Measure,
    cells: &Cells,
    [rows, columns]: [&[Line]; 2],
) -> Chart {
    let metric = measure.metric();
    let of_row = |from: &Line| -> Vec<Option<f64>> {
        columns.iter().map(|to| worst(measure, cells, [from, to])).collect()
    };
    let values: Vec<Vec<Option<f64>>> = rows.iter().map(of_row).collect();
    let scale = Scale::of(metric, values.iter().flatten().flatten().copied());
    let mut heads = vec![Column::text("from")];
    let mut marks = Vec::new();
    for to in columns {
        marks.push(Mark { column: heads.len(), name: to.short.clone(), role: Role::Line });
        let column = Column::number(format!("to {}", to.short), scale);
        heads.push(Column { kind: ColumnKind::Estimate, layer: metric.layer, ..column });
    }
    let mut table = Table::new(id, caption, heads);
    for (from, values) in rows.iter().zip(values) {
        let cells = columns.iter().zip(values).map(|(to, value)| match value {
            Some(value) => Cell::Estimate(once(rounded(measure, value))),
            None if from.hosts == to.hosts => Cell::Missing("–".to_owned()),
            None => Cell::Missing("not measured".to_owned()),
        });
        table.rows.push(Row::plain([Cell::text(&from.label)].into_iter().chain(cells).collect()));
    }
    Chart { summary, ..Chart::of(Plot::Heat, metric.title, marks, table) }
}

#[cfg(test)]
mod tests {
    use linerate_analysis::mesh::{Mesh, suspects};
    use linerate_campaign::mesh::Fleet;

    use super::*;

    /// Survey of `n` hosts in groups of 25, of which host 70 is slow, as is one pair of others.
    fn survey(n: usize) -> Survey {
        let hosts: Vec<String> = (0..n).map(|host| format!("n{host}")).collect();
        let groups = (0..n).map(|host| Some(host / 25)).collect();
        let group_names = (0..n.div_ceil(25)).map(|group| format!("rack{group}")).collect();
        let fleet = Fleet { hosts, groups, group_names };
        let mut goodput = Cells::new(n);
        for (from, to) in (0..n).flat_map(|from| (0..n).map(move |to| (from, to))) {
            let scatter = ((from * 7 + to * 13) % 11) as f64 * 1e5;
            let rate = if [from, to].contains(&70) { 60e6 } else { 94e6 };
            if from != to {
                goodput.set(from, to, rate - scatter);
            }
        }
        let mesh =
            Mesh { groups: fleet.groups.clone(), figures: vec![(Measure::Goodput, goodput)] };
        let judged = suspects(&mesh).into_iter().map(Judged::of).collect();
        Survey { fleet, mesh, judged, ..Survey::default() }
    }

    fn charts(survey: &Survey) -> Vec<Chart> {
        let charts = matrices(survey).into_iter().map(|block| match block {
            Block::Chart(chart) => chart,
            other => panic!("{other:?}"),
        });
        charts.collect()
    }

    fn figure(chart: &Chart, row: usize, column: usize) -> f64 {
        match &chart.table.rows[row].cells[column + 1] {
            Cell::Estimate(estimate) => estimate.value,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_small_fleet_has_a_matrix_of_all_pairs() {
        let [whole] = &charts(&survey(50))[..] else { panic!("one measure has a figure") };
        assert_eq!((whole.table.rows.len(), whole.table.columns.len()), (50, 51));
        assert!(matches!(whole.table.rows[3].cells[4], Cell::Missing(_)), "no pair with itself");
    }

    #[test]
    fn a_large_fleet_has_a_matrix_of_blocks_and_that_of_a_suspect_in_full() {
        let survey = survey(100);
        let [overview, full] = &charts(&survey)[..] else { panic!("one block with a suspect") };
        // Blocks of at most four hosts would be 28, and each group has its own.
        assert_eq!(overview.table.rows.len(), 28);
        let heads: Vec<&str> = overview.marks.iter().map(|mark| mark.name.as_str()).collect();
        let slow = heads.iter().position(|head| *head == "n67...").expect("its block");
        assert!(figure(overview, slow, 0) < 61e6 && figure(overview, 0, slow) < 61e6);
        assert!(figure(overview, 0, 1) > 92e6);
        // No pair is in two blocks, and no block has hosts of two groups.
        let blocks = blocks(&survey);
        let all: Vec<usize> = blocks.iter().flat_map(|block| block.hosts.clone()).collect();
        assert_eq!(all, (0..100).collect::<Vec<_>>());
        assert!(
            blocks
                .iter()
                .all(|block| { block.hosts.iter().all(|host| host / 25 == block.hosts[0] / 25) })
        );
        let has_slow = full.table.rows.iter().any(|row| row.cells[0] == Cell::text("n70"))
            || full.marks.iter().any(|mark| mark.name == "n70");
        assert!(has_slow, "{}", full.title);
    }
}
