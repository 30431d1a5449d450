//! Memory: total, per NUMA node, huge pages, and modules where the firmware tables can be read
//! (SMBIOS type 17, root).

use serde_json::{Map, Value, json};

use super::root::{Root, unavailable};

const BYTES_PER_KIBIBYTE: u64 = 1024;

pub(super) fn memory(root: &Root) -> Value {
    let total = root.text("proc/meminfo").map(|text| field(&text, "MemTotal:"));
    json!({
        "total_bytes": match total {
            Ok(Some(bytes)) => json!(bytes),
            Ok(None) => unavailable("/proc/meminfo has no MemTotal"),
            Err(why) => why,
        },
        "numa": numa(root),
        "hugepages": hugepages(root),
        "dimms": dimms(root),
    })
}

/// Bytes that programs could get now without swapping (`MemAvailable`, proc_meminfo(5)).
#[must_use]
pub fn available_memory() -> Option<u64> {
    field(&std::fs::read_to_string("/proc/meminfo").ok()?, "MemAvailable:")
}

/// The bytes on the line with `label`, which stands anywhere in it (node files put `Node 0` first).
fn field(text: &str, label: &str) -> Option<u64> {
    let kib = text.lines().find_map(|line| line.split_once(label))?.1;
    kib.split_whitespace().next()?.parse::<u64>().ok()?.checked_mul(BYTES_PER_KIBIBYTE)
}

const NODES: &str = "sys/devices/system/node";

fn numa(root: &Root) -> Value {
    let nodes: Map<_, _> =
        root.names(NODES).into_iter().filter_map(|name| node(root, &name)).collect();
    if nodes.is_empty() {
        unavailable("/sys/devices/system/node has no nodes")
    } else {
        Value::Object(nodes)
    }
}

/// Returns the number of a node and its facts.
fn node(root: &Root, name: &str) -> Option<(String, Value)> {
    let number = name.strip_prefix("node")?.parse::<u32>().ok()?;
    let text = root.text(&format!("{NODES}/{name}/meminfo"));
    let bytes = text.map(|text| {
        field(&text, "MemTotal:").map_or_else(|| unavailable("no MemTotal"), |b| json!(b))
    });
    let cpus = root.string(&format!("{NODES}/{name}/cpulist"));
    let distance = root.number(&format!("{NODES}/{name}/distance"));
    let total_bytes = bytes.unwrap_or_else(|why| why);
    let facts = json!({ "total_bytes": total_bytes, "cpus": cpus, "distance": distance });
    Some((number.to_string(), facts))
}

fn hugepages(root: &Root) -> Value {
    const POOLS: &str = "sys/kernel/mm/hugepages";
    let pages = |name: &String| root.number(&format!("{POOLS}/{name}/nr_hugepages"));
    let size = |name: &String| name.trim_start_matches("hugepages-").to_owned();
    let pools: Map<_, _> =
        root.names(POOLS).into_iter().map(|name| (size(&name), pages(&name))).collect();
    json!({ "transparent": root.string("sys/kernel/mm/transparent_hugepage/enabled"),
        "pools": pools })
}

fn dimms(root: &Root) -> Value {
    const ENTRIES: &str = "sys/firmware/dmi/entries";
    let names = root.names(ENTRIES);
    let modules = names.iter().filter(|name| name.starts_with("17-"));
    let mut dimms = Vec::new();
    for name in modules {
        match std::fs::read(root.0.join(ENTRIES).join(name).join("raw")) {
            Ok(raw) => dimms.extend(dimm(&raw)),
            Err(cause) => {
                return unavailable(format!("read /{ENTRIES}/{name}/raw: {cause} (needs root)"));
            }
        }
    }
    if dimms.is_empty() {
        unavailable("the firmware lists no memory modules")
    } else {
        Value::Array(dimms)
    }
}

/// An SMBIOS memory device (DSP0134 7.18): size at 0x0c in MiB (0 is an empty slot, bit 15 means
/// KiB, 0x7fff means see 0x1c), speed at 0x15 and configured speed at 0x20, both MT/s, 0 if
/// unknown.
fn dimm(raw: &[u8]) -> Option<Value> {
    const KIBIBYTES: u16 = 0x8000;
    const EXTENDED: u16 = 0x7fff;
    let half = |at: usize| Some(u16::from_le_bytes(raw.get(at..at + 2)?.try_into().ok()?));
    let size_bytes = match half(0x0c)? {
        // All ones means that the firmware does not know the size.
        0 | 0xffff => return None,
        EXTENDED => u64::from(u32::from_le_bytes(raw.get(0x1c..0x20)?.try_into().ok()?)) << 20,
        size if size & KIBIBYTES != 0 => u64::from(size & !KIBIBYTES) << 10,
        size => u64::from(size) << 20,
    };
    let known = |at| half(at).filter(|&mt| mt != 0);
    let unknown = || unavailable("the firmware does not say");
    let speed = |at| known(at).map_or_else(unknown, |mt| json!(mt));
    Some(json!({ "size_bytes": size_bytes, "max_mt_per_s": speed(0x15),
            "configured_mt_per_s": speed(0x20) }))
}

/// Reads `bytes` as a module's record, and `text` as a table.
pub(super) fn read_any(bytes: &[u8], text: &str) {
    let _read = (dimm(bytes), field(text, "MemTotal:"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_are_bytes() {
        assert_eq!(field("Node 0 MemTotal:       1000 kB\n", "MemTotal:"), Some(1_024_000));
        assert_eq!(field("MemFree: 1 kB\n", "MemTotal:"), None);
    }

    proptest::proptest! {
        #[test]
        fn hostile_tables_never_panic(raw in proptest::collection::vec(0_u8.., 0..80),
            text in "(MemTotal: ?)?[0-9]{0,22} kB") {
            let _ = (dimm(&raw), field(&text, "MemTotal:"));
        }
    }

    #[test]
    fn a_module_is_decoded_and_an_empty_slot_is_not_one() {
        let mut raw = vec![0; 0x22];
        assert_eq!(dimm(&raw), None);
        raw[0x0c..0x0e].copy_from_slice(&0x7fff_u16.to_le_bytes());
        raw[0x1c..0x20].copy_from_slice(&65_536_u32.to_le_bytes());
        raw[0x15..0x17].copy_from_slice(&3200_u16.to_le_bytes());
        let dimm = dimm(&raw).unwrap();
        assert_eq!(
            (&dimm["size_bytes"], &dimm["max_mt_per_s"]),
            (&json!(1_u64 << 36), &json!(3200))
        );
        assert!(dimm["configured_mt_per_s"]["unavailable"].is_string());
    }
}
