//! `linerate limit pcie`: the options filled in from what devices sit in, and figures over sizes.

use std::path::{Path, PathBuf};

use clap::{Arg, ArgMatches, Args, Command, FromArgMatches};
use linerate_analysis::limits::pcie::link::Link;
use linerate_analysis::limits::pcie::slots::{Slots, assumptions, known};
use linerate_analysis::limits::{Limit, with_defaults};
use linerate_answers::ceilings as answers;
use linerate_model::{BitRate, Ceiling, Params};
use linerate_report::link_figures;
use linerate_report::sentences::{derivation, derivation_line};
use serde_json::{Value, json};

use crate::args::{Global, ReportFormats, Saved};
use crate::exit::{Exit, Failure, Outcome};
use crate::reports;

/// The calculator this file belongs to.
pub(super) const NAME: &str = "pcie";

// Options beside those of the calculator. A doc comment would become the help of the command.
#[derive(Debug, Args)]
struct PcieArgs {
    /// An interface or disk, or `all`: generation, lanes and payload settings are read, and the
    /// tree above it is shown
    #[arg(long, value_name = "DEVICE", conflicts_with_all = REPLACED)]
    device: Vec<String>,
    /// Output of `linerate facts --json` on another host [default: this host]
    #[arg(long, value_name = "FILE", requires = "device")]
    facts: Option<PathBuf>,
    /// Folder for figures of this link over payload and frame sizes
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    #[command(flatten)]
    formats: ReportFormats,
}

/// Maximum payload of figures where none is given: what most hosts grant.
const USUAL_PAYLOAD: &str = "256 B";
/// Options of the calculator that a device replaces.
const REPLACED: [&str; 2] = ["gen", "lanes"];

/// Returns `command` with devices in place of generation and lanes, and a folder for figures.
pub(super) fn with_devices(command: Command) -> Command {
    let command = PcieArgs::augment_args(command).mut_arg("format", |arg| arg.requires("out"));
    let optional = |arg: Arg| arg.required(false).required_unless_present("device");
    REPLACED.into_iter().fold(command, |command, name| command.mut_arg(name, optional))
}

/// Returns a ceiling as JSON, with its derivation as text beside the data.
fn ceiling_data(ceiling: &Ceiling) -> Value {
    let mut data = json!(ceiling);
    data["derivation"] = json!(derivation(ceiling));
    data
}

/// Prints the tree above the devices, if any were named, and the ceilings; writes figures, if
/// asked.
pub(super) fn run(limit: &Limit, matches: &ArgMatches, params: Params, global: Global) -> Outcome {
    let args =
        PcieArgs::from_arg_matches(matches).map_err(|error| Failure::wrong(error.to_string()))?;
    let devices = &args.device;
    let mut lines = Vec::new();
    let mut ceilings = Vec::new();
    let mut filled = Some(params.clone());
    if !devices.is_empty() {
        let facts = facts(args.facts.as_deref())?;
        let slots = slots(&facts["pcie"], devices)?;
        for assumed in assumptions(&slots, &params) {
            lines.extend(slots.lines(assumed).iter().map(derivation_line));
            ceilings.extend(slots.ceilings(assumed));
        }
        if !slots.settings_are_known() && params.get("mps").is_none() {
            let why = "payload settings are not readable (run as root, or give --mps): the usual \
                ones are shown in turn";
            lines.push(why.to_owned());
        }
        filled = slots.options(&params);
        if let Some(filled) = &mut filled {
            fill_port(filled, &facts, &devices[0]);
        }
    }
    if let Some(filled) = &filled {
        ceilings.extend(super::ceilings(limit, filled)?);
    }
    let shown: Vec<Value> = ceilings.iter().map(ceiling_data).collect();
    let json = json!({ "tree": lines, "ceilings": shown });
    let answer = answers::document(&lines, &ceilings, json);
    reports::answer(&answer, &Saved::nowhere(), global)?;
    match &args.out {
        Some(out) => {
            let filled = filled.map(|params| with_defaults(&params, limit.options));
            draw(&args.formats, filled.as_ref(), out, global.json)
        }
        None => Ok(Exit::Done),
    }
}

/// The facts `pcie` and, for ports, `interfaces`: of a file, else of this host.
fn facts(file: Option<&Path>) -> Result<Value, Failure> {
    let Some(path) = file else {
        return Ok(linerate_observe::facts());
    };
    let failed = |why: String| Failure::wrong(format!("read facts {}: {why}", path.display()));
    let text = std::fs::read_to_string(path).map_err(|error| failed(error.to_string()))?;
    let facts: Value = serde_json::from_str(&text)
        .map_err(|error| failed(format!("{error} (it is what `linerate facts --json` prints)")))?;
    if facts["pcie"].is_object() {
        Ok(facts)
    } else {
        Err(failed("it has no facts of PCI devices".to_owned()))
    }
}

fn slots(facts: &Value, devices: &[String]) -> Result<Slots, Failure> {
    const ALL: &str = "all";
    let failed = |why: String| Failure::missing(format!("limit pcie --device: {why}"));
    if devices.iter().any(|device| device == ALL) {
        // Of all devices those without a bus are left out, unless that leaves none.
        let bounded: Vec<String> = known(facts)
            .into_iter()
            .map(str::to_owned)
            .filter(|device| Slots::of(facts, std::slice::from_ref(device)).is_ok())
            .collect();
        if !bounded.is_empty() {
            return Slots::of(facts, &bounded).map_err(failed);
        }
        let first = known(facts).first().map(|device| (*device).to_owned());
        return Slots::of(facts, &[first.unwrap_or_else(|| ALL.to_owned())]).map_err(failed);
    }
    Slots::of(facts, devices).map_err(failed)
}

/// The card's port: the speed of the interface, where it has one.
fn fill_port(params: &mut Params, facts: &Value, device: &str) {
    let speed = facts["interfaces"][device]["speed_bps"].as_f64();
    if let (Some(speed), None) = (speed, params.get("port")) {
        params.set("port", format!("{speed} bit/s"));
    }
}

/// Figures of the link that `params` describe.
fn draw(formats: &ReportFormats, params: Option<&Params>, out: &Path, as_json: bool) -> Outcome {
    let failed = |why: &str| Failure::wrong(format!("limit pcie --out: {why}"));
    let params = params.ok_or_else(|| {
        failed("figures are of one link: name one device with a PCI Express link")
    })?;
    let number = |key: &str| {
        params.get(key).and_then(Value::as_u64).and_then(|number| u32::try_from(number).ok())
    };
    let text = |key: &str| params.get(key).and_then(Value::as_str);
    let size = |key: &str| {
        text(key).unwrap_or(USUAL_PAYLOAD).parse().map_err(|_| failed("a size cannot be read"))
    };
    let (generation, lanes) =
        (number("gen").unwrap_or_default(), number("lanes").unwrap_or_default());
    let link = Link::new(generation, lanes, size("mps")?, size("mrrs")?);
    let link = link.ok_or_else(|| failed("there is no such link"))?;
    let port = text("port").and_then(|text| text.parse::<BitRate>().ok());
    let figures = link_figures(&link, port, env!("CARGO_PKG_VERSION"));
    let files = reports::save(&figures, &formats.format, out)?;
    if !as_json {
        files.iter().for_each(|file| println!("figures {}", file.display()));
    }
    Ok(Exit::Done)
}
