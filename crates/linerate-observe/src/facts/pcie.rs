//! The way from each network device to its root port: every PCI function in between with its link and payload settings.
//! Devices whose chains share a function share its bandwidth.
//!
//! Speeds are GT/s per lane, negotiated now (`current`) and possible (`max`); a link may be slower at idle than under load.
//! Configuration space beyond its first 64 bytes is readable by root only. Not seen: what a hypervisor hides.

use std::path::{Path, PathBuf};

use linerate_sys::ethtool::Ethtool;
use serde_json::{Map, Value, json};

use super::root::{Root, unavailable};
use crate::devices;

/// Vendors of devices that exist only inside a hypervisor: virtio, VMware, Google. There is no bus behind them, whatever
/// they show, so `kind` is `virtual` and no bus limit may be derived.
const PARAVIRTUAL_VENDORS: [&str; 3] = ["0x1af4", "0x15ad", "0x1ae0"];

/// Chains by interface name; interfaces without a PCI device are left out.
pub(super) fn pcie(root: &Root) -> Value {
    let links = match devices::all() {
        Ok(links) => links,
        Err(why) => return unavailable(why),
    };
    let of_link = |link: linerate_sys::netlink::Link| {
        let device = device_of(root, &link)?;
        Some((link.name, Value::Array(chain(&device))))
    };
    Value::Object(links.into_iter().filter_map(of_link).collect::<Map<_, _>>())
}

/// The PCI function behind `link`, as a folder of sysfs: by the address its driver gives (right in any namespace), else by
/// the link in sysfs.
pub(super) fn device_of(root: &Root, link: &linerate_sys::netlink::Link) -> Option<PathBuf> {
    let driver = Ethtool::open().ok().and_then(|ethtool| ethtool.driver(&link.name).ok());
    let by_driver = driver.filter(|driver| is_address(&driver.bus)).map(|driver| pci_folder(root, &driver.bus));
    let by_sysfs = || root.0.join("sys/class/net").join(&link.name).join("device");
    let shown = || devices::sysfs_shows(&root.0, link);
    let folder = by_driver.or_else(|| shown().then(by_sysfs))?.canonicalize().ok()?;
    // A virtio device hangs below the PCI function that carries it.
    folder.ancestors().find(|folder| name(folder).is_some_and(is_address)).map(Path::to_owned)
}

fn pci_folder(root: &Root, address: &str) -> PathBuf {
    root.0.join("sys/bus/pci/devices").join(address)
}

fn name(folder: &Path) -> Option<&str> {
    folder.file_name()?.to_str()
}

/// `dddd:bb:dd.f`, hexadecimal.
fn is_address(text: &str) -> bool {
    let shape = |(at, byte): (usize, u8)| match at {
        4 | 7 => byte == b':',
        10 => byte == b'.',
        _ => byte.is_ascii_hexdigit(),
    };
    text.len() == 12 && text.bytes().enumerate().all(shape)
}

/// The functions from the root port (or the device itself, if it sits on the root bus) down to `device`.
pub(super) fn chain(device: &Path) -> Vec<Value> {
    let mut folders: Vec<_> = device.ancestors().filter(|folder| name(folder).is_some_and(is_address)).collect();
    folders.reverse();
    folders.into_iter().map(function).collect()
}

fn function(folder: &Path) -> Value {
    let root = Root(folder.to_owned());
    let hexadecimal = |file: &str| root.string(file);
    let config = std::fs::read(folder.join("config")).unwrap_or_default();
    let capability = express_capability(&config);
    let has_link = root.text("current_link_speed").is_ok();
    let paravirtual = root.text("vendor").is_ok_and(|vendor| PARAVIRTUAL_VENDORS.contains(&vendor.as_str()));
    let kind = match capability.is_some() || has_link {
        _ if paravirtual => "virtual",
        true => "pcie",
        false => "pci",
    };
    let mut fact = json!({
        "address": name(folder).unwrap_or_default(),
        "vendor": hexadecimal("vendor"),
        "device": hexadecimal("device"),
        "class": hexadecimal("class"),
        "kind": kind,
        "current_link_speed": speed(&root, "current_link_speed"),
        "current_link_width": root.number("current_link_width"),
        "max_link_speed": speed(&root, "max_link_speed"),
        "max_link_width": root.number("max_link_width"),
        "numa_node": numa_node(&root),
    });
    let payload = match capability {
        Some(at) => express(&config, at),
        None if config.len() <= HEADER => {
            let why = unavailable("configuration space beyond 64 bytes needs CAP_SYS_ADMIN");
            json!({ "mps_bytes": why, "mrrs_bytes": why, "aspm": why })
        }
        None => {
            let why = unavailable("no PCI Express capability");
            json!({ "mps_bytes": why, "mrrs_bytes": why, "aspm": why, "conventional": conventional(&config) })
        }
    };
    if let (Value::Object(fact), Value::Object(payload)) = (&mut fact, payload) {
        fact.extend(payload);
    }
    fact
}

/// The number in `8.0 GT/s PCIe`.
fn speed(root: &Root, file: &str) -> Value {
    let text = match root.text(file) {
        Ok(text) => text,
        Err(why) => return why,
    };
    let number = text.split_whitespace().next().and_then(|number| number.parse::<f64>().ok());
    number.map_or_else(|| unavailable(format!("{file} is `{text}`")), |speed| json!(speed))
}

/// -1 is the kernel's word for a host with one node or firmware that does not say.
pub(super) fn numa_node(root: &Root) -> Value {
    match root.number("numa_node") {
        Value::Number(node) if node.as_i64() == Some(-1) => unavailable("the firmware names no node"),
        fact => fact,
    }
}

/// The part of configuration space everybody may read.
const HEADER: usize = 64;
const STATUS: usize = 0x06;

fn half(config: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(config.get(at..at + 2)?.try_into().ok()?))
}

/// Where the capability with `id` stands (PCI 3.0 6.7); a list longer than configuration space can hold is a loop.
fn capability(config: &[u8], id: u8) -> Option<usize> {
    const CAPABILITY_LIST: u16 = 1 << 4;
    const FIRST: usize = 0x34;
    const MOST: usize = 48;
    if half(config, STATUS)? & CAPABILITY_LIST == 0 {
        return None;
    }
    let mut at = usize::from(*config.get(FIRST)? & !3);
    for _ in 0..MOST {
        if at < HEADER {
            return None;
        }
        if *config.get(at)? == id {
            return Some(at);
        }
        at = usize::from(*config.get(at + 1)? & !3);
    }
    None
}

fn express_capability(config: &[u8]) -> Option<usize> {
    const EXPRESS: u8 = 0x10;
    capability(config, EXPRESS)
}

/// Device control at +8: maximum payload in bits 7:5, maximum read request in 14:12, both 128 B shifted; link control at
/// +16: ASPM in bits 1:0 (PCIe Base 7.5.3.4, 7.5.3.7).
fn express(config: &[u8], at: usize) -> Value {
    const SMALLEST: u32 = 128;
    const ASPM: [&str; 4] = ["off", "L0s", "L1", "L0s L1"];
    let missing = || unavailable("configuration space is cut short");
    let control = half(config, at + 8);
    let size = |shift: u16| control.map_or_else(missing, |control| json!(SMALLEST << (control >> shift & 7)));
    let aspm = half(config, at + 16).map_or_else(missing, |link| json!(ASPM[usize::from(link & 3)]));
    json!({ "mps_bytes": size(5), "mrrs_bytes": size(12), "aspm": aspm })
}

/// A conventional function: whether it can run at 66 MHz (status bit 5), and as PCI-X (capability 7, status at +4) whether
/// it is 64 bits wide (bit 16) and can run at 133 MHz (bit 17).
fn conventional(config: &[u8]) -> Value {
    const PCI_X: u8 = 0x07;
    const CAPABLE_66: u16 = 1 << 5;
    let capable_66 = half(config, STATUS).is_some_and(|status| status & CAPABLE_66 != 0);
    let pci_x = capability(config, PCI_X).and_then(|at| half(config, at + 6)).map_or(
        json!(false),
        |status| json!({ "bits": if status & 1 != 0 { 64 } else { 32 }, "capable_133_mhz": status & 2 != 0 }),
    );
    json!({ "capable_66_mhz": capable_66, "pci_x": pci_x })
}

/// Reads `config` as a device's configuration space.
pub(super) fn read_any(config: &[u8]) {
    let _express = express_capability(config).map(|at| express(config, at));
    let _conventional = conventional(config);
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/sysfs-two-ports");

    #[test]
    fn two_ports_of_one_card_share_their_root_port() {
        let port = |function| Path::new(ROOT).join("sys/devices/pci0000:00/0000:00:02.0").join(function);
        let [a, b] = ["0000:02:00.0", "0000:02:00.1"].map(|function| chain(&port(function)));
        assert_eq!((a.len(), b.len()), (2, 2));
        assert_eq!(a[0], b[0]);
        assert_eq!((&a[0]["address"], &a[1]["address"]), (&json!("0000:00:02.0"), &json!("0000:02:00.0")));
        assert_eq!((&a[1]["current_link_speed"], &a[1]["current_link_width"]), (&json!(8.0), &json!(8)));
        assert_eq!((&a[1]["max_link_speed"], &a[1]["kind"]), (&json!(16.0), &json!("pcie")));
        assert!(a[1]["mps_bytes"]["unavailable"].as_str().unwrap().contains("CAP_SYS_ADMIN"));
    }

    #[test]
    fn payload_sizes_are_decoded_from_device_control() {
        let mut config = vec![0; 256];
        config[STATUS] = 1 << 4;
        config[0x34] = 0x40;
        config[0x40..0x42].copy_from_slice(&[0x05, 0x50]);
        config[0x50..0x52].copy_from_slice(&[0x10, 0x00]);
        // 256 B payload, 512 B read request.
        config[0x58..0x5a].copy_from_slice(&(1_u16 << 5 | 2 << 12).to_le_bytes());
        config[0x60] = 0x02;
        let at = express_capability(&config).unwrap();
        assert_eq!(express(&config, at), json!({ "mps_bytes": 256, "mrrs_bytes": 512, "aspm": "L1" }));
        // A list that points at itself ends.
        config[0x41] = 0x40;
        assert_eq!(express_capability(&config), None);
    }

    #[test]
    fn addresses_have_one_shape() {
        assert!(is_address("0000:02:00.0"));
        assert!(!["pci0000:00", "0000-02:00.0", "virtio2", ""].iter().any(|text| is_address(text)));
    }

    proptest::proptest! {
        #[test]
        fn hostile_configuration_space_never_panics(config in proptest::collection::vec(0_u8.., 0..300)) {
            let _ = express_capability(&config).map(|at| express(&config, at));
            let _ = conventional(&config);
        }
    }
}
