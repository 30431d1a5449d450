//! Section `cost` (Table 1 of the Sun paper): CPU seconds per gigabyte; nanoseconds, instructions
//! and interrupts per packet; cores busy with application, kernel and softirq.
//!
//! CPU time is the sum of both ends. A counter that the machine lacks is listed as unavailable with
//! its reason, never as zero.

use std::collections::{BTreeMap, BTreeSet};

use linerate_analysis::{MetricStudy, PointStudy};
use linerate_model::{Metric, Use, metric};

use super::{Section, Subject};
use crate::curves::{curves, uncapitalised};
use crate::document::{Block, Chart, Column, Plot, Role, Sheet, Table};
use crate::grid::{Family, Grid, estimate_cell, families, headline};
use crate::number::Scale;

/// Section `cost`.
pub(super) const SECTION: Section = Section {
    name: "cost",
    title: "CPU cost",
    summary: "CPU seconds per gigabyte and cost per packet, split into application, kernel and \
        softirq",
    order: 60,
    blocks,
};

fn blocks(subject: &Subject<'_>) -> Vec<Block> {
    let mut blocks: Vec<Block> = families(subject.grids).iter().flat_map(of_family).collect();
    // Missing counters of a campaign without costs are no news.
    if !blocks.is_empty() {
        blocks.extend(unavailable(subject));
    }
    blocks
}

fn of_family(family: &Family<'_>) -> Vec<Block> {
    let told = |metric: &&Metric| {
        family.grids.iter().any(|grid| grid.tells(metric) && grid.direction(metric).is_some())
    };
    let metrics: Vec<&Metric> =
        Use::Cost.metrics().chain(Use::CpuPart.metrics()).filter(told).collect();
    if metrics.is_empty() {
        return Vec::new();
    }
    let mut blocks = Vec::new();
    // Sweeps of a single point have no axis to draw along.
    for (grid, main) in family.grids.iter().filter_map(|grid| Some((grid, grid.main_axis()?))) {
        // The cost per packet is the sharper figure where packets were counted.
        let by = if grid.direction(metric::CPU_NS_PER_PACKET).is_some() {
            metric::CPU_NS_PER_PACKET
        } else {
            metric::CPU_SECONDS_PER_GIGABYTE
        };
        blocks.extend(curves("cost", grid, main, by));
        blocks.extend(split(grid, main).map(Block::Chart));
    }
    blocks.push(Block::Table(table(family, &metrics)));
    blocks
}

fn table(family: &Family<'_>, metrics: &[&'static Metric]) -> Table {
    fn figure<'a>(
        grid: &Grid<'_>,
        point: &'a PointStudy,
        metric: &Metric,
    ) -> Option<&'a MetricStudy> {
        headline(point)?.metric(metric, grid.direction(metric)?)
    }
    let mut sheet = family.sheet();
    for known in metrics {
        let values = family
            .points()
            .filter_map(|(grid, point)| Some(figure(grid, point, known)?.estimate?.value));
        let scale = Scale::of(known, values);
        // A cost is a sum over both ends, so a direction would mislead.
        let column = Column::undirected(known.title, scale, known.layer);
        sheet.column(column, |(grid, point)| estimate_cell(point, figure(grid, point, known)));
    }
    let caption = format!("Cost: {}", family.name);
    let mut table =
        sheet.judged(format!("cost-{}", family.id), caption, |(_, point)| point.validity);
    table.note = Some(
        "CPU time of both ends. Packets are IP packets; each GSO segment counts as one.".into(),
    );
    // Longer tables would push the next charts off the screen.
    table.folded = table.rows.len() > 12;
    table
}

/// Returns the parts of the CPU time along axis `main`; the other axes are where goodput is
/// highest.
fn split(grid: &Grid<'_>, main: usize) -> Option<Chart> {
    let parts: Vec<_> = Use::CpuPart
        .metrics()
        .filter_map(|metric| Some((metric, metric.title, grid.direction(metric)?)))
        .collect();
    // One part alone is not a split.
    if parts.len() < 2 {
        return None;
    }
    let others: Vec<usize> =
        (0..grid.axes.len()).filter(|&i| i != main && grid.axes[i].values.len() > 1).collect();
    let setting =
        |point: &PointStudy| others.iter().map(|&i| grid.axes[i].place(point)).collect::<Vec<_>>();
    // Points without a goodput come last.
    let direction = grid.direction(metric::GOODPUT);
    let rate = |point: &PointStudy| {
        Some(headline(point)?.metric(metric::GOODPUT, direction?)?.estimate?.value)
    };
    let rate_or_zero = |point: &PointStudy| rate(point).unwrap_or(0.0);
    let best = grid.points.iter().max_by(|a, b| rate_or_zero(a).total_cmp(&rate_or_zero(b)))?;
    let chosen = setting(best);
    let axis = &grid.axes[main];
    let held = others
        .iter()
        .filter_map(|&i| {
            grid.axes[i].place(best).map(|place| format!(", {}", grid.axes[i].named(place)))
        })
        .collect::<String>();
    let caption = format!("CPU cores busy by {}{held}: {}", axis.name, grid.sweep);
    // Cores need no prefix, so the unit is fixed.
    let scale = Scale { base: "core", symbol: "core", factor: 1.0 };
    let along = grid.points.iter().filter(|point| setting(point) == chosen);
    let mut along: Vec<_> = along.filter_map(|point| Some((axis.place(point)?, *point))).collect();
    // Bars stand in the order of the axis and not of the trials.
    along.sort_by_key(|(place, _)| *place);
    let mut sheet = Sheet::new(along);
    sheet.column(axis.column(), |(place, _)| axis.cell(*place));
    for (metric, told, way) in &parts {
        sheet.drawn(Role::Bar, Column::undirected(*told, scale, None), |(_, point)| {
            estimate_cell(point, headline(point).and_then(|job| job.metric(metric, *way)))
        });
    }
    let marks = sheet.marks();
    let mut table =
        sheet.judged(format!("cost-{}-split", grid.number), caption, |(_, point)| point.validity);
    table.note = Some("CPU seconds per second, sum of both ends.".into());
    table.folded = true;
    Some(Chart {
        summary: "Cores kept busy by the application, by system calls and by soft and hard \
            interrupts, stacked."
            .into(),
        ..Chart::of(Plot::StackedBars, "CPU cores busy, both ends", marks, table)
    })
}

/// Returns the missing metrics and counters with their reasons.
fn unavailable(subject: &Subject<'_>) -> Option<Block> {
    let absent: Vec<String> = Use::Counted
        .metrics()
        // A metric that one sweep has is available here.
        .filter(|metric| subject.grids.iter().all(|grid| grid.direction(metric).is_none()))
        .map(|metric| uncapitalised(metric.title))
        .collect();
    let blocks = subject.campaign.trials.iter().flat_map(|trial| &trial.samples);
    // Hosts that lack a counter for the same reason share a line.
    let mut reasons: BTreeMap<(&str, &str), BTreeSet<&str>> = BTreeMap::new();
    for (host, block) in blocks {
        for (sampler, why) in &block.unavailable {
            reasons.entry((sampler, why)).or_default().insert(host);
        }
    }
    if absent.is_empty() && reasons.is_empty() {
        return None;
    }
    let mut items = Vec::new();
    if !absent.is_empty() {
        items.push(format!("Unavailable here: {}.", absent.join(", ")));
    }
    items.extend(reasons.into_iter().map(|((sampler, why), hosts)| {
        let hosts: Vec<&str> = hosts.into_iter().collect();
        format!("Not observed on {}: {} ({why}).", hosts.join(" and "), sampler.replace('_', " "))
    }));
    Some(Block::List(items))
}
