//! Sections of a report in alphabetical order. Each has a number that orders the document.

mod account;
mod answer;
mod comparison;
mod cost;
mod environment;
mod findings;
mod heat;
mod latency;
mod limits;
mod loss;
mod observers;
mod overhead;
mod placement;
mod points;
mod repeat;
mod scaling;
mod searches;
mod series;
mod settings;
mod storage;
mod throughput;
mod together;
mod transfers;
mod validity;

use linerate_analysis::Study;
use linerate_model::Campaign;

pub(crate) use answer::verdict::word as place_word;
pub(crate) use answer::{first_screen, lead, with_names_of_hosts};
pub(crate) use findings::claim;

use crate::document::Block;
use crate::grid::{Grid, Placed};

/// Subject of a section.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// Observations.
    pub campaign: &'a Campaign,
    /// Study of the observations.
    pub study: &'a Study,
    /// Points of the study by sweep.
    pub grids: &'a [Grid<'a>],
}

impl<'a> Subject<'a> {
    /// Returns every point with its sweep.
    pub(crate) fn points(&self) -> impl Iterator<Item = Placed<'a>> + use<'a> {
        self.grids.iter().flat_map(|grid| grid.points.iter().map(move |point| (grid, *point)))
    }
}

/// Section of the report. Sections do not depend on each other.
#[derive(Clone, Copy, Debug)]
pub struct Section {
    /// Name, the prefix of anchors and file names.
    pub name: &'static str,
    /// Heading.
    pub title: &'static str,
    /// Content in one clause.
    pub summary: &'static str,
    /// Position in the document; lower numbers come first.
    pub order: u32,
    /// Returns its content; a section without blocks is left out.
    pub blocks: fn(&Subject<'_>) -> Vec<Block>,
}

/// Every section.
pub static SECTIONS: &[Section] = &[
    account::SECTION,
    answer::SECTION,
    comparison::SECTION,
    cost::SECTION,
    environment::SECTION,
    findings::SECTION,
    heat::SECTION,
    latency::SECTION,
    limits::SECTION,
    loss::SECTION,
    observers::SECTION,
    overhead::SECTION,
    placement::SECTION,
    points::SECTION,
    repeat::SECTION,
    scaling::SECTION,
    searches::SECTION,
    series::SECTION,
    settings::SECTION,
    storage::SECTION,
    throughput::SECTION,
    together::SECTION,
    transfers::SECTION,
    validity::SECTION,
];

#[cfg(test)]
mod tests {
    use super::SECTIONS;

    #[test]
    fn the_registry_is_alphabetical_and_every_place_is_taken_once() {
        let names: Vec<&str> = SECTIONS.iter().map(|section| section.name).collect();
        assert!(names.is_sorted_by(|a, b| a < b), "{names:?}");
        let mut orders: Vec<u32> = SECTIONS.iter().map(|section| section.order).collect();
        orders.sort_unstable();
        orders.dedup();
        assert_eq!(orders.len(), names.len());
    }
}
