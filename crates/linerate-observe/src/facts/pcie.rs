//! The way from each network device and disk to its root port: every PCI function in between with
//! its link and payload settings. Devices whose chains share a function share its bandwidth.
//!
//! Speeds are GT/s per lane, negotiated now (`current`) and possible (`max`); a link may be slower
//! at idle than under load. Configuration space beyond its first 64 bytes is readable by root only.
//! Not seen: what a hypervisor hides, and the several ways to a disk of many controllers, which
//! sysfs keeps apart from any of them.

use std::path::{Path, PathBuf};

use linerate_sys::ethtool::Ethtool;
use serde_json::{Map, Value, json};

use super::config_space::{HEADER, conventional, express, express_capability};
use super::root::{Root, unavailable};
use crate::devices;

/// Vendors of devices that exist only inside a hypervisor: virtio, VMware, Google. There is no bus
/// behind them, whatever they show, so `kind` is `virtual` and no bus limit may be derived.
const PARAVIRTUAL_VENDORS: [&str; 3] = ["0x1af4", "0x15ad", "0x1ae0"];

/// Returns the chains by name of interface or disk, without those that have no PCI device. If a
/// disk and an interface share a name, the chain is that of the interface.
pub(super) fn pcie(root: &Root) -> Value {
    // Disks first: an interface of the same name replaces the chain.
    let mut chains = disks(root);
    match devices::all() {
        Ok(links) => chains.extend(links.into_iter().filter_map(|link| {
            let device = device_of(root, &link)?;
            Some((link.name, Value::Array(chain(&device))))
        })),
        Err(why) if chains.is_empty() => return unavailable(why),
        Err(_) => {}
    }
    Value::Object(chains)
}

const BLOCK: &str = "sys/block";

fn disks(root: &Root) -> Map<String, Value> {
    let of_disk = |name: String| Some((name.clone(), disk(root, &name)?));
    root.names(BLOCK).into_iter().filter_map(of_disk).collect()
}

/// Returns the chain of a disk that is on PCIe.
fn disk(root: &Root, disk: &str) -> Option<Value> {
    let folder = root.0.join(BLOCK).join(disk).canonicalize().ok()?;
    // The closest ancestor with a PCI address is the device itself; those above it are bridges.
    let device = folder.ancestors().find(|folder| name(folder).is_some_and(is_address))?;
    Some(Value::Array(chain(device)))
}

/// The PCI function behind `link`, as a folder of sysfs: by the address its driver gives (right in
/// any namespace), else by the link in sysfs.
pub(super) fn device_of(root: &Root, link: &linerate_sys::netlink::Link) -> Option<PathBuf> {
    let driver = Ethtool::open().ok().and_then(|ethtool| ethtool.driver(&link.name).ok());
    let by_driver =
        driver.filter(|driver| is_address(&driver.bus)).map(|driver| pci_folder(root, &driver.bus));
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
    text.len() == 12
        && text.bytes().enumerate().all(|(at, byte)| match at {
            4 | 7 => byte == b':',
            10 => byte == b'.',
            _ => byte.is_ascii_hexdigit(),
        })
}

/// The functions from the root port (or the device itself, if it sits on the root bus) down to
/// `device`.
pub(super) fn chain(device: &Path) -> Vec<Value> {
    let mut folders: Vec<_> =
        device.ancestors().filter(|folder| name(folder).is_some_and(is_address)).collect();
    // Ancestors go up from the device, while a reader follows the path down.
    folders.reverse();
    folders.into_iter().map(function).collect()
}

fn function(folder: &Path) -> Value {
    let root = Root(folder.to_owned());
    let hexadecimal = |file: &str| root.string(file);
    let config = std::fs::read(folder.join("config")).unwrap_or_default();
    let capability = express_capability(&config);
    // sysfs shows a link speed only for PCI Express, also where configuration space is cut off.
    let has_link = root.text("current_link_speed").is_ok();
    let paravirtual =
        root.text("vendor").is_ok_and(|vendor| PARAVIRTUAL_VENDORS.contains(&vendor.as_str()));
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
        "current_link_width": number(&root, "current_link_width"),
        "max_link_speed": speed(&root, "max_link_speed"),
        "max_link_width": number(&root, "max_link_width"),
        "numa_node": numa_node(&root),
    });
    let settings = match capability {
        Some(at) => express(&config, at),
        None if config.len() <= HEADER => {
            without("configuration space beyond 64 bytes needs CAP_SYS_ADMIN")
        }
        None => {
            let mut without = without("no PCI Express capability");
            without["conventional"] = conventional(&config);
            without
        }
    };
    if let (Value::Object(fact), Value::Object(mut settings)) = (&mut fact, settings) {
        for (register, which) in [("link_capability", "max"), ("link_status", "current")] {
            let told = settings.remove(register).unwrap_or_default();
            for field in ["speed", "width"] {
                let name = format!("{which}_link_{field}");
                // sysfs says the same in words, where it says it; kernels before 4.13 do not.
                if let (true, Some(value)) = (!fact[&name].is_number(), told.get(field)) {
                    fact.insert(name, value.clone());
                }
            }
        }
        fact.extend(settings);
    }
    fact
}

/// The settings that bounds are made of, each unavailable.
fn without(why: &str) -> Value {
    let settings = ["port", "mps_bytes", "mrrs_bytes", "aspm", "tags", "ecrc"];
    Value::Object(
        settings.map(|setting| (setting.to_owned(), unavailable(why))).into_iter().collect(),
    )
}

/// The number in `file`; of a link that is down, or of a device that is gone, there is none.
fn number(root: &Root, file: &str) -> Value {
    match root.number(file) {
        number if number.is_number() || number.is_object() => number,
        text => unavailable(format!("{file} is {text}")),
    }
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
        Value::Number(node) if node.as_i64() == Some(-1) => {
            unavailable("the firmware names no node")
        }
        fact => fact,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use super::super::config_space::tests::Layout;

    const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/sysfs-two-ports");

    #[test]
    fn two_ports_of_one_card_share_their_root_port() {
        let port =
            |function| Path::new(ROOT).join("sys/devices/pci0000:00/0000:00:02.0").join(function);
        let [a, b] = ["0000:02:00.0", "0000:02:00.1"].map(|function| chain(&port(function)));
        assert_eq!((a.len(), b.len()), (2, 2));
        assert_eq!(a[0], b[0]);
        assert_eq!(
            (&a[0]["address"], &a[1]["address"]),
            (&json!("0000:00:02.0"), &json!("0000:02:00.0"))
        );
        assert_eq!(
            (&a[1]["current_link_speed"], &a[1]["current_link_width"]),
            (&json!(8.0), &json!(8))
        );
        assert_eq!((&a[1]["max_link_speed"], &a[1]["kind"]), (&json!(16.0), &json!("pcie")));
        assert!(a[1]["mps_bytes"]["unavailable"].as_str().unwrap().contains("CAP_SYS_ADMIN"));
    }

    /// A switch with a network card and a disk below one root port, laid out in files as sysfs
    /// does.
    #[test]
    fn a_card_and_a_disk_behind_one_switch_share_the_way_up() {
        let scratch = tempfile::tempdir().unwrap();
        let below = |path: &str| scratch.path().join("sys/devices/pci0000:00").join(path);
        let layout = |port, payload, able, now| {
            Layout { port, supported: 2, payload, request: 2, able, now }.bytes()
        };
        let functions = [
            ("0000:00:1c.0", layout(4, 1, (3, 4), (3, 4))),
            ("0000:00:1c.0/0000:03:00.0", layout(5, 1, (3, 4), (3, 4))),
            ("0000:00:1c.0/0000:03:00.0/0000:04:01.0", layout(6, 1, (3, 8), (3, 8))),
            ("0000:00:1c.0/0000:03:00.0/0000:04:01.0/0000:05:00.0", layout(0, 1, (3, 8), (3, 8))),
            ("0000:00:1c.0/0000:03:00.0/0000:04:02.0", layout(6, 1, (4, 4), (3, 4))),
            ("0000:00:1c.0/0000:03:00.0/0000:04:02.0/0000:06:00.0", layout(0, 1, (4, 4), (3, 4))),
        ];
        for (path, config) in &functions {
            std::fs::create_dir_all(below(path)).unwrap();
            std::fs::write(below(path).join("config"), config).unwrap();
            std::fs::write(below(path).join("vendor"), "0x8086\n").unwrap();
        }
        let disk = below(functions[5].0).join("nvme/nvme0/nvme0n1");
        std::fs::create_dir_all(&disk).unwrap();
        std::fs::create_dir_all(scratch.path().join("sys/block")).unwrap();
        std::os::unix::fs::symlink(&disk, scratch.path().join("sys/block/nvme0n1")).unwrap();
        let disks = disks(&Root(scratch.path().to_owned()));
        let disk = disks["nvme0n1"].as_array().unwrap();
        let card = chain(&below(functions[3].0));
        assert_eq!((disk.len(), card.len()), (4, 4));
        assert_eq!(disk[..2], card[..2]);
        assert_eq!(
            (&disk[1]["port"], &disk[3]["mps_bytes"]),
            (&json!("upstream switch port"), &json!(256))
        );
        // Without the files of a link, configuration space describes it.
        assert_eq!(
            (&disk[3]["current_link_speed"], &disk[3]["max_link_speed"]),
            (&json!(8.0), &json!(16.0))
        );
        assert_eq!((&disk[3]["current_link_width"], &disk[3]["kind"]), (&json!(4), &json!("pcie")));
    }

    #[test]
    fn addresses_have_one_shape() {
        assert!(is_address("0000:02:00.0"));
        assert!(!["pci0000:00", "0000-02:00.0", "virtio2", ""].iter().any(|text| is_address(text)));
    }
}
