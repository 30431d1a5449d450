//! Formats: each knows every kind of block and no section.

mod csv;
mod fio;
mod html;
mod iometer;
mod markdown;
mod path;
mod storage;
mod xlsx;

use std::borrow::Cow;

use linerate_model::{Lines, printable};

pub use self::markdown::markdown_table;

use crate::document::Document;

/// A format a report can take.
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
    /// Every format.
    pub const ALL: [Self; 7] =
        [Self::Html, Self::Csv, Self::Xlsx, Self::Md, Self::Json, Self::FioJson, Self::IometerCsv];

    /// Its name on the command line; a report's extension, but for the formats of others.
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
}

impl std::str::FromStr for Format {
    type Err = ReportError;

    fn from_str(text: &str) -> Result<Self, ReportError> {
        Self::ALL
            .into_iter()
            .find(|format| format.name() == text)
            .ok_or_else(|| ReportError::Format(text.to_owned()))
    }
}

/// A file to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Artifact {
    /// Its name, without a directory.
    pub file_name: String,
    /// Its content.
    pub bytes: Vec<u8>,
}

/// A report could not be rendered.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// There is no such format.
    #[error("`{0}` is not a report format: use html, csv, xlsx, md, json, fio-json or iometer-csv")]
    Format(String),
    /// A CSV file could not be built.
    #[error("write table `{table}` as csv: {cause}")]
    Csv {
        /// The table.
        table: String,
        /// What went wrong.
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

/// `document` in `format`: one file, or one for each table as CSV.
///
/// # Errors
/// If the format's writer refuses; nothing of the document does.
pub fn render(document: &Document, format: Format) -> Result<Vec<Artifact>, ReportError> {
    let named = |file_name: &str, bytes| vec![Artifact { file_name: file_name.to_owned(), bytes }];
    let one =
        |bytes: Vec<u8>| vec![Artifact { file_name: format!("report.{}", format.name()), bytes }];
    match format {
        Format::Html => html::render(document).map(one),
        Format::Csv => csv::render(document),
        Format::Xlsx => xlsx::render(document).map(one),
        Format::Md => Ok(one(shown(markdown::render(document)))),
        Format::Json => Ok(one(shown(serde_json::to_string_pretty(&document.study)? + "\n"))),
        Format::FioJson => Ok(named(
            "fio.json",
            shown(serde_json::to_string_pretty(&fio::render(&document.study))? + "\n"),
        )),
        Format::IometerCsv => Ok(named("iometer.csv", shown(iometer::render(&document.study)))),
    }
}

/// A file's text, with control characters written out: whatever a campaign's texts are, who prints
/// the file sees them. The spelling is valid within JSON.
fn shown(text: String) -> Vec<u8> {
    match printable(&text, Lines::Several) {
        Cow::Borrowed(_) => text.into_bytes(),
        Cow::Owned(shown) => shown.into_bytes(),
    }
}
