//! Reports: a campaign and its study become a document, and a document becomes HTML, CSV, XLSX,
//! Markdown, JSON or text.
//!
//! [`compose`] builds the content: every section of [`sections::SECTIONS`] writes its blocks
//! without knowledge of a format. [`render`] builds the format without knowledge of a section. A
//! new section therefore appears in every format, and a new format shows every section.
//!
//! # Examples
//! ```
//! use linerate_report::number::percent;
//!
//! assert_eq!(percent(0.8134), "81.3");
//! // A share below the ceiling is never rounded up to 100 %.
//! assert_eq!(percent(0.99999), "99.9");
//! ```
//!
//! This crate does *not* touch files, clocks or sockets (artifacts are bytes), and it does not
//! decide whether a figure is valid (`linerate-analysis`).

#![forbid(unsafe_code)]

mod campaigns;
mod commands;
mod course;
mod curves;
pub mod document;
mod document_json;
mod effects;
pub mod grid;
mod json;
mod links;
pub mod live;
mod looks;
pub mod number;
mod render;
pub mod scan;
pub mod sections;
pub mod sentences;
pub mod text;
mod words;

use linerate_analysis::Study;
use linerate_analysis::diagnosis::Finding;
use linerate_model::Campaign;

pub use campaigns::{Named, compare_campaigns, nothing_compared};
pub use commands::CommandPlace;
pub use course::{Course, CourseReading, course, course_figure, course_place};
pub use curves::uncapitalised;
pub use document::Document;
pub use json::{SCHEMA, ceiling_json, finding_json, study_json};
pub use links::link_figures;
pub use render::{
    Artifact, Format, ReportError, SCRIPT, STYLE, Site, chart_spec, markdown_table, page, render,
};
pub use words::{date, obtained_text};

use sections::{SECTIONS, Subject};

/// Returns the first screen of a report on `campaign`; `None` if nothing was measured.
#[must_use]
pub fn verdict(campaign: &Campaign, study: &Study) -> Option<document::Lead> {
    sections::lead(campaign, study, linerate_analysis::headline(campaign, study).as_ref())
}

/// Returns the headline of `campaign` with the names that its hosts have for themselves; `None` if
/// nothing was measured.
#[must_use]
pub fn headline(campaign: &Campaign, study: &Study) -> Option<linerate_analysis::Headline> {
    let headline = linerate_analysis::headline(campaign, study)?;
    Some(sections::with_names_of_hosts(headline, campaign))
}

/// Returns the first screen of `headline`; `place` completes the commands.
#[must_use]
pub fn first_screen(
    headline: &linerate_analysis::Headline,
    place: &CommandPlace,
) -> document::Lead {
    sections::first_screen(headline, place)
}

/// Returns `finding` as a document shows it; `place` completes the commands of its advice.
#[must_use]
pub fn claim(finding: &Finding, place: &CommandPlace) -> document::Claim {
    sections::claim(finding, &[], place)
}

/// Returns the report on `campaign` with its `study`.
pub fn compose(campaign: &Campaign, study: &Study) -> Document {
    compose_for(&Format::ALL, campaign, study)
}

/// Returns the same for `formats` alone: without the JSON of the study, the largest part of a long
/// report, if none of them reads it.
pub fn compose_for(formats: &[Format], campaign: &Campaign, study: &Study) -> Document {
    let grids = grid::grids(study);
    let subject = Subject { campaign, study, grids: &grids };
    let header = &campaign.header;
    let mut order: Vec<_> = SECTIONS.to_vec();
    // The registry is alphabetical, a report follows the order in which it is read.
    order.sort_by_key(|section| section.order);
    let mark = header.emulated().then_some(document::EMULATED);
    let sections: Vec<document::Section> = order
        .into_iter()
        .map(|section| document::Section {
            id: section.name,
            title: section.title,
            blocks: (section.blocks)(&subject),
        })
        // A section without content would be an empty heading.
        .filter(|section| !section.blocks.is_empty())
        .map(|section| section.marked(mark))
        .collect();
    let told = formats.iter().any(|format| format.reads_json()).then(|| {
        let mut told = json::of_study(campaign, study);
        told["report"] = document_json::sections(&sections);
        told
    });
    Document {
        title: header.name.clone(),
        subtitle: format!("{}, {}", words::date(header.started), header.id),
        origin: document::Origin::Measured(header.testbed),
        started: header.started,
        version: header.version.clone(),
        sections,
        study: told.unwrap_or_default(),
    }
}
