//! Sections of a report, alphabetically; each says where in the document it stands.

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

pub(crate) use answer::lead;
pub(crate) use answer::verdict::word as place_word;
pub(crate) use findings::claim;
pub(crate) use series::unit_of as series_unit;

use crate::document::Block;
use crate::grid::Grid;

/// What a section speaks about.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// What was observed.
    pub campaign: &'a Campaign,
    /// What it amounts to.
    pub study: &'a Study,
    /// The study's points by sweep.
    pub grids: &'a [Grid<'a>],
}

/// A part of the report that is written by itself.
pub trait Section: Sync {
    /// Its name: anchors and file names begin with it.
    fn name(&self) -> &'static str;

    /// Its heading.
    fn title(&self) -> &'static str;

    /// One sentence: what it tells.
    fn summary(&self) -> &'static str;

    /// Its place in the document; lower stands earlier.
    fn order(&self) -> u32;

    /// What it has to say; nothing, and it is absent.
    fn blocks(&self, subject: &Subject<'_>) -> Vec<Block>;
}

/// Every section.
pub static SECTIONS: &[&dyn Section] = &[
    &account::Account,
    &answer::Answer,
    &comparison::Comparisons,
    &cost::Cost,
    &environment::Environment,
    &findings::Findings,
    &heat::Heat,
    &latency::Latency,
    &limits::Limits,
    &loss::Loss,
    &observers::Observers,
    &overhead::Overhead,
    &placement::Placement,
    &points::Points,
    &repeat::Repeat,
    &scaling::Scaling,
    &searches::Searches,
    &series::Series,
    &settings::Settings,
    &storage::Storage,
    &throughput::Throughput,
    &together::Together,
    &transfers::Transfers,
    &validity::Validity,
];

#[cfg(test)]
mod tests {
    use super::SECTIONS;

    #[test]
    fn the_registry_is_alphabetical_and_every_place_is_taken_once() {
        let names: Vec<&str> = SECTIONS.iter().map(|section| section.name()).collect();
        assert!(names.is_sorted_by(|a, b| a < b), "{names:?}");
        let mut orders: Vec<u32> = SECTIONS.iter().map(|section| section.order()).collect();
        orders.sort_unstable();
        orders.dedup();
        assert_eq!(orders.len(), names.len());
    }
}
