//! Devices of `linerate limit pcie`: their bounds, and the options that they stand for, from the
//! facts of a host.

use std::path::Path;

use linerate_analysis::limits::pcie::link::Link;
use linerate_analysis::limits::pcie::slots::{Slots, assumptions, known};
use linerate_model::{BitRate, Ceiling, Params};
use linerate_report::sentences::derivation_line;
use serde_json::Value;

use crate::{Failure, Result};

/// Every device with a bus.
const ALL: &str = "all";
/// Maximum payload of figures where none is given: what most hosts grant.
const USUAL_PAYLOAD: &str = "256 B";

/// What is known of devices.
#[derive(Clone, Debug, Default)]
pub struct OfDevices {
    /// The tree above them, a line each.
    pub tree: Vec<String>,
    /// Bounds of what they share.
    pub ceilings: Vec<Ceiling>,
    /// Options of the calculator, with those that a device fills in; `None` if the devices have no
    /// single link.
    pub options: Option<Params>,
}

/// Returns what is known of `devices`, from the `facts` of a host.
///
/// # Errors
/// If a device is not in the facts, or has no bus.
pub fn of_devices(devices: &[String], facts: &Value, options: &Params) -> Result<OfDevices> {
    let slots = slots(&facts["pcie"], devices)?;
    let mut found = OfDevices::default();
    for assumed in assumptions(&slots, options) {
        found.tree.extend(slots.lines(assumed).iter().map(derivation_line));
        found.ceilings.extend(slots.ceilings(assumed));
    }
    if !slots.settings_are_known() && options.get("mps").is_none() {
        let why = "payload settings are not readable (run as root, or give --mps): the usual ones \
            are shown in turn";
        found.tree.push(why.to_owned());
    }
    found.options = slots.options(options);
    if let (Some(options), Some(first)) = (&mut found.options, devices.first()) {
        fill_port(options, facts, first);
    }
    Ok(found)
}

/// Returns the facts `pcie` and, for ports, `interfaces`: of a file, else of this host.
///
/// # Errors
/// If the file cannot be read, or has no such facts.
pub fn facts(file: Option<&Path>) -> Result<Value> {
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

fn slots(facts: &Value, devices: &[String]) -> Result<Slots> {
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

/// Fills in the card's port: the speed of the interface, where it has one.
fn fill_port(params: &mut Params, facts: &Value, device: &str) {
    let speed = facts["interfaces"][device]["speed_bps"].as_f64();
    if let (Some(speed), None) = (speed, params.get("port")) {
        params.set("port", format!("{speed} bit/s"));
    }
}

/// Returns the link that `params` describe, and the port behind it.
///
/// # Errors
/// If there are no parameters, or there is no such link.
pub fn link(params: Option<&Params>) -> Result<(Link, Option<BitRate>)> {
    let failed = |why: &str| Failure::wrong(format!("limit pcie --out: {why}"));
    let params = params.ok_or_else(|| {
        failed("figures are of one link: name one device with a PCI Express link")
    })?;
    let text = |key: &str| params.get(key).and_then(Value::as_str);
    let number = |key: &str| params.get(key).and_then(Value::as_u64).unwrap_or_default();
    let [generation, lanes] =
        ["gen", "lanes"].map(|key| u32::try_from(number(key)).unwrap_or_default());
    let size = |key: &str| {
        text(key).unwrap_or(USUAL_PAYLOAD).parse().map_err(|_| failed("a size cannot be read"))
    };
    let link = Link::new(generation, lanes, size("mps")?, size("mrrs")?);
    let link = link.ok_or_else(|| failed("there is no such link"))?;
    Ok((link, text("port").and_then(|text| text.parse().ok())))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_speed_of_an_interface_is_the_port_unless_one_is_given() {
        let facts = json!({ "interfaces": { "eth0": { "speed_bps": 1e9 } } });
        let port = |params: &mut Params, device| {
            fill_port(params, &facts, device);
            params.get("port").cloned()
        };
        assert_eq!(port(&mut Params::default(), "eth0"), Some("1000000000 bit/s".into()));
        assert_eq!(port(&mut Params::default(), "nvme0n1"), None);
        let mut given = Params::default();
        given.set("port", "10 Gbit/s");
        assert_eq!(port(&mut given, "eth0"), Some("10 Gbit/s".into()));
    }

    #[test]
    fn figures_are_of_one_link_that_exists() {
        let mut params = Params::default();
        params.set("gen", 3);
        params.set("lanes", 8);
        params.set("port", "10 Gbit/s");
        let (_, port) = link(Some(&params)).expect("a usual link");
        assert_eq!(port, Some(BitRate(10e9)));
        params.set("gen", 99);
        assert!(link(Some(&params)).is_err_and(|failure| failure.message().contains("no such")));
        assert!(link(None).is_err_and(|failure| failure.message().contains("of one link")));
    }
}
