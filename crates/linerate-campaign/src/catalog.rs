//! Plans and labs of the program, and the search for a name or path.

use std::fs;
use std::path::Path;

use linerate_model::nearest;
use linerate_model::plan::{self, Draft, Plan};

use crate::{Failure, Result};

/// Text of the program.
#[derive(Clone, Copy, Debug)]
pub struct Preset {
    /// Its name.
    pub name: &'static str,
    /// Its purpose.
    pub purpose: Purpose,
    /// The text.
    pub text: &'static str,
}

/// Purpose of a plan or lab, which groups them in lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Rates, cost and scaling of a path.
    Rates,
    /// Response times and connections.
    Times,
    /// Frames, loss and the path.
    Frames,
    /// Disks and files.
    Disks,
    /// Devices and settings compared.
    Compared,
    /// Published measurements repeated.
    Published,
    /// The tool itself.
    Tool,
    /// Simple paths.
    Paths,
    /// Devices in the path.
    Devices,
    /// Controllers behind a sideband.
    Sidebands,
    /// Published testbeds.
    Testbeds,
}

impl Purpose {
    /// Returns the heading of its group.
    #[must_use]
    pub const fn heading(self) -> &'static str {
        match self {
            Self::Rates => "Rates, cost and scaling of a path",
            Self::Times => "Response times and connections",
            Self::Frames => "Frames, loss and the path",
            Self::Disks => "Disks and files",
            Self::Compared => "Devices and settings compared",
            Self::Published => "Published measurements repeated",
            Self::Tool => "The tool itself",
            Self::Paths => "Simple paths",
            Self::Devices => "Devices in the path",
            Self::Sidebands => "Controllers behind a sideband",
            Self::Testbeds => "Published testbeds",
        }
    }
}

macro_rules! presets {
    ($folder:literal: $($purpose:ident => $($name:literal),+;)+) => {
        &[$($(Preset {
            name: $name,
            purpose: Purpose::$purpose,
            text: include_str!(concat!("../../../", $folder, "/", $name, ".toml")),
        }),+),+]
    };
}

/// Plans by purpose, the ones of a newcomer first.
pub static PLANS: &[Preset] = presets!("plans":
    Rates => "demo", "iperf3", "netframe", "netframe-nics", "netframe-quick",
        "tcp_stream", "udp_stream";
    Times => "last-frame", "latency", "tcp_crr", "tcp_rr", "udp_rr";
    Frames => "fire-hose", "frames", "frames-quick", "path_probe", "zero-loss";
    Disks => "ftp", "http", "storage-rounds", "together";
    Compared => "cut-through", "placement", "shared-edge", "with-device";
    Published => "cisco-draws", "cisco-failover", "cisco-payload", "cisco-ports",
        "hp-clients", "hp-server", "idt-latency", "idt-mixed", "idt-sizes", "idt-throughput",
        "intel-causes", "intel-cpu", "intel-link-speed", "intel-tables", "sun-buses", "sun-host",
        "sun-link", "sun-platform";
    Tool => "null";
);

/// Labs by purpose.
pub static LABS: &[Preset] = presets!("labs":
    Paths => "long-path", "lossy", "pair", "pair-100m", "router", "switch";
    Devices => "device", "device-bridge", "device-forwarding", "device-router",
        "device-stalls", "fan-in", "shared-edge";
    Sidebands => "ncsi", "ncsi-100m", "ncsi-10g", "ncsi-cpu", "ncsi-paper", "ncsi-tuned";
    Testbeds => "cisco-expander", "cisco-failover", "cisco-polarised", "cisco-vic", "hp-ftp",
        "idt-mixed", "idt-pcie", "sun-buses", "sun-link", "sun-platform",
        "sun-slower";
);

/// Text and its origin.
#[derive(Clone, Debug)]
pub struct PlanText {
    /// File path or preset name.
    pub origin: String,
    /// The text.
    pub text: String,
}

impl PlanText {
    /// Returns the text of `draft`, which `origin` made, and its plan. The text is recorded, so
    /// that the measurement can be repeated.
    ///
    /// # Errors
    /// If the text has problems: all of them.
    pub fn drafted(origin: impl Into<String>, draft: &Draft) -> Result<(Self, Plan)> {
        // The text and not the draft is parsed, so that what is recorded is what was run.
        let found = Self { origin: origin.into(), text: draft.text() };
        let plan = plan::read(&found.text)
            .map_err(|problems| Failure::in_text(&found.origin, &found.text, &problems))?;
        Ok((found, plan))
    }
}

/// Returns the preset called `name`, or the file at that path.
///
/// # Errors
/// If there is neither.
pub fn find(kind: &str, presets: &[Preset], name: &str) -> Result<PlanText> {
    // Presets come first, so that a file of the same name in the folder cannot change what a
    // command means. A file is named by its path.
    if let Some(preset) = presets.iter().find(|preset| preset.name == name) {
        return Ok(PlanText { origin: format!("{name} (preset)"), text: preset.text.to_owned() });
    }
    match fs::read_to_string(Path::new(name)) {
        Ok(text) => Ok(PlanText { origin: name.to_owned(), text }),
        Err(error) => {
            let near = nearest(name, presets.iter().map(|preset| preset.name));
            // A list of forty names would hide the cause.
            let list = if kind == "lab" { "linerate list labs" } else { "linerate list plans" };
            let hint =
                near.map(|near| format!("; did you mean the preset `{near}`?")).unwrap_or_default();
            let message =
                format!("read {kind} {name}: {error}{hint} (`{list}` prints the presets)");
            Err(Failure::wrong(message))
        }
    }
}

/// Returns the name of the short variant of the plan preset `name`.
///
/// # Errors
/// If it has none.
pub fn quick(name: &str) -> Result<String> {
    let short = format!("{name}-quick");
    if PLANS.iter().any(|preset| preset.name == short) {
        return Ok(short);
    }
    let known: Vec<&str> =
        PLANS.iter().filter_map(|preset| preset.name.strip_suffix("-quick")).collect();
    Err(Failure::wrong(format!(
        "plan {name} --quick: it has no short variant (presets that have one: {})",
        known.join(", ")
    )))
}

/// Returns the first comment of a preset, which is its summary.
#[must_use]
pub fn summary(preset: &Preset) -> String {
    preset
        .text
        .lines()
        // The first block of comments is the summary; later comments belong to keys.
        .take_while(|line| line.starts_with('#'))
        .map(|line| line.trim_start_matches('#').trim())
        .collect::<Vec<_>>()
        .join(" ")
}
