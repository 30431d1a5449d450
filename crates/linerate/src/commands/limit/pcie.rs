//! `linerate limit pcie`: the options filled in from what devices sit in, and figures over sizes.

use std::path::PathBuf;

use clap::builder::EnumValueParser;
use clap::{Arg, ArgAction, ArgMatches, Command};
use linerate_analysis::limits::Limit;
use linerate_analysis::limits::pcie::link::Link;
use linerate_analysis::limits::pcie::slots::{Slots, assumptions, known};
use linerate_answers::ceilings as answers;
use linerate_model::{BitRate, Ceiling, Params};
use linerate_report::link_figures;
use linerate_report::sentences::{derivation, derivation_line};
use serde_json::{Value, json};

use crate::args::{Global, ReportFormat, Saved};
use crate::exit::{Exit, Failure, Outcome};
use crate::reports;

/// The calculator this file belongs to.
pub(super) const NAME: &str = "pcie";
const DEVICE: &str = "device";
const FACTS: &str = "facts";
const OUT: &str = "out";
const FORMAT: &str = "format";

/// `command` with devices in place of generation and lanes, and a folder for figures.
pub(super) fn with_devices(command: Command) -> Command {
    let device = Arg::new(DEVICE)
        .long(DEVICE)
        .value_name("DEVICE")
        .action(ArgAction::Append)
        .conflicts_with_all(["gen", "lanes"])
        .help(
            "An interface or disk, or `all`: generation, lanes and payload settings are read, \
            and the tree above it is shown",
        );
    let facts = Arg::new(FACTS)
        .long(FACTS)
        .value_name("FILE")
        .value_parser(clap::value_parser!(PathBuf))
        .requires(DEVICE)
        .help("What `linerate facts --json` printed on another host [default: this host]");
    let out = Arg::new(OUT)
        .long(OUT)
        .value_name("DIR")
        .value_parser(clap::value_parser!(PathBuf))
        .help("Folder for figures of this link over payload and frame sizes");
    let format = Arg::new(FORMAT)
        .long(FORMAT)
        .value_parser(EnumValueParser::<ReportFormat>::new())
        .value_delimiter(',')
        .requires(OUT)
        .default_value("html")
        .help("Formats of the figures");
    ["gen", "lanes"]
        .into_iter()
        .fold(command, |command, name| {
            command.mut_arg(name, |arg| arg.required(false).required_unless_present(DEVICE))
        })
        .args([device, facts, out, format])
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
    let devices: Vec<String> =
        matches.get_many::<String>(DEVICE).into_iter().flatten().cloned().collect();
    let mut lines = Vec::new();
    let mut ceilings = Vec::new();
    let mut filled = Some(params.clone());
    if !devices.is_empty() {
        let facts = facts(matches)?;
        let slots = slots(&facts["pcie"], &devices)?;
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
    match matches.get_one::<PathBuf>(OUT) {
        Some(out) => draw(matches, filled.as_ref(), out, global.json),
        None => Ok(Exit::Done),
    }
}

/// The facts `pcie` and, for ports, `interfaces`: of a file, else of this host.
fn facts(matches: &ArgMatches) -> Result<Value, Failure> {
    let Some(path) = matches.get_one::<PathBuf>(FACTS) else {
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
fn draw(
    matches: &ArgMatches,
    params: Option<&Params>,
    out: &std::path::Path,
    as_json: bool,
) -> Outcome {
    let failed = |why: &str| Failure::wrong(format!("limit pcie --out: {why}"));
    let params = params.ok_or_else(|| {
        failed("figures are of one link: name one device with a PCI Express link")
    })?;
    let number = |key: &str| {
        params.get(key).and_then(Value::as_u64).and_then(|number| u32::try_from(number).ok())
    };
    let size = |key: &str, default: &str| {
        params
            .get(key)
            .and_then(Value::as_str)
            .unwrap_or(default)
            .parse()
            .map_err(|_| failed("a size cannot be read"))
    };
    let (generation, lanes) =
        (number("gen").unwrap_or_default(), number("lanes").unwrap_or_default());
    let link = Link::new(generation, lanes, size("mps", "256 B")?, size("mrrs", "512 B")?);
    let link = link.ok_or_else(|| failed("there is no such link"))?;
    let port =
        params.get("port").and_then(Value::as_str).and_then(|text| text.parse::<BitRate>().ok());
    let formats: Vec<ReportFormat> =
        matches.get_many(FORMAT).into_iter().flatten().copied().collect();
    let figures = link_figures(&link, port, env!("CARGO_PKG_VERSION"));
    let files = reports::save(&figures, &formats, out)?;
    if !as_json {
        files.iter().for_each(|file| println!("figures {}", file.display()));
    }
    Ok(Exit::Done)
}
