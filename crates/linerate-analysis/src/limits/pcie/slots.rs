//! The tree of PCI functions above devices, from the fact `pcie`, and the first edge of it that
//! saturates.
//!
//! Units: bit/s of payload in the largest packets a device is set to; `rx` are writes of devices to
//! memory, `tx` their reads. The rate of an edge is that of the negotiated width and the highest
//! speed the function is capable of, because a link may idle at a lower speed. The bound therefore
//! stays an upper one, and the lower speed is reported beside it. A link appears twice, at both its
//! ends; the slower end decides.
//!
//! Not covered: conventional PCI, whose clock and width sysfs does not show (`linerate limit pci`,
//! or a declared capacity), functions hidden by a hypervisor, and everything the model of the link
//! leaves out.

use std::collections::BTreeSet;

use linerate_model::derivation::{Line, SlotLine, SlotLink, Statement};
use linerate_model::{
    BitRate, BoundClass, BusAccess, Bytes, Ceiling, Direction, ModelName, Params, metric,
};
use serde_json::Value;

use super::link::{Link, PAGE, generation};
use super::{READ_REQUEST, USUAL_MAX_PAYLOADS};
use crate::limits::tree::{self, Bound, Shared};

/// One function of the tree and the link at it.
#[derive(Clone, Debug, PartialEq)]
pub struct Slot {
    /// `dddd:bb:dd.f`.
    pub address: String,
    /// Port type: `root port`, `endpoint`; empty if configuration space is not readable.
    pub port: String,
    /// Number of functions above it.
    pub depth: usize,
    /// Generation and lanes that its bound is made of; `None` if it has no PCI Express link.
    pub link: Option<(u32, u32)>,
    /// Generation now, where it is slower than that of `link`.
    pub now: Option<u32>,
    /// The most lanes it could have, where these are more than those of `link`.
    pub most_lanes: Option<u64>,
    /// Configured maximum payload, where readable.
    pub max_payload: Option<Bytes>,
    /// Configured maximum read request, where readable.
    pub max_read_request: Option<Bytes>,
    /// Devices at it or below.
    pub devices: BTreeSet<String>,
    /// True if one of the devices is here.
    pub ends: bool,
}

/// The functions above some devices, each before those below it.
#[derive(Clone, Debug, PartialEq)]
pub struct Slots {
    /// The functions.
    pub slots: Vec<Slot>,
    /// The devices asked for.
    pub devices: BTreeSet<String>,
}

/// Returns the devices that the fact `pcie` knows.
#[must_use]
pub fn known(facts: &Value) -> Vec<&str> {
    facts.as_object().map(|chains| chains.keys().map(String::as_str).collect()).unwrap_or_default()
}

impl Slots {
    /// Returns the tree above `devices`, from the fact `pcie`.
    ///
    /// # Errors
    /// Why there is no bus to bound one of them: it has no PCI device, or one that exists only
    /// inside a hypervisor.
    pub fn of(facts: &Value, devices: &[String]) -> Result<Self, String> {
        let mut slots: Vec<Slot> = Vec::new();
        for device in devices {
            let Some(chain) = facts.get(device).and_then(Value::as_array) else {
                let known = known(facts).join(", ");
                let known = if known.is_empty() { "none" } else { &known };
                // No bound is a different answer from a bound of zero, and the list of known
                // devices shows a mistyped name.
                return Err(format!(
                    "`{device}` has no PCI device: no bus bounds it (known: {known})"
                ));
            };
            let mut place = 0;
            for (depth, function) in chain.iter().enumerate() {
                let slot =
                    Slot { ends: depth + 1 == chain.len(), ..slot(function, depth, device)? };
                // Two devices below one bridge share the functions above it. These are merged, so
                // that the tree has each edge once.
                match slots.iter().position(|known| known.address == slot.address) {
                    Some(found) => {
                        slots[found].devices.insert(device.clone());
                        slots[found].ends |= slot.ends;
                        place = found + 1;
                    }
                    None => {
                        // Inserted behind its parent and not appended, so that a subtree stays
                        // together.
                        slots.insert(place, slot);
                        place += 1;
                    }
                }
            }
        }
        Ok(Self { slots, devices: devices.iter().cloned().collect() })
    }

    /// Returns whether the payload setting of every device is known.
    #[must_use]
    pub fn settings_are_known(&self) -> bool {
        self.slots.iter().filter(|slot| slot.ends).all(|slot| slot.max_payload.is_some())
    }

    /// Returns the link at `slot` as the devices below use it. Packets are cut where they begin, at
    /// the device that writes or requests, and not again on their way. `assumed` replaces settings
    /// that could not be read.
    fn link(&self, slot: &Slot, assumed: (Bytes, Bytes)) -> Option<Link> {
        let (generation, lanes) = slot.link?;
        let ends =
            || self.slots.iter().filter(|end| end.ends && !end.devices.is_disjoint(&slot.devices));
        // Several devices below one edge may be set differently. The largest packets give the upper
        // bound.
        let payload = ends().map(|end| end.max_payload.unwrap_or(assumed.0)).max()?;
        let request = ends().map(|end| end.max_read_request.unwrap_or(assumed.1)).max()?;
        Link::new(generation, lanes, payload, request)
    }

    /// Returns the highest rate through the link at `slot` in `direction`.
    fn capacity(
        &self,
        slot: &Slot,
        direction: Direction,
        assumed: (Bytes, Bytes),
    ) -> Option<BitRate> {
        let link = self.link(slot, assumed)?;
        // Transactions of a page have the least overhead there is.
        Some(if direction == Direction::Tx { link.read(PAGE) } else { link.write(PAGE) })
    }

    /// Returns the most that `devices` move together in `direction`.
    #[must_use]
    pub fn bound(
        &self,
        devices: &BTreeSet<String>,
        direction: Direction,
        assumed: (Bytes, Bytes),
    ) -> Bound {
        // Of equal edges the one next to the device is named, because that device can be moved to
        // another slot.
        let edges = self.slots.iter().rev().filter_map(|slot| {
            let capacity = self.capacity(slot, direction, assumed)?;
            Some(Shared { name: slot.name(), capacity, flows: slot.devices.clone() })
        });
        tree::bound(&edges.collect::<Vec<_>>(), devices)
    }

    /// Returns the tree line by line, the edges that are full first marked.
    #[must_use]
    pub fn lines(&self, assumed: (Bytes, Bytes)) -> Vec<Line> {
        let bounds =
            [Direction::Rx, Direction::Tx].map(|way| self.bound(&self.devices, way, assumed));
        let full = |slot: &Slot| {
            bounds.iter().any(|bound| bound.binding.iter().any(|(name, _)| *name == slot.name()))
        };
        self.slots.iter().map(|slot| self.line(slot, assumed, slot.depth, full(slot))).collect()
    }

    fn line(&self, slot: &Slot, assumed: (Bytes, Bytes), depth: usize, full: bool) -> Line {
        let capacity = |way| self.capacity(slot, way, assumed);
        let ways = slot.link.zip(capacity(Direction::Rx)).zip(capacity(Direction::Tx));
        let link = ways.map(|(((generation, lanes), writes), reads)| SlotLink {
            generation,
            lanes,
            now: slot.now,
            most_lanes: slot.most_lanes,
            max_payload: slot.max_payload,
            max_read_request: slot.max_read_request,
            writes,
            reads,
        });
        Statement::Slot(SlotLine { depth, name: slot.name(), link, full }).into()
    }

    /// Returns the ceilings of each device alone and of all together, writes and reads, with the
    /// binding edge named.
    #[must_use]
    pub fn ceilings(&self, assumed: (Bytes, Bytes)) -> Vec<Ceiling> {
        let alone = self.devices.iter().map(|device| BTreeSet::from([device.clone()]));
        let sets: Vec<BTreeSet<String>> = if self.devices.len() > 1 {
            alone.chain([self.devices.clone()]).collect()
        } else {
            alone.collect()
        };
        let mut ceilings = Vec::new();
        for set in &sets {
            ceilings.extend(self.ceiling(set, Direction::Rx, BusAccess::Writes, assumed));
            ceilings.extend(self.ceiling(set, Direction::Tx, BusAccess::Reads, assumed));
        }
        ceilings
    }

    fn ceiling(
        &self,
        devices: &BTreeSet<String>,
        direction: Direction,
        access: BusAccess,
        assumed: (Bytes, Bytes),
    ) -> Option<Ceiling> {
        let bound = self.bound(devices, direction, assumed);
        // An infinite bound means that no function of the chain has a PCI Express link.
        if !bound.value.0.is_finite() {
            return None;
        }
        let mut derivation: Vec<Line> = self
            .slots
            .iter()
            .filter(|slot| !slot.devices.is_disjoint(devices))
            .map(|slot| self.line(slot, assumed, 0, false))
            .collect();
        derivation.extend(bound.derivation());
        let devices = devices.iter().cloned().collect();
        let full = bound.binding.into_iter().map(|(name, _)| name).collect();
        let name = ModelName::PcieTree { devices, access, full };
        Some(
            Ceiling::new(name, metric::BANDWIDTH, bound.value.0, direction, derivation, SOURCE)
                .of(BoundClass::Bus),
        )
    }

    /// Returns the options of the calculator `pcie` for the edge that bounds writes of the only
    /// device asked for; `None` for several, or without a link.
    #[must_use]
    pub fn options(&self, params: &Params) -> Option<Params> {
        // The calculator describes one link and cannot show what several devices share.
        if self.devices.len() != 1 {
            return None;
        }
        let assumed = (USUAL_MAX_PAYLOADS[0], READ_REQUEST);
        let bound = self.bound(&self.devices, Direction::Rx, assumed);
        let slot = self
            .slots
            .iter()
            .find(|slot| bound.binding.iter().any(|(name, _)| *name == slot.name()))?;
        let end = self.slots.iter().find(|slot| slot.ends)?;
        let (generation, lanes) = slot.link?;
        let mut filled = params.clone();
        filled.set("gen", generation);
        filled.set("lanes", lanes);
        for (key, size) in [("mps", end.max_payload), ("mrrs", end.max_read_request)] {
            // Options of the command line take precedence over what was read.
            if let (Some(size), None) = (size, params.get(key)) {
                filled.set(key, format!("{} B", size.0));
            }
        }
        Some(filled)
    }
}

const SOURCE: &str =
    "sysfs and configuration space (PCI Express Base 7.5.3); maximum flow of a tree";

impl Slot {
    /// Returns its address, port type and the device it carries.
    #[must_use]
    pub fn name(&self) -> String {
        let mut name = self.address.clone();
        if !self.port.is_empty() {
            name = format!("{name} {}", self.port);
        }
        if self.ends {
            let devices: Vec<&str> = self.devices.iter().map(String::as_str).collect();
            name = format!("{name} {}", devices.join(" "));
        }
        name
    }
}

/// Returns the link that `function` of the fact `pcie` bounds: generation of its highest speed, and
/// its lanes now.
#[must_use]
pub fn link_of(function: &Value) -> Option<(u32, u32)> {
    // An idle link may have lowered its speed. The highest speed is the one that keeps the bound an
    // upper one.
    let fastest =
        speed(function, "max_link_speed").into_iter().chain(speed(function, "current_link_speed"));
    let generation = generation(fastest.reduce(f64::max)?)?;
    let lanes = size(function, "current_link_width")?;
    // The register of a link that is down contains widths that no link has.
    super::LANES.contains(&(lanes.0 as u32)).then_some((generation, lanes.0 as u32))
}

fn speed(function: &Value, name: &str) -> Option<f64> {
    function.get(name).and_then(Value::as_f64)
}

/// Returns a number of `function` above zero.
#[must_use]
pub fn size(function: &Value, name: &str) -> Option<Bytes> {
    function.get(name).and_then(Value::as_u64).filter(|size| *size > 0).map(Bytes)
}

fn slot(function: &Value, depth: usize, device: &str) -> Result<Slot, String> {
    let text =
        |name: &str| function.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    let (address, kind) = (text("address"), text("kind"));
    if kind == "virtual" {
        return Err(format!(
            "`{device}` is {address}, a device that exists only inside a hypervisor: there is no \
                bus behind it, and no bound"
        ));
    }
    let link = link_of(function).filter(|_| kind == "pcie");
    // The present speed is only a remark: power saving lowers it while nothing is measured.
    let now = speed(function, "current_link_speed").and_then(generation);
    let most = size(function, "max_link_width");
    let wider = |lanes: u32| most.map(|most| most.0).filter(|most| *most > u64::from(lanes));
    Ok(Slot {
        address,
        port: text("port"),
        depth,
        link,
        now: now.filter(|now| link.is_some_and(|(generation, _)| *now < generation)),
        most_lanes: link.and_then(|(_, lanes)| wider(lanes)),
        max_payload: size(function, "mps_bytes"),
        max_read_request: size(function, "mrrs_bytes"),
        devices: BTreeSet::from([device.to_owned()]),
        ends: false,
    })
}

/// Returns the payload settings to calculate with: `mps` and `mrrs` of `params`, or each of the
/// usual ones where the tree does not show them.
#[must_use]
pub fn assumptions(slots: &Slots, params: &Params) -> Vec<(Bytes, Bytes)> {
    let given = |key: &str| {
        params.get(key).and_then(Value::as_str).and_then(|text| text.parse::<Bytes>().ok())
    };
    let request = given("mrrs").unwrap_or(READ_REQUEST);
    match given("mps") {
        Some(payload) => vec![(payload, request)],
        // The settings of all devices are known, so the assumed payload is never used.
        None if slots.settings_are_known() => vec![(USUAL_MAX_PAYLOADS[0], request)],
        None => USUAL_MAX_PAYLOADS.iter().map(|payload| (*payload, request)).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::options::given;
    use serde_json::json;

    fn function(
        address: &str,
        port: &str,
        speeds: (f64, f64),
        widths: (u32, u32),
        payload: u32,
    ) -> Value {
        json!({
            "address": address, "kind": "pcie", "port": port, "max_link_speed": speeds.0,
            "current_link_speed": speeds.1,
            "max_link_width": widths.0, "current_link_width": widths.1, "mps_bytes": payload,
            "mrrs_bytes": 512,
        })
    }

    /// Returns a card with a port of eight lanes and a disk of four behind a switch with four lanes
    /// upwards.
    fn behind_a_switch() -> Value {
        let root = function("0000:00:1c.0", "root port", (8.0, 8.0), (4, 4), 256);
        let up = function("0000:03:00.0", "upstream switch port", (8.0, 8.0), (4, 4), 256);
        let down = |address, lanes| {
            function(address, "downstream switch port", (8.0, 8.0), (lanes, lanes), 256)
        };
        let card = function("0000:05:00.0", "endpoint", (8.0, 2.5), (8, 8), 256);
        let disk = function("0000:06:00.0", "endpoint", (16.0, 8.0), (4, 2), 128);
        json!({
            "eth0": [root, up, down("0000:04:01.0", 8), card],
            "nvme0n1": [root, up, down("0000:04:02.0", 4), disk],
        })
    }

    fn slots(devices: &[&str]) -> Slots {
        let devices: Vec<String> = devices.iter().map(|device| (*device).to_owned()).collect();
        Slots::of(&behind_a_switch(), &devices).expect("known devices")
    }

    const ASSUMED: (Bytes, Bytes) = (Bytes(128), Bytes(512));

    #[test]
    fn the_switchs_way_up_is_full_first() {
        let slots = slots(&["eth0", "nvme0n1"]);
        let addresses: Vec<&str> = slots.slots.iter().map(|slot| slot.address.as_str()).collect();
        let expected = [
            "0000:00:1c.0",
            "0000:03:00.0",
            "0000:04:02.0",
            "0000:06:00.0",
            "0000:04:01.0",
            "0000:05:00.0",
        ];
        assert_eq!(addresses, expected);
        let ceilings = slots.ceilings(ASSUMED);
        assert_eq!(ceilings.len(), 6);
        // Generation 3 x4 in packets of 256 B: 31.508 Gbit/s x 256 / 276.
        let whole = 31.507_692_3e9 * 256.0 / 276.0;
        let all = &ceilings[4];
        assert!((all.value - whole).abs() < 1e3, "{}", all.value);
        assert_eq!(
            all.name(),
            "pcie of eth0 + nvme0n1, memory writes: 0000:03:00.0 upstream switch port"
        );
        assert!((ceilings[0].value - whole).abs() < 1e3, "the card alone fills it too");
        // The disk negotiated two of its four lanes: generation 4 x2 in packets of 128 B.
        let disk = 31.507_692_3e9 * 128.0 / 148.0;
        assert!(
            (ceilings[2].value - disk).abs() < 1e3,
            "{} {}",
            ceilings[2].name(),
            ceilings[2].value
        );
        assert!(
            ceilings[2].name().ends_with("0000:06:00.0 endpoint nvme0n1"),
            "{}",
            ceilings[2].name()
        );
        let lines: Vec<SlotLine> = lines(&slots);
        assert_eq!((lines[1].depth, &*lines[1].name), (1, "0000:03:00.0 upstream switch port"));
        assert!(lines[1].full && !lines[0].full);
        let links: Vec<_> = lines.iter().map(|line| line.link.as_ref().expect("a link")).collect();
        let of =
            |n: usize| (links[n].generation, links[n].lanes, links[n].now, links[n].most_lanes);
        assert_eq!(of(1), (3, 4, None, None));
        assert_eq!(of(3), (4, 2, Some(3), Some(4)));
        assert_eq!(of(5), (3, 8, Some(1), None));
    }

    fn lines(slots: &Slots) -> Vec<SlotLine> {
        let slot = |line| match line {
            Line::Statement(Statement::Slot(slot)) => slot,
            other => panic!("{other:?}"),
        };
        slots.lines(ASSUMED).into_iter().map(slot).collect()
    }

    #[test]
    fn the_calculator_is_filled_in_for_one_device() {
        let asked = given([("payload", "64 B")]);
        let filled = slots(&["nvme0n1"]).options(&asked).expect("one device");
        for (key, value) in [
            ("gen", json!(4)),
            ("lanes", json!(2)),
            ("mps", json!("128 B")),
            ("payload", json!("64 B")),
        ] {
            assert_eq!(filled.get(key), Some(&value), "{key}");
        }
        assert!(slots(&["eth0", "nvme0n1"]).options(&asked).is_none());
    }

    #[test]
    fn settings_that_may_not_be_read_show_the_usual_ones() {
        let mut facts = behind_a_switch();
        let known = lines(&slots(&["eth0"]))[3].link.as_ref().map(|link| link.max_payload);
        assert_eq!(known, Some(Some(Bytes(256))));
        facts["eth0"][3]["mps_bytes"] =
            json!({ "unavailable": "configuration space beyond 64 bytes needs CAP_SYS_ADMIN" });
        let slots = Slots::of(&facts, &["eth0".to_owned()]).expect("known");
        let assumed = assumptions(&slots, &Params::default());
        assert_eq!(assumed.len(), 3);
        let ceilings: Vec<f64> =
            assumed.iter().map(|assumed| slots.ceilings(*assumed)[0].value).collect();
        assert!(ceilings.is_sorted(), "{ceilings:?}");
        assert_eq!(lines(&slots)[3].link.as_ref().map(|link| link.max_payload), Some(None));
        let params = given([("mps", "256 B")]);
        assert_eq!(assumptions(&slots, &params), [(Bytes(256), Bytes(512))]);
    }

    #[test]
    fn what_has_no_bus_says_so() {
        let facts = json!({ "eth0": [{ "address": "0000:00:03.0", "kind": "virtual" }],
            "eth1": [{ "address": "0000:01:00.0", "kind": "pci" }] });
        let why = |device: &str| Slots::of(&facts, &[device.to_owned()]);
        assert!(why("eth0").expect_err("no bus").contains("only inside a hypervisor"));
        assert!(why("lo").expect_err("no bus").contains("known: eth0, eth1"));
        let conventional = why("eth1").expect("a bus, of unknown rate");
        assert!(conventional.ceilings(ASSUMED).is_empty());
        assert_eq!(lines(&conventional)[0].link, None);
    }
}
