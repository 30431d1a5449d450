//! Answers of the commands, as report documents.
//!
//! Each module turns the typed result of one command into a
//! [`Document`](linerate_report::Document). So every answer exists as text, JSON, Markdown, HTML
//! and tables alike. The document's `study` is the JSON that the command prints with `--json`; its
//! field names are stable.
//!
//! | Module | Answer of |
//! |---|---|
//! | [`ceilings`] | `linerate limit` |
//! | [`compare`] | `linerate compare` |
//! | [`controller`] | `linerate ncsi` |
//! | [`demo`] | `linerate demo` |
//! | [`diagnosis`] | `linerate diagnose` |
//! | [`disks`] | `linerate disk list`, `disk claim` and `disk release` |
//! | [`facts`] | `linerate facts` |
//! | [`flows`] | `linerate flows` |
//! | [`foreign`] | `linerate to iperf3://HOST` and `linerate serve iperf3` |
//! | [`host_checks`] | `linerate doctor` |
//! | [`host_settings`] | `linerate tune host` |
//! | [`ledger`] | `linerate ledger` |
//! | [`mesh`] | `linerate mesh` |
//! | [`path_lines`] | `linerate to`: header and result |
//! | [`path_progress`] | `linerate to`, while it measures |
//! | [`path`] | `linerate to` |
//! | [`plan`] | `linerate plan` |
//! | [`probe`] | `linerate probe` |
//! | [`progress`] | every command that searches or repeats, while it measures |
//! | [`mod@reference`] | the pages in `docs/reference` |
//! | [`registries`] | `linerate list` |
//! | [`served`] | `linerate serve` |
//! | [`stamp`] | `linerate to stamp://HOST` and `linerate serve stamp` |
//! | [`storage`] | `linerate disk run` and `disk sweep` |
//! | [`window`] | `linerate tune window` |
//!
//! This crate does *not* measure, read arguments, print, or write files.

#![forbid(unsafe_code)]

pub mod ceilings;
pub mod compare;
pub mod controller;
pub mod demo;
pub mod diagnosis;
pub mod disks;
pub mod facts;
mod figures;
pub mod flows;
pub mod foreign;
pub mod host_checks;
pub mod host_settings;
pub mod ledger;
pub mod mesh;
pub mod netperf;
pub mod path;
pub mod path_lines;
pub mod path_progress;
pub mod plan;
pub mod probe;
pub mod progress;
pub mod reference;
pub mod registries;
pub mod served;
pub mod stamp;
pub mod storage;
pub mod window;

pub use figures::quantity;

/// Returns the JSON document of a command that failed before it had an answer.
#[must_use]
pub fn failure_json(message: &str, exit: u8) -> serde_json::Value {
    serde_json::json!({
        "linerate": env!("CARGO_PKG_VERSION"),
        "schema": linerate_report::SCHEMA,
        "exit": exit,
        "error": message,
    })
}
