//! Formats: each renders every kind of block without knowledge of sections.

mod csv;
mod fio;
mod html;
mod iometer;
mod markdown;
mod path;
mod spec;
mod storage;
mod xlsx;

use std::borrow::Cow;

use linerate_model::{Lines, printable};

pub use self::html::{SCRIPT, STYLE, Site, page};
pub use self::markdown::markdown_table;
pub use self::spec::chart_spec;

use crate::document::Document;

/// Format of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// One self-contained page.
    Html,
    /// One file for each table.
    Csv,
    /// One workbook, a sheet for each table.
    Xlsx,
    /// One text file.
    Md,
    /// The stable JSON of the study.
    Json,
    /// Storage jobs as fio's JSON.
    FioJson,
    /// Storage jobs as Iometer's results.csv.
    IometerCsv,
}

impl Format {
    /// All formats.
    pub const ALL: [Self; 7] =
        [Self::Html, Self::Csv, Self::Xlsx, Self::Md, Self::Json, Self::FioJson, Self::IometerCsv];

    /// Returns its name on the command line, which is also the extension of linerate's own formats.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Html => "html",
            Self::Csv => "csv",
            Self::Xlsx => "xlsx",
            Self::Md => "md",
            Self::Json => "json",
            Self::FioJson => "fio-json",
            Self::IometerCsv => "iometer-csv",
        }
    }

    /// Returns true if it is made of [`Document::study`].
    #[must_use]
    pub const fn reads_json(self) -> bool {
        matches!(self, Self::Json | Self::FioJson | Self::IometerCsv)
    }

    /// Returns its summary for help.
    #[must_use]
    pub const fn summary(self) -> &'static str {
        match self {
            Self::Html => "One self-contained page",
            Self::Csv => "One file for each table",
            Self::Xlsx => "A workbook with native charts",
            Self::Md => "Markdown",
            Self::Json => "The study, by its schema",
            Self::FioJson => "Storage jobs, as fio writes its JSON",
            Self::IometerCsv => "Storage jobs, as Iometer writes its results.csv",
        }
    }
}

/// File of a report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Artifact {
    /// Name without a directory.
    pub file_name: String,
    /// Content.
    pub bytes: Vec<u8>,
}

/// Error of a renderer.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// A CSV file could not be built.
    #[error("write table `{table}` as csv: {cause}")]
    Csv {
        /// The table.
        table: String,
        /// Cause.
        cause: String,
    },
    /// The page could not be built.
    #[error("render the html page: {0}")]
    Html(String),
    /// The JSON could not be built.
    #[error("write the study as json: {0}")]
    Json(#[from] serde_json::Error),
    /// The workbook could not be built.
    #[error("build the xlsx workbook: {0}")]
    Xlsx(#[from] rust_xlsxwriter::XlsxError),
}

/// Renders `document` in `format`: one file, or one file for each table as CSV.
///
/// # Errors
/// If the writer of the format fails; no document causes that by itself.
pub fn render(document: &Document, format: Format) -> Result<Vec<Artifact>, ReportError> {
    let named = |file_name: &str, bytes| vec![Artifact { file_name: file_name.to_owned(), bytes }];
    let one =
        |bytes: Vec<u8>| vec![Artifact { file_name: format!("report.{}", format.name()), bytes }];
    match format {
        Format::Html => html::render(document, None).map(one),
        // Each table is a file of its own and is escaped there.
        Format::Csv => csv::render(document),
        Format::Xlsx => xlsx::render(document).map(one),
        Format::Md => Ok(one(shown(markdown::render(document)))),
        // People read and compare the study line by line.
        Format::Json => Ok(one(shown(serde_json::to_string_pretty(&document.study)? + "\n"))),
        Format::FioJson => Ok(named(
            "fio.json",
            shown(serde_json::to_string_pretty(&fio::render(&document.study))? + "\n"),
        )),
        Format::IometerCsv => Ok(named("iometer.csv", shown(iometer::render(&document.study)))),
    }
}

/// Returns the text of a file with escaped control characters, so that no campaign can send codes
/// to a terminal. The escapes are valid in JSON.
fn shown(text: String) -> Vec<u8> {
    match printable(&text, Lines::Several) {
        Cow::Borrowed(_) => text.into_bytes(),
        Cow::Owned(shown) => shown.into_bytes(),
    }
}
