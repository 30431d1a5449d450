//! Block devices in brief: size, model, kind, scheduler, queue depth.

use serde_json::{Map, Value, json};

use super::root::Root;

/// Sizes in sysfs are in units of 512 bytes whatever the device's sector is.
const SYSFS_SECTOR: u64 = 512;
const BLOCK: &str = "sys/block";

pub(super) fn block(root: &Root) -> Value {
    Value::Object(
        root.names(BLOCK).into_iter().filter_map(|name| device(root, name)).collect::<Map<_, _>>(),
    )
}

/// Returns the facts of a device; `None` for a loop or network block device that is not bound.
fn device(root: &Root, name: String) -> Option<(String, Value)> {
    let size = root
        .text(&format!("{BLOCK}/{name}/size"))
        .ok()?
        .parse::<u64>()
        .ok()?
        .checked_mul(SYSFS_SECTOR)?;
    // Unbound loop and network block devices are not there.
    if size == 0 {
        return None;
    }
    let queue = |file: &str| root.number(&format!("{BLOCK}/{name}/queue/{file}"));
    let fact = json!({
        "size_bytes": size,
        "model": root.string(&format!("{BLOCK}/{name}/device/model")),
        "rotational": root
            .text(&format!("{BLOCK}/{name}/queue/rotational"))
            .map_or_else(|why| why, |r| json!(r == "1")),
        "scheduler": queue("scheduler"),
        "nr_requests": queue("nr_requests"),
        "write_cache": queue("write_cache"),
        "logical_block_bytes": queue("logical_block_size"),
    });
    Some((name, fact))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_bytes_and_empty_devices_are_left_out() {
        let block =
            block(&Root(concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/sysfs-two-ports").into()));
        assert_eq!(block["nvme0n1"]["size_bytes"], 1_024_000);
        assert_eq!(block["nvme0n1"]["rotational"], false);
        assert!(block.get("loop0").is_none());
    }
}
