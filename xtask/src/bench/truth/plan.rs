//! Plans of the referee's trials.
//!
//! They are literal TOML on purpose. The referee is a user of linerate: it writes what a user
//! writes, and a serializer that both shared would hide its own errors.

use std::fmt::Display;

/// A trial of one job from endpoint `a`.
pub(super) struct Trial<'a> {
    pub(super) workload: &'a str,
    /// Endpoint of the passive end.
    pub(super) to: &'a str,
    pub(super) duration_ms: u64,
    pub(super) warmup_ms: u64,
    /// Parameters as they are in an inline table of TOML.
    pub(super) params: &'a str,
}

impl Trial<'_> {
    /// Returns the text of the plan.
    pub(super) fn plan(&self) -> String {
        let Self { workload, to, duration_ms, warmup_ms, params } = self;
        format!(
            "[campaign]\nname = \"truth\"\nrepeats = 1\n\n[[sweep]]\nname = \"truth\"\n\
             duration = \"{duration_ms} ms\"\nwarmup = \"{warmup_ms} ms\"\n\n[[sweep.job]]\n\
             workload = \"{workload}\"\nfrom = \"a\"\nto = \"{to}\"\nparams = {{ {params} }}\n"
        )
    }
}

/// Returns `text` as a TOML string, whatever characters a path has.
pub(super) fn quoted(text: impl Display) -> String {
    // Strings of JSON are strings of TOML.
    serde_json::Value::String(text.to_string()).to_string()
}
